/* Q3_K, Q6_K, IQ4_XS: sub-blocks with a packed scale of either sign, x' = (d sc) v.
 *
 * The search, each lane one super-block:
 *   1. per sub-block, the best of several scales with least squares after each;
 *   2. d: a few sizes, judged by what the packed scales make of the best codes;
 *   3. per sub-block, scales around what the decoder would use;
 *   4. d by least squares over the super-block. */
#include "codec/simd/copy.h"
#include "codec/simd/scaled.h"

/* Searches for the scale of a sub-block of 16 weights on 16-bit numbers, for super-blocks of sub-blocks with
 * a scale alone: twice as many weights per instruction as floats, and exact sums. Each lane one sub-block.
 *
 *     clipped_    codes of few bits, where the best scale clips some weights: codes are computed in numbers
 *                 that saturate at the ends of 16 bits, which are the ends of the codes
 *     wrapped_    codes of many bits, where it clips none: no codes are computed at all, see there */

enum { COPY_LENGTH = 16, COPY_PAIRS = COPY_LENGTH / 2, COPY_LEAST_WEIGHT = 8 };

/* y = x per, whole numbers, the largest of them -most. Importance as whole numbers. */
typedef struct sub_block_copy {
    vp y[COPY_PAIRS], w[COPY_PAIRS];
    vp wy[COPY_PAIRS]; /* clipped_ alone: importance times y */
    vf x_per_y;        /* 1 / per */
    vf other;          /* the largest y of the other sign */
    float unit;        /* importance that 1 stands for */
} sub_block_copy;

INLINE void copy_sub_block(sub_block_copy *c, const vf *x, const float *w, bool weighted, float most,
                           int most_weight) {
    int32_t whole[COPY_LENGTH];
    vf low, high;
    c->unit = weighted ? copy_weights(w, COPY_LENGTH, most_weight, whole, c->w) : 1.0f;
    if (weighted) /* products with less would be rounded to nothing */
        for (int i = 0; i < COPY_PAIRS; i++)
            c->w[i] = vp_all(COPY_LEAST_WEIGHT) + vp_beyond(c->w[i], vp_all(COPY_LEAST_WEIGHT));
    vf_extremes(x, COPY_LENGTH, &low, &high);
    vm down = vf_less(high, -low);
    vf top = vf_pick(down, low, high);
    /* A sub-block below 2^-40 of the largest weight nearby counts as zero. */
    vm some = vf_less(vf_all(0x1p-40f), vf_magnitude(top));
    vf per = vf_pick(some, -most / vf_pick(some, top, vf_all(1)), vf_all(0));
    for (int i = 0; i < COPY_PAIRS; i++) c->y[i] = vp_pair(x[2 * i] * per, x[2 * i + 1] * per);
    c->x_per_y = top * (-1.0f / most), c->other = vf_pick(down, high, low) * per;
}

/* ---- clipped ---- */
/* Codes -4 .. 3, in steps of 2^-13. */
enum { CLIPPED_FRACTION = 13, CLIPPED_WEIGHT = 8191 /* times a code: 16 bits */ };

/* The best scale so far, as sums of y. */
typedef struct clipped_fit {
    scaled_sums f;
    vf square; /* f.vx^2, no more than counts: that over f.vv is what the scale explains */
    vf enough; /* as in scaled_fit */
} clipped_fit;

INLINE void clipped_keep(clipped_fit *kept, const scaled_sums *f) {
    vf square = vf_smaller(f->vx * f->vx, kept->enough * f->vv);
    vm better = vf_less(kept->square * f->vv, square * kept->f.vv);
    kept->square = vf_pick(better, square, kept->square);
    kept->f.vv = vf_pick(better, f->vv, kept->f.vv), kept->f.vx = vf_pick(better, f->vx, kept->f.vx);
}

/* Adds the sums for the codes nearest to t, a pair of weights. */
INLINE void clipped_add(const sub_block_copy *c, bool weighted, int i, vp t, vi *vv, vi *vy) {
    vp code = vp_sum(t, vp_all(1 << (CLIPPED_FRACTION - 1))) >> CLIPPED_FRACTION;
    *vv = *vv + vp_dot(weighted ? code * c->w[i] : code, code);
    *vy = *vy + vp_dot(code, weighted ? c->wy[i] : c->y[i]);
}

