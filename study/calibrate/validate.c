/* Variants of the model that differ in which groups of layers are encoded
 * plainly pass the layers side by side, each layer with its written blocks first, then with blocks encoded
 * anew by the mean squares that the records of the sweep hold. Blocks written are read from the output's file.
 *
 * A decision is recorded before a byte of the file changes, and plain encoding gives the same blocks each time.
 * So a run that is killed in between does both again. */
#include "study/calibrate/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/stream/kld.h"
#include "quantize/strips/strips.h"

enum {
    ENCODED_ROWS = CODEC_MOST_LANES,           /* at a time */
    ALL_GROUPS = (1 << VALIDATION_GROUPS) - 1, /* set of all of them */
};

/* The progress of deciding. */
static const double VALIDATION_SHARE = .9;

/* ---- groups ---- */

/* The number of the tensor's layer among those that are run; SIZE_MAX: it is in none. */
static size_t layer_among_run(const calibration *job, size_t tensor) {
    const forward_model *m = job->streams[0];
    const model_tensor *t = job->tensors[tensor];
    if (t == forward_model_sizes(m)->out || t == forward_model_sizes(m)->embedding) return SIZE_MAX;
    size_t layer = forward_layer_of(m, t->name);
    if (!job->numbers || layer == SIZE_MAX) return layer;
    for (size_t i = 0; i < job->n_layers; i++)
        if (job->numbers[i] == layer) return i;
    return SIZE_MAX;
}

/* Layers that are run; of a model that runs its blocks several times, its blocks. */
static size_t layers_grouped(const calibration *job) {
    size_t n = 0, blocks = forward_model_sizes(job->streams[0])->blocks;
    for (size_t i = 0; i < job->n_layers; i++) n += (job->numbers ? job->numbers[i] : i) < blocks;
    return n;
}

size_t validation_group(const calibration *job, size_t tensor) {
    size_t blocks = layers_grouped(job), layer = layer_among_run(job, tensor);
    return layer < blocks ? layer * VALIDATION_GROUPS / blocks : VALIDATION_GROUPS;
}

bool validation_drops(const validation_record *v, const calibration *job, size_t tensor) {
    size_t group = validation_group(job, tensor);
    return group < VALIDATION_GROUPS && v->fallback >> group & 1;
}

char *validation_layers_text(const validation_record *v, const calibration *job, gq_error *e) {
    enum { EACH = 64 };
    size_t n = layers_grouped(job), at = 0, size = (VALIDATION_GROUPS + 1) * EACH;
    char *text = calloc(1, size);
    if (!text) return gq_fail_memory(e, size), NULL;
    for (size_t first = 0, end; first < n; first = end + 1) {
        for (end = first; end < n && v->fallback >> end * VALIDATION_GROUPS / n & 1;) end++;
        if (end == first) continue;
        at += (size_t)snprintf(text + at, size - at,
                               at      ? ", %zu"
                               : n > 1 ? "layers %zu"
                                       : "layer %zu",
                               first);
        if (end > first + 1) at += (size_t)snprintf(text + at, size - at, " to %zu", end - 1);
    }
    return text;
}

bool validation_embeds(const calibration *job) { return forward_model_sizes(job->streams[0])->embeds; }

/* ---- the windows ---- */

/* Copies the held-out windows of an array that has `each` bytes for a token. */
static void *copy_held(const calibration_settings *s, const void *from, size_t each, size_t n, gq_error *e) {
    size_t window = s->context * each;
    uint8_t *to = malloc(n * window);
    if (!to) return gq_fail_memory(e, n * window), NULL;
    for (size_t w = 0, k = 0; w < s->windows && k < n; w++)
        if (calibration_is_held(s, w)) memcpy(to + k++ * window, (const uint8_t *)from + w * window, window);
    return to;
}

bool validation_is_done(const calibration_settings *s) {
    return calibration_does(s, CALIBRATE_VALIDATION) && s->context > 1 && calibration_held(s).n;
}

static void validation_job_free(forward_job *j) {
    free((void *)j->ids), free((void *)j->marks), free((void *)j->masked);
    j->ids = NULL, j->marks = NULL, j->masked = NULL, j->windows = 0;
}

/* Makes the held-out windows a job of their own; windows 0: there are none, or the step is not done. text: of all
 * ranks. */
