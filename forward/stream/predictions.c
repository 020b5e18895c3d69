#include "forward/stream/divergence.h"

typedef struct predicting {
    const forward_predictions *to;
    forward_run *run;
    size_t from, n, copies; /* positions of a window */
    size_t first_window, windows;
    divergence *divergence; /* of these windows */
} predicting;

static bool predictions_start(void *data, size_t first_window, size_t windows, gq_error *e) {
    predicting *p = data;
    p->first_window = first_window, p->windows = windows;
    divergence_free(p->divergence);
    p->divergence = divergence_of_windows(p->to->job, first_window, windows, p->from, p->n, p->copies,
                                          forward_run_pool(p->run), e);
    return p->divergence;
}

static bool predictions_tile(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                             gq_error *) {
    const predicting *p = data;
    divergence_tile(p->divergence, (uint32_t)first, (uint32_t)rows, logits, stride);
    return true;
}

static bool predictions_end(void *data, gq_error *e) {
    const predicting *p = data;
    const forward_job *j = p->to->job;
    for (size_t i = 0; i < p->windows * p->n; i++) {
        size_t next = (p->first_window + i / p->n) * j->context + p->from + i % p->n + 1;
        double weight = forward_job_weight(j, next);
        if (weight > 0 && !p->to->at(p->to->data, p->divergence, i, next, weight, e)) return false;
    }
    return true;
}

static bool predictions_block(void *data, size_t i, forward_layer *l, bool is_done, gq_error *e) {
    const predicting *p = data;
    return p->to->block(p->to->data, i, l, is_done, e);
}

bool forward_run_predictions(forward_run *r, forward_stream *const *streams, size_t n,
                             const forward_predictions *to, gq_error *e) {
    size_t from = forward_predicts_from(to->model, to->job->context);
    predicting p = {.to = to, .run = r, .from = from, .n = to->job->context - 1 - from, .copies = n - 1};
    const forward_head head = {.from = forward_job_place(to->job, from),
                               .n = p.n,
                               .start = predictions_start,
                               .tile = predictions_tile,
                               .end = predictions_end,
                               .block = to->block ? predictions_block : NULL,
                               .data = &p};
    bool ok = forward_run_head(r, streams, n, &head, e);
    divergence_free(p.divergence);
    return ok;
}
