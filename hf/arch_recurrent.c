/* Metadata of models in which some or all layers are recurrent, or convolve, in place of attention. */
#include "hf/arch_lists.h"

static const arch_item list_qwen3next[] = {
    LIST(arch_base),
    U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
    U32_IF(".expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    {.key = ".nextn_predict_layers", .make = pair_predict, .need = IF_NOT_ZERO},
    U32(".ssm.conv_kernel", "linear_conv_kernel_dim"),
    U32(".ssm.state_size", "linear_key_head_dim"),
    U32(".ssm.group_count", "linear_num_key_heads"),
    U32(".ssm.time_step_rank", "linear_num_value_heads"),
    ITEM_NAMES(".ssm.inner_size", pair_product, "linear_value_head_dim linear_num_value_heads"),
    U32_OR(".full_attention_interval", "full_attention_interval", 4),
    SHARE_OR(".rope.dimension_count", pair_share_of_head, "rope.partial_rotary_factor", 0.25),
    END,
};

static const arch_item list_qwen35[] = {LIST(list_qwen3next), ITEM(NULL, rope_qwen35), END};

static const arch_item list_granite_hybrid[] = {
    LIST(arch_granite_experts),
    U32(".ssm.conv_kernel", "mamba_d_conv"),
    U32(".ssm.state_size", "mamba_d_state"),
    U32(".ssm.group_count", "mamba_n_groups"),
    ITEM_NAMES(".ssm.inner_size", pair_product, "mamba_expand hidden_size"),
    U32(".ssm.time_step_rank", "mamba_n_heads"),
    U32_IF_NOT_ZERO(".rope.dimension_count", "attn_rotary_emb"),
    ITEM(NULL, layers_granite),
    END,
};

static const arch_item list_nemotron_h[] = {
    LIST(arch_granite_experts),
    U32(".ssm.conv_kernel", "conv_kernel"),
    U32(".ssm.state_size", "ssm_state_size"),
    U32(".ssm.group_count", "n_groups"),
    ITEM_NAMES(".ssm.inner_size", pair_product, "mamba_num_heads mamba_head_dim"),
    U32(".ssm.time_step_rank", "mamba_num_heads"),
    U32(".attention.key_length", "head_dim|attention_head_dim"),
    U32(".attention.value_length", "head_dim|attention_head_dim"),
    BOOL_IS(".rope.scaling.finetuned", false),
    U32_IS(".context_length", 1 << 20), /* without rotation no limit was trained */
    ITEM(NULL, layers_nemotron),
    END,
};

static const arch_item list_nemotron_h_experts[] = {
    LIST(list_nemotron_h),
    U32(".expert_used_count", "num_experts_per_tok"),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    U32(".expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"),
    U32(".expert_count", NAMES_EXPERTS),
    U32(".expert_shared_count", "n_shared_experts"),
    BOOL(".expert_weights_norm", "norm_topk_prob"),
    FLOAT(".expert_weights_scale", "routed_scaling_factor"),
    U32(".expert_group_count", "n_group"),
    U32_IF(".moe_latent_size", "moe_latent_size"),
    {.key = ".nextn_predict_layers",
     .make = pair_predict,
     .names = "num_nextn_predict_layers",
     .need = IF_NOT_ZERO},
    END,
};

static const arch_item list_falcon_h1[] = {
    LIST(arch_core),
    U32_OR(".context_length", "max_position_embeddings", 0),
    U32(".feed_forward_length", "intermediate_size"),
    ITEM(".attention.head_count_kv", pair_kv_heads),
    U32(".ssm.conv_kernel", "mamba_d_conv"),
    U32(".ssm.inner_size", "mamba_d_ssm"),
    U32(".ssm.state_size", "mamba_d_state"),
    ITEM_NAMES(".ssm.time_step_rank", pair_quotient, "mamba_d_ssm mamba_d_head"),
    U32(".ssm.group_count", "mamba_n_groups"),
    FLOAT(".attention.layer_norm_rms_epsilon", NAMES_RMS),
    U32(".vocab_size", "vocab_size"),
    U32(".attention.key_length", "head_dim"),
    U32(".attention.value_length", "head_dim"),
    FLOAT(".rope.freq_base", "full.rope_theta"),
    END,
};

static const arch_item list_lfm2[] = {
    LIST(arch_base),
    ITEM(".attention.head_count_kv", layers_conv_heads),
    U32(".vocab_size", "vocab_size"),
    U32(".shortconv.l_cache", "conv_L_cache"),
    FLOAT(".attention.layer_norm_rms_epsilon", "norm_eps"),
    ITEM(".feed_forward_length", own_lfm2_width),
    END,
};

static const arch_item list_lfm2_experts[] = {
    LIST(arch_base),
    ITEM(".attention.head_count_kv", layers_full_heads),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    U32(".leading_dense_block_count", "num_dense_layers"),
    U32_IS(".expert_gating_func", 2),
    U32(".vocab_size", "vocab_size"),
    U32(".shortconv.l_cache", "conv_L_cache"),
    END,
};

static const arch_item list_kimi[] = {
    LIST(arch_base),
    U32(".vocab_size", "vocab_size"),
    ITEM(".attention.head_count_kv", layers_kimi_heads),
    U32(".ssm.conv_kernel", "linear_attn_config.short_conv_kernel_size"),
    U32(".kda.head_dim", "linear_attn_config.head_dim"),
    U32_IF(".attention.q_lora_rank", "q_lora_rank"),
    U32(".attention.kv_lora_rank", "kv_lora_rank"),
    U32(".rope.dimension_count", "qk_rope_head_dim"),
    ITEM_NAMES(".attention.key_length", pair_sum, "kv_lora_rank qk_rope_head_dim"),
    ITEM_NAMES(".attention.key_length_mla", pair_sum, "qk_nope_head_dim qk_rope_head_dim"),
    U32(".attention.value_length_mla", "v_head_dim"),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    U32(".expert_shared_count", "num_shared_experts"),
    U32(".leading_dense_block_count", "first_k_dense_replace"),
    FLOAT(".expert_weights_scale", "routed_scaling_factor"),
    END,
};

static const arch_item list_kimi_k3[] = {
    LIST(list_kimi),
    ITEM(NULL, own_kimi_checks),
    U32(".attention.value_length", "kv_lora_rank"),
    FLOAT_IF(".kda.gate_lower_bound", "linear_attn_config.gate_lower_bound"),
    BOOL(".expert_weights_norm", "moe_renormalize"),
    U32_IS(".expert_gating_func", 2),
    U32_IF(".expert_latent_length", "routed_expert_hidden_size"),
    FLOAT(".activation.situ_beta", "activation_situ_beta"),
    FLOAT(".activation.situ_linear_beta", "activation_situ_linear_beta"),
    U32(".attn_res.block_size", "attn_res_block_size"),
    END,
};

/* Pairs of both kinds of Mamba, which have neither attention nor a limit of the context. */
static const arch_item list_mamba_both[] = {
    LIST(arch_core),
    U32_IS(".context_length", 1 << 20),
    U32_IS(".feed_forward_length", 0),
    U32_IS(".attention.head_count", 0),
    U32_OR_NOT_ZERO(".ssm.conv_kernel", "conv_kernel|d_conv", 4),
    FLOAT_OR_NOT_ZERO(".attention.layer_norm_rms_epsilon", "layer_norm_epsilon|rms_norm_eps", 1e-5),
    END,
};

static const arch_item list_mamba[] = {
    LIST(list_mamba_both),
    U32_OR_NOT_ZERO(".ssm.state_size", "state_size|d_state", 16),
    ITEM_NAMES(".ssm.time_step_rank", own_time_step_rank, "time_step_rank|dt_rank"),
    ITEM(NULL, own_mamba),
    END,
};

static const arch_item list_mamba2[] = {
    LIST(list_mamba_both),
    U32_OR_NOT_ZERO(".ssm.state_size", "state_size|d_state", 128),
    ITEM(NULL, own_mamba2),
    U32_OR_NOT_ZERO(".ssm.group_count", "n_groups", 1),
    END,
};

static const arch_item list_jamba[] = {
    LIST(arch_core),
    U32(".feed_forward_length", "intermediate_size"),
    ITEM(".attention.head_count_kv", layers_period_heads),
    U32_OR_NOT_ZERO(".ssm.conv_kernel", "mamba_d_conv", 4),
    ITEM_NAMES(".ssm.inner_size", pair_product, "mamba_expand hidden_size"),
    U32_OR_NOT_ZERO(".ssm.state_size", "mamba_d_state", 16),
    ITEM_NAMES(".ssm.time_step_rank", own_time_step_rank, "mamba_dt_rank"),
    FLOAT_OR(".attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6),
    U32(".expert_count", NAMES_EXPERTS),
    U32(".expert_used_count", NAMES_USED),
    END,
};

const arch_row arch_rows_recurrent[] = {
    {"falcon-h1", list_falcon_h1},
    {"granitehybrid", list_granite_hybrid},
    {"jamba", list_jamba},
    {"kimi-k3", list_kimi_k3},
    {"kimi-linear", list_kimi},
    {"lfm2", list_lfm2},
    {"lfm2moe", list_lfm2_experts},
    {"mamba", list_mamba},
    {"mamba2", list_mamba2},
    {"nemotron_h", list_nemotron_h},
    {"nemotron_h_moe", list_nemotron_h_experts},
    {"qwen35", list_qwen35},
    {"qwen35moe", list_qwen35},
    {"qwen3next", list_qwen3next},
    {NULL, NULL},
};
