/* Metadata of models with experts, and of the dense relatives that are described with them. */
#include "hf/arch_lists.h"

/* ---- a router and equal experts ---- */

static const arch_item list_qwen_experts[] = {
    LIST(arch_base),
    U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
    U32_IF(".expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    END,
};

static const arch_item list_qwen3vlmoe[] = {
    LIST(arch_base),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    ITEM_NAMES(".n_deepstack_layers", pair_count, "vision_config.deepstack_visual_indexes"),
    END,
};

static const arch_item list_gpt_oss[] = {
    LIST(arch_base),
    U32(".attention.sliding_window", "sliding_window"),
    U32(".expert_feed_forward_length", "intermediate_size"),
    END,
};

static const arch_item list_olmoe[] = {
    LIST(arch_base),
    FLOAT_IS(".attention.layer_norm_rms_epsilon", 1e-5),
    END,
};

static const arch_item list_phimoe[] = {
    LIST(arch_phi3),
    U32(".expert_used_count", NAMES_USED),
    U32(".expert_count", NAMES_EXPERTS),
    END,
};

static const arch_item list_llama4[] = {
    LIST(arch_llama),
    U32(".feed_forward_length", "intermediate_size_mlp"),
    U32(".expert_feed_forward_length", "intermediate_size"),
    U32(".interleave_moe_layer_step", "interleave_moe_layer_step"),
    ITEM(".attention.sliding_window", own_llama4_window),
    END,
};

static const arch_item list_minimax_m2[] = {
    LIST(arch_base),
    U32(".expert_feed_forward_length", "intermediate_size"),
    U32(".rope.dimension_count", "rotary_dim"),
    END,
};

static const arch_item list_minimax_m3[] = {
    LIST(list_minimax_m2),
    U32(".expert_shared_count", "n_shared_experts"),
    FLOAT(".expert_weights_scale", "routed_scaling_factor"),
    BOOL_IS(".expert_weights_norm", true),
    U32(".attention.indexer.head_count", "sparse_attention_config.sparse_num_index_heads"),
    U32(".attention.indexer.key_length", "sparse_attention_config.sparse_index_dim"),
    U32(".attention.indexer.top_k", "sparse_attention_config.sparse_topk_blocks"),
    U32(".attention.indexer.block_size", "sparse_attention_config.sparse_block_size"),
    U32(".attention.indexer.local_blocks", "sparse_attention_config.sparse_local_block"),
    ITEM_NAMES(".leading_dense_block_count", pair_zeros, "moe_layer_freq"),
    END,
};

static const arch_item list_smallthinker[] = {
    LIST(arch_base),
    U32_IF(".expert_count", "moe_num_primary_experts"),
    U32_IF(".expert_used_count", "moe_num_active_primary_experts"),
    U32_IF(".feed_forward_length", "moe_ffn_hidden_size"),
    U32_IF(".expert_feed_forward_length", "moe_ffn_hidden_size"),
    ITEM(NULL, own_smallthinker),
    END,
};

static const arch_item list_afmoe[] = {
    LIST(arch_llama),
    U32_IF(".expert_shared_count", "num_shared_experts"),
    U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
    U32_IF(".leading_dense_block_count", "num_dense_layers"),
    BOOL_IF(".expert_weights_norm", "route_norm"),
    FLOAT_IF(".expert_weights_scale", "route_scale"),
    U32_IF(".attention.sliding_window", "sliding_window"),
    END,
};

/* ---- dense layers first, then experts with a shared one ---- */

static const arch_item list_dots1[] = {
    LIST(arch_base),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    U32(".leading_dense_block_count", "first_k_dense_replace"),
    U32(".expert_shared_count", "n_shared_experts"),
    FLOAT(".expert_weights_scale", "routed_scaling_factor"),
    BOOL(".expert_weights_norm", "norm_topk_prob"),
    END,
};

static const arch_item list_glm4moe[] = {
    LIST(arch_base),
    SHARE_OR(".rope.dimension_count", pair_share_of_head, "rope.partial_rotary_factor", 0.5),
    U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
    U32_IF(".expert_shared_count", "n_shared_experts"),
    U32_IF(".leading_dense_block_count", "first_k_dense_replace"),
    U32_IS(".expert_gating_func", 2),
    FLOAT_IF(".expert_weights_scale", "routed_scaling_factor"),
    BOOL_IF(".expert_weights_norm", "norm_topk_prob"),
    ITEM_NAMES(".nextn_predict_layers", pair_predict, "num_nextn_predict_layers"),
    END,
};

static const arch_item list_ernie_experts[] = {
    LIST(arch_base),
    U32(".expert_count", "moe_num_experts"),
    U32(".expert_used_count", "moe_k"),
    U32(".interleave_moe_layer_step", "moe_layer_interval"),
    U32(".leading_dense_block_count", "moe_layer_start_index"),
    U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
    U32_IF(".expert_shared_count", "moe_num_shared_experts"),
    END,
};

static const arch_item list_bailingmoe2[] = {
    LIST(arch_base),
    SHARE_OR(".rope.dimension_count", pair_share_of_head, "rope.partial_rotary_factor", 0.5),
    U32(".leading_dense_block_count", "first_k_dense_replace"),
    U32(".vocab_size", "vocab_size"),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    ITEM_NAMES(".expert_shared_feed_forward_length", pair_product,
               "moe_intermediate_size num_shared_experts"),
    U32_IF(".expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"),
    FLOAT(".expert_weights_scale", "routed_scaling_factor"),
    U32(".expert_shared_count", "num_shared_experts"),
    BOOL(".expert_weights_norm", "norm_topk_prob"),
    ITEM_NAMES(".nextn_predict_layers", pair_predict, "num_nextn_predict_layers"),
    END,
};

static const arch_item list_exaone_experts[] = {
    LIST(arch_exaone4),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    U32(".expert_shared_count", "num_shared_experts"),
    ITEM_NAMES(".expert_shared_feed_forward_length", pair_product,
               "moe_intermediate_size num_shared_experts"),
    FLOAT(".expert_weights_scale", "routed_scaling_factor"),
    BOOL(".expert_weights_norm", "norm_topk_prob"),
    U32_OR(".leading_dense_block_count", "first_k_dense_replace|first_last_k_dense_replace", 0),
    ITEM(".nextn_predict_layers", pair_predict),
    ITEM_NAMES(".rope.scaling.type", pair_text, "none"),
    END,
};

/* The config has a list for each of these numbers, with the same for all layers. */
static const arch_item list_hunyuan_experts[] = {
    LIST(arch_base),
    U32(".expert_shared_feed_forward_length", "intermediate_size"),
    ITEM_NAMES(".expert_feed_forward_length", pair_first, "moe_intermediate_size"),
    ITEM_NAMES(".expert_used_count", pair_first, "moe_topk"),
    ITEM_NAMES(".expert_shared_count", pair_first, "num_shared_expert"),
    ITEM(NULL, rope_hunyuan_experts),
    END,
};

/* ---- attention that keeps keys and values as a short vector ---- */

static const arch_item list_deepseek[] = {
    LIST(arch_base),
    U32_IS(".attention.head_count_kv", 1),
    FLOAT_OR(".attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6),
    ITEM(".leading_dense_block_count", own_deepseek_dense),
    U32(".vocab_size", "vocab_size"),
    U32_IF(".attention.q_lora_rank", "q_lora_rank"),
    U32_OR(".attention.kv_lora_rank", "kv_lora_rank", 512),
    {.key = ".attention.key_length",
     .make = pair_sum,
     .names = "kv_lora_rank qk_rope_head_dim",
     .need = OR,
     .value = 512},
    U32_OR(".attention.value_length", "kv_lora_rank", 512),
    ITEM_NAMES(".attention.key_length_mla", pair_sum, "qk_nope_head_dim qk_rope_head_dim"),
    U32(".attention.value_length_mla", "v_head_dim"),
    U32(".expert_feed_forward_length", "moe_intermediate_size|intermediate_size"),
    U32_OR(".expert_shared_count", "n_shared_experts", 0),
    FLOAT_IF(".expert_weights_scale", "routed_scaling_factor"),
    ITEM(".expert_weights_norm", own_deepseek_norm),
    U32(".rope.dimension_count", "qk_rope_head_dim"),
    ITEM(".rope.scaling.yarn_log_multiplier", rope_deepseek),
    {.key = ".nextn_predict_layers",
     .make = pair_predict,
     .names = "num_nextn_predict_layers",
     .need = IF_NOT_ZERO},
    END,
};

static const arch_item list_deepseek32[] = {
    LIST(list_deepseek),
    ITEM_NAMES(".nextn_predict_layers", pair_predict, "num_nextn_predict_layers"),
    U32(".attention.indexer.head_count", "index_n_heads"),
    U32(".attention.indexer.key_length", "index_head_dim"),
    U32(".attention.indexer.top_k", "index_topk"),
    END,
};

static const arch_item list_glm_dsa[] = {
    LIST(list_deepseek32),
    SHARE_OR(".rope.dimension_count", pair_share_of, "qk_rope_head_dim rope.partial_rotary_factor", 1),
    {.key = ".attention.indexer.types", .make = layers_flags, .names = "indexer_types=full", .need = IF},
    END,
};

/* ---- windows in some layers ---- */

static const arch_item list_step35[] = {
    LIST(arch_base),
    ITEM(NULL, rope_step),
    ITEM(NULL, layers_step),
    U32(".attention.sliding_window", "sliding_window"),
    U32(".attention.key_length", "head_dim"),
    U32(".attention.value_length", "head_dim"),
    U32(".expert_count", "moe_num_experts"),
    U32(".expert_used_count", "moe_top_k"),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    U32(".expert_shared_feed_forward_length", "share_expert_dim"),
    FLOAT_IF(".expert_weights_scale", "moe_router_scaling_factor"),
    BOOL_IF(".expert_weights_norm", "norm_expert_weight"),
    ITEM(".leading_dense_block_count", own_step_dense),
    U32_OR(".moe_every_n_layers", "moe_every_n_layer", 1),
    FLOAT_OR(".attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-5),
    ITEM_NAMES(".swiglu_clamp_exp", layers_step_clamp, "swiglu_limits"),
    ITEM_NAMES(".swiglu_clamp_shexp", layers_step_clamp, "swiglu_limits_shared"),
    {.key = ".nextn_predict_layers", .make = pair_predict, .need = IF_NOT_ZERO},
    END,
};

static const arch_item list_mimo2[] = {
    LIST(arch_base),
    ITEM(NULL, own_mimo_checks),
    ITEM(NULL, layers_mimo),
    U32(".attention.sliding_window", "sliding_window"),
    U32(".attention.key_length", "head_dim"),
    U32(".attention.value_length", "v_head_dim"),
    U32(".expert_count", NAMES_EXPERTS),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    SHARE(".rope.dimension_count", pair_share_of_head, "rope.partial_rotary_factor"),
    FLOAT_OR(".attention.layer_norm_rms_epsilon", "layernorm_epsilon", 1e-5),
    FLOAT_IF(".attention.value_scale", "attention_value_scale"),
    ITEM(".nextn_predict_layers", pair_predict),
    END,
};

const arch_row arch_rows_experts[] = {
    {"afmoe", list_afmoe},
    {"bailingmoe2", list_bailingmoe2},
    {"deepseek2", list_deepseek},
    {"deepseek32", list_deepseek32},
    {"dots1", list_dots1},
    {"ernie4_5-moe", list_ernie_experts},
    {"exaone-moe", list_exaone_experts},
    {"glm-dsa", list_glm_dsa},
    {"glm4moe", list_glm4moe},
    {"gpt-oss", list_gpt_oss},
    {"granitemoe", arch_granite_experts},
    {"hunyuan-moe", list_hunyuan_experts},
    {"llama4", list_llama4},
    {"mimo2", list_mimo2},
    {"minimax-m2", list_minimax_m2},
    {"minimax-m3", list_minimax_m3},
    {"mistral4", list_deepseek},
    {"olmoe", list_olmoe},
    {"phimoe", list_phimoe},
    {"qwen2moe", list_qwen_experts},
    {"qwen3moe", list_qwen_experts},
    {"qwen3vlmoe", list_qwen3vlmoe},
    {"smallthinker", list_smallthinker},
    {"step35", list_step35},
    {NULL, NULL},
};
