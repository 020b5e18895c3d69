/* Diffusion language models: tokens see each other both ways, and what is predicted is what masks stand for. */
#include "arch/rows.h"

static const arch_item list_diffusion_experts[] = {
    LIST(arch_base),
    U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
    U32_IF(".expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    BOOL_IS(".attention.causal", false),
    U32_IF("tokenizer.ggml.mask_token_id", "mask_token_id"),
    END,
};

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
        .folder = {CLASSES(CLASS("LLaDAMoEModel"), CLASS("LLaDAMoEModelLM")),
                   .pairs = PAIRS(
                       LIST(arch_base), U32_IF(".expert_feed_forward_length", "expert_intermediate_size"),
                       BOOL_IS(".attention.causal", false), U32_IS("tokenizer.ggml.mask_token_id", 156895),
                       BOOL_IS("diffusion.shift_logits", false))},
        .graph = {ATTENTION_AND(FFN_EXPERTS), .neox = true, .both_ways = true, .qk = QK_HEAD,
                  .routing = {.function = ROUTER_SOFTMAX, .has_groups = true}, .tied = TIED_NO},
    },
    {
        .name = "rnd1",
        .folder = {CLASSES(CLASS("RND1")), .pairs = list_diffusion_experts, .assumed_key = "norm_topk_prob",
                   .assumed = 1},
        .graph = {ATTENTION_AND(FFN_EXPERTS), .neox = true, .both_ways = true, .qk = QK_HEAD,
                  .free_head = true, .routing = ROUTING_GROUPS_SOFT_ONE},
    },
    {.name = NULL},
};
