#include "study/calibrate/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/strips/strips.h"

/* A column is multiplied if its root mean square is a quarter of the median column's or less, or four times as much
 * or more. Ordinary columns stay: on model A of bench/results/small-models.md, whose columns all lie within that,
 * balancing all of them to the nearest power of two took the KL divergence from 0.389 of llama.cpp's to 0.435. */
static const double LEAST_LOG2 = 2;
enum {
    MOST_LOG2 = 10,   /* a factor of 1024 */
    SAMPLED_ROWS = 64 /* of a matrix: the root mean square of so many is known to a tenth */
};

typedef struct balance {
    const kernels *kernels;
    const model_source *source;
    balance_scales *found;
    const forward_scale_group *group;
    /* For a group's columns: sums of squares, the number of their values, exponents; for rows: squares. */
    double *squares, *sorted;
    int *by;
    uint8_t *stored;
    float *row;
} balance;

static bool is_scalable(const forward_scale_group *g) {
    for (size_t i = 0; i < g->n_readers; i++)
        if (!model_scales_type(g->readers[i]->type) || g->readers[i]->transposed) return false;
    for (size_t i = 0; i < g->n_makers; i++) {
        const model_tensor *t = g->makers[i];
        /* F16 may have no room for a norm's weights. */
        bool is_norm_half = !g->of_rows && t->type->id == GGUF_F16;
        if (!model_scales_type(t->type) || t->transposed || is_norm_half) return false;
    }
    return true;
}

static void balance_free(balance *b) {
    free(b->squares), free(b->sorted), free(b->by), free(b->stored), free(b->row);
}

static bool balance_allocate(balance *b, gq_error *e) {
    const forward_scale_group *g = b->group;
    size_t most = g->columns, n;
    for (size_t i = 0; i < g->n_makers; i++)
        if (g->makers[i]->ne[0] > most) most = g->makers[i]->ne[0];
    n = most > SAMPLED_ROWS ? most : SAMPLED_ROWS;
    b->squares = malloc(n * sizeof *b->squares), b->sorted = malloc(n * sizeof *b->sorted);
    b->by = malloc(g->columns * sizeof *b->by);
    b->stored = malloc(most * STORED_BYTES), b->row = malloc(most * sizeof *b->row);
    return (b->squares && b->sorted && b->by && b->stored && b->row) ||
           gq_fail_memory(e, n * (2 * sizeof *b->squares + STORED_BYTES));
}

/* Values that are not finite count as zeros: the run names them when it gets there. */
static bool balance_read_row(const balance *b, const model_tensor *t, uint64_t row, gq_error *e) {
    if (!model_read(b->source, t, row * t->ne[0], t->ne[0], b->stored, e)) return false;
    b->kernels->codecs[t->type->id].decode(b->stored, 0, b->row, t->ne[0]);
    for (uint64_t c = 0; c < t->ne[0]; c++)
        if (!isfinite(b->row[c])) b->row[c] = 0;
    return true;
}

static int balance_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double balance_median(balance *b, const double *x, size_t n) {
    memcpy(b->sorted, x, n * sizeof *x);
    qsort(b->sorted, n, sizeof *b->sorted, balance_compare);
    return b->sorted[n / 2];
}

static double row_square(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum / (double)n;
}

/* Adds up the squares of a matrix's columns, over some of its rows. Rows count alike: rows of ffn_up may be a
 * hundred times larger than others. */
static bool balance_add_matrix(balance *b, const model_tensor *t, uint64_t first, uint64_t rows,
                               gq_error *e) {
    uint64_t n = rows < SAMPLED_ROWS ? rows : SAMPLED_ROWS;
    for (uint64_t i = 0; i < n; i++) {
        if (!balance_read_row(b, t, first + i * rows / n, e)) return false;
        double square = row_square(b->row, t->ne[0]) * (double)n;
        for (size_t c = 0; square > 0 && c < t->ne[0]; c++)
            b->squares[c] += (double)b->row[c] * (double)b->row[c] / square;
    }
    return true;
}

/* The exponent that takes a mean square to another one, if they are far from each other. */
static int balance_exponent(double square, double wanted) {
    if (!(square > 0 && wanted > 0)) return 0;
    double by = 0.5 * log2(wanted / square);
    if (!(fabs(by) >= LEAST_LOG2)) return 0;
    return (int)rint(fmin(fmax(by, -MOST_LOG2), MOST_LOG2));
}

/* Takes back what would make a row of the maker far smaller than the others, or larger: then only the column
 * stood out, not what it reads, and a row that is too small has no room in F16. */
