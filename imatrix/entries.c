/* Making entries of importance data, whatever layout they come in. An entry's arrays and its name are one
 * allocation, which begins with the sums.
 */
#include "imatrix/imatrix.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
            return gq_fail(e, "%s: entry '%s' is there twice", path, im->entries[i].name);
    return true;
}

float imatrix_most(const imatrix_entry *entry) {
    float most = 0;
    for (uint64_t i = 0; i < entry->n_counts; i++)
        if (entry->counts[i] > most) most = entry->counts[i];
    return most;
}

uint32_t imatrix_chunk(const imatrix *im) { return im->chunk_size ? im->chunk_size : IMATRIX_DEFAULT_CHUNK; }
