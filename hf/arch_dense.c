/* Metadata of models whose layers are all alike but for their window: attention and one feed-forward part. */
#include "hf/arch_lists.h"

/* ---- those that have what the converter looks for in any config, and a little more ---- */

const arch_item arch_llama[] = {
    LIST(arch_base),
    U32(".vocab_size", "vocab_size"),
    SHARE_WHOLE(".rope.dimension_count", pair_share_of_head),
    END,
};

static const arch_item list_mistral3[] = {LIST(arch_llama), ITEM(NULL, rope_mistral), END};

static const arch_item list_granite[] = {
    LIST(arch_llama),
    ITEM(".attention.key_length", pair_remove),
    ITEM(".attention.value_length", pair_remove),
    SHARE_WHOLE(".rope.dimension_count", pair_share_of_even_head),
    FLOAT_IF_NOT_ZERO(".attention.scale", "attention_multiplier"),
    FLOAT_IF_NOT_ZERO(".embedding_scale", "embedding_multiplier"),
    FLOAT_IF_NOT_ZERO(".residual_scale", "residual_multiplier"),
    FLOAT_IF_NOT_ZERO(".logit_scale", "logits_scaling"),
    END,
};

const arch_item arch_granite_experts[] = {
    LIST(list_granite),
    U32_IF_NOT_ZERO(".expert_shared_feed_forward_length", "shared_intermediate_size"),
    END,
};

static const arch_item list_minicpm[] = {LIST(arch_base), ITEM(NULL, own_minicpm), END};

static const arch_item list_olmo[] = {
    LIST(arch_base),
    FLOAT_IS(".attention.layer_norm_epsilon", 1e-5),
    FLOAT_IF(".attention.clamp_kqv", "clip_qkv"),
    END,
};

static const arch_item list_olmo2[] = {LIST(arch_base), ITEM(NULL, layers_olmo_window), END};

static const arch_item list_command_r[] = {
    LIST(arch_base),
    U32(".context_length", "model_max_length|max_position_embeddings"),
    FLOAT(".logit_scale", "logit_scale"),
    ITEM_NAMES(".rope.scaling.type", pair_text, "none"),
    END,
};

static const arch_item list_cohere2[] = {
    LIST(arch_base),
    FLOAT(".logit_scale", "logit_scale"),
    U32(".attention.sliding_window", "sliding_window"),
    U32(".vocab_size", "vocab_size"),
    SHARE(".rope.dimension_count", pair_share_of_even_head, "rotary_pct"),
    ITEM_NAMES(".rope.scaling.type", pair_text, "none"),
    END,
};

static const arch_item list_glm4[] = {
    LIST(arch_base),
    ITEM(NULL, rope_glm4),
    SHARE_OR(".rope.dimension_count", pair_share_of_head, "rope.partial_rotary_factor", 0.5),
    END,
};

/* Readers need the root mean square norm's epsilon, which llama.cpp's converter forgets here. */
static const arch_item list_exaone[] = {
    LIST(arch_base),
    SHARE_OR(".rope.dimension_count", pair_share_of_even_head, "rope.partial_rotary_factor", 1),
    FLOAT(".attention.layer_norm_rms_epsilon", NAMES_NORM "|" NAMES_RMS),
    END,
};

const arch_item arch_exaone4[] = {
    LIST(arch_base),
    U32(".vocab_size", "vocab_size"),
    ITEM(NULL, layers_exaone_window),
    END,
};

static const arch_item list_hunyuan[] = {
    LIST(arch_base),
    ITEM(".expert_count", pair_remove),
    ITEM(".expert_used_count", pair_remove),
    ITEM(NULL, rope_hunyuan),
    END,
};

static const arch_item list_qwen3vl[] = {
    LIST(arch_base),
    ITEM_NAMES(".n_deepstack_layers", pair_count, "vision_config.deepstack_visual_indexes"),
    END,
};

static const arch_item list_nemotron[] = {
    LIST(arch_base),
    U32(".vocab_size", "vocab_size"),
    FLOAT(".attention.layer_norm_epsilon", NAMES_NORM "|norm_eps"),
    SHARE(".rope.dimension_count", pair_share_of_width, "rope.partial_rotary_factor"),
    ITEM(NULL, rope_nemotron),
    END,
};

/* ---- gemma ---- */

static const arch_item list_gemma[] = {
    LIST(arch_core),
    U32(".feed_forward_length", "intermediate_size"),
    ITEM(".attention.head_count_kv", pair_kv_heads),
    FLOAT(".attention.layer_norm_rms_epsilon", NAMES_RMS),
    U32(".attention.key_length", "head_dim"),
    U32(".attention.value_length", "head_dim"),
    END,
};

