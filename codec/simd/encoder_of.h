/* Makes an encoder (steps_of.h) of a type whose codes stand for one weight each. Included once per type,
 * after
 *
 *     NAME     in symbols: q4_k        TYPE  in gguf/type.h: Q4_K
 *     LENGTH   columns of a sub-block, which have a scale in common; without it, the block's
 *     GAIN     a function like no_gain: the gain that plain encoding finishes with; default: whole_gain
 *
 * and four of the type's own, always inlined, so that with NAME they become one loop over a batch:
 *
 *     searches_NAME[effort][weighted]                  the numbers that choose_NAME works with
 *     CHOOSE(NAME), ROUND(NAME), PACK(NAME)            as codec/simd/encoder.h has them */
#define OF(part) GQ_PASTE(part, NAME)
#define SIZE_(type, what) GGUF_##type##_##what
#define SIZE(type, what) SIZE_(type, what)
#ifndef LENGTH
#define LENGTH SIZE(TYPE, ELEMENTS)
#endif
#ifndef GAIN
#define GAIN whole_gain
#endif
#define GROUP 1
#define WEIGHTED(b) (b)->weighted
#define WEIGHTS(b, s) (b)->w

_Static_assert(SIZE(TYPE, ELEMENTS) % LENGTH == 0, "a block is a number of sub-blocks");

typedef struct OF(state) {
    factors f;
    sub_scales subs[SIZE(TYPE, ELEMENTS) / LENGTH];
    vi codes[SIZE(TYPE, ELEMENTS)];
} OF(state);

/* The search is most of the code: these two compile it once for each way of weighting. */
static NOINLINE void OF(choose_weighted)(OF(state) * s, const batch *b, const codec_search *search) {
    OF(choose)(b, search, true, &s->f, s->subs);
}
static NOINLINE void OF(choose_alike)(OF(state) * s, const batch *b, const codec_search *search) {
    OF(choose)(b, search, false, &s->f, s->subs);
}
INLINE void OF(choose_block)(OF(state) * s, const batch *b, const codec_search *search) {
    s->f = (factors){b->unit, b->per_unit, {vf_all(0), vf_all(0)}, search->canonical};
    if (b->weighted)
        OF(choose_weighted)(s, b, search);
    else
        OF(choose_alike)(s, b, search);
}

INLINE void OF(round_group)(OF(state) * s, int sub, int column, const vf *x, vf *y) {
    *y = OF(round)(&s->f, &s->subs[sub], *x, &s->codes[column]);
}

INLINE void OF(ends)(const OF(state) * s, int column, vf *low, vf *high) {
    const sub_scales *sub = &s->subs[column / LENGTH];
    vi code;
    vf down = OF(round)(&s->f, sub, vf_all(-0x1p20f), &code),
       up = OF(round)(&s->f, sub, vf_all(0x1p20f), &code);
    *low = vf_smaller(down, up), *high = vf_larger(down, up);
}

INLINE bool OF(weigh)(const OF(state) *, const float *importance, float *w) {
    if (importance) batch_weigh(w, importance, SIZE(TYPE, ELEMENTS));
    return importance != NULL;
}

INLINE void OF(pack_block)(const OF(state) * s, vf gain, vi *words) {
    vi d[2];
    for (int k = 0; k < 2; k++) d[k] = half_bits(s->f.d[k] * gain * s->f.unit);
    OF(pack)(d, s->subs, s->codes, words);
}

#include "codec/simd/steps_of.h"
