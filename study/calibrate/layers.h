/* Runs a calibration: the layers of a model, rounded one after another for all outputs. */
#pragma once

#include "study/calibrate/calibration.h"
#include "study/sweep/checkpoint.h"

/* Steps of the sweep, each with a record: all layers, and the output matrix if it is rounded. */
size_t calibrate_layers_steps(const calibration *job);
/* Does the steps that `saved` does not have yet, then the validation (validate.h), and adds them to it. callbacks: may
 * be NULL. *threads: how many threads worked. */
bool calibrate_layers(const calibration *job, checkpoint *saved, const gq_callbacks *callbacks,
                      threads_count *threads, gq_error *e);
