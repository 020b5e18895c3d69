/* Makes an encoder of a grid type, as encoder_of.h does of others. Included once per type, after
 *
 *     NAME     in symbols: iq2_xs      TYPE  in model/type.h: IQ2_XS
 *     GROUP    weights that are coded together
 *
 * and searches_NAME, NAME_type and pack_NAME(fields, words).
 */
#define OF(part) GQ_PASTE(part, NAME)
#define TYPE_OF GQ_PASTE(NAME, type)
#define SIZE_(type, what) GGUF_##type##_##what
#define SIZE(type, what) SIZE_(type, what)

static NOINLINE void OF(finish_block)(const grid_state *s, vf gain, uint8_t *out, size_t stride,
                                      size_t rows) {
    vi words[MOST_WORDS];
    grid_fields f;
    finish_grid(TYPE_OF, s, gain, &f);
    OF(pack)(&f, words);
    store_blocks(words, (SIZE(TYPE, BYTES) + 3) / 4, SIZE(TYPE, BYTES), out, stride, rows);
}

static NOINLINE void OF(choose)(const batch *b, const codec_search *search, grid_state *s) {
    choose_grid(TYPE_OF, b, search, s);
}

/* ---- all at once ---- */
static void OF(encode_batch)(const batch *b, const codec_search *search, uint8_t *out, size_t stride,
                             size_t rows) {
    grid_state s;
    grid_projection p = {vf_all(0), vf_all(0), vf_all(0)};
    OF(choose)(b, search, &s);
    for (int i = 0; i < 256; i += TYPE_OF.step) {
        vf y[8];
        round_grid(TYPE_OF, &s, i, b->x + i, y);
        for (int k = 0; k < TYPE_OF.step; k++) project_grid(&p, b->x[i + k], y[k], s.w[i + k]);
    }
    OF(finish_block)(&s, gain_of_grid(TYPE_OF, p), out, stride, rows);
}

static const encoder OF(encoder) = {256, SIZE(TYPE, BYTES), LEVEL(OF(decode)), OF(searches),
                                    OF(encode_batch)};

void LEVEL(OF(encode))(const float *x, uint8_t *out, size_t rows, size_t cols,
                       const codec_importance *importance, const encode_settings *settings) {
    LEVEL(encode_rows)(&OF(encoder), x, out, rows, cols, importance, settings);
}

/* ---- step by step ---- */
static void OF(step_choose)(void *state, const float *x, const float *importance,
                            const codec_search *search) {
    batch b;
    memcpy(b.x, x, sizeof b.x);
    start_batch(&b, importance, 256);
    OF(choose)(&b, search, state);
}

static void OF(step_round)(void *state, size_t column, const float *from, float *decoded) {
    grid_state *s = state;
    vf x[8], y[8];
    for (int i = 0; i < TYPE_OF.step; i++) x[i] = vf_load(from + i * L) * s->per_unit;
    round_grid(TYPE_OF, s, (int)column, x, y);
    for (int i = 0; i < TYPE_OF.step; i++) vf_store(decoded + i * L, y[i] * s->unit);
}

static void OF(step_ends)(const void *state, size_t column, float *low, float *high) {
    const grid_state *s = state;
    vf ends[2];
    ends_of_grid(TYPE_OF, s, (int)column, &ends[0], &ends[1]);
    for (int i = 0; i < TYPE_OF.step; i++)
        vf_store(low + i * L, ends[0] * s->unit), vf_store(high + i * L, ends[1] * s->unit);
}

static void OF(step_gain_kept)(const void *state, const float *x, const float *decoded,
                               const float *importance, float *gain) {
    const grid_state *s = state;
    grid_projection p = {vf_all(0), vf_all(0), vf_all(0)};
    (void)importance; /* that of choosing */
    for (int i = 0; i < 256; i++)
        project_grid(&p, vf_load(x + i * L) * s->per_unit, vf_load(decoded + i * L) * s->per_unit, s->w[i]);
    vf_store(gain, gain_of_grid(TYPE_OF, p));
}

static void OF(step_finish)(const void *state, const float *gain, uint8_t *blocks, size_t stride,
                            size_t rows) {
    OF(finish_block)(state, vf_load(gain), blocks, stride, rows);
}

const codec_steps LEVEL(OF(steps)) = {
    .state_bytes = sizeof(grid_state),
    .group = GROUP,
    .searches = OF(searches),
    .choose = OF(step_choose),
    .round = OF(step_round),
    .ends = OF(step_ends),
    .gain_kept = OF(step_gain_kept),
    .finish = OF(step_finish),
};

#undef OF
#undef TYPE_OF
#undef SIZE_
#undef SIZE
#undef NAME
#undef TYPE
#undef GROUP
