/* Projectors of models with a vision encoder, of the less common families; and classes whose projectors are not
 * made here. */
#include "arch/projectors.h"

#define DOTS_LAYER(from, to) VISION_LAYER("vision_tower.blocks.#.", from, to)
#define HUNYUAN_LAYER(from, to) VISION_LAYER("vit.layers.#.", from, to)
#define JANUS_LAYER(from, to) VISION_LAYER("model.vision_model.encoder.layers.#.", from, to)
#define COG_LAYER(from, to) VISION_LAYER("model.vision.transformer.layers.#.", from, to)
#define LEFT_TO_OTHERS \
    "its projector cannot be made here; llama.cpp's converter can: convert_hf_to_gguf.py --mmproj"

#define STEP3_LAYER(from, to) VISION_LAYER("vision_model.transformer.resblocks.#.", from, to)
#define V4_LAYER(from, to, ...) VISION_LAYER("vision.blocks.#.", from, to, __VA_ARGS__)

/* ---- Granite ---- */

#define GRANITE_VISION(p) \
    RULE(p "query", "v.proj_blk.#.query", OP_NUMBER_OF_PROJECTOR), \
        RULE(p "image_positions", "v.proj_blk.#.img_pos", OP_NUMBER_OF_PROJECTOR), \
        RULE(p "norm", "v.proj_blk.#.norm", OP_NUMBER_OF_PROJECTOR), \
        RULE(p "out_linear", "v.proj_blk.#.linear", OP_NUMBER_OF_PROJECTOR), \
        RULE(p "qformer.layernorm", "v.proj_blk.#.post_norm", OP_NUMBER_OF_PROJECTOR), \
        QFORMER(p "qformer.encoder.layer.0.", "v.proj_blk.#.", OP_NUMBER_OF_PROJECTOR)

/* ---- DeepSeek's OCR models, which see by two encoders ---- */

#define SAM(from, to, ...) RULE("model.sam_model." from, "v.sam." to, __VA_ARGS__)
#define OCR_LAYER(from, to) VISION_LAYER("model.vision_model.transformer.layers.#.", from, to)
#define OCR2_LAYER(from, to) VISION_LAYER("model.qwen2_model.model.model.layers.#.", from, to)

static const arch_rule ocr_rules[] = {
    SAM("pos_embed", "pos_embd.weight"),
    SAM("patch_embed.proj", "patch_embd"),
    SAM("blocks.#.norm1", "blk.#.pre_ln"),
    SAM("blocks.#.norm2", "blk.#.post_ln"),
    SAM("blocks.#.attn.rel_pos_h", "blk.#.attn.pos_h.weight"),
    SAM("blocks.#.attn.rel_pos_w", "blk.#.attn.pos_w.weight"),
    SAM("blocks.#.attn.qkv", "blk.#.attn.qkv"),
    SAM("blocks.#.attn.proj", "blk.#.attn.out"),
    SAM("blocks.#.mlp.lin1", "blk.#.mlp.lin1"),
    SAM("blocks.#.mlp.lin2", "blk.#.mlp.lin2"),
    SAM("neck.0", "neck.0"),
    SAM("neck.1", "neck.1"),
    SAM("neck.2", "neck.2"),
    SAM("neck.3", "neck.3"),
    SAM("net_2", "net_2"),
    SAM("net_3", "net_3"),
    RULE("model.projector.layers", "mm.model.fc"),
    RULE("model.view_seperator", "v.view_seperator", OP_RESHAPE_ROW),
    {.from = NULL},
};

