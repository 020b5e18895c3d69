/* The routed feed-forward part: a few experts per token, and possibly a shared one that sees all tokens. The
 * router's values become weights by softmax or sigmoid, and each token chooses its `used` best experts, where
 * the row says so only from the best groups, or with a bias that counts for the choice alone. Tokens are then
 * sorted by expert, and the experts run one after another: an expert's tokens are gathered side by side, go
 * through gate, up and down, and are added to b->part with their weights. So an expert's matrices are decoded
 * once per batch, and a token's sum is formed in the order of the experts, whatever the number of threads.
 * The shared expert comes last.
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "forward/layer_part.h"

typedef struct experts_numbers {
    size_t experts, used;       /* used: experts per token */
    size_t groups, groups_used; /* 0 or 1 groups: all experts are candidates */
    router_function function;   /* makes weights of the router's values */
    bool is_late;               /* of those of the chosen alone */
    bool is_normalised;         /* the weights' sum is made 1 */
    float scale;                /* of the weights; 1: none */
} experts_numbers;

typedef struct experts_layer {
    size_t ff, shared_ff; /* rows of gate and up, also of the shared expert; shared_ff 0: there is none */
    size_t width;         /* features that experts read and give: the model's, or of a smaller space */
} experts_layer;

/* Token t's k-th expert is chosen[t * used + k]. Sorted by expert, expert e has the places routed_begin[e] to
 * routed_begin[e + 1] - 1 of routed_token and routed_weight. */
typedef struct experts_scratch {
    uint32_t *chosen, *routed_token, *routed_begin;
    float *chosen_weight, *routed_weight;
    float *group_score; /* [threads][groups] */
} experts_scratch;

/* ---- keys and tensors ---- */

