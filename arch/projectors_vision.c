/* Projectors of models with a vision encoder. */
#include "arch/projectors.h"

/* Newer programs save what transformers' classes hold under "model.". */
#define WITHOUT_MODEL \
    {"model.vision_tower.", "vision_tower.", AT_BEGIN}, { \
        "model.multi_modal_projector.", "multi_modal_projector.", AT_BEGIN \
    }
#define TOWER_AND_PROJECTOR \
    "^vision_tower.", "^multi_modal_projector.", "^model.vision_tower.", "^model.multi_modal_projector."

/* Values that configs of published models leave out. */
#define SIGLIP_MISSING \
    "{\"hidden_size\": 768, \"image_size\": 224, \"intermediate_size\": 3072, \"num_hidden_layers\": 12," \
    " \"num_attention_heads\": 12, \"patch_size\": 16, \"layer_norm_eps\": 1e-06}"
#define PIXTRAL_MISSING \
    "{\"hidden_size\": 1024, \"image_size\": 1024, \"intermediate_size\": 4096, \"num_hidden_layers\": 24," \
    " \"num_attention_heads\": 16, \"patch_size\": 16, \"hidden_act\": \"gelu\"}"
#define IDEFICS3_MISSING \
    "{\"hidden_size\": 1152, \"image_size\": 224, \"intermediate_size\": 3072, \"num_hidden_layers\": 12," \
    " \"num_attention_heads\": 16, \"patch_size\": 32, \"layer_norm_eps\": 1e-06}"
#define LLAMA4_MISSING \
    "{\"hidden_size\": 768, \"image_size\": 448, \"intermediate_size\": 5632, \"num_hidden_layers\": 34," \
    " \"num_attention_heads\": 16, \"patch_size\": 14, \"hidden_act\": \"gelu\", \"norm_eps\": 1e-05," \
    " \"pixel_shuffle_ratio\": 0.5}"

/* ---- Qwen ---- */

#define QWEN_PATCHES \
    RULE("visual.patch_embed.proj.weight", "v.patch_embd.weight|v.patch_embd.weight.1", OP_SPLIT_FRAMES)
#define QWEN_LAYER(from, to, ...) VISION_LAYER("visual.blocks.#.", from, to, __VA_ARGS__)
#define QWEN_LAYERS \
    QWEN_LAYER("attn.proj", "attn_out"), QWEN_LAYER("norm1", "ln1"), QWEN_LAYER("norm2", "ln2")
/* The same source tensor under a model's name, or under that of a thinking part of several. */
#define VISUAL RENAMES({"thinker.visual.", "visual.", AT_BEGIN}, {"model.visual.", "visual.", AT_BEGIN})
#define TAKES_VISUAL NAMES("^visual.", "^model.visual.", "^thinker.visual.")

const arch_rule qwen2_rules[] = {
    QWEN_PATCHES,
    QWEN_LAYERS,
    QWEN_LAYER("attn.qkv", "attn_q|v.blk.#.attn_k|v.blk.#.attn_v", OP_SPLIT_THIRDS),
    QWEN_LAYER("mlp.fc1", "ffn_up"),
    QWEN_LAYER("mlp.fc2", "ffn_down"),
    QWEN_LAYER("mlp.up_proj", "ffn_up"),
    QWEN_LAYER("mlp.gate_proj", "ffn_gate"),
    QWEN_LAYER("mlp.down_proj", "ffn_down"),
    RULE("visual.merger.ln_q", "v.post_ln"),
    RULE("visual.merger.mlp.0", "mm.0"),
    RULE("visual.merger.mlp.2", "mm.2"),
    {.from = NULL},
};

const arch_item qwen25_metadata[] = {
    QWEN2_METADATA,
    BOOL_IS(".use_silu", 1),
    U32(".vision.feed_forward_length", "vision.intermediate_size"),
    ITEM_NAMES(".vision.n_wa_pattern", KV_CLIP_WINDOW_PATTERN, "vision.fullatt_block_indexes"),
    END,
};

