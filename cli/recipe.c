#include "cli/recipe.h"

#include <stdlib.h>

#include "cli/text.h"

enum { MAX_RECIPE = 1 << 20 }; /* thousands of items; the largest known recipes hold a few hundred */

bool recipe_add(request *r, gq_list *list, const char *name, const char *text, size_t n, gq_error *e) {
    gq_recipe recipe;
    if (!gq_recipe_read(&recipe, name, text, n, e)) return false;
    for (size_t i = 0; i < recipe.n; i++) list_add(list, own_text(r, text_format("%s", recipe.items[i])));
    gq_recipe_free(&recipe);
    return true;
}

bool recipe_add_file(request *r, gq_list *list, const char *path, gq_error *e) {
    size_t n;
    char *text = gq_read_whole(path, MAX_RECIPE, &n, e);
    bool ok = text && recipe_add(r, list, path, text, n, e);
    free(text);
    return ok;
}