/* Claims the layers that have a router. */
static void experts_choose_layers(const forward_model *m, key_reader *r, bool *is_own) {
    (void)r;
    for (size_t i = 0; i < m->sizes.layers; i++) is_own[i] = tensors_layer_has(m, i, WEIGHT_FFN_ROUTER);
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

/* Compares leading_dense_block_count with the tensors, which say the same by the layers that have a router;
 * among the others not every layer may have one. */
static void experts_compare_with_tensors(const forward_model *m, key_reader *r, const model_part *p) {
    const char *key = "leading_dense_block_count";
    bool is_stepped = key_number(r, "interleave_moe_layer_step", 1, 0, MODEL_MOST) > 1;
    int64_t dense;
    if (!key_there(r, key) || !model_fact_int(&r->facts, key, &dense) || dense < 0) return;
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        bool is_routed = m->layers[i].ffn.part == p;
        if (!m->layers[i].ffn.part) continue;
        if (is_routed ? (int64_t)i < dense : (int64_t)i >= dense && !is_stepped)
            key_fail(r, key, "is %lld, but there is %s tensor %s", (long long)dense, is_routed ? "a" : "no",
                     tensors_layer_name(i, WEIGHT_FFN_ROUTER, ".weight"));
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

static void experts_read_keys(forward_model *m, key_reader *r, model_part *p) {
    const routing *by = &m->arch->routing;
    experts_numbers *n = p->numbers;
    n->scale = 1;
    n->experts = key_number(r, "expert_count", 0, 0, 1 << 16);
    if (!n->experts) return; /* experts_find_tensors refuses a router then */
    n->used = key_number(r, "expert_used_count", 0, 0, n->experts);
    if (!n->used)
        key_fail(r, "expert_used_count", "is 0 or missing, expected 1 to expert_count: %zu", n->experts);
    experts_read_function(n, by, r);
    n->is_normalised = by->sum == SUM_IS_ONE;
    if (by->sum == SUM_BY_KEY) n->is_normalised = key_bool(r, "expert_weights_norm", false);
    if (by->scale_key) n->scale = (float)key_scale(r, "expert_weights_scale", 1);
    if (!by->has_groups) return;
    experts_read_groups(n, r);
    experts_compare_with_tensors(m, r, p);
}

static void experts_find_shared(tensor_finder *f, experts_layer *l) {
    const architecture *a = f->m->arch;
    uint64_t d = f->m->sizes.width, n = tensors_rows(f, WEIGHT_FFN_UP_SHEXP);
    bool is_fused = a->fused_shared;
    tensors_take_weight(f, WEIGHT_FFN_UP_SHEXP, a->has[WEIGHT_FFN_UP_SHEXP], SHAPE(d, n));
    if (!f->l->weight[WEIGHT_FFN_UP_SHEXP]) return;
    l->shared_ff = is_fused ? tensors_halved(n) : n;
    if (!is_fused && !a->plain_experts) tensors_take_weight(f, WEIGHT_FFN_GATE_SHEXP, REQUIRED, SHAPE(d, n));
    tensors_take_weight(f, WEIGHT_FFN_DOWN_SHEXP, REQUIRED, SHAPE(l->shared_ff, d));
    tensors_take_weight(f, WEIGHT_FFN_SHARED_GATE, a->has[WEIGHT_FFN_SHARED_GATE], SHAPE(d));
}

/* Finds the matrices to and from the smaller space that experts work in, where there is one. */
static void experts_find_latents(tensor_finder *f, experts_layer *l) {
    uint64_t d = l->width = f->m->sizes.width;
    if (!f->m->arch->has[WEIGHT_FFN_LATENT_DOWN] ||
        !tensors_layer_has(f->m, f->index, WEIGHT_FFN_LATENT_DOWN))
        return;
    l->width = tensors_rows(f, WEIGHT_FFN_LATENT_DOWN);
    tensors_take_weight(f, WEIGHT_FFN_LATENT_DOWN, REQUIRED, SHAPE(d, l->width));
    tensors_take_weight(f, WEIGHT_FFN_LATENT_UP, REQUIRED, SHAPE(l->width, d));
}

static void experts_find_tensors(tensor_finder *f, const plan_part *p) {
    const forward_model *m = f->m;
    const architecture *a = m->arch;
    const experts_numbers *numbers = p->part->numbers;
    experts_layer *l = p->numbers;
    uint64_t d = m->sizes.width, n = numbers->experts, fused = tensors_rows(f, WEIGHT_FFN_GATE_UP_EXPS);
    if (f->ok && !n) {
        f->ok = gq_fail(f->e, "%s: %s.expert_count is 0 or missing, but there is a tensor %s", m->path,
                        a->name, tensors_layer_name(f->index, WEIGHT_FFN_ROUTER, ".weight"));
        return;
    }
    tensors_take_biased(f, WEIGHT_FFN_ROUTER, REQUIRED, SHAPE(d, n), a->router_bias);
    tensors_take_bias(f, WEIGHT_EXPERT_CHOICE, a->has[WEIGHT_EXPERT_CHOICE], SHAPE(n));
    experts_find_latents(f, l);
    uint64_t in = l->width;
    if (a->has[WEIGHT_FFN_GATE_UP_EXPS] && tensors_layer_has(m, f->index, WEIGHT_FFN_GATE_UP_EXPS)) {
        l->ff = tensors_halved(fused);
        tensors_take_weight(f, WEIGHT_FFN_GATE_UP_EXPS, REQUIRED, SHAPE(in, 2 * l->ff, n));
    } else {
        l->ff = tensors_rows(f, WEIGHT_FFN_UP_EXPS);
        if (!a->plain_experts)
            tensors_take_biased(f, WEIGHT_FFN_GATE_EXPS, REQUIRED, SHAPE(in, l->ff, n), a->router_bias);
        tensors_take_biased(f, WEIGHT_FFN_UP_EXPS, REQUIRED, SHAPE(in, l->ff, n), a->router_bias);
    }
    tensors_take_biased(f, WEIGHT_FFN_DOWN_EXPS, REQUIRED, SHAPE(l->ff, in, n), a->router_bias);
    experts_find_shared(f, l);
}

/* Rows of the smaller space, if there is one: what experts read, and the sum of what they give. */
static uint64_t latent_rows(const layer_plan *plan, const experts_layer *l) {
    return plan->weight[WEIGHT_FFN_LATENT_DOWN] ? 2 * (uint64_t)l->width : 0;
}

static uint64_t experts_count_rows(const forward_model *m, const layer_plan *plan, const plan_part *p) {
    const experts_numbers *n = p->part->numbers;
    const experts_layer *l = p->numbers;
    uint64_t routed = 2 * (uint64_t)l->width + 2 * (uint64_t)l->ff + latent_rows(plan, l);
    uint64_t shared = m->sizes.width + 2 * (uint64_t)l->shared_ff + 1;
    uint64_t most = routed > shared ? routed : shared;
    return most > n->experts ? most : n->experts;
}

static void experts_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    const experts_numbers *n = p->numbers;
    experts_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    uint64_t tokens = b->context * b->most_windows;
    own->chosen = scratch_take(s, tokens, n->used, sizeof(uint32_t));
    own->chosen_weight = scratch_take(s, tokens, n->used, sizeof(float));
    own->routed_token = scratch_take(s, tokens, n->used, sizeof(uint32_t));
    own->routed_weight = scratch_take(s, tokens, n->used, sizeof(float));
    own->routed_begin = scratch_take(s, n->experts + 1, 1, sizeof(uint32_t));
    own->group_score = scratch_take(s, n->groups, s->threads, sizeof(float));
}

/* State that the functions below share. */
typedef struct experts_run {
    forward_batch *b;
    const experts_numbers *n;
    const experts_layer *l;
    const experts_scratch *own;
    const float *in; /* what experts read, and its stride */
    size_t in_stride;
    float *sum, *work; /* rows of what they give, which may be b->part; memory for one expert */
} experts_run;

/* ---- choosing ---- */

/* The scores that a token chooses from: n values, `step` floats apart. `added` counts for the choice and not
 * for the weight. */
typedef struct candidates {
    const float *value, *added; /* added may be NULL */
    size_t n, step;
} candidates;

static float candidate_score(const candidates *c, size_t i) {
    return c->value[i * c->step] + (c->added ? c->added[i] : 0);
}

/* Returns the candidate that follows `last` in the order of falling scores, equal ones by number; last n: the
 * first one. Candidates come in groups of `group`; allowed[g] -infinity leaves group g out. allowed NULL: all
 * count. */
static size_t next_largest(const candidates *c, size_t last, const float *allowed, size_t group) {
    size_t best = c->n;
    float limit = last < c->n ? candidate_score(c, last) : INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        float v = candidate_score(c, i);
        if (allowed && isinf(allowed[i / group])) continue;
        if (last < c->n && (v > limit || (v == limit && i <= last))) continue;
        if (best == c->n || v > candidate_score(c, best)) best = i;
    }
    return best;
}

