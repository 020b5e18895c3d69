#include "imatrix/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/facts.h"

/* Below this an importance counts as none, as in other programs' reports. */
static const float least_active = 0.00001f;

/* All values of an entry; NaN where no token came. */
static void stats_normalise(const imatrix_entry *x, float *a) {
    uint64_t w = x->n_values / x->n_counts;
    for (uint64_t j = 0; j < x->n_counts; j++)
        for (uint64_t i = j * w; i < (j + 1) * w; i++)
            a[i] = x->counts[j] > 0 ? x->sums[i] / x->counts[j] : NAN;
}

static void stats_of_moments(imatrix_stats *s, const float *a, uint64_t n) {
    double squares = 0;
    uint64_t active = 0;
    s->sum = 0, s->min = INFINITY, s->max = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (isnan(a[i])) continue;
        s->n++;
        s->sum += a[i];
        s->min = fmin(s->min, a[i]);
        s->max = fmax(s->max, a[i]);
        active += a[i] > least_active;
    }
    s->mean = s->sum / (double)s->n;
    s->active = (double)active / (double)s->n;
    for (uint64_t i = 0; i < n; i++)
        if (!isnan(a[i])) squares += (a[i] - s->mean) * (a[i] - s->mean);
    s->deviation = sqrt(squares / (double)s->n);
}

static void stats_of_distribution(imatrix_stats *s, const float *a, uint64_t n) {
    double entropy = 0;
    uint64_t outliers = 0;
    for (uint64_t i = 0; i < n; i++) {
        double p = a[i] / s->sum;
        if (p > 0) entropy -= p * log2(p); /* not for NaN */
        outliers += a[i] - s->mean > s->deviation;
    }
    s->outliers = (double)outliers / (double)s->n;
    if (s->sum == 0) return;
    s->entropy = entropy;
    if (s->n > 1) s->evenness = entropy / log2((double)s->n);
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
static void stats_of_entry(const imatrix *im, const imatrix_entry *x, imatrix_stats *s, float *a, float *b) {
    *s = (imatrix_stats){.entry = x,
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
    model_block block;
    bool in_block = model_block_leads(x->name, &block);
    s->layer = in_block ? (int64_t)block.number : -1, s->role = in_block ? block.rest : x->name;
    if (x->n_unseen == x->n_counts) return;
    stats_normalise(x, a);
    stats_of_moments(s, a, x->n_values);
    stats_of_distribution(s, a, x->n_values);
    char name[32 + GGUF_MAX_NAME];
    snprintf(name, sizeof name, "blk.%lld.%s", (long long)s->layer - 1, s->role);
    const imatrix_entry *earlier = s->layer > 0 ? imatrix_find(im, name) : NULL;
    if (!earlier || earlier->n_values != x->n_values) return;
    stats_normalise(earlier, b);
    s->cosine = stats_cosine(a, b, x->n_values);
}

bool imatrix_statistics(const imatrix *im, imatrix_stats *stats, gq_error *e) {
    uint64_t most = 1;
    for (uint64_t i = 0; i < im->n_entries; i++)
        if (im->entries[i].n_values > most) most = im->entries[i].n_values;
    float *scratch = calloc(most, 2 * sizeof *scratch);
    if (!scratch) return gq_fail_memory(e, most * 2 * sizeof *scratch);
    for (uint64_t i = 0; i < im->n_entries; i++)
        stats_of_entry(im, &im->entries[i], &stats[i], scratch, scratch + most);
    free(scratch);
    return true;
}

void imatrix_cover(const imatrix *im, const imatrix_weight *weights, size_t n, imatrix_coverage *coverage,
                   bool *used) {
    for (uint64_t i = 0; i < im->n_entries; i++) used[i] = false;
    for (size_t i = 0; i < n; i++) {
        const imatrix_entry *x = imatrix_find(im, weights[i].name);
        coverage[i] = (imatrix_coverage){.entry = x};
        if (!x) continue;
        used[x - im->entries] = true;
        coverage[i].fits = imatrix_fits(x, weights[i].columns, weights[i].matrices, "", NULL);
        coverage[i].experts = x->n_counts;
        coverage[i].experts_seen = x->n_counts - x->n_unseen;
        coverage[i].smallest_count = x->counts[0];
        for (uint64_t j = 1; j < x->n_counts; j++)
            coverage[i].smallest_count = fminf(coverage[i].smallest_count, x->counts[j]);
    }
}
