/* Rates of the work on matrices. A kind of matrix is what its rounding depends on: width, type, whether rows
 * go in chains, and what its target is. Of each kind some rows are rounded by search and with feedback, as
 * quantize/calibrate/round.c does it, and compared on made-up tokens. Where the model's matrices are wider
 * than MADE_COLUMNS, half as many columns are tried, too: what the other half adds to a weight's time goes on
 * growing with the columns.
 */
#include "quantize/plan/calibration_rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "imatrix/factor.h"
#include "imatrix/output.h"
#include "mixes/mixes.h"
#include "quantize/calibrate/chains.h"
#include "quantize/calibrate/site.h"
#include "quantize/plan/calibration_memory.h"
#include "quantize/strips/share.h"

enum {
    MADE_COLUMNS = 2048,
    MADE_TOKENS = MOMENTS_TOKENS,
    MADE_CHECKED = 512, /* tokens that rows are compared on */
    CHAIN_STEPS = 2,    /* rows of a lane, at least */
    TURNS = 2,          /* the faster one counts: something else may have had the processor meanwhile */
    MOST_WIDTHS = 10,
    MOST_KINDS = 24, /* what is beyond counts as the first one */
};

typedef struct rounding_kind {
    size_t columns;
    uint32_t type;
    size_t heads, together; /* of a chain; 0: rows are independent */
    bool is_state;          /* its target is the state */
} rounding_kind;

typedef struct kind_rate {
    rounding_kind kind;
    rounding_seconds seconds;
    double wider; /* of feedback, for each column that a matrix has more */
} kind_rate;

/* Of matrices with so many columns, and so many tokens in a group of their moments. */
typedef struct width_rate {
    size_t columns, group;
    inputs_seconds seconds;
} width_rate;

struct calibration_rates {
    const gq_plan *plan;
    const plan_calibration *c;
    const gq_callbacks *callbacks;
    threads_pool *pool;
    matmul *products;
    width_rate widths[MOST_WIDTHS];
    kind_rate kinds[MOST_KINDS];
    size_t n_widths, n_kinds;
    double copy; /* of a value */
};

/* ---- kinds ---- */

/* The columns of a sample that stands for so many: whole blocks of all types. */
static size_t sample_columns(uint64_t columns) { return smaller(columns, MADE_COLUMNS); }

/* Finds the rows of a tensor that are rounded in chains, and how many go together. */
static void find_chain(const calibration_rates *r, const model_tensor *t, rounding_kind *to) {
    const plan_calibration *c = r->c;
    int64_t layer = model_block_number(t->name);
    forward_row_group groups[FORWARD_MOST_GROUPS];
    if (!calibration_does(&c->settings, STEP_ROWS) || layer < 0 ||
        (uint64_t)layer >= forward_model_sizes(c->model)->layers)
        return;
    size_t n = forward_row_groups(c->model, (size_t)layer, groups);
    for (size_t i = n; i-- > 0;)
        if (groups[i].weight == t)
            to->heads = chains_heads(&groups[i], r->plan->kernels, threads_pool_most(r->pool), &to->together);
}

static rounding_kind kind_of(const calibration_rates *r, size_t output, size_t tensor) {
    const gq_tensor *t = &r->plan->outputs[output].tensors[tensor];
    const model_tensor *source = r->plan->sources[tensor].tensor;
    rounding_kind k = {.columns = sample_columns(t->ne[0]),
                       .type = t->to,
                       .is_state = site_adds(&r->c->settings, r->c->model, source) != 0};
    find_chain(r, source, &k);
    return k;
}

static const kind_rate *rate_of_kind(const calibration_rates *r, const rounding_kind *k) {
    for (size_t i = 0; i < r->n_kinds; i++) {
        const rounding_kind *other = &r->kinds[i].kind;
        if (other->columns == k->columns && other->type == k->type && other->heads == k->heads &&
            other->together == k->together && other->is_state == k->is_state)
            return &r->kinds[i];
    }
    return NULL;
}

/* ---- rounding ---- */

/* Rows of a head that a sample's chain has. */
static size_t chain_length(const rounding_kind *k) {
    size_t lanes = k->heads * k->together;
    return lanes ? k->together * larger(CHAIN_STEPS, FEEDBACK_ROWS / lanes) : 0;
}

/* Made-up rows, inputs and blocks, and room to round them in. */
typedef struct rounding_sample {
    const calibration_rates *r;
    const moments_factored *factored;
    const rounding_kind *kind;
    feedback_moments moments;                       /* with `columns` columns */
    size_t columns;                                 /* at work */
    size_t rows;                                    /* of a thread */
    size_t scratch_bytes, block_bytes, rest_floats; /* of a thread */
    float *x, *squares, *tokens, *factors, *rest;
    uint8_t *raw, *blocks, *unswept, *scratches;
} rounding_sample;

