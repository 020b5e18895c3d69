/* The routed feed-forward sublayer: a few experts per token, and possibly a shared one that sees all tokens. When
 * the router (router.c) has chosen, tokens are sorted by expert, and the experts run one after another
 * (expert_set.c). In some models small experts, one for each group of experts, then work on the sum of what
 * the experts give. The shared expert, or a dense sublayer that stands beside the experts, comes last. Experts
 * and their router may read something else than the sublayer's own input; experts_choose_inputs has the cases. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/experts/experts.h"

/* ---- keys and tensors ---- */

/* Claims the layers that have a router, or experts, which then lack one. */
static void experts_choose_layers(const forward_model *m, key_reader *, bool *is_own) {
    for (size_t i = 0; i < m->sizes.layers; i++)
        is_own[i] =
            tensors_layer_has(m, i, WEIGHT_FFN_ROUTER) || tensors_layer_has(m, i, WEIGHT_FFN_DOWN_EXPS);
}

static void experts_read_groups(experts_numbers *n, key_reader *r) {
    n->groups = key_number(r, "expert_group_count", 0, 0, MODEL_MOST);
    if (n->groups <= 1) return;
    n->groups_used = key_number_needed(r, "expert_group_used_count", 1, n->groups);
    if (n->experts % n->groups != 0 || n->experts / n->groups < 2) {
        key_fail(r, "expert_group_count",
                 "is %zu, expected a divisor of expert_count, %zu, in groups of two "
                 "or more",
                 n->groups, n->experts);
    } else if (n->groups_used * (n->experts / n->groups) < n->used) {
        key_fail(r, "expert_used_count", "is %zu, but the %zu groups used have %zu experts", n->used,
                 n->groups_used, n->groups_used * (n->experts / n->groups));
    }
}

/* Whether a file has a tensor of a layer: those of MTP layers alone lack the others. */
static bool file_has_layer(const model_source *g, size_t layer) {
    char begin[32];
    size_t n = (size_t)snprintf(begin, sizeof begin, "blk.%zu.", layer);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (strncmp(g->tensors[i]->name, begin, n) == 0) return true;
    return false;
}

/* Compares leading_dense_block_count, and the step of those behind them, with the tensors, which say the same by the
 * layers that have a router. */
static void experts_compare_with_tensors(const forward_model *m, key_reader *r, const model_sublayer *p) {
    const char *leads = "leading_dense_block_count", *steps = "interleave_moe_layer_step";
    int64_t dense = 0, step = 1;
    bool has_step = key_there(r, steps) ? model_fact_int(&r->facts, steps, &step) && step >= 0
                                        : arch_makes_key(m->arch, steps);
    bool has_lead = key_there(r, leads) ? model_fact_int(&r->facts, leads, &dense) && dense >= 0
                                        : arch_makes_key(m->arch, leads);
    if (m->mtp_of || !(has_step || has_lead)) return;
    if (has_step && !key_there(r, steps)) step = 0;
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        bool is_routed = m->layers[i].ffn.sublayer == p, leading = (int64_t)i < dense;
        if (!m->layers[i].ffn.sublayer || is_routed == (!leading && step && (i + 1) % (size_t)step == 0) ||
            !file_has_layer(m->file, i))
            continue;
        bool by_step = has_step && !(is_routed && leading);
        key_fail(r, by_step ? steps : leads, "is %s%lld, but there is %s tensor %s",
                 key_there(r, by_step ? steps : leads) ? "" : "missing, which stands for ",
                 (long long)(by_step ? step : dense), is_routed ? "a" : "no",
                 tensors_layer_name(m, i, WEIGHT_FFN_ROUTER, ".weight").text);
    }
}

static void experts_read_function(experts_numbers *n, const routing *by, key_reader *r) {
    const char *key = "expert_gating_func";
    uint64_t function = 0;
    if (by->function_key == REQUIRED) key_number_needed(r, key, 1, ROUTER_FUNCTIONS - 1);
    if (by->function_key != ABSENT) function = key_number(r, key, 0, 0, ROUTER_FUNCTIONS - 1);
    n->function = function ? (router_function)function : by->function;
    n->is_late = by->is_late || n->function == ROUTER_SOFTMAX_CHOSEN;
}

