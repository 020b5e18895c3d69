/* TQ1_0, TQ2_0 (-d, 0, d in blocks of 256), Q2_0 (-d, 0, d, 2d in blocks of 64), Q1_0 (-d, d in blocks of
 * 128). Each lane one block. */
#include "codec/simd/scaled.h"

/* Signs, and the (weighted) mean magnitude: least squares for them. The gain is not kept: with one bit that
 * would more than double the error. */
INLINE void choose_q1_0(const batch *b, const codec_search *search, bool weighted, factors *f,
                        sub_scales *s) {
    (void)search;
    vf sum = vf_all(0), total = vf_all(0);
    for (int i = 0; i < GGUF_Q1_0_ELEMENTS; i++) {
        vf w = weighted ? vf_all(b->w[i]) : vf_all(1);
        sum = sum + w * vf_magnitude(b->x[i]), total = total + w;
    }
    f->d[0] = sum / total, s->scale = as_half(b, f->d[0]);
}
INLINE vf round_q1_0(const factors *f, const sub_scales *s, vf x, vi *code) {
    (void)f;
    vm negative = vf_less(x, vf_all(0));
    *code = vi_pick(negative, vi_all(0), vi_all(1));
    return vf_pick(negative, -s->scale, s->scale);
}

/* ---- packing ---- */
/* Digits most significant first, as a fraction of 256 rounded up: ceil(256 v / 243). With v <= 242 the
 * quotient by 243 of 256 v + 242 is that of a multiplication: 17261 / 2^22 exceeds 1 / 243 by less than 1 /
 * (243 * 62195). */
INLINE vi pack_trits(const vi *codes, int stride, int digits) {
    vi v = vi_all(0);
    for (int k = 0; k < 5; k++) v = 3 * v + (k < digits ? codes[k * stride] : vi_all(0));
    return (v * 256 + 242) * 17261 >> 22;
}

INLINE void pack_tq1_0(const vi d[2], const sub_scales *s, const vi *codes, vi *words) {
    (void)s;
    vi bytes[52];
    for (int j = 0; j < 32; j++) bytes[j] = pack_trits(codes + j, 32, 5);
    for (int j = 0; j < 16; j++) bytes[32 + j] = pack_trits(codes + 160 + j, 16, 5);
    for (int j = 0; j < 4; j++) bytes[48 + j] = pack_trits(codes + 240 + j, 4, 4);
    pack_bytes(bytes, 52, words);
    words[13] = d[0];
}
INLINE void pack_tq2_0(const vi d[2], const sub_scales *s, const vi *codes, vi *words) {
    (void)s;
    pack_pairs_of_bits(codes, words);
    words[16] = d[0];
}
INLINE void pack_q2_0(const vi d[2], const sub_scales *s, const vi *codes, vi *words) {
    (void)s;
    vi bytes[16];
    for (int j = 0; j < 16; j++) {
        const vi *c = codes + 4 * j;
        bytes[j] = c[0] | c[1] << 2 | c[2] << 4 | c[3] << 6;
    }
    pack_bytes(bytes, 16, words);
    prepend_words(words, 4, d[0], 16);
}
INLINE void pack_q1_0(const vi d[2], const sub_scales *s, const vi *codes, vi *words) {
    (void)s;
    for (int i = 0; i < 4; i++) {
        words[i] = vi_all(0);
        for (int j = 0; j < 32; j++) words[i] = words[i] | codes[32 * i + j] << j;
    }
    prepend_words(words, 4, d[0], 16);
}

/* ---- encoders ---- */
/* The largest of 256 normal weights is about 2.8 standard deviations, the best step about 1.2: scales down to
 * a quarter of the largest weight are worth a try. A ternary model's own step is the first one tried. */
static const codec_search searches_tq1_0[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.lower = {0, 0.5f, 6}, .moves = 1, .move_step = 0.05f}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.lower = {0, 0.25f, 13}, .moves = 4, .move_step = 0.05f}},
    [EFFORT_BEST] = {[0 ... 1] = {.lower = {0, 0.1f, 36}, .moves = 8, .move_step = 0.05f}},
};
#define searches_tq2_0 searches_tq1_0
static const codec_search searches_q2_0[3][2] = {
    [EFFORT_FAST] =
        {[0 ... 1] = {.lower = {0, 0.5f, 4}, .upper = {0, 0.5f, 3}, .moves = 1, .move_step = 0.05f}},
    [EFFORT_DEFAULT] =
        {[0 ... 1] = {.lower = {0, 0.25f, 9}, .upper = {-0.25f, 0.25f, 8}, .moves = 4, .move_step = 0.05f}},
    [EFFORT_BEST] =
        {[0 ... 1] = {.lower = {0, 0.1f, 24}, .upper = {-0.4f, 0.1f, 24}, .moves = 8, .move_step = 0.05f}},
};
static const codec_search searches_q1_0[3][2] = {{{.moves = 0}}}; /* nothing to choose */

static const scaled_grid ternary = {-1, 1, false}, quaternary = {-1, 2, false};

INLINE void choose_tq1_0(const batch *b, const codec_search *search, bool weighted, factors *f,
                         sub_scales *s) {
    choose_scaled(b, 256, ternary, search, weighted, f, s);
}
INLINE vf round_tq1_0(const factors *f, const sub_scales *s, vf x, vi *code) {
    return (void)f, round_scaled(ternary, s, x, code);
}
#define NAME tq1_0
#define TYPE TQ1_0
#define LENGTH 256
#define GAIN whole_gain
#include "codec/simd/encoder_of.h"

INLINE void choose_tq2_0(const batch *b, const codec_search *search, bool weighted, factors *f,
                         sub_scales *s) {
    choose_scaled(b, 256, ternary, search, weighted, f, s);
}
INLINE vf round_tq2_0(const factors *f, const sub_scales *s, vf x, vi *code) {
    return (void)f, round_scaled(ternary, s, x, code);
}
#define NAME tq2_0
#define TYPE TQ2_0
#define LENGTH 256
#define GAIN whole_gain
#include "codec/simd/encoder_of.h"

INLINE void choose_q2_0(const batch *b, const codec_search *search, bool weighted, factors *f,
                        sub_scales *s) {
    choose_scaled(b, 64, quaternary, search, weighted, f, s);
}
INLINE vf round_q2_0(const factors *f, const sub_scales *s, vf x, vi *code) {
    return (void)f, round_scaled(quaternary, s, x, code);
}
#define NAME q2_0
#define TYPE Q2_0
#define LENGTH 64
#define GAIN whole_gain
#include "codec/simd/encoder_of.h"

#define NAME q1_0
#define TYPE Q1_0
#define LENGTH 128
#define GAIN no_gain
#include "codec/simd/encoder_of.h"