static void fill_with_numbers(float *x, size_t n) {
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * 0x1p-31f;
    }
}

static bool sample_new(rounding_sample *s, const calibration_rates *r, const rounding_kind *k,
                       const moments_factored *f) {
    const gq_plan *plan = r->plan;
    size_t threads = (size_t)threads_pool_most(r->pool), length = chain_length(k);
    memory_ledger l = {.failed = false};
    *s = (rounding_sample){.r = r, .factored = f, .kind = k, .columns = k->columns};
    s->rows = k->heads ? k->heads * length : FEEDBACK_ROWS;
    s->scratch_bytes = round_up(
        feedback_bytes(plan->kernels, k->type, k->columns, calibration_arithmetic(&r->c->settings)), 64);
    s->block_bytes = s->rows * gguf_row_bytes(gguf_type_of(k->type), k->columns);
    s->rest_floats = k->heads * length * feedback_padded(k->columns);
    s->x = memory_take(&l, s->rows * k->columns, sizeof *s->x);
    s->squares = memory_take(&l, k->columns, sizeof *s->squares);
    s->tokens = memory_take(&l, k->columns * forward_stride(MADE_CHECKED), sizeof *s->tokens);
    s->factors = memory_take_zeros(&l, k->heads * length * length, sizeof *s->factors);
    s->rest = memory_take(&l, threads * s->rest_floats, sizeof *s->rest);
    s->raw = memory_take_zeros(&l, s->rows * k->columns, sizeof(float)); /* of any type that is no wider */
    s->blocks = memory_take(&l, threads, s->block_bytes);
    s->unswept = memory_take(&l, threads, s->block_bytes);
    s->scratches = memory_take(&l, threads, s->scratch_bytes);
    if (!memory_had(&l, NULL)) return false;
    fill_with_numbers(s->x, s->rows * k->columns);
    fill_with_numbers(s->tokens, k->columns * forward_stride(MADE_CHECKED));
    for (size_t i = 0; i < k->columns; i++) s->squares[i] = s->x[i] * s->x[i];
    /* With the state as target P stands in D's place; D's numbers do for it. */
    s->moments = *f->runs;
    if (k->is_state) s->moments.lacking = s->moments.difference, s->moments.difference = NULL;
    return true;
}

static void sample_free(rounding_sample *s) {
    free(s->x), free(s->squares), free(s->tokens), free(s->factors), free(s->rest);
    free(s->raw), free(s->blocks), free(s->unswept), free(s->scratches);
}

static void round_by_feedback(void *data, size_t i, int thread) {
    const rounding_sample *s = data;
    const calibration_settings *settings = &s->r->c->settings;
    const rounding_kind *k = s->kind;
    size_t length = chain_length(k);
    feedback_sums sums = {0};
    feedback_chain chain = {.heads = k->heads,
                            .length = length,
                            .together = k->together,
                            .step = length,
                            .factors = s->factors,
                            .rest = s->rest + s->rest_floats * (size_t)thread};
    feedback_task task = {.kernels = s->r->plan->kernels,
                          .type = k->type,
                          .effort = s->r->plan->settings.effort,
                          .sweeps = (int)settings->sweeps,
                          .trials = (int)settings->trials,
                          .unswept = settings->sweeps ? s->unswept + i * s->block_bytes : NULL,
                          .moments = &s->moments,
                          .n_moments = 1,
                          .columns = s->columns,
                          .scratch = s->scratches + s->scratch_bytes * (size_t)thread,
                          .matrix_rows = FEEDBACK_ROWS,
                          .chain = k->heads ? &chain : NULL};
    codec_feedback(&task, s->x, s->rows, s->blocks + i * s->block_bytes, &sums);
}

static void round_by_search(void *data, size_t i, int thread) {
    const rounding_sample *s = data;
    codec_importance importance = {.column = s->squares};
    (void)thread;
    s->r->plan->kernels->codecs[s->kind->type].encode(s->x, s->blocks + i * s->block_bytes, s->rows,
                                                      s->columns, &importance, &s->r->plan->settings);
}

/* Seconds per weight of a way of rounding. */
static double time_rounding(rounding_sample *s, size_t columns, threads_body *round) {
    size_t threads = (size_t)threads_pool_most(s->r->pool);
    double least = INFINITY;
    s->columns = s->moments.columns = columns;
    for (int turn = 0; turn < TURNS; turn++) {
        double started = clock_seconds();
        threads_for(s->r->pool, threads, 1, round, s);
        least = fmin(least, clock_seconds() - started);
    }
    return least / ((double)(threads * s->rows) * (double)columns);
}

