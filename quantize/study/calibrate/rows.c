#include "quantize/study/calibrate/rows.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/memory.h"
#include "codec/feedback.h"
#include "model/facts.h"
#include "quantize/strips/strip.h"

/* The spans of the rank that has most. A chain's rows have to be in memory together, so with metrics all are.
 */
static size_t spans_at_once(size_t spans, size_t ranks) {
    return min(ceil_div(spans, ranks), CALIBRATION_ROWS / SPAN_ROWS);
}
static size_t rows_at_once(size_t n, const layer_metrics *m, size_t ranks) {
    return m->n ? n : min(spans_at_once(ceil_div(n, SPAN_ROWS), ranks) * SPAN_ROWS, n);
}

static void lay_out_shares(matrix_rows *r, size_t ranks) {
    r->n_spans = r->metrics->n ? chains_spans(r->metrics, r->n_rows) : ceil_div(r->n_rows, SPAN_ROWS);
    r->step_spans = r->metrics->n ? r->n_spans : spans_at_once(r->n_spans, ranks);
    r->steps = ceil_div(ceil_div(r->n_spans, ranks), r->step_spans);
}

/* Allocates or counts memory for the rows as stored, decoded and rounded both ways, and for the threads'
 * scratch. */
static void lay_out_rows(matrix_rows *r, size_t threads, size_t ranks, memory_ledger *l) {
    uint64_t n = mul_sat(r->most, r->columns), from = mul_sat(r->most, gguf_row_bytes(r->from, r->columns)),
             to = mul_sat(r->most, gguf_row_bytes(r->to, r->columns));
    /* Of any type: the count depends on no processor. */
    r->scratch_bytes = round_up(feedback_most_bytes(r->columns, r->arithmetic), 64);
    r->raw = memory_take(l, 1, from), r->x = memory_take(l, n, sizeof *r->x);
    for (round_way way = 0; way <= r->last; way++) r->blocks[way] = memory_take(l, 1, to);
    r->scratches = memory_take(l, threads, r->scratch_bytes);
    if (r->metrics->n && r->last != WAY_SEARCHED)
        chains_lay_out(&r->chains, r->metrics, r->most, r->columns, l);
    if (ranks == 1) return;
    r->own = memory_take(l, r->metrics->n ? 1 : r->steps, to);
    r->gathered = memory_take(l, r->metrics->n ? 1 : ranks, to);
    r->begins = memory_take(l, ranks + 1, sizeof *r->begins);
}

void rows_free(matrix_rows *r) {
    for (round_way way = 0; way < ROUND_WAYS; way++) free(r->blocks[way]);
    free(r->raw), free(r->x), free(r->scratches);
    free(r->errors), free(r->own), free(r->gathered), free(r->begins);
    chains_free(&r->chains);
}

uint64_t rows_bytes(const calibration_settings *s, const model_tensor *tensor, const layer_metrics *metrics,
                    const tensor_type *to, int threads, int ranks) {
    memory_ledger l = {.counts = true};
    matrix_rows r = {.from = tensor->type,
                     .to = to,
                     .columns = tensor->ne[0],
                     .n_rows = tensor->ne[1],
                     .most = rows_at_once(tensor->ne[1], metrics, (size_t)ranks),
                     .last = WAY_SWEPT,
                     .arithmetic = calibration_arithmetic(s),
                     .metrics = metrics};
    lay_out_shares(&r, (size_t)ranks);
    uint64_t largest = 0;
    for (size_t i = 0; i < metrics->n; i++) largest = max(largest, metrics->of[i].group.rows);
    if (r.columns > UINT32_MAX) return UINT64_MAX;
    lay_out_rows(&r, (size_t)threads, (size_t)ranks, &l);
    return add_sat(l.bytes, output_bytes(largest));
}

/* The turn of a matrix: those of one role are shared out again in each layer. */
static uint64_t round_turn(const model_tensor *t, size_t output, uint64_t matrix) {
    model_block b;
    return (model_block_in(t->name, &b) ? b.number : 0) + output + matrix;
}

size_t rows_spans_begin(const matrix_rows *r, int rank) {
    return comm_share_in_turn(r->task->comm, r->n_spans, r->turn, rank);
}

