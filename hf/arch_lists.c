/* The items that most lists begin with, and the search for an architecture's list. */
#include "hf/arch_lists.h"

const arch_item arch_core[] = {
    ITEM(".block_count", pair_blocks),
    U32_IF(".context_length", NAMES_CONTEXT),
    U32_IF(".embedding_length", NAMES_WIDTH),
    LENGTHS_IF(".attention.head_count", NAMES_HEADS),
    END,
};

const arch_item arch_base[] = {
    LIST(arch_core),
    LENGTHS_IF(".feed_forward_length", NAMES_FF),
    LENGTHS_IF(".attention.head_count_kv", NAMES_KV_HEADS),
    ITEM_NAMES(".attention.causal", pair_causal, "is_causal"),
    ITEM(NULL, pair_rope),
    FLOAT_IF(".attention.layer_norm_rms_epsilon", NAMES_RMS),
    FLOAT_IF(".attention.layer_norm_epsilon", NAMES_NORM),
    U32_IF(".expert_count", NAMES_EXPERTS),
    U32_IF(".expert_used_count", NAMES_USED),
    U32_IF(".expert_group_count", "n_group"),
    U32_IF(".expert_group_used_count", "topk_group"),
    ITEM_NAMES(".expert_gating_func", pair_gating, NAMES_GATING),
    U32_IF(".attention.key_length", "head_dim"),
    U32_IF(".attention.value_length", "head_dim"),
    END,
};