static bool validation_job_new(forward_job *to, const calibration_settings *s, const text_share *text,
                               gq_error *e) {
    size_t n = calibration_held(s).n, before = text->first_window * s->context;
    *to = text->job;
    to->ids = NULL, to->marks = NULL, to->masked = NULL;
    to->windows = 0, to->loops = 1, to->probes = false, to->batch_tokens = 0;
    if (!validation_is_done(s)) return true;
    to->ids = copy_held(s, text->job.ids - before, sizeof *to->ids, n, e);
    if (text->job.marks) to->marks = copy_held(s, text->job.marks - before, sizeof *to->marks, n, e);
    if (text->job.masked) to->masked = copy_held(s, text->job.masked - before, sizeof *to->masked, n, e);
    to->windows = n;
    bool ok = to->ids && !text->job.marks == !to->marks && !text->job.masked == !to->masked;
    if (!ok) validation_job_free(to);
    return ok;
}

/* ---- a run of variants ---- */

typedef struct validation {
    const calibration *of;
    const checkpoint *saved;
    size_t output;
    forward_job job;
    sweep sweep;
    sweep_progress *progress;
    double reported_each; /* of it, for a unit of forward_job_work */
    size_t *block;        /* per tensor: the block that it is calibrated in; SIZE_MAX: it takes no part */
    uint64_t *records;    /* per tensor: where the checkpoint has the record with its entry, and 0 */
    float **squares;      /* per tensor of the layer at hand: mean squares of its inputs, NULL: not known */
    uint8_t **blocks;     /* per tensor of the layer at hand */
    uint64_t groups[VALIDATION_STREAMS]; /* of each variant, from 1 on: those encoded plainly */
    size_t n;                            /* variants and the base model, which is number 0 */
    size_t first, streams; /* at hand: the base model's stream, and those of the variants from `first` on */
    double *kld;           /* [variant - 1][position] */
    double *weight;        /* [position] */
    size_t positions;
} validation;

/* Finds the blocks of the output's tensors. Returns whether some take part. */
static bool find_blocks(validation *v) {
    const calibration *of = v->of;
    size_t blocks = forward_model_sizes(of->streams[0])->blocks;
    bool any = false;
    for (size_t i = 0; i < of->n_tensors; i++) {
        bool is = of->outputs[v->output][i].calibrated && validation_group(of, i) < VALIDATION_GROUPS;
        v->block[i] = is ? forward_layer_of(of->streams[0], of->tensors[i]->name) % blocks : SIZE_MAX;
        any = any || is;
    }
    return any;
}

/* Whether a tensor is one of the layer at hand. */
static bool at_hand(const validation *v, size_t tensor) {
    return v->block[tensor] == v->sweep.layer % forward_model_sizes(v->of->streams[0])->blocks;
}

/* ---- plain encoding ---- */

/* Encodes rows of one matrix. x: floats of these rows; stored: their bytes as they are in the file. */
static bool encode_rows_of(const validation *v, size_t tensor, uint64_t row, size_t n, uint8_t *stored,
                           float *x, uint8_t *blocks, gq_error *e) {
    const calibration *of = v->of;
    const model_tensor *t = of->tensors[tensor];
    const codec *c = &of->kernels->codecs[of->outputs[v->output][tensor].to];
    const float *squares = v->squares[tensor] ? v->squares[tensor] + row / t->ne[1] * t->ne[0] : NULL;
    bool is_seen = false;
    for (size_t i = 0; squares && i < t->ne[0] && !is_seen; i++) is_seen = squares[i] > 0;
    if (!strip_read_decoded(of->kernels, of->file, t, row * t->ne[0], n * t->ne[0], stored, x, e))
        return false;
    c->encode(x, blocks, n, t->ne[0], is_seen ? squares : NULL, of->encoding);
    return true;
}

/* Encodes rows, of one matrix or several. */
static bool encode_rows(const validation *v, size_t tensor, uint64_t row, uint64_t end, uint8_t *blocks,
                        gq_error *e) {
    const model_tensor *t = v->of->tensors[tensor];
    uint64_t bytes = gguf_row_bytes(tensor_type_of(v->of->outputs[v->output][tensor].to), t->ne[0]),
             rows = min(ENCODED_ROWS, end - row);
    uint8_t *stored = memory_lines(rows, model_row_bytes(t), e);
    float *x = stored ? memory_lines(rows, t->ne[0] * sizeof *x, e) : NULL;
    bool ok = x;
    for (uint64_t n; ok && row < end; row += n, blocks += n * bytes) {
        n = min(min(end - row, ENCODED_ROWS), t->ne[1] - row % t->ne[1]);
        ok = encode_rows_of(v, tensor, row, n, stored, x, blocks, e);
    }
    free(stored), free(x);
    return ok;
}

