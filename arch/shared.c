/* Lists that rows of several families have: sizes that all models have, what llama.cpp's converter looks for in any
 * config, and rules and names that makers share. */
#include "arch/rows.h"

const arch_rule arch_after_attention[] = {P("post_attention_layernorm", "post_attention_norm"), {0}};

const arch_rename arch_backbone_renames[] = {
    {"model.backbone", "backbone", AT_BEGIN},
    {"model.lm_head", "lm_head", AT_BEGIN},
    {0},
};

const arch_item arch_core[] = {
    ITEM(".block_count", KV_BLOCKS),
    U32_IF(".context_length", NAMES_CONTEXT),
    U32_IF(".embedding_length", NAMES_WIDTH),
    LENGTHS_IF(".attention.head_count", NAMES_HEADS),
    END,
};

const arch_item arch_base[] = {
    LIST(arch_core),
    LENGTHS_IF(".feed_forward_length", NAMES_FF),
    LENGTHS_IF(".attention.head_count_kv", NAMES_KV_HEADS),
    ITEM_NAMES(".attention.causal", KV_CAUSAL, "is_causal"),
    ITEM(NULL, KV_ROPE),
    FLOAT_IF(".attention.layer_norm_rms_epsilon", NAMES_RMS),
    FLOAT_IF(".attention.layer_norm_epsilon", NAMES_NORM),
    U32_IF(".expert_count", NAMES_EXPERTS),
    U32_IF(".expert_used_count", NAMES_USED),
    U32_IF(".expert_group_count", "n_group"),
    U32_IF(".expert_group_used_count", "topk_group"),
    ITEM_NAMES(".expert_gating_func", KV_GATING, NAMES_GATING),
    U32_IF(".attention.key_length", "head_dim"),
    U32_IF(".attention.value_length", "head_dim"),
    END,
};

const arch_item arch_llama[] = {
    LIST(arch_base),
    U32(".vocab_size", "vocab_size"),
    SHARE_WHOLE(".rope.dimension_count", KV_SHARE_OF_HEAD),
    END,
};

const arch_rule arch_permuted_rules[] = {
    P("self_attn.q_proj", "attn_q", OP_ROPE_PAIRS_Q),
    P("self_attn.k_proj", "attn_k", OP_ROPE_PAIRS_K),
    {0},
};