/* Scores each group by the sum of its two largest candidates; a group that is not used gets -infinity. */
static void choose_groups(const experts_numbers *n, const candidates *c, float *scores) {
    size_t each = c->n / n->groups;
    for (size_t g = 0; g < n->groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (size_t i = g * each; i < (g + 1) * each; i++) {
            float v = candidate_score(c, i);
            if (v > first)
                second = first, first = v;
            else if (v > second)
                second = v;
        }
        scores[g] = first + second;
    }
    candidates groups = {scores, NULL, n->groups, 1};
    size_t last = n->groups;
    for (size_t k = 0; k < n->groups_used; k++) last = next_largest(&groups, last, NULL, 0);
    float least = scores[last];
    for (size_t g = 0; g < n->groups; g++)
        if (scores[g] < least || (scores[g] == least && g > last)) scores[g] = -INFINITY;
}

/* Makes weights of n values of the router for one token. */
static void weigh(const experts_run *r, float *x, size_t n) {
    const element_kernels *k = r->b->model->elements;
    float most = x[0], sum = 0;
    if (r->n->function == ROUTER_SIGMOID) {
        k->sigmoid(x, n);
    } else if (r->n->function == ROUTER_ROOT_SOFTPLUS) {
        k->softplus(x, n), k->root(x, n);
    } else {
        for (size_t i = 1; i < n; i++) most = fmaxf(most, x[i]);
        for (size_t i = 0; i < n; i++) x[i] -= most;
        k->exponential(x, n);
        for (size_t i = 0; i < n; i++) sum += x[i];
        for (size_t i = 0; i < n; i++) x[i] /= sum;
    }
}

