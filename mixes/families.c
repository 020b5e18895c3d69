/* Image and video models: the tensors that their users keep in the precision of the source, and the roles of
 * the others (docs/image-models.md). */
#include <string.h>

#include "arch/arch.h"
#include "mixes/families.h"
#include "mixes/names.h"
#include "mixes/rules.h"

bool mix_is_image_model(const char *name) {
    const architecture *a = name ? arch_named(name) : NULL;
    return a && a->image.keeps;
}

bool mix_family_keeps(const char *const *keeps, const char *name) {
    static const char prefix[] =
        "model.diffusion_model."; /* in files that hold more than the diffusion model */
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
    for (const char *const *k = keeps; *k; k++)
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
