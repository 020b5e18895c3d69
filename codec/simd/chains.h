/* Chains of products in registers, as matmul.c and matmul_bf16.c have them: their loops, what they may read
 * and write, and tokens that fill no vector.
 *
 * AddressSanitizer checks every access by itself, which takes ten times as long as the products. With
 * GQ_CHECK_RANGES, what chains may read and write is checked as whole ranges before they run, and their own
 * accesses are UNCHECKED. Other builds have nothing of it. */
#pragma once

#include "codec/simd/lanes.h"
#include "codec/tile.h"

#ifdef GQ_CHECK_RANGES
#include <sanitizer/asan_interface.h>
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

static void check_range(const float *p, size_t n) {
    const volatile char *bad = __asan_region_is_poisoned((void *)(uintptr_t)p, n * sizeof *p);
    if (bad) (void)*bad; /* reported as any other access */
}

/* One panel: weights are floats, and columns those that chains run over. */
static inline void check_panel(const product_tile *t, size_t panel, size_t columns) {
    const float *w = t->w.at;
    bool by_row = t->w.column_stride == 1;
    size_t lines = by_row ? t->rows : columns, stride = by_row ? t->w.row_stride : t->w.column_stride;
    for (size_t i = 0; i < lines; i++) check_range(w + i * stride, by_row ? columns : t->rows);
    for (size_t r = 0; r < t->rows; r++) check_range(t->y + r * t->y_stride, t->tokens);
    check_range(t->x, columns * panel);
}
#else
#define UNCHECKED
static inline void check_panel(const product_tile *, size_t, size_t) {}
#endif

/* A loop over registers, which must go. */
#ifdef __clang__
#define UNROLLED(i, n) _Pragma("clang loop unroll(full)") for (size_t i = 0; i < (n); i++)
#else
#define UNROLLED(i, n) _Pragma("GCC unroll 16") for (size_t i = 0; i < (n); i++)
#endif

/* Chains of a number of rows and of vectors: into y, stride y_stride, what it held, or 0, plus the products. */
typedef void chains_of(const product_tile *t, const float *w, float *y, size_t y_stride);
enum { CHAINS_MOST_ROWS = 12 };

/* Runs chains on some rows. whole: tokens of their vectors; where t has fewer it goes by way of a copy. */
static inline void chains_run(chains_of *run, const product_tile *t, size_t row, size_t rows, size_t whole) {
    const float *w = (const float *)t->w.at + row * t->w.row_stride;
    float *y = t->y + row * t->y_stride, copy[CHAINS_MOST_ROWS * MATMUL_MOST_PANEL];
    if (t->tokens == whole) {
        run(t, w, y, t->y_stride);
        return;
    }
    memset(copy, 0, sizeof *copy * rows * whole);
    for (size_t r = 0; r < rows && t->add; r++)
        memcpy(copy + r * whole, y + r * t->y_stride, sizeof *y * t->tokens);
    run(t, w, copy, whole);
    for (size_t r = 0; r < rows; r++) memcpy(y + r * t->y_stride, copy + r * whole, sizeof *y * t->tokens);
}