/* Rows of a tensor, in pieces that threads share. */
typedef struct encoded_tensor {
    const validation *v;
    size_t tensor;
    uint64_t first, end;
    uint8_t *blocks;
    gq_error *errors; /* of each thread */
} encoded_tensor;

static bool encode_piece(void *data, uint64_t piece, int thread) {
    const encoded_tensor *t = data;
    const model_tensor *from = t->v->of->tensors[t->tensor];
    const gq_tensor *to = &t->v->of->outputs[t->v->output][t->tensor];
    uint64_t row = t->first + piece * ENCODED_ROWS;
    return encode_rows(t->v, t->tensor, row, min(t->end, row + ENCODED_ROWS),
                       t->blocks + (row - t->first) * (to->out_bytes / shape_rows(from->ne)),
                       &t->errors[thread]);
}

static bool encode_with(const validation *v, threads_pool *pool, size_t tensor, uint64_t first, uint64_t end,
                        uint8_t *blocks, gq_error *e) {
    encoded_tensor t = {v,   tensor, first,
                        end, blocks, calloc((size_t)threads_pool_most(pool), sizeof(gq_error))};
    if (!t.errors) return gq_fail_memory(e, (size_t)threads_pool_most(pool) * sizeof(gq_error));
    threads_outcome done = threads_try(
        pool, &(threads_job){.end = ceil_div(end - first, ENCODED_ROWS), .work = encode_piece, .data = &t});
    if (done.result != THREADS_DONE && e) *e = t.errors[done.thread];
    free(t.errors);
    return done.result == THREADS_DONE;
}

static bool encode_tensor(const validation *v, size_t tensor, uint8_t *blocks, gq_error *e) {
    return encode_with(v, sweep_pool(&v->sweep), tensor, 0, shape_rows(v->of->tensors[tensor]->ne), blocks,
                       e);
}

/* ---- mean squares, which the records of the sweep have ---- */

/* Notes where the checkpoint has each tensor's entry. */
static bool find_records(validation *v, size_t sweep_records, gq_error *e) {
    uint64_t at = 0, n;
    for (size_t i = 0; i < sweep_records; i++) {
        uint64_t record = at;
        uint8_t *bytes = checkpoint_next(v->saved, &at, &n, e);
        if (!bytes) return false;
        calibrate_entry entry;
        for (uint64_t in = 0; record_next(bytes, n, &in, v->of, &entry, NULL);)
            if (entry.output == v->output) v->records[entry.tensor] = record;
        free(bytes);
    }
    return true;
}

static bool take_squares(validation *v, const calibrate_entry *entry, const uint8_t *from, gq_error *e) {
    size_t bytes = entry->squares * sizeof(float);
    if (!bytes) return true;
    float *to = v->squares[entry->tensor] = malloc(bytes);
    if (!to) return gq_fail_memory(e, bytes);
    memcpy(to, from, bytes);
    return true;
}

/* Reads the mean squares of the output's tensors that the record at `record` has. */
static bool read_squares(validation *v, uint64_t record, gq_error *e) {
    uint64_t n;
    uint8_t *bytes = checkpoint_next(v->saved, &record, &n, e);
    const uint8_t *squares;
    calibrate_entry entry;
    bool ok = bytes;
    for (uint64_t in = 0; ok && record_next(bytes, n, &in, v->of, &entry, &squares);)
        if (entry.output == v->output && !v->squares[entry.tensor]) ok = take_squares(v, &entry, squares, e);
    free(bytes);
    return ok;
}

static void drop_squares(validation *v) {
    for (size_t i = 0; i < v->of->n_tensors; i++) free(v->squares[i]), v->squares[i] = NULL;
}

/* ---- a layer with other blocks ---- */

/* Blocks of experts are made or read when they are multiplied, where the calibration does so as well. */
typedef struct blocks_source {
    validation *v;
    bool is_plain;
} blocks_source;

