/* Runs a set of experts one after another: an expert's tokens are gathered side by side, go through gate, up
 * and down, and are added to the sum with their weights. So an expert's matrices are decoded once per batch,
 * and a token's sum is formed in the order of the experts, whatever the number of threads. */
#include <string.h>

#include "forward/experts.h"

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

void experts_gate_rows(const forward_batch *b, const activation_rule *act, float *gate, size_t rows,
                       size_t stride, size_t n) {
    threads_for(b->pool, rows, THREADS_EVEN, gate_row, &(gated_rows){b, act, gate, rows, stride, n});
}

static void weigh_row(void *data, size_t r, int thread) {
    const expert_rows *s = data;
    (void)thread;
    s->b->model->elements->multiply(s->to + r * s->to_stride, s->weight, s->n);
}

void experts_weigh_rows(forward_batch *b, const float *factor, float *x, size_t rows, size_t stride,
                        size_t n) {
    threads_for(b->pool, rows, THREADS_EVEN, weigh_row,
                &(expert_rows){.b = b, .to = x, .to_stride = stride, .weight = factor, .n = n});
}

/* gate = act(gate) up, of the matrices for an expert's tokens, or act(up) where it has no gate. */
static void multiply_in(const experts_run *r, const expert_set *set, size_t e, const float *in, float *gate,
                        size_t s, size_t n) {
    forward_batch *b = r->b;
    const model_tensor *const *weight = b->layer->plan->weight;
    size_t ff = set->ff;
    if (set->both != WEIGHT_SLOTS && weight[set->both]) {
        batch_multiply(b, set->both, e, in, s, gate, s, n);
    } else {
        bool is_plain = !weight[set->gate];
        if (!is_plain) batch_multiply(b, set->gate, e, in, s, gate, s, n);
        batch_multiply(b, set->up, e, in, s, is_plain ? gate : gate + ff * s, s, n);
    }
    experts_gate_rows(b, &b->layer->plan->experts_act, gate, ff, s, n);
}

static bool experts_run_one(const experts_run *r, const expert_set *set, size_t e) {
    forward_batch *b = r->b;
    const experts_choice *choice = set->choice;
    bool scales_inputs = b->model->arch->routing.scales_inputs;
    size_t width = r->l->width, ff = set->ff;
    size_t begin = choice->begin[e], n = choice->begin[e + 1] - begin, s = forward_stride(n);
    const uint32_t *token = choice->token + begin;
    const float *weight = choice->weight + begin;
    batch_tokens routed = {token, scales_inputs ? NULL : weight, n};
    float *in = r->work, *out = in + width * s, *gate = out + width * s;
    if (n == 0) return true;
    threads_for(
        b->pool, width, THREADS_EVEN, gather_row,
        &(expert_rows){
            .from = r->in, .from_stride = r->in_stride, .to = in, .to_stride = s, .token = token, .n = n});
    if (scales_inputs) experts_weigh_rows(b, weight, in, width, s, n);
    const weight_slot first[] = {set->gate, set->up, set->both, WEIGHT_SLOTS};
    if (!batch_site_tokens(b, in, s, width, &routed, e, first)) return false;
    if (b->answer == FORWARD_SKIP) return true;
    kept_values middle = {gate, ff, s, n};
    if (!batch_recall(b, set->down, e, KEPT_INPUTS, &middle)) {
        multiply_in(r, set, e, in, gate, s, n);
        batch_keep(b, set->down, e, KEPT_INPUTS, &middle);
    }
    if (!batch_site_tokens(b, gate, s, ff, &routed, e, (weight_slot[]){set->down, WEIGHT_SLOTS}))
        return false;
    if (b->answer == FORWARD_SKIP) return true;
    batch_multiply(b, set->down, e, gate, s, out, s, n);
    threads_for(b->pool, width, THREADS_EVEN, scatter_row,
                &(expert_rows){.from = out,
                               .from_stride = s,
                               .to = r->sum,
                               .to_stride = b->stride,
                               .token = token,
                               .weight = routed.gate,
                               .n = n});
    return true;
}

bool experts_run_set(const experts_run *r, const expert_set *set) {
    kept_values sum = {r->sum, r->l->width, r->b->stride, r->b->tokens};
    if (batch_recall(r->b, set->down, 0, KEPT_SUM, &sum)) return true;
    memset(r->sum, 0, sum.rows * sum.stride * sizeof *r->sum); /* a recall that failed leaves some of it */
    for (size_t e = 0; e < set->experts; e++)
        if (!experts_run_one(r, set, e)) return false;
    batch_keep(r->b, set->down, 0, KEPT_SUM, &sum);
    return true;
}
