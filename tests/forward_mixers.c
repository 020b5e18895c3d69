/* Tensors of mixers other than attention, for the models of tests/forward_models.c. Sizes are those that the
 * variants' keys say: heads with states have STATE rows and columns, and convolutions see TAPS tokens.
 */
#include <math.h>
#include <stdio.h>

#include "tests/forward_models.h"

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

static void put_shortconv(const variant_layer *l, uint64_t d) {
    put_matrix(l, "shortconv.in_proj", d, 3 * d, 1.4f);
    put_kernel(l, "shortconv.conv.weight", TAPS, d);
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

void variant_add_mixer(const variant_layer *l, uint64_t width, char kind) {
    switch (kind) {
    case 'c':
        put_shortconv(l, width);
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
    default:
        fail_msg("no mixer '%c'", kind);
    }
}
