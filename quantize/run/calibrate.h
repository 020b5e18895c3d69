/* Rounding with the model's own inputs, layer by layer, into the outputs' files; before the engine's pass
 * over all chunks, which takes the blocks of these tensors from there.
 */
#ifndef GQ_CALIBRATE_H
#define GQ_CALIBRATE_H

#include "quantize/run/output.h"
#include "quantize/run/results.h"
#include "quantize/sweep/checkpoint.h"

/* Round all that the plan calls calibrated, or what an earlier run has left of it, and tell what came of it
 * in the results. The outputs' files are open and have their sizes. written: they are whole, and may have
 * their names already; then nothing is left to do but to tell. *kept: the layers that are finished, beside
 * the first output, opened and locked; the caller's to close in any case, and to remove when they are not
 * needed any more. */
bool calibrate_run(const gq_plan *plan, const output_set *outputs, bool written, gq_results *results,
                   const gq_callbacks *callbacks, checkpoint *kept, gq_error *e);

#endif
