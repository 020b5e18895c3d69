/* Encoders: attention to both sides; the pooled hidden states of a text are its embedding. */
#include "arch/rows.h"

/* Common to all of them. */
#define ENCODER .both_ways = true, .embeds = true, .tied = TIED_MUST
#define POOLED_BOTH_WAYS BOOL_IS(".attention.causal", false), ITEM(".pooling_type", KV_OWN_POOLING)

/* Names of models that are saved without a head. */
#define BASE_RENAMES \
    RENAMES({"layers.", "model.layers.", AT_BEGIN}, {"embed_tokens.", "model.embed_tokens.", AT_BEGIN}, \
            {"norm.", "model.norm.", AT_BEGIN})

#define LAYER(from, to, ...) RULE("encoder.layer.#." from, "blk.#." to, __VA_ARGS__)

static const arch_rule bert_rules[] = {
    RULE("embeddings.word_embeddings", "token_embd"),
    RULE("embeddings.position_embeddings", "position_embd"),
    RULE("embeddings.token_type_embeddings", "token_types"),
    RULE("embeddings.LayerNorm", "token_embd_norm"),
    LAYER("attention.self.query", "attn_q"),
    LAYER("attention.self.key", "attn_k"),
    LAYER("attention.self.value", "attn_v"),
    LAYER("attention.output.dense", "attn_output"),
    LAYER("attention.output.LayerNorm", "attn_output_norm"),
    LAYER("intermediate.dense", "ffn_up"),
    LAYER("output.dense", "ffn_down"),
    LAYER("output.LayerNorm", "layer_output_norm"),
    RULE("classifier", "cls.output", OP_RESHAPE_CLASSIFIER),
    RULE("classifier.dense", "cls"),
    RULE("classifier.out_proj", "cls.output", OP_RESHAPE_CLASSES),
    {0},
};

static const arch_rename bert_renames[] = {{"bert.", "", AT_BEGIN},       {"roberta.", "", AT_BEGIN},
                                           {"distilbert.", "", AT_BEGIN}, {".gamma", ".weight", AT_END},
                                           {".beta", ".bias", AT_END},    {0}};

/* Tensors that text embeddings do not use: prediction heads and position numbers. */
static const char *const bert_left_out[] = {"embeddings.position_ids", "pooler.dense", "^cls.predictions",
                                            "^cls.seq_relationship", NULL};

static const arch_item list_bert[] = {LIST(arch_base),
                                      ITEM(".classifier.output_labels", KV_OWN_LABELS),
                                      EXPECT_IF("hidden_act=gelu"),
                                      EXPECT_IF("position_embedding_type=absolute"),
                                      EXPECT_IF("is_decoder=false"),
                                      POOLED_BOTH_WAYS,
                                      END};

/* DistilBERT's names. */
#define DISTIL(from, to) RULE("transformer.layer.#." from, "blk.#." to)
static const arch_rule distil_rules[] = {
    QKV_RULES(DISTIL, "attention.", "_lin", "attn_"),
    DISTIL("attention.out_lin", "attn_output"),
    DISTIL("sa_layer_norm", "attn_output_norm"),
    DISTIL("ffn.lin1", "ffn_up"),
    DISTIL("ffn.lin2", "ffn_down"),
    DISTIL("output_layer_norm", "layer_output_norm"),
    RULE("pre_classifier", "cls"),
    RULE("classifier", "cls.output", OP_RESHAPE_CLASSES),
    {0},
};
static const char *const distil_left_out[] = {"^vocab_", NULL};

static const arch_item list_distil[] = {LIST(arch_base),
                                        ITEM(".classifier.output_labels", KV_OWN_LABELS),
                                        EXPECT_IF("activation=gelu"),
                                        EXPECT_IF("sinusoidal_pos_embds=false"),
                                        FLOAT_IS(".attention.layer_norm_epsilon", 1e-12),
                                        POOLED_BOTH_WAYS,
                                        END};

/* RoBERTa's first positions are none of a text. */
static const arch_item list_roberta[] = {LIST(list_bert), ITEM(".context_length", KV_OWN_ROBERTA_LENGTH),
                                         END};
static const arch_rule roberta_rules[] = {
    RULE("embeddings.position_embeddings", "position_embd", OP_CUT_FIRST_POSITIONS), {0}};
