/* Rounds one matrix for one output. Up to CALIBRATION_ROWS rows at a time are read, decoded and rounded
 * twice: with error feedback by the factored moments of the inputs (codec/feedback.h), and by search alone
 * with the inputs' mean squares as importance. Both results are multiplied with the held-back tokens and
 * compared with the original's output (imatrix/output.h). Which did better is known only behind the last row,
 * for the matrix as a whole. So the calibrated blocks are written meanwhile; if search did better, or if the
 * calibrated blocks decode to values that are not finite, all rows are read again and written by search.
 * Where the moments are of no use (no token, no root, few tokens and none held back), search is used from the
 * start. Rows are shared out to threads in fixed groups, so the bytes do not depend on the threads. */
#include "quantize/calibrate/round.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "codec/feedback.h"
#include "imatrix/output.h"
#include "quantize/strips/strip.h"

const char *round_reason_text(round_reason r) {
    static const char *const texts[ROUND_REASONS] = {
        [ROUND_CALIBRATED] = "",
        [ROUND_UNSEEN] = "no token reached it",
        [ROUND_ROOTLESS] = "the second moments of its inputs could not be factored",
        [ROUND_UNCHECKED] = "few tokens reached it, none of them held back",
        [ROUND_WORSE] = "plain encoding did better on the held-back windows",
    };
    return texts[r];
}

/* ---- memory ---- */

typedef struct rows {
    const round_task *task;
    const model_tensor *tensor;
    const gguf_type *from, *to;
    size_t columns, most; /* rows at once */
    threads_pool *pool;
    uint8_t *raw, *calibrated, *searched;
    float *x;
    uint8_t *scratches; /* of codec_feedback, scratch_bytes for each thread */
    size_t scratch_bytes;
    /* the rows at hand */
    uint64_t first;
    size_t n;
} rows;

static size_t rows_at_once(const model_tensor *t) {
    return t->ne[1] < CALIBRATION_ROWS ? t->ne[1] : CALIBRATION_ROWS;
}

/* Allocates or counts memory for the rows as stored, decoded and rounded both ways, and for the threads'
 * scratch. */
static void lay_out_rows(rows *r, size_t threads, memory_ledger *l) {
    uint64_t n = times(r->most, r->columns), from = gguf_type_bytes(r->from, n),
             to = gguf_type_bytes(r->to, n);
    r->scratch_bytes =
        round_up(feedback_most_bytes(r->columns), 64); /* of any type: the count depends on no processor */
    r->raw = memory_take(l, 1, from), r->x = memory_take(l, n, sizeof *r->x);
    r->calibrated = memory_take(l, 1, to), r->searched = memory_take(l, 1, to);
    r->scratches = memory_take(l, threads, r->scratch_bytes);
}

static void rows_free(rows *r) {
    free(r->raw), free(r->calibrated), free(r->searched), free(r->x), free(r->scratches);
}

uint64_t round_bytes(const model_tensor *tensor, const gguf_type *to, int threads) {
    memory_ledger l = {.counts = true};
    rows r = {.from = tensor->type, .to = to, .columns = tensor->ne[0], .most = rows_at_once(tensor)};
    if (r.columns > UINT32_MAX) return UINT64_MAX;
    lay_out_rows(&r, (size_t)threads, &l);
    return plus(l.bytes, output_bytes());
}

static bool rows_new(rows *r, const round_task *t, gq_error *e) {
    const calibrate_job *of = t->of;
    const model_tensor *tensor = of->tensors[t->tensor];
    memory_ledger l = {.failed = false};
    *r = (rows){.task = t,
                .tensor = tensor,
                .from = tensor->type,
                .to = gguf_type_of(of->outputs[t->output][t->tensor].to),
                .columns = tensor->ne[0],
                .most = rows_at_once(tensor),
                .pool = matmul_pool(t->products)};
    lay_out_rows(r, (size_t)threads_pool_most(r->pool), &l);
    if (memory_had(&l, e)) return true;
    rows_free(r);
    return false;
}

/* ---- rows ---- */

static uint64_t rows_first_element(const rows *r, uint64_t row) {
    return (r->task->matrix * r->tensor->ne[1] + row) * r->columns;
}

