/* Variants of architectures with other mixers than attention, and the tensors of those mixers. Sizes are
 * those that the variants' keys say: heads with a recurrent state have STATE rows and columns, and convolutions span
 * TAPS tokens.
 */
#include <math.h>

#include "tests/support/forward_models.h"

#define STATE_SPACE \
    "ssm.conv_kernel=4;ssm.inner_size=24;ssm.state_size=6;ssm.time_step_rank=4;ssm.group_count=2"
#define SELECTION "ssm.conv_kernel=4;ssm.inner_size=24;ssm.state_size=6;ssm.time_step_rank=5"
#define DELTA_NET STATE_SPACE
#define KDA "ssm.conv_kernel=4;kda.head_dim=6"
#define EXPERTS .ffn = 'r', .experts = 6, .used = 2, .ff = 24

const variant variants_mixers[] = {
    {.name = "lfm2",
     .mixers = "ca",
     .tied = true,
     .no_length = true,
     .qk = 'h',
     .last = "token_embd_norm",
     .keys = "shortconv.l_cache=4;attention.head_count_kv=[0,2];attention.sliding_window=6"},
    {.name = "lfm2moe",
     .mixers = "cac",
     .layers = 3,
     .tied = true,
     .no_length = true,
     .qk = 'h',
     .last = "token_embd_norm",
     EXPERTS,
     .dense = 1,
     .choice_bias = true,
     .keys = "shortconv.l_cache=4;attention.head_count_kv=[0,2,0];expert_gating_func=2"},
    {.name = "qwen35",
     .mixers = "da",
     .tied = true,
     .inner = "post_attention_norm",
     .qk = 'h',
     .gated_q = true,
     .keys = DELTA_NET ";full_attention_interval=2;rope.dimension_sections=[1,1,1,1]"},
    {.name = "qwen35moe",
     .mixers = "ada",
     .layers = 3,
     .inner = "post_attention_norm",
     .qk = 'h',
     .gated_q = true,
     .rotated = 6,
     EXPERTS,
     .fused_experts = true,
     .shared = 20,
     .shared_gate = true,
     .extra_last = "blk.2.nextn.eh_proj.weight=64x32;blk.2.nextn.enorm.weight=32;"
                   "blk.2.nextn.hnorm.weight=32;blk.2.nextn.shared_head_norm.weight=32",
     .keys = DELTA_NET
     ";attention.recurrent_layers=[0,1,0];rope.dimension_sections=[2,1,0,0];nextn_predict_layers=1"},
    {.name = "qwen3next",
     .mixers = "ba",
     .inner = "post_attention_norm",
     .qk = 'h',
     .gated_q = true,
     .rotated = 6,
     EXPERTS,
     .shared = 20,
     .shared_gate = true,
     .keys = DELTA_NET ";full_attention_interval=2"},
    {.name = "qwen3next-old",
     .arch = "qwen3next",
     .mixers = "oa",
     .inner = "post_attention_norm",
     .qk = 'h',
     .gated_q = true,
     EXPERTS,
     .shared = 20,
     .shared_gate = true,
     .keys = DELTA_NET ";full_attention_interval=2"},
    {.name = "granitehybrid",
     .mixers = "2a",
     .tied = true,
     EXPERTS,
     .shared = 32,
     .keys = STATE_SPACE ";embedding_scale=6.0;residual_scale=0.4;attention.scale=0.3;logit_scale=1.7;"
                         "attention.head_count_kv=[0,2];expert_shared_feed_forward_length=32"},
    {.name = "mamba", .mixers = "11", .one_sublayer = true, .tied = true, .keys = SELECTION},
    {.name = "mamba-falcon",
     .arch = "mamba",
     .mixers = "11",
     .one_sublayer = true,
     .tied = true,
     .keys = SELECTION ";ssm.dt_b_c_rms=true"},
    {.name = "mamba2", .mixers = "22", .one_sublayer = true, .tied = true, .keys = STATE_SPACE},
    {.name = "jamba",
     .mixers = "ja",
     .no_length = true,
     EXPERTS,
     .dense = 1,
     .keys = SELECTION ";attention.head_count_kv=[0,2]"},
    {.name = "nemotron_h",
     .mixers = "2na",
     .layers = 3,
     .one_sublayer = true,
     .ffn = 'p',
     .ffn_bias = true,
     .out_bias = true,
     .head = 12,
     .keys = STATE_SPACE ";attention.head_count_kv=[0,0,2];feed_forward_length=[0,40,0]"},
    {.name = "falcon-h1", .mixers = "22", .beside = true, .keys = STATE_SPACE},
    {.name = "falcon-h1-plain", .arch = "falcon-h1", .mixers = "hh", .beside = true, .keys = STATE_SPACE},
    {.name = "plamo2",
     .mixers = "pa",
     .tied = true,
     .fused_qkv = true,
     .qk = 'e',
     .value = 10,
     .ffn = 'f',
     .post = true,
     .bare_norms = true,
     .keys = "ssm.conv_kernel=4;ssm.inner_size=24;ssm.state_size=6;ssm.time_step_rank=4;"
             "attention.head_count_kv=[0,2]"},
    {.name = "kimi-linear",
     .mixers = "ka",
     .latent = 'u',
     .kv = 4,
     .head = 14,
     .rotated = 6,
     .value = 10,
     EXPERTS,
     .dense = 1,
     .shared = 24,
     .choice_bias = true,
     .keys = KDA ";attention.head_count_kv=[0,4];expert_gating_func=2;expert_weights_scale=1.4"},
    {.name = "bailingmoe3",
     .mixers = "la",
     .latent = 'f',
     .head = 14,
     .rotated = 6,
     .value = 10,
     .gate = 'h',
     EXPERTS,
     .dense = 1,
     .shared = 24,
     .choice_bias = true,
     .keys = KDA ";attention.head_count_kv=[0,1];kda.gate_lower_bound=-5.0;expert_gating_func=2;"
                 "expert_weights_scale=1.5;expert_weights_norm=true;swiglu_clamp_exp=[0.0,0.4];"
                 "swiglu_clamp_shexp=[0.5,0.3]"},
    {.name = "nemotron_h_moe",
     .mixers = "n2a",
     .layers = 3,
     .one_sublayer = true,
     EXPERTS,
     .plain_experts = true,
     .latents = 20,
     .shared = 24,
     .choice_bias = true,
     .keys = STATE_SPACE ";attention.head_count_kv=[0,0,2];feed_forward_length=[24,0,0];"
                         "expert_weights_norm=true;expert_weights_scale=2.5"},
    {.name = "kimi-k3",
     .mixers = "mam",
     .layers = 3,
     .latent = 'f',
     .head = 14,
     .rotated = 6,
     .value = 10,
     .gate = 'v',
     .extra = "attn_res_score.weight=32;ffn_res_score.weight=32",
     .extra_model = "output_res_score.weight=32",
     EXPERTS,
     .dense = 1,
     .latents = 20,
     .routed_names = true,
     .shared = 24,
     .choice_bias = true,
     .keys = KDA ";attention.head_count_kv=[0,1,0];kda.gate_lower_bound=-5.0;expert_gating_func=2;"
                 "attn_res.block_size=2;"
                 "activation.situ_beta=1.5;activation.situ_linear_beta=2.0"},
    {.name = NULL},
};

