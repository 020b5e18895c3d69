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

#define DIFFUSERS(file) "the names of diffusers: take the model's original file" file

/* ---- names of diffusers ---- */

#define STREAM(from, to, part, parts) \
    { "transformer_blocks.#." from, "double_blocks.#." to, part, parts, false }
#define SINGLE(from, to, part, parts) \
    { "single_transformer_blocks.#." from, "single_blocks.#." to, part, parts, false }
#define TIME(from, to) \
    {from "linear_1.", to "in_layer.", 0, 0, false}, { from "linear_2.", to "out_layer.", 0, 0, false }

/* What Flux.1 and FLUX.2 share of it. */
#define FLUX_ATTENTION \
    STREAM("attn.to_q.", "img_attn.qkv.", 0, 3), STREAM("attn.to_k.", "img_attn.qkv.", 1, 3), \
        STREAM("attn.to_v.", "img_attn.qkv.", 2, 3), STREAM("attn.add_q_proj.", "txt_attn.qkv.", 0, 3), \
        STREAM("attn.add_k_proj.", "txt_attn.qkv.", 1, 3), \
        STREAM("attn.add_v_proj.", "txt_attn.qkv.", 2, 3), \
        STREAM("attn.norm_q.weight", "img_attn.norm.query_norm.scale", 0, 0), \
        STREAM("attn.norm_k.weight", "img_attn.norm.key_norm.scale", 0, 0), \
        STREAM("attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale", 0, 0), \
        STREAM("attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale", 0, 0), \
        STREAM("attn.to_out.0.", "img_attn.proj.", 0, 0), STREAM("attn.to_add_out.", "txt_attn.proj.", 0, 0)
#define FLUX_ENDS \
    {"context_embedder.", "txt_in.", 0, 0, false}, {"x_embedder.", "img_in.", 0, 0, false}, \
        {"proj_out.", "final_layer.linear.", 0, 0, false}, { \
        "norm_out.linear.", "final_layer.adaLN_modulation.1.", 0, 2, true \
    }

static const arch_image_rename flux_names[] = {
    TIME("time_text_embed.timestep_embedder.", "time_in."),
    TIME("time_embed.timestep_embedder.", "time_in."), /* LongCat */
    TIME("time_text_embed.text_embedder.", "vector_in."),
    TIME("time_text_embed.guidance_embedder.", "guidance_in."),
    STREAM("norm1.linear.", "img_mod.lin.", 0, 0),
    STREAM("norm1_context.linear.", "txt_mod.lin.", 0, 0),
    FLUX_ATTENTION,
    STREAM("ff.net.0.proj.", "img_mlp.0.", 0, 0),
    STREAM("ff.net.2.", "img_mlp.2.", 0, 0),
    STREAM("ff_context.net.0.proj.", "txt_mlp.0.", 0, 0),
    STREAM("ff_context.net.2.", "txt_mlp.2.", 0, 0),
    SINGLE("norm.linear.", "modulation.lin.", 0, 0),
    SINGLE("attn.to_q.", "linear1.", 0, 4),
    SINGLE("attn.to_k.", "linear1.", 1, 4),
    SINGLE("attn.to_v.", "linear1.", 2, 4),
    SINGLE("proj_mlp.", "linear1.", 3, 4),
    SINGLE("attn.norm_q.weight", "norm.query_norm.scale", 0, 0),
    SINGLE("attn.norm_k.weight", "norm.key_norm.scale", 0, 0),
    SINGLE("proj_out.", "linear2.", 0, 0),
    FLUX_ENDS,
    {.from = NULL},
};

/* Modulations of all blocks in one, and matrices of single blocks that diffusers leaves whole. */
static const arch_image_rename flux2_names[] = {
    TIME("time_guidance_embed.timestep_embedder.", "time_in."),
    TIME("time_guidance_embed.guidance_embedder.", "guidance_in."),
    {"double_stream_modulation_img.linear.", "double_stream_modulation_img.lin.", 0, 0, false},
    {"double_stream_modulation_txt.linear.", "double_stream_modulation_txt.lin.", 0, 0, false},
    {"single_stream_modulation.linear.", "single_stream_modulation.lin.", 0, 0, false},
    FLUX_ATTENTION,
    STREAM("ff.linear_in.", "img_mlp.0.", 0, 0),
    STREAM("ff.linear_out.", "img_mlp.2.", 0, 0),
    STREAM("ff_context.linear_in.", "txt_mlp.0.", 0, 0),
    STREAM("ff_context.linear_out.", "txt_mlp.2.", 0, 0),
    SINGLE("attn.to_qkv_mlp_proj.", "linear1.", 0, 0),
    SINGLE("attn.to_out.", "linear2.", 0, 0),
    SINGLE("attn.norm_q.weight", "norm.query_norm.scale", 0, 0),
    SINGLE("attn.norm_k.weight", "norm.key_norm.scale", 0, 0),
    FLUX_ENDS,
    {.from = NULL},
};

#define ATTENTION(blocks) \
    {blocks ".#.attention.to_q.", blocks ".#.attention.qkv.", 0, 3, false}, \
        {blocks ".#.attention.to_k.", blocks ".#.attention.qkv.", 1, 3, false}, \
        {blocks ".#.attention.to_v.", blocks ".#.attention.qkv.", 2, 3, false}, \
        {blocks ".#.attention.to_out.0.", blocks ".#.attention.out.", 0, 0, false}, \
        {blocks ".#.attention.norm_q.", blocks ".#.attention.q_norm.", 0, 0, false}, { \
        blocks ".#.attention.norm_k.", blocks ".#.attention.k_norm.", 0, 0, false \
    }

