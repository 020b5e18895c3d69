/* Plans a calibrated run before a weight is read, in three steps. Opening checks the request, makes the windows
 * (study/sweep/spread.c) and fills the calibration_settings, which decide bytes and whose digest is part of the
 * plan's identity; types are chosen after that, as they may depend on it. Bounding comes when all is laid out:
 * it computes memory and disk space, and warns of a text or memory that is too small. Announcing looks beside
 * the output for what an earlier run has left. The machine's memory decides no bytes: where no limit is asked
 * for, the width of the Hessian follows from a fixed amount (calibration_memory.c). The rounding is that of
 * layers.c, started by calibrate.c. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/safe_file.h"
#include "forward/graph/draft/draft.h"
#include "forward/graph/experts/experts.h"
#include "quantize/plan/target/target.h"
#include "study/calibrate/calibrate.h"

/* Tokens per column of a matrix. A measured model lost 29 % more at 2.7 than at 17; seven times as many as 17
 * brought another 7 % (bench/results/calibration.md). The default text has
 * 4.6 tokens for each of 14,336 columns, the widest matrix of a usual model of 8 B weights. A published model of
 * 1,536 columns ended above plain encoding with 0.67, and well below it with 1. */
static const double HARMFUL = 1, LITTLE = 4, ENOUGH = 17;

/* ---- the request ---- */

static bool take_settings(calibration *c, const gq_calibration *asked, gq_error *e) {
    hessian_settings m;
    calibrate_step_mask steps;
    if (!hessian_settings_take(&m, asked->damp, asked->shrink, asked->correction, e)) return false;
    c->settings.damp = m.damp, c->settings.shrink = m.shrink, c->settings.gptaq_a = m.gptaq_a;
    if (!calibrate_steps_take(&steps, asked->steps, e)) return false;
    c->settings.steps = steps;
    matmul_arithmetic arithmetic;
    if (!matmul_arithmetic_take(&arithmetic, asked->arithmetic, e)) return false;
    c->settings.arithmetic = arithmetic;
    return (c->steps = calibrate_steps_text(steps, e));
}

/* ---- the text ---- */

static uint32_t ids_of(const calibration *c) {
    return windows_checksum(c->job.ids, c->job.marks, c->job.windows * c->job.context);
}

static bool calibration_read_text(gq_plan *plan, calibration *c, const gq_options *options, gq_error *e) {
    const gq_calibration *asked = options->calibration;
    windows_limits limits = {comm_memory(options->comm, memory_budget_of(asked->memory)), options->callbacks};
    text_windows *w = &c->whole.windows;
    gq_text text = asked->text;
    size_t vocabulary = forward_model_sizes(c->model)->vocabulary;
    const char *name = text.name ? text.name : "", *slash = strrchr(name, '/'); /* no folders */
    if (!text.tokens) text.tokens = GQ_CALIBRATION_TOKENS;
    if (!asked->random) {
        c->whole.name = strdup(slash ? slash + 1 : name);
        if (!c->whole.name) return gq_fail_memory(e, strlen(name));
    }
    bool ok = asked->random
                  ? windows_draw(w, &text, &plan->model, vocabulary, e)
                  : windows_read_spread(w, &text, &plan->model, vocabulary, &limits, &plan->warnings, e);
    ok = ok && (asked->random || !calibration_does(&c->settings, CALIBRATE_RANDOM) ||
                windows_mix_random(w, &plan->model, vocabulary, &c->whole.ids, &c->whole.drawn, e));
    free(w->replaced), w->replaced = NULL;
    if (!ok || !masks_set(w, &plan->model, vocabulary, MASKS_DRAWN, e)) return false;
    c->job = windows_job(w);
    c->settings.windows = w->n, c->settings.context = w->context;
    c->settings.held_every = windows_hold_out(w->n, w->context).every;
    c->settings.expert_held = EXPERT_HELD_TOKENS;
    c->settings.ids = ids_of(c);
    return true;
}

/* Warns if the machine has less memory than calibrating takes. The machine's memory decides no bytes, so
 * nothing adapts to it. */
