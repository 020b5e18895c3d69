/* Adds changes of low rank to what is read of a source tensor. The factors are read anew for each rectangle: they
 * are narrow, and the system keeps them in its cache, so that memory does not grow with the adapter.
 */
#include "hf/sources/sources.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

enum {
    DELTA_COLUMNS = 256, /* columns whose sums fit the first cache at once, 1 KiB */
    DELTA_RUN = 1 << 16, /* elements of a norm's piece of rows */
    DELTA_UNROLLED = 4   /* products whose sum stays in a register */
};

/* ---- factors ---- */

/* Reads elements of the adapter. One that is not finite would be taken for the model's behind the sum. */
static bool adapter_floats(const hf_list *l, const hf_stored *t, uint64_t first, uint64_t n, float *to,
                           gq_error *e) {
    if (!hf_list_floats(l, t, first, n, to, e)) return false;
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(to[i]))
            return gq_fail_as(e, GQ_BAD_WEIGHTS,
                              "%s: tensor '%s': element %llu is %g: the adapter is damaged, not the model",
                              hf_list_path(l, t->file), t->name, LLU(first + i), (double)to[i]);
    return true;
}

bool hf_factor_read(const hf_delta *d, const hf_factor *f, uint64_t m, uint64_t first, uint64_t n, float *to,
                    uint64_t by_line, uint64_t by_rank, gq_error *e) {
    uint64_t at = f->base + m * f->matrix;
    if (!f->stored) {
        for (uint64_t i = 0; i < n; i++)
            for (uint64_t k = 0; k < d->rank; k++) to[i * by_line + k * by_rank] = 1;
        return true;
    }
    bool along = f->line_stride == 1; /* lines follow one another in the source tensor, else ranks do */
    uint64_t outer = along ? d->rank : n, inner = along ? n : d->rank;
    uint64_t step = along ? 1 : f->rank_stride, span = (inner - 1) * step + 1;
    uint64_t to_outer = along ? by_rank : by_line, to_inner = along ? by_line : by_rank;
    float *part = malloc(span * sizeof *part);
    bool ok = part || gq_fail_memory(e, span * sizeof *part);
    for (uint64_t o = 0; ok && o < outer; o++) {
        uint64_t begin = along ? at + first + o * f->rank_stride : at + (first + o) * f->line_stride;
        ok = adapter_floats(d->list, f->stored, begin, span, part, e);
        for (uint64_t i = 0; ok && i < inner; i++) to[o * to_outer + i * to_inner] = part[i * step];
    }
    free(part);
    return ok;
}

/* ---- products ---- */

/* Adds p[0] q[0] + p[1] q[stride] + ... to n sums, in this order for each of them. */
static void sums_add_products(float *restrict sums, const float *restrict p, const float *restrict q,
                              uint64_t stride, uint64_t rank, uint64_t n) {
    uint64_t k = 0;
    for (; k + DELTA_UNROLLED <= rank; k += DELTA_UNROLLED) {
        const float *restrict q0 = q + k * stride, *restrict q1 = q0 + stride, *restrict q2 = q1 + stride,
                              *restrict q3 = q2 + stride;
        float p0 = p[k], p1 = p[k + 1], p2 = p[k + 2], p3 = p[k + 3];
        for (uint64_t j = 0; j < n; j++) {
            float s = sums[j] + p0 * q0[j];
            s += p1 * q1[j];
            s += p2 * q2[j];
            sums[j] = s + p3 * q3[j];
        }
    }
    for (; k < rank; k++)
        for (uint64_t j = 0; j < n; j++) sums[j] += p[k] * q[k * stride + j];
}

/* Adds the change to a rectangle of one matrix; p is [n_rows][rank], q [rank][n_columns]. */
static void rectangle_add(const hf_delta *d, const float *p, const float *q, uint64_t n_rows,
                          uint64_t n_columns, float *x) {
    float sums[DELTA_COLUMNS];
    for (uint64_t c = 0, n; c < n_columns; c += n) {
        n = min(n_columns - c, DELTA_COLUMNS);
        for (uint64_t r = 0; r < n_rows; r++) {
            float *row = x + r * n_columns + c;
            memset(sums, 0, n * sizeof *sums);
            sums_add_products(sums, p + r * d->rank, q + c, n_columns, d->rank, n);
            for (uint64_t j = 0; j < n; j++) row[j] += sums[j] * d->scale;
        }
    }
}

