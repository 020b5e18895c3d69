#include "publish/recommend.h"

#include <string.h>

/* The type that most people take, and the bits per weight from which others can stand for it. */
static const char USUAL[] = "Q4_K_M";
static const double USUAL_BITS = 4.4;

/* The level as far as it counts: closer than close is not asked for. */
static gq_level level_asked(const candidate *c) { return c->level > GQ_CLOSE ? c->level : GQ_CLOSE; }

/* Whether a is better than b. */
static bool is_better(const candidate *a, const candidate *b, bool is_limited) {
    if (a->is_whole != b->is_whole) return b->is_whole;
    if (level_asked(a) != level_asked(b)) return level_asked(a) < level_asked(b);
    if (a->level < GQ_LEVELS) return a->bytes < b->bytes;
    if (is_limited) return a->bytes > b->bytes;
    bool is_a = !strcmp(a->type, USUAL), is_b = !strcmp(b->type, USUAL);
    if (is_a != is_b) return is_a;
    bool of_a = a->bits >= USUAL_BITS, of_b = b->bits >= USUAL_BITS;
    return of_a != of_b ? of_a : of_a ? a->bytes < b->bytes : a->bytes > b->bytes;
}

void recommend_offer(recommendation *r, size_t at, candidate c) {
    if (r->at == SIZE_MAX || is_better(&c, &r->best, r->is_limited)) r->at = at, r->best = c;
}

const char *recommend_reason(gq_level level) {
    static const char *const reasons[] = {
        [GQ_INDISTINGUISHABLE] = "the smallest file that is close to the base model",
        [GQ_CLOSE] = "the smallest file that is close to the base model",
        [GQ_VISIBLE_LOSS] = "the smallest file with visible loss; none has less",
        [GQ_LARGE_LOSS] = "the smallest file with large loss; none has less",
        [GQ_SEVERE_LOSS] = "the smallest file with severe loss; none has less",
        [GQ_LEVELS] = "the usual choice"};
    return reasons[level];
}
