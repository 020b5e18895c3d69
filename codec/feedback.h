/* GPTQ-style rounding with error feedback (Frantar et al. 2022, arXiv:2210.17323): a row is rounded column by
 * column, and the rounding error of a column is compensated in the columns after it, as far as the columns'
 * inputs are correlated.
 *
 * A row w becomes q so that (q - t) H (q - t)^T is small. H = E[y y^T] is the Hessian, the second-moment matrix
 * of the inputs y that the quantized matrix receives (shrunk and damped, study/inputs/cholesky.c). t = w + a w
 * D H^-1 is the row that fits best, D = E[(x - y) y^T], x the inputs in the base model: asymmetric calibration,
 * the term of GPTAQ (Li et al. 2025, arXiv:2504.02692) and Qronos (arXiv:2505.11695), of which the factor a
 * takes a share. With H = R R^T, R the upper triangular Cholesky factor, the loss is the sum over columns c of
 * r_c^2,
 *
 *     r_c = R[c][c] (v_c - q_c),    v_c = w_c + (a z_c + sum over k < c of (w_k - q_k) R[k][c]) / R[c][c],
 *
 * z the solution of z R^T = w D. Matrices that write into the residual stream (the step `state` of a calibration)
 * have z R^T = p in its place: p is a row of P = E[d y^T], d the change wanted of the output for a token, so that
 * the residual stream comes nearer to the base model's. q_c is the code nearest to v_c, and an error in column c
 * costs R[c][c]^2; a block's scales are chosen with these weights, for v before the block is
 * rounded. GPTQ's own form, with the Cholesky factor of H^-1, gives the same v; this one needs no
 * inverse.
 *
 * Trials choose a block's scales again, for weights 0.3 of the way from the best trial's to v; the scales with which
 * the block's columns add the least to the loss are kept.
 *
 * Then come optional passes of coordinate descent (`sweeps`), from the last column to the first: each code is chosen
 * again, all others given. Last, each row's scales get a gain from 0.75 to 1.5, so that q H t^T = t H t^T.
 *
 * Rows are independent of each other, and all sums run in a fixed order, so that bytes depend neither on how
 * rows are grouped nor on the ISA level (except x86-64-v2, which has no fused multiply-add).
 *
 * In a chain rows are not independent: the errors e_i = t_i - q_i of a head's rows count together under a
 * metric G, and the sum over i and j of G_ij e_i H e_j^T is to be small. With S = G after eliminating the rows
 * later than k (a Schur complement), row k aims at
 *
 *     t_k + sum over finished rows j of (S_kj / S_kk) (t_j - q_j),
 *
 * which adds the same sum of (t_j - q_j) R to a z. SIMD lanes hold rows of different heads. */
#pragma once

#include "codec/codec.h"

enum { FEEDBACK_ROWS = 64 }; /* at most per call; time counts whole vectors */

/* Matrices lie in strips of STRIP_COLUMNS columns, a strip's rows one after another; columns beyond the last
 * are zero. A triangle holds each strip's rows down to its last column, zeros below the diagonal. A square has
 * all rows in each strip, in tiles of 256 x 256, each transposed: its columns one after another. */
static inline size_t feedback_strips(size_t columns) { return (columns + STRIP_COLUMNS - 1) / STRIP_COLUMNS; }
static inline size_t feedback_padded(size_t columns) { return feedback_strips(columns) * STRIP_COLUMNS; }
/* The first float of strip i; for the number of strips, the total of floats. */
static inline size_t feedback_triangle(size_t i) { return i * (i + 1) / 2 * STRIP_COLUMNS * STRIP_COLUMNS; }
static inline size_t feedback_square(size_t columns, size_t i) {
    return i * STRIP_COLUMNS * feedback_padded(columns);
}

/* The Hessian of a run of columns, as its Cholesky factor, and the GPTAQ term. */
typedef struct feedback_hessian {
    size_t columns;        /* a multiple of STRIP_COLUMNS in all runs but the last */
    const float *cholesky; /* triangle: R, the Cholesky factor. 1 on the diagonal beyond the last column */
    const float *diagonal; /* STRIP_COLUMNS x STRIP_COLUMNS per strip: H there; for coordinate descent */
    const float *gptaq_d;  /* square: D of the GPTAQ term; NULL: x = y */
    float gptaq_a;         /* a, the factor of the GPTAQ term, 0..1 */
    const float *gptaq_p;  /* P in place of D: [strip of columns][strip of rows][column][row]; NULL: none */
    matmul_arithmetic arithmetic; /* of products between strips; in bf16 R and D are rounded
                                     (feedback_round_strip) */
} feedback_hessian;

/* Rounds a strip's tiles of R off the diagonal, and its D, to bf16 in place (product_rounded of codec/tile.h);
 * the memory of both must be writable. The tile on the diagonal, and P, stay in float32. After the last strip
 * set the arithmetic. */
void feedback_round_strip(const feedback_hessian *m, size_t strip);

/* Rows that are rounded one after another. `together` rows of each head are rounded at once, far apart, without
 * feedback between them. */