/* ---- tensors ---- */

enum { STATE = 6, TAPS = 4, KEY_HEADS = 2, VALUE_HEADS = 4, INNER = 24 };

static void put(const variant_layer *l, const char *name, uint64_t a, uint64_t b, float low, float high) {
    char full[96];
    snprintf(full, sizeof full, "blk.%d.%s", l->index, name);
    variant_add(l->m, l->random, full, GGUF_F32, (uint64_t[4]){a, b}, low, high);
}

static void put_matrix(const variant_layer *l, const char *name, uint64_t in, uint64_t out, float gain) {
    char full[96];
    float most = gain * sqrtf(3.0f / (float)in);
    snprintf(full, sizeof full, "blk.%d.%s.weight", l->index, name);
    variant_add(l->m, l->random, full, l->type, (uint64_t[4]){in, out}, -most, most);
}

static void put_kernel(const variant_layer *l, const char *name, uint64_t taps, uint64_t channels) {
    put(l, name, taps, channels, -1, 1);
}

static void put_shortconv(const variant_layer *l, uint64_t d, uint64_t taps) {
    put_matrix(l, "shortconv.in_proj", d, 3 * d, 1.4f);
    put_kernel(l, "shortconv.conv.weight", taps, d);
    put_matrix(l, "shortconv.out_proj", d, d, 1);
}

