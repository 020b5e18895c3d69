#include "quantize/calibrate/embedding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/strips/strip.h"

/* The share of the mean diagonal of all routers' H that is added to it: what else an error of the embedding
 * does, and what every error does to a row. */
static const float EMBEDDING_DAMP = 0.3f;

enum { FIRST_ROUTER = 2, MOST_CHECKED = 512 }; /* rows of routers that the result is checked with */

/* ---- the routers ---- */

static size_t layer_at(const uint64_t *numbers, size_t i) { return numbers ? numbers[i] : i; }

bool embedding_is_routed(const forward_model *m, const uint64_t *numbers, size_t n) {
    const forward_sizes *sizes = forward_model_sizes(m);
    bool found = false;
    for (size_t i = 0; i < n; i++) found = found || forward_router_rows(m, layer_at(numbers, i)) > 0;
    return found && sizes->embedding != sizes->out;
}

typedef struct router_metric {
    const calibrate_job *of;
    size_t width;
    moments *moments;
    float *checked; /* [width][stride]: rows of routers, as tokens */
    size_t n_checked, stride;
} router_metric;

/* Turns a router's rows into columns, which count as tokens, so that their squares sum to `weight`. */
static void metric_turn(const float *rows, size_t n, size_t width, double weight, float *to, size_t stride) {
    double trace = 0;
    for (size_t i = 0; i < n * width; i++) trace += (double)rows[i] * (double)rows[i];
    float by = trace > 0 ? (float)sqrt(weight / trace) : 0;
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < width; c++) to[c * stride + r] = by * rows[r * width + c];
}

static void metric_check_with(router_metric *m, const float *columns, size_t n, size_t stride) {
    if (n > MOST_CHECKED - m->n_checked) n = MOST_CHECKED - m->n_checked;
    for (size_t c = 0; c < m->width; c++)
        memcpy(m->checked + c * m->stride + m->n_checked, columns + c * stride, n * sizeof *columns);
    m->n_checked += n;
}

static bool metric_add_layer(router_metric *m, size_t layer, double weight, gq_error *e) {
    const forward_model *model = m->of->streams[0];
    size_t n = forward_router_rows(model, layer), stride = forward_stride(n);
    float *rows = malloc(n * m->width * sizeof *rows), *columns = forward_activations(m->width, stride, e);
    bool ok = rows || gq_fail_memory(e, n * m->width * sizeof *rows);
    ok = ok && columns && forward_router_read(model, layer, rows, e);
    if (ok) {
        metric_turn(rows, n, m->width, weight, columns, stride);
        moments_add(m->moments, NULL, 0, columns, stride, n);
        moments_end_group(m->moments);
        metric_check_with(m, columns, n, stride);
    }
    free(rows), free(columns);
    return ok;
}

static bool metric_add_layers(router_metric *m, gq_error *e) {
    const calibrate_job *of = m->of;
    bool found = false;
    for (size_t i = 0; i < of->n_layers; i++) {
        size_t layer = layer_at(of->numbers, i);
        if (!forward_router_rows(of->streams[0], layer)) continue;
        if (!metric_add_layer(m, layer, found ? 1 : FIRST_ROUTER, e)) return false;
        found = true;
    }
    return true;
}

/* ---- rounding ---- */

static bool round_by_metric(const round_task *t, router_metric *m, calibrate_figures *sums, round_reason *why,
                            gq_error *e) {
    moments_factored f = {.tokens = 0};
    round_task task = *t;
    moments_settings settings = {.damp = EMBEDDING_DAMP, .mean_damping = true};
    bool ok = metric_add_layers(m, e) && moments_factor(m->moments, settings, &f, e);
    task.inputs = (round_inputs){.factored = &f,
                                 .original = m->checked,
                                 .rounded = m->checked,
                                 .held = m->n_checked,
                                 .stride = m->stride,
                                 .is_embedding = true};
    ok = ok && round_matrix(&task, sums, why, e);
    moments_factored_free(&f);
    return ok;
}

bool embedding_round(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e) {
    const calibrate_job *of = t->of;
    size_t width = of->tensors[t->tensor]->ne[0], most = of->settings->width;
    router_metric m = {.of = of, .width = width, .stride = forward_stride(MOST_CHECKED)};
    moments_shape shape = {.columns = width, .width = most < width ? most : width};
    m.moments = moments_new(of->kernels, shape, matmul_pool(t->products), e);
    m.checked = m.moments ? forward_activations(width, m.stride, e) : NULL;
    bool ok = m.checked && round_by_metric(t, &m, sums, why, e);
    sums->width = shape.width;
    moments_free(m.moments), free(m.checked);
    return ok;
}

/* ---- the stream ---- */

/* Rows of an output's embedding as they are written. */
typedef struct embedding_rows {
    const calibrate_job *of;
    size_t output, number;
    const model_tensor *from;
    const gguf_type *to;
    uint8_t *raw, *blocks;
    const uint8_t *kept; /* all that was written; NULL: it is in the file */
} embedding_rows;

/* Reads the blocks that were written. */
static bool read_written(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e) {
    const embedding_rows *m = data;
    const calibrate_store *store = &m->of->store;
    size_t width = m->from->ne[0], bytes = gguf_type_bytes(m->to, width);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *of_row = m->kept ? m->kept + ids[i] * (uint64_t)bytes : m->blocks;
        if (!m->kept &&
            !store->read(store->data, m->output, m->number, ids[i] * (uint64_t)bytes, m->blocks, bytes, e))
            return false;
        m->of->kernels->codecs[m->to->id].decode(of_row, rows + i * width, width);
    }
    return true;
}

/* Encodes rows by search alone, each for itself. */
static bool read_searched(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e) {
    const embedding_rows *m = data;
    const calibrate_job *of = m->of;
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
        codecs[m->to->id].decode(m->blocks, rows + i * width, some * width);
    }
    return true;
}

bool embedding_start(const calibrate_job *job, size_t output, size_t number, const uint8_t *blocks,
                     forward_stream *stream, gq_error *e) {
    const model_tensor *from = job->tensors[number];
    const gq_tensor *planned = &job->outputs[output][number];
    if (planned->to == from->type->id) return forward_stream_embed(stream, NULL, e);
    embedding_rows m = {job, output, number, from, gguf_type_of(planned->to), NULL, NULL, blocks};
    size_t width = from->ne[0], stored = gguf_type_bytes(from->type, width),
           bytes = gguf_type_bytes(m.to, width * CODEC_MOST_LANES);
    m.raw = malloc(stored), m.blocks = malloc(bytes);
    forward_rows rows = {planned->calibrated ? read_written : read_searched, &m};
    bool ok = m.raw && m.blocks ? forward_stream_embed(stream, &rows, e) : gq_fail_memory(e, stored + bytes);
    free(m.raw), free(m.blocks);
    return ok;
}
