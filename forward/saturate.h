/* Sums of sizes that no size can wrap: UINT64_MAX, more than can be counted, stays what it is. */
#ifndef GQ_FORWARD_SATURATE_H
#define GQ_FORWARD_SATURATE_H

#include <stdint.h>

static inline uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

#endif
