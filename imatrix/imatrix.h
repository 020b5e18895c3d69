/* Importance data: per weight tensor and column, how much the inputs that meet it weigh.
 *
 * Two layouts are read, found by content, each plain or gzip-compressed: the legacy .dat and the GGUF-based
 * one (formats, rules and limits: docs/internals/formats.md). Structure is checked while reading, values by
 * imatrix_check, so that a bad entry can be filtered away first.
 */
#pragma once

#include "base/file.h"

enum {
    IMATRIX_MAX_ENTRIES = 1 << 15,
    IMATRIX_MAX_DATASETS = 1 << 12,
    IMATRIX_DEFAULT_CHUNK = 512, /* tokens; what legacy files, which do not say, are taken to have used */
};

typedef struct imatrix_entry {
    char *name;         /* the model's tensor name */
    uint64_t n_values;  /* columns x matrices */
    uint64_t n_counts;  /* divides n_values; 1, or one per matrix */
    float *sums;        /* n_values: sum of squared activations over tokens (legacy: mean x calls) */
    float *counts;      /* n_counts: tokens (legacy: calls, at least 1) */
    float *activations; /* n_values: sum of activations, signed; NULL: not stored */
    uint64_t n_unseen;  /* counts that are zero: experts no token reached */
} imatrix_entry;

typedef struct imatrix {
    uint64_t n_entries;
    imatrix_entry *entries; /* by name, each name once */
    uint32_t chunk_count;   /* 0: not stored */
    uint32_t chunk_size;    /* tokens; 0: not stored (legacy) */
    uint64_t n_datasets;
    char **datasets;
    bool legacy;    /* counts are calls of chunk_size tokens, not tokens */
    char *warnings; /* lines, each with its newline, no other control characters; NULL: none */
} imatrix;

void imatrix_free(imatrix *im);

/* Keep (include) or drop (!include) the entries whose name contains one of the texts. */
void imatrix_filter(imatrix *im, const char *const *texts, size_t n, bool include);
const imatrix_entry *imatrix_find(const imatrix *im, const char *name);
/* After filtering: every value finite and not negative, every count 0 or at least 1; names the first bad
 * entry. */
bool imatrix_check(const imatrix *im, const char *path, gq_error *e);
/* Whether the entry belongs to a weight of `matrices` matrices with n0 columns; if not, names both sizes. */
bool imatrix_fits(const imatrix_entry *entry, uint64_t n0, uint64_t matrices, const char *path, gq_error *e);

/* The normalised values of matrix k (columns k*n0 .. k*n0+n0-1 of the entry) into out[n0]: sum / count, or 1
 * where no token reached it. For an entry that fits. `out` may be where the entry keeps these very values. */
void imatrix_column(const imatrix_entry *entry, uint64_t k, uint64_t n0, float *out);

/* ---- files: read.c picks the layout that the content shows ---- */

/* On failure *im is empty: there is nothing to free, and imatrix_free does no harm. */
bool imatrix_open(imatrix *im, const char *path, gq_error *e);
/* The same; takes over `file`. */
bool imatrix_read(imatrix *im, gq_file *file, gq_error *e);
/* Both fill an empty *im, which the caller frees on failure too. The second takes over `file`. */
bool imatrix_read_dat(imatrix *im, const gq_file *file, gq_error *e);
bool imatrix_read_gguf(imatrix *im, gq_file *file, gq_error *e);

/* Serialise data that passed imatrix_check; *bytes is malloc'ed. Calls and tokens are converted with im->chunk_size, or
 * the default when that is 0. */
bool imatrix_write_dat(const imatrix *im, uint8_t **bytes, uint64_t *size, gq_error *e);
bool imatrix_write_gguf(const imatrix *im, uint8_t **bytes, uint64_t *size, gq_error *e);

/* Adds `b`, which passed imatrix_check, to `a` (rules: docs/internals/formats.md, merging); `path` is where b came from, for
 * messages. On failure `a` is good for imatrix_free only. */
bool imatrix_merge(imatrix *a, const imatrix *b, const char *path, gq_error *e);
