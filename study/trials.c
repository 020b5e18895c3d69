/* Finds by trial how much the error of each tensor changes the predictions. A trial is a stream with one tensor,
 * or some that go together, in a coarse type: it has the base model's hidden states up to the layer of its
 * tensors, and its own from there on. All streams go through the layers side by side, so that each layer is read
 * once. At the end their logits are compared with the base model's.
 *
 * Errors are small, so the KL divergence is proportional to their squares, and the trial of one type serves for
 * all types. It adds up over tensors, too: what errors of different tensors add to the logits is not correlated.
 *
 * Tensors of an MTP layer are tried behind the last layer: the block runs on the base model's hidden states, and
 * its logits are compared. The output matrix needs no trial. Logits z with errors d of mean 0, independent of
 * each other, diverge by 1/2 sum p (1 - p) d^2, and d of row v has the mean square (relative error)^2 x sum h_j
 * W_vj^2, where h_j is the mean square of the matrix's input j. The sum weighs all tokens by their probabilities
 * p; instead only the term of the token that comes next in the text is taken, as its mean is the same. */
#include "study/study.h"

#include <stdlib.h>

#include "forward/graph/draft/draft.h"
#include "forward/stream/head.h"
#include "forward/stream/kld.h"
#include "study/calibrate/calibrate.h"

/* With this many, trials predict a tensor's cost on another text within a third (docs/internals/mixes.md). */
enum { TRIAL_TOKENS = 512 };

/* Sums over places are one chain: all are of one group (forward/stream/stream.h). */
_Static_assert((int)TRIAL_TOKENS <= (int)TOKEN_GROUP, "tokens of more than one group");

/* ---- memory ---- */

/* Returns the most bytes that a trial's blocks take: Q8_0 has 8.5 bits, 17/16 of a byte, per weight. */
static uint64_t largest_blocks(const trials *t) {
    uint64_t most = 0;
    for (size_t i = 0; i < t->n; i++) {
        uint64_t n = 0;
        for (size_t k = 0; k < t->tried[i].n; k++)
            n += shape_elements(t->plan->sources[t->tried[i].tensor[k]].tensor->ne);
        if (n + n / 16 > most) most = n + n / 16;
    }
    return most;
}

/* process: bytes that the process takes besides the trials. */
static forward_bounds bounds_of(trials *t, int threads, uint64_t process) {
    t->job.threads = threads;
    size_t batch = forward_job_batch(&t->job), first, streams = trials_of_block(t, NULL, &first);
    uint64_t positions = mul_sat(batch, t->job.context - 1);
    t->job.extra_bytes = add_sat(add_sat(largest_blocks(t), process), kld_bytes(positions, t->n));
    if (t->n > streams) /* with one of them an MTP layer is counted */
        t->job.extra_bytes =
            add_sat(t->job.extra_bytes, forward_head_bytes(&t->job, t->models, t->n - streams, batch));
    return forward_bounds_of(&t->job, t->models, 1 + streams, true);
}

static bool trials_new(trials *t, const gq_plan *plan, const bool *wanted, gq_error *e) {
    size_t tensors = plan->n_tensors + 1;
    const forward_job *j = &plan->rounding->calibration->job;
    *t = (trials){.plan = plan, .of = plan->rounding->calibration, .wanted = wanted, .job = *j};
    t->job.windows = forward_job_windows(j, TRIAL_TOKENS), t->job.probes = false, t->job.loops = 1;
    t->job.batch_tokens = 0; /* logits of each token take more than larger batches bring */
    t->job.memory = t->of->memory.deciding;
    t->tried = calloc(tensors, sizeof *t->tried);
    t->models = malloc(tensors * sizeof *t->models);
    t->streams = calloc(tensors, sizeof *t->streams);
    if (!t->tried || !t->models || !t->streams) return gq_fail_memory(e, tensors * sizeof *t->tried);
    for (size_t i = 0; i < tensors; i++) t->models[i] = t->of->model;
    return true;
}

