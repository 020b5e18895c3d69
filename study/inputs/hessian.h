/* Hessian (second-moment matrix E[x x^T]) of a site, where activations flow into weights: what rounding with error feedback
 * (codec/feedback.h) goes by.
 *
 *     H = mean of y y^T, y: what flows in the model rounded so far;
 *     D = mean of (x - y) y^T, x: the same tokens in the base model; nothing where both streams are one;
 *     P = mean of r y^T in place of it, r: what the matrix's output is to change by, of as many features as
 *         the matrix has rows.
 *
 * Sums are in float32, in the order of forward/stream/stream.h: a chain per group of tokens, and group after group.
 * They depend on that alone, not on calls, threads, or the level (but x86-64-v2). After 65,536 tokens they
 * were off by 7e-8 of what is added up without signs (docs/internals/forward.md); what is known of the mean after so
 * many is off by 4e-3.
 *
 * The tokens of a group wait until it ends, so that a group needs no sums of its own beside the total's. Only
 * where a window is longer than HESSIAN_TOKENS, and so a group, does it have its own: as large as the
 * total's.
 */
#pragma once

#include "base/comm/ranks.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "codec/feedback.h"
#include "forward/stream/stream.h"

enum { HESSIAN_TOKENS = TOKEN_GROUP };

typedef struct hessian hessian;

typedef struct hessian_shape {
    size_t columns;
    size_t width;           /* of blocks on the diagonal, outside of which nothing is known; a multiple of
                            PASS_COLUMNS, or at least `columns`: all in one */
    bool two_streams;       /* x is not y */
    size_t group_tokens;    /* of a group, at most; up to HESSIAN_TOKENS need nothing more, and 0 is those */
    size_t target_features; /* features of r, of which P is made; 0: none is, else two_streams is false */
    matmul_arithmetic arithmetic; /* of products. In bf16 (codec/tile.h) tokens are columns: groups begin at
                                     the first token of a group of tokens */
} hessian_shape;

/* Bytes that a Hessian takes. UINT64_MAX: too many. The width is no larger than the columns. */
uint64_t hessian_bytes(hessian_shape shape);

/* Makes a Hessian for the threads of a pool, which lives as long. NULL: no memory. */
hessian *hessian_new(const kernels *k, hessian_shape shape, threads_pool *pool, gq_error *e);
void hessian_free(hessian *m);
/* Feature-major: feature c of token t at x[c * x_stride + t]. x NULL: the same as y. Where P is made x is r,
 * and not NULL. Not from inside a loop of the pool. */
void hessian_add(hessian *m, const float *x, size_t x_stride, const float *y, size_t y_stride, size_t tokens);
/* The tokens of the next calls are another group's. Where groups are no longer than HESSIAN_TOKENS a group
 * ends after so many by itself. */
void hessian_end_group(hessian *m);
/* Where ranks add the same tokens each forms a share of the sums, which must be told before any are added;
 * and in the end all get all sums, a collective of base/comm/ranks.h. */
void hessian_share(hessian *m, const gq_comm *comm);
bool hessian_gather(hessian *m, gq_comm *comm, gq_error *e);
/* In place of tokens: their mean, columns x columns, which is symmetric. For one stream. */
void hessian_set(hessian *m, const float *mean);
/* The mean squares of y per column; zeros where there are no tokens. */
void hessian_mean_squares(hessian *m, float *columns);
uint64_t hessian_tokens(const hessian *m);

/* ---- made ready for rounding ---- */
typedef struct hessian_settings {
    float damp;        /* share of a column's mean square that is added to it */
    float shrink;      /* 0..1: how far H is drawn towards its diagonal */
    float gptaq_a;     /* 0..1: how far D moves the target; negative: hessian_gptaq_a */
    bool mean_damping; /* the same is added to every column: damp times the mean of their squares */
    void (*report)(void *data,
                   double share); /* called as the Cholesky factor is computed; NULL: not called */
    void *data;
} hessian_settings;
#define HESSIAN_DEFAULT ((hessian_settings){0.01f, 0.3f, -1, false, NULL, NULL})

typedef struct cholesky {
    feedback_hessian *runs; /* of columns: the blocks of the diagonal */
    size_t n_runs;          /* 0: H has no Cholesky factor with any damping up to 1, or no token was seen */
    uint64_t tokens;
    size_t unseen; /* columns that were always zero; they meet no feedback */
    float damp;    /* the damping that H took, the largest of its blocks' */
} cholesky;
