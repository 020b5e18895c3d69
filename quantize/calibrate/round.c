/* Rounds one matrix for one output. Up to CALIBRATION_ROWS rows at a time are read, decoded and rounded in
 * several ways (round_way): by search alone with the inputs' mean squares as importance, with error feedback
 * by the factored moments of the inputs (codec/feedback.h), and with sweeps behind it where the settings ask
 * for them. All are multiplied with the held-back tokens and compared with the original's output
 * (imatrix/output.h). Which did best is known only behind the last row, for the matrix as a whole. So the
 * last way's blocks are written meanwhile; if another one did better, or if these blocks decode to values
 * that are not finite, all rows are read again and written that way. Where the moments are of no use (no
 * token, no root, few tokens and none held back), search is used from the start. Rows are shared out to
 * threads in fixed groups, so the bytes do not depend on the threads.
 *
 * A matrix is a list of spans of rows. Ranks have contiguous shares of them and go through these in steps, as
 * many as the first one needs. After each step all ranks get the blocks of all, and in the end the errors
 * span by span, which each adds in the same order. */
#include "quantize/calibrate/round.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "codec/feedback.h"
#include "imatrix/output.h"
#include "model/scales.h"
#include "quantize/calibrate/chains.h"
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

/* The ways of rounding, each with all of those before it. */
typedef enum round_way {
    WAY_SEARCHED, /* by search alone */
    WAY_PASS,     /* with error feedback */
    WAY_SWEPT,    /* and with sweeps behind it */
    ROUND_WAYS
} round_way;

typedef struct rows {
    const round_task *task;
    const model_tensor *tensor;
    const gguf_type *from, *to;
    size_t columns, most; /* rows at once */
    round_way last;       /* of the ways that are gone */
    threads_pool *pool;
    uint8_t *raw;
    uint8_t *blocks[ROUND_WAYS]; /* as each way makes them; NULL: that way is not gone */
    float *x;
    uint8_t *scratches; /* of codec_feedback, scratch_bytes for each thread */
    size_t scratch_bytes;
    const layer_metrics *metrics; /* of the rows */
    row_chains chains;            /* where there are metrics; all rows are at hand at once then */
    size_t n_spans;               /* of the matrix */
    size_t share, share_end;      /* this rank's */
    size_t steps;
    /* the rows at hand: spans of this rank, where they are from row `first` on */
    size_t span, span_end;
    uint64_t first;
    /* Per span, so many pieces of held-back tokens: their errors. */
    size_t pieces;
    output_errors *errors;
    uint8_t *gathered; /* blocks of all ranks' spans of a step, and where each rank's begin */
    uint64_t *begins;
} rows;

enum {
    SPAN_ROWS = 192,     /* of a span without a metric: those that output errors are added up by */
    PIECE_TOKENS = 1024, /* likewise */
    STEP_SPANS = CALIBRATION_ROWS / SPAN_ROWS,
};
_Static_assert((int)SPAN_ROWS % FEEDBACK_ROWS == 0 && (int)CALIBRATION_ROWS % SPAN_ROWS == 0,
               "spans are whole groups of rows");

/* A chain's rows have to be in memory together, so with metrics all are. */
static size_t rows_at_once(const model_tensor *t, const layer_metrics *m) {
    return m->n || t->ne[1] < CALIBRATION_ROWS ? t->ne[1] : CALIBRATION_ROWS;
}

/* Allocates or counts memory for the rows as stored, decoded and rounded both ways, and for the threads'
 * scratch. */
static void lay_out_rows(rows *r, size_t threads, size_t ranks, memory_ledger *l) {
    uint64_t n = times(r->most, r->columns), from = gguf_type_bytes(r->from, n),
             to = gguf_type_bytes(r->to, n);
    r->scratch_bytes =
        round_up(feedback_most_bytes(r->columns), 64); /* of any type: the count depends on no processor */
    r->raw = memory_take(l, 1, from), r->x = memory_take(l, n, sizeof *r->x);
    for (round_way way = 0; way <= r->last; way++) r->blocks[way] = memory_take(l, 1, to);
    r->scratches = memory_take(l, threads, r->scratch_bytes);
    if (r->metrics->n && r->last != WAY_SEARCHED)
        chains_lay_out(&r->chains, r->metrics, r->most, r->columns, l);
    if (ranks == 1) return;
    r->gathered = memory_take(l, r->metrics->n ? 1 : ranks, to);
    r->begins = memory_take(l, ranks + 1, sizeof *r->begins);
}

