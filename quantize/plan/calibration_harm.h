/* How much each tensor's error matters to what the model says in the end, found by trying: a part of the text
 * is run with one tensor at a time in a coarse type, and the divergence from the original measured. For those
 * who choose types before anything is rounded. */
#ifndef GQ_CALIBRATION_HARM_H
#define GQ_CALIBRATION_HARM_H

#include "quantize/plan/measure.h"

/* Sets `harm` of those wanted that are run and were measured; of layers that are not tried (docs/mixes.md
 * says how many are) from the nearest one. Where memory does not hold a single trial nothing is set.
 * Importance is that of the sources. */
bool plan_try_harm(const gq_plan *plan, const bool *wanted, measured *found, const gq_callbacks *callbacks,
                   gq_error *e);

#endif
