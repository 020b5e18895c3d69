/* The rows of a matrix that is rounded, and memory for as many of them as are at hand at once: rows with a metric in
 * chains, a head's rows one after another (codec/feedback.h), all others in groups of rows that know nothing of each other.
 *
 * A matrix is a list of spans of rows. Ranks have contiguous shares of them and go through these in steps, as
 * many as the largest share needs. */
#pragma once

#include "codec/feedback.h"
#include "study/calibrate/metric.h"
#include "study/calibrate/round.h"
#include "study/inputs/output.h"

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
    double *scratch; /* for feedback_chain_factors */
} row_chains;

/* The metrics of a tensor's rows; n 0: it has none. The pointers are those of m. */
layer_metrics chains_metrics_of(const layer_metrics *m, const model_tensor *t);

/* The ways of rounding, each with all of those before it. */
typedef enum round_way {
    WAY_PLAIN, /* plain encoding */
    WAY_PASS,  /* with error feedback */
    WAY_SWEPT, /* and with sweeps behind it */
    ROUND_WAYS
} round_way;

typedef struct matrix_rows {
    const round_task *task;
    const model_tensor *tensor;
    const tensor_type *from, *to;
    size_t columns;
    size_t n_rows, most; /* of the matrix; at once */
    round_way last;      /* that is tried */
    threads_pool *pool;
    uint8_t *raw;
    uint8_t *blocks[ROUND_WAYS]; /* as each way makes them; NULL: that way is not tried */
    float *x;
    uint8_t *scratches; /* of codec_feedback, scratch_bytes for each thread */
    size_t scratch_bytes;
    matmul_arithmetic arithmetic;
    const layer_metrics *metrics; /* of the rows */
    row_chains chains;            /* where there are metrics; all rows are at hand at once then */
    size_t n_spans;               /* of the matrix */
    uint64_t turn;                /* of comm_share_in_turn: site_turn of the output and the matrix */
    size_t share, share_end;      /* this rank's */
    size_t steps, step_spans;
    /* the rows at hand: spans of this rank, where they are from row `first` on */
    size_t span, span_end;
    uint64_t first;
    output_errors *errors; /* per span, on held-back tokens */
    /* What is told of the matrix: the share that was done before the work at hand, and the share of that. */
    double reported, at_hand;
    /* Where ranks share the rows: this one's blocks, a step behind the other; those of all ranks' spans of a
     * step, and where each rank's begin. */
    uint8_t *own, *gathered;
    uint64_t *begins;
} matrix_rows;

/* Rows of a span without a metric: those that output errors are added up by. So few that many ranks have as
 * much to do as each other. */
enum { SPAN_ROWS = OUTPUT_SPAN };
_Static_assert((int)FEEDBACK_ROWS % SPAN_ROWS == 0 && (int)CALIBRATION_ROWS % FEEDBACK_ROWS == 0,
               "groups of rows are whole spans");

/* Lays out the rows of a matrix, for ways up to the last one of the job, or for plain encoding. */
bool rows_new(matrix_rows *r, const round_task *t, bool calibrated, gq_error *e);
void rows_free(matrix_rows *r);
/* Returns the bytes that round_matrix takes for a matrix of the tensor, besides its inputs. metrics: of its
 * rows, by their groups. UINT64_MAX: too many to count. */
uint64_t rows_bytes(const calibration_settings *s, const model_tensor *tensor, const layer_metrics *metrics,
                    const tensor_type *to, int threads, int ranks);
/* Reads and decodes the rows of this rank's spans in a step, which are at hand from then on. */
bool rows_read(matrix_rows *r, size_t step, gq_error *e);

static inline size_t rows_to_bytes(const matrix_rows *r) { /* of a row */
    return gguf_row_bytes(r->to, r->columns);
}
chain_span rows_span(const matrix_rows *r, size_t i);
/* The first span of a rank's share. */
size_t rows_spans_begin(const matrix_rows *r, int rank);
/* The spans of a rank in a step are those from here on; *end: up to before this one. */
size_t rows_step_spans(const matrix_rows *r, size_t step, int rank, size_t *end);
/* The rows of spans i to end - 1 that are one behind the other: without a metric of all, else of one. *next:
 * the span behind them. */
chain_span rows_together_from(const matrix_rows *r, size_t i, size_t end, size_t *next);
/* Where a span is among the rows at hand. */
size_t rows_place(const matrix_rows *r, const chain_span *s);
/* The rows of spans begin to end - 1. */
size_t rows_of_spans(const matrix_rows *r, size_t begin, size_t end);
/* Rows at hand. */
size_t rows_count(const matrix_rows *r);