/* form: d(elta net of qwen35), b(oth rates in one matrix), o(ld: nearly all in one). */
static void put_delta_net(const variant_layer *l, uint64_t d, char form) {
    uint64_t q = KEY_HEADS * STATE, v = VALUE_HEADS * STATE;
    if (form == 'o') {
        put_matrix(l, "ssm_in", d, 2 * q + 2 * v, 1.4f);
    } else {
        put_matrix(l, "attn_qkv", d, 2 * q + v, 1.4f);
        put_matrix(l, "attn_gate", d, v, 1.4f);
    }
    if (form == 'd') {
        put_matrix(l, "ssm_beta", d, VALUE_HEADS, 1.4f);
        put_matrix(l, "ssm_alpha", d, VALUE_HEADS, 1.4f);
    } else {
        put_matrix(l, "ssm_ba", d, 2 * VALUE_HEADS, 1.4f);
    }
    put_kernel(l, "ssm_conv1d.weight", TAPS, 2 * q + v);
    put(l, "ssm_dt.bias", VALUE_HEADS, 0, -2, 2);
    put(l, "ssm_a", VALUE_HEADS, 0, -1.5f, -0.02f);
    put(l, "ssm_norm.weight", STATE, 0, 0.5f, 1.5f);
    put_matrix(l, "ssm_out", v, d, 1);
}

static void put_mamba1(const variant_layer *l, uint64_t d, bool has_norms) {
    enum { RANK = 5 };
    put_matrix(l, "ssm_in", d, 2 * INNER, 1.4f);
    put_kernel(l, "ssm_conv1d.weight", TAPS, INNER);
    put(l, "ssm_conv1d.bias", INNER, 0, -0.3f, 0.3f);
    put_matrix(l, "ssm_x", INNER, RANK + 2 * STATE, 2);
    put_matrix(l, "ssm_dt", RANK, INNER, 1);
    put(l, "ssm_dt.bias", INNER, 0, -4, 0);
    put(l, "ssm_a", STATE, INNER, -5, -0.3f);
    put(l, "ssm_d", INNER, 0, -1, 1);
    put_matrix(l, "ssm_out", INNER, d, 1);
    if (!has_norms) return;
    put(l, "ssm_dt_norm.weight", RANK, 0, 0.5f, 1.5f);
    put(l, "ssm_b_norm.weight", STATE, 0, 0.5f, 1.5f);
    put(l, "ssm_c_norm.weight", STATE, 0, 0.5f, 1.5f);
}

static void put_mamba2(const variant_layer *l, uint64_t d, bool has_norm) {
    enum { GROUPS = KEY_HEADS, HEADS = VALUE_HEADS, CONVOLVED = INNER + 2 * GROUPS * STATE };
    put_matrix(l, "ssm_in", d, INNER + CONVOLVED + HEADS, 1.4f);
    put_kernel(l, "ssm_conv1d.weight", TAPS, CONVOLVED);
    put(l, "ssm_conv1d.bias", CONVOLVED, 0, -0.3f, 0.3f);
    put(l, "ssm_dt.bias", HEADS, 0, -4, 0);
    put(l, "ssm_a", 1, HEADS, -5, -0.3f);
    put(l, "ssm_d", 1, HEADS, -1, 1);
    if (has_norm) put(l, "ssm_norm.weight", INNER / GROUPS, GROUPS, 0.5f, 1.5f);
    put_matrix(l, "ssm_out", INNER, d, 1);
}

