/* Projectors of models with both a vision and an audio encoder. */
#include "arch/projectors.h"

/* ---- Gemma ---- */

#define GEMMA4_LAYER(from, to, ...) \
    VISION_LAYER("model.vision_tower.encoder.layers.#.", from, to, __VA_ARGS__)
#define AUDIO_LAYER(p, from, to, ...) RULE("model.audio_tower." p from, "a.blk.#." to, __VA_ARGS__)
#define GEMMA4_AUDIO(from, to, ...) AUDIO_LAYER("layers.#.", from, to, __VA_ARGS__)
#define GEMMA3N_AUDIO(from, to, ...) AUDIO_LAYER("conformer.#.", from, to, __VA_ARGS__)
/* Common to both; LAYER: one of these two. */
#define CONFORMER_FEEDS(LAYER, part, n) \
    LAYER(part ".pre_layer_norm", "ffn_norm" n), LAYER(part ".post_layer_norm", "ffn_post_norm" n), \
        LAYER(part ".ffw_layer_1", "ffn_up" n), LAYER(part ".ffw_layer_2", "ffn_down" n)
#define CONFORMER_CONV(LAYER) \
    LAYER("lconv1d.pre_layer_norm", "conv_norm"), LAYER("lconv1d.conv_norm", "norm_conv"), \
        LAYER("lconv1d.linear_start", "conv_pw1"), LAYER("lconv1d.linear_end", "conv_pw2")

static const arch_item gemma4_audio[] = {
    BOOL_IS(".has_audio_encoder", 1),
    KIND_OF("audio", "gemma4a"),
    U32(".audio.projection_dim", "text.hidden_size"),
    U32(".audio.embedding_length", "audio.hidden_size"),
    ITEM_VALUE(".audio.feed_forward_length", KV_TIMES, "audio.hidden_size", 4),
    U32(".audio.block_count", "audio.num_hidden_layers"),
    U32(".audio.attention.head_count", "audio.num_attention_heads"),
    U32_OR(".audio.num_mel_bins", "audio.input_feat_size", 128),
    FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-6),
    END,
};

static const arch_rule gemma4_rules[] = {
    RULE("model.vision_tower.patch_embedder.input_proj.weight", "v.patch_embd.weight",
         OP_REORDER_PATCHES_LAST),
    RULE("model.vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight"),
    RULE("model.vision_tower.std_bias", "v.std_bias"),
    RULE("model.vision_tower.std_scale", "v.std_scale"),
    VISION_QKV("model.vision_tower.encoder.layers.#.self_attn.", "q_proj", "k_proj", "v_proj"),
    GEMMA4_LAYER("self_attn.o_proj", "attn_out"),
    GEMMA4_LAYER("self_attn.q_norm", "attn_q_norm"),
    GEMMA4_LAYER("self_attn.k_norm", "attn_k_norm"),
    GEMMA4_LAYER("input_layernorm", "ln1"),
    GEMMA4_LAYER("post_attention_layernorm", "attn_post_norm"),
    GEMMA4_LAYER("pre_feedforward_layernorm", "ln2"),
    GEMMA4_LAYER("post_feedforward_layernorm", "ffn_post_norm"),
    FFN_RULES(GEMMA4_LAYER, "mlp.", "_proj", ""),
    GEMMA4_LAYER("layer_scalar", "out_scale.weight"),
    RULE("model.embed_vision.embedding_projection", "mm.input_projection"),
    /* the audio encoder */
    RULE("model.audio_tower.subsample_conv_projection.layer0.conv", "a.conv1d.0"),
    RULE("model.audio_tower.subsample_conv_projection.layer1.conv", "a.conv1d.1"),
    RULE("model.audio_tower.subsample_conv_projection.layer0.norm", "a.conv1d.0.norm"),
    RULE("model.audio_tower.subsample_conv_projection.layer1.norm", "a.conv1d.1.norm"),
    RULE("model.audio_tower.subsample_conv_projection.input_proj_linear", "a.input_projection"),
    RULE("model.audio_tower.output_proj", "a.pre_encode.out"),
    QKV_RULES(GEMMA4_AUDIO, "self_attn.", "_proj", "attn_"),
    GEMMA4_AUDIO("self_attn.post", "attn_out"),
    GEMMA4_AUDIO("self_attn.relative_k_proj", "attn_k_rel"),
    GEMMA4_AUDIO("self_attn.per_dim_scale", "per_dim_scale.weight", OP_SOFTPLUS),
    GEMMA4_AUDIO("norm_pre_attn", "attn_pre_norm"),
    GEMMA4_AUDIO("norm_post_attn", "attn_post_norm"),
    GEMMA4_AUDIO("norm_out", "ln2"),
    CONFORMER_FEEDS(GEMMA4_AUDIO, "feed_forward1", ""),
    CONFORMER_FEEDS(GEMMA4_AUDIO, "feed_forward2", "_1"),
    GEMMA4_AUDIO("lconv1d.depthwise_conv1d.weight", "conv_dw.weight", OP_SQUEEZE),
    CONFORMER_CONV(GEMMA4_AUDIO),
    RULE("model.embed_audio.embedding_projection", "mm.a.input_projection"),
    {.from = NULL},
};

