/* MXFP4 and NVFP4: codes are the values of E2M1, scales come from a short list, so the best one is found by
 * trying. Each lane one block. */
#include "codec/simd/scaled.h"

/* Nearest of 0, 1, 2, 3, 4, 6, 8, 12 (doubled E2M1) for t >= 0: integers up to 4, then even numbers, then
 * multiples of 4, as a float with one fraction bit has it. */
INLINE vf e2m1(vf t) {
    vf step = pick(lt(t, all(4)), all(1), pick(lt(t, all(8)), all(2), all(4)));
    vf inv = pick(lt(t, all(4)), all(1), pick(lt(t, all(8)), all(0.5f), all(0.25f)));
    return smaller(nearest(t * inv) * step, all(12));
}
/* The code of a value that e2m1 returned, and its sign (never minus zero). */
INLINE vi e2m1_code(vf v, vf x) {
    vf low = v, high = pick(lt(v, all(8)), v * 0.5f + 2.0f, v * 0.25f + 4.0f);
    vi code = nearest_int(pick(lt(v, all(4)), low, high));
    vm negative = both(lt(x, all(0)), lt(all(0), v));
    return code | picki(negative, alli(8), alli(0));
}

/* sum w (x - s v)^2 for scale s. */
INLINE vf error_at(const vf *x, const weight *w, bool weighted, int n, vf s) {
    vf sum = all(0), inv = inverse(s);
    for (int i = 0; i < n; i++) {
        vf m = magnitude(x[i]), e = m - s * e2m1(m * inv);
        sum = sum + (weighted ? w[i] * e : e) * e;
    }
    return sum;
}

INLINE vf round_fp4(const sub_scales *s, vf x, vi *code) {
    vf v = e2m1(magnitude(x) * s->inv), y = v * s->scale;
    *code = e2m1_code(v, x);
    return pick(lt(x, all(0)), -y, y);
}

/* ---- MXFP4: a power of two for 32 weights ---- */
INLINE void choose_mxfp4(const batch *b, const codec_search *search, bool weighted, factors *f,
                         sub_scales *sub) {
    (void)search, (void)f;
    weight room[32];
    const weight *w = weighted ? spread(b->w, 32, room) : NULL;
    /* The largest weight is in [1, 2) of the block's unit; with 1/4 of it as the scale of V it is 4..8 of 12,
     * and that is where no weight is clipped and the steps are smallest but one. Finer and coarser scales are
     * tried too. The stored exponent is that of the scale, plus 128: 0 is 2^-128, below it there is nothing.
     */
    vi unit = (vi)((vu)bits(b->unit) >> 23) - 127;
    vf best = all(INFINITY), scale = all(0), any = all(0);
    vi exponent = alli(0);
    for (int k = -4; k <= -2; k++) {
        vi e = unit + (k + 128);
        e = picki(lti(e, alli(0)), alli(0), picki(lti(alli(252), e), alli(252), e));
        vf s = from_bits((e - unit - 128 + 127) << 23);
        vf error = error_at(b->x, w, weighted, 32, s);
        vm better = lt(error, best);
        best = pick(better, error, best), scale = pick(better, s, scale),
        exponent = picki(better, e, exponent);
    }
    for (int i = 0; i < 32; i++) any = larger(magnitude(b->x[i]), any);
    sub->sc = to_float(picki(le(any, all(0)), alli(0), exponent));
    sub->scale = scale, sub->inv = inverse(scale);
}
INLINE void pack_mxfp4(const vi d[2], const sub_scales *s, const vi *codes, vi *words) {
    (void)d;
    vi bytes[16];
    for (int j = 0; j < 16; j++) bytes[j] = codes[j] | codes[j + 16] << 4;
    pack_bytes(bytes, 16, words);
    prepend(words, 4, nearest_int(s->sc), 8);
}

/* ---- NVFP4: an unsigned E4M3 number for 16 weights ---- */
/* Half the value of scale byte c, 0..0x7e. */
INLINE vf half_e4m3(vi c) {
    vi e = c >> 3, m = c & 7;
    vf normal = to_float(m + 8) * from_bits((e + (127 - 11)) << 23);
    return pick(lti(e, alli(1)), to_float(m) * 0x1p-10f, normal);
}
/* The scale byte whose half value is nearest below or at s > 0. */
INLINE vi e4m3_below(vf s) {
    /* Doubled, the smallest normal number is 2^-6; there and below the step is 2^-9. */
    vf v = smaller(s * 2.0f, all(448.0f));
    vi fine = to_int(v * 0x1p9f), normal = (vi)((vu)bits(v) >> 20) - ((127 - 7) << 3);
    return picki(lt(v, all(0x1p-6f)), fine, normal);
}

INLINE void choose_nvfp4(const batch *b, const codec_search *search, bool weighted, factors *f,
                         sub_scales *subs) {
    (void)f;
    weight room[64];
    const weight *w = weighted ? spread(b->w, 64, room) : NULL;
    for (int s = 0; s < 4; s++) {
        const vf *x = b->x + 16 * s;
        vf top = all(0);
        for (int i = 0; i < 16; i++) top = larger(magnitude(x[i]), top);
        /* Around the scale that puts the largest weight on 12, finer ones first. */
        vi base = e4m3_below(top * b->unit * (1.0f / 12.0f)), chosen = alli(0);
        vf best = all(INFINITY), scale = all(0);
        for (int k = -search->reach; k <= 2 * search->reach; k++) {
            vi c = base + k;
            c = picki(lti(c, alli(0)), alli(0), picki(lti(alli(0x7e), c), alli(0x7e), c));
            vf try = half_e4m3(c) * b->per_unit;
            vf error = error_at(x, weighted ? w + 16 * s : NULL, weighted, 16, try);
            vm better = lt(error, best);
            best = pick(better, error, best), scale = pick(better, try, scale),
            chosen = picki(better, c, chosen);
        }
        subs[s].sc = to_float(chosen), subs[s].scale = scale, subs[s].inv = inverse(scale);
    }
}
INLINE void pack_nvfp4(const vi d[2], const sub_scales *subs, const vi *codes, vi *words) {
    (void)d;
    vi scales[4], bytes[32];
    for (int s = 0; s < 4; s++) {
        const vi *c = codes + 16 * s;
        scales[s] = nearest_int(subs[s].sc);
        for (int j = 0; j < 8; j++) bytes[8 * s + j] = c[j] | c[j + 8] << 4;
    }
    pack_bytes(scales, 4, words);
    pack_bytes(bytes, 32, words + 1);
}

/* ---- encoders ---- */
static const codec_search searches_mxfp4[3][2] = {{{.moves = 0}}}; /* the same at every effort */
static const codec_search searches_nvfp4[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.reach = 1}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.reach = 3}},
    [EFFORT_BEST] = {[0 ... 1] = {.reach = 6}},
};

INLINE vf round_mxfp4(const factors *f, const sub_scales *s, vf x, vi *code) {
    return (void)f, round_fp4(s, x, code);
}
#define NAME mxfp4
#define TYPE MXFP4
#define LENGTH 32
#define GAIN no_gain
#include "codec/simd/encoder_of.h"

INLINE vf round_nvfp4(const factors *f, const sub_scales *s, vf x, vi *code) {
    return (void)f, round_fp4(s, x, code);
}
#define NAME nvfp4
#define TYPE NVFP4
#define LENGTH 16
#define GAIN no_gain
#include "codec/simd/encoder_of.h"