/* Reads how experts are grouped for the small ones, of which a token takes no more than there are. */
static void experts_read_chunks(experts_numbers *n, key_reader *r) {
    n->chunk_group = key_number_needed(r, "experts_per_group", 1, n->experts);
    n->chunk_scale = (float)key_float_needed(r, "expert_group_scale", -1e6, 1e6);
    if (!r->ok) return;
    if (n->experts % n->chunk_group != 0) {
        key_fail(r, "experts_per_group", "is %zu, expected a divisor of expert_count, %zu", n->chunk_group,
                 n->experts);
        return;
    }
    n->chunks = n->experts / n->chunk_group;
    n->chunks_used = n->used < n->chunks ? n->used : n->chunks;
    /* A group may have one expert more than it should: a share is rounded, and router.c rounds down. */
    n->chunk_repeats = n->chunk_group + 1 < n->chunks_used ? n->chunk_group + 1 : n->chunks_used;
}

/* Layers may use different numbers of experts, which shapes do not depend on: such a model is checked, but
 * not run. */
static void experts_read_used(const forward_model *m, key_reader *r, model_sublayer *p) {
    experts_numbers *n = p->numbers;
    key_list l = key_list_of(r, "expert_used_count");
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        if (m->layers[i].ffn.sublayer != p) continue;
        uint64_t used = key_number_at(r, &l, i, 0, 0, n->experts);
        if (!used)
            key_fail(r, l.name, "is 0 or missing for layer %zu, expected 1 to expert_count: %zu", i,
                     n->experts);
        else if (n->used && n->used != used && !m->expected)
            key_fail(r, l.name, "is %zu for one layer and %llu for layer %zu, which is not supported",
                     n->used, (unsigned long long)used, i);
        n->used = used;
    }
}

static void experts_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    const routing *by = &m->arch->graph.routing;
    experts_numbers *n = p->numbers;
    n->scale = 1;
    n->experts = key_number(r, "expert_count", 0, 0, 1 << 16);
    if (!n->experts) return; /* experts_find_tensors refuses a router then */
    experts_read_used(m, r, p);
    experts_read_function(n, by, r);
    n->is_normalized = by->sum == SUM_IS_ONE;
    if (by->sum == SUM_BY_KEY) n->is_normalized = key_bool(r, "expert_weights_norm", false);
    if (by->has_chunks) experts_read_chunks(n, r);
    if (by->has_tables) n->tables = key_number_needed(r, "hash_layer_count", 0, MODEL_MOST);
    if (by->scale_key) n->scale = (float)key_scale(r, "expert_weights_scale", 1);
    if (by->has_groups) experts_read_groups(n, r);
    if (by->has_groups || arch_makes_key(m->arch, "leading_dense_block_count"))
        experts_compare_with_tensors(m, r, p);
}

static void experts_find_shared(tensor_finder *f, experts_layer *l) {
    const arch_graph *a = &f->m->arch->graph;
    uint64_t d = f->m->sizes.width, n = tensors_rows(f, WEIGHT_FFN_UP_SHEXP);
    bool is_fused = a->fused_shared;
    uint64_t ff = is_fused ? tensors_halved(n) : n;
    tensors_take_weight(f, WEIGHT_FFN_UP_SHEXP, a->has[WEIGHT_FFN_UP_SHEXP], SHAPE(d, is_fused ? 2 * ff : n));
    if (!f->l->weight[WEIGHT_FFN_UP_SHEXP]) return;
    l->shared_ff = ff;
    if (!is_fused && !a->plain_experts) tensors_take_weight(f, WEIGHT_FFN_GATE_SHEXP, REQUIRED, SHAPE(d, n));
    tensors_take_weight(f, WEIGHT_FFN_DOWN_SHEXP, REQUIRED, SHAPE(l->shared_ff, d));
    tensors_take_weight(f, WEIGHT_FFN_SHARED_GATE, a->has[WEIGHT_FFN_SHARED_GATE], SHAPE(d));
}

