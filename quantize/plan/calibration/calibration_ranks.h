/* Ranks that share a calibrated run: whose windows are whose, and what all agree on. */
#ifndef GQ_CALIBRATION_RANKS_H
#define GQ_CALIBRATION_RANKS_H

#include "quantize/plan/calibration/calibration.h"

/* Gives this rank its share of the windows, which are read. */
void calibration_share(plan_calibration *c, const gq_options *options);
/* A collective: fails unless all ranks can open, to write, what rank 0 makes beside the first output.
 * Choosing types for a target may take hours before that output is begun. dry_run: nothing is made. */
bool calibration_check_folder(const gq_plan *plan, const plan_calibration *c, bool dry_run, gq_error *e);
/* Removes what ranks that were killed meanwhile have left of that. */
void calibration_clean_folder(const gq_plan *plan);
/* A collective, when the plan is made: checks that all ranks have the same, and agrees on what depends on a
 * machine's memory. Without ranks, or a calibration, it does nothing. */
bool plan_agree_calibration(gq_plan *plan, gq_error *e);

#endif
