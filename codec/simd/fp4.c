/* MXFP4 and NVFP4: codes are the values of E2M1, scales come from a short list, so the best one is found by
 * trying. Each lane one block. */
#include "codec/simd/scaled.h"

/* Nearest of 0, 1, 2, 3, 4, 6, 8, 12 (doubled E2M1) for t >= 0: integers up to 4, then even numbers, then
 * multiples of 4, as a float with one fraction bit has it. */
INLINE vf e2m1_nearest(vf t) {
    vf step = vf_pick(vf_less(t, vf_all(4)), vf_all(1), vf_pick(vf_less(t, vf_all(8)), vf_all(2), vf_all(4)));
    vf inv = vf_pick(vf_less(t, vf_all(4)), vf_all(1),
                     vf_pick(vf_less(t, vf_all(8)), vf_all(0.5f), vf_all(0.25f)));
    return vf_smaller(vf_nearest(t * inv) * step, vf_all(12));
}
/* The code of a value that e2m1_nearest returned, and its sign (never minus zero). */
INLINE vi e2m1_code(vf v, vf x) {
    vf low = v, high = vf_pick(vf_less(v, vf_all(8)), v * 0.5f + 2.0f, v * 0.25f + 4.0f);
    vi code = vf_nearest_int(vf_pick(vf_less(v, vf_all(4)), low, high));
    vm negative = vm_both(vf_less(x, vf_all(0)), vf_less(vf_all(0), v));
    return code | vi_pick(negative, vi_all(8), vi_all(0));
}

/* sum w (x - s v)^2 for scale s. */
INLINE vf error_at(const vf *x, const scaled_weight *w, bool weighted, int n, vf s) {
    vf sum = vf_all(0), inv = vf_inverse(s);
    for (int i = 0; i < n; i++) {
        vf m = vf_magnitude(x[i]), e = m - s * e2m1_nearest(m * inv);
        sum = sum + (weighted ? w[i] * e : e) * e;
    }
    return sum;
}

INLINE vf round_fp4(const sub_scales *s, vf x, vi *code) {
    vf v = e2m1_nearest(vf_magnitude(x) * s->inv), y = v * s->scale;
    *code = e2m1_code(v, x);
    return vf_pick(vf_less(x, vf_all(0)), -y, y);
}

/* ---- MXFP4: a power of two for 32 weights ---- */
CHOOSE(mxfp4) {
    scaled_weight scratch[32];
    const scaled_weight *w = weighted ? scaled_spread(b->w, 32, scratch) : NULL;
    /* The largest weight is in [1, 2) of the block's unit; with 1/4 of it as the scale of V it is 4..8 of 12,
     * and that is where no weight is clipped and the steps are smallest but one. Finer and coarser scales are
     * tried too. The stored exponent is that of the scale, plus 128: 0 is 2^-128, below it there is nothing. */
    vi unit = (vi)((vu)vf_bits(b->unit) >> 23) - 127;
    vf best = vf_all(INFINITY), scale = vf_all(0), any = vf_all(0);
    vi exponent = vi_all(0);
    for (int k = -4; k <= -2; k++) {
        vi e = unit + (k + 128);
        e = vi_pick(vi_less(e, vi_all(0)), vi_all(0), vi_pick(vi_less(vi_all(252), e), vi_all(252), e));
        vf s = vf_from_bits((e - unit - 128 + 127) << 23);
        vf error = error_at(b->x, w, weighted, 32, s);
        vm better = vf_less(error, best);
        best = vf_pick(better, error, best), scale = vf_pick(better, s, scale),
        exponent = vi_pick(better, e, exponent);
    }
    for (int i = 0; i < 32; i++) any = vf_larger(vf_magnitude(b->x[i]), any);
    subs->sc = vi_to_float(vi_pick(vf_at_most(any, vf_all(0)), vi_all(0), exponent));
    subs->scale = scale, subs->inv = vf_inverse(scale);
}
PACK(mxfp4) {
    vi bytes[16];
    for (int j = 0; j < 16; j++) bytes[j] = codes[j] | codes[j + 16] << 4;
    pack_bytes(bytes, 16, words);
    prepend_words(words, 4, vf_nearest_int(subs->sc), 8);
}

