#include "study/evaluate/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

bool scores_new(scores *s, size_t n, size_t group, size_t n_models, gq_error *e) {
    *s =
        (scores){.n = n, .group = group, .n_models = n_models, .models = calloc(n_models, sizeof *s->models)};
    bool ok = s->models;
    for (size_t m = 0; ok && m < n_models; m++) {
        model_scores *to = &s->models[m];
        to->log_p = calloc(n, sizeof *to->log_p);
        ok = to->log_p;
        if (!m || !ok) continue;
        to->kld = calloc(n, sizeof *to->kld);
        to->same_top1 = calloc(n, sizeof *to->same_top1);
        ok = to->kld && to->same_top1;
    }
    return ok || gq_fail_memory(e, LLU(n_models) * n * 2 * sizeof(double));
}

bool scores_add_draft(scores *s, size_t model, gq_error *e) {
    model_scores *to = &s->models[model];
    to->top = calloc(s->n, sizeof *to->top);
    to->accepted = calloc(s->n, sizeof *to->accepted);
    return (to->top && to->accepted) || gq_fail_memory(e, s->n * sizeof *to->top);
}

void scores_free(scores *s) {
    for (size_t m = 0; s->models && m < s->n_models; m++) {
        free(s->models[m].log_p), free(s->models[m].kld), free(s->models[m].same_top1);
        free(s->models[m].top), free(s->models[m].accepted);
    }
    free(s->models), free(s->weights), free(s->depths);
    *s = (scores){.n = 0};
}

bool scores_set_weights(scores *s, const forward_job *w, gq_error *e) {
    size_t n = w->context - 1;
    s->weights = malloc(s->n * sizeof *s->weights);
    s->depths = w->marks ? malloc(s->n * sizeof *s->depths) : NULL;
    if (!s->weights || (w->marks && !s->depths))
        return gq_fail_memory(e, s->n * (sizeof *s->weights + sizeof *s->depths));
    for (size_t i = 0; i < w->windows * n; i++) {
        size_t next = i / n * w->context + i % n + 1;
        s->weights[i] = (float)forward_job_weight(w, next);
        if (s->depths) s->depths[i] = w->marks[next].position;
    }
    return true;
}

/* Positions that count. */
static size_t scores_counted(const scores *s) {
    size_t n = 0;
    for (size_t i = 0; s->weights && i < s->n; i++) n += s->weights[i] > 0;
    return s->weights ? n : s->n;
}

/* Returns the value of position i that is averaged. */
typedef double sample(const scores *s, size_t a, size_t b, size_t i);

/* Sums the samples minus `from`, or the squares of that, in the order of forward/stream/stream.h; each times
 * its weight. */
static double scores_sum(const scores *s, sample *of, size_t a, size_t b, double from, bool squares) {
    double total = 0;
    for (size_t begin = 0, end; begin < s->n; begin = end) {
        double group = 0;
        end = s->n - begin < s->group ? s->n : begin + s->group;
        for (size_t i = begin; i < end; i++) {
            double weight = scores_weight(s, i);
            if (weight == 0) continue;
            double x = weight * (of(s, a, b, i) - from);
            group += squares ? x * x : x;
        }
        total += group;
    }
    return total;
}

static double scores_one(const scores *s, size_t a, size_t b, size_t i) {
    return (void)s, (void)a, (void)b, (void)i, 1;
}

/* Returns the mean and its standard error. It goes over the samples twice: subtracting the squared mean from
 * a sum of squares would lose the digits that matter where samples hardly differ. */
static gq_estimate mean_of(const scores *s, sample *of, size_t a, size_t b) {
    double n = (double)scores_counted(s), all = n;
    if (s->weights) all = scores_sum(s, scores_one, a, b, 0, false);
    gq_estimate mean = {.value = scores_sum(s, of, a, b, 0, false) / all, .error = (double)NAN};
    if (n > 1) mean.error = sqrt(scores_sum(s, of, a, b, mean.value, true) / (n - 1) / n) * (n / all);
    return mean;
}

static double scores_nll_at(const scores *s, size_t a, size_t b, size_t i) {
    return (void)b, -s->models[a].log_p[i];
}

static double nll_more(const scores *s, size_t a, size_t b, size_t i) {
    return s->models[b].log_p[i] - s->models[a].log_p[i];
}

static double scores_kld_at(const scores *s, size_t a, size_t b, size_t i) {
    return (void)b, s->models[a].kld[i];
}

static double kld_more(const scores *s, size_t a, size_t b, size_t i) {
    return s->models[a].kld[i] - s->models[b].kld[i];
}

static double squared_change(const scores *s, size_t a, size_t b, size_t i) {
    double change = exp(s->models[a].log_p[i]) - exp(s->models[b].log_p[i]);
    return change * change;
}

static double same_top1(const scores *s, size_t a, size_t b, size_t i) {
    return (void)b, s->models[a].same_top1[i];
}

static double scores_changed_top1(const scores *s, size_t a, size_t b, size_t i) {
    return (void)b, !s->models[a].same_top1[i];
}

