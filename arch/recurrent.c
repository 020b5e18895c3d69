/* Layers that have, all or some, a recurrent mixer or a short convolution: Mamba, Jamba, Falcon-H1, LFM2, PLaMo. */
#include "arch/rows.h"

static const arch_rename lfm2_renames[] = {{"lfm.", "model.", AT_BEGIN}, {0}};

/* Encoders: names without the model's; and what makes sounds. */
static const arch_rename lfm2_bare[] = {{"lfm.", "model.", AT_BEGIN},
                                        {"layers.", "model.layers.", AT_BEGIN},
                                        {"embed_tokens.", "model.embed_tokens.", AT_BEGIN},
                                        {"embedding_norm.", "model.embedding_norm.", AT_BEGIN},
                                        {0}};

static const char *const lfm2_left_out[] = {"audio",       "codebook",     "conformer", "depth_embedding",
                                            "depthformer", "depth_linear", NULL};

static const arch_rule lfm2_rules[] = {
    RULE("model.embedding_norm", "token_embd_norm"),
    P("operator_norm", "attn_norm"),
    P("ffn_norm", "ffn_norm"),
    P("self_attn.out_proj", "attn_output"),
    P("conv.conv", "shortconv.conv", OP_SQUEEZE),
    P("conv.in_proj", "shortconv.in_proj"),
    P("conv.out_proj", "shortconv.out_proj"),
    {0},
};

static const arch_item list_lfm2[] = {
    LIST(arch_base),
    ITEM_NAMES(".attention.head_count_kv", KV_LAYERS_KIND_HEADS, "layer_types!conv"),
    U32(".vocab_size", "vocab_size"),
    U32(".shortconv.l_cache", "conv_L_cache"),
    FLOAT(".attention.layer_norm_rms_epsilon", "norm_eps"),
    ITEM(".feed_forward_length", KV_OWN_LFM2_WIDTH),
    END,
};

static const arch_item list_lfm2_embeds[] = {
    LIST(list_lfm2),
    ITEM(".pooling_type", KV_OWN_POOLING),
    ITEM(".embedding_length_out", KV_OWN_DENSE),
    END,
};

static const arch_shape lfm2_sounds[] = {SHAPED("dense_2.weight", DIMS(DIM_WIDTH, DIM_OUTPUTS)),
                                         SHAPED("dense_2.bias", DIMS(DIM_OUTPUTS)),
                                         {.tensor = NULL}};

#define LFM2_GRAPH \
    MIXERS(MIXER_ATTENTION, MIXER_SHORTCONV), .ffns = {FFN_GATED}, .neox = true, .qk = QK_HEAD, \
                                              .qkv_bias = OPTIONAL, .window = WINDOW_OPTIONAL, \
                                              .final_norm = "token_embd_norm.weight"

/* Metadata of both kinds of Mamba, which have neither attention nor a limit of the context. */
static const arch_item list_mamba_both[] = {
    LIST(arch_core),
    U32_IS(".context_length", 1 << 20),
    U32_IS(".feed_forward_length", 0),
    U32_IS(".attention.head_count", 0),
    U32_OR_NOT_ZERO(".ssm.conv_kernel", "conv_kernel|d_conv", 4),
    FLOAT_OR_NOT_ZERO(".attention.layer_norm_rms_epsilon", "layer_norm_epsilon|rms_norm_eps", 1e-5),
    END,
};

/* The model adds these numbers to its norms. */
#define PLAMO(from, to, ...) RULE("model.layers.layers.#." from, "blk.#." to, __VA_ARGS__)
static const arch_rule plamo_rules[] = {
    RULE("model.norm", "output_norm", OP_ADD_PLAMO_OFFSET),
    PLAMO("pre_mixer_norm", "attn_norm", OP_ADD_PLAMO_OFFSET),
    PLAMO("post_mixer_norm.weight", "post_attention_norm", OP_ADD_PLAMO_OFFSET),
    PLAMO("pre_mlp_norm", "ffn_norm", OP_ADD_PLAMO_OFFSET),
    PLAMO("post_mlp_norm.weight", "post_ffw_norm", OP_ADD_PLAMO_OFFSET),
    PLAMO("mixer.q_norm", "attn_q_norm", OP_ADD_PLAMO_OFFSET),
    PLAMO("mixer.k_norm", "attn_k_norm", OP_ADD_PLAMO_OFFSET),
    PLAMO("mixer.q_weight", "attn_q_norm.weight"),
    PLAMO("mixer.k_weight", "attn_k_norm.weight"),
    PLAMO("mixer.qkv_proj", "attn_qkv"),
    PLAMO("mixer.o_proj", "attn_output"),
    PLAMO("mlp.gate_up_proj", "ffn_up"),
    PLAMO("mlp.down_proj", "ffn_down"),
    PLAMO("mixer.dt_norm_weight", "ssm_dt_norm"),
    PLAMO("mixer.B_norm_weight", "ssm_b_norm"),
    PLAMO("mixer.C_norm_weight", "ssm_c_norm"),
    PLAMO("mixer.D", "ssm_d"),
    PLAMO("mixer.bcdt_proj", "ssm_x"),
    MAMBA("model.layers.layers.#.mixer.", OP_NEGATIVE_EXP),
    {0},
};