static bool read_blocks(void *data, const model_tensor *t, uint64_t first, void *to, size_t n, gq_error *e) {
    const blocks_source *s = data;
    const calibration *of = s->v->of;
    size_t i = 0;
    while (of->tensors[i] != t) i++;
    if (!s->is_plain) return of->store.read(of->store.data, s->v->output, i, first, to, n, e);
    uint64_t row_bytes = of->outputs[s->v->output][i].out_bytes / shape_rows(t->ne), row = first / row_bytes,
             end = ceil_div(first + n, row_bytes);
    uint8_t *rows = memory_lines(end - row, row_bytes, e);
    bool ok = rows && encode_rows(s->v, i, row, end, rows, e);
    if (ok) memcpy(to, rows + (first - row * row_bytes), n);
    free(rows);
    return ok;
}

static bool replace_tensor(validation *v, forward_layer *l, size_t i, blocks_source *from, gq_error *e) {
    const calibration *of = v->of;
    const model_tensor *t = of->tensors[i];
    const gq_tensor *to = &of->outputs[v->output][i];
    if (from->is_plain && !tensor_type_of(to->to)->quantized)
        return true; /* a router as it is in the model */
    if (of->memory.reads_blocks && calibrate_reads_blocks(t)) {
        forward_layer_replace_read(l, t, to->to, (forward_blocks){read_blocks, from});
        return true;
    }
    if (!(v->blocks[i] = memory_lines(to->out_bytes, 1, e))) return false;
    if (!(from->is_plain ? encode_tensor(v, i, v->blocks[i], e)
                         : of->store.read(of->store.data, v->output, i, 0, v->blocks[i], to->out_bytes, e)))
        return false;
    forward_layer_replace(l, t, to->to, v->blocks[i]);
    return true;
}

/* Whether stream k has a group's layers encoded plainly. */
static bool is_plain_in(const validation *v, size_t k, size_t group) {
    return v->groups[v->first + k - 1] >> group & 1;
}

/* Passes the layer, of the given group, with one kind of blocks, in all streams that have these there. */
static bool pass_with(validation *v, forward_layer *l, size_t group, bool is_plain, gq_error *e) {
    blocks_source from = {v, is_plain};
    bool ok = true, any = false;
    for (size_t k = 1; k < v->streams; k++) any = any || is_plain_in(v, k, group) == is_plain;
    if (!any) return true;
    for (size_t i = 0; ok && i < v->of->n_tensors; i++)
        if (at_hand(v, i)) ok = replace_tensor(v, l, i, &from, e);
    forward_layer_use(l, true);
    for (size_t k = 1; ok && k < v->streams; k++)
        if (is_plain_in(v, k, group) == is_plain)
            ok = forward_stream_pass(v->sweep.streams[k], l, FORWARD_WHOLE, NULL, e);
    forward_layer_use(l, false);
    for (size_t i = 0; i < v->of->n_tensors; i++) {
        if (at_hand(v, i)) forward_layer_replace(l, v->of->tensors[i], 0, NULL);
        free(v->blocks[i]), v->blocks[i] = NULL;
    }
    return ok;
}

static bool on_layer(void *data, forward_layer *l, gq_error *e) {
    validation *v = data;
    size_t group = 0;
    bool ok = true;
    sweep_name_phase(&v->sweep, "validation");
    for (size_t i = 0; ok && i < v->of->n_tensors; i++) {
        if (!at_hand(v, i)) continue;
        group = validation_group(v->of, i);
        if (!v->squares[i]) ok = read_squares(v, v->records[i], e);
    }
    ok = ok && forward_stream_pass(v->sweep.streams[0], l, FORWARD_WHOLE, NULL, e) &&
         pass_with(v, l, group, false, e) && pass_with(v, l, group, true, e);
    drop_squares(v);
    return ok;
}

/* All variants begin with the embedding as it is written. */
static bool embed_variants(void *data, gq_error *e) {
    validation *v = data;
    const model_tensor *embedding = forward_model_sizes(v->of->streams[0])->embedding;
    size_t i = 0;
    while (i < v->of->n_tensors && v->of->tensors[i] != embedding) i++;
    bool ok = forward_stream_embed(v->sweep.streams[0], NULL, e);
    for (size_t k = 1; ok && k < v->streams; k++)
        ok = i < v->of->n_tensors ? embedding_start(v->of, v->output, i, NULL, false, v->sweep.streams[k], e)
                                  : forward_stream_embed(v->sweep.streams[k], NULL, e);
    return ok;
}

/* The KL divergence of stream k at the position that comes next. */
static double *kld_of(const validation *v, size_t k) {
    return &v->kld[(v->first + k - 2) * v->job.windows * v->job.context + v->positions];
}