const arch_item qwen3_metadata[] = {
    LIST(clip_vision_sized),
    ITEM_NAMES(".vision.image_size", KV_CLIP_POSITIONS, "vision.image_size"),
    GELU,
    U32_IF(".vision.spatial_merge_size", "vision.spatial_merge_size"),
    EPS_OR("root.text_config.rms_norm_eps", 1e-6),
    ITEM_NAMES(".vision.is_deepstack_layers", KV_MARKED, "vision.deepstack_visual_indexes vision.depth"),
    END,
};

const arch_rule qwen3_rules[] = {
    QWEN_PATCHES,
    RULE("visual.patch_embed.proj", "v.patch_embd"),
    RULE("visual.pos_embed", "v.position_embd"),
    QWEN_LAYERS,
    QWEN_LAYER("attn.qkv", "attn_qkv"),
    QWEN_LAYER("mlp.linear_fc1", "ffn_up"),
    QWEN_LAYER("mlp.linear_fc2", "ffn_down"),
    RULE("visual.merger.norm", "v.post_ln"),
    RULE("visual.merger.linear_fc1", "mm.0"),
    RULE("visual.merger.linear_fc2", "mm.2"),
    RULE("visual.deepstack_merger_list.#.norm", "v.deepstack.#.norm", OP_NUMBER_OF_DEEPSTACK),
    RULE("visual.deepstack_merger_list.#.linear_fc1", "v.deepstack.#.fc1", OP_NUMBER_OF_DEEPSTACK),
    RULE("visual.deepstack_merger_list.#.linear_fc2", "v.deepstack.#.fc2", OP_NUMBER_OF_DEEPSTACK),
    {.from = NULL},
};

/* ---- GLM ---- */

static const arch_rule glm_rules[] = {
    QWEN_PATCHES,
    RULE("visual.patch_embed.proj", "v.patch_embd"),
    RULE("visual.embeddings.position_embedding", "v.position_embd"),
    RULE("visual.post_conv_layernorm", "v.norm_embd"),
    RULE("visual.post_layernorm", "v.post_ln"),
    QWEN_LAYERS,
    QWEN_LAYER("attn.qkv", "attn_qkv"),
    QWEN_LAYER("attn.q_norm", "attn_q_norm"),
    QWEN_LAYER("attn.k_norm", "attn_k_norm"),
    QWEN_LAYER("mlp.up_proj", "ffn_up"),
    QWEN_LAYER("mlp.gate_proj", "ffn_gate"),
    QWEN_LAYER("mlp.down_proj", "ffn_down"),
    RULE("visual.merger.proj", "mm.model.fc"),
    RULE("visual.merger.post_projection_norm", "mm.post_norm"),
    RULE("visual.merger.up_proj", "mm.up"),
    RULE("visual.merger.gate_proj", "mm.gate"),
    RULE("visual.merger.down_proj", "mm.down"),
    RULE("visual.downsample", "mm.patch_merger"),
    {.from = NULL},
};

#define GLM_METADATA(kind) \
    LIST(clip_vision_sized), ITEM_NAMES(".vision.image_size", KV_CLIP_POSITIONS, "vision.image_size"), \
        KIND(kind), ITEM_IF(NULL, KV_ACTIVATION, "vision.hidden_act"), EPS_OR("vision.rms_norm_eps", 1e-5)

/* ---- Pixtral ---- */

#define PIXTRAL_LAYER(from, to, ...) VISION_LAYER("vision_tower.transformer.layers.#.", from, to, __VA_ARGS__)