/* Finds the matrices to and from the smaller space that experts work in, where there is one. */
static void experts_find_latents(tensor_finder *f, experts_layer *l) {
    const presence *has = f->m->arch->graph.has;
    uint64_t d = l->width = f->m->sizes.width;
    bool is_routed = has[WEIGHT_FFN_ROUTED_DOWN];
    weight_slot down = is_routed ? WEIGHT_FFN_ROUTED_DOWN : WEIGHT_FFN_LATENT_DOWN,
                up = is_routed ? WEIGHT_FFN_ROUTED_UP : WEIGHT_FFN_LATENT_UP;
    if (!has[down] || !(tensors_layer_has(f->m, f->index, down) || tensors_layer_has(f->m, f->index, up)))
        return;
    l->width = tensors_rows(f, down);
    tensors_take_weight(f, down, REQUIRED, SHAPE(d, l->width));
    tensors_take_weight(f, WEIGHT_FFN_ROUTED_NORM, is_routed ? OPTIONAL : ABSENT, SHAPE(l->width));
    tensors_take_weight(f, up, REQUIRED, SHAPE(l->width, d));
}

/* The matrix to the experts' smaller space under the name that the layer has for it; WEIGHT_SLOTS: none. */
static weight_slot latent_down(const layer_spec *l) {
    return l->weight[WEIGHT_FFN_LATENT_DOWN]   ? WEIGHT_FFN_LATENT_DOWN
           : l->weight[WEIGHT_FFN_ROUTED_DOWN] ? WEIGHT_FFN_ROUTED_DOWN
                                               : WEIGHT_SLOTS;
}

/* Finds a dense sublayer, and norms that experts and it have for themselves. */
static void experts_find_beside(tensor_finder *f, experts_layer *l) {
    const presence *has = f->m->arch->graph.has;
    static const weight_slot norms[] = {WEIGHT_FFN_NORM_EXPS, WEIGHT_PRE_FFW_NORM_2, WEIGHT_POST_FFW_NORM_1,
                                        WEIGHT_POST_FFW_NORM_2, WEIGHT_FFN_ROUTER_SCALE};
    uint64_t d = f->m->sizes.width, n = tensors_rows(f, WEIGHT_FFN_UP);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        tensors_take_weight(f, norms[i], has[norms[i]], SHAPE(d));
    tensors_take_weight(f, WEIGHT_FFN_UP, has[WEIGHT_FFN_UP], SHAPE(d, n));
    if (!f->l->weight[WEIGHT_FFN_UP]) return;
    l->dense_ff = n;
    tensors_take_weight(f, WEIGHT_FFN_GATE, REQUIRED, SHAPE(d, n));
    tensors_take_weight(f, WEIGHT_FFN_DOWN, REQUIRED, SHAPE(n, d));
}

static void experts_find_chunks(tensor_finder *f, const experts_numbers *n, experts_layer *l) {
    uint64_t d = l->width, ff = tensors_rows(f, WEIGHT_FFN_UP_CHEXPS);
    if (!n->chunks) return;
    l->chunk_ff = ff;
    tensors_take_weight(f, WEIGHT_FFN_UP_CHEXPS, REQUIRED, SHAPE(d, ff, n->chunks));
    tensors_take_weight(f, WEIGHT_FFN_GATE_CHEXPS, REQUIRED, SHAPE(d, ff, n->chunks));
    tensors_take_weight(f, WEIGHT_FFN_DOWN_CHEXPS, REQUIRED, SHAPE(ff, d, n->chunks));
}