static void rows_free(rows *r) {
    for (round_way way = 0; way < ROUND_WAYS; way++) free(r->blocks[way]);
    free(r->raw), free(r->x), free(r->scratches);
    free(r->errors), free(r->gathered), free(r->begins);
    chains_free(&r->chains);
}

uint64_t round_bytes(const model_tensor *tensor, const layer_metrics *metrics, const gguf_type *to,
                     int threads, int ranks) {
    memory_ledger l = {.counts = true};
    rows r = {.from = tensor->type,
              .to = to,
              .columns = tensor->ne[0],
              .most = rows_at_once(tensor, metrics),
              .last = WAY_SWEPT,
              .metrics = metrics};
    uint64_t largest = 0;
    for (size_t i = 0; i < metrics->n; i++) largest = larger(largest, metrics->of[i].group.rows);
    if (r.columns > UINT32_MAX) return UINT64_MAX;
    lay_out_rows(&r, (size_t)threads, (size_t)ranks, &l);
    return plus(l.bytes, output_bytes(largest));
}

static bool rows_new(rows *r, const round_task *t, bool calibrated, gq_error *e) {
    static const layer_metrics no_metrics;
    const calibrate_job *of = t->of;
    const model_tensor *tensor = of->tensors[t->tensor];
    memory_ledger l = {.failed = false};
    *r = (rows){.task = t,
                .tensor = tensor,
                .from = tensor->type,
                .to = gguf_type_of(of->outputs[t->output][t->tensor].to),
                .columns = tensor->ne[0],
                .last = !calibrated            ? WAY_SEARCHED
                        : of->settings->sweeps ? WAY_SWEPT
                                               : WAY_PASS,
                .pool = matmul_pool(t->products),
                .metrics = calibrated ? &t->inputs.metrics : &no_metrics};
    int threads = threads_pool_most(r->pool), rank = gq_comm_rank(t->comm);
    r->most = rows_at_once(tensor, r->metrics);
    r->n_spans = r->metrics->n ? chains_spans(r->metrics, tensor->ne[1]) : parts(tensor->ne[1], SPAN_ROWS);
    r->share = comm_share(t->comm, r->n_spans, rank),
    r->share_end = comm_share(t->comm, r->n_spans, rank + 1);
    r->steps = r->metrics->n ? 1 : parts(comm_share(t->comm, r->n_spans, 1), STEP_SPANS);
    r->pieces = parts(t->inputs.held, PIECE_TOKENS);
    lay_out_rows(r, (size_t)threads, (size_t)gq_comm_ranks(t->comm), &l);
    r->errors = memory_take_zeros(&l, r->n_spans * r->pieces, sizeof *r->errors);
    if (!memory_had(&l, e)) return rows_free(r), false;
    if (r->metrics->n)
        chains_fill(&r->chains, r->metrics, r->most, r->columns, of->kernels, threads, r->share,
                    r->share_end);
    return true;
}

/* ---- rows ---- */

static uint64_t rows_first_element(const rows *r, uint64_t row) {
    return (r->task->matrix * r->tensor->ne[1] + row) * r->columns;
}

static chain_span rows_span(const rows *r, size_t i) {
    uint64_t first = i * SPAN_ROWS, left = r->tensor->ne[1] - first;
    return r->metrics->n ? r->chains.spans[i] : (chain_span){first, smaller(left, SPAN_ROWS), NULL};
}

/* The spans of a rank in a step are those from here on; *end: up to before this one. */
static size_t spans_of_step(const rows *r, size_t step, int rank, size_t *end) {
    const gq_comm *comm = r->task->comm;
    size_t begin = comm_share(comm, r->n_spans, rank);
    *end = comm_share(comm, r->n_spans, rank + 1);
    if (r->metrics->n) return begin;
    begin = smaller(begin + step * STEP_SPANS, *end);
    *end = smaller(begin + STEP_SPANS, *end);
    return begin;
}

/* Where a span is among the rows at hand. */
static size_t span_row(const rows *r, const chain_span *s) { return s->first - r->first; }

/* Rows at hand. */
static size_t rows_count(const rows *r) {
    size_t n = 0;
    for (size_t i = r->span; i < r->span_end; i++) n += rows_span(r, i).rows;
    return n;
}

