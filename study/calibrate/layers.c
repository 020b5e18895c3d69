/* Calibrates a model layer by layer, for all outputs at once. One sweep (study/sweep/sweep.h)
 * carries the base model's hidden states in one stream and, for each output, those of the model as rounded so far in
 * another. layer.c has what becomes of a layer. The output matrix is a step of its own behind the layers; the
 * embedding comes before them (embedding.c), and its record is the first step's. A model that runs its blocks
 * several times is rounded in the last of these loops, with hidden states of all of them; prepare_loops says where
 * these come from.
 *
 * The blocks of a step are written and synced before its record goes into the checkpoint. So an interrupted
 * run continues behind the last recorded step, and the record says which tensors the files hold. */
#include "study/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

/* Whether the output matrix is calibrated for some output. */
static bool head_calibrated(const calibration *job) {
    const forward_sizes *sizes = forward_model_sizes(job->streams[0]);
    return !embedding_is_output(job->streams[0]) && !sizes->embeds && calibration_has(job, sizes->out);
}

/* Whether matrices of MTP layers are calibrated for some output. */
static bool mtp_layers_calibrated(const calibration *job) {
    int64_t blocks = (int64_t)forward_model_sizes(job->streams[0])->blocks;
    for (size_t i = 0; i < job->n_tensors; i++)
        for (size_t o = 0; model_block_number(job->tensors[i]->name) >= blocks && o < job->n_outputs; o++)
            if (job->outputs[o][i].calibrated) return true;
    return false;
}

/* ---- a step ---- */

/* The number of the loop, of those that the model runs its blocks in, that the layer at work belongs to. */
static size_t calibrator_loop(const calibrator *c) {
    return c->sweep.layer / forward_model_sizes(c->of->streams[0])->blocks;
}

/* Nothing is rounded before the last loop, in which the hidden states of all loops pass the blocks side by side. The
 * base's hidden states before that are what its blocks give in the loops before: those of loop k, counted from 0,
 * pass the blocks k times. The rounded models begin each of these loops with the base model's hidden states, since
 * their own would need blocks that are not rounded yet. */
static bool prepare_loops(calibrator *c, const forward_layer *l, gq_error *e) {
    size_t next = calibrator_loop(c) + 1;
    if (!forward_stream_pass_loops(c->base, next, l, e)) return false;
    for (size_t o = 0; o < c->of->n_outputs; o++)
        if (c->rounded[o] && !forward_stream_follow(c->rounded[o], c->base, next, e)) return false;
    return true;
}

static bool do_step(void *data, forward_layer *l, gq_error *e) {
    calibrator *c = data;
    const calibrate_costs *costs = &c->of->costs;
    sweep_progress_span(&c->progress, c->per_second * calibrate_costs_begin(costs, c->sweep.step),
                        c->per_second * calibrate_costs_begin(costs, c->sweep.step + 1));
    if (l && calibrator_loop(c) + 1 < forward_job_loops(&c->of->text.job)) return prepare_loops(c, l, e);
    return calibrator_do_layer(c, l, e);
}

/* Finishes a step. Rounded blocks are safe on disk before the record says so; of ranks only the first has
 * written any. */
static bool finish_step(void *data, sweep_record *to, gq_error *e) {
    calibrator *c = data;
    calibrate_record *r = &c->record;
    const rounding_store *store = &c->of->store;
    bool ok = !comm_is_first(c->of->text.comm) || (record_sum_up(r, c->of, e) && store->sync(store->data, e));
    if (!ok) return false;
    *to = (sweep_record){r->bytes, r->n};
    *r = (calibrate_record){.n = 0};
    return true;
}

/* ---- the embedding ---- */

/* Rounds an output's embedding, where that is calibrated, before anything else. One that raises the KL divergence is
 * written plainly again; all ranks can do without its blocks then. */
static bool calibrator_round_embedding(calibrator *c, size_t output, size_t number, uint8_t *blocks_copy,
                                       bool *is_worse, gq_error *e) {
    tensor_progress *p = calibrator_progress_at(c, output, number);
    const model_tensor *t = c->of->tensors[number];
    round_task task = {.c = c, .tensor = number, .blocks_copy = blocks_copy, .comm = c->of->text.comm};
    calibrate_cost cost = calibrator_cost_of(c, output, t);
    calibrator_begin_piece(c, cost.cholesky + cost.round);
    bool ok =
        embedding_round(&task, &c->embedding, false, &p->figures, &p->reason, e) && sweep_ask(&c->sweep, e);
    if (ok && embedding_is_tried(c->of->streams[0], c->of->numbers, c->of->n_layers, c->of->text.job.context))
        ok = embedding_try(c->of, output, number, blocks_copy, is_worse, e);
    if (ok && *is_worse && comm_is_first(c->of->text.comm)) {
        task.comm = NULL, p->figures = (calibrate_figures){0};
        ok = embedding_round(&task, &c->embedding, true, &p->figures, &p->reason, e);
    }
    if (!ok) return false;
    p->settled = 1;
    return calibrator_record(c, output, number, e);
}

