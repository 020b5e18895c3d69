/* The work and the time of a calibrated run. Work is counted in six kinds: running the model, metrics of
 * rows, moments, their roots, rounding, and comparing on held-back tokens. Rates of the first two are
 * measured on layers of the model itself (quantize/sweep/forecast.h), the others on matrices of made-up
 * numbers (calibration_rates.h). Time is the sum over the plan's tensors of work times rate.
 *
 * The step `random` takes no time, as it only exchanges tokens, and `balance` is done while planning.
 */
#include "quantize/plan/calibration_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "graph/router_rows.h"
#include "mixes/harm.h"
#include "mixes/names.h"
#include "quantize/calibrate/embedding_trial.h"
#include "quantize/calibrate/metric.h"
#include "quantize/calibrate/site.h"
#include "quantize/plan/calibration_memory.h"
#include "quantize/plan/calibration_rates.h"
#include "quantize/strips/speeds.h"
#include "quantize/sweep/forecast.h"

/* ---- work ---- */

/* Floating-point operations: PRODUCT per token and weight, one per token and pair of columns for H, which is
 * symmetric, PRODUCT for D or P, and the others of rounding per weight and column. */
enum { CHOICES = 3, PRODUCT = 2, TARGET = PRODUCT + 1, PASS = 1, SWEEP = PRODUCT };

/* The work that one tensor adds. */
typedef struct tensor_work {
    double met;     /* weights that a token meets when the model is run */
    double looked;  /* of these, those that are run once more to gather the inputs of a site behind them */
    double again;   /* run more than once though all their inputs are kept, times as often */
    double copied;  /* values that a token brings to their site */
    double moments; /* operations for a token; 0: another tensor has them */
    double roots;   /* matrices times columns times width squared, of these moments */
    double weights, width; /* rounded, and the columns that each of them meets */
    double target;         /* operations per weight and column to find what it should become */
} tensor_work;

/* Returns the tokens that meet a layer's weights, in all loops of the model. */
static double calibration_tokens(const plan_calibration *c) {
    return (double)(c->job.windows * c->job.context * forward_job_loops(&c->job));
}

/* Returns the share of the tokens that a look of one batch has. */
static double last_look(const plan_calibration *c) {
    double batch = (double)(c->bounds.batch * c->job.context);
    return fmin(1, batch / calibration_tokens(c));
}

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
    double looks = 1;                                          /* at its site, of some experts each */
    if (mix_is_experts(t->name))
        looks = (double)parts(shape_matrices(t->ne), c->matrices_at_once * (uint64_t)c->ranks);
    if (before || is_state) w.looked = w.met * looks;
    /* A part's last matrix: by both streams in the looks at the state behind it, of some experts each, and by
     * the look of a batch that finds no site left. */
    if (forward_adds(c->model, t) != 0) w.again = w.met * ((is_state ? 2 * looks : 0) + last_look(c));
    /* Its choice is looked at three times, and its rows are fitted by a root. */
    bool is_router = forward_is_router(c->model, t);
    if (is_router) w.again = CHOICES * w.met;
    w.target = is_state ? 1 : TARGET;
    if (before && !strcmp(own, outlet)) return w;
    if (before) memcpy(outlet, own, OUTLET);
    w.roots = (matrices * columns + (is_router ? (double)t->ne[1] : 0)) * w.width * w.width;
    if (!forward_feeds(c->model, t)) return w; /* the embedding, whose inputs are a few rows of routers */
    w.copied = share * matrices * columns;
    w.moments = share * matrices * columns * (w.width + PRODUCT * (is_state ? (double)t->ne[1] : w.width));
    return w;
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

/* ---- tensors ---- */

/* Held-back tokens that each matrix of a tensor is checked with. */
static double tokens_held(const gq_plan *plan, const plan_calibration *c, const model_tensor *t) {
    uint64_t used;
    double share = calibration_share_met(plan, t, &used),
           all = (double)calibration_held_most(&c->settings, false);
    bool routed = mix_is_experts(t->name) && shape_matrices(t->ne) > 1;
    if (!forward_feeds(c->model, t)) return (double)smaller((uint64_t)all, EXPERT_HELD_TOKENS);
    return routed ? fmin(share * all, (double)c->settings.expert_held) : all;
}

