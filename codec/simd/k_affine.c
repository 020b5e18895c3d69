/* Q2_K, Q4_K, Q5_K: sub-blocks with a scale and a minimum, x' = (d sc) q - (dmin mn).
 *
 * The search, each lane one super-block:
 *   1. per sub-block, several placings of the code range over the block's range; for each, codes and then the
 *      scale and minimum that are least squares for these codes (affine.h); the best is kept;
 *   2. d and dmin: a few larger than needed for the largest scale and minimum, judged by what the packed
 *      scales and minimums make of the best codes (their quadratic form: no pass over the data);
 *   3. per sub-block, packed scales and minimums around the settled ones, each judged by the codes that suit it;
 *   4. d and dmin by least squares over the super-block. */
#include "codec/simd/affine.h"
#include "codec/simd/qat_grid.h"

enum { K_AFFINE_SUBS = 16 };

typedef struct k_affine_shape {
    int subs;         /* sub-blocks of a super-block */
    float levels;     /* largest packed scale */
    affine_span span; /* of a sub-block */
} k_affine_shape;

/* The cost of a sub-block's codes above their least error: bend (a - best)^2 + w (m - mean_q a + mean_x)^2.
 * With m >= 0 or codes that are all the same, the scale to start from is another than the best one. */
typedef struct k_affine_bowl {
    vf bend, best, w, mean_q, mean_x;
    vf start;
} k_affine_bowl;

typedef struct k_affine_sub_block {
    affine_search fit;
    k_affine_bowl bowl; /* of its codes, for the weights themselves */
    vf sc, mn;          /* packed */
} k_affine_sub_block;

INLINE k_affine_bowl bowl_of(const affine_search *s) {
    const block_copy *c = &s->copy;
    const code_sums *f = &s->f;
    vf q = f->q * s->per_w, y = f->wx * s->per_w, bend = f->qq - q * f->q;
    bend = vf_pick(vf_less(f->qq * 1e-5f, bend), bend, vf_all(0)); /* as in affine_solve */
    return (k_affine_bowl){
        .bend = c->unit * bend,
        .best = c->range * (f->qx - q * f->wx) * vf_inverse(bend),
        .w = c->unit * f->w,
        .mean_q = q,
        .mean_x = c->low + c->range * y,
        .start = c->range * s->a,
    };
}

/* The best packed scale next to the real one, with the best packed minimum for each: their cost. */
INLINE vf k_affine_settle(const k_affine_bowl *s, const vf d[2], const vf inv[2], float levels, vf *sc,
                          vf *mn) {
    vf start = vf_nearest(s->start * inv[0] - 0.5f), best = vf_all(INFINITY);
    *sc = *mn = vf_all(0);
    for (int k = 0; k < 2; k++) {
        vf c = vf_clamp(start + (float)k, vf_all(0), vf_all(levels)), scale = c * d[0];
        vf min = s->mean_q * scale - s->mean_x;
        vf n = vf_clamp(vf_nearest(min * inv[1]), vf_all(0), vf_all(levels));
        vf off = scale - s->best, off_min = n * d[1] - min;
        vf e = s->bend * off * off + s->w * off_min * off_min;
        vm better = vf_less(e, best);
        best = vf_pick(better, e, best), *sc = vf_pick(better, c, *sc), *mn = vf_pick(better, n, *mn);
    }
    return best;
}

/* Least squares for d and dmin over all sub-blocks. */
INLINE void refit_factors(const batch *b, const k_affine_sub_block *subs, const k_affine_shape sh, vf d[2]) {
    vf a11 = vf_all(0), a12 = vf_all(0), a22 = vf_all(0), b1 = vf_all(0), b2 = vf_all(0);
    for (int k = 0; k < sh.subs; k++) {
        const k_affine_bowl *s = &subs[k].bowl;
        vf sc = subs[k].sc, mn = subs[k].mn, q = s->mean_q * sc, wm = s->w * mn;
        a11 = a11 + s->bend * sc * sc + s->w * q * q, a12 = a12 - wm * q, a22 = a22 + wm * mn;
        b1 = b1 + s->bend * sc * s->best + s->w * q * s->mean_x, b2 = b2 - wm * s->mean_x;
    }
    vf det = a11 * a22 - a12 * a12;
    vm two = vf_less(a11 * a22 * 1e-6f, det);
    vf safe = vf_pick(two, det, vf_all(1));
    vf scale = vf_pick(two, (b1 * a22 - b2 * a12) / safe, b1 * vf_inverse(a11));
    vf min = vf_pick(two, (a11 * b2 - a12 * b1) / safe, d[1]);
    vm sane = vm_both(vf_at_most(vf_all(0), scale), vf_at_most(vf_all(0), min));
    d[0] = batch_stored(b, vf_pick(sane, scale, d[0])), d[1] = batch_stored(b, vf_pick(sane, min, d[1]));
}

