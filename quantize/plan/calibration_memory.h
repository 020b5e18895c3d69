/* Memory and work of a calibrated run. */
#ifndef GQ_CALIBRATION_MEMORY_H
#define GQ_CALIBRATION_MEMORY_H

#include "quantize/plan/calibration.h"

/* Decisions that change bytes assume this many threads, and this many bytes of the process besides
 * calibration, whatever the real numbers are. */
enum { USUAL_THREADS = 16, USUAL_PROCESS = 16 << 20 };

/* Set c->width and c->deciding_memory, from what was asked for and the model alone, and c->job.memory. */
void calibration_set_width(const gq_plan *plan, plan_calibration *c);
/* Set bounds, besides, matrices_at_once, and what the facts say of them. */
bool calibration_bound(const gq_plan *plan, plan_calibration *c, gq_error *e);
/* Floating-point operations, about. */
double calibration_work(const gq_plan *plan, const plan_calibration *c);

#endif
