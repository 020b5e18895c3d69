/* Models of images and videos. Where the list of tensors that their users keep comes from is in docs/image-models.md.
 * Files are recognised in the order of these rows. */
#include "arch/rows.h"

#define FLUX \
    NAMES("img_in.", "txt_in.", "time_in.", "vector_in.", "guidance_in.", "final_layer.", \
          "distilled_guidance_layer.", "stream_modulation", "img_in_patch.", "nerf_image_embedder.", \
          "nerf_final_layer", "byt5_in.", "vision_in.", "time_r_in.", "cond_type_embedding.")
#define LUMINA \
    NAMES("t_embedder.", "x_embedder.", "cap_embedder.", "context_refiner.", "noise_refiner.", "final_layer.")
#define COSMOS \
    "p_embedder.", "t_embedder.", "x_embedder.", "t_embedding_norm.", "pos_embedder.", "final_layer."
#define COSMOS_MARK "blocks.0.mlp.layer1.weight", "blocks.0.adaln_modulation_cross_attn.1.weight"

/* The tensors around the blocks of Flux.1, and those of Stable Diffusion 3. */
#define FLUX_NEEDS \
    "img_in", "txt_in", "time_in.in_layer", "time_in.out_layer", "final_layer.linear", \
        "final_layer.adaLN_modulation.1", "?guidance_in.in_layer", "?guidance_in.out_layer"
#define FLUX1_NEEDS NAMES(FLUX_NEEDS, "vector_in.in_layer", "vector_in.out_layer")
#define SD3_NEEDS \
    NAMES("x_embedder.proj", "context_embedder", "t_embedder.mlp.0", "t_embedder.mlp.2", "y_embedder.mlp.0", \
          "y_embedder.mlp.2", "final_layer.linear", "final_layer.adaLN_modulation.1")
#define WAN_NEEDS \
    NAMES("patch_embedding", "time_embedding.0", "time_embedding.2", "text_embedding.0", "text_embedding.2", \
          "time_projection.1", "head.head")

#define DIFFUSERS(file) "the names of diffusers: take the model's original file" file

/* ---- names of diffusers ---- */

#define PART(from, to, part, parts) \
    { from, to, part, parts, IMAGE_STAYS }
#define NAME(from, to) PART(from, to, 0, 0)
#define QKV(from, to) PART(from "q.", to, 0, 3), PART(from "k.", to, 1, 3), PART(from "v.", to, 2, 3)
#define QKV_ADDED(from, to) \
    PART(from "q_proj.", to, 0, 3), PART(from "k_proj.", to, 1, 3), PART(from "v_proj.", to, 2, 3)
#define OTHERS_STAY NAME("", "")

#define STREAM(from, to) NAME("transformer_blocks.#." from, "double_blocks.#." to)
#define SINGLE(from, to) NAME("single_transformer_blocks.#." from, "single_blocks.#." to)
#define TIME(from, to) NAME(from "linear_1.", to "in_layer."), NAME(from "linear_2.", to "out_layer.")

/* The part of it that Flux.1 and FLUX.2 share. */
#define FLUX_ATTENTION \
    QKV("transformer_blocks.#.attn.to_", "double_blocks.#.img_attn.qkv."), \
        QKV_ADDED("transformer_blocks.#.attn.add_", "double_blocks.#.txt_attn.qkv."), \
        STREAM("attn.norm_q.weight", "img_attn.norm.query_norm.scale"), \
        STREAM("attn.norm_k.weight", "img_attn.norm.key_norm.scale"), \
        STREAM("attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"), \
        STREAM("attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"), \
        STREAM("attn.to_out.0.", "img_attn.proj."), STREAM("attn.to_add_out.", "txt_attn.proj."), \
        SINGLE("attn.norm_q.weight", "norm.query_norm.scale"), \
        SINGLE("attn.norm_k.weight", "norm.key_norm.scale")
#define FINAL_LAYER \
    NAME("proj_out.", "final_layer.linear."), { \
        "norm_out.linear.", "final_layer.adaLN_modulation.1.", 0, 2, IMAGE_HALVES \
    }
