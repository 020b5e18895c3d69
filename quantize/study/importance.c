/* Importance data as objects of the public header: opened, described, matched with a model, merged and
 * written. A gq_imatrix owns the data (imatrix/imatrix.h) and a row of statistics for each entry; rows are
 * made again whenever the data change. Coverage lists the weights of a model that a quantizer may change,
 * with the entry of each; then the entries that no such weight has, and those of them that no tensor of the
 * model has. Layouts, statistics and merging are done in imatrix/; compute.c makes data by running a model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name_index.h"
#include "imatrix/entries.h"
#include "imatrix/merge.h"
#include "imatrix/read.h"
#include "imatrix/stats.h"
#include "mixes/assign.h"
#include "mixes/mixes.h"
#include "quantize/study/importance.h"

struct gq_imatrix {
    imatrix data;
    char *path;
    gq_imatrix_row *rows;
    gq_imatrix_facts facts;
};

static void importance_fill_row(gq_imatrix_row *to, const imatrix_stats *s) {
    *to = (gq_imatrix_row){.name = s->entry->name,
                           .role = s->role,
                           .layer = s->layer,
                           .values = s->entry->n_values,
                           .experts = s->entry->n_counts,
                           .experts_unseen = s->entry->n_unseen,
                           .counts = s->entry->counts,
                           .sum = s->sum,
                           .min = s->min,
                           .max = s->max,
                           .mean = s->mean,
                           .deviation = s->deviation,
                           .active = s->active,
                           .entropy = s->entropy,
                           .evenness = s->evenness,
                           .outliers = s->outliers,
                           .cosine = s->cosine};
}

static bool make_rows(gq_imatrix *m, gq_error *e) {
    uint64_t n = m->data.n_entries;
    free(m->rows);
    m->rows = calloc(n + 1, sizeof *m->rows);
    imatrix_stats *stats = calloc(n + 1, sizeof *stats);
    bool ok =
        m->rows && stats ? imatrix_statistics(&m->data, stats, e) : gq_fail_memory(e, n * sizeof *stats);
    for (uint64_t i = 0; ok && i < n; i++) importance_fill_row(&m->rows[i], &stats[i]);
    free(stats);
    const imatrix *d = &m->data;
    m->facts = (gq_imatrix_facts){.size = sizeof m->facts,
                                  .legacy = d->legacy,
                                  .chunk_count = d->chunk_count,
                                  .chunk_size = d->chunk_size,
                                  .n_entries = d->n_entries,
                                  .n_datasets = d->n_datasets,
                                  .datasets = (const char *const *)d->datasets,
                                  .warnings = d->warnings ? d->warnings : ""};
    return ok;
}

gq_imatrix *importance_of(imatrix *data, const char *path, gq_error *e) {
    gq_imatrix *m = calloc(1, sizeof *m);
    if (m) *m = (gq_imatrix){.data = *data, .path = strdup(path)};
    if (!m || !m->path) {
        free(m);
        imatrix_free(data);
        gq_fail_memory(e, sizeof *m + strlen(path));
        return NULL;
    }
    if (imatrix_check(&m->data, path, e) && make_rows(m, e)) return m;
    gq_imatrix_free(m);
    return NULL;
}

gq_imatrix *gq_imatrix_open(const char *path, gq_error *e) {
    imatrix data;
    return imatrix_open(&data, path, e) ? importance_of(&data, path, e) : NULL;
}

void gq_imatrix_free(gq_imatrix *m) {
    if (!m) return;
    imatrix_free(&m->data);
    free(m->path), free(m->rows);
    free(m);
}

const gq_imatrix_facts *gq_imatrix_summary(const gq_imatrix *m) { return &m->facts; }

const gq_imatrix_row *gq_imatrix_rows(const gq_imatrix *m, size_t *n) {
    *n = m->data.n_entries;
    return m->rows;
}

bool gq_imatrix_columns(const gq_imatrix *m, size_t row, uint64_t matrix, float *to, size_t n, gq_error *e) {
    if (row >= m->data.n_entries)
        return gq_fail_usage(e, "%s: there is no entry %zu, but %llu of them", m->path, row,
                             (unsigned long long)m->data.n_entries);
    const imatrix_entry *entry = &m->data.entries[row];
    const uint64_t matrices = n ? entry->n_values / n : 0;
    if (matrix >= matrices || entry->n_values % n || (entry->n_counts > 1 && entry->n_counts != matrices))
        return gq_fail_usage(e,
                             "%s: entry %s: matrix %llu of %zu columns: it has %llu values, for %llu counts",
                             m->path, entry->name, (unsigned long long)matrix, n,
                             (unsigned long long)entry->n_values, (unsigned long long)entry->n_counts);
    imatrix_column(entry, matrix, n, to);
    return true;
}

/* ---- coverage ---- */

/* Lists the weights that a quantizer may touch; returns their number. */
static size_t list_weights(const gq_stored *stored, size_t n, imatrix_weight *weights) {
    size_t n_weights = 0;
    for (size_t i = 0; i < n; i++) {
        mix_tensor t = {.name = stored[i].name, .type = stored[i].type};
        memcpy(t.ne, stored[i].ne, sizeof t.ne);
        if (mix_may_change(&t))
            weights[n_weights++] = (imatrix_weight){
                .name = t.name, .columns = t.ne[stored[i].transposed], .matrices = shape_matrices(t.ne)};
    }
    return n_weights;
}