static bool rows_read(rows *r, uint64_t first, gq_error *e) {
    const calibrate_job *of = r->task->of;
    uint64_t left = r->tensor->ne[1] - first;
    strip_encoder with = {.kernels = of->kernels, .type = r->to};
    r->first = first, r->n = left < r->most ? left : r->most;
    if (!strip_read_decoded(of->kernels, of->file, r->tensor, rows_first_element(r, first), r->n * r->columns,
                            r->raw, r->x, e))
        return false;
    size_t beyond = strip_beyond(&with, r->x, r->n * r->columns);
    if (beyond < r->n * r->columns)
        return strip_fail_to_hold(&with, of->file, r->tensor, rows_first_element(r, first) + beyond,
                                  r->x[beyond], e);
    return true;
}

/* The rows at hand as groups of FEEDBACK_ROWS, which are shared out to all threads. */
typedef struct round_groups {
    const rows *rows;
    uint8_t *blocks;
    _Atomic uint64_t codes, ends; /* of feedback_sums */
} round_groups;

static size_t groups_of(const rows *r) { return (r->n + FEEDBACK_ROWS - 1) / FEEDBACK_ROWS; }
static size_t rows_of_group(const rows *r, size_t first) {
    return r->n - first < FEEDBACK_ROWS ? r->n - first : FEEDBACK_ROWS;
}

static void search_group(void *data, size_t i, int thread) {
    const round_groups *g = data;
    const rows *r = g->rows;
    const calibrate_job *of = r->task->of;
    codec_importance importance = {.column = r->task->inputs.mean_square};
    size_t row = i * FEEDBACK_ROWS;
    (void)thread;
    of->kernels->codecs[r->to->id].encode(
        r->x + row * r->columns, g->blocks + row * gguf_type_bytes(r->to, r->columns), rows_of_group(r, row),
        r->columns, importance.column ? &importance : NULL, of->encoding);
}

static void search_rows(const rows *r, uint8_t *blocks) {
    threads_for(r->pool, groups_of(r), 1, search_group, &(round_groups){.rows = r, .blocks = blocks});
}

static void calibrate_group(void *data, size_t i, int thread) {
    round_groups *g = data;
    const rows *r = g->rows;
    const calibrate_job *of = r->task->of;
    const moments_factored *f = r->task->inputs.factored;
    size_t row = i * FEEDBACK_ROWS;
    feedback_sums sums = {0};
    feedback_task task = {.kernels = of->kernels,
                          .type = r->to->id,
                          .effort = of->encoding->effort,
                          .sweeps = (int)of->settings->sweeps,
                          .moments = f->runs,
                          .n_moments = f->n_runs,
                          .columns = r->columns,
                          .scratch = r->scratches + r->scratch_bytes * (size_t)thread,
                          .first_row = r->first + row,
                          .matrix_rows = r->tensor->ne[1]};
    codec_feedback(&task, r->x + row * r->columns, rows_of_group(r, row),
                   g->blocks + row * gguf_type_bytes(r->to, r->columns), &sums);
    atomic_fetch_add(&g->codes, sums.codes), atomic_fetch_add(&g->ends, sums.ends);
}

static void calibrate_rows(const rows *r, calibrate_figures *sums) {
    round_groups g = {.rows = r, .blocks = r->calibrated};
    threads_for(r->pool, groups_of(r), 1, calibrate_group, &g);
    sums->codes += g.codes, sums->ends += g.ends;
}

/* Whether blocks decode to finite numbers. Error feedback can drive values to infinity; such blocks are not
 * used. */
static bool decodes_to_numbers(const rows *r, const uint8_t *blocks) {
    const kernels *k = r->task->of->kernels;
    size_t n = r->n * r->columns;
    k->codecs[r->to->id].decode(blocks, r->x, n);
    return k->first_not_finite(r->x, n) == n;
}

static matmul_weights rows_weights(const rows *r, const gguf_type *type, const void *data) {
    return (matmul_weights){data, type->id, r->n, r->columns, gguf_type_bytes(type, r->columns)};
}

/* Adds the errors of the rows' outputs on held-back tokens. error[0]: searched; error[1], if ways is 2:
 * calibrated. Where the state is the target, the output wanted is that of the weights as they were with the
 * rounded model's inputs, and what the state lacks besides. */
static bool compare_rows(const rows *r, size_t ways, output_errors *errors, gq_error *e) {
    const round_inputs *in = &r->task->inputs;
    output_side original = {.weights = rows_weights(r, r->from, r->raw),
                            .x = in->is_state ? in->rounded : in->original,
                            .stride = in->stride,
                            .more = in->is_state ? in->original + r->first * in->stride : NULL};
    output_side rounded[] = {
        {.weights = rows_weights(r, r->to, r->searched), .x = in->rounded, .stride = in->stride},
        {.weights = rows_weights(r, r->to, r->calibrated), .x = in->rounded, .stride = in->stride}};
    return output_compare(r->task->products, &original, rounded, ways, in->held, errors, e);
}

