/* Reads a tensor's name: its role, and whether it is on the list of tensors that are left alone; and the same
 * of image and video models, whose users keep some tensors in the precision of the source
 * (docs/image-models.md). */
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "mixes/rules.h"

/* A fragment is found anywhere in the name; with '=' before it, it is the whole name. */
static bool name_matches(const char *fragment, const char *name) {
    return *fragment == '=' ? strcmp(fragment + 1, name) == 0 : strstr(name, fragment) != NULL;
}

/* First match wins. */
static const struct {
    const char *fragment;
    mix_role role;
} roles[] = {
    {"=output.weight", ROLE_OUTPUT},
    {"=token_embd.weight", ROLE_EMBED},
    {"=per_layer_token_embd.weight", ROLE_EMBED},
    {"attn_qkv.weight", ROLE_V}, /* fused: as careful as the most sensitive of the three */
    {"attn_kv_b.weight", ROLE_V},
    {"attn_v.weight", ROLE_V},
    {"attn_k.weight", ROLE_K},
    {"attn_q.weight", ROLE_Q},
    {"attn_output.weight", ROLE_O},
    {"ffn_up", ROLE_UP},
    {"ffn_gate", ROLE_GATE},
    {"ffn_down", ROLE_DOWN},
};

mix_role mix_role_of(const char *name) {
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (name_matches(roles[i].fragment, name)) return roles[i].role;
    return ROLE_OTHER;
}

/* First match wins. What follows the fragment in the name follows the outlet as well ("_exps.weight"); where
 * the outlet is the `only` one of its part, just what follows the last dot does. */
static const struct {
    const char *fragment;
    bool only;
    const char *outlets[MIX_OUTLETS]; /* the first that the model has */
} outlets[] = {
    {"attn_qkv", true, {"attn_output", "ssm_out"}},
    {"attn_gate", true, {"attn_output", "ssm_out"}},
    {"attn_q", true, {"attn_output", "attn_o"}},
    {"attn_k", true, {"attn_output", "attn_o"}},
    {"attn_v", true, {"attn_output", "attn_o"}},
    {"ffn_up", false, {"ffn_down"}},
    {"ffn_gate_up", false, {"ffn_down"}},
    {"ffn_gate", false, {"ffn_down"}},
    {"ffn_latent_down", true, {"ffn_latent_up"}},
    {"ffn_routed_down", true, {"ffn_routed_up"}},
    {"ssm_f_", true, {"attn_output"}},
    {"ssm_g", true, {"attn_output"}},
    {"ssm_in", true, {"ssm_out"}},
    {"ssm_x", true, {"ssm_out"}},
    {"ssm_dt", true, {"ssm_out"}},
    {"ssm_b", true, {"ssm_out", "attn_output"}}, /* ssm_beta, ssm_ba */
    {"ssm_alpha", true, {"ssm_out"}},
    {"shortconv.in_proj", true, {"shortconv.out_proj"}},
    {"inp_gate", true, {"proj"}},
    {"time_mix_key", true, {"time_mix_output"}},
    {"time_mix_value", true, {"time_mix_output"}},
    {"time_mix_receptance", true, {"time_mix_output"}},
    {"time_mix_gate", true, {"time_mix_output"}},
    {"channel_mix_key", true, {"channel_mix_value"}},
};

bool mix_outlet(const char *name, size_t i, char outlet[128]) {
    for (size_t k = 0; i < MIX_OUTLETS && k < sizeof outlets / sizeof *outlets; k++) {
        const char *at = strstr(name, outlets[k].fragment);
        if (!at) continue;
        const char *rest = outlets[k].only ? strrchr(at, '.') : at + strlen(outlets[k].fragment);
        const char *to = outlets[k].outlets[i];
        return to && rest && snprintf(outlet, 128, "%.*s%s%s", (int)(at - name), name, to, rest) < 128;
    }
    return false;
}

#define NORM "kept: norm"
#define ROUTER "kept: expert routing"
#define GEMMA3N "kept: Gemma 3n helper"
#define CONVOLUTION "kept: short convolution"
#define INDEXER "kept: sparse attention index"
#define RWKV "kept: small RWKV matrix"
#define POSITION "kept: positions"
#define MEDIA "kept: part of a vision or audio encoder"

