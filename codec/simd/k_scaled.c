/* Q3_K, Q6_K, IQ4_XS: sub-blocks with a packed scale of either sign, x' = (d sc) v.
 *
 * The search, each lane one super-block:
 *   1. per sub-block, the best of several scales with least squares after each;
 *   2. d: a few sizes, judged by what the packed scales make of the best codes;
 *   3. per sub-block, scales around what the decoder would use;
 *   4. d by least squares over the super-block.
 */
#include "codec/simd/k_scaled_copy.h"

/* What the search for a sub-block's scale works on: its floats, or a copy in 16 bits. */
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
        vf d = as_stored(b, size), e = vf_all(0);
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
        /* Those of a copy do not wait for each other. */
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

/* Takes the scales of a lattice that all weights lie on where they are better than the search's. */
INLINE void k_scaled_prefer_lattice(const batch *b, const k_scaled_shape sh, bool weighted, vf *d,
                                    k_scaled_sub_block *subs) {
    vf steps[16], sc[16], e = vf_all(0), least = vf_all(0);
    vf factor = lattice_factor(b, sh.subs, sh.length, lattice_most(sh.grid.low, sh.grid.high),
                               (int)sh.highest, steps);
    vm better = vf_less(vf_all(0), factor);
    if (!vm_any(better)) return;
    vf stored = as_stored(b, factor), per = vf_inverse(factor);
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
    /* Moves need floats, and with importance over many powers of ten the copy is too coarse to begin them with. */
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
    d = as_stored(b, vf_pick(vf_less(vf_all(0), down), across * vf_inverse(down), d));
    if (!sh.grid.iq4) k_scaled_prefer_lattice(b, sh, weighted, &d, subs);
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
static const codec_search searches_q3_k[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.lower = {-0.4f, 0.4f, 3},
                                  .upper = {0, 0.4f, 2},
                                  .moves = 1,
                                  .move_step = 0.06f,
                                  .factors = 2}},
    [EFFORT_DEFAULT] = {{.lower = {-0.6f, 0.25f, 8},
                         .upper = {-0.3f, 0.3f, 5},
                         .moves = 3,
                         .move_step = 0.08f,
                         .factors = 12},
                        {.lower = {-0.4f, 0.3f, 12}, .upper = {-0.1f, 0.3f, 10}, .factors = 8}},
    [EFFORT_BEST] = {{.lower = {-0.8f, 0.25f, 11},
                      .upper = {-0.6f, 0.25f, 8},
                      .moves = 6,
                      .move_step = 0.06f,
                      .factors = 12},
                     {.lower = {-0.5f, 0.2f, 24},
                      .upper = {-0.4f, 0.2f, 20},
                      .moves = 8,
                      .move_step = 0.06f,
                      .factors = 20}},
};
static const codec_search searches_q6_k[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.lower = {-3, 0.5f, 7}, .factors = 2}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.lower = {-6, 0.5f, 14}, .factors = 2}},
    [EFFORT_BEST] = {[0 ... 1] = {.lower = {-6, 0.35f, 26},
                                  .upper = {-5, 0.35f, 21},
                                  .moves = 3,
                                  .move_step = 0.02f,
                                  .factors = 8}},
};
static const codec_search searches_iq4_xs[3][2] = {
    [EFFORT_FAST] =
        {[0 ... 1] = {.lower = {0, 8, 2}, .upper = {0, 8, 1}, .moves = 1, .move_step = 0.03f, .factors = 2}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.lower = {-10, 6, 5},
                                     .upper = {-6, 6, 4},
                                     .moves = 4,
                                     .move_step = 0.03f,
                                     .factors = 6}},
    [EFFORT_BEST] = {[0 ... 1] = {.lower = {-20, 4, 12},
                                  .upper = {-16, 4, 10},
                                  .moves = 12,
                                  .move_step = 0.03f,
                                  .factors = 32}},
};

static const k_scaled_shape q3_k_shape = {16, 16, {-4, 3, false}, -32, 31, COPY_CLIPPED};
CHOOSE(q3_k) { k_scaled_choose(b, q3_k_shape, search, weighted, f, subs); }
ROUND(q3_k) { return round_scaled(q3_k_shape.grid, s, x, code); }
/* At three bits and with importance, where llama.cpp searches too, the whole gain costs more error than
 * the search wins on some tensors; six tenths bring five sixths of what it is worth in divergence. */
INLINE vf gain_of_q3_k(const factors *f, bool weighted, const projection p) {
    return gain_in_part(f, weighted, p, (weighted ? 0.6f : 1.0f));
}
#define NAME q3_k
#define TYPE Q3_K
#define LENGTH 16
#define GAIN gain_of_q3_k
#include "codec/simd/encoder_of.h"

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
#include "codec/simd/encoder_of.h"

static const k_scaled_shape iq4_xs_shape = {8, 32, {-127, 113, true}, -32, 31, COPY_NONE};
CHOOSE(iq4_xs) { k_scaled_choose(b, iq4_xs_shape, search, weighted, f, subs); }
ROUND(iq4_xs) { return round_scaled(iq4_xs_shape.grid, s, x, code); }
#define NAME iq4_xs
#define TYPE IQ4_XS
#define LENGTH 32
#define GAIN gain_in_one
#include "codec/simd/encoder_of.h"