static const char *const roberta_left_out[] = {"^lm_head.", NULL};

static const arch_item list_jina_2[] = {LIST(arch_base),
                                        EXPECT_IF("hidden_act=gelu"),
                                        EXPECT_IF("position_embedding_type=alibi"),
                                        EXPECT_IF("feed_forward_type=geglu"),
                                        EXPECT_IF("is_decoder=false"),
                                        POOLED_BOTH_WAYS,
                                        END};

static const arch_item list_modern[] = {
    LIST(arch_base),
    ITEM(".classifier.output_labels", KV_OWN_LABELS),
    POOLED_BOTH_WAYS,
    U32(".attention.sliding_window", "local_attention"),
    U32_IF(".attention.sliding_window_pattern", "global_attn_every_n_layers"),
    ITEM_NAMES(".rope.scaling.type", KV_TEXT, "none"),
    U32(".vocab_size", "vocab_size"),
    ITEM_NAMES(".hidden_activation", KV_COPY_TEXT, "hidden_activation"),
    END,
};
#define MODERN(from, to) RULE("layers.#." from, "blk.#." to)

/* NeoBERT's feed-forward sublayer has two thirds of the width that its config says. */
static const arch_item list_neo[] = {
    LIST(arch_base),
    ITEM(".classifier.output_labels", KV_OWN_LABELS),
    BOOL_IS(".attention.causal", false),
    ITEM_NAMES(".feed_forward_length", KV_OWN_TWO_THIRDS, "intermediate_size"),
    FLOAT_IS(".rope.freq_base", 10000),
    ITEM_NAMES(".rope.scaling.type", KV_TEXT, "none"),
    FLOAT_OR(".attention.layer_norm_rms_epsilon", "norm_eps", 1e-6),
    U32_IS(".pooling_type", 2),
    END,
};
#define NEO(from, to) RULE("transformer_encoder.#." from, "blk.#." to)

static const arch_item list_nomic[] = {LIST(arch_base),
                                       EXPECT_IF("prenorm=false"),
                                       EXPECT_IF("rotary_emb_interleaved=false"),
                                       EXPECT_IF("use_rms_norm=false"),
                                       EXPECT_IF("activation_function=swiglu"),
                                       POOLED_BOTH_WAYS,
                                       ITEM(".context_length", KV_OWN_NOMIC_LENGTH),
                                       FLOAT_IF(".rope.freq_base", "rotary_emb_base"),
                                       END};

static const arch_item list_t5encoder[] = {
    U32_OR(".context_length", "n_positions", 512),
    U32(".embedding_length", "d_model"),
    U32(".feed_forward_length", "d_ff"),
    ITEM(".block_count", KV_BLOCKS),
    U32(".attention.head_count", "num_heads"),
    U32(".attention.key_length", "d_kv"),
    U32(".attention.value_length", "d_kv"),
    FLOAT(".attention.layer_norm_epsilon", "layer_norm_epsilon"),
    FLOAT(".attention.layer_norm_rms_epsilon", "layer_norm_epsilon"),
    U32(".attention.relative_buckets_count", "relative_attention_num_buckets"),
    END,
};
static const arch_item list_t5[] = {LIST(list_t5encoder),
                                    U32_IF(".decoder_block_count", "num_decoder_layers"),
                                    U32(".decoder_start_token_id", "decoder_start_token_id"), END};

/* The input norm of each sublayer of a block, and the sublayers: `ffn` is the last one. */
#define T5_SUBLAYER(coder, short, n, part, prefix) \
    RULE(coder ".block.#.layer." n ".layer_norm", short ".blk.#." prefix "attn_norm"), \
        RULE(coder ".block.#.layer." n "." part ".q", short ".blk.#." prefix "attn_q"), \
        RULE(coder ".block.#.layer." n "." part ".k", short ".blk.#." prefix "attn_k"), \
        RULE(coder ".block.#.layer." n "." part ".v", short ".blk.#." prefix "attn_v"), \
        RULE(coder ".block.#.layer." n "." part ".o", short ".blk.#." prefix "attn_o"), \
        RULE(coder ".block.#.layer." n "." part ".relative_attention_bias", \
             short ".blk.#." prefix "attn_rel_b")