#define FLUX_ENDS NAME("context_embedder.", "txt_in."), NAME("x_embedder.", "img_in."), FINAL_LAYER

static const arch_image_rename flux_names[] = {
    TIME("time_text_embed.timestep_embedder.", "time_in."),
    TIME("time_embed.timestep_embedder.", "time_in."), /* LongCat */
    TIME("time_text_embed.text_embedder.", "vector_in."),
    TIME("time_text_embed.guidance_embedder.", "guidance_in."),
    STREAM("norm1.linear.", "img_mod.lin."),
    STREAM("norm1_context.linear.", "txt_mod.lin."),
    FLUX_ATTENTION,
    STREAM("ff.net.0.proj.", "img_mlp.0."),
    STREAM("ff.net.2.", "img_mlp.2."),
    STREAM("ff_context.net.0.proj.", "txt_mlp.0."),
    STREAM("ff_context.net.2.", "txt_mlp.2."),
    SINGLE("norm.linear.", "modulation.lin."),
    PART("single_transformer_blocks.#.attn.to_q.", "single_blocks.#.linear1.", 0, 4),
    PART("single_transformer_blocks.#.attn.to_k.", "single_blocks.#.linear1.", 1, 4),
    PART("single_transformer_blocks.#.attn.to_v.", "single_blocks.#.linear1.", 2, 4),
    PART("single_transformer_blocks.#.proj_mlp.", "single_blocks.#.linear1.", 3, 4),
    SINGLE("proj_out.", "linear2."),
    FLUX_ENDS,
    {.from = NULL},
};

/* Modulations of all blocks in one, and matrices of single blocks that diffusers leaves whole. */
static const arch_image_rename flux2_names[] = {
    TIME("time_guidance_embed.timestep_embedder.", "time_in."),
    TIME("time_guidance_embed.guidance_embedder.", "guidance_in."),
    NAME("double_stream_modulation_img.linear.", "double_stream_modulation_img.lin."),
    NAME("double_stream_modulation_txt.linear.", "double_stream_modulation_txt.lin."),
    NAME("single_stream_modulation.linear.", "single_stream_modulation.lin."),
    FLUX_ATTENTION,
    STREAM("ff.linear_in.", "img_mlp.0."),
    STREAM("ff.linear_out.", "img_mlp.2."),
    STREAM("ff_context.linear_in.", "txt_mlp.0."),
    STREAM("ff_context.linear_out.", "txt_mlp.2."),
    SINGLE("attn.to_qkv_mlp_proj.", "linear1."),
    SINGLE("attn.to_out.", "linear2."),
    FLUX_ENDS,
    {.from = NULL},
};

#define IMAGE(from, to) NAME("transformer_blocks.#." from, "joint_blocks.#.x_block." to)
#define TEXT(from, to) NAME("transformer_blocks.#." from, "joint_blocks.#.context_block." to)

