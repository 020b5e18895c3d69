/* The routed feed-forward part: a few experts per token, chosen by a router; and a shared one. */
#include <math.h>
#include <string.h>

#include "forward/batch.h"

uint64_t experts_rows(const forward_model *m, const layer_plan *l) {
    uint64_t routed = 2 * m->sizes.width + 2 * (uint64_t)l->expert_ff;
    uint64_t shared = m->sizes.width + 2 * (uint64_t)l->shared_ff + 1;
    uint64_t most = routed > shared ? routed : shared;
    return most > m->experts ? most : m->experts;
}

/* ---- choosing ---- */

/* Values of one token, one after another in memory `step` floats apart, each with something added. */
typedef struct candidates {
    const float *value, *added; /* added may be NULL */
    size_t n, step;
} candidates;

static float candidate(const candidates *c, size_t i) {
    return c->value[i * c->step] + (c->added ? c->added[i] : 0);
}

/* The largest of those after `last` in the order of falling values, equal ones by number; last n: the first.
 * allowed: of the groups of `group` candidates those whose score is not -infinity; NULL: all. */
static size_t next_largest(const candidates *c, size_t last, const float *allowed, size_t group) {
    size_t best = c->n;
    float limit = last < c->n ? candidate(c, last) : INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        float v = candidate(c, i);
        if (allowed && isinf(allowed[i / group])) continue;
        if (last < c->n && (v > limit || (v == limit && i <= last))) continue;
        if (best == c->n || v > candidate(c, best)) best = i;
    }
    return best;
}

/* Scores of groups, the sum of their two largest; -infinity for those that are not used. */
static void choose_groups(const forward_model *m, const candidates *c, float *scores) {
    size_t each = c->n / m->groups;
    for (size_t g = 0; g < m->groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (size_t i = g * each; i < (g + 1) * each; i++) {
            float v = candidate(c, i);
            if (v > first)
                second = first, first = v;
            else if (v > second)
                second = v;
        }
        scores[g] = first + second;
    }
    candidates groups = {scores, NULL, m->groups, 1};
    size_t last = m->groups;
    for (size_t k = 0; k < m->groups_used; k++) last = next_largest(&groups, last, NULL, 0);
    float least = scores[last];
    for (size_t g = 0; g < m->groups; g++)
        if (scores[g] < least || (scores[g] == least && g > last)) scores[g] = -INFINITY;
}

static void choose_experts(const forward_batch *b, const float *p, size_t token, int thread) {
    const forward_model *m = b->model;
    candidates c = {p + token, b->layer->bias_values[CHOICE], m->experts, b->stride};
    float *groups = m->groups > 1 ? b->group_score + (size_t)thread * m->groups : NULL;
    uint32_t *chosen = b->chosen + token * m->experts_used;
    float *weight = b->chosen_weight + token * m->experts_used, sum = 0;
    size_t last = m->experts;
    if (groups) choose_groups(m, &c, groups);
    for (size_t k = 0; k < m->experts_used; k++) {
        last = next_largest(&c, last, groups, groups ? m->experts / m->groups : 1);
        chosen[k] = (uint32_t)last;
        weight[k] = c.value[last * c.step];
        sum += weight[k];
    }
    for (size_t k = 0; k < m->experts_used; k++) {
        if (m->normalised) weight[k] /= fmaxf(sum, 0x1p-14f);
        weight[k] *= m->expert_scale;
    }
}

/* Which tokens go to each expert, in ascending order: those of e are from begin[e] to begin[e + 1]. */
static void sort_by_expert(forward_batch *b) {
    size_t n = b->tokens, used = b->model->experts_used, experts = b->model->experts;
    uint32_t *begin = b->routed_begin;
    memset(begin, 0, (experts + 1) * sizeof *begin);
    for (size_t i = 0; i < n * used; i++) begin[b->chosen[i]]++;
    for (size_t e = 0, at = 0; e <= experts; e++) {
        size_t count = begin[e];
        begin[e] = (uint32_t)at, at += e < experts ? count : 0;
    }
    for (size_t i = 0; i < n * used; i++) {
        uint32_t place = begin[b->chosen[i]]++;
        b->routed_token[place] = (uint32_t)(i / used);
        b->routed_weight[place] = b->chosen_weight[i];
    }
    for (size_t e = experts; e > 0; e--) begin[e] = begin[e - 1];
    begin[0] = 0;
}

