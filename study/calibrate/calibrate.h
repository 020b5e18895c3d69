/* Calibration as a plan and its run know it: a rounding that goes layer by layer, into the outputs' files. */
#pragma once

#include "quantize/plan/rounding.h"

extern const rounding_kind rounding_by_calibration;
