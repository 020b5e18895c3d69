/* Architectures that cannot be run: what neither reads nor writes text. */
#include "arch/rows.h"

const architecture arch_rows_others[] = {
    {.name = "clip", .kind = "an encoder of images", .is_projector = true},
    {.name = "wavtokenizer-dec", .kind = "a decoder of audio"},
    {.name = "qwen3tts", .kind = "a model whose tokens are sounds"},
    {.name = "pockettts", .kind = "a model that makes sounds, without logits"},
    {.name = NULL},
};
