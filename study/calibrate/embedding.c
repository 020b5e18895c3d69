#include "study/calibrate/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "forward/graph/experts/experts.h"
#include "forward/stream/kld.h"
#include "quantize/strips/strips.h"

/* The share of the mean diagonal that is added to it: what else an error of the embedding does, and what every error
 * does to a row. For one that is the output matrix 0.1 to 3 leave the same KL divergence, and 0.03 more
 * (docs/internals/calibration.md). */
static const float EMBEDDING_DAMP = 0.3f;

enum {
    FIRST_ROUTER = 2,
    MOST_CHECKED = 512, /* rows of routers that the result is checked with */
    SIGNS = 64,         /* columns of signs that stand for the mean diagonal's share there */
};

/* ---- the routers ---- */

static size_t layer_at(const uint64_t *numbers, size_t i) { return numbers ? numbers[i] : i; }

static size_t routed_layers(const forward_model *m, const uint64_t *numbers, size_t n) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) found += forward_router_rows(m, layer_at(numbers, i)) > 0;
    return found;
}

bool embedding_is_routed(const forward_model *m, const uint64_t *numbers, size_t n) {
    return !forward_model_sizes(m)->embeds && routed_layers(m, numbers, n) > 0;
}

bool embedding_is_output(const forward_model *m) {
    const forward_sizes *sizes = forward_model_sizes(m);
    return sizes->embedding == sizes->out && !sizes->embeds;
}

bool embedding_is_rounded(const calibration *job) {
    return calibration_has(job, forward_model_sizes(job->streams[0])->embedding);
}

/* A metric in the making. The unit is what the squares of a router's rows sum to: among the tokens of the
 * Hessians, and among those of the check. */
typedef struct metric_sums {
    const calibration *of;
    embedding_metric *to;
    hessian *hessian;
    size_t width, stride;
    double unit, unit_checked;
} metric_sums;

/* Turns a router's rows into columns, which count as tokens, so that their squares sum to `weight`. */
static void metric_transpose(const float *rows, size_t n, size_t width, double weight, float *to,
                             size_t stride) {
    double trace = 0;
    for (size_t i = 0; i < n * width; i++) trace += (double)rows[i] * (double)rows[i];
    float by = trace > 0 ? (float)sqrt(weight / trace) : 0;
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < width; c++) to[c * stride + r] = by * rows[r * width + c];
}

static void metric_check_with(const metric_sums *m, const float *columns, size_t n, size_t stride) {
    embedding_metric *to = m->to;
    if (n > m->stride - to->n_checked) n = m->stride - to->n_checked;
    for (size_t c = 0; c < m->width; c++)
        memcpy(to->checked + c * m->stride + to->n_checked, columns + c * stride, n * sizeof *columns);
    to->n_checked += n;
}

static bool metric_add_layer(const metric_sums *m, size_t layer, double weight, gq_error *e) {
    const forward_model *model = m->of->streams[0];
    size_t n = forward_router_rows(model, layer), stride = forward_stride(n);
    float *rows = malloc(n * m->width * sizeof *rows), *columns = forward_activations(m->width, stride, e);
    bool ok = rows || gq_fail_memory(e, n * m->width * sizeof *rows);
    ok = ok && columns && forward_router_read(model, layer, rows, e);
    if (ok) {
        metric_transpose(rows, n, m->width, weight * m->unit, columns, stride);
        hessian_add(m->hessian, NULL, 0, columns, stride, n);
        hessian_end_group(m->hessian);
        if (m->unit_checked != m->unit)
            metric_transpose(rows, n, m->width, weight * m->unit_checked, columns, stride);
        if (m->unit_checked > 0) metric_check_with(m, columns, n, stride);
    }
    free(rows), free(columns);
    return ok;
}

static bool metric_add_layers(const metric_sums *m, gq_error *e) {
    const calibration *of = m->of;
    bool found = false;
    for (size_t i = 0; i < of->n_layers; i++) {
        size_t layer = layer_at(of->numbers, i);
        if (!forward_router_rows(of->streams[0], layer)) continue;
        if (!metric_add_layer(m, layer, found ? 1 : FIRST_ROUTER, e)) return false;
        found = true;
    }
    return true;
}

/* ---- the output matrix ---- */