static void choose_experts(const experts_run *r, const float *p, size_t token, int thread) {
    const experts_numbers *n = r->n;
    candidates c = {p + token, r->b->layer->bias_values[WEIGHT_EXPERT_CHOICE], n->experts, r->b->stride};
    float *groups = n->groups > 1 ? r->own->group_score + (size_t)thread * n->groups : NULL;
    uint32_t *chosen = r->own->chosen + token * n->used;
    float *weight = r->own->chosen_weight + token * n->used, sum = 0;
    size_t last = n->experts;
    if (groups) choose_groups(n, &c, groups);
    for (size_t k = 0; k < n->used; k++) {
        last = next_largest(&c, last, groups, groups ? n->experts / n->groups : 1);
        chosen[k] = (uint32_t)last;
        weight[k] = c.value[last * c.step];
    }
    if (n->is_late) weigh(r, weight, n->used);
    for (size_t k = 0; k < n->used; k++) sum += weight[k];
    for (size_t k = 0; k < n->used; k++) {
        if (n->is_normalised) weight[k] /= fmaxf(sum, 0x1p-14f);
        weight[k] *= n->scale;
    }
}

/* Sorts tokens by expert, in ascending order: expert e has those from begin[e] to begin[e + 1] - 1. */
static void sort_by_expert(const experts_run *r) {
    const experts_scratch *own = r->own;
    size_t n = r->b->tokens, used = r->n->used, experts = r->n->experts;
    uint32_t *begin = own->routed_begin;
    memset(begin, 0, (experts + 1) * sizeof *begin);
    for (size_t i = 0; i < n * used; i++) begin[own->chosen[i]]++;
    for (size_t e = 0, at = 0; e <= experts; e++) {
        size_t count = begin[e];
        begin[e] = (uint32_t)at, at += e < experts ? count : 0;
    }
    for (size_t i = 0; i < n * used; i++) {
        uint32_t place = begin[own->chosen[i]]++;
        own->routed_token[place] = (uint32_t)(i / used);
        own->routed_weight[place] = own->chosen_weight[i];
    }
    for (size_t e = experts; e > 0; e--) begin[e] = begin[e - 1];
    begin[0] = 0;
}

static bool check_bias(const experts_run *r) {
    const forward_batch *b = r->b;
    const float *bias = b->layer->bias_values[WEIGHT_EXPERT_CHOICE];
    for (size_t e = 0; bias && e < r->n->experts; e++)
        if (!isfinite(bias[e])) {
            gq_fail(b->e, "%s: tensor %s: element %zu is %g, expected a finite number", b->model->path,
                    b->layer->plan->bias[WEIGHT_EXPERT_CHOICE]->name, e, (double)bias[e]);
            return batch_blame_weights(b->e);
        }
    return true;
}

/* Chooses the experts of ELEMENT_SPAN tokens from the router's output. */
static void choose_span(void *data, size_t span, int thread) {
    const experts_run *r = data;
    const forward_batch *b = r->b;
    const element_kernels *k = b->model->elements;
    float *p = b->work;
    size_t first = span * ELEMENT_SPAN, experts = r->n->experts;
    size_t n = b->tokens - first < ELEMENT_SPAN ? b->tokens - first : ELEMENT_SPAN;
    router_function f = r->n->is_late ? ROUTER_FUNCTIONS : r->n->function;
    for (size_t e = 0; e < experts; e++) {
        float *row = p + e * b->stride + first;
        if (f == ROUTER_SIGMOID) k->sigmoid(row, n);
        if (f == ROUTER_ROOT_SOFTPLUS) k->softplus(row, n), k->root(row, n);
    }
    if (f == ROUTER_SOFTMAX)
        k->softmax(&(softmax_task){.s = p + first, .stride = b->stride, .rows = experts, .n = n, .scale = 1});
    for (size_t t = first; t < first + n; t++) choose_experts(r, p, t, thread);
}

