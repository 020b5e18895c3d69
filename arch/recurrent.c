/* Layers that have, all or some, a recurrent mixer or a short convolution: Mamba, Jamba, Falcon-H1, LFM2, PLaMo. */
#include "arch/rows.h"

static const arch_rename lfm2_renames[] = {{"lfm.", "model.", AT_BEGIN}, {0}};

static const char *const lfm2_left_out[] = {"audio",       "codebook",     "conformer", "depth_embedding",
                                            "depthformer", "depth_linear", NULL};

static const arch_rule lfm2_rules[] = {
    {"model.embedding_norm", "token_embd_norm", STEP_PLAIN},
    P("operator_norm", "attn_norm", STEP_PLAIN),
    P("ffn_norm", "ffn_norm", STEP_PLAIN),
    P("self_attn.out_proj", "attn_output", STEP_PLAIN),
    P("conv.conv", "shortconv.conv", STEP_SQUEEZE),
    P("conv.in_proj", "shortconv.in_proj", STEP_PLAIN),
    P("conv.out_proj", "shortconv.out_proj", STEP_PLAIN),
    {0},
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

const architecture arch_rows_recurrent[] = {
    {
        .name = "mamba",
        .folder =
            {
                .classes = CLASSES(CLASS("FalconMambaForCausalLM"), CLASS("MambaForCausalLM"),
                                   CLASS("MambaLMHeadModel")),
                .pairs =
                    (const arch_item[]){
                        LIST(list_mamba_both),
                        U32_OR_NOT_ZERO(".ssm.state_size", "state_size|d_state", 16),
                        ITEM_NAMES(".ssm.time_step_rank", PAIR_OWN_TIME_STEP_RANK, "time_step_rank|dt_rank"),
                        ITEM(NULL, PAIR_OWN_MAMBA),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        {"lm_head", "output", STEP_HEAD_UNLESS_SAME},
                        BACKBONE_ENDS,
                        MAMBA("backbone.layers.#.mixer.", STEP_NEGATIVE_EXP),
                        BACKBONE("mixer.D", "ssm_d", STEP_PLAIN),
                        {0},
                    },
                .renames = arch_backbone_renames,
                .tokenizer = {.files = "bm", .multiple = 8, .exceptions = TOKENS_MULTIPLE_IS_TOLD},
                .is_tied_by_class = true,
            },
        .graph =
            {
                .mixers = {MIXER_MAMBA1},
            },
    },
    {
        .name = "mamba2",
        .folder =
            {
                .classes = CLASSES(CLASS("Mamba2ForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(list_mamba_both),
                        U32_OR_NOT_ZERO(".ssm.state_size", "state_size|d_state", 128),
                        ITEM(NULL, PAIR_OWN_MAMBA2),
                        U32_OR_NOT_ZERO(".ssm.group_count", "n_groups", 1),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        BACKBONE_ENDS,
                        MAMBA("backbone.layers.#.mixer.", STEP_NEGATIVE_EXP_COLUMN),
                        MAMBA2("backbone.layers.#.mixer."),
                        {0},
                    },
                .renames = arch_backbone_renames,
                .tokenizer = {.files = "mb", .multiple = 16, .exceptions = TOKENS_MULTIPLE_IS_TOLD},
            },
        .graph =
            {
                .mixers = {MIXER_MAMBA2},
            },
    },
    {
        .name = "jamba",
        .folder =
            {
                .classes = CLASSES(CLASS("JambaForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_core),
                        U32(".feed_forward_length", "intermediate_size"),
                        ITEM(".attention.head_count_kv", PAIR_LAYERS_PERIOD_HEADS),
                        U32_OR_NOT_ZERO(".ssm.conv_kernel", "mamba_d_conv", 4),
                        ITEM_NAMES(".ssm.inner_size", PAIR_PRODUCT, "mamba_expand hidden_size"),
                        U32_OR_NOT_ZERO(".ssm.state_size", "mamba_d_state", 16),
                        ITEM_NAMES(".ssm.time_step_rank", PAIR_OWN_TIME_STEP_RANK, "mamba_dt_rank"),
                        FLOAT_OR(".attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6),
                        U32(".expert_count", NAMES_EXPERTS),
                        U32(".expert_used_count", NAMES_USED),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        {"model.final_layernorm", "output_norm", STEP_PLAIN},
                        MAMBA("model.layers.#.mamba.", STEP_NEGATIVE_EXP),
                        P("mamba.D", "ssm_d", STEP_PLAIN),
                        P("mamba.dt_layernorm", "ssm_dt_norm", STEP_PLAIN),
                        P("mamba.b_layernorm", "ssm_b_norm", STEP_PLAIN),
                        P("mamba.c_layernorm", "ssm_c_norm", STEP_PLAIN),
                        P("pre_ff_layernorm", "ffn_norm", STEP_PLAIN),
                        P("feed_forward.experts.*.gate_proj", "ffn_gate", STEP_EXPERT_FIRST),
                        P("feed_forward.experts.*.up_proj", "ffn_up", STEP_EXPERT_FIRST),
                        P("feed_forward.experts.*.down_proj", "ffn_down", STEP_EXPERT_FIRST),
                        {0},
                    },
                .renames =
                    (const arch_rename[]){
                        {".moe.", ".feed_forward.", ANYWHERE},
                        {0},
                    },
                .tokenizer = {.files = "mp", .exceptions = TOKENS_PIECES_NO_SPACE},
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION, MIXER_MAMBA1},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_SSM_DT_NORM] = REQUIRED,
                        [WEIGHT_SSM_B_NORM] = REQUIRED,
                        [WEIGHT_SSM_C_NORM] = REQUIRED},
                .qkv_bias = OPTIONAL,
                .no_rope = ROPE_NEVER,
                .routing = ROUTING_SOFT,
            },
    },
    {
        .name = "falcon-h1",
        .folder =
            {
                .classes = CLASSES(CLASS("FalconH1ForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_core),
                        U32_OR(".context_length", "max_position_embeddings", 0),
                        U32(".feed_forward_length", "intermediate_size"),
                        ITEM(".attention.head_count_kv", PAIR_KV_HEADS),
                        U32(".ssm.conv_kernel", "mamba_d_conv"),
                        U32(".ssm.inner_size", "mamba_d_ssm"),
                        U32(".ssm.state_size", "mamba_d_state"),
                        ITEM_NAMES(".ssm.time_step_rank", PAIR_QUOTIENT, "mamba_d_ssm mamba_d_head"),
                        U32(".ssm.group_count", "mamba_n_groups"),
                        FLOAT(".attention.layer_norm_rms_epsilon", NAMES_RMS),
                        U32(".vocab_size", "vocab_size"),
                        U32(".attention.key_length", "head_dim"),
                        U32(".attention.value_length", "head_dim"),
                        FLOAT(".rope.freq_base", "full.rope_theta"),
                        END,
                    },
                .rules =
                    (const arch_rule[]){
                        {"model.embed_tokens", "token_embd", STEP_FACTORS},
                        {"lm_head", "output", STEP_FACTORS},
                        {"model.final_layernorm", "output_norm", STEP_PLAIN},
                        P("pre_ff_layernorm.weight", "ffn_norm", STEP_PLAIN),
                        P("feed_forward.gate_proj", "ffn_gate", STEP_FACTORS),
                        P("feed_forward.up_proj", "ffn_up", STEP_PLAIN),
                        P("feed_forward.down_proj", "ffn_down", STEP_FACTORS),
                        P("mlp.gate_proj", "ffn_gate", STEP_FACTORS),
                        P("mlp.down_proj", "ffn_down", STEP_FACTORS),
                        P("self_attn.q_proj", "attn_q", STEP_FACTORS),
                        P("self_attn.k_proj", "attn_k", STEP_FACTORS),
                        P("self_attn.v_proj", "attn_v", STEP_FACTORS),
                        P("self_attn.o_proj", "attn_output", STEP_FACTORS),
                        P("mamba.in_proj", "ssm_in", STEP_FACTORS),
                        P("mamba.out_proj", "ssm_out", STEP_FACTORS),
                        MAMBA("model.layers.#.mamba.", STEP_NEGATIVE_EXP_COLUMN),
                        MAMBA2("model.layers.#.mamba."),
                        {0},
                    },
                .renames = arch_backbone_renames,
                .mlx = MLX_MULTIPLIES,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .beside = MIXER_MAMBA2,
                .ffns = {FFN_GATED},
                .has = {[WEIGHT_SSM_NORM] = OPTIONAL},
                .neox = true,
                .qkv_bias = OPTIONAL,
                .output_bias = UNUSED,
                .ffn_bias = OPTIONAL,
                .free_head = true,
                .factors = FACTORS_UNUSED,
            },
    },
    {
        .name = "lfm2",
        .folder =
            {
                .classes = CLASSES(CLASS("LFM2ForCausalLM"), CLASS("Lfm2ForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        ITEM(".attention.head_count_kv", PAIR_LAYERS_CONV_HEADS),
                        U32(".vocab_size", "vocab_size"),
                        U32(".shortconv.l_cache", "conv_L_cache"),
                        FLOAT(".attention.layer_norm_rms_epsilon", "norm_eps"),
                        ITEM(".feed_forward_length", PAIR_OWN_LFM2_WIDTH),
                        END,
                    },
                .rules = lfm2_rules,
                .renames = lfm2_renames,
                .left_out = lfm2_left_out,
                .is_tied_by_class = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION, MIXER_SHORTCONV},
                .ffns = {FFN_GATED},
                .neox = true,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .window = WINDOW_OPTIONAL,
                .final_norm = "token_embd_norm.weight",
            },
    },
    {
        .name = "lfm2moe",
        .folder =
            {
                .classes = CLASSES(CLASS("Lfm2MoeForCausalLM")),
                .pairs =
                    (const arch_item[]){
                        LIST(arch_base),
                        ITEM(".attention.head_count_kv", PAIR_LAYERS_FULL_HEADS),
                        U32(".expert_feed_forward_length", "moe_intermediate_size"),
                        U32(".leading_dense_block_count", "num_dense_layers"),
                        U32_IS(".expert_gating_func", 2),
                        U32(".vocab_size", "vocab_size"),
                        U32(".shortconv.l_cache", "conv_L_cache"),
                        END,
                    },
                .rules = lfm2_rules,
                .renames = lfm2_renames,
                .left_out = lfm2_left_out,
                .is_tied_by_class = true,
            },
        .graph =
            {
                .mixers = {MIXER_ATTENTION, MIXER_SHORTCONV},
                .ffns = {FFN_EXPERTS, FFN_GATED},
                .has = {[WEIGHT_EXPERT_CHOICE] = OPTIONAL},
                .neox = true,
                .qk = QK_HEAD,
                .qkv_bias = OPTIONAL,
                .routing = ROUTING_FUNCTION_ONE,
                .final_norm = "token_embd_norm.weight",
            },
    },
    {
        .name = "plamo2",
        .graph =
            {
                .mixers = {MIXER_ATTENTION, MIXER_PLAMO2},
                .ffns = {FFN_FUSED},
                .has = {[WEIGHT_ATTN_QKV] = REQUIRED},
                .score_scale = SCORES_BY_VALUE,
                .neox = true,
                .rope_partial = true,
                .place = PLACE_SANDWICH,
                .qk = QK_EACH,
                .free_head = true,
                .free_value = true,
            },
    },
    {
        .name = "plamo3",
        .graph =
            {
                .mixers = {MIXER_ATTENTION},
                .ffns = {FFN_FUSED},
                .has = {[WEIGHT_ATTN_QKV] = REQUIRED},
                .neox = true,
                .rope_partial = true,
                .place = PLACE_SANDWICH,
                .qk = QK_HEAD,
                .free_head = true,
                .free_value = true,
                .window = WINDOW_OPTIONAL,
                .period_default = 8,
                .local_rope = LOCAL_OWN,
            },
    },
    {.name = NULL},
};