/* Total error with the best packed scales for the codes so far, without sum w x^2. */
INLINE vf k_affine_settle_all(k_affine_sub_block *subs, const k_affine_shape sh, const vf d[2]) {
    const vf inv[2] = {vf_inverse(d[0]), vf_inverse(d[1])};
    vf e = vf_all(0);
    for (int i = 0; i < sh.subs; i++) {
        e = e + k_affine_settle(&subs[i].bowl, d, inv, sh.levels, &subs[i].sc, &subs[i].mn);
    }
    return e;
}

/* Step 2. */
INLINE void choose_factors(const batch *b, k_affine_sub_block *subs, const k_affine_shape sh, int tries,
                           vf d[2]) {
    vf top[2] = {vf_all(0), vf_all(0)};
    for (int k = 0; k < sh.subs; k++) {
        const affine_search *s = &subs[k].fit;
        top[0] = vf_larger(subs[k].bowl.start, top[0]);
        top[1] = vf_larger(s->m * s->copy.range - s->copy.low, top[1]);
    }
    vf best = vf_all(1e30f);
    d[0] = d[1] = vf_all(0);
    for (int k = 0; k < tries; k++) {
        static const int8_t by[36][2] = {
            {0, 0}, {1, 1}, {1, 2}, {2, 1}, {2, 2}, {0, 1}, {1, 0}, {0, 2}, {2, 0}, {3, 1}, {1, 3}, {3, 3},
            {0, 3}, {3, 0}, {2, 3}, {3, 2}, {0, 4}, {4, 0}, {0, 5}, {1, 4}, {4, 1}, {5, 0}, {1, 5}, {2, 4},
            {4, 2}, {5, 1}, {2, 5}, {3, 4}, {4, 3}, {5, 2}, {3, 5}, {4, 4}, {5, 3}, {4, 5}, {5, 4}, {5, 5}};
        vf try[2];
        for (int j = 0; j < 2; j++)
            try[j] = batch_stored(b, top[j] * ((1.0f + 0.02f * (float)by[k][j]) / sh.levels));
        for (int r = 0;; r++) {
            vf e = k_affine_settle_all(subs, sh, try);
            vm better = vf_less(e, best);
            best = vf_pick(better, e, best);
            for (int j = 0; j < 2; j++) d[j] = vf_pick(better, try[j], d[j]);
            if (r == 1) break;
            refit_factors(b, subs, sh, try);
        }
    }
}

/* Step 3. */
INLINE void pack_scales(k_affine_sub_block *sub, const k_affine_shape sh, const codec_pairs *neighbours,
                        bool weighted, const vf d[2]) {
    affine_search *s = &sub->fit;
    const vf inv[2] = {vf_inverse(d[0]), vf_inverse(d[1])};
    vf sc, mn, best = vf_all(INFINITY);
    k_affine_settle(&sub->bowl, d, inv, sh.levels, &sc, &mn);
    sub->sc = sc, sub->mn = mn;
    for (int k = 0; k < neighbours->n; k++) {
        const int8_t *by = neighbours->list[k];
        vf c = vf_clamp(sc + (float)by[0], vf_all(0), vf_all(sh.levels));
        vf n = vf_clamp(mn + (float)by[1], vf_all(0), vf_all(sh.levels));
        vf a = c * d[0] * s->copy.per_range, m = (n * d[1] + s->copy.low) * s->copy.per_range;
        code_sums f = affine_sum_codes(s, sh.span, weighted, a, m);
        vf e = affine_cost(&f, a, m);
        vm better = vf_less(e, best);
        best = vf_pick(better, e, best), sub->sc = vf_pick(better, c, sub->sc),
        sub->mn = vf_pick(better, n, sub->mn);
        keep_form(better, &s->f, &f);
    }
    sub->bowl = bowl_of(s);
}