/* The table of experts that a layer has in place of a bias for its choice. Images have a bias of their own. */
static void experts_find_table(tensor_finder *f, experts_numbers *n, experts_layer *l) {
    char name[GGUF_MAX_NAME + 1];
    enum { MOST_IDS = 1 << 24 }; /* integers that a float has exactly */
    n->vocabulary = f->m->sizes.vocabulary;
    tensors_take_bias(f, WEIGHT_EXPERT_CHOICE_SEEN, f->m->arch->graph.routing.has_tables ? OPTIONAL : ABSENT,
                      SHAPE(n->experts));
    if (f->index >= n->tables) return;
    if (f->ok && n->vocabulary > MOST_IDS)
        f->ok = gq_fail(f->e, "%s: %zu tokens, expected at most %d with tables of experts", f->m->path,
                        n->vocabulary, MOST_IDS);
    snprintf(name, sizeof name, "blk.%zu.ffn_gate_tid2eid.weight", f->index);
    l->table = tensors_take_integers(f, name, REQUIRED, SHAPE(n->used, n->vocabulary));
}

static void experts_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const forward_model *m = f->m;
    const arch_graph *a = &m->arch->graph;
    experts_numbers *numbers = p->sublayer->numbers;
    experts_layer *l = p->numbers;
    uint64_t d = m->sizes.width, n = numbers->experts, fused = tensors_rows(f, WEIGHT_FFN_GATE_UP_EXPS);
    if (f->ok && !n) {
        f->ok = gq_fail(f->e, "%s: %s.expert_count is 0 or missing, but there is a tensor %s", m->path,
                        m->arch->name, tensors_layer_name(f->m, f->index, WEIGHT_FFN_ROUTER, ".weight").text);
        return;
    }
    tensors_take_biased(f, WEIGHT_FFN_ROUTER, REQUIRED, SHAPE(d, n), a->router_bias);
    experts_find_table(f, numbers, l);
    tensors_take_bias(f, WEIGHT_EXPERT_CHOICE,
                      f->index < numbers->tables ? ABSENT
                      : numbers->tables          ? REQUIRED
                                                 : a->has[WEIGHT_EXPERT_CHOICE],
                      SHAPE(n));
    experts_find_latents(f, l);
    uint64_t in = l->width;
    if (a->has[WEIGHT_FFN_GATE_UP_EXPS] && tensors_layer_has(m, f->index, WEIGHT_FFN_GATE_UP_EXPS)) {
        l->ff = tensors_halved(fused);
        tensors_take_weight(f, WEIGHT_FFN_GATE_UP_EXPS, REQUIRED, SHAPE(in, 2 * l->ff, n));
    } else {
        l->ff = tensors_rows(f, WEIGHT_FFN_UP_EXPS);
        tensors_take_biased(f, WEIGHT_FFN_UP_EXPS, REQUIRED, SHAPE(in, l->ff, n), a->router_bias);
        if (!a->plain_experts)
            tensors_take_biased(f, WEIGHT_FFN_GATE_EXPS, REQUIRED, SHAPE(in, l->ff, n), a->router_bias);
    }
    tensors_take_biased(f, WEIGHT_FFN_DOWN_EXPS, REQUIRED, SHAPE(l->ff, in, n), a->router_bias);
    tensors_take_weight(f, WEIGHT_FFN_DOWN_SCALE, a->has[WEIGHT_FFN_DOWN_SCALE], SHAPE(n));
    experts_find_chunks(f, numbers, l);
    experts_find_shared(f, l);
    experts_find_beside(f, l);
}

/* Rows of the smaller space, if there is one: what experts read, and the sum of what they give. */
static uint64_t latent_rows(const layer_spec *plan, const experts_layer *l) {
    return latent_down(plan) != WEIGHT_SLOTS ? 2 * (uint64_t)l->width : 0;
}

static uint64_t experts_count_rows(const forward_model *m, const layer_spec *plan, const sublayer_spec *p) {
    const experts_numbers *n = p->sublayer->numbers;
    const experts_layer *l = p->numbers;
    uint64_t width = l->width, beside = max(l->shared_ff, l->dense_ff);
    uint64_t most = 2 * width + 2 * (uint64_t)l->ff + latent_rows(plan, l);
    most = max(most, m->sizes.width + 2 * beside + 1);
    /* A small expert may be chosen by several of a token's, and then sees the token as often. */
    if (n->chunks) most = max(most, width + n->chunk_repeats * (2 * width + 2 * (uint64_t)l->chunk_ff));
    return max(most, (n->chunks ? 2 : 1) * (uint64_t)n->experts); /* the router's values */
}

