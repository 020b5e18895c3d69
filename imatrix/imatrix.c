/* Imatrix data in memory, whatever layout they came in: filtering, checking, finding and normalizing them.
 * Entries are sorted by name and each name is there once, so finding is a binary search. Values are checked
 * after filtering and not while reading, so that a user can filter a bad entry away. The layouts are in dat.c
 * and container.c, merging is in merge.c; they build entries with the functions of imatrix.h. */
#include "imatrix/imatrix.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void imatrix_free(imatrix *im) {
    for (uint64_t i = 0; i < im->n_entries; i++) imatrix_entry_free(&im->entries[i]);
    for (uint64_t i = 0; i < im->n_datasets; i++) free(im->datasets[i]);
    free(im->entries);
    free(im->datasets);
    free(im->warnings);
    *im = (imatrix){0};
}

void imatrix_filter(imatrix *im, const char *const *texts, size_t n, bool include) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < im->n_entries; i++) {
        imatrix_entry *entry = &im->entries[i];
        bool match = false;
        for (size_t t = 0; t < n && !match; t++) match = strstr(entry->name, texts[t]) != NULL;
        if (match == include)
            im->entries[kept++] = *entry;
        else
            imatrix_entry_free(entry);
    }
    im->n_entries = kept;
}

static int compare_name(const void *name, const void *entry) {
    return strcmp(name, ((const imatrix_entry *)entry)->name);
}

const imatrix_entry *imatrix_find(const imatrix *im, const char *name) {
    if (im->n_entries == 0) return NULL;
    return bsearch(name, im->entries, im->n_entries, sizeof *im->entries, compare_name);
}

/* Comparisons are written so that NaN, for which all of them are false, counts as bad. */
static uint64_t bad_value(const float *x, uint64_t n, float least) {
    for (uint64_t i = 0; i < n; i++)
        if (!(x[i] >= least && x[i] <= FLT_MAX)) return i;
    return n;
}

static uint64_t bad_count(const float *x, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (x[i] != 0 && !(x[i] >= 1 && x[i] <= FLT_MAX)) return i;
    return n;
}

bool imatrix_check(const imatrix *im, const char *path, gq_error *e) {
    for (uint64_t i = 0; i < im->n_entries; i++) {
        const imatrix_entry *x = &im->entries[i];
        uint64_t bad = bad_value(x->sums, x->n_values, 0);
        if (bad < x->n_values)
            return gq_fail(e, "%s: entry '%s': value %llu of %llu is %g, expected a finite number, 0 or more",
                           path, x->name, (unsigned long long)bad, (unsigned long long)x->n_values,
                           x->sums[bad]);
        bad = bad_count(x->counts, x->n_counts);
        if (bad < x->n_counts)
            return gq_fail(
                e, "%s: entry '%s': count %llu of %llu is %g, expected 0, or a finite number from 1", path,
                x->name, (unsigned long long)bad, (unsigned long long)x->n_counts, x->counts[bad]);
        bad = x->activations ? bad_value(x->activations, x->n_values, -FLT_MAX) : x->n_values;
        if (bad < x->n_values)
            return gq_fail(e, "%s: entry '%s': activation sum %llu of %llu is %g, expected a finite number",
                           path, x->name, (unsigned long long)bad, (unsigned long long)x->n_values,
                           x->activations[bad]);
    }
    return true;
}

bool imatrix_fits(const imatrix_entry *x, uint64_t n0, uint64_t matrices, const char *path, gq_error *e) {
    if (n0 == 0 || x->n_values % n0 != 0 || x->n_values / n0 != matrices)
        return gq_fail(
            e,
            "%s: entry '%s' has %llu values, the tensor needs %llu x %llu (columns x matrices): it "
            "belongs to another model or another conversion",
            path, x->name, (unsigned long long)x->n_values, (unsigned long long)n0,
            (unsigned long long)matrices);
    if (x->n_counts != 1 && x->n_counts != matrices)
        return gq_fail(e, "%s: entry '%s' has %llu counts, expected 1 or %llu, one per matrix of the tensor",
                       path, x->name, (unsigned long long)x->n_counts, (unsigned long long)matrices);
    return true;
}