static void trials_free(trials *t) {
    windows_free(&t->sampled), free(t->tried), free(t->models), free(t->streams), free(t->scratch);
}

/* Returns the most layers whose trials fit the memory. in_parts: a layer need not be in it as a whole. */
static size_t trials_count_layers(trials *t, bool in_parts) {
    for (size_t n = trials_layers(t->plan); n > 0; n--) {
        trials_choose(t, n);
        if (t->n > MOST_TRIALS) continue;
        forward_bounds bounds = bounds_of(t, USUAL_THREADS, USUAL_PROCESS);
        if (!bounds.in_file && bounds.peak <= t->job.memory && (in_parts || !bounds.layer)) return n;
    }
    return 0;
}

bool trials_decide_layers(const gq_plan *plan, const bool *wanted, size_t *layers, uint64_t *least,
                          gq_error *e) {
    trials t;
    *layers = 0, *least = 0;
    if (plan->rounding->calibration->job.context < 2) return true;
    bool ok = trials_new(&t, plan, wanted, e);
    if (ok) trials_decide_groups(&t);
    *layers = ok ? trials_count_layers(&t, false) : 0;
    if (ok && !*layers) *layers = trials_count_layers(&t, true);
    if (ok && !*layers) {
        t.job.memory = UINT64_MAX; /* so that hidden states are not in a file */
        *least = bounds_of(&t, USUAL_THREADS, USUAL_PROCESS).peak;
    }
    trials_free(&t);
    return ok;
}

/* The plan's threads, or as many as the memory holds beside what this process really has. A process that has
 * more than was reckoned with when the trials were decided may leave room for none: one thread then goes
 * beyond the memory by that. */
static forward_bounds choose_bounds(trials *t) {
    uint64_t process = add_sat(t->of->memory.resident, sample_sizes(t->plan).entries);
    for (int threads = t->of->job.threads; threads > 0; threads--) {
        uint64_t strips = mul_sat(sizeof(strip_buffers), (uint64_t)threads);
        forward_bounds bounds = bounds_of(t, threads, add_sat(process, strips));
        if (!bounds.in_file && bounds.peak <= t->job.memory) return bounds;
    }
    return bounds_of(t, 1, USUAL_PROCESS);
}

/* Rows of the embedding as its blocks have them. */
typedef struct coarse_rows {
    const gq_plan *plan;
    const tensor_type *type;
    const uint8_t *blocks;
    size_t width;
} coarse_rows;

static bool read_coarse(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e) {
    const coarse_rows *r = data;
    uint64_t bytes = gguf_row_bytes(r->type, r->width);
    (void)e;
    for (size_t i = 0; i < n; i++)
        r->plan->kernels->codecs[r->type->id].decode(r->blocks + ids[i] * bytes, 0, rows + i * r->width,
                                                     r->width);
    return true;
}

/* ---- the trials ---- */

/* Passes the layer of a trial's tensors with coarse blocks in their place. */
static bool pass_coarse(const trials *t, trial *of, forward_layer *l, gq_error *e) {
    bool ok = trial_replace(t, of, l, e) && forward_stream_pass(of->stream, l, FORWARD_WHOLE, NULL, e);
    trial_restore(t, of, l);
    return ok;
}

static bool embed_coarse(const trials *t, const trial *of, gq_error *e) {
    uint8_t *blocks = trial_encode(t, of, 0, e);
    coarse_rows rows = {t->plan, tensor_type_of(budget_types[of->type[0]]), blocks,
                        t->plan->sources[of->tensor[0]].tensor->ne[0]};
    bool ok = blocks && forward_stream_embed(of->stream, &(forward_rows){read_coarse, &rows}, e);
    free(blocks);
    return ok;
}

