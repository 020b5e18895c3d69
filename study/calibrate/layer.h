/* A layer of a calibration, or what flows into the output matrix. */
#pragma once

#include "study/calibrate/calibrator.h"

/* Rounds what is left of a layer, or of the output matrix (NULL), for all outputs, and lets all streams pass
 * it. */
bool calibrator_do_layer(calibrator *c, forward_layer *l, gq_error *e);