static bool span_read(const rows *r, const chain_span *s, gq_error *e) {
    const calibrate_job *of = r->task->of;
    strip_encoder with = {.kernels = of->kernels, .type = r->to};
    uint64_t element = rows_first_element(r, s->first);
    size_t n = s->rows * r->columns, row = span_row(r, s);
    float *x = r->x + row * r->columns;
    if (!strip_read_decoded(of->kernels, of->file, r->tensor, element, n,
                            r->raw + row * gguf_type_bytes(r->from, r->columns), x, e))
        return false;
    size_t beyond = strip_beyond(&with, x, n);
    return beyond == n || strip_fail_to_hold(&with, of->file, r->tensor, element + beyond, x[beyond], e);
}

static bool rows_read(rows *r, size_t step, gq_error *e) {
    r->span = spans_of_step(r, step, gq_comm_rank(r->task->comm), &r->span_end);
    r->first = r->metrics->n || r->span == r->span_end ? 0 : rows_span(r, r->span).first;
    for (size_t i = r->span; i < r->span_end; i++) {
        chain_span s = rows_span(r, i);
        if (!span_read(r, &s, e)) return false;
    }
    return true;
}

/* The rows at hand as groups of FEEDBACK_ROWS, which are shared out to all threads. */
typedef struct round_groups {
    const rows *rows;
    round_way way;
    size_t n;                     /* rows */
    _Atomic uint64_t codes, ends; /* of feedback_sums */
} round_groups;

static size_t groups_of(const round_groups *g) { return parts(g->n, FEEDBACK_ROWS); }
static size_t rows_of_group(const round_groups *g, size_t first) {
    return smaller(g->n - first, FEEDBACK_ROWS);
}

static void search_some(const rows *r, size_t row, size_t n) {
    const calibrate_job *of = r->task->of;
    codec_importance importance = {.column = r->task->inputs.mean_square};
    of->kernels->codecs[r->to->id].encode(
        r->x + row * r->columns, r->blocks[WAY_SEARCHED] + row * gguf_type_bytes(r->to, r->columns), n,
        r->columns, importance.column ? &importance : NULL, of->encoding);
}

static void search_group(void *data, size_t i, int thread) {
    const round_groups *g = data;
    (void)thread;
    search_some(g->rows, i * FEEDBACK_ROWS, rows_of_group(g, i * FEEDBACK_ROWS));
}

static void search_span(void *data, size_t i, int thread) {
    const round_groups *g = data;
    chain_span s = rows_span(g->rows, g->rows->span + i);
    (void)thread;
    search_some(g->rows, span_row(g->rows, &s), s.rows);
}

static void search_rows(const rows *r) {
    round_groups g = {.rows = r, .n = rows_count(r)};
    if (r->metrics->n)
        threads_for(r->pool, r->span_end - r->span, 1, search_span, &g);
    else
        threads_for(r->pool, groups_of(&g), 1, search_group, &g);
}

/* Rounds n rows from `row` on, or a chain's that begin there. Sweeps of a row change those that a chain has
 * behind it, so a chain is always swept as it is the last way. */
static void calibrate_some(round_groups *g, size_t row, size_t n, const feedback_chain *chain, int thread) {
    const rows *r = g->rows;
    const calibrate_job *of = r->task->of;
    const moments_factored *f = r->task->inputs.factored;
    size_t offset = row * gguf_type_bytes(r->to, r->columns);
    round_way way = chain ? r->last : g->way;
    bool swept = way == WAY_SWEPT;
    feedback_sums sums = {0};
    feedback_task task = {.kernels = of->kernels,
                          .type = r->to->id,
                          .effort = of->encoding->effort,
                          .sweeps = swept ? (int)of->settings->sweeps : 0,
                          .trials = (int)of->settings->trials,
                          .unswept = swept ? r->blocks[WAY_PASS] + offset : NULL,
                          .moments = f->runs,
                          .n_moments = f->n_runs,
                          .columns = r->columns,
                          .scratch = r->scratches + r->scratch_bytes * (size_t)thread,
                          .first_row = r->first + row,
                          .matrix_rows = r->tensor->ne[1],
                          .chain = chain};
    codec_feedback(&task, r->x + row * r->columns, n, r->blocks[way] + offset, &sums);
    atomic_fetch_add(&g->codes, sums.codes), atomic_fetch_add(&g->ends, sums.ends);
}