/* ---- rwkv ---- */

/* A recurrent state has no maximum length of text. */
static const arch_item list_rwkv[] = {
    ITEM(".block_count", KV_BLOCKS),
    U32_IS(".context_length", 1048576),
    U32(".embedding_length", "hidden_size"),
    U32_IS(".attention.head_count", 0),
    END,
};

#define RWKV6(from, to, ...) RULE("rwkv.blocks.#." from, "blk.#." to, __VA_ARGS__)
/* The share of the previous token in each matrix's input (token shift), and how it and the decay depend on the
 * token. */
#define RWKV6_SHIFT(prefix) \
    RULE(prefix "time_maa_x", "blk.#.time_mix_lerp_x.weight", OP_SQUEEZE), \
        RULE(prefix "time_maa_w", "blk.#.time_mix_lerp_fused.weight", OP_JOIN_LERP), \
        RULE(prefix "time_maa_k", "blk.#.time_mix_lerp_fused.weight", OP_JOIN_LERP), \
        RULE(prefix "time_maa_v", "blk.#.time_mix_lerp_fused.weight", OP_JOIN_LERP), \
        RULE(prefix "time_maa_r", "blk.#.time_mix_lerp_fused.weight", OP_JOIN_LERP), \
        RULE(prefix "time_maa_g", "blk.#.time_mix_lerp_fused.weight", OP_JOIN_LERP), \
        RULE(prefix "time_decay", "blk.#.time_mix_decay.weight", OP_SQUEEZE), \
        RULE(prefix "time_decay_w1", "blk.#.time_mix_decay_w1.weight", OP_TRANSPOSE), \
        RULE(prefix "time_decay_w2", "blk.#.time_mix_decay_w2.weight", OP_TRANSPOSE)

#define LOW_RANK(k, n, factor) ITEM_VALUE((k), KV_OWN_LOW_RANK, (n), (factor))
#define RWKV7(letter) P("attention.x_" letter, "time_mix_lerp_fused.weight", OP_JOIN_LERP)
/* A vector, and two matrices of low rank, under the names of two programs. */
#define RWKV7_RANK(letter, to0, to1, to2) \
    P("attention." letter "0", to0, OP_TRANSPOSE_LOW_RANK), \
        P("attention." letter "1", to1, OP_TRANSPOSE_LOW_RANK), \
        P("attention." letter "2", to2, OP_TRANSPOSE_LOW_RANK), \
        P("attention." letter "_lora.lora.2.bias", to0, OP_TRANSPOSE_LOW_RANK), \
        P("attention." letter "_lora.lora.0.weight", to1, OP_TRANSPOSE_LOW_RANK), \
        P("attention." letter "_lora.lora.2.weight", to2, OP_TRANSPOSE_LOW_RANK)