static bool warn_of_machine(gq_plan *plan, const calibration *c, gq_error *e) {
    enum { MIB = 1 << 20 };
    uint64_t has = memory_budget_machine();
    return c->memory.asked || c->text.bounds.peak <= has ||
           warnings_add(&plan->warnings, e,
                        "calibration needs %llu MiB, and this machine has %llu MiB; set a memory limit, so "
                        "that fewer columns are rounded together",
                        LLU(c->text.bounds.peak / MIB), LLU(has / MIB));
}

static bool warn_of_text(gq_plan *plan, const calibration *c, gq_error *e) {
    const gq_calibration_facts *f = &c->facts;
    if (!windows_warn_longer(c->job.context, forward_model_sizes(c->model)->trained, plan_input(plan),
                             &plan->warnings, e))
        return false;
    if (f->held_out == 0 && !warnings_add(&plan->warnings, e,
                                          "the text has one window, so none is held out to validate the "
                                          "calibration; use a text of %d windows or more",
                                          HELD_OUT_ONE_IN))
        return false;
    return f->per_column >= LITTLE ||
           warnings_add(
               &plan->warnings, e,
               "%llu tokens are few to calibrate with: %.2g per column of some matrices%s; take about %g "
               "per column, here %llu tokens (more brings little), or an imatrix and a size for the file, "
               "which take less time",
               LLU(f->tokens), f->per_column,
               f->per_column < HARMFUL ? ", and with less than 1 a file may be worse than without" : "",
               ENOUGH, LLU((ENOUGH / f->per_column * (double)f->tokens)));
}

/* ---- ranks: whose windows are whose, and a folder that all can write to ---- */

/* Takes this rank's windows of the first n; where there are none it runs on the first one. */
static text_share take_share(const calibration *c, size_t n, const gq_options *options) {
    text_share t = {.job = c->job};
    t.job.windows = n;
    text_share_take(&t, options->comm, options->read_once);
    if (t.idle) t.job = c->job, t.job.windows = 1, t.first_window = 0;
    return t;
}

/* Gives this rank its share of the windows, which are read. */
static void calibration_share(calibration *c, const gq_options *options) {
    c->text = take_share(c, c->job.windows, options);
    c->ahead = (text_share){.job = c->job};
    if (c->settings.ahead) c->ahead = take_share(c, c->settings.ahead, options);
    c->ahead.job.loops = 1;
}

/* Looks for a file that rank 0 has just made. */
static bool look_for_probe(const gq_comm *comm, const char *probe, gq_error *e) {
    int fd = safe_file_open(probe);
    if (fd >= 0) return close(fd), true;
    return gq_fail(e,
                   "rank %d cannot open %s, which rank 0 has made: %s; all ranks need one folder that they "
                   "share and can write to",
                   gq_comm_rank(comm), probe, strerror(errno));
}

static char *probe_path(const gq_plan *plan) {
    return safe_file_beside(plan->outputs[0].path, ".gquant-ranks");
}

static void calibration_clean_up(const gq_plan *plan, size_t output, bool own) {
    const char *out = plan->outputs[output].shards[0].path;
    char *probe = own ? NULL : probe_path(plan);
    if (probe) safe_file_clean(probe);
    free(probe);
    own ? checkpoint_clean(out, &plan->rounding->calibration->header)
        : checkpoint_clean_kind(out, CHECKPOINT_CALIBRATION);
}

/* A collective: fails unless all ranks can open, to write, what rank 0 makes beside the first output.
 * Choosing types for a target may take hours before that output is begun. dry_run: nothing is made. */
static bool calibration_check_folder(const gq_plan *plan, const calibration *c, bool dry_run, gq_error *e) {
    if (gq_comm_ranks(c->text.comm) == 1 || dry_run) return true;
    char *probe = probe_path(plan);
    bool ok = probe || gq_fail_memory(e, strlen(plan->outputs[0].path)),
         is_first = comm_is_first(c->text.comm);
    int fd = ok && is_first ? safe_file_renew(probe) : -1;
    if (ok && is_first && fd < 0) ok = gq_fail(e, "cannot write %s: %s", probe, strerror(errno));
    /* The others look between two meetings. */
    ok = ok && comm_meet(c->text.comm, e) && (is_first || look_for_probe(c->text.comm, probe, e)) &&
         comm_meet(c->text.comm, e);
    if (fd >= 0) close(fd), unlink(probe);
    free(probe);
    return ok;
}

