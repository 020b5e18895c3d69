/* Gathers the facts of a plan, a run or a comparison, and computes the figures that all formats share;
 * report_json.c and report_files.c write them. A report points into the plan and the results and owns nothing
 * but its lists. A figure for a whole output comes from sums of squares over its tensors, which are divided
 * once, and never from a mean of means. */
#include "publish/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/sized.h"

/* ---- sums ---- */

double gq_loss_error(const gq_loss *l) {
    return l->n == 0 ? 0 : l->wx2 > 0 ? gq_loss_weighted(l) : gq_loss_relative(l);
}

double gq_loss_squares(const gq_loss *l) { return l->wx2 > 0 ? l->we2 : l->e2; }

/* Inserts tensor i into the list of the worst if its error is large enough. */
static void worst_insert(gq_report_output *o, size_t i) {
    double error = gq_loss_error(&o->losses[i]);
    size_t at = o->n_worst;
    if (!(error > 0)) return;
    while (at > 0 && error > gq_loss_error(&o->losses[o->worst[at - 1]])) at--;
    if (at == GQ_WORST) return;
    if (o->n_worst < GQ_WORST) o->n_worst++;
    memmove(o->worst + at + 1, o->worst + at, (o->n_worst - at - 1) * sizeof *o->worst);
    o->worst[at] = i;
}

static void add_losses(gq_report_output *o) {
    gq_loss *sum = &o->loss;
    for (size_t i = 0; o->losses && i < o->n; i++) {
        const gq_loss *l = &o->losses[i];
        sum->n += l->n, sum->x2 += l->x2, sum->e2 += l->e2, sum->wx2 += l->wx2, sum->we2 += l->we2;
        if (l->max_error > sum->max_error) sum->max_error = l->max_error;
        o->squares += gq_loss_squares(l);
        worst_insert(o, i);
    }
}

static void add_roundings(gq_report_output *o) {
    double checked = 0, plain_error = 0, written = 0;
    for (size_t i = 0; o->roundings && i < o->n; i++) {
        const gq_rounding *r = &o->roundings[i];
        if (!r->matrices) continue;
        o->calibrated++;
        o->matrices += r->matrices, o->plain += r->plain, o->unchecked += r->unchecked;
        o->codes += r->codes, o->clipped += r->clipped;
        if (!(r->power > 0)) continue;
        plain_error += r->plain_error / r->power, written += r->written / r->power;
        checked++;
    }
    o->plain_error = checked > 0 ? sqrt(plain_error / checked) : (double)NAN;
    o->written = checked > 0 ? sqrt(written / checked) : (double)NAN;
}

/* ---- which of several quants is nearest to the base model, tensor by tensor ---- */

/* The error of the quant's tensor with a number in the base model; NaN: it has none. at: where its tensors up to that
 * number end. */
static double error_of_number(const gq_report_output *o, size_t at, size_t number) {
    return at < o->n && o->numbers[at] == number ? gq_loss_error(&o->losses[at]) : (double)NAN;
}

/* Marks the best ones of a tensor: those with the smallest error, unless it is that of all or nobody else has the
 * tensor. at: for each quant the next of its tensors, which are passed. */
static void rank_tensor(gq_report *r, size_t *at, size_t number) {
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < r->n; i++) {
        double error = error_of_number(&r->outputs[i], at[i], number);
        least = fmin(least, error), most = fmax(most, error);
    }
    for (size_t i = 0; i < r->n; i++) {
        gq_report_output *o = &r->outputs[i];
        if (at[i] >= o->n || o->numbers[at[i]] != number) continue;
        double error = gq_loss_error(&o->losses[at[i]]);
        bool is_best = least < most && error <= least;
        ((bool *)o->best)[at[i]++] = is_best;
        o->n_best += is_best;
    }
}

static bool rank_quants(gq_report *r, gq_error *e) {
    size_t *at = calloc(r->n, sizeof *at);
    bool ok = at;
    for (size_t i = 0; i < r->n; i++) ok = (r->outputs[i].best = calloc(r->outputs[i].n + 1, 1)) && ok;
    for (size_t number = 0; ok && number != SIZE_MAX;) {
        number = SIZE_MAX; /* the first in the base model that is left */
        for (size_t i = 0; i < r->n; i++) {
            const gq_report_output *o = &r->outputs[i];
            if (at[i] < o->n && o->numbers[at[i]] < number) number = o->numbers[at[i]];
        }
        if (number != SIZE_MAX) rank_tensor(r, at, number);
    }
    free(at);
    return ok || gq_fail_memory(e, r->n);
}

/* ---- gathering ---- */

static void take_output(gq_report_output *o, const gq_report_request *r, size_t i) {
    if (r->comparison) {
        o->summary = gq_comparison_summary(r->comparison, i);
        o->tensors = gq_comparison_tensors(r->comparison, i, &o->n);
        o->losses = gq_comparison_losses(r->comparison, i);
        o->numbers = r->n_quants > 1 ? gq_comparison_numbers(r->comparison, i) : NULL;
        return;
    }
    o->summary = gq_plan_summary(r->plan, i);
    o->tensors = gq_plan_tensors(r->plan, i, &o->n);
    o->reused = r->results ? gq_results_reused(r->results, i, &o->reused_bytes)
                           : gq_plan_reusable(r->plan, i, &o->reused_bytes);
    if (!r->results) return;
    o->roundings = gq_results_roundings(r->results, i, &o->n);
    o->steps = gq_results_steps(r->results, i, &o->n_steps);
    o->losses = gq_results_losses(r->results, i, &o->n);
}

