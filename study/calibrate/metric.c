/* Gathers the metrics of a layer. The base model's stream is looked at batch by batch up to the scores of the
 * layer, for batches that have one of the windows; each window's sums are added in order. */
#include "study/calibrate/calibrate.h"

#include <math.h>
#include <stdlib.h>

/* Positions of a window from one that is looked at to the next. 44 queries of a head were enough for a small model (4
 * windows of 128 tokens, every 12th position); longer windows have no more than 43 each, so that the work does not
 * grow with the square of their length. */
enum { METRIC_EVERY = 12, METRIC_POSITIONS = 43 };
static size_t metric_every(size_t context) { return max(METRIC_EVERY, ceil_div(context, METRIC_POSITIONS)); }

static uint64_t group_elements(const forward_row_group *g) {
    return mul_sat(g->heads, mul_sat(g->rows, g->rows));
}

typedef struct metric_gathering {
    const calibration *of;
    layer_metrics *to;
    forward_row_group groups[FORWARD_MOST_GROUPS];
    double *sums[FORWARD_MOST_GROUPS];
    size_t window;  /* number of the batch's first window, */
    size_t first;   /* and that among this rank's */
    uint64_t seen;  /* windows that were added */
    size_t windows; /* of the batch that are looked at */
} metric_gathering;

static void lay_out_metrics(layer_metrics *m, double **sums, memory_ledger *l) {
    for (size_t i = 0; i < m->n; i++) {
        uint64_t n = group_elements(&m->of[i].group);
        m->of[i].metric = memory_take(l, n, sizeof *m->of[i].metric);
        sums[i] = memory_take_zeros(l, n, sizeof *sums[i]);
    }
}

uint64_t layer_metrics_bytes(const forward_row_group *groups, size_t n, size_t context, int threads) {
    memory_ledger l = {.counts = true};
    layer_metrics m = {.n = n};
    double *sums[FORWARD_MOST_GROUPS];
    for (size_t i = 0; i < n; i++) m.of[i].group = groups[i];
    lay_out_metrics(&m, sums, &l);
    return add_sat(l.bytes, forward_scores_bytes(groups, n, context, metric_every(context), threads));
}

void layer_metrics_free(layer_metrics *m) {
    for (size_t i = 0; i < m->n; i++) free(m->of[i].metric);
    m->n = 0;
}

bool layer_metrics_wanted(const calibration *of, const forward_layer *layer) {
    forward_row_group groups[FORWARD_MOST_GROUPS];
    size_t n = forward_row_groups(of->streams[0], forward_layer_number(layer), groups);
    for (size_t g = 0; g < n; g++)
        if (calibration_has(of, groups[g].weight)) return true;
    return false;
}

/* Values need no tokens: they are added with the first window. */
static forward_answer metric_on_scores(void *data, const forward_scores *scores, gq_error *e) {
    metric_gathering *g = data;
    size_t n = g->to->n, every = metric_every(g->of->settings.context);
    for (size_t w = 0; w < g->windows && g->seen < METRIC_WINDOWS; w++) {
        if (calibration_is_held(&g->of->settings, g->window + w)) continue;
        const forward_mark *marks = forward_job_marks(&g->of->text.job, g->first + w);
        if (!forward_scores_add(scores, g->groups, n, w, marks, every, g->sums, e)) return FORWARD_FAILED;
        for (size_t i = 0; g->seen == 0 && i < n; i++)
            if (g->groups[i].kind == ROWS_OF_VALUES &&
                !forward_scores_add_values(scores, &g->groups[i], g->sums[i], e))
                return FORWARD_FAILED;
        g->seen++;
    }
    return FORWARD_END;
}

/* Scales a group's sums to a mean of 1 on the diagonal. Sums that are not finite, or zero, make no metric. */
static void scale_sums(row_metric *m, const double *sums) {
    size_t rows = m->group.rows, n = m->group.heads * rows;
    double mean = 0;
    bool finite = true;
    for (size_t i = 0; i < n; i++) mean += sums[i / rows * rows * rows + i % rows * (rows + 1)] / (double)n;
    for (size_t i = 0; i < n * rows; i++) finite = finite && isfinite(sums[i] / mean);
    if (!finite || !(mean > 0)) free(m->metric), m->metric = NULL;
    for (size_t i = 0; m->metric && i < n * rows; i++) m->metric[i] = (float)(sums[i] / mean);
}

/* The windows of a batch that are looked at: up to the last that is wanted. */
static size_t metric_windows(const metric_gathering *g, size_t windows) {
    uint64_t seen = g->seen;
    size_t n = 0;
    while (n < windows && seen < METRIC_WINDOWS)
        seen += !calibration_is_held(&g->of->settings, g->window + n++);
    return n;
}

/* Probes the batches in order, until there are enough windows. Where the model runs its blocks several
 * times, these are windows before its first loop. */
static bool metric_probe(metric_gathering *g, forward_stream *base, forward_layer *layer,
                         forward_sublayers which, gq_error *e) {
    const calibration *of = g->of;
    forward_observer observer = {.data = g, .on_scores = metric_on_scores};
    forward_layer_use(layer, false);
    for (size_t i = 0; i < forward_stream_batches(base) && g->seen < METRIC_WINDOWS; i++) {
        if (forward_stream_loop(base, i) > 0) break;
        size_t first = forward_stream_first(base, i);
        g->window = of->text.first_window + first, g->first = first;
        g->windows = metric_windows(g, min(of->text.bounds.batch, of->text.job.windows - first));
        observer.windows = g->windows;
        if (!forward_stream_probe(base, i, layer, which, &observer, NULL, e)) return false;
    }
    return true;
}

/* Lets the ranks measure one after another, each adding to the sums of those before it, until there are enough
 * windows. */
static bool ranks_metric_probe(metric_gathering *g, forward_stream *base, forward_layer *layer,
                               forward_sublayers which, gq_error *e) {
    gq_comm *comm = g->of->text.comm;
    for (int r = 0; r < gq_comm_ranks(comm) && g->seen < METRIC_WINDOWS; r++) {
        if (r == gq_comm_rank(comm) && !g->of->text.idle && !metric_probe(g, base, layer, which, e))
            return false;
        if (!comm_broadcast_from(comm, r, &g->seen, sizeof g->seen, e)) return false;
        for (size_t i = 0; i < g->to->n; i++)
            if (!comm_broadcast_from(comm, r, g->sums[i],
                                     group_elements(&g->to->of[i].group) * sizeof *g->sums[i], e))
                return false;
    }
    return true;
}

bool layer_metrics_gather(layer_metrics *m, const calibration *of, forward_stream *base, forward_layer *layer,
                          forward_sublayers which, gq_error *e) {
    metric_gathering g = {.of = of, .to = m};
    memory_ledger l = {.failed = false};
    *m = (layer_metrics){.n = forward_row_groups(of->streams[0], forward_layer_number(layer), g.groups)};
    for (size_t i = 0; i < m->n; i++) m->of[i].group = g.groups[i];
    lay_out_metrics(m, g.sums, &l);
    bool ok = memory_had(&l, e) && ranks_metric_probe(&g, base, layer, which, e);
    for (size_t i = 0; ok && i < m->n; i++) scale_sums(&m->of[i], g.sums[i]);
    for (size_t i = 0; i < m->n; i++) free(g.sums[i]);
    return ok;
}
