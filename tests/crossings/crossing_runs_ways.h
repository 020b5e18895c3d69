/* Ways for jobs that run a model. */
#pragma once

#include "tests/crossings/crossing_case.h"

const crossing_way *crossing_runs_ways(size_t *n);