/* The sums of a sub-block, of x and with the weights of the objective. */
INLINE scaled_sums clipped_sums(const sub_block_copy *c, bool weighted, scaled_sums f) {
    vf per_y = c->x_per_y * (weighted ? 8192.0f * c->unit : 1.0f);
    return (scaled_sums){f.vv * c->unit, f.vx * per_y};
}

/* Tries scales that put the largest weight at code `at`, and `step` further each. */
INLINE void clipped_climb(const sub_block_copy *c, bool weighted, float at, float step, int tries,
                          clipped_fit *kept) {
    const float one = 32767.0f / 4; /* y of the largest weight as t: four codes */
    vp t[COPY_PAIRS], by[COPY_PAIRS];
    for (int i = 0; i < COPY_PAIRS; i++) {
        t[i] = vp_times(c->y[i], vp_all((int)(at * one)));
        by[i] = vp_times(c->y[i], vp_all((int)(step * one)));
    }
    for (int k = 0; k < tries; k++) {
        vi vv = vi_all(0), vy = vi_all(0);
        for (int i = 0; i < COPY_PAIRS; i++) {
            clipped_add(c, weighted, i, t[i], &vv, &vy);
            t[i] = vp_sum(t[i], by[i]);
        }
        scaled_sums f = {vi_to_float(vv), vi_to_float(vy)};
        clipped_keep(kept, &f);
    }
}

/* The best of both ladders. */
INLINE scaled_sums start_clipped(sub_block_copy *c, const vf *x, const float *w, bool weighted,
                                 const codec_search *search) {
    const codec_ladder *lower = &search->lower, *upper = &search->upper;
    clipped_fit kept = {{vf_all(1), vf_all(0)}, vf_all(0), vf_all(0)};
    vi yy = vi_all(0);
    copy_sub_block(c, x, w, weighted, 32767, CLIPPED_WEIGHT);
    for (int i = 0; i < COPY_PAIRS; i++) {
        vp eighth = vp_times(c->y[i], vp_all(1 << 12));
        if (weighted) c->wy[i] = vp_times(c->y[i], c->w[i] * 4);
        yy = yy + vp_dot(eighth, weighted ? c->wy[i] : c->y[i]);
    }
    kept.enough = vi_to_float(yy) * (8 * (1.0f - 0x1p-20f) / (weighted ? 8192.0f : 1.0f));
    clipped_climb(c, weighted, 4 + lower->first, lower->step, lower->tries, &kept);
    clipped_climb(c, weighted, -3 - upper->first, -upper->step, upper->tries, &kept);
    return clipped_sums(c, weighted, kept.f);
}

/* Sums for the codes that suit a scale, of which `inv` is the inverse. */
INLINE scaled_sums clipped_sum_codes(const sub_block_copy *c, bool weighted, vf inv) {
    vi vv = vi_all(0), vy = vi_all(0);
    vf by = inv * c->x_per_y * 0x1p27f; /* half of t's, so that codes up to 8 are distinguished */
    vp factor = vp_twice(vf_nearest_int(vf_clamp(by, vf_all(-32767), vf_all(32767))));
    for (int i = 0; i < COPY_PAIRS; i++) {
        vp t = vp_times(c->y[i], factor);
        clipped_add(c, weighted, i, vp_sum(t, t), &vv, &vy);
    }
    return clipped_sums(c, weighted, (scaled_sums){vi_to_float(vv), vi_to_float(vy)});
}

/* ---- wrapped ---- */
/* With scales that are multiples k of one, k y modulo 2^16 is 2^16 times what rounding to a code leaves: r,
 * which is one addition further for the next k. From the sums of w y^2, w y r and w r^2 follow all others:
 * codes are (k y - r) / 2^16. */
enum { WRAPPED_WEIGHT = 4095 /* times 2^15, sixteen times: 32 bits */ };

/* a + b and a times `by` modulo 2^16. */
typedef uint16_t vp_unsigned __attribute__((vector_size(4 * GQ_LANES)));
INLINE vp vp_plus(vp a, vp b) { return (vp)((vp_unsigned)a + (vp_unsigned)b); }
INLINE vp vp_wrapped(vp a, int by) { return (vp)((vp_unsigned)a * (vp_unsigned)vp_all(by)); }

