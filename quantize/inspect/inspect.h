/* Looking at files: what more than one command needs of it. */
#pragma once

#include "gguf/model.h"
#include "imatrix/imatrix.h"
#include "quantize/gquant_inspect.h"
#include "quantize/gquant_study.h"

/* ---- verifying a model, as gq_verify does (verify.c) ---- */

/* complete: compares its tensors with its architecture; NULL: there is none, which becomes a warning. */
gq_verification *verify_model(const char *path, const gq_checksum *expected, size_t n, int threads,
                              model_check *complete, const gq_callbacks *callbacks, gq_error *e);

/* ---- makes an imatrix an object of the public header (importance.c) ---- */

/* Returns an object that owns *data; path is for messages. On failure *data is freed and the result is NULL.
 */
gq_imatrix *importance_of(imatrix *data, const char *path, gq_error *e);

/* Fills the rows of all entries, in their order: statistics of an entry's normalised values, all its matrices
 * together, except those that no token reached. Numbers that are not defined (no data, sum or deviation zero)
 * are NaN. For data that passed imatrix_check. Fails only for lack of memory. */
bool importance_statistics(const imatrix *im, gq_imatrix_row *rows, gq_error *e);
/* Fills what the entries say of n weights, whose names, columns and matrices are set. used[im->n_entries]:
 * whether an entry belongs to any of them. */
void importance_cover(const imatrix *im, gq_imatrix_cover *weights, size_t n, bool *used);