static bool add_position(void *data, const kld *d, size_t position, size_t next, double weight, gq_error *e) {
    validation *v = data;
    (void)next, (void)e;
    for (size_t k = 1; k < v->streams; k++) *kld_of(v, k) = kld_at(d, position, k).kld;
    v->weight[v->positions++] = weight;
    return true;
}

/* Embeddings of whole windows stand in for predictions: 1 less the cosine of the angle between them. */
static bool add_embeddings(void *data, size_t first, size_t windows, const double *const *vectors,
                           gq_error *e) {
    validation *v = data;
    size_t n = forward_model_sizes(v->of->streams[0])->embedded;
    (void)first, (void)e;
    for (size_t w = 0; w < windows; w++, v->positions++) {
        for (size_t k = 1; k < v->streams; k++)
            *kld_of(v, k) = forward_distance(vectors[0] + w * n, vectors[k] + w * n, n);
        v->weight[v->positions] = 1;
    }
    return true;
}

size_t validation_streams(const forward_job *j, const forward_model *m, size_t most, forward_bounds *bounds) {
    const forward_model *models[VALIDATION_STREAMS];
    for (size_t k = 0; k < VALIDATION_STREAMS; k++) models[k] = m;
    for (size_t n = most;; n--) {
        *bounds = forward_bounds_of(j, models, n, true);
        if (n == 2 || bounds->peak <= j->memory) return n;
    }
}

/* Runs the base model and the variants at hand. */
static bool run_some(validation *v, const forward_bounds *bounds, gq_error *e) {
    const calibration *of = v->of;
    const forward_model *m = of->streams[0], *models[VALIDATION_STREAMS];
    for (size_t k = 0; k < v->streams; k++) models[k] = m;
    sweep_plan p = {
        .text = {.job = v->job, .bounds = *bounds},
        .models = models,
        .n_streams = v->streams,
        .numbers = of->numbers,
        .n_layers = of->n_layers,
        .folder = of->memory.probes.folder,
        .progress = {.within = v->progress, .layer_work = v->reported_each, .logits_work = v->reported_each}};
    if (of->memory.reads_blocks && !p.text.bounds.layer) p.text.bounds.layer = of->text.bounds.layer;
    const forward_predictions all = {.job = &v->job, .model = m, .at = add_position, .data = v};
    const forward_pooled pooled = {add_embeddings, v};
    v->positions = 0;
    bool ok = sweep_open(&v->sweep, &p, e) &&
              sweep_run(&v->sweep, &(sweep_calls){.before = embed_variants, .on = on_layer, .data = v}, e) &&
              (forward_model_sizes(m)->embeds
                   ? forward_run_embeddings(v->sweep.run, v->sweep.streams, v->streams, &pooled, e)
                   : forward_run_predictions(v->sweep.run, v->sweep.streams, v->streams, &all, e));
    sweep_close(&v->sweep);
    return ok;
}

/* Runs the variants from `first` on, as many side by side as the memory holds; v->groups and v->n say which. */
static bool run_variants(validation *v, size_t first, gq_error *e) {
    forward_bounds bounds;
    size_t most = validation_streams(&v->job, v->of->streams[0], v->n - first + 1, &bounds);
    for (v->first = first; v->first < v->n; v->first += v->streams - 1) {
        v->streams = min(most, v->n - v->first + 1);
        if (!run_some(v, &bounds, e)) return false;
    }
    return true;
}

/* ---- the decision ---- */

/* The weighted mean of a variant's KL divergence. */
static double mean_of(const validation *v, size_t k) {
    const double *d = v->kld + (k - 1) * v->job.windows * v->job.context;
    double sum = 0, weights = 0;
    for (size_t i = 0; i < v->positions; i++) sum += v->weight[i] * d[i], weights += v->weight[i];
    return sum / weights;
}

/* Whether variant a is better than b. What is not finite is never better, and worse than what is. */
static bool is_better(const validation *v, size_t a, size_t b) {
    return isfinite(mean_of(v, a)) && !(mean_of(v, a) >= mean_of(v, b));
}

/* Whether variant a is better than b by more than chance: the mean of their paired difference is beyond two of its
 * standard errors. A few tokens have most of the KL divergence, and one group of several looks better by them
 * alone. */
