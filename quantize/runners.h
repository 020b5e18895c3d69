/* What stands above the core and runs models: handed in by job.c, which alone knows it. A build without a forward pass has
 * none of it and refuses what would need it by RUNNERS_MISSING. */
#pragma once

#include "gguf/expected.h"
#include "quantize/gquant_quantize.h"

typedef gq_plan *plan_maker(const gq_options *asked, gq_error *e);

typedef struct model_runners {
    const struct rounding_kind *calibration; /* plan/rounding.h */
    /* Makes the best plan of a calibration that takes no longer than was asked for. */
    gq_plan *(*plan_within)(const gq_options *asked, plan_maker *make, gq_error *e);
    const struct measurement *trials;    /* plan/target/measure.h */
    const struct array_rounding *arrays; /* arrays/arrays.h */
    model_check *check;
} model_runners;

#define RUNNERS_MISSING "this build has no forward pass: build it with -DGQUANT_FORWARD=ON"