static void experts_lay_out_choice(experts_choice *c, uint64_t tokens, uint64_t used, uint64_t experts,
                                   scratch *s) {
    c->chosen = scratch_take(s, tokens, used, sizeof(uint32_t));
    c->chosen_weight = scratch_take(s, tokens, used, sizeof(float));
    c->token = scratch_take(s, tokens, used, sizeof(uint32_t));
    c->weight = scratch_take(s, tokens, used, sizeof(float));
    c->begin = scratch_take(s, experts + 1, 1, sizeof(uint32_t));
}

static void experts_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const experts_numbers *n = p->numbers;
    experts_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    uint64_t tokens = b->context * b->most_windows;
    experts_lay_out_choice(&own->routed, tokens, n->used, n->experts, s);
    if (n->chunks) experts_lay_out_choice(&own->chunks, tokens, n->chunks_used, n->chunks, s);
    if (b->model->arch->graph.has[WEIGHT_FFN_NORM_EXPS] || b->model->arch->graph.has[WEIGHT_PRE_FFW_NORM_2])
        own->input = scratch_take(s, b->model->sizes.width, b->stride, sizeof(float));
    if (n->tables) own->table = scratch_take(s, n->vocabulary, n->used, sizeof *own->table);
    own->group_score = scratch_take(s, n->groups, s->threads, sizeof(float));
}

/* A row with the tokens' ids, for the tables: floats have all numbers below 2^24. */
static uint64_t experts_carried_rows(const forward_model *, const model_sublayer *p, size_t) {
    const experts_numbers *n = p->numbers;
    return n->tables > 0;
}

static bool experts_embed(forward_batch *b, const model_sublayer *p, const uint32_t *ids, const float *,
                          float *carried, size_t) {
    for (size_t t = 0; experts_carried_rows(b->model, p, b->context) && t < b->tokens; t++)
        carried[t] = (float)ids[t];
    return true;
}

/* ---- computing ---- */

/* A block beside the experts that sees all tokens: its weights, and the norm of what it gives. */
typedef struct beside_slots {
    weight_slot gate, up, down, share, norm;
} beside_slots;

typedef struct beside_middle {
    const beside_slots *w;
    const float *x;
    size_t stride, ff;
} beside_middle;

static bool beside_make_middle(forward_batch *b, void *data) {
    const beside_middle *of = data;
    size_t s = b->stride;
    float *gate = b->work, *up = gate + of->ff * s;
    bool is_first = !b->layer->plan->weight[of->w->gate]; /* fused, or without a gate */
    if (!is_first) batch_multiply(b, of->w->gate, 0, of->x, of->stride, gate, s, b->tokens);
    batch_multiply(b, of->w->up, 0, of->x, of->stride, is_first ? gate : up, s, b->tokens);
    experts_gate_rows(b, &b->layer->plan->act, batch_rows(b, gate, of->ff));
    return true;
}

/* Adds what it gives to b->output. ff: its features in the middle. */
static bool experts_run_beside(const experts_run *r, const beside_slots *w, size_t ff, const float *x,
                               size_t stride) {
    forward_batch *b = r->b;
    const forward_model *m = b->model;
    const layer_spec *l = b->layer->plan;
    size_t s = b->stride, width = m->sizes.width;
    float *gate = b->work, *out = gate + 2 * ff * s, *share = out + width * s;
    const batch_values middle = {gate, ff, s, b->tokens};
    if (!batch_make(b, w->down, 0, RESULT_INPUTS, &middle, beside_make_middle,
                    &(beside_middle){w, x, stride, ff}))
        return false;
    if (l->weight[w->share]) {
        batch_multiply(b, w->share, 0, x, stride, share, s, b->tokens);
        m->elements->sigmoid(share, b->tokens);
    }
    batch_tokens all = {NULL, l->weight[w->share] ? share : NULL, b->tokens};
    if (!batch_report_some(b, gate, s, &all, 0, (weight_slot[]){w->down, WEIGHT_SLOTS})) return false;
    batch_multiply(b, w->down, 0, gate, s, out, s, b->tokens);
    if (l->weight[w->share]) batch_multiply_rows(b, batch_rows(b, out, width), share, 0);
    if (l->weight[w->norm]) batch_norm_slot(b, w->norm, out, s, width, out, s);
    batch_add(b, b->output, s, out, s, width, 1);
    return true;
}