/* Adds columns of random signs, whose product with an error is on average as large as the error itself. */
static void metric_check_size(const metric_sums *m, double mean_square) {
    embedding_metric *to = m->to;
    float by = (float)sqrt(mean_square / SIGNS);
    uint64_t state = 0;
    for (size_t c = 0; c < m->width; c++) {
        uint64_t bits = random_next(&state);
        for (size_t i = 0; i < SIGNS; i++)
            to->checked[c * m->stride + to->n_checked + i] = bits >> i & 1 ? by : -by;
    }
    to->n_checked += SIGNS;
}

/* Begins with the tokens that flow into the output matrix. */
static bool metric_begin_with_tokens(metric_sums *m, site_inputs *output, gq_error *e) {
    embedding_metric *to = m->to;
    to->mean_square = calloc(m->width, sizeof *to->mean_square);
    if (!to->mean_square) return gq_fail_memory(e, m->width * sizeof *to->mean_square);
    m->hessian = output->hessian, output->hessian = NULL;
    hessian_mean_squares(m->hessian, to->mean_square);
    hessian_share(m->hessian, NULL); /* all ranks have all now */
    double trace = 0, held = (double)output->held;
    for (size_t c = 0; c < m->width; c++) trace += (double)to->mean_square[c];
    double mean = trace / (double)m->width;
    size_t routed = routed_layers(m->of->streams[0], m->of->numbers, m->of->n_layers);
    m->unit = trace * (double)hessian_tokens(m->hessian) / (double)(routed + 1);
    m->unit_checked = trace * held / (double)(routed + 1);
    for (size_t i = 0; i < output->held; i++)
        for (size_t c = 0; c < m->width; c++)
            to->checked[c * m->stride + i] = output->rounded[i * m->width + c];
    to->n_checked = output->held;
    if (held > 0) metric_check_size(m, held * (double)EMBEDDING_DAMP * mean);
    for (size_t c = 0; c < m->width; c++) to->mean_square[c] += EMBEDDING_DAMP * (float)mean;
    return true;
}

/* ---- the metric ---- */

bool embedding_metric_new(embedding_metric *to, const calibration *of, threads_pool *pool,
                          site_inputs *output, gq_error *e) {
    size_t width = forward_model_sizes(of->streams[0])->embedding->ne[0], most = of->settings.width,
           checked = (output && output->held ? output->held + SIGNS : 0) + MOST_CHECKED;
    metric_sums m = {.of = of, .to = to, .width = width, .stride = forward_stride(checked)};
    hessian_shape shape = {.columns = width, .width = most < width ? most : width};
    *to = (embedding_metric){.stride = m.stride};
    bool ok = (to->checked = forward_activations(width, m.stride, e));
    m.unit = m.unit_checked = 1;
    ok = ok && (output ? metric_begin_with_tokens(&m, output, e)
                       : (m.hessian = hessian_new(of->kernels, shape, pool, e)) != NULL);
    hessian_settings settings = {.damp = EMBEDDING_DAMP, .mean_damping = true};
    ok = ok && metric_add_layers(&m, e) && cholesky_factor(m.hessian, settings, &to->factored, e);
    hessian_free(m.hessian);
    if (ok) cholesky_round(&to->factored, calibration_arithmetic(&of->settings), pool);
    if (!ok) embedding_metric_free(to);
    return ok;
}

void embedding_metric_free(embedding_metric *m) {
    cholesky_free(&m->factored);
    free(m->mean_square), free(m->checked);
    *m = (embedding_metric){.n_checked = 0};
}

bool embedding_round(const round_task *t, const embedding_metric *m, bool is_worse, calibrate_figures *sums,
                     round_reason *why, gq_error *e) {
    round_task task = *t;
    task.factored = &m->factored, task.mean_square = m->mean_square;
    task.base = task.rounded = m->checked, task.held = m->n_checked, task.stride = m->stride;
    task.is_embedding = true, task.is_worse = is_worse;
    sums->width = min(t->c->of->settings.width, t->c->of->tensors[t->tensor]->ne[0]);
    return round_matrix(&task, sums, why, e);
}

/* ---- the stream ---- */

/* Rows of an output's embedding as they are written. */
typedef struct embedding_rows {
    const calibration *of;
    size_t output, number;
    const model_tensor *from;
    const tensor_type *to;
    uint8_t *raw, *blocks;
    const uint8_t *blocks_copy; /* all that was written; NULL: it is in the file */
} embedding_rows;

