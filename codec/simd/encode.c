/* The one driver of all encoders: rows to batches. */
#include "codec/simd/encoder.h"

/* x[i] = element i of all lanes; lane k's elements start at from[k]. n is a multiple of 16. */
INLINE void transpose_lanes(const float *const from[L], size_t n, vf *x) {
    for (size_t i = 0; i < n; i += L) {
        for (int k = 0; k < L; k++) x[i + (size_t)k] = vf_load(from[k] + i);
        vf_transpose(x + i);
    }
}

/* Rows lie far apart, too many for a CPU to foresee where it reads next; and where they do not, its search
 * takes it too long to read on. `step`: from the weights of a lane to those of the next one. */
INLINE void prefetch_lanes(const float *first, size_t lanes, size_t step, size_t n) {
    for (size_t k = 0; k < lanes; k++)
        for (size_t i = 0; i < n; i += 16) __builtin_prefetch(first + k * step + i, 0, 3);
}

/* Binary16 holds the factors of tiny weights badly or not at all. Where what the decoder makes of a block is
 * then farther from its weights than zeros are, it becomes zeros, which zero bytes are in every type. */
static void keep_or_zero(const batch *b, const encoder *e, uint8_t *out, size_t stride, size_t lanes) {
    for (size_t k = 0; k < lanes; k++, out += stride) {
        float y[256];
        double beyond_zeros = 0; /* sum w ((y - x)^2 - x^2) */
        /* Q6_K's factor is the smallest beside its weights: 1 / 4096 of them. */
        if (b->unit[k] > 0x1p-10f) continue;
        e->decode(out, 0, y, e->elements);
        for (size_t i = 0; i < e->elements; i++) {
            double x = (double)b->x[i][k] * (double)b->unit[k], w = b->weighted ? (double)b->w[i] : 1;
            beyond_zeros += w * (double)y[i] * ((double)y[i] - 2 * x);
        }
        if (beyond_zeros > 0) memset(out, 0, e->bytes);
    }
}

void LEVEL(encode_rows)(const encoder *e, const float *x, uint8_t *out, size_t rows, size_t cols,
                        const float *column, const encode_settings *settings) {
    const codec_search *search = &e->searches[settings->effort][column != NULL];
    /* Without importance every block can count as a row: all batches but the last are full, and what is read
     * lies together. */
    if (!column) rows *= cols / e->elements, cols = e->elements;
    size_t stride = cols / e->elements * e->bytes;
    batch b;
    for (size_t r = 0; r < rows; r += L, out += L * stride) {
        size_t lanes = rows - r < L ? rows - r : L;
        const float *from[L];
        for (size_t k = 0; k < L; k++) from[k] = x + (r + (k < lanes ? k : lanes - 1)) * cols;
        for (size_t c = 0; c < cols; c += e->elements) {
            transpose_lanes(from, e->elements, b.x);
            for (int k = 0; k < L; k++) from[k] += e->elements;
            if (c + e->elements < cols)
                prefetch_lanes(x + r * cols + c + e->elements, lanes, cols, e->elements);
            else if (r + L < rows)
                prefetch_lanes(x + (r + L) * cols, rows - r - L < L ? rows - r - L : L, cols, e->elements);
            batch_start(&b, column ? column + c : NULL, (int)e->elements);
            uint8_t *blocks = out + c / e->elements * e->bytes;
            e->encode_batch(&b, search, blocks, stride, lanes);
            keep_or_zero(&b, e, blocks, stride, lanes);
        }
    }
}