/* ---- what experts read ---- */

typedef struct experts_inputs {
    const float *experts, *router;
    size_t experts_stride, router_stride;
} experts_inputs;

/* Experts and router read the sublayer's own input, x, in most rows. */
static experts_inputs experts_choose_inputs(const experts_run *r, const float *x, size_t stride) {
    forward_batch *b = r->b;
    const layer_spec *l = b->layer->plan;
    size_t width = b->model->sizes.width, s = b->stride;
    float *input = r->own->input;
    experts_inputs in = {x, x, stride, stride};
    if (b->model->arch->graph.routing.reads_start) in.router = b->start, in.router_stride = s;
    if (l->weight[WEIGHT_FFN_NORM_EXPS]) {
        batch_norm_slot(b, WEIGHT_FFN_NORM_EXPS, b->start, s, width, input, s);
        return (experts_inputs){input, input, s, s};
    }
    if (l->weight[WEIGHT_PRE_FFW_NORM_2]) {
        batch_norm_slot(b, WEIGHT_PRE_FFW_NORM_2, b->residual, b->residual_stride, width, input, s);
        in.experts = input, in.experts_stride = s;
    }
    if (l->weight[WEIGHT_FFN_ROUTER_SCALE]) { /* b->output is free until experts give something */
        batch_norm_slot(b, WEIGHT_FFN_ROUTER_SCALE, b->residual, b->residual_stride, width, b->output, s);
        batch_scale(b, b->output, s, width, 1 / sqrtf((float)width));
        in.router = b->output, in.router_stride = s;
    }
    return in;
}

/* Reports the inputs of the router and of what runs beside the experts; together where it is one. */
static bool experts_report(forward_batch *b, const experts_inputs *in, const float *x, size_t stride) {
    const weight_slot all[] = {WEIGHT_FFN_ROUTER,      WEIGHT_FFN_SHARED_GATE, WEIGHT_FFN_GATE_SHEXP,
                               WEIGHT_FFN_UP_SHEXP,    WEIGHT_FFN_GATE,        WEIGHT_FFN_UP,
                               WEIGHT_FFN_LATENT_DOWN, WEIGHT_FFN_ROUTED_DOWN, WEIGHT_SLOTS};
    const layer_spec *l = b->layer->plan;
    if (in->router == x) return batch_report_inputs(b, x, stride, all);
    return batch_report_inputs(b, in->router, in->router_stride,
                               (weight_slot[]){WEIGHT_FFN_ROUTER, WEIGHT_SLOTS}) &&
           ((!l->weight[WEIGHT_FFN_UP_SHEXP] && !l->weight[WEIGHT_FFN_UP]) ||
            batch_report_inputs(b, x, stride, all + 1));
}

/* Takes what experts read to their smaller space, where there is one. */
static void experts_enter(experts_run *r, const experts_inputs *in) {
    forward_batch *b = r->b;
    size_t s = b->stride, rows = latent_rows(b->layer->plan, r->l);
    r->in = in->experts, r->in_stride = in->experts_stride, r->sum = b->output, r->work = b->work + rows * s;
    if (rows) {
        batch_multiply(b, latent_down(b->layer->plan), 0, r->in, r->in_stride, b->work, s, b->tokens);
        r->in = b->work, r->in_stride = s, r->sum = b->work + rows / 2 * s;
    }
}

