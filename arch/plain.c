/* Single architectures without experts. */
#include "arch/rows.h"

#define NEOX(from, to, ...) RULE("gpt_neox.layers.#." from, "blk.#." to, __VA_ARGS__)
#define MPT(from, to, ...) RULE("transformer.blocks.#." from, "blk.#." to, __VA_ARGS__)

#define GPT2(from, to, ...) RULE("h.#." from, "blk.#." to, __VA_ARGS__)

static const arch_rename transformer_renames[] = {{"transformer.", "", AT_BEGIN}, {0}};

static const arch_rule starcoder_rules[] = {
    RULE("wte", "token_embd"),          RULE("wpe", "position_embd"),
    RULE("ln_f", "output_norm"),        GPT2("ln_1", "attn_norm"),
    GPT2("ln_2", "ffn_norm"),           GPT2("attn.c_attn", "attn_qkv"),
    GPT2("attn.c_proj", "attn_output"), GPT2("mlp.c_fc", "ffn_up"),
    GPT2("mlp.c_proj", "ffn_down"),     {0},
};

static const arch_item list_gpt2[] = {
    LIST(arch_core),
    U32(".context_length", "n_ctx|n_positions"),
    {.key = ".feed_forward_length", .make = PAIR_TIMES, .names = NAMES_WIDTH, .value = 4},
    FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon"),
    END,
};

