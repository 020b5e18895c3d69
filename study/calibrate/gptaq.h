/* How far a matrix's target moves (GPTAQ's term; codec/feedback.h has the formula): the factor a of w + a u.
 *
 * u makes up for what the matrix's inputs differ by from the base model's, as far as the calibration tokens tell. On
 * other tokens it fits worse, the fewer tokens there were for each column, and the less the difference depends on the
 * inputs at all. So a is what fits the held-out tokens: with E = (x - y) w or what the state lacks, and F = y u,
 *
 *     a = sum E F / sum F F, within 0 and T / (T + 3 n) for T tokens and n columns,
 *
 * over all held-out tokens and some rows of the matrix, and half of that, as other texts differ more. A token whose
 * E is far beyond the others' counts for no more than GPTAQ_FAR times the median: the first tokens of texts can
 * have a state a thousand times as large. */
#pragma once

#include "study/calibrate/site.h"

/* Sets the factor of all blocks of f, where the settings leave it open and tokens are held out; else it stays. The
 * matrix is of all weights of the site. held: its held-out tokens, not turned yet. */
bool gptaq_choose_a(const calibration *job, const site *s, uint64_t matrix, const site_inputs *held,
                    const cholesky *f, threads_pool *pool, gq_error *e);
/* Bytes that this takes for a weight, with so many held-out tokens. */
uint64_t gptaq_bytes(const model_tensor *t, size_t held);
