/* Products of bf16 parts by the tiles of AMX (codec/tile.h): the same bytes as codec/simd/matmul_bf16.c.
 *
 * TDPBF16PS does for 16 x 16 outputs and 32 columns just what tile.h defines: a chain of even columns and one
 * of odd ones, then y + (even + odd). It takes denormals for zeros, of which there are none. A row is 16 bits
 * per element. A panel holds two columns side by side for each token: element (column, token) is number
 * (column / 2 * PANEL_TOKENS + token) * 2 + column % 2.
 *
 * Tiles belong to the thread, and 8 KiB more are saved with it as long as they are in use. So each call
 * configures them and releases them at its end, which takes about 80 ns together. */
#ifndef GQ_TILE_MODEL /* a test has functions in place of the instructions */
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

#include "codec/tile.h"

enum { GROUP = MATMUL_BF16_GROUP, SIDE = 16, PANEL_TOKENS = 2 * SIDE, TILES = 8 };
_Static_assert((int)PANEL_TOKENS <= (int)MATMUL_MOST_PANEL, "callers make room for so many");

/* ---- parts ---- */

static size_t tile_group_rest(size_t column) { return (GROUP - column % GROUP) % GROUP; }

static void amx_round(const float *x, size_t n, size_t column, void *row) {
    uint16_t *to = (uint16_t *)row + column;
    for (size_t i = 0; i < n; i++) to[i] = matmul_bf16_rounded(x[i]);
    memset(to + n, 0, sizeof *to * tile_group_rest(column + n));
}

/* Two columns; the second one may be missing. */
static void pack_pair(const float *even, const float *odd, size_t tokens, uint16_t *to) {
    float some[2][PANEL_TOKENS] = {{0}};
    if (tokens < PANEL_TOKENS || !odd) {
        memcpy(some[0], even, sizeof *even * tokens);
        if (odd) memcpy(some[1], odd, sizeof *odd * tokens);
        even = some[0], odd = some[1];
    }
    for (size_t t = 0; t < PANEL_TOKENS; t++)
        to[2 * t] = matmul_bf16_rounded(even[t]), to[2 * t + 1] = matmul_bf16_rounded(odd[t]);
}

static void amx_pack(const float *x, size_t stride, size_t columns, size_t tokens, void *panel) {
    uint16_t *to = panel;
    for (size_t c = 0; c < columns; c += 2, x += 2 * stride)
        pack_pair(x, c + 1 < columns ? x + stride : NULL, tokens, to + c * PANEL_TOKENS);
    size_t packed = columns + columns % 2;
    memset(to + packed * PANEL_TOKENS, 0, sizeof *to * PANEL_TOKENS * tile_group_rest(packed));
}

static void amx_place(const float *x, size_t n, size_t column, void *panel, size_t token) {
    uint16_t *to = panel;
    size_t end = column + n + tile_group_rest(column + n);
    for (size_t c = column; c < end; c++)
        to[(c / 2 * PANEL_TOKENS + token) * 2 + c % 2] =
            c - column < n ? matmul_bf16_rounded(x[c - column]) : 0;
}

static product_rows amx_tile(const float *tile, bool transposed, float *) {
    return (product_rows){product_rounded(tile, transposed), STRIP_COLUMNS, 1};
}

/* ---- products ---- */

/* Sets the tiles up for 16 + 16 rows, or fewer: 0 to 3 are outputs, of both halves of the rows by both of the
 * tokens; 4 and 5 the halves of the rows; 6 and 7 those of the tokens. */
static void configure(size_t upper, size_t lower) {
    struct __attribute__((packed)) {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } c = {.palette = 1};
    const size_t rows[TILES] = {upper, upper, lower, lower, upper, lower, SIDE, SIDE};
    for (size_t i = 0; i < TILES; i++)
        if (rows[i]) c.row_bytes[i] = 64, c.rows[i] = (uint8_t)rows[i];
    __asm__ volatile("" ::"r"(&c) : "memory"); /* gcc 12 believes that only 8 bytes of it are read */
    _tile_loadconfig(&c);
}

/* Bytes from a row to the next, of the weights and of y. */
typedef struct block_strides {
    size_t w, y;
} block_strides;

