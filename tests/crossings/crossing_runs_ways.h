/* Ways for jobs that run a model. */
#ifndef GQ_TEST_CROSSING_RUNS_WAYS_H
#define GQ_TEST_CROSSING_RUNS_WAYS_H

#include "tests/crossings/crossing_case.h"

const crossing_way *crossing_runs_ways(size_t *n);

#endif
