/* What streams predict for the next token, compared with what the first of them does: at each position of a text from which
 * its model predicts one (forward_predicts_from), windows in order. */
#pragma once

#include "forward/stream/divergence.h"
#include "forward/stream/head.h"

typedef struct forward_predictions {
    const forward_job *job;
    const forward_model *model;
    /* Called for each position whose next token counts. position: its number for divergence_at; next: that of the token among
     * the job's. */
    bool (*at)(void *data, const divergence *d, size_t position, size_t next, double weight, gq_error *e);
    bool (*block)(void *data, size_t i, forward_layer *l, bool is_done, gq_error *e); /* as in forward_head */
    void *data;
} forward_predictions;
/* n: streams, the first of which the others are compared with. The states stay. */
bool forward_run_predictions(forward_run *r, forward_stream *const *streams, size_t n,
                             const forward_predictions *to, gq_error *e);