/* Whether too few tokens reach a tensor's matrices to round them without a check: ROUND_UNCHECKED. */
static bool is_searched(const gq_plan *plan, const plan_calibration *c, const model_tensor *t) {
    uint64_t used;
    double tokens = calibration_share_met(plan, t, &used) * calibration_tokens(c);
    return forward_feeds(c->model, t) && !c->settings.held_every && tokens < (double)t->ne[0];
}

/* Times that the inputs of a site are copied: captured, kept and recalled in both streams. Those of experts
 * are also put side by side and checked in both streams, and what they are made of is computed, in each look.
 */
enum { COPIES = 6, LOOK_COPIES = 5 };

/* Returns the looks at a tensor's site for some of its experts each; 0: it has none. */
static double looks_at_experts(const gq_plan *plan, const plan_calibration *c, size_t i) {
    const model_tensor *t = plan->sources[i].tensor;
    uint64_t n = shape_matrices(t->ne);
    return mix_is_experts(t->name) && n > 1 ? (double)parts(n, c->matrices_at_once * (uint64_t)c->ranks) : 0;
}

/* The rates of a usual processor, of which only ratios matter, for a plan without a forecast: those of one
 * thread at the level AVX-512, measured with model A of bench/results/small-models.md. */
static const double USUAL_MIXERS = .4, USUAL_COPY = 1e-9;
static const inputs_seconds usual_inputs = {.moments = 1.2e-11, .roots = 1e-11};
static rounding_seconds usual_rounding(const gq_plan *plan, const gq_tensor *t) {
    static const double FEEDBACK = 8e-8, CHECK = 6e-11, PER_COLUMN = 2e-11;
    if (t->to == t->from || !gguf_type_of(t->to)->quantized) return (rounding_seconds){0};
    return (rounding_seconds){.search = speed_encode(t->to, plan->settings.effort),
                              .feedback = FEEDBACK + PER_COLUMN * (double)t->ne[0],
                              .check = CHECK};
}

/* Returns what a tensor takes besides the model's run. */
static calibrate_cost tensor_cost(const calibration_rates *r, const gq_plan *plan, const plan_calibration *c,
                                  size_t output, size_t i, const tensor_work *w) {
    rounding_seconds rounding = r ? calibration_rates_rounding(r, output, i)
                                  : usual_rounding(plan, &plan->outputs[output].tensors[i]);
    double weights = (double)shape_elements(plan->outputs[output].tensors[i].ne);
    calibrate_cost cost = {.search = weights * rounding.search};
    if (!plan->outputs[output].tensors[i].calibrated) return cost;
    inputs_seconds inputs = r ? calibration_rates_inputs(r, plan->sources[i].tensor) : usual_inputs;
    double copies = COPIES + LOOK_COPIES * looks_at_experts(plan, c, i);
    cost.moments =
        (w->moments * inputs.moments + copies * w->copied * (r ? calibration_rates_copy(r) : USUAL_COPY)) *
        calibration_tokens(c);
    cost.root = w->roots * inputs.roots;
    if (!is_searched(plan, c, plan->sources[i].tensor)) cost.feedback = weights * rounding.feedback;
    cost.checks = weights * rounding.check * tokens_held(plan, c, plan->sources[i].tensor);
    return cost;
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

/* Returns the products of looks of an output, in passes of all layers' weights and all tokens: those that
 * gather inputs, and a look of one batch that finds that no site is left. */
static double looks_of_output(const gq_plan *plan, const plan_calibration *c, size_t o, double mixers) {
    return passes_of_looks(plan, c, o, mixers) + (1 - c->keeps_share) * last_look(c);
}

/* Returns the windows that metrics of rows are made of; 0: none are. */
static double metric_windows(const plan_calibration *c) {
    if (!calibration_does(&c->settings, STEP_ROWS)) return 0;
    uint64_t held = calibration_held_most(&c->settings, false) / (c->job.context * c->job.loops);
    return (double)smaller(METRIC_WINDOWS, c->job.windows - held);
}

/* ---- costs ---- */

/* Fills the costs of an output's tensors. looks: the seconds of all its looks. */
static void cost_output(const calibration_rates *r, const gq_plan *plan, const plan_calibration *c, size_t o,
                        double looks, calibrate_costs *to) {
    calibrate_cost *costs = to->tensors + o * plan->n_tensors;
    char outlet[128] = "";
    double again = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &plan->outputs[o].tensors[i];
        tensor_work w = {0};
        if (t->calibrated) w = work_of_tensor(plan, c, i, outlet);
        costs[i] = tensor_cost(r, plan, c, o, i, &w);
        if (t->calibrated) again += costs[i].look = work_of_looks(c, &w);
    }
    for (size_t i = 0; again > 0 && i < plan->n_tensors; i++) costs[i].look *= looks / again;
}

