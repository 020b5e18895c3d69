/* Finds the layers that stay (gq_options.prune_layers, no_mtp, mtp_only), and the names that their tensors get. */
#include "quantize/plan/prune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/facts.h"

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t sort_unique(uint64_t *numbers, size_t n) {
    size_t kept = 0;
    qsort(numbers, n, sizeof *numbers, by_number);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || numbers[kept - 1] != numbers[i]) numbers[kept++] = numbers[i];
    return kept;
}

static bool sorted_holds(const uint64_t *sorted, size_t n, uint64_t number) {
    return n > 0 && bsearch(&number, sorted, n, sizeof number, by_number) != NULL;
}

/* Reads "3,7,11" into `numbers`, which has room for half as many as the text has bytes. */
static bool read_list(const char *list, uint64_t *numbers, size_t *n, gq_error *e) {
    const char *at = list;
    for (*n = 0;; at++) {
        size_t digits = strspn(at, "0123456789");
        if (digits == 0 || digits > 9 || (at[digits] != ',' && at[digits] != 0))
            return gq_fail_usage(e, "layers to prune are numbers with commas, as in 3,7,11; not '%s'", list);
        numbers[(*n)++] = strtoull(at, NULL, 10);
        at += digits;
        if (*at == 0) return true;
    }
}

static size_t layers_in(const model_source *model, uint64_t *layers) {
    size_t n = 0;
    model_block b;
    for (uint64_t i = 0; i < model->n_tensors; i++)
        if (model_block_in(model->tensors[i]->name, &b)) layers[n++] = b.number;
    return sort_unique(layers, n);
}

bool plan_layers_read(plan_layers *layers, const char *list, const model_source *model, gq_error *e) {
    size_t room = strlen(list) / 2 + 1, n_pruned = 0;
    uint64_t *pruned = calloc(room, sizeof *pruned);
    uint64_t *all = calloc(model->n_tensors + 1, sizeof *all);
    bool ok = pruned && all ? read_list(list, pruned, &n_pruned, e)
                            : gq_fail_memory(e, (room + model->n_tensors + 1) * sizeof *all);
    if (ok) {
        n_pruned = sort_unique(pruned, n_pruned);
        size_t n = layers_in(model, all), kept = 0;
        for (size_t i = n_pruned; i-- > 0;)
            if (!sorted_holds(all, n, pruned[i])) layers->absent = pruned[i], layers->n_absent++;
        for (size_t i = 0; i < n; i++)
            if (!sorted_holds(pruned, n_pruned, all[i])) all[kept++] = all[i];
        if (kept == 0 && n > 0) ok = gq_fail_usage(e, "pruning %s would leave no layer of the model", list);
        if (ok && kept < n) {
            layers->kept = all, layers->n = kept;
            all = NULL;
        }
    }
    free(pruned);
    free(all);
    return ok;
}

/* The prediction blocks that the metadata speak of: from *first on, so many. */
static size_t layers_predicting(const model_source *model, uint64_t *first) {
    enum { MOST = 64 };
    model_facts facts = model_facts_of(model->kv, model->n_kv, NULL, 0);
    int64_t blocks = 0, n = 0;
    if (!model_fact_int(&facts, "block_count", &blocks) ||
        !model_fact_int(&facts, "nextn_predict_layers", &n) || n < 1 || n >= blocks || n > MOST)
        return 0;
    *first = (uint64_t)(blocks - n);
    return (size_t)n;
}

bool plan_layers_without_drafts(plan_layers *layers, const char *list, const model_source *model,
                                gq_error *e) {
    enum { EACH = 24 }; /* of a number and a comma */
    uint64_t first = 0;
    size_t n = layers_predicting(model, &first), length = list ? strlen(list) : 0;
    layers->no_drafts = true;
    if (n == 0) return !list || plan_layers_read(layers, list, model, e);
    char *all = calloc(length + n + 1, EACH);
    if (!all) return gq_fail_memory(e, (length + n + 1) * EACH);
    char *at = all + sprintf(all, "%s", list ? list : "");
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, "%s%llu", at > all ? "," : "", (unsigned long long)(first + i));
    bool ok = plan_layers_read(layers, all, model, e);
    free(all);
    return ok;
}

bool plan_layers_drafts_only(plan_layers *layers, const model_source *model, gq_error *e) {
    layers->is_draft = true;
    return layers_predicting(model, &layers->first_draft) > 0 ||
           gq_fail_usage(
               e,
               "%s: has no prediction block (MTP) that could be written alone: its metadata have no "
               "nextn_predict_layers",
               model->path);
}

/* Whether a tensor is in a draft's file: a prediction block's, or what such blocks share with the model. */
static bool draft_has(const plan_layers *layers, const char *name) {
    static const char *const shared[] = {"token_embd.weight", "output_norm.weight", "output.weight"};
    model_block b;
    if (model_block_leads(name, &b)) return b.number >= layers->first_draft;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (strcmp(name, shared[i]) == 0) return true;
    return strncmp(name, "rope_", 5) == 0;
}

bool plan_layers_rename(const plan_layers *layers, const char *name, char to[GGUF_MAX_NAME + 1]) {
    model_block b;
    if (layers->is_draft && !draft_has(layers, name)) return false;
    if (layers->n == 0 || !model_block_in(name, &b)) {
        snprintf(to, GGUF_MAX_NAME + 1, "%s", name);
        return true;
    }
    const uint64_t *found = bsearch(&b.number, layers->kept, layers->n, sizeof b.number, by_number);
    if (!found) return false;
    snprintf(to, GGUF_MAX_NAME + 1, "%.*s%zu.%s", (int)(b.digits - name), name,
             (size_t)(found - layers->kept), b.rest);
    return true;
}
