/* The calibration options of the main job. */
#ifndef CLI_CALIBRATION_H
#define CLI_CALIBRATION_H

#include "cli/report.h"

/* Turns the options into what gq_options takes; *to is NULL where no calibration is asked for. Reads the
 * text, which calibration_free releases. */
bool calibration_ask(const request *r, gq_calibration *room, const gq_calibration **to, gq_error *e);
void calibration_free(gq_calibration *room);

#endif
