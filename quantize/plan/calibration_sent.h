/* What ranks send in a calibration, counted before it begins. */
#ifndef GQ_CALIBRATION_SENT_H
#define GQ_CALIBRATION_SENT_H

#include "quantize/plan/calibration.h"

/* Sets sent and sent_layer of the plan's facts: the bytes of the rank that sends most, as gq_comm_bytes_sent
 * counts them in gq_run. What depends on the weights is taken as it mostly is: tokens meet as many experts as
 * the model says, and metrics of rows and fits of routers can be used. */
bool calibration_count_sent(gq_plan *plan, gq_error *e);

#endif
