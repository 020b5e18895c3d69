/* A matrix's rows as they are rounded: rows with a metric in chains, a head's rows one after another
 * (codec/feedback.h), all others in groups of rows that know nothing of each other. */
#ifndef GQ_CALIBRATE_CHAINS_H
#define GQ_CALIBRATE_CHAINS_H

#include "codec/feedback.h"
#include "quantize/study/calibrate/metric.h"

/* Rows that one thread rounds. */
typedef struct chain_task {
    size_t first, rows;   /* rows: with a chain, all of its heads' */
    feedback_chain chain; /* heads 0: none */
} chain_task;

/* Rows whose output errors count together. */
typedef struct chain_span {
    size_t first, rows;
    const float *metric; /* rows x rows; NULL: each row counts by itself */
} chain_span;

typedef struct row_chains {
    size_t n_tasks, n_spans;
    chain_task *tasks;
    chain_span *spans;
    float *factors, *rest;
    double *scratch; /* for coupling_factors */
} row_chains;

/* The metrics of a tensor's rows; n 0: it has none. The pointers are those of m. */
layer_metrics chains_metrics_of(const layer_metrics *m, const model_tensor *t);
/* Allocates or counts memory for a matrix of rows x columns with these metrics (not for the metrics). */
void chains_lay_out(row_chains *c, const layer_metrics *m, size_t rows, size_t columns, memory_ledger *l);
/* Returns how many heads of a group are in a chain, at most; *together: rows of each that are rounded at
 * once.
 */
size_t chains_heads(const forward_row_group *g, const kernels *k, int threads, size_t *together);
/* Returns how many spans a matrix has: heads of one group after another, then rows without a metric. */
size_t chains_spans(const layer_metrics *m, size_t rows);
/* Fills it: all spans, and the tasks of those from `begin` to end - 1. threads: that will share the tasks;
 * which rows go together in one decides no bytes. */
void chains_fill(row_chains *c, const layer_metrics *m, size_t rows, size_t columns, const kernels *k,
                 int threads, size_t begin, size_t end);
void chains_free(row_chains *c);

#endif