/* form: k(imi's), of low rank; l: one matrix each, and decays with a bound; m: of k3, of low rank but for
 * gates; g: of low rank, with decays that may have a bound. */
static void put_kda(const variant_layer *l, uint64_t d, char form) {
    enum { HEADS = VALUE_HEADS, ROWS = HEADS * STATE };
    static const char *const in[] = {"attn_q", "attn_k", "attn_v"};
    static const char *const kernels[] = {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
                                          "ssm_conv1d_v.weight"};
    for (int i = 0; i < 3; i++) {
        put_matrix(l, in[i], d, ROWS, 1.4f);
        char full[96];
        snprintf(full, sizeof full, "blk.%d.%s", l->index, kernels[i]);
        variant_add(l->m, l->random, full, GGUF_F32, (uint64_t[4]){TAPS, 1, ROWS}, -1, 1);
    }
    put_matrix(l, "ssm_f_a", d, form != 'l' ? STATE : ROWS, 1);
    put_matrix(l, form == 'm' ? "ssm_g" : "ssm_g_a", d, form == 'k' || form == 'g' ? STATE : ROWS, 1.4f);
    if (form != 'l') put_matrix(l, "ssm_f_b", STATE, ROWS, 1);
    if (form == 'k' || form == 'g') put_matrix(l, "ssm_g_b", STATE, ROWS, 1.4f);
    put_matrix(l, "ssm_beta", d, HEADS, 1.4f);
    if (form == 'm' || form == 'g')
        put(l, "ssm_a", HEADS, 0, -1.5f, -0.2f);
    else if (form == 'k')
        put(l, "ssm_a", 1, HEADS, -1.5f, -0.02f);
    else
        put(l, "ssm_a", 1, HEADS, 0.2f, 2);
    put(l, "ssm_dt.bias", ROWS, 0, -2, 2);
    put(l, "ssm_norm.weight", STATE, 0, 0.5f, 1.5f);
    put_matrix(l, "attn_output", ROWS, d, 1);
}

static void put_plamo2(const variant_layer *l, uint64_t d) {
    enum { HEADS = VALUE_HEADS, RANK = 64 };
    put_matrix(l, "ssm_in", d, 2 * INNER, 1.4f);
    put_kernel(l, "ssm_conv1d.weight", TAPS, INNER);
    put_matrix(l, "ssm_x", INNER, RANK + 2 * STATE, 2);
    put_matrix(l, "ssm_dt", RANK, HEADS, 1);
    put(l, "ssm_dt.bias", HEADS, 0, -4, 0);
    put(l, "ssm_dt_norm", RANK, 0, 0.5f, 1.5f);
    put(l, "ssm_b_norm", STATE, 0, 0.5f, 1.5f);
    put(l, "ssm_c_norm", STATE, 0, 0.5f, 1.5f);
    put(l, "ssm_a", HEADS, 0, -5, -0.3f);
    put(l, "ssm_d", HEADS, 0, -1, 1);
    put_matrix(l, "ssm_out", INNER, d, 1);
}

