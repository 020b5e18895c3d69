/* The run of a calibrated plan: functions of rounding_by_calibration, which has what they do. */
#pragma once

#include "quantize/plan/rounding.h"

bool calibrate_run(const gq_plan *plan, const rounding_store *store, bool written, gq_results *results,
                   const gq_callbacks *callbacks, rounding_kept *kept, gq_error *e);
void calibrate_remove_kept(const rounding_kept *kept);
void calibrate_close_kept(rounding_kept *kept);
