/* Q3_K, Q6_K, IQ4_XS: sub-blocks with a packed scale of either sign, x' = (d sc) v.
 *
 * The search, each lane one super-block:
 *   1. per sub-block, the best of several scales with least squares after each;
 *   2. d: a few sizes, judged by what the packed scales make of the best codes;
 *   3. per sub-block, scales around what the decoder would use;
 *   4. d by least squares over the super-block, final codes, gain kept.
 */
#include "codec/simd/kernels.h"
#include "codec/simd/scaled.h"

typedef struct shape {
    int subs, length; /* sub-blocks of a super-block, and their length */
    grid grid;
    float lowest, highest; /* packed scales */
    float move_step;       /* relative change of a scale in step 3 */
    float kept;            /* share of the gain that is kept with importance */
} shape;

typedef struct effort {
    ladder lower, upper; /* step 1 */
    int moves, factors;  /* tries of steps 3 and 2 */
} effort;

typedef struct sub_block {
    const vf *x, *w;
    scaled f;
    vf sc;
} sub_block;

/* Error for scale a, without sum w x^2. */
INLINE vf cost(const scaled *f, vf a) { return a * (a * f->vv - 2.0f * f->vx); }

/* The packed scale that suits the sums best: a parabola's lowest point, rounded. */
INLINE vf packed(const scaled *f, vf inv_d, const shape sh) {
    return clamp(nearest(f->vx * inverse(f->vv) * inv_d), all(sh.lowest), all(sh.highest));
}

/* Step 2. Both signs: the range of packed scales is one longer downward. */
INLINE vf choose_factor(const batch *b, const sub_block *subs, const shape sh, int tries) {
    vf top = all(0), best = all(1e30f), chosen = all(0);
    for (int k = 0; k < sh.subs; k++) {
        vf a = subs[k].f.vx * inverse(subs[k].f.vv);
        top = pick(lt(magnitude(top), magnitude(a)), a, top);
    }
    for (int k = 0; k < tries; k++) {
        vf size = magnitude(top) * ((1.0f + 0.01f * (float)(k / 2)) / (k % 2 ? sh.highest : -sh.lowest));
        vf d = as_stored(b, size), e = all(0);
        d = pick(lt(top, all(0)), k % 2 ? -d : d, k % 2 ? d : -d);
        vf inv = signed_inverse(d);
        for (int i = 0; i < sh.subs; i++) e = e + cost(&subs[i].f, packed(&subs[i].f, inv, sh) * d);
        vm better = lt(e, best);
        best = pick(better, e, best), chosen = pick(better, d, chosen);
    }
    return chosen;
}

/* Step 3. */
INLINE void pack_scale(sub_block *s, const shape sh, int moves, bool weighted, vf d) {
    vf inv_d = signed_inverse(d);
    s->sc = packed(&s->f, inv_d, sh);
    vf best = cost(&s->f, s->sc * d);
    for (int k = 0; k < moves; k++) {
        float by = (float)((k + 1) / 2) * (k % 2 ? -sh.move_step : sh.move_step);
        scaled f =
            take_scaled(s->x, s->w, weighted, sh.length, sh.grid, signed_inverse(s->sc * d) * (1.0f + by));
        vf sc = packed(&f, inv_d, sh), e = cost(&f, sc * d);
        vm better = lt(e, best);
        best = pick(better, e, best), s->sc = pick(better, sc, s->sc);
        s->f.vv = pick(better, f.vv, s->f.vv), s->f.vx = pick(better, f.vx, s->f.vx);
    }
}

INLINE void search(const batch *b, const shape sh, const effort ef, bool weighted, sub_block *subs, vf *d,
                   vi codes[256]) {
    for (int k = 0; k < sh.subs; k++) {
        sub_block *s = &subs[k];
        s->x = b->x + k * sh.length, s->w = b->w + k * sh.length;
        s->f = start_scaled(s->x, s->w, weighted, sh.length, sh.grid, ef.lower, ef.upper).f;
    }
    *d = choose_factor(b, subs, sh, ef.factors);
    vf down = all(0), across = all(0);
    for (int k = 0; k < sh.subs; k++) {
        sub_block *s = &subs[k];
        pack_scale(s, sh, ef.moves, weighted, *d);
        down = down + s->sc * s->sc * s->f.vv, across = across + s->sc * s->f.vx;
    }
    *d = as_stored(b, pick(lt(all(0), down), across * inverse(down), *d));
    vf xx = all(0), xy = all(0);
    for (int k = 0; k < sh.subs; k++) {
        const sub_block *s = &subs[k];
        vf scale = *d * s->sc, inv = signed_inverse(scale);
        for (int i = 0; i < sh.length; i++) {
            vf t = s->x[i] * inv, wx = weighted ? s->w[i] * s->x[i] : s->x[i];
            codes[k * sh.length + i] = code_of(sh.grid, t);
            xx = xx + wx * s->x[i], xy = xy + wx * (round_to(sh.grid, t) * scale);
        }
    }
    *d = *d * (1.0f + (weighted ? sh.kept : 1.0f) * (gain_kept(xx, xy) - 1.0f));
}

