/* The calibration options of the main job. */
#ifndef CLI_CALIBRATION_H
#define CLI_CALIBRATION_H

#include "cli/report/report.h"

/* Turns the options into gq_options.calibration: *to becomes `room`, or NULL where no calibration is asked
 * for. Reads the text; calibration_free releases it in every case. */
bool calibration_ask(const request *r, gq_calibration *room, const gq_calibration **to, gq_error *e);
void calibration_free(gq_calibration *room);

#endif
