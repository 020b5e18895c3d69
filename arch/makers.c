/* Makers with a few architectures: Cohere, Baidu, LG, Zhipu, Tencent, Ai2, Microsoft. */
#include "arch/rows.h"

static const arch_item list_exaone4[] = {
    LIST(arch_base),
    U32(".vocab_size", "vocab_size"),
    ITEM(NULL, PAIR_LAYERS_EXAONE_WINDOW),
    END,
};

static const arch_item list_phi3[] = {
    LIST(arch_core),
    U32(".rope.scaling.original_context_length", "rope.original_max_position_embeddings"),
    U32(".feed_forward_length", "intermediate_size"),
    ITEM(".attention.head_count_kv", PAIR_KV_HEADS),
    FLOAT(".attention.layer_norm_rms_epsilon", NAMES_RMS),
    SHARE_OR(".rope.dimension_count", PAIR_SHARE_OF_WIDTH, "rope.partial_rotary_factor", 1),
    FLOAT(".rope.freq_base", "full.rope_theta"),
    U32_OR(".attention.sliding_window", "sliding_window", 0),
    ITEM(".rope.scaling.attn_factor", PAIR_ROPE_PHI),
    END,
};

static const arch_rename ernie_renames[] = {{"ernie.", "model.", AT_BEGIN}, {0}};