/* Adds one change to rows of one matrix, whose first is `row` within it. */
static bool matrix_add(const hf_delta *d, uint64_t m, uint64_t row, uint64_t n_rows, uint64_t column,
                       uint64_t n_columns, float *x, gq_error *e) {
    float *p = malloc(n_rows * d->rank * sizeof *p), *q = malloc(n_columns * d->rank * sizeof *q);
    bool ok = (p && q) || gq_fail_memory(e, (n_rows + n_columns) * d->rank * sizeof *p);
    ok = ok && hf_factor_read(d, &d->rows, m, row, n_rows, p, d->rank, 1, e) &&
         hf_factor_read(d, &d->columns, m, column, n_columns, q, 1, n_columns, e);
    if (ok) rectangle_add(d, p, q, n_rows, n_columns, x);
    free(p), free(q);
    return ok;
}

static bool delta_add(const hf_source *s, const hf_delta *d, uint64_t row, uint64_t n_rows, uint64_t column,
                      uint64_t n_columns, float *x, gq_error *e) {
    for (uint64_t some; n_rows > 0; row += some, n_rows -= some, x += some * n_columns) {
        some = min(n_rows, s->matrix_rows - row % s->matrix_rows);
        if (d->only && d->only - 1 != row / s->matrix_rows) continue;
        if (!matrix_add(d, row / s->matrix_rows, row % s->matrix_rows, some, column, n_columns, x, e))
            return false;
    }
    return true;
}

/* ---- norms of DoRA ---- */

/* Reads whole rows of the source tensor with this change alone, for norms are those of the source tensor before
 * others. */
static bool changed_rows(const hf_source *s, const hf_delta *d, uint64_t row, uint64_t n_rows, float *x,
                         gq_error *e) {
    return hf_source_read(s, row, n_rows, 0, s->columns, tensor_type_of(GGUF_F32), x, e) &&
           delta_add(s, d, row, n_rows, 0, s->columns, x, e);
}

/* Squares are summed in 64 bits, from the first column, or row, on. */
static bool norms_of_rows(const hf_source *s, const hf_delta *d, uint64_t row, uint64_t n_rows, gq_error *e) {
    float *x = NULL;
    bool ok = true;
    for (uint64_t r = row; ok && r < row + n_rows; r++) {
        double sum = 0;
        if (d->norms[r]) continue;
        if (!x && !(x = malloc(s->columns * sizeof *x))) return gq_fail_memory(e, s->columns * sizeof *x);
        ok = changed_rows(s, d, r, 1, x, e);
        for (uint64_t j = 0; ok && j < s->columns; j++) sum += (double)x[j] * (double)x[j];
        if (ok) d->norms[r] = number_bits((float)sqrt(sum));
    }
    free(x);
    return ok;
}

static bool norms_of_columns(const hf_source *s, const hf_delta *d, gq_error *e) {
    uint64_t at_once = max(1, DELTA_RUN / s->columns);
    double *sums = calloc(s->columns, sizeof *sums);
    float *x = malloc(at_once * s->columns * sizeof *x);
    bool ok = (sums && x) || gq_fail_memory(e, at_once * s->columns * sizeof *x);
    for (uint64_t r = 0, n; ok && r < s->rows; r += n) {
        n = min(at_once, s->rows - r);
        ok = changed_rows(s, d, r, n, x, e);
        for (uint64_t i = 0; ok && i < n * s->columns; i++)
            sums[i % s->columns] += (double)x[i] * (double)x[i];
    }
    for (uint64_t j = 0; ok && j < s->columns; j++) d->norms[j] = number_bits((float)sqrt(sums[j]));
    free(sums), free(x);
    return ok;
}

