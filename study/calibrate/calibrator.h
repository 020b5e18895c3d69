/* The layers of a model, rounded one after another for all outputs. */
#pragma once

#include "study/calibrate/record.h"
#include "study/sweep/checkpoint.h"
#include "study/sweep/sweep.h"

/* Steps of the sweep, each with a record: all layers, and the output matrix if it is rounded. */
size_t calibrator_sweep_steps(const calibrate_job *job);
/* Does the steps that `saved` does not have yet, then the validation (validate.h), and adds them to it. callbacks: may
 * be NULL. *threads: how many threads worked. */
bool calibrator_run(const calibrate_job *job, checkpoint *saved, const gq_callbacks *callbacks,
                    threads_count *threads, gq_error *e);
