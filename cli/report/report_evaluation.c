/* The part of a report about models that were run on a text: tables for people. Model 0 is the base model and all
 * others are quants of it. Every figure is an estimate from the scored positions and has a standard error; the tables
 * print as many decimals as the error leaves meaningful. Which of two quants is nearer to the base model is decided
 * by the difference of their KL divergences, whose error the library computes from the positions that both share, so
 * that it is smaller than the errors of the two KL divergences.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Standard errors are computed from the spread over positions, and few positions say little about the spread. */
const char *report_few_places(const gq_evaluation_facts *facts) {
    enum { FEW = 1000, FEW_EMBEDDINGS = 50, LEAST = 4 };
    static const char embeddings[] = "fewer than 50 embeddings are compared, too few to know how far the "
                                     "figures can be trusted; take more tokens, "
                                     "or shorter windows (--context)";
    bool one_each = !facts->stride && !facts->masked && facts->context > LEAST &&
                    facts->scored == facts->windows; /* an embedding for each window */
    if (one_each) return facts->scored < FEW_EMBEDDINGS ? embeddings : NULL;
    static const char note[] =
        "fewer than 1000 tokens are scored, too few to know how far the figures can be trusted; 5000, of a "
        "text of about 10000 tokens, are enough for most purposes";
    return facts->scored < FEW ? note : NULL;
}

/* Whether the models give embeddings, which are compared by cosine distance: nothing is predicted then. */
static bool report_has_embeddings(const gq_evaluated *models) { return isnan(models[0].perplexity.value); }

/* Whether some model has an MTP layer that was run. */
static bool report_has_acceptance(const gq_evaluated *models, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (isfinite(models[i].acceptance.value)) return true;
    return false;
}

/* ---- how much text is enough ---- */

