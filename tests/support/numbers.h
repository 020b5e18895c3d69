/* Random weights: the same on every machine, since no library function is involved. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void seed_random(uint64_t seed);
uint64_t next_random(void);
float random_uniform(void); /* -1 .. 1 */
float random_normal(void);  /* near enough: a sum of twelve uniform numbers */
void fill_normal(float *x, size_t n, float deviation);
/* Importance values like a model's: over several powers of ten. */
void fill_importance(float *w, size_t n);
