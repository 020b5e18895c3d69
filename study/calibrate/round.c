/* Rounds one matrix for one output. Up to CALIBRATION_ROWS rows at a time are read, decoded and rounded in
 * several ways (round_way): by plain encoding with the inputs' mean squares as importance, with error feedback
 * by the Cholesky factor of the inputs' Hessian (codec/feedback.h), and with sweeps behind it where the settings ask
 * for them. All are multiplied with the held-out tokens and compared with the base model's output
 * (study/inputs/output.c). Which did best is known only behind the last row, for the matrix as a whole. So the
 * last way's blocks are written meanwhile; if another one did better, or if these blocks decode to values
 * that are not finite, all rows are read again and written that way. Where the Hessian is of no use (no
 * token, no Cholesky factor, few tokens and none held out), search is used from the start. Rows are shared out to
 * threads in fixed groups, so the bytes do not depend on the threads.
 *
 * Ranks have shares of the rows (rows.c), and go through these in slices. Then all get the errors span by
 * span, which each adds in the same order, and choose the same way; only then does each send the blocks of
 * its share, once. Who has a span more than others changes from layer to layer. */
#include "study/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "forward/products/product.h"

const char *round_reason_text(round_reason r) {
    static const char *const texts[ROUND_REASONS] = {
        [ROUND_CALIBRATED] = "",
        [ROUND_UNSEEN] = "no token reached it",
        [ROUND_INDEFINITE] = "the Hessian of its inputs has no Cholesky factor",
        [ROUND_UNCHECKED] = "few tokens reached it, none of them held out",
        [ROUND_WORSE] = "plain encoding did better on the held-out windows",
        [ROUND_FELL_BACK] = "the model as a whole did better without calibrating its group of layers",
    };
    return texts[r];
}

static void round_report(const matrix_rows *r, double share) {
    sweep_report(&r->task->c->sweep, r->at_hand.reported + share * r->at_hand.share);
}

/* Shares of rounding that its kinds of work usually have, for progress. */
static const double SEARCH_SHARE = .1, FEEDBACK_SHARE = .6, CHECKS_SHARE = .3;

/* Begins work that has such a share, for the rows at hand. */
static void round_begin_work(matrix_rows *r, double share) {
    double of = (double)rows_of_spans(r, r->share.begin, r->share.end);
    r->at_hand.reported += r->at_hand.share;
    r->at_hand.n = rows_count(r);
    r->at_hand.share = of > 0 ? share * (double)r->at_hand.n / of : 0;
    r->at_hand.codes = r->at_hand.clipped = r->at_hand.done = 0;
    atomic_flag_clear(&r->at_hand.telling);
}

/* Counts rows that a thread has finished. One thread at a time reports progress; the others continue. */
static void round_add_done(void *data, size_t n) {
    matrix_rows *r = data;
    size_t done = atomic_fetch_add(&r->at_hand.done, n) + n;
    if (atomic_flag_test_and_set(&r->at_hand.telling)) return;
    round_report(r, (double)done / (double)r->at_hand.n);
    atomic_flag_clear(&r->at_hand.telling);
}

static size_t groups_of(const matrix_rows *r) { return ceil_div(r->at_hand.n, FEEDBACK_ROWS); }
static size_t rows_of_group(const matrix_rows *r, size_t first) {
    return min(r->at_hand.n - first, FEEDBACK_ROWS);
}

static void search_some(matrix_rows *r, size_t row, size_t n) {
    const calibration *of = r->task->c->of;
    of->kernels->codecs[r->to->id].encode(r->x + row * r->columns,
                                          r->blocks[WAY_PLAIN] + row * rows_to_bytes(r), n, r->columns,
                                          r->task->mean_square, of->encoding);
    round_add_done(r, n);
}

static void search_group(void *data, size_t i, int thread) {
    (void)thread;
    search_some(data, i * FEEDBACK_ROWS, rows_of_group(data, i * FEEDBACK_ROWS));
}

static void search_span(void *data, size_t i, int thread) {
    const matrix_rows *r = data;
    chain_span s = rows_span(r, r->at_hand.span + i);
    (void)thread;
    search_some(data, rows_place(r, &s), s.rows);
}

static void search_rows(matrix_rows *r) {
    round_begin_work(r, SEARCH_SHARE);
    if (r->metrics->n)
        threads_for(r->pool, r->at_hand.span_end - r->at_hand.span, 1, search_span, r);
    else
        threads_for(r->pool, groups_of(r), 1, search_group, r);
}

