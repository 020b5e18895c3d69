/* The part of a report about models that were run on a text: tables for people, and the same figures as JSON
 * and CSV. Model 0 is the original and all others are copies of it. Every figure is an estimate from the
 * scored positions and has a standard error; the tables print as many decimals as the error leaves
 * meaningful. Which of two copies is nearer to the original is decided by the difference of their
 * divergences, whose error the library computes from the positions that both share, so that it is smaller
 * than the errors of the two divergences.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/csv.h"
#include "cli/report.h"
#include "cli/report_evaluation.h"
#include "cli/table.h"
#include "cli/text.h"

/* Standard errors are computed from the spread over positions, and few positions say little about the spread.
 */
const char *report_few_places(const gq_evaluation_facts *facts) {
    enum { FEW = 1000, FEW_EMBEDDINGS = 50, LEAST = 4 };
    static const char embeddings[] = "fewer than 50 embeddings are compared, too few to know how far the "
                                     "figures can be trusted; take more tokens, "
                                     "or shorter windows (--context)";
    bool one_each = !facts->stride && facts->context > LEAST &&
                    facts->scored == facts->windows; /* an embedding for each window */
    if (one_each) return facts->scored < FEW_EMBEDDINGS ? embeddings : NULL;
    static const char note[] =
        "fewer than 1000 tokens are scored, too few to know how far the figures can be trusted; 5000, of a "
        "text of about 10000 tokens, are enough for most purposes";
    return facts->scored < FEW ? note : NULL;
}

static bool report_has_warning(const report *r, const char *text) {
    for (size_t i = 0; i < r->n_warnings; i++)
        if (strcmp(r->warnings[i], text) == 0) return true;
    return false;
}

/* Whether the models give embeddings, of which divergences are cosine distances: nothing is predicted then. */
static bool report_has_embeddings(const gq_evaluated *models) { return isnan(models[0].perplexity.value); }

/* Whether some model has a prediction block that was run. */
static bool report_has_acceptance(const gq_evaluated *models, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (isfinite(models[i].acceptance.value)) return true;
    return false;
}

/* ---- how much text is enough ---- */