/* ---- identity ---- */

static checkpoint_header header_of(const gq_plan *plan, const calibration *c) {
    checkpoint_header h = {.kind = CHECKPOINT_CALIBRATION,
                           .times = plan->identity.input,
                           .content = plan->identity.content,
                           .ids = ids_of(c),
                           .context = (uint32_t)c->job.context,
                           .windows = c->job.windows,
                           .slot =
                               forward_stream_bytes(c->model, c->job.windows * c->job.loops, c->job.context),
                           .streams = (uint32_t)plan->n_outputs + 1};
    const uint32_t others[] = {plan->identity.options, plan->identity.layout};
    h.settings = checksum_add(0, others, sizeof others);
    plan_build(h.build);
    checkpoint_seal(&h);
    return h;
}

/* Lists the layers that are run: all, or those of the blocks that are written. */
static bool calibration_list_layers(const gq_plan *plan, calibration *c, gq_error *e) {
    const forward_sizes *sizes = forward_model_sizes(c->model);
    size_t n = 0;
    c->facts.layers = c->n_layers = sizes->layers;
    if (!plan->layers.n) return true;
    uint64_t *numbers = calloc(sizes->layers, sizeof *numbers);
    c->numbers = numbers;
    if (!numbers) return gq_fail_memory(e, sizes->layers * sizeof *numbers);
    for (size_t layer = 0; layer < sizes->layers; layer++)
        for (size_t i = 0; i < plan->layers.n; i++)
            if (plan->layers.kept[i] == forward_block_of(c->model, layer)) numbers[n++] = layer;
    c->facts.layers = c->n_layers = n;
    return true;
}

static bool calibration_open(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_calibration *asked = options->calibration;
    calibration *c = plan->rounding->calibration = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c);
    plan->rounding->facts = &c->facts, plan->rounding->knows_inputs = true;
    if (asked->random && asked->text.bytes)
        return gq_fail_usage(e, "expected a text or random tokens to calibrate on, found both");
    if (!take_settings(c, asked, e)) return false;
    c->model = forward_model_new(&plan->model, e);
    if (c->model) forward_model_set_arithmetic(c->model, calibration_arithmetic(&c->settings));
    if (c->model && !forward_model_find_mtp_layers(c->model, &plan->warnings, e)) return false;
    const char *caution = matmul_arithmetic_caution(calibration_arithmetic(&c->settings), plan->kernels);
    if (caution && !warnings_add(&plan->warnings, e, "%s", caution)) return false;
    c->facts.size = sizeof c->facts;
    const forward_model **streams = calloc(plan->n_outputs + 1, sizeof *streams);
    c->streams = streams;
    if (!streams) return gq_fail_memory(e, (plan->n_outputs + 1) * sizeof *streams);
    for (size_t i = 0; i <= plan->n_outputs; i++) streams[i] = c->model;
    c->memory.asked = asked->memory, c->memory.resident = memory_budget_taken();
    const model_tensor *factored = c->model ? forward_factored(c->model) : NULL;
    if (factored)
        return gq_fail(e,
                       "%s: tensor %s has a per-tensor scale, which calibration does not support; use "
                       "imatrix quantization, or a model without scales",
                       plan_input(plan), factored->name);
    if (!c->model || !calibration_read_text(plan, c, options, e)) return false;
    if (calibration_does(&c->settings, CALIBRATE_BALANCE) &&
        !balance_find(plan->kernels, &plan->model, c->model, &c->balance, e))
        return false;
    plan->model.scales = c->balance.scales; /* from now on */
    const forward_sizes *sizes = forward_model_sizes(c->model);
    c->job.loops = c->settings.loops = sizes->layers / sizes->blocks;
    if (calibration_does(&c->settings, CALIBRATE_SWEEPS))
        c->settings.sweeps = (uint64_t)feedback_sweeps(plan->settings.effort);
    if (calibration_does(&c->settings, CALIBRATE_TRIALS))
        c->settings.trials = (uint64_t)feedback_trials(plan->settings.effort);
    c->job.threads = plan->threads, c->job.probes = true;
    if (calibration_does(&c->settings, CALIBRATE_EMBEDDING) && embedding_is_output(c->model))
        c->settings.ahead = forward_job_windows(&c->job, AHEAD_TOKENS_PER_COLUMN * sizes->embedding->ne[0]);
    calibration_share(c, options);
    if (!calibration_check_folder(plan, c, options->dry_run, e) || !calibration_list_layers(plan, c, e))
        return false;
    calibration_set_width(plan, c);
    c->settings.fused = checkpoint_fuses();
    plan->rounding->digest = calibration_settings_digest(&c->settings);
    if (!c->job.marks && !c->job.masked)
        plan->rounding->ids = c->whole.drawn ? c->whole.ids : c->job.ids,
        plan->rounding->n_ids = (c->job.windows - c->whole.drawn) * c->job.context;
    return true;
}

