/* Projectors of models that see and hear. */
#include "arch/projectors.h"

/* ---- Gemma ---- */

#define GEMMA4_LAYER(from, to, ...) SEES_LAYER("model.vision_tower.encoder.layers.#.", from, to, __VA_ARGS__)
#define HEARS_LAYER(p, from, to, ...) RULE("model.audio_tower." p from, "a.blk.#." to, __VA_ARGS__)
#define GEMMA4_HEARS(from, to, ...) HEARS_LAYER("layers.#.", from, to, __VA_ARGS__)
#define GEMMA4_FEEDS(part, n) \
    GEMMA4_HEARS(part ".pre_layer_norm", "ffn_norm" n), \
        GEMMA4_HEARS(part ".post_layer_norm", "ffn_post_norm" n), \
        GEMMA4_HEARS(part ".ffw_layer_1", "ffn_up" n), GEMMA4_HEARS(part ".ffw_layer_2", "ffn_down" n)
#define GEMMA3N_HEARS(from, to, ...) HEARS_LAYER("conformer.#.", from, to, __VA_ARGS__)
#define GEMMA3N_FEEDS(part, n) \
    GEMMA3N_HEARS(part ".pre_layer_norm", "ffn_norm" n), \
        GEMMA3N_HEARS(part ".post_layer_norm", "ffn_post_norm" n), \
        GEMMA3N_HEARS(part ".post_layer_scale", "ffn_scale" n), \
        GEMMA3N_HEARS(part ".ffw_layer_1", "ffn_up" n), GEMMA3N_HEARS(part ".ffw_layer_2", "ffn_down" n)
#define CONFORMER_CONV(LAYER) \
    LAYER("lconv1d.pre_layer_norm", "conv_norm"), LAYER("lconv1d.conv_norm", "norm_conv"), \
        LAYER("lconv1d.linear_start", "conv_pw1"), LAYER("lconv1d.linear_end", "conv_pw2")

static const arch_item gemma4_hears[] = {
    BOOL_IS(".has_audio_encoder", 1),
    KIND_OF("audio", "gemma4a"),
    U32(".audio.projection_dim", "text.hidden_size"),
    U32(".audio.embedding_length", "audio.hidden_size"),
    {.key = ".audio.feed_forward_length", .make = PAIR_TIMES, .names = "audio.hidden_size", .value = 4},
    U32(".audio.block_count", "audio.num_hidden_layers"),
    U32(".audio.attention.head_count", "audio.num_attention_heads"),
    U32_OR(".audio.num_mel_bins", "audio.input_feat_size", 128),
    FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-6),
    END,
};

static const arch_rule gemma4_rules[] = {
    RULE("model.vision_tower.patch_embedder.input_proj.weight", "v.patch_embd.weight", STEP_PATCHES_LAST),
    RULE("model.vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight"),
    RULE("model.vision_tower.std_bias", "v.std_bias"),
    RULE("model.vision_tower.std_scale", "v.std_scale"),
    SEES_QKV("model.vision_tower.encoder.layers.#.self_attn.", "q_proj", "k_proj", "v_proj"),
    GEMMA4_LAYER("self_attn.o_proj", "attn_out"),
    GEMMA4_LAYER("self_attn.q_norm", "attn_q_norm"),
    GEMMA4_LAYER("self_attn.k_norm", "attn_k_norm"),
    GEMMA4_LAYER("input_layernorm", "ln1"),
    GEMMA4_LAYER("post_attention_layernorm", "attn_post_norm"),
    GEMMA4_LAYER("pre_feedforward_layernorm", "ln2"),
    GEMMA4_LAYER("post_feedforward_layernorm", "ffn_post_norm"),
    GEMMA4_LAYER("mlp.gate_proj", "ffn_gate"),
    GEMMA4_LAYER("mlp.up_proj", "ffn_up"),
    GEMMA4_LAYER("mlp.down_proj", "ffn_down"),
    GEMMA4_LAYER("layer_scalar", "out_scale.weight"),
    RULE("model.embed_vision.embedding_projection", "mm.input_projection"),
    /* what hears */
    RULE("model.audio_tower.subsample_conv_projection.layer0.conv", "a.conv1d.0"),
    RULE("model.audio_tower.subsample_conv_projection.layer1.conv", "a.conv1d.1"),
    RULE("model.audio_tower.subsample_conv_projection.layer0.norm", "a.conv1d.0.norm"),
    RULE("model.audio_tower.subsample_conv_projection.layer1.norm", "a.conv1d.1.norm"),
    RULE("model.audio_tower.subsample_conv_projection.input_proj_linear", "a.input_projection"),
    RULE("model.audio_tower.output_proj", "a.pre_encode.out"),
    GEMMA4_HEARS("self_attn.q_proj", "attn_q"),
    GEMMA4_HEARS("self_attn.k_proj", "attn_k"),
    GEMMA4_HEARS("self_attn.v_proj", "attn_v"),
    GEMMA4_HEARS("self_attn.post", "attn_out"),
    GEMMA4_HEARS("self_attn.relative_k_proj", "attn_k_rel"),
    GEMMA4_HEARS("self_attn.per_dim_scale", "per_dim_scale.weight", STEP_SOFTPLUS),
    GEMMA4_HEARS("norm_pre_attn", "attn_pre_norm"),
    GEMMA4_HEARS("norm_post_attn", "attn_post_norm"),
    GEMMA4_HEARS("norm_out", "ln2"),
    GEMMA4_FEEDS("feed_forward1", ""),
    GEMMA4_FEEDS("feed_forward2", "_1"),
    GEMMA4_HEARS("lconv1d.depthwise_conv1d.weight", "conv_dw.weight", STEP_SQUEEZE),
    CONFORMER_CONV(GEMMA4_HEARS),
    RULE("model.embed_audio.embedding_projection", "mm.a.input_projection"),
    {.from = NULL},
};