static const arch_rule pixtral_rules[] = {
    RULE("vision_tower.patch_conv", "v.patch_embd"),
    RULE("vision_tower.ln_pre", "v.pre_ln"),
    PIXTRAL_LAYER("attention.q_proj", "attn_q", OP_ROPE_PAIRS_Q),
    PIXTRAL_LAYER("attention.k_proj", "attn_k", OP_ROPE_PAIRS_K),
    PIXTRAL_LAYER("attention.v_proj", "attn_v"),
    PIXTRAL_LAYER("attention.o_proj", "attn_out"),
    PIXTRAL_LAYER("attention_norm", "ln1"),
    PIXTRAL_LAYER("ffn_norm", "ln2"),
    FFN_RULES(PIXTRAL_LAYER, "feed_forward.", "_proj", ""),
    RULE("multi_modal_projector.linear_1", "mm.1"),
    RULE("multi_modal_projector.linear_2", "mm.2"),
    RULE("multi_modal_projector.norm", "mm.input_norm"),
    RULE("multi_modal_projector.patch_merger.merging_layer", "mm.patch_merger"),
    {.from = NULL},
};

#define PIXTRAL_METADATA(kind) \
    LIST(clip_vision), KIND(kind), EPS_OR("vision.layer_norm_eps", 1e-5), \
        ITEM_NAMES(NULL, KV_ACTIVATION, "vision.hidden_act"), \
        U32_IF(".vision.spatial_merge_size", "root.spatial_merge_size")

/* ---- InternVL ---- */

#define INTERN_LAYER(from, to, ...) VISION_LAYER("vision_model.encoder.layers.#.", from, to, __VA_ARGS__)

/* ---- MiniCPM-V ---- */

#define VIT_MERGER(from, to) RULE("model.vision_tower.vit_merger." from, "v.vit_merger." to)

/* ---- Kimi ---- */

#define KIMI_LAYER(from, to, ...) VISION_LAYER("vision_tower.encoder.blocks.#.", from, to, __VA_ARGS__)
#define KIMI_RULES \
    RULE("vision_tower.patch_embed.proj", "v.patch_embd"), KIMI_LAYER("wo", "attn_out"), \
        KIMI_LAYER("norm0", "ln1"), KIMI_LAYER("norm1", "ln2"), KIMI_LAYER("mlp.fc0", "ffn_up"), \
        KIMI_LAYER("mlp.fc1", "ffn_down"), RULE("vision_tower.encoder.final_layernorm", "v.post_ln")

static const arch_rule kimi25_rules[] = {
    KIMI_RULES,
    KIMI_LAYER("wqkv", "attn_qkv", OP_ROPE_AXES_QKV),
    RULE("vision_tower.patch_embed.pos_emb", "v.position_embd"),
    RULE("mm_projector.pre_norm", "mm.input_norm"),
    RULE("mm_projector.proj.linear_#", "mm.#"),
    RULE("mm_projector.linear_#", "mm.#"),
    RULE("mm_projector.proj.0", "mm.1"),
    RULE("mm_projector.proj.2", "mm.2"),
    {.from = NULL},
};

/* The layer that merges GLM's patches, and the part after it. */
#define GLM_SHAPES SHAPES(PATCHES_WITH_BIAS, {"mm.patch_merger", "? ? D A +"}, {"mm.model.fc", "A A"})