static double changed_top1_more(const scores *s, size_t a, size_t b, size_t i) {
    return (double)s->models[b].same_top1[i] - (double)s->models[a].same_top1[i];
}

static double scores_accepted_at(const scores *s, size_t a, size_t b, size_t i) {
    return (void)b, s->models[a].accepted[i];
}

/* Returns e^x, and its error by that of x. */
static gq_estimate estimate_exponential(gq_estimate x) {
    double value = exp(x.value);
    return (gq_estimate){value, value * x.error};
}

static int figures_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the quantile at a share, interpolated between the two nearest samples. */
static double figures_quantile(const double *sorted, size_t n, double share) {
    double at = share * (double)(n - 1), low = floor(at);
    size_t i = (size_t)low, next = i + 1 < n ? i + 1 : i;
    return sorted[i] + (at - low) * (sorted[next] - sorted[i]);
}

static bool figures_fill_quantiles(const scores *s, size_t model, gq_evaluated *to, gq_error *e) {
    static const double shares[GQ_QUANTILES] = {0.5, 0.9, 0.95, 0.99, 0.999, 1};
    double *sorted = malloc(s->n * sizeof *sorted);
    size_t n = 0;
    if (!sorted) return gq_fail_memory(e, s->n * sizeof *sorted);
    for (size_t i = 0; i < s->n; i++)
        if (scores_weight(s, i) > 0) sorted[n++] = s->models[model].kld[i];
    qsort(sorted, n, sizeof *sorted, figures_ascending);
    for (size_t q = 0; q < GQ_QUANTILES; q++)
        to->quantiles[q] = n ? figures_quantile(sorted, n, shares[q]) : (double)NAN;
    free(sorted);
    return true;
}

static const gq_estimate unknown = {(double)NAN, (double)NAN};

static gq_estimate figures_acceptance(const scores *s, size_t model) {
    return s->models[model].accepted ? mean_of(s, scores_accepted_at, model, 0) : unknown;
}

bool figures_of_base_model(const scores *s, gq_evaluated *to, gq_error *e) {
    to->perplexity = unknown, to->acceptance = figures_acceptance(s, 0);
    if (s->pools) return true;
    to->perplexity = estimate_exponential(mean_of(s, scores_nll_at, 0, 0));
    return isfinite(to->perplexity.value) ||
           gq_fail(e, "%s: its perplexity on this text is not a finite number", to->path);
}

bool figures_of_copy(const scores *s, size_t model, gq_evaluated *to, gq_error *e) {
    to->kld = mean_of(s, scores_kld_at, model, 0);
    to->perplexity = to->ratio = to->rms_change = to->top1_agreement = unknown;
    to->acceptance = figures_acceptance(s, model);
    if (s->pools) return figures_fill_quantiles(s, model, to, e);
    gq_estimate squares = mean_of(s, squared_change, model, 0);
    to->perplexity = estimate_exponential(mean_of(s, scores_nll_at, model, 0));
    to->ratio = estimate_exponential(mean_of(s, nll_more, model, 0));
    to->rms_change.value = sqrt(squares.value);
    to->rms_change.error = squares.value > 0 ? squares.error / 2 / to->rms_change.value : 0;
    to->top1_agreement = mean_of(s, same_top1, model, 0);
    return figures_fill_quantiles(s, model, to, e);
}

gq_estimate figures_difference(const scores *s, size_t a, size_t b) { return mean_of(s, kld_more, a, b); }

/* ---- intervals ---- */

/* A statistic is a mean of samples: of one model, or of a pair of them. */
static sample *statistic_sample(gq_statistic of, bool pair) {
    static sample *const samples[][2] = {[GQ_KLD] = {scores_kld_at, kld_more},
                                         [GQ_CHANGED_TOP1] = {scores_changed_top1, changed_top1_more},
                                         [GQ_NLL] = {scores_nll_at, nll_more}};
    return samples[of][pair];
}

static size_t figures_sum_windows(const scores *s, sample *of, size_t a, size_t b, window_sums *to) {
    size_t n = 0;
    for (size_t begin = 0; begin < s->n; begin += s->of_window) {
        window_sums w = {0, 0};
        for (size_t i = begin; i < begin + s->of_window && i < s->n; i++) {
            double weight = scores_weight(s, i);
            if (weight > 0) w.x += weight * of(s, a, b, i), w.weight += weight;
        }
        if (w.weight > 0) to[n++] = w;
    }
    return n;
}

/* Sets the ends of the interval: the 2.5 % and 97.5 % quantiles of means of windows drawn with replacement. */
static void figures_bootstrap(const window_sums *windows, size_t n, double *means, gq_interval *to) {
    enum { SEED = 20260131 };
    uint64_t seed = SEED;
    for (size_t d = 0; d < GQ_BOOTSTRAP_DRAWS; d++) {
        window_sums sum = {0, 0};
        for (size_t i = 0; i < n; i++) {
            const window_sums *w = &windows[(size_t)((__uint128_t)random_next(&seed) * n >> 64)];
            sum.x += w->x, sum.weight += w->weight;
        }
        means[d] = sum.x / sum.weight;
    }
    qsort(means, GQ_BOOTSTRAP_DRAWS, sizeof *means, figures_ascending);
    to->low = figures_quantile(means, GQ_BOOTSTRAP_DRAWS, .025);
    to->high = figures_quantile(means, GQ_BOOTSTRAP_DRAWS, .975);
}