INLINE scaled_sums start_wrapped(const vf *x, const float *w, bool weighted, const scaled_grid g,
                                 const codec_search *search) {
    const codec_ladder *lower = &search->lower;
    const float per_code = (float)(int)(1 / lower->step + 0.5f); /* scales from a code to the next */
    const int first = (int)((-g.low + lower->first) * per_code);
    const int end = (int)((-g.low + 0.5f) * per_code); /* behind it the largest weight is clipped */
    sub_block_copy c;
    vp r[COPY_PAIRS];
    vi sum_yy = vi_all(0);
    copy_sub_block(&c, x, w, weighted, 65536.0f / per_code - 1, WRAPPED_WEIGHT);
    for (int i = 0; i < COPY_PAIRS; i++) {
        sum_yy = sum_yy + vp_dot(vp_times(c.y[i], weighted ? c.w[i] : vp_all(WRAPPED_WEIGHT)), c.y[i]);
        r[i] = vp_wrapped(c.y[i], first);
    }
    vf yy = vi_to_float(sum_yy), inv = vf_inverse(yy), enough = yy * 0x1p-20f;
    vf least = vf_all(INFINITY), at = vf_all(0), yr_at = vf_all(0);
    for (int k = first; k < first + lower->tries && k <= end; k++) {
        vi sum_yr = vi_all(0), sum_rr = vi_all(0);
        for (int i = 0; i < COPY_PAIRS; i++) {
            vp wr = vp_times(r[i], weighted ? c.w[i] : vp_all(WRAPPED_WEIGHT));
            sum_yr = sum_yr + vp_dot(wr, c.y[i]), sum_rr = sum_rr + vp_dot(wr, r[i]);
            r[i] = vp_plus(r[i], c.y[i]);
        }
        vf yr = vi_to_float(sum_yr);
        vf e = (vi_to_float(sum_rr) - yr * (yr * inv)) * (1 / ((float)k * (float)k));
        e = vf_larger(e, enough);
        vm better = vf_less(e, least);
        /* The other end of the codes comes a code earlier. */
        float most = (g.high + 0.5f) * 65536.0f / (float)k;
        if (most < 32767) better = vm_both(better, vf_at_most(c.other, vf_all(most)));
        least = vf_pick(better, e, least), at = vf_pick(better, vf_all((float)k), at);
        yr_at = vf_pick(better, yr, yr_at);
    }
    vf rr = least * at * at + yr_at * (yr_at * inv), qy = at * yy - yr_at;
    vf unit = vf_all(weighted ? c.unit : 1.0f / WRAPPED_WEIGHT);
    return (scaled_sums){unit * 0x1p-17f * (at * (qy - yr_at) + rr), unit * 0.5f * qy * c.x_per_y};
}

/* Input of the search for a sub-block's scale: its floats, or a 16-bit copy. */
typedef enum k_scaled_copies { COPY_NONE, COPY_CLIPPED, COPY_WRAPPED } k_scaled_copies;

typedef struct k_scaled_shape {
    int subs, length; /* sub-blocks of a super-block, and their length */
    scaled_grid grid;
    float lowest, highest; /* packed scales */
    k_scaled_copies copies;
} k_scaled_shape;

typedef struct k_scaled_sub_block {
    const vf *x;
    const scaled_weight *w;
    sub_block_copy copy; /* COPY_CLIPPED alone */
    scaled_sums f;
    vf a; /* the scale that suits f best */
    vf sc;
} k_scaled_sub_block;

/* Error for scale a, without sum w x^2. */
INLINE vf k_scaled_cost(const scaled_sums *f, vf a) { return a * (a * f->vv - 2.0f * f->vx); }

/* The scale that suits the sums best: a parabola's lowest point. */
INLINE vf k_scaled_best(const scaled_sums *f) { return f->vx * vf_inverse(f->vv); }

/* A scale packed. */
INLINE vf k_scaled_packed(vf a, vf inv_d, const k_scaled_shape sh) {
    return vf_clamp(vf_nearest(a * inv_d), vf_all(sh.lowest), vf_all(sh.highest));
}