/* ---- quantization grids (QAT checkpoints) ---- */
/* The multiples of its step that a sub-block's weights reach down and up to. */
typedef struct k_affine_reach {
    vf below, above; /* at least 0 each */
} k_affine_reach;

INLINE k_affine_reach reach_of(const vf *x, int n, vf step) {
    vf low, high, inv = vf_inverse(step);
    vf_extremes(x, n, &low, &high);
    return (k_affine_reach){vf_nearest(vf_larger(-low, vf_all(0)) * inv),
                            vf_nearest(vf_larger(high, vf_all(0)) * inv)};
}

/* The error of a block with factors and packed scales and minimums. */
INLINE vf k_affine_error(const batch *b, const k_affine_shape sh, bool weighted, const vf d[2], const vf *sc,
                         const vf *mn) {
    vf e = vf_all(0), top = vf_all(top_code(sh.span));
    for (int k = 0; k < sh.subs; k++) {
        vf scale = d[0] * sc[k], min = d[1] * mn[k], inv = vf_inverse(scale), offset = min * inv;
        for (int i = k * sh.span.length; i < (k + 1) * sh.span.length; i++) {
            vf q = vf_clamp(vf_nearest(b->x[i] * inv + offset), vf_all(0), top);
            e = e + qat_grid_error(b->x[i], q * scale - min, weighted, b->w[i]);
        }
    }
    return e;
}

/* Takes the scales and minimums of a quantization grid that all weights lie on where they are better than the
 * search's. Code 0 stands for the same multiple in all sub-blocks: the middle one, or the lowest that occurs;
 * dmin then is so many times d, and packed minimums are packed scales. Or for the lowest of each sub-block:
 * dmin is d. */
INLINE void k_affine_prefer_qat_grid(const batch *b, const k_affine_shape sh, bool weighted, vf d[2],
                                     k_affine_sub_block *subs) {
    enum { MIDDLE, LOWEST, EACH, WAYS };
    const float top = top_code(sh.span), middle = 0.5f * (top + 1);
    vf steps[K_AFFINE_SUBS], sc[K_AFFINE_SUBS], mn[K_AFFINE_SUBS], lowest = vf_all(0);
    k_affine_reach reach[K_AFFINE_SUBS];
    vf factor = qat_grid_factor(b, sh.subs, sh.span.length, qat_grid_most(-top, 0), (int)sh.levels, steps);
    vm found = vf_less(vf_all(0), factor);
    if (!vm_any(found)) return;
    for (int k = 0; k < sh.subs; k++) sc[k] = subs[k].sc, mn[k] = subs[k].mn;
    vf least = k_affine_error(b, sh, weighted, d, sc, mn);
    for (int k = 0; k < sh.subs; k++) {
        sc[k] = vf_clamp(vf_nearest(steps[k] * vf_inverse(factor)), vf_all(0), vf_all(sh.levels));
        reach[k] = reach_of(b->x + k * sh.span.length, sh.span.length, steps[k]);
        lowest = vf_larger(reach[k].below, lowest);
    }
    for (int way = 0; way < WAYS; way++) {
        vf zero = way == MIDDLE ? vf_all(middle) : way == LOWEST ? lowest : vf_all(1);
        vf try[2] = {batch_stored(b, factor), batch_half(b, factor * zero)};
        for (int k = 0; k < sh.subs; k++)
            mn[k] = vf_smaller(way == EACH ? sc[k] * reach[k].below : sc[k], vf_all(sh.levels));
        vf e = k_affine_error(b, sh, weighted, try, sc, mn);
        vm better = vm_both(found, vf_less(e, least));
        least = vf_pick(better, e, least);
        for (int j = 0; j < 2; j++) d[j] = vf_pick(better, try[j], d[j]);
        for (int k = 0; k < sh.subs; k++) {
            subs[k].sc = vf_pick(better, sc[k], subs[k].sc);
            subs[k].mn = vf_pick(better, mn[k], subs[k].mn);
        }
    }
}