/* Rounds n rows from `row` on, or a chain's that begin there. Sweeps of a row change those that a chain has
 * behind it, so a chain is always swept as it is the last way. */
static void calibrate_some(matrix_rows *r, size_t row, size_t n, const feedback_chain *chain, int thread) {
    const calibration *of = r->task->c->of;
    const cholesky *f = r->task->factored;
    size_t offset = row * rows_to_bytes(r);
    round_way way = chain ? r->last : r->at_hand.way;
    bool swept = way == WAY_SWEPT;
    feedback_sums sums = {0};
    feedback_task task = {.kernels = of->kernels,
                          .type = r->to->id,
                          .effort = of->encoding->effort,
                          .sweeps = swept ? (int)of->settings.sweeps : 0,
                          .trials = (int)of->settings.trials,
                          .unswept = swept ? r->blocks[WAY_PASS] + offset : NULL,
                          .hessian = f->runs,
                          .n_hessians = f->n_runs,
                          .columns = r->columns,
                          .scratch = r->scratches + r->scratch_bytes * (size_t)thread,
                          .first_row = r->at_hand.first + row,
                          .matrix_rows = r->tensor->ne[1],
                          .chain = chain,
                          .report = round_add_done,
                          .data = r,
                          .by = product_kernels_for(of->kernels, f->runs->arithmetic)};
    codec_feedback(&task, r->x + row * r->columns, n, r->blocks[way] + offset, &sums);
    atomic_fetch_add(&r->at_hand.codes, sums.codes), atomic_fetch_add(&r->at_hand.clipped, sums.clipped);
}

static void calibrate_group(void *data, size_t i, int thread) {
    calibrate_some(data, i * FEEDBACK_ROWS, rows_of_group(data, i * FEEDBACK_ROWS), NULL, thread);
}

static void calibrate_chain(void *data, size_t i, int thread) {
    const chain_task *t = &((const matrix_rows *)data)->chains.tasks[i];
    calibrate_some(data, t->first, t->rows, t->chain.heads ? &t->chain : NULL, thread);
}

static void calibrate_rows(matrix_rows *r, round_way way, calibrate_figures *sums) {
    round_begin_work(r, FEEDBACK_SHARE);
    r->at_hand.way = way;
    if (r->metrics->n)
        threads_for(r->pool, r->chains.n_tasks, 1, calibrate_chain, r);
    else
        threads_for(r->pool, groups_of(r), 1, calibrate_group, r);
    sums->codes += r->at_hand.codes, sums->clipped += r->at_hand.clipped;
}

/* Whether blocks decode to finite numbers. Error feedback can drive values to infinity; such blocks are not
 * used. */
static bool decodes_to_numbers(const matrix_rows *r, const uint8_t *blocks) {
    const kernels *k = r->task->c->of->kernels;
    bool numbers = true;
    for (size_t i = r->at_hand.span, next; i < r->at_hand.span_end; i = next) {
        chain_span s = rows_together_from(r, i, r->at_hand.span_end, &next);
        size_t row = rows_place(r, &s), n = s.rows * r->columns;
        float *x = r->x + row * r->columns;
        codec_decode_rows(&k->codecs[r->to->id], blocks + row * rows_to_bytes(r), r->columns, x, n);
        numbers = numbers && k->first_not_finite(x, n) == n;
    }
    return numbers;
}

static matmul_weights span_weights(const matrix_rows *r, const chain_span *s, const tensor_type *type,
                                   const uint8_t *data) {
    const uint8_t *first = data + rows_place(r, s) * gguf_row_bytes(type, r->columns);
    return (matmul_weights){first, type->id, s->rows, r->columns};
}

/* Compares rows on the held-out tokens. errors: as output_compare takes them. Where the residual stream is
 * fitted, the output wanted is that of the weights as they were with the rounded model's inputs, and what the
 * residual stream lacks in addition. */
static bool compare_span(const matrix_rows *r, const chain_span *s, round_way last, output_errors *errors,
                         gq_error *e) {
    const round_task *in = r->task;
    output_side rounded[ROUND_WAYS],
        base = {.weights = span_weights(r, s, r->from, r->raw),
                .x = in->is_residual ? in->rounded : in->base,
                .stride = in->stride,
                .more = in->is_residual ? in->base + s->first * in->stride : NULL,
                .metric = s->metric};
    for (round_way way = 0; way <= last; way++)
        rounded[way] = (output_side){
            .weights = span_weights(r, s, r->to, r->blocks[way]), .x = in->rounded, .stride = in->stride};
    return output_compare(r->task->c->products, &base, rounded, last + 1, in->held, errors, e);
}

