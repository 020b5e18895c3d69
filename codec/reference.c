/* Scalar decoders, one element at a time, as the format description puts them. Slow and plain on purpose:
 * they share no code with the kernels that they check. */
#include <math.h>
#include <string.h>

#include "codec/codec.h"
#include "codec/grids.h"

static unsigned lo(uint8_t b) { return b & 15; }
static unsigned hi(uint8_t b) { return b >> 4; }
static unsigned nib(uint8_t b, size_t n) { return n ? hi(b) : lo(b); }
static unsigned field(unsigned b, size_t shift, unsigned width) { return b >> shift & ((1u << width) - 1); }
static unsigned u16(const uint8_t *p) { return p[0] | (unsigned)p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }
static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static float f16(const uint8_t *p) {
    unsigned h = u16(p), e = h >> 10 & 31, f = h & 1023;
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    if (e == 31) return from_bits(sign | 0x7f800000 | f << 13 | (f ? 0x400000 : 0));
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

static float q4_0(const uint8_t *b, size_t i) { return f16(b) * ((float)nib(b[2 + i % 16], i / 16) - 8); }
static float q4_1(const uint8_t *b, size_t i) {
    return f16(b) * (float)nib(b[4 + i % 16], i / 16) + f16(b + 2);
}
static float q5_0(const uint8_t *b, size_t i) {
    unsigned q = nib(b[6 + i % 16], i / 16) + 16 * field(b[2 + i / 8], i % 8, 1);
    return f16(b) * ((float)q - 16);
}
static float q5_1(const uint8_t *b, size_t i) {
    unsigned q = nib(b[8 + i % 16], i / 16) + 16 * field(b[4 + i / 8], i % 8, 1);
    return f16(b) * (float)q + f16(b + 2);
}
static float q8_0(const uint8_t *b, size_t i) { return f16(b) * (float)(int8_t)b[2 + i]; }
static float q8_1(const uint8_t *b, size_t i) { return f16(b) * (float)(int8_t)b[4 + i]; }
static float q8_k(const uint8_t *b, size_t i) { return from_bits(u32(b)) * (float)(int8_t)b[4 + i]; }
static float iq4_nl(const uint8_t *b, size_t i) { return f16(b) * iq4_value(nib(b[2 + i % 16], i / 16)); }

static float q2_k(const uint8_t *b, size_t i) {
    size_t s = i / 16;
    unsigned q = field(b[16 + 32 * (i / 128) + i % 32], 2 * (i / 32 % 4), 2);
    return f16(b + 80) * (float)lo(b[s]) * (float)q - f16(b + 82) * (float)hi(b[s]);
}
static float q3_k(const uint8_t *b, size_t i) {
    size_t s = i / 16;
    unsigned low = field(b[32 + 32 * (i / 128) + i % 32], 2 * (i / 32 % 4), 2),
             high = field(b[i % 32], i / 32, 1);
    unsigned u = nib(b[96 + s % 8], s / 8) + 16 * field(b[104 + s % 4], 2 * (s / 4), 2);
    return f16(b + 108) * ((float)u - 32) * ((float)(low + 4 * high) - 4);
}
static void k_pair(const uint8_t *s, size_t k, float *scale, float *min) {
    *scale = (float)(k < 4 ? s[k] & 63u : lo(s[k + 4]) + 16u * (s[k - 4] >> 6));
    *min = (float)(k < 4 ? s[k + 4] & 63u : hi(s[k + 4]) + 16u * (s[k] >> 6));
}
static float q4_k(const uint8_t *b, size_t i) {
    float sc, mn;
    k_pair(b + 4, i / 32, &sc, &mn);
    return f16(b) * sc * (float)nib(b[16 + 32 * (i / 64) + i % 32], i / 32 % 2) - f16(b + 2) * mn;
}
static float q5_k(const uint8_t *b, size_t i) {
    float sc, mn;
    k_pair(b + 4, i / 32, &sc, &mn);
    unsigned q = nib(b[48 + 32 * (i / 64) + i % 32], i / 32 % 2) + 16 * field(b[16 + i % 32], i / 32, 1);
    return f16(b) * sc * (float)q - f16(b + 2) * mn;
}
static float q6_k(const uint8_t *b, size_t i) {
    size_t h = i / 128, k = i / 32 % 4, l = i % 32;
    unsigned q = nib(b[64 * h + 32 * (k % 2) + l], k / 2) + 16 * field(b[128 + 32 * h + l], 2 * k, 2);
    return f16(b + 208) * (float)(int8_t)b[192 + i / 16] * ((float)q - 32);
}
static float iq4_xs(const uint8_t *b, size_t i) {
    size_t s = i / 32;
    unsigned u = nib(b[4 + s / 2], s % 2) + 16 * field(u16(b + 2), 2 * s, 2);
    return f16(b) * ((float)u - 32) * iq4_value(nib(b[8 + 16 * s + i % 16], i / 16 % 2));
}
static float tq1_0(const uint8_t *b, size_t i) {
    static const unsigned power[5] = {1, 3, 9, 27, 81};
    size_t at, n;
    if (i < 160)
        at = i % 32, n = i / 32;
    else if (i < 240)
        at = 32 + (i - 160) % 16, n = (i - 160) / 16;
    else
        at = 48 + (i - 240) % 4, n = (i - 240) / 4;
    unsigned t = (b[at] * power[n] % 256 * 3) >> 8;
    return ((float)t - 1) * f16(b + 52);
}
static float tq2_0(const uint8_t *b, size_t i) {
    return ((float)field(b[32 * (i / 128) + i % 32], 2 * (i / 32 % 4), 2) - 1) * f16(b + 64);
}
static float q1_0(const uint8_t *b, size_t i) { return field(b[2 + i / 8], i % 8, 1) ? f16(b) : -f16(b); }
static float q2_0(const uint8_t *b, size_t i) {
    return ((float)field(b[2 + i / 4], 2 * (i % 4), 2) - 1) * f16(b);
}
static float mxfp4(const uint8_t *b, size_t i) {
    return ldexpf(fp4_value(nib(b[1 + i % 16], i / 16)), b[0] - 128);
}
static float nvfp4(const uint8_t *b, size_t i) {
    size_t s = i / 16;
    unsigned e = field(b[s], 3, 4), m = field(b[s], 0, 3);
    float scale = e ? ldexpf(1 + (float)m / 8, (int)e - 7) : ldexpf((float)m, -9);
    if (b[s] == 0x7f) scale = 0;
    return fp4_value(nib(b[4 + 8 * s + i % 8], i / 8 % 2)) * (scale / 2);
}
static float f32(const uint8_t *b, size_t i) { return (void)i, from_bits(u32(b)); }
static float half(const uint8_t *b, size_t i) { return (void)i, f16(b); }
static float bf16(const uint8_t *b, size_t i) { return (void)i, from_bits((uint32_t)u16(b) << 16); }

/* ---- grids ---- */
static unsigned digit(uint16_t entry, size_t j, unsigned width) { return field(entry, width * j, width); }
static float iq2_level(uint16_t entry, size_t j) {
    static const float t[3] = {8, 25, 43};
    return t[digit(entry, j, 2)];
}
static float iq3_xxs_level(uint16_t entry, size_t j) {
    static const float t[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    return t[digit(entry, j, 3)];
}
/* The sign of element j: seven stored bits, and an eighth that makes the number of ones even. */
static float sign_of_7(unsigned n, size_t j) {
    return (j < 7 ? field(n, j, 1) : (unsigned)__builtin_popcount(n) % 2) ? -1.0f : 1.0f;
}
static float sign_of_8(unsigned n, size_t j) { return field(n, j, 1) ? -1.0f : 1.0f; }
static float odd(unsigned s) { return 2 * (float)s + 1; }

static float iq2_xxs(const uint8_t *b, size_t i) {
    const uint8_t *p = b + 2 + 8 * (i / 32);
    const size_t g = i / 8, j = i % 8;
    const uint32_t a = u32(p + 4);
    return f16(b) * odd(a >> 28) / 8 * iq2_level(grid_digits_iq2_xxs[p[g % 4]], j) *
           sign_of_7(field(a, 7 * (g % 4), 7), j);
}
static float iq2_xs(const uint8_t *b, size_t i) {
    const size_t g = i / 8, j = i % 8;
    const unsigned q = u16(b + 2 + 2 * g);
    return f16(b) * odd(nib(b[66 + i / 32], i / 16 % 2)) / 8 *
           iq2_level(grid_digits_iq2_xs[field(q, 0, 9)], j) * sign_of_7(field(q, 9, 7), j);
}
static float iq2_s(const uint8_t *b, size_t i) {
    const size_t g = i / 8, j = i % 8;
    const unsigned k = b[2 + g] + 256 * field(b[66 + g / 4], 2 * (g % 4), 2);
    return f16(b) * odd(nib(b[74 + i / 32], i / 16 % 2)) / 8 * iq2_level(grid_digits_iq2_s[k], j) *
           sign_of_8(b[34 + g], j);
}
static float iq3_xxs(const uint8_t *b, size_t i) {
    const uint32_t a = u32(b + 66 + 4 * (i / 32));
    return f16(b) * odd(a >> 28) / 4 * iq3_xxs_level(grid_digits_iq3_xxs[b[2 + i / 4]], i % 4) *
           sign_of_7(field(a, 7 * (i / 8 % 4), 7), i % 8);
}
static float iq3_s(const uint8_t *b, size_t i) {
    const size_t h = i / 4;
    const unsigned k = b[2 + h] + 256 * field(b[66 + h / 8], h % 8, 1);
    return f16(b) * odd(nib(b[106 + i / 64], i / 32 % 2)) * odd(digit(grid_digits_iq3_s[k], i % 4, 3)) *
           sign_of_8(b[74 + i / 8], i % 8);
}
static float iq1_value(unsigned k, size_t j, unsigned down) {
    return (float)digit(grid_digits_iq1[k], j, 2) - 1 + (down ? -0.125f : 0.125f);
}
static float iq1_s(const uint8_t *b, size_t i) {
    const size_t g = i / 8;
    const unsigned q = u16(b + 34 + 2 * (i / 32)), k = b[2 + g] + 256 * field(q, 3 * (g % 4), 3);
    return f16(b) * odd(field(q, 12, 3)) * iq1_value(k, i % 8, field(q, 15, 1));
}
static float iq1_m(const uint8_t *b, size_t i) {
    const size_t g = i / 8;
    const unsigned n = nib(b[32 + g / 2], g % 2), k = b[g] + 256 * field(n, 0, 3);
    unsigned half = 0;
    for (size_t w = 0; w < 4; w++) half |= field(u16(b + 48 + 2 * w), 12, 4) << 4 * w;
    const uint8_t d[2] = {(uint8_t)half, (uint8_t)(half >> 8)};
    return f16(d) * odd(field(u16(b + 48 + 2 * (i / 64)), 3 * (i / 16 % 4), 3)) *
           iq1_value(k, i % 8, field(n, 3, 1));
}

bool reference_decode(uint32_t type, const uint8_t *blocks, float *x, size_t n) {
    static float (*const element[GGUF_TYPE_LIMIT])(const uint8_t *, size_t) = {
        [GGUF_F32] = f32,         [GGUF_F16] = half,        [GGUF_BF16] = bf16,     [GGUF_Q4_0] = q4_0,
        [GGUF_Q4_1] = q4_1,       [GGUF_Q5_0] = q5_0,       [GGUF_Q5_1] = q5_1,     [GGUF_Q8_0] = q8_0,
        [GGUF_Q8_1] = q8_1,       [GGUF_Q2_K] = q2_k,       [GGUF_Q3_K] = q3_k,     [GGUF_Q4_K] = q4_k,
        [GGUF_Q5_K] = q5_k,       [GGUF_Q6_K] = q6_k,       [GGUF_Q8_K] = q8_k,     [GGUF_IQ4_NL] = iq4_nl,
        [GGUF_IQ4_XS] = iq4_xs,   [GGUF_TQ1_0] = tq1_0,     [GGUF_TQ2_0] = tq2_0,   [GGUF_Q1_0] = q1_0,
        [GGUF_Q2_0] = q2_0,       [GGUF_MXFP4] = mxfp4,     [GGUF_NVFP4] = nvfp4,   [GGUF_IQ1_S] = iq1_s,
        [GGUF_IQ1_M] = iq1_m,     [GGUF_IQ2_XXS] = iq2_xxs, [GGUF_IQ2_XS] = iq2_xs, [GGUF_IQ2_S] = iq2_s,
        [GGUF_IQ3_XXS] = iq3_xxs, [GGUF_IQ3_S] = iq3_s,
    };
    const gguf_type *t = gguf_type_of(type);
    if (!t || !element[type]) return false;
    for (size_t i = 0; i < n; i++)
        x[i] = element[type](blocks + gguf_type_bytes(t, i), i % t->block_elements);
    return true;
}

/* Types with a minimum, and where their codes lie: with zeros there a block decodes to its minimums. */
static const struct {
    uint32_t type;
    unsigned codes, end;
} with_minimum[] = {
    {GGUF_Q4_1, 4, 20}, {GGUF_Q5_1, 4, 24}, {GGUF_Q2_K, 16, 80}, {GGUF_Q4_K, 16, 144}, {GGUF_Q5_K, 16, 176}};

bool reference_magnitude(uint32_t type, const uint8_t *blocks, float *a, size_t n) {
    const gguf_type *t = gguf_type_of(type);
    if (!reference_decode(type, blocks, a, n)) return false;
    for (size_t i = 0; i < n; i++) a[i] = fabsf(a[i]);
    for (size_t k = 0; k < sizeof with_minimum / sizeof *with_minimum; k++)
        for (size_t i = 0; with_minimum[k].type == type && i < n; i += t->block_elements) {
            uint8_t block[256];
            float minimum[256];
            memcpy(block, blocks + gguf_type_bytes(t, i), t->block_bytes);
            memset(block + with_minimum[k].codes, 0, with_minimum[k].end - with_minimum[k].codes);
            reference_decode(type, block, minimum, t->block_elements);
            /* |scale code| is at most |scale code + minimum| + |minimum|. */
            for (size_t j = 0; j < t->block_elements; j++) a[i + j] += 2 * fabsf(minimum[j]);
        }
    return true;
}