/* l: NULL: the embedding's. */
static bool start_trial(trials *t, trial *of, forward_layer *l, gq_error *e) {
    if (!(of->stream = forward_stream_new(t->sweep.run, t->of->model, NULL, e))) return false;
    if (!l) return embed_coarse(t, of, e);
    forward_stream_copy(of->stream, t->sweep.streams[0]);
    return pass_coarse(t, of, l, e);
}

/* Passes a layer with a trial that has begun. Where the model runs its blocks again that may be the layer of
 * its tensors. */
static bool continue_trial(const trials *t, trial *of, forward_layer *l, gq_error *e) {
    size_t blocks = forward_model_sizes(t->of->model)->blocks;
    if (trials_in_layer(t, of->tensor[0], (int64_t)(t->sweep.layer % blocks)))
        return pass_coarse(t, of, l, e);
    return forward_stream_pass(of->stream, l, FORWARD_WHOLE, NULL, e);
}

/* Starts the trials of a layer, from the hidden states before it. */
static bool start_layer(trials *t, int64_t number, forward_layer *l, gq_error *e) {
    for (; t->begun < t->n && trials_in_layer(t, t->tried[t->begun].tensor[0], number); t->begun++)
        if (!start_trial(t, &t->tried[t->begun], l, e)) return false;
    return true;
}

static bool start_embedding(void *data, gq_error *e) {
    trials *t = data;
    return forward_stream_embed(t->sweep.streams[0], NULL, e) && start_layer(t, -1, NULL, e);
}

/* Trials that have begun, then those of this layer, which need the base model's hidden states before it. */
static bool try_layer(void *data, forward_layer *l, gq_error *e) {
    trials *t = data;
    for (size_t i = 0, begun = t->begun; i < begun; i++)
        if (!continue_trial(t, &t->tried[i], l, e)) return false;
    return start_layer(t, (int64_t)t->sweep.layer, l, e) &&
           forward_stream_pass(t->sweep.streams[0], l, FORWARD_WHOLE, NULL, e);
}

/* Returns how often a stream passes all layers. A trial begins at the layer of its tensors. */
static double trials_count_passes(const trials *t) {
    double layers = (double)t->of->facts.layers, passes = 1;
    for (size_t i = 0; i < t->n && !t->tried[i].block; i++) {
        int64_t block =
            (int64_t)forward_layer_of(t->of->model, t->plan->sources[t->tried[i].tensor[0]].tensor->name);
        double begun = block > 0 ? (double)block : 0;
        passes += begun < layers ? 1 - begun / layers : 0;
    }
    return passes;
}

static bool try_all(trials *t, const forward_bounds *bounds, const gq_callbacks *callbacks,
                    const trials_forecast *seconds, gq_error *e) {
    const forward_sizes *sizes = forward_model_sizes(t->of->model);
    double layers = trials_count_passes(t) * forward_job_work(&t->job, t->of->model, false) *
                    (double)t->of->facts.layers / (double)sizes->layers,
           head = (double)(1 + t->n + forward_model_mtp_layers(t->of->model)) * (double)sizes->out->size *
                  (double)t->job.windows;
    sweep_plan p = {.text = {.job = t->job, .bounds = *bounds},
                    .models = t->models,
                    .n_streams = 1,
                    .numbers = t->of->numbers,
                    .n_layers = t->of->facts.layers,
                    .progress = {.callbacks = callbacks}};
    if (seconds->layers > 0) p.progress.logits_work = seconds->head / seconds->layers * layers / head;
    p.progress.work = layers + (p.progress.logits_work > 0 ? p.progress.logits_work : 1) * head;
    t->scratch = memory_lines(1, sizeof *t->scratch, e);
    if (!t->scratch) return false;
    if (!sample_windows(&t->sampled, &t->job, &t->of->job, t->job.windows, e)) return false;
    p.text.job = t->job;
    bool ok =
        sweep_open(&t->sweep, &p, e) &&
        sweep_run(&t->sweep, &(sweep_calls){.before = start_embedding, .on = try_layer, .data = t}, e) &&
        trials_find_figures(t, e);
    for (size_t i = 0; i < t->n; i++) forward_stream_free(t->tried[i].stream);
    sweep_close(&t->sweep);
    return ok;
}

