/* States that go along the tokens of a window, at one ISA level: of delta nets and state spaces.
 *
 * Activations are feature-major as everywhere in forward/graph/, but a recurrence goes token by token. So some
 * tokens at once are transposed into scratch, where the lanes of a vector are columns of the state. A column
 * is never mixed with another, and the sum over the rows of a state is one chain in their order: results do
 * not depend on a vector's width, or on how columns are cut into tasks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    STATE_COLUMNS = 64, /* of a state that a task has, at most */
    STATE_TOKENS = 16,  /* that are transposed at once */
};

/* Some columns of a head's state S[rows][columns], for all tokens of a window in order. For each token
 *     S = diag(decay) S
 *     u = rate (value - S^T key), the delta rule; a state space has u = rate value
 *     S = S + key u^T
 *     value = S^T query * scale + skip * value
 * where S is 0 at first. Feature i of token t is at [i * stride + t]. */
typedef struct recurrence_task {
    const float *key, *query; /* [rows] */
    const float *decay;       /* [rows], or one row for all: decay_stride 0 */
    const float *rate;        /* one row */
    float *value;             /* [columns] */
    size_t stride, decay_stride, rows, columns, tokens;
    float scale, skip;
    bool is_delta;
    float *scratch; /* recurrence_floats(rows), aligned to 64 bytes */
} recurrence_task;

static inline size_t recurrence_floats(size_t rows) {
    return rows * STATE_COLUMNS + STATE_TOKENS * (4 * rows + STATE_COLUMNS);
}

/* A state space whose decay differs from element to element (Mamba-1), for some of its columns:
 *     S[j][c] = S[j][c] exp(rate_c log_decay[c][j]) + rate_c value_c key_j
 *     value_c = sum over j of S[j][c] query_j + skip_c value_c */
typedef struct selection_task {
    const float *key, *query; /* [rows] */
    const float *rate;        /* [columns] */
    float *value;             /* [columns] */
    size_t stride, rows, columns, tokens;
    const float *log_decay; /* [columns][rows] */
    const float *skip;      /* [columns] */
    float *scratch;         /* selection_floats(rows), aligned to 64 bytes */
} selection_task;

static inline size_t selection_floats(size_t rows) {
    return 2 * rows * STATE_COLUMNS + STATE_TOKENS * (2 * rows + 2 * STATE_COLUMNS) + STATE_COLUMNS;
}

/* Some columns of a head's state that forgets what other keys stand for (RWKV 7):
 *     u = S^T remove
 *     S = diag(decay) S + restore u^T + key value^T
 *     value = S^T query */
typedef struct forgetting_task {
    const float *key, *query, *decay, *remove, *restore; /* [rows] */
    float *value;                                        /* [columns] */
    size_t stride, rows, columns, tokens;
    float *scratch; /* forgetting_floats(rows), aligned to 64 bytes */
} forgetting_task;

static inline size_t forgetting_floats(size_t rows) {
    return rows * STATE_COLUMNS + STATE_TOKENS * (5 * rows + STATE_COLUMNS);
}

enum { CONVOLUTION_TAPS = 64 }; /* of a kernel, at most */

typedef struct recurrence_kernels {
    void (*recur)(const recurrence_task *t);
    void (*select)(const selection_task *t);
    /* x[t] = bias + sum over j < taps of kernel[j] x[t - (taps - 1) + j], with 0 in place of x before x[0].
     */
    void (*convolve)(float *x, const float *kernel, size_t taps, float bias, size_t n);
    /* y = e^(factor x); y may be x. Up to the next multiple of 16, floats behind n are overwritten. */
    void (*decay)(float *y, const float *x, float factor, size_t n);
    void (*forget)(const forgetting_task *t);
} recurrence_kernels;