const architecture arch_rows_makers[] = {
    {
        .name = "command-r",
        .folder =
            {
                .classes = CLASSES(CLASS("CohereForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        U32(".context_length", "model_max_length|max_position_embeddings"),
                        FLOAT(".logit_scale", "logit_scale"),
                        ITEM_NAMES(".rope.scaling.type", PAIR_TEXT, "none"),
                        END,
                    },
                .has_no_head = true,
                .is_tied_by_class = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .has = {[WEIGHT_ATTN_Q_NORM] = OPTIONAL},
                .rope_partial = true,
                .norm = NORM_LAYER,
                .place = PLACE_PARALLEL,
                .qk = QK_EACH,
                .qkv_bias = OPTIONAL,
                .tied = TIED_MUST,
                .logit_scale = OPTIONAL,
            },
        .by_number = {{.what = BY_NUMBER_QK_NORMS, .least = 64, .most = UINT64_MAX}},
    },
    {
        .name = "cohere2",
        .folder =
            {
                .classes = CLASSES(CLASS("Cohere2ForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        FLOAT(".logit_scale", "logit_scale"),
                        U32(".attention.sliding_window", "sliding_window"),
                        U32(".vocab_size", "vocab_size"),
                        SHARE(".rope.dimension_count", PAIR_SHARE_OF_EVEN_HEAD, "rotary_pct"),
                        ITEM_NAMES(".rope.scaling.type", PAIR_TEXT, "none"),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        {"model.norm.bias", "", STEP_ZERO},
                        P("input_layernorm.bias", "", STEP_ZERO),
                        P("self_attn.q_proj.bias", "", STEP_ZERO),
                        P("self_attn.k_proj.bias", "", STEP_ZERO),
                        P("self_attn.v_proj.bias", "", STEP_ZERO),
                        P("self_attn.o_proj.bias", "", STEP_ZERO),
                        P("mlp.gate_proj.bias", "", STEP_ZERO),
                        P("mlp.up_proj.bias", "", STEP_ZERO),
                        P("mlp.down_proj.bias", "", STEP_ZERO),
                        {0},
                    },
                .has_no_head = true,
                .assumed_key = "sliding_window_pattern",
                .assumed = 4,
                .layers_by_number = true,
                .is_tied_by_class = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .rope_partial = true,
                .norm = NORM_LAYER,
                .place = PLACE_PARALLEL,
                .qkv_bias = OPTIONAL,
                .window = WINDOW_REQUIRED,
                .period_default = 4,
                .no_rope = ROPE_LOCAL,
                .tied = TIED_MUST,
                .logit_scale = REQUIRED,
            },
    },
    {
        .name = "cohere2moe",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_FFN_GATE_UP_EXPS] = OPTIONAL,
                        [WEIGHT_EXPERT_CHOICE] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .rope_partial = true,
                .norm = NORM_BY_EPS,
                .place = PLACE_PARALLEL,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .logit_scale = REQUIRED,
                .window = WINDOW_REQUIRED,
                .period_default = 4,
                .first_global = true,
                .no_rope = ROPE_LOCAL_OR_DENSE,
                .routing = {.function = ROUTER_SIGMOID,
                            .function_key = OPTIONAL,
                            .sum = SUM_BY_KEY,
                            .scale_key = true,
                            .has_groups = true,
                            .sum_factor = .5f},
                .extra_layers = true,
            },
    },
    {
        .name = "ernie4_5",
        .folder =
            {
                .classes = CLASSES(CLASS("Ernie4_5ForCausalLM"), CLASS("Ernie4_5_ForCausalLM")),
                .pairs = arch_base,
                .rules =
                    (const arch_rule[]){
                        P("self_attn.qkv_proj", "attn_q|blk.#.attn_k|blk.#.attn_v", STEP_SPLIT_QKV),
                        P("mlp.up_gate_proj", "ffn_gate|blk.#.ffn_up", STEP_HALVES),
                        {0},
                    },
                .renames = ernie_renames,
                .tokenizer = {.files = "m", .exceptions = TOKENS_SPACE_IS_TOLD},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .qkv_bias = OPTIONAL,
                .output_bias = UNUSED,
                .free_head = true,
            },
    },
    {
        .name = "ernie4_5-moe",
        .folder =
            {
                .classes = CLASSES(CLASS("Ernie4_5_MoeForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        U32(".expert_count", "moe_num_experts"),
                        U32(".expert_used_count", "moe_k"),
                        U32(".interleave_moe_layer_step", "moe_layer_interval"),
                        U32(".leading_dense_block_count", "moe_layer_start_index"),
                        U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
                        U32_IF(".expert_shared_count", "moe_num_shared_experts"),
                        END,
                    },
                .left_out =
                    (const char *const[]){
                        "^model.mtp_block.",
                        "^model.mtp_emb_norm.",
                        "^model.mtp_hidden_norm.",
                        "^model.mtp_linear_proj.",
                        NULL,
                    },
                .renames = ernie_renames,
                .expert_count = "moe_num_experts",
                .tokenizer = {.files = "m", .exceptions = TOKENS_SPACE_IS_TOLD},
                .tensor_pairs = TENSOR_PAIRS_SHARED_WIDTH,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL, [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .rope_partial = true,
                .qkv_bias = OPTIONAL,
                .output_bias = UNUSED,
                .free_head = true,
                .routing = ROUTING_GROUPS_SOFT_ONE,
            },
    },
    {
        .name = "paddleocr",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .sections = SECTIONS_IN_ORDER,
                .qkv_bias = OPTIONAL,
                .output_bias = OPTIONAL,
                .free_head = true,
            },
    },
    {
        .name = "exaone",
        .folder =
            {
                .classes = CLASSES(CLASS("ExaoneForCausalLM")),
                /* Readers need the root mean square norm's epsilon, which llama.cpp's converter forgets here. */
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        SHARE_OR(".rope.dimension_count", PAIR_SHARE_OF_EVEN_HEAD,
                                 "rope.partial_rotary_factor", 1),
                        FLOAT(".attention.layer_norm_rms_epsilon", NAMES_NORM "|" NAMES_RMS),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        {"transformer.wte", "token_embd", STEP_PLAIN},
                        {"transformer.ln_f", "output_norm", STEP_PLAIN},
                        FALCON("ln_1", "attn_norm", STEP_PLAIN),
                        FALCON("ln_2", "ffn_norm", STEP_PLAIN),
                        FALCON("attn.attention.q_proj", "attn_q", STEP_PLAIN),
                        FALCON("attn.attention.k_proj", "attn_k", STEP_PLAIN),
                        FALCON("attn.attention.v_proj", "attn_v", STEP_PLAIN),
                        FALCON("attn.attention.out_proj", "attn_output", STEP_PLAIN),
                        FALCON("mlp.c_fc_0", "ffn_gate", STEP_PLAIN),
                        FALCON("mlp.c_fc_1", "ffn_up", STEP_PLAIN),
                        FALCON("mlp.c_proj", "ffn_down", STEP_PLAIN),
                        {0},
                    },
                .finish = FINISH_ROPE,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_FREQS,
            },
    },
    {
        .name = "exaone4",
        .folder =
            {
                .classes = CLASSES(CLASS("Exaone4ForCausalLM")),
                .pairs = list_exaone4,
                .rules = arch_after_attention,
                .finish = FINISH_ROPE_16,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .place = PLACE_POST,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .factors = FACTORS_FREQS,
                .window = WINDOW_BY_NUMBER,
                .window_default = 4096,
                .period_default = 4,
                .no_rope = ROPE_LOCAL_IF_ANY,
            },
        .by_number = {{.what = BY_NUMBER_WINDOWS, .least = 64, .most = 64}},
    },
    {
        .name = "exaone-moe",
        .folder =
            {
                .classes = CLASSES(CLASS("ExaoneMoEForCausalLM"), CLASS("ExaoneMoeForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(list_exaone4),
                        U32(".expert_feed_forward_length", "moe_intermediate_size"),
                        U32(".expert_shared_count", "num_shared_experts"),
                        ITEM_NAMES(".expert_shared_feed_forward_length", PAIR_PRODUCT,
                                   "moe_intermediate_size num_shared_experts"),
                        FLOAT(".expert_weights_scale", "routed_scaling_factor"),
                        BOOL(".expert_weights_norm", "norm_topk_prob"),
                        U32_OR(".leading_dense_block_count",
                               "first_k_dense_replace|first_last_k_dense_replace", 0),
                        ITEM(".nextn_predict_layers", PAIR_PREDICT),
                        ITEM_NAMES(".rope.scaling.type", PAIR_TEXT, "none"),
                        END,
                    },
                .finish = FINISH_ROPE_16,
                .predicting = {.key = "num_nextn_predict_layers", .for_each = true},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL, [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .neox = true,
                .rope_partial = true,
                .factors = FACTORS_LONGROPE,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .window = WINDOW_REQUIRED,
                .period_default = 4,
                .no_rope = ROPE_LOCAL,
                .routing = ROUTING_KEYS_REQUIRED,
                .extra_layers = true,
                .tied = TIED_NO,
            },
    },
    {
        .name = "chatglm",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_FUSED},
                .rope_partial = true,
                .qkv_bias = OPTIONAL,
            },
    },
    {
        .name = "glm4",
        .folder =
            {
                .classes = CLASSES(CLASS("Glm4ForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        ITEM(NULL, PAIR_ROPE_GLM4),
                        SHARE_OR(".rope.dimension_count", PAIR_SHARE_OF_HEAD, "rope.partial_rotary_factor",
                                 0.5),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        P("post_self_attn_layernorm", "post_attention_norm", STEP_PLAIN),
                        P("post_attention_layernorm", "ffn_norm", STEP_PLAIN),
                        P("post_mlp_layernorm", "post_ffw_norm", STEP_PLAIN),
                        {0},
                    },
                .tokenizer = {.exceptions = TOKENS_GLM4},
                .is_silu = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_FUSED},
                .own = {OWN_NEOX_SECTIONS},
                .rope_partial = true,
                .place = PLACE_SANDWICH,
                .qkv_bias = OPTIONAL,
                .free_head = true,
            },
    },
    {
        .name = "glm4moe",
        .folder =
            {
                .classes = CLASSES(CLASS("Glm4MoeForCausalLM"), CLASS("Glm4vMoeForConditionalGeneration")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        SHARE_OR(".rope.dimension_count", PAIR_SHARE_OF_HEAD, "rope.partial_rotary_factor",
                                 0.5),
                        U32_IF(".expert_feed_forward_length", "moe_intermediate_size"),
                        U32_IF(".expert_shared_count", "n_shared_experts"),
                        U32_IF(".leading_dense_block_count", "first_k_dense_replace"),
                        U32_IS(".expert_gating_func", 2),
                        FLOAT_IF(".expert_weights_scale", "routed_scaling_factor"),
                        BOOL_IF(".expert_weights_norm", "norm_topk_prob"),
                        ITEM_NAMES(".nextn_predict_layers", PAIR_PREDICT, "num_nextn_predict_layers"),
                        END,
                    },
                .rules = arch_after_attention,
                .tokenizer = {.exceptions = TOKENS_GLM_MOE},
                .predicting = {.key = "num_nextn_predict_layers"},
                .is_silu = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_ATTN_Q_NORM] = OPTIONAL,
                        [WEIGHT_EXPERT_CHOICE] = REQUIRED,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .neox = true,
                .rope_partial = true,
                .place = PLACE_PAN,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .routing = ROUTING_KEYS_SIGMOID,
                .extra_layers = true,
            },
    },
    {
        .name = "hunyuan-dense",
        .folder =
            {
                .classes = CLASSES(CLASS("HunYuanDenseV1ForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        ITEM(".expert_count", PAIR_REMOVE),
                        ITEM(".expert_used_count", PAIR_REMOVE),
                        ITEM(NULL, PAIR_ROPE_HUNYUAN),
                        END,
                    },
                .drops_tied_head = true,
                .tokenizer = {.exceptions = TOKENS_HUNYUAN},
                .rope_type = "dynamic",
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .own = {OWN_ROPE_ALPHA},
                .neox = true,
                .qk = QK_HEAD,
                .qk_after_rope = true,
                .qkv_bias = OPTIONAL,
                .free_head = true,
            },
    },
    {
        .name = "hunyuan_vl",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .own = {OWN_ROPE_ALPHA, OWN_SECTIONS_IF_ANY},
                .neox = true,
                .qk = QK_HEAD,
                .qk_after_rope = true,
                .qkv_bias = OPTIONAL,
                .free_head = true,
            },
    },
    {
        .name = "hunyuan-moe",
        .folder =
            {
                .classes = CLASSES(CLASS("HunYuanMoEV1ForCausalLM")),
                /* The config has a list for each of these numbers, with the same for all layers. */
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        U32(".expert_shared_feed_forward_length", "intermediate_size"),
                        ITEM_NAMES(".expert_feed_forward_length", PAIR_FIRST, "moe_intermediate_size"),
                        ITEM_NAMES(".expert_used_count", PAIR_FIRST, "moe_topk"),
                        ITEM_NAMES(".expert_shared_count", PAIR_FIRST, "num_shared_expert"),
                        ITEM(NULL, PAIR_ROPE_HUNYUAN_EXPERTS),
                        END,
                    },
                .drops_tied_head = true,
                .rope_type = "dynamic",
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL, [WEIGHT_FFN_UP_SHEXP] = REQUIRED},
                .neox = true,
                .qk = QK_HEAD,
                .qk_after_rope = true,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .routing = ROUTING_GROUPS_SOFT_ONE,
            },
    },
    {
        .name = "hy_v3",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL,
                        [WEIGHT_FFN_GATE_UP_EXPS] = OPTIONAL,
                        [WEIGHT_FFN_UP_SHEXP] = OPTIONAL},
                .neox = true,
                .rope_partial = true,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .free_head = true,
                .routing = ROUTING_KEYS_SIGMOID,
                .extra_layers = true,
            },
    },
    {
        .name = "olmo",
        .folder =
            {
                .classes = CLASSES(CLASS("OLMoForCausalLM"), CLASS("OlmoForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        FLOAT_IS(".attention.layer_norm_epsilon", 1e-5),
                        FLOAT_IF(".attention.clamp_kqv", "clip_qkv"),
                        END,
                    },
                .more = arch_permuted_rules,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .norm = NORM_LAYER,
                .unweighted = true,
                .clamp = OPTIONAL,
                .qkv_bias = OPTIONAL,
            },
        .mix = {.big_blocks = 80},
    },
    {
        .name = "olmo2",
        .folder =
            {
                .classes = CLASSES(CLASS("Olmo2ForCausalLM"), CLASS("Olmo3ForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        ITEM(NULL, PAIR_LAYERS_OLMO_WINDOW),
                        END,
                    },
                .rules = arch_after_attention,
                .is_silu = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_GATED},
                .neox = true,
                .place = PLACE_POST,
                .qk = QK_FULL,
                .qkv_bias = OPTIONAL,
                .window = WINDOW_OPTIONAL,
                .period_default = 4,
                .local_rope = LOCAL_PLAIN,
                .tied = TIED_NO,
            },
    },
    {
        .name = "olmoe",
        .folder =
            {
                .classes = CLASSES(CLASS("OlmoeForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        FLOAT_IS(".attention.layer_norm_rms_epsilon", 1e-5),
                        END,
                    },
                .is_silu = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS},
                .own = {OWN_ALL_KV_HEADS},
                .neox = true,
                .qk = QK_FULL,
                .qkv_bias = OPTIONAL,
                .routing = ROUTING_SOFT,
                .tied = TIED_NO,
            },
    },
    {
        .name = "phi2",
        .folder =
            {
                .classes = CLASSES(CLASS("PhiForCausalLM")),
                /* The converter's users add no first token to texts for this model. */
                .pairs =
                    (const arch_item[]){
                        LIST(arch_core),
                        U32(".context_length", "n_positions|max_position_embeddings"),
                        {.key = ".feed_forward_length", .make = PAIR_TIMES, .names = NAMES_WIDTH, .value = 4},
                        U32(".attention.head_count_kv", NAMES_HEADS),
                        FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon|layer_norm_eps"),
                        SHARE(".rope.dimension_count", PAIR_SHARE_OF_WIDTH, "rope.partial_rotary_factor"),
                        BOOL_IS("tokenizer.ggml.add_bos_token", false),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        P("self_attn.dense", "attn_output", STEP_PLAIN),
                        P("mlp.fc1", "ffn_up", STEP_PLAIN),
                        P("mlp.fc2", "ffn_down", STEP_PLAIN),
                        {"model.final_layernorm", "output_norm", STEP_PLAIN},
                        {0},
                    },
                .tokenizer = {.exceptions = TOKENS_BOS_NEVER},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_PLAIN},
                .neox = true,
                .rope_partial = true,
                .norm = NORM_LAYER,
                .place = PLACE_PARALLEL,
                .qkv_bias = OPTIONAL,
                .output_bias = REQUIRED,
                .ffn_bias = REQUIRED,
                .norm_bias = REQUIRED,
                .logit_bias = REQUIRED,
                .act = ACT_GELU,
                .tied = TIED_NO,
            },
    },
    {
        .name = "phi3",
        .folder =
            {
                .classes = CLASSES(CLASS("Phi3ForCausalLM")),
                .pairs = list_phi3,
                .finish = FINISH_FACTORS,
                .tokenizer = {.files = "m", .exceptions = TOKENS_PHI3},
                .is_silu = true,
                .has_own_head = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_FUSED},
                .neox = true,
                .rope_partial = true,
                .qkv_bias = OPTIONAL,
                .factors = FACTORS_PAIR,
            },
    },
    {
        .name = "phimoe",
        .folder =
            {
                .classes = CLASSES(CLASS("PhiMoEForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(list_phi3),
                        U32(".expert_used_count", NAMES_USED),
                        U32(".expert_count", NAMES_EXPERTS),
                        END,
                    },
                .finish = FINISH_FACTORS,
                .tokenizer = {.files = "m", .exceptions = TOKENS_PHI3},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_EXPERTS},
                .neox = true,
                .qkv_bias = OPTIONAL,
                .output_bias = REQUIRED,
                .norm_bias = REQUIRED,
                .logit_bias = REQUIRED,
                .factors = FACTORS_PAIR,
                .routing = ROUTING_SOFT_ONE,
                .tied = TIED_NO,
            },
    },
    {.name = NULL},
};