INLINE void k_affine_choose(const batch *b, const k_affine_shape sh, const codec_search *search,
                            bool weighted, factors *f, sub_scales *out) {
    k_affine_sub_block subs[K_AFFINE_SUBS];
    vf *d = f->d;
    for (int k = 0; k < sh.subs; k++) {
        int first = k * sh.span.length;
        start_affine(&subs[k].fit, b->x + first, b->w + first, sh.span, search, weighted);
        subs[k].bowl = bowl_of(&subs[k].fit);
    }
    choose_factors(b, subs, sh, search->factors, d);
    for (int k = 0; k < sh.subs; k++) pack_scales(&subs[k], sh, &search->neighbours, weighted, d);
    refit_factors(b, subs, sh, d);
    k_affine_prefer_qat_grid(b, sh, weighted, d, subs);
    for (int k = 0; k < sh.subs; k++) {
        vf scale = d[0] * subs[k].sc, min = d[1] * subs[k].mn, inv = vf_inverse(scale);
        out[k] = (sub_scales){subs[k].sc, subs[k].mn, scale, inv, min, min * inv};
    }
}

INLINE vf round_affine(const sub_scales *s, int bits, vf x, vi *code) {
    vf q = vf_clamp(vf_nearest(x * s->inv + s->offset), vf_all(0), vf_all((float)((1 << bits) - 1)));
    *code = vf_nearest_int(q);
    return q * s->scale - s->min;
}

/* ---- packing ---- */
/* The twelve bytes of eight 6-bit scales and minimums, as three words. */
INLINE void pack_pairs(const sub_scales *subs, vi words[3]) {
    vi bytes[12];
    for (int k = 0; k < 4; k++) {
        vi sc = vf_nearest_int(subs[k].sc), mn = vf_nearest_int(subs[k].mn);
        vi sc4 = vf_nearest_int(subs[k + 4].sc), mn4 = vf_nearest_int(subs[k + 4].mn);
        bytes[k] = sc | (sc4 >> 4) << 6;
        bytes[k + 4] = mn | (mn4 >> 4) << 6;
        bytes[k + 8] = (sc4 & 15) | (mn4 & 15) << 4;
    }
    pack_bytes(bytes, 12, words);
}

/* Low four bits: elements l and l + 32 of each group of 64 share a byte. */
INLINE void k_affine_pack_nibbles(const vi codes[256], vi words[32]) {
    for (int g = 0; g < 4; g++) {
        vi bytes[32];
        for (int l = 0; l < 32; l++) bytes[l] = (codes[64 * g + l] & 15) | (codes[64 * g + l + 32] & 15) << 4;
        pack_bytes(bytes, 32, words + 8 * g);
    }
}

PACK(q4_k) {
    words[0] = d[0] | d[1] << 16;
    pack_pairs(subs, words + 1);
    k_affine_pack_nibbles(codes, words + 4);
}

PACK(q5_k) {
    words[0] = d[0] | d[1] << 16;
    pack_pairs(subs, words + 1);
    vi bytes[32];
    for (int l = 0; l < 32; l++) {
        bytes[l] = vi_all(0);
        for (int k = 0; k < 8; k++) bytes[l] = bytes[l] | (codes[32 * k + l] >> 4) << k;
    }
    pack_bytes(bytes, 32, words + 4);
    k_affine_pack_nibbles(codes, words + 12);
}

PACK(q2_k) {
    vi bytes[16];
    for (int k = 0; k < 16; k++) bytes[k] = vf_nearest_int(subs[k].sc) | vf_nearest_int(subs[k].mn) << 4;
    pack_bytes(bytes, 16, words);
    pack_pairs_of_bits(codes, words + 4);
    words[20] = d[0] | d[1] << 16;
}

/* ---- encoders ---- */
/* Neighbors in the order in which each adds most to those before it, on normal weights with and without
 * importance. */
static const int8_t q2_near[24][2] = {{0, 0},   {-1, 0},  {-1, -2}, {-1, -1}, {0, -1},  {0, 1},
                                      {1, 1},   {-2, 0},  {1, 0},   {-2, -4}, {-2, -3}, {-3, 0},
                                      {-3, -5}, {-2, -1}, {-1, 1},  {-2, 3},  {-2, -2}, {-2, 1},
                                      {-1, -3}, {1, 2},   {-1, -4}, {0, 2},   {-4, 1},  {-3, -4}};