/* Step 2. Both signs: the range of packed scales is one longer downward. */
INLINE vf choose_factor(const batch *b, const k_scaled_sub_block *subs, const k_scaled_shape sh, int tries) {
    vf top = vf_all(0), best = vf_all(1e30f), chosen = vf_all(0);
    for (int k = 0; k < sh.subs; k++)
        top = vf_pick(vf_less(vf_magnitude(top), vf_magnitude(subs[k].a)), subs[k].a, top);
    for (int k = 0; k < tries; k++) {
        vf size = vf_magnitude(top) * ((1.0f + 0.01f * (float)(k / 2)) / (k % 2 ? sh.highest : -sh.lowest));
        vf d = batch_stored(b, size), e = vf_all(0);
        d = vf_pick(vf_less(top, vf_all(0)), k % 2 ? -d : d, k % 2 ? d : -d);
        vf inv = vf_signed_inverse(d);
        for (int i = 0; i < sh.subs; i++)
            e = e + k_scaled_cost(&subs[i].f, k_scaled_packed(subs[i].a, inv, sh) * d);
        vm better = vf_less(e, best);
        best = vf_pick(better, e, best), chosen = vf_pick(better, d, chosen);
    }
    return chosen;
}

/* Step 3. */
INLINE void pack_scale(k_scaled_sub_block *s, const k_scaled_shape sh, int moves, float step, bool weighted,
                       vf d) {
    vf inv_d = vf_signed_inverse(d);
    s->sc = k_scaled_packed(s->a, inv_d, sh);
    vf best = k_scaled_cost(&s->f, s->sc * d), around = vf_signed_inverse(s->sc * d);
    for (int k = 0; k < moves; k++) {
        float by = (float)((k + 1) / 2) * (k % 2 ? -step : step);
        /* The inverses of a 16-bit copy do not wait for each other. */
        if (sh.copies == COPY_NONE) around = vf_signed_inverse(s->sc * d);
        vf inv = around * (1.0f + by);
        scaled_sums f = sh.copies == COPY_CLIPPED
                            ? clipped_sum_codes(&s->copy, weighted, inv)
                            : scaled_sum_codes(s->x, s->w, weighted, sh.length, sh.grid, inv);
        vf sc = k_scaled_packed(k_scaled_best(&f), inv_d, sh), e = k_scaled_cost(&f, sc * d);
        vm better = vf_less(e, best);
        best = vf_pick(better, e, best), s->sc = vf_pick(better, sc, s->sc);
        s->f.vv = vf_pick(better, f.vv, s->f.vv), s->f.vx = vf_pick(better, f.vx, s->f.vx);
    }
}

/* Takes the scales of a quantization grid that all weights lie on where they are better than the search's. */
INLINE void k_scaled_prefer_qat_grid(const batch *b, const k_scaled_shape sh, bool weighted, vf *d,
                                     k_scaled_sub_block *subs) {
    vf steps[16], sc[16], e = vf_all(0), least = vf_all(0);
    vf factor = qat_grid_factor(b, sh.subs, sh.length, qat_grid_most(sh.grid.low, sh.grid.high),
                                (int)sh.highest, steps);
    vm better = vf_less(vf_all(0), factor);
    if (!vm_any(better)) return;
    vf stored = batch_stored(b, factor), per = vf_inverse(factor);
    for (int k = 0; k < sh.subs; k++) {
        int first = k * sh.length;
        sc[k] = vf_nearest(steps[k] * per);
        least = least + scaled_error(b, first, sh.length, sh.grid, weighted, subs[k].sc * *d);
        e = e + scaled_error(b, first, sh.length, sh.grid, weighted, sc[k] * stored);
    }
    better = vm_both(better, vf_less(e, least));
    *d = vf_pick(better, stored, *d);
    for (int k = 0; k < sh.subs; k++) subs[k].sc = vf_pick(better, sc[k], subs[k].sc);
}