/* ---- NVFP4: an unsigned E4M3 number for 16 weights ---- */
/* Half the value of scale byte c, 0..0x7e. */
INLINE vf vf_half_e4m3(vi c) {
    vi e = c >> 3, m = c & 7;
    vf normal = vi_to_float(m + 8) * vf_from_bits((e + (127 - 11)) << 23);
    return vf_pick(vi_less(e, vi_all(1)), vi_to_float(m) * 0x1p-10f, normal);
}
/* The scale byte whose half value is nearest below or at s > 0. */
INLINE vi e4m3_below(vf s) {
    /* Doubled, the smallest normal number is 2^-6; there and below the step is 2^-9. */
    vf v = vf_smaller(s * 2.0f, vf_all(448.0f));
    vi fine = vf_to_int(v * 0x1p9f), normal = (vi)((vu)vf_bits(v) >> 20) - ((127 - 7) << 3);
    return vi_pick(vf_less(v, vf_all(0x1p-6f)), fine, normal);
}

CHOOSE(nvfp4) {
    scaled_weight scratch[64];
    const scaled_weight *w = weighted ? scaled_spread(b->w, 64, scratch) : NULL;
    for (int s = 0; s < 4; s++) {
        const vf *x = b->x + 16 * s;
        vf top = vf_all(0);
        for (int i = 0; i < 16; i++) top = vf_larger(vf_magnitude(x[i]), top);
        /* Around the scale that puts the largest weight on 12, finer ones first. */
        vi base = e4m3_below(top * b->unit * (1.0f / 12.0f)), chosen = vi_all(0);
        vf best = vf_all(INFINITY), scale = vf_all(0);
        for (int k = -search->reach; k <= 2 * search->reach; k++) {
            vi c = base + k;
            c = vi_pick(vi_less(c, vi_all(0)), vi_all(0), vi_pick(vi_less(vi_all(0x7e), c), vi_all(0x7e), c));
            vf try = vf_half_e4m3(c) * b->per_unit;
            vf error = error_at(x, weighted ? w + 16 * s : NULL, weighted, 16, try);
            vm better = vf_less(error, best);
            best = vf_pick(better, error, best), scale = vf_pick(better, try, scale),
            chosen = vi_pick(better, c, chosen);
        }
        /* The scale of a quantization grid that the weights lie on; a 32nd more, as it is rounded down. */
        vm on = vf_less(vf_all(-1), vf_all(0));
        vf step = qat_grid_step(x, 16, 12, QAT_GRID_SLACK, &on);
        if (vm_any(vf_less(vf_all(0), step))) {
            vi c = e4m3_below(step * b->unit * (1 + 1 / 32.0f));
            vf try = vf_half_e4m3(c) * b->per_unit;
            vf error = error_at(x, weighted ? w + 16 * s : NULL, weighted, 16, try);
            vm better = vm_both(vf_less(vf_all(0), step), vf_less(error, best));
            scale = vf_pick(better, try, scale), chosen = vi_pick(better, c, chosen);
        }
        subs[s].sc = vi_to_float(chosen), subs[s].scale = scale, subs[s].inv = vf_inverse(scale);
    }
}
PACK(nvfp4) {
    vi scales[4], bytes[32];
    for (int s = 0; s < 4; s++) {
        const vi *c = codes + 16 * s;
        scales[s] = vf_nearest_int(subs[s].sc);
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

ROUND(mxfp4) { return round_fp4(s, x, code); }
#define NAME mxfp4
#define TYPE MXFP4
#define GAIN no_gain
#include "codec/simd/encoder_of.inc"

ROUND(nvfp4) { return round_fp4(s, x, code); }
#define NAME nvfp4
#define TYPE NVFP4
#define LENGTH 16
#define GAIN no_gain
#include "codec/simd/encoder_of.inc"
