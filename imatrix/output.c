#include "imatrix/output.h"

#include <stdlib.h>

enum { ROWS = 192, TOKENS = 1024 }; /* of an output in memory */

/* A piece of the outputs. */
typedef struct piece {
    matmul *m;
    size_t row, rows, token, tokens;
} piece;

static void multiply(const piece *p, const output_side *s, float *y) {
    matmul_weights w = s->weights;
    w.data = (const uint8_t *)w.data + p->row * w.row_bytes, w.rows = p->rows;
    matmul_run(p->m, &w, s->x + p->token, s->stride, y, TOKENS, p->tokens);
}

/* Row by row, each in the order of tokens, then of rows: sum of (a - b)^2; b NULL: zeros. */
static double distance(const piece *p, const float *a, const float *b) {
    double of_row[ROWS], sum = 0;
#pragma omp parallel for num_threads(matmul_threads(p->m))
    for (size_t r = 0; r < p->rows; r++) {
        of_row[r] = 0;
        for (size_t t = r * TOKENS; t < r * TOKENS + p->tokens; t++) {
            double d = b ? (double)a[t] - (double)b[t] : (double)a[t];
            of_row[r] += d * d;
        }
    }
    for (size_t r = 0; r < p->rows; r++) sum += of_row[r];
    return sum;
}

bool output_compare(matmul *m, const output_side *original, const output_side *rounded, size_t n,
                    size_t tokens, output_errors *sums, gq_error *e) {
    size_t bytes = sizeof(float) * ROWS * TOKENS, rows = original->weights.rows;
    float *wanted = malloc(bytes), *got = malloc(bytes);
    for (piece p = {.m = m}; wanted && got && p.row < rows; p.row += ROWS) {
        p.rows = rows - p.row < ROWS ? rows - p.row : ROWS;
        for (p.token = 0; p.token < tokens; p.token += TOKENS) {
            p.tokens = tokens - p.token < TOKENS ? tokens - p.token : TOKENS;
            multiply(&p, original, wanted);
            sums->power += distance(&p, wanted, NULL);
            for (size_t i = 0; i < n; i++) {
                multiply(&p, &rounded[i], got);
                sums->error[i] += distance(&p, wanted, got);
            }
        }
    }
    bool ok = wanted && got;
    free(wanted), free(got);
    return ok ? true : gq_fail_memory(e, 2 * bytes);
}
