#include "study/study.h"

#include <math.h>
#include <string.h>

#include "forward/graph/draft/draft.h"

/* Returns the index of a coarse type that has been measured; BUDGET_TYPES: none has. */
static size_t type_to_try(const measured *m) {
    static const uint32_t types[] = {GGUF_Q3_K, GGUF_Q4_0, GGUF_Q8_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t k = 0; k < BUDGET_TYPES; k++)
            if (budget_types[k] == types[i] && m->error[k] > 0 && isfinite(m->error[k])) return k;
    return BUDGET_TYPES;
}

/* Whether tensor i is the output matrix, which needs no trial. */
static bool trials_is_output(const trials *t, size_t i) {
    const forward_sizes *s = forward_model_sizes(t->of->model);
    return t->plan->sources[i].tensor == s->out && !s->embeds;
}

bool trials_in_layer(const trials *t, size_t i, int64_t layer) {
    const model_tensor *tensor = t->plan->sources[i].tensor;
    if (layer < 0 ? tensor != forward_model_sizes(t->of->model)->embedding
                  : trials_is_output(t, i) || (int64_t)forward_layer_of(t->of->model, tensor->name) != layer)
        return false;
    return t->wanted[i] && (layer < 0 || forward_feeds(t->of->model, tensor));
}

/* The same of a prediction block. */
static bool trials_in_block(const trials *t, size_t i, const forward_model *block) {
    const model_tensor *tensor = t->plan->sources[i].tensor;
    model_block b;
    return t->wanted[i] && model_block_leads(tensor->name, &b) && b.number == forward_draft_layer(block) &&
           forward_feeds(t->of->model, tensor);
}

size_t trials_layers(const gq_plan *plan) {
    return plan->rounding->calibration->facts.layers / plan->rounding->calibration->job.loops;
}

/* Tensors of a layer that go together. On model A errors of attn_q and attn_k cost the same within a factor
 * of 2, and those of ffn_gate and ffn_up within 1.6, while one layer's cost up to a hundred times another's.
 */
static const char *const trial_groups[][TRIAL_TENSORS] = {{"attn_q.", "attn_k.", "attn_v."},
                                                          {"ffn_gate.", "ffn_up."},
                                                          {"ffn_gate_exps.", "ffn_up_exps."},
                                                          {"ffn_gate_shexp.", "ffn_up_shexp."}};

/* Returns the row of trial_groups that a tensor is in; SIZE_MAX: none. */
static size_t trial_group_of(const model_tensor *t) {
    model_block block;
    if (!model_block_in(t->name, &block)) return SIZE_MAX;
    for (size_t i = 0; i < sizeof trial_groups / sizeof *trial_groups; i++)
        for (size_t k = 0; k < TRIAL_TENSORS && trial_groups[i][k]; k++)
            if (!strncmp(block.rest, trial_groups[i][k], strlen(trial_groups[i][k]))) return i;
    return SIZE_MAX;
}

/* Returns the trial, from number `first` on, that a tensor joins, or a new one. */
static trial *trial_for(trials *t, size_t first, const model_tensor *tensor) {
    size_t group = t->is_grouped ? trial_group_of(tensor) : SIZE_MAX;
    for (size_t i = first; i < t->n && group != SIZE_MAX; i++)
        if (t->tried[i].n < TRIAL_TENSORS &&
            trial_group_of(t->plan->sources[t->tried[i].tensor[0]].tensor) == group)
            return &t->tried[i];
    t->tried[t->n] = (trial){.n = 0};
    return &t->tried[t->n++];
}

/* block: NULL: a layer's. */
static void trials_add_layer(trials *t, int64_t layer, const forward_model *block) {
    size_t first = t->n;
    for (size_t i = 0; i < t->plan->n_tensors; i++) {
        size_t type = t->found ? type_to_try(&t->found[i]) : 0;
        if (type == BUDGET_TYPES || !(block ? trials_in_block(t, i, block) : trials_in_layer(t, i, layer)))
            continue;
        trial *own = trial_for(t, first, t->plan->sources[i].tensor);
        own->block = block;
        own->tensor[own->n] = i, own->type[own->n++] = type;
    }
}

void trials_choose(trials *t, size_t layers) {
    size_t all = trials_layers(t->plan), last = SIZE_MAX;
    const plan_layers *left = &t->plan->layers;
    t->n = 0;
    trials_add_layer(t, -1, NULL);
    for (size_t i = 0; i < layers; i++) {
        size_t at = layers > 1 ? i * (all - 1) / (layers - 1) : (all - 1) / 2;
        if (at != last) trials_add_layer(t, (int64_t)(left->n ? left->kept[at] : at), NULL);
        last = at;
    }
    for (size_t k = 0; k < forward_model_drafts(t->of->model); k++)
        trials_add_layer(t, 0, forward_model_draft(t->of->model, k));
}

size_t trials_of_block(const trials *t, const forward_model *block, size_t *first) {
    size_t n = 0;
    for (*first = 0; *first < t->n && t->tried[*first].block != block;) ++*first;
    while (*first + n < t->n && t->tried[*first + n].block == block) n++;
    return n;
}

void trials_decide_groups(trials *t) {
    t->is_grouped = false;
    trials_choose(t, trials_layers(t->plan));
    t->is_grouped = t->n > MOST_TRIALS;
}