static const arch_item list_gemma2[] = {
    LIST(list_gemma),
    FLOAT(".attn_logit_softcapping", "attn_logit_softcapping"),
    FLOAT(".final_logit_softcapping", "final_logit_softcapping"),
    U32(".attention.sliding_window", "sliding_window"),
    END,
};

/* A config of these may leave out even sizes, which then are those of the first model published. */
const arch_item arch_gemma3[] = {
    LIST(arch_base),
    U32_OR(".context_length", "max_position_embeddings", 131072),
    U32_OR(".attention.head_count", "num_attention_heads", 8),
    FLOAT_OR(".attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6),
    U32_OR(".attention.key_length", "head_dim", 256),
    U32_OR(".attention.value_length", "head_dim", 256),
    FLOAT_OR(".rope.freq_base", "full.rope_theta", 1000000),
    U32_OR(".attention.head_count_kv", "num_key_value_heads", 4),
    FLOAT_IF_NOT_ZERO(".final_logit_softcapping", "final_logit_softcapping"),
    ITEM(NULL, own_gemma3_window),
    END,
};

static const arch_item list_gemma3n[] = {
    LIST(arch_gemma3),
    ITEM(NULL, own_gemma_altup),
    U32(".embedding_length_per_layer_input", "hidden_size_per_layer_input"),
    U32(".attention.shared_kv_layers", "num_kv_shared_layers"),
    ITEM(".activation_sparsity_scale", layers_gemma3n_sparsity),
    ITEM_NAMES(".attention.sliding_window_pattern", layers_flags, "layer_types=sliding_attention"),
    END,
};

static const arch_item list_gemma4[] = {
    LIST(arch_gemma3),
    U32(".attention.shared_kv_layers", "num_kv_shared_layers"),
    U32_OR(".embedding_length_per_layer_input", "hidden_size_per_layer_input", 0),
    ITEM_NAMES(".attention.sliding_window_pattern", layers_flags, "layer_types=sliding_attention"),
    U32_IF(".expert_feed_forward_length", "expert_intermediate_size|moe_intermediate_size"),
    U32(".attention.key_length", "global_head_dim"),
    U32(".attention.value_length", "global_head_dim"),
    U32(".attention.key_length_swa", "head_dim"),
    U32(".attention.value_length_swa", "head_dim"),
    U32(".rope.dimension_count", "global_head_dim"),
    SHARE_OR(".rope.dimension_count_swa", pair_share_of_head, "rope.partial_rotary_factor", 1),
    ITEM(NULL, layers_gemma4),
    END,
};

/* ---- those of which the converter writes only what is listed ---- */

/* The converter's users add no first token to texts for this model. */
static const arch_item list_phi2[] = {
    LIST(arch_core),
    U32(".context_length", "n_positions|max_position_embeddings"),
    {.key = ".feed_forward_length", .make = pair_times, .names = NAMES_WIDTH, .value = 4},
    U32(".attention.head_count_kv", NAMES_HEADS),
    FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon|layer_norm_eps"),
    SHARE(".rope.dimension_count", pair_share_of_width, "rope.partial_rotary_factor"),
    BOOL_IS("tokenizer.ggml.add_bos_token", false),
    END,
};

const arch_item arch_phi3[] = {
    LIST(arch_core),
    U32(".rope.scaling.original_context_length", "rope.original_max_position_embeddings"),
    U32(".feed_forward_length", "intermediate_size"),
    ITEM(".attention.head_count_kv", pair_kv_heads),
    FLOAT(".attention.layer_norm_rms_epsilon", NAMES_RMS),
    SHARE_OR(".rope.dimension_count", pair_share_of_width, "rope.partial_rotary_factor", 1),
    FLOAT(".rope.freq_base", "full.rope_theta"),
    U32_OR(".attention.sliding_window", "sliding_window", 0),
    ITEM(".rope.scaling.attn_factor", rope_phi),
    END,
};

static const arch_item list_stablelm[] = {
    LIST(arch_core),
    U32(".feed_forward_length", "intermediate_size"),
    SHARE(".rope.dimension_count", pair_share_of_even_head, "rope.partial_rotary_factor"),
    ITEM(".attention.head_count_kv", pair_kv_heads),
    BOOL_OR(".use_parallel_residual", "use_parallel_residual", true),
    FLOAT(".attention.layer_norm_epsilon", "layer_norm_eps|norm_eps"),
    END,
};

static const arch_item list_falcon[] = {
    LIST(arch_core),
    U32_IS(".context_length", 2048),
    ITEM_NAMES(".tensor_data_layout", pair_text, "jploski"),
    {.key = ".feed_forward_length", .make = pair_times, .names = NAMES_WIDTH, .value = 4},
    U32_OR_NOT_ZERO(".attention.head_count_kv", "num_kv_heads|n_head_kv", 1),
    FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon"),
    END,
};

static const arch_item list_gptneox[] = {
    LIST(arch_core),
    U32(".feed_forward_length", "intermediate_size"),
    SHARE(".rope.dimension_count", pair_share_of_even_head, "rope.partial_rotary_factor|rotary_pct"),
    BOOL_OR(".use_parallel_residual", "use_parallel_residual", true),
    FLOAT(".attention.layer_norm_epsilon", NAMES_NORM),
    ITEM(".rope.freq_base", rope_gptneox),
    END,
};

static const arch_item list_minicpm3[] = {
    LIST(arch_core),
    U32(".feed_forward_length", "intermediate_size"),
    ITEM(".attention.head_count_kv", pair_kv_heads),
    FLOAT(".attention.layer_norm_rms_epsilon", NAMES_RMS),
    U32(".vocab_size", "vocab_size"),
    U32_IF(".attention.q_lora_rank", "q_lora_rank"),
    U32(".attention.kv_lora_rank", "kv_lora_rank"),
    ITEM_NAMES(".attention.key_length", pair_sum, "qk_nope_head_dim qk_rope_head_dim"),
    U32(".rope.dimension_count", "qk_rope_head_dim"),
    END,
};

static const arch_item list_gpt2[] = {
    LIST(arch_core),
    U32(".context_length", "n_ctx|n_positions"),
    {.key = ".feed_forward_length", .make = pair_times, .names = NAMES_WIDTH, .value = 4},
    FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon"),
    END,
};

static const arch_item list_starcoder[] = {
    LIST(list_gpt2),
    U32(".context_length", "n_positions"),
    U32_IS(".attention.head_count_kv", 1),
    END,
};

static const arch_item list_bloom[] = {
    LIST(arch_core),
    U32(".context_length", NAMES_WIDTH),
    U32_IF(".context_length", "seq_length"),
    {.key = ".feed_forward_length", .make = pair_times, .names = NAMES_WIDTH, .value = 4},
    U32(".attention.head_count", "n_head|num_attention_heads"),
    U32(".attention.head_count_kv", "n_head|num_attention_heads"),
    FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon"),
    END,
};

static const arch_item list_mpt[] = {
    LIST(arch_core),
    U32(".context_length", "max_seq_len"),
    {.key = ".feed_forward_length", .make = pair_times, .names = NAMES_WIDTH, .value = 4},
    U32_IF_NOT_ZERO(".attention.head_count_kv", "attn_config.kv_n_heads"),
    FLOAT_IS(".attention.layer_norm_epsilon", 1e-5),
    FLOAT_IF(".attention.clamp_kqv", "attn_config.clip_qkv"),
    ITEM(".attention.max_alibi_bias", own_mpt_alibi),
    END,
};

const arch_row arch_rows_dense[] = {
    {"apertus", arch_llama},
    {"arcee", arch_llama},
    {"bloom", list_bloom},
    {"cohere2", list_cohere2},
    {"command-r", list_command_r},
    {"ernie4_5", arch_base},
    {"exaone", list_exaone},
    {"exaone4", arch_exaone4},
    {"falcon", list_falcon},
    {"gemma", list_gemma},
    {"gemma2", list_gemma2},
    {"gemma3", arch_gemma3},
    {"gemma3n", list_gemma3n},
    {"gemma4", list_gemma4},
    {"glm4", list_glm4},
    {"gpt2", list_gpt2},
    {"gptneox", list_gptneox},
    {"granite", list_granite},
    {"hunyuan-dense", list_hunyuan},
    {"internlm2", arch_base},
    {"llama", arch_llama},
    {"minicpm", list_minicpm},
    {"minicpm3", list_minicpm3},
    {"mistral3", list_mistral3},
    {"mpt", list_mpt},
    {"nemotron", list_nemotron},
    {"olmo", list_olmo},
    {"olmo2", list_olmo2},
    {"phi2", list_phi2},
    {"phi3", arch_phi3},
    {"qwen2", arch_base},
    {"qwen2vl", arch_base},
    {"qwen3", arch_base},
    {"qwen3vl", list_qwen3vl},
    {"seed_oss", arch_base},
    {"smollm3", arch_llama},
    {"stablelm", list_stablelm},
    {"starcoder", list_starcoder},
    {"starcoder2", arch_base},
    {NULL, NULL},
};
