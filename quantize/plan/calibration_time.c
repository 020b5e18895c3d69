/* The work and the time of a calibrated run. Work is counted in five kinds: products of weights and tokens,
 * moments, their roots, encoding by search, and error feedback. Each kind's rate is measured on matrices of
 * made-up numbers that are at most MADE_COLUMNS wide, and products on layers of the model itself
 * (quantize/sweep/forecast.h). Time is the sum over the plan's tensors of work times rate; what a wider
 * matrix takes follows from the number of operations.
 */
#include "quantize/plan/calibration_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "quantize/calibrate/site.h"
#include "quantize/plan/calibration_memory.h"
#include "quantize/sweep/forecast.h"

/* ---- work ---- */

/* Floating-point operations: PRODUCT per token and weight, one per token and pair of columns for H, which is
 * symmetric, PRODUCT for D or P, and the others of rounding per weight and column. */
enum { PRODUCT = 2, TARGET = PRODUCT + 1, PASS = 1, SWEEP = PRODUCT };

/* The work that one tensor adds. */
typedef struct tensor_work {
    double met;     /* weights that a token meets when the model is run */
    double looked;  /* of these, those that are run once more to gather the inputs of a site behind them */
    double again;   /* run once more by an output's stream even where all inputs are kept */
    double moments; /* operations for a token; 0: another tensor has them */
    double roots;   /* matrices times columns times width squared, of these moments */
    double weights, width; /* rounded, and the columns that each of them meets */
    double target;         /* operations per weight and column to find what it should become */
} tensor_work;

/* outlet: of the tensor before, 128 bytes; tensors with the same outlet share a site. */
static tensor_work work_of_tensor(const gq_plan *plan, const plan_calibration *c, size_t i, char *outlet) {
    enum { OUTLET = 128 };
    const model_tensor *t = plan->sources[i].tensor;
    uint64_t used;
    char own[OUTLET];
    double share = calibration_share_met(plan, t, &used), columns = (double)t->ne[0],
           matrices = (double)shape_matrices(t->ne);
    tensor_work w = {.weights = (double)shape_elements(t->ne),
                     .width = c->settings.width < t->ne[0] ? (double)c->settings.width : columns};
    bool before = mix_outlet(plan->sources[i].name, 0, own);
    /* The output matrix is not multiplied: only its inputs are needed. */
    if (t != forward_model_sizes(c->model)->out) w.met = share * w.weights;
    bool is_state = site_adds(&c->settings, c->model, t) != 0; /* it is run, and its target has rows */
    if (before || is_state) w.looked = w.met;
    if (is_state) w.again = w.met;
    w.target = is_state ? 1 : TARGET;
    if (before && !strcmp(own, outlet)) return w;
    if (before) memcpy(outlet, own, OUTLET);
    w.moments = share * matrices * columns * (w.width + PRODUCT * (is_state ? (double)t->ne[1] : w.width));
    w.roots = matrices * columns * w.width * w.width;
    return w;
}

/* Returns the tokens that meet a layer's weights, in all loops of the model. */
static double calibration_tokens(const plan_calibration *c) {
    return (double)(c->job.windows * c->job.context * forward_job_loops(&c->job));
}

/* Returns the weights that a token meets in all layers. */
static double weights_met(const gq_plan *plan, const plan_calibration *c) {
    double sum = 0;
    char outlet[128] = "";
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (forward_feeds(c->model, plan->sources[i].tensor)) sum += work_of_tensor(plan, c, i, outlet).met;
    return sum;
}

/* Returns the products that looks add to those of passes, of a weight that both streams of an output are run
 * through to gather the inputs behind it. What is kept is not multiplied again. */
static double work_of_looks(const plan_calibration *c, const tensor_work *w) {
    return c->keeps_share * w->again + (1 - c->keeps_share) * 2 * w->looked;
}

/* Returns the tokens that the original is run with ahead. */
static double tokens_ahead(const gq_plan *plan, const plan_calibration *c) {
    return calibration_runs_ahead(plan, c) ? (double)(c->ahead.windows * c->job.context) : 0;
}

/* Each stream passes all matrices. Before that both streams of an output are run up to each site to gather
 * its inputs. */
double calibration_work(const gq_plan *plan, const plan_calibration *c) {
    double tokens = calibration_tokens(c), met = weights_met(plan, c),
           sum = PRODUCT * met * (tokens + tokens_ahead(plan, c));
    for (size_t o = 0; o < plan->n_outputs; o++) {
        char outlet[128] = "";
        sum += PRODUCT * met * tokens;
        for (size_t i = 0; i < plan->n_tensors; i++) {
            if (!plan->outputs[o].tensors[i].calibrated) continue;
            tensor_work w = work_of_tensor(plan, c, i, outlet);
            sum += (PRODUCT * work_of_looks(c, &w) + w.moments) * tokens + w.roots / 3 +
                   w.weights * w.width * (w.target + PASS + (double)c->settings.sweeps * SWEEP);
        }
    }
    return sum;
}