static void calibration_free(rounding *r) {
    calibration *c = r->calibration;
    if (!c) return;
    forward_model_free(c->model);
    model_scales_free(c->balance.scales);
    windows_free(&c->whole.windows);
    free(c->whole.ids), free(c->whole.name), free(c->steps);
    free((void *)c->streams), free((void *)c->numbers), free((void *)c->tensors), free((void *)c->outputs);
    calibrate_costs_free(&c->costs);
    free(c);
}

/* ---- tensors ---- */

static bool calibration_can_round(const gq_plan *plan, const plan_source *source) {
    return forward_feeds(plan->rounding->calibration->model, source->tensor);
}

/* Whether routers decide how the embedding is rounded, and the tensor is it. */
static bool calibrates_embedding(const gq_plan *plan, size_t tensor) {
    const calibration *c = plan->rounding->calibration;
    return calibration_does(&c->settings, CALIBRATE_EMBEDDING) &&
           plan->sources[tensor].tensor == forward_model_sizes(c->model)->embedding &&
           (c->ahead.all_windows || embedding_is_routed(c->model, c->numbers, c->facts.layers));
}

static bool is_calibrated(const gq_plan *plan, size_t output, size_t tensor) {
    const gq_tensor *t = &plan->outputs[output].tensors[tensor];
    const tensor_type *to = tensor_type_of(t->to);
    return t->to != t->from && to && to->quantized && plan->kernels->codecs[t->to].columnwise &&
           !plan_qat_grid_holds(&plan->sources[tensor], t->to) &&
           (calibration_can_round(plan, &plan->sources[tensor]) || calibrates_embedding(plan, tensor));
}

static void calibration_choose(gq_plan *plan, size_t output) {
    const calibration *c = plan->rounding->calibration;
    for (size_t i = 0; i < plan->n_tensors; i++)
        plan->outputs[output].tensors[i].calibrated = is_calibrated(plan, output, i);
    if (!calibration_does(&c->settings, CALIBRATE_ROUTER) ||
        !plan_any_calibrated(plan, &plan->outputs[output]))
        return;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        gq_tensor *t = &plan->outputs[output].tensors[i];
        const tensor_type *to = tensor_type_of(t->to);
        if (!to->quantized && plan->kernels->codecs[t->to].encode &&
            forward_is_router(c->model, plan->sources[i].tensor))
            t->calibrated = true;
    }
}

/* ---- what outputs say of it ---- */

/* Says of a file with calibrated tensors that products were in bf16; float32 goes without saying. */
static bool set_arithmetic(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    const calibration *c = plan->rounding->calibration;
    return !c->settings.arithmetic || !plan_any_calibrated(plan, out) ||
           gguf_header_set_string(h, GGUF_ARITHMETIC_KEY, matmul_arithmetic_names[c->settings.arithmetic], e);
}

