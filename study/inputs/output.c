#include "study/inputs/inputs.h"

#include <stdlib.h>

enum { ROWS = 192, TOKENS = 1024 }; /* of an output in memory */
_Static_assert((int)ROWS % OUTPUT_SPAN == 0, "pieces are whole spans");

/* A piece of the outputs. */
typedef struct output_piece {
    matmul *m;
    size_t row, rows, token, tokens;
} output_piece;

static void output_multiply(const output_piece *p, const output_side *s, float *y) {
    matmul_weights w = s->weights;
    w.data = (const uint8_t *)w.data + p->row * gguf_row_bytes(tensor_type_of(w.type), w.columns),
    w.rows = p->rows;
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

/* Row by row, each in the order of tokens, then of the rows of a span: sum of (a - b)^2, b NULL: zeros. Each
 * span's is added to its sums: to its power, or (b not NULL) to its error of that way. */
static void output_add_distances(const output_piece *p, const float *a, const float *b, size_t way,
                                 output_errors *sums) {
    compared_rows c = {.p = p, .a = a, .b = b};
    threads_for(matmul_pool(p->m), p->rows, THREADS_EVEN, compare_row, &c);
    for (size_t r = 0; r < p->rows; r++) {
        output_errors *of = &sums[(p->row + r) / OUTPUT_SPAN];
        *(b ? &of->error[way] : &of->power) += c.of_row[r];
    }
}

/* Outputs by a metric G, all of its rows at once: for y = X W, or the error y - y', the sum of y G y^T. */
typedef struct metric_rows {
    const output_piece *p;
    const float *wanted;
    float *y, *moved; /* got, which becomes the error; G y */
    double *of_row;
} metric_rows;

static void metric_subtract_row(void *data, size_t r, int thread) {
    const metric_rows *m = data;
    (void)thread;
    for (size_t t = r * TOKENS; t < r * TOKENS + m->p->tokens; t++) m->y[t] = m->wanted[t] - m->y[t];
}

static void metric_sum_row(void *data, size_t r, int thread) {
    const metric_rows *m = data;
    double sum = 0;
    (void)thread;
    for (size_t t = r * TOKENS; t < r * TOKENS + m->p->tokens; t++)
        sum += (double)m->y[t] * (double)m->moved[t];
    m->of_row[r] = sum;
}

static double metric_distance(const metric_rows *m, const float *metric, float *y) {
    const output_piece *p = m->p;
    threads_pool *pool = matmul_pool(p->m);
    metric_rows of = *m;
    double sum = 0;
    of.y = y;
    if (y != m->wanted) threads_for(pool, p->rows, THREADS_EVEN, metric_subtract_row, &of);
    matmul_weights g = {metric, GGUF_F32, p->rows, p->rows};
    matmul_run(p->m, &g, y, TOKENS, m->moved, TOKENS, p->tokens);
    threads_for(pool, p->rows, THREADS_EVEN, metric_sum_row, &of);
    for (size_t r = 0; r < p->rows; r++) sum += m->of_row[r];
    return sum;
}

/* Takes rows of an output as it should be, of one as it is, and for a metric of n rows, what that makes of
 * them. m NULL: there is no metric, and n is 0. */
static void lay_out_pieces(float **wanted, float **got, metric_rows *m, size_t n, memory_ledger *l) {
    size_t rows = n ? n : ROWS;
    *wanted = memory_take(l, mul_sat(rows, TOKENS), sizeof(float));
    *got = memory_take(l, mul_sat(rows, TOKENS), sizeof(float));
    if (!m) return;
    m->moved = memory_take(l, mul_sat(rows, TOKENS), sizeof(float));
    m->of_row = memory_take(l, rows, sizeof *m->of_row);
}

uint64_t output_bytes(size_t most_rows) {
    memory_ledger plain = {.counts = true}, by_metric = {.counts = true};
    metric_rows m;
    float *wanted, *got;
    lay_out_pieces(&wanted, &got, NULL, 0, &plain);
    if (most_rows) lay_out_pieces(&wanted, &got, &m, most_rows, &by_metric);
    return max(plain.bytes, by_metric.bytes);
}

static bool compare_by_metric(matmul *m, const output_side *base, const output_side *rounded, size_t n,
                              size_t tokens, output_errors *sums, gq_error *e) {
    memory_ledger l = {.failed = false};
    output_piece p = {.m = m, .rows = base->weights.rows};
    metric_rows by = {.p = &p};
    float *wanted, *got;
    lay_out_pieces(&wanted, &got, &by, p.rows, &l);
    by.wanted = wanted;
    bool ok = memory_had(&l, e);
    for (; ok && p.token < tokens; p.token += TOKENS) {
        p.tokens = tokens - p.token < TOKENS ? tokens - p.token : TOKENS;
        output_multiply(&p, base, wanted);
        sums->power += metric_distance(&by, base->metric, wanted);
        for (size_t i = 0; i < n; i++) {
            output_multiply(&p, &rounded[i], got);
            sums->error[i] += metric_distance(&by, base->metric, got);
        }
    }
    free(wanted), free(got), free(by.moved), free(by.of_row);
    return ok;
}

bool output_compare(matmul *m, const output_side *base, const output_side *rounded, size_t n, size_t tokens,
                    output_errors *sums, gq_error *e) {
    memory_ledger l = {.failed = false};
    size_t rows = base->weights.rows;
    float *wanted, *got;
    if (base->metric) return compare_by_metric(m, base, rounded, n, tokens, sums, e);
    lay_out_pieces(&wanted, &got, NULL, 0, &l);
    for (output_piece p = {.m = m}; wanted && got && p.row < rows; p.row += ROWS) {
        p.rows = rows - p.row < ROWS ? rows - p.row : ROWS;
        for (p.token = 0; p.token < tokens; p.token += TOKENS) {
            p.tokens = tokens - p.token < TOKENS ? tokens - p.token : TOKENS;
            output_multiply(&p, base, wanted);
            output_add_distances(&p, wanted, NULL, 0, sums);
            for (size_t i = 0; i < n; i++) {
                output_multiply(&p, &rounded[i], got);
                output_add_distances(&p, wanted, got, i, sums);
            }
        }
    }
    free(wanted), free(got);
    return memory_had(&l, e);
}

void output_errors_add(output_errors *to, const output_errors *spans, size_t n) {
    for (size_t k = 0; k < n; k++) {
        to->power += spans[k].power;
        for (size_t i = 0; i < OUTPUT_MOST_ROUNDED; i++) to->error[i] += spans[k].error[i];
    }
}