/* form: 6, 7; q, r: those of Qwen's models, without the parts that only RWKV's own have. */
static void put_rwkv(const variant_layer *l, uint64_t d, char form) {
    enum { HEAD = 8, RANK = 4, KV = 2 * HEAD };
    static const char *const lerps[] = {"time_mix_lerp_w", "time_mix_lerp_k", "time_mix_lerp_v",
                                        "time_mix_lerp_r", "time_mix_lerp_g"};
    bool is_6 = form == '6' || form == 'q', is_own = form == '6' || form == '7';
    uint64_t kv = form == 'q' ? KV : d;
    char full[96];
    put_matrix(l, "time_mix_receptance", d, d, 1.4f);
    put_matrix(l, "time_mix_key", d, kv, 1.4f);
    put_matrix(l, "time_mix_value", d, kv, 1);
    put_matrix(l, "time_mix_output", d, d, 1);
    if (is_own) put(l, "time_mix_ln.weight", d, 0, 0.5f, 1.5f), put(l, "time_mix_ln.bias", d, 0, -0.3f, 0.3f);
    if (form == 'q') {
        put(l, "time_mix_receptance.bias", d, 0, -0.5f, 0.5f);
        put(l, "time_mix_key.bias", kv, 0, -0.5f, 0.5f), put(l, "time_mix_value.bias", kv, 0, -0.5f, 0.5f);
    }
    for (int i = 0; form == '6' && l->index % 2 == 0 && i < 5; i++) {
        snprintf(full, sizeof full, "%s.weight", lerps[i]);
        put(l, full, d, 0, 0, 1);
    }
    if (form != '6' || l->index % 2 != 0) {
        snprintf(full, sizeof full, "blk.%d.time_mix_lerp_fused.weight", l->index);
        variant_add(l->m, l->random, full, GGUF_F32, (uint64_t[4]){d, 1, 1, form == '7' ? 6 : 5}, 0, 1);
    }
    if (is_6) {
        put(l, "time_mix_lerp_x.weight", d, 0, 0, 1);
        put(l, "time_mix_w1.weight", d, 5 * RANK, -0.3f, 0.3f);
        snprintf(full, sizeof full, "blk.%d.time_mix_w2.weight", l->index);
        variant_add(l->m, l->random, full, GGUF_F32, (uint64_t[4]){RANK, d, 5}, -0.4f, 0.4f);
        if (is_own) put(l, "time_mix_first.weight", HEAD, d / HEAD, -1, 1);
        put(l, "time_mix_decay.weight", d, 0, -4, 0.5f);
        put(l, "time_mix_decay_w1.weight", d, RANK, -0.3f, 0.3f);
        put(l, "time_mix_decay_w2.weight", RANK, d, -0.4f, 0.4f);
        put_matrix(l, "time_mix_gate", d, d, 1.4f);
        return;
    }
    for (const char *c = is_own ? "wavg" : "wav"; *c; c++) {
        snprintf(full, sizeof full, "time_mix_%c0.weight", *c);
        if (*c != 'g') put(l, full, d, 0, *c == 'w' ? -4 : -1, 1);
        snprintf(full, sizeof full, "time_mix_%c1.weight", *c);
        put(l, full, d, RANK, -0.4f, 0.4f);
        snprintf(full, sizeof full, "time_mix_%c2.weight", *c);
        put(l, full, RANK, d, -0.6f, 0.6f);
    }
    put(l, "time_mix_k_k.weight", d, 0, 0.3f, 1.2f);
    put(l, "time_mix_k_a.weight", d, 0, 0, 1);
    put(l, "time_mix_r_k.weight", d, 0, -0.5f, 0.5f);
}

static void put_lightning(const variant_layer *l, uint64_t d) {
    put_matrix(l, "attn_qkv", d, 3 * d, 1.4f);
    put_matrix(l, "attn_gate", d, d, 1.4f);
    put(l, "attn_norm_2.weight", d, 0, 0.5f, 1.5f);
    put_matrix(l, "attn_output", d, d, 1);
}

void variant_add_mixer(const variant_layer *l, uint64_t width, char kind) {
    switch (kind) {
    case 'c':
        put_shortconv(l, width, TAPS);
        break;
    case 'C': /* of an odd number */
        put_shortconv(l, width, TAPS - 1);
        break;
    case 'd':
    case 'b':
    case 'o':
        put_delta_net(l, width, kind);
        break;
    case '1':
    case 'j':
        put_mamba1(l, width, kind == 'j');
        break;
    case '2':
    case 'h':
        put_mamba2(l, width, kind == '2');
        break;
    case 'k':
    case 'l':
    case 'm':
    case 'g':
        put_kda(l, width, kind);
        break;
    case 'p':
        put_plamo2(l, width);
        break;
    case '6':
    case '7':
    case 'q':
    case 'r':
        put_rwkv(l, width, kind);
        break;
    case 'x':
        put_matrix(l, "attn_output", width, width, 1);
        break;
    case 't':
        put_lightning(l, width);
        break;
    default:
        fail_msg("no mixer '%c'", kind);
    }
}
