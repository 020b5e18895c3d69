/* Draft models: small models that propose tokens for a larger one, their target, whose hidden states and vocabulary
 * they use. */
#include "arch/rows.h"

#define DRAFT_KIND "a draft model, which reads another model's hidden states"

/* The vocabulary's matrices, and the tokens that a smaller vocabulary has. */
#define SHAPED_ENDS \
    SHAPED("output.weight", DIMS(DIM_WIDTH, DIM_DRAFT_TOKENS), .with = "d2t"), \
        SHAPED("output.weight", DIMS(DIM_WIDTH, DIM_DRAFT_TOKENS), .when = SHAPE_WARNED), \
        SHAPED("token_embd.weight", DIMS(DIM_WIDTH, DIM_TOKENS), .when = SHAPE_WARNED), \
        SHAPED("d2t", DIMS(DIM_DRAFT_TOKENS), .if_fewer = "draft_vocab_size"), \
        SHAPED("d2t", DIMS(DIM_DRAFT_TOKENS), .when = SHAPE_ALL_OR_NONE)

/* ---- EAGLE-3: one layer, fed with an embedding and with hidden states of three of the target's layers ---- */

static const arch_shape eagle3_shapes[] = {
    SHAPED("fc.weight", DIMS(DIM_TARGET_HIDDEN_STATES, DIM_WIDTH)),
    SHAPED("enc.output_norm.weight", DIMS(DIM_TARGET_HIDDEN_STATES), .if_true = "norm_before_fc"),
    SHAPED("output_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED_ENDS,
    SHAPED("blk.#.attn_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED("blk.#.attn_norm_2.weight", DIMS(DIM_WIDTH)),
    SHAPED("blk.#.attn_q.weight", DIMS(DIM_TWO_WIDTHS, DIM_QUERIES)),
    SHAPED("blk.#.attn_k.weight", DIMS(DIM_TWO_WIDTHS, DIM_KEYS)),
    SHAPED("blk.#.attn_v.weight", DIMS(DIM_TWO_WIDTHS, DIM_KEYS)),
    SHAPED("blk.#.attn_output.weight", DIMS(DIM_QUERIES, DIM_WIDTH)),
    SHAPED_FFN,
    {0},
};

/* ---- DFlash and DSpark: a few layers that fill a block of masked tokens at once ---- */

static const arch_shape dflash_shapes[] = {
    SHAPED("fc.weight", DIMS(DIM_TARGET_HIDDEN_STATES, DIM_WIDTH)),
    SHAPED("enc.output_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED("output_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED_ENDS,
    SHAPED("markov_w1.weight", DIMS(DIM_MARKOV_RANK, DIM_TOKENS), .with = "markov_w2.weight"),
    SHAPED("markov_w2.weight", DIMS(DIM_MARKOV_RANK, DIM_DRAFT_TOKENS), .with = "markov_w1.weight"),
    SHAPED("conf_proj.weight", DIMS(DIM_ANY, DIM_1), .when = SHAPE_WARNED, .with = "markov_w1.weight"),
    SHAPED("conf_proj.bias", DIMS(DIM_1), .when = SHAPE_WARNED, .with = "conf_proj.weight"),
    SHAPED("selector_predecessor.weight", DIMS(DIM_SELECTOR_RANK, DIM_TOKENS),
           .with = "selector_successor.weight"),
    SHAPED("selector_successor.weight", DIMS(DIM_SELECTOR_RANK, DIM_TOKENS),
           .with = "selector_hidden.weight"),
    SHAPED("selector_hidden.weight", DIMS(DIM_WIDTH, DIM_SELECTOR_RANK),
           .with = "selector_predecessor.weight"),
    SHAPED("blk.#.attn_conv_base", DIMS(DIM_WIDTH, DIM_CONV_LENGTH, DIM_2), .with = "selector_hidden.weight"),
    SHAPED("blk.#.attn_conv_proj.weight", DIMS(DIM_WIDTH, DIM_CONV_ROWS), .with = "selector_hidden.weight"),
    SHAPED("blk.#.ffn_conv_base", DIMS(DIM_WIDTH, DIM_CONV_LENGTH, DIM_2), .with = "selector_hidden.weight"),
    SHAPED("blk.#.ffn_conv_proj.weight", DIMS(DIM_WIDTH, DIM_CONV_ROWS), .with = "selector_hidden.weight"),
    SHAPED("blk.#.attn_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED("blk.#.attn_q.weight", DIMS(DIM_WIDTH, DIM_QUERIES)),
    SHAPED("blk.#.attn_k.weight", DIMS(DIM_WIDTH, DIM_KEYS)),
    SHAPED("blk.#.attn_v.weight", DIMS(DIM_WIDTH, DIM_KEYS), .when = SHAPE_ALL_OR_NONE),
    SHAPED("blk.#.attn_output.weight", DIMS(DIM_QUERIES, DIM_WIDTH)),
    SHAPED("blk.#.attn_q_norm.weight", DIMS(DIM_HEAD_WIDTH)),
    SHAPED("blk.#.attn_k_norm.weight", DIMS(DIM_HEAD_WIDTH)),
    SHAPED("blk.#.attn_sinks.weight", DIMS(DIM_HEADS), .when = SHAPE_ALL_OR_NONE),
    SHAPED("blk.#.post_attention_norm.weight", DIMS(DIM_WIDTH), .when = SHAPE_ALL_OR_NONE),
    SHAPED("blk.#.post_ffw_norm.weight", DIMS(DIM_WIDTH), .when = SHAPE_ALL_OR_NONE),
    SHAPED("blk.#.layer_output_scale.weight", DIMS(DIM_1), .when = SHAPE_ALL_OR_NONE),
    SHAPED_FFN,
    {0},
};

/* DSpark's of DeepSeek V4 has layers as its target's, which stand in one folder with it. */
static const arch_shape dspark_deepseek4_shapes[] = {
    SHAPED("fc.weight", DIMS(DIM_TARGET_HIDDEN_STATES, DIM_WIDTH)),
    SHAPED("enc.output_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED("output_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED("output_hc_fn.weight", DIMS(DIM_ALL_STREAMS, DIM_STREAMS)),
    SHAPED("output_hc_base.weight", DIMS(DIM_STREAMS)),
    SHAPED("output_hc_scale.weight", DIMS(DIM_1)),
    SHAPED("markov_w1.weight", DIMS(DIM_ANY, DIM_TOKENS)),
    SHAPED("markov_w2.weight", DIMS(DIM_ANY, DIM_TOKENS)),
    SHAPED("conf_proj.weight", DIMS(DIM_ANY, DIM_1), .when = SHAPE_WARNED),
    SHAPED("blk.#.hc_attn_fn.weight", DIMS(DIM_ALL_STREAMS, DIM_STREAM_MIX)),
    SHAPED("blk.#.hc_attn_base.weight", DIMS(DIM_STREAM_MIX)),
    SHAPED("blk.#.hc_attn_scale.weight", DIMS(DIM_3)),
    SHAPED("blk.#.hc_ffn_fn.weight", DIMS(DIM_ALL_STREAMS, DIM_STREAM_MIX)),
    SHAPED("blk.#.hc_ffn_base.weight", DIMS(DIM_STREAM_MIX)),
    SHAPED("blk.#.hc_ffn_scale.weight", DIMS(DIM_3)),
    SHAPED("blk.#.attn_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED("blk.#.attn_q_a.weight", DIMS(DIM_WIDTH, DIM_QUERY_RANK)),
    SHAPED("blk.#.attn_q_a_norm.weight", DIMS(DIM_QUERY_RANK)),
    SHAPED("blk.#.attn_q_b.weight", DIMS(DIM_QUERY_RANK, DIM_QUERIES)),
    SHAPED("blk.#.attn_kv.weight", DIMS(DIM_WIDTH, DIM_HEAD_WIDTH)),
    SHAPED("blk.#.attn_kv_a_norm.weight", DIMS(DIM_HEAD_WIDTH)),
    SHAPED("blk.#.attn_sinks.weight", DIMS(DIM_HEADS)),
    SHAPED("blk.#.attn_output_a.weight", DIMS(DIM_GROUP_WIDTH, DIM_GROUPS_RANK)),
    SHAPED("blk.#.attn_output_b.weight", DIMS(DIM_GROUPS_RANK, DIM_WIDTH)),
    SHAPED("blk.#.ffn_norm.weight", DIMS(DIM_WIDTH)),
    SHAPED("blk.#.ffn_gate_inp.weight", DIMS(DIM_WIDTH, DIM_EXPERTS)),
    SHAPED("blk.#.exp_probs_b.bias", DIMS(DIM_EXPERTS), .when = SHAPE_ALL_OR_NONE),
    SHAPED("blk.#.ffn_gate_exps.weight", DIMS(DIM_WIDTH, DIM_EXPERT_WIDTH, DIM_EXPERTS)),
    SHAPED("blk.#.ffn_up_exps.weight", DIMS(DIM_WIDTH, DIM_EXPERT_WIDTH, DIM_EXPERTS)),
    SHAPED("blk.#.ffn_down_exps.weight", DIMS(DIM_EXPERT_WIDTH, DIM_WIDTH, DIM_EXPERTS)),
    SHAPED("blk.#.ffn_gate_shexp.weight", DIMS(DIM_WIDTH, DIM_SHARED_EXPERT_WIDTH)),
    SHAPED("blk.#.ffn_up_shexp.weight", DIMS(DIM_WIDTH, DIM_SHARED_EXPERT_WIDTH)),
    SHAPED("blk.#.ffn_down_shexp.weight", DIMS(DIM_SHARED_EXPERT_WIDTH, DIM_WIDTH)),
    {0},
};

#define DFLASH_MASK U32_IF("tokenizer.ggml.mask_token_id", "dflash_config.mask_token_id|mask_token_id")

static const arch_item list_dflash[] = {
    LIST(arch_base),
    ITEM_IF(".rope.dimension_count", KV_SHARE_OF_HEAD, "rope.partial_rotary_factor"),
    FLOAT_IF(".attention.value_scale", "dflash_config.attention_value_scale"),
    U32_OR(".block_size", "dflash_config.block_size|block_size", 16),
    U32_IF(".conv_kernel_size", "dflash_config.conv_kernel_size"),
    U32_IF(".conv_group_size", "dflash_config.conv_group_size"),
    U32_IF(".selector_rank", "dflash_config.selector_rank"),
    U32_IF(".selector_top_k", "dflash_config.selector_top_k"),
    FLOAT_IF(".logit_scale", "dflash_config.output_multiplier|output_multiplier"),
    FLOAT_IF_NOT_ZERO(".final_logit_softcapping",
                      "dflash_config.final_logit_softcapping|final_logit_softcapping"),
    FLOAT_IF(".embedding_scale", "dflash_config.input_embedding_scale|input_embedding_scale"),
    ITEM(".target_layers", KV_DRAFT_LAYERS),
    ITEM(NULL, KV_DRAFT_WINDOW),
    ITEM(".attention.causal", KV_DRAFT_CAUSAL),
    ITEM(".rope.dimension_sections", KV_DRAFT_SECTIONS),
    DFLASH_MASK,
    END,
};

static const arch_item list_dspark[] = {
    LIST(list_dflash),
    ITEM(".sample_from_anchor", KV_DRAFT_ANCHOR),
    EXPECT_IF("markov_head_type=vanilla"),
    END,
};

static const arch_item list_dspark_gemma4[] = {
    LIST(list_dspark),
    EXPECT("attention_k_eq_v=true"),
    EXPECT_IF("hidden_activation=gelu_pytorch_tanh"),
    EXPECT_IF("attention_bias=false"),
    EXPECT_IF("enable_moe_block=false"),
    EXPECT_IF("dflash_config.markov_head_type=vanilla"),
    ITEM(".embedding_scale", KV_DRAFT_GEMMA4),
    U32(".attention.head_count_kv", "num_global_key_value_heads"),
    U32(".attention.key_length", "global_head_dim"),
    U32(".attention.value_length", "global_head_dim"),
    U32(".rope.dimension_count", "global_head_dim"),
    FLOAT_OR(".rope.freq_base", "full.rope_theta", 1000000),
    ITEM(".rope.freq_base_swa", KV_REMOVE),
    FLOAT_IS(".attention.scale", 1),
    ITEM_NAMES(".hidden_activation", KV_TEXT, "gelu_pytorch_tanh"),
    U32("tokenizer.ggml.mask_token_id", "dflash_config.mask_token_id|mask_token_id"),
    END,
};

static const arch_item list_dspark_deepseek4[] = {
    LIST(arch_deepseek4),
    ITEM(".embedding_length_out", KV_REMOVE),
    ITEM(".attention.compress_ratios", KV_DRAFT_RATIOS),
    U32_IS(".hash_layer_count", 0),
    U32(".block_size", "dspark_block_size"),
    ITEM(".target_layers", KV_DRAFT_LAYERS),
    U32("tokenizer.ggml.mask_token_id", "dspark_noise_token_id"),
    END,
};

/* The head is the target's once more, unless the vocabulary is smaller. */
#define DSPARK_RULES RULES(RULE("lm_head", "output", OP_OMIT_TARGETS_HEAD))
#define DSPARK .metadata = list_dspark, .rules = DSPARK_RULES

const architecture arch_rows_drafts[] = {
    {
        .name = "eagle3",
        .kind = DRAFT_KIND,
        .folder = {CLASSES(CLASS("Eagle3DraftModel", .when = WHEN_DRAFT),
                           CLASS("Eagle3LlamaForCausalLM", .when = WHEN_DRAFT),
                           CLASS("Eagle3Speculator", .when = WHEN_DRAFT),
                           CLASS("LlamaForCausalLM", .when = WHEN_DRAFT),
                           CLASS("LlamaForCausalLMEagle3", .when = WHEN_DRAFT)),
                   .metadata =
                       METADATA(LIST(arch_llama), SHARE_WHOLE(".attention.key_length", KV_SHARE_OF_HEAD),
                                SHARE_WHOLE(".attention.value_length", KV_SHARE_OF_HEAD),
                                ITEM(".target_layers", KV_DRAFT_EAGLE),
                                BOOL_OR(".norm_before_residual", "norm_before_residual", false),
                                BOOL_OR(".norm_before_fc", "norm_before_fc", false)),
                   .rules = RULES(RULE("fc", "fc"), RULE("lm_head", "output"),
                                  RULE("input_norm", "enc.output_norm"), P("hidden_norm", "attn_norm_2"),
                                  RULE("d2t", "d2t", OP_TARGET_IDS), RULE("t2d", "", OP_OMIT)),
                   .more = arch_permuted_rules,
                   .renames = RENAMES({"midlayer.", "model.layers.0.", AT_BEGIN}), .finish = FINISH_ROPE,
                   .tokenizer = TOKENIZER_LLAMA, .target = TARGET_FILES, .shapes = eagle3_shapes,
                   .is_silu = true, .needs_no_head = true},
        .graph = {ATTENTION_AND(FFN_GATED), .has = {MUST_HAVE(WEIGHT_ATTN_NORM_2)}, .entry = SUBLAYER_EAGLE,
                  .free_head = true, .tied = TIED_NO, .factors = FACTORS_LONGROPE},
    },
    {
        .name = "dflash",
        .kind = DRAFT_KIND,
        .folder =
            {CLASSES(
                 CLASS("DFlash2DraftModel"), CLASS("DFlashDraftModel"), CLASS("DSparkDraftModel", DSPARK),
                 CLASS("DSparkSpeculator", DSPARK),
                 CLASS("DeepseekV4DSparkModel", .like = "deepseek4", .metadata = list_dspark_deepseek4,
                       .left_out = NAMES("^layers.", "^embed.", "^head.", "^norm.", "^hc_head_", "^vision."),
                       .rules = RULES(
                           RULE("layers.#.main_proj", "fc"), RULE("layers.#.main_norm", "enc.output_norm"),
                           RULE("layers.#.norm", "output_norm"),
                           RULE("layers.#.hc_head_fn", "output_hc_fn.weight"),
                           RULE("layers.#.hc_head_base", "output_hc_base.weight"),
                           RULE("layers.#.hc_head_scale", "output_hc_scale.weight"),
                           RULE("layers.#.markov_head.markov_w1", "markov_w1"),
                           RULE("layers.#.markov_head.markov_w2", "markov_w2"),
                           RULE("layers.#.confidence_head.proj", "conf_proj"),
                           RULE("layers.#.ffn.gate.bias", "blk.#.exp_probs_b.bias", OP_RESHAPE_ROUTER_BIAS),
                           RULE("layers.#.ffn.gate.bias_vl", "", OP_OMIT),
                           RULE("layers.#.ffn.gate.tid2eid", "", OP_OMIT)),
                       .shapes = dspark_deepseek4_shapes, .has_stages = true),
                 CLASS("Gemma4DSparkModel", .metadata = list_dspark_gemma4, .finish = FINISH_DRAFT_GEMMA4,
                       .rules = RULES(P("post_attention_layernorm", "post_attention_norm"),
                                      P("pre_feedforward_layernorm", "ffn_norm"),
                                      P("post_feedforward_layernorm", "post_ffw_norm"))),
                 CLASS("Lfm2DSparkDraftModel", DSPARK), CLASS("LingDSparkModel", DSPARK),
                 CLASS("MuseGlimmerAssistantModel",
                       .metadata = METADATA(LIST(arch_base), U32(".block_size", "block_size"),
                                            ITEM(".target_layers", KV_DRAFT_LAYERS),
                                            ITEM_VALUE(NULL, KV_DRAFT_WINDOW, NULL, 1), DFLASH_MASK)),
                 CLASS("Qwen3DSparkModel", DSPARK)),
             .metadata = list_dflash, .has_layer_configs = true,
             .rules = RULES(
                 RULE("lm_head", "output"), RULE("model.lm_head", "output"),
                 RULE("model.embed_tokens", "token_embd", OP_OMIT_TARGETS_EMBEDDING), RULE("model.fc", "fc"),
                 RULE("model.encoder.fc", "fc"), RULE("model.hidden_norm", "enc.output_norm"),
                 RULE("model.encoder.output_norm_enc", "enc.output_norm"),
                 P("self_attn.q_proj", "attn_q", OP_ROPE_HALVES_DRAFT),
                 P("self_attn.k_proj", "attn_k", OP_ROPE_HALVES_DRAFT),
                 P("self_attn.q_norm", "attn_q_norm", OP_ROPE_HALVES_DRAFT),
                 P("self_attn.k_norm", "attn_k_norm", OP_ROPE_HALVES_DRAFT),
                 P("self_attn.sinks", "attn_sinks"), P("self_attn.attention_sink_bias", "attn_sinks"),
                 P("layer_scalar", "layer_output_scale"), P("attention_conv.base_kernel", "attn_conv_base"),
                 P("attention_conv.kernel_projection", "attn_conv_proj"),
                 P("mlp_conv.base_kernel", "ffn_conv_base"), P("mlp_conv.kernel_projection", "ffn_conv_proj"),
                 RULE("model.candidate_selector.predecessor_codebook", "selector_predecessor"),
                 RULE("model.candidate_selector.successor_codebook", "selector_successor"),
                 RULE("model.candidate_selector.hidden_projection", "selector_hidden"),
                 RULE("model.markov_head.markov_w1", "markov_w1"),
                 RULE("model.markov_head.markov_w2", "markov_w2"),
                 RULE("model.confidence_head.proj", "conf_proj"), RULE("model.confidence_proj", "conf_proj"),
                 RULE("model.d2t", "d2t", OP_TARGET_IDS), RULE("model.t2d", "", OP_OMIT)),
             .renames = RENAMES({"_codebook", "_codebook.weight", AT_END},
                                {"layer_scalar", "layer_scalar.weight", AT_END}),
             .tensor_metadata = TENSOR_METADATA_CONFIDENCE, .follows = "conf_proj.weight",
             .target = TARGET_WHOLE, .shapes = dflash_shapes, .needs_no_head = true, .stays = "hc_"},
        .graph = {MIXERS(MIXER_DFLASH), .ffns = {FFN_DFLASH}, .tail = TAIL_SCALE,
                  .has = {MAY_HAVE(WEIGHT_ATTN_SINKS), MAY_HAVE(WEIGHT_POST_ATTENTION_NORM),
                          MAY_HAVE(WEIGHT_POST_FFW_NORM), MAY_HAVE(WEIGHT_LAYER_OUTPUT_SCALE)},
                  .neox = true, .rope_partial = true, .factors = FACTORS_FREQS, .place = PLACE_SANDWICH,
                  .qk = QK_HEAD, .free_head = true, .shares_v = true, .both_ways = true,
                  .window = WINDOW_OPTIONAL, .pattern_list = true},
    },
    {.name = NULL},
};
