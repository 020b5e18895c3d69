#include "imatrix/imatrix.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"

static bool make_ready(model_inputs *m, const char *path, gq_error *e) {
    imatrix *data = m->data;
    if (!imatrix_check(data, path, e)) return false;
    /* Sums become means, in place: for large mixtures of experts they are gigabytes. */
    for (uint64_t i = 0; i < data->n_entries; i++) {
        imatrix_entry *x = &data->entries[i];
        uint64_t n = x->n_values / x->n_counts;
        for (uint64_t k = 0; k < x->n_counts; k++) imatrix_column(x, k, n, x->sums + k * n);
    }
    m->n_entries = data->n_entries;
    m->chunk_count = data->chunk_count;
    m->dataset = data->n_datasets ? data->datasets[0] : NULL;
    m->warnings = data->warnings;
    return true;
}

static bool inputs_start(model_inputs *m, const char *path, gq_error *e) {
    *m = (model_inputs){.path = strdup(path), .data = calloc(1, sizeof *m->data)};
    return (m->path && m->data) || gq_fail_memory(e, strlen(path) + sizeof *m->data);
}

static bool inputs_finish(model_inputs *m, bool ok) {
    if (!ok) model_inputs_free(m);
    return ok;
}

bool model_inputs_read(model_inputs *m, const char *path, inputs_filter filter, gq_error *e) {
    bool ok = inputs_start(m, path, e) && imatrix_open(m->data, path, e);
    if (ok && filter.n) imatrix_filter(m->data, filter.texts, filter.n, filter.include);
    return inputs_finish(m, ok && make_ready(m, path, e));
}

bool model_inputs_of(model_inputs *m, imatrix *data, const char *name, gq_error *e) {
    bool ok = inputs_start(m, name, e);
    if (ok) *m->data = *data, *data = (imatrix){.n_entries = 0};
    return inputs_finish(m, ok && make_ready(m, name, e));
}

void model_inputs_free(model_inputs *m) {
    if (m->data) imatrix_free(m->data);
    free(m->data), free(m->path);
    *m = (model_inputs){.path = NULL};
}

uint32_t model_inputs_digest(const model_inputs *m) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < m->n_entries; i++) {
        const imatrix_entry *x = &m->data->entries[i];
        sum = checksum_add_text(sum, x->name);
        sum = checksum_add(sum, x->sums, x->n_values * sizeof *x->sums);
        sum = checksum_add(sum, x->counts, x->n_counts * sizeof *x->counts);
    }
    return sum;
}

const char *model_inputs_entry(const model_inputs *m, uint64_t i) { return m->data->entries[i].name; }

bool model_inputs_find(const model_inputs *m, const char *tensor, uint64_t columns, uint64_t matrices,
                       tensor_inputs *found, gq_error *e) {
    const imatrix_entry *x = m->n_entries ? imatrix_find(m->data, tensor) : NULL;
    *found = (tensor_inputs){.columns = 0};
    if (!x) return true;
    found->n_values = x->n_values;
    if (!imatrix_fits(x, columns, matrices, m->path, e)) return false;
    *found = (tensor_inputs){.columns = columns,
                             .n_values = x->n_values,
                             .n_counted = x->n_counts,
                             .n_unseen = x->n_unseen,
                             .mean_squares = x->sums};
    return true;
}

bool model_inputs_find_tensor(const model_inputs *m, const model_tensor *t, bool transposed,
                              tensor_inputs *found, gq_error *e) {
    *found = (tensor_inputs){.columns = 0};
    return transposed || model_inputs_find(m, t->name, t->ne[0], shape_matrices(t->ne), found, e);
}

uint32_t tensor_inputs_digest(const tensor_inputs *t) {
    if (!t->columns) return 0;
    return checksum_add(0, t->mean_squares, t->n_values * sizeof *t->mean_squares);
}
