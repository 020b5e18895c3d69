/* Makes an encoder, all at once and step by step, of what encoder_of.h or grid_encoder_of.h bring for a type.
 * Included by them after
 *
 *     NAME, TYPE, LENGTH        as there; LENGTH: columns with a scale in common
 *     GROUP                     columns that are coded together
 *     GAIN(f, weighted, p)      the gain that plain encoding finishes with
 *     WEIGHTED(b)               whether the errors of a batch are weighted, ...
 *     WEIGHTS(b, s)             ... and by what; s: the state of its block
 *
 * and, with NAME behind each,
 *
 *     state                                   a block's scales and codes; its member f has the units
 *     choose_block(s, b, search)              the search for scales
 *     round_group(s, sub, column, x, y)       codes of sub-block `sub` nearest to x; y: what they decode to
 *     ends(s, column, low, high)              the lowest and the highest y there can be
 *     weigh(s, importance, w)                 sets w as WEIGHTS has it, returns WEIGHTED
 *     pack_block(s, gain, words)              a block's bytes as words */
enum { OF(n) = SIZE(TYPE, ELEMENTS), OF(bytes) = SIZE(TYPE, BYTES), OF(words) = (OF(bytes) + 3) / 4 };
_Static_assert(OF(n) <= 256 && OF(n) % 16 == 0, "room for a block in a batch; batch_weigh()");
_Static_assert((int)OF(words) <= (int)MOST_WORDS, "room for a block in store_blocks()");
_Static_assert((int)CODEC_MOST_GROUP % GROUP == 0, "callers make room for so many");

static NOINLINE void OF(finish_block)(const OF(state) * s, vf gain, uint8_t *out, size_t stride,
                                      size_t rows) {
    vi words[MOST_WORDS];
    OF(pack_block)(s, gain, words);
    store_blocks(words, OF(words), OF(bytes), out, stride, rows);
}

/* ---- all at once ---- */
INLINE void OF(encode_block)(const batch *b, const codec_search *search, bool weighted, uint8_t *out,
                             size_t stride, size_t rows) {
    OF(state) s;
    projection p = {vf_all(0), vf_all(0), vf_all(0)};
    OF(choose_block)(&s, b, search);
    for (int k = 0; k < OF(n) / LENGTH; k++)
        for (int i = k * LENGTH; i < (k + 1) * LENGTH; i += GROUP) {
            vf y[GROUP];
            OF(round_group)(&s, k, i, b->x + i, y);
            for (int g = i; g < i + GROUP; g++)
                projection_add(&p, b->x[g], y[g - i], weighted, WEIGHTS(b, &s)[g]);
        }
    OF(finish_block)(&s, GAIN(&s.f, weighted, p), out, stride, rows);
}

static void OF(encode_batch)(const batch *b, const codec_search *search, uint8_t *out, size_t stride,
                             size_t rows) {
    if (WEIGHTED(b))
        OF(encode_block)(b, search, true, out, stride, rows);
    else
        OF(encode_block)(b, search, false, out, stride, rows);
}

static const encoder OF(encoder) = {OF(n), OF(bytes), LEVEL(OF(decode)), OF(searches), OF(encode_batch)};

void LEVEL(OF(encode))(const float *x, uint8_t *out, size_t rows, size_t cols, const float *importance,
                       const encode_settings *settings) {
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

static void OF(step_round)(void *state, size_t column, const float *from, float *decoded) {
    OF(state) *s = state;
    vf x[GROUP], y[GROUP];
    for (int g = 0; g < GROUP; g++) x[g] = vf_load(from + g * L) * s->f.per_unit;
    OF(round_group)(s, (int)column / LENGTH, (int)column, x, y);
    for (int g = 0; g < GROUP; g++) vf_store(decoded + g * L, y[g] * s->f.unit);
}

static void OF(step_ends)(const void *state, size_t column, float *low, float *high) {
    const OF(state) *s = state;
    vf least, most;
    OF(ends)(s, (int)column, &least, &most);
    for (int g = 0; g < GROUP; g++)
        vf_store(low + g * L, least * s->f.unit), vf_store(high + g * L, most * s->f.unit);
}

static void OF(step_gain_kept)(const void *state, const float *x, const float *decoded,
                               const float *importance, float *gain) {
    const OF(state) *s = state;
    float w[OF(n)] = {0};
    projection p = {vf_all(0), vf_all(0), vf_all(0)};
    bool weighted = OF(weigh)(s, importance, w);
    for (int i = 0; i < OF(n); i++)
        projection_add(&p, vf_load(x + i * L) * s->f.per_unit, vf_load(decoded + i * L) * s->f.per_unit,
                       weighted, w[i]);
    vf_store(gain, GAIN(&s->f, weighted, p));
}

static void OF(step_finish)(const void *state, const float *gain, uint8_t *blocks, size_t stride,
                            size_t rows) {
    OF(finish_block)(state, vf_load(gain), blocks, stride, rows);
}

const codec_steps LEVEL(OF(steps)) = {
    .state_bytes = sizeof(OF(state)),
    .group = GROUP,
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
#undef GROUP
#undef GAIN
#undef WEIGHTED
#undef WEIGHTS