/* Names the kind of tensors that keep their type but may have other values: routers that a calibration fits. */
static bool set_fitted(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (out->tensors[i].calibrated && !tensor_type_of(out->tensors[i].to)->quantized)
            return gguf_header_set_string(h, "quantize.calibration.fitted", "ffn_gate_inp", e);
    return true;
}

/* Says how many columns have other scales than the input's, and what they read from as well. */
static bool set_balanced(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    const calibration *c = plan->rounding->calibration;
    return !c->balance.columns || !plan_any_calibrated(plan, out) ||
           gguf_header_set_u32(h, "quantize.calibration.balanced",
                               c->balance.columns < UINT32_MAX ? (uint32_t)c->balance.columns : UINT32_MAX,
                               e);
}

static bool calibration_describe(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    return set_fitted(plan, out, h, e) && set_balanced(plan, out, h, e) && set_arithmetic(plan, out, h, e);
}

/* ---- memory, disk and work ---- */

/* Returns the bytes that the finished layers' records take at most: two entries per tensor with the mean squares of
 * its inputs, and up to 64 KiB per layer besides. */
static uint64_t calibration_record_bytes(const gq_plan *plan, const calibration *c) {
    enum { EACH = 64 << 10 };
    uint64_t layers = forward_model_sizes(c->model)->layers + 1, tensors = plan->n_outputs * plan->n_tensors;
    uint64_t squares = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const uint64_t *ne = plan->sources[i].tensor->ne;
        if (calibration_can_round(plan, &plan->sources[i]))
            squares = add_sat(squares, mul_sat(mul_sat(ne[0], shape_matrices(ne)), sizeof(float)));
    }
    return add_sat(layers * EACH + 2 * tensors * sizeof(calibrate_entry), mul_sat(squares, plan->n_outputs));
}

/* Warns of overrides under the architecture's keys: calibration runs the model with the values in the file. */
static bool warn_of_overrides(gq_plan *plan, gq_error *e) {
    size_t n = strlen(plan->facts.arch);
    for (size_t i = 0; i < plan->overrides.n; i++) {
        const char *key = plan->overrides.items[i].key;
        if (strncmp(key, plan->facts.arch, n) == 0 && key[n] == '.')
            return warnings_add(
                &plan->warnings, e,
                "calibration runs the model as it is in the file, without the new value of %s", key);
    }
    return true;
}

static void calibration_fill_facts(const gq_plan *plan, calibration *c) {
    gq_calibration_facts *f = &c->facts;
    f->text = c->whole.name, f->steps = c->steps;
    f->arithmetic = matmul_arithmetic_names[c->settings.arithmetic];
    f->context = (uint32_t)c->job.context;
    f->windows = c->job.windows - c->whole.drawn, f->tokens = calibration_text_tokens(c);
    f->held_out = calibration_held_most(&c->settings, false) / (c->job.context * c->job.loops);
    f->width = c->settings.width < f->columns ? c->settings.width : f->columns;
    f->windows_at_once = c->text.bounds.batch, f->experts_at_once = c->memory.matrices_at_once;
    uint64_t ahead =
        calibration_runs_ahead(plan, c) && c->ahead.bounds.in_file ? c->ahead.bounds.hidden_states : 0;
    uint64_t beside = mul_sat(add_sat(c->memory.probes.file, ahead), (uint64_t)gq_comm_ranks(c->text.comm));
    f->disk = add_sat(checkpoint_bytes(&c->header, c->records), max(beside, c->memory.validation_disk_bytes));
    f->inputs_memory = c->memory.probes.memory, f->inputs_disk = c->memory.probes.file;
    f->hidden_states_in_file = c->text.bounds.in_file;
    f->tokens_advised = (uint64_t)(ENOUGH / f->per_column * (double)f->tokens);
}

