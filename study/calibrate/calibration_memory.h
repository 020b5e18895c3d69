/* Computes the memory of a calibrated run. */
#pragma once

#include "study/calibrate/calibration.h"

/* Decisions that change bytes assume this many threads, and this many bytes of the process besides
 * calibration, whatever the real numbers are. */
enum { USUAL_THREADS = 16, USUAL_PROCESS = 16 << 20 };

/* Sets c->settings.width and c->memory.deciding from the request and the model alone, c->job.memory (bytes),
 * and the facts about columns. */
void calibration_set_width(const gq_plan *plan, calibration *c);
/* Sets the bounds of c->text and c->ahead, c->memory and facts.memory. Fails with GQ_USAGE where the memory that
 * was asked for is too little. */
bool calibration_bound(const gq_plan *plan, calibration *c, gq_error *e);
/* Whether the base model is run ahead, for an embedding that is the output matrix and is calibrated in some
 * output.
 */
bool calibration_runs_ahead(const gq_plan *plan, const calibration *c);