/* Notes the errors of the spans' outputs on held-out tokens, of each way up to `last`, by the rows' metrics. Beside
 * rows with a metric a span may be as long as several without. */
static bool compare_rows(matrix_rows *r, round_way last, gq_error *e) {
    double began = clock_seconds();
    round_begin_work(r, CHECKS_SHARE);
    for (size_t i = r->at_hand.span, next; i < r->at_hand.span_end; i = next) {
        chain_span s = rows_together_from(r, i, r->at_hand.span_end, &next);
        output_errors few[FEEDBACK_ROWS / OUTPUT_SPAN] = {0};
        bool in_parts = r->metrics->n && !s.metric;
        if (!compare_span(r, &s, last, in_parts ? few : &r->errors[i], e)) return false;
        if (in_parts) output_errors_add(&r->errors[i], few, sizeof few / sizeof *few);
        round_report(r, (double)(next - r->at_hand.span) / (double)(r->at_hand.span_end - r->at_hand.span));
    }
    calibrator_timing_of(r->task->c, r->tensor)->checks += clock_seconds() - began;
    return true;
}

static bool write_blocks(const matrix_rows *r, uint64_t row, const uint8_t *blocks, size_t n_rows,
                         gq_error *e) {
    const round_task *t = r->task;
    const rounding_store *store = &t->c->of->store;
    size_t n = n_rows * rows_to_bytes(r);
    if (t->blocks_copy) memcpy(t->blocks_copy + row * rows_to_bytes(r), blocks, n);
    return store->write(store->data, t->c->at.output, t->tensor,
                        (t->matrix * r->tensor->ne[1] + row) * rows_to_bytes(r), blocks, n, e);
}

/* ---- blocks of ranks ---- */

/* The place of a slice's blocks among this rank's. */
static uint8_t *own_blocks(const matrix_rows *r, size_t slice) {
    return r->share.own + slice * r->most * rows_to_bytes(r);
}

/* Writes the blocks of the rows at hand; among ranks they wait until all know that these are the ones. */
static bool finish_rows(const matrix_rows *r, size_t slice, const uint8_t *blocks, gq_error *e) {
    size_t bytes = rows_to_bytes(r);
    if (!r->share.own) return write_blocks(r, r->at_hand.first, blocks, rows_count(r), e);
    uint8_t *to = own_blocks(r, slice);
    for (size_t i = r->at_hand.span, next; i < r->at_hand.span_end; i = next) {
        chain_span s = rows_together_from(r, i, r->at_hand.span_end, &next);
        memcpy(to, blocks + rows_place(r, &s) * bytes, s.rows * bytes);
        to += s.rows * bytes;
    }
    return true;
}

/* packed: a rank's rows of a slice, one behind the other. */
static bool write_packed(const matrix_rows *r, size_t slice, int rank, const uint8_t *packed, gq_error *e) {
    size_t end, bytes = rows_to_bytes(r);
    for (size_t i = rows_slice_spans(r, slice, rank, &end), next; i < end; i = next) {
        chain_span s = rows_together_from(r, i, end, &next);
        if (!write_blocks(r, s.first, packed, s.rows, e)) return false;
        packed += s.rows * bytes;
    }
    return true;
}

/* Gives all ranks the blocks of all, and has them write these. */
static bool share_blocks(const matrix_rows *r, gq_error *e) {
    gq_comm *comm = r->task->comm;
    int ranks = gq_comm_ranks(comm), rank = gq_comm_rank(comm);
    uint64_t *begins = r->share.begins;
    for (size_t slice = 0; r->share.own && slice < r->share.slices; slice++) {
        begins[0] = 0;
        for (int k = 0; k < ranks; k++) {
            size_t end, begin = rows_slice_spans(r, slice, k, &end);
            begins[k + 1] = begins[k] + rows_of_spans(r, begin, end) * rows_to_bytes(r);
        }
        memcpy(r->share.gathered + begins[rank], own_blocks(r, slice), begins[rank + 1] - begins[rank]);
        if (!comm_gather(comm, r->share.gathered, begins, e)) return false;
        for (int k = 0; k < ranks; k++)
            if (!write_packed(r, slice, k, r->share.gathered + begins[k], e)) return false;
    }
    return true;
}

