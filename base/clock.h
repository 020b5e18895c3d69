/* Time that only advances, whatever the system's date is set to. */
#pragma once

#include <time.h>

/* Seconds since some moment in the past; the difference of two calls is what passed between them. */
static inline double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
