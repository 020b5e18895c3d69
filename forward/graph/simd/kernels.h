/* The functions of this folder that are compiled once per ISA level. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "arch/graph.h"
#include "codec/codec.h"

/* Operations on activations one by one, or along the features of each token, at one ISA level.
 *
 * Tokens are the lanes, so no sum runs across a vector, and results do not depend on its width. Only
 * exponentials use fused products. */

/* An activation with its numbers. */
typedef struct activation_rule {
    activation act;
    float limit; /* of gates: act(gate) is at most this, and x within -limit and limit; 0: they are free */
    bool limits_input; /* the limit bounds the activation's input, not its output */
    /* ACT_SITU: positive tanh(x / positive) sigmoid(x), of gates times linear tanh(u / linear), linear 0: u.
     * ACT_XIELU: above 0 positive x^2 + linear x; else negative (e^min(x, eps) - 1 - x) + linear x */
    float positive, negative, linear, eps;
} activation_rule;

enum { ELEMENT_SPAN = 64 }; /* tokens that norms and softmax take at once, at most */

/* y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias over the features of each of n tokens; to
 * unit length x / sqrt(sum(x^2) + eps) takes the place of the fraction. */
typedef struct norm_task {
    const float *x;
    float *y; /* may be x */
    size_t x_stride, y_stride, features, n;
    const float *weight, *bias; /* per feature; NULL: 1, 0 */
    bool one_weight;            /* weight[0] for all features */
    float eps;
    bool center;  /* else the mean is not taken off */
    bool to_unit; /* not centered */
} norm_task;

/* Softmax along the rows of s[rows][n], each column for itself; columns up to the next multiple of 16 are
 * overwritten. First s = scale * s; with a cap, cap * tanh(s / cap); then slope times the distance between
 * query and key is taken off. */
typedef struct softmax_task {
    float *s;
    size_t stride, rows, n;
    float scale, cap; /* cap 0: none */
    float slope;
    /* Rows are keys at the positions from `key` on, columns queries from `query` on: a query sees keys up to
     * `ahead` positions behind its own, and of those before it the last window - 1. */
    bool masks;                       /* else it sees all keys */
    size_t key, query, ahead, window; /* window 0: all before it */
    const float *sink;                /* one more logit, which is not in the result; or NULL */
} softmax_task;

typedef struct element_kernels {
    void (*norm)(const norm_task *t);
    void (*softmax)(const softmax_task *t);
    void (*activate)(const activation_rule *r, float *x, size_t n);                /* x = act(x), n floats */
    void (*gate)(const activation_rule *r, float *gate, const float *x, size_t n); /* gate = act(gate) x */
    void (*exponential)(float *x, size_t n);
    void (*sigmoid)(float *x, size_t n);
    void (*softplus)(float *x, size_t n);           /* ln(1 + e^x) */
    void (*root)(float *x, size_t n);               /* square root */
    void (*clamp)(float *x, float limit, size_t n); /* x within -limit and limit */
    void (*cap)(float *x, float cap, size_t n);     /* x = cap tanh(x / cap) */
    /* (u, v) rotated: u = u cos - v sin, v = u sin + v cos. */
    void (*rotate)(float *u, float *v, const float *cosine, const float *sine, size_t n);
    void (*add)(float *x, float y, size_t n);
    void (*add_scaled)(float *x, const float *y, float factor, size_t n); /* x += factor y */
    void (*scale)(float *x, float factor, size_t n);
    void (*multiply)(float *x, const float *y, size_t n);
} element_kernels;

/* States that go along the tokens of a window, at one ISA level: of delta nets and state spaces.
 *
 * Activations are feature-major as everywhere in forward/graph/, but a recurrence goes token by token. So
 * some tokens at once are transposed into scratch, where the lanes of a vector are columns of the state. A
 * column is never mixed with another, and the sum over the rows of a state is one chain in their order:
 * results do not depend on a vector's width, or on how columns are cut into tasks. */

enum {
    STATE_COLUMNS = 64, /* of a state that a task has, at most */
    STATE_TOKENS = 16,  /* tokens that are transposed at once */
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
    /* x[t] = bias + sum over j < taps of kernel[j] x[t - (taps - 1) + j], with 0 in place of x before x[0]. */
    void (*convolve)(float *x, const float *kernel, size_t taps, float bias, size_t n);
    /* y = e^(factor x); y may be x. Up to the next multiple of 16, floats behind n are overwritten. */
    void (*decay)(float *y, const float *x, float factor, size_t n);
    void (*forget)(const forgetting_task *t);
} recurrence_kernels;

/* Running sums of one model for a group of positions (forward/stream/kld.h), which are the lanes. */
enum { KLD_POSITIONS = 32 };
typedef struct kld_sums {
    double max[KLD_POSITIONS];
    double sum[KLD_POSITIONS];   /* of e^(z - max) */
    double cross[KLD_POSITIONS]; /* of e^(z - max) (z - w), where z and max are the base model's */
    double right[KLD_POSITIONS]; /* the right token's logit */
    int64_t top[KLD_POSITIONS];
} kld_sums;
/* Adds a tile of the vocabulary to the first n positions' sums but `right`: tokens from `first` on, of which
 * model m has position t's r-th at logits[m][r * stride + at + t]. */
typedef struct kld_task {
    kld_sums *to; /* per model, the base model first */
    size_t models, n, at, stride;
    uint32_t first, rows;
    const float *const *logits;
} kld_task;
typedef void kld_adds(const kld_task *k);

typedef struct forward_kernels {
    const element_kernels *elements;
    const recurrence_kernels *recurrence;
    kld_adds *add_kld;
} forward_kernels;

/* Returns the functions of the same ISA level as k. */
const forward_kernels *forward_kernels_of(const kernels *k);
