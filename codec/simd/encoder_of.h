/* Makes an encoder, all at once and step by step, of what a type brings. Included once per type, after
 *
 *     NAME     in symbols: q4_k        TYPE  in model/type.h: Q4_K
 *     LENGTH   columns of a sub-block, which have a scale in common
 *     GAIN     whole_gain, no_gain or a function like them: the gain that plain encoding finishes with
 *
 * and four of the type's own, always inlined, so that with NAME they become one loop over a batch:
 *
 *     searches_NAME[effort][weighted]                  the numbers that choose_NAME works with
 *     choose_NAME(b, search, weighted, factors, subs)  the search for scales: fills factors->d and subs
 *     round_NAME(factors, sub, x, code)                the code nearest to x; returns what it decodes to, in
 * the unit pack_NAME(d, subs, codes, words)                 a block's bytes as words; d: bits of both factors
 */
#define OF(part) GQ_PASTE(part, NAME)
#define SIZE_(type, what) GGUF_##type##_##what
#define SIZE(type, what) SIZE_(type, what)

enum {
    OF(n) = SIZE(TYPE, ELEMENTS),
    OF(bytes) = SIZE(TYPE, BYTES),
    OF(words) = (OF(bytes) + 3) / 4,
};
_Static_assert(OF(n) <= 256 && OF(n) % 16 == 0, "room for a block in a batch; batch_weigh()");
_Static_assert(OF(n) % LENGTH == 0, "a block is a number of sub-blocks");
_Static_assert((int)OF(words) <= (int)MOST_WORDS, "room for a block in store_blocks()");

typedef struct OF(state) {
    factors f;
    sub_scales subs[OF(n) / LENGTH];
    vi codes[OF(n)];
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

static NOINLINE void OF(finish_block)(const OF(state) * s, vf gain, uint8_t *out, size_t stride,
                                      size_t rows) {
    vi words[MOST_WORDS], d[2];
    for (int k = 0; k < 2; k++) d[k] = half_bits(s->f.d[k] * gain * s->f.unit);
    OF(pack)(d, s->subs, s->codes, words);
    store_blocks(words, OF(words), OF(bytes), out, stride, rows);
}

/* ---- all at once ---- */
INLINE void OF(encode_block)(const batch *b, const codec_search *search, bool weighted, uint8_t *out,
                             size_t stride, size_t rows) {
    OF(state) s;
    projection p = {vf_all(0), vf_all(0)};
    OF(choose_block)(&s, b, search);
    for (int k = 0; k < OF(n) / LENGTH; k++)
        for (int i = k * LENGTH; i < (k + 1) * LENGTH; i++) {
            vf y = OF(round)(&s.f, &s.subs[k], b->x[i], &s.codes[i]);
            projection_add(&p, b->x[i], y, weighted, b->w[i]);
        }
    OF(finish_block)(&s, GAIN(&s.f, weighted, p), out, stride, rows);
}

static void OF(encode_batch)(const batch *b, const codec_search *search, uint8_t *out, size_t stride,
                             size_t rows) {
    if (b->weighted)
        OF(encode_block)(b, search, true, out, stride, rows);
    else
        OF(encode_block)(b, search, false, out, stride, rows);
}

static const encoder OF(encoder) = {OF(n), OF(bytes), LEVEL(OF(decode)), OF(searches), OF(encode_batch)};

void LEVEL(OF(encode))(const float *x, uint8_t *out, size_t rows, size_t cols,
                       const codec_importance *importance, const encode_settings *settings) {
    LEVEL(encode_rows)(&OF(encoder), x, out, rows, cols, importance, settings);
}

/* ---- step by step ---- */
static void OF(step_choose)(void *state, const float *x, const float *importance,
                            const codec_search *search) {
    batch b;
    memcpy(b.x, x, OF(n) * sizeof *b.x);
    start_batch(&b, importance, OF(n));
    OF(choose_block)(state, &b, search);
}

static void OF(step_round)(void *state, size_t column, const float *x, float *decoded) {
    OF(state) *s = state;
    vf y = OF(round)(&s->f, &s->subs[column / LENGTH], vf_load(x) * s->f.per_unit, &s->codes[column]);
    vf_store(decoded, y * s->f.unit);
}

static void OF(step_ends)(const void *state, size_t column, float *low, float *high) {
    const OF(state) *s = state;
    const sub_scales *sub = &s->subs[column / LENGTH];
    vi code;
    vf down = OF(round)(&s->f, sub, vf_all(-0x1p20f), &code),
       up = OF(round)(&s->f, sub, vf_all(0x1p20f), &code);
    vf_store(low, vf_smaller(down, up) * s->f.unit), vf_store(high, vf_larger(down, up) * s->f.unit);
}

static void OF(step_gain_kept)(const void *state, const float *x, const float *decoded,
                               const float *importance, float *gain) {
    const OF(state) *s = state;
    float w[OF(n)] = {0};
    projection p = {vf_all(0), vf_all(0)};
    if (importance) batch_weigh(w, importance, OF(n));
    for (int i = 0; i < OF(n); i++)
        projection_add(&p, vf_load(x + i * L) * s->f.per_unit, vf_load(decoded + i * L) * s->f.per_unit,
                       importance != NULL, w[i]);
    vf_store(gain, GAIN(&s->f, importance != NULL, p));
}

static void OF(step_finish)(const void *state, const float *gain, uint8_t *blocks, size_t stride,
                            size_t rows) {
    OF(finish_block)(state, vf_load(gain), blocks, stride, rows);
}

const codec_steps LEVEL(OF(steps)) = {
    .state_bytes = sizeof(OF(state)),
    .group = 1,
    .searches = OF(searches),
    .choose = OF(step_choose),
    .round = OF(step_round),
    .ends = OF(step_ends),
    .gain_kept = OF(step_gain_kept),
    .finish = OF(step_finish),
};

#undef OF
#undef SIZE_
#undef SIZE
#undef NAME
#undef TYPE
#undef LENGTH
#undef GAIN
