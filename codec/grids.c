#include "codec/grids.h"

#include "codec/grids.inc"

/* What a digit stands for. */
#define LEVEL_IQ2_XXS(d) ((d) == 0 ? 8 : (d) == 1 ? 25 : 43)
#define LEVEL_IQ2_XS LEVEL_IQ2_XXS
#define LEVEL_IQ2_S LEVEL_IQ2_XXS
#define LEVEL_IQ3_XXS(d) ((d) == 7 ? 62 : 8 * (d) + 4)
#define LEVEL_IQ3_S(d) (2 * (d) + 1)
#define LEVEL_IQ1(d) (8 * (d)-8)

#define FOUR(NAME, e, width) \
    LEVEL_##NAME((e) & ((1 << width) - 1)), LEVEL_##NAME((e) >> width & ((1 << width) - 1)), \
        LEVEL_##NAME((e) >> 2 * width & ((1 << width) - 1)), \
        LEVEL_##NAME((e) >> 3 * width & ((1 << width) - 1))
#define EIGHT(NAME, e) {FOUR(NAME, e, 2), FOUR(NAME, (e) >> 8, 2)},

#define VALUES_IQ2_XXS(e) EIGHT(IQ2_XXS, e)
#define VALUES_IQ2_XS(e) EIGHT(IQ2_XS, e)
#define VALUES_IQ2_S(e) EIGHT(IQ2_S, e)
#define VALUES_IQ3_XXS(e) {FOUR(IQ3_XXS, e, 3)},
#define VALUES_IQ3_S(e) {FOUR(IQ3_S, e, 3)},
#define VALUES_IQ1(e) EIGHT(IQ1, e)
#define DIGITS(e) (e),

#define GRID(name, NAME, entries, weights, width) \
    const int8_t grid_##name[entries][weights] = {GRID_##NAME(VALUES_##NAME)}; \
    const uint16_t grid_digits_##name[entries] = {GRID_##NAME(DIGITS)};
GQ_GRIDS(GRID)
