/* Numbers that look random and are the same everywhere. */
#pragma once

#include <stdint.h>

/* One step of splitmix64, a generator of pseudo-random 64-bit numbers. */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
