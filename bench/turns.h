/* Functions shared by programs that measure types in turns. */
#pragma once

#include <stdbool.h>

/* Processor time of the calling thread. */
double turns_cpu_seconds(void);
/* The median of n > 0 numbers, which it sorts. */
double turns_median(double *v, int n);
/* Whether a list of names between commas has this one, in any case; NULL has all. */
bool turns_is_listed(const char *names, const char *name);
