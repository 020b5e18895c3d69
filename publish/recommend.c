#include "publish/recommend.h"

#include <math.h>
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
        [GQ_VISIBLE_LOSS] = "the smallest of the files that lose least (visible loss)",
        [GQ_LARGE_LOSS] = "the smallest of the files that lose least (large loss)",
        [GQ_SEVERE_LOSS] = "the smallest of the files that lose least (severe loss)",
        [GQ_LEVELS] = "the usual choice"};
    return reasons[level];
}

/* Says how sure the sign of a difference is, by its size in standard errors: chance alone exceeds three of them in
 * about one case of 400. Of the errors by positions and by windows the larger one counts. */
const char *gq_evaluation_certainty(const gq_evaluation *v, size_t a, size_t b) {
    enum { WIDTH = 4 }; /* of the interval, in standard errors */
    gq_estimate more;
    gq_interval windows = {NAN, NAN, NAN, 0};
    gq_evaluation_difference(v, a, b, &more);
    gq_evaluation_interval(v, GQ_KLD, a, b, &windows, NULL);
    double errors = fabs(more.value) / fmax(more.error, (windows.high - windows.low) / WIDTH);
    if (more.value == 0) return "the same";
    return errors >= 3 ? "certain" : errors >= 2 ? "likely" : "open";
}

bool gq_page_row_evaluated(gq_page_row *row, const gq_evaluation *v, size_t model, gq_interval storage[2],
                           gq_error *e) {
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(v, &n);
    gq_level level;
    if (model == 0 || model >= n)
        return gq_fail_usage(e, "a row must be a quantized model that was evaluated");
    row->evaluated = &models[model];
    if (isnan(models[0].perplexity.value)) return true; /* embeddings have no top-1 tokens */
    if (!gq_evaluation_interval(v, GQ_KLD, model, 0, &storage[0], e) ||
        !gq_evaluation_interval(v, GQ_CHANGED_TOP1, model, 0, &storage[1], e) ||
        !gq_evaluation_level(v, model, &level, e))
        return false;
    row->kld = &storage[0], row->changed_top1 = &storage[1], row->level = gq_level_text(level);
    return true;
}

size_t gq_evaluation_recommended(const gq_evaluation *v, gq_level *level) {
    recommendation r = {.at = SIZE_MAX};
    size_t n = 0;
    const gq_evaluated *m = gq_evaluation_models(v, &n);
    for (size_t i = 1; i < n; i++) {
        double bits = gq_bits_per_weight(m[i].tensor_bytes, m[i].n_weights);
        if (!gq_evaluation_level(v, i, level, NULL)) return 0;
        recommend_offer(
            &r, i, (candidate){m[i].filetype, m[i].file_bytes, bits, *level, bits >= RECOMMEND_WHOLE_BITS});
    }
    return *level = r.best.level, r.at < n ? r.at : 0;
}
