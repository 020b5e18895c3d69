/* Imatrix data as objects of the public header: opened, described, matched with a model, merged and
 * written. A gq_imatrix owns the data (imatrix/imatrix.h) and a row of statistics for each entry; rows are
 * made again whenever the data change. Coverage lists the weights of a model that a quantizer may change,
 * with the entry of each; then the entries that no such weight has, and those of them that no tensor of the
 * model has. Layouts and merging are done in imatrix/; compute.c makes data by running a model.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/name_index.h"
#include "gguf/facts.h"
#include "mixes/mixes.h"
#include "quantize/quantize.h"

struct gq_imatrix {
    imatrix data;
    char *path;
    gq_imatrix_row *rows;
    gq_imatrix_facts facts;
};

/* ---- statistics ---- */

/* Below this an importance counts as none, as in other programs' reports. */
static const float least_active = 0.00001f;

/* All values of an entry; NaN where no token came. */
static void stats_normalise(const imatrix_entry *x, float *a) {
    uint64_t w = x->n_values / x->n_counts;
    for (uint64_t j = 0; j < x->n_counts; j++)
        for (uint64_t i = j * w; i < (j + 1) * w; i++)
            a[i] = x->counts[j] > 0 ? x->sums[i] / x->counts[j] : NAN;
}

/* Returns the number of values with data. */
static uint64_t stats_of_sums(gq_imatrix_row *s, const float *a, uint64_t n) {
    double squares = 0;
    uint64_t known = 0, active = 0;
    s->sum = 0, s->min = INFINITY, s->max = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (isnan(a[i])) continue;
        known++;
        s->sum += a[i];
        s->min = fmin(s->min, a[i]);
        s->max = fmax(s->max, a[i]);
        active += a[i] > least_active;
    }
    s->mean = s->sum / (double)known;
    s->active = (double)active / (double)known;
    for (uint64_t i = 0; i < n; i++)
        if (!isnan(a[i])) squares += (a[i] - s->mean) * (a[i] - s->mean);
    s->deviation = sqrt(squares / (double)known);
    return known;
}

static void stats_of_distribution(gq_imatrix_row *s, const float *a, uint64_t n, uint64_t known) {
    double entropy = 0;
    uint64_t outliers = 0;
    for (uint64_t i = 0; i < n; i++) {
        double p = a[i] / s->sum;
        if (p > 0) entropy -= p * log2(p); /* not for NaN */
        outliers += a[i] - s->mean > s->deviation;
    }
    s->outliers = (double)outliers / (double)known;
    if (s->sum == 0) return;
    s->entropy = entropy;
    if (known > 1) s->evenness = entropy / log2((double)known);
}

static double stats_cosine(const float *a, const float *b, uint64_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i])) continue;
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb); /* 0 / 0 is the NaN that is meant */
}

/* a and b: scratch for the values of the largest entry, each. */
static void stats_of_entry(const imatrix *im, const imatrix_entry *x, gq_imatrix_row *s, float *a, float *b) {
    model_block block;
    bool in_block = model_block_leads(x->name, &block);
    *s = (gq_imatrix_row){.name = x->name,
                          .role = in_block ? block.rest : x->name,
                          .layer = in_block ? (int64_t)block.number : -1,
                          .values = x->n_values,
                          .experts = x->n_counts,
                          .experts_unseen = x->n_unseen,
                          .counts = x->counts,
                          .sum = NAN,
                          .min = NAN,
                          .max = NAN,
                          .mean = NAN,
                          .deviation = NAN,
                          .active = NAN,
                          .entropy = NAN,
                          .evenness = NAN,
                          .outliers = NAN,
                          .cosine = NAN};
    if (x->n_unseen == x->n_counts) return;
    stats_normalise(x, a);
    stats_of_distribution(s, a, x->n_values, stats_of_sums(s, a, x->n_values));
    char name[32 + GGUF_MAX_NAME];
    snprintf(name, sizeof name, "blk.%lld.%s", (long long)s->layer - 1, s->role);
    const imatrix_entry *earlier = s->layer > 0 ? imatrix_find(im, name) : NULL;
    if (!earlier || earlier->n_values != x->n_values) return;
    stats_normalise(earlier, b);
    s->cosine = stats_cosine(a, b, x->n_values);
}

