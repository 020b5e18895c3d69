/* Predicts what a calibration takes. It is timed, not modelled: a job like the real one, of a piece of the
 * text and of one layer of each kind, is handed to the calibrator, which says what each tensor took
 * (calibrate_timing). Seconds of the whole follow by ratios of things that are counted:
 *
 *     probes    tokens, and passes likewise; where decoding weights for a batch counts, what a token takes in
 *               batches as large as the run's and in the sample's (study/sweep/forecast.c)
 *     Hessians  tokens, matrices; columns considered together, which a sample has fewer of where they are many
 *     roots     matrices; those columns, squared
 *     rounding  weights; those columns, in part
 *     checks    weights; held-out tokens
 *
 * A tensor of a layer that was not timed takes what the one of the same role took, or of the same type.
 * Where nothing is timed operations are counted, for which a usual processor's speed stands. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/relay.h"
#include "forward/graph/experts/experts.h"
#include "quantize/strips/strips.h"
#include "study/calibrate/calibrate.h"

/* ---- sums ---- */
static bool is_tried(const calibration *j, size_t i) {
    return j->tensors[i] == forward_model_sizes(j->streams[0])->embedding &&
           embedding_is_tried(j->streams[0], j->numbers, j->n_layers, j->text.job.context);
}

/* The number of the layer, or of the block behind all layers, that has a tensor; -1: none. */
static int64_t layer_of(const calibration *j, size_t i) {
    size_t layer = forward_layer_of(j->streams[0], j->tensors[i]->name);
    return layer != SIZE_MAX ? (int64_t)layer : model_block_number(j->tensors[i]->name);
}

/* Adds an output's costs to the steps that they belong to. In models that run their blocks several times
 * these are of the last loop. */
static void costs_add_output(const calibration *j, size_t o, calibrate_costs *to) {
    const forward_sizes *sizes = forward_model_sizes(j->streams[0]);
    size_t first = (forward_job_loops(&j->text.job) - 1) * sizes->blocks;
    for (size_t i = 0; i < j->n_tensors; i++) {
        const calibrate_cost *c = &to->tensors[o * j->n_tensors + i];
        double seconds = c->gather + c->cholesky + c->round;
        int64_t block = layer_of(j, i);
        if (!operations_calibrated(j, o, i))
            to->plain += seconds;
        else if (j->tensors[i] == sizes->embedding)
            to->embedding += seconds;
        else if (block < 0 || (uint64_t)block >= sizes->blocks)
            to->ends[j->n_layers] += seconds;
        for (size_t step = 0; block >= 0 && operations_calibrated(j, o, i) && step < j->n_layers; step++)
            if ((j->numbers ? j->numbers[step] : step) == (uint64_t)block + first) to->ends[step] += seconds;
    }
}

/* Makes of the seconds of tensors, passes and trials of embeddings those until the ends of all steps. trial:
 * of one. */
static void costs_add_up(const calibration *j, double trial, calibrate_costs *to) {
    for (size_t o = 0; o < j->n_outputs; o++) {
        costs_add_output(j, o, to);
        for (size_t i = 0; i < j->n_tensors; i++)
            if (operations_calibrated(j, o, i) && is_tried(j, i)) to->embedding += trial;
    }
    double until = to->ahead + to->embedding, streams = operations_streams(j);
    windows_held held = calibration_held(&j->settings);
    if (calibration_does(&j->settings, CALIBRATE_VALIDATION))
        to->validation = (double)(j->n_outputs * VALIDATION_PASSES * j->n_layers * held.n) /
                         (double)max(j->text.all_windows, 1) * to->pass;
    for (size_t step = 0; step < to->n_steps; step++) {
        if (step < j->n_layers) until += streams * to->pass + to->metrics;
        to->ends[step] = until += to->ends[step];
    }
}

static bool costs_new(const calibration *j, calibrate_costs *to) {
    *to = (calibrate_costs){.n_steps = j->n_layers + 1};
    to->tensors = calloc(j->n_outputs * j->n_tensors + 1, sizeof *to->tensors);
    to->ends = calloc(to->n_steps, sizeof *to->ends);
    if (to->tensors && to->ends) return true;
    calibrate_costs_free(to);
    return false;
}

