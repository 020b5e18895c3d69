/* Rounds a plan's calibrated tensors, layer by layer, into the outputs' files. This comes before the engine's
 * pass over all chunks, which reads the blocks of these tensors back. */
#pragma once

#include "quantize/run/output.h"
#include "quantize/run/results.h"
#include "study/sweep/checkpoint.h"

/* Rounds all tensors that the plan calls calibrated, or those that an earlier run has not finished, and puts
 * the figures into the results. The outputs' files are open and have their sizes. written: they are whole,
 * and may have their names already, so that only figures are read. *saved: the checkpoint of the finished
 * layers, beside the first output, opened and locked. The caller closes it in any case, and removes it when
 * it is not needed any more. */
/* Of ranks only the first calls it; the others call calibrate_follow, which does their share, if there is a
 * calibration. */
bool calibrate_run(const gq_plan *plan, const output_set *outputs, bool written, gq_results *results,
                   const gq_callbacks *callbacks, checkpoint *saved, gq_error *e);
bool calibrate_follow(const gq_plan *plan, const gq_callbacks *callbacks, gq_error *e);
