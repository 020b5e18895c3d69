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

#define VALUE_IQ2_XXS(e) EIGHT(IQ2_XXS, e)
#define VALUE_IQ2_XS(e) EIGHT(IQ2_XS, e)
#define VALUE_IQ2_S(e) EIGHT(IQ2_S, e)
#define VALUE_IQ3_XXS(e) {FOUR(IQ3_XXS, e, 3)},
#define VALUE_IQ3_S(e) {FOUR(IQ3_S, e, 3)},
#define VALUE_IQ1(e) EIGHT(IQ1, e)
#define DIGITS(e) (e),

/* The digits as a number. */
#define BASE_3(e, d) (d((e)&3) + 3 * d((e) >> 2 & 3) + 9 * d((e) >> 4 & 3) + 27 * d((e) >> 6 & 3))
#define KEY_OF_8(e, d) (BASE_3(e, d) + 81 * BASE_3((e) >> 8, d))
#define SAME(d) (d)
#define CHANGED(d) ((d) == 2 ? 2 : 1 - (d))
#define KEY_IQ2_XXS(e) KEY_OF_8(e, SAME)
#define KEY_IQ2_XS KEY_IQ2_XXS
#define KEY_IQ2_S KEY_IQ2_XXS
#define KEY_IQ3_XXS(e) (e)
#define KEY_IQ3_S KEY_IQ3_XXS
#define KEY_IQ1(e) KEY_OF_8(e, CHANGED)

/* Expands to ITEM(each) for eight entries of grids.inc. */
#define OF_8(ITEM, a, b, c, d, e, f, g, h) \
    ITEM(0x##a) ITEM(0x##b) ITEM(0x##c) ITEM(0x##d) ITEM(0x##e) ITEM(0x##f) ITEM(0x##g) ITEM(0x##h)
#define INDEX_IQ2_XXS(e) [KEY_IQ2_XXS(e)] = __COUNTER__ - FIRST_IQ2_XXS,
#define INDEX_IQ2_XS(e) [KEY_IQ2_XS(e)] = __COUNTER__ - FIRST_IQ2_XS,
#define INDEX_IQ2_S(e) [KEY_IQ2_S(e)] = __COUNTER__ - FIRST_IQ2_S,
#define INDEX_IQ3_XXS(e) [KEY_IQ3_XXS(e)] = __COUNTER__ - FIRST_IQ3_XXS,
#define INDEX_IQ3_S(e) [KEY_IQ3_S(e)] = __COUNTER__ - FIRST_IQ3_S,
#define INDEX_IQ1(e) [KEY_IQ1(e)] = __COUNTER__ - FIRST_IQ1,

/* Entries are numbered in their order. */
#define GRID(name, NAME, entries, weights, ways) \
    const int8_t grid_##name[entries][weights] = {GRID_##NAME(OF_8, VALUE_##NAME)}; \
    const uint16_t grid_digits_##name[entries] = {GRID_##NAME(OF_8, DIGITS)}; \
    enum { FIRST_##NAME = __COUNTER__ + 1 }; \
    const uint16_t grid_index_##name[ways] = {GRID_##NAME(OF_8, INDEX_##NAME)};
GQ_GRIDS(GRID)
