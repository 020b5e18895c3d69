/* Architectures that cannot be run: drafts, and what neither reads nor writes text. */
#include "arch/rows.h"

const architecture arch_rows_others[] = {
    {.name = "clip", .kind = "an encoder of images", .is_projector = true},
    {.name = "wavtokenizer-dec", .kind = "a decoder of audio"},
    {.name = "eagle3", .kind = "a draft, which continues another model's states"},
    {.name = "dflash", .kind = "a draft, which continues another model's states"},
    {.name = "gemma4-assistant", .kind = "a draft, which continues another model's states"},
    {.name = "deci", .mix = {.big_blocks = 80}},
    {.name = NULL},
};
