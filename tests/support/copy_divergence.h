/* How far a copy's predictions are from its original's. */
#ifndef GQ_TEST_COPY_DIVERGENCE_H
#define GQ_TEST_COPY_DIVERGENCE_H

#include <stdint.h>

/* The mean divergence on decimal ids in windows of `context`, by one thread. */
double copy_divergence(const char *original, const char *copy, const char *ids, uint32_t context);

#endif