/* ---- rates ---- */

enum {
    MADE_COLUMNS = 2048,
    MADE_TOKENS = MOMENTS_TOKENS,
    MOST_WIDTHS = 6,
    MOST_TYPES = 16,
};

/* Rates of moments of so many columns, in seconds. */
typedef struct width_rate {
    size_t columns;
    double moments; /* per operation */
    double roots;   /* per column cubed */
} width_rate;

/* Rates of rounding to a type, per weight. */
typedef struct type_rate {
    size_t columns;
    uint32_t type;
    double search, feedback;
} type_rate;

typedef struct rounding_rates {
    const gq_plan *plan;
    const plan_calibration *c;
    threads_pool *pool;
    width_rate widths[MOST_WIDTHS];
    type_rate types[MOST_TYPES];
    size_t n_widths, n_types;
} rounding_rates;

/* The columns of a sample that stands for so many: whole blocks of all types. */
static size_t sample_columns(double width) {
    return width > MADE_COLUMNS ? (size_t)MADE_COLUMNS : (size_t)width;
}

static void fill_with_numbers(float *x, size_t n) {
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * 0x1p-31f;
    }
}

typedef struct rounding_sample {
    const rounding_rates *r;
    const moments_factored *factored;
    uint32_t type;
    size_t columns, scratch_bytes, block_bytes; /* block_bytes: of FEEDBACK_ROWS rows */
    float *x;
    uint8_t *blocks, *scratches;
} rounding_sample;

static void round_by_feedback(void *data, size_t i, int thread) {
    const rounding_sample *s = data;
    feedback_sums sums = {0};
    feedback_task task = {.kernels = s->r->plan->kernels,
                          .type = s->type,
                          .effort = s->r->plan->settings.effort,
                          .sweeps = (int)s->r->c->settings.sweeps,
                          .trials = (int)s->r->c->settings.trials,
                          .moments = s->factored->runs,
                          .n_moments = s->factored->n_runs,
                          .columns = s->columns,
                          .scratch = s->scratches + s->scratch_bytes * (size_t)thread};
    codec_feedback(&task, s->x, FEEDBACK_ROWS, s->blocks + i * s->block_bytes, &sums);
}

static void round_by_search(void *data, size_t i, int thread) {
    const rounding_sample *s = data;
    codec_importance importance = {.column = s->x}; /* the squares below */
    (void)thread;
    s->r->plan->kernels->codecs[s->type].encode(s->x + s->columns, s->blocks + i * s->block_bytes,
                                                FEEDBACK_ROWS, s->columns, &importance,
                                                &s->r->plan->settings);
}

/* Rounds 64 rows for each thread, twice each way, and keeps the faster time. */
static bool rates_measure_type(rounding_rates *r, const moments_factored *f, size_t columns, uint32_t type,
                               type_rate *to) {
    size_t threads = (size_t)threads_pool_most(r->pool), rows = FEEDBACK_ROWS * threads;
    rounding_sample s = {.r = r, .factored = f, .type = type, .columns = columns};
    s.scratch_bytes = feedback_bytes(r->plan->kernels, type, columns);
    s.block_bytes = gguf_type_bytes(gguf_type_of(type), FEEDBACK_ROWS * columns);
    memory_ledger l = {.failed = false};
    s.x = memory_take(&l, (FEEDBACK_ROWS + 1) * columns, sizeof *s.x);
    s.blocks = memory_take(&l, threads, s.block_bytes);
    s.scratches = memory_take(&l, threads, s.scratch_bytes);
    bool ok = memory_had(&l, NULL);
    *to = (type_rate){columns, type, INFINITY, INFINITY};
    if (ok) fill_with_numbers(s.x, (FEEDBACK_ROWS + 1) * columns);
    for (size_t i = 0; ok && i < columns; i++) s.x[i] *= s.x[i];
    for (int turn = 0; ok && turn < 2; turn++) {
        double started = clock_seconds();
        threads_for(r->pool, threads, 1, round_by_search, &s);
        double searched = clock_seconds();
        threads_for(r->pool, threads, 1, round_by_feedback, &s);
        double n = (double)rows * (double)columns;
        to->search = fmin(to->search, (searched - started) / n);
        to->feedback = fmin(to->feedback, (clock_seconds() - searched) / n);
    }
    free(s.x), free(s.blocks), free(s.scratches);
    return ok;
}

