#include "forward/graph/pooling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "forward/graph/batch.h"
#include "forward/graph/block.h"

void pooling_read_keys(forward_model *m, key_reader *r) {
    bool by_default = m->arch->graph.final_norm == NULL && m->arch->graph.place == PLACE_PRE;
    uint64_t kind = key_number(r, "pooling_type", POOL_NONE, POOL_NONE, POOL_KINDS - 1);
    if (kind == POOL_RANK)
        kind = key_number(r, "classifier.pooling_type", by_default ? POOL_MEAN : POOL_FIRST, POOL_NONE,
                          POOL_KINDS - 1);
    m->sizes.pooling = kind == POOL_FIRST || kind == POOL_LAST ? (forward_pooling)kind : POOL_MEAN;
    m->sizes.embeds = true;
}

/* Pools a window whose first state is x; feature c is at x[c * stride]. */
static void pool_window(const forward_batch *b, const float *x, size_t stride, double *to) {
    size_t n = b->context;
    forward_pooling kind = b->model->sizes.pooling; /* mean, first or last */
    for (size_t c = 0; c < b->model->sizes.width; c++, x += stride) {
        double sum = 0;
        for (size_t i = 0; kind == POOL_MEAN && i < n; i++) sum += (double)x[i];
        to[c] = kind == POOL_MEAN ? sum / (double)n : (double)x[kind == POOL_FIRST ? 0 : n - 1];
    }
}

/* Multiplies n vectors of the matrix's columns: to[n][rows]. A row is read and decoded for all of them. */
static bool pool_multiply(const forward_model *m, const model_tensor *t, const double *x, size_t n,
                          double *to, gq_error *e) {
    size_t columns = t->ne[0], rows = t->ne[1];
    memory_ledger l = {.failed = false};
    void *raw = memory_take(&l, model_row_bytes(t), 1);
    float *row = memory_take(&l, columns, sizeof *row);
    bool ok = memory_had(&l, e);
    for (size_t r = 0; ok && r < rows; r++) {
        ok = model_read_row(m, t, r, raw, row, e);
        for (size_t i = 0; ok && i < n; i++) {
            double sum = 0;
            for (size_t c = 0; c < columns; c++) sum += (double)row[c] * x[i * columns + c];
            to[i * rows + r] = sum;
        }
    }
    free(raw), free(row);
    return ok;
}

/* Adds a bias, a row of F32, to n vectors. */
static bool pool_add(const forward_model *m, const model_tensor *bias, size_t n, double *to, gq_error *e) {
    size_t width = bias->ne[0];
    memory_ledger l = {.failed = false};
    void *raw = memory_take(&l, model_row_bytes(bias), 1);
    float *row = memory_take(&l, width, sizeof *row);
    bool ok = memory_had(&l, e) && model_read_row(m, bias, 0, raw, row, e);
    for (size_t i = 0; ok && i < n * width; i++) to[i] += (double)row[i % width];
    free(raw), free(row);
    return ok;
}

bool forward_pool(forward_batch *b, const float *normed, size_t stride, double *to, gq_error *e) {
    const forward_model *m = b->model;
    size_t most = m->sizes.width, n = b->windows;
    for (size_t i = 0; i < m->n_dense; i++) most = max(most, m->dense[i]->ne[1]);
    memory_ledger l = {.failed = false};
    double *x = memory_take(&l, mul_sat(n, most), sizeof *x),
           *y = memory_take(&l, mul_sat(n, most), sizeof *y);
    bool ok = memory_had(&l, e);
    for (size_t w = 0; ok && w < n; w++)
        pool_window(b, normed + w * b->context, stride, x + w * m->sizes.width);
    for (size_t i = 0; ok && i < m->n_dense; i++) {
        ok = pool_multiply(m, m->dense[i], x, n, y, e) &&
             (i > 0 || !m->dense_bias || pool_add(m, m->dense_bias, n, y, e));
        double *swap = x;
        x = y, y = swap;
    }
    if (ok) memcpy(to, x, n * m->sizes.embedded * sizeof *to);
    free(x), free(y);
    return ok;
}