static double cost_sum(const calibrate_cost *c) {
    return c->look + c->moments + c->root + calibrate_cost_rounding(c);
}

/* Adds an output's costs to the steps that they belong to. In models that run their blocks several times
 * these are of the last loop. */
static void cost_add_output(const gq_plan *plan, const plan_calibration *c, size_t o, calibrate_costs *to) {
    size_t blocks = forward_model_sizes(c->model)->blocks, loops = forward_job_loops(&c->job);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        double seconds = cost_sum(&to->tensors[o * plan->n_tensors + i]);
        const model_tensor *t = plan->sources[i].tensor;
        int64_t block = model_block_number(t->name);
        size_t step = c->facts.layers;
        if (!plan->outputs[o].tensors[i].calibrated)
            to->plain += seconds;
        else if (t == forward_model_sizes(c->model)->embedding)
            to->embedding += seconds;
        else if (block < 0)
            to->ends[step] += seconds;
        for (step = 0; block >= 0 && plan->outputs[o].tensors[i].calibrated && step < c->facts.layers; step++)
            if ((c->numbers ? c->numbers[step] : step) == (uint64_t)block + (loops - 1) * blocks)
                to->ends[step] += seconds;
    }
}

/* Adds trials of an output's embedding, of so many seconds. */
static void cost_add_trials(const gq_plan *plan, const plan_calibration *c, size_t o, double seconds,
                            calibrate_costs *to) {
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (plan->outputs[o].tensors[i].calibrated && calibration_tries(c, plan->sources[i].tensor))
            to->embedding += seconds;
}

static bool is_calibrated(const gq_plan *plan, size_t output) {
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (plan->outputs[output].tensors[i].calibrated) return true;
    return false;
}

/* Makes of the seconds of all steps those until their ends. */
static void cost_add_steps(const gq_plan *plan, const plan_calibration *c, calibrate_costs *to) {
    double until = to->ahead + to->embedding;
    size_t streams = 1;
    for (size_t o = 0; o < plan->n_outputs; o++) streams += is_calibrated(plan, o);
    for (size_t step = 0; step < to->n_steps; step++) {
        if (step < c->facts.layers) until += (double)streams * to->pass + to->read + to->metrics;
        to->ends[step] = until += to->ends[step];
    }
}

/* Computes all costs. pace: of running the model. */
static bool cost_all(const calibration_rates *r, const gq_plan *plan, const plan_calibration *c,
                     const forecast_pace *pace, calibrate_costs *to) {
    double layers = (double)forward_model_sizes(c->model)->layers,
           kept = (double)c->facts.layers / layers, /* of the model's layers, with pruning */
        text = calibration_tokens(c) / (double)forward_job_loops(&c->job), all = kept * pace->token * text,
           windows = metric_windows(c),
           tried = (double)(forward_job_windows(&c->job, EMBEDDING_TRIAL_TOKENS) * c->job.context);
    calibrate_costs_free(to);
    to->n_steps = c->facts.layers + 1;
    to->tensors = calloc(plan->n_outputs * plan->n_tensors + 1, sizeof *to->tensors);
    to->ends = calloc(to->n_steps, sizeof *to->ends);
    if (!to->tensors || !to->ends) return calibrate_costs_free(to), false;
    to->pass = pace->token * text / layers, to->read = pace->read / layers;
    to->metrics = windows * (pace->scores + pace->token * pace->mixers * (double)c->job.context) / layers;
    if (calibration_runs_ahead(plan, c))
        to->ahead = kept * (pace->token * tokens_ahead(plan, c) + pace->read);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        cost_output(r, plan, c, o, all * looks_of_output(plan, c, o, pace->mixers), to);
        cost_add_output(plan, c, o, to);
        cost_add_trials(plan, c, o, kept * (pace->token * EMBEDDING_TRIAL_STREAMS * tried + pace->read), to);
    }
    cost_add_steps(plan, c, to);
    return true;
}