static bool is_surely_better(const validation *v, size_t a, size_t b) {
    const double *of = v->kld, sure = 2;
    size_t n = v->job.windows * v->job.context;
    double gain = mean_of(v, b) - mean_of(v, a), weights = 0, squares = 0;
    if (!isfinite(gain)) return is_better(v, a, b);
    for (size_t i = 0; i < v->positions; i++) {
        double off = v->weight[i] * (of[(b - 1) * n + i] - of[(a - 1) * n + i] - gain);
        weights += v->weight[i], squares += off * off;
    }
    return gain * weights > sure * sqrt(squares);
}

/* First all whole variants and those without one group, then, where groups fall back, what is left. */
static bool decide(validation *v, validation_record *to, gq_error *e) {
    v->n = 3, v->groups[1] = ALL_GROUPS, v->groups[2] = 0;
    for (size_t g = 0; g < VALIDATION_GROUPS; g++) v->groups[v->n++] = UINT64_C(1) << g;
    if (!run_variants(v, 1, e)) return false;
    *to = (validation_record){.positions = 0};
    if (!v->positions) return true; /* no token of these windows counts */
    *to = (validation_record){
        .positions = v->positions, .plain_error = mean_of(v, 1), .calibrated = mean_of(v, 2)};
    to->written = to->calibrated;
    for (size_t g = 0; g < VALIDATION_GROUPS; g++)
        if (is_surely_better(v, 3 + g, 2)) to->fallback |= UINT64_C(1) << g;
    if (!to->fallback && is_better(v, 2, 1)) return true;
    if (to->fallback && to->fallback != ALL_GROUPS) {
        v->n = 4, v->groups[3] = to->fallback;
        if (!run_variants(v, 3, e)) return false;
        to->written = mean_of(v, 3);
        if (is_better(v, 3, 1)) return true;
    }
    to->fallback = ALL_GROUPS, to->written = to->plain_error;
    return true;
}

static void validation_close(validation *v) {
    if (v->squares) drop_squares(v);
    free(v->block), free(v->records), free(v->squares), free(v->blocks), free(v->kld), free(v->weight);
    validation_job_free(&v->job);
}

static bool validation_open(validation *v, const calibration *job, const checkpoint *saved, size_t output,
                            sweep_progress *progress, gq_error *e) {
    size_t n = job->n_tensors + 1;
    *v = (validation){.of = job, .saved = saved, .output = output, .progress = progress};
    if (!validation_job_new(&v->job, &job->settings, &job->text, e)) return false;
    v->job.extra_bytes = job->memory.validation;
    size_t positions = v->job.windows * v->job.context + 1;
    v->block = calloc(n, sizeof *v->block);
    v->records = calloc(n, sizeof *v->records), v->squares = calloc(n, sizeof *v->squares);
    v->blocks = calloc(n, sizeof *v->blocks), v->weight = calloc(positions, sizeof *v->weight);
    v->kld = calloc(VALIDATION_STREAMS * positions, sizeof *v->kld);
    return (v->block && v->records && v->squares && v->blocks && v->weight && v->kld) ||
           gq_fail_memory(e, n * 4 * sizeof(void *) + VALIDATION_STREAMS * positions * sizeof(double));
}

static bool decide_all(const calibration *job, checkpoint *saved, sweep_progress *progress, gq_error *e) {
    validation_record *records = calloc(job->n_outputs, sizeof *records);
    bool ok = records || gq_fail_memory(e, job->n_outputs * sizeof *records);
    size_t sweep_records = saved->finished;
    double begin = progress->done,
           share = VALIDATION_SHARE * (progress->work - begin) / (double)job->n_outputs;
    for (size_t o = 0; ok && o < job->n_outputs; o++) {
        validation v;
        ok = validation_open(&v, job, saved, o, progress, e);
        double work = VALIDATION_PASSES * forward_job_work(&v.job, job->streams[0], true);
        v.reported_each = work > 0 ? share / work : 0;
        sweep_progress_span(progress, begin + share * (double)o, begin + share * (double)(o + 1));
        if (ok && v.job.windows && find_blocks(&v))
            ok = find_records(&v, sweep_records, e) && decide(&v, &records[o], e);
        validation_close(&v);
    }
    ok = ok && checkpoint_add(saved, NULL, records, job->n_outputs * sizeof *records, e);
    free(records);
    return ok;
}

/* ---- falling back ---- */