static bool check_bias(const forward_batch *b) {
    const float *bias = b->layer->bias_values[CHOICE];
    for (size_t e = 0; bias && e < b->model->experts; e++)
        if (!isfinite(bias[e])) {
            gq_fail(b->e, "%s: tensor %s: element %zu is %g, expected a finite number", b->model->path,
                    b->layer->plan->bias[CHOICE]->name, e, (double)bias[e]);
            return batch_blame_weights(b->e);
        }
    return true;
}

/* Of ELEMENT_SPAN tokens. p: what comes from the router. */
static void choose_span(void *data, size_t span, int thread) {
    const forward_batch *b = data;
    const forward_model *m = b->model;
    float *p = b->work;
    size_t first = span * ELEMENT_SPAN;
    size_t n = b->tokens - first < ELEMENT_SPAN ? b->tokens - first : ELEMENT_SPAN;
    for (size_t e = 0; m->sigmoid && e < m->experts; e++) m->elements->sigmoid(p + e * b->stride + first, n);
    if (!m->sigmoid)
        m->elements->softmax(
            &(softmax_task){.s = p + first, .stride = b->stride, .rows = m->experts, .n = n, .scale = 1});
    for (size_t t = first; t < first + n; t++) choose_experts(b, p, t, thread);
}

static bool route(forward_batch *b, const float *x, size_t stride) {
    const forward_model *m = b->model;
    float *p = b->work;
    batch_multiply(b, ROUTER, 0, x, stride, p, b->stride, b->tokens);
    /* experts cannot be chosen by what is no number */
    if (!check_bias(b) || !batch_finite(b, "what comes from the router", b->layer->plan->weight[ROUTER], p,
                                        b->stride, m->experts, b->tokens))
        return false;
    threads_for(b->pool, (b->tokens + ELEMENT_SPAN - 1) / ELEMENT_SPAN, 1, choose_span, b);
    sort_by_expert(b);
    return true;
}

/* ---- computing ---- */

/* Rows of an expert's activations, or of the batch's. */
typedef struct expert_rows {
    const forward_batch *b;
    const float *from;
    float *to;
    size_t from_stride, to_stride;
    const uint32_t *token; /* that go to the expert */
    const float *weight;
    size_t n; /* of these */
} expert_rows;

/* x's columns of the tokens that go to an expert, side by side. */
static void gather_row(void *data, size_t r, int thread) {
    const expert_rows *g = data;
    (void)thread;
    for (size_t i = 0; i < g->n; i++) g->to[r * g->to_stride + i] = g->from[r * g->from_stride + g->token[i]];
}

static void scatter_row(void *data, size_t r, int thread) {
    const expert_rows *s = data;
    (void)thread;
    for (size_t i = 0; i < s->n; i++)
        s->to[r * s->to_stride + s->token[i]] += s->weight[i] * s->from[r * s->from_stride + i];
}

typedef struct gated_rows {
    const forward_batch *b;
    float *gate;
    size_t rows, stride, n;
} gated_rows;

static void gate_row(void *data, size_t r, int thread) {
    const gated_rows *g = data;
    const forward_model *m = g->b->model;
    (void)thread;
    m->elements->gate(m->arch->act, g->gate + r * g->stride, g->gate + (g->rows + r) * g->stride, g->n);
}

static void gate_rows(const forward_batch *b, float *gate, size_t rows, size_t stride, size_t n) {
    threads_for(b->pool, rows, THREADS_EVEN, gate_row, &(gated_rows){b, gate, rows, stride, n});
}

