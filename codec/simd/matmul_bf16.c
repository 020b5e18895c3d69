/* Products of bf16 parts by chains of floats (codec/tile.h), for every level but amx: operands are floats
 * that hold bf16.
 *
 * Each output has two chains, of even and of odd columns, so half as many rows as in matmul.c share the
 * registers. A group of columns is summed up in them and then added to y. */
#include "codec/simd/chains.h"
#include "codec/simd/fma.h"
#include "codec/simd/kernels.h"

#if defined(__AVX512F__)
enum { CHAIN_ROWS = 6, CHAIN_VECTORS = 2 }; /* two chains each: 24 of 32 registers */
#elif defined(__aarch64__)
enum { CHAIN_ROWS = 3, CHAIN_VECTORS = 4 }; /* 24 of 32 */
#else
enum { CHAIN_ROWS = 3, CHAIN_VECTORS = 2 }; /* 12 of 16 */
#endif
enum { BF16_PANEL_TOKENS = CHAIN_VECTORS * L, GROUP = MATMUL_BF16_GROUP };
_Static_assert((int)BF16_PANEL_TOKENS <= (int)MATMUL_MOST_PANEL, "callers make room for so many");
_Static_assert((int)CHAIN_ROWS <= (int)CHAINS_MOST_ROWS, "room for the rows");

/* ---- parts ---- */

/* Vector form of matmul_bf16_rounded, with zeros in the lower half. */
INLINE vf vf_bf16(vf x) {
    enum { TINY = (127 - 56) << 23, INFINITE = 0x7f800000, USUAL_NAN = 0x7fc00000 };
    vi bits = vf_bits(x), magnitude = bits & 0x7fffffff;
    vi rounded = (vi)((vu)bits + 0x7fff + (((vu)bits >> 16) & 1)) & (int32_t)0xffff0000;
    vf part = vf_pick(vi_less(magnitude, vi_all(TINY)), (vf){0}, vf_from_bits(rounded));
    return vf_pick(vi_less(vi_all(INFINITE), magnitude), vf_from_bits(vi_all(USUAL_NAN)), part);
}

static size_t to_group_end(size_t column) { return (GROUP - column % GROUP) % GROUP; }

static void bf16_round(const float *x, size_t n, size_t column, void *row) {
    float *to = (float *)row + column, last[L] = {0};
    size_t i = 0;
    for (; i + L <= n; i += L) vf_store(to + i, vf_bf16(vf_load(x + i)));
    if (i < n) {
        memcpy(last, x + i, sizeof *x * (n - i));
        vf_store(last, vf_bf16(vf_load(last)));
        memcpy(to + i, last, sizeof *x * (n - i));
    }
    memset(to + n, 0, sizeof *to * to_group_end(column + n));
}

static void bf16_pack(const float *x, size_t stride, size_t columns, size_t tokens, void *panel) {
    float *to = panel;
    for (size_t c = 0; c < columns; c++, x += stride, to += BF16_PANEL_TOKENS) {
        float some[BF16_PANEL_TOKENS] = {0};
        const float *from = x;
        if (tokens < BF16_PANEL_TOKENS) from = memcpy(some, x, sizeof *x * tokens);
        for (size_t v = 0; v < CHAIN_VECTORS; v++) vf_store(to + v * L, vf_bf16(vf_load(from + v * L)));
    }
    memset(to, 0, sizeof *to * BF16_PANEL_TOKENS * to_group_end(columns));
}

static void bf16_place(const float *x, size_t n, size_t column, void *panel, size_t token) {
    float *to = (float *)panel + column * BF16_PANEL_TOKENS + token;
    for (size_t i = 0; i < n; i += L) {
        size_t some = n - i < L ? n - i : L;
        float parts[L] = {0};
        memcpy(parts, x + i, sizeof *x * some);
        vf_store(parts, vf_bf16(vf_load(parts)));
        for (size_t k = 0; k < some; k++) to[(i + k) * BF16_PANEL_TOKENS] = parts[k];
    }
    for (size_t i = 0; i < to_group_end(column + n); i++) to[(n + i) * BF16_PANEL_TOKENS] = 0;
}