/* Returns the indices of the n - 1 copies in ascending order of divergence, malloc'ed. */
static size_t *evaluation_ranking(const gq_evaluated *models, size_t n) {
    size_t *order = need_memory(n, sizeof *order);
    for (size_t i = 1; i < n; i++) {
        size_t at = i - 1;
        for (; at > 0 && models[order[at - 1]].divergence.value > models[i].divergence.value; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

enum { CERTAIN = 3 };           /* standard errors of a difference */
static const double KNOWN = .1; /* a copy's divergence is known when its error is this share of it */

/* Returns how many times the tokens of the text make the error of x a `share` of it. */
static double evaluation_times_text(gq_estimate x, double share) {
    double times = x.error / (share * fabs(x.value));
    return times * times;
}

/* Returns how many tokens of the text are in windows, which may overlap. */
static double evaluation_text_tokens(const gq_evaluation_facts *f) {
    uint64_t step = f->stride ? f->stride : f->context;
    return (double)((f->windows - 1) * step + f->context);
}

/* Returns which difference or divergence a longer text would make certain, and how long that text is;
 * malloc'ed, NULL: the text is long enough. Of several it is the one that needs the shortest text. */
static char *evaluation_advice(const report *r) {
    enum { MOST_TIMES = 1000 }; /* beyond that two copies are as good as equal */
    const gq_evaluation *v = r->evaluation;
    size_t n, *order;
    const gq_evaluated *models = gq_evaluation_models(v, &n);
    double least = INFINITY, tokens = evaluation_text_tokens(gq_evaluation_summary(v));
    char *which = NULL, number[UNIT_ROOM];
    if (n == 2 && evaluation_times_text(models[1].divergence, KNOWN) > 1) {
        least = evaluation_times_text(models[1].divergence, KNOWN);
        which = text_format("to know the %s to a tenth",
                            report_has_embeddings(models) ? "cosine distance" : "divergence");
    }
    order = evaluation_ranking(models, n);
    for (size_t i = 0; i + 2 < n; i++) {
        gq_estimate less;
        gq_evaluation_difference(v, order[i + 1], order[i], &less);
        double times = evaluation_times_text(less, 1. / CERTAIN);
        if (!(times > 1 && times < least)) continue;
        least = times;
        free(which);
        which = text_format("to tell %s from %s for certain", report_named(r, models[order[i]].path),
                            report_named(r, models[order[i + 1]].path));
    }
    free(order);
    char *text = which && least < MOST_TIMES ? text_format("the text is short: %s takes about %s tokens",
                                                           which, count_text(number, least * tokens))
                                             : NULL;
    free(which);
    return text;
}

/* ---- the report ---- */

void report_take_evaluation(report *r, const gq_evaluation *v) {
    size_t n;
    if (!v) return;
    r->evaluation = v;
    const char *const *warnings = gq_evaluation_warnings(v, &n);
    for (size_t i = 0; i < n; i++) /* a run's evaluation opens the same model as its plan */
        if (!report_has_warning(r, warnings[i])) report_add_warnings(r, &warnings[i], 1);
    const char *few = report_few_places(gq_evaluation_summary(v));
    if (few) report_add_warnings(r, &few, 1);
    if (!few && (r->advice = evaluation_advice(r)))
        report_add_warnings(r, (const char *const *)&r->advice, 1);
}

report report_of_evaluation(const request *r, const gq_evaluation *v) {
    report rep = {.kind = "evaluation",
                  .input = r->base ? r->base : r->arguments[0],
                  .request = r,
                  .seconds = gq_evaluation_summary(v)->seconds};
    report_take_evaluation(&rep, v);
    return rep;
}

/* ---- numbers ---- */

/* Formats an estimate with as many decimals as its error allows: two digits of the error. */
static char *estimate_text(gq_estimate x) {
    if (!isfinite(x.error)) return text_format("%.4g", x.value);
    if (!(x.error > 0)) return text_format("%.6g", x.value);
    int decimals = 1 - (int)floor(log10(x.error));
    if (decimals < 0) decimals = 0;
    if (decimals > 12) return text_format("%.3g +-%.2g", x.value, x.error);
    return text_format("%.*f +-%.*f", decimals, x.value, decimals, x.error);
}

/* Formats a perplexity as llama-perplexity does. */
static char *perplexity_text(gq_estimate x) {
    return isfinite(x.error) ? text_format("%.4f +-%.4f", x.value, x.error) : text_format("%.4f", x.value);
}

static char *divergence_text(double x) { return x >= 1e-4 ? text_format("%.5f", x) : text_format("%.2g", x); }

static char *share_text(gq_estimate x) { return text_format("%.2f %%", 100 * x.value); }

static double evaluated_bits(const gq_evaluated *m) {
    return report_bits(m->tensor_bytes, (double)m->n_weights);
}

/* ---- which copy is better ---- */

/* Says how sure the sign of a difference is, by its size in standard errors: chance alone exceeds three of
 * them in about one case of 400. */
static const char *evaluation_certainty(gq_estimate difference) {
    double errors = fabs(difference.value) / difference.error;
    if (difference.value == 0) return "the same";
    return errors >= 3 ? "certain" : errors >= 2 ? "likely" : "open";
}

static void print_ranking(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    size_t *order = evaluation_ranking(models, n);
    table out;
    table_start(&out, "llrl");
    table_row(&out, (const char *const[]){"nearer to the original", "than", "by", ""});
    for (size_t i = 0; i + 2 < n; i++) {
        gq_estimate less;
        gq_evaluation_difference(r->evaluation, order[i + 1], order[i], &less);
        table_name(&out, report_named(r, models[order[i]].path));
        table_name(&out, report_named(r, models[order[i + 1]].path));
        table_cell(&out, estimate_text(less));
        table_text(&out, evaluation_certainty(less));
    }
    fputc('\n', to);
    table_print(&out, to);
    table_free(&out);
    free(order);
}

/* ---- for people ---- */

static void print_models(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    table out;
    bool predicts = !report_has_embeddings(models), drafts = report_has_acceptance(models, n);
    table_start(&out, !predicts ? "ll3r1r2"
                      : n > 1   ? (drafts ? "ll3r1r2rr4r5r" : "ll3r1r2rr4r5")
                      : drafts  ? "ll3r1r2rr"
                                : "ll3r1r2r");
    const char *const heads[] = {"model", "type", "file MiB", "bpw", "perplexity", "as multiple", "same top"};
    for (size_t i = 0; i < (!predicts ? 4 : n > 1 ? 7 : 5); i++) table_text(&out, heads[i]);
    if (drafts) table_text(&out, "accepted");
    for (size_t i = 0; i < n; i++) {
        const gq_evaluated *m = &models[i];
        table_name(&out, report_named(r, m->path));
        table_text(&out, m->filetype);
        table_cell(&out, text_format("%.2f", (double)m->file_bytes / 0x1p20));
        table_cell(&out, m->n_weights ? text_format("%.3f", evaluated_bits(m)) : text_format("-"));
        if (!predicts) continue;
        table_cell(&out, perplexity_text(m->perplexity));
        if (n > 1) table_cell(&out, i ? estimate_text(m->ratio) : text_format("-"));
        if (n > 1) table_cell(&out, i ? share_text(m->same_top) : text_format("-"));
        bool has_block = isfinite(m->acceptance.value);
        if (drafts) table_cell(&out, has_block ? share_text(m->acceptance) : text_format("-"));
    }
    table_print(&out, to);
    table_free(&out);
}

static void print_divergences(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    table out;
    bool predicts = !report_has_embeddings(models);
    const char *const heads[] = {"copy",       predicts ? "divergence" : "cosine distance",
                                 "median",     "90 %",
                                 "95 %",       "99 %",
                                 "99.9 %",     "largest",
                                 "change of p"};
    table_start(&out, predicts ? "lrr2r6r3r7r4r5r1" : "lrr2r6r3r7r4r5");
    for (size_t i = 0; i < (predicts ? 9 : 8); i++) table_text(&out, heads[i]);
    for (size_t i = 1; i < n; i++) {
        table_name(&out, report_named(r, models[i].path));
        table_cell(&out, estimate_text(models[i].divergence));
        for (size_t q = 0; q < GQ_QUANTILES; q++) table_cell(&out, divergence_text(models[i].quantiles[q]));
        if (predicts) table_cell(&out, text_format("%.3f %%", 100 * models[i].rms_change.value));
    }
    fputc('\n', to);
    table_print(&out, to);
    table_free(&out);
}

/* Prints the main figures of a single copy in one line. */
static void print_copy(FILE *to, const gq_evaluated *original, const gq_evaluated *copy) {
    char *before = perplexity_text(original->perplexity), *after = perplexity_text(copy->perplexity),
         *divergence = estimate_text(copy->divergence), *same = share_text(copy->same_top);
    print_line(to, "perplexity %s -> %s, divergence %s, the same likeliest token in %s", before, after,
               divergence, same);
    free(before), free(after), free(divergence), free(same);
}

void report_evaluation(FILE *to, const report *r) {
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(r->evaluation, &n);
    const gq_evaluation_facts *facts = gq_evaluation_summary(r->evaluation);
    char time[UNIT_ROOM], rate[UNIT_ROOM];
    print_models(to, r, models, n);
    if (n > 1) print_divergences(to, r, models, n);
    if (n > 2) print_ranking(to, r, models, n);
    bool predicts = !report_has_embeddings(models);
    char *step = facts->stride ? text_format(", one every %" PRIu32, facts->stride) : text_format("%s", "");
    fputc('\n', to);
    print_line(to, "%" PRIu64 " tokens in windows of %" PRIu32 "%s, %" PRIu64 " %s; %s, %s tokens/s",
               facts->tokens, facts->context, step, facts->scored, predicts ? "of them scored" : "embeddings",
               time_text(time, facts->seconds),
               count_text(rate, facts->seconds > 0 ? (double)facts->tokens / facts->seconds : 0));
    free(step);
    if (report_has_acceptance(models, n))
        print_wrapped(
            to,
            "accepted: how often the first choice of a model's prediction block (MTP) is the model's own");
    if (n == 2 && predicts) print_copy(to, &models[0], &models[1]);
    if (report_few_places(facts)) print_wrapped(to, report_few_places(facts));
    if (r->advice) print_wrapped(to, r->advice);
}

/* ---- for programs ---- */

/* A figure of a model. CSV has them all, in the order of figures_of; the first OF_ORIGINAL are the
 * original's, too. */
typedef struct figure {
    const char *name;
    double value;
} figure;
enum {
    FIGURES = 17,
    OF_ORIGINAL = 2,
    OF_DRAFTS = 2
}; /* the last ones are there if a model has a prediction block */

static void figures_of(const gq_evaluated *m, figure to[FIGURES]) {
    const figure all[FIGURES] = {
        {"perplexity", m->perplexity.value},      {"perplexity_error", m->perplexity.error},
        {"divergence", m->divergence.value},      {"divergence_error", m->divergence.error},
        {"divergence_median", m->quantiles[0]},   {"divergence_90", m->quantiles[1]},
        {"divergence_95", m->quantiles[2]},       {"divergence_99", m->quantiles[3]},
        {"divergence_99_9", m->quantiles[4]},     {"divergence_max", m->quantiles[5]},
        {"perplexity_ratio", m->ratio.value},     {"perplexity_ratio_error", m->ratio.error},
        {"rms_change", m->rms_change.value},      {"rms_change_error", m->rms_change.error},
        {"same_top", m->same_top.value},          {"acceptance", m->acceptance.value},
        {"acceptance_error", m->acceptance.error}};
    for (size_t i = 0; i < FIGURES; i++) to[i] = all[i];
}

static json_t *model_json(const report *r, const gq_evaluated *m, bool copy) {
    json_t *o = json_object();
    figure all[FIGURES];
    figures_of(m, all);
    set_text(o, "path", report_named(r, m->path));
    set_text(o, "file_type", m->filetype);
    set_count(o, "file_bytes", m->file_bytes);
    set_count(o, "tensor_bytes", m->tensor_bytes);
    set_count(o, "weights", m->n_weights);
    set_number(o, "bits_per_weight", evaluated_bits(m));
    for (size_t i = 0; i < (copy ? FIGURES - OF_DRAFTS : OF_ORIGINAL); i++)
        set_number(o, all[i].name, all[i].value);
    for (size_t i = FIGURES - OF_DRAFTS; isfinite(m->acceptance.value) && i < FIGURES; i++)
        set_number(o, all[i].name, all[i].value);
    return o;
}

json_t *report_evaluation_json(const report *r) {
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(r->evaluation, &n);
    const gq_evaluation_facts *facts = gq_evaluation_summary(r->evaluation);
    json_t *o = json_object();
    set_text(o, "architecture", facts->architecture);
    set_count(o, "context", facts->context);
    set_count(o, "windows", facts->windows);
    set_count(o, "tokens", facts->tokens);
    set_count(o, "scored", facts->scored);
    if (facts->stride) set_count(o, "stride", facts->stride);
    set_number(o, "seconds", facts->seconds);
    json_t *list = set_array(o, "models"), *pairs = set_array(o, "differences");
    for (size_t i = 0; i < n; i++) json_array_append_new(list, model_json(r, &models[i], i > 0));
    for (size_t a = 1; a < n; a++)
        for (size_t b = a + 1; b < n; b++) {
            gq_estimate more;
            gq_evaluation_difference(r->evaluation, a, b, &more);
            json_t *pair = json_object();
            set_count(pair, "a", a), set_count(pair, "b", b);
            set_number(pair, "difference", more.value), set_number(pair, "error", more.error);
            set_text(pair, "sure", evaluation_certainty(more));
            json_array_append_new(pairs, pair);
        }
    return o;
}

void report_evaluation_csv(FILE *to, const report *r) {
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(r->evaluation, &n);
    figure all[FIGURES];
    size_t columns = FIGURES - (report_has_acceptance(models, n) ? 0 : OF_DRAFTS);
    fputs("model,file_type,file_bytes,tensor_bytes,weights,bits_per_weight", to);
    figures_of(&models[0], all);
    for (size_t i = 0; i < columns; i++) fprintf(to, ",%s", all[i].name);
    fputs("\r\n", to);
    for (size_t m = 0; m < n; m++) {
        csv_quoted(to, report_named(r, models[m].path));
        fprintf(to, ",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.9g", models[m].filetype, models[m].file_bytes,
                models[m].tensor_bytes, models[m].n_weights, evaluated_bits(&models[m]));
        figures_of(&models[m], all);
        for (size_t i = 0; i < columns; i++)
            if (isfinite(all[i].value) && (m > 0 || i < OF_ORIGINAL || i >= FIGURES - OF_DRAFTS))
                fprintf(to, ",%.9g", all[i].value);
            else
                fputc(',', to);
        fputs("\r\n", to);
    }
}