bool hf_delta_set_magnitude(const hf_source *s, hf_delta *d, const hf_stored *magnitude, gq_error *e) {
    uint64_t n = magnitude->n;
    d->magnitude = malloc(n * sizeof *d->magnitude);
    d->norms = calloc(n, sizeof *d->norms);
    if (!d->magnitude || !d->norms) return gq_fail_memory(e, n * sizeof *d->magnitude);
    return adapter_floats(d->list, magnitude, 0, n, d->magnitude, e) &&
           (!d->outputs_are_columns || norms_of_columns(s, d, e));
}

static float delta_factor(const hf_delta *d, uint64_t output) {
    return d->magnitude[output] / number_of_bits(d->norms[output]);
}

static bool delta_scale(const hf_source *s, const hf_delta *d, uint64_t row, uint64_t n_rows, uint64_t column,
                        uint64_t n_columns, float *x, gq_error *e) {
    if (!d->outputs_are_columns && !norms_of_rows(s, d, row, n_rows, e)) return false;
    for (uint64_t r = 0; r < n_rows; r++)
        for (uint64_t j = 0; j < n_columns; j++)
            x[r * n_columns + j] *= delta_factor(d, d->outputs_are_columns ? column + j : row + r);
    return true;
}

/* ---- rows in place of others ---- */

static int own_row_compare(const void *key, const void *item) {
    uint64_t row = *(const uint64_t *)key, other = ((const hf_own_row *)item)->row;
    return row == other ? 0 : row < other ? -1 : 1;
}

static bool rows_replace(const hf_source *s, const hf_delta *d, uint64_t row, uint64_t n_rows,
                         uint64_t column, uint64_t n_columns, float *x, gq_error *e) {
    for (uint64_t r = row; r < row + n_rows; r++) {
        const hf_own_row *own = bsearch(&r, d->own_rows, d->n_own_rows, sizeof *own, own_row_compare);
        if (own && !adapter_floats(d->list, d->columns.stored, own->at * s->columns + column, n_columns,
                                   x + (r - row) * n_columns, e))
            return false;
    }
    return true;
}

/* ---- all ---- */

/* Elements of an adapter in the place of the model's: one that is not finite is the adapter's fault. */
static bool own_elements_check(const hf_source *s, const tensor_type *as, const void *x, uint64_t n,
                               gq_error *e) {
    const float *floats = x;
    const uint16_t *halves = x, exponent = as->id == GGUF_F16 ? 0x7c00 : 0x7f80;
    bool is_half = as->id == GGUF_F16 || as->id == GGUF_BF16;
    for (uint64_t i = 0; i < n && (is_half || as->id == GGUF_F32); i++)
        if (is_half ? (halves[i] & exponent) == exponent : !isfinite(floats[i]))
            return gq_fail_as(
                e, GQ_BAD_WEIGHTS,
                "%s: tensor '%s': an element is not finite: the adapter is damaged, not the model",
                hf_list_path(s->list, s->stored->file), s->stored->name);
    return true;
}

bool hf_changed_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                     const tensor_type *as, void *to, gq_error *e) {
    if (!hf_source_read(s, row, n_rows, column, n_columns, as, to, e)) return false;
    if (s->is_adapters && !own_elements_check(s, as, to, n_rows * n_columns, e)) return false;
    for (size_t i = 0; i < s->deltas.n; i++) {
        hf_delta *d = &s->deltas.items[i];
        __atomic_store_n(&d->was_read, true, __ATOMIC_RELAXED);
        if (d->own_rows) {
            if (!rows_replace(s, d, row, n_rows, column, n_columns, to, e)) return false;
        } else if (!delta_add(s, d, row, n_rows, column, n_columns, to, e) ||
                   (d->magnitude && !delta_scale(s, d, row, n_rows, column, n_columns, to, e))) {
            return false;
        }
    }
    return true;
}

void hf_delta_free(hf_delta *d) { free(d->magnitude), free((void *)d->norms), free(d->own_rows); }

void hf_deltas_free(hf_deltas *d) {
    for (size_t i = 0; i < d->n; i++) hf_delta_free(&d->items[i]);
    free(d->items);
    *d = (hf_deltas){.items = NULL};
}