static product_rows bf16_tile(const float *tile, bool transposed, float *scratch) {
    const uint16_t *parts = product_rounded(tile, transposed);
    int32_t *to = (int32_t *)(void *)scratch;
    for (size_t i = 0; i < (size_t)STRIP_COLUMNS * STRIP_COLUMNS; i++)
        to[i] = (int32_t)((uint32_t)parts[i] << 16);
    return (product_rows){scratch, STRIP_COLUMNS, 1};
}

/* ---- products ---- */

/* Both are constants where this is inlined. */
UNCHECKED INLINE void bf16_chains(size_t rows, size_t vectors, const product_tile *t, const float *w,
                                  float *y, size_t y_stride) {
    const float *x = t->x;
    for (size_t column = 0; column < t->columns;
         column += GROUP, w += GROUP, x += GROUP * BF16_PANEL_TOKENS) {
        vf sum[2][CHAIN_ROWS][CHAIN_VECTORS];
        UNROLLED(r, rows) { UNROLLED(v, vectors) sum[0][r][v] = sum[1][r][v] = (vf){0}; }
#pragma GCC unroll 4
        for (size_t c = 0; c < GROUP; c += 2) UNROLLED(odd, 2) {
                vf token[CHAIN_VECTORS];
                UNROLLED(v, vectors) token[v] = vf_load(x + (c + odd) * BF16_PANEL_TOKENS + v * L);
                UNROLLED(r, rows) {
                    vf weight = vf_all(w[r * t->w.row_stride + c + odd]);
                    UNROLLED(v, vectors) sum[odd][r][v] = vf_fused(weight, token[v], sum[odd][r][v]);
                }
            }
        bool add = t->add || column > 0;
        UNROLLED(r, rows) {
            UNROLLED(v, vectors) {
                float *to = y + r * y_stride + v * L;
                vf_store(to, (add ? vf_load(to) : (vf){0}) + (sum[0][r][v] + sum[1][r][v]));
            }
        }
    }
}

#define CHAINS(name, rows, vectors) \
    UNCHECKED static void name(const product_tile *t, const float *w, float *y, size_t y_stride) { \
        bf16_chains(rows, vectors, t, w, y, y_stride); \
    }
CHAINS(bf16_most, CHAIN_ROWS, CHAIN_VECTORS)
CHAINS(bf16_one, 1, CHAIN_VECTORS)
CHAINS(bf16_most_narrow, CHAIN_ROWS, 1)
CHAINS(bf16_one_narrow, 1, 1)

static void bf16_multiply_panel(const product_tile *t) {
    static chains_of *const chains[2][2] = {{bf16_one, bf16_most}, {bf16_one_narrow, bf16_most_narrow}};
    size_t narrow = t->tokens <= L, whole = narrow ? L : BF16_PANEL_TOKENS, rows;
    check_panel(t, BF16_PANEL_TOKENS, t->columns + to_group_end(t->columns));
    for (size_t row = 0; row < t->rows; row += rows) {
        bool most = t->rows - row >= CHAIN_ROWS;
        rows = most ? CHAIN_ROWS : 1;
        chains_run(chains[narrow][most], t, row, rows, whole);
    }
}

static void bf16_multiply(const product_tile *t) {
    for (size_t i = 0; i * t->width < t->tokens; i++) {
        product_tile panel = product_panel(t, i, sizeof(float));
        bf16_multiply_panel(&panel);
    }
}

const product_kernels LEVEL(products_bf16) = {.panel = BF16_PANEL_TOKENS,
                                              .bytes = sizeof(float),
                                              .rows = CHAIN_ROWS,
                                              .rounds = true,
                                              .round = bf16_round,
                                              .pack = bf16_pack,
                                              .place = bf16_place,
                                              .tile = bf16_tile,
                                              .multiply = bf16_multiply};