INLINE void k_scaled_choose(const batch *b, const k_scaled_shape sh, const codec_search *search,
                            bool weighted, factors *f, sub_scales *out) {
    scaled_weight scratch[256];
    /* Moves need floats, and with importance over many powers of ten the copy is too coarse to begin them
     * with. */
    bool floats = sh.copies == COPY_NONE || (sh.copies == COPY_WRAPPED && search->moves);
    const scaled_weight *w = weighted && floats ? scaled_spread(b->w, 256, scratch) : NULL;
    k_scaled_sub_block subs[16];
    for (int k = 0; k < sh.subs; k++) {
        k_scaled_sub_block *s = &subs[k];
        const float *columns = b->w + k * sh.length;
        s->x = b->x + k * sh.length, s->w = w ? w + k * sh.length : NULL;
        s->f = sh.copies == COPY_CLIPPED ? start_clipped(&s->copy, s->x, columns, weighted, search)
               : !floats                 ? start_wrapped(s->x, columns, weighted, sh.grid, search)
                                         : start_scaled(s->x, s->w, weighted, sh.length, sh.grid, search).f;
        s->a = k_scaled_best(&s->f);
    }
    vf d = choose_factor(b, subs, sh, search->factors), down = vf_all(0), across = vf_all(0);
    for (int k = 0; k < sh.subs; k++) {
        k_scaled_sub_block *s = &subs[k];
        pack_scale(s, sh, search->moves, search->move_step, weighted, d);
        down = down + s->sc * s->sc * s->f.vv, across = across + s->sc * s->f.vx;
    }
    d = batch_stored(b, vf_pick(vf_less(vf_all(0), down), across * vf_inverse(down), d));
    if (!sh.grid.iq4) k_scaled_prefer_qat_grid(b, sh, weighted, &d, subs);
    f->d[0] = d;
    for (int k = 0; k < sh.subs; k++) {
        out[k].sc = subs[k].sc, out[k].scale = d * subs[k].sc;
        out[k].inv = vf_signed_inverse(out[k].scale);
    }
}

/* A share of the gain. */
INLINE vf gain_in_part(const factors *f, bool weighted, const projection p, float share) {
    return 1.0f + share * (whole_gain(f, weighted, p) - 1.0f);
}

/* ---- packing ---- */
PACK(q3_k) {
    vi bytes[32];
    for (int l = 0; l < 32; l++) {
        bytes[l] = vi_all(0);
        for (int k = 0; k < 8; k++) bytes[l] = bytes[l] | (codes[32 * k + l] >> 2) << k;
    }
    pack_bytes(bytes, 32, words);
    pack_pairs_of_bits(codes, words + 8);
    vi u[16];
    for (int k = 0; k < 16; k++) u[k] = vf_nearest_int(subs[k].sc) + 32;
    for (int k = 0; k < 8; k++) bytes[k] = (u[k] & 15) | (u[k + 8] & 15) << 4;
    for (int k = 0; k < 4; k++)
        bytes[8 + k] = u[k] >> 4 | (u[k + 4] >> 4) << 2 | (u[k + 8] >> 4) << 4 | (u[k + 12] >> 4) << 6;
    pack_bytes(bytes, 12, words + 24);
    words[27] = d[0];
}

PACK(q6_k) {
    vi bytes[64];
    for (int h = 0; h < 2; h++) {
        const vi *c = codes + 128 * h;
        for (int l = 0; l < 64; l++) bytes[l] = (c[l] & 15) | (c[l + 64] & 15) << 4;
        pack_bytes(bytes, 64, words + 16 * h);
        for (int l = 0; l < 32; l++)
            bytes[l] = c[l] >> 4 | (c[l + 32] >> 4) << 2 | (c[l + 64] >> 4) << 4 | (c[l + 96] >> 4) << 6;
        pack_bytes(bytes, 32, words + 32 + 8 * h);
    }
    for (int k = 0; k < 16; k++) bytes[k] = vf_nearest_int(subs[k].sc) & 255;
    pack_bytes(bytes, 16, words + 48);
    words[52] = d[0];
}

PACK(iq4_xs) {
    vi bytes[16], top = vi_all(0);
    for (int k = 0; k < 8; k++) {
        vi u = vf_nearest_int(subs[k].sc) + 32;
        top = top | (u >> 4) << 2 * k;
        bytes[k / 2] = k % 2 ? bytes[k / 2] | (u & 15) << 4 : u & 15;
    }
    words[0] = d[0] | top << 16;
    pack_bytes(bytes, 4, words + 1);
    for (int k = 0; k < 8; k++) {
        const vi *c = codes + 32 * k;
        for (int l = 0; l < 16; l++) bytes[l] = c[l] | c[l + 16] << 4;
        pack_bytes(bytes, 16, words + 2 + 4 * k);
    }
}

/* ---- encoders ---- */
/* A search for each effort, without importance, then with it: ladders of scales for the lower and the upper end of the
 * codes; moves and their step; factors of the super-block. */
