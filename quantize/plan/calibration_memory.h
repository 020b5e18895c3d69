/* Memory and work of a calibrated run. */
#ifndef GQ_CALIBRATION_MEMORY_H
#define GQ_CALIBRATION_MEMORY_H

#include "quantize/plan/calibration.h"

/* Set c->width and c->job.memory, from what was asked for and the model alone. */
void calibration_set_width(const gq_plan *plan, plan_calibration *c);
/* Set bounds, besides, matrices_at_once, and what the facts say of them. */
bool calibration_bound(const gq_plan *plan, plan_calibration *c, gq_error *e);
/* Floating-point operations, about. */
double calibration_work(const gq_plan *plan, const plan_calibration *c);

#endif