static void share_row(void *data, size_t r, int thread) {
    const expert_rows *s = data;
    (void)thread;
    s->b->model->elements->multiply(s->to + r * s->to_stride, s->weight, s->n);
}

static bool expert(forward_batch *b, size_t e, const float *x, size_t stride) {
    const layer_plan *l = b->layer->plan;
    size_t width = b->model->sizes.width, ff = l->expert_ff;
    size_t begin = b->routed_begin[e], n = b->routed_begin[e + 1] - begin, s = forward_stride(n);
    const uint32_t *token = b->routed_token + begin;
    float *in = b->work, *out = in + width * s, *gate = out + width * s, *up = gate + ff * s;
    if (n == 0) return true;
    threads_for(
        b->pool, width, THREADS_EVEN, gather_row,
        &(expert_rows){.from = x, .from_stride = stride, .to = in, .to_stride = s, .token = token, .n = n});
    if (!batch_site(b, in, s, width, n, e, (slot[]){GATE_EXPS, UP_EXPS, GATE_UP_EXPS, SLOTS})) return false;
    if (b->answer == FORWARD_SKIP) return true;
    if (l->weight[GATE_UP_EXPS]) {
        batch_multiply(b, GATE_UP_EXPS, e, in, s, gate, s, n);
    } else {
        batch_multiply(b, GATE_EXPS, e, in, s, gate, s, n);
        batch_multiply(b, UP_EXPS, e, in, s, up, s, n);
    }
    gate_rows(b, gate, ff, s, n);
    if (!batch_site(b, gate, s, ff, n, e, (slot[]){DOWN_EXPS, SLOTS})) return false;
    if (b->answer == FORWARD_SKIP) return true;
    batch_multiply(b, DOWN_EXPS, e, gate, s, out, s, n);
    threads_for(b->pool, width, THREADS_EVEN, scatter_row,
                &(expert_rows){.from = out,
                               .from_stride = s,
                               .to = b->part,
                               .to_stride = b->stride,
                               .token = token,
                               .weight = b->routed_weight + begin,
                               .n = n});
    return true;
}

static bool shared_expert(forward_batch *b, const float *x, size_t stride) {
    const forward_model *m = b->model;
    const layer_plan *l = b->layer->plan;
    size_t s = b->stride, width = m->sizes.width, ff = l->shared_ff;
    float *gate = b->work, *up = gate + ff * s, *out = up + ff * s, *share = out + width * s;
    batch_multiply(b, GATE_SHEXP, 0, x, stride, gate, s, b->tokens);
    batch_multiply(b, UP_SHEXP, 0, x, stride, up, s, b->tokens);
    gate_rows(b, gate, ff, s, b->tokens);
    if (!batch_site(b, gate, s, ff, b->tokens, 0, (slot[]){DOWN_SHEXP, SLOTS})) return false;
    batch_multiply(b, DOWN_SHEXP, 0, gate, s, out, s, b->tokens);
    if (l->weight[SHARED_GATE]) {
        batch_multiply(b, SHARED_GATE, 0, x, stride, share, s, b->tokens);
        m->elements->sigmoid(share, b->tokens);
        threads_for(b->pool, width, THREADS_EVEN, share_row,
                    &(expert_rows){.b = b, .to = out, .to_stride = s, .weight = share, .n = b->tokens});
    }
    batch_add(b, b->part, s, out, s, width, 1);
    return true;
}

bool batch_experts(forward_batch *b, const float *x, size_t stride) {
    const forward_model *m = b->model;
    const slot fed[] = {ROUTER, SHARED_GATE, GATE_SHEXP, UP_SHEXP, SLOTS};
    if (!batch_site(b, x, stride, m->sizes.width, b->tokens, 0, fed) || !route(b, x, stride)) return false;
    memset(b->part, 0, m->sizes.width * b->stride * sizeof *b->part);
    for (size_t e = 0; e < m->experts; e++)
        if (!expert(b, e, x, stride)) return false;
    return !b->layer->plan->shared_ff || shared_expert(b, x, stride);
}