static const arch_rule rwkv7_rules[] = {
    RULE("model.embeddings", "token_embd"),
    RULE("model.layers.0.pre_norm", "token_embd_norm"),
    RULE("model.pre_ln", "token_embd_norm"),
    RULE("model.ln_out", "output_norm"),
    RULE("head", "output"),
    P("ln1", "attn_norm"),
    P("attention_norm", "attn_norm"),
    P("ln2", "attn_norm_2"),
    RWKV7("r"),
    RWKV7("w"),
    RWKV7("k"),
    RWKV7("v"),
    RWKV7("a"),
    RWKV7("g"),
    RWKV7("x"),
    RWKV7_RANK("w", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight"),
    RWKV7_RANK("a", "time_mix_a0.weight|blk.#.time_mix_v0.weight",
               "time_mix_a1.weight|blk.#.time_mix_v1.weight", "time_mix_a2.weight|blk.#.time_mix_v2.weight"),
    RWKV7_RANK("v", "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight"),
    RWKV7_RANK("g", "", "time_mix_g1.weight", "time_mix_g2.weight"),
    P("attention.k_k", "time_mix_k_k.weight", OP_FLATTEN),
    P("attention.k_a", "time_mix_k_a.weight", OP_FLATTEN),
    P("attention.r_k", "time_mix_r_k.weight", OP_FLATTEN),
    P("attention.receptance", "time_mix_receptance"),
    P("attention.r_proj", "time_mix_receptance"),
    P("attention.key", "time_mix_key"),
    P("attention.k_proj", "time_mix_key"),
    P("attention.value", "time_mix_value"),
    P("attention.v_proj", "time_mix_value"),
    P("attention.output", "time_mix_output"),
    P("attention.o_proj", "time_mix_output"),
    P("attention.ln_x", "time_mix_ln"),
    P("feed_forward.x_k", "channel_mix_lerp_k.weight", OP_FLATTEN),
    P("feed_forward.key", "channel_mix_key"),
    P("feed_forward.value", "channel_mix_value"),
    {0},
};
static const arch_rename rwkv7_renames[] = {
    {"blocks", "layers", ANYWHERE},       {"ffn", "feed_forward", ANYWHERE},
    {"self_attn", "attention", ANYWHERE}, {".attn", ".attention", ANYWHERE},
    {"time_mixer.", "", ANYWHERE},        {"feed_forward_norm", "ln2", ANYWHERE},
    {"g_norm", "ln_x", ANYWHERE},         {0},
};

const architecture arch_rows_recurrent[] = {
    {
        .name = "mamba",
        .folder =
            {CLASSES(CLASS("FalconMambaForCausalLM"), CLASS("MambaForCausalLM"), CLASS("MambaLMHeadModel")),
             .metadata =
                 METADATA(LIST(list_mamba_both), U32_OR_NOT_ZERO(".ssm.state_size", "state_size|d_state", 16),
                          ITEM_NAMES(".ssm.time_step_rank", KV_OWN_TIME_STEP_RANK, "time_step_rank|dt_rank"),
                          ITEM(NULL, KV_OWN_MAMBA)),
             .rules = RULES(RULE("lm_head", "output", OP_OMIT_EQUAL_HEAD), BACKBONE_ENDS,
                            MAMBA("backbone.layers.#.mixer.", OP_NEGATIVE_EXP), BACKBONE("mixer.D", "ssm_d")),
             .renames = arch_backbone_renames,
             .tokenizer = {.files = {FILE_BYTES, FILE_MODEL},
                           .multiple = 8,
                           .exceptions = TOKENS_MULTIPLE_IS_SET},
             .is_tied_by_class = true},
        .graph = {MIXERS(MIXER_MAMBA1)},
    },
    {
        .name = "mamba2",
        .folder = {CLASSES(CLASS("Mamba2ForCausalLM")),
                   .metadata = METADATA(
                       LIST(list_mamba_both), U32_OR_NOT_ZERO(".ssm.state_size", "state_size|d_state", 128),
                       ITEM(NULL, KV_OWN_MAMBA2), U32_OR_NOT_ZERO(".ssm.group_count", "n_groups", 1)),
                   .rules = RULES(BACKBONE_ENDS, MAMBA("backbone.layers.#.mixer.", OP_NEGATIVE_EXP_COLUMN),
                                  MAMBA2("backbone.layers.#.mixer.")),
                   .renames = arch_backbone_renames,
                   .tokenizer = {.files = {FILE_MODEL, FILE_BYTES},
                                 .multiple = 16,
                                 .exceptions = TOKENS_MULTIPLE_IS_SET}},
        .graph = {MIXERS(MIXER_MAMBA2)},
    },
    {
        .name = "jamba",
        .folder = {CLASSES(CLASS("JambaForCausalLM")),
                   .metadata =
                       METADATA(LIST(arch_core), U32(".feed_forward_length", "intermediate_size"),
                                ITEM(".attention.head_count_kv", KV_LAYERS_PERIOD_HEADS),
                                U32_OR_NOT_ZERO(".ssm.conv_kernel", "mamba_d_conv", 4),
                                ITEM_NAMES(".ssm.inner_size", KV_PRODUCT, "mamba_expand hidden_size"),
                                U32_OR_NOT_ZERO(".ssm.state_size", "mamba_d_state", 16),
                                ITEM_NAMES(".ssm.time_step_rank", KV_OWN_TIME_STEP_RANK, "mamba_dt_rank"),
                                FLOAT_OR(".attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6),
                                U32(".expert_count", NAMES_EXPERTS), U32(".expert_used_count", NAMES_USED)),
                   .rules =
                       RULES(RULE("model.final_layernorm", "output_norm"),
                             MAMBA("model.layers.#.mamba.", OP_NEGATIVE_EXP), P("mamba.D", "ssm_d"),
                             P("mamba.dt_layernorm", "ssm_dt_norm"), P("mamba.b_layernorm", "ssm_b_norm"),
                             P("mamba.c_layernorm", "ssm_c_norm"), P("pre_ff_layernorm", "ffn_norm"),
                             FFN_RULES(P, "feed_forward.experts.*.", "_proj", "", OP_COPY_ONLY_EXPERT)),
                   .renames = RENAMES({".moe.", ".feed_forward.", ANYWHERE}),
                   .tokenizer = {.files = {FILE_MODEL, FILE_PIECES}, .exceptions = TOKENS_PIECES_NO_SPACE}},
        .graph = {MIXERS(MIXER_ATTENTION, MIXER_MAMBA1), .ffns = {FFN_EXPERTS, FFN_GATED},
                  .has = {MUST_HAVE(WEIGHT_SSM_DT_NORM), MUST_HAVE(WEIGHT_SSM_B_NORM),
                          MUST_HAVE(WEIGHT_SSM_C_NORM)},
                  .qkv_bias = OPTIONAL, .no_rope = ROPE_NEVER, .routing = ROUTING_SOFT},
    },
    {
        .name = "falcon-h1",
        .folder = {CLASSES(CLASS("FalconH1ForCausalLM")),
                   .metadata = METADATA(
                       LIST(arch_core),
                       U32_OR(".context_length", "max_position_embeddings", 0),
                       U32(".feed_forward_length", "intermediate_size"),
                       ITEM(".attention.head_count_kv", KV_KV_HEADS), U32(".ssm.conv_kernel", "mamba_d_conv"),
                       U32(".ssm.inner_size", "mamba_d_ssm"), U32(".ssm.state_size", "mamba_d_state"),
                       ITEM_NAMES(".ssm.time_step_rank", KV_QUOTIENT, "mamba_d_ssm mamba_d_head"),
                       U32(".ssm.group_count", "mamba_n_groups"),
                       FLOAT(".attention.layer_norm_rms_epsilon", NAMES_RMS),
                       U32(".vocab_size", "vocab_size"), U32(".attention.key_length", "head_dim"),
                       U32(".attention.value_length", "head_dim"),
                       FLOAT(".rope.freq_base", "full.rope_theta")),
                   .rules = RULES(RULE("model.embed_tokens", "token_embd", OP_SCALE_FALCON_H1),
                                  RULE("lm_head", "output", OP_SCALE_FALCON_H1),
                                  RULE("model.final_layernorm", "output_norm"),
                                  P("pre_ff_layernorm.weight", "ffn_norm"),
                                  P("feed_forward.gate_proj", "ffn_gate", OP_SCALE_FALCON_H1),
                                  P("feed_forward.up_proj", "ffn_up"),
                                  P("feed_forward.down_proj", "ffn_down", OP_SCALE_FALCON_H1),
                                  P("mlp.gate_proj", "ffn_gate", OP_SCALE_FALCON_H1),
                                  P("mlp.down_proj", "ffn_down", OP_SCALE_FALCON_H1),
                                  QKV_RULES(P, "self_attn.", "_proj", "attn_", OP_SCALE_FALCON_H1),
                                  P("self_attn.o_proj", "attn_output", OP_SCALE_FALCON_H1),
                                  P("mamba.in_proj", "ssm_in", OP_SCALE_FALCON_H1),
                                  P("mamba.out_proj", "ssm_out", OP_SCALE_FALCON_H1),
                                  MAMBA("model.layers.#.mamba.", OP_NEGATIVE_EXP_COLUMN),
                                  MAMBA2("model.layers.#.mamba.")),
                   .renames = arch_backbone_renames, .mlx = MLX_MULTIPLIES},
        .graph = {MIXERS(MIXER_ATTENTION), .beside = MIXER_MAMBA2, .ffns = {FFN_GATED},
                  .has = {MAY_HAVE(WEIGHT_SSM_NORM)}, .neox = true, .qkv_bias = OPTIONAL,
                  .output_bias = UNUSED, .ffn_bias = OPTIONAL, .free_head = true, .factors = FACTORS_UNUSED},
    },
    {
        .name = "lfm2",
        .folder = {CLASSES(CLASS("LFM2ForCausalLM"), CLASS("Lfm2ForCausalLM")), .metadata = list_lfm2,
                   .rules = lfm2_rules, .renames = lfm2_renames, .left_out = lfm2_left_out,
                   .is_tied_by_class = true},
        .graph = {LFM2_GRAPH},
    },
    {
        .name = "lfm2",
        .of_embeddings = true,
        .folder = {CLASSES(CLASS("Lfm2Model"),
                           CLASS("Lfm25AudioTokenizer", .rules = RULES(RULE("lin", "dense_2")),
                                 .metadata = METADATA(LIST(list_lfm2),
                                                      U32(".attention.sliding_window", "sliding_window"),
                                                      U32(".embedding_length_out", "output_size")),
                                 .left_out = NAMES("^istft.window", "^emb.emb"),
                                 .tokenizer = {.files = {FILE_NONE}}, .shapes = lfm2_sounds),
                           CLASS("Lfm2BidirectionalModel",
                                 .metadata =
                                     METADATA(LIST(list_lfm2_embeds), BOOL_IS(".attention.causal", false)))),
                   .metadata = list_lfm2_embeds, .rules = RULES(RULE("dense_2", "dense_2")),
                   .more = lfm2_rules, .renames = lfm2_bare, .needs_no_head = true},
        .graph = {LFM2_GRAPH, .both_ways = true, .ways_by_key = true, .embeds = true, .tied = TIED_MUST,
                  .has_dense = true},
    },
    {
        .name = "lfm2moe",
        .folder = {CLASSES(CLASS("Lfm2MoeForCausalLM")),
                   .metadata = METADATA(LIST(arch_base),
                                        ITEM_NAMES(".attention.head_count_kv", KV_LAYERS_KIND_HEADS,
                                                   "layer_types=full_attention"),
                                        U32(".expert_feed_forward_length", "moe_intermediate_size"),
                                        U32(".leading_dense_block_count", "num_dense_layers"),
                                        U32_IS(".expert_gating_func", 2), U32(".vocab_size", "vocab_size"),
                                        U32(".shortconv.l_cache", "conv_L_cache")),
                   .rules = lfm2_rules, .renames = lfm2_renames, .left_out = lfm2_left_out,
                   .is_tied_by_class = true},
        .graph = {MIXERS(MIXER_ATTENTION, MIXER_SHORTCONV), .ffns = {FFN_EXPERTS, FFN_GATED},
                  .has = {MAY_HAVE(WEIGHT_EXPERT_CHOICE)}, .neox = true, .qk = QK_HEAD, .qkv_bias = OPTIONAL,
                  .routing = ROUTING_FUNCTION_ONE, .final_norm = "token_embd_norm.weight"},
    },
    {
        .name = "plamo2",
        .folder =
            {CLASSES(CLASS("PLaMo2ForCausalLM"), CLASS("Plamo2ForCausalLM")),
             .metadata = METADATA(
                 ITEM(".block_count", KV_BLOCKS), U32(".vocab_size", "vocab_size"),
                 ITEM(NULL, KV_LAYERS_PLAMO2), U32_OR(".context_length", "max_position_embeddings", 2048),
                 U32_OR(".embedding_length", "hidden_size", 4096),
                 U32_OR(".attention.key_length", "hidden_size_per_head", 128),
                 U32_OR(".attention.value_length", "hidden_size_per_head", 128),
                 FLOAT_OR(".attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6),
                 FLOAT_OR(".rope.freq_base", "rope.rope_theta", 10000),
                 U32_OR(".ssm.state_size", "mamba_d_state", 64),
                 U32_OR(".ssm.conv_kernel", "mamba_d_conv", 4),
                 U32_OR(".ssm.time_step_rank", "mamba_num_heads", 64),
                 ITEM_NAMES(".ssm.inner_size", KV_PRODUCT, "mamba_num_heads hidden_size_per_head"),
                 U32_IS(".ssm.group_count", 0), U32_OR(".feed_forward_length", "intermediate_size", 13312)),
             .rules = plamo_rules, .tokenizer = {.files = {FILE_LINES}, .exceptions = TOKENS_NO_TEMPLATE}},
        .graph = {MIXERS(MIXER_ATTENTION, MIXER_PLAMO2), .ffns = {FFN_FUSED},
                  .has = {MUST_HAVE(WEIGHT_ATTN_QKV)}, .score_scale = SCORES_BY_VALUE, .neox = true,
                  .rope_partial = true, .place = PLACE_SANDWICH, .qk = QK_EACH, .free_head = true,
                  .free_value = true},
    },
    {
        .name = "plamo3",
        .folder = {CLASSES(CLASS("PLaMo3ForCausalLM"), CLASS("Plamo3ForCausalLM")),
                   .metadata =
                       METADATA(LIST(arch_base), U32(".vocab_size", "vocab_size"), ITEM(NULL, KV_ROPE_PLAMO3),
                                U32_IF(".attention.sliding_window", "window_size|sliding_window"),
                                U32_IF(".attention.sliding_window_pattern", "sliding_window_pattern")),
                   .rules = plamo_rules, .tokenizer = {.files = {FILE_LINES}}},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_FUSED}, .has = {MUST_HAVE(WEIGHT_ATTN_QKV)},
                  .neox = true, .rope_partial = true, .place = PLACE_SANDWICH, .qk = QK_HEAD,
                  .free_head = true, .free_value = true, .window = WINDOW_OPTIONAL, .period_default = 8,
                  .local_rope = LOCAL_OWN},
    },
    {
        .name = "rwkv6",
        .folder = {CLASSES(CLASS("Rwkv6ForCausalLM")),
                   .metadata =
                       METADATA(LIST(list_rwkv), FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon"),
                                U32(".rescale_every_n_layers", "rescale_every"),
                                U32(".wkv.head_size", "head_size"), ITEM(NULL, KV_OWN_RWKV6),
                                U32_IF(".feed_forward_length", "intermediate_size")),
                   .rules = RULES(
                       RULE("rwkv.embeddings", "token_embd"), RULE("rwkv.blocks.0.pre_ln", "token_embd_norm"),
                       RULE("rwkv.ln_out", "output_norm"), RULE("head", "output"), RWKV6("ln1", "attn_norm"),
                       RWKV6("ln2", "attn_norm_2"), RWKV6_SHIFT("rwkv.blocks.#.attention."),
                       RWKV6("attention.time_maa_w1", "time_mix_w1.weight", OP_TRANSPOSE),
                       RWKV6("attention.time_maa_w2", "time_mix_w2.weight", OP_TRANSPOSE),
                       RWKV6("attention.time_faaaa", "time_mix_first.weight"),
                       RWKV6("attention.receptance", "time_mix_receptance"),
                       RWKV6("attention.key", "time_mix_key"), RWKV6("attention.value", "time_mix_value"),
                       RWKV6("attention.gate", "time_mix_gate"),
                       RWKV6("attention.output", "time_mix_output", OP_SCALE_RWKV6),
                       RWKV6("attention.ln_x", "time_mix_ln"),
                       RWKV6("feed_forward.time_maa_k", "channel_mix_lerp_k.weight", OP_SQUEEZE),
                       RWKV6("feed_forward.time_maa_r", "channel_mix_lerp_r.weight", OP_SQUEEZE),
                       RWKV6("feed_forward.key", "channel_mix_key"),
                       RWKV6("feed_forward.receptance", "channel_mix_receptance"),
                       RWKV6("feed_forward.value", "channel_mix_value", OP_SCALE_RWKV6)),
                   .tokenizer = {.files = {FILE_WORLD}, .chat = "rwkv-world"}},
        .graph = {MIXERS(MIXER_RWKV6), .ffns = {FFN_CHANNEL_MIX},
                  .has = {MUST_HAVE(WEIGHT_TIME_MIX_FIRST), MUST_HAVE(WEIGHT_TIME_MIX_LN),
                          MUST_HAVE(WEIGHT_CHANNEL_MIX_RECEPTANCE)},
                  .own = {OWN_HALVING}, .norm = NORM_LAYER, .norm_bias = REQUIRED, .place = PLACE_TWO,
                  .embedding_norm = EMBEDDING_WEIGHTED, .tied = TIED_NO},
    },
    {
        .name = "rwkv6qwen2",
        .folder = {CLASSES(CLASS("RWKV6Qwen2ForCausalLM")),
                   .metadata = METADATA(
                       LIST(list_rwkv),
                       ITEM_NAMES(".wkv.head_size", KV_QUOTIENT, "hidden_size num_attention_heads"),
                       ITEM(NULL, KV_OWN_RWKV6), U32_IF(".time_mix_extra_dim", "lora_rank_tokenshift"),
                       U32_IF(".time_decay_extra_dim", "lora_rank_decay"),
                       U32(".feed_forward_length", "intermediate_size"),
                       FLOAT(".attention.layer_norm_rms_epsilon", "rms_norm_eps"),
                       U32_IS(".token_shift_count", 1),
                       U32(".attention.head_count_kv", "num_key_value_heads")),
                   .rules =
                       RULES(RWKV6_SHIFT("model.layers.#.self_attn."),
                             P("self_attn.time_maa_w1", "time_mix_w1.weight", OP_TRANSPOSE_SHIFTS),
                             P("self_attn.time_maa_w2", "time_mix_w2.weight", OP_TRANSPOSE_SHIFTS),
                             P("self_attn.q_proj", "time_mix_receptance"),
                             P("self_attn.k_proj", "time_mix_key"), P("self_attn.v_proj", "time_mix_value"),
                             P("self_attn.gate", "time_mix_gate"), P("self_attn.o_proj", "time_mix_output")),
                   .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}}},
        .graph = {MIXERS(MIXER_RWKV6), .ffns = {FFN_GATED}, .qkv_bias = OPTIONAL, .tied = TIED_NO},
    },
    {
        .name = "rwkv7",
        .folder = {CLASSES(CLASS("Rwkv7ForCausalLM"), CLASS("RWKV7ForCausalLM")),
                   .metadata = METADATA(
                       LIST(list_rwkv),
                       FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon|norm_eps"),
                       U32(".wkv.head_size", "head_size|head_dim"),
                       LOW_RANK(".attention.decay_lora_rank", "lora_rank_decay|decay_low_rank_dim", 1.8),
                       LOW_RANK(".attention.iclr_lora_rank", "lora_rank_iclr|a_low_rank_dim", 1.8),
                       LOW_RANK(".attention.value_residual_mix_lora_rank",
                                "lora_rank_value_residual_mix|v_low_rank_dim", 1.3),
                       LOW_RANK(".attention.gate_lora_rank", "lora_rank_gate|gate_low_rank_dim", 0.6),
                       ITEM_VALUE(".feed_forward_length", KV_TIMES, "hidden_size", 4),
                       U32_IF(".feed_forward_length", "intermediate_size")),
                   .rules = rwkv7_rules, .renames = rwkv7_renames,
                   .tokenizer = {.files = {FILE_WORLD}, .chat = "rwkv-world"}},
        .graph = {MIXERS(MIXER_RWKV7), .ffns = {FFN_CHANNEL_MIX},
                  .has = {MUST_HAVE(WEIGHT_TIME_MIX_G1), MUST_HAVE(WEIGHT_TIME_MIX_LN)}, .norm = NORM_LAYER,
                  .norm_bias = REQUIRED, .place = PLACE_TWO, .embedding_norm = EMBEDDING_WEIGHTED,
                  .tied = TIED_NO},
    },
    {
        .name = "arwkv7",
        .folder = {CLASSES(CLASS("RwkvHybridForCausalLM")),
                   .metadata =
                       METADATA(LIST(list_rwkv), FLOAT(".attention.layer_norm_rms_epsilon", "rms_norm_eps"),
                                U32(".wkv.head_size", "head_size"), U32_IS(".attention.decay_lora_rank", 64),
                                U32_IS(".attention.iclr_lora_rank", 64),
                                U32_IS(".attention.value_residual_mix_lora_rank", 32),
                                ITEM(".attention.gate_lora_rank", KV_OWN_ARWKV7),
                                U32(".feed_forward_length", "intermediate_size"),
                                U32_IS(".token_shift_count", 1)),
                   .rules = rwkv7_rules, .renames = rwkv7_renames,
                   .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}}},
        .graph = {MIXERS(MIXER_RWKV7), .ffns = {FFN_GATED},
                  .has = {MAY_HAVE(WEIGHT_TIME_MIX_G1), MAY_HAVE(WEIGHT_TIME_MIX_LN)}, .tied = TIED_NO},
    },
    {.name = NULL},
};