/* Reads the blocks that were written. */
static bool read_written(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e) {
    const embedding_rows *m = data;
    const rounding_store *store = &m->of->store;
    size_t width = m->from->ne[0], bytes = gguf_row_bytes(m->to, width);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *of_row = m->blocks_copy ? m->blocks_copy + ids[i] * (uint64_t)bytes : m->blocks;
        if (!m->blocks_copy &&
            !store->read(store->data, m->output, m->number, ids[i] * (uint64_t)bytes, m->blocks, bytes, e))
            return false;
        m->of->kernels->codecs[m->to->id].decode(of_row, 0, rows + i * width, width);
    }
    return true;
}

/* Encodes rows plainly, each for itself. */
static bool read_plain(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e) {
    const embedding_rows *m = data;
    const calibration *of = m->of;
    const codec *codecs = of->kernels->codecs;
    size_t width = m->from->ne[0];
    strip_encoder with = {.kernels = of->kernels, .type = m->to, .settings = of->encoding};
    for (size_t i = 0; i < n; i++) {
        if (!strip_read_decoded(of->kernels, of->file, m->from, ids[i] * (uint64_t)width, width, m->raw,
                                rows + i * width, e))
            return false;
        size_t bad = strip_beyond(&with, rows + i * width, width);
        if (bad < width)
            return strip_fail_to_hold(&with, of->file, m->from, ids[i] * (uint64_t)width + bad,
                                      rows[i * width + bad], e);
    }
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < CODEC_MOST_LANES ? n - i : CODEC_MOST_LANES;
        codecs[m->to->id].encode(rows + i * width, m->blocks, some, width, NULL, of->encoding);
        codec_decode_rows(&codecs[m->to->id], m->blocks, width, rows + i * width, some * width);
    }
    return true;
}

bool embedding_start(const calibration *job, size_t output, size_t number, const uint8_t *blocks,
                     bool is_plain, forward_stream *stream, gq_error *e) {
    const model_tensor *from = job->tensors[number];
    const gq_tensor *planned = &job->outputs[output][number];
    if (planned->to == from->type->id) return forward_stream_embed(stream, NULL, e);
    embedding_rows m = {job, output, number, from, tensor_type_of(planned->to), NULL, NULL, blocks};
    size_t width = from->ne[0], stored = model_row_bytes(from),
           bytes = CODEC_MOST_LANES * gguf_row_bytes(m.to, width);
    m.raw = malloc(stored), m.blocks = malloc(bytes);
    forward_rows rows = {planned->calibrated && !is_plain ? read_written : read_plain, &m};
    bool ok = m.raw && m.blocks ? forward_stream_embed(stream, &rows, e) : gq_fail_memory(e, stored + bytes);
    free(m.raw), free(m.blocks);
    return ok;
}

/* ---- the inputs of the output matrix ---- */

/* The run over the first windows, as a calibration of its own in which nothing is rounded. */
typedef struct run_ahead {
    calibrator c;
    calibration of;
    embedding_metric *to;
} run_ahead;

/* Both streams are the base model's. */
static bool ahead_gather_output(run_ahead *a, gq_error *e) {
    threads_pool *pool = sweep_pool(&a->c.sweep);
    site s;
    a->c.base = a->c.sweep.streams[0], a->c.rounded = &a->c.base, a->c.at.sublayers = FORWARD_WHOLE;
    bool ok = site_gather(&s, &a->c, e);
    ok = ok && embedding_metric_new(a->to, &a->of, pool, &s.inputs[0], e);
    site_free(&s);
    return ok;
}

static bool ahead_on_layer(void *data, forward_layer *l, gq_error *e) {
    run_ahead *a = data;
    sweep_name_phase(&a->c.sweep, "ahead");
    return l ? forward_stream_pass(a->c.sweep.streams[0], l, FORWARD_WHOLE, NULL, e)
             : ahead_gather_output(a, e);
}

