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

#define LLADA(from, to, ...) RULE("model.transformer.blocks.#." from, "blk.#." to, __VA_ARGS__)

const architecture arch_rows_diffusion[] = {
    {
        .name = "dream",
        .folder = {CLASSES(CLASS("DreamModel")),
                   .metadata = METADATA(LIST(arch_base), ITEM(".pooling_type", KV_OWN_POOLING),
                                        BOOL_IS(".attention.causal", false),
                                        U32_IF("tokenizer.ggml.mask_token_id", "mask_token_id")),
                   .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}}},
        .graph = {ATTENTION_AND(FFN_GATED), .neox = true, .both_ways = true, .logit_bias = UNUSED},
    },
    {
        .name = "llada",
        .folder = {CLASSES(CLASS("LLaDAModelLM")),
                   .metadata = METADATA(LIST(arch_base), ITEM(".pooling_type", KV_OWN_POOLING),
                                        U32(".vocab_size", "vocab_size"),
                                        SHARE_WHOLE(".rope.dimension_count", KV_SHARE_OF_HEAD),
                                        U32_OR(".context_length", "max_sequence_length", 4096),
                                        U32_OR(".embedding_length", "d_model", 4096),
                                        U32_OR(".feed_forward_length", "mlp_hidden_size", 12288),
                                        BOOL_IS(".attention.causal", false),
                                        BOOL_IS("diffusion.shift_logits", false)),
                   .rules = RULES(RULE("model.transformer.wte", "token_embd"),
                                  RULE("model.transformer.ff_out", "output", OP_OMIT_TIED_HEAD),
                                  RULE("model.transformer.ln_f", "output_norm"),
                                  LLADA("attn_norm", "attn_norm"), LLADA("q_proj", "attn_q", OP_ROPE_PAIRS_Q),
                                  LLADA("k_proj", "attn_k", OP_ROPE_PAIRS_K), LLADA("v_proj", "attn_v"),
                                  LLADA("attn_out", "attn_output"), LLADA("ff_norm", "ffn_norm"),
                                  LLADA("ff_proj", "ffn_gate"), LLADA("up_proj", "ffn_up"),
                                  LLADA("ff_out", "ffn_down")),
                   .tokenizer = {.exceptions = TOKENS_BOS_ALWAYS}},
        .graph = {ATTENTION_AND(FFN_GATED), .both_ways = true, .free_head = true, .factors = FACTORS_UNUSED,
                  .output_bias = UNUSED, .ffn_bias = UNUSED},
    },
    {
        .name = "llada-moe",
        .folder = {CLASSES(CLASS("LLaDAMoEModel"), CLASS("LLaDAMoEModelLM")),
                   .metadata = METADATA(LIST(arch_base),
                                        U32_IF(".expert_feed_forward_length", "expert_intermediate_size"),
                                        BOOL_IS(".attention.causal", false),
                                        U32_IS("tokenizer.ggml.mask_token_id", 156895),
                                        BOOL_IS("diffusion.shift_logits", false))},
        .graph = {ATTENTION_AND(FFN_EXPERTS), .experts_share = true, .neox = true, .both_ways = true,
                  .qk = QK_HEAD, .routing = {.function = ROUTER_SOFTMAX, .has_groups = true},
                  .tied = TIED_NO},
    },
    {
        .name = "rnd1",
        .folder = {CLASSES(CLASS("RND1")), .metadata = list_diffusion_experts,
                   .assumed_key = "norm_topk_prob", .assumed = 1},
        .graph = {ATTENTION_AND(FFN_EXPERTS), .experts_share = true, .neox = true, .both_ways = true,
                  .qk = QK_HEAD, .free_head = true, .routing = ROUTING_GROUPS_SOFT_ONE},
    },
    {.name = NULL},
};