typedef struct feedback_chain {
    size_t heads, length; /* rows of a head */
    size_t together;      /* divides length; heads * together is at most FEEDBACK_ROWS */
    size_t stride;        /* rows from a head's first to the next head's, in x and in the blocks */
    /* [head][length][length]: S_kj / S_kk at [k][j], j < k. k and j are places in the order of rounding
     * (feedback_chain_row). */
    const float *factors;
    float *rest; /* scratch: (t - q) R of finished rows by head and place, each of padded columns */
} feedback_chain;

/* The row of a head that is rounded at the given place of the order. */
static inline size_t feedback_chain_row(size_t length, size_t together, size_t place) {
    return place % together * (length / together) + place / together;
}

/* Makes a head's factors from the metric of its rows, metric[n][n], which is symmetric; a tenth of its mean
 * diagonal is added to the diagonal. factors[n][n] by places: S_kj / S_kk at [k][j] for places j before k,
 * else 0. Where S_kk is not above 0 so is all of row k. scratch: n x n. */
void feedback_chain_factors(const float *metric, size_t n, size_t together, float *factors, double *scratch);

typedef struct feedback_task {
    const kernels *kernels;
    uint32_t type; /* the blocks' type, which has codec_columnwise */
    codec_effort effort;
    int sweeps;                      /* passes of coordinate descent */
    const feedback_hessian *hessian; /* of runs of columns, one after another; together they are all */
    size_t n_hessians;
    size_t columns; /* whole blocks of the type */
    void *scratch;  /* feedback_bytes, aligned to 64; each thread its own */
    /* if P is given: the first row's number in the matrix, a multiple of FEEDBACK_ROWS, and the matrix's rows
     */
    size_t first_row, matrix_rows;
    uint8_t *unswept;            /* gets the blocks as they are before coordinate descent; NULL: not wanted */
    const feedback_chain *chain; /* NULL: rows are independent. No P then */
    int trials;                  /* of other scales per block */
    void (*report)(void *data, size_t rows); /* called when so many more rows are rounded; NULL: not called */
    void *data;
    const product_kernels *by; /* of products between strips, in the Hessian's arithmetic; NULL: the
                                  level's own */
} feedback_task;

/* Added to. */
typedef struct feedback_sums {
    double power,
        error; /* sums of t H t^T and (q - t) H (q - t)^T of codes after coordinate descent, before gains */
    uint64_t codes, clipped; /* codes, and those of weights beyond the codes' range */
} feedback_sums;

/* Passes of coordinate descent at an effort. Two lower the KL divergence by 6 % on model A of
 * bench/results/small-models.md, and by 26 % where a few columns are 10 to 300 times larger: such a column
 * may come late, where no later column can compensate its error. Four lower the latter by 28 %. */
static inline int feedback_sweeps(codec_effort effort) {
    return effort == EFFORT_FAST ? 0 : effort == EFFORT_BEST ? 4 : 2;
}

/* Trials of scales per block at an effort: bench/results/calibration.md has the KL divergence for some
 * numbers. */
static inline int feedback_trials(codec_effort effort) {
    return effort == EFFORT_FAST ? 0 : effort == EFFORT_BEST ? 12 : 6;
}

/* arithmetic: of products over more than a strip. UINT64_MAX: more than can be counted. */
uint64_t feedback_bytes(const kernels *k, uint32_t type, size_t columns, matmul_arithmetic arithmetic);
/* No less than that, for any type on any processor. UINT64_MAX: columns beyond what is counted. */
uint64_t feedback_most_bytes(size_t columns, matmul_arithmetic arithmetic);
/* x: rows x columns, finite; blocks: as encoders write them. rows: with a chain, heads * length, and x and
 * blocks begin with its first head's first row. */
void codec_feedback(const feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                    feedback_sums *sums);

/* The layout of a pass's scratch: floats; where they are rounded to bf16, the
 * operands; then the blocks' state of the type's codec_columnwise. */

enum {
    FEEDBACK_ARRAYS = 5,       /* with all columns of all rows */
    FEEDBACK_STRIP_ARRAYS = 7, /* with a strip's */
    FEEDBACK_STATE_BYTES =
        8, /* codec_columnwise keeps at most 6 bytes per row and column, whatever the level's vectors */
};

static inline uint64_t feedback_floats(size_t columns) {
    uint64_t n = (uint64_t)feedback_padded(columns) * FEEDBACK_ARRAYS + STRIP_COLUMNS * FEEDBACK_STRIP_ARRAYS;
    return n * FEEDBACK_ROWS + STRIP_COLUMNS * PRODUCT_TRANSPOSED;
}
/* Elements of rounded operands: two arrays with all columns of all rows, and one with a strip's. */
static inline uint64_t feedback_rounded_elements(size_t columns) {
    return (2 * (uint64_t)feedback_padded(columns) + STRIP_COLUMNS) * FEEDBACK_ROWS;
}
static inline size_t feedback_state_bytes(const codec_columnwise *s) {
    return (s->state_bytes + 63) / 64 * 64;
}
