/* The inner loops of a product: some rows of weights by a panel of tokens, outputs in registers.
 *
 * Per column, the tokens of a panel are loaded as vectors and the weight of each row is broadcast from memory,
 * so that rows x vectors chains run side by side. MOST_ROWS is what the registers hold beside the tokens and a
 * weight; rows that are left over go four at a time, then singly. Eight chains keep two multipliers busy. */
#include "codec/simd/chains.h"
#include "codec/simd/fma.h"
#include "codec/simd/kernels.h"

#if defined(__AVX512F__)
enum { MOST_ROWS = 12, MOST_VECTORS = 2 }; /* 24 of 32 registers */
#elif defined(__aarch64__)
enum { MOST_ROWS = 6, MOST_VECTORS = 4 }; /* 24 of 32 */
#else
enum { MOST_ROWS = 6, MOST_VECTORS = 2 }; /* 12 of 16 */
#endif
enum { FEW_ROWS = 4, PANEL_TOKENS = MOST_VECTORS * L };
_Static_assert((int)PANEL_TOKENS <= (int)MATMUL_MOST_PANEL, "callers make room for so many");
_Static_assert((int)MOST_ROWS <= (int)CHAINS_MOST_ROWS, "room for the rows");

/* Into y, stride y_stride: what it held, or 0, plus the products of `rows` rows and `vectors` vectors of
 * tokens. Both are constants where this is inlined. */
UNCHECKED INLINE void matmul_chains(size_t rows, size_t vectors, const product_tile *t, product_rows of,
                                    const float *w, float *y, size_t y_stride) {
    const size_t row_stride = of.row_stride, column_stride = of.column_stride, columns = t->columns;
    const float *x = t->x;
    vf sum[MOST_ROWS][MOST_VECTORS];
    UNROLLED(r, rows) {
        UNROLLED(v, vectors) sum[r][v] = t->add ? vf_load(y + r * y_stride + v * L) : (vf){0};
    }
#pragma GCC unroll 4
    for (size_t c = 0; c < columns; c++) {
        vf token[MOST_VECTORS];
        UNROLLED(v, vectors) token[v] = vf_load(x + c * PANEL_TOKENS + v * L);
        UNROLLED(r, rows) {
            vf weight = vf_all(w[r * row_stride + c * column_stride]);
            UNROLLED(v, vectors) sum[r][v] = vf_fused(weight, token[v], sum[r][v]);
        }
    }
    UNROLLED(r, rows) { UNROLLED(v, vectors) vf_store(y + r * y_stride + v * L, sum[r][v]); }
}

/* One function for each number of rows and vectors, and for weights that lie row by row or column by column. */
#define CHAINS(name, rows, vectors) \
    UNCHECKED static void name##_by_row(const product_tile *t, const float *w, float *y, size_t y_stride) { \
        matmul_chains(rows, vectors, t, (product_rows){NULL, t->w.row_stride, 1}, w, y, y_stride); \
    } \
    UNCHECKED static void name##_by_column(const product_tile *t, const float *w, float *y, \
                                           size_t y_stride) { \
        matmul_chains(rows, vectors, t, (product_rows){NULL, 1, t->w.column_stride}, w, y, y_stride); \
    }
CHAINS(most, MOST_ROWS, MOST_VECTORS)
CHAINS(few, FEW_ROWS, MOST_VECTORS)
CHAINS(one, 1, MOST_VECTORS)
CHAINS(most_narrow, MOST_ROWS, 1)
CHAINS(few_narrow, FEW_ROWS, 1)
CHAINS(one_narrow, 1, 1)

static const struct {
    size_t rows;
    chains_of *by[2][2]; /* wide or narrow; by row or by column */
} sizes[] = {
    {MOST_ROWS, {{most_by_row, most_by_column}, {most_narrow_by_row, most_narrow_by_column}}},
    {FEW_ROWS, {{few_by_row, few_by_column}, {few_narrow_by_row, few_narrow_by_column}}},
    {1, {{one_by_row, one_by_column}, {one_narrow_by_row, one_narrow_by_column}}},
};

static void float32_multiply_panel(const product_tile *t) {
    size_t narrow = t->tokens <= L, whole = narrow ? L : PANEL_TOKENS, row = 0;
    check_panel(t, PANEL_TOKENS, t->columns);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        chains_of *run = sizes[i].by[narrow][t->w.column_stride != 1];
        for (; t->rows - row >= sizes[i].rows; row += sizes[i].rows)
            chains_run(run, t, row, sizes[i].rows, whole);
    }
}

static void float32_multiply(const product_tile *t) {
    for (size_t i = 0; i * t->width < t->tokens; i++) {
        product_tile panel = product_panel(t, i, sizeof(float));
        float32_multiply_panel(&panel);
    }
}

/* ---- operands ---- */

static void float32_round(const float *x, size_t n, size_t column, void *row) {
    memcpy((float *)row + column, x, sizeof *x * n);
}

static void float32_pack(const float *x, size_t stride, size_t columns, size_t tokens, void *panel) {
    float *to = panel;
    for (size_t c = 0; c < columns; c++, x += stride, to += PANEL_TOKENS)
        if (tokens == PANEL_TOKENS)
            memcpy(to, x, sizeof(float) * PANEL_TOKENS);
        else {
            memcpy(to, x, sizeof(float) * tokens);
            memset(to + tokens, 0, sizeof(float) * (PANEL_TOKENS - tokens));
        }
}

static void float32_place(const float *x, size_t n, size_t column, void *panel, size_t token) {
    float *to = (float *)panel + column * PANEL_TOKENS + token;
    for (size_t i = 0; i < n; i++) to[i * PANEL_TOKENS] = x[i];
}

/* The tile that lies behind it is taken next, and is called from memory meanwhile. */
static product_rows float32_tile(const float *tile, bool transposed, float *scratch) {
    const float *next = tile + STRIP_COLUMNS * STRIP_COLUMNS;
    if (!transposed) return (product_rows){tile, STRIP_COLUMNS, 1};
    for (size_t i = 0; i < STRIP_COLUMNS; i += L)
        for (size_t j = 0; j < STRIP_COLUMNS; j += L) {
            vf t[L];
            for (size_t k = 0; k < L; k++) t[k] = vf_load(tile + (i + k) * STRIP_COLUMNS + j);
            for (size_t k = 0; k < L; k++) __builtin_prefetch(next + (i + k) * STRIP_COLUMNS + j, 0, 2);
            vf_transpose(t);
            for (size_t k = 0; k < L; k++) vf_store(scratch + (j + k) * PRODUCT_TRANSPOSED + i, t[k]);
        }
    return (product_rows){scratch, PRODUCT_TRANSPOSED, 1};
}

const product_kernels LEVEL(products_float32) = {.panel = PANEL_TOKENS,
                                                 .bytes = sizeof(float),
                                                 .rows = MOST_ROWS,
                                                 .round = float32_round,
                                                 .pack = float32_pack,
                                                 .place = float32_place,
                                                 .tile = float32_tile,
                                                 .multiply = float32_multiply};