/* Gemma 4's models without layers that see or hear. */
static const arch_rule gemma4_unified_rules[] = {
    RULE("model.vision_embedder.pos_embedding", "v.position_embd.weight", STEP_SWAPPED_ROWS),
    RULE("model.vision_embedder.pos_norm", "v.patch_norm.3"),
    RULE("model.vision_embedder.patch_dense.weight", "v.patch_embd.weight", STEP_PATCH_COLOURS),
    RULE("model.vision_embedder.patch_dense", "v.patch_embd"),
    RULE("model.vision_embedder.patch_ln1", "v.patch_norm.1", STEP_PATCH_COLOURS),
    RULE("model.vision_embedder.patch_ln1", "v.patch_norm.1"),
    RULE("model.vision_embedder.patch_ln2", "v.patch_norm.2"),
    RULE("model.embed_vision.embedding_projection", "mm.input_projection"),
    RULE("model.embed_audio.embedding_projection", "mm.a.input_projection"),
    {.from = NULL},
};

/* A block of the convolutions that Gemma 3n sees by: its stage and its number in it. */
#define MOBILE(name) RULE("model.vision_tower.timm_model.blocks.#.*." name, "v.blk.#.*." name)
#define EMBEDS(part, to) \
    RULE("model." part ".embedding", to ".embedding"), \
        RULE("model." part ".hard_embedding_norm", to ".hard_emb_norm"), \
        RULE("model." part ".soft_embedding_norm", to ".soft_emb_norm"), \
        RULE("model." part ".embedding_projection", to ".input_projection")

static const arch_rule gemma3n_rules[] = {
    RULE("model.vision_tower.timm_model.conv_stem.conv.bias", "v.conv_stem.conv.bias", STEP_CHANNELS),
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
    /* what hears */
    RULE("model.audio_tower.subsample_conv_projection.conv_0.conv", "a.conv1d.0"),
    RULE("model.audio_tower.subsample_conv_projection.conv_1.conv", "a.conv1d.1"),
    RULE("model.audio_tower.subsample_conv_projection.conv_#.norm", "a.conv1d.#.norm"),
    RULE("model.audio_tower.subsample_conv_projection.input_proj_linear", "a.pre_encode.out"),
    GEMMA3N_HEARS("attention.attn.q_proj", "attn_q"),
    GEMMA3N_HEARS("attention.attn.k_proj", "attn_k"),
    GEMMA3N_HEARS("attention.attn.v_proj", "attn_v"),
    GEMMA3N_HEARS("attention.attn.per_dim_scale", "per_dim_scale"),
    GEMMA3N_HEARS("attention.attn.relative_position_embedding.pos_proj", "linear_pos"),
    GEMMA3N_HEARS("attention.pre_attn_norm", "ln1"),
    GEMMA3N_HEARS("attention.post", "attn_out"),
    GEMMA3N_HEARS("attention.post_norm", "ln2"),
    GEMMA3N_HEARS("norm", "layer_pre_norm"),
    GEMMA3N_FEEDS("ffw_layer_start", ""),
    GEMMA3N_FEEDS("ffw_layer_end", "_1"),
    GEMMA3N_HEARS("lconv1d.depthwise_conv1d", "conv_dw"),
    CONFORMER_CONV(GEMMA3N_HEARS),
    EMBEDS("embed_audio", "mm.a"),
    {.from = NULL},
};