/* ---- a matrix ---- */

/* The result of trying all ways. */
typedef struct rounded_rows {
    calibrate_figures figures; /* codes and ends of the last way */
    output_errors errors;
    bool infinite[ROUND_WAYS]; /* the way's blocks decode to values that are not finite */
} rounded_rows;

/* Adds what all ranks have seen. */
static bool share_figures(const matrix_rows *r, rounded_rows *of, gq_error *e) {
    gq_comm *comm = r->task->comm;
    size_t ranks = (size_t)gq_comm_ranks(comm);
    enum { FIGURES = 3 }; /* codes, ends, ways with values that are not finite */
    uint64_t mine[FIGURES] = {of->figures.codes, of->figures.clipped}, *all;
    for (round_way way = 0; way < ROUND_WAYS; way++) mine[2] |= (uint64_t)of->infinite[way] << way;
    if (ranks == 1) return true;
    if (!(all = calloc(ranks, sizeof mine))) return gq_fail_memory(e, ranks * sizeof mine);
    bool ok = comm_exchange(comm, mine, all, FIGURES, e);
    of->figures.codes = of->figures.clipped = 0;
    for (size_t k = 0; ok && k < ranks; k++) {
        of->figures.codes += all[k * FIGURES], of->figures.clipped += all[k * FIGURES + 1];
        for (round_way way = 0; way < ROUND_WAYS; way++)
            of->infinite[way] = of->infinite[way] || all[k * FIGURES + 2] >> way & 1;
    }
    free(all);
    return ok;
}

/* Adds the errors of all spans, in their order. */
static bool share_errors(const matrix_rows *r, output_errors *sums, gq_error *e) {
    for (int k = 0; r->share.begins && k <= gq_comm_ranks(r->task->comm); k++)
        r->share.begins[k] = rows_spans_begin(r, k) * sizeof *r->errors;
    if (r->share.begins && !comm_gather(r->task->comm, r->errors, r->share.begins, e)) return false;
    output_errors_add(sums, r->errors, r->n_spans);
    return true;
}

/* Rounds all rows one way. of: not NULL: goes all ways before it, too, and compares them. */
static bool round_rows(matrix_rows *r, round_way way, rounded_rows *of, gq_error *e) {
    calibrate_figures again = {0}; /* not to be counted twice */
    for (size_t slice = 0; slice < r->share.slices; slice++) {
        if (!sweep_ask(&r->task->c->sweep, e) || !rows_read(r, slice, e)) return false;
        if (of || way == WAY_PLAIN) search_rows(r);
        if (way != WAY_PLAIN) calibrate_rows(r, way, of ? &of->figures : &again);
        if ((of && !compare_rows(r, way, e)) || !finish_rows(r, slice, r->blocks[way], e)) return false;
        for (round_way each = WAY_PASS; of && each <= way; each++)
            of->infinite[each] = of->infinite[each] || !decodes_to_numbers(r, r->blocks[each]);
    }
    return !of || (share_figures(r, of, e) && share_errors(r, &of->errors, e));
}

/* Returns the way with the least error on held-out tokens; of equal ones, the first. */
static round_way best_way(const matrix_rows *r, const rounded_rows *of) {
    round_way best = r->last;
    for (round_way way = r->last; r->task->held && way-- > 0;)
        if (!(of->errors.error[best] < of->errors.error[way])) best = way;
    return of->infinite[best] ? WAY_PLAIN : best;
}

/* Decides before the work whether error feedback is possible. ROUND_CALIBRATED: it is; whether it does better on
 * held-out tokens is known later. */
static round_reason reason_for_search(const round_task *t) {
    const cholesky *f = t->factored;
    if (f->tokens == 0) return ROUND_UNSEEN;
    if (f->n_runs == 0) return ROUND_INDEFINITE;
    if (t->is_worse) return ROUND_WORSE;
    uint64_t columns = t->c->of->tensors[t->tensor]->ne[0];
    if (t->c->of->sample) return ROUND_CALIBRATED; /* a small text stands for a large one */
    return t->held == 0 && f->tokens < columns ? ROUND_UNCHECKED : ROUND_CALIBRATED;
}

/* Goes all ways that are possible, and again the best one where that is not the last. Returns what was
 * written in *way. */
