/* Rounding with the model's own inputs, layer by layer, into the outputs' files; before the engine's pass
 * over all chunks, which takes the blocks of these tensors from there.
 */
#ifndef GQ_CALIBRATE_H
#define GQ_CALIBRATE_H

#include "quantize/run/output.h"
#include "quantize/run/results.h"

/* Round all that the plan calls calibrated, or what an earlier run has left of it, and tell what came of it
 * in the results. The outputs' files are open and have their sizes. written: they are whole, and may have
 * their names already; then nothing is left to do but to tell. *kept: layers that are finished and kept
 * beside the first output. */
bool calibrate_run(const gq_plan *plan, const output_set *outputs, bool written, gq_results *results,
                   const gq_callbacks *callbacks, size_t *kept, gq_error *e);
/* The finished layers are not needed any more. */
void calibrate_forget(const gq_plan *plan);

#endif
