/* The curve of size against expected divergence, for `gquant plan --text`. */
#ifndef CLI_PLAN_CURVE_H
#define CLI_PLAN_CURVE_H

#include <stdio.h>

#include "cli/request.h"

typedef struct curve_point {
    uint64_t memory;     /* bytes of a machine that the file is the best for; 0: only a point of the curve */
    uint64_t file_bytes; /* asked for */
    double expected;     /* divergence, nats */
} curve_point;

typedef struct curve {
    curve_point *points; /* n of them, smallest first */
    size_t n;
} curve;

/* Plans the best mixes of sizes from `least` to `most` bytes. options: the plan's, with calibration and
 * foretell. beside: bytes that running takes beside the file. Free ->points, also after a failure. */
bool curve_fill(curve *c, const gq_options *options, uint64_t beside, uint64_t least, uint64_t most,
                gq_error *e);
void curve_print(const curve *c);

#endif
