#include "forward/matmul.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "forward/simd/kernels.h"

enum { COLUMNS = 1024 }; /* decoded at once: a multiple of every type's block */

struct matmul {
    const kernels *codecs;
    const forward_kernels *kernels;
    int threads;
    float decoded[][COLUMNS]; /* one per thread */
};

size_t matmul_bytes(int threads) { return sizeof(matmul) + (size_t)threads * sizeof(float[COLUMNS]); }

matmul *matmul_new(const kernels *k, int threads, gq_error *e) {
    matmul *m = malloc(matmul_bytes(threads));
    if (!m) return gq_fail_memory(e, matmul_bytes(threads)), NULL;
    m->codecs = k, m->kernels = forward_kernels_of(k), m->threads = threads;
    return m;
}

void matmul_free(matmul *m) { free(m); }

int matmul_threads(const matmul *m) { return m->threads; }

void matmul_run(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                size_t y_stride, size_t tokens) {
    const gguf_type *type = gguf_type_of(w->type);
#pragma omp parallel for num_threads(m->threads) schedule(dynamic, 4)
    for (size_t r = 0; r < w->rows; r++) {
        const uint8_t *row = (const uint8_t *)w->data + r * w->row_bytes;
        float *decoded = m->decoded[omp_get_thread_num()], *to = y + r * y_stride;
        memset(to, 0, sizeof(float) * tokens);
        for (size_t first = 0; first < w->columns; first += COLUMNS) {
            size_t n = w->columns - first < COLUMNS ? w->columns - first : COLUMNS;
            m->codecs->codecs[w->type].decode(row + gguf_type_bytes(type, first), decoded, n);
            for (size_t c = 0; c < n; c++)
                m->kernels->axpy(decoded[c], x + (first + c) * x_stride, to, tokens);
        }
    }
}

void matmul_within(matmul *m, int thread, const matmul_product *p) {
    (void)thread;
    for (size_t r = 0; r < p->rows; r++) {
        float *to = p->y + r * p->y_stride;
        memset(to, 0, sizeof(float) * p->tokens);
        for (size_t c = 0; c < p->columns; c++) {
            float w = p->transposed ? p->w[c * p->w_stride + r] : p->w[r * p->w_stride + c];
            m->kernels->axpy(w, p->x + c * p->x_stride, to, p->tokens);
        }
    }
}