/* Makes moments of made-up inputs and their root, f. *to: rates of the faster of this turn and those before.
 */
static bool rates_time_width(const rounding_rates *r, const moments_shape *shape, const float *x,
                             width_rate *to, moments_factored *f) {
    double n = (double)shape->columns;
    moments *m = moments_new(r->plan->kernels, *shape, r->pool, NULL);
    if (!m) return false;
    double made = clock_seconds();
    moments_add(m, x, MADE_TOKENS, x, MADE_TOKENS, MADE_TOKENS);
    moments_end_group(m);
    double added = clock_seconds();
    bool ok = moments_factor(m, calibration_moments_settings(&r->c->settings), f, NULL);
    to->moments = fmin(to->moments, (added - made) / ((1 + PRODUCT) * n * n * MADE_TOKENS));
    to->roots = fmin(to->roots, (clock_seconds() - added) / (n * n * n));
    moments_free(m);
    return ok;
}

/* Twice, as something else may have had the processor meanwhile; f: the root. */
static bool rates_measure_width(rounding_rates *r, size_t columns, width_rate *to, moments_factored *f) {
    moments_shape shape = {.columns = columns,
                           .width = columns,
                           .two_streams = true,
                           .arithmetic = calibration_arithmetic(&r->c->settings)};
    memory_ledger l = {.failed = false};
    float *x = memory_take(&l, columns * MADE_TOKENS, sizeof *x);
    bool ok = memory_had(&l, NULL);
    if (ok) fill_with_numbers(x, columns * MADE_TOKENS);
    *to = (width_rate){columns, INFINITY, INFINITY};
    for (int turn = 0; ok && turn < 2; turn++) {
        moments_factored_free(f);
        ok = rates_time_width(r, &shape, x, to, f);
    }
    free(x);
    return ok;
}

static const width_rate *rate_of_width(const rounding_rates *r, size_t columns) {
    for (size_t i = 0; i < r->n_widths; i++)
        if (r->widths[i].columns == columns) return &r->widths[i];
    return NULL;
}

static const type_rate *rate_of_type(const rounding_rates *r, size_t columns, uint32_t type) {
    for (size_t i = 0; i < r->n_types; i++)
        if (r->types[i].columns == columns && r->types[i].type == type) return &r->types[i];
    return NULL;
}

/* Whether a tensor is rounded to blocks. A router keeps its type: a calibration fits its values, which takes
 * next to nothing. */
static bool is_rounded(const gq_tensor *t) { return t->calibrated && gguf_type_of(t->to)->quantized; }

/* Measures all types that tensors of this width are rounded to. */
static bool rates_measure_types(rounding_rates *r, size_t columns, const moments_factored *f) {
    const gq_plan *plan = r->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = 0; i < plan->n_tensors; i++) {
            const gq_tensor *t = &plan->outputs[o].tensors[i];
            if (!is_rounded(t) || sample_columns((double)t->ne[0]) != columns ||
                rate_of_type(r, columns, t->to) || r->n_types == MOST_TYPES)
                continue;
            if (!rates_measure_type(r, f, columns, t->to, &r->types[r->n_types])) return false;
            r->n_types++;
        }
    return true;
}

static bool measure_rates(rounding_rates *r) {
    const gq_plan *plan = r->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = 0; i < plan->n_tensors; i++) {
            const gq_tensor *t = &plan->outputs[o].tensors[i];
            size_t columns = sample_columns((double)t->ne[0]);
            moments_factored f = {.tokens = 0};
            if (!t->calibrated || rate_of_width(r, columns) || r->n_widths == MOST_WIDTHS) continue;
            bool ok = rates_measure_width(r, columns, &r->widths[r->n_widths], &f) &&
                      rates_measure_types(r, columns, &f);
            moments_factored_free(&f);
            if (!ok) return false;
            r->n_widths++;
        }
    return true;
}

/* ---- time ---- */

/* Returns the seconds that rounding a tensor takes, products and the model's run aside. */
static double rounding_seconds(const rounding_rates *r, const tensor_work *w, const gq_tensor *t) {
    size_t columns = sample_columns((double)t->ne[0]);
    const width_rate *width = rate_of_width(r, columns);
    const type_rate *type = rate_of_type(r, columns, t->to);
    if (!width) width = &r->widths[0];
    if (!type) type = &r->types[0];
    double wider = fmax(1, w->width / (double)columns);
    double inputs = w->moments * width->moments * calibration_tokens(r->c) + w->roots * width->roots;
    return is_rounded(t) ? inputs + w->weights * (type->search + type->feedback * wider) : inputs;
}