/* The text's part of the last block has a modulation like the end's, and nothing behind its attention. */
static const arch_image_rename sd3_names[] = {
    NAME("time_text_embed.timestep_embedder.linear_1.", "t_embedder.mlp.0."),
    NAME("time_text_embed.timestep_embedder.linear_2.", "t_embedder.mlp.2."),
    NAME("time_text_embed.text_embedder.linear_1.", "y_embedder.mlp.0."),
    NAME("time_text_embed.text_embedder.linear_2.", "y_embedder.mlp.2."),
    NAME("pos_embed.pos_embed", "pos_embed"),
    NAME("pos_embed.proj.", "x_embedder.proj."),
    NAME("context_embedder.", "context_embedder."),
    IMAGE("norm1.linear.", "adaLN_modulation.1."),
    {"transformer_blocks.#.norm1_context.linear.", "joint_blocks.#.context_block.adaLN_modulation.1.", 0, 2,
     IMAGE_HALVES_OF_LAST},
    QKV("transformer_blocks.#.attn.to_", "joint_blocks.#.x_block.attn.qkv."),
    QKV("transformer_blocks.#.attn2.to_", "joint_blocks.#.x_block.attn2.qkv."),
    QKV_ADDED("transformer_blocks.#.attn.add_", "joint_blocks.#.context_block.attn.qkv."),
    IMAGE("attn.norm_q.", "attn.ln_q."),
    IMAGE("attn.norm_k.", "attn.ln_k."),
    IMAGE("attn2.norm_q.", "attn2.ln_q."),
    IMAGE("attn2.norm_k.", "attn2.ln_k."),
    TEXT("attn.norm_added_q.", "attn.ln_q."),
    TEXT("attn.norm_added_k.", "attn.ln_k."),
    IMAGE("attn.to_out.0.", "attn.proj."),
    IMAGE("attn2.to_out.0.", "attn2.proj."),
    TEXT("attn.to_add_out.", "attn.proj."),
    IMAGE("ff.net.0.proj.", "mlp.fc1."),
    IMAGE("ff.net.2.", "mlp.fc2."),
    TEXT("ff_context.net.0.proj.", "mlp.fc1."),
    TEXT("ff_context.net.2.", "mlp.fc2."),
    FINAL_LAYER,
    {.from = NULL},
};

#define ATTENTION(blocks) \
    QKV(blocks ".#.attention.to_", blocks ".#.attention.qkv."), \
        NAME(blocks ".#.attention.to_out.0.", blocks ".#.attention.out."), \
        NAME(blocks ".#.attention.norm_q.", blocks ".#.attention.q_norm."), \
        NAME(blocks ".#.attention.norm_k.", blocks ".#.attention.k_norm.")

static const arch_image_rename z_image_names[] = {
    NAME("all_x_embedder.2-1.", "x_embedder."),
    NAME("all_final_layer.2-1.", "final_layer."),
    ATTENTION("noise_refiner"),
    ATTENTION("context_refiner"),
    ATTENTION("layers"),
    OTHERS_STAY,
    {.from = NULL},
};

static const arch_image_rename ideogram4_names[] = {
    QKV("layers.#.attention.to_", "layers.#.attention.qkv."),
    NAME("layers.#.attention.to_out.0.", "layers.#.attention.o."),
    OTHERS_STAY,
    {.from = NULL},
};

#define KREA_BLOCK(from, to) \
    NAME(from ".#.norm1.weight", to ".#.prenorm.scale"), \
        NAME(from ".#.norm2.weight", to ".#.postnorm.scale"), NAME(from ".#.attn.to_q.", to ".#.attn.wq."), \
        NAME(from ".#.attn.to_k.", to ".#.attn.wk."), NAME(from ".#.attn.to_v.", to ".#.attn.wv."), \
        NAME(from ".#.attn.to_gate.", to ".#.attn.gate."), NAME(from ".#.attn.to_out.0.", to ".#.attn.wo."), \
        NAME(from ".#.attn.norm_q.weight", to ".#.attn.qknorm.qnorm.scale"), \
        NAME(from ".#.attn.norm_k.weight", to ".#.attn.qknorm.knorm.scale"), \
        NAME(from ".#.ff.", to ".#.mlp.")

static const arch_image_rename krea2_names[] = {
    NAME("img_in.", "first."),
    NAME("time_embed.linear_1.", "tmlp.0."),
    NAME("time_embed.linear_2.", "tmlp.2."),
    NAME("time_mod_proj.", "tproj.1."),
    NAME("txt_in.norm.weight", "txtmlp.0.scale"),
    NAME("txt_in.linear_1.", "txtmlp.1."),
    NAME("txt_in.linear_2.", "txtmlp.3."),
    NAME("text_fusion.projector.", "txtfusion.projector."),
    KREA_BLOCK("text_fusion.layerwise_blocks", "txtfusion.layerwise_blocks"),
    KREA_BLOCK("text_fusion.refiner_blocks", "txtfusion.refiner_blocks"),
    KREA_BLOCK("transformer_blocks", "blocks"),
    {"transformer_blocks.#.scale_shift_table", "blocks.#.mod.lin", 0, 0, IMAGE_FLAT},
    NAME("final_layer.linear.", "last.linear."),
    NAME("final_layer.norm.weight", "last.norm.scale"),
    NAME("final_layer.scale_shift_table", "last.modulation.lin"),
    NAME("final_layer.modulation.weight", "last.modulation.lin"), /* as stable-diffusion.cpp has it */
    {.from = NULL},
};

