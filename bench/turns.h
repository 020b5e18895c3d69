/* Functions shared by programs that measure types in turns. */
#ifndef GQ_BENCH_TURNS_H
#define GQ_BENCH_TURNS_H

#include <stdbool.h>

/* Sorts v, n > 0. */
double median(double *v, int n);
/* Whether a list of names between commas has this one, in any case; NULL has all. */
bool listed(const char *names, const char *name);

#endif