static bool experts_route(experts_run *r, const float *x, size_t stride) {
    forward_batch *b = r->b;
    float *p = b->work;
    batch_multiply(b, WEIGHT_FFN_ROUTER, 0, x, stride, p, b->stride, b->tokens);
    /* experts cannot be chosen by values that are not finite */
    if (!check_bias(r) ||
        !batch_finite(b, "what comes from the router", b->layer->plan->weight[WEIGHT_FFN_ROUTER], p,
                      b->stride, r->n->experts, b->tokens))
        return false;
    threads_for(b->pool, parts(b->tokens, ELEMENT_SPAN), 1, choose_span, r);
    sort_by_expert(r);
    return true;
}

/* ---- computing ---- */

/* A copy between rows of the batch and rows of an expert's own tokens. */
typedef struct expert_rows {
    const forward_batch *b;
    const float *from;
    float *to;
    size_t from_stride, to_stride;
    const uint32_t *token; /* the expert's tokens in the batch */
    const float *weight;   /* NULL: 1 */
    size_t n;              /* tokens */
} expert_rows;

/* Puts the columns of an expert's tokens side by side. */
static void gather_row(void *data, size_t r, int thread) {
    const expert_rows *g = data;
    (void)thread;
    for (size_t i = 0; i < g->n; i++) g->to[r * g->to_stride + i] = g->from[r * g->from_stride + g->token[i]];
}

static void scatter_row(void *data, size_t r, int thread) {
    const expert_rows *s = data;
    (void)thread;
    for (size_t i = 0; i < s->n; i++)
        s->to[r * s->to_stride + s->token[i]] +=
            (s->weight ? s->weight[i] : 1) * s->from[r * s->from_stride + i];
}

typedef struct gated_rows {
    const forward_batch *b;
    const activation_rule *act;
    float *gate;
    size_t rows, stride, n;
} gated_rows;

static void gate_row(void *data, size_t r, int thread) {
    const gated_rows *g = data;
    const forward_model *m = g->b->model;
    float *gate = g->gate + r * g->stride;
    (void)thread;
    if (m->arch->plain_experts)
        m->elements->activate(g->act, gate, g->n);
    else
        m->elements->gate(g->act, gate, gate + g->rows * g->stride, g->n);
}

static void gate_rows(const forward_batch *b, const activation_rule *act, float *gate, size_t rows,
                      size_t stride, size_t n) {
    threads_for(b->pool, rows, THREADS_EVEN, gate_row, &(gated_rows){b, act, gate, rows, stride, n});
}

static void share_row(void *data, size_t r, int thread) {
    const expert_rows *s = data;
    (void)thread;
    s->b->model->elements->multiply(s->to + r * s->to_stride, s->weight, s->n);
}

/* Inputs of an expert's tokens times their weights. */
static void weigh_inputs(const experts_run *r, size_t e, float *in, size_t stride, size_t n) {
    const float *weight = r->own->routed_weight + r->own->routed_begin[e];
    threads_for(r->b->pool, r->b->model->sizes.width, THREADS_EVEN, share_row,
                &(expert_rows){.b = r->b, .to = in, .to_stride = stride, .weight = weight, .n = n});
}