static const arch_item gemma3n_pairs[] = {
    BOOL_IS(".has_vision_encoder", 1),
    KIND_OF("vision", "gemma3nv"),
    U32(".vision.projection_dim", "text.hidden_size"),
    U32_OR(".vision.image_size", "pre.size.height", 768),
    ITEM(".vision.patch_size", PAIR_CLIP_GEMMA3N_PATCH),
    U32_OR(".vision.embedding_length", "vision.hidden_size", 2048),
    {.key = ".vision.feed_forward_length", .make = PAIR_U32, .value = 8192},
    U32_IS(".vision.block_count", 128),
    U32_OR(".vision.attention.head_count", "vision.num_attention_heads", 8),
    ITEM_NAMES(".vision.image_mean", PAIR_TRIPLE, "0"),
    ITEM_NAMES(".vision.image_std", PAIR_TRIPLE, "1"),
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

static const arch_rule qwen2_hears[] = {
    WHISPER("audio_tower."), RULE("audio_tower.proj", "mm.a.fc"), {.from = NULL}};

const arch_projector arch_projectors_both[] = {
    {.classes = NAMES("Gemma4ForConditionalGeneration"),
     .vision = "vision_config",
     .audio = "audio_config",
     .may_lack_audio = true,
     .takes =
         NAMES("^model.vision_tower.", "^model.embed_vision.", "^model.audio_tower.", "^model.embed_audio."),
     .is_f32 = NAMES("a.conv1d.", "^a.input_projection.weight", ".conv_dw.", ".norm_conv."),
     .may_lack = NAMES("v.std_", "out_scale", "attn_k_rel"),
     .folder = {.pairs = PAIRS(LIST(clip_sees_sized), U32_IS(".vision.image_size", 224),
                               KIND_OF("vision", "gemma4v"), EPS_OR("vision.layer_norm_eps", 1e-6),
                               {.make = PAIR_LIST_IF, .names = "audio", .list = gemma4_hears}),
                .rules = gemma4_rules,
                .renames = RENAMES({".linear.", ".", ANYWHERE})}},
    {.classes = NAMES("Gemma4UnifiedForConditionalGeneration"),
     .vision = "vision_config",
     .audio = "audio_config",
     .takes = NAMES("^model.vision_embedder.", "^model.embed_vision.", "^model.embed_audio."),
     .counted = "",
     .folder = {.pairs =
                    PAIRS(BOOL_IS(".has_vision_encoder", 1), KIND_OF("vision", "gemma4uv"),
                          U32(".vision.projection_dim", "text.hidden_size"),
                          U32_IS(".vision.image_size", 224), U32(".vision.patch_size", "vision.patch_size"),
                          U32(".vision.embedding_length", "vision.mm_embed_dim"),
                          U32_IS(".vision.feed_forward_length", 0), U32_IS(".vision.block_count", 0),
                          U32_IS(".vision.attention.head_count", 0),
                          ITEM_NAMES(".vision.image_mean", PAIR_FLOATS, "pre.image_mean"),
                          ITEM_NAMES(".vision.image_std", PAIR_FLOATS, "pre.image_std"),
                          EPS_OR("vision.layer_norm_eps", 1e-6), BOOL_IS(".has_audio_encoder", 1),
                          KIND_OF("audio", "gemma4ua"), U32(".audio.projection_dim", "text.hidden_size"),
                          U32(".audio.embedding_length", "audio.audio_embed_dim"),
                          U32_IS(".audio.feed_forward_length", 0), U32_IS(".audio.block_count", 0),
                          U32_IS(".audio.attention.head_count", 0),
                          U32_OR(".audio.num_mel_bins", "audio.input_feat_size", 128),
                          FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-6)),
                .rules = gemma4_unified_rules}},
    {.classes = NAMES("Gemma3nForConditionalGeneration"),
     .vision = "vision_config",
     .audio = "audio_config",
     .takes =
         NAMES("^model.vision_tower.", "^model.embed_vision.", "^model.audio_tower.", "^model.embed_audio."),
     .is_f32 = NAMES("v.conv_stem.", "a.conv1d.", ".conv_dw."),
     .is_f16 = NAMES("a.pre_encode.out."),
     .counted = "a.blk.",
     .may_lack = NAMES("a.conv1d.#.norm", "ffn_scale"),
     .folder = {.pairs = gemma3n_pairs, .rules = gemma3n_rules}},
    {.classes = NAMES("Qwen2_5OmniModel"),
     .vision = "thinker_config.vision_config",
     .vision_missing = QWEN25_MISSING,
     .audio = "thinker_config.audio_config",
     .takes = NAMES("^thinker.visual.", "^thinker.audio_tower.", "^visual.", "^audio_tower."),
     .is_f16 = NAMES("a.conv1d.1.weight", "a.conv1d.2.weight"),
     .may_lack = NAMES("a.position_embd"),
     .folder = {.pairs = PAIRS(LIST(qwen25_pairs), LIST(clip_hears), KIND("qwen2.5o"),
                               U32(".audio.num_mel_bins", "audio.num_mel_bins"),
                               FLOAT_OR(".audio.attention.layer_norm_epsilon", "audio.layer_norm_eps", 1e-5)),
                .rules = qwen2_rules,
                .more = qwen2_hears,
                .left_out = NAMES("audio_bos_eos_token"),
                .renames = RENAMES({"thinker.", "", AT_BEGIN}),
                .finish = FINISH_SINUSOIDS}},
    {.classes = NULL},
};