/* Gemma 4's models without layers of a vision or audio encoder. */
static const arch_rule gemma4_unified_rules[] = {
    RULE("model.vision_embedder.pos_embedding", "v.position_embd.weight", OP_REORDER_ROWS_AXES),
    RULE("model.vision_embedder.pos_norm", "v.patch_norm.3"),
    RULE("model.vision_embedder.patch_dense.weight", "v.patch_embd.weight", OP_REORDER_PATCH_CHANNELS),
    RULE("model.vision_embedder.patch_dense", "v.patch_embd"),
    RULE("model.vision_embedder.patch_ln1", "v.patch_norm.1", OP_REORDER_PATCH_CHANNELS),
    RULE("model.vision_embedder.patch_ln1", "v.patch_norm.1"),
    RULE("model.vision_embedder.patch_ln2", "v.patch_norm.2"),
    RULE("model.embed_vision.embedding_projection", "mm.input_projection"),
    RULE("model.embed_audio.embedding_projection", "mm.a.input_projection"),
    {.from = NULL},
};

/* A block of the convolutions of Gemma 3n's vision encoder: its stage and its number in it. */
#define MOBILE(name) RULE("model.vision_tower.timm_model.blocks.#.*." name, "v.blk.#.*." name)
#define EMBEDS(part, to) \
    RULE("model." part ".embedding", to ".embedding"), \
        RULE("model." part ".hard_embedding_norm", to ".hard_emb_norm"), \
        RULE("model." part ".soft_embedding_norm", to ".soft_emb_norm"), \
        RULE("model." part ".embedding_projection", to ".input_projection")

static const arch_rule gemma3n_rules[] = {
    RULE("model.vision_tower.timm_model.conv_stem.conv.bias", "v.conv_stem.conv.bias", OP_RESHAPE_CHANNELS),
    RULE("model.vision_tower.timm_model.conv_stem.conv", "v.conv_stem.conv"),
    RULE("model.vision_tower.timm_model.conv_stem.bn", "v.conv_stem.bn"),
    RULE("model.vision_tower.timm_model.msfa.ffn.pw_exp.conv", "v.msfa.ffn.pw_exp.conv"),
    RULE("model.vision_tower.timm_model.msfa.ffn.pw_exp.bn", "v.msfa.ffn.pw_exp.bn"),
    RULE("model.vision_tower.timm_model.msfa.ffn.pw_proj.conv", "v.msfa.ffn.pw_proj.conv"),
    RULE("model.vision_tower.timm_model.msfa.ffn.pw_proj.bn", "v.msfa.ffn.pw_proj.bn"),
    RULE("model.vision_tower.timm_model.msfa.norm", "v.msfa.norm"),
    MOBILE("conv_exp"),
    MOBILE("bn1"),
    MOBILE("conv_pwl"),
    MOBILE("bn2"),
    MOBILE("dw_start.conv"),
    MOBILE("dw_start.bn"),
    MOBILE("dw_mid.conv"),
    MOBILE("dw_mid.bn"),
    MOBILE("pw_exp.conv"),
    MOBILE("pw_exp.bn"),
    MOBILE("pw_proj.conv"),
    MOBILE("pw_proj.bn"),
    MOBILE("layer_scale.gamma"),
    MOBILE("attn.query.proj"),
    MOBILE("attn.key.proj"),
    MOBILE("attn.value.proj"),
    MOBILE("attn.output.proj"),
    MOBILE("attn.key.down_conv"),
    MOBILE("attn.key.norm"),
    MOBILE("attn.value.down_conv"),
    MOBILE("attn.value.norm"),
    MOBILE("norm"),
    EMBEDS("embed_vision", "mm"),
    /* the audio encoder */
    RULE("model.audio_tower.subsample_conv_projection.conv_0.conv", "a.conv1d.0"),
    RULE("model.audio_tower.subsample_conv_projection.conv_1.conv", "a.conv1d.1"),
    RULE("model.audio_tower.subsample_conv_projection.conv_#.norm", "a.conv1d.#.norm"),
    RULE("model.audio_tower.subsample_conv_projection.input_proj_linear", "a.pre_encode.out"),
    QKV_RULES(GEMMA3N_AUDIO, "attention.attn.", "_proj", "attn_"),
    GEMMA3N_AUDIO("attention.attn.per_dim_scale", "per_dim_scale"),
    GEMMA3N_AUDIO("attention.attn.relative_position_embedding.pos_proj", "linear_pos"),
    GEMMA3N_AUDIO("attention.pre_attn_norm", "ln1"),
    GEMMA3N_AUDIO("attention.post", "attn_out"),
    GEMMA3N_AUDIO("attention.post_norm", "ln2"),
    GEMMA3N_AUDIO("norm", "layer_pre_norm"),
    CONFORMER_FEEDS(GEMMA3N_AUDIO, "ffw_layer_start", ""),
    GEMMA3N_AUDIO("ffw_layer_start.post_layer_scale", "ffn_scale"),
    CONFORMER_FEEDS(GEMMA3N_AUDIO, "ffw_layer_end", "_1"),
    GEMMA3N_AUDIO("ffw_layer_end.post_layer_scale", "ffn_scale_1"),
    GEMMA3N_AUDIO("lconv1d.depthwise_conv1d", "conv_dw"),
    CONFORMER_CONV(GEMMA3N_AUDIO),
    EMBEDS("embed_audio", "mm.a"),
    {.from = NULL},
};

