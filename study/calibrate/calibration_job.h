/* A plan's calibration as the calibrator takes it, and what it is predicted to take. */
#pragma once

#include "study/calibrate/calibration.h"

/* What the calibrator is given. Its store and the folder for what probes keep are left to the caller. All else
 * it points to is the plan's, and these lists. */
typedef struct calibration_job {
    calibrate_job job;
    const model_tensor **tensors;
    const gq_tensor **outputs;
} calibration_job;
bool calibration_job_new(calibration_job *to, const gq_plan *plan, gq_error *e);
void calibration_job_free(calibration_job *job); /* also one of zeros */

/* Fills the plan's costs, and the work that its facts have. measures: by timing a sample, for a second or some (study/calibrate/costs.h); then
 * the facts have the seconds that layers take which are left to do, or 0 where that cannot be told. Otherwise,
 * and where it cannot be told, by the speed of a usual processor. callbacks: told that it measures. */
bool calibration_cost(gq_plan *plan, bool measures, const gq_callbacks *callbacks, gq_error *e);
/* Returns the seconds of these costs that are left to do, in layers and before them. */
double calibration_seconds_left(const plan_calibration *c);