/* Seconds per weight and token of comparing all ways with the original. */
static double time_checks(const rounding_sample *s, uint32_t from) {
    enum { MOST_WAYS = 3 };
    const rounding_kind *k = s->kind;
    const gguf_type *type = gguf_type_of(from), *to = gguf_type_of(k->type);
    if (type->quantized || gguf_row_bytes(type, k->columns) > k->columns * sizeof(float))
        type = gguf_type_of(GGUF_F16);
    size_t stride = forward_stride(MADE_CHECKED), ways = s->r->c->settings.sweeps ? MOST_WAYS : MOST_WAYS - 1;
    output_side original = {.weights = {s->raw, type->id, s->rows, k->columns},
                            .x = s->tokens,
                            .stride = stride},
                rounded[MOST_WAYS];
    for (size_t i = 0; i < ways; i++)
        rounded[i] = (output_side){
            .weights = {s->blocks, to->id, s->rows, k->columns}, .x = s->tokens, .stride = stride};
    double least = INFINITY;
    for (int turn = 0; turn < TURNS; turn++) {
        output_errors sums[CHAIN_STEPS * FEEDBACK_ROWS / OUTPUT_SPAN] = {{0}};
        double started = clock_seconds();
        if (!output_compare(s->r->products, &original, rounded, ways, MADE_CHECKED, sums, NULL)) return 0;
        least = fmin(least, clock_seconds() - started);
    }
    return least / ((double)(s->rows * k->columns) * MADE_CHECKED);
}

static bool measure_kind(calibration_rates *r, const rounding_kind *k, const model_tensor *source,
                         const moments_factored *f) {
    kind_rate *to = &r->kinds[r->n_kinds];
    rounding_sample s;
    share_tell_sample(r->callbacks);
    bool ok = sample_new(&s, r, k, f);
    *to = (kind_rate){.kind = *k};
    if (ok) {
        to->seconds.search = time_rounding(&s, k->columns, round_by_search);
        if (k->columns == MADE_COLUMNS) to->wider = time_rounding(&s, MADE_COLUMNS / 2, round_by_feedback);
        to->seconds.feedback = time_rounding(&s, k->columns, round_by_feedback);
        to->wider = k->columns == MADE_COLUMNS
                        ? fmax(0, to->seconds.feedback - to->wider) / ((double)MADE_COLUMNS / 2)
                        : 0;
        to->seconds.check = time_checks(&s, source->type->id);
        r->n_kinds++;
    }
    sample_free(&s);
    return ok;
}

/* ---- inputs ---- */

/* Makes moments of made-up inputs and their root, f. *to: seconds of the faster of this turn and those
 * before.
 */
static bool time_inputs(const calibration_rates *r, const moments_shape *shape, size_t group, const float *x,
                        float *squares, inputs_seconds *to, moments_factored *f) {
    double n = (double)shape->columns;
    moments *m = moments_new(r->plan->kernels, *shape, r->pool, NULL);
    if (!m) return false;
    double made = clock_seconds();
    for (size_t at = 0, some; at < MADE_TOKENS; at += some) {
        some = smaller(group, MADE_TOKENS - at);
        moments_add(m, x + at, MADE_TOKENS, x + at, MADE_TOKENS, some);
        moments_end_group(m);
    }
    moments_mean_squares(m, squares); /* adds what waits */
    double added = clock_seconds();
    bool ok = moments_factor(m, calibration_moments_settings(&r->c->settings), f, NULL);
    to->moments = fmin(to->moments, (added - made) / (3 * n * n * MADE_TOKENS)); /* H and D */
    to->roots = fmin(to->roots, (clock_seconds() - added) / (n * n * n));
    moments_free(m);
    return ok;
}

/* f: the root. */
static bool measure_inputs(calibration_rates *r, size_t columns, size_t group, moments_factored *f) {
    moments_shape shape = {.columns = columns,
                           .width = columns,
                           .two_streams = true,
                           .group_tokens = token_group_size(r->c->job.context),
                           .arithmetic = calibration_arithmetic(&r->c->settings)};
    memory_ledger l = {.failed = false};
    float *x = memory_take(&l, columns * MADE_TOKENS, sizeof *x),
          *squares = memory_take(&l, columns, sizeof *squares);
    bool ok = memory_had(&l, NULL);
    if (ok) fill_with_numbers(x, columns * MADE_TOKENS);
    width_rate *to = &r->widths[r->n_widths];
    *to = (width_rate){columns, group, {INFINITY, INFINITY}};
    for (int turn = 0; ok && turn < TURNS; turn++) {
        moments_factored_free(f);
        share_tell_sample(r->callbacks);
        ok = time_inputs(r, &shape, group, x, squares, &to->seconds, f);
    }
    r->n_widths += ok;
    free(x), free(squares);
    return ok;
}

/* Tokens of a group that reach a matrix of a tensor, on average. */
static size_t group_of(const calibration_rates *r, const model_tensor *t) {
    uint64_t used;
    double tokens = calibration_share_met(r->plan, t, &used) * (double)token_group_size(r->c->job.context);
    return tokens < 1 ? 1 : tokens < MADE_TOKENS ? (size_t)tokens : MADE_TOKENS;
}

