/* Scalar decoders, one element at a time, as the format description puts them. Slow and plain on purpose:
 * they share no code with the kernels that they check. */
#include "codec/codec.h"

#include <math.h>
#include <string.h>

#include "codec/grids.h"

static unsigned low_nibble(uint8_t b) { return b & 15; }
static unsigned high_nibble(uint8_t b) { return b >> 4; }
static unsigned nibble_of(uint8_t b, size_t n) { return n ? high_nibble(b) : low_nibble(b); }
static unsigned bit_field(unsigned b, size_t shift, unsigned width) {
    return b >> shift & ((1u << width) - 1);
}
static unsigned reference_u16(const uint8_t *p) { return p[0] | (unsigned)p[1] << 8; }
static uint32_t reference_u32(const uint8_t *p) {
    return reference_u16(p) | (uint32_t)reference_u16(p + 2) << 16;
}
static float reference_float(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static float reference_half(const uint8_t *p) {
    unsigned h = reference_u16(p), e = h >> 10 & 31, f = h & 1023;
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    if (e == 31) return reference_float(sign | 0x7f800000 | f << 13 | (f ? 0x400000 : 0));
    float v = e ? ldexpf((float)(1024 + f), (int)e - 25) : ldexpf((float)f, -24);
    return sign ? -v : v;
}

static float iq4_value(unsigned q) {
    static const float t[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return t[q];
}
static float fp4_value(unsigned q) {
    static const float t[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return t[q];
}

static float element_q4_0(const uint8_t *b, size_t i) {
    return reference_half(b) * ((float)nibble_of(b[2 + i % 16], i / 16) - 8);
}
static float element_q4_1(const uint8_t *b, size_t i) {
    return reference_half(b) * (float)nibble_of(b[4 + i % 16], i / 16) + reference_half(b + 2);
}
static float element_q5_0(const uint8_t *b, size_t i) {
    unsigned q = nibble_of(b[6 + i % 16], i / 16) + 16 * bit_field(b[2 + i / 8], i % 8, 1);
    return reference_half(b) * ((float)q - 16);
}
static float element_q5_1(const uint8_t *b, size_t i) {
    unsigned q = nibble_of(b[8 + i % 16], i / 16) + 16 * bit_field(b[4 + i / 8], i % 8, 1);
    return reference_half(b) * (float)q + reference_half(b + 2);
}
static float element_q8_0(const uint8_t *b, size_t i) { return reference_half(b) * (float)(int8_t)b[2 + i]; }
static float element_q8_1(const uint8_t *b, size_t i) { return reference_half(b) * (float)(int8_t)b[4 + i]; }
static float element_q8_k(const uint8_t *b, size_t i) {
    return reference_float(reference_u32(b)) * (float)(int8_t)b[4 + i];
}
static float element_iq4_nl(const uint8_t *b, size_t i) {
    return reference_half(b) * iq4_value(nibble_of(b[2 + i % 16], i / 16));
}

static float element_q2_k(const uint8_t *b, size_t i) {
    size_t s = i / 16;
    unsigned q = bit_field(b[16 + 32 * (i / 128) + i % 32], 2 * (i / 32 % 4), 2);
    return reference_half(b + 80) * (float)low_nibble(b[s]) * (float)q -
           reference_half(b + 82) * (float)high_nibble(b[s]);
}
static float element_q3_k(const uint8_t *b, size_t i) {
    size_t s = i / 16;
    unsigned low = bit_field(b[32 + 32 * (i / 128) + i % 32], 2 * (i / 32 % 4), 2),
             high = bit_field(b[i % 32], i / 32, 1);
    unsigned u = nibble_of(b[96 + s % 8], s / 8) + 16 * bit_field(b[104 + s % 4], 2 * (s / 4), 2);
    return reference_half(b + 108) * ((float)u - 32) * ((float)(low + 4 * high) - 4);
}
static void k_pair(const uint8_t *s, size_t k, float *scale, float *min) {
    *scale = (float)(k < 4 ? s[k] & 63u : low_nibble(s[k + 4]) + 16u * (s[k - 4] >> 6));
    *min = (float)(k < 4 ? s[k + 4] & 63u : high_nibble(s[k + 4]) + 16u * (s[k] >> 6));
}
static float element_q4_k(const uint8_t *b, size_t i) {
    float sc, mn;
    k_pair(b + 4, i / 32, &sc, &mn);
    return reference_half(b) * sc * (float)nibble_of(b[16 + 32 * (i / 64) + i % 32], i / 32 % 2) -
           reference_half(b + 2) * mn;
}
static float element_q5_k(const uint8_t *b, size_t i) {
    float sc, mn;
    k_pair(b + 4, i / 32, &sc, &mn);
    unsigned q =
        nibble_of(b[48 + 32 * (i / 64) + i % 32], i / 32 % 2) + 16 * bit_field(b[16 + i % 32], i / 32, 1);
    return reference_half(b) * sc * (float)q - reference_half(b + 2) * mn;
}
static float element_q6_k(const uint8_t *b, size_t i) {
    size_t h = i / 128, k = i / 32 % 4, l = i % 32;
    unsigned q =
        nibble_of(b[64 * h + 32 * (k % 2) + l], k / 2) + 16 * bit_field(b[128 + 32 * h + l], 2 * k, 2);
    return reference_half(b + 208) * (float)(int8_t)b[192 + i / 16] * ((float)q - 32);
}
static float element_iq4_xs(const uint8_t *b, size_t i) {
    size_t s = i / 32;
    unsigned u = nibble_of(b[4 + s / 2], s % 2) + 16 * bit_field(reference_u16(b + 2), 2 * s, 2);
    return reference_half(b) * ((float)u - 32) * iq4_value(nibble_of(b[8 + 16 * s + i % 16], i / 16 % 2));
}
static float element_tq1_0(const uint8_t *b, size_t i) {
    static const unsigned power[5] = {1, 3, 9, 27, 81};
    size_t at, n;
    if (i < 160)
        at = i % 32, n = i / 32;
    else if (i < 240)
        at = 32 + (i - 160) % 16, n = (i - 160) / 16;
    else
        at = 48 + (i - 240) % 4, n = (i - 240) / 4;
    unsigned t = (b[at] * power[n] % 256 * 3) >> 8;
    return ((float)t - 1) * reference_half(b + 52);
}
static float element_tq2_0(const uint8_t *b, size_t i) {
    return ((float)bit_field(b[32 * (i / 128) + i % 32], 2 * (i / 32 % 4), 2) - 1) * reference_half(b + 64);
}
static float element_q1_0(const uint8_t *b, size_t i) {
    return bit_field(b[2 + i / 8], i % 8, 1) ? reference_half(b) : -reference_half(b);
}
static float element_q2_0(const uint8_t *b, size_t i) {
    return ((float)bit_field(b[2 + i / 4], 2 * (i % 4), 2) - 1) * reference_half(b);
}
static float element_mxfp4(const uint8_t *b, size_t i) {
    return ldexpf(fp4_value(nibble_of(b[1 + i % 16], i / 16)), b[0] - 128);
}
static float element_nvfp4(const uint8_t *b, size_t i) {
    size_t s = i / 16;
    unsigned e = bit_field(b[s], 3, 4), m = bit_field(b[s], 0, 3);
    float scale = e ? ldexpf(1 + (float)m / 8, (int)e - 7) : ldexpf((float)m, -9);
    if (b[s] == 0x7f) scale = 0;
    return fp4_value(nibble_of(b[4 + 8 * s + i % 8], i / 8 % 2)) * (scale / 2);
}
static float element_f32(const uint8_t *b, size_t i) { return (void)i, reference_float(reference_u32(b)); }
static float element_f16(const uint8_t *b, size_t i) { return (void)i, reference_half(b); }
static float element_bf16(const uint8_t *b, size_t i) {
    return (void)i, reference_float((uint32_t)reference_u16(b) << 16);
}

/* ---- grids ---- */
static unsigned grid_digit(uint16_t entry, size_t j, unsigned width) {
    return bit_field(entry, width * j, width);
}
static float iq2_level(uint16_t entry, size_t j) {
    static const float t[3] = {8, 25, 43};
    return t[grid_digit(entry, j, 2)];
}
static float iq3_xxs_level(uint16_t entry, size_t j) {
    static const float t[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    return t[grid_digit(entry, j, 3)];
}
/* The sign of element j: seven stored bits, and an eighth that makes the number of ones even. */
static float sign_of_7(unsigned n, size_t j) {
    return (j < 7 ? bit_field(n, j, 1) : (unsigned)__builtin_popcount(n) % 2) ? -1.0f : 1.0f;
}
static float sign_of_8(unsigned n, size_t j) { return bit_field(n, j, 1) ? -1.0f : 1.0f; }
static float odd_scale(unsigned s) { return 2 * (float)s + 1; }

static float element_iq2_xxs(const uint8_t *b, size_t i) {
    const uint8_t *p = b + 2 + 8 * (i / 32);
    const size_t g = i / 8, j = i % 8;
    const uint32_t a = reference_u32(p + 4);
    return reference_half(b) * odd_scale(a >> 28) / 8 * iq2_level(grid_digits_iq2_xxs[p[g % 4]], j) *
           sign_of_7(bit_field(a, 7 * (g % 4), 7), j);
}
static float element_iq2_xs(const uint8_t *b, size_t i) {
    const size_t g = i / 8, j = i % 8;
    const unsigned q = reference_u16(b + 2 + 2 * g);
    return reference_half(b) * odd_scale(nibble_of(b[66 + i / 32], i / 16 % 2)) / 8 *
           iq2_level(grid_digits_iq2_xs[bit_field(q, 0, 9)], j) * sign_of_7(bit_field(q, 9, 7), j);
}
static float element_iq2_s(const uint8_t *b, size_t i) {
    const size_t g = i / 8, j = i % 8;
    const unsigned k = b[2 + g] + 256 * bit_field(b[66 + g / 4], 2 * (g % 4), 2);
    return reference_half(b) * odd_scale(nibble_of(b[74 + i / 32], i / 16 % 2)) / 8 *
           iq2_level(grid_digits_iq2_s[k], j) * sign_of_8(b[34 + g], j);
}
static float element_iq3_xxs(const uint8_t *b, size_t i) {
    const uint32_t a = reference_u32(b + 66 + 4 * (i / 32));
    return reference_half(b) * odd_scale(a >> 28) / 4 *
           iq3_xxs_level(grid_digits_iq3_xxs[b[2 + i / 4]], i % 4) *
           sign_of_7(bit_field(a, 7 * (i / 8 % 4), 7), i % 8);
}
static float element_iq3_s(const uint8_t *b, size_t i) {
    const size_t h = i / 4;
    const unsigned k = b[2 + h] + 256 * bit_field(b[66 + h / 8], h % 8, 1);
    return reference_half(b) * odd_scale(nibble_of(b[106 + i / 64], i / 32 % 2)) *
           odd_scale(grid_digit(grid_digits_iq3_s[k], i % 4, 3)) * sign_of_8(b[74 + i / 8], i % 8);
}
static float iq1_value(unsigned k, size_t j, unsigned down) {
    return (float)grid_digit(grid_digits_iq1[k], j, 2) - 1 + (down ? -0.125f : 0.125f);
}
static float element_iq1_s(const uint8_t *b, size_t i) {
    const size_t g = i / 8;
    const unsigned q = reference_u16(b + 34 + 2 * (i / 32)),
                   k = b[2 + g] + 256 * bit_field(q, 3 * (g % 4), 3);
    return reference_half(b) * odd_scale(bit_field(q, 12, 3)) * iq1_value(k, i % 8, bit_field(q, 15, 1));
}
static float element_iq1_m(const uint8_t *b, size_t i) {
    const size_t g = i / 8;
    const unsigned n = nibble_of(b[32 + g / 2], g % 2), k = b[g] + 256 * bit_field(n, 0, 3);
    unsigned half = 0;
    for (size_t w = 0; w < 4; w++) half |= bit_field(reference_u16(b + 48 + 2 * w), 12, 4) << 4 * w;
    const uint8_t d[2] = {(uint8_t)half, (uint8_t)(half >> 8)};
    return reference_half(d) *
           odd_scale(bit_field(reference_u16(b + 48 + 2 * (i / 64)), 3 * (i / 16 % 4), 3)) *
           iq1_value(k, i % 8, bit_field(n, 3, 1));
}

bool reference_decode(uint32_t type, const uint8_t *blocks, float *x, size_t n) {
    static float (*const element[GGUF_TYPE_LIMIT])(const uint8_t *, size_t) = {
        [GGUF_F32] = element_f32,       [GGUF_F16] = element_f16,         [GGUF_BF16] = element_bf16,
        [GGUF_Q4_0] = element_q4_0,     [GGUF_Q4_1] = element_q4_1,       [GGUF_Q5_0] = element_q5_0,
        [GGUF_Q5_1] = element_q5_1,     [GGUF_Q8_0] = element_q8_0,       [GGUF_Q8_1] = element_q8_1,
        [GGUF_Q2_K] = element_q2_k,     [GGUF_Q3_K] = element_q3_k,       [GGUF_Q4_K] = element_q4_k,
        [GGUF_Q5_K] = element_q5_k,     [GGUF_Q6_K] = element_q6_k,       [GGUF_Q8_K] = element_q8_k,
        [GGUF_IQ4_NL] = element_iq4_nl, [GGUF_IQ4_XS] = element_iq4_xs,   [GGUF_TQ1_0] = element_tq1_0,
        [GGUF_TQ2_0] = element_tq2_0,   [GGUF_Q1_0] = element_q1_0,       [GGUF_Q2_0] = element_q2_0,
        [GGUF_MXFP4] = element_mxfp4,   [GGUF_NVFP4] = element_nvfp4,     [GGUF_IQ1_S] = element_iq1_s,
        [GGUF_IQ1_M] = element_iq1_m,   [GGUF_IQ2_XXS] = element_iq2_xxs, [GGUF_IQ2_XS] = element_iq2_xs,
        [GGUF_IQ2_S] = element_iq2_s,   [GGUF_IQ3_XXS] = element_iq3_xxs, [GGUF_IQ3_S] = element_iq3_s,
    };
    const tensor_type *t = tensor_type_of(type);
    if (!t || !element[type]) return false;
    for (size_t i = 0; i < n; i++) x[i] = element[type](blocks + gguf_row_bytes(t, i), i % t->block_elements);
    return true;
}

/* Types with a minimum, and where their codes lie: with zeros there a block decodes to its minimums. */
static const struct {
    uint32_t type;
    unsigned codes, end;
} with_minimum[] = {
    {GGUF_Q4_1, 4, 20}, {GGUF_Q5_1, 4, 24}, {GGUF_Q2_K, 16, 80}, {GGUF_Q4_K, 16, 144}, {GGUF_Q5_K, 16, 176}};

bool reference_magnitude(uint32_t type, const uint8_t *blocks, float *a, size_t n) {
    const tensor_type *t = tensor_type_of(type);
    if (!reference_decode(type, blocks, a, n)) return false;
    for (size_t i = 0; i < n; i++) a[i] = fabsf(a[i]);
    for (size_t k = 0; k < sizeof with_minimum / sizeof *with_minimum; k++)
        for (size_t i = 0; with_minimum[k].type == type && i < n; i += t->block_elements) {
            uint8_t block[256];
            float minimum[256];
            memcpy(block, blocks + gguf_row_bytes(t, i), t->block_bytes);
            memset(block + with_minimum[k].codes, 0, with_minimum[k].end - with_minimum[k].codes);
            reference_decode(type, block, minimum, t->block_elements);
            /* |scale code| is at most |scale code + minimum| + |minimum|. */
            for (size_t j = 0; j < t->block_elements; j++) a[i + j] += 2 * fabsf(minimum[j]);
        }
    return true;
}