#define OCR_METADATA(kind, tiles) \
    KIND(kind), EPS_OR("vision.layer_norm_eps", 1e-6), GELU, \
        ITEM(".vision.projector.scale_factor", KV_CLIP_GEMMA3_SCALE), \
        U32_OR(".vision.window_size", "root.vision_config.window_size", 14), \
        U32_IS(".vision.preproc_min_tiles", 2), U32_IS(".vision.preproc_max_tiles", tiles), \
        U32(".vision.sam.block_count", "root.vision_config.width.sam_vit_b.layers"), \
        U32(".vision.sam.embedding_length", "root.vision_config.width.sam_vit_b.width"), \
        U32(".vision.sam.head_count", "root.vision_config.width.sam_vit_b.heads")
#define OCR_ARRAYS \
    .takes = NAMES("^model.sam_model.", "^model.vision_model.", "^model.qwen2_model.", "^model.projector.", \
                   "^model.image_newline", "^model.view_seperator"), \
    .is_f32 = NAMES("^v.patch_embd.", "^v.position_embd.", "^v.sam.pos_embd.", "pos_h.", "pos_w.", \
                    "^v.sam.neck.", "^v.sam.net_"), \
    .grow = NAMES(".attn.pos_h.", ".attn.pos_w.") /* windows, and the whole image */
#define OCR_ROW(tiles) \
    .vision = "vision_config.width.clip-l-14-224", OCR_ARRAYS, .shapes = SHAPES({"mm.model.fc", "U+D T +"}), \
    .folder = {.metadata = METADATA(LIST(clip_vision_core), U32(".vision.image_size", "vision.image_size"), \
                                    ITEM_VALUE(".vision.feed_forward_length", KV_TIMES, "vision.heads", 4), \
                                    OCR_METADATA("deepseekocr", tiles)), \
               .rules = \
                   RULES(RULE("model.vision_model.embeddings.class_embedding", "v.class_embd"), \
                         RULE("model.vision_model.embeddings.patch_embedding", "v.patch_embd"), \
                         RULE("model.vision_model.embeddings.position_embedding", "v.position_embd"), \
                         RULE("model.vision_model.pre_layrnorm", "v.pre_ln"), \
                         OCR_LAYER("self_attn.qkv_proj", "attn_qkv"), \
                         OCR_LAYER("self_attn.out_proj", "attn_out"), OCR_LAYER("layer_norm1", "ln1"), \
                         OCR_LAYER("layer_norm2", "ln2"), OCR_LAYER("mlp.fc1", "ffn_up"), \
                         OCR_LAYER("mlp.fc2", "ffn_down"), RULE("model.image_newline", "v.image_newline")), \
               .more = ocr_rules}

