/* Imatrix data: per weight tensor and column, how much the inputs that meet it weigh.
 *
 * Two layouts are read, found by content, each plain or gzip-compressed: the legacy .dat and the GGUF-based
 * one (formats, rules and limits: docs/internals/formats.md). Structure is checked while reading, values by
 * imatrix_check, so that a bad entry can be filtered away first. */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "gguf/model.h"

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

/* The normalized values of matrix k (columns k*n0 .. k*n0+n0-1 of the entry) into out[n0]: sum / count, or 1
 * where no token reached it. For an entry that fits. `out` may be where the entry keeps these very values. */
void imatrix_column(const imatrix_entry *entry, uint64_t k, uint64_t n0, float *out);

/* ---- files: read.c picks the layout that the content shows ---- */

/* On failure *im is empty: there is nothing to free, and imatrix_free may be called. */
bool imatrix_open(imatrix *im, const char *path, gq_error *e);
/* The same; takes over `file`. */
bool imatrix_read(imatrix *im, gq_file *file, gq_error *e);
/* Both fill an empty *im, which the caller frees on failure too. The second takes over `file`. */
bool imatrix_read_dat(imatrix *im, const gq_file *file, gq_error *e);
bool imatrix_read_gguf(imatrix *im, gq_file *file, gq_error *e);

/* Serialize data that passed imatrix_check; *bytes is malloc'ed. Calls and tokens are converted with
 * im->chunk_size, or the default when that is 0. */
bool imatrix_write_dat(const imatrix *im, uint8_t **bytes, uint64_t *size, gq_error *e);
bool imatrix_write_gguf(const imatrix *im, uint8_t **bytes, uint64_t *size, gq_error *e);

/* Adds `b`, which passed imatrix_check, to `a` (rules: docs/internals/formats.md, merging); `path` is where b
 * came from, for messages. On failure `a` is good for imatrix_free only. */
bool imatrix_merge(imatrix *a, const imatrix *b, const char *path, gq_error *e);

/* Building the data structure: what layouts and merging are made with. Knows nothing of either. */

/* Makes room for n more entries. */
bool imatrix_reserve(imatrix *im, uint64_t n, gq_error *e);
/* An entry with its arrays, not yet filled; name_length bytes of name, which the caller has checked for NUL.
 * The caller has compared n_values and n_counts with what is really there. */
bool imatrix_entry_new(imatrix_entry *entry, const char *name, size_t name_length, uint64_t n_values,
                       uint64_t n_counts, bool activations, gq_error *e);
void imatrix_entry_free(imatrix_entry *entry);
void imatrix_count_unseen(imatrix_entry *entry);

/* Sorts entries by name; fails on a name that is there twice. path: for the message. */
bool imatrix_sort(imatrix *im, const char *path, gq_error *e);

/* Appends a copy of a text of `length` bytes, up to its first NUL. Names beyond IMATRIX_MAX_DATASETS are
 * dropped, since they are only reported. */
bool imatrix_add_dataset(imatrix *im, const char *text, uint64_t length, gq_error *e);
bool imatrix_warn(imatrix *im, gq_error *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Tokens per call: chunk_size, or the default where that is 0. */
uint32_t imatrix_chunk(const imatrix *im);
/* Largest count of an entry, tokens or (legacy) calls. */
float imatrix_most(const imatrix_entry *entry);

/* The statistics of the inputs of a model's matrices, ready for use: made from an imatrix once, then constant.
 * Filters, normalization and default values for experts that no token reached are applied while it is made. */

/* The importance of a tensor's columns. A tensor of two dimensions is one matrix, a tensor of experts has one
 * for each expert. The values belong to the model_inputs. */
typedef struct tensor_inputs {
    uint64_t columns;          /* 0: nothing is known */
    uint64_t n_values;         /* columns x matrices */
    uint64_t n_counted;        /* matrices with a count of their own; 1: one for all */
    uint64_t n_unseen;         /* counted matrices that no token reached */
    const float *mean_squares; /* n_values; of an expert that no token reached all are the same */
} tensor_inputs;

typedef struct model_inputs {
    char *path;
    uint64_t n_entries;   /* left by the filter; 0: nothing is known */
    uint32_t chunk_count; /* 0: not stored */
    const char *dataset;  /* the first data set that the data were made from; NULL: not stored */
    const char *warnings; /* of reading: lines, each with its newline; NULL: none */
    struct imatrix *data; /* for read.c alone */
} model_inputs;

/* Selects entries by name: those with one of the texts in it are used if `include` is set, else left out. n =
 * 0: all are used. */
typedef struct inputs_filter {
    const char *const *texts;
    size_t n;
    bool include;
} inputs_filter;

/* Reads, filters and checks an imatrix. On failure *m is empty, and model_inputs_free may be called. */
bool model_inputs_read(model_inputs *m, const char *path, inputs_filter filter, gq_error *e);
/* The same of data in memory, which it takes over; name: for messages. */
bool model_inputs_of(model_inputs *m, struct imatrix *data, const char *name, gq_error *e);
void model_inputs_free(model_inputs *m);
/* A checksum that is equal for data that say the same about the same tensors. */
uint32_t model_inputs_digest(const model_inputs *m);

/* The name of one of the entries, which are in order of their names. */
const char *model_inputs_entry(const model_inputs *m, uint64_t i);
/* Look a tensor up. False: its entry has another shape; found->n_values is then what the entry has, and
 * nothing is known. Where there is no entry nothing is known either. */
bool model_inputs_find(const model_inputs *m, const char *tensor, uint64_t columns, uint64_t matrices,
                       tensor_inputs *found, gq_error *e);
/* The same for a tensor as plans see it: a tensor that is stored transposed has no inputs, as one weight for
 * a whole row would decide nothing in the row. */
bool model_inputs_find_tensor(const model_inputs *m, const model_tensor *t, bool transposed,
                              tensor_inputs *found, gq_error *e);
/* A checksum of the values; 0 where nothing is known. */
uint32_t tensor_inputs_digest(const tensor_inputs *t);

/* Returns a matrix's values from a column on, as codecs get them; NULL: nothing is known. */
static inline const float *tensor_inputs_at(const tensor_inputs *t, uint64_t matrix, uint64_t column) {
    return t->columns ? t->mean_squares + matrix * t->columns + column : NULL;
}