validation_record *validation_records(const checkpoint *saved, const calibration *job, size_t swept,
                                      gq_error *e) {
    size_t size = job->n_outputs * sizeof(validation_record);
    validation_record *to = calloc(job->n_outputs, sizeof *to);
    uint64_t at = 0, n = 0;
    uint8_t *bytes = NULL;
    bool ok = to || gq_fail_memory(e, size);
    for (size_t i = 0; ok && saved->finished > swept && i <= swept; i++)
        free(bytes), ok = (bytes = checkpoint_next(saved, &at, &n, e));
    if (ok && bytes)
        ok = n == size ||
             gq_fail(e, "%s: the validation's record is damaged; remove this file and start again",
                     saved->path);
    if (ok && bytes) memcpy(to, bytes, size);
    free(bytes);
    if (!ok) free(to), to = NULL;
    return to;
}

/* Writes a tensor anew, encoded plainly, and adds its entry. */
static bool fall_back(validation *v, threads_pool *pool, const calibrate_entry *was, calibrate_record *to,
                      gq_error *e) {
    const calibration *of = v->of;
    size_t i = was->tensor;
    uint64_t rows = shape_rows(of->tensors[i]->ne), bytes = of->outputs[v->output][i].out_bytes / rows, n;
    uint64_t most = mul_sat(ENCODED_ROWS, (uint64_t)threads_pool_most(pool));
    uint8_t *blocks = memory_lines(min(most, rows), bytes, e);
    bool ok = blocks;
    for (uint64_t row = 0; ok && row < rows; row += n) {
        n = min(most, rows - row);
        ok = sweep_progress_report(v->progress, 0, of->outputs[v->output][i].name, e) &&
             encode_with(v, pool, i, row, row + n, blocks, e) &&
             of->store.write(of->store.data, v->output, i, row * bytes, blocks, n * bytes, e);
    }
    free(blocks);
    calibrate_entry entry = *was;
    entry.reason = ROUND_FELL_BACK, entry.squares = 0;
    entry.figures.plain = entry.figures.matrices, entry.figures.written = entry.figures.plain_error;
    for (calibrate_step s = 0; s < CALIBRATE_STEPS; s++) entry.figures.steps[s].kept = 0;
    return ok && record_add(to, &entry, NULL, e);
}

/* Goes through the records of the sweep. */
static bool fall_back_output(validation *v, threads_pool *pool, const validation_record *decided,
                             size_t sweep_records, calibrate_record *to, gq_error *e) {
    uint64_t at = 0, n;
    bool ok = true;
    for (size_t i = 0; ok && i < sweep_records; i++) {
        uint8_t *bytes = checkpoint_next(v->saved, &at, &n, e);
        const uint8_t *squares;
        calibrate_entry entry;
        ok = bytes;
        for (uint64_t in = 0; ok && record_next(bytes, n, &in, v->of, &entry, &squares);)
            if (entry.output == v->output && validation_drops(decided, v->of, entry.tensor))
                ok = take_squares(v, &entry, squares, e) && fall_back(v, pool, &entry, to, e);
        drop_squares(v);
        free(bytes);
    }
    return ok;
}

static bool fall_back_all(const calibration *job, checkpoint *saved, sweep_progress *progress, gq_error *e) {
    size_t sweep_records = saved->finished - 1;
    calibrate_record written = {.n = 0};
    validation_record *decided = validation_records(saved, job, sweep_records, e);
    threads_pool *pool = decided ? threads_pool_new(job->text.job.threads) : NULL;
    bool ok = decided && (pool || gq_fail_memory(e, 0));
    for (size_t o = 0; ok && o < job->n_outputs; o++) {
        validation v;
        if (!decided[o].fallback) continue;
        ok = validation_open(&v, job, saved, o, progress, e) &&
             fall_back_output(&v, pool, &decided[o], sweep_records, &written, e);
        validation_close(&v);
    }
    ok = ok && record_sum_up(&written, job, e) && job->store.sync(job->store.data, e) &&
         checkpoint_add(saved, NULL, written.bytes, written.n, e);
    free(written.bytes), free(decided), threads_pool_free(pool);
    return ok;
}

bool validate_outputs(const calibration *job, checkpoint *saved, size_t swept, sweep_progress *progress,
                      gq_error *e) {
    return (saved->finished > swept || decide_all(job, saved, progress, e)) &&
           (saved->finished > swept + 1 || fall_back_all(job, saved, progress, e));
}