const arch_projector arch_projectors_more[] = {
    {.classes = NAMES("DotsOCRForCausalLM"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"mm.post_norm", "D"}),
     .vision = "vision_config",
     .takes = NAMES("^vision_tower."),
     .folder = {.metadata =
                    METADATA(LIST(clip_vision_sized), U32_IS(".vision.image_size", 0), KIND("dots_ocr"),
                             U32(".vision.image_min_pixels", "pre.min_pixels"),
                             U32(".vision.image_max_pixels", "pre.max_pixels"), EPS("vision.rms_norm_eps"),
                             SCALE("vision.spatial_merge_size"), BOOL_IS(".use_silu", 1)),
                .rules = RULES(
                    RULE("vision_tower.patch_embed.patchifier.proj", "v.patch_embd"),
                    RULE("vision_tower.patch_embed.patchifier.norm", "v.pre_ln"),
                    DOTS_LAYER("attn.qkv", "attn_qkv"), DOTS_LAYER("attn.proj", "attn_out"),
                    DOTS_LAYER("norm1", "ln1"), DOTS_LAYER("norm2", "ln2"), DOTS_LAYER("mlp.fc1", "ffn_gate"),
                    DOTS_LAYER("mlp.fc2", "ffn_down"), DOTS_LAYER("mlp.fc3", "ffn_up"),
                    RULE("vision_tower.post_trunk_norm", "mm.post_norm"),
                    RULE("vision_tower.merger.ln_q", "mm.input_norm"),
                    RULE("vision_tower.merger.mlp.0", "mm.0"), RULE("vision_tower.merger.mlp.2", "mm.2"))}},
    {.classes = NAMES("HunYuanVLForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"v.image_newline", "W"}, {"mm.0", "? ? D X"}, {"mm.2", "1 1 X W"},
                      {"mm.model.fc", "W T +"}, {"mm.pre_norm", "D"}, {"mm.post_norm", "T"},
                      {"mm.image_begin", "T"}, {"mm.image_end", "T"}),
     .vision = "vision_config",
     .takes = NAMES("^vit."),
     .follows_f16 = NAMES("mm.0.weight", "mm.2.weight"),
     .folder =
         {.metadata = METADATA(LIST(clip_vision_sized),
                               U32_OR(".vision.image_size", "vision.image_size|vision.max_image_size", 2048),
                               KIND("hunyuanvl"), GELU, EPS_OR("vision.rms_norm_eps", 1e-5),
                               MERGE_OR("vision.spatial_merge_size", 2),
                               U32(".vision.image_min_pixels", "pre.min_pixels"),
                               U32(".vision.image_max_pixels", "pre.max_pixels")),
          .rules = RULES(
              RULE("vit.embeddings.patch_embedding", "v.patch_embd"),
              RULE("vit.embeddings.position_embedding", "v.position_embd", OP_CUT_FIRST_ROW),
              QKV_RULES(HUNYUAN_LAYER, "self_attn.", "_proj", "attn_"),
              HUNYUAN_LAYER("self_attn.o_proj", "attn_out"), HUNYUAN_LAYER("input_layernorm", "ln1"),
              HUNYUAN_LAYER("post_attention_layernorm", "ln2"), HUNYUAN_LAYER("mlp.dense_h_to_4h", "ffn_up"),
              HUNYUAN_LAYER("mlp.dense_4h_to_h", "ffn_down"), RULE("vit.perceive.proj.0", "mm.0"),
              RULE("vit.perceive.proj.2", "mm.2"), RULE("vit.perceive.mlp", "mm.model.fc"),
              RULE("vit.perceive.before_rms", "mm.pre_norm"), RULE("vit.perceive.after_rms", "mm.post_norm"),
              RULE("vit.perceive.image_newline", "v.image_newline"),
              RULE("vit.perceive.image_sep", "v.view_seperator"),
              RULE("vit.perceive.image_begin", "mm.image_begin"),
              RULE("vit.perceive.image_end", "mm.image_end"))}},
    {.classes = NAMES("JanusForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"mm.0", "D X"}, {"mm.1", "X T"}),
     .vision = "vision_config",
     .takes = NAMES("^model.vision_model.", "^vision_model.", "^model.aligner.", "^aligner."),
     .folder = {.metadata = METADATA(LIST(clip_vision_core), U32(".vision.image_size", "vision.image_size"),
                                     ITEM(".vision.feed_forward_length", KV_CLIP_MLP_RATIO),
                                     KIND("janus_pro"), EPS_OR("vision.layer_norm_eps", 1e-6),
                                     ITEM_IF(NULL, KV_ACTIVATION, "vision.hidden_act")),
                .rules = RULES(VISION_CLIP("model.vision_model."),
                               JANUS_LAYER("self_attn.projection_layer", "attn_out"),
                               RULE("model.aligner.fc1", "mm.0"),
                               RULE("model.aligner.hidden_layers.#", "mm.#", OP_NUMBER_PLUS_ONE)),
                .renames = RENAMES({"vision_model.", "model.vision_model.", AT_BEGIN},
                                   {"aligner.", "model.aligner.", AT_BEGIN})}},
    {.classes = NAMES("YoutuVLForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"mm.input_norm", "D"}),
     .vision = "vision_config",
     .takes = NAMES("^siglip2.", "^merger."),
     .may_lack = NAMES("v.position_embd"),
     .folder = {.metadata =
                    METADATA(
                        LIST(clip_vision_sized), U32_OR(".vision.image_size", "vision.image_size", 560),
                        KIND("youtuvl"), EPS_OR("vision.layer_norm_eps", 1e-6),
                        ITEM_VALUE(NULL, KV_ACTIVATION, "vision.hidden_act", 1),
                        MERGE_OR("vision.spatial_merge_size", 2),
                        U32_IF(".vision.window_size", "vision.window_size"),
                        ITEM_NAMES(".vision.wa_layer_indexes", KV_INTEGERS, "vision.fullatt_block_indexes")),
                .rules = RULES(VISION_CLIP("siglip2.vision_model."), RULE("merger.ln_q", "mm.input_norm"),
                               RULE("merger.mlp.0", "mm.0"), RULE("merger.mlp.2", "mm.2"))}},
    {.classes = NAMES("CogVLMForCausalLM"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"mm.model.fc", "D A"}),
     .vision = "vision_config",
     .takes = NAMES("^model.vision."),
     .folder = {.metadata =
                    METADATA(LIST(clip_vision), KIND("cogvlm"), EPS_OR("vision.layer_norm_eps", 1e-6)),
                .rules = RULES(RULE("model.vision.patch_embedding.cls_embedding", "v.class_embd"),
                               RULE("model.vision.patch_embedding.proj", "v.patch_embd"),
                               RULE("model.vision.patch_embedding.position_embedding", "v.position_embd"),
                               COG_LAYER("attention.query_key_value", "attn_qkv"),
                               COG_LAYER("attention.dense", "attn_out"), COG_LAYER("input_layernorm", "ln1"),
                               COG_LAYER("post_attention_layernorm", "ln2"), COG_LAYER("mlp.fc1", "ffn_up"),
                               COG_LAYER("mlp.fc2", "ffn_down"),
                               RULE("model.vision.linear_proj.linear_proj", "mm.model.fc"),
                               RULE("model.vision.linear_proj.norm1", "mm.post_fc_norm"),
                               RULE("model.vision.linear_proj.dense_h_to_4h", "mm.up"),
                               RULE("model.vision.linear_proj.gate_proj", "mm.gate"),
                               RULE("model.vision.linear_proj.dense_4h_to_h", "mm.down"),
                               RULE("model.vision.boi", "v.boi"), RULE("model.vision.eoi", "v.eoi"))}},
    {.classes = NAMES("Sarashina2VisionForCausalLM"),
     .vision = "vision_config",
     .vision_missing = QWEN2_MISSING,
     .takes = NAMES("^visual."),
     .may_lack = NAMES("ffn_gate"),
     .folder = {.metadata = METADATA(QWEN2_METADATA, KIND("qwen2vl_merger"),
                                     U32(".vision.embedding_length", "vision.embed_dim|vision.hidden_size"),
                                     U32(".vision.feed_forward_length", "vision.hidden_size")),
                .rules = qwen2_rules}},
    {.classes = NAMES("Exaone4_5_ForConditionalGeneration"),
     .vision = "vision_config",
     .takes = NAMES("^visual.", "^model.visual."),
     .may_lack = NAMES("attn_q"),
     .folder = {.metadata =
                    METADATA(LIST(clip_vision_sized), U32_OR(".vision.image_size", "vision.image_size", 560),
                             KIND("exaone4_5"), BOOL_IS(".use_silu", 1),
                             U32(".vision.image_min_pixels", "pre.min_pixels"),
                             U32(".vision.image_max_pixels", "pre.max_pixels"),
                             U32_IF(".vision.attention.head_count_kv", "vision.num_key_value_heads"),
                             EPS_OR("vision.rms_norm_eps|root.rms_norm_eps", 1e-6),
                             U32_IF(".vision.window_size", "vision.window_size"),
                             ITEM_NAMES(".vision.n_wa_pattern", KV_CLIP_WINDOW_PATTERN,
                                        "vision.fullatt_block_indexes")),
                .rules = RULES(RULE("visual.blocks.#.attn.qkv", "v.blk.#.attn_qkv")),
                .more = qwen2_rules,
                .renames = RENAMES({"model.visual.", "visual.", AT_BEGIN})}},
    {.classes = NAMES("BailingMoeV3VLForConditionalGeneration"),
     .vision = "vision_config",
     .vision_missing = QWEN3_MISSING,
     .takes = NAMES("^visual.", "^model.visual.", "^linear_proj."),
     .may_lack = NAMES("v.post_ln", "v.deepstack."),
     .folder = {.metadata = METADATA(EXPECT("vision.disable_merger_proj=true"), LIST(clip_vision_sized),
                                     ITEM_NAMES(".vision.image_size", KV_CLIP_POSITIONS, "vision.image_size"),
                                     KIND("ling3vl"), GELU,
                                     U32_IF(".vision.spatial_merge_size", "vision.spatial_merge_size"),
                                     EPS_OR("root.text_config.rms_norm_eps", 1e-6)),
                .rules = RULES(RULE("linear_proj.0", "mm.0"), RULE("linear_proj.2", "mm.2"),
                               RULE("visual.merger.norm", "mm.input_norm")),
                .more = qwen3_rules,
                .renames = RENAMES({"model.visual.", "visual.", AT_BEGIN})}},
    {.classes = NAMES("DeepseekOCRForCausalLM"), OCR_ROW(9)},
    {.classes = NAMES("UnlimitedOCRForCausalLM"), OCR_ROW(32)},
    {.classes = NAMES("DeepseekOCR2ForCausalLM"),
     .shapes = SHAPES({"v.blk.#.attn_k", "D B"}, {"v.blk.#.attn_v", "D B"}, {"mm.model.fc", "D T +"},
                      {"v.sam.net_3", "3 3 R D"}, {"v.resample_query_1024", "D @"},
                      {"v.resample_query_768", "D @"}),
     .vision = "vision_config.width",
     .vision_missing = "{\"image_size\": 1024, \"patch_size\": 16, \"layers\": 24, \"heads\": 14,"
                       " \"hidden_size\": 896, \"intermediate_size\": 4864}",
     OCR_ARRAYS,
     .folder = {.metadata = METADATA(
                    LIST(clip_vision), OCR_METADATA("deepseekocr2", 6),
                    U32_OR(".vision.image_size", "root.vision_config.image_size", 1024),
                    U32_OR(".vision.patch_size", "root.vision_config.patch_size", 16),
                    U32_OR(".vision.feed_forward_length", "root.vision_config.intermediate_size", 4864),
                    U32_OR(".vision.attention.head_count", "root.vision_config.num_attention_heads", 14),
                    U32(".vision.embedding_length", "vision.qwen2-0-5b.dim"),
                    U32_OR(".vision.block_count", "root.vision_config.layers", 24),
                    U32_IS(".vision.attention.head_count_kv", 2)),
                .rules = RULES(
                    QKV_RULES(OCR2_LAYER, "self_attn.", "_proj", "attn_"),
                    OCR2_LAYER("self_attn.o_proj", "attn_out"), OCR2_LAYER("input_layernorm", "ln1"),
                    OCR2_LAYER("post_attention_layernorm", "ln2"), FFN_RULES(OCR2_LAYER, "mlp.", "_proj", ""),
                    RULE("model.qwen2_model.model.model.norm", "v.post_ln"),
                    RULE("model.qwen2_model.query_768", "v.resample_query_768"),
                    RULE("model.qwen2_model.query_1024", "v.resample_query_1024")),
                .more = ocr_rules}},
    {.classes = NAMES("Phi4ForCausalLMV"),
     .shapes = SHAPES(PATCHES_WITH_BIAS),
     .vision = "vision_config",
     .last_layer = "vision_tower.vision_model.encoder.layers.",
     .takes = NAMES("^model.vision_tower.vision_tower.", "^vision_tower.", "^model.mm_projector.",
                    "^mm_projector."),
     .folder = {.metadata = METADATA(LIST(clip_vision_sized), U32(".vision.patch_size", "pre.patch_size"),
                                     KIND("phi4"),
                                     ITEM_NAMES(".vision.image_size", KV_CLIP_POSITIONS, "vision.image_size"),
                                     ITEM_VALUE(".vision.block_count", KV_CLIP_LFM2_BLOCKS, NULL, -2),
                                     ITEM_NAMES(".vision.image_min_pixels", KV_SQUARE,
                                                "pre.patch_size pre.min_num_patches|root.min_num_patches"),
                                     ITEM_NAMES(".vision.image_max_pixels", KV_SQUARE,
                                                "pre.patch_size pre.max_num_patches|root.max_num_patches"),
                                     GELU, EPS_OR("vision.layer_norm_eps", 1e-6)),
                .rules = RULES(RULE("vision_tower.vision_model.embeddings.patch_embedding.weight",
                                    "v.patch_embd.weight", OP_REORDER_PATCHES_LAST),
                               RULE("vision_tower.vision_model.embeddings.position_embedding.weight",
                                    "v.position_embd.weight", OP_CHECK_POSITIONS),
                               RULE("vision_tower.vision_model.embeddings.patch_embedding", "v.patch_embd"),
                               VISION_CLIP_LAYERS("vision_tower.vision_model."),
                               RULE("mm_projector.0", "mm.0"), RULE("mm_projector.2", "mm.2")),
                .left_out = NAMES("vision_model.head.", "vision_model.post_layernorm."),
                .renames = RENAMES({"model.vision_tower.vision_tower.", "vision_tower.", AT_BEGIN},
                                   {"model.mm_projector.", "mm_projector.", AT_BEGIN})}},
    {.classes = NAMES("Granite4VisionForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS),
     .vision = "vision_config",
     .takes = NAMES("^model.vision_tower.", "^model.layerwise_projectors.", "^model.spatial_projectors.",
                    "^model.image_newline"),
     .may_lack = NAMES("v.proj_blk."),
     .folder = {.metadata = METADATA(LIST(clip_vision), KIND("granite4_vision"),
                                     EPS_OR("vision.layer_norm_eps", 1e-6), GELU,
                                     U32_OR(".vision.preproc_image_size", "vision.image_size", 384),
                                     ITEM(NULL, KV_CLIP_GRANITE)),
                .rules = RULES(VISION_CLIP("model.vision_tower.vision_model."),
                               RULE("model.image_newline", "v.image_newline"),
                               GRANITE_VISION("model.layerwise_projectors.#."),
                               GRANITE_VISION("model.spatial_projectors.#.")),
                .left_out = NAMES("vision_model.head")}},
    {.classes = NAMES("StepVLForConditionalGeneration", "Step3p7ForConditionalGeneration"),
     .shapes = SHAPES({"mm.0", "3 3 D X"}, {"mm.1", "3 3 X Y"}, {"mm.model.fc", "Y T"}),
     .letters = LETTERS({"vision.heads", 'N', 1}),
     .vision = "vision_config",
     .vision_missing = "{\"mlp_ratio\": 5.833333333333333}",
     .pre_missing = "{\"image_mean\": [0.48145466, 0.4578275, 0.40821073],"
                    " \"image_std\": [0.26862954, 0.26130258, 0.27577711]}",
     .takes = NAMES("^vision_model.", "^vit_large_projector."),
     .follows_f16 = NAMES("mm.0.weight", "mm.1.weight"),
     .folder =
         {.metadata = METADATA(
              LIST(clip_vision_core), U32(".vision.image_size", "vision.image_size"),
              ITEM(".vision.feed_forward_length", KV_CLIP_MLP_RATIO), KIND("step3vl"),
              EPS_OR("vision.layer_norm_eps", 1e-5),
              ITEM_VALUE(".vision.projector.scale_factor", KV_SQUARE, "root.understand_projector_stride", 1),
              U32_IS(".vision.preproc_image_size", 3024)),
          .rules = RULES(
              RULE("vision_model.conv1", "v.patch_embd"),
              RULE("vision_model.positional_embedding", "v.position_embd.weight"),
              RULE("vision_model.ln_pre", "v.pre_ln"), STEP3_LAYER("attn.in_proj_weight", "attn_qkv.weight"),
              STEP3_LAYER("attn.in_proj_bias", "attn_qkv.bias"), STEP3_LAYER("attn.out_proj", "attn_out"),
              STEP3_LAYER("ln_1", "ln1"), STEP3_LAYER("ln_2", "ln2"), STEP3_LAYER("ls_1.gamma", "ls1.weight"),
              STEP3_LAYER("ls_2.gamma", "ls2.weight"), STEP3_LAYER("mlp.c_fc", "ffn_up"),
              STEP3_LAYER("mlp.c_proj", "ffn_down"), RULE("vision_model.vit_downsampler1", "mm.0"),
              RULE("vision_model.vit_downsampler2", "mm.1"), RULE("vit_large_projector", "mm.model.fc"))}},
    {.classes = NAMES("DeepseekV4ForCausalLM"),
     .pre_missing = "{\"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}",
     .takes = NAMES("^vision.", "^aligner.", "^image_"),
     .may_lack = NAMES("v.image_newline", "v.token_embd."),
     .folder = {.metadata = METADATA(
                    BOOL_IS(".has_vision_encoder", 1), U32(".vision.projection_dim", "text.hidden_size"),
                    ITEM_VALUE(".vision.image_size", KV_PRODUCT,
                               "root.vision_patch_size root.vision_downsample_ratio", 16),
                    U32(".vision.patch_size", "root.vision_patch_size"),
                    U32(".vision.embedding_length", "root.vision_dim"),
                    U32(".vision.feed_forward_length", "root.vision_inter_dim"),
                    U32(".vision.block_count", "root.vision_n_layers"),
                    U32(".vision.attention.head_count", "root.vision_n_heads"), IMAGE_MEANS,
                    KIND("deepseek4v"), EPS_IS(1e-6), BOOL_IS(".use_silu", 1),
                    SCALE("root.vision_downsample_ratio"),
                    U32(".vision.image_min_pixels", "root.vision_min_pixels"),
                    EXPECT("root.vision_max_n_token=384"), EXPECT("root.vision_max_wh_ratio=8")),
                .rules = RULES(
                    RULE("vision.patch_embed.proj.weight", "v.patch_embd.weight", OP_REORDER_PATCHES_FIRST),
                    RULE("vision.patch_embed.proj.bias", "v.patch_embd.bias"),
                    RULE("vision.norm", "v.post_ln"), V4_LAYER("norm1", "ln1"), V4_LAYER("norm2", "ln2"),
                    V4_LAYER("attn.wqkv", "attn_qkv"), V4_LAYER("attn.wo", "attn_out"),
                    V4_LAYER("mlp.w1", "ffn_gate|v.blk.#.ffn_up", OP_SPLIT_HALVES),
                    V4_LAYER("mlp.w2", "ffn_down"), RULE("aligner.w1", "mm.1"), RULE("aligner.w2", "mm.2"),
                    RULE("image_newline", "v.image_newline"), RULE("image_start", "v.token_embd.img_start"),
                    RULE("image_end", "v.token_embd.img_end"), RULE("image_pad", "v.token_embd.img_pad"))}},
    {.classes = NAMES("PocketTTSModel"), .refused = LEFT_TO_OTHERS},
    {.classes = NULL},
};