bool embedding_gather_ahead(const calibration *job, sweep_progress *progress, double per_second,
                            embedding_metric *to, gq_error *e) {
    const text_share *ahead = &job->ahead;
    run_ahead a = {.of = *job, .to = to};
    a.c.of = &a.of;
    a.of.settings.windows = ahead->all_windows, a.of.settings.loops = 1;
    a.of.settings.held_every = windows_hold_out(ahead->all_windows, job->settings.context).every;
    a.of.text = *ahead;
    sweep_plan p = {.text = *ahead,
                    .models = job->streams,
                    .n_streams = 1,
                    .numbers = job->numbers,
                    .n_layers = job->n_layers,
                    .output = true,
                    .folder = job->memory.probes.folder,
                    .progress = {.within = progress}};
    double work = forward_job_work(&ahead->job, job->streams[0], false);
    p.progress.layer_work = work > 0 ? per_second * job->costs.ahead / work : 0;
    sweep_progress_span(progress, 0, per_second * job->costs.ahead);
    bool ok = sweep_open(&a.c.sweep, &p, e) &&
              sweep_run(&a.c.sweep, &(sweep_calls){.on = ahead_on_layer, .data = &a}, e);
    sweep_close(&a.c.sweep);
    return ok;
}

/* ---- the trial ---- */

/* The base model, and it with the embedding as plain encoding writes it, and as it was written. */
typedef struct embedding_trial {
    const calibration *of;
    size_t output, number;
    const uint8_t *kept;
    forward_job run;
    sweep sweep;
    double kld[EMBEDDING_TRIAL_STREAMS]; /* sums over places */
} embedding_trial;

bool embedding_is_tried(const forward_model *m, const uint64_t *numbers, size_t n, size_t context) {
    return context > 1 && !embedding_is_output(m) && embedding_is_routed(m, numbers, n);
}

static bool trial_embed(void *data, gq_error *e) {
    embedding_trial *t = data;
    return forward_stream_embed(t->sweep.streams[0], NULL, e) &&
           embedding_start(t->of, t->output, t->number, NULL, true, t->sweep.streams[1], e) &&
           embedding_start(t->of, t->output, t->number, t->kept, false, t->sweep.streams[2], e);
}

static bool trial_add(void *data, const kld *d, size_t position, size_t next, double weight, gq_error *e) {
    embedding_trial *t = data;
    (void)next, (void)e;
    for (size_t k = 1; k < EMBEDDING_TRIAL_STREAMS; k++) t->kld[k] += weight * kld_at(d, position, k).kld;
    return true;
}

static bool trial_run(embedding_trial *t, gq_error *e) {
    const calibration *of = t->of;
    const forward_model *m = of->streams[0], *models[EMBEDDING_TRIAL_STREAMS] = {m, m, m};
    t->run = of->text.job;
    size_t before = of->text.first_window * t->run.context;
    t->run.ids -= before; /* from the text's beginning on, whatever this rank has */
    if (t->run.marks) t->run.marks -= before;
    if (t->run.masked) t->run.masked -= before;
    t->run.windows = of->text.all_windows;
    t->run.windows = forward_job_windows(&t->run, EMBEDDING_TRIAL_TOKENS);
    t->run.probes = false, t->run.loops = 1, t->run.batch_tokens = 0;
    sweep_plan p = {
        .text = {.job = t->run, .bounds = forward_bounds_of(&t->run, models, EMBEDDING_TRIAL_STREAMS, true)},
        .models = models,
        .n_streams = EMBEDDING_TRIAL_STREAMS,
        .numbers = of->numbers,
        .n_layers = of->n_layers};
    p.text.bounds.in_file = false; /* they are of few tokens */
    const forward_predictions all = {.job = &t->run, .model = m, .at = trial_add, .data = t};
    bool ok = sweep_open(&t->sweep, &p, e) &&
              sweep_run(&t->sweep, &(sweep_calls){.before = trial_embed, .data = t}, e) &&
              forward_run_predictions(t->sweep.run, t->sweep.streams, EMBEDDING_TRIAL_STREAMS, &all, e);
    sweep_close(&t->sweep);
    return ok;
}

bool embedding_try(const calibration *job, size_t output, size_t number, const uint8_t *kept, bool *is_worse,
                   gq_error *e) {
    embedding_trial t = {.of = job, .output = output, .number = number, .kept = kept};
    if (comm_is_first(job->text.comm) && !trial_run(&t, e)) return false;
    *is_worse = !(t.kld[2] < t.kld[1]);
    return gq_comm_ranks(job->text.comm) == 1 ||
           comm_broadcast(job->text.comm, is_worse, sizeof *is_worse, e);
}