void imatrix_column(const imatrix_entry *entry, uint64_t k, uint64_t n0, float *out) {
    const float *sums = entry->sums + k * n0;
    float count = entry->counts[entry->n_counts == 1 ? 0 : k];
    for (uint64_t i = 0; i < n0; i++) out[i] = count > 0 ? sums[i] / count : 1;
}

/* ---- building entries ---- */

bool imatrix_reserve(imatrix *im, uint64_t n, gq_error *e) {
    uint64_t bytes =
        (im->n_entries + n + 1) * sizeof *im->entries; /* never 0, which realloc takes for free */
    imatrix_entry *entries = realloc(im->entries, bytes);
    if (!entries) return gq_fail_memory(e, bytes);
    im->entries = entries;
    return true;
}

bool imatrix_entry_new(imatrix_entry *entry, const char *name, size_t name_length, uint64_t n_values,
                       uint64_t n_counts, bool activations, gq_error *e) {
    /* One block for all arrays: in a file of tiny entries several would cost more than the data. No wrap: the
     * numbers were compared with the bytes of a file. */
    uint64_t n = n_values * (activations ? 2 : 1) + n_counts, bytes = n * sizeof(float) + name_length + 1;
    float *block = malloc(bytes);
    if (!block) return gq_fail_memory(e, bytes);
    *entry = (imatrix_entry){.name = (char *)(block + n),
                             .n_values = n_values,
                             .n_counts = n_counts,
                             .sums = block,
                             .counts = block + n_values,
                             .activations = activations ? block + n_values + n_counts : NULL};
    memcpy(entry->name, name, name_length);
    entry->name[name_length] = 0;
    return true;
}

void imatrix_entry_free(imatrix_entry *entry) { free(entry->sums); }

void imatrix_count_unseen(imatrix_entry *entry) {
    entry->n_unseen = 0;
    for (uint64_t i = 0; i < entry->n_counts; i++) entry->n_unseen += entry->counts[i] == 0;
}

bool imatrix_add_dataset(imatrix *im, const char *text, uint64_t length, gq_error *e) {
    if (im->n_datasets == IMATRIX_MAX_DATASETS) return true;
    uint64_t bytes = (im->n_datasets + 1) * sizeof *im->datasets;
    char **datasets = realloc(im->datasets, bytes);
    if (!datasets) return gq_fail_memory(e, bytes);
    im->datasets = datasets;
    datasets[im->n_datasets] = strndup(text, length);
    if (!datasets[im->n_datasets]) return gq_fail_memory(e, length);
    im->n_datasets++;
    return true;
}

bool imatrix_warn(imatrix *im, gq_error *e, const char *format, ...) {
    char raw[1024], line[4 * sizeof raw];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    gq_printable(line, sizeof line, raw);
    size_t before = im->warnings ? strlen(im->warnings) : 0, length = strlen(line);
    char *warnings = realloc(im->warnings, before + length + 2);
    if (!warnings) return gq_fail_memory(e, before + length + 2);
    memcpy(warnings + before, line, length);
    memcpy(warnings + before + length, "\n", 2);
    im->warnings = warnings;
    return true;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const imatrix_entry *)a)->name, ((const imatrix_entry *)b)->name);
}

bool imatrix_sort(imatrix *im, const char *path, gq_error *e) {
    if (im->n_entries) qsort(im->entries, im->n_entries, sizeof *im->entries, compare_entries);
    for (uint64_t i = 1; i < im->n_entries; i++)
        if (compare_entries(&im->entries[i - 1], &im->entries[i]) == 0)
            return gq_fail(e, "%s: duplicate entry '%s'", path, im->entries[i].name);
    return true;
}

float imatrix_most(const imatrix_entry *entry) {
    float most = 0;
    for (uint64_t i = 0; i < entry->n_counts; i++)
        if (entry->counts[i] > most) most = entry->counts[i];
    return most;
}

uint32_t imatrix_chunk(const imatrix *im) { return im->chunk_size ? im->chunk_size : IMATRIX_DEFAULT_CHUNK; }
