/* Diffusion language models: tokens see each other both ways, and what is predicted is what masks stand for. */
#include "arch/rows.h"

const architecture arch_rows_diffusion[] = {
    {
        .name = "dream",
        .graph = {ATTENTION_AND(FFN_GATED), .neox = true, .both_ways = true, .logit_bias = UNUSED},
    },
    {
        .name = "llada",
        .graph = {ATTENTION_AND(FFN_GATED), .both_ways = true, .free_head = true, .factors = FACTORS_UNUSED,
                  .output_bias = UNUSED, .ffn_bias = UNUSED},
    },
    {
        .name = "llada-moe",
        .graph = {ATTENTION_AND(FFN_EXPERTS), .neox = true, .both_ways = true, .qk = QK_HEAD,
                  .routing = {.function = ROUTER_SOFTMAX, .has_groups = true}, .tied = TIED_NO},
    },
    {
        .name = "rnd1",
        .graph = {ATTENTION_AND(FFN_EXPERTS), .neox = true, .both_ways = true, .qk = QK_HEAD,
                  .free_head = true, .routing = ROUTING_GROUPS_SOFT_ONE},
    },
    {.name = NULL},
};