static bool balance_limit_by_rows(balance *b, uint64_t first, gq_error *e) {
    const forward_scale_group *g = b->group;
    const model_tensor *t = g->makers[0];
    size_t n = g->columns < SAMPLED_ROWS ? g->columns : SAMPLED_ROWS;
    for (size_t i = 0; i < n; i++) {
        if (!balance_read_row(b, t, first + i * g->columns / n, e)) return false;
        b->squares[i] = row_square(b->row, t->ne[0]);
    }
    double median = balance_median(b, b->squares, n);
    for (size_t c = 0; c < g->columns; c++) {
        if (!b->by[c]) continue;
        if (!balance_read_row(b, t, first + c, e)) return false;
        int room = -balance_exponent(row_square(b->row, t->ne[0]), median);
        if (b->by[c] > 0 ? room < b->by[c] : room > b->by[c]) b->by[c] = room * b->by[c] > 0 ? room : 0;
    }
    return true;
}

/* Finds the exponents of a group's columns; of_rows: of one matrix of it. */
static bool balance_choose(balance *b, uint64_t matrix, gq_error *e) {
    const forward_scale_group *g = b->group;
    memset(b->squares, 0, g->columns * sizeof *b->squares);
    for (size_t i = 0; i < g->n_judged; i++) {
        const model_tensor *t = g->readers[i];
        uint64_t rows = g->of_rows ? t->ne[1] : shape_rows(t->ne);
        if (!balance_add_matrix(b, t, matrix * t->ne[1], rows, e)) return false;
    }
    double median = balance_median(b, b->squares, g->columns);
    bool some = false;
    for (size_t c = 0; c < g->columns; c++) some |= (b->by[c] = balance_exponent(b->squares[c], median)) != 0;
    return !some || !g->of_rows || balance_limit_by_rows(b, matrix * g->makers[0]->ne[1] + g->first_row, e);
}

/* Records a column's exponent for a matrix of the group, or for all of them. */
static bool balance_record(balance *b, uint64_t matrix, size_t c, gq_error *e) {
    const forward_scale_group *g = b->group;
    model_scales *to = b->found->scales;
    if (g->of_rows)
        return model_scales_column(to, g->readers[0], matrix, c, b->by[c], e) &&
               model_scales_row(to, g->makers[0], matrix * g->makers[0]->ne[1] + g->first_row + c, -b->by[c],
                                e);
    for (size_t i = 0; i < g->n_makers; i++)
        if (!model_scales_column(to, g->makers[i], 0, c, -b->by[c], e)) return false;
    return true;
}

/* Records the exponents for all readers, matrix by matrix. */
static bool balance_record_readers(balance *b, gq_error *e) {
    const forward_scale_group *g = b->group;
    for (size_t i = 0; i < g->n_readers; i++)
        for (uint64_t k = 0; k < shape_matrices(g->readers[i]->ne); k++)
            for (size_t c = 0; c < g->columns; c++)
                if (b->by[c] && !model_scales_column(b->found->scales, g->readers[i], k, c, b->by[c], e))
                    return false;
    return true;
}

static bool balance_matrix(balance *b, uint64_t matrix, gq_error *e) {
    const forward_scale_group *g = b->group;
    if (!balance_choose(b, matrix, e)) return false;
    for (size_t c = 0; c < g->columns; c++) {
        if (!b->by[c]) continue;
        if (!balance_record(b, matrix, c, e)) return false;
        b->found->columns++;
    }
    return g->of_rows || balance_record_readers(b, e);
}

static bool balance_group(balance *b, gq_error *e) {
    const forward_scale_group *g = b->group;
    if (!is_scalable(g)) return true;
    bool ok = balance_allocate(b, e);
    uint64_t matrices = g->of_rows ? shape_matrices(g->readers[0]->ne) : 1;
    for (uint64_t i = 0; ok && i < matrices; i++) ok = balance_matrix(b, i, e);
    balance_free(b);
    return ok;
}

bool balance_find(const kernels *k, const model_source *source, const forward_model *m, balance_scales *found,
                  gq_error *e) {
    size_t blocks = forward_model_sizes(m)->blocks;
    bool ok = true;
    *found = (balance_scales){model_scales_new(e), 0};
    if (!found->scales) return false;
    for (size_t i = 0; ok && i <= blocks; i++) {
        forward_scale_group groups[FORWARD_SCALE_GROUPS];
        size_t n = forward_scale_groups(m, i, groups);
        for (size_t j = 0; ok && j < n; j++)
            ok = balance_group(&(balance){k, source, found, &groups[j], NULL, NULL, NULL, NULL, NULL}, e);
    }
    if (ok && found->columns) return true;
    model_scales_free(found->scales);
    found->scales = NULL;
    return ok;
}