const arch_projector arch_projectors_vision[] = {
    {.classes = NAMES("Gemma3ForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"mm.input_projection", "T D"}),
     .vision = "vision_config",
     .vision_missing = SIGLIP_MISSING,
     .takes = NAMES(TOWER_AND_PROJECTOR),
     .is_f32 = NAMES("v.patch_embd.", "v.position_embd."),
     .is_f16 = NAMES("mm.input_projection."),
     .folder =
         {.metadata = METADATA(LIST(clip_vision), KIND("gemma3"), EPS_OR("vision.layer_norm_eps", 1e-6), GELU,
                               ITEM(".vision.projector.scale_factor", KV_CLIP_GEMMA3_SCALE)),
          .rules =
              RULES(VISION_CLIP("vision_tower.vision_model."),
                    RULE("multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"),
                    RULE("multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm", OP_ADD_ONE)),
          .left_out = NAMES("vision_model.head."),
          /* transformers 5 has no "vision_model." in models that it has made anew */
          .renames = RENAMES(
              WITHOUT_MODEL, {"vision_tower.embeddings.", "vision_tower.vision_model.embeddings.", AT_BEGIN},
              {"vision_tower.encoder.", "vision_tower.vision_model.encoder.", AT_BEGIN},
              {"vision_tower.post_layernorm.", "vision_tower.vision_model.post_layernorm.", AT_BEGIN})}},
    {.classes =
         NAMES("Qwen2VLModel", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
     .model_type = "qwen2_vl",
     .vision = "vision_config",
     .vision_missing = QWEN2_MISSING,
     .takes = TAKES_VISUAL,
     .may_lack = NAMES("ffn_gate"),
     .folder = {.metadata = METADATA(QWEN2_METADATA, KIND("qwen2vl_merger"),
                                     U32(".vision.embedding_length", "vision.embed_dim|vision.hidden_size"),
                                     U32(".vision.feed_forward_length", "vision.hidden_size")),
                .rules = qwen2_rules,
                .renames = VISUAL}},
    {.classes =
         NAMES("Qwen2VLModel", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
     .model_type = "qwen2_5_vl",
     .vision = "vision_config",
     .vision_missing = QWEN25_MISSING,
     .takes = TAKES_VISUAL,
     .folder = {.metadata = METADATA(LIST(qwen25_metadata), KIND("qwen2.5vl_merger")),
                .rules = qwen2_rules,
                .renames = VISUAL}},
    {.classes = NAMES("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
                      "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
                      "Qwen4ExpForConditionalGeneration"),
     .vision = "vision_config",
     .vision_missing = QWEN3_MISSING,
     .takes = TAKES_VISUAL,
     .may_lack = NAMES("v.deepstack."),
     .shapes = SHAPES(PATCHES_WITH_BIAS),
     .folder = {.metadata = METADATA(LIST(qwen3_metadata), KIND("qwen3vl_merger")),
                .rules = qwen3_rules,
                .renames = VISUAL}},
    {.classes = NAMES("LlavaForConditionalGeneration", "Mistral3ForConditionalGeneration"),
     .shapes = SHAPES({"mm.input_norm", "D"}, {"mm.patch_merger", "^D D"}),
     .vision = "vision_config",
     .vision_missing = PIXTRAL_MISSING,
     .takes = NAMES(TOWER_AND_PROJECTOR, "embed_tokens.weight"),
     .may_lack = NAMES("mm.input_norm", "mm.patch_merger"),
     .folder = {.metadata = METADATA(EXPECT("vision.model_type=pixtral"), PIXTRAL_METADATA("pixtral")),
                .rules =
                    RULES(RULE("model.embed_tokens.weight", "v.token_embd.img_break", OP_TAKE_IMG_BREAK_ROW)),
                .more = pixtral_rules,
                .renames = RENAMES(WITHOUT_MODEL, {"language_model.", "", ANYWHERE})}},
    {.classes = NAMES("LightOnOCRForConditionalGeneration"),
     .shapes = SHAPES({"mm.input_norm", "D"}, {"mm.patch_merger", "^D D"}),
     .vision = "vision_config",
     .vision_missing = PIXTRAL_MISSING,
     .takes = NAMES("^model.vision_encoder.", "^model.vision_projection.", TOWER_AND_PROJECTOR),
     .folder = {.metadata = METADATA(PIXTRAL_METADATA("lightonocr")),
                .rules = pixtral_rules,
                .renames = RENAMES(WITHOUT_MODEL, {"model.vision_encoder.", "vision_tower.", AT_BEGIN},
                                   {"model.vision_projection.", "multi_modal_projector.", AT_BEGIN})}},
    {.classes = NAMES("Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"mm.model.fc", "^D T"}),
     .vision = "vision_config",
     .vision_missing = IDEFICS3_MISSING,
     .takes = NAMES("vision_tower", "vision_model", "model.connector"),
     .is_f32 = NAMES("v.patch_embd.", "v.position_embd."),
     .folder = {.metadata =
                    METADATA(LIST(clip_vision), KIND("idefics3"), EPS_OR("vision.layer_norm_eps", 1e-5), GELU,
                             SCALE_OR("root.scale_factor", 2),
                             U32(".vision.preproc_image_size", "pre.size.longest_edge|vision.image_size")),
                .rules = RULES(VISION_CLIP("model.vision_model."),
                               RULE("model.connector.modality_projection.proj", "mm.model.fc")),
                .left_out = NAMES("vision_model.head.")}},
    {.classes = NAMES("InternVisionModel"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"mm.model.mlp.0", "^D +"}, {"mm.model.mlp.1", "^D X"}),
     .vision = "vision_config",
     .takes = NAMES("^vision_model.", "^mlp1."),
     .may_lack = NAMES("attn_q_norm", "attn_k_norm"),
     .folder = {.metadata = METADATA(
                    LIST(clip_vision), ITEM_NAMES(".vision.image_size", KV_FIRST, "vision.image_size"),
                    ITEM_NAMES(".vision.patch_size", KV_FIRST, "vision.patch_size"), KIND("internvl"),
                    EPS("vision.layer_norm_eps"), ITEM_NAMES(NULL, KV_ACTIVATION, "vision.hidden_act"),
                    ITEM_NAMES(".vision.projector.scale_factor", KV_INVERSE, "root.downsample_ratio"),
                    U32_IF_NOT_ZERO(".vision.preproc_min_tiles", "root.min_dynamic_patch"),
                    U32_IF_NOT_ZERO(".vision.preproc_max_tiles", "root.max_dynamic_patch")),
                .rules = RULES(
                    RULE("vision_model.embeddings.class_embedding", "v.class_embd"),
                    RULE("vision_model.embeddings.position_embedding", "v.position_embd.weight"),
                    RULE("vision_model.embeddings.patch_embedding", "v.patch_embd"),
                    INTERN_LAYER("attn.qkv", "attn_q|v.blk.#.attn_k|v.blk.#.attn_v", OP_SPLIT_THIRDS),
                    INTERN_LAYER("attn.q_norm", "attn_q_norm"), INTERN_LAYER("attn.k_norm", "attn_k_norm"),
                    INTERN_LAYER("attn.proj", "attn_out"), INTERN_LAYER("norm1", "ln1"),
                    INTERN_LAYER("norm2", "ln2"), INTERN_LAYER("ls1", "ls1.weight"),
                    INTERN_LAYER("ls2", "ls2.weight"), INTERN_LAYER("mlp.fc1", "ffn_up"),
                    INTERN_LAYER("mlp.fc2", "ffn_down"), RULE("mlp1.0", "mm.model.mlp.0"),
                    RULE("mlp1.1", "mm.model.mlp.1"), RULE("mlp1.3", "mm.model.mlp.3"))}},
    {.classes = NAMES("Lfm2VlForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS),
     .vision = "vision_config",
     .vision_missing = SIGLIP_MISSING,
     .takes = NAMES(TOWER_AND_PROJECTOR),
     .folder = {.metadata = METADATA(LIST(clip_vision_sized), U32_IS(".vision.image_size", 256), KIND("lfm2"),
                                     EPS("vision.layer_norm_eps"), SCALE_OR("root.downsample_factor", 2),
                                     GELU, ITEM(".vision.block_count", KV_CLIP_LFM2_BLOCKS)),
                .rules = RULES(RULE("vision_tower.vision_model.embeddings.patch_embedding.weight",
                                    "v.patch_embd.weight", OP_REORDER_PATCHES_LAST),
                               VISION_CLIP("vision_tower.vision_model."),
                               RULE("multi_modal_projector.layer_norm", "mm.input_norm"),
                               RULE("multi_modal_projector.linear_1", "mm.1"),
                               RULE("multi_modal_projector.linear_2", "mm.2")),
                .left_out = NAMES("vision_model.head."),
                .renames = RENAMES(WITHOUT_MODEL)}},
    {.classes = NAMES("MiniCPMV4_6ForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"mm.up", "^D G"}),
     .vision = "vision_config",
     .takes = NAMES("^model.vision_tower.", "^model.merger."),
     .folder = {.metadata = METADATA(LIST(clip_vision_sized),
                                     U32(".vision.image_size", "pre.scale_resolution|vision.image_size"),
                                     KIND("minicpmv4_6"), ITEM(NULL, KV_CLIP_MINICPM), GELU,
                                     EPS_OR("vision.layer_norm_eps", 1e-6)),
                .rules = RULES(VISION_CLIP("model.vision_tower."), VIT_MERGER("layer_norm1", "ln1"),
                               QKV_RULES(VIT_MERGER, "self_attn.", "_proj", "attn_"),
                               VIT_MERGER("self_attn.out_proj", "attn_out"), VIT_MERGER("pre_norm", "ds_ln"),
                               VIT_MERGER("linear_1", "ds_ffn_up"), VIT_MERGER("linear_2", "ds_ffn_down"),
                               RULE("model.merger.mlp.0.pre_norm", "mm.input_norm"),
                               RULE("model.merger.mlp.0.linear_1", "mm.up"),
                               RULE("model.merger.mlp.0.linear_2", "mm.down"))}},
    {.classes = NAMES("KimiVLForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS),
     .vision = "vision_config",
     .takes = NAMES("vision_tower", "multi_modal_projector"),
     .folder = {.metadata = METADATA(LIST(clip_vision_sized), U32_IS(".vision.image_size", 896),
                                     KIND("kimivl"), GELU, U32_IS(".vision.projector.scale_factor", 2),
                                     EPS_OR("vision.layer_norm_eps", 1e-5)),
                .rules = RULES(
                    KIMI_RULES, KIMI_LAYER("wqkv", "attn_q|v.blk.#.attn_k|v.blk.#.attn_v", OP_SPLIT_THIRDS),
                    RULE("vision_tower.patch_embed.pos_emb", "v.position_embd", OP_RESHAPE_POSITIONS),
                    RULE("multi_modal_projector.pre_norm", "mm.input_norm"),
                    RULE("multi_modal_projector.linear_1", "mm.1"),
                    RULE("multi_modal_projector.linear_2", "mm.2"))}},
    {.classes = NAMES("KimiK25ForConditionalGeneration", "Glm5vForConditionalGeneration"),
     .shapes = SHAPES(PATCHES_WITH_BIAS, {"v.position_embd", "D Z Z"}),
     .vision = "vision_config",
     .takes = NAMES("vision_tower", "mm_projector"),
     .folder = {.metadata = METADATA(LIST(clip_vision_sized), ITEM(NULL, KV_CLIP_KIMI25), KIND("kimik25"),
                                     EPS_OR("vision.projector_ln_eps", 1e-5)),
                .rules = kimi25_rules}},
    {.classes = NAMES("Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration",
                      "GlmOcrForConditionalGeneration"),
     .shapes = GLM_SHAPES,
     .vision = "vision_config",
     .feeds = "out_hidden_size", /* of Glm4VisionMlp; intermediate_size is the merger's */
     .takes = TAKES_VISUAL,
     .may_lack = NAMES("attn_q_norm", "attn_k_norm", "v.position_embd", "v.norm_embd"),
     .folder = {.metadata = METADATA(GLM_METADATA("glm4v")), .rules = glm_rules, .renames = VISUAL}},
    {.classes = NAMES("Glm5NextForConditionalGeneration"),
     .shapes = GLM_SHAPES,
     .vision = "vision_config",
     .takes = TAKES_VISUAL,
     .may_lack = NAMES("v.position_embd", "v.norm_embd"),
     .folder = {.metadata = METADATA(GLM_METADATA("glm5v"), MERGE_OR("vision.spatial_merge_size", 2),
                                     FLOAT_IF(".vision.swiglu_clamp", "vision.swiglu_limit"),
                                     ITEM(NULL, KV_CLIP_GLM_PIXELS)),
                .rules = glm_rules,
                .renames = VISUAL}},
    {.classes = NAMES("Llama4ForConditionalGeneration"),
     .shapes = SHAPES({"mm.model.mlp.1", "^D X"}, {"mm.model.mlp.2", "X X"}, {"mm.model.fc", "X T"}),
     .vision = "vision_config",
     .vision_missing = LLAMA4_MISSING,
     .takes = NAMES("multi_modal_projector", "vision_model"),
     .folder = {.metadata = METADATA(
                    LIST(clip_vision), KIND("llama4"), EPS("vision.norm_eps"), GELU,
                    EXPECT("vision.hidden_act=gelu"),
                    ITEM_NAMES(".vision.projector.scale_factor", KV_INVERSE, "vision.pixel_shuffle_ratio")),
                .rules =
                    RULES(RULE("vision_model.class_embedding", "v.class_embd"),
                          RULE("vision_model.patch_embedding.linear", "v.patch_embd"),
                          RULE("vision_model.positional_embedding_vlm", "v.position_embd.weight"),
                          RULE("vision_model.layernorm_pre", "v.pre_ln"),
                          RULE("vision_model.layernorm_post", "v.post_ln"),
                          VISION_QKV("vision_model.model.layers.#.self_attn.", "q_proj", "k_proj", "v_proj"),
                          VISION_LAYER("vision_model.model.layers.#.", "self_attn.o_proj", "attn_out"),
                          VISION_LAYER("vision_model.model.layers.#.", "input_layernorm", "ln1"),
                          VISION_LAYER("vision_model.model.layers.#.", "post_attention_layernorm", "ln2"),
                          VISION_LAYER("vision_model.model.layers.#.", "mlp.fc1", "ffn_up"),
                          VISION_LAYER("vision_model.model.layers.#.", "mlp.fc2", "ffn_down"),
                          RULE("vision_model.vision_adapter.mlp.fc1", "mm.model.mlp.1"),
                          RULE("vision_model.vision_adapter.mlp.fc2", "mm.model.mlp.2"),
                          RULE("multi_modal_projector.linear_1.weight", "mm.model.fc.weight"))}},
    {.classes = NAMES("PaddleOCRVisionModel"),
     .shapes = SHAPES(PATCHES_WITH_BIAS),
     .vision = "vision_config",
     .takes = NAMES("vision_model", "mlp_AR"),
     .folder = {.metadata = METADATA(LIST(clip_vision_sized),
                                     ITEM_NAMES(".vision.image_size", KV_ROOT, "pre.max_pixels"),
                                     KIND("paddleocr"), U32(".vision.image_max_pixels", "pre.max_pixels"),
                                     U32(".vision.image_min_pixels", "pre.min_pixels"), GELU,
                                     EPS_OR("vision.rms_norm_eps", 1e-6)),
                .rules = RULES(VISION_CLIP("model.vision_model."), RULE("mlp_AR.pre_norm", "mm.input_norm"),
                               RULE("mlp_AR.linear_1", "mm.1"), RULE("mlp_AR.linear_2", "mm.2")),
                .left_out = NAMES("packing_position_embedding", "vision_model.head"),
                .renames = RENAMES({"visual.", "model.", ANYWHERE})}},
    {.classes = NAMES("MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3VLForConditionalGeneration"),
     .vision = "vision_config",
     .takes = NAMES("^vision_tower.", "^multi_modal_projector.", "^patch_merge_mlp."),
     .may_lack = NAMES("v.position_embd", "v.post_ln"),
     .folder = {.metadata = METADATA(LIST(clip_vision), KIND("minimax_m3"), GELU,
                                     EPS_OR("vision.layer_norm_eps", 1e-5),
                                     MERGE_OR("vision.img_token_compression_config.spatial_merge_size", 2)),
                .rules = RULES(RULE("vision_tower.vision_model.embeddings.patch_embedding.weight",
                                    "v.patch_embd.weight|v.patch_embd.weight.1", OP_SPLIT_FRAMES),
                               RULE("vision_tower.vision_model.pre_layrnorm", "v.pre_ln"),
                               VISION_LAYER("vision_tower.vision_model.encoder.layers.#.", "self_attn.q_proj",
                                            "attn_q", OP_ROPE_AXES_OF_THREE),
                               VISION_LAYER("vision_tower.vision_model.encoder.layers.#.", "self_attn.k_proj",
                                            "attn_k", OP_ROPE_AXES_OF_THREE),
                               VISION_CLIP("vision_tower.vision_model."),
                               RULE("multi_modal_projector.linear_1", "mm.1"),
                               RULE("multi_modal_projector.linear_2", "mm.2"),
                               RULE("patch_merge_mlp.linear_1", "mm.merger.fc1"),
                               RULE("patch_merge_mlp.linear_2", "mm.merger.fc2"))}},
    {.classes = NAMES("MuseGlimmerForConditionalGeneration"),
     .shapes = SHAPES({"mm.0", "^D X"}, {"mm.1", "X Y"}, {"mm.2", "Y T"}),
     .vision = "vision_config",
     .takes = NAMES("^model.vision_tower.", "^model.vision_adapter.", "^model.vision_projection."),
     .folder = {.metadata = METADATA(LIST(clip_vision_sized), ITEM(".vision.image_size", KV_CLIP_MUSE_SIZE),
                                     KIND("muse-glimmer"), EPS("vision.layer_norm_eps"),
                                     U32(".vision.spatial_merge_size", "vision.merge_size")),
                .rules = RULES(
                    RULE("model.vision_tower.patch_embedder.patch_embedding.weight", "v.patch_embd.weight",
                         OP_SUM_FRAMES),
                    RULE("model.vision_tower.patch_embedder.patch_embedding", "v.patch_embd"),
                    RULE("model.vision_tower.patch_embedder.position_embedding_table", "v.position_embd"),
                    RULE("model.vision_tower.ln_pre", "v.pre_ln"),
                    RULE("model.vision_tower.ln_post", "v.post_ln"),
                    VISION_LAYER("model.vision_tower.layers.#.", "attn.q_proj", "attn_q", OP_ROPE_PAIRS_Q),
                    VISION_LAYER("model.vision_tower.layers.#.", "attn.k_proj", "attn_k", OP_ROPE_PAIRS_K),
                    VISION_LAYER("model.vision_tower.layers.#.", "attn.v_proj", "attn_v"),
                    VISION_LAYER("model.vision_tower.layers.#.", "attn.proj", "attn_out"),
                    VISION_LAYER("model.vision_tower.layers.#.", "norm1", "ln1"),
                    VISION_LAYER("model.vision_tower.layers.#.", "norm2", "ln2"),
                    VISION_LAYER("model.vision_tower.layers.#.", "mlp.fc1", "ffn_up"),
                    VISION_LAYER("model.vision_tower.layers.#.", "mlp.fc2", "ffn_down"),
                    RULE("model.vision_adapter.fc1", "mm.0"), RULE("model.vision_adapter.fc2", "mm.1"),
                    RULE("model.vision_projection", "mm.2"))}},
    {.classes = NULL},
};