void calibrate_costs_free(calibrate_costs *c) {
    free(c->tensors), free(c->ends);
    *c = (calibrate_costs){.n_steps = 0};
}

/* The search of a tensor that is not calibrated. */
static double plain_seconds(const calibration *j, size_t output, size_t i) {
    const gq_tensor *t = &j->outputs[output][i];
    if (t->to == t->from || !tensor_type_of(t->to)->quantized) return 0;
    return (double)t->n_weights * speed_encode(t->to, j->encoding->effort) /
           threads_asked(j->text.job.threads);
}

/* Seconds of an operation of a usual thread at the level AVX-512, and of search and the steps of rounding for
 * a weight, measured with model A of docs/quality.md; only ratios matter. */
static const double USUAL_OPERATION = 1.2e-11, USUAL_ROUNDING = 8e-8, USUAL_CHECK = 6e-11;

void calibrate_costs_guess(const calibration *j, calibrate_costs *to) {
    double each = USUAL_OPERATION / threads_asked(j->text.job.threads), pass = 0;
    if (!costs_new(j, to)) return;
    for (size_t o = 0; o < j->n_outputs; o++)
        for (size_t i = 0; i < j->n_tensors; i++) {
            tensor_work w = operations_of(j, o, i);
            double of_weight = USUAL_ROUNDING + USUAL_CHECK * operations_held(j, i),
                   weights = (double)j->outputs[o][i].n_weights;
            to->tensors[o * j->n_tensors + i] =
                operations_calibrated(j, o, i)
                    ? (calibrate_cost){each * w.gather, each * w.cholesky,
                                       each * w.round +
                                           weights * of_weight / threads_asked(j->text.job.threads)}
                    : (calibrate_cost){.round = plain_seconds(j, o, i)};
            if (o == 0) pass += w.pass;
        }
    to->pass = each * pass / (double)(j->n_layers * forward_job_loops(&j->text.job));
    if (operations_run_ahead(j))
        to->ahead = each * pass * (double)(j->ahead.all_windows * j->text.job.context) / operations_tokens(j);
    costs_add_up(j, 0, to);
}

/* ---- the sample ---- */

enum {
    TIMED_LAYERS = 4,
    TIMED_MATRICES = 4,  /* experts of a layer that are rounded */
    TIMED_GROUPS = 2,    /* groups of rows for each thread */
    TIMED_WIDTH = 4096,  /* columns considered together, at most: roots grow with their cube */
    TIMED_TOKENS = 1024, /* of both streams; half of them are held out */
    TIMED_LEAST = 256,   /* of a large layer */
    TIMED_PASSES = 4,    /* through each weight: probes and passes of both streams */
};
static const double TIMED_WORK = 1e11; /* operations of a thread in these passes, about a second or two */

/* A weight's search and trials take as long as feeding its error to this many columns; decoding the weights that are
 * compared takes as long as multiplying them with this many tokens. */
static const double ROUNDING_COLUMNS = 4000, CHECK_TOKENS = 16;

typedef struct timed {
    const calibration *of;
    calibration job; /* the sample's */
    forward_job run;
    uint64_t layers[TIMED_LAYERS];
    size_t n_layers, n_kinds; /* layers of different kinds, then some for their types alone */
    gq_tensor *tensors;       /* output by output */
    const gq_tensor **outputs;
    calibrate_sample sample;
} timed;

static bool timed_write(void *data, size_t output, size_t tensor, uint64_t offset, const void *bytes,
                        size_t n, gq_error *e) {
    (void)data, (void)output, (void)tensor, (void)offset, (void)bytes, (void)n, (void)e;
    return true;
}

/* Whether a layer is one of those that are timed; *step: which. */
static bool is_timed(const timed *x, int64_t block, size_t *step) {
    for (*step = 0; *step < x->n_layers; ++*step)
        if (block >= 0 && x->layers[*step] == (uint64_t)block) return true;
    return false;
}

