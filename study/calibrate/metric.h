/* The metrics by which rows of a layer's queries, keys and values count together, gathered from the base model
 * model's stream. They are made of a fixed choice of positions in the first windows that are not held back,
 * so they depend on nothing but the model, the text and its windows. */
#pragma once

#include "forward/graph/attention/scores.h"
#include "forward/graph/block.h"
#include "forward/graph/layer.h"
#include "study/calibrate/calibration.h"

/* metric: [head][row][row], 1 on the diagonal in the mean over all heads. NULL: nothing was seen that tells
 * rows apart, so each counts by itself. */
typedef struct row_metric {
    forward_row_group group;
    float *metric;
} row_metric;

typedef struct layer_metrics {
    size_t n;
    row_metric of[FORWARD_MOST_GROUPS];
} layer_metrics;

enum { METRIC_WINDOWS = 4 }; /* that metrics are made of, at most */
/* Whether the layer has rows with a metric that an output rounds by feedback. */
bool layer_metrics_wanted(const calibration *of, const forward_layer *layer);
/* Runs the base model's stream over the layer, or the part that attends, up to its scores. The caller frees *m,
 * also on failure. */
bool layer_metrics_gather(layer_metrics *m, const calibration *of, forward_stream *base, forward_layer *layer,
                          forward_part part, gq_error *e);
void layer_metrics_free(layer_metrics *m);

/* Bytes of the metrics of a layer's groups, and those that gathering takes with them. */
uint64_t layer_metrics_bytes(const forward_row_group *groups, size_t n, size_t context, int threads);