#define T5_FFN(coder, short, n) \
    RULE(coder ".block.#.layer." n ".layer_norm", short ".blk.#.ffn_norm"), \
        RULE(coder ".block.#.layer." n ".DenseReluDense.wi", short ".blk.#.ffn_up"), \
        RULE(coder ".block.#.layer." n ".DenseReluDense.wi_0", short ".blk.#.ffn_gate"), \
        RULE(coder ".block.#.layer." n ".DenseReluDense.wi_1", short ".blk.#.ffn_up"), \
        RULE(coder ".block.#.layer." n ".DenseReluDense.wo", short ".blk.#.ffn_down")
static const arch_rule t5_rules[] = {
    RULE("shared", "token_embd"),
    RULE("encoder.embed_tokens", "token_embd", OP_OMIT_REPEATED_EMBEDDING),
    RULE("decoder.embed_tokens", "token_embd", OP_OMIT_REPEATED_EMBEDDING),
    RULE("lm_head", "output"),
    RULE("encoder.final_layer_norm", "enc.output_norm"),
    RULE("decoder.final_layer_norm", "dec.output_norm"),
    T5_SUBLAYER("encoder", "enc", "0", "SelfAttention", ""),
    T5_FFN("encoder", "enc", "1"),
    T5_SUBLAYER("decoder", "dec", "0", "SelfAttention", ""),
    T5_SUBLAYER("decoder", "dec", "1", "EncDecAttention", "cross_"),
    T5_FFN("decoder", "dec", "2"),
    {0},
};

/* T5: no rope, but numbers by distance; gates of GELU, or ReLU without gates. */
#define T5 \
    .has = {MAY_HAVE(WEIGHT_ATTN_REL_B)}, .own = {OWN_UNGATED_RELU}, .score_scale = SCORES_ONE, \
    .free_head = true, .no_rope = ROPE_NEVER, .act = ACT_GELU