/* Whether a type is one of calibrated tensors in the first n of the timed layers. */
static bool is_type_timed(const timed *x, uint32_t type, size_t n) {
    size_t step;
    for (size_t o = 0; o < x->of->n_outputs; o++)
        for (size_t i = 0; i < x->of->n_tensors; i++)
            if (operations_calibrated(x->of, o, i) && x->of->outputs[o][i].to == type &&
                is_timed(x, layer_of(x->of, i), &step) && step < n)
                return true;
    return false;
}

/* Whether tensors of a type are timed in a timed layer: all are in the layers of different kinds. */
static bool timed_wants(const timed *x, size_t step, uint32_t type) {
    return step < x->n_kinds || !is_type_timed(x, type, x->n_kinds);
}

/* The layer of the timed ones that is like this one; n_layers: none is. */
static size_t timed_kind(const timed *x, size_t block) {
    size_t k = 0;
    while (k < x->n_layers && !forward_layers_alike(x->of->streams[0], x->layers[k], block)) k++;
    return k;
}

static size_t block_of(const calibration *j, size_t step) {
    return (j->numbers ? j->numbers[step] : step) % forward_model_sizes(j->streams[0])->blocks;
}

/* Chooses a layer of each kind, and then layers that have a type which none of these has. */
static void timed_choose_layers(timed *x) {
    const calibration *j = x->of;
    for (size_t step = 0; step < j->n_layers && x->n_layers < TIMED_LAYERS; step++)
        if (timed_kind(x, block_of(j, step)) == x->n_layers) x->layers[x->n_layers++] = block_of(j, step);
    x->n_kinds = x->n_layers;
    for (size_t o = 0; o < j->n_outputs; o++)
        for (size_t i = 0; i < j->n_tensors; i++) {
            int64_t block = layer_of(j, i);
            if (!operations_calibrated(j, o, i) || block < 0 ||
                (uint64_t)block >= forward_model_sizes(j->streams[0])->blocks ||
                is_type_timed(x, j->outputs[o][i].to, x->n_layers))
                continue;
            if (x->n_layers < TIMED_LAYERS) x->layers[x->n_layers++] = (uint64_t)block;
        }
}

/* Sets the text: windows of the job, or shorter ones, of which every other one is held out. */
static void timed_set_text(timed *x) {
    const calibration *j = x->of;
    const forward_sizes *sizes = forward_model_sizes(j->streams[0]);
    double weights = (double)sizes->layer_bytes / 2 / (double)forward_experts_spread(j->streams[0]),
           fit = TIMED_WORK * threads_asked(j->text.job.threads) /
                 (TIMED_PASSES * OPERATIONS_PRODUCT * weights);
    size_t tokens = fit > TIMED_TOKENS ? TIMED_TOKENS : max((size_t)fit, TIMED_LEAST);
    x->run = j->text.job, x->run.marks = NULL, x->run.masked = NULL;
    tokens = min(tokens, j->text.job.windows * j->text.job.context);
    x->run.context = max(1, min(j->text.job.context, tokens / 2)), x->run.loops = 1;
    x->run.windows = tokens / x->run.context;
    x->job.settings.windows = x->run.windows, x->job.settings.context = x->run.context;
    x->job.settings.held_every = x->run.windows > 1 ? 2 : 0;
    x->job.settings.width = min(x->job.settings.width, TIMED_WIDTH);
    x->job.settings.loops = 1, x->job.settings.ahead = 0;
}

/* Probes cache the same share as in the run. */
static probe_cache_plan timed_keeps(const timed *x) {
    probe_cache_plan keeps = x->of->memory.probes;
    double all = (double)(x->of->text.job.windows * x->of->text.job.context *
                          forward_job_loops(&x->of->text.job)),
           share = (double)(x->run.windows * x->run.context) / all;
    keeps.memory = (uint64_t)(share * (double)(keeps.memory + keeps.file)), keeps.file = 0,
    keeps.folder = NULL;
    return keeps;
}