/* Gives the run the plan's tensors and outputs. */
static bool calibration_list_tensors(const gq_plan *plan, calibration *c, gq_error *e) {
    model_facts facts = model_facts_of(plan->model.kv, plan->model.n_kv, NULL, 0); /* as the model is run */
    const model_tensor **tensors = calloc(plan->n_tensors + 1, sizeof *tensors);
    const gq_tensor **outputs = calloc(plan->n_outputs, sizeof *outputs);
    c->tensors = tensors, c->outputs = outputs;
    if (!tensors || !outputs) return gq_fail_memory(e, plan->n_tensors * sizeof *tensors);
    for (size_t i = 0; i < plan->n_tensors; i++) tensors[i] = plan->sources[i].tensor;
    for (size_t o = 0; o < plan->n_outputs; o++) outputs[o] = plan->outputs[o].tensors;
    c->n_tensors = plan->n_tensors, c->n_outputs = plan->n_outputs;
    c->file = &plan->model, c->kernels = plan->kernels, c->encoding = &plan->settings;
    c->experts_used = (uint64_t)mix_experts_used(&facts);
    return true;
}

static bool calibration_plan_bounds(gq_plan *plan, gq_error *e) {
    calibration *c = plan->rounding->calibration;
    c->header = header_of(plan, c), c->records = calibration_record_bytes(plan, c);
    if (!calibration_list_tensors(plan, c, e) || !calibration_bound(plan, c, e)) return false;
    calibration_fill_facts(plan, c);
    size_t o = 0;
    while (o < plan->n_outputs && !plan_any_calibrated(plan, &plan->outputs[o])) o++;
    if (o == plan->n_outputs)
        return warnings_add(&plan->warnings, e,
                            "nothing to calibrate: no matrix of the model's layers gets a quantized type");
    if (c->facts.width < c->facts.columns &&
        !warnings_add(&plan->warnings, e,
                      "little memory: the widest matrices have %llu columns, of which only %llu are rounded "
                      "together; with more memory the file would have a lower KL divergence",
                      LLU(c->facts.columns), LLU(c->facts.width)))
        return false;
    return warn_of_machine(plan, c, e) && warn_of_text(plan, c, e) && warn_of_overrides(plan, e);
}

/* The hidden states of a calibrated run are made beside its first output. */
static bool calibration_check_checkpoint_paths(const gq_plan *plan, const gq_options *options, gq_error *e) {
    const char *out = plan->outputs[0].shards[0].path;
    char *path = checkpoint_path(out);
    bool ok = path ? plan_check_beside(plan, options, path, e) : gq_fail_memory(e, strlen(out));
    free(path);
    return ok;
}

static bool calibration_announce(gq_plan *plan, const gq_options *options, bool whole, gq_error *e) {
    calibration *c = plan->rounding->calibration;
    checkpoint kept;
    struct stat st;
    const char *out = plan->outputs[0].shards[0].path;
    if (!calibration_check_checkpoint_paths(plan, options, e)) return false;
    bool ok = checkpoint_peek(&kept, out, &c->header, e);
    if (!whole && !plan_outputs_are_there(plan)) kept.finished = 0; /* they held the rounded layers */
    size_t layers = min(kept.finished, c->facts.layers);
    bool beyond = kept.finished > layers; /* behind the layers come the output matrix and the validation */
    c->facts.layers_finished = layers;
    if (kept.finished && fstat(kept.fd, &st) == 0) plan->rounding->kept_bytes = 512 * (uint64_t)st.st_blocks;
    if (kept.finished)
        ok = ok && warnings_add(&plan->warnings, e,
                                "an unfinished calibration for %s will be continued: %zu layer%s%s done", out,
                                layers, plural_suffix(layers),
                                beyond        ? " and more are"
                                : layers == 1 ? " is"
                                              : " are");
    if (kept.why)
        ok = ok && warnings_add(&plan->warnings, e, "an unfinished calibration for %s starts afresh: %s", out,
                                kept.why);
    checkpoint_close(&kept);
    return ok;
}

/* ---- time ---- */

static double calibration_seconds_left(const rounding *r) {
    const calibration *c = r->calibration;
    const calibrate_costs *costs = &c->costs;
    size_t done = c->facts.layers_finished;
    return calibrate_costs_begin(costs, costs->n_steps) - (done ? calibrate_costs_begin(costs, done) : 0) +
           costs->validation;
}