static const arch_item gemma3n_metadata[] = {
    BOOL_IS(".has_vision_encoder", 1),
    KIND_OF("vision", "gemma3nv"),
    U32(".vision.projection_dim", "text.hidden_size"),
    U32_OR(".vision.image_size", "pre.size.height", 768),
    ITEM(".vision.patch_size", KV_CLIP_GEMMA3N_PATCH),
    U32_OR(".vision.embedding_length", "vision.hidden_size", 2048),
    U32_IS(".vision.feed_forward_length", 8192),
    U32_IS(".vision.block_count", 128),
    U32_OR(".vision.attention.head_count", "vision.num_attention_heads", 8),
    ITEM_NAMES(".vision.image_mean", KV_TRIPLE, "0"),
    ITEM_NAMES(".vision.image_std", KV_TRIPLE, "1"),
    EPS_OR("vision.layer_norm_eps", 1e-6),
    BOOL_IS(".has_audio_encoder", 1),
    KIND_OF("audio", "gemma3na"),
    U32(".audio.projection_dim", "text.hidden_size"),
    U32(".audio.embedding_length", "audio.hidden_size"),
    U32_OR(".audio.feed_forward_length", "audio.intermediate_size", 6144),
    U32(".audio.block_count", "audio.conf_num_hidden_layers"),
    U32(".audio.attention.head_count", "audio.conf_num_attention_heads"),
    U32(".audio.num_mel_bins", "audio.input_feat_size"),
    FLOAT_IS(".audio.attention.layer_norm_epsilon", 1e-5),
    END,
};

/* ---- Qwen ---- */

static const arch_rule qwen2_audio[] = {
    WHISPER("audio_tower."), RULE("audio_tower.proj", "mm.a.fc"), {.from = NULL}};

/* ---- Nemotron ---- */

#define RADIO(from, to, ...) RULE("vision_model.radio_model.model." from, "v." to, __VA_ARGS__)

static const arch_item parakeet_metadata[] = {
    BOOL_IS(".has_audio_encoder", 1),
    ITEM(".projector_type", KV_REMOVE),
    KIND_OF("vision", "nemotron_v2_vl"),
    KIND_OF("audio", "parakeet"),
    LIST(clip_audio),
    U32(".audio.num_mel_bins", "audio.num_mel_bins"),
    U32(".audio.subsampling_factor", "audio.subsampling_factor"),
    U32(".audio.conv_kernel_size", "audio.conv_kernel_size"),
    FLOAT_IS(".audio.attention.layer_norm_epsilon", 1e-5),
    END,
};