static void timed_free(timed *x) {
    free(x->tensors), free(x->outputs), free(x->sample.tensors), free(x->sample.passes);
}

static bool timed_new(timed *x, const calibration *j) {
    size_t n = j->n_outputs * j->n_tensors, step;
    *x = (timed){.of = j, .job = *j};
    x->tensors = calloc(n + 1, sizeof *x->tensors),
    x->outputs = calloc(j->n_outputs + 1, sizeof(gq_tensor *));
    x->sample.tensors = calloc(n + 1, sizeof *x->sample.tensors);
    x->sample.passes = calloc(TIMED_LAYERS + 1, sizeof *x->sample.passes);
    if (!x->tensors || !x->outputs || !x->sample.tensors || !x->sample.passes) return false;
    timed_choose_layers(x);
    timed_set_text(x);
    for (size_t o = 0; o < j->n_outputs; o++) {
        x->outputs[o] = x->tensors + o * j->n_tensors;
        for (size_t i = 0; i < j->n_tensors; i++) {
            gq_tensor *t = &x->tensors[o * j->n_tensors + i];
            int64_t block = layer_of(j, i);
            *t = j->outputs[o][i];
            t->calibrated =
                t->calibrated && (block < 0 ? forward_feeds(j->streams[0], j->tensors[i])
                                            : is_timed(x, block, &step) && timed_wants(x, step, t->to));
        }
    }
    x->sample.matrices = TIMED_MATRICES;
    x->sample.rows = (size_t)(TIMED_GROUPS * FEEDBACK_ROWS * threads_asked(j->text.job.threads));
    calibration *job = &x->job;
    job->numbers = x->layers, job->n_layers = x->n_layers;
    /* At least two batches: the first one touches new memory. */
    size_t batch =
        min(j->text.bounds.batch * j->text.job.context, x->run.windows * x->run.context / 2) / x->run.context;
    job->text = (text_share){.job = x->run,
                             .bounds = {.batch = max(1, batch), .layer = j->text.bounds.layer},
                             .all_windows = x->run.windows};
    job->outputs = x->outputs, job->store = (rounding_store){.write = timed_write};
    job->costs = (calibrate_costs){.n_steps = 0}, job->ahead = (text_share){.all_windows = 0};
    job->memory.probes = timed_keeps(x), job->sample = &x->sample;
    return true;
}

static bool timed_run(timed *x, const gq_callbacks *callbacks) {
    checkpoint none = {.fd = -1};
    threads_count threads;
    gq_callbacks asked = {.size = sizeof asked};
    if (callbacks) asked.user = callbacks->user, asked.cancelled = callbacks->cancelled;
    share_report_sample(callbacks);
    return calibrate_layers(&x->job, &none, &asked, &threads, NULL);
}

/* ---- from the sample to all ---- */

static const char *role_of(const model_tensor *t) {
    model_block b;
    return model_block_in(t->name, &b) ? b.rest : t->name;
}

static const calibrate_timing *timing_at(const timed *x, size_t output, size_t i) {
    return &x->sample.tensors[output * x->of->n_tensors + i];
}

static bool same_role(const timed *x, size_t a, size_t b) {
    return strcmp(role_of(x->of->tensors[a]), role_of(x->of->tensors[b])) == 0;
}

/* Whether a tensor's rows count together, as those of its role do that were timed. */
static bool is_chained(const timed *x, size_t output, size_t i) {
    for (size_t k = 0; k < x->of->n_tensors; k++)
        if (timing_at(x, output, k)->chained && same_role(x, k, i)) return true;
    return false;
}

/* Whether a timed tensor is of a layer of which all are timed, or of none. */
static bool timed_whole(const timed *x, size_t i) {
    size_t step;
    return !is_timed(x, layer_of(x->of, i), &step) || step < x->n_kinds;
}

/* Returns the number of the timed tensor that this one is most like: itself, else for rounding one whose rows
 * are rounded alike, to the same type; else one of the same role. SIZE_MAX: none was timed. */
