/* --tensor-type and --tensor-type-file: items for gq_options.tensor_types. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "cli/text.h"

enum { MAX_RECIPE = 1 << 20 }; /* thousands of items; the largest known recipes hold a few hundred */

bool recipe_add(request *r, gq_list *list, const char *name, const char *text, size_t n, gq_error *e) {
    gq_recipe recipe;
    if (!gq_recipe_read(&recipe, name, text, n, e)) return false;
    for (size_t i = 0; i < recipe.n; i++) list_add(list, own_text(r, format("%s", recipe.items[i])));
    gq_recipe_free(&recipe);
    return true;
}

static bool read_text(FILE *f, const char *path, char *text, size_t *n, gq_error *e) {
    *n = fread(text, 1, MAX_RECIPE, f);
    if (ferror(f)) return gq_fail(e, "%s: cannot read: %s", path, strerror(errno));
    if (*n == MAX_RECIPE && fgetc(f) != EOF)
        return gq_fail(e, "%s: longer than 1 MiB; expected a text of PATTERN=TYPE items", path);
    return true;
}

bool recipe_add_file(request *r, gq_list *list, const char *path, gq_error *e) {
    FILE *f = fopen(path, "r");
    if (!f) return gq_fail(e, "%s: cannot open: %s", path, strerror(errno));
    char *text = need(MAX_RECIPE, 1);
    size_t n;
    bool ok = read_text(f, path, text, &n, e) && recipe_add(r, list, path, text, n, e);
    fclose(f);
    free(text);
    return ok;
}
