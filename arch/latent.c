/* Latent attention, which keeps keys and values as a short vector: DeepSeek, Kimi, and others. */
#include "arch/rows.h"

static const arch_rule kimi_rules[] = {
    P("self_attn.q_conv1d", "ssm_conv1d_q", STEP_CONV_3),
    P("self_attn.k_conv1d", "ssm_conv1d_k", STEP_CONV_3),
    P("self_attn.v_conv1d", "ssm_conv1d_v", STEP_CONV_3),
    P("self_attn.f_a_proj", "ssm_f_a", STEP_PLAIN),
    P("self_attn.f_b_proj", "ssm_f_b", STEP_PLAIN),
    P("self_attn.b_proj", "ssm_beta", STEP_PLAIN),
    P("self_attn.g_a_proj", "ssm_g_a", STEP_PLAIN),
    P("self_attn.g_b_proj", "ssm_g_b", STEP_PLAIN),
    P("self_attn.o_norm", "ssm_norm", STEP_PLAIN),
    P("self_attn.A_log", "ssm_a", STEP_HEADS_COLUMN),
    P("self_attn.dt_proj", "ssm_dt", STEP_PLAIN),
    P("self_attn.g_proj", "ssm_g", STEP_GATE_OF_LAYER),
    P("self_attention_res_norm", "", STEP_DROP),
    P("self_attention_res_proj", "", STEP_DROP),
    P("mlp_res_norm", "", STEP_DROP),
    P("mlp_res_proj", "", STEP_DROP),
    {"model.output_attn_res_norm", "", STEP_DROP},
    {"model.output_attn_res_proj", "", STEP_DROP},
    P("block_sparse_moe.routed_expert_down_proj", "ffn_routed_down", STEP_PLAIN),
    P("block_sparse_moe.routed_expert_up_proj", "ffn_routed_up", STEP_PLAIN),
    P("block_sparse_moe.routed_expert_norm", "ffn_routed_norm", STEP_PLAIN),
    {0},
};