static const width_rate *rate_of_width(const calibration_rates *r, size_t columns, size_t group) {
    for (size_t i = 0; i < r->n_widths; i++)
        if (r->widths[i].columns == columns && r->widths[i].group == group) return &r->widths[i];
    return NULL;
}

/* Copies numbers that fit into no cache of a core. */
static bool measure_copy(calibration_rates *r) {
    enum { VALUES = 1 << 22 };
    float *x = calloc(2 * VALUES, sizeof *x);
    r->copy = INFINITY;
    for (int turn = 0; x && turn <= TURNS; turn++) { /* the first one touches new memory */
        double started = clock_seconds();
        memcpy(x + turn % 2 * VALUES, x + (turn + 1) % 2 * VALUES, VALUES * sizeof *x);
        r->copy = fmin(r->copy, (clock_seconds() - started) / VALUES);
    }
    bool ok = x;
    free(x);
    return ok;
}

/* ---- all ---- */

/* Measures all kinds that have so many columns. */
static bool measure_kinds(calibration_rates *r, size_t columns, const moments_factored *f) {
    const gq_plan *plan = r->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = 0; i < plan->n_tensors; i++) {
            if (!calibration_rounds(&plan->outputs[o].tensors[i])) continue;
            rounding_kind k = kind_of(r, o, i);
            if (k.columns != columns || rate_of_kind(r, &k) || r->n_kinds == MOST_KINDS) continue;
            if (!f->n_runs || !measure_kind(r, &k, plan->sources[i].tensor, f)) return false;
        }
    return true;
}

static bool measure_all(calibration_rates *r) {
    const gq_plan *plan = r->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = 0; i < plan->n_tensors; i++) {
            const gq_tensor *t = &plan->outputs[o].tensors[i];
            size_t columns = sample_columns(t->ne[0]), group = group_of(r, plan->sources[i].tensor);
            moments_factored f = {.tokens = 0};
            if (!t->calibrated || rate_of_width(r, columns, group) || r->n_widths == MOST_WIDTHS) continue;
            bool ok = measure_inputs(r, columns, group, &f);
            if (ok && calibration_arithmetic(&r->c->settings) == MATMUL_BF16) moments_round(&f, r->pool);
            ok = ok && measure_kinds(r, columns, &f);
            moments_factored_free(&f);
            if (!ok) return false;
        }
    return r->n_kinds > 0 && measure_copy(r);
}

calibration_rates *calibration_rates_measure(const gq_plan *plan, const plan_calibration *c,
                                             const gq_callbacks *callbacks) {
    calibration_rates *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    *r = (calibration_rates){
        .plan = plan, .c = c, .callbacks = callbacks, .pool = threads_pool_new(c->job.threads)};
    r->products = r->pool ? matmul_new(plan->kernels, r->pool, NULL) : NULL;
    if (r->products) matmul_set_arithmetic(r->products, calibration_arithmetic(&c->settings));
    if (r->products && measure_all(r)) return r;
    calibration_rates_free(r);
    return NULL;
}

void calibration_rates_free(calibration_rates *r) {
    if (!r) return;
    matmul_free(r->products);
    threads_pool_free(r->pool);
    free(r);
}

/* The search of a tensor that is not calibrated. */
static double search_alone(const calibration_rates *r, const gq_tensor *t) {
    for (size_t i = 0; i < r->n_kinds; i++)
        if (r->kinds[i].kind.type == t->to) return r->kinds[i].seconds.search;
    return r->kinds[0].seconds.search;
}

rounding_seconds calibration_rates_rounding(const calibration_rates *r, size_t output, size_t tensor) {
    const gq_tensor *t = &r->plan->outputs[output].tensors[tensor];
    if (t->to == t->from || !gguf_type_of(t->to)->quantized) return (rounding_seconds){0};
    if (!t->calibrated) return (rounding_seconds){.search = search_alone(r, t)};
    rounding_kind k = kind_of(r, output, tensor);
    const kind_rate *rate = rate_of_kind(r, &k);
    if (!rate) rate = &r->kinds[0];
    rounding_seconds seconds = rate->seconds;
    double width = (double)smaller(t->ne[0], r->c->settings.width);
    seconds.feedback += rate->wider * fmax(0, width - (double)rate->kind.columns);
    return seconds;
}

inputs_seconds calibration_rates_inputs(const calibration_rates *r, const model_tensor *t) {
    const width_rate *width = rate_of_width(r, sample_columns(t->ne[0]), group_of(r, t));
    return width ? width->seconds : r->widths[0].seconds;
}

double calibration_rates_copy(const calibration_rates *r) { return r->copy; }
