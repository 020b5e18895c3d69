#include "imatrix/output.h"

#include <stdlib.h>

#include "base/memory.h"

enum { ROWS = 192, TOKENS = 1024 }; /* of an output in memory */

/* A piece of the outputs. */
typedef struct output_piece {
    matmul *m;
    size_t row, rows, token, tokens;
} output_piece;

static void output_multiply(const output_piece *p, const output_side *s, float *y) {
    matmul_weights w = s->weights;
    w.data = (const uint8_t *)w.data + p->row * w.row_bytes, w.rows = p->rows;
    matmul_run(p->m, &w, s->x + p->token, s->stride, y, TOKENS, p->tokens);
    for (size_t r = 0; s->more && r < p->rows; r++) {
        const float *more = s->more + (p->row + r) * s->stride + p->token;
        for (size_t t = 0; t < p->tokens; t++) y[r * TOKENS + t] += more[t];
    }
}

typedef struct compared_rows {
    const output_piece *p;
    const float *a, *b;
    double of_row[ROWS];
} compared_rows;

static void compare_row(void *data, size_t r, int thread) {
    compared_rows *c = data;
    double sum = 0;
    (void)thread;
    for (size_t t = r * TOKENS; t < r * TOKENS + c->p->tokens; t++) {
        double d = c->b ? (double)c->a[t] - (double)c->b[t] : (double)c->a[t];
        sum += d * d;
    }
    c->of_row[r] = sum;
}

/* Row by row, each in the order of tokens, then of rows: sum of (a - b)^2; b NULL: zeros. */
static double output_distance(const output_piece *p, const float *a, const float *b) {
    compared_rows c = {.p = p, .a = a, .b = b};
    double sum = 0;
    threads_for(matmul_pool(p->m), p->rows, THREADS_EVEN, compare_row, &c);
    for (size_t r = 0; r < p->rows; r++) sum += c.of_row[r];
    return sum;
}

/* Takes a piece of an output as it should be, and one as it is. */
static void lay_out_pieces(float **wanted, float **got, memory_ledger *l) {
    *wanted = memory_take(l, ROWS * TOKENS, sizeof(float));
    *got = memory_take(l, ROWS * TOKENS, sizeof(float));
}

uint64_t output_bytes(void) {
    memory_ledger l = {.counts = true};
    float *wanted, *got;
    lay_out_pieces(&wanted, &got, &l);
    return l.bytes;
}

bool output_compare(matmul *m, const output_side *original, const output_side *rounded, size_t n,
                    size_t tokens, output_errors *sums, gq_error *e) {
    memory_ledger l = {.failed = false};
    size_t rows = original->weights.rows;
    float *wanted, *got;
    lay_out_pieces(&wanted, &got, &l);
    for (output_piece p = {.m = m}; wanted && got && p.row < rows; p.row += ROWS) {
        p.rows = rows - p.row < ROWS ? rows - p.row : ROWS;
        for (p.token = 0; p.token < tokens; p.token += TOKENS) {
            p.tokens = tokens - p.token < TOKENS ? tokens - p.token : TOKENS;
            output_multiply(&p, original, wanted);
            sums->power += output_distance(&p, wanted, NULL);
            for (size_t i = 0; i < n; i++) {
                output_multiply(&p, &rounded[i], got);
                sums->error[i] += output_distance(&p, wanted, got);
            }
        }
    }
    free(wanted), free(got);
    return memory_had(&l, e);
}