/* gate = act(gate) up, of the matrices for an expert's tokens, or act(up) where it has no gate. */
static void multiply_in(const experts_run *r, size_t e, const float *in, float *gate, size_t s, size_t n) {
    forward_batch *b = r->b;
    const model_tensor *const *weight = b->layer->plan->weight;
    size_t ff = r->l->ff;
    if (weight[WEIGHT_FFN_GATE_UP_EXPS]) {
        batch_multiply(b, WEIGHT_FFN_GATE_UP_EXPS, e, in, s, gate, s, n);
    } else {
        bool is_plain = !weight[WEIGHT_FFN_GATE_EXPS];
        if (!is_plain) batch_multiply(b, WEIGHT_FFN_GATE_EXPS, e, in, s, gate, s, n);
        batch_multiply(b, WEIGHT_FFN_UP_EXPS, e, in, s, is_plain ? gate : gate + ff * s, s, n);
    }
    gate_rows(b, &b->layer->plan->experts_act, gate, ff, s, n);
}

static bool experts_run_one(const experts_run *r, size_t e) {
    forward_batch *b = r->b;
    const experts_scratch *own = r->own;
    const routing *by = &b->model->arch->routing;
    size_t width = r->l->width, ff = r->l->ff;
    size_t begin = own->routed_begin[e], n = own->routed_begin[e + 1] - begin, s = forward_stride(n);
    const uint32_t *token = own->routed_token + begin;
    float *in = r->work, *out = in + width * s, *gate = out + width * s;
    if (n == 0) return true;
    threads_for(
        b->pool, width, THREADS_EVEN, gather_row,
        &(expert_rows){
            .from = r->in, .from_stride = r->in_stride, .to = in, .to_stride = s, .token = token, .n = n});
    if (by->scales_inputs) weigh_inputs(r, e, in, s, n);
    if (!batch_site_routed(
            b, in, s, width, token, n, e,
            (weight_slot[]){WEIGHT_FFN_GATE_EXPS, WEIGHT_FFN_UP_EXPS, WEIGHT_FFN_GATE_UP_EXPS, WEIGHT_SLOTS}))
        return false;
    if (b->answer == FORWARD_SKIP) return true;
    multiply_in(r, e, in, gate, s, n);
    if (!batch_site_routed(b, gate, s, ff, token, n, e, (weight_slot[]){WEIGHT_FFN_DOWN_EXPS, WEIGHT_SLOTS}))
        return false;
    if (b->answer == FORWARD_SKIP) return true;
    batch_multiply(b, WEIGHT_FFN_DOWN_EXPS, e, gate, s, out, s, n);
    threads_for(b->pool, width, THREADS_EVEN, scatter_row,
                &(expert_rows){.from = out,
                               .from_stride = s,
                               .to = r->sum,
                               .to_stride = b->stride,
                               .token = token,
                               .weight = by->scales_inputs ? NULL : own->routed_weight + begin,
                               .n = n});
    return true;
}

static bool experts_run_shared(const experts_run *r, const float *x, size_t stride) {
    forward_batch *b = r->b;
    const forward_model *m = b->model;
    size_t s = b->stride, width = m->sizes.width, ff = r->l->shared_ff;
    float *gate = b->work, *up = gate + ff * s, *out = up + ff * s, *share = out + width * s;
    bool is_first = !b->layer->plan->weight[WEIGHT_FFN_GATE_SHEXP]; /* fused, or without a gate */
    if (!is_first) batch_multiply(b, WEIGHT_FFN_GATE_SHEXP, 0, x, stride, gate, s, b->tokens);
    batch_multiply(b, WEIGHT_FFN_UP_SHEXP, 0, x, stride, is_first ? gate : up, s, b->tokens);
    gate_rows(b, &b->layer->plan->act, gate, ff, s, b->tokens);
    if (!batch_site(b, gate, s, ff, b->tokens, 0, (weight_slot[]){WEIGHT_FFN_DOWN_SHEXP, WEIGHT_SLOTS}))
        return false;
    batch_multiply(b, WEIGHT_FFN_DOWN_SHEXP, 0, gate, s, out, s, b->tokens);
    if (b->layer->plan->weight[WEIGHT_FFN_SHARED_GATE]) {
        batch_multiply(b, WEIGHT_FFN_SHARED_GATE, 0, x, stride, share, s, b->tokens);
        m->elements->sigmoid(share, b->tokens);
        threads_for(b->pool, width, THREADS_EVEN, share_row,
                    &(expert_rows){.b = b, .to = out, .to_stride = s, .weight = share, .n = b->tokens});
    }
    batch_add(b, b->part, s, out, s, width, 1);
    if (m->arch->routing.is_halved) batch_scale(b, b->part, s, width, .5f);
    return true;
}

