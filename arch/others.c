/* Architectures that cannot be run: encoders, diffusion models, drafts, and models of images and videos. */
#include "arch/rows.h"

#define KEEP(...) \
    (const char *const[]) { __VA_ARGS__, NULL }

#define FLUX \
    KEEP("img_in.", "txt_in.", "time_in.", "vector_in.", "guidance_in.", "final_layer.", \
         "distilled_guidance_layer.")
#define LUMINA \
    KEEP("t_embedder.", "x_embedder.", "cap_embedder.", "context_refiner.", "noise_refiner.", "final_layer.")

const architecture arch_rows_others[] = {
    {.name = "bert", .kind = "an encoder"},
    {.name = "modern-bert", .kind = "an encoder"},
    {.name = "neo-bert", .kind = "an encoder"},
    {.name = "nomic-bert", .kind = "an encoder"},
    {.name = "nomic-bert-moe", .kind = "an encoder"},
    {.name = "jina-bert-v2", .kind = "an encoder"},
    {.name = "jina-bert-v3", .kind = "an encoder"},
    {.name = "eurobert", .kind = "an encoder"},
    {.name = "gemma-embedding", .kind = "an encoder"},
    {.name = "llama-embed", .kind = "an encoder", .mix = {.big_blocks = 80, .big_if_grouped = true}},
    {.name = "t5encoder", .kind = "an encoder"},
    {.name = "t5", .kind = "an encoder with a decoder"},
    {.name = "dream", .kind = "a diffusion model"},
    {.name = "llada", .kind = "a diffusion model"},
    {.name = "llada-moe", .kind = "a diffusion model"},
    {.name = "rnd1", .kind = "a diffusion model"},
    {.name = "clip", .kind = "an encoder of images", .mix = {.has_no_blocks = true}},
    {.name = "wavtokenizer-dec", .kind = "a decoder of audio"},
    {.name = "eagle3", .kind = "a draft, which continues another model's states"},
    {.name = "dflash", .kind = "a draft, which continues another model's states"},
    {.name = "gemma4-assistant", .kind = "a draft, which continues another model's states"},
    {.name = "rwkv6", .kind = "a recurrent model of the RWKV family", .predicts = true},
    {.name = "rwkv6qwen2", .kind = "a recurrent model of the RWKV family", .predicts = true},
    {.name = "rwkv7", .kind = "a recurrent model of the RWKV family", .predicts = true},
    {.name = "arwkv7", .kind = "a recurrent model of the RWKV family", .predicts = true},
    {.name = "deci", .mix = {.big_blocks = 80}},
    /* images and videos: where each list of tensors comes from is in docs/image-models.md */
    {.name = "flux", .mix = {.keeps = FLUX}},
    {.name = "chroma", .mix = {.keeps = FLUX}},
    {.name = "sd3",
     .mix = {.keeps = KEEP("x_embedder.", "y_embedder.", "t_embedder.", "context_embedder.",
                           "time_text_embed.", "final_layer.", "pos_embed", "=proj_out.weight")}},
    {.name = "wan",
     .mix = {.keeps = KEEP("patch_embedding.", "text_embedding.", "time_embedding.", "time_projection.",
                           "img_emb.", "modulation", "head.")}},
    {.name = "qwen_image",
     .mix = {.keeps = KEEP("img_in.", "txt_in.", "time_text_embed.", "norm_out.", "=proj_out.weight")}},
    {.name = "ltxv",
     .mix = {.keeps = KEEP("patchify_proj.", "adaln_single.", "caption_projection.", "proj_out.",
                           "scale_shift_table")}},
    {.name = "hyvid", .mix = {.keeps = FLUX}},
    {.name = "sd1",
     .mix = {.keeps = KEEP("time_embedding.", "time_embed.", "class_embedding.", "conv_in.", "conv_out.",
                           "=input_blocks.0.0.weight", "=out.2.weight")}},
    {.name = "sdxl",
     .mix = {.keeps =
                 KEEP("time_embedding.", "time_embed.", "class_embedding.", "add_embedding.", "label_emb.",
                      "conv_in.", "conv_out.", "=input_blocks.0.0.weight", "=out.2.weight")}},
    {.name = "aura",
     .mix = {.keeps = KEEP("t_embedder.", "init_x_linear.", "=modF.1.weight", "=cond_seq_linear.weight",
                           "=final_linear.weight")}},
    {.name = "hidream",
     .mix = {.keeps = KEEP("p_embedder.", "t_embedder.", "x_embedder.", "caption_projection.",
                           ".ff_i.gate.weight", "final_layer.")}},
    {.name = "cosmos",
     .mix = {.keeps = KEEP("p_embedder.", "t_embedder.", "x_embedder.", "t_embedding_norm.", "pos_embedder.",
                           "final_layer.")}},
    {.name = "lumina2", .mix = {.keeps = LUMINA}},
    {.name = "z_image", .mix = {.keeps = LUMINA}},
    {.name = NULL},
};
