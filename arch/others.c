/* Architectures that cannot be run: encoders, drafts. */
#include "arch/rows.h"

const architecture arch_rows_others[] = {
    {.name = "bert", .kind = "an encoder"},
    {.name = "modern-bert", .kind = "an encoder"},
    {.name = "neo-bert", .kind = "an encoder"},
    {.name = "nomic-bert", .kind = "an encoder"},
    {.name = "nomic-bert-moe", .kind = "an encoder"},
    {.name = "jina-bert-v2", .kind = "an encoder"},
    {.name = "jina-bert-v3", .kind = "an encoder"},
    {.name = "eurobert", .kind = "an encoder"},
    {.name = "gemma-embedding", .kind = "an encoder"},
    {.name = "llama-embed", .kind = "an encoder", .mix = {.big_blocks = 80, .big_if_grouped = true}},
    {.name = "t5encoder", .kind = "an encoder"},
    {.name = "t5", .kind = "an encoder with a decoder"},
    {.name = "clip", .kind = "an encoder of images", .is_projector = true},
    {.name = "wavtokenizer-dec", .kind = "a decoder of audio"},
    {.name = "eagle3", .kind = "a draft, which continues another model's states"},
    {.name = "dflash", .kind = "a draft, which continues another model's states"},
    {.name = "gemma4-assistant", .kind = "a draft, which continues another model's states"},
    {.name = "deci", .mix = {.big_blocks = 80}},
    {.name = NULL},
};