static bool round_best(matrix_rows *r, rounded_rows *of, round_way *way, gq_error *e) {
    if (!round_rows(r, r->last, of, e)) return false;
    *way = best_way(r, of);
    return (*way == r->last || round_rows(r, *way, NULL, e)) && share_blocks(r, e);
}

/* Counts a matrix for a step. */
static void count_step(calibrate_figures *sums, calibrate_step step, bool kept) {
    sums->steps[step].matrices++, sums->steps[step].kept += kept;
}

/* Adds the errors without a step and with it. */
static void count_errors(calibrate_figures *sums, calibrate_step step, const output_errors *errors,
                         round_way without, round_way with) {
    calibrate_step_figures *f = &sums->steps[step];
    if (!(errors->power > 0)) return;
    f->compared++;
    f->without += errors->error[without] / errors->power, f->with += errors->error[with] / errors->power;
}

/* Adds to a tensor's figures what the steps did to a matrix. */
static void count_steps(const matrix_rows *r, const output_errors *errors, round_way way,
                        calibrate_figures *sums) {
    const round_task *in = r->task;
    bool kept = way != WAY_PLAIN, damps = calibration_does(&r->task->c->of->settings, CALIBRATE_DAMPING);
    if (model_scales_has(r->task->c->of->file->scales, r->tensor)) count_step(sums, CALIBRATE_BALANCE, true);
    if (in->is_embedding) count_step(sums, CALIBRATE_EMBEDDING, kept);
    if (in->is_embedding) count_errors(sums, CALIBRATE_EMBEDDING, errors, WAY_PLAIN, way);
    if (damps && !in->is_embedding) count_step(sums, CALIBRATE_DAMPING, kept);
    if (in->is_residual) count_step(sums, CALIBRATE_RESIDUAL, kept);
    if (r->last != WAY_PLAIN && r->task->c->of->settings.trials) count_step(sums, CALIBRATE_TRIALS, kept);
    if (r->metrics->n) count_step(sums, CALIBRATE_ROWS, kept);
    if (r->last != WAY_SWEPT) return;
    count_step(sums, CALIBRATE_SWEEPS, way == WAY_SWEPT);
    count_errors(sums, CALIBRATE_SWEEPS, errors, WAY_PASS, WAY_SWEPT);
}

void figures_add(calibrate_figures *to, const calibrate_figures *of) {
    to->tokens = to->matrices ? min(to->tokens, of->tokens) : of->tokens;
    to->width = of->width;
    if (of->damp > to->damp) to->damp = of->damp;
    to->matrices += of->matrices, to->plain += of->plain, to->unchecked += of->unchecked;
    to->power += of->power, to->plain_error += of->plain_error, to->written += of->written;
    to->codes += of->codes, to->clipped += of->clipped;
    for (calibrate_step i = 0; i < CALIBRATE_STEPS; i++) {
        calibrate_step_figures *step = &to->steps[i];
        const calibrate_step_figures *more = &of->steps[i];
        step->matrices += more->matrices, step->kept += more->kept, step->compared += more->compared;
        step->without += more->without, step->with += more->with;
    }
}

bool round_matrix(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e) {
    const cholesky *f = t->factored;
    round_reason reason = reason_for_search(t);
    rounded_rows of = {.figures = {0}};
    const output_errors *errors = &of.errors;
    round_way way = WAY_PLAIN;
    matrix_rows r;
    if (!rows_new(&r, t, reason == ROUND_CALIBRATED, e)) return false;
    bool ok = round_best(&r, &of, &way, e);
    if (reason == ROUND_CALIBRATED && way == WAY_PLAIN) reason = ROUND_WORSE;
    if (ok) count_steps(&r, errors, way, sums);
    calibrate_timing *timing = calibrator_timing_of(t->c, r.tensor);
    timing->rounded += r.n_rows * r.columns, timing->held = t->held, timing->chained = r.metrics->n > 0;
    rows_free(&r);
    sums->codes += of.figures.codes, sums->clipped += of.figures.clipped;
    sums->matrices++, sums->plain += reason != ROUND_CALIBRATED, sums->unchecked += t->held == 0;
    sums->power += errors->power, sums->plain_error += errors->error[WAY_PLAIN];
    sums->written += errors->error[way];
    sums->tokens = f->tokens, sums->damp = f->damp;
    if (*why == ROUND_CALIBRATED) *why = reason;
    return ok;
}
