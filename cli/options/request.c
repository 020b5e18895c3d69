#include <stdlib.h>

#include "cli/cli.h"

void list_add(gq_list *list, const char *text) {
    const char **items = need_next((void *)list->items, list->n, sizeof *items);
    items[list->n++] = text;
    list->items = items;
}

char *own_text(request *r, char *text) {
    r->owned = need_next(r->owned, r->n_owned, sizeof *r->owned);
    return r->owned[r->n_owned++] = text;
}

void request_free(request *r) {
    gq_options *q = &r->quantize;
    gq_list *lists[] = {&q->tensor_types,    &q->keep,          &q->include_weights,
                        &q->exclude_weights, &q->override_kv,   &q->remove_kv,
                        &q->transpose,       &q->allow_missing, &q->reuse,
                        &r->files,           &r->kinds};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free((void *)lists[i]->items);
    for (size_t i = 0; i < r->n_owned; i++) free(r->owned[i]);
    free(r->owned), free(r->given);
    free((void *)q->outputs), free((void *)q->adapters.items);
    free(r->targets), free(r->size_of);
    free(r->arguments);
    *r = (request){0};
}

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