bool rows_new(matrix_rows *r, const round_task *t, bool calibrated, gq_error *e) {
    static const layer_metrics no_metrics;
    const calibrate_job *of = t->of;
    const model_tensor *tensor = of->tensors[t->tensor];
    memory_ledger l = {.failed = false};
    *r = (matrix_rows){.task = t,
                       .tensor = tensor,
                       .from = tensor->type,
                       .to = tensor_type_of(of->outputs[t->output][t->tensor].to),
                       .columns = tensor->ne[0],
                       .last = !calibrated            ? WAY_SEARCHED
                               : of->settings->sweeps ? WAY_SWEPT
                                                      : WAY_PASS,
                       .arithmetic = calibration_arithmetic(of->settings),
                       .pool = matmul_pool(t->products),
                       .metrics = calibrated ? &t->inputs.metrics : &no_metrics};
    int threads = threads_pool_most(r->pool), rank = gq_comm_rank(t->comm);
    size_t ranks = (size_t)gq_comm_ranks(t->comm);
    r->n_rows = t->rows && !r->metrics->n ? min(t->rows, tensor->ne[1]) : tensor->ne[1];
    r->most = rows_at_once(r->n_rows, r->metrics, ranks), r->turn = round_turn(tensor, t->output, t->matrix);
    lay_out_shares(r, ranks);
    r->share = rows_spans_begin(r, rank), r->share_end = rows_spans_begin(r, rank + 1);
    lay_out_rows(r, (size_t)threads, ranks, &l);
    r->errors = memory_take_zeros(&l, r->n_spans, sizeof *r->errors);
    if (!memory_had(&l, e)) return rows_free(r), false;
    if (r->metrics->n)
        chains_fill(&r->chains, r->metrics, r->most, r->columns, of->kernels, threads, r->share,
                    r->share_end);
    return true;
}

/* ---- rows ---- */

static uint64_t rows_first_element(const matrix_rows *r, uint64_t row) {
    return (r->task->matrix * r->tensor->ne[1] + row) * r->columns;
}

chain_span rows_span(const matrix_rows *r, size_t i) {
    uint64_t first = i * SPAN_ROWS, left = r->n_rows - first;
    return r->metrics->n ? r->chains.spans[i] : (chain_span){first, min(left, SPAN_ROWS), NULL};
}

size_t rows_step_spans(const matrix_rows *r, size_t step, int rank, size_t *end) {
    size_t begin = rows_spans_begin(r, rank);
    *end = rows_spans_begin(r, rank + 1);
    begin = min(begin + step * r->step_spans, *end);
    *end = min(begin + r->step_spans, *end);
    return begin;
}

chain_span rows_together_from(const matrix_rows *r, size_t i, size_t end, size_t *next) {
    chain_span s = rows_span(r, i);
    *next = i + 1;
    if (r->metrics->n) return s;
    *next = end;
    s.rows = min(end * SPAN_ROWS, r->n_rows) - s.first;
    return s;
}

size_t rows_place(const matrix_rows *r, const chain_span *s) { return s->first - r->first; }

size_t rows_of_spans(const matrix_rows *r, size_t begin, size_t end) {
    size_t n = 0;
    for (size_t i = begin, next; i < end; i = next) n += rows_together_from(r, i, end, &next).rows;
    return n;
}

size_t rows_count(const matrix_rows *r) { return rows_of_spans(r, r->span, r->span_end); }

static bool span_read(const matrix_rows *r, const chain_span *s, gq_error *e) {
    const calibrate_job *of = r->task->of;
    strip_encoder with = {.kernels = of->kernels, .type = r->to};
    uint64_t element = rows_first_element(r, s->first);
    size_t n = s->rows * r->columns, row = rows_place(r, s);
    float *x = r->x + row * r->columns;
    if (!strip_read_decoded(of->kernels, of->file, r->tensor, element, n,
                            r->raw + row * gguf_row_bytes(r->from, r->columns), x, e))
        return false;
    size_t beyond = strip_beyond(&with, x, n);
    return beyond == n || strip_fail_to_hold(&with, of->file, r->tensor, element + beyond, x[beyond], e);
}

bool rows_read(matrix_rows *r, size_t step, gq_error *e) {
    r->span = rows_step_spans(r, step, gq_comm_rank(r->task->comm), &r->span_end);
    r->first = r->metrics->n || r->span == r->span_end ? 0 : rows_span(r, r->span).first;
    for (size_t i = r->span, next; i < r->span_end; i = next) {
        chain_span s = rows_together_from(r, i, r->span_end, &next);
        if (!span_read(r, &s, e)) return false;
    }
    return true;
}
