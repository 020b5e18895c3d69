/* Runs a set of experts one after another: an expert's tokens are gathered side by side, go through gate, up and
 * down, and are added to the sum with their weights. So an expert's matrices are decoded once per batch, and a
 * token's sum is formed in the order of the experts, whatever the number of threads. Tokens are gathered and
 * added for a group of experts at a time, so that a row of the batch is read once for all of them. */
#include <string.h>

#include "forward/graph/experts/experts.h"

/* Successive experts whose tokens stand side by side, each expert's from a multiple of a vector's lanes on. */
typedef struct expert_group {
    size_t first, end;
    size_t stride;
    uint64_t ran; /* a bit for each of the experts: all of it was computed */
} expert_group;
enum { MOST_IN_GROUP = 64 };

/* A copy between rows of the batch and rows of a group. */
typedef struct expert_rows {
    const experts_choice *choice;
    const expert_group *group;
    const float *from;
    float *to;
    size_t from_stride, to_stride;
    bool is_weighed;
} expert_rows;

/* Puts the columns of the experts' tokens side by side. */
static void gather_row(void *data, size_t r, int) {
    const expert_rows *g = data;
    const float *from = g->from + r * g->from_stride;
    float *to = g->to + r * g->to_stride;
    for (size_t e = g->group->first; e < g->group->end; e++) {
        size_t begin = g->choice->begin[e], n = g->choice->begin[e + 1] - begin;
        const uint32_t *token = g->choice->token + begin;
        for (size_t i = 0; i < n; i++) to[i] = from[token[i]];
        to += forward_stride(n);
    }
}

static void scatter_row(void *data, size_t r, int) {
    const expert_rows *s = data;
    const float *from = s->from + r * s->from_stride;
    float *to = s->to + r * s->to_stride;
    for (size_t e = s->group->first; e < s->group->end; e++) {
        size_t begin = s->choice->begin[e], n = s->choice->begin[e + 1] - begin;
        const uint32_t *token = s->choice->token + begin;
        const float *weight = s->choice->weight + begin;
        if (s->group->ran >> (e - s->group->first) & 1)
            for (size_t i = 0; i < n; i++) to[token[i]] += (s->is_weighed ? weight[i] : 1) * from[i];
        from += forward_stride(n);
    }
}

void experts_gate_rows(forward_batch *b, const activation_rule *act, batch_values gate) {
    bool is_plain = b->model->arch->graph.plain_experts;
    batch_gate_rows(b, act, gate, is_plain ? NULL : gate.x + gate.rows * gate.stride, gate.stride);
}

typedef struct expert_middle {
    const expert_set *set;
    size_t e, stride, n;
    const float *in;
    float *gate;
} expert_middle;

/* gate = act(gate) up, of the matrices for an expert's tokens, or act(up) where it has no gate. */
static bool expert_make_middle(forward_batch *b, void *data) {
    const expert_middle *of = data;
    const expert_set *set = of->set;
    size_t e = of->e, s = of->stride, n = of->n;
    const float *in = of->in;
    float *gate = of->gate;
    const model_tensor *const *weight = b->layer->plan->weight;
    size_t ff = set->ff;
    if (set->both != WEIGHT_SLOTS && weight[set->both]) {
        batch_multiply(b, set->both, e, in, s, gate, s, n);
    } else {
        bool is_plain = !weight[set->gate];
        if (!is_plain) batch_multiply(b, set->gate, e, in, s, gate, s, n);
        batch_multiply(b, set->up, e, in, s, is_plain ? gate : gate + ff * s, s, n);
    }
    experts_gate_rows(b, &b->layer->plan->experts_act, (batch_values){gate, ff, s, n});
    return true;
}

/* in, gate, out: the expert's columns of a group's rows, s floats apart. *ran: its sites let it go to the
 * end. */
