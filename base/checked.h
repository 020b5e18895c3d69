/* Arithmetic on sizes that no size can wrap: UINT64_MAX, more than can be counted, stays what it is. */
#pragma once

#include <stdint.h>

/* A number for %llu, which uint64_t is no argument of on every system. */
#define LLU(number) ((unsigned long long)(number))

static inline uint64_t add_sat(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static inline uint64_t mul_sat(uint64_t a, uint64_t b) {
    uint64_t product;
    return a == UINT64_MAX || b == UINT64_MAX || __builtin_mul_overflow(a, b, &product) ? UINT64_MAX
                                                                                        : product;
}

static inline uint64_t max(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The number of parts of n; no part is 0. */
static inline uint64_t ceil_div(uint64_t n, uint64_t part) { return n / part + (n % part != 0); }

/* n rounded up to an alignment, a power of two; the caller knows that it does not wrap. */
static inline uint64_t round_up(uint64_t n, uint64_t alignment) {
    return (n + alignment - 1) & ~(alignment - 1);
}