/* Starts an output's stream with its embedding as it is written. Only the first rank has the file, so with
 * others the blocks are copied meanwhile. */
static bool calibrator_embed(calibrator *c, size_t output, gq_error *e) {
    size_t number = calibrator_number_of(c, forward_model_sizes(c->of->streams[0])->embedding);
    if (number == SIZE_MAX) return forward_stream_embed(c->rounded[output], NULL, e);
    const gq_tensor *of = &c->of->outputs[output][number];
    uint8_t *blocks_copy = NULL;
    c->at.output = output;
    bool keeps = of->calibrated && gq_comm_ranks(c->of->text.comm) > 1, is_worse = false;
    bool ok = !keeps || (blocks_copy = memory_lines(of->out_bytes, 1, e));
    ok = ok &&
         (!of->calibrated || calibrator_round_embedding(c, output, number, blocks_copy, &is_worse, e)) &&
         embedding_start(c->of, output, number, blocks_copy, is_worse, c->rounded[output], e);
    free(blocks_copy);
    return ok;
}

/* ---- the job ---- */

static bool embed_all(void *data, gq_error *e) {
    calibrator *c = data;
    const calibrate_costs *costs = &c->of->costs;
    sweep_progress_span(&c->progress, c->per_second * costs->ahead,
                        c->per_second * (costs->ahead + costs->embedding));
    bool ok = forward_stream_embed(c->base, NULL, e);
    if (ok && embedding_is_rounded(c->of) && !embedding_is_output(c->of->streams[0]))
        ok = embedding_metric_new(&c->embedding, c->of, sweep_pool(&c->sweep), NULL, e);
    for (size_t o = 0; ok && o < c->of->n_outputs; o++) ok = !c->rounded[o] || calibrator_embed(c, o, e);
    embedding_metric_free(&c->embedding);
    return ok;
}

/* Returns the number of weights to be rounded for all outputs, in which progress is counted. */
static double calibrator_weights(const calibration *job) {
    double n = 0;
    for (size_t o = 0; o < job->n_outputs; o++)
        for (size_t i = 0; i < job->n_tensors; i++)
            if (job->outputs[o][i].calibrated) n += (double)job->outputs[o][i].n_weights;
    return n;
}

/* Fails where a calibrated tensor was never rounded: its place in the file would hold zeros. */
static bool all_settled(const calibrator *c, gq_error *e) {
    const calibration *job = c->of;
    for (size_t o = 0; o < job->n_outputs; o++)
        for (size_t i = 0; i < job->n_tensors; i++)
            if (job->outputs[o][i].calibrated && !calibrator_progress_at(c, o, i)->settled)
                return gq_fail(e, "%s: tensor %s received no activations when the model ran", job->file->path,
                               job->outputs[o][i].name);
    return true;
}

/* Marks the tensors of finished steps as rounded. */
static bool take_records(calibrator *c, gq_error *e) {
    uint64_t at = 0, n;
    for (size_t i = 0; i < c->saved->finished; i++) {
        uint8_t *bytes = checkpoint_next(c->saved, &at, &n, e);
        if (!bytes) return false;
        calibrate_entry entry;
        for (uint64_t in = 0; record_next(bytes, n, &in, c->of, &entry, NULL);)
            calibrator_progress_at(c, entry.output, entry.tensor)->settled =
                shape_matrices(c->of->tensors[entry.tensor]->ne);
        free(bytes);
    }
    return true;
}

/* Sends all ranks what is rounded already. Only the first has the records. */
static bool calibrator_resume(calibrator *c, gq_error *e) {
    const calibration *job = c->of;
    size_t bytes = job->n_outputs * job->n_tensors * sizeof *c->by_tensor;
    if (comm_is_first(job->text.comm) && !take_records(c, e)) return false;
    return gq_comm_ranks(job->text.comm) == 1 || comm_broadcast(job->text.comm, c->by_tensor, bytes, e);
}

/* Makes all streams cache the results of their probes. */
static bool calibrator_keep_results(calibrator *c, gq_error *e) {
    const calibration *job = c->of;
    if (!(c->results = probe_cache_new(&job->memory.probes, e))) return false;
    forward_stream_cache(c->base, c->results, 0);
    for (size_t o = 0; o < job->n_outputs; o++)
        if (c->rounded[o]) forward_stream_cache(c->rounded[o], c->results, 1);
    return true;
}