bool calibration_cost(const gq_plan *plan, plan_calibration *c, gq_error *e) {
    if (c->costs.tensors) return true;
    forecast_pace pace = {.token = weights_met(plan, c) * FORECAST_USUAL_PRODUCT, .mixers = USUAL_MIXERS};
    return cost_all(NULL, plan, c, &pace, &c->costs) ||
           gq_fail_memory(e, plan->n_outputs * plan->n_tensors * sizeof *c->costs.tensors);
}

double calibration_seconds_left(const plan_calibration *c) {
    const calibrate_costs *costs = &c->costs;
    size_t done = c->facts.layers_finished;
    return calibrate_costs_begin(costs, costs->n_steps) - (done ? calibrate_costs_begin(costs, done) : 0);
}

/* ---- time ---- */

/* The pace of a usual processor, from the operations of a job that sends tokens through a model. */
static forecast_pace usual_pace(const forecast_request *r) {
    const forecast_request layers = {.job = r->job, .models = r->models, .n_models = r->n_models};
    double tokens = (double)(r->job->windows * r->job->context), thread = FORECAST_USUAL_PRODUCT / PRODUCT,
           each = thread / threads_asked(r->job->threads), all = forecast_work(&layers);
    forecast_pace pace = {.token = each * all / tokens};
    if (r->scored) pace.scored = each * (forecast_work(r) - all) / (double)(r->scored * r->job->windows);
    return pace;
}

trials_forecast calibration_forecast_trials(const plan_calibration *c, size_t n, size_t windows,
                                            bool measures) {
    const forward_model *model = c->model;
    forward_job sample = c->job, trial = c->job;
    sample.windows = forward_job_windows(&c->job, SAMPLE_TOKENS), trial.windows = windows,
    trial.batch_tokens = 0, trial.memory = c->deciding_memory; /* as trials have it */
    const size_t scored = c->job.context - 1;
    forecast_request sampled = {.job = &sample, .models = &model, .n_models = 1},
                     tried = {.job = &trial, .models = &model, .n_models = 1, .scored = scored};
    tried.layer = forward_bounds_of(&trial, &model, 1, true).layer;
    forecast_pace pace;
    double streams = 1 + (double)n / 2; /* a trial begins at its layer, half of the layers on average */
    bool is_short = forecast_work(&sampled) + streams * forecast_work(&tried) < FORECAST_LEAST_WORK,
         measured = measures && !is_short && forecast_measure(&tried, &pace, NULL);
    if (!measured) pace = usual_pace(&tried);
    double kept = (double)c->facts.layers / (double)forward_model_sizes(model)->layers,
           context = (double)c->job.context, texts = (double)windows;
    trials_forecast found = {.sample = kept * (pace.read + pace.token * context * (double)sample.windows),
                             .layers = kept * (pace.read + streams * pace.token * context * texts),
                             .head = (1 + (double)n) * pace.scored * (double)scored * texts};
    if (measured) found.expected = found.sample + found.layers + found.head;
    if (measures && is_short) found.expected = FORECAST_LEAST_SECONDS;
    return found;
}

double calibration_forecast(const gq_plan *plan, plan_calibration *c, const gq_callbacks *callbacks) {
    const forward_model *model = c->model;
    forecast_request asked = {.job = &c->job,
                              .models = &model,
                              .n_models = 1,
                              .callbacks = callbacks,
                              .batch = c->bounds.batch,
                              .layer = c->bounds.layer,
                              .scores_every =
                                  metric_windows(c) > 0 ? layer_metrics_every(c->job.context) : 0};
    forecast_pace pace;
    if (calibration_work(plan, c) < FORECAST_LEAST_WORK) return FORECAST_LEAST_SECONDS;
    if (!(weights_met(plan, c) > 0)) return 0;
    calibration_rates *r = calibration_rates_measure(plan, c, callbacks);
    bool ok = r && forecast_measure(&asked, &pace, NULL) && cost_all(r, plan, c, &pace, &c->costs);
    calibration_rates_free(r);
    double left = 1 - (double)c->facts.layers_finished / (double)c->facts.layers;
    return ok ? calibration_seconds_left(c) + left * c->costs.plain : 0;
}