static const arch_image_rename z_image_names[] = {
    {"all_x_embedder.2-1.", "x_embedder.", 0, 0, false},
    {"all_final_layer.2-1.", "final_layer.", 0, 0, false},
    ATTENTION("noise_refiner"),
    ATTENTION("context_refiner"),
    ATTENTION("layers"),
    {"", "", 0, 0, false},
    {.from = NULL},
};

const architecture arch_rows_images[] = {
    {.name = "qwen_image",
     .image = {.marks = MARKS({.has = {"time_text_embed.timestep_embedder.linear_2.weight",
                                       "transformer_blocks.0.attn.norm_added_q.weight",
                                       "transformer_blocks.0.img_mlp.net.0.proj.weight"}}),
               .keeps = NAMES("img_in.", "txt_in.", "time_text_embed.", "norm_out.", "=proj_out.weight")}},
    {.name = "lens",
     .image = {.marks = MARKS({.has = {"transformer_blocks.0.attn.norm_added_q.weight",
                                       "transformer_blocks.0.img_mlp.w1.weight"}}),
               .keeps = NAMES("img_in.", "txt_in.", "time_text_embed.", "norm_out.", "=proj_out.weight")}},
    /* Its names are Flux's where ComfyUI has stored it anew, so it stands before that. */
    {.name = "hyvid",
     .image = {.marks =
                   MARKS({.has = {"double_blocks.0.img_attn_proj.weight",
                                  "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight"}},
                         {.has = {"double_blocks.0.img_attn.proj.weight",
                                  "txt_in.individual_token_refiner.blocks.0.adaLN_modulation.1.weight"}}),
               .keeps = FLUX}},
    {.name = "flux",
     .image = {.marks = MARKS({.has = {"x_embedder.weight", "single_transformer_blocks.0.proj_mlp.weight",
                                       "transformer_blocks.0.attn.norm_added_k.weight",
                                       "time_text_embed.timestep_embedder.linear_1.weight"},
                               .renames = flux_names},
                              {.has = {"x_embedder.weight", "single_transformer_blocks.0.proj_mlp.weight",
                                       "transformer_blocks.0.attn.norm_added_k.weight",
                                       "time_embed.timestep_embedder.linear_1.weight"},
                               .renames = flux_names},
                              {.has = {"x_embedder.weight", "double_stream_modulation_img.linear.weight",
                                       "single_transformer_blocks.0.attn.to_qkv_mlp_proj.weight",
                                       "time_guidance_embed.timestep_embedder.linear_1.weight"},
                               .renames = flux2_names},
                              {.has = {"transformer_blocks.0.attn.norm_added_k.weight"},
                               .instead = DIFFUSERS(", as flux1-dev.safetensors")},
                              {.has = {"double_blocks.0.img_attn.proj.weight"}}),
               .keeps = FLUX}},
    {.name = "chroma", .image = {.keeps = FLUX}},
    {.name = "sd3",
     .image = {.marks = MARKS({.has = {"transformer_blocks.0.attn.add_q_proj.weight"},
                               .instead = DIFFUSERS(", as sd3.5_large.safetensors")},
                              {.has = {"joint_blocks.0.x_block.attn.qkv.weight"}}),
               .keeps = NAMES("x_embedder.", "y_embedder.", "t_embedder.", "context_embedder.",
                              "time_text_embed.", "final_layer.", "pos_embed", "=proj_out.weight")}},
    {.name = "aura",
     .image = {.marks = MARKS({.has = {"joint_transformer_blocks.3.ff_context.out_projection.weight"},
                               .instead = DIFFUSERS("")},
                              {.has = {"double_layers.3.modX.1.weight"}}),
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
     .image = {.marks = MARKS({.has = {"adaln_single.emb.timestep_embedder.linear_2.weight",
                                       "transformer_blocks.47.scale_shift_table", "patchify_proj.weight"}},
                              {.has = {"adaln_single.emb.timestep_embedder.linear_2.weight",
                                       "transformer_blocks.27.scale_shift_table",
                                       "caption_projection.linear_2.weight"}}),
               .stays = NAMES("scale_shift_table"),
               .keeps = NAMES("patchify_proj.", "adaln_single.", "caption_projection.", "proj_out.",
                              "scale_shift_table", "learnable_registers")}},
    {.name = "wan",
     .image = {.marks = MARKS({.has = {"blocks.0.attn1.norm_q.weight",
                                       "condition_embedder.text_embedder.linear_1.weight"},
                               .instead = DIFFUSERS("")},
                              {.has = {"blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight",
                                       "head.modulation"}}),
               .stays = NAMES(".modulation"),
               .keeps = NAMES("patch_embedding.", "text_embedding.", "time_embedding.", "time_projection.",
                              "img_emb.", "modulation", "head.")}},
    {.name = "krea2",
     .image = {.marks =
                   MARKS({.has = {"text_fusion.projector.weight", "img_in.weight"}, .instead = DIFFUSERS("")},
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
                                       "layers.0.attention.qkv.weight"}}),
               .keeps = NAMES("input_proj.", "llm_cond_norm.", "llm_cond_proj.", "t_embedding.",
                              "adaln_proj.", "embed_image_indicator.", "final_layer.")}},
    {.name = "hidream_o1", /* a language model, whose names begin with "model." for its readers, too */
     .image = {.marks = MARKS(
                   {.has = {"x_embedder.proj1.weight", "language_model.layers.0.self_attn.q_proj.weight"}}),
               .keeps_prefix = true,
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
                               .renames = z_image_names}),
               .stays = NAMES("pad_token"),
               .keeps = LUMINA}},
    {.name = "z_image", .image = {.keeps = LUMINA}},
    {.name = NULL},
};