/* Weights of layers' second parts, the feed-forward ones, and of their first, that a token meets. */
typedef struct parts_met {
    double mixers, ffn;
} parts_met;

static bool is_ffn(const gq_plan *plan, size_t i) { return strstr(plan->sources[i].name, ".ffn_"); }

static parts_met count_parts(const gq_plan *plan, const plan_calibration *c) {
    parts_met sum = {.ffn = 0};
    char outlet[128] = "";
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (forward_feeds(c->model, plan->sources[i].tensor))
            *(is_ffn(plan, i) ? &sum.ffn : &sum.mixers) += work_of_tensor(plan, c, i, outlet).met;
    return sum;
}

/* Returns the passes that looks of both streams add for an output: where nothing is kept, each stream's run
 * up to each site. The last site of a mixer is behind nearly all that the mixer does, which is more than
 * products of weights. */
static double passes_of_looks(const gq_plan *plan, const plan_calibration *c, size_t o, double mixers) {
    parts_met met = count_parts(plan, c), looked = {.ffn = 0};
    double again = 0;
    char outlet[128] = "";
    for (size_t i = 0; i < plan->n_tensors; i++) {
        if (!plan->outputs[o].tensors[i].calibrated) continue;
        tensor_work w = work_of_tensor(plan, c, i, outlet);
        *(is_ffn(plan, i) ? &looked.ffn : &looked.mixers) += w.looked;
        again += w.again;
    }
    double share = (looked.ffn + looked.mixers) / (met.ffn + met.mixers);
    if (mixers > 0 && met.ffn > 0)
        share = (looked.mixers > 0 ? mixers : 0) + (1 - mixers) * looked.ffn / met.ffn;
    return c->keeps_share * again / (met.ffn + met.mixers) + (1 - c->keeps_share) * 2 * share;
}

/* Returns the products of an output, in passes of all layers' weights and all tokens: its stream's; those
 * that gather inputs; a look of one batch that finds that no site is left; and products of
 * each matrix with the tokens held back: the original one, the searched, and the calibrated ones with sweeps
 * and without. */
static double passes_of_output(const gq_plan *plan, const plan_calibration *c, size_t o, double mixers) {
    double weights = 0, tokens = calibration_tokens(c),
           held = (double)calibration_held_most(&c->settings, false),
           batch = (double)(forward_job_batch(&c->job) * c->job.context);
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (plan->outputs[o].tensors[i].calibrated) weights += (double)plan->outputs[o].tensors[i].n_weights;
    return 1 + passes_of_looks(plan, c, o, mixers) + (1 - c->keeps_share) * batch / tokens +
           (c->settings.sweeps ? 4 : 3) * weights / weights_met(plan, c) * held / tokens;
}

double calibration_forecast(const gq_plan *plan, const plan_calibration *c) {
    const forward_model *model = c->model;
    forecast_request asked = {.job = &c->job, .models = &model, .n_models = 1};
    forecast_pace pace;
    rounding_rates r = {.plan = plan, .c = c};
    double met = weights_met(plan, c), passes = 1, reads = 1, seconds = 0, layers = (double)c->facts.layers,
           left = 1 - (double)c->facts.layers_finished / layers;
    if (calibration_work(plan, c) < FORECAST_LEAST_WORK) return FORECAST_LEAST_SECONDS;
    if (!(met > 0) || !(r.pool = threads_pool_new(c->job.threads))) return 0;
    bool ok = measure_rates(&r);
    threads_pool_free(r.pool);
    if (!ok || !r.n_types || !forecast_measure(&asked, &pace, NULL)) return 0;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        char outlet[128] = "";
        passes += passes_of_output(plan, c, o, pace.mixers);
        for (size_t i = 0; i < plan->n_tensors; i++) {
            const gq_tensor *t = &plan->outputs[o].tensors[i];
            if (!t->calibrated) continue;
            tensor_work w = work_of_tensor(plan, c, i, outlet);
            seconds += rounding_seconds(&r, &w, t);
        }
    }
    if (!c->facts.layers_finished && calibration_runs_ahead(plan, c))
        passes += tokens_ahead(plan, c) / calibration_tokens(c), reads++;
    double kept =
        layers / (double)forward_model_sizes(model)->layers; /* of the model's layers, with pruning */
    return left * (seconds + kept * (reads * pace.read + passes * pace.token * calibration_tokens(c) /
                                                             (double)forward_job_loops(&c->job)));
}