static const int8_t q4_near[24][2] = {{0, 0},  {-1, -1}, {1, 1},   {0, -1},  {-1, 0},  {1, 2},
                                      {1, 0},  {-1, -2}, {0, 1},   {-2, -2}, {-2, -1}, {2, 1},
                                      {-4, 0}, {-2, -3}, {4, 5},   {4, 0},   {2, 2},   {-4, -2},
                                      {4, 2},  {-2, 0},  {-4, -5}, {-3, 0},  {2, 3},   {-1, -3}};
static const int8_t q5_near[24][2] = {{0, 0},  {1, 1},  {-1, -1}, {2, 1},  {2, 0}, {3, 3},  {3, 4},  {4, 0},
                                      {1, 0},  {0, -3}, {0, 1},   {3, 2},  {4, 1}, {2, 2},  {0, 3},  {0, -1},
                                      {-1, 0}, {4, 2},  {1, 2},   {-2, 0}, {3, 1}, {0, -2}, {4, -1}, {1, 3}};

/* A search for each effort: without importance, then with it, where llama.cpp's encoders are slower and the search pays
 * more. `n` placings of so many bits, neighbours of `near`. */
#define SEARCH(bits, n, step, n_factors, near, n_near, n_polish) \
    { \
        .placings = {placings_##bits##_bits, n}, .placing_step = step, .factors = n_factors, \
        .neighbours = {near, n_near}, .polish = n_polish \
    }
/* clang-format off: a row for each search */
static const codec_search searches_q2_k[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = SEARCH(2, 5, 0.5f, 1, q2_near, 1, 0)},
    [EFFORT_DEFAULT] =          {SEARCH(2, 6, 0.5f, 3, q2_near, 8, 1),
                                 SEARCH(2, 12, 0.5f, 9, q2_near, 8, 1)},
    [EFFORT_BEST] = {[0 ... 1] = SEARCH(2, 16, 0.5f, 16, q2_near, 24, 2)},
};
static const codec_search searches_q4_k[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = SEARCH(4, 5, 0.6f, 1, q4_near, 1, 0)},
    [EFFORT_DEFAULT] =          {SEARCH(4, 8, 0.6f, 9, q4_near, 12, 2),
                                 SEARCH(4, 20, 0.6f, 12, q4_near, 6, 1)},
    [EFFORT_BEST] = {[0 ... 1] = SEARCH(4, 20, 0.6f, 36, q4_near, 24, 2)},
};
static const codec_search searches_q5_k[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = SEARCH(5, 5, 0.6f, 1, q5_near, 1, 0)},
    [EFFORT_DEFAULT] =          {SEARCH(5, 16, 0.6f, 12, q5_near, 12, 2),
                                 SEARCH(5, 20, 0.6f, 16, q5_near, 12, 1)},
    [EFFORT_BEST] = {[0 ... 1] = SEARCH(5, 20, 0.6f, 36, q5_near, 24, 2)},
};
/* clang-format on */

CHOOSE(q2_k) { k_affine_choose(b, (k_affine_shape){16, 15, {16, 2}}, search, weighted, f, subs); }
ROUND(q2_k) { return round_affine(s, 2, x, code); }
#define NAME q2_k
#define TYPE Q2_K
#define LENGTH 16
#include "codec/simd/encoder_of.inc"

CHOOSE(q4_k) { k_affine_choose(b, (k_affine_shape){8, 63, {32, 4}}, search, weighted, f, subs); }
ROUND(q4_k) { return round_affine(s, 4, x, code); }
#define NAME q4_k
#define TYPE Q4_K
#define LENGTH 32
#include "codec/simd/encoder_of.inc"

CHOOSE(q5_k) { k_affine_choose(b, (k_affine_shape){8, 63, {32, 5}}, search, weighted, f, subs); }
ROUND(q5_k) { return round_affine(s, 5, x, code); }
#define NAME q5_k
#define TYPE Q5_K
#define LENGTH 32
#include "codec/simd/encoder_of.inc"