static void calibrate_group(void *data, size_t i, int thread) {
    round_groups *g = data;
    calibrate_some(g, i * FEEDBACK_ROWS, rows_of_group(g, i * FEEDBACK_ROWS), NULL, thread);
}

static void calibrate_chain(void *data, size_t i, int thread) {
    round_groups *g = data;
    const chain_task *t = &g->rows->chains.tasks[i];
    calibrate_some(g, t->first, t->rows, t->chain.heads ? &t->chain : NULL, thread);
}

static void calibrate_rows(const rows *r, round_way way, calibrate_figures *sums) {
    round_groups g = {.rows = r, .way = way, .n = rows_count(r)};
    if (r->metrics->n)
        threads_for(r->pool, r->chains.n_tasks, 1, calibrate_chain, &g);
    else
        threads_for(r->pool, groups_of(&g), 1, calibrate_group, &g);
    sums->codes += g.codes, sums->ends += g.ends;
}

/* Whether blocks decode to finite numbers. Error feedback can drive values to infinity; such blocks are not
 * used. */
static bool decodes_to_numbers(const rows *r, const uint8_t *blocks) {
    const kernels *k = r->task->of->kernels;
    bool numbers = true;
    for (size_t i = r->span; i < r->span_end; i++) {
        chain_span s = rows_span(r, i);
        size_t row = span_row(r, &s), n = s.rows * r->columns;
        float *x = r->x + row * r->columns;
        k->codecs[r->to->id].decode(blocks + row * gguf_type_bytes(r->to, r->columns), x, n);
        numbers = numbers && k->first_not_finite(x, n) == n;
    }
    return numbers;
}

static matmul_weights span_weights(const rows *r, const chain_span *s, const gguf_type *type,
                                   const uint8_t *data) {
    size_t bytes = gguf_type_bytes(type, r->columns);
    return (matmul_weights){data + span_row(r, s) * bytes, type->id, s->rows, r->columns, bytes};
}

/* Compares a span on some of the held-back tokens. Where the state is the target, the output wanted is that
 * of the weights as they were with the rounded model's inputs, and what the state lacks besides. */
static bool compare_span(const rows *r, const chain_span *s, round_way last, size_t token,
                         output_errors *errors, gq_error *e) {
    const round_inputs *in = &r->task->inputs;
    size_t tokens = smaller(in->held - token, PIECE_TOKENS);
    output_side rounded[ROUND_WAYS],
        original = {.weights = span_weights(r, s, r->from, r->raw),
                    .x = (in->is_state ? in->rounded : in->original) + token,
                    .stride = in->stride,
                    .more = in->is_state ? in->original + s->first * in->stride + token : NULL,
                    .metric = s->metric};
    for (round_way way = 0; way <= last; way++)
        rounded[way] = (output_side){.weights = span_weights(r, s, r->to, r->blocks[way]),
                                     .x = in->rounded + token,
                                     .stride = in->stride};
    *errors = (output_errors){0};
    return output_compare(r->task->products, &original, rounded, last + 1, tokens, errors, e);
}

/* Notes the errors of the spans' outputs on held-back tokens, of each way up to `last`, by the rows' metrics.
 */
static bool compare_rows(const rows *r, round_way last, gq_error *e) {
    for (size_t i = r->span; i < r->span_end; i++) {
        chain_span s = rows_span(r, i);
        for (size_t k = 0; k < r->pieces; k++)
            if (!compare_span(r, &s, last, k * PIECE_TOKENS, &r->errors[i * r->pieces + k], e)) return false;
    }
    return true;
}

static bool write_blocks(const rows *r, uint64_t row, const uint8_t *blocks, size_t n_rows, gq_error *e) {
    const round_task *t = r->task;
    const calibrate_store *store = &t->of->store;
    size_t n = gguf_type_bytes(r->to, n_rows * r->columns);
    if (t->kept) memcpy(t->kept + gguf_type_bytes(r->to, row * r->columns), blocks, n);
    return store->write(store->data, t->output, t->tensor, gguf_type_bytes(r->to, rows_first_element(r, row)),
                        blocks, n, e);
}

static uint64_t bytes_of_step(const rows *r, size_t step, int rank) {
    size_t end, n = 0;
    for (size_t i = spans_of_step(r, step, rank, &end); i < end; i++) n += rows_span(r, i).rows;
    return n * gguf_type_bytes(r->to, r->columns);
}