/* Takes the experts' sum back to b->output. */
static bool experts_leave(const experts_run *r) {
    forward_batch *b = r->b;
    size_t s = b->stride;
    if (r->sum == b->output) return true;
    if (b->layer->plan->weight[WEIGHT_FFN_ROUTED_NORM])
        batch_norm_slot(b, WEIGHT_FFN_ROUTED_NORM, r->sum, s, r->l->width, r->sum, s);
    if (!batch_report_inputs(b, r->sum, s,
                             (weight_slot[]){WEIGHT_FFN_LATENT_UP, WEIGHT_FFN_ROUTED_UP, WEIGHT_SLOTS}))
        return false;
    weight_slot up =
        b->layer->plan->weight[WEIGHT_FFN_ROUTED_UP] ? WEIGHT_FFN_ROUTED_UP : WEIGHT_FFN_LATENT_UP;
    batch_multiply(b, up, 0, r->sum, s, b->output, s, b->tokens);
    return true;
}

/* Adds what small experts make of the experts' sum, b->output. */
static bool experts_add_chunks(experts_run *r) {
    forward_batch *b = r->b;
    size_t s = b->stride, rows = r->l->width;
    const expert_set set = {.choice = &r->own->chunks,
                            .gate = WEIGHT_FFN_GATE_CHEXPS,
                            .up = WEIGHT_FFN_UP_CHEXPS,
                            .both = WEIGHT_SLOTS,
                            .down = WEIGHT_FFN_DOWN_CHEXPS,
                            .experts = r->n->chunks,
                            .ff = r->l->chunk_ff};
    if (!r->n->chunks) return true;
    r->in = b->output, r->in_stride = s, r->sum = b->work, r->work = b->work + rows * s;
    if (!experts_run_set(r, &set)) return false;
    batch_add(b, b->output, s, r->sum, s, rows, r->n->chunk_scale);
    return true;
}

static bool experts_run_layer(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    static const beside_slots shared = {WEIGHT_FFN_GATE_SHEXP, WEIGHT_FFN_UP_SHEXP, WEIGHT_FFN_DOWN_SHEXP,
                                        WEIGHT_FFN_SHARED_GATE, WEIGHT_POST_FFW_NORM_1};
    static const beside_slots dense = {WEIGHT_FFN_GATE, WEIGHT_FFN_UP, WEIGHT_FFN_DOWN,
                                       WEIGHT_FFN_SHARED_GATE, WEIGHT_POST_FFW_NORM_1};
    const forward_model *m = b->model;
    size_t width = m->sizes.width, s = b->stride;
    float factor = m->arch->graph.routing.sum_factor;
    experts_run r = {.b = b, .n = p->sublayer->numbers, .l = p->numbers, .own = batch_own(b, p->sublayer)};
    if (r.n->tables) r.ids = batch_carried(b, p->sublayer);
    experts_inputs in = experts_choose_inputs(&r, x, stride);
    if (!experts_report(b, &in, x, stride) || !experts_route(&r, in.router, in.router_stride)) return false;
    experts_enter(&r, &in);
    const expert_set set = {.choice = &r.own->routed,
                            .gate = WEIGHT_FFN_GATE_EXPS,
                            .up = WEIGHT_FFN_UP_EXPS,
                            .both = WEIGHT_FFN_GATE_UP_EXPS,
                            .down = WEIGHT_FFN_DOWN_EXPS,
                            .experts = r.n->experts,
                            .ff = r.l->ff};
    if (!experts_run_set(&r, &set) || !experts_leave(&r) || !experts_add_chunks(&r)) return false;
    if (b->layer->plan->weight[WEIGHT_POST_FFW_NORM_2])
        batch_norm_slot(b, WEIGHT_POST_FFW_NORM_2, b->output, s, width, b->output, s);
    if (r.l->shared_ff && !experts_run_beside(&r, &shared, r.l->shared_ff, x, stride)) return false;
    if (r.l->dense_ff && !experts_run_beside(&r, &dense, r.l->dense_ff, x, stride)) return false;
    if (factor != 0 && (r.l->shared_ff || r.l->dense_ff)) batch_scale(b, b->output, s, width, factor);
    return true;
}