/* Returns the indices of the n - 1 quants in ascending order of KL divergence, malloc'ed. */
static size_t *evaluation_ranking(const gq_evaluated *models, size_t n) {
    size_t *order = need_memory(n, sizeof *order);
    for (size_t i = 1; i < n; i++) {
        size_t at = i - 1;
        for (; at > 0 && models[order[at - 1]].kld.value > models[i].kld.value; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

enum { CERTAIN = 3 };           /* standard errors of a difference */
static const double KNOWN = .1; /* a quant's KL divergence is known when its error is this share of it */

/* Returns how many times the tokens of the text make the error of x a `share` of it. */
static double evaluation_times_text(gq_estimate x, double share) {
    double times = x.error / (share * fabs(x.value));
    return times * times;
}

/* Returns how many tokens of the text are in windows, which may overlap. */
static double evaluation_text_tokens(const gq_evaluation_facts *f) {
    uint64_t step = f->stride ? f->stride : f->context;
    if (f->texts) return (double)f->tokens;
    return (double)((f->windows - 1) * step + f->context);
}

/* Returns the quant, of several, that needs the shortest text. */
char *evaluation_advice(const report *r) {
    enum { MOST_TIMES = 1000 }; /* beyond that two quants are as good as equal */
    const gq_evaluation *v = r->evaluation;
    size_t n, *order;
    const gq_evaluated *models = gq_evaluation_models(v, &n);
    double least = INFINITY, tokens = evaluation_text_tokens(gq_evaluation_summary(v));
    char *which = NULL, number[UNIT_ROOM];
    if (n == 2 && evaluation_times_text(models[1].kld, KNOWN) > 1) {
        least = evaluation_times_text(models[1].kld, KNOWN);
        which = text_format("to know the %s to a tenth",
                            report_has_embeddings(models) ? "cosine distance" : "KL divergence");
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

/* ---- which quant is better ---- */

static void print_ranking(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    size_t *order = evaluation_ranking(models, n);
    table out;
    table_start(&out, "llrr1l",
                (const char *const[]){"nearer to the base model", "than", "by", "95 % by windows", ""});
    for (size_t i = 0; i + 2 < n; i++) {
        gq_estimate less;
        gq_evaluation_difference(r->evaluation, order[i + 1], order[i], &less);
        table_name(&out, report_named(r, models[order[i]].path));
        table_name(&out, report_named(r, models[order[i + 1]].path));
        gq_interval by_windows = interval_of(r->evaluation, GQ_KLD, order[i + 1], order[i]);
        table_cell(&out, estimate_text(less));
        table_cell(&out, isnan(by_windows.low)
                             ? text_format("-")
                             : text_format("%.2g to %.2g", by_windows.low, by_windows.high));
        table_text(&out, gq_evaluation_certainty(r->evaluation, order[i + 1], order[i]));
    }
    table_end_below(&out, to);
    free(order);
}

/* ---- for people ---- */

static double evaluated_bits(const gq_evaluated *m) {
    return gq_bits_per_weight(m->tensor_bytes, m->n_weights);
}

static void print_models(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    table out;
    bool predicts = !report_has_embeddings(models), accepts = report_has_acceptance(models, n);
    table_start(&out,
                !predicts ? "ll3r1r2"
                : n > 1   ? (accepts ? "ll3r1r2rr4r5r" : "ll3r1r2rr4r5")
                : accepts ? "ll3r1r2rr"
                          : "ll3r1r2r",
                NULL);
    const char *const headings[] = {"model",      "type",        "file MB", "bpw",
                                    "perplexity", "as multiple", "same top"};
    for (size_t i = 0; i < (!predicts ? 4 : n > 1 ? 7 : 5); i++) table_text(&out, headings[i]);
    if (accepts) table_text(&out, "accepted");
    for (size_t i = 0; i < n; i++) {
        const gq_evaluated *m = &models[i];
        table_name(&out, report_named(r, m->path));
        table_text(&out, m->filetype);
        table_cell(&out, m->n_weights ? text_format("%.2f", (double)m->file_bytes / 1e6)
                                      : text_format("-")); /* a base file holds no model */
        table_cell(&out, m->n_weights ? text_format("%.3f", evaluated_bits(m)) : text_format("-"));
        if (!predicts) continue;
        table_cell(&out, perplexity_text(m->perplexity));
        if (n > 1) table_cell(&out, i ? estimate_text(m->ratio) : text_format("-"));
        if (n > 1) table_cell(&out, i ? share_text(m->top1_agreement) : text_format("-"));
        bool has_block = isfinite(m->acceptance.value);
        if (accepts) table_cell(&out, has_block ? share_text(m->acceptance) : text_format("-"));
    }
    table_end(&out, to);
}

static void print_klds(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    table out;
    bool predicts = !report_has_embeddings(models);
    const char *const headings[] = {"file",       predicts ? "KL divergence" : "cosine distance",
                                    "median",     "90 %",
                                    "95 %",       "99 %",
                                    "99.9 %",     "largest",
                                    "change of p"};
    table_start(&out, predicts ? "lrr2r6r3r7r4r5r1" : "lrr2r6r3r7r4r5", NULL);
    for (size_t i = 0; i < (predicts ? 9 : 8); i++) table_text(&out, headings[i]);
    for (size_t i = 1; i < n; i++) {
        table_name(&out, report_named(r, models[i].path));
        table_cell(&out, estimate_text(models[i].kld));
        for (size_t q = 0; q < GQ_QUANTILES; q++) table_cell(&out, kld_text(models[i].quantiles[q]));
        if (predicts) table_cell(&out, text_format("%.3f %%", 100 * models[i].rms_change.value));
    }
    table_end_below(&out, to);
}

/* Prints the main figures of a single quant in one line. */
static void print_quant(FILE *to, const gq_evaluated *base_model, const gq_evaluated *quant) {
    char *before = perplexity_text(base_model->perplexity), *after = perplexity_text(quant->perplexity),
         *kld = estimate_text(quant->kld), *same = share_text(quant->top1_agreement);
    print_line(to, "perplexity %s -> %s, KL divergence %s, the same top-1 token in %s", before, after, kld,
               same);
    free(before), free(after), free(kld), free(same);
}

/* ---- intervals and kinds of text ---- */

static const char *level_of(const gq_evaluation *v, size_t model) {
    gq_level level;
    return gq_evaluation_level(v, model, &level, NULL) ? gq_level_text(level) : "";
}

/* 95 % intervals by windows, and what they come to. */
static void print_intervals(FILE *to, const report *r, const gq_evaluated *models, size_t n) {
    bool predicts = !report_has_embeddings(models);
    table out;
    table_start(&out, predicts ? "lrrl" : "lrl", NULL);
    table_text(&out, "file");
    table_text(&out, predicts ? "KL divergence, 95 % by windows" : "cosine distance, 95 % by windows");
    if (predicts) table_text(&out, "changed top-1, %");
    table_text(&out, "");
    for (size_t i = 1; i < n; i++) {
        gq_interval kld = interval_of(r->evaluation, GQ_KLD, i, 0),
                    changed_top1 = interval_of(r->evaluation, GQ_CHANGED_TOP1, i, 0);
        table_name(&out, report_named(r, models[i].path));
        table_cell(&out, interval_text(&kld, 1));
        if (predicts) table_cell(&out, interval_text(&changed_top1, 100));
        table_text(&out, predicts ? level_of(r->evaluation, i) : "");
    }
    table_end_below(&out, to);
}

/* Rows of one text: a quant each. */
static void table_add_kind(table *out, const report *r, const char *text, const gq_evaluation *v) {
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(v, &n);
    for (size_t i = 1; i < n; i++) {
        gq_interval kld = interval_of(v, GQ_KLD, i, 0), changed_top1 = interval_of(v, GQ_CHANGED_TOP1, i, 0);
        table_name(out, report_named(r, text));
        table_name(out, report_named(r, models[i].path));
        table_cell(out, text_format("%" PRIu64, gq_evaluation_summary(v)->scored));
        table_cell(out, estimate_text(models[i].ratio));
        table_cell(out, interval_text(&kld, 1));
        table_cell(out, kld_text(models[i].quantiles[3]));
        table_cell(out, interval_text(&changed_top1, 100));
        table_text(out, level_of(v, i));
    }
}

static void print_kinds(FILE *to, const report *r) {
    table out;
    if (!r->n_kinds) return;
    table_start(&out, "llr3r2rr1rl",
                (const char *const[]){"text", "file", "scored", "perplexity as multiple", "KL divergence",
                                      "99 %", "changed top-1, %", ""});
    const char *text = r->request->text ? r->request->text : r->request->ids;
    table_add_kind(&out, r, text ? text : "", r->evaluation);
    for (size_t i = 0; i < r->n_kinds; i++) table_add_kind(&out, r, r->request->kinds.items[i], r->kinds[i]);
    table_end_below(&out, to);
}

void report_evaluation(FILE *to, const report *r) {
    size_t n;
    const gq_evaluated *models = gq_evaluation_models(r->evaluation, &n);
    const gq_evaluation_facts *facts = gq_evaluation_summary(r->evaluation);
    char time[UNIT_ROOM], rate[UNIT_ROOM];
    print_models(to, r, models, n);
    if (n > 1) print_klds(to, r, models, n);
    if (n > 2) print_ranking(to, r, models, n);
    if (n > 1) print_intervals(to, r, models, n);
    if (!report_has_embeddings(models)) report_print_depths(to, r, models, n);
    report_print_continued(to, r, models, n);
    report_print_chosen(to, r, models, n);
    report_print_drafted(to, r, models, n);
    print_kinds(to, r);
    bool predicts = !report_has_embeddings(models);
    char *step = facts->stride ? text_format(", one every %" PRIu32, facts->stride) : text_format("%s", "");
    fputc('\n', to);
    /* The time is of all that was asked: of drafts too, whose tokens are not counted. */
    bool is_counted = !r->request->draft && facts->tokens_run > 0 && facts->seconds > 0;
    char *asked = facts->tokens_run > facts->tokens
                      ? text_format(", %" PRIu64 " tokens run in all", facts->tokens_run)
                      : text_format("%s", "");
    char *speed = is_counted ? text_format(", %s tokens/s",
                                           count_text(rate, (double)facts->tokens_run / facts->seconds))
                             : text_format("%s", "");
    print_line(to, "%" PRIu64 " tokens in windows of %" PRIu32 "%s, %" PRIu64 " %s%s; %s%s", facts->tokens,
               facts->context, step, facts->scored,
               !predicts       ? "embeddings"
               : facts->masked ? "of them masked and scored"
                               : "of them scored",
               asked, time_text(time, facts->seconds), speed);
    free(step), free(asked), free(speed);
    if (facts->texts)
        print_line(to, "%" PRIu64 " conversations, each with what stands before it alone", facts->texts);
    if (report_has_acceptance(models, n))
        print_wrapped(to, "accepted: how often the first choice of a model's MTP layer is the model's own");
    if (n == 2 && predicts) print_quant(to, &models[0], &models[1]);
    if (report_few_places(facts)) print_wrapped(to, report_few_places(facts));
    if (r->advice) print_wrapped(to, r->advice);
}