/* packed: a rank's spans, one after another. */
static bool write_spans(const rows *r, size_t step, int rank, const uint8_t *packed, gq_error *e) {
    size_t end, bytes = gguf_type_bytes(r->to, r->columns);
    for (size_t i = spans_of_step(r, step, rank, &end); i < end; i++) {
        chain_span s = rows_span(r, i);
        if (!write_blocks(r, s.first, packed, s.rows, e)) return false;
        packed += s.rows * bytes;
    }
    return true;
}

/* Gives all ranks the blocks of all. */
static bool gather_rows(const rows *r, size_t step, const uint8_t *blocks, gq_error *e) {
    gq_comm *comm = r->task->comm;
    int ranks = gq_comm_ranks(comm);
    size_t bytes = gguf_type_bytes(r->to, r->columns);
    r->begins[0] = 0;
    for (int k = 0; k < ranks; k++) r->begins[k + 1] = r->begins[k] + bytes_of_step(r, step, k);
    uint8_t *mine = r->gathered + r->begins[gq_comm_rank(comm)];
    for (size_t i = r->span; i < r->span_end; i++) {
        chain_span s = rows_span(r, i);
        memcpy(mine, blocks + span_row(r, &s) * bytes, s.rows * bytes);
        mine += s.rows * bytes;
    }
    return comm_gather(comm, r->gathered, r->begins, e);
}

static bool write_rows(const rows *r, size_t step, const uint8_t *blocks, gq_error *e) {
    int ranks = gq_comm_ranks(r->task->comm);
    if (ranks == 1) return write_blocks(r, r->first, blocks, rows_count(r), e);
    if (!gather_rows(r, step, blocks, e)) return false;
    for (int k = 0; k < ranks; k++)
        if (!write_spans(r, step, k, r->gathered + r->begins[k], e)) return false;
    return true;
}

/* ---- a matrix ---- */

static bool round_ask(const round_task *t, gq_error *e) { return !t->progress || t->progress(t->data, e); }

/* Adds the figures of all ranks. *numbers becomes whether it holds for all. */
static bool share_figures(const rows *r, calibrate_figures *sums, bool *numbers, gq_error *e) {
    enum { FIGURES = 3 };
    gq_comm *comm = r->task->comm;
    size_t ranks = (size_t)gq_comm_ranks(comm);
    uint64_t mine[FIGURES] = {sums->codes, sums->ends, *numbers}, *all;
    if (ranks == 1) return true;
    if (!(all = calloc(ranks, sizeof mine))) return gq_fail_memory(e, ranks * sizeof mine);
    bool ok = comm_exchange(comm, mine, all, FIGURES, e);
    sums->codes = sums->ends = 0;
    for (size_t k = 0; ok && k < ranks; k++) {
        sums->codes += all[k * FIGURES], sums->ends += all[k * FIGURES + 1];
        *numbers = *numbers && all[k * FIGURES + 2];
    }
    free(all);
    return ok;
}

/* Adds the errors of all spans, in their order. */
static bool add_errors(const rows *r, output_errors *sums, gq_error *e) {
    gq_comm *comm = r->task->comm;
    for (int k = 0; r->begins && k <= gq_comm_ranks(comm); k++)
        r->begins[k] = comm_share(comm, r->n_spans, k) * r->pieces * sizeof *r->errors;
    if (r->begins && r->pieces && !comm_gather(comm, r->errors, r->begins, e)) return false;
    for (size_t i = 0; i < r->n_spans * r->pieces; i++) {
        sums->power += r->errors[i].power;
        for (round_way way = 0; way < ROUND_WAYS; way++) sums->error[way] += r->errors[i].error[way];
    }
    return true;
}

/* Rounds all rows one way, and writes them. errors: not NULL: goes all ways before it, too, and compares
 * them. *numbers: whether the blocks decode to finite numbers, which search's always do. */
static bool round_rows(rows *r, round_way way, calibrate_figures *sums, output_errors *errors, bool *numbers,
                       gq_error *e) {
    calibrate_figures own = {0};
    *numbers = true;
    for (size_t step = 0; step < r->steps; step++) {
        if (!round_ask(r->task, e) || !rows_read(r, step, e)) return false;
        if (errors || way == WAY_SEARCHED) search_rows(r);
        if (way != WAY_SEARCHED) calibrate_rows(r, way, &own);
        if ((errors && !compare_rows(r, way, e)) || !write_rows(r, step, r->blocks[way], e)) return false;
        if (way != WAY_SEARCHED) *numbers = *numbers && decodes_to_numbers(r, r->blocks[way]);
    }
    if (!share_figures(r, &own, numbers, e)) return false;
    sums->codes += own.codes, sums->ends += own.ends;
    return !errors || add_errors(r, errors, e);
}

