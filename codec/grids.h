/* The grids of the types that code 8 or 4 weights by one index: IQ1_S to IQ3_S. codec/make_grids has written
 * the entries, in grids.inc; codec/simd/grid_search.h finds the entry nearest to some weights. */
#pragma once

#include <stdint.h>

/* Entries of a grid, weights of an entry, and ways there are to choose digits for these. */
#define GQ_GRIDS(X) \
    X(iq2_xxs, IQ2_XXS, 256, 8, 6561) \
    X(iq2_xs, IQ2_XS, 512, 8, 6561) \
    X(iq2_s, IQ2_S, 1024, 8, 6561) \
    X(iq3_xxs, IQ3_XXS, 256, 4, 4096) \
    X(iq3_s, IQ3_S, 512, 4, 4096) \
    X(iq1, IQ1, 2048, 8, 6561)

/* grid_NAME: what the digits stand for, the first weight first. Of IQ1 eight times that, as shifts are
 * eighths. grid_digits_NAME: the digits, packed, the first weight's lowest.
 * grid_index_NAME: the index of an entry, by its digits as a number: of base 3, or of base 8. In IQ1's,
 * digits 0 and 1 have changed places, so that 0 stands for 0. What is no entry has 0. */
#define GQ_DECLARE_GRID(name, NAME, entries, weights, ways) \
    extern const int8_t grid_##name[entries][weights]; \
    extern const uint16_t grid_digits_##name[entries], grid_index_##name[ways];
GQ_GRIDS(GQ_DECLARE_GRID)