const architecture arch_rows_encoders[] = {
    {
        .name = "bert",
        .folder =
            {CLASSES(
                 CLASS("BertModel"), CLASS("BertForMaskedLM"),
                 CLASS("BertForSequenceClassification", .finish = FINISH_JUDGE),
                 CLASS("DistilBertModel", .metadata = list_distil, .rules = distil_rules),
                 CLASS("DistilBertForSequenceClassification", .metadata = list_distil, .rules = distil_rules),
                 CLASS("DistilBertForMaskedLM", .metadata = list_distil, .rules = distil_rules,
                       .left_out = distil_left_out),
                 CLASS("RobertaModel", .metadata = list_roberta, .rules = roberta_rules,
                       .left_out = roberta_left_out,
                       .tokenizer = {.files = {FILE_WORDS, FILE_BYTES}, .exceptions = TOKENS_KINDS}),
                 CLASS("RobertaForSequenceClassification", .metadata = list_roberta, .rules = roberta_rules,
                       .tokenizer = {.files = {FILE_WORDS, FILE_BYTES}, .exceptions = TOKENS_KINDS}),
                 CLASS("XLMRobertaModel", .metadata = list_roberta, .rules = roberta_rules,
                       .left_out = roberta_left_out, .tokenizer = {.files = {FILE_UNIGRAM, FILE_SCORES}}),
                 CLASS("CamembertModel", .metadata = list_roberta, .rules = roberta_rules,
                       .left_out = roberta_left_out, .tokenizer = {.files = {FILE_SCORES}}),
                 CLASS("XLMRobertaForSequenceClassification", .metadata = list_roberta,
                       .rules = roberta_rules, .tokenizer = {.files = {FILE_UNIGRAM, FILE_SCORES}})),
             .metadata = list_bert, .finish = FINISH_KINDS, .rules = bert_rules, .renames = bert_renames,
             .left_out = bert_left_out, .tokenizer = {.files = {FILE_WORDS}}, .needs_no_head = true},
        .graph = {ATTENTION_AND(FFN_PLAIN), ENCODER, .norm = NORM_LAYER, .place = PLACE_SUMS,
                  .norm_bias = REQUIRED, .ends_bare = true, .embedding_norm = EMBEDDING_WEIGHTED,
                  .positions = REQUIRED, .kinds = OPTIONAL, .output_bias = OPTIONAL, .ffn_bias = OPTIONAL,
                  .no_rope = ROPE_NEVER, .act = ACT_GELU},
    },
    {
        .name = "nomic-bert",
        .folder = {CLASSES(CLASS("NomicBertModel")), .metadata = list_nomic, .finish = FINISH_KINDS,
                   .rules = RULES(RULE("emb_ln", "token_embd_norm"),
                                  RULE("encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv"),
                                  RULE("encoder.layers.#.attn.out_proj", "blk.#.attn_output"),
                                  RULE("encoder.layers.#.norm1", "blk.#.attn_output_norm"),
                                  RULE("encoder.layers.#.norm2", "blk.#.layer_output_norm"),
                                  RULE("encoder.layers.#.mlp.fc11", "blk.#.ffn_up"),
                                  RULE("encoder.layers.#.mlp.fc12", "blk.#.ffn_gate"),
                                  RULE("encoder.layers.#.mlp.fc2", "blk.#.ffn_down")),
                   .more = bert_rules, .renames = bert_renames, .left_out = bert_left_out,
                   .tokenizer = {.files = {FILE_WORDS}}, .needs_no_head = true},
        .graph = {ATTENTION_AND(FFN_GATED), ENCODER, .norm = NORM_LAYER, .place = PLACE_SUMS,
                  .norm_bias = REQUIRED, .ends_bare = true, .embedding_norm = EMBEDDING_WEIGHTED,
                  .kinds = OPTIONAL, .output_bias = OPTIONAL, .ffn_bias = UNUSED, .neox = true},
    },
    {
        .name = "nomic-bert-moe",
        .graph = {ATTENTION_AND(FFN_EXPERTS, FFN_PLAIN), ENCODER, .norm = NORM_LAYER, .place = PLACE_SUMS,
                  .norm_bias = REQUIRED, .ends_bare = true, .embedding_norm = EMBEDDING_WEIGHTED,
                  .kinds = OPTIONAL, .output_bias = OPTIONAL, .ffn_bias = OPTIONAL, .neox = true,
                  .act = ACT_GELU, .routing = {.function = ROUTER_SOFTMAX, .scale_key = true},
                  .plain_experts = true},
    },
    {
        .name = "jina-bert-v2",
        .folder = {CLASSES(CLASS("JinaBertModel"), CLASS("JinaBertForMaskedLM")), .metadata = list_jina_2,
                   .rules =
                       RULES(LAYER("attention.self.layer_norm_q", "attn_q_norm"),
                             LAYER("attention.self.layer_norm_k", "attn_k_norm"),
                             LAYER("layer_norm_1", "attn_norm_2"), LAYER("layer_norm_2", "layer_output_norm"),
                             LAYER("mlp.gated_layers_v", "ffn_up"), LAYER("mlp.gated_layers_w", "ffn_gate"),
                             LAYER("mlp.gated_layers", "ffn_up"), LAYER("mlp.up_gated_layer", "ffn_up"),
                             LAYER("mlp.wo", "ffn_down"), LAYER("mlp.down_layer", "ffn_down"),
                             LAYER("mlp.layernorm", "layer_output_norm")),
                   .more = bert_rules, .renames = bert_renames, .left_out = bert_left_out,
                   .tokenizer = {.files = {FILE_WORDS, FILE_BYTES}, .exceptions = TOKENS_KINDS},
                   .needs_no_head = true},
        .graph = {ATTENTION_AND(FFN_GATED, FFN_FUSED, FFN_PLAIN), ENCODER,
                  .has = {MAY_HAVE(WEIGHT_ATTN_Q_NORM), MAY_HAVE(WEIGHT_ATTN_NORM_2)}, .norm = NORM_LAYER,
                  .place = PLACE_SUMS, .norm_bias = REQUIRED, .ends_bare = true,
                  .embedding_norm = EMBEDDING_WEIGHTED, .qk = QK_FULL, .qk_bias = OPTIONAL, .alibi = 8,
                  .kinds = REQUIRED, .output_bias = REQUIRED, .ffn_bias = OPTIONAL, .no_rope = ROPE_NEVER,
                  .act = ACT_GELU},
    },
    {
        .name = "jina-bert-v3",
        .folder = {CLASSES(CLASS("XLMRobertaModel", .when = WHEN_KEY, .text = "lora_adaptations")),
                   .metadata = METADATA(LIST(arch_base), EXPECT_IF("hidden_act=gelu"),
                                        EXPECT_IF("position_embedding_type=rotary"), POOLED_BOTH_WAYS,
                                        ITEM(".context_length", KV_OWN_ROBERTA_LENGTH)),
                   .rules = RULES(RULE("emb_ln", "token_embd_norm"),
                                  RULE("encoder.layers.#.mixer.Wqkv", "blk.#.attn_qkv"),
                                  RULE("encoder.layers.#.mixer.out_proj", "blk.#.attn_output"),
                                  RULE("encoder.layers.#.norm1", "blk.#.attn_output_norm"),
                                  RULE("encoder.layers.#.norm2", "blk.#.layer_output_norm"),
                                  RULE("encoder.layers.#.mlp.fc1", "blk.#.ffn_up"),
                                  RULE("encoder.layers.#.mlp.fc2", "blk.#.ffn_down")),
                   .more = bert_rules,
                   .renames = RENAMES({"roberta.", "", AT_BEGIN}, {".parametrizations.", ".", ANYWHERE},
                                      {".original", "", AT_END}),
                   .left_out = NAMES(".lora_A", ".lora_B", "pooler.dense"), .finish = FINISH_TASKS,
                   .tokenizer = {.files = {FILE_UNIGRAM, FILE_SCORES}}, .needs_no_head = true},
        .graph = {ATTENTION_AND(FFN_PLAIN), ENCODER, .norm = NORM_LAYER, .place = PLACE_SUMS,
                  .norm_bias = REQUIRED, .ends_bare = true, .embedding_norm = EMBEDDING_WEIGHTED,
                  .kinds = OPTIONAL, .output_bias = OPTIONAL, .ffn_bias = OPTIONAL, .neox = true,
                  .act = ACT_GELU},
    },
    {
        .name = "modern-bert",
        .folder = {CLASSES(CLASS("ModernBertModel"), CLASS("ModernBertForSequenceClassification"),
                           CLASS("ModernBertForMaskedLM", .left_out = NAMES("^decoder."))),
                   .metadata = list_modern,
                   .rules = RULES(
                       RULE("embeddings.tok_embeddings", "token_embd"),
                       RULE("embeddings.norm", "token_embd_norm"), RULE("final_norm", "output_norm"),
                       MODERN("attn_norm", "attn_norm"), MODERN("attn.Wqkv", "attn_qkv"),
                       MODERN("attn.Wo", "attn_output"), MODERN("mlp_norm", "ffn_norm"),
                       MODERN("mlp.Wi", "ffn_up"), MODERN("mlp.Wo", "ffn_down"), RULE("head.dense", "cls"),
                       RULE("head.norm", "cls.norm"), RULE("classifier", "cls.output", OP_RESHAPE_CLASSES)),
                   .renames = RENAMES({"model.", "", AT_BEGIN}),
                   .tokenizer = {.exceptions = TOKENS_ENDS_ALWAYS}, .needs_no_head = true,
                   .layers_by_number = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_FUSED}, ENCODER, .has = {MUST_HAVE(WEIGHT_ATTN_QKV)},
                  .begins_bare = true, .own = {OWN_HIDDEN_ACTIVATION}, .norm = NORM_LAYER,
                  .embedding_norm = EMBEDDING_WEIGHTED, .neox = true, .window = WINDOW_OPTIONAL,
                  .period_default = 3, .first_global = true, .local_rope = LOCAL_OWN, .act = ACT_GELU,
                  .head = NAMES("cls.weight cls.norm.weight", "cls.output.weight cls.output.bias")},
    },
    {
        .name = "neo-bert",
        .folder = {CLASSES(CLASS("NeoBERT"), CLASS("NeoBERTForSequenceClassification"),
                           CLASS("NeoBERTLMHead", .left_out = NAMES("^decoder."))),
                   .metadata = list_neo,
                   .rules = RULES(RULE("encoder", "token_embd"), RULE("layer_norm", "enc.output_norm"),
                                  NEO("attention_norm", "attn_norm"), NEO("qkv", "attn_qkv"),
                                  NEO("wo", "attn_output"), NEO("ffn_norm", "ffn_norm"),
                                  NEO("ffn.w12", "ffn_up"), NEO("ffn.w3", "ffn_down"), RULE("dense", "cls"),
                                  RULE("classifier", "cls.output", OP_RESHAPE_CLASSES)),
                   .renames = RENAMES({"model.", "", AT_BEGIN}), .tokenizer = {.files = {FILE_WORDS}},
                   .needs_no_head = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_FUSED}, ENCODER,
                  .head = NAMES("cls.weight cls.bias cls.output.weight cls.output.bias"),
                  .has = {MUST_HAVE(WEIGHT_ATTN_QKV)}, .final_norm = "enc.output_norm.weight"},
    },
    {
        .name = "eurobert",
        .folder = {CLASSES(CLASS("EuroBertModel"), CLASS("JinaEmbeddingsV5Model")),
                   .metadata = METADATA(LIST(arch_base), BOOL_IS(".attention.causal", false),
                                        ITEM_NAMES(".rope.scaling.type", KV_TEXT, "none"),
                                        ITEM(".pooling_type", KV_OWN_POOLING)),
                   .renames = BASE_RENAMES, .tokenizer = {.exceptions = TOKENS_BOS_IF_SET},
                   .needs_no_head = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_GATED}, ENCODER, .neox = true},
    },
    {
        .name = "gemma-embedding",
        .folder = {CLASSES(CLASS("Gemma3TextModel")),
                   .metadata = METADATA(LIST(list_gemma3), U32(".attention.sliding_window", "sliding_window"),
                                        ITEM(".pooling_type", KV_OWN_POOLING), ITEM(NULL, KV_OWN_DENSE)),
                   .rules = RULES(RULE("model.embed_tokens", "token_embd", OP_CUT_ROWS),
                                  P("post_attention_layernorm", "post_attention_norm"),
                                  RULE("dense_2", "dense_2"), RULE("dense_3", "dense_3")),
                   .renames = BASE_RENAMES, .adds_one = true,
                   .tokenizer = {.files = {FILE_MODEL, FILE_BYTES}, .exceptions = TOKENS_MODEL_NO_SPACE},
                   .assumed_key = "sliding_window_pattern|_sliding_window_pattern", .assumed = 6,
                   .layers_by_number = true, .is_tied_by_class = true, .needs_no_head = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_GATED}, ENCODER, .place = PLACE_SANDWICH,
                  .qk = QK_HEAD, .free_head = true, .embedding_sqrt = true, .neox = true,
                  .window = WINDOW_REQUIRED, .period_default = 6, .local_rope = LOCAL_OWN, .act = ACT_GELU,
                  .has_dense = true},
    },
    {
        .name = "llama-embed",
        .folder = {CLASSES(CLASS("LlamaBidirectionalModel")), .metadata = arch_llama,
                   .more = arch_permuted_rules, .renames = BASE_RENAMES, .finish = FINISH_ROPE,
                   .tokenizer = TOKENIZER_LLAMA, .is_silu = true, .needs_no_head = true},
        .graph = {ATTENTION_AND(FFN_EXPERTS, FFN_GATED), ENCODER, .free_head = true, .output_bias = OPTIONAL,
                  .ffn_bias = OPTIONAL, .factors = FACTORS_LONGROPE, .routing = ROUTING_SOFT_ONE},
        .mix = {.big_blocks = 80, .big_if_grouped = true},
    },
    {
        .name = "t5encoder",
        .folder = {CLASSES(CLASS("T5EncoderModel")), .metadata = list_t5encoder, .rules = t5_rules,
                   .tokenizer = {.files = {FILE_SPIECE}}, .needs_no_head = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_GATED, FFN_PLAIN}, T5, .both_ways = true,
                  .embeds = true, .coders = CODERS_ENCODER, .final_norm = "enc.output_norm.weight"},
    },
    {
        .name = "t5",
        .folder = {CLASSES(CLASS("T5ForConditionalGeneration"), CLASS("T5WithLMHeadModel"),
                           CLASS("MT5ForConditionalGeneration"), CLASS("UMT5ForConditionalGeneration"),
                           CLASS("UMT5Model")),
                   .metadata = list_t5, .rules = t5_rules, .tokenizer = {.files = {FILE_SPIECE}},
                   .is_tied_by_class = true},
        .graph = {MIXERS(MIXER_ATTENTION), .ffns = {FFN_GATED, FFN_PLAIN}, T5, .coders = CODERS_BOTH,
                  .final_norm = "dec.output_norm.weight"},
    },
    {.name = NULL},
};