static double report_rate_of(const gq_report *r, const gq_report_output *o) {
    if (!r->asked.results) return r->seconds > 0 ? (double)o->summary->n_weights / r->seconds : 0;
    const gq_progress *p = gq_results_progress(r->asked.results);
    double seconds = p->seconds - p->seconds_resumed;
    if (r->asked.rate > 0) return r->asked.rate;
    return seconds > 0 ? (double)(p->weights_done - p->weights_resumed) / seconds : 0;
}

static bool gather(gq_report *r, gq_error *e) {
    const gq_report_request *q = &r->asked;
    r->n = q->comparison ? q->n_quants : q->plan ? gq_plan_outputs(q->plan) : 0;
    r->outputs = calloc(r->n + 1, sizeof *r->outputs);
    if (!r->outputs) return gq_fail_memory(e, r->n);
    for (size_t i = 0; i < r->n; i++) {
        gq_report_output *o = &r->outputs[i];
        take_output(o, q, i), add_losses(o), add_roundings(o);
        o->rate = report_rate_of(r, o);
    }
    if (r->n > 1 && q->comparison && !rank_quants(r, e)) return false;
    if (!q->only) return true;
    for (size_t i = 0; i < r->n; i++)
        if (i != q->only - 1) free((void *)r->outputs[i].best);
    r->outputs[0] = r->outputs[q->only - 1], r->n = 1;
    return true;
}

/* Makes the rows of tables and charts: of outputs, or else of an evaluation's quants. */
static bool gather_page(gq_report *r, gq_error *e) {
    size_t n = 0;
    const gq_evaluation *v = r->asked.evaluation;
    const gq_evaluated *models = v ? gq_evaluation_models(v, &n) : NULL;
    r->page = (gq_page){.size = sizeof r->page, .n = r->n, .errors = !v, .base_model = models};
    if (!r->page.n && n > 1) r->page.n = n - 1;
    r->page.rows = r->rows = calloc(r->page.n + 1, sizeof *r->rows);
    r->intervals = calloc(2 * r->page.n + 2, sizeof *r->intervals);
    if (!r->rows || !r->intervals) return gq_fail_memory(e, r->page.n * sizeof *r->rows);
    r->page.evaluation = v ? gq_evaluation_summary(v) : NULL;
    for (size_t i = 0; i < r->page.n; i++) {
        gq_page_row *row = &r->rows[i];
        size_t model = (r->asked.only ? r->asked.only - 1 : i) + 1;
        const gq_evaluated *m = model < n ? &models[model] : NULL;
        *row = (gq_page_row){.evaluated = m, .relative_error = (double)NAN};
        if (m) gq_page_row_evaluated(row, v, model, r->intervals + 2 * i, NULL);
        const gq_report_output *o = i < r->n ? &r->outputs[i] : NULL;
        if (o ? !o->summary : !m) continue; /* never: the analyzer cannot see it */
        row->path = o ? o->summary->path : m->path;
        row->type = o ? o->summary->filetype : m->filetype;
        row->file_bytes = o ? o->summary->file_bytes : m->file_bytes;
        row->bits = o ? gq_bits_per_weight(o->summary->out_bytes, o->summary->n_weights)
                      : gq_bits_per_weight(m->tensor_bytes, m->n_weights);
        if (o && o->loss.n) row->relative_error = gq_loss_relative(&o->loss);
    }
    return true;
}

gq_report *gq_report_new(const gq_report_request *asked, gq_error *e) {
    gq_report *r = calloc(1, sizeof *r);
    if (!r) return gq_fail_memory(e, sizeof *r), NULL;
    bool ok = SIZED_TAKE(r->asked, asked, e);
    const gq_report_request *q = &r->asked;
    r->kind = q->results ? "run" : q->plan ? "plan" : q->comparison ? "comparison" : "evaluation";
    if (ok && q->plan) r->plan_seconds = gq_plan_seconds(q->plan);
    if (ok)
        r->seconds = q->results      ? r->plan_seconds + gq_results_progress(q->results)->seconds
                     : q->plan       ? 0
                     : q->comparison ? gq_comparison_seconds(q->comparison)
                                     : gq_evaluation_summary(q->evaluation)->seconds;
    if (ok && gather(r, e) && gather_page(r, e)) return r;
    gq_report_free(r);
    return NULL;
}

void gq_report_free(gq_report *r) {
    if (!r) return;
    for (size_t i = 0; r->outputs && i < r->n; i++) free((void *)r->outputs[i].best);
    free(r->outputs), free(r->rows), free(r->intervals), free(r);
}

const gq_report_output *gq_report_outputs(const gq_report *r, size_t *n) { return *n = r->n, r->outputs; }

const char *gq_report_kind(const gq_report *r) { return r->kind; }

double gq_report_seconds(const gq_report *r, double *planning) {
    return *planning = r->plan_seconds, r->seconds;
}
