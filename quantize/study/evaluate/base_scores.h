/* Files of log-probabilities compared with each other: nothing is run, so their models may be of any
 * architecture, and any program may have written them. */
#ifndef GQ_INSPECT_BASE_SCORES_H
#define GQ_INSPECT_BASE_SCORES_H

#include "quantize/study/evaluate/base_file.h"
#include "quantize/study/evaluate/figures.h"

/* Checks that a copy's file has the original's text, windows and vocabulary. */
bool base_scores_check(const base_file *original, const base_file *copy, gq_error *e);

/* Bytes of memory that it takes to compare n files at so many scored positions. */
uint64_t base_scores_bytes(size_t n, size_t positions);

/* Fills the scores of the first `windows` windows from n files: the original's, 0, and those of its copies.
 * ids: the tokens of these windows. A divergence is as that of a model from a base (side_by_side.c), sum p
 * (log p - log q) over the probabilities p that the original's file has. */
bool base_scores_run(const base_file *files, size_t n, const uint32_t *ids, size_t windows, int threads,
                     const gq_callbacks *callbacks, scores *to, gq_error *e);

#endif
