/* The layers of a model, rounded one after another for all outputs. */
#ifndef GQ_CALIBRATE_LAYERS_H
#define GQ_CALIBRATE_LAYERS_H

#include "quantize/run/calibrate_record.h"
#include "quantize/run/results.h"
#include "quantize/sweep/checkpoint.h"
#include "quantize/sweep/sweep.h"

typedef struct calibrator calibrator;

/* kept: what is finished; further layers are added to it. */
calibrator *calibrator_new(const gq_plan *plan, const output_set *outputs, checkpoint *kept, gq_error *e);
void calibrator_free(calibrator *c);
/* How many its run has had. */
threads_count calibrator_threads(const calibrator *c);
/* Of all layers, and the output matrix where it is rounded. */
size_t calibrator_steps(const gq_plan *plan);
/* Round what is not finished. */
bool calibrator_run(calibrator *c, const gq_callbacks *callbacks, gq_error *e);

#endif
