/* The dense feed-forward part, and a shared expert. */
#include "forward/batch.h"

uint64_t ffn_rows(const forward_model *m, const layer_plan *l) {
    return m->arch->ffn == FFN_PLAIN ? l->ff : 2 * (uint64_t)l->ff;
}

typedef struct activated_rows {
    const forward_batch *b;
    float *first;
    size_t ff;
} activated_rows;

static void activate_row(void *data, size_t r, int thread) {
    const activated_rows *a = data;
    const forward_model *m = a->b->model;
    size_t s = a->b->stride;
    (void)thread;
    if (m->arch->ffn == FFN_PLAIN)
        m->elements->activate(m->arch->act, a->first + r * s, a->b->tokens);
    else
        m->elements->gate(m->arch->act, a->first + r * s, a->first + (a->ff + r) * s, a->b->tokens);
}

bool batch_ffn(forward_batch *b, const float *x, size_t stride) {
    const forward_model *m = b->model;
    ffn_form form = m->arch->ffn;
    size_t s = b->stride, ff = b->layer->plan->ff;
    float *first = b->work, *up = form == FFN_GATED ? first + ff * s : first;
    if (!batch_site(b, x, stride, m->sizes.width, b->tokens, 0, (slot[]){GATE, UP, SLOTS})) return false;
    if (form == FFN_GATED) batch_multiply(b, GATE, 0, x, stride, first, s, b->tokens);
    batch_multiply(b, UP, 0, x, stride, up, s, b->tokens);
    threads_for(b->pool, ff, THREADS_EVEN, activate_row, &(activated_rows){b, first, ff});
    if (!batch_site(b, first, s, ff, b->tokens, 0, (slot[]){DOWN, SLOTS})) return false;
    batch_multiply(b, DOWN, 0, first, s, b->part, s, b->tokens);
    return true;
}
