/* The dense feed-forward part, and a shared expert. */
#include "forward/batch.h"

uint64_t ffn_rows(const forward_model *m, const layer_plan *l) {
    return m->arch->ffn == FFN_PLAIN ? l->ff : 2 * (uint64_t)l->ff;
}

bool batch_ffn(forward_batch *b, const float *x, size_t stride) {
    const forward_model *m = b->model;
    const element_kernels *k = m->elements;
    ffn_form form = m->arch->ffn;
    activation act = m->arch->act;
    size_t s = b->stride, ff = b->layer->plan->ff;
    float *first = b->work, *up = form == FFN_GATED ? first + ff * s : first;
    if (!batch_site(b, x, stride, m->sizes.width, b->tokens, 0, (slot[]){GATE, UP, SLOTS})) return false;
    if (form == FFN_GATED) batch_multiply(b, GATE, 0, x, stride, first, s, b->tokens);
    batch_multiply(b, UP, 0, x, stride, up, s, b->tokens);
#pragma omp parallel for num_threads(b->threads)
    for (size_t r = 0; r < ff; r++) {
        if (form == FFN_PLAIN)
            k->activate(act, first + r * s, b->tokens);
        else
            k->gate(act, first + r * s, first + (ff + r) * s, b->tokens);
    }
    if (!batch_site(b, first, s, ff, b->tokens, 0, (slot[]){DOWN, SLOTS})) return false;
    batch_multiply(b, DOWN, 0, first, s, b->part, s, b->tokens);
    return true;
}
