/* Architectures that cannot be run: what neither reads nor writes text. */
#include "arch/rows.h"

const architecture arch_rows_others[] = {
    {.name = "clip", .kind = "an encoder of images", .is_projector = true},
    {.name = "wavtokenizer-dec", .kind = "a decoder of audio"},
    {.name = "deci", .mix = {.big_blocks = 80}},
    {.name = NULL},
};
