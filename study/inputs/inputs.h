/* Statistics of the inputs of a model's matrices: sums of squares for an imatrix, Hessians and their Cholesky factors
 * for GPTQ-style rounding, and the error of a matrix's output. */
#pragma once

#include "base/comm/ranks.h"
#include "codec/feedback.h"
#include "forward/products/matmul.h"
#include "forward/stream/stream.h"
#include "imatrix/imatrix.h"

/* ---- hessian.c ----
 * Hessian (second-moment matrix E[x x^T]) of a site, where activations flow into weights: what rounding with error
 * feedback (codec/feedback.h) goes by.
 *
 *     H = mean of y y^T, y: the inputs in the model rounded so far;
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
 * total's. */

enum { HESSIAN_TOKENS = TOKEN_GROUP };

typedef struct hessian hessian;

typedef struct hessian_shape {
    size_t columns;
    size_t width;        /* of blocks on the diagonal, outside of which nothing is known; a multiple of
                            STRIP_COLUMNS, or at least `columns`: all in one */
    bool two_streams;    /* x is not y */
    size_t group_tokens; /* of a group, at most; up to HESSIAN_TOKENS need nothing more, and 0 is those */
    size_t residual_features; /* features of d, of which P is made; 0: none is, else two_streams is false */
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
/* When ranks add the same tokens, each rank forms a share of the sums, which is set before any token is
 * added. In the end all ranks get all sums, by a collective of base/comm/ranks.h. */
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

/* ---- cholesky.c: The Cholesky factor of a Hessian, by which rounding errors are compensated ---- */

/* Counts what cholesky_factor does, in a ledger that has counted the Hessian: its own matrices join them, then
 * all but these and the sums of differences is released. */
void cholesky_count_memory(hessian_shape shape, memory_ledger *l);

/* Fills settings from a request: 0 stands for the default, a negative number for none. */
bool hessian_settings_take(hessian_settings *s, float damp, float shrink, float gptaq_a, gq_error *e);

/* With little text D is noise: T / (T + 3 n) for T tokens and n columns. */
float hessian_gptaq_a(uint64_t tokens, size_t columns);

/* Uses up the Hessian, which after that can only be freed, before f or after it. False: no memory. */
bool cholesky_factor(hessian *m, hessian_settings settings, cholesky *f, gq_error *e);
/* Makes ready for products over several strips in this arithmetic: for bf16 what they take is rounded in place
 * (codec/feedback.h), and refit_rows cannot go by it after that. */
void cholesky_round(cholesky *f, matmul_arithmetic arithmetic, threads_pool *pool);
void cholesky_free(cholesky *f);

/* The rows of a matrix that are fitted, when P is given in place of D. */
typedef struct refit_place {
    const uint64_t *rows; /* their numbers */
    uint64_t matrix_rows;
} refit_place;
/* Fits weights that are not rounded to the inputs that they get now: t = w + a u, the target that rounding has
 * (codec/feedback.h), in double precision; u = w D H^-1 or p H^-1. w: n rows of all columns, replaced by t. z: as many
 * doubles, gets u. at: NULL where D is given. Rows are shared out to the pool's threads; what comes out does not depend
 * on them. */
void refit_rows(const cholesky *f, threads_pool *pool, const refit_place *at, float *w, size_t n, double *z);

/* ---- output.c ----
 * The error of a matrix's output after rounding, on tokens that it was not calibrated with. */

/* The weights as they were with the inputs x of the base model, or what became of them with the inputs y
 * of the rounded one; feature-major. */
typedef struct output_side {
    matmul_weights weights;
    const float *x;
    size_t stride;
    const float *more; /* [rows][stride]: added to the output; NULL: nothing is */
    /* The metric G of the base model, rows x rows of its weights: d G d^T replaces the sum of d^2 over the rows of a
     * token's errors d. NULL: that sum. */
    const float *metric;
} output_side;

enum { OUTPUT_MOST_ROUNDED = 4 };
typedef struct output_errors {
    double power;                      /* sum of |X W|^2, by the metric; added to */
    double error[OUTPUT_MOST_ROUNDED]; /* sums of |X W - Y Q|^2, of each that was asked for; added to */
} output_errors;

enum { OUTPUT_SPAN = 16 }; /* rows whose errors are added up by themselves; by a metric all are */
/* Compares n ways of rounding the same weights, rounded[n], n at most OUTPUT_MOST_ROUNDED. sums: one for each
 * OUTPUT_SPAN rows, so that these can be compared a span at a time by whoever has it; with a metric one.
 * Sums do not depend on the number of threads. Not from inside a loop of the pool. False: no memory. */
bool output_compare(matmul *m, const output_side *base, const output_side *rounded, size_t n, size_t tokens,
                    output_errors *sums, gq_error *e);
/* Adds up the errors of so many spans, in their order. */
void output_errors_add(output_errors *to, const output_errors *spans, size_t n);
/* Bytes that output_compare takes meanwhile. most_rows: of the largest metric; 0: there is none. */
uint64_t output_bytes(size_t most_rows);

/* ---- collect.c ----
 * Imatrix data in the making: sums of squares of the inputs of the weights of a running model. */

/* A share of a text: groups of tokens (forward/stream/stream.h) from `begin` to `end` - 1. A process alone has all.
 */
typedef struct collection_share {
    size_t context; /* tokens of a window */
    uint64_t begin, end;
    uint64_t groups; /* of all ranks */
} collection_share;
/* The share of this rank in a text of so many windows. */
collection_share collection_share_of(const gq_comm *comm, size_t windows, size_t context);

/* Sums of the squared inputs of the weights reported so far, as a rule those of a layer. Sums are doubles: a
 * chain for each group of tokens, and groups are added in a fixed tree (base/comm/fold.h). So they depend neither
 * on batches nor on threads, nor on how many ranks have shares. */
typedef struct collection collection;
/* The tokens that will be reported are those of the share, numbered from 0. */
collection *collection_new(threads_pool *pool, collection_share share, gq_error *e);
void collection_free(collection *c);
/* Returns the observer for the calls that run the model. The collection must outlive it. */
forward_observer collection_observer(collection *c);
/* Gives rank 0 what all ranks have collected: a collective of base/comm/ranks.h. The other ranks then empty
 * theirs by collection_take. */
bool collection_gather(collection *c, gq_comm *comm, gq_error *e);
/* Hand everything out as entries, and begin anew. *im is empty before; on failure it is so again. */
bool collection_take(collection *c, imatrix *im, gq_error *e);

/* Bytes that a collection of a share takes with the layer that needs most, until that is handed out and
 * written; and of all entries' values. Of weights outside of layers only the one named `output`
 * (NULL: none) counts. UINT64_MAX: no memory to count them. */
typedef struct collection_sizes {
    uint64_t layer, entries;
} collection_sizes;
collection_sizes collection_measure(const model_source *m, size_t layers, const char *output,
                                    collection_share share, const gq_comm *comm);

/* ---- the sums that hessian.c makes and cholesky.c reads ---- */

enum { HESSIAN_TILE = STRIP_COLUMNS * STRIP_COLUMNS };

/* Sums that a rank forms: slices of so many rows of a tile, the first of them and the one behind the last. */
enum { HESSIAN_SLICE = 16, HESSIAN_SLICES = STRIP_COLUMNS / HESSIAN_SLICE };
typedef struct hessian_share_of {
    uint64_t begin, end;
} hessian_share_of;

/* A block on the diagonal. */
typedef struct hessian_block {
    size_t columns;
    float *triangle; /* sums of y y^T, as codec/feedback.h lays them out */
    float *square;   /* sums of (x - y) y^T, likewise, or of r y^T, a rectangle; NULL: x = y */
    /* The same of the group at work; NULL: its tokens all wait until it ends. */
    float *group_triangle, *group_square;
    hessian_share_of of_triangle, of_square; /* shares of the sums that this rank forms */
} hessian_block;

enum { HESSIAN_SLOT = 256 }; /* waiting tokens that the kernel takes at once */
enum { HESSIAN_PLACES = MATMUL_BF16_GROUP, HESSIAN_GROUPS = HESSIAN_TOKENS / HESSIAN_PLACES + 1 };

/* Waiting tokens of a group. Places count on and on: place p is token p % HESSIAN_TOKENS of the slots. The
 * first one is a multiple of HESSIAN_PLACES, where groups of columns begin in bf16. */
typedef struct hessian_group {
    size_t begin, end;
} hessian_group;

struct hessian {
    const kernels *level;
    const product_kernels *by; /* of the sums */
    hessian_shape shape;
    threads_pool *pool;
    hessian_block *blocks;
    size_t n_blocks;
    uint64_t tokens; /* in the sums and waiting */
    /* groups that wait; the last one is at work, the others have ended */
    hessian_group groups[HESSIAN_GROUPS];
    size_t n_groups; /* 0: no tokens were added yet */
    bool begun;      /* group_triangle and group_square have tokens of it that do not wait any more */
    /* Waiting tokens, in slots of HESSIAN_SLOT: y, [column][HESSIAN_SLOT]; y, and x - y or r, in
     * panels of columns, [token][panel]; all as the kernels take them. */
    float *y, *panels, *differences;
};

/* Columns of the i-th block. */
static inline size_t hessian_block_columns(hessian_shape s, size_t i) {
    size_t left = s.columns - i * s.width;
    return left < s.width ? left : s.width;
}
/* Features of x - y or r that belong to a block of so many columns; 0: there is nothing of the kind. */
static inline size_t hessian_second(hessian_shape s, size_t columns) {
    return s.residual_features ? s.residual_features : s.two_streams ? columns : 0;
}
static inline size_t hessian_blocks(hessian_shape s) { return (s.columns + s.width - 1) / s.width; }
/* Columns beyond this are no tensor's, and no size of a Hessian overflows. */
static inline bool hessian_countable(hessian_shape s) {
    return s.columns <= 1 << 28 && s.residual_features <= 1 << 28;
}
/* Adds all groups to the sums; the next tokens are another group's. */
void hessian_settle(hessian *m);
/* Takes the blocks with their sums of y y^T; and those of (x - y) y^T. */
void hessian_lay_out_blocks(hessian *m, memory_ledger *l);
void hessian_lay_out_differences(hessian *m, memory_ledger *l);
/* Frees what only the group at work needs. */
void hessian_drop_group(hessian *m);

/* ---- hessian_encoder.c ----
 * Encodes rows in memory under the Hessian H of their inputs, that of the rows' error: of each row the better
 * of two results is kept, of search and of GPTQ-style error feedback. */

extern const struct array_rounding rounding_by_hessian;