static const arch_item list_deepseek[] = {
    LIST(arch_base),
    U32_IS(".attention.head_count_kv", 1),
    FLOAT_OR(".attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6),
    ITEM(".leading_dense_block_count", PAIR_OWN_DEEPSEEK_DENSE),
    U32(".vocab_size", "vocab_size"),
    U32_IF(".attention.q_lora_rank", "q_lora_rank"),
    U32_OR(".attention.kv_lora_rank", "kv_lora_rank", 512),
    {.key = ".attention.key_length",
     .make = PAIR_SUM,
     .names = "kv_lora_rank qk_rope_head_dim",
     .need = OR,
     .value = 512},
    U32_OR(".attention.value_length", "kv_lora_rank", 512),
    ITEM_NAMES(".attention.key_length_mla", PAIR_SUM, "qk_nope_head_dim qk_rope_head_dim"),
    U32(".attention.value_length_mla", "v_head_dim"),
    U32(".expert_feed_forward_length", "moe_intermediate_size|intermediate_size"),
    U32_OR(".expert_shared_count", "n_shared_experts", 0),
    FLOAT_IF(".expert_weights_scale", "routed_scaling_factor"),
    ITEM(".expert_weights_norm", PAIR_OWN_DEEPSEEK_NORM),
    U32(".rope.dimension_count", "qk_rope_head_dim"),
    ITEM(".rope.scaling.yarn_log_multiplier", PAIR_ROPE_DEEPSEEK),
    {.key = ".nextn_predict_layers",
     .make = PAIR_PREDICT,
     .names = "num_nextn_predict_layers",
     .need = IF_NOT_ZERO},
    END,
};

static const arch_item list_deepseek32[] = {
    LIST(list_deepseek),
    ITEM_NAMES(".nextn_predict_layers", PAIR_PREDICT, "num_nextn_predict_layers"),
    U32(".attention.indexer.head_count", "index_n_heads"),
    U32(".attention.indexer.key_length", "index_head_dim"),
    U32(".attention.indexer.top_k", "index_topk"),
    END,
};

static const arch_item list_kimi[] = {
    LIST(arch_base),
    U32(".vocab_size", "vocab_size"),
    ITEM(".attention.head_count_kv", PAIR_LAYERS_KIMI_HEADS),
    U32(".ssm.conv_kernel", "linear_attn_config.short_conv_kernel_size"),
    U32(".kda.head_dim", "linear_attn_config.head_dim"),
    U32_IF(".attention.q_lora_rank", "q_lora_rank"),
    U32(".attention.kv_lora_rank", "kv_lora_rank"),
    U32(".rope.dimension_count", "qk_rope_head_dim"),
    ITEM_NAMES(".attention.key_length", PAIR_SUM, "kv_lora_rank qk_rope_head_dim"),
    ITEM_NAMES(".attention.key_length_mla", PAIR_SUM, "qk_nope_head_dim qk_rope_head_dim"),
    U32(".attention.value_length_mla", "v_head_dim"),
    U32(".expert_feed_forward_length", "moe_intermediate_size"),
    U32(".expert_shared_count", "num_shared_experts"),
    U32(".leading_dense_block_count", "first_k_dense_replace"),
    FLOAT(".expert_weights_scale", "routed_scaling_factor"),
    END,
};

/* Two matrices in place of a wide one, and a head's keys and values in one. */
const arch_rule arch_latent_rules[] = {
    P("self_attn.q_a_proj", "attn_q_a", STEP_PLAIN),
    P("self_attn.q_a_layernorm", "attn_q_a_norm", STEP_PLAIN),
    P("self_attn.q_b_proj", "attn_q_b", STEP_PLAIN),
    P("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", STEP_PLAIN),
    P("self_attn.kv_a_layernorm", "attn_kv_a_norm", STEP_PLAIN),
    P("self_attn.kv_b_proj", "attn_k_b|blk.#.attn_v_b", STEP_KV_B),
    P("self_attn.indexer.wq_b", "indexer.attn_q_b", STEP_PLAIN),
    P("self_attn.indexer.wk", "indexer.attn_k", STEP_PLAIN),
    P("self_attn.indexer.k_norm", "indexer.k_norm", STEP_PLAIN),
    P("self_attn.indexer.weights_proj", "indexer.proj", STEP_PLAIN),
    {0},
};

const architecture arch_rows_latent[] = {
    {
        .name = "deepseek",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL, [WEIGHT_FFN_UP_SHEXP] = REQUIRED},
                .qkv_bias = OPTIONAL,
                .routing = {.function = ROUTER_SOFTMAX, .scale_key = true, .has_groups = true},
            },
    },
    {
        .name = "deepseek2",
        .folder =
            {
                .classes = CLASSES(CLASS("DeepseekV2ForCausalLM"), CLASS("DeepseekV3ForCausalLM"),
                                   CLASS("Glm4MoeLiteForCausalLM",
                                         .tokenizer = {.files = "b", .exceptions = TOKENS_GLM_MOE},
                                         .predicting_key = "num_nextn_predict_layers"),
                                   CLASS("KimiVLForConditionalGeneration"), CLASS("YoutuForCausalLM")),
                .pairs = list_deepseek,
                .more = arch_latent_rules,
                .drops_tied_head = true,
                .drops_extra_layers = true,
                .is_silu = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_LATENT},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_FFN_GATE_UP_EXPS] = OPTIONAL,
                        [WEIGHT_EXPERT_CHOICE] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .rope_partial = true,
                .free_head = true,
                .log_multiplier = 0.1,
                .log_multiplier_twice = true,
                .temperature = true,
                .routing = ROUTING_KEYS_SOFTMAX,
            },
        .by_number = {{.what = BY_NUMBER_QUERIES, .least = 26, .most = 27}},
    },
    {
        .name = "deepseek32",
        .folder =
            {
                .classes = CLASSES(CLASS("DeepseekV32ForCausalLM")),
                .pairs = list_deepseek32,
                .more = arch_latent_rules,
                .drops_tied_head = true,
                .tokenizer = {.exceptions = TOKENS_BOS_IS_CHECKED},
                .predicting = {.key = "num_nextn_predict_layers"},
            },
        .graph =
            {
                .mixers = {MIXER_LATENT},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL, [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .indexer = INDEXER_NEOX,
                .rope_partial = true,
                .free_head = true,
                .log_multiplier = 0.1,
                .routing = ROUTING_KEYS_REQUIRED,
                .extra_layers = true,
            },
    },
    {
        .name = "glm-dsa",
        .folder =
            {
                .classes = CLASSES(CLASS("GlmMoeDsaForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(list_deepseek32),
                        SHARE_OR(".rope.dimension_count", PAIR_SHARE_OF,
                                 "qk_rope_head_dim rope.partial_rotary_factor", 1),
                        {.key = ".attention.indexer.types",
                         .make = PAIR_LAYERS_FLAGS,
                         .names = "indexer_types=full",
                         .need = IF},
                        END,
                    },
                .more = arch_latent_rules,
                .drops_tied_head = true,
                .tokenizer = {.exceptions = TOKENS_GLM_MOE},
                .predicting = {.key = "num_nextn_predict_layers"},
            },
        .graph =
            {
                .mixers = {MIXER_LATENT},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL, [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .indexer = INDEXER_BY_TYPE,
                .rope_partial = true,
                .free_head = true,
                .routing = ROUTING_KEYS_SIGMOID,
                .extra_layers = true,
            },
    },
    {
        .name = "mistral4",
        .folder =
            {
                .classes = CLASSES(
                    CLASS("Ministral3ForCausalLM", .when = WHEN_MODEL_TYPE, .text = "mistral4"),
                    CLASS("Mistral3ForConditionalGeneration", .when = WHEN_MODEL_TYPE, .text = "mistral4")),
                .pairs = list_deepseek,
                .rules =
                    (const arch_rule[]){
                        P("mlp.experts.gate_up_proj", "ffn_gate_up_exps", STEP_PLAIN),
                        P("mlp.switch_mlp.gate_proj", "ffn_gate_up_exps", STEP_FUSED_GATE),
                        P("mlp.switch_mlp.up_proj", "ffn_gate_up_exps", STEP_FUSED_UP),
                        {0},
                    },
                .more = arch_latent_rules,
                .drops_tied_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_LATENT},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_FFN_GATE_UP_EXPS] = OPTIONAL,
                        [WEIGHT_EXPERT_CHOICE] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .rope_partial = true,
                .free_head = true,
                .log_multiplier = 0.1,
                .temperature = true,
                .routing = ROUTING_KEYS_SOFTMAX,
                .extra_layers = true,
            },
    },
    {
        .name = "minicpm3",
        .folder =
            {
                .classes = CLASSES(CLASS("MiniCPM3ForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_core),
                        U32(".feed_forward_length", "intermediate_size"),
                        ITEM(".attention.head_count_kv", PAIR_KV_HEADS),
                        FLOAT(".attention.layer_norm_rms_epsilon", NAMES_RMS),
                        U32(".vocab_size", "vocab_size"),
                        U32_IF(".attention.q_lora_rank", "q_lora_rank"),
                        U32(".attention.kv_lora_rank", "kv_lora_rank"),
                        ITEM_NAMES(".attention.key_length", PAIR_SUM, "qk_nope_head_dim qk_rope_head_dim"),
                        U32(".rope.dimension_count", "qk_rope_head_dim"),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        P("self_attn.kv_b_proj", "attn_kv_b", STEP_PLAIN),
                        {0},
                    },
                .more = arch_latent_rules,
                .finish = FINISH_FACTORS_LATENT,
                .tokenizer = {.files = "m"},
            },
        .graph =
            {
                .mixers = {MIXER_LATENT},
                .ffns = {FFN_GATED},
                .own = {OWN_SCALES_FIXED},
                .score_scale = SCORES_UNCHANGED,
                .neox = true,
                .rope_partial = true,
                .free_head = true,
                .factors = FACTORS_PAIR,
            },
        .by_number = {{.what = BY_NUMBER_SCALES}},
    },
    {
        .name = "plm",
        .graph =
            {
                .mixers = {MIXER_LATENT},
                .ffns = {FFN_PLAIN},
                .score_scale = SCORES_UNCHANGED,
                .rope_partial = true,
                .free_head = true,
                .act = ACT_RELU2,
                .tied = TIED_MUST,
            },
    },
    {
        .name = "kimi-linear",
        .folder =
            {
                .classes = CLASSES(CLASS("KimiLinearForCausalLM"), CLASS("KimiLinearModel")),
                .pairs = list_kimi,
                .rules = kimi_rules,
                .more = arch_latent_rules,
            },
        .graph =
            {
                .mixers = {MIXER_LATENT, MIXER_KDA},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL, [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .score_scale = SCORES_UNCHANGED,
                .rope_partial = true,
                .free_head = true,
                .no_rope = ROPE_NEVER,
                .routing = ROUTING_FUNCTION_ONE_SCALED,
                .tied = TIED_NO,
            },
    },
    {
        .name = "kimi-k3",
        .folder =
            {
                .classes = CLASSES(CLASS("KimiK3ForConditionalGeneration", .is_root = true)),
                .pairs =
                    (const arch_item[]){
                        LIST(list_kimi),
                        ITEM(NULL, PAIR_OWN_KIMI_CHECKS),
                        U32(".attention.value_length", "kv_lora_rank"),
                        FLOAT_IF(".kda.gate_lower_bound", "linear_attn_config.gate_lower_bound"),
                        BOOL(".expert_weights_norm", "moe_renormalize"),
                        U32_IS(".expert_gating_func", 2),
                        U32_IF(".expert_latent_length", "routed_expert_hidden_size"),
                        FLOAT(".activation.situ_beta", "activation_situ_beta"),
                        FLOAT(".activation.situ_linear_beta", "activation_situ_linear_beta"),
                        U32(".attn_res.block_size", "attn_res_block_size"),
                        END,
                    },
                .rules = kimi_rules,
                .more = arch_latent_rules,
                .left_out =
                    (const char *const[]){
                        "^vision_tower.",
                        "^mm_projector.",
                        STEP_PLAIN,
                    },
                .finish = FINISH_RESIDUALS,
                .first_heads = true,
            },
        .graph =
            {
                .mixers = {MIXER_LATENT, MIXER_KDA},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .bank = PART_BANK,
                .has = {[WEIGHT_ATTN_GATE] = OPTIONAL,
                        [WEIGHT_EXPERT_CHOICE] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL,
                        [WEIGHT_FFN_ROUTED_DOWN] = OPTIONAL},
                .own = {OWN_KDA_FLAT},
                .score_scale = SCORES_UNCHANGED,
                .qkv_bias = UNUSED,
                .rope_partial = true,
                .free_head = true,
                .no_rope = ROPE_NEVER,
                .gate = GATE_SIGMOID,
                .routing = ROUTING_KEYS_REQUIRED,
                .tied = TIED_NO,
            },
    },
    {
        .name = "bailingmoe3",
        .graph =
            {
                .mixers = {MIXER_LATENT, MIXER_KDA},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_ATTN_GATE] = OPTIONAL,
                        [WEIGHT_EXPERT_CHOICE] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .own = {OWN_GATE_LIMITS, OWN_KDA_POSITIVE},
                .score_scale = SCORES_UNCHANGED,
                .qkv_bias = UNUSED,
                .rope_partial = true,
                .free_head = true,
                .gate = GATE_SIGMOID,
                .routing = ROUTING_KEYS_REQUIRED,
                .extra_layers = true,
            },
        .mix = {.is_bailing3 = true},
    },
    {.name = NULL},
};