/* Returns the way with the least error on held-back tokens; of equal ones, the first. */
static round_way best_way(const rows *r, const output_errors *errors) {
    round_way best = r->last;
    if (r->task->inputs.held == 0) return best;
    for (round_way way = r->last; way-- > 0;)
        if (!(errors->error[best] < errors->error[way])) best = way;
    return best;
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

/* Goes all ways that are possible, and again the best one where that is not the last. *errors: of all.
 * Returns what was written in *way. */
static bool round_best(rows *r, calibrate_figures *sums, output_errors *errors, round_way *way, gq_error *e) {
    calibrate_figures again = {0}; /* not to be counted twice */
    bool numbers;
    if (!round_rows(r, r->last, sums, errors, &numbers, e)) return false;
    *way = best_way(r, errors);
    if (*way == r->last && numbers) return true;
    if (*way == r->last) *way = WAY_SEARCHED;
    if (!round_rows(r, *way, &again, NULL, &numbers, e)) return false;
    if (numbers) return true;
    *way = WAY_SEARCHED;
    return round_rows(r, *way, &again, NULL, &numbers, e);
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
static void count_steps(const rows *r, const output_errors *errors, round_way way, calibrate_figures *sums) {
    const round_inputs *in = &r->task->inputs;
    bool kept = way != WAY_SEARCHED, damps = calibration_does(r->task->of->settings, STEP_DAMPING);
    if (model_scales_has(r->task->of->file->scales, r->tensor)) count_step(sums, STEP_BALANCE, true);
    if (in->is_embedding) count_step(sums, STEP_EMBEDDING, kept);
    if (in->is_embedding) count_errors(sums, STEP_EMBEDDING, errors, WAY_SEARCHED, way);
    if (damps && !in->is_embedding) count_step(sums, STEP_DAMPING, kept);
    if (in->is_state) count_step(sums, STEP_STATE, kept);
    if (r->last != WAY_SEARCHED && r->task->of->settings->trials) count_step(sums, STEP_TRIALS, kept);
    if (r->metrics->n) count_step(sums, STEP_ROWS, kept);
    if (r->last != WAY_SWEPT) return;
    count_step(sums, STEP_SWEEPS, way == WAY_SWEPT);
    count_errors(sums, STEP_SWEEPS, errors, WAY_PASS, WAY_SWEPT);
}

void figures_add(calibrate_figures *to, const calibrate_figures *of) {
    to->tokens = to->matrices ? smaller(to->tokens, of->tokens) : of->tokens;
    to->width = of->width;
    if (of->damp > to->damp) to->damp = of->damp;
    to->matrices += of->matrices, to->plain += of->plain, to->unchecked += of->unchecked;
    to->power += of->power, to->searched += of->searched, to->written += of->written;
    to->codes += of->codes, to->ends += of->ends;
    for (calibrate_step i = 0; i < CALIBRATE_STEPS; i++) {
        calibrate_step_figures *step = &to->steps[i];
        const calibrate_step_figures *more = &of->steps[i];
        step->matrices += more->matrices, step->kept += more->kept, step->compared += more->compared;
        step->without += more->without, step->with += more->with;
    }
}

bool round_matrix(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e) {
    const moments_factored *f = t->inputs.factored;
    round_reason reason = reason_for_search(t);
    output_errors errors = {0};
    round_way way = WAY_SEARCHED;
    rows r;
    if (!rows_new(&r, t, reason == ROUND_CALIBRATED, e)) return false;
    bool ok = round_best(&r, sums, &errors, &way, e);
    if (reason == ROUND_CALIBRATED && way == WAY_SEARCHED) reason = ROUND_WORSE;
    if (ok) count_steps(&r, &errors, way, sums);
    rows_free(&r);
    sums->matrices++, sums->plain += reason != ROUND_CALIBRATED, sums->unchecked += t->inputs.held == 0;
    sums->power += errors.power, sums->searched += errors.error[WAY_SEARCHED];
    sums->written += errors.error[way];
    sums->tokens = f->tokens, sums->damp = f->damp;
    if (*why == ROUND_CALIBRATED) *why = reason;
    return ok;
}