#define SEARCH(first, step, n, upper_first, upper_step, upper_n, n_moves, by, n_factors) \
    { \
        .lower = {first, step, n}, .upper = {upper_first, upper_step, upper_n}, .moves = n_moves, .move_step = by, \
        .factors = n_factors \
    }
/* clang-format off: a row for each search */
static const codec_search searches_q3_k[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = SEARCH(-0.4f, 0.4f, 3, 0, 0.4f, 2, 1, 0.06f, 2)},
    [EFFORT_DEFAULT] =          {SEARCH(-0.6f, 0.25f, 8, -0.3f, 0.3f, 5, 3, 0.08f, 12),
                                 SEARCH(-0.4f, 0.3f, 12, -0.1f, 0.3f, 10, 0, 0, 8)},
    [EFFORT_BEST] =             {SEARCH(-0.8f, 0.25f, 11, -0.6f, 0.25f, 8, 6, 0.06f, 12),
                                 SEARCH(-0.5f, 0.2f, 24, -0.4f, 0.2f, 20, 8, 0.06f, 20)},
};
static const codec_search searches_q6_k[3][2] = {
    [EFFORT_FAST] =    {[0 ... 1] = SEARCH(-3, 0.5f, 7, 0, 0, 0, 0, 0, 2)},
    [EFFORT_DEFAULT] = {[0 ... 1] = SEARCH(-6, 0.5f, 14, 0, 0, 0, 0, 0, 2)},
    [EFFORT_BEST] =    {[0 ... 1] = SEARCH(-6, 0.35f, 26, -5, 0.35f, 21, 3, 0.02f, 8)},
};
static const codec_search searches_iq4_xs[3][2] = {
    [EFFORT_FAST] =    {[0 ... 1] = SEARCH(0, 8, 2, 0, 8, 1, 1, 0.03f, 2)},
    [EFFORT_DEFAULT] = {[0 ... 1] = SEARCH(-10, 6, 5, -6, 6, 4, 4, 0.03f, 6)},
    [EFFORT_BEST] =    {[0 ... 1] = SEARCH(-20, 4, 12, -16, 4, 10, 12, 0.03f, 32)},
};
/* clang-format on */

static const k_scaled_shape q3_k_shape = {16, 16, {-4, 3, false}, -32, 31, COPY_CLIPPED};
CHOOSE(q3_k) { k_scaled_choose(b, q3_k_shape, search, weighted, f, subs); }
ROUND(q3_k) { return round_scaled(q3_k_shape.grid, s, x, code); }
/* At three bits and with importance, where llama.cpp searches too, the whole gain costs more error than the
 * search wins on some tensors; six tenths bring five sixths of the gain in KL divergence. */
INLINE vf gain_of_q3_k(const factors *f, bool weighted, const projection p) {
    return gain_in_part(f, weighted, p, (weighted ? 0.6f : 1.0f));
}
#define NAME q3_k
#define TYPE Q3_K
#define LENGTH 16
#define GAIN gain_of_q3_k
#include "codec/simd/encoder_of.inc"

static const k_scaled_shape q6_k_shape = {16, 16, {-32, 31, false}, -128, 127, COPY_WRAPPED};
CHOOSE(q6_k) { k_scaled_choose(b, q6_k_shape, search, weighted, f, subs); }
ROUND(q6_k) { return round_scaled(q6_k_shape.grid, s, x, code); }
INLINE vf gain_in_one(const factors *f, bool weighted, const projection p) {
    return gain_in_part(f, weighted, p, 1);
}
#define NAME q6_k
#define TYPE Q6_K
#define LENGTH 16
#define GAIN gain_in_one
#include "codec/simd/encoder_of.inc"

static const k_scaled_shape iq4_xs_shape = {8, 32, {-127, 113, true}, -32, 31, COPY_NONE};
CHOOSE(iq4_xs) { k_scaled_choose(b, iq4_xs_shape, search, weighted, f, subs); }
ROUND(iq4_xs) { return round_scaled(iq4_xs_shape.grid, s, x, code); }
#define NAME iq4_xs
#define TYPE IQ4_XS
#define LENGTH 32
#define GAIN gain_in_one
#include "codec/simd/encoder_of.inc"