static const arch_rule nemotron_rules[] = {
    RADIO("patch_generator.cls_token.token", "class_embd"),
    RADIO("patch_generator.pos_embed", "position_embd.weight", OP_RESAMPLE_POSITIONS),
    RADIO("patch_generator.embedder.weight", "patch_embd.weight", OP_REORDER_PATCHES_FIRST),
    RADIO("blocks.#.attn.qkv", "blk.#.attn_qkv"),
    RADIO("blocks.#.attn.proj", "blk.#.attn_out"),
    RADIO("blocks.#.norm1", "blk.#.ln1"),
    RADIO("blocks.#.norm2", "blk.#.ln2"),
    RADIO("blocks.#.mlp.fc1", "blk.#.ffn_up"),
    RADIO("blocks.#.mlp.fc2", "blk.#.ffn_down"),
    RULE("mlp1.0", "mm.model.mlp.0"),
    RULE("mlp1.1", "mm.model.mlp.1"),
    RULE("mlp1.3", "mm.model.mlp.3"),
    {.from = NULL},
};

#define PARAKEET(from, to, ...) RULE("sound_encoder.encoder.layers.#." from, "a.blk.#." to, __VA_ARGS__)

static const arch_rule parakeet_rules[] = {
    RULE("sound_encoder.encoder.subsampling.layers.#.bias", "a.conv1d.#.bias", OP_RESHAPE_CHANNELS),
    RULE("sound_encoder.encoder.subsampling.layers.#", "a.conv1d.#"),
    RULE("sound_encoder.encoder.subsampling.linear", "a.pre_encode.out"),
    CONFORMER("sound_encoder.encoder.", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
              "self_attn.o_proj", "self_attn.relative_k_proj", "self_attn.bias_u", "self_attn.bias_v"),
    PARAKEET("conv.depthwise_conv.weight", "conv_dw.weight", OP_RESHAPE_DEPTHWISE),
    PARAKEET("conv.norm.running_mean", "conv_norm_mean"),
    PARAKEET("conv.norm.running_var", "conv_norm_var"),
    PARAKEET("conv.norm", "conv_norm"),
    RULE("sound_projection.norm", "mm.a.norm_pre"),
    RULE("sound_projection.linear1", "mm.a.mlp.1"),
    RULE("sound_projection.linear2", "mm.a.mlp.2"),
    {.from = NULL},
};

/* ---- dots ---- */

#define DOTS3_VISION(from, to, ...) VISION_LAYER("vision_encoder.blocks.#.", from, to, __VA_ARGS__)
#define DOTS3_AUDIO "audio_encoder.dots_encoder.speech_encoder."

static const arch_item dots3_metadata[] = {
    EXPECT("vision.adapter_type=patch_merger"),
    EXPECT("vision.pre_pixel_shuffle=true"),
    EXPECT("vision.router_scoring_func=sigmoid"),
    EXPECT("vision.router_scale=1"),
    EXPECT("vision.temporal_patch_size=1"),
    EXPECT("vision.use_bias=false"),
    EXPECT("vision.use_qk_norm=true"),
    EXPECT("audio.use_conv2d_stem=true"),
    EXPECT("audio.use_rope=true"),
    EXPECT("audio.use_rms_norm=true"),
    EXPECT("audio.use_causal=false"),
    EXPECT("audio.whisper_config.activation_function=swiglu"),
    EXPECT("audio.merge_factor=1"),
    EXPECT("audio.chunk_seconds=60"),
    EXPECT("audio.rope_parameters.partial_rotary_factor=0.5"),
    EXPECT("audio.rope_parameters.rope_theta=10000"),
    BOOL_IS(".has_vision_encoder", 1),
    KIND_OF("vision", "dots3note_v"),
    U32(".vision.projection_dim", "text.hidden_size"),
    U32_IS(".vision.image_size", 0),
    U32(".vision.patch_size", "vision.patch_size"),
    U32(".vision.embedding_length", "vision.embed_dim"),
    U32(".vision.feed_forward_length", "vision.intermediate_size"),
    U32(".vision.block_count", "vision.num_hidden_layers"),
    U32(".vision.attention.head_count", "vision.num_attention_heads"),
    ITEM_NAMES(".vision.image_mean", KV_FLOATS, "pre.vision_config.image_mean|pre.image_mean"),
    ITEM_NAMES(".vision.image_std", KV_FLOATS, "pre.vision_config.image_std|pre.image_std"),
    BOOL_IS(".use_silu", 1),
    EPS("vision.rms_norm_eps"),
    U32(".vision.spatial_merge_size", "vision.spatial_merge_size"),
    U32(".vision.image_min_pixels", "pre.vision_config.min_pixels|pre.min_pixels"),
    U32(".vision.image_max_pixels", "pre.vision_config.max_pixels|pre.max_pixels"),
    ITEM_VALUE(".vision.expert_count_per_layer", KV_INTEGERS, "vision.pyramid_num_routed", 1),
    ITEM_NAMES(".vision.expert_used_count", KV_FLOOR, "vision.capacity_factor"),
    BOOL_IS(".has_audio_encoder", 1),
    KIND_OF("audio", "dots3note_a"),
    U32(".audio.projection_dim", "text.hidden_size"),
    U32(".audio.embedding_length", "audio.whisper_config.d_model"),
    U32(".audio.feed_forward_length", "audio.whisper_config.encoder_ffn_dim"),
    U32(".audio.block_count", "audio.whisper_config.encoder_layers"),
    U32(".audio.attention.head_count", "audio.whisper_config.encoder_attention_heads"),
    U32(".audio.num_mel_bins", "audio.whisper_config.num_mel_bins"),
    FLOAT_IS(".audio.attention.layer_norm_epsilon", 1e-6),
    END,
};

