/* Merging: sums add up, counts add up, so each file weighs as much as the tokens it saw. */

#include <math.h>
#include <string.h>

#include "imatrix/imatrix.h"

static void scale_by(float *to, const float *x, uint64_t n, float scale) {
    for (uint64_t i = 0; i < n; i++) to[i] = x[i] * scale;
}

static bool copy_entry(imatrix_entry *to, const imatrix_entry *x, float scale, bool activations,
                       gq_error *e) {
    if (!imatrix_entry_new(to, x->name, strlen(x->name), x->n_values, x->n_counts, activations, e))
        return false;
    scale_by(to->sums, x->sums, x->n_values, scale);
    scale_by(to->counts, x->counts, x->n_counts, scale);
    if (activations) scale_by(to->activations, x->activations, x->n_values, scale);
    return true;
}

/* to += x * scale. `to` has as many counts as x, or x a single one, which then holds for every matrix. Sums
 * that come with a count of zero are left behind. */
static void entry_add_scaled(imatrix_entry *to, const imatrix_entry *x, float scale) {
    uint64_t w = to->n_values / to->n_counts;
    for (uint64_t j = 0; j < to->n_counts; j++) {
        float count = x->counts[x->n_counts == 1 ? 0 : j], keep = to->counts[j] > 0 ? 1 : 0;
        if (count == 0) continue;
        for (uint64_t i = j * w; i < (j + 1) * w; i++) {
            to->sums[i] = to->sums[i] * keep + x->sums[i] * scale;
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): both have them, or they are dropped */
            if (to->activations) to->activations[i] = to->activations[i] * keep + x->activations[i] * scale;
        }
        to->counts[j] += count * scale;
    }
}

static bool merge_entry(imatrix_entry *a, const imatrix_entry *b, float scale, const char *path,
                        gq_error *e) {
    if (a->n_values != b->n_values)
        return gq_fail(e, "%s: entry '%s' has %llu values, but %llu in the files before it", path, b->name,
                       (unsigned long long)b->n_values, (unsigned long long)a->n_values);
    if (a->n_counts != b->n_counts && a->n_counts != 1 && b->n_counts != 1)
        return gq_fail(e, "%s: entry '%s' has %llu counts, but %llu in the files before it", path, b->name,
                       (unsigned long long)b->n_counts, (unsigned long long)a->n_counts);
    if (a->n_counts >= b->n_counts) {
        entry_add_scaled(a, b, scale);
        return true;
    }
    imatrix_entry sum; /* with the counts of b */
    if (!copy_entry(&sum, b, scale, a->activations != NULL, e)) return false;
    entry_add_scaled(&sum, a, 1);
    imatrix_entry_free(a);
    *a = sum;
    return true;
}

static bool all_have_activations(const imatrix *im) {
    for (uint64_t i = 0; i < im->n_entries; i++)
        if (!im->entries[i].activations) return false;
    return true;
}

/* Bring `a` to the units of the result: tokens, unless both count calls. *scale does the same for b. */
static bool agree_on_units(imatrix *a, const imatrix *b, float *scale, gq_error *e) {
    *scale = 1;
    if (a->legacy != b->legacy) {
        const imatrix *calls = a->legacy ? a : b, *tokens = a->legacy ? b : a;
        float chunk = (float)(calls->chunk_size ? calls->chunk_size : imatrix_chunk(tokens));
        if (!calls->chunk_size && !tokens->chunk_size &&
            !imatrix_warn(a, e, "no file has its number of tokens per chunk: %g is assumed", chunk))
            return false;
        if (b->legacy) *scale = chunk;
        for (uint64_t i = 0; a->legacy && i < a->n_entries; i++) {
            imatrix_entry *x = &a->entries[i];
            scale_by(x->sums, x->sums, x->n_values, chunk);
            scale_by(x->counts, x->counts, x->n_counts, chunk);
        }
        a->legacy = false;
    }
    if (!a->chunk_size) a->chunk_size = b->chunk_size;
    return true;
}

/* Counts chunks as llama-imatrix does: from the entry that saw most tokens. */
static uint32_t count_chunks(const imatrix *im) {
    double most = 0;
    for (uint64_t i = 0; i < im->n_entries; i++) most = fmax(most, (double)imatrix_most(&im->entries[i]));
    double chunks = round(most / (im->legacy ? 1 : imatrix_chunk(im)));
    return chunks < UINT32_MAX ? (uint32_t)chunks : UINT32_MAX;
}

bool imatrix_merge(imatrix *a, const imatrix *b, const char *path, gq_error *e) {
    float scale;
    bool activations = all_have_activations(a) && all_have_activations(b);
    if (!agree_on_units(a, b, &scale, e) || !imatrix_reserve(a, b->n_entries, e)) return false;
    for (uint64_t i = 0; !activations && i < a->n_entries; i++) a->entries[i].activations = NULL;
    const imatrix before = *a; /* a look at the entries that are sorted already */
    for (uint64_t i = 0; i < b->n_entries; i++) {
        const imatrix_entry *x = &b->entries[i], *same = imatrix_find(&before, x->name);
        if (same) {
            if (!merge_entry(&a->entries[same - before.entries], x, scale, path, e)) return false;
        } else {
            if (!copy_entry(&a->entries[a->n_entries], x, scale, activations, e)) return false;
            a->n_entries++;
        }
    }
    if (a->n_entries > IMATRIX_MAX_ENTRIES)
        return gq_fail(e, "%s: the merged imatrix has %llu entries, expected at most %d", path,
                       (unsigned long long)a->n_entries, IMATRIX_MAX_ENTRIES);
    for (uint64_t i = 0; i < b->n_datasets; i++)
        if (!imatrix_add_dataset(a, b->datasets[i], strlen(b->datasets[i]), e)) return false;
    for (uint64_t i = 0; i < a->n_entries; i++) imatrix_count_unseen(&a->entries[i]);
    if (!imatrix_sort(a, path, e)) return false;
    a->chunk_count = count_chunks(a);
    return imatrix_check(a, path, e); /* sums of finite numbers may be too large */
}