/* 32 x 32 outputs: to what is in y, or to zeros. */
static void multiply_block(const uint16_t *w, const uint16_t *x, size_t groups, float *y, block_strides s,
                           bool add) {
    float *lower = y + SIDE * s.y / sizeof *y;
    __asm__ volatile("" ::: "memory"); /* gcc 12 does not know that loading a tile reads memory */
    if (add) {
        _tile_loadd(0, y, s.y);
        _tile_loadd(1, y + SIDE, s.y);
        _tile_loadd(2, lower, s.y);
        _tile_loadd(3, lower + SIDE, s.y);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t g = 0; g < groups; g++, w += GROUP, x += GROUP * PANEL_TOKENS) {
        _tile_loadd(4, w, s.w);
        _tile_loadd(5, w + SIDE * s.w / sizeof *w, s.w);
        _tile_loadd(6, x, 4 * PANEL_TOKENS);
        _tile_loadd(7, x + PANEL_TOKENS, 4 * PANEL_TOKENS);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, y, s.y);
    _tile_stored(1, y + SIDE, s.y);
    _tile_stored(2, lower, s.y);
    _tile_stored(3, lower + SIDE, s.y);
    __asm__ volatile("" ::: "memory");
}

/* Up to 16 x 32 outputs. */
static void multiply_half(const uint16_t *w, const uint16_t *x, size_t groups, float *y, block_strides s) {
    __asm__ volatile("" ::: "memory");
    _tile_loadd(0, y, s.y);
    _tile_loadd(1, y + SIDE, s.y);
    for (size_t g = 0; g < groups; g++, w += GROUP, x += GROUP * PANEL_TOKENS) {
        _tile_loadd(4, w, s.w);
        _tile_loadd(6, x, 4 * PANEL_TOKENS);
        _tile_loadd(7, x + PANEL_TOKENS, 4 * PANEL_TOKENS);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, y, s.y);
    _tile_stored(1, y + SIDE, s.y);
    __asm__ volatile("" ::: "memory");
}

/* Up to 32 rows by a panel's tokens, by way of a copy. */
static void multiply_by_copy(const product_tile *t, size_t row, size_t rows) {
    const uint16_t *w = (const uint16_t *)t->w.at + row * t->w.row_stride;
    float *y = t->y + row * t->y_stride, copy[2 * SIDE][PANEL_TOKENS] = {{0}};
    size_t groups = (t->columns + GROUP - 1) / GROUP;
    block_strides s = {sizeof *w * t->w.row_stride, sizeof *copy};
    for (size_t r = 0; r < rows && t->add; r++) memcpy(copy[r], y + r * t->y_stride, sizeof *y * t->tokens);
    if (rows > SIDE)
        multiply_block(w, t->x, groups, copy[0], s, true);
    else
        multiply_half(w, t->x, groups, copy[0], s);
    for (size_t r = 0; r < rows; r++) memcpy(y + r * t->y_stride, copy[r], sizeof *y * t->tokens);
}

/* 32 rows by a panel's tokens. */
static void multiply_rows(const product_tile *t, size_t row) {
    const uint16_t *w = (const uint16_t *)t->w.at + row * t->w.row_stride;
    block_strides s = {sizeof *w * t->w.row_stride, sizeof *t->y * t->y_stride};
    if (t->tokens == PANEL_TOKENS)
        multiply_block(w, t->x, (t->columns + GROUP - 1) / GROUP, t->y + row * t->y_stride, s, t->add);
    else
        multiply_by_copy(t, row, 2 * SIDE);
}

static void amx_multiply(const product_tile *t) {
    size_t whole = t->rows / (2 * SIDE) * (2 * SIDE), left = t->rows - whole;
    size_t panels = (t->tokens + t->width - 1) / t->width;
    if (whole) configure(SIDE, SIDE);
    for (size_t i = 0; i < panels && whole; i++) {
        product_tile panel = product_panel(t, i, sizeof(uint16_t));
        for (size_t row = 0; row < whole; row += 2 * SIDE) multiply_rows(&panel, row);
    }
    if (left) configure(left < SIDE ? left : SIDE, left > SIDE ? left - SIDE : 0);
    for (size_t i = 0; i < panels && left; i++) {
        product_tile panel = product_panel(t, i, sizeof(uint16_t));
        multiply_by_copy(&panel, whole, left);
    }
    _tile_release();
}

extern const product_kernels products_bf16_amx;
const product_kernels products_bf16_amx = {.panel = PANEL_TOKENS,
                                           .bytes = sizeof(uint16_t),
                                           .rows = 2 * SIDE,
                                           .rounds = true,
                                           .round = amx_round,
                                           .pack = amx_pack,
                                           .place = amx_place,
                                           .tile = amx_tile,
                                           .multiply = amx_multiply};