static size_t timed_like(const timed *x, size_t output, size_t i, bool rounds) {
    const calibration *j = x->of;
    bool chained = is_chained(x, output, i);
    size_t best = SIZE_MAX;
    int most = -1;
    for (size_t k = 0; k < j->n_tensors; k++) {
        const calibrate_timing *t = timing_at(x, output, k);
        if (!t->rounded || (!rounds && !timed_whole(x, k))) continue;
        int score = 16 * (k == i) + 2 * same_role(x, k, i) + (j->tensors[k]->ne[0] == j->tensors[i]->ne[0]);
        if (rounds)
            score += 8 * (t->chained == chained) + 4 * (j->outputs[output][k].to == j->outputs[output][i].to);
        if (score > most) most = score, best = k;
    }
    return best;
}

/* Operations of Hessians for a column and a token. */
static double hessian_each(const calibration *j, size_t i) {
    bool is_residual = site_adds(&j->settings, j->streams[0], j->tensors[i]) != 0;
    return operations_width(j, i) +
           OPERATIONS_PRODUCT * (is_residual ? (double)j->tensors[i]->ne[1] : operations_width(j, i));
}

static double tokens_added(const calibration *j) {
    return operations_tokens(j) - (double)calibration_held_most(&j->settings, false);
}

/* Returns what gathering and factoring tensor i takes. probes: seconds of probes to those of the sample's. */
static calibrate_cost scale_inputs(const timed *x, size_t output, size_t i, double probes) {
    const calibration *j = x->of;
    calibrate_cost cost = {0};
    size_t k = timed_like(x, output, i, false);
    const calibrate_timing *t = k == SIZE_MAX ? NULL : timing_at(x, output, k);
    if (!t || !t->gathered || !t->factored) return cost;
    double matrices = (double)shape_matrices(j->tensors[i]->ne),
           width = operations_width(j, i) / operations_width(&x->job, k);
    double columns = (double)j->tensors[i]->ne[0] / (double)j->tensors[k]->ne[0];
    cost.cholesky = t->cholesky / (double)t->factored * matrices * columns * width * width;
    if (!forward_feeds(j->streams[0], j->tensors[i])) return cost; /* the embedding */
    cost.gather = t->probes * probes * operations_gathers(j, i) +
                  t->hessian / (double)t->gathered * matrices * columns * tokens_added(j) /
                      tokens_added(&x->job) * hessian_each(j, i) / hessian_each(&x->job, k);
    return cost;
}

/* Returns what rounding tensor i takes. */
static double scale_rounding(const timed *x, size_t output, size_t i, double probes) {
    const calibration *j = x->of;
    size_t k = timed_like(x, output, i, true);
    if (k == SIZE_MAX) return 0;
    const calibrate_timing *t = timing_at(x, output, k);
    double weights = (double)shape_elements(j->tensors[i]->ne) / (double)t->rounded;
    if (forward_is_router(j->streams[0], j->tensors[k]))
        return t->round * probes; /* its choices are looked at */
    return weights * ((t->round - t->checks) * (ROUNDING_COLUMNS + operations_width(j, i)) /
                          (ROUNDING_COLUMNS + operations_width(&x->job, k)) +
                      t->checks * (operations_held(j, i) + CHECK_TOKENS) / ((double)t->held + CHECK_TOKENS));
}

/* Returns the seconds of a layer's metrics: of as many windows as the run makes them of, of its length. */
static double scale_metrics(const timed *x) {
    const calibration *of[] = {&x->job, x->of};
    double tokens[2];
    if (!x->sample.n_metrics) return 0;
    for (size_t i = 0; i < 2; i++) {
        const calibration_settings *s = &of[i]->settings;
        uint64_t held = s->held_every ? s->windows / s->held_every : 0;
        tokens[i] = (double)min(METRIC_WINDOWS, s->windows - held) * (double)s->context;
    }
    return x->sample.metrics / (double)x->sample.n_metrics * tokens[1] / tokens[0];
}