/* Reports what flows into the router, and into the shared expert and the matrix to a smaller space. */
static bool experts_report(forward_batch *b, const float *x, size_t stride) {
    size_t width = b->model->sizes.width;
    const weight_slot all[] = {WEIGHT_FFN_ROUTER,   WEIGHT_FFN_SHARED_GATE, WEIGHT_FFN_GATE_SHEXP,
                               WEIGHT_FFN_UP_SHEXP, WEIGHT_FFN_LATENT_DOWN, WEIGHT_SLOTS};
    const weight_slot *shared = all + 1;
    if (!b->model->arch->routing.reads_start) return batch_site(b, x, stride, width, b->tokens, 0, all);
    return batch_site(b, b->start, b->stride, width, b->tokens, 0,
                      (weight_slot[]){WEIGHT_FFN_ROUTER, WEIGHT_SLOTS}) &&
           (!b->layer->plan->weight[WEIGHT_FFN_UP_SHEXP] ||
            batch_site(b, x, stride, width, b->tokens, 0, shared));
}

/* Takes x to the smaller space of the experts, where there is one. */
static void experts_enter(experts_run *r, const float *x, size_t stride) {
    forward_batch *b = r->b;
    size_t s = b->stride, rows = latent_rows(b->layer->plan, r->l);
    r->in = x, r->in_stride = stride, r->sum = b->part, r->work = b->work + rows * s;
    if (rows) {
        batch_multiply(b, WEIGHT_FFN_LATENT_DOWN, 0, x, stride, b->work, s, b->tokens);
        r->in = b->work, r->in_stride = s, r->sum = b->work + rows / 2 * s;
    }
    memset(r->sum, 0, r->l->width * s * sizeof *r->sum);
}

/* Takes the experts' sum back to b->part. */
static bool experts_leave(const experts_run *r) {
    forward_batch *b = r->b;
    size_t s = b->stride;
    if (r->sum == b->part) return true;
    if (!batch_site(b, r->sum, s, r->l->width, b->tokens, 0,
                    (weight_slot[]){WEIGHT_FFN_LATENT_UP, WEIGHT_SLOTS}))
        return false;
    batch_multiply(b, WEIGHT_FFN_LATENT_UP, 0, r->sum, s, b->part, s, b->tokens);
    return true;
}

static bool experts_run_layer(forward_batch *b, const plan_part *p, const float *x, size_t stride) {
    const forward_model *m = b->model;
    experts_run r = {.b = b, .n = p->part->numbers, .l = p->numbers, .own = batch_own(b, p->part)};
    bool start = m->arch->routing.reads_start;
    if (!experts_report(b, x, stride) || !experts_route(&r, start ? b->start : x, start ? b->stride : stride))
        return false;
    experts_enter(&r, x, stride);
    for (size_t e = 0; e < r.n->experts; e++)
        if (!experts_run_one(&r, e)) return false;
    return experts_leave(&r) && (!r.l->shared_ff || experts_run_shared(&r, x, stride));
}

const layer_part ffn_experts = {
    .model_bytes = sizeof(experts_numbers),
    .layer_bytes = sizeof(experts_layer),
    .choose_layers = experts_choose_layers,
    .read_keys = experts_read_keys,
    .find_tensors = experts_find_tensors,
    .scratch_rows = experts_count_rows,
    .lay_out = experts_lay_out,
    .run = experts_run_layer,
};
