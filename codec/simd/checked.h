/* AddressSanitizer checks every access by itself, which takes ten times as long as the products. With GQ_CHECK_RANGES, what
 * chains may read and write is checked as whole ranges before they run, and their own accesses are UNCHECKED. Other builds
 * have nothing of it. */
#ifndef GQ_CODEC_SIMD_CHECKED_H
#define GQ_CODEC_SIMD_CHECKED_H

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
    bool by_row = t->w.column_step == 1;
    size_t lines = by_row ? t->rows : columns, step = by_row ? t->w.row_step : t->w.column_step;
    for (size_t i = 0; i < lines; i++) check_range(w + i * step, by_row ? columns : t->rows);
    for (size_t r = 0; r < t->rows; r++) check_range(t->y + r * t->y_stride, t->tokens);
    check_range(t->x, columns * panel);
}
#else
#define UNCHECKED
static inline void check_panel(const product_tile *t, size_t panel, size_t columns) {
    (void)t, (void)panel, (void)columns;
}
#endif

#endif
