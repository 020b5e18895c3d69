/* How far a copy's predictions are from its original's. */
#pragma once

#include <stdint.h>

/* The mean divergence on decimal ids in windows of `context`, by one thread. */
double copy_divergence(const char *original, const char *copy, const char *ids, uint32_t context);