static const arch_rule dots3_rules[] = {
    RULE("vision_encoder.patch_embed.proj", "v.patch_embd"),
    RULE("vision_encoder.patch_embed.norm", "v.pre_ln"),
    DOTS3_VISION("attn.qkv", "attn_qkv"),
    DOTS3_VISION("attn.proj", "attn_out"),
    DOTS3_VISION("attn.q_norm", "attn_q_norm"),
    DOTS3_VISION("attn.k_norm", "attn_k_norm"),
    DOTS3_VISION("norm_1", "ln1"),
    DOTS3_VISION("norm_2", "ln2"),
    DOTS3_VISION("mlp.fc1", "ffn_gate"),
    DOTS3_VISION("mlp.fc2", "ffn_down"),
    DOTS3_VISION("mlp.fc3", "ffn_up"),
    DOTS3_VISION("mlp.gate_weight", "ffn_gate_inp.weight"),
    DOTS3_VISION("mlp.router_bias", "exp_probs_b.weight"),
    DOTS3_VISION("mlp.experts.*.fc1", "ffn_gate_exps", OP_JOIN_EXPERTS_BY_LAYER),
    DOTS3_VISION("mlp.experts.*.fc2", "ffn_down_exps", OP_JOIN_EXPERTS_BY_LAYER),
    DOTS3_VISION("mlp.experts.*.fc3", "ffn_up_exps", OP_JOIN_EXPERTS_BY_LAYER),
    RULE("vision_encoder.post_trunk_norm", "mm.post_norm"),
    RULE("vision_encoder.adapter.ln_q", "mm.input_norm"),
    RULE("vision_encoder.adapter.mlp.#", "mm.#"),
    RULE(DOTS3_AUDIO "conv2d1", "a.conv2d.1"),
    RULE(DOTS3_AUDIO "conv2d2", "a.conv2d.2"),
    RULE(DOTS3_AUDIO "conv2d3", "a.conv2d.3"),
    RULE(DOTS3_AUDIO "conv_out", "a.conv_out"),
    RULE(DOTS3_AUDIO "layer_norm", "a.post_ln"),
    WHISPER_LAYERS(DOTS3_AUDIO),
    CONFORMER_LAYER(DOTS3_AUDIO, "fc1", "ffn_gate|a.blk.#.ffn_up", OP_SPLIT_HALVES),
    RULE("audio_encoder.audio_adapter.proj.0", "mm.a.norm_pre"),
    RULE("audio_encoder.audio_adapter.proj.#", "mm.a.mlp.#"),
    {.from = NULL},
};

/* ---- MiMo ---- */

#define MIMO_LOCAL(from, to) \
    RULE("audio_encoder.input_local_transformer.layers.#." from, "mm.a.local_blk.#." to)

static const arch_item mimo_metadata[] = {
    LIST(clip_vision),
    KIND_OF("vision", "mimovl"),
    BOOL_IS(".use_silu", 1),
    U32(".vision.attention.head_count_kv", "vision.num_key_value_heads"),
    U32(".vision.spatial_merge_size", "vision.spatial_merge_size"),
    U32(".vision.window_size", "vision.visual_token_window_size"),
    ITEM_IF(".vision.wa_pattern_mode", KV_INTEGERS, "vision.vit_window_attn_types"),
    EPS_OR("vision.rms_norm_eps", 1e-6),
    U32(".vision.image_min_pixels", "pre.min_pixels"),
    U32(".vision.image_max_pixels", "pre.max_pixels"),
    LIST(clip_audio),
    KIND_OF("audio", "mimo_audio"),
    U32(".audio.num_mel_bins", "audio.n_mels"),
    FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-5),
    ITEM_NAMES(".audio.rvq.num_quantizers", KV_COUNT, "audio.rvq_sizes"),
    ITEM_NAMES(".audio.rvq.codebook_size", KV_INTEGERS, "audio.rvq_sizes"),
    ITEM(".audio.wa_pattern_mode", KV_CLIP_MIMO_WINDOWS),
    ITEM_NAMES(".audio.window_size", KV_FIRST, "audio.encoder_attn_window_size"),
    U32(".audio.local_block_count", "root.audio_config.input_local_layers"),
    U32(".audio.local_group_size", "root.audio_config.group_size"),
    END,
};

