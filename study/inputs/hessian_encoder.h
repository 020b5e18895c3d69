/* Encodes rows in memory under the Hessian H of their inputs, that of the rows' error: of each row the better
 * of two results is kept, of search and of GPTQ-style error feedback. */
#pragma once

#include "quantize/arrays/arrays.h"

extern const array_rounding rounding_by_hessian;