bool figures_mean_interval(const window_sums *windows, size_t n, gq_interval *to, gq_error *e) {
    enum { LEAST_WINDOWS = 4 };
    window_sums sum = {0, 0};
    *to = (gq_interval){(double)NAN, (double)NAN, (double)NAN, n};
    for (size_t i = 0; i < n; i++) sum.x += windows[i].x, sum.weight += windows[i].weight;
    if (n) to->value = sum.x / sum.weight;
    if (n < LEAST_WINDOWS) return true;
    double *means = malloc(GQ_BOOTSTRAP_DRAWS * sizeof *means);
    if (!means) return gq_fail_memory(e, GQ_BOOTSTRAP_DRAWS * sizeof *means);
    figures_bootstrap(windows, n, means, to);
    free(means);
    return true;
}

bool figures_interval(const scores *s, gq_statistic of, size_t a, size_t b, gq_interval *to, gq_error *e) {
    *to = (gq_interval){(double)NAN, (double)NAN, (double)NAN, 0};
    if (!s->of_window) return gq_fail_usage(e, "nothing was run, so there are no figures");
    size_t most = s->n / s->of_window + 1;
    if (s->pools && of != GQ_KLD) return true;
    window_sums *windows = malloc(most * sizeof *windows);
    if (!windows) return gq_fail_memory(e, most * sizeof *windows);
    size_t n = figures_sum_windows(s, statistic_sample(of, b), a, b, windows);
    bool ok = figures_mean_interval(windows, n, to, e);
    free(windows);
    return ok;
}

/* ---- depth ---- */

size_t figures_depths(const scores *s, size_t m, size_t from, gq_depth to[GQ_DEPTHS]) {
    static const uint32_t ends[GQ_DEPTHS] = {512, 4096, 32768, UINT32_MAX};
    double weight[GQ_DEPTHS] = {0};
    size_t n = 0;
    for (size_t d = 0; d < GQ_DEPTHS; d++) to[d] = (gq_depth){.from = d ? ends[d - 1] : 0, .to = ends[d]};
    for (size_t i = 0; !s->pools && i < s->n; i++) {
        double w = scores_weight(s, i);
        size_t tokens = s->depths ? s->depths[i] : from + i % s->of_window + 1, d = 0;
        if (w == 0) continue;
        while (tokens > ends[d]) d++;
        to[d].scored++, weight[d] += w;
        to[d].perplexity -= w * s->models[m].log_p[i];
        if (m) to[d].kld += w * s->models[m].kld[i];
        if (m) to[d].changed_top1 += w * !s->models[m].same_top1[i];
    }
    for (size_t d = 0; d < GQ_DEPTHS; d++) {
        if (!to[d].scored) continue;
        to[n] = to[d];
        to[n].perplexity = exp(to[d].perplexity / weight[d]);
        to[n].kld /= weight[d], to[n].changed_top1 /= weight[d];
        n++;
    }
    return n;
}

/* ---- levels ---- */

/* Limits of KL divergence in nats and of changed top-1 tokens: docs/evaluate.md says how they were chosen. */
static const struct {
    double kld, changed_top1;
    const char *word, *text;
} levels[GQ_LEVELS] = {[GQ_INDISTINGUISHABLE] = {.001, .02, "indistinguishable",
                                                 "indistinguishable from the base model on this text"},
                       [GQ_CLOSE] = {.02, .06, "close", "close to the base model on this text"},
                       [GQ_VISIBLE_LOSS] = {.1, .15, "visible loss", "visible loss on this text"},
                       [GQ_LARGE_LOSS] = {.5, .35, "large loss", "large loss on this text"},
                       [GQ_SEVERE_LOSS] = {INFINITY, 1, "severe loss", "severe loss on this text"}};

void gq_level_limits(gq_level level, double *most_kld, double *changed_top1) {
    *most_kld = levels[level].kld, *changed_top1 = levels[level].changed_top1;
}

const char *gq_level_text(gq_level level) { return levels[level].text; }
const char *gq_level_word(gq_level level) { return levels[level].word; }

gq_level gq_level_of(double mean_kld, double changed_top1) {
    gq_level level = GQ_INDISTINGUISHABLE; /* of NaN nothing is greater */
    while (level < GQ_SEVERE_LOSS &&
           (mean_kld > levels[level].kld || changed_top1 > levels[level].changed_top1))
        level++;
    return level;
}

static double upper_end(const gq_interval *i) { return isnan(i->high) ? i->value : i->high; }

gq_level figures_level(const gq_interval *mean_kld, const gq_interval *changed_top1) {
    return gq_level_of(upper_end(mean_kld), upper_end(changed_top1));
}
