/* Building the data structure: what layouts and merging are made with. Knows nothing of either. */
#pragma once

#include "imatrix/imatrix.h"

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