/* ---- packing ---- */
INLINE void pack_q3_k(const batch *b, const sub_block *subs, vf d, const vi codes[256], vi words[64]) {
    vi bytes[32];
    for (int l = 0; l < 32; l++) {
        bytes[l] = alli(0);
        for (int k = 0; k < 8; k++) bytes[l] = bytes[l] | (codes[32 * k + l] >> 2) << k;
    }
    pack_bytes(bytes, 32, words);
    pack_pairs_of_bits(codes, words + 8);
    vi u[16];
    for (int k = 0; k < 16; k++) u[k] = nearest_int(subs[k].sc) + 32;
    for (int k = 0; k < 8; k++) bytes[k] = (u[k] & 15) | (u[k + 8] & 15) << 4;
    for (int k = 0; k < 4; k++)
        bytes[8 + k] = u[k] >> 4 | (u[k + 4] >> 4) << 2 | (u[k + 8] >> 4) << 4 | (u[k + 12] >> 4) << 6;
    pack_bytes(bytes, 12, words + 24);
    words[27] = stored_bits(b, d);
}

INLINE void pack_q6_k(const batch *b, const sub_block *subs, vf d, const vi codes[256], vi words[64]) {
    vi bytes[64];
    for (int h = 0; h < 2; h++) {
        const vi *c = codes + 128 * h;
        for (int l = 0; l < 64; l++) bytes[l] = (c[l] & 15) | (c[l + 64] & 15) << 4;
        pack_bytes(bytes, 64, words + 16 * h);
        for (int l = 0; l < 32; l++)
            bytes[l] = c[l] >> 4 | (c[l + 32] >> 4) << 2 | (c[l + 64] >> 4) << 4 | (c[l + 96] >> 4) << 6;
        pack_bytes(bytes, 32, words + 32 + 8 * h);
    }
    for (int k = 0; k < 16; k++) bytes[k] = nearest_int(subs[k].sc) & 255;
    pack_bytes(bytes, 16, words + 48);
    words[52] = stored_bits(b, d);
}

INLINE void pack_iq4_xs(const batch *b, const sub_block *subs, vf d, const vi codes[256], vi words[64]) {
    vi bytes[16], top = alli(0);
    for (int k = 0; k < 8; k++) {
        vi u = nearest_int(subs[k].sc) + 32;
        top = top | (u >> 4) << 2 * k;
        bytes[k / 2] = k % 2 ? bytes[k / 2] | (u & 15) << 4 : u & 15;
    }
    words[0] = stored_bits(b, d) | top << 16;
    pack_bytes(bytes, 4, words + 1);
    for (int k = 0; k < 8; k++) {
        const vi *c = codes + 32 * k;
        for (int l = 0; l < 16; l++) bytes[l] = c[l] | c[l + 16] << 4;
        pack_bytes(bytes, 16, words + 2 + 4 * k);
    }
}

/* ---- encoders ---- */
/* At three bits and with importance, where the incumbent searches too, the whole gain costs more error than
 * the search wins on some tensors; six tenths bring five sixths of what it is worth in divergence. */
static const shape q3_shape = {16, 16, {-4, 3, false}, -32, 31, 0.06f, 0.6f};
static const shape q6_shape = {16, 16, {-32, 31, false}, -128, 127, 0.02f, 1};
static const shape iq4_shape = {8, 32, {-127, 113, true}, -32, 31, 0.03f, 1};
/* By effort, then without and with importance. */
static const effort q3_efforts[3][2] = {
    {{{-0.4f, 0.4f, 3}, {0, 0.4f, 2}, 1, 2}, {{-0.4f, 0.4f, 3}, {0, 0.4f, 2}, 1, 2}},
    {{{-0.6f, 0.3f, 6}, {-0.3f, 0.3f, 4}, 4, 8}, {{-0.5f, 0.4f, 9}, {-0.4f, 0.4f, 7}, 4, 8}},
    {{{-0.8f, 0.25f, 9}, {-0.6f, 0.25f, 6}, 6, 12}, {{-0.5f, 0.2f, 18}, {-0.4f, 0.2f, 14}, 8, 16}}};
static const effort q6_efforts[3][2] = {
    {{{-1, 1, 2}, {0, 1, 1}, 1, 2}, {{-1, 1, 2}, {0, 1, 1}, 1, 2}},
    {{{-5, 0.5f, 15}, {-4, 0.5f, 12}, 0, 2}, {{-5, 0.5f, 15}, {-4, 0.5f, 12}, 0, 2}},
    {{{-6, 0.35f, 26}, {-5, 0.35f, 21}, 3, 8}, {{-6, 0.35f, 26}, {-5, 0.35f, 21}, 3, 8}}};
static const effort iq4_efforts[3][2] = {
    {{{0, 8, 2}, {0, 8, 1}, 1, 2}, {{0, 8, 2}, {0, 8, 1}, 1, 2}},
    {{{-10, 6, 5}, {-6, 6, 4}, 4, 6}, {{-10, 6, 5}, {-6, 6, 4}, 4, 6}},
    {{{-20, 4, 12}, {-16, 4, 10}, 12, 32}, {{-20, 4, 12}, {-16, 4, 10}, 12, 32}}};

#define BATCH(name, n_bytes, n_words, sh, efforts) \
    static void name##_batch(const batch *b, codec_effort how, uint8_t *out, int lanes) { \
        sub_block subs[16]; \
        vf d; \
        vi codes[256], words[64]; \
        if (b->weighted) \
            search(b, sh, efforts[how][1], true, subs, &d, codes); \
        else \
            search(b, sh, efforts[how][0], false, subs, &d, codes); \
        pack_##name(b, subs, d, codes, words); \
        store_blocks(words, n_words, out, n_bytes, lanes); \
    } \
    ENCODER(name, 256, n_bytes, name##_batch(&b, how, out, lanes))

BATCH(q3_k, 110, 28, q3_shape, q3_efforts)
BATCH(q6_k, 210, 53, q6_shape, q6_efforts)
BATCH(iq4_xs, 136, 34, iq4_shape, iq4_efforts)
