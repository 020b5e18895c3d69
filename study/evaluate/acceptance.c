#include "study/evaluate/evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"

/* The best logit so far of each position of a batch, and its token. */
typedef struct best_logit {
    float logit;
    uint32_t token;
} best_logit;

typedef struct accepting {
    const acceptance_places *places;
    best_logit *best;
    size_t begin, positions; /* the batch's first score, and its number of them */
} accepting;

static bool acceptance_start(void *data, size_t first_window, size_t windows, gq_error *e) {
    accepting *a = data;
    (void)e;
    a->begin = a->places->first + first_window * a->places->n, a->positions = windows * a->places->n;
    for (size_t i = 0; i < a->positions; i++) a->best[i] = (best_logit){.logit = -INFINITY};
    return true;
}

static bool acceptance_tile(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                            gq_error *e) {
    accepting *a = data;
    (void)e;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < a->positions; i++)
            if (logits[0][r * stride + i] > a->best[i].logit)
                a->best[i] = (best_logit){logits[0][r * stride + i], (uint32_t)(first + r)};
    return true;
}

static bool acceptance_end(void *data, gq_error *e) {
    const accepting *a = data;
    const model_scores *to = a->places->to;
    (void)e;
    for (size_t i = 0; i < a->positions; i++)
        to->accepted[a->begin + i] = a->best[i].token == to->top[a->begin + i];
    return true;
}

bool acceptance_run(forward_run *r, forward_stream *s, const forward_model *m, const acceptance_places *p,
                    gq_error *e) {
    if (!forward_model_drafts(m) || !p->to->accepted) return true;
    size_t most = forward_stream_windows(s) * p->n;
    accepting a = {.places = p, .best = calloc(most, sizeof *a.best)};
    if (!a.best) return gq_fail_memory(e, most * sizeof *a.best);
    const forward_head head = {.from = p->from,
                               .n = p->n,
                               .start = acceptance_start,
                               .tile = acceptance_tile,
                               .end = acceptance_end,
                               .data = &a};
    forward_stream_draft(s, forward_model_draft(m, 0));
    bool ok = forward_run_head(r, &s, 1, &head, e);
    forward_stream_draft(s, NULL);
    free(a.best);
    return ok;
}

uint64_t acceptance_bytes(size_t scored, size_t batch) {
    return add_sat(mul_sat(scored, sizeof(uint32_t) + sizeof(bool)), mul_sat(batch, sizeof(best_logit)));
}