const sublayer_kind ffn_experts = {
    .model_bytes = sizeof(experts_numbers),
    .layer_bytes = sizeof(experts_layer),
    .choose_layers = experts_choose_layers,
    .read_keys = experts_read_keys,
    .find_tensors = experts_find_tensors,
    .scratch_rows = experts_count_rows,
    .carried_rows = experts_carried_rows,
    .embed = experts_embed,
    .lay_out = experts_lay_out,
    .run = experts_run_layer,
};

size_t forward_experts_repeats(const forward_model *m) {
    const experts_numbers *n = model_numbers(m, &ffn_experts);
    return n ? max(1, n->chunk_repeats) : 1;
}

size_t forward_experts_spread(const forward_model *m) {
    const experts_numbers *n = model_numbers(m, &ffn_experts);
    return n && n->used ? max(1, ceil_div(n->experts, n->used)) : 1;
}

/* ---- routers as matrices: how an error of the hidden state changes the routing ---- */

/* Returns the plan of layer i's experts; NULL: it has none. */
static const layer_spec *routed_layer(const forward_model *m, size_t i) {
    const layer_spec *l = i < m->sizes.layers ? &m->layers[i] : NULL;
    return l && l->ffn.sublayer && l->ffn.sublayer->kind == &ffn_experts ? l : NULL;
}

size_t forward_router_rows(const forward_model *m, size_t i) {
    const layer_spec *l = routed_layer(m, i);
    return l ? l->weight[WEIGHT_FFN_ROUTER]->ne[1] : 0;
}

bool forward_is_router(const forward_model *m, const model_tensor *t) {
    model_block b;
    const layer_spec *l = model_block_leads(t->name, &b) ? routed_layer(m, b.number) : NULL;
    return l && l->weight[WEIGHT_FFN_ROUTER] == t;
}

/* Returns the weights of the router's norm; NULL: there are none. */
static const model_tensor *router_gain(const forward_model *m, const layer_spec *l) {
    if (m->arch->graph.routing.reads_start) return NULL;
    if (l->weight[WEIGHT_FFN_ROUTER_SCALE]) return l->weight[WEIGHT_FFN_ROUTER_SCALE];
    if (l->weight[WEIGHT_FFN_NORM_EXPS]) return l->weight[WEIGHT_FFN_NORM_EXPS];
    return l->ffn.before == WEIGHT_SLOTS ? NULL : l->weight[l->ffn.before];
}

/* Takes from n values, `step` floats apart, their mean. */
static void take_mean_off(float *x, size_t n, size_t step) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i * step];
    for (size_t i = 0; i < n; i++) x[i * step] -= (float)(sum / (double)n);
}

bool forward_router_read(const forward_model *m, size_t i, float *rows, gq_error *e) {
    const layer_spec *l = routed_layer(m, i);
    const model_tensor *t = l->weight[WEIGHT_FFN_ROUTER], *gain = router_gain(m, l);
    size_t width = m->sizes.width, n = t->ne[1];
    uint64_t raw_bytes = gain && gain->size > t->size ? gain->size : t->size;
    void *raw = malloc(raw_bytes);
    float *by = malloc(width * sizeof *by);
    bool ok = (raw && by) || gq_fail_memory(e, raw_bytes + width * sizeof *by);
    ok = ok && model_read_values(m, t, raw, rows, e) && model_read_values(m, gain, raw, by, e);
    for (size_t k = 0; ok && gain && k < n * width; k++) rows[k] *= by[k % width];
    /* Only differences of rows choose; and a norm may subtract the mean. */
    for (size_t c = 0; ok && c < width; c++) take_mean_off(rows + c, n, width);
    for (size_t r = 0; ok && m->centers && r < n; r++) take_mean_off(rows + r * width, width, 1);
    free(raw), free(by);
    return ok;
}