const architecture arch_rows_plain[] = {
    {
        .name = "gpt2",
        .folder =
            {CLASSES(CLASS("GPT2LMHeadModel")), .pairs = list_gpt2,
             /* Its matrices are stored [in, out]; their biases are vectors, which turning leaves alone. */
             .rules =
                 RULES(GPT2("attn.bias", "", STEP_DROP), GPT2("attn.masked_bias", "", STEP_DROP),
                       GPT2("attn.c_attn", "attn_qkv", STEP_TURNED),
                       GPT2("attn.c_proj", "attn_output", STEP_TURNED),
                       GPT2("mlp.c_fc", "ffn_up", STEP_TURNED), GPT2("mlp.c_proj", "ffn_down", STEP_TURNED)),
             .more = starcoder_rules, .renames = transformer_renames, .is_tied_by_class = true,
             .mlx = MLX_TURNS_QKV},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_PLAIN}, .has = {[WEIGHT_ATTN_QKV] = REQUIRED},
                  .norm = NORM_LAYER, .norm_bias = REQUIRED, .positions = REQUIRED, .qkv_bias = REQUIRED,
                  .output_bias = REQUIRED, .ffn_bias = REQUIRED, .no_rope = ROPE_NEVER, .act = ACT_GELU},
    },
    {
        .name = "starcoder",
        .folder = {CLASSES(CLASS("GPTBigCodeForCausalLM")),
                   .pairs = PAIRS(LIST(list_gpt2), U32(".context_length", "n_positions"),
                                  U32_IS(".attention.head_count_kv", 1)),
                   .rules = starcoder_rules, .renames = transformer_renames, .is_tied_by_class = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_PLAIN}, .has = {[WEIGHT_ATTN_QKV] = REQUIRED},
                  .norm = NORM_LAYER, .norm_bias = REQUIRED, .positions = REQUIRED, .qkv_bias = REQUIRED,
                  .output_bias = REQUIRED, .ffn_bias = REQUIRED, .no_rope = ROPE_NEVER, .act = ACT_GELU},
    },
    {
        .name = "starcoder2",
        .folder = {CLASSES(CLASS("Starcoder2ForCausalLM")), .pairs = arch_base,
                   .rules = RULES(P("mlp.c_fc", "ffn_up"), P("mlp.c_proj", "ffn_down")),
                   .is_tied_by_class = true},
        .graph = {ATTENTION_AND(FFN_PLAIN), .neox = true, .norm = NORM_LAYER, .output_bias = REQUIRED,
                  .ffn_bias = REQUIRED, .norm_bias = REQUIRED, .act = ACT_GELU},
    },
    {
        .name = "bloom",
        .folder = {CLASSES(CLASS("BloomForCausalLM"), CLASS("BloomModel")),
                   .pairs = PAIRS(
                       LIST(arch_core), U32(".context_length", NAMES_WIDTH),
                       U32_IF(".context_length", "seq_length"),
                       {.key = ".feed_forward_length", .make = PAIR_TIMES, .names = NAMES_WIDTH, .value = 4},
                       U32(".attention.head_count", "n_head|num_attention_heads"),
                       U32(".attention.head_count_kv", "n_head|num_attention_heads"),
                       FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon")),
                   .rules = RULES(RULE("word_embeddings", "token_embd"),
                                  RULE("word_embeddings_layernorm", "token_embd_norm"),
                                  RULE("ln_f", "output_norm"), GPT2("input_layernorm", "attn_norm"),
                                  GPT2("post_attention_layernorm", "ffn_norm"),
                                  GPT2("self_attention.query_key_value", "attn_qkv", STEP_QKV_HEADS),
                                  GPT2("self_attention.dense", "attn_output"),
                                  GPT2("mlp.dense_h_to_4h", "ffn_up"), GPT2("mlp.dense_4h_to_h", "ffn_down")),
                   .renames = transformer_renames, .is_tied_by_class = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_PLAIN}, .has = {[WEIGHT_ATTN_QKV] = REQUIRED},
                  .norm = NORM_LAYER, .norm_bias = REQUIRED, .embedding_norm = EMBEDDING_WEIGHTED, .alibi = 8,
                  .qkv_bias = REQUIRED, .output_bias = REQUIRED, .ffn_bias = REQUIRED, .no_rope = ROPE_NEVER,
                  .act = ACT_GELU},
    },
    {
        .name = "mpt",
        .folder = {CLASSES(CLASS("MPTForCausalLM")),
                   .pairs = PAIRS(
                       LIST(arch_core), U32(".context_length", "max_seq_len"),
                       {.key = ".feed_forward_length", .make = PAIR_TIMES, .names = NAMES_WIDTH, .value = 4},
                       U32_IF_NOT_ZERO(".attention.head_count_kv", "attn_config.kv_n_heads"),
                       FLOAT_IS(".attention.layer_norm_epsilon", 1e-5),
                       FLOAT_IF(".attention.clamp_kqv", "attn_config.clip_qkv"),
                       ITEM(".attention.max_alibi_bias", PAIR_OWN_MPT_ALIBI)),
                   .rules =
                       RULES(RULE("transformer.wte", "token_embd"), RULE("transformer.wpe", "position_embd"),
                             RULE("transformer.norm_f", "output_norm"), MPT("norm_1", "attn_norm"),
                             MPT("norm_2", "ffn_norm"), MPT("attn.Wqkv", "attn_qkv"),
                             MPT("attn.out_proj", "attn_output"), MPT("ffn.up_proj", "ffn_up"),
                             MPT("ffn.down_proj", "ffn_down")),
                   .tokenizer = {.files = "bm", .exceptions = TOKENS_MPT}, .is_tied_by_class = true},
        .graph = {ATTENTION_AND(FFN_PLAIN), .has = {[WEIGHT_ATTN_QKV] = REQUIRED}, .norm = NORM_LAYER,
                  .norm_bias = OPTIONAL, .positions = OPTIONAL, .alibi_key = true, .clamp = OPTIONAL,
                  .output_bias = OPTIONAL, .ffn_bias = OPTIONAL, .no_rope = ROPE_NEVER, .act = ACT_GELU},
    },
    {
        .name = "falcon",
        .folder = {CLASSES(CLASS("FalconForCausalLM"), CLASS("RWForCausalLM")),
                   .pairs = PAIRS(
                       LIST(arch_core), U32_IS(".context_length", 2048),
                       ITEM_NAMES(".tensor_data_layout", PAIR_TEXT, "jploski"),
                       {.key = ".feed_forward_length", .make = PAIR_TIMES, .names = NAMES_WIDTH, .value = 4},
                       U32_OR_NOT_ZERO(".attention.head_count_kv", "num_kv_heads|n_head_kv", 1),
                       FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon")),
                   .rules =
                       RULES(RULE("transformer.word_embeddings", "token_embd"),
                             RULE("transformer.ln_f", "output_norm"), FALCON("input_layernorm", "attn_norm"),
                             FALCON("ln_mlp", "attn_norm"), FALCON("ln_attn", "attn_norm_2"),
                             FALCON("self_attention.query_key_value", "attn_qkv", STEP_QKV_GROUPS),
                             FALCON("self_attention.dense", "attn_output"),
                             FALCON("mlp.dense_h_to_4h", "ffn_up"), FALCON("mlp.dense_4h_to_h", "ffn_down")),
                   .is_tied_by_class = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_PLAIN},
                  .has = {[WEIGHT_ATTN_NORM_2] = OPTIONAL, [WEIGHT_ATTN_QKV] = REQUIRED}, .neox = true,
                  .norm = NORM_LAYER, .place = PLACE_PARALLEL, .norm_bias = REQUIRED, .act = ACT_GELU},
        .mix = {.is_falcon = true},
    },
    {
        .name = "gptneox",
        .folder = {CLASSES(CLASS("GPTNeoXForCausalLM")),
                   .pairs = PAIRS(LIST(arch_core), U32(".feed_forward_length", "intermediate_size"),
                                  SHARE(".rope.dimension_count", PAIR_SHARE_OF_EVEN_HEAD,
                                        "rope.partial_rotary_factor|rotary_pct"),
                                  BOOL_OR(".use_parallel_residual", "use_parallel_residual", true),
                                  FLOAT(".attention.layer_norm_epsilon", NAMES_NORM),
                                  ITEM(".rope.freq_base", PAIR_ROPE_GPTNEOX)),
                   .rules = RULES(RULE("gpt_neox.embed_in", "token_embd"), RULE("embed_out", "output"),
                                  RULE("gpt_neox.final_layer_norm", "output_norm"),
                                  NEOX("input_layernorm", "attn_norm"),
                                  NEOX("post_attention_layernorm", "ffn_norm"),
                                  NEOX("attention.query_key_value", "attn_qkv", STEP_QKV_HEADS),
                                  NEOX("attention.dense", "attn_output"), NEOX("mlp.dense_h_to_4h", "ffn_up"),
                                  NEOX("mlp.dense_4h_to_h", "ffn_down"))},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_PLAIN}, .has = {[WEIGHT_ATTN_QKV] = REQUIRED},
                  .own = {OWN_PARALLEL}, .neox = true, .rope_partial = true, .norm = NORM_LAYER,
                  .qkv_bias = REQUIRED, .output_bias = REQUIRED, .ffn_bias = REQUIRED, .norm_bias = REQUIRED,
                  .act = ACT_GELU, .tied = TIED_NO},
    },
    {
        .name = "jais",
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_GATED}, .has = {[WEIGHT_ATTN_QKV] = REQUIRED},
                  .score_scale = SCORES_BY_SQUARE, .norm = NORM_LAYER, .norm_bias = REQUIRED,
                  .alibi_key = true, .qkv_bias = REQUIRED, .output_bias = REQUIRED, .ffn_bias = REQUIRED,
                  .no_rope = ROPE_NEVER, .tied = TIED_NO},
    },
    {
        .name = "jais2",
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_PLAIN}, .neox = true, .norm = NORM_LAYER,
                  .norm_bias = REQUIRED, .qkv_bias = REQUIRED, .output_bias = REQUIRED, .ffn_bias = REQUIRED,
                  .free_head = true, .act = ACT_RELU2},
        .mix = {.big_blocks = 68},
    },
    {
        .name = "codeshell",
        .graph = {ATTENTION_AND(FFN_PLAIN), .neox = true, .norm = NORM_LAYER, .norm_bias = REQUIRED,
                  .output_bias = REQUIRED, .ffn_bias = REQUIRED, .act = ACT_GELU, .tied = TIED_NO},
    },
    {
        .name = "stablelm",
        .folder = {CLASSES(CLASS("StableLMEpochForCausalLM"), CLASS("StableLmForCausalLM")),
                   .pairs = PAIRS(
                       LIST(arch_core), U32(".feed_forward_length", "intermediate_size"),
                       SHARE(".rope.dimension_count", PAIR_SHARE_OF_EVEN_HEAD, "rope.partial_rotary_factor"),
                       ITEM(".attention.head_count_kv", PAIR_KV_HEADS),
                       BOOL_OR(".use_parallel_residual", "use_parallel_residual", true),
                       FLOAT(".attention.layer_norm_epsilon", "layer_norm_eps|norm_eps")),
                   .rules = RULES(P("self_attn.q_layernorm.norms.*", "attn_q_norm", STEP_STACK_HEADS_Q),
                                  P("self_attn.k_layernorm.norms.*", "attn_k_norm", STEP_STACK_HEADS_K))},
        .graph = {ATTENTION_AND(FFN_GATED),
                  .has = {[WEIGHT_FFN_NORM] = OPTIONAL, [WEIGHT_ATTN_Q_NORM] = OPTIONAL}, .neox = true,
                  .rope_partial = true, .norm = NORM_LAYER, .qk = QK_EACH, .norm_bias = REQUIRED,
                  .tied = TIED_NO},
    },
    {
        .name = "openelm",
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_GATED}, .has = {[WEIGHT_ATTN_QKV] = REQUIRED},
                  .neox = true, .qk = QK_HEAD, .free_head = true, .tied = TIED_MUST},
    },
    {
        .name = "orion",
        .graph = {ATTENTION_AND(FFN_GATED), .neox = true, .norm = NORM_LAYER, .norm_bias = REQUIRED,
                  .tied = TIED_NO},
    },
    {
        .name = "talkie",
        .graph = {ATTENTION_AND(FFN_GATED), .tail = TAIL_EMBEDDING, .neox = true, .unweighted = true,
                  .embedding_norm = EMBEDDING_UNWEIGHTED, .qk = QK_SCALED, .qk_after_rope = true,
                  .free_head = true, .logit_scale = REQUIRED, .tied = TIED_NO},
    },
    {
        .name = "muse-glimmer",
        .graph = {ATTENTION_AND(FFN_GATED), .has = {[WEIGHT_ATTN_GATE] = REQUIRED}, .own = {OWN_FINAL_CAP},
                  .final_cap = 30, .rope_partial = true, .place = PLACE_SANDWICH, .eps_after = 1e-8f,
                  .embedding_norm = EMBEDDING_UNWEIGHTED, .qk = QK_HEAD, .free_head = true,
                  .gate = GATE_SIGMOID, .logit_scale = REQUIRED, .window = WINDOW_REQUIRED,
                  .period_default = 4, .local_rope = LOCAL_UNSCALED, .no_rope = ROPE_LOCAL, .tied = TIED_NO},
    },
    {
        .name = "spark2_5",
        .graph = {ATTENTION_AND(FFN_GATED), .has = {[WEIGHT_ATTN_GATE] = REQUIRED}, .neox = true,
                  .rope_partial = true, .free_head = true, .gate = GATE_SIGMOID, .window = WINDOW_REQUIRED,
                  .pattern_list = true, .local_rope = LOCAL_BASE_SWA, .turned_local = true, .act = ACT_GELU},
    },
    {.name = NULL},
};
