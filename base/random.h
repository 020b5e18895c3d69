/* Numbers that look random and are the same everywhere. */
#pragma once

#include <stdint.h>

/* 2^64 by the golden ratio. */
static const uint64_t RANDOM_GOLDEN = 0x9e3779b97f4a7c15;

/* Returns k times the golden ratio without whole numbers, as a place below n: successive places are spread evenly. */
static inline uint64_t random_spread(uint64_t k, uint64_t n) {
    return (uint64_t)((unsigned __int128)(k * RANDOM_GOLDEN) * n >> 64);
}

/* One step of splitmix64, a generator of pseudo-random 64-bit numbers. */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += RANDOM_GOLDEN;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