static const struct {
    const char *fragment, *why;
} left_alone[] = {
    {"_norm.weight", NORM},
    {"ffn_gate_inp.weight", ROUTER},
    {"ffn_gate_tid2eid.weight", ROUTER},
    {"altup", GEMMA3N},
    {"laurel", GEMMA3N},
    {"per_layer_model_proj", GEMMA3N},
    {"ssm_conv1d", CONVOLUTION},
    {"shortconv.conv.weight", CONVOLUTION},
    {"indexer.k_proj.weight", INDEXER},
    {"indexer.q_proj.weight", INDEXER},
    {"time_mix_first.weight", RWKV},
    {"time_mix_w0.weight", RWKV},
    {"time_mix_w1.weight", RWKV},
    {"time_mix_w2.weight", RWKV},
    {"time_mix_v0.weight", RWKV},
    {"time_mix_v1.weight", RWKV},
    {"time_mix_v2.weight", RWKV},
    {"time_mix_a0.weight", RWKV},
    {"time_mix_a1.weight", RWKV},
    {"time_mix_a2.weight", RWKV},
    {"time_mix_g1.weight", RWKV},
    {"time_mix_g2.weight", RWKV},
    {"time_mix_decay_w1.weight", RWKV},
    {"time_mix_decay_w2.weight", RWKV},
    {"time_mix_lerp_fused.weight", RWKV},
    {"attn_rel_b.weight", POSITION},
    {"=position_embd.weight", POSITION},
    {"=token_types.weight", "kept: token types"},
    {".position_embd", MEDIA},
    {"sam.pos_embd", MEDIA},
    {"sam.neck.", MEDIA},
    {"sam.net_", MEDIA},
    {".rel_pos", MEDIA},
    {".patch_embd", MEDIA},
    {".patch_merger", MEDIA},
    {"a.rvq.codebook", MEDIA},
    {"mm.a.code_embd", MEDIA},
};

const char *mix_left_alone(const char *name) {
    size_t n = strlen(name);
    if (n < 6 || memcmp(name + n - 6, "weight", 6) != 0) return "kept: not named as a weight";
    for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++)
        if (name_matches(left_alone[i].fragment, name)) return left_alone[i].why;
    return NULL;
}

/* ---- image and video models ---- */

bool mix_is_image_model(const char *name) {
    const architecture *a = name ? arch_named(name) : NULL;
    return a && a->image.keeps;
}

bool mix_family_keeps(const char *const *keeps, const char *name) {
    static const char prefix[] =
        "model.diffusion_model."; /* in files that hold more than the diffusion model */
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
    for (const char *const *k = keeps; *k; k++)
        if (name_matches(*k, name)) return true;
    return false;
}

/* First match wins. */
static const struct {
    const char *fragment, *and; /* NULL: nothing else */
    mix_role role;
} image_roles[] = {
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
    for (size_t i = 0; i < sizeof image_roles / sizeof *image_roles; i++)
        if (strstr(name, image_roles[i].fragment) &&
            (!image_roles[i].and || strstr(name, image_roles[i].and)))
            return image_roles[i].role;
    return ROLE_IMAGE_OTHER;
}

/* ---- what an error in a tensor costs (docs/internals/target-size.md), and which tensors an imatrix may lack
 * ---- */

bool mix_is_late_experts(const char *name) { return strstr(name, "_chexps") != NULL; }

bool mix_is_experts(const char *name) { return strstr(name, "exps") != NULL; }

int64_t mix_experts_used(const model_facts *f) {
    int64_t used;
    return model_fact_int(f, "expert_used_count", &used) && used > 0 ? used : 0;
}

uint64_t mix_matrices_met(const char *name, const uint64_t ne[4], const model_facts *f) {
    uint64_t all = shape_matrices(ne), used = mix_is_experts(name) ? (uint64_t)mix_experts_used(f) : 0;
    return used > 0 && used < all ? used : all;
}

double mix_sensitivity(const char *name, double outlet_power, const mix_uses *uses) {
    double factor = outlet_power;
    bool shared = uses->experts_used > 0 && uses->experts_used < uses->n_expert;
    if (shared && mix_is_experts(name)) factor *= (double)uses->experts_used / (double)uses->n_expert;
    if (uses->tied && strcmp(name, "token_embd.weight") == 0) factor *= 2;
    return factor;
}

bool mix_uses_importance(uint32_t from, uint32_t to) { return to != from && tensor_type_of(to)->quantized; }

bool mix_is_outside_importance(const char *name) { return mix_role_of(name) & (ROLE_OUTPUT | ROLE_EMBED); }

bool mix_may_lack_importance(const char *name) { return mix_role_of(name) == ROLE_EMBED; }