/* HunyuanVideo 1.5 as its makers publish it: queries, keys and values apart, all else as in the first one. */
static const arch_image_rename hyvid_names[] = {
    QKV("double_blocks.#.img_attn_", "double_blocks.#.img_attn_qkv."),
    QKV("double_blocks.#.txt_attn_", "double_blocks.#.txt_attn_qkv."),
    OTHERS_STAY,
    {.from = NULL},
};

#define LTX(from, to) NAME("transformer_blocks.#." from, "transformer_blocks.#." to)
#define LTX_ATTENTION(a) \
    LTX(a ".norm_q.", a ".q_norm."), LTX(a ".norm_k.", a ".k_norm."), LTX(a ".to_", a ".to_")

/* LTX-Video; LTX-2 has names besides, and other parts of what its readers look for. */
static const arch_image_rename ltxv_names[] = {
    NAME("proj_in.", "patchify_proj."),
    NAME("time_embed.", "adaln_single."),
    NAME("caption_projection.", "caption_projection."),
    NAME("scale_shift_table", "scale_shift_table"),
    NAME("proj_out.", "proj_out."),
    LTX_ATTENTION("attn1"),
    LTX_ATTENTION("attn2"),
    LTX("ff.", "ff."),
    LTX("scale_shift_table", "scale_shift_table"),
    {.from = NULL},
};

#define WAN_ATTENTION(from, to) \
    NAME(from "to_q.", to "q."), NAME(from "to_k.", to "k."), NAME(from "to_v.", to "v."), \
        NAME(from "to_out.0.", to "o."), NAME(from "norm_q.", to "norm_q."), \
        NAME(from "norm_k.", to "norm_k.")
#define WAN_BLOCK(block) \
    WAN_ATTENTION(block ".#.attn1.", block ".#.self_attn."), \
        WAN_ATTENTION(block ".#.attn2.", block ".#.cross_attn."), \
        NAME(block ".#.attn2.add_k_proj.", block ".#.cross_attn.k_img."), \
        NAME(block ".#.attn2.add_v_proj.", block ".#.cross_attn.v_img."), \
        NAME(block ".#.attn2.norm_added_k.", block ".#.cross_attn.norm_k_img."), \
        NAME(block ".#.norm2.", block ".#.norm3."), NAME(block ".#.ffn.net.0.proj.", block ".#.ffn.0."), \
        NAME(block ".#.ffn.net.2.", block ".#.ffn.2."), \
        NAME(block ".#.scale_shift_table", block ".#.modulation")
#define WAN_IMAGE(from, to) NAME("condition_embedder.image_embedder." from, "img_emb.proj." to)

static const arch_image_rename wan_names[] = {
    NAME("patch_embedding.", "patch_embedding."),
    NAME("condition_embedder.time_embedder.linear_1.", "time_embedding.0."),
    NAME("condition_embedder.time_embedder.linear_2.", "time_embedding.2."),
    NAME("condition_embedder.text_embedder.linear_1.", "text_embedding.0."),
    NAME("condition_embedder.text_embedder.linear_2.", "text_embedding.2."),
    NAME("condition_embedder.time_proj.", "time_projection.1."),
    WAN_IMAGE("norm1.", "0."),
    WAN_IMAGE("ff.net.0.proj.", "1."),
    WAN_IMAGE("ff.net.2.", "3."),
    WAN_IMAGE("norm2.", "4."),
    NAME("condition_embedder.image_embedder.pos_embed", "img_emb.emb_pos"),
    WAN_BLOCK("blocks"),
    WAN_BLOCK("vace_blocks"),
    NAME("vace_blocks.#.proj_in.", "vace_blocks.#.before_proj."),
    NAME("vace_blocks.#.proj_out.", "vace_blocks.#.after_proj."),
    NAME("vace_patch_embedding.", "vace_patch_embedding."),
    NAME("scale_shift_table", "head.modulation"),
    NAME("proj_out.", "head.head."),
    {.from = NULL},
};

