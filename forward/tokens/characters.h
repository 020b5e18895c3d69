/* Characters as vocabularies of words see them: tables that a range or character of 0 ends, in ascending order. */
#pragma once

#include <stdint.h>

typedef struct character_range {
    uint32_t first, last;
} character_range;
/* Every step-th character has a small one, `by` after it. */
typedef struct character_case {
    uint32_t first, last, step;
    int32_t by;
} character_case;

extern const character_range characters_punctuation[], characters_left_out[], characters_marks[],
    characters_spaces[];
extern const character_case characters_cases[];
/* Characters that are made of others; and the first one that each of them is made of, in the same order. */
extern const character_range characters_composed[];
extern const uint32_t characters_bases[];
