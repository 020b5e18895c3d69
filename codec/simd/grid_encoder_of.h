/* Makes an encoder (steps_of.h) of a grid type. Included once per type, after
 *
 *     NAME     in symbols: iq2_xs      TYPE  in gguf/type.h: IQ2_XS
 *     GROUP    weights that are coded together, NAME_type.step
 *
 * and searches_NAME, NAME_type and pack_NAME(fields, words). */
#define OF(part) GQ_PASTE(part, NAME)
#define TYPE_OF GQ_PASTE(NAME, type)
#define SIZE_(type, what) GGUF_##type##_##what
#define SIZE(type, what) SIZE_(type, what)
#define LENGTH TYPE_OF.length
#define GAIN(f, weighted, p) gain_of_grid(p)
#define WEIGHTED(b) true /* without importance all weights are 1 */
#define WEIGHTS(b, s) (s)->w

typedef grid_state OF(state);

static NOINLINE void OF(choose_block)(grid_state *s, const batch *b, const codec_search *search) {
    choose_grid(TYPE_OF, b, search, s);
}
INLINE void OF(round_group)(grid_state *s, int, int column, const vf *x, vf *y) {
    round_grid(TYPE_OF, s, column, x, y);
}
INLINE void OF(ends)(const grid_state *s, int column, vf *low, vf *high) {
    ends_of_grid(TYPE_OF, s, column, low, high);
}
INLINE bool OF(weigh)(const grid_state *s, const float *importance, float *w) {
    (void)importance; /* that of choosing */
    memcpy(w, s->w, sizeof s->w);
    return true;
}
INLINE void OF(pack_block)(const grid_state *s, vf gain, vi *words) {
    grid_fields f;
    finish_grid(TYPE_OF, s, gain, &f);
    OF(pack)(&f, words);
}

#include "codec/simd/steps_of.h"
#undef TYPE_OF
