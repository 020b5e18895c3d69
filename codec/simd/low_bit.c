/* TQ1_0, TQ2_0 (-d, 0, d in blocks of 256), Q2_0 (-d, 0, d, 2d in blocks of 64), Q1_0 (-d, d in blocks of
 * 128). Each lane one block. */
#include "codec/simd/scaled_copy.h"

/* Signs, and the (weighted) mean magnitude: least squares for them. The gain is not kept: with one bit that
 * would more than double the error. */
CHOOSE(q1_0) {
    vf sum = vf_all(0), total = vf_all(0);
    for (int i = 0; i < GGUF_Q1_0_ELEMENTS; i++) {
        vf w = weighted ? vf_all(b->w[i]) : vf_all(1);
        sum = sum + w * vf_magnitude(b->x[i]), total = total + w;
    }
    f->d[0] = sum / total, subs->scale = batch_half(b, f->d[0]);
}
ROUND(q1_0) {
    vm negative = vf_less(x, vf_all(0));
    *code = vi_pick(negative, vi_all(0), vi_all(1));
    return vf_pick(negative, -s->scale, s->scale);
}

/* ---- the search for the scale of a ternary block ----
 * As in codec/simd/scaled.h, and with its sums. But a code other than zero means that its weight's magnitude is added,
 * with importance: two sums under a mask. Four scales at a time, since a sum waits for what was added before. */
enum { TERNARY_ELEMENTS = 256, TERNARY_TOGETHER = 4 };

typedef struct ternary_block {
    vf size[TERNARY_ELEMENTS], pull[TERNARY_ELEMENTS]; /* |x|; w |x|, only where weighted */
    scaled_weight scratch[TERNARY_ELEMENTS];
    const scaled_weight *w;
    vf top; /* the first of the largest */
    scaled_fit kept;
} ternary_block;

INLINE void begin_ternary(ternary_block *t, const batch *b, bool weighted) {
    vf low, high, xx = vf_all(0);
    t->w = weighted ? scaled_spread(b->w, TERNARY_ELEMENTS, t->scratch) : NULL;
    vf_extremes(b->x, TERNARY_ELEMENTS, &low, &high);
    vf most = vf_larger(vf_magnitude(low), vf_magnitude(high));
    t->top = vf_all(0);
    for (int i = TERNARY_ELEMENTS; i-- > 0;) {
        t->size[i] = vf_magnitude(b->x[i]);
        if (weighted) t->pull[i] = t->w[i] * t->size[i];
        t->top = vf_pick(vf_equal(t->size[i], most), b->x[i], t->top);
    }
    for (int i = 0; i < TERNARY_ELEMENTS; i++) xx = xx + (weighted ? t->pull[i] : t->size[i]) * t->size[i];
    t->kept = (scaled_fit){{vf_all(0), vf_all(0)}, vf_all(0), xx * (1.0f - 0x1p-20f)};
}

/* Tries scales: codes nearest to x inv, for each of n inv. */
INLINE void try_ternary(ternary_block *t, bool weighted, const vf *inv, int n) {
    vf vv[TERNARY_TOGETHER], vx[TERNARY_TOGETHER], steps[TERNARY_TOGETHER];
    vi count[TERNARY_TOGETHER];
    for (int k = 0; k < n; k++) {
        vv[k] = vx[k] = vf_all(0), count[k] = vi_all(0);
        steps[k] = vf_magnitude(inv[k]);
    }
    for (int i = 0; i < TERNARY_ELEMENTS; i++)
        for (int k = 0; k < n; k++) {
            vm some = vf_less(vf_all(0.5f), t->size[i] * steps[k]);
            vx[k] = vf_add_where(vx[k], some, weighted ? t->pull[i] : t->size[i]);
            if (weighted)
                vv[k] = vf_add_where(vv[k], some, vf_all(0) + t->w[i]);
            else
                count[k] = vi_count(count[k], some);
        }
    for (int k = 0; k < n; k++) {
        scaled_sums f = {weighted ? vv[k] : vi_to_float(count[k]),
                         vf_pick(vf_less(inv[k], vf_all(0)), -vx[k], vx[k])};
        keep_better(&t->kept, &f);
    }
}

INLINE void choose_ternary(const batch *b, const codec_search *search, bool weighted, factors *f,
                           sub_scales *s) {
    const codec_ladder *lower = &search->lower;
    ternary_block t;
    begin_ternary(&t, b, weighted);
    vf per = vf_signed_inverse(t.top), inv[TERNARY_TOGETHER];
    for (int k = 0; k < lower->tries;) {
        int n = lower->tries - k < TERNARY_TOGETHER ? 1 : TERNARY_TOGETHER;
        for (int i = 0; i < n; i++) inv[i] = per * (-1.0f - lower->first - lower->step * (float)(k + i));
        if (n > 1)
            try_ternary(&t, weighted, inv, TERNARY_TOGETHER);
        else
            try_ternary(&t, weighted, inv, 1);
        k += n;
    }
    for (int k = 0; k < search->moves; k++) {
        float by = (float)((k + 1) / 2) * (k % 2 ? -search->move_step : search->move_step);
        inv[0] = vf_signed_inverse(t.kept.f.vx * vf_inverse(t.kept.f.vv)) * (1.0f + by);
        try_ternary(&t, weighted, inv, 1);
    }
    s->scale = f->d[0] = batch_stored(b, t.kept.f.vx * vf_inverse(t.kept.f.vv));
    s->inv = vf_signed_inverse(s->scale);
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

PACK(tq1_0) {
    vi bytes[52];
    for (int j = 0; j < 32; j++) bytes[j] = pack_trits(codes + j, 32, 5);
    for (int j = 0; j < 16; j++) bytes[32 + j] = pack_trits(codes + 160 + j, 16, 5);
    for (int j = 0; j < 4; j++) bytes[48 + j] = pack_trits(codes + 240 + j, 4, 4);
    pack_bytes(bytes, 52, words);
    words[13] = d[0];
}
PACK(tq2_0) {
    pack_pairs_of_bits(codes, words);
    words[16] = d[0];
}
PACK(q2_0) {
    vi bytes[16];
    for (int j = 0; j < 16; j++) {
        const vi *c = codes + 4 * j;
        bytes[j] = c[0] | c[1] << 2 | c[2] << 4 | c[3] << 6;
    }
    pack_bytes(bytes, 16, words);
    prepend_words(words, 4, d[0], 16);
}
PACK(q1_0) {
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

CHOOSE(tq1_0) { choose_ternary(b, search, weighted, f, subs); }
ROUND(tq1_0) { return round_scaled(ternary, s, x, code); }
#define NAME tq1_0
#define TYPE TQ1_0
#include "codec/simd/encoder_of.inc"

CHOOSE(tq2_0) { choose_ternary(b, search, weighted, f, subs); }
ROUND(tq2_0) { return round_scaled(ternary, s, x, code); }
#define NAME tq2_0
#define TYPE TQ2_0
#include "codec/simd/encoder_of.inc"

CHOOSE(q2_0) { choose_copied(b, 64, 2, quaternary, search, weighted, f, subs); }
ROUND(q2_0) { return round_scaled(quaternary, s, x, code); }
#define NAME q2_0
#define TYPE Q2_0
#include "codec/simd/encoder_of.inc"

#define NAME q1_0
#define TYPE Q1_0
#define GAIN no_gain
#include "codec/simd/encoder_of.inc"
