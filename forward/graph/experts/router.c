/* The router: which experts each token is sent to, and with what weights. Its values become weights by
 * softmax or another function, before the choice or behind it. A token takes its `used` best experts, where
 * the row says so only from the best groups, or with a bias that counts for the choice alone. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "forward/graph/experts/experts.h"

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
        /* Finite, whatever the biases: infinities mark groups that are left out. */
        scores[g] = fmaxf(-FLT_MAX, fminf(first + second, FLT_MAX));
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

/* The small experts of the experts that the token values most: the weight of small expert i is the
 * probability at place i, as llama.cpp has it, though that is expert i's own. A small expert may be chosen
 * twice. The share of a group is a float there, too. */
static void choose_chunks(const experts_run *r, const candidates *c, const float *p, size_t token) {
    const experts_numbers *n = r->n;
    const experts_choice *to = &r->own->chunks;
    uint32_t *chosen = to->chosen + token * n->chunks_used;
    float *weight = to->chosen_weight + token * n->chunks_used, share = 1 / (float)n->chunk_group, sum = 0;
    size_t last = n->experts;
    for (size_t k = 0; k < n->chunks_used; k++) {
        last = next_largest(c, last, NULL, 1);
        uint32_t chunk = (uint32_t)((float)last * share);
        chosen[k] = chunk < n->chunks ? chunk : (uint32_t)n->chunks - 1;
        weight[k] = p[chosen[k] * r->b->stride + token];
        sum += weight[k];
    }
    for (size_t k = 0; k < n->chunks_used; k++) weight[k] /= fmaxf(sum, 0x1p-14f);
}

static void choose_experts(const experts_run *r, const float *p, size_t token, int thread) {
    const experts_numbers *n = r->n;
    size_t step = r->b->stride;
    const float *chooses = n->chunks ? p + n->experts * step : p;
    candidates c = {chooses + token, r->b->layer->bias_values[WEIGHT_EXPERT_CHOICE], n->experts, step};
    float *groups = n->groups > 1 ? r->own->group_score + (size_t)thread * n->groups : NULL;
    uint32_t *chosen = r->own->routed.chosen + token * n->used;
    float *weight = r->own->routed.chosen_weight + token * n->used, sum = 0;
    size_t last = n->experts;
    const int32_t *table = r->l->table ? r->own->table + (size_t)r->ids[token] * n->used : NULL;
    if (groups) choose_groups(n, &c, groups);
    for (size_t k = 0; k < n->used; k++) {
        last = table ? (size_t)table[k] : next_largest(&c, last, groups, groups ? n->experts / n->groups : 1);
        chosen[k] = (uint32_t)last;
        weight[k] = p[last * step + token];
    }
    if (n->is_late) weigh(r, weight, n->used);
    for (size_t k = 0; k < n->used; k++) sum += weight[k];
    for (size_t k = 0; k < n->used; k++) {
        if (n->is_normalized) weight[k] /= fmaxf(sum, 0x1p-14f);
        weight[k] *= n->scale;
    }
    if (n->chunks) choose_chunks(r, &c, p, token);
}

/* Sorts tokens by expert, in ascending order. scale: a factor of what each expert gives; NULL: 1. */
static void sort_by_expert(const experts_run *r, const experts_choice *c, size_t used, size_t experts,
                           const float *scale) {
    size_t n = r->b->tokens;
    uint32_t *begin = c->begin;
    memset(begin, 0, (experts + 1) * sizeof *begin);
    for (size_t i = 0; i < n * used; i++) begin[c->chosen[i]]++;
    for (size_t e = 0, at = 0; e <= experts; e++) {
        size_t count = begin[e];
        begin[e] = (uint32_t)at, at += e < experts ? count : 0;
    }
    for (size_t i = 0; i < n * used; i++) {
        uint32_t place = begin[c->chosen[i]]++;
        c->token[place] = (uint32_t)(i / used);
        c->weight[place] = c->chosen_weight[i] * (scale ? scale[c->chosen[i]] : 1);
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

/* Reads the layer's table of experts, and checks what it has for the tokens of the batch. */
static bool read_table(const experts_run *r) {
    const forward_batch *b = r->b;
    const experts_numbers *n = r->n;
    const model_tensor *t = r->l->table;
    if (!t) return true;
    if (!model_read(b->model->file, t, 0, n->vocabulary * n->used, r->own->table, b->e)) return false;
    for (size_t i = 0; i < b->tokens * n->used; i++) {
        size_t id = (size_t)r->ids[i / n->used];
        int32_t expert = r->own->table[id * n->used + i % n->used];
        const int32_t *row = r->own->table + id * n->used;
        bool is_twice = false; /* an expert has room for each token once */
        for (size_t k = 0; k < i % n->used; k++) is_twice |= row[k] == expert;
        if (expert >= 0 && (size_t)expert < n->experts && !is_twice) continue;
        gq_fail(b->e, "%s: tensor %s: row %zu has expert %d%s, expected different ones of %zu",
                b->model->path, t->name, id, expert, is_twice ? " twice" : "", n->experts);
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
        if (r->n->chunks) { /* the sigmoids choose */
            float *chooses = row + experts * b->stride;
            memcpy(chooses, row, n * sizeof *row);
            k->sigmoid(chooses, n);
        }
        if (f == ROUTER_SIGMOID) k->sigmoid(row, n);
        if (f == ROUTER_ROOT_SOFTPLUS) k->softplus(row, n), k->root(row, n);
    }
    if (f == ROUTER_SOFTMAX)
        k->softmax(&(softmax_task){.s = p + first, .stride = b->stride, .rows = experts, .n = n, .scale = 1});
    for (size_t t = first; t < first + n; t++) choose_experts(r, p, t, thread);
}

bool experts_route(experts_run *r, const float *x, size_t stride) {
    forward_batch *b = r->b;
    float *p = b->work;
    batch_multiply(b, WEIGHT_FFN_ROUTER, 0, x, stride, p, b->stride, b->tokens);
    /* experts cannot be chosen by values that are not finite */
    if (!check_bias(r) || !read_table(r) ||
        !batch_finite(b, "what comes from the router", b->layer->plan->weight[WEIGHT_FFN_ROUTER], p,
                      b->stride, r->n->experts, b->tokens))
        return false;
    threads_for(b->pool, ceil_div(b->tokens, ELEMENT_SPAN), 1, choose_span, r);
    const experts_numbers *n = r->n;
    sort_by_expert(r, &r->own->routed, n->used, n->experts, b->layer->values[WEIGHT_FFN_DOWN_SCALE]);
    if (n->chunks) sort_by_expert(r, &r->own->chunks, n->chunks_used, n->chunks, NULL);
    return true;
}