/* ---- ranks ---- */

/* The i-th trial is done by rank i modulo the number of ranks: later ones pass fewer layers. */
static void trials_keep_own(trials *t) {
    size_t ranks = (size_t)gq_comm_ranks(t->plan->comm), n = 0;
    for (size_t i = (size_t)gq_comm_rank(t->plan->comm); i < t->n; i += ranks) t->tried[n++] = t->tried[i];
    t->n = n;
}

/* Gives all ranks the KL divergences of all trials, which are then listed again, without streams. */
static bool trials_share(trials *t, size_t layers, gq_error *e) {
    gq_comm *comm = t->plan->comm;
    size_t ranks = (size_t)gq_comm_ranks(comm), own = t->n;
    if (ranks == 1) return true;
    double *mine = calloc(MOST_TRIALS, sizeof *mine), *all = calloc(ranks * MOST_TRIALS, sizeof *all);
    bool ok = (mine && all) || gq_fail_memory(e, (ranks + 1) * MOST_TRIALS * sizeof *all);
    for (size_t i = 0; ok && i < own; i++) mine[i] = t->tried[i].kld;
    trials_choose(t, layers);
    size_t each = ceil_div(t->n, ranks);
    ok = ok && comm_exchange(comm, (const uint64_t *)(const void *)mine, (uint64_t *)(void *)all, each, e);
    for (size_t i = 0; ok && i < t->n; i++) t->tried[i].kld = all[i % ranks * each + i / ranks];
    free(mine), free(all);
    return ok;
}

/* Predicts how long the sample and the trials in so many layers will take, and measures it if asked to. layers
 * 0: the sample alone. */
static trials_forecast trials_forecast_seconds(const gq_plan *plan, const bool *wanted, size_t layers,
                                               bool measures) {
    trials t;
    trials_forecast found = {0};
    if (trials_new(&t, plan, wanted, NULL)) {
        trials_decide_groups(&t);
        if (layers) trials_choose(&t, layers);
        size_t ranks = (size_t)gq_comm_ranks(plan->comm);
        found = calibration_forecast_trials(t.of, ceil_div(t.n, ranks), t.job.windows, measures);
    }
    trials_free(&t);
    return found;
}

bool trials_run(const gq_plan *plan, const bool *wanted, size_t layers, measured *found,
                const gq_callbacks *callbacks, const trials_forecast *seconds, gq_error *e) {
    trials t;
    for (size_t i = 0; i < plan->n_tensors; i++) found[i].sensitivity = -1;
    if (layers == 0) return true;
    bool ok = trials_new(&t, plan, wanted, e);
    if (ok) trials_decide_groups(&t);
    t.found = found;
    if (ok) trials_choose(&t, layers);
    if (ok && t.n > 0) {
        trials_keep_own(&t);
        forward_bounds bounds = choose_bounds(&t);
        ok = try_all(&t, &bounds, callbacks, seconds, e) && trials_share(&t, layers, e);
        if (ok) trials_set_kld_increase(&t);
    }
    trials_free(&t);
    return ok;
}

static bool trials_decide(const gq_plan *plan, const bool *wanted, size_t *layers, uint64_t *least,
                          gq_error *e) {
    gq_calibration_facts *facts = &plan->rounding->calibration->facts;
    if (!trials_decide_layers(plan, wanted, layers, least, e)) return false;
    facts->has_trials = true, facts->trial_layers = *layers;
    return true;
}

const measurement measurement_by_trials = {.decide_layers = trials_decide,
                                           .forecast = trials_forecast_seconds,
                                           .sample = sample_run,
                                           .trials = trials_run,
                                           .end = memory_budget_give_back};