static bool importance_cover_weights(const imatrix *im, const imatrix_weight *weights, gq_imatrix_coverage *c,
                                     gq_error *e) {
    imatrix_coverage *found = calloc(c->n + 1, sizeof *found);
    bool *used = calloc(im->n_entries + 1, sizeof *used);
    c->weights = calloc(c->n + 1, sizeof *c->weights);
    c->unused = calloc(im->n_entries + 1, sizeof *c->unused);
    c->unknown = calloc(im->n_entries + 1, sizeof *c->unknown);
    bool ok =
        (found && used && c->weights && c->unused && c->unknown) || gq_fail_memory(e, c->n * sizeof *found);
    if (ok) imatrix_cover(im, weights, c->n, found, used);
    for (size_t i = 0; ok && i < c->n; i++)
        c->weights[i] = (gq_imatrix_cover){.name = weights[i].name,
                                           .columns = weights[i].columns,
                                           .matrices = weights[i].matrices,
                                           .has_entry = found[i].entry != NULL,
                                           .fits = found[i].fits,
                                           .experts = found[i].experts,
                                           .experts_seen = found[i].experts_seen,
                                           .smallest_count = (double)found[i].smallest_count};
    for (uint64_t i = 0; ok && i < im->n_entries; i++)
        if (!used[i]) c->unused[c->n_unused++] = im->entries[i].name;
    free(found), free(used);
    return ok;
}

static bool find_unknown(const gq_stored *stored, size_t n, gq_imatrix_coverage *c, gq_error *e) {
    name_index by_name = {.n = 0};
    uint64_t at;
    bool ok = name_index_all(&by_name, stored, sizeof *stored, n, e);
    for (size_t i = 0; ok && i < c->n_unused; i++)
        if (!name_index_find(&by_name, stored, sizeof *stored, c->unused[i], &at))
            c->unknown[c->n_unknown++] = c->unused[i];
    name_index_free(&by_name);
    return ok;
}

gq_imatrix_coverage *gq_imatrix_cover_model(const gq_imatrix *m, const char *model, gq_error *e) {
    size_t n;
    gq_imatrix_coverage *c = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c), NULL;
    c->size = sizeof *c;
    if (!(c->model = gq_model_open(model, e))) {
        gq_imatrix_coverage_free(c);
        return NULL;
    }
    const gq_stored *stored = gq_model_tensors(c->model, &n);
    imatrix_weight *weights = calloc(n + 1, sizeof *weights);
    if (weights) c->n = list_weights(stored, n, weights);
    bool ok = weights ? importance_cover_weights(&m->data, weights, c, e) && find_unknown(stored, n, c, e)
                      : gq_fail_memory(e, n * sizeof *weights);
    free(weights);
    if (ok) return c;
    gq_imatrix_coverage_free(c);
    return NULL;
}

void gq_imatrix_coverage_free(gq_imatrix_coverage *c) {
    if (!c) return;
    free(c->weights), free(c->unused), free(c->unknown);
    gq_model_close(c->model);
    free(c);
}

/* ---- merging and writing ---- */

/* Warns where two files have different entries: files of one model have the same, whatever text they are of.
 */
static bool warn_of_others(gq_imatrix *a, const gq_imatrix *b, gq_error *e) {
    const imatrix *x = &a->data, *y = &b->data;
    const char *first = NULL;
    uint64_t same = 0;
    for (uint64_t i = 0; i < y->n_entries; i++)
        if (imatrix_find(x, y->entries[i].name))
            same++;
        else if (!first)
            first = y->entries[i].name;
    for (uint64_t i = 0; !first && same < x->n_entries && i < x->n_entries; i++)
        if (!imatrix_find(y, x->entries[i].name)) first = x->entries[i].name;
    uint64_t here = y->n_entries - same, there = x->n_entries - same;
    return (here == 0 && there == 0) ||
           imatrix_warn(&a->data, e,
                        "%s: %llu of its %llu entries %s in no file before it, and %llu of theirs %s not in "
                        "it (first: %s): are all of them of one model?",
                        b->path, (unsigned long long)here, (unsigned long long)y->n_entries,
                        here == 1 ? "is" : "are", (unsigned long long)there, there == 1 ? "is" : "are",
                        first);
}

bool gq_imatrix_merge(gq_imatrix *a, const gq_imatrix *b, gq_error *e) {
    return warn_of_others(a, b, e) && imatrix_merge(&a->data, &b->data, b->path, e) && make_rows(a, e);
}

bool gq_imatrix_write(const gq_imatrix *m, const char *path, bool gguf, bool force, gq_error *e) {
    uint8_t *bytes = NULL;
    uint64_t n = 0;
    if (!(gguf ? imatrix_write_gguf : imatrix_write_dat)(&m->data, &bytes, &n, e)) return false;
    bool ok = gq_write_whole(path, force, bytes, n, e);
    free(bytes);
    return ok;
}