static forecast_request costs_asked(const calibration *j, size_t batch, const gq_callbacks *callbacks) {
    return (forecast_request){.job = &j->text.job,
                              .models = j->streams,
                              .n_models = 1,
                              .callbacks = callbacks,
                              .batch = batch,
                              .layer = j->text.bounds.layer};
}

/* Returns the tokens of the run to one of the sample; and where weights are decoded, or read, for a batch that
 * is smaller than the run's, as much less as a token takes in one of these. */
static double scale_probes(const timed *x, const gq_callbacks *callbacks) {
    const calibration *j = x->of;
    double tokens = operations_tokens(j) / operations_tokens(&x->job);
    size_t sampled = x->job.text.bounds.batch * x->run.context,
           batch = j->text.bounds.batch * j->text.job.context;
    bool is_large =
        sampled < TIMED_TOKENS || j->text.bounds.layer || forward_experts_spread(j->streams[0]) > 1;
    forecast_request asked = costs_asked(j, j->text.bounds.batch, callbacks);
    forecast_pace small, whole;
    if (!is_large || sampled >= batch) return tokens;
    if (!forecast_measure(&asked, &whole, NULL)) return tokens;
    asked.job = &x->run, asked.batch = x->job.text.bounds.batch;
    if (!forecast_measure(&asked, &small, NULL) || !(small.token > 0)) return tokens;
    return tokens * fmin(1, whole.token / small.token);
}

/* Returns the seconds of the sample's passes of a stream through a layer, on average. */
static double timed_pass(const timed *x) {
    double sum = 0;
    for (size_t i = 0; i < x->of->n_layers; i++) {
        size_t kind = timed_kind(x, block_of(x->of, i));
        sum += x->sample.passes[kind < x->n_layers ? kind : 0];
    }
    return sum / (double)x->of->n_layers / operations_streams(&x->job);
}

/* Returns the seconds of a token through all layers of a stream that nothing is looked at in. */
static double time_token(const timed *x, const gq_callbacks *callbacks) {
    const forecast_request asked = costs_asked(x->of, x->of->ahead.bounds.batch, callbacks);
    forecast_pace pace;
    return forecast_measure(&asked, &pace, NULL) ? pace.token : 0;
}

/* probes: seconds of probes and passes of the run to those of the sample. */
static void timed_scale(const timed *x, double probes, const gq_callbacks *callbacks, calibrate_costs *to) {
    const calibration *j = x->of;
    double kept = (double)j->n_layers / (double)forward_model_sizes(j->streams[0])->layers,
           token = embedding_is_rounded(j) ? kept * time_token(x, callbacks) : 0,
           tried = (double)(forward_job_windows(&j->text.job, EMBEDDING_TRIAL_TOKENS) * j->text.job.context);
    to->pass = timed_pass(x) * probes / (double)forward_job_loops(&j->text.job);
    to->metrics = scale_metrics(x);
    if (operations_run_ahead(j)) to->ahead = token * (double)(j->ahead.all_windows * j->text.job.context);
    for (size_t o = 0; o < j->n_outputs; o++)
        for (size_t i = 0; i < j->n_tensors; i++) {
            calibrate_cost *cost = &to->tensors[o * j->n_tensors + i];
            if (operations_calibrated(j, o, i)) *cost = scale_inputs(x, o, i, probes);
            cost->round =
                operations_calibrated(j, o, i) ? scale_rounding(x, o, i, probes) : plain_seconds(j, o, i);
        }
    costs_add_up(j, token * EMBEDDING_TRIAL_STREAMS * tried, to);
}

bool calibrate_costs_measure(const calibration *j, const gq_callbacks *callbacks, calibrate_costs *to) {
    timed x;
    *to = (calibrate_costs){.n_steps = 0};
    bool ok = timed_new(&x, j) && timed_run(&x, callbacks) && costs_new(j, to);
    if (ok) timed_scale(&x, scale_probes(&x, callbacks), callbacks, to);
    timed_free(&x);
    return ok;
}