static bool calibration_forecast(gq_plan *plan, bool measures, const gq_callbacks *callbacks, gq_error *e) {
    calibration *c = plan->rounding->calibration;
    gq_calibration_facts *f = &c->facts;
    calibrate_costs *costs = &c->costs;
    calibrate_costs_free(costs);
    f->work = calibrate_work(c);
    bool is_short = f->work < FORECAST_LEAST_WORK,
         is_measured = measures && !is_short && calibrate_costs_measure(c, callbacks, costs);
    if (!is_measured) calibrate_costs_guess(c, costs);
    if (!costs->tensors) return gq_fail_memory(e, plan->n_outputs * plan->n_tensors * sizeof *costs->tensors);
    double left = 1 - (double)f->layers_finished / (double)f->layers;
    f->seconds_expected = is_measured ? calibration_seconds_left(plan->rounding) + left * costs->plain
                          : measures && is_short ? FORECAST_LEAST_SECONDS
                                                 : 0;
    return true;
}

/* ---- ranks: what all agree on ---- */

static bool calibration_agree(gq_plan *plan, gq_error *e) {
    calibration *c = plan->rounding->calibration;
    if (!c->text.comm) return true;
    gq_calibration_facts *f = &c->facts;
    int ranks = gq_comm_ranks(c->text.comm);
    checkpoint_header first = c->header;
    uint64_t batch = c->text.bounds.batch, ahead = c->ahead.bounds.batch,
             most[] = {f->memory, f->hidden_states_in_file, f->layers_finished};
    if (!comm_broadcast(c->text.comm, &first, sizeof first, e)) return false;
    if (memcmp(&first, &c->header, sizeof first) != 0)
        return gq_fail(e, "rank %d has another model, text, options or build than rank 0",
                       gq_comm_rank(c->text.comm));
    if (!comm_least(c->text.comm, &c->memory.matrices_at_once, e) || !comm_least(c->text.comm, &batch, e) ||
        !comm_least(c->text.comm, &ahead, e) ||
        !comm_most(c->text.comm, most, sizeof most / sizeof *most, e) ||
        !sweep_agree_layer(c->text.comm, c->text.read_once, &c->text.bounds.layer, e) ||
        !sweep_agree_layer(c->text.comm, c->text.read_once, &c->ahead.bounds.layer, e))
        return false;
    c->text.bounds.batch = c->text.idle ? 1 : batch;
    c->ahead.bounds.batch = c->ahead.idle ? 1 : ahead;
    f->windows_at_once = batch;
    f->experts_at_once = c->memory.matrices_at_once * (uint64_t)(f->experts_at_once > 1 ? ranks : 1);
    f->memory = most[0], f->hidden_states_in_file = most[1], f->layers_finished = most[2];
    f->ranks = (uint32_t)ranks,
    f->rank_windows = windows_share(c->text.comm, c->job.windows, c->job.context, 1);
    return true;
}

/* ---- as a plan has it ---- */

static gq_step calibration_step_at(const rounding *r, size_t i) {
    return (gq_step){.name = calibrate_steps[i].name,
                     .what = calibrate_steps[i].what,
                     .on = calibration_does(&r->calibration->settings, (calibrate_step)i)};
}

const rounding_kind rounding_by_calibration = {.open = calibration_open,
                                               .can_round = calibration_can_round,
                                               .choose = calibration_choose,
                                               .describe = calibration_describe,
                                               .bound = calibration_plan_bounds,
                                               .announce = calibration_announce,
                                               .agree = calibration_agree,
                                               .forecast = calibration_forecast,
                                               .clear = calibration_free,
                                               .seconds_left = calibration_seconds_left,
                                               .run = calibrate_run,
                                               .remove_kept = calibrate_remove_kept,
                                               .close_kept = calibrate_close_kept,
                                               .clean_up = calibration_clean_up,
                                               .n_steps = CALIBRATE_STEPS,
                                               .step = calibration_step_at};