static const arch_rule mimo_rules[] = {
    VISION_LAYER("visual.blocks.#.", "attn.qkv", "attn_qkv"),
    VISION_LAYER("visual.blocks.#.", "attn.sinks", "attn_sinks"),
    RULE("visual.merger.ln_q.bias", "v.post_ln.bias"),
    RULE("speech_embeddings.*", "mm.a.code_embd", OP_JOIN_EXPERTS),
    QKV_RULES(MIMO_LOCAL, "self_attn.", "_proj", "attn_"),
    MIMO_LOCAL("self_attn.o_proj", "attn_out"),
    MIMO_LOCAL("input_layernorm", "ln1"),
    MIMO_LOCAL("post_attention_layernorm", "ln2"),
    FFN_RULES(MIMO_LOCAL, "mlp.", "_proj", ""),
    RULE("audio_encoder.input_local_transformer.norm", "mm.a.local_norm"),
    RULE("audio_encoder.projection.mlp.0", "mm.a.mlp.1"),
    RULE("audio_encoder.projection.mlp.2", "mm.a.mlp.2"),
    WHISPER("audio_tokenizer.encoder."),
    RULE("audio_tokenizer.encoder.down_sample_layer.0", "a.downsample.conv"),
    RULE("audio_tokenizer.encoder.down_sample_norm", "a.downsample.norm"),
    RULE("audio_tokenizer.encoder.quantizer.vq.layers.#._codebook.embed", "a.rvq.codebook.weight",
         OP_JOIN_CODEBOOKS),
    {.from = NULL},
};

/* Positions of rows and of columns. */
#define GEMMA4_SHAPES(...) \
    SHAPES({"v.position_embd", "D V 2"}, {"a.conv1d.0", "3 3 1 4u"}, {"a.conv1d.1", "3 3 4u w"}, \
           {"a.conv1d.0.norm", "4u"}, {"a.conv1d.1.norm", "w"}, {"a.pre_encode.out", "d v +"}, \
           {"mm.a.input_projection", "v t"}, __VA_ARGS__), \
        .letters = LETTERS({"vision.position_embedding_size|vision.mm_posemb_size", 'V', 1}, \
                           {"audio.output_proj_dims|audio.audio_embed_dim", 'v', 1})

