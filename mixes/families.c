/* Image and video models: the tensors that their users keep in the precision of the source. Where each list
 * comes from is in docs/mixes.md. */
#include <string.h>

#include "mixes/rules.h"

#define KEEP(...) ((const char *const[]){__VA_ARGS__, NULL})

static const mix_family families[] = {
    {"flux", KEEP("img_in.", "txt_in.", "time_in.", "vector_in.", "guidance_in.", "final_layer.")},
    {"sd3", KEEP("x_embedder.", "y_embedder.", "t_embedder.", "context_embedder.", "time_text_embed.",
                 "final_layer.", "pos_embed", "=proj_out.weight")},
    {"wan", KEEP("patch_embedding.", "text_embedding.", "time_embedding.", "time_projection.", "img_emb.",
                 "modulation", "head.")},
    {"qwen_image", KEEP("img_in.", "txt_in.", "time_text_embed.", "norm_out.", "=proj_out.weight")},
    {"ltxv",
     KEEP("patchify_proj.", "adaln_single.", "caption_projection.", "proj_out.", "scale_shift_table")},
    {"hyvid", KEEP("img_in.", "txt_in.", "time_in.", "vector_in.", "guidance_in.", "final_layer.")},
    {"sd1", KEEP("time_embedding.", "time_embed.", "class_embedding.", "conv_in.", "conv_out.",
                 "=input_blocks.0.0.weight", "=out.2.weight")},
    {"sdxl", KEEP("time_embedding.", "time_embed.", "class_embedding.", "add_embedding.", "label_emb.",
                  "conv_in.", "conv_out.", "=input_blocks.0.0.weight", "=out.2.weight")},
    {"aura", KEEP("t_embedder.", "init_x_linear.", "=modF.1.weight", "=cond_seq_linear.weight",
                  "=final_linear.weight")},
    {"hidream", KEEP("p_embedder.", "t_embedder.", "x_embedder.", "caption_projection.", ".ff_i.gate.weight",
                     "final_layer.")},
    {"cosmos",
     KEEP("p_embedder.", "t_embedder.", "x_embedder.", "t_embedding_norm.", "pos_embedder.", "final_layer.")},
    {"lumina2", KEEP("t_embedder.", "x_embedder.", "cap_embedder.", "context_refiner.", "noise_refiner.",
                     "final_layer.")},
};

const mix_family *mix_family_of(const char *arch) {
    for (size_t i = 0; arch && i < sizeof families / sizeof *families; i++)
        if (strcmp(arch, families[i].arch) == 0) return &families[i];
    return NULL;
}
