#include "quantize/study/evaluate/figures.h"

#include <math.h>
#include <stdlib.h>

bool scores_new(scores *s, size_t n, size_t group, size_t n_models, gq_error *e) {
    *s =
        (scores){.n = n, .group = group, .n_models = n_models, .models = calloc(n_models, sizeof *s->models)};
    bool ok = s->models;
    for (size_t m = 0; ok && m < n_models; m++) {
        model_scores *to = &s->models[m];
        to->log_p = calloc(n, sizeof *to->log_p);
        ok = to->log_p;
        if (!m || !ok) continue;
        to->divergence = calloc(n, sizeof *to->divergence);
        to->same_top = calloc(n, sizeof *to->same_top);
        ok = to->divergence && to->same_top;
    }
    return ok || gq_fail_memory(e, (unsigned long long)n_models * n * 2 * sizeof(double));
}

bool scores_add_draft(scores *s, size_t model, gq_error *e) {
    model_scores *to = &s->models[model];
    to->top = calloc(s->n, sizeof *to->top);
    to->accepted = calloc(s->n, sizeof *to->accepted);
    return (to->top && to->accepted) || gq_fail_memory(e, s->n * sizeof *to->top);
}

void scores_free(scores *s) {
    for (size_t m = 0; s->models && m < s->n_models; m++) {
        free(s->models[m].log_p), free(s->models[m].divergence), free(s->models[m].same_top);
        free(s->models[m].top), free(s->models[m].accepted);
    }
    free(s->models);
    *s = (scores){.n = 0};
}

/* Returns the value of position i that is averaged. */
typedef double sample(const scores *s, size_t a, size_t b, size_t i);

/* Sums the samples minus `from`, or the squares of that, in the order of pass/groups.h. */
static double scores_sum(const scores *s, sample *of, size_t a, size_t b, double from, bool squares) {
    double total = 0;
    for (size_t begin = 0, end; begin < s->n; begin = end) {
        double group = 0;
        end = s->n - begin < s->group ? s->n : begin + s->group;
        for (size_t i = begin; i < end; i++) {
            double x = of(s, a, b, i) - from;
            group += squares ? x * x : x;
        }
        total += group;
    }
    return total;
}

/* Returns the mean and its standard error. It goes over the samples twice: subtracting the squared mean from
 * a sum of squares would lose the digits that matter where samples hardly differ. */
static gq_estimate mean_of(const scores *s, sample *of, size_t a, size_t b) {
    double n = (double)s->n;
    gq_estimate mean = {.value = scores_sum(s, of, a, b, 0, false) / n, .error = (double)NAN};
    if (s->n > 1) mean.error = sqrt(scores_sum(s, of, a, b, mean.value, true) / (n - 1) / n);
    return mean;
}

static double scores_surprise_at(const scores *s, size_t a, size_t b, size_t i) {
    (void)b;
    return -s->models[a].log_p[i];
}

static double surprise_more(const scores *s, size_t a, size_t b, size_t i) {
    return s->models[b].log_p[i] - s->models[a].log_p[i];
}

static double scores_divergence_at(const scores *s, size_t a, size_t b, size_t i) {
    (void)b;
    return s->models[a].divergence[i];
}

static double divergence_more(const scores *s, size_t a, size_t b, size_t i) {
    return s->models[a].divergence[i] - s->models[b].divergence[i];
}

static double squared_change(const scores *s, size_t a, size_t b, size_t i) {
    double change = exp(s->models[a].log_p[i]) - exp(s->models[b].log_p[i]);
    return change * change;
}

static double same_top(const scores *s, size_t a, size_t b, size_t i) {
    (void)b;
    return s->models[a].same_top[i];
}

static double scores_accepted_at(const scores *s, size_t a, size_t b, size_t i) {
    (void)b;
    return s->models[a].accepted[i];
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
    if (!sorted) return gq_fail_memory(e, s->n * sizeof *sorted);
    for (size_t i = 0; i < s->n; i++) sorted[i] = s->models[model].divergence[i];
    qsort(sorted, s->n, sizeof *sorted, figures_ascending);
    for (size_t q = 0; q < GQ_QUANTILES; q++) to->quantiles[q] = figures_quantile(sorted, s->n, shares[q]);
    free(sorted);
    return true;
}

static const gq_estimate unknown = {(double)NAN, (double)NAN};

static gq_estimate figures_acceptance(const scores *s, size_t model) {
    return s->models[model].accepted ? mean_of(s, scores_accepted_at, model, 0) : unknown;
}

bool figures_of_original(const scores *s, gq_evaluated *to, gq_error *e) {
    to->perplexity = unknown, to->acceptance = figures_acceptance(s, 0);
    if (s->pools) return true;
    to->perplexity = estimate_exponential(mean_of(s, scores_surprise_at, 0, 0));
    return isfinite(to->perplexity.value) ||
           gq_fail(e, "%s: its perplexity on this text is not a finite number", to->path);
}

bool figures_of_copy(const scores *s, size_t model, gq_evaluated *to, gq_error *e) {
    to->divergence = mean_of(s, scores_divergence_at, model, 0);
    to->perplexity = to->ratio = to->rms_change = to->same_top = unknown;
    to->acceptance = figures_acceptance(s, model);
    if (s->pools) return figures_fill_quantiles(s, model, to, e);
    gq_estimate squares = mean_of(s, squared_change, model, 0);
    to->perplexity = estimate_exponential(mean_of(s, scores_surprise_at, model, 0));
    to->ratio = estimate_exponential(mean_of(s, surprise_more, model, 0));
    to->rms_change.value = sqrt(squares.value);
    to->rms_change.error = squares.value > 0 ? squares.error / 2 / to->rms_change.value : 0;
    to->same_top = mean_of(s, same_top, model, 0);
    return figures_fill_quantiles(s, model, to, e);
}

gq_estimate figures_difference(const scores *s, size_t a, size_t b) {
    return mean_of(s, divergence_more, a, b);
}