static bool write_rows(const rows *r, const uint8_t *blocks, gq_error *e) {
    const round_task *t = r->task;
    const calibrate_store *store = &t->of->store;
    size_t n = gguf_type_bytes(r->to, r->n * r->columns);
    if (t->kept) memcpy(t->kept + gguf_type_bytes(r->to, r->first * r->columns), blocks, n);
    return store->write(store->data, t->output, t->tensor,
                        gguf_type_bytes(r->to, rows_first_element(r, r->first)), blocks, n, e);
}

/* ---- a matrix ---- */

static bool round_ask(const round_task *t, gq_error *e) { return !t->progress || t->progress(t->data, e); }

/* Rounds all rows both ways and writes the calibrated ones. *numbers: whether these decode to finite numbers.
 */
static bool round_both(rows *r, calibrate_figures *sums, output_errors *errors, bool *numbers, gq_error *e) {
    *numbers = true;
    for (uint64_t first = 0; first < r->tensor->ne[1]; first += r->n) {
        if (!round_ask(r->task, e) || !rows_read(r, first, e)) return false;
        search_rows(r, r->searched);
        calibrate_rows(r, sums);
        if (!compare_rows(r, 2, errors, e) || !write_rows(r, r->calibrated, e)) return false;
        *numbers = *numbers && decodes_to_numbers(r, r->calibrated);
    }
    return true;
}

static bool round_by_search(rows *r, bool measure, output_errors *errors, gq_error *e) {
    for (uint64_t first = 0; first < r->tensor->ne[1]; first += r->n) {
        if (!round_ask(r->task, e) || !rows_read(r, first, e)) return false;
        search_rows(r, r->searched);
        if ((measure && !compare_rows(r, 1, errors, e)) || !write_rows(r, r->searched, e)) return false;
    }
    return true;
}

/* Decides before the work whether error feedback is possible. ROUND_CALIBRATED: it is; whether it does better
 * on held-back tokens is known later. */
static round_reason reason_for_search(const round_task *t) {
    const moments_factored *f = t->inputs.factored;
    if (f->tokens == 0) return ROUND_UNSEEN;
    if (f->n_runs == 0) return ROUND_ROOTLESS;
    uint64_t columns = t->of->tensors[t->tensor]->ne[0];
    return t->inputs.held == 0 && f->tokens < columns ? ROUND_UNCHECKED : ROUND_CALIBRATED;
}

/* Counts a matrix for a step that has no check of its own: it is kept where the matrix is calibrated. */
static void count_step(const round_task *t, calibrate_figures *sums, calibrate_step step, bool kept) {
    if (!calibration_does(t->of->settings, step)) return;
    sums->steps[step].matrices++, sums->steps[step].kept += kept;
}

bool round_matrix(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e) {
    const moments_factored *f = t->inputs.factored;
    round_reason reason = reason_for_search(t);
    output_errors errors = {0};
    bool numbers = true;
    rows r;
    if (!rows_new(&r, t, e)) return false;
    bool ok = reason == ROUND_CALIBRATED ? round_both(&r, sums, &errors, &numbers, e)
                                         : round_by_search(&r, true, &errors, e);
    if (reason == ROUND_CALIBRATED && ok &&
        (!numbers || (t->inputs.held > 0 && !(errors.error[1] < errors.error[0])))) {
        reason = ROUND_WORSE;
        ok = round_by_search(&r, false, &errors, e);
    }
    rows_free(&r);
    count_step(t, sums, STEP_DAMPING, reason == ROUND_CALIBRATED);
    if (t->inputs.is_state) count_step(t, sums, STEP_STATE, reason == ROUND_CALIBRATED);
    if (t->of->settings->sweeps) count_step(t, sums, STEP_SWEEPS, reason == ROUND_CALIBRATED);
    sums->matrices++, sums->plain += reason != ROUND_CALIBRATED, sums->unchecked += t->inputs.held == 0;
    sums->power += errors.power, sums->searched += errors.error[0];
    sums->written += errors.error[reason == ROUND_CALIBRATED];
    if (sums->matrices == 1 || f->tokens < sums->tokens) sums->tokens = f->tokens;
    if (f->damp > sums->damp) sums->damp = f->damp;
    if (*why == ROUND_CALIBRATED) *why = reason;
    return ok;
}
