/* Qwen. */
#include "arch/rows.h"

static const arch_rule qwen35_rules[] = {
    P("post_attention_layernorm", "post_attention_norm", STEP_PLAIN),
    P("linear_attn.in_proj_qkv", "attn_qkv", STEP_TILE_QKV),
    P("linear_attn.in_proj_z", "attn_gate", STEP_TILE_HEADS),
    P("linear_attn.in_proj_b", "ssm_beta", STEP_TILE_HEADS),
    P("linear_attn.in_proj_a", "ssm_alpha", STEP_TILE_HEADS),
    P("linear_attn.conv1d", "ssm_conv1d", STEP_TILE_QKV),
    P("linear_attn.A_log", "ssm_a", STEP_TILE_HEADS),
    P("linear_attn.dt_proj", "ssm_dt", STEP_TILE_HEADS),
    P("linear_attn.norm", "ssm_norm", STEP_PLAIN),
    P("linear_attn.out_proj", "ssm_out", STEP_TILE_COLUMNS),
    {0},
};

static const arch_item list_qwen_experts[] = {
    LIST(arch_base),
    U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
    U32_IF(".expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    END,
};

static const arch_item list_qwen3next[] = {
    LIST(arch_base),
    U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
    U32_IF(".expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    {.key = ".nextn_predict_layers", .make = PAIR_PREDICT, .need = IF_NOT_ZERO},
    U32(".ssm.conv_kernel", "linear_conv_kernel_dim"),
    U32(".ssm.state_size", "linear_key_head_dim"),
    U32(".ssm.group_count", "linear_num_key_heads"),
    U32(".ssm.time_step_rank", "linear_num_value_heads"),
    ITEM_NAMES(".ssm.inner_size", PAIR_PRODUCT, "linear_value_head_dim linear_num_value_heads"),
    U32_OR(".full_attention_interval", "full_attention_interval", 4),
    SHARE_OR(".rope.dimension_count", PAIR_SHARE_OF_HEAD, "rope.partial_rotary_factor", 0.25),
    END,
};

static const arch_item list_qwen35[] = {LIST(list_qwen3next), ITEM(NULL, PAIR_ROPE_QWEN35), END};

static const arch_rename thinker_renames[] = {{"thinker.", "", ANYWHERE}, {0}};

const architecture arch_rows_qwen[] = {
    {
        .name = "qwen2",
        .folder =
            {
                .classes =
                    CLASSES(CLASS("DotsOCRForCausalLM"), CLASS("AudioFlamingo3ForConditionalGeneration"),
                            CLASS("KORMoForCausalLM"), CLASS("Qwen2AudioForConditionalGeneration"),
                            CLASS("Qwen2ForCausalLM"), CLASS("Qwen2Model")),
                .pairs = arch_base,
                .tokenizer = {.files = "mb"},
                .is_silu = true,
                .assumed_key = "use_sliding_window",
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .qkv_bias = OPTIONAL,
                .logit_bias = OPTIONAL,
                .bias_is_usual = true,
            },
        .mix = {.big_blocks = 80},
    },
    {
        .name = "qwen2moe",
        .folder =
            {
                .classes = CLASSES(CLASS("Qwen2MoeForCausalLM")),
                .pairs = list_qwen_experts,
                .is_silu = true,
                .assumed_key = "norm_topk_prob",
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS},
                .has = {[WEIGHT_FFN_SHARED_GATE] = REQUIRED, [WEIGHT_FFN_UP_SHEXP] = REQUIRED},
                .neox = true,
                .qkv_bias = OPTIONAL,
                .routing = ROUTING_SOFT,
                .tied = TIED_NO,
                .bias_is_usual = true,
            },
    },
    {
        .name = "qwen2vl",
        .folder =
            {
                .classes = CLASSES(CLASS("Qwen2VLForConditionalGeneration"), CLASS("Qwen2VLModel"),
                                   CLASS("Qwen2_5OmniModel"), CLASS("Qwen2_5_VLForConditionalGeneration")),
                .pairs = arch_base,
                .renames = thinker_renames,
                .tokenizer = {.files = "mb"},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .sections = SECTIONS_IN_ORDER,
                .qkv_bias = OPTIONAL,
                .logit_bias = UNUSED,
                .bias_is_usual = true,
            },
    },
    {
        .name = "qwen3",
        .folder =
            {
                .classes = CLASSES(CLASS("Qwen3ForCausalLM"), CLASS("Qwen3Model")),
                .pairs = arch_base,
                .tokenizer = {.files = "mb"},
                .is_silu = true,
                .assumed_key = "use_sliding_window",
                .may_judge = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
            },
    },
    {
        .name = "qwen3moe",
        .folder =
            {
                .classes = CLASSES(CLASS("Qwen3MoeForCausalLM")),
                .pairs = list_qwen_experts,
                .is_silu = true,
                .assumed_key = "norm_topk_prob",
                .assumed = 1,
                .may_judge = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS},
                .neox = true,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .routing = ROUTING_SOFT_ONE,
            },
    },
    {
        .name = "qwen3vl",
        .folder =
            {
                .classes = CLASSES(CLASS("Qwen3VLForConditionalGeneration")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        ITEM_NAMES(".n_deepstack_layers", PAIR_COUNT,
                                   "vision_config.deepstack_visual_indexes"),
                        END,
                    },
                .renames = thinker_renames,
                .tokenizer = {.files = "mb"},
                .may_judge = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .sections = SECTIONS_INTERLEAVED,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
            },
    },
    {
        .name = "qwen3vlmoe",
        .folder =
            {
                .classes = CLASSES(CLASS("Qwen3OmniMoeForConditionalGeneration",
                                         .tokenizer = {.files = "b", .exceptions = TOKENS_OMNI}),
                                   CLASS("Qwen3VLMoeForConditionalGeneration")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        U32(".expert_feed_forward_length", "moe_intermediate_size"),
                        ITEM_NAMES(".n_deepstack_layers", PAIR_COUNT,
                                   "vision_config.deepstack_visual_indexes"),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        P("mlp.experts.gate_up_proj", "ffn_gate_exps|blk.#.ffn_up_exps", STEP_TURNED_HALVES),
                        P("mlp.experts.down_proj", "ffn_down_exps", STEP_TURNED),
                        {0},
                    },
                .renames = thinker_renames,
                .may_judge = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL},
                .neox = true,
                .sections = SECTIONS_INTERLEAVED,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .routing = ROUTING_GROUPS_SOFT_ONE,
            },
    },
    {
        .name = "qwen35",
        .folder =
            {
                .classes = CLASSES(CLASS("Qwen3_5ForCausalLM"), CLASS("Qwen3_5ForConditionalGeneration")),
                .pairs = list_qwen35,
                .rules = qwen35_rules,
                .adds_one = true,
                .predicting = {.key = "mtp_num_hidden_layers", .counts = true},
                .may_judge = true,
                .mlx = MLX_NORMS_BY_CONVOLUTION,
            },
        .graph =
            {
                .mixers = {MIXER_DELTA_NET, MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .rope_partial = true,
                .sections = SECTIONS_INTERLEAVED,
                .place = PLACE_PAN,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .gate_in_q = true,
                .extra_layers = true,
                .interval_default = 4,
            },
    },
    {
        .name = "qwen35moe",
        .folder =
            {
                .classes =
                    CLASSES(CLASS("Qwen3_5MoeForCausalLM"), CLASS("Qwen3_5MoeForConditionalGeneration")),
                .pairs = list_qwen35,
                .rules = qwen35_rules,
                .adds_one = true,
                .predicting = {.key = "mtp_num_hidden_layers", .counts = true},
                .may_judge = true,
                .mlx = MLX_NORMS_BY_CONVOLUTION,
            },
        .graph =
            {
                .mixers = {MIXER_DELTA_NET, MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_FFN_GATE_UP_EXPS] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL,
                        [WEIGHT_FFN_SHARED_GATE] = REQUIRED},
                .neox = true,
                .rope_partial = true,
                .sections = SECTIONS_INTERLEAVED,
                .place = PLACE_PAN,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .gate_in_q = true,
                .routing = ROUTING_SOFT_ONE,
                .extra_layers = true,
                .interval_default = 4,
            },
    },
    {
        .name = "qwen3next",
        .folder =
            {
                .classes = CLASSES(CLASS("Qwen3NextForCausalLM")),
                .pairs = list_qwen3next,
                .rules =
                    (const arch_rule[]){
                        P("post_attention_layernorm", "post_attention_norm", STEP_PLAIN),
                        P("linear_attn.in_proj_qkvz", "attn_qkv|blk.#.attn_gate", STEP_QKVZ),
                        P("linear_attn.in_proj_ba", "ssm_ba", STEP_PLAIN),
                        P("linear_attn.conv1d", "ssm_conv1d", STEP_SQUEEZE),
                        P("linear_attn.A_log", "ssm_a", STEP_NEGATIVE_EXP),
                        P("linear_attn.dt_proj", "ssm_dt", STEP_PLAIN),
                        P("linear_attn.norm", "ssm_norm", STEP_PLAIN),
                        P("linear_attn.out_proj", "ssm_out", STEP_PLAIN),
                        {0},
                    },
                .adds_one = true,
                .predicting = {.key = "mtp_num_hidden_layers", .counts = true},
                .is_silu = true,
                .may_judge = true,
                .mlx = MLX_NORMS_BY_CONVOLUTION,
            },
        .graph =
            {
                .mixers = {MIXER_DELTA_NET, MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_SSM_IN] = OPTIONAL,
                        [WEIGHT_SSM_BA] = REQUIRED,
                        [WEIGHT_FFN_GATE_UP_EXPS] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL,
                        [WEIGHT_FFN_SHARED_GATE] = REQUIRED},
                .neox = true,
                .rope_partial = true,
                .place = PLACE_PAN,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .gate_in_q = true,
                .routing = ROUTING_SOFT_ONE,
                .extra_layers = true,
                .interval_default = 4,
            },
    },
    {
        .name = "grovemoe",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS},
                .neox = true,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .routing = {.function = ROUTER_SOFTMAX, .sum = SUM_IS_ONE, .has_chunks = true},
            },
    },
    {.name = NULL},
};
