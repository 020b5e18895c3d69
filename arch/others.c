/* Architectures that cannot be run: diffusion models, drafts. */
#include "arch/rows.h"

const architecture arch_rows_others[] = {
    {.name = "dream", .kind = "a diffusion model"},
    {.name = "llada", .kind = "a diffusion model"},
    {.name = "llada-moe", .kind = "a diffusion model"},
    {.name = "rnd1", .kind = "a diffusion model"},
    {.name = "clip", .kind = "an encoder of images", .is_projector = true},
    {.name = "wavtokenizer-dec", .kind = "a decoder of audio"},
    {.name = "eagle3", .kind = "a draft, which continues another model's states"},
    {.name = "dflash", .kind = "a draft, which continues another model's states"},
    {.name = "gemma4-assistant", .kind = "a draft, which continues another model's states"},
    {.name = "rwkv6", .kind = "a recurrent model of the RWKV family", .predicts = true},
    {.name = "rwkv6qwen2", .kind = "a recurrent model of the RWKV family", .predicts = true},
    {.name = "rwkv7", .kind = "a recurrent model of the RWKV family", .predicts = true},
    {.name = "arwkv7", .kind = "a recurrent model of the RWKV family", .predicts = true},
    {.name = "deci", .mix = {.big_blocks = 80}},
    {.name = NULL},
};
