#include "codec/grids.h"

#include "codec/grids.inc"

/* The value that a digit stands for. */
#define LEVEL_IQ2_XXS(d) ((d) == 0 ? 8 : (d) == 1 ? 25 : 43)
#define LEVEL_IQ2_XS LEVEL_IQ2_XXS
#define LEVEL_IQ2_S LEVEL_IQ2_XXS
#define LEVEL_IQ3_XXS(d) ((d) == 7 ? 62 : 8 * (d) + 4)
#define LEVEL_IQ3_S(d) (2 * (d) + 1)
#define LEVEL_IQ1(d) (8 * (d)-8)

#define FOUR(NAME, e, width) \
    LEVEL_##NAME((e) & ((1 << (width)) - 1)), LEVEL_##NAME((e) >> (width) & ((1 << (width)) - 1)), \
        LEVEL_##NAME((e) >> 2 * (width) & ((1 << (width)) - 1)), \
        LEVEL_##NAME((e) >> 3 * (width) & ((1 << (width)) - 1))
#define EIGHT(NAME, e) {FOUR(NAME, e, 2), FOUR(NAME, (e) >> 8, 2)},

#define VALUES_IQ2_XXS(i, e) EIGHT(IQ2_XXS, e)
#define VALUES_IQ2_XS(i, e) EIGHT(IQ2_XS, e)
#define VALUES_IQ2_S(i, e) EIGHT(IQ2_S, e)
#define VALUES_IQ3_XXS(i, e) {FOUR(IQ3_XXS, e, 3)},
#define VALUES_IQ3_S(i, e) {FOUR(IQ3_S, e, 3)},
#define VALUES_IQ1(i, e) EIGHT(IQ1, e)
#define DIGITS(i, e) (e),

/* The digits as a number. */
#define BASE_3(e, d) (d((e)&3) + 3 * d((e) >> 2 & 3) + 9 * d((e) >> 4 & 3) + 27 * d((e) >> 6 & 3))
#define KEY_OF_8(e, d) (BASE_3(e, d) + 81 * BASE_3((e) >> 8, d))
#define SAME(d) (d)
#define CHANGED(d) ((d) == 2 ? 2 : 1 - (d))
#define INDEX_IQ2_XXS(i, e) [KEY_OF_8(e, SAME)] = (i),
#define INDEX_IQ2_XS INDEX_IQ2_XXS
#define INDEX_IQ2_S INDEX_IQ2_XXS
#define INDEX_IQ3_XXS(i, e) [e] = (i),
#define INDEX_IQ3_S INDEX_IQ3_XXS
#define INDEX_IQ1(i, e) [KEY_OF_8(e, CHANGED)] = (i),

#define GRID(name, NAME, entries, weights, ways) \
    const int8_t grid_##name[entries][weights] = {GRID_##NAME(VALUES_##NAME)}; \
    const uint16_t grid_digits_##name[entries] = {GRID_##NAME(DIGITS)}; \
    const uint16_t grid_index_##name[ways] = {GRID_##NAME(INDEX_##NAME)};
GQ_GRIDS(GRID)