bool importance_statistics(const imatrix *im, gq_imatrix_row *rows, gq_error *e) {
    uint64_t most = 1;
    for (uint64_t i = 0; i < im->n_entries; i++)
        if (im->entries[i].n_values > most) most = im->entries[i].n_values;
    float *scratch = calloc(most, 2 * sizeof *scratch);
    if (!scratch) return gq_fail_memory(e, most * 2 * sizeof *scratch);
    for (uint64_t i = 0; i < im->n_entries; i++)
        stats_of_entry(im, &im->entries[i], &rows[i], scratch, scratch + most);
    free(scratch);
    return true;
}

/* ---- the object ---- */

static bool make_rows(gq_imatrix *m, gq_error *e) {
    uint64_t n = m->data.n_entries;
    free(m->rows);
    m->rows = calloc(n + 1, sizeof *m->rows);
    bool ok = m->rows ? importance_statistics(&m->data, m->rows, e) : gq_fail_memory(e, n * sizeof *m->rows);
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
        return gq_fail_usage(e, "%s: entry %zu does not exist: the file has %llu, counted from 0", m->path,
                             row, LLU(m->data.n_entries));
    const imatrix_entry *entry = &m->data.entries[row];
    const uint64_t matrices = n ? entry->n_values / n : 0;
    if (matrix >= matrices || entry->n_values % n || (entry->n_counts > 1 && entry->n_counts != matrices))
        return gq_fail_usage(
            e, "%s: entry %s: matrix %llu of %zu columns: it has %llu values, for %llu counts", m->path,
            entry->name, LLU(matrix), n, LLU(entry->n_values), LLU(entry->n_counts));
    imatrix_column(entry, matrix, n, to);
    return true;
}

/* ---- coverage ---- */

/* Lists the weights that a quantizer may touch; returns their number. */
static size_t list_weights(const gq_stored *stored, size_t n, gq_imatrix_cover *weights) {
    size_t n_weights = 0;
    for (size_t i = 0; i < n; i++) {
        mix_tensor t = {.name = stored[i].name, .type = stored[i].type};
        memcpy(t.ne, stored[i].ne, sizeof t.ne);
        if (mix_may_change(&t))
            weights[n_weights++] = (gq_imatrix_cover){
                .name = t.name, .columns = t.ne[stored[i].transposed], .matrices = shape_matrices(t.ne)};
    }
    return n_weights;
}

void importance_cover(const imatrix *im, gq_imatrix_cover *weights, size_t n, bool *used) {
    for (uint64_t i = 0; i < im->n_entries; i++) used[i] = false;
    for (size_t i = 0; i < n; i++) {
        gq_imatrix_cover *w = &weights[i];
        const imatrix_entry *x = imatrix_find(im, w->name);
        w->has_entry = x != NULL;
        if (!x) continue;
        used[x - im->entries] = true;
        w->fits = imatrix_fits(x, w->columns, w->matrices, "", NULL);
        w->experts = x->n_counts, w->experts_seen = x->n_counts - x->n_unseen;
        w->smallest_count = (double)x->counts[0];
        for (uint64_t j = 1; j < x->n_counts; j++)
            w->smallest_count = fmin(w->smallest_count, (double)x->counts[j]);
    }
}

/* Finds the entries of the weights, and lists the others. */
static bool importance_cover_weights(const imatrix *im, gq_imatrix_coverage *c, gq_error *e) {
    bool *used = calloc(im->n_entries + 1, sizeof *used);
    c->unused = calloc(im->n_entries + 1, sizeof *c->unused);
    c->unknown = calloc(im->n_entries + 1, sizeof *c->unknown);
    bool ok = (used && c->unused && c->unknown) || gq_fail_memory(e, im->n_entries * 2 * sizeof *c->unused);
    if (ok) importance_cover(im, c->weights, c->n, used);
    for (uint64_t i = 0; ok && i < im->n_entries; i++)
        if (!used[i]) c->unused[c->n_unused++] = im->entries[i].name;
    free(used);
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
    c->weights = calloc(n + 1, sizeof *c->weights);
    if (c->weights) c->n = list_weights(stored, n, c->weights);
    if (c->weights ? importance_cover_weights(&m->data, c, e) && find_unknown(stored, n, c, e)
                   : gq_fail_memory(e, n * sizeof *c->weights))
        return c;
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
                        "%s: %llu of its %llu entries %s in no earlier file, and %llu of the earlier files' "
                        "%s missing here (first: %s): are all files of one model?",
                        b->path, LLU(here), LLU(y->n_entries), here == 1 ? "is" : "are", LLU(there),
                        there == 1 ? "is" : "are", first);
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
