/* The work and the time of a calibrated run. Work is counted in six kinds: running the model, metrics of
 * rows, moments, their roots, rounding, and comparing on held-back tokens. Rates of the first two are
 * measured on layers of the model itself (quantize/sweep/forecast.h), the others on matrices of made-up
 * numbers (calibration_rates.h). Time is the sum over the plan's tensors of work times rate.
 *
 * The step `random` takes no time, as it only exchanges tokens, and `balance` is done while planning.
 */
#include "quantize/plan/calibration_time.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "quantize/calibrate/metric.h"
#include "quantize/calibrate/site.h"
#include "quantize/plan/calibration_memory.h"
#include "quantize/plan/calibration_rates.h"
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
    if (before || is_state) w.looked = w.met;
    /* A part's last matrix: by both streams in the look at the state behind it, and by the look of a batch
     * that finds no site left. */
    if (forward_adds(c->model, t) != 0) w.again = w.met * ((is_state ? 2 : 0) + last_look(c));
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

/* ---- time ---- */

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

/* Returns the seconds that a tensor takes besides the model's run. */
static double tensor_seconds(const calibration_rates *r, const gq_plan *plan, const plan_calibration *c,
                             size_t output, size_t i, char *outlet) {
    const gq_tensor *t = &plan->outputs[output].tensors[i];
    rounding_seconds rounding = calibration_rates_rounding(r, output, i);
    double weights = (double)shape_elements(t->ne);
    if (!t->calibrated) return weights * rounding.search;
    tensor_work w = work_of_tensor(plan, c, i, outlet);
    inputs_seconds inputs = calibration_rates_inputs(r, plan->sources[i].tensor);
    double copies = COPIES + LOOK_COPIES * looks_at_experts(plan, c, i);
    if (is_searched(plan, c, plan->sources[i].tensor)) rounding.feedback = 0;
    return (w.moments * inputs.moments + copies * w.copied * calibration_rates_copy(r)) *
               calibration_tokens(c) +
           w.roots * inputs.roots +
           weights * (rounding.search + rounding.feedback +
                      rounding.check * tokens_held(plan, c, plan->sources[i].tensor));
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
 * that gather inputs; and a look of one batch that finds that no site is left. */
static double passes_of_output(const gq_plan *plan, const plan_calibration *c, size_t o, double mixers) {
    return 1 + passes_of_looks(plan, c, o, mixers) + (1 - c->keeps_share) * last_look(c);
}

/* Returns the windows that metrics of rows are made of; 0: none are. */
static double metric_windows(const plan_calibration *c) {
    if (!calibration_does(&c->settings, STEP_ROWS)) return 0;
    uint64_t held = calibration_held_most(&c->settings, false) / (c->job.context * c->job.loops);
    return (double)smaller(METRIC_WINDOWS, c->job.windows - held);
}

/* Returns the seconds that running the model takes, in all layers: passes, and looks for metrics. */
static double running_seconds(const plan_calibration *c, const forecast_pace *pace, double passes,
                              double reads) {
    double text = calibration_tokens(c) / (double)forward_job_loops(&c->job), windows = metric_windows(c);
    return reads * pace->read + passes * pace->token * text +
           windows * (pace->scores + pace->token * pace->mixers * (double)c->job.context);
}

trials_forecast calibration_forecast_trials(const plan_calibration *c, size_t n, size_t windows) {
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
    if (forecast_work(&sampled) + streams * forecast_work(&tried) < FORECAST_LEAST_WORK)
        return (trials_forecast){FORECAST_LEAST_SECONDS, FORECAST_LEAST_SECONDS};
    if (!forecast_measure(&tried, &pace, NULL)) return (trials_forecast){0, 0};
    double kept = (double)c->facts.layers / (double)forward_model_sizes(model)->layers,
           context = (double)c->job.context, texts = (double)windows;
    double trials = kept * (pace.read + streams * pace.token * context * texts) +
                    (1 + (double)n) * pace.scored * (double)scored * texts;
    return (trials_forecast){trials + kept * (pace.read + pace.token * context * (double)sample.windows),
                             trials};
}

double calibration_forecast(const gq_plan *plan, const plan_calibration *c) {
    const forward_model *model = c->model;
    forecast_request asked = {.job = &c->job,
                              .models = &model,
                              .n_models = 1,
                              .batch = c->bounds.batch,
                              .layer = c->bounds.layer,
                              .scores_every =
                                  metric_windows(c) > 0 ? layer_metrics_every(c->job.context) : 0};
    forecast_pace pace;
    double passes = 1, reads = 1, seconds = 0, layers = (double)c->facts.layers,
           left = 1 - (double)c->facts.layers_finished / layers;
    if (calibration_work(plan, c) < FORECAST_LEAST_WORK) return FORECAST_LEAST_SECONDS;
    if (!(weights_met(plan, c) > 0)) return 0;
    calibration_rates *r = calibration_rates_measure(plan, c);
    bool ok = r && forecast_measure(&asked, &pace, NULL);
    for (size_t o = 0; ok && o < plan->n_outputs; o++) {
        char outlet[128] = "";
        passes += passes_of_output(plan, c, o, pace.mixers);
        for (size_t i = 0; i < plan->n_tensors; i++) seconds += tensor_seconds(r, plan, c, o, i, outlet);
    }
    calibration_rates_free(r);
    if (!ok) return 0;
    if (!c->facts.layers_finished && calibration_runs_ahead(plan, c))
        passes += tokens_ahead(plan, c) / calibration_tokens(c), reads++;
    double kept =
        layers / (double)forward_model_sizes(model)->layers; /* of the model's layers, with pruning */
    return left * (seconds + kept * running_seconds(c, &pace, passes, reads));
}
