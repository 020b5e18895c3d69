/* Finds the layers that stay (gq_options.prune_layers, no_mtp, mtp_only), the names that their tensors get,
 * and those that are written transposed (transpose). */
#include "quantize/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "quantize/strips/strips.h"

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
            return gq_fail_usage(e, "layers to prune: '%s', expected numbers with commas, such as 3,7,11",
                                 list);
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

/* The MTP layers that the metadata speak of: from `first` on, n of them. */
typedef struct mtp_layers {
    uint64_t first;
    size_t n;
} mtp_layers;

static bool is_mtp_layer(const mtp_layers *d, uint64_t number) {
    return number >= d->first && number - d->first < d->n;
}

static mtp_layers layers_predicting(const model_source *model) {
    enum { MOST = 64 };
    model_facts facts = model_facts_of(model->kv, model->n_kv, NULL, 0);
    int64_t blocks = 0, n = 0;
    if (!model_fact_int(&facts, "block_count", &blocks) ||
        !model_fact_int(&facts, "nextn_predict_layers", &n) || n < 1 || n >= blocks || n > MOST)
        return (mtp_layers){0};
    return (mtp_layers){(uint64_t)(blocks - n), (size_t)n};
}

/* Keeps what is neither in the list (NULL: none) nor one of the blocks. Where metadata speak of blocks, they
 * change even if no tensor goes. */
static bool layers_keep(plan_layers *layers, const char *list, mtp_layers without, const model_source *model,
                        gq_error *e) {
    size_t capacity = (list ? strlen(list) : 0) / 2 + 1, n_pruned = 0;
    uint64_t *pruned = calloc(capacity, sizeof *pruned);
    uint64_t *all = calloc(model->n_tensors + 1, sizeof *all);
    bool ok = pruned && all ? !list || read_list(list, pruned, &n_pruned, e)
                            : gq_fail_memory(e, (capacity + model->n_tensors + 1) * sizeof *all);
    if (ok) {
        n_pruned = sort_unique(pruned, n_pruned);
        size_t n = layers_in(model, all), kept = 0;
        for (size_t i = n_pruned; i-- > 0;)
            if (!sorted_holds(all, n, pruned[i]) && !is_mtp_layer(&without, pruned[i]))
                layers->absent = pruned[i], layers->n_absent++;
        for (size_t i = 0; i < n; i++)
            if (!sorted_holds(pruned, n_pruned, all[i]) && !is_mtp_layer(&without, all[i]))
                all[kept++] = all[i];
        if (kept == 0 && n > 0)
            ok = list ? gq_fail_usage(e, "pruning %s would leave no layer of the model", list)
                      : gq_fail_usage(e, "%s: all its layers are MTP layers, and none would be left",
                                      model->path);
        if (ok && (kept < n || without.n)) {
            layers->kept = all, layers->n = kept;
            all = NULL;
        }
    }
    free(pruned);
    free(all);
    return ok;
}

bool plan_layers_read(plan_layers *layers, const char *list, const model_source *model, gq_error *e) {
    model_facts facts = model_facts_of(model->kv, model->n_kv, NULL, 0);
    const architecture *a = arch_of_facts(&facts);
    if (a && a->graph.tail == TAIL_STACKS)
        return gq_fail_usage(e,
                             "%s: layers of architecture '%s' cannot be pruned: they form two stacks that "
                             "must have the same size",
                             model->path, a->name);
    if (a && a->is_projector)
        return gq_fail_usage(e, "%s: layers of a projector (mmproj) cannot be pruned", model->path);
    return layers_keep(layers, list, (mtp_layers){0}, model, e);
}

bool plan_layers_without_mtp(plan_layers *layers, const char *list, const model_source *model, gq_error *e) {
    layers->no_mtp = true;
    return layers_keep(layers, list, layers_predicting(model), model, e);
}

bool plan_layers_mtp_only(plan_layers *layers, const model_source *model, gq_error *e) {
    mtp_layers blocks = layers_predicting(model);
    layers->mtp_only = true, layers->first_mtp = blocks.first;
    return blocks.n > 0 ||
           gq_fail_usage(e, "%s: has no MTP layer to write alone: its metadata have no nextn_predict_layers",
                         model->path);
}

/* Whether a tensor is in a file of MTP layers alone: an MTP layer's, or what such blocks share with the model. */
static bool mtp_file_has(const plan_layers *layers, const char *name) {
    static const char *const shared[] = {"token_embd.weight",     "output_norm.weight",
                                         "output.weight",         "output_hc_fn.weight",
                                         "output_hc_base.weight", "output_hc_scale.weight"};
    model_block b;
    if (model_block_leads(name, &b)) return b.number >= layers->first_mtp;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (strcmp(name, shared[i]) == 0) return true;
    return strncmp(name, "rope_", 5) == 0;
}

bool plan_layers_rename(const plan_layers *layers, const char *name, char to[GGUF_MAX_NAME + 1]) {
    model_block b;
    if (layers->mtp_only && !mtp_file_has(layers, name)) return false;
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

/* ---- transposing ---- */

static void transpose_source(plan_source *s) {
    s->view = *s->stored;
    transposed_shape(s->stored->ne, s->view.ne);
    s->tensor = &s->view;
    s->transposed = !s->stored->transposed;
}

/* Transposes the sources that a pattern names, and notes in `found` which one did. Vectors are left out: they
 * have no other order, and a pattern may be meant for whole layers. */
static bool transpose_matches(gq_plan *plan, const mix_pattern *patterns, mix_matcher *m, mix_choice *found,
                              gq_error *e) {
    for (size_t i = 0; i < plan->n_tensors; i++) {
        plan_source *s = &plan->sources[i];
        uint32_t unused;
        found[i].keeper = MIX_NO_PATTERN;
        if (!shape_is_matrix(s->stored->ne)) continue;
        if (!mix_patterns_find(patterns, m, s->name, &found[i].keeper, &unused, e)) return false;
        if (found[i].keeper != MIX_NO_PATTERN) transpose_source(s);
    }
    return true;
}

static bool transpose_warn_idle(gq_plan *plan, const mix_pattern *patterns, const mix_choice *found,
                                gq_error *e) {
    mix_idle_patterns idle;
    return mix_patterns_idle(patterns, found, plan->n_tensors, &idle, e) &&
           mix_patterns_warn(&plan->warnings, idle.unmatched, idle.first_unmatched,
                             "to transpose: no matrix matches, or earlier patterns take all that do", e);
}

bool plan_transpose(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_list *asked = &options->transpose;
    if (asked->n == 0) return true;
    mix_pattern *patterns = mix_patterns_new(asked->items, asked->n, false, e);
    mix_matcher *m = patterns ? mix_matcher_new(e) : NULL;
    mix_choice *found = calloc(plan->n_tensors + 1, sizeof *found);
    bool ok = m && (found || gq_fail_memory(e, plan->n_tensors * sizeof *found)) &&
              transpose_matches(plan, patterns, m, found, e) && transpose_warn_idle(plan, patterns, found, e);
    mix_matcher_free(m);
    mix_patterns_free(patterns);
    free(found);
    return ok;
}