static bool experts_run_one(const experts_run *r, const expert_set *set, size_t e, float *in, float *gate,
                            float *out, size_t s, bool *ran) {
    forward_batch *b = r->b;
    const experts_choice *choice = set->choice;
    bool scales_inputs = b->model->arch->graph.routing.scales_inputs;
    size_t width = r->l->width, ff = set->ff;
    size_t begin = choice->begin[e], n = choice->begin[e + 1] - begin;
    const float *weight = choice->weight + begin;
    batch_tokens routed = {choice->token + begin, scales_inputs ? NULL : weight, n};
    if (n == 0) return true;
    if (scales_inputs) batch_multiply_rows(b, (batch_values){in, width, s, n}, weight, 0);
    const weight_slot first[] = {set->gate, set->up, set->both, WEIGHT_SLOTS};
    if (!batch_report_some(b, in, s, &routed, e, first)) return false;
    if (b->answer == FORWARD_SKIP) return true;
    const batch_values middle = {gate, ff, s, n};
    if (!batch_make(b, set->down, e, RESULT_INPUTS, &middle, expert_make_middle,
                    &(expert_middle){set, e, s, n, in, gate}) ||
        !batch_report_some(b, gate, s, &routed, e, (weight_slot[]){set->down, WEIGHT_SLOTS}))
        return false;
    if (b->answer == FORWARD_SKIP) return true;
    batch_multiply(b, set->down, e, gate, s, out, s, n);
    return *ran = true;
}

static size_t expert_stride(const experts_choice *c, size_t e) {
    return forward_stride(c->begin[e + 1] - c->begin[e]);
}

/* Takes as many experts as fit into r->work; any single one fits. */
static expert_group experts_take_group(const experts_run *r, const expert_set *set, size_t first) {
    expert_group g = {.first = first, .end = first + 1, .stride = expert_stride(set->choice, first)};
    for (; g.end < set->experts && g.end - first < MOST_IN_GROUP; g.end++) {
        size_t more = g.stride + expert_stride(set->choice, g.end);
        if (more > r->b->stride) break;
        g.stride = more;
    }
    return g;
}

static bool experts_run_group(const experts_run *r, const expert_set *set, expert_group *g) {
    forward_batch *b = r->b;
    size_t width = r->l->width, s = g->stride;
    float *in = r->work, *out = in + width * s, *gate = out + width * s;
    expert_rows rows = {set->choice, g, r->in, in, r->in_stride, s, false};
    if (s == 0) return true;
    threads_for(b->pool, width, THREADS_EVEN, gather_row, &rows);
    for (size_t e = g->first, at = 0; e < g->end; at += expert_stride(set->choice, e), e++) {
        bool ran = false;
        if (!experts_run_one(r, set, e, in + at, gate + at, out + at, s, &ran)) return false;
        g->ran |= (uint64_t)ran << (e - g->first);
    }
    rows = (expert_rows){
        set->choice, g, out, r->sum, s, b->stride, !b->model->arch->graph.routing.scales_inputs};
    if (g->ran) threads_for(b->pool, width, THREADS_EVEN, scatter_row, &rows);
    return true;
}

typedef struct expert_sum {
    const experts_run *r;
    const expert_set *set;
} expert_sum;

static bool expert_make_sum(forward_batch *b, void *data) {
    const expert_sum *of = data;
    memset(of->r->sum, 0, of->r->l->width * b->stride * sizeof *of->r->sum);
    for (size_t e = 0; e < of->set->experts;) {
        expert_group g = experts_take_group(of->r, of->set, e);
        if (!experts_run_group(of->r, of->set, &g)) return false;
        e = g.end;
    }
    return true;
}

bool experts_run_set(const experts_run *r, const expert_set *set) {
    const batch_values sum = {r->sum, r->l->width, r->b->stride, r->b->tokens};
    return batch_make(r->b, set->down, 0, RESULT_SUM, &sum, expert_make_sum, &(expert_sum){r, set});
}
