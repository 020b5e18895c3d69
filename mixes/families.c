/* Image and video models: the tensors that their users keep in the precision of the source, and the roles of
 * the others. Where each list comes from is in docs/image-models.md. */
#include <string.h>

#include "mixes/families.h"
#include "mixes/names.h"
#include "mixes/rules.h"

#define KEEP(...) ((const char *const[]){__VA_ARGS__, NULL})

#define FLUX \
    KEEP("img_in.", "txt_in.", "time_in.", "vector_in.", "guidance_in.", "final_layer.", \
         "distilled_guidance_layer.")
#define LUMINA \
    KEEP("t_embedder.", "x_embedder.", "cap_embedder.", "context_refiner.", "noise_refiner.", "final_layer.")

static const mix_family families[] = {
    {"flux", FLUX},
    {"chroma", FLUX},
    {"sd3", KEEP("x_embedder.", "y_embedder.", "t_embedder.", "context_embedder.", "time_text_embed.",
                 "final_layer.", "pos_embed", "=proj_out.weight")},
    {"wan", KEEP("patch_embedding.", "text_embedding.", "time_embedding.", "time_projection.", "img_emb.",
                 "modulation", "head.")},
    {"qwen_image", KEEP("img_in.", "txt_in.", "time_text_embed.", "norm_out.", "=proj_out.weight")},
    {"ltxv",
     KEEP("patchify_proj.", "adaln_single.", "caption_projection.", "proj_out.", "scale_shift_table")},
    {"hyvid", FLUX},
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
    {"lumina2", LUMINA},
    {"z_image", LUMINA},
};

const mix_family *mix_family_of(const char *arch) {
    for (size_t i = 0; arch && i < sizeof families / sizeof *families; i++)
        if (strcmp(arch, families[i].arch) == 0) return &families[i];
    return NULL;
}

bool mix_is_image_model(const char *arch) { return mix_family_of(arch) != NULL; }

bool mix_family_keeps(const mix_family *f, const char *name) {
    static const char prefix[] =
        "model.diffusion_model."; /* in files that hold more than the diffusion model */
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
    for (const char *const *k = f->keep; *k; k++)
        if (mix_name_matches(*k, name)) return true;
    return false;
}

/* First match wins. */
static const struct {
    const char *fragment, *and; /* NULL: nothing else */
    mix_role role;
} roles[] = {
    {"attn_v.weight", NULL, ROLE_IMAGE_V},
    {".to_v.weight", NULL, ROLE_IMAGE_V},
    {".v.weight", NULL, ROLE_IMAGE_V},
    {".attn.w1v.weight", NULL, ROLE_IMAGE_V},
    {".attn.w2v.weight", NULL, ROLE_IMAGE_V},
    {"_attn.v_proj.weight", NULL, ROLE_IMAGE_V},
    {"attn_qkv.weight", NULL, ROLE_IMAGE_QKV},
    {"attn.qkv.weight", NULL, ROLE_IMAGE_QKV},
    {"attention.qkv.weight", NULL, ROLE_IMAGE_QKV},
    {"ffn_down", NULL, ROLE_IMAGE_DOWN},
    {"experts.", ".w2.weight", ROLE_IMAGE_DOWN},
    {".ffn.2.weight", NULL, ROLE_IMAGE_DOWN},
    {".ff.net.2.weight", NULL, ROLE_IMAGE_DOWN},
    {".mlp.layer2.weight", NULL, ROLE_IMAGE_DOWN},
    {".adaln_modulation_mlp.2.weight", NULL, ROLE_IMAGE_DOWN},
    {".feed_forward.w2.weight", NULL, ROLE_IMAGE_DOWN},
};

mix_role mix_image_role_of(const char *name) {
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strstr(name, roles[i].fragment) && (!roles[i].and || strstr(name, roles[i].and)))
            return roles[i].role;
    return ROLE_IMAGE_OTHER;
}