const architecture arch_rows_images[] = {
    {.name = "qwen_image",
     .image = {.marks = MARKS({.has = {"time_text_embed.timestep_embedder.linear_2.weight",
                                       "transformer_blocks.0.attn.norm_added_q.weight",
                                       "transformer_blocks.0.img_mlp.net.0.proj.weight"}},
                              /* 2.1: one modulation for all blocks */
                              {.has = {"txt_in.text_norm.weight", "modulation.1.weight", "proj_out.weight",
                                       "transformer_blocks.0.attn.norm_q.weight"}}),
               .keeps = NAMES("img_in.", "txt_in.", "time_text_embed.", "norm_out.", "=proj_out.weight",
                              "=modulation.1.weight")}},
    {.name = "lens",
     .image = {.marks = MARKS({.has = {"transformer_blocks.0.attn.norm_added_q.weight",
                                       "transformer_blocks.0.img_mlp.w1.weight"}}),
               .keeps = NAMES("img_in.", "txt_in.", "time_text_embed.", "norm_out.", "=proj_out.weight")}},
    /* Before Flux, because files that ComfyUI has written use Flux's names. */
    {.name = "hyvid",
     .image = {.marks =
                   MARKS({.has = {"context_embedder.proj_in.weight", "x_embedder.proj.weight",
                                  "transformer_blocks.0.attn.norm_added_k.weight"},
                          .instead = DIFFUSERS("")},
                         {.has = {"double_blocks.0.img_attn_q.weight", "double_blocks.0.img_attn_proj.weight",
                                  "txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight"},
                          .renames = hyvid_names},
                         {.has = {"double_blocks.0.img_attn_proj.weight",
                                  "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight"}},
                         {.has = {"double_blocks.0.img_attn.proj.weight",
                                  "txt_in.individual_token_refiner.blocks.0.adaLN_modulation.1.weight"}}),
               .keeps = FLUX}},
    {.name = "flux",
     .image = {.marks = MARKS({.has = {"x_embedder.weight", "single_transformer_blocks.0.proj_mlp.weight",
                                       "transformer_blocks.0.attn.norm_added_k.weight",
                                       "time_text_embed.timestep_embedder.linear_1.weight"},
                               .renames = flux_names,
                               .needs = FLUX1_NEEDS},
                              {.has = {"x_embedder.weight", "single_transformer_blocks.0.proj_mlp.weight",
                                       "transformer_blocks.0.attn.norm_added_k.weight",
                                       "time_embed.timestep_embedder.linear_1.weight"},
                               .renames = flux_names,
                               .needs = NAMES(FLUX_NEEDS)},
                              {.has = {"x_embedder.weight", "double_stream_modulation_img.linear.weight",
                                       "single_transformer_blocks.0.attn.to_qkv_mlp_proj.weight",
                                       "time_guidance_embed.timestep_embedder.linear_1.weight"},
                               .renames = flux2_names},
                              {.has = {"transformer_blocks.0.attn.norm_added_k.weight"},
                               .instead = DIFFUSERS(", as flux1-dev.safetensors")},
                              {.has = {"double_blocks.0.img_attn.proj.weight",
                                       "double_blocks.0.img_mod.lin.weight", "vector_in.in_layer.weight"},
                               .needs = FLUX1_NEEDS},
                              {.has = {"double_blocks.0.img_attn.proj.weight"}}),
               .keeps = FLUX}},
    {.name = "chroma", .image = {.keeps = FLUX}},
    {.name = "sd3",
     .image = {.marks = MARKS({.has = {"pos_embed.proj.weight", "context_embedder.weight",
                                       "transformer_blocks.0.attn.add_q_proj.weight",
                                       "time_text_embed.text_embedder.linear_1.weight"},
                               .renames = sd3_names,
                               .needs = SD3_NEEDS},
                              {.has = {"transformer_blocks.0.attn.add_q_proj.weight"},
                               .instead = DIFFUSERS(", as sd3.5_large.safetensors")},
                              {.has = {"joint_blocks.0.x_block.attn.qkv.weight"}, .needs = SD3_NEEDS}),
               .last_differs = true,
               .keeps = NAMES("x_embedder.", "y_embedder.", "t_embedder.", "context_embedder.",
                              "time_text_embed.", "final_layer.", "pos_embed", "=proj_out.weight")}},
    {.name = "aura",
     .image = {.marks = MARKS({.has = {"joint_transformer_blocks.3.ff_context.out_projection.weight"},
                               .instead = DIFFUSERS("")},
                              {.has = {"double_layers.3.modX.1.weight"}},
                              {.has = {"double_layers.0.attn.w1q.weight", "cond_seq_linear.weight"}}),
               .keeps = NAMES("t_embedder.", "init_x_linear.", "=modF.1.weight", "=cond_seq_linear.weight",
                              "=final_linear.weight")}},
    {.name = "hidream",
     .image = {.marks = MARKS({.has = {"caption_projection.0.linear.weight",
                                       "double_stream_blocks.0.block.ff_i.shared_experts.w3.weight"}}),
               .stays = NAMES(".ff_i.gate.weight", "img_emb.emb_pos"),
               .keeps = NAMES("p_embedder.", "t_embedder.", "x_embedder.", "caption_projection.",
                              ".ff_i.gate.weight", "final_layer.")}},
    {.name = "anima", /* Cosmos, and an adapter of texts */
     .image = {.marks = MARKS({.has = {COSMOS_MARK, "llm_adapter.blocks.0.cross_attn.q_proj.weight"}}),
               .stays = NAMES("pos_embedder"),
               .left_out = NAMES("_extra_state", "accum_"),
               .keeps = NAMES(COSMOS, "llm_adapter.", "blocks.0.", "blocks.1.adaln_modulation")}},
    {.name = "cosmos",
     .image = {.marks = MARKS({.has = {COSMOS_MARK}}),
               .stays = NAMES("pos_embedder"),
               .left_out = NAMES("_extra_state", "accum_"),
               .keeps = NAMES(COSMOS)}},
    {.name = "ltxv",
     .image = {.marks = MARKS(
                   {.has = {"adaln_single.emb.timestep_embedder.linear_2.weight",
                            "transformer_blocks.47.scale_shift_table", "patchify_proj.weight"}},
                   {.has = {"adaln_single.emb.timestep_embedder.linear_2.weight",
                            "transformer_blocks.27.scale_shift_table", "caption_projection.linear_2.weight"}},
                   {.has = {"adaln_single.emb.timestep_embedder.linear_2.weight",
                            "transformer_blocks.0.scale_shift_table", "patchify_proj.weight"}},
                   {.has = {"time_embed.emb.timestep_embedder.linear_2.weight", "proj_in.weight",
                            "transformer_blocks.0.scale_shift_table"},
                    .renames = ltxv_names}),
               .stays = NAMES("scale_shift_table"),
               .keeps = NAMES("patchify_proj.", "adaln_single.", "caption_projection.", "proj_out.",
                              "scale_shift_table", "learnable_registers")}},
    {.name = "wan",
     .image = {.marks = MARKS(
                   {.has = {"blocks.0.attn1.norm_q.weight",
                            "condition_embedder.text_embedder.linear_1.weight"},
                    .renames = wan_names,
                    .needs = WAN_NEEDS},
                   {.has = {"blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "head.modulation"},
                    .needs = WAN_NEEDS}),
               .stays = NAMES(".modulation"),
               .keeps = NAMES("patch_embedding.", "text_embedding.", "time_embedding.", "time_projection.",
                              "img_emb.", "modulation", "head.")}},
    {.name = "krea2",
     .image = {.marks =
                   MARKS({.has = {"text_fusion.projector.weight", "img_in.weight"}, .renames = krea2_names},
                         {.has = {"blocks.0.attn.qknorm.qnorm.scale", "txtfusion.projector.weight"}}),
               .stays = NAMES(".mod.lin", ".modulation.lin"),
               .keeps = NAMES("txtfusion.", "tmlp.", "txtmlp.", "tproj.", "first.", "last.")}},
    {.name = "ernie",
     .image = {.marks = MARKS({.has = {"adaLN_modulation.1.weight", "x_embedder.proj.weight",
                                       "text_proj.weight", "layers.0.mlp.linear_fc2.weight"}}),
               .keeps = NAMES("x_embedder.", "text_proj.", "time_embedding.", "adaLN_modulation.",
                              "final_norm.", "final_linear.")}},
    {.name = "ideogram4",
     .image = {.marks = MARKS({.has = {"embed_image_indicator.weight", "llm_cond_proj.weight",
                                       "layers.0.attention.qkv.weight"}},
                              {.has = {"embed_image_indicator.weight", "llm_cond_proj.weight",
                                       "layers.0.attention.to_q.weight"},
                               .renames = ideogram4_names}),
               .keeps = NAMES("input_proj.", "llm_cond_norm.", "llm_cond_proj.", "t_embedding.",
                              "adaln_proj.", "embed_image_indicator.", "final_layer.")}},
    {.name = "hidream_o1", /* a language model, whose names begin with "model." for its readers, too */
     .image = {.marks = MARKS(
                   {.has = {"x_embedder.proj1.weight", "language_model.layers.0.self_attn.q_proj.weight"}}),
               .begins = "model.",
               .keeps = NAMES("x_embedder.", "t_embedder1.", "final_layer2.", "embed_tokens.", "visual.")}},
    {.name = "sdxl",
     .image = {.marks = MARKS(
                   {.has = {"down_blocks.0.downsamplers.0.conv.weight", "add_embedding.linear_1.weight"}},
                   {.has = {"input_blocks.3.0.op.weight", "input_blocks.6.0.op.weight",
                            "output_blocks.2.2.conv.weight", "output_blocks.5.2.conv.weight"}},
                   {.has = {"label_emb.0.0.weight"}}),
               .folds = true,
               .keeps =
                   NAMES("time_embedding.", "time_embed.", "class_embedding.", "add_embedding.", "label_emb.",
                         "conv_in.", "conv_out.", "=input_blocks.0.0.weight", "=out.2.weight")}},
    {.name = "sd1",
     .image = {.marks = MARKS({.has = {"down_blocks.0.downsamplers.0.conv.weight"}},
                              {.has = {"input_blocks.3.0.op.weight", "input_blocks.9.0.op.weight",
                                       "output_blocks.2.1.conv.weight", "output_blocks.8.2.conv.weight"}}),
               .folds = true,
               .keeps = NAMES("time_embedding.", "time_embed.", "class_embedding.", "conv_in.", "conv_out.",
                              "=input_blocks.0.0.weight", "=out.2.weight")}},
    {.name = "lumina2",
     .image = {.marks = MARKS({.has = {"cap_embedder.1.weight", "context_refiner.0.attention.qkv.weight"}},
                              {.has = {"cap_embedder.1.weight", "all_x_embedder.2-1.weight",
                                       "context_refiner.0.attention.to_q.weight"},
                               .renames = z_image_names},
                              {.has = {"time_caption_embed.caption_embedder.1.weight",
                                       "context_refiner.0.attn.to_q.weight"},
                               .instead = DIFFUSERS("")}),
               .stays = NAMES("pad_token"),
               .keeps = LUMINA}},
    {.name = "z_image", .image = {.keeps = LUMINA}},
    {.name = NULL},
};
