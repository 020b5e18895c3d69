/* MXFP4 and NVFP4: codes are the values of E2M1, scales come from a short list, so the best one is found by
 * trying. Each lane one block. */
#include "codec/simd/kernels.h"
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
INLINE vf error_at(const vf *x, const vf *w, bool weighted, int n, vf s) {
    vf sum = all(0), inv = inverse(s);
    for (int i = 0; i < n; i++) {
        vf m = magnitude(x[i]), e = m - s * e2m1(m * inv);
        sum = sum + (weighted ? w[i] * e : e) * e;
    }
    return sum;
}

/* ---- MXFP4: a power of two for 32 weights ---- */
static void mxfp4_batch(const batch *b, bool weighted, uint8_t *out, int lanes) {
    /* The largest weight is in [1, 2) of the block's unit; with 1/4 of it as the scale of V it is 4..8 of 12,
     * and that is where no weight is clipped and the steps are smallest but one. Finer and coarser scales are
     * tried too. The stored exponent is that of the scale, plus 128: 0 is 2^-128, below it there is nothing.
     */
    vi unit = (vi)((vu)bits(b->unit) >> 23) - 127;
    vf best = all(INFINITY), scale = all(0);
    vi exponent = alli(0);
    for (int k = -4; k <= -2; k++) {
        vi e = unit + (k + 128);
        e = picki(lti(e, alli(0)), alli(0), picki(lti(alli(252), e), alli(252), e));
        vf s = from_bits((e - unit - 128 + 127) << 23);
        vf error = error_at(b->x, b->w, weighted, 32, s);
        vm better = lt(error, best);
        best = pick(better, error, best), scale = pick(better, s, scale),
        exponent = picki(better, e, exponent);
    }
    vi bytes[16], words[8], codes[32];
    vf inv = inverse(scale), any = all(0);
    for (int i = 0; i < 32; i++) {
        codes[i] = e2m1_code(e2m1(magnitude(b->x[i]) * inv), b->x[i]);
        any = larger(magnitude(b->x[i]), any);
    }
    exponent = picki(le(any, all(0)), alli(0), exponent);
    for (int j = 0; j < 16; j++) bytes[j] = codes[j] | codes[j + 16] << 4;
    pack_bytes(bytes, 16, words);
    prepend(words, 4, exponent, 8);
    store_blocks(words, 5, out, 17, lanes);
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

static void nvfp4_batch(const batch *b, bool weighted, codec_effort how, uint8_t *out, int lanes) {
    static const int reach[3] = {1, 3, 6};
    vi words[16], scales[4], bytes[32];
    for (int s = 0; s < 4; s++) {
        const vf *x = b->x + 16 * s, *w = b->w + 16 * s;
        vf top = all(0);
        for (int i = 0; i < 16; i++) top = larger(magnitude(x[i]), top);
        /* Around the scale that puts the largest weight on 12, finer ones first. */
        vi base = e4m3_below(top * b->unit * (1.0f / 12.0f)), chosen = alli(0);
        vf down, up, best = all(INFINITY), scale = all(0);
        power_of_two(b->unit, &down, &up);
        for (int k = -reach[how]; k <= 2 * reach[how]; k++) {
            vi c = base + k;
            c = picki(lti(c, alli(0)), alli(0), picki(lti(alli(0x7e), c), alli(0x7e), c));
            vf try = half_e4m3(c) * down, error = error_at(x, w, weighted, 16, try);
            vm better = lt(error, best);
            best = pick(better, error, best), scale = pick(better, try, scale),
            chosen = picki(better, c, chosen);
        }
        vf inv = inverse(scale);
        vi codes[16];
        for (int i = 0; i < 16; i++) codes[i] = e2m1_code(e2m1(magnitude(x[i]) * inv), x[i]);
        for (int j = 0; j < 8; j++) bytes[8 * s + j] = codes[j] | codes[j + 8] << 4;
        scales[s] = chosen;
    }
    pack_bytes(scales, 4, words);
    pack_bytes(bytes, 32, words + 1);
    store_blocks(words, 9, out, 36, lanes);
}

ENCODER(mxfp4, 32, 17, mxfp4_batch(&b, b.weighted, out, lanes))
ENCODER(nvfp4, 64, 36, nvfp4_batch(&b, b.weighted, how, out, lanes))