static bool calibrator_end_progress(calibrator *c, gq_error *e) {
    double end = c->progress.work - c->per_second * c->of->costs.validation;
    sweep_progress_span(&c->progress, end, end);
    return sweep_ask(&c->sweep, e);
}

/* Does the steps that are not finished. The first stream of the sweep is the base model's. */
static bool run_sweep(calibrator *c, const sweep_plan *plan, gq_error *e) {
    if (!c->saved->finished && embedding_is_rounded(c->of) && embedding_is_output(c->of->streams[0]) &&
        !embedding_gather_ahead(c->of, &c->progress, c->per_second, &c->embedding, e))
        return false;
    if (!sweep_open(&c->sweep, plan, e)) return false;
    if (!c->saved->finished)
        sweep_progress_span(&c->progress, c->per_second * c->of->costs.ahead, c->progress.work);
    c->base = c->sweep.streams[0], c->rounded = c->sweep.streams + 1;
    c->products = matmul_new(c->of->kernels, forward_run_pool(c->sweep.run), e);
    if (!c->products) return false;
    matmul_set_arithmetic(c->products, calibration_arithmetic(&c->of->settings));
    if (!calibrator_keep_results(c, e)) return false;
    sweep_calls calls = {.before = embed_all, .on = do_step, .after = finish_step, .data = c};
    if (c->of->sample) calls.before = NULL, calls.after = NULL;
    return sweep_run(&c->sweep, &calls, e) && calibrator_end_progress(c, e) && all_settled(c, e);
}

/* Begins the progress of the job behind the steps that are finished. Returns the units of it that one of
 * forward_job_work's is where layers pass, of which all passes of a stream report a job's. */
static double calibrator_start_progress(calibrator *c, const gq_callbacks *callbacks) {
    const calibration *job = c->of;
    const calibrate_costs *costs = &job->costs;
    double seconds = calibrate_costs_begin(costs, costs->n_steps) + costs->validation,
           weights = calibrator_weights(job),
           done =
               c->saved->finished ? calibrate_costs_begin(costs, min(c->saved->finished, costs->n_steps)) : 0,
           pass = forward_job_work(&job->text.job, job->streams[0], false) *
                  (double)forward_job_loops(&job->text.job) /
                  (double)forward_model_sizes(job->streams[0])->layers;
    c->per_second = seconds > 0 ? weights / seconds : 0;
    c->progress = sweep_progress_start(callbacks, weights, c->per_second * done,
                                       job->text.job.windows * job->text.job.context);
    c->progress.progress.seconds_expected = job->facts.seconds_expected;
    return pass > 0 ? c->per_second * costs->pass / pass : 0;
}

static bool run_job(calibrator *c, const gq_callbacks *callbacks, threads_count *threads, gq_error *e) {
    const calibration *job = c->of;
    bool *absent = calloc(job->n_outputs + 1, sizeof *absent);
    if (!absent) return gq_fail_memory(e, job->n_outputs + 1);
    for (size_t o = 0; o < job->n_outputs; o++) absent[1 + o] = !calibration_uses(job, o);
    sweep_plan p = {
        .text = job->text,
        .models = job->streams,
        .absent = absent,
        .n_streams = job->n_outputs + 1,
        .numbers = job->numbers,
        .n_layers = job->n_layers,
        .output = head_calibrated(job),
        .mtp_layers = mtp_layers_calibrated(job),
        .checkpoint = job->sample ? NULL : c->saved,
        .progress = {.within = &c->progress, .layer_work = calibrator_start_progress(c, callbacks)}};
    bool ok = calibrator_resume(c, e) && run_sweep(c, &p, e);
    *threads = sweep_threads(&c->sweep);
    matmul_free(c->products);
    sweep_close(&c->sweep);
    probe_cache_free(c->results);
    free(absent);
    return ok;
}

size_t calibrate_layers_steps(const calibration *job) {
    return job->n_layers + (head_calibrated(job) || mtp_layers_calibrated(job));
}

bool calibrate_layers(const calibration *job, checkpoint *saved, const gq_callbacks *callbacks,
                      threads_count *threads, gq_error *e) {
    calibrator c = {.of = job, .saved = saved};
    size_t steps = calibrate_layers_steps(job);
    *threads = (threads_count){.error = 0};
    bool ok = true;
    if (saved->finished < steps) {
        ok = calibrator_list_tensors(&c, e) && run_job(&c, callbacks, threads, e);
        embedding_metric_free(&c.embedding);
        calibrator_drop_tensors(&c), free(c.record.bytes);
    } else {
        calibrator_start_progress(&c, callbacks);
    }
    if (!ok || job->sample || !comm_is_first(job->text.comm)) return ok; /* the first rank has the files */
    return validate_outputs(job, saved, steps, &c.progress, e);
}