const arch_projector arch_projectors_both[] = {
    {.classes = NAMES("Gemma4ForConditionalGeneration"),
     .shapes = GEMMA4_SHAPES({"a.input_projection", "uw d"}),
     .vision = "vision_config",
     .audio = "audio_config",
     .may_lack_audio = true,
     .takes =
         NAMES("^model.vision_tower.", "^model.embed_vision.", "^model.audio_tower.", "^model.embed_audio."),
     .is_f32 = NAMES("a.conv1d.", "^a.input_projection.weight", ".conv_dw.", ".norm_conv."),
     .may_lack = NAMES("v.std_", "out_scale", "attn_k_rel"),
     .folder = {.metadata = METADATA(LIST(clip_vision_sized), U32_IS(".vision.image_size", 224),
                                     KIND_OF("vision", "gemma4v"), EPS_OR("vision.layer_norm_eps", 1e-6),
                                     {.make = KV_LIST_IF, .names = "audio", .list = gemma4_audio}),
                .rules = gemma4_rules,
                .renames = RENAMES({".linear.", ".", ANYWHERE})}},
    {.classes = NAMES("Gemma4UnifiedForConditionalGeneration"),
     .shapes = GEMMA4_SHAPES({"v.patch_embd", "? D +"}),
     .vision = "vision_config",
     .audio = "audio_config",
     .takes = NAMES("^model.vision_embedder.", "^model.embed_vision.", "^model.embed_audio."),
     .counted = "",
     .folder = {.metadata = METADATA(
                    BOOL_IS(".has_vision_encoder", 1), KIND_OF("vision", "gemma4uv"),
                    U32(".vision.projection_dim", "text.hidden_size"), U32_IS(".vision.image_size", 224),
                    U32(".vision.patch_size", "vision.patch_size"),
                    U32(".vision.embedding_length", "vision.mm_embed_dim"),
                    U32_IS(".vision.feed_forward_length", 0), U32_IS(".vision.block_count", 0),
                    U32_IS(".vision.attention.head_count", 0), IMAGE_MEANS,
                    EPS_OR("vision.layer_norm_eps", 1e-6), BOOL_IS(".has_audio_encoder", 1),
                    KIND_OF("audio", "gemma4ua"), U32(".audio.projection_dim", "text.hidden_size"),
                    U32(".audio.embedding_length", "audio.audio_embed_dim"),
                    U32_IS(".audio.feed_forward_length", 0), U32_IS(".audio.block_count", 0),
                    U32_IS(".audio.attention.head_count", 0),
                    U32_OR(".audio.num_mel_bins", "audio.input_feat_size", 128),
                    FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-6)),
                .rules = gemma4_unified_rules}},
    {.classes = NAMES("Gemma3nForConditionalGeneration"),
     .shapes = SHAPES({"a.conv1d.0", "3 3 1 u"}, {"a.conv1d.1", "3 3 u w"}, {"a.pre_encode.out", "Bw d"},
                      {"mm.embedding", "D V"}, {"mm.a.embedding", "d O"}, {"mm.a.input_projection", "d t"}),
     .letters = LETTERS({"audio.input_feat_size", 'B', 4}, {"vision.vocab_size", 'V', 1},
                        {"audio.vocab_size", 'O', 1}),
     .vision = "vision_config",
     .audio = "audio_config",
     .takes =
         NAMES("^model.vision_tower.", "^model.embed_vision.", "^model.audio_tower.", "^model.embed_audio."),
     .is_f32 = NAMES("v.conv_stem.", "a.conv1d.", ".conv_dw."),
     .is_f16 = NAMES("a.pre_encode.out."),
     .counted = "a.blk.",
     .may_lack = NAMES("a.conv1d.#.norm", "ffn_scale"),
     .folder = {.metadata = gemma3n_metadata, .rules = gemma3n_rules}},
    {.classes = NAMES("Qwen2_5OmniModel"),
     .vision = "thinker_config.vision_config",
     .vision_missing = QWEN25_MISSING,
     .audio = "thinker_config.audio_config",
     .takes = NAMES("^thinker.visual.", "^thinker.audio_tower.", "^visual.", "^audio_tower."),
     .is_f16 = NAMES("a.conv1d.1.weight", "a.conv1d.2.weight"),
     .may_lack = NAMES("a.position_embd"),
     .folder = {.metadata =
                    METADATA(LIST(qwen25_metadata), LIST(clip_audio), KIND("qwen2.5o"),
                             U32(".audio.num_mel_bins", "audio.num_mel_bins"),
                             FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-5)),
                .rules = qwen2_rules,
                .more = qwen2_audio,
                .left_out = NAMES("audio_bos_eos_token"),
                .renames = RENAMES({"thinker.", "", AT_BEGIN}),
                .finish = FINISH_SINUSOIDS}},
    {.classes = NAMES("Qwen3OmniMoeForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS),
     .letters = QWEN3_AUDIO_LETTERS,
     .vision = "thinker_config.vision_config",
     .vision_missing = QWEN3_MISSING,
     .audio = "thinker_config.audio_config",
     .takes = NAMES("^thinker.visual.", "^thinker.audio_tower.", "^visual.", "^audio_tower."),
     .is_f16 = NAMES(QWEN3_AUDIO_F16),
     .may_lack = NAMES("v.deepstack.", "a.conv1d."),
     .folder = {.metadata =
                    METADATA(LIST(qwen3_metadata), LIST(clip_audio), KIND_OF("vision", "qwen3vl_merger"),
                             KIND_OF("audio", "qwen3a"), U32(".audio.num_mel_bins", "audio.num_mel_bins"),
                             FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-5)),
                .rules = RULES(QWEN3_AUDIO),
                .more = qwen3_rules,
                .left_out = NAMES("audio_bos_eos_token"),
                .renames = RENAMES({"thinker.", "", AT_BEGIN},
                                   {"visual.merger_list.", "visual.deepstack_merger_list.", AT_BEGIN},
                                   {".ln_q.", ".norm.", ANYWHERE}, {".mlp.0.", ".linear_fc1.", ANYWHERE},
                                   {".mlp.2.", ".linear_fc2.", ANYWHERE}),
                .finish = FINISH_SINUSOIDS}},
    {.classes = NAMES("NemotronH_Nano_VL_V2", "RADIOModel"),
     .shapes = SHAPES(PARAKEET_STRIDES, {"v.class_embd", "D ?"}, {"a.pre_encode.out", "Bu d +"},
                      {"mm.a.norm_pre", "d"}),
     .letters = LETTERS({"audio.num_mel_bins", 'B', 8}),
     .vision = "vision_config",
     .audio = "sound_config",
     .may_lack_audio = true,
     .pre_missing = "{\"image_mean\": [0.485, 0.456, 0.406], \"image_std\": [0.229, 0.224, 0.225]}",
     .takes = NAMES("^vision_model.radio_model.model.", "^mlp1.", "^sound_encoder.", "^sound_projection."),
     .is_f32 = NAMES("^a.conv1d.", ".conv_dw.", ".conv_pw1.", ".conv_pw2."),
     .folder = {.metadata = METADATA(
                    BOOL_IS(".has_vision_encoder", 1), U32(".vision.projection_dim", "text.hidden_size"),
                    U32_OR(".vision.image_size", "root.force_image_size", 512),
                    U32(".vision.patch_size", "vision.patch_size"), U32_IS(".vision.embedding_length", 1280),
                    U32_IS(".vision.feed_forward_length", 5120), U32_IS(".vision.block_count", 32),
                    U32_IS(".vision.attention.head_count", 16), IMAGE_MEANS, KIND("nemotron_v2_vl"),
                    EPS_IS(1e-6), GELU,
                    ITEM_OR(".vision.projector.scale_factor", KV_INVERSE, "root.downsample_ratio", 0.5),
                    {.make = KV_LIST_IF, .names = "audio", .list = parakeet_metadata}),
                .rules = nemotron_rules,
                .more = parakeet_rules,
                .left_out = NAMES("input_conditioner", "video_embedder", "num_batches_tracked")}},
    {.classes = NAMES("Dots3NoteForCausalLM", "Dots3NoteForConditionalGeneration"),
     .shapes = SHAPES({"mm.post_norm", "D"}, {"mm.a.mlp.3", "x t"}),
     .letters = LETTERS({"audio.whisper_config.num_mel_bins", 'B', 8}),
     .vision = "vision_config",
     .vision_missing = "{\"router_scoring_func\": \"sigmoid\", \"router_scale\": 1.0, "
                       "\"temporal_patch_size\": 1, \"use_bias\": false}",
     .audio = "audio_config",
     .audio_missing = "{\"merge_factor\": 1, \"use_causal\": false}",
     .takes = NAMES("^vision_encoder.", "^audio_encoder."),
     .is_f32 = NAMES("ffn_gate_inp.", "exp_probs_b.", "a.conv2d.", "a.conv_out."),
     .may_lack = NAMES("ffn_gate", "ffn_up", "ffn_down", "exp_probs_b"),
     .in_some = NAMES("^v.blk.*.ffn_", "^v.blk.*.exp_probs_b"),
     .grow = NAMES("_exps.", ".ffn_gate_inp.", ".exp_probs_b."),
     .folder = {.metadata = dots3_metadata, .rules = dots3_rules}},
    {.classes = NAMES("MiMoV2ForCausalLM"),
     .shapes = SHAPES({"mm.a.mlp.1", "Gl x"}, {"mm.a.code_embd", "l ? ?"}),
     .letters = LETTERS({"root.audio_config.group_size", 'G', 1}),
     .vision = "vision_config",
     .vision_missing = "{\"image_size\": 560, \"depth\": 28, \"num_key_value_heads\": 8}",
     .beside = "audio_tokenizer",
     .takes = NAMES("^visual.", "^speech_embeddings.", "^audio_encoder.", "^audio_tokenizer.encoder."),
     .is_f32 = NAMES("a.conv1d.", "a.downsample.conv.", "a.rvq.codebook.", "mm.a.code_embd."),
     .may_lack = NAMES("attn_q", "attn_sinks", "a.position_embd"),
     .in_some = NAMES("^v.blk.*.attn_sinks"), /* blocks that see a window */
     .folder = {.metadata = mimo_metadata,
                .rules = mimo_rules,
                .more = qwen2_rules,
                .left_out = NAMES("_codebook.cluster_size", "_codebook.embed_avg", "_codebook.inited")}},
    {.classes = NULL},
};
