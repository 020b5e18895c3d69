#include "quantize/run/calibrate_layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "quantize/run/calibrate_site.h"
#include "quantize/strips/strip.h"

/* A tensor of the plan, found by its address. */
typedef struct numbered {
    const gguf_tensor *tensor;
    size_t number;
} numbered;

/* A weight that is being rounded for the output at work; the second stream goes on with it. */
typedef struct rounded_weight {
    const gguf_tensor *tensor;
    uint8_t *blocks;
} rounded_weight;

/* What came of a tensor for an output so far. */
typedef struct progress_of {
    uint64_t settled; /* matrices */
    round_reason reason;
    gq_rounding rounding;
} progress_of;

struct calibrator {
    const gq_plan *plan;
    const plan_calibration *how;
    const output_set *outputs;
    checkpoint *kept;
    sweep sweep;
    forward_stream *original, **rounded; /* of the sweep; one per output, NULL: nothing of it is calibrated */
    matmul *products;
    threads_count threads; /* that the sweep has had */
    numbered *sorted;
    progress_of *progress;   /* output by output */
    calibrate_record record; /* of the layer at work */
    size_t output;
    forward_layer *layer; /* NULL: the output matrix */
    rounded_weight *weights;
    size_t n_weights;
};

/* ---- tensors ---- */

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const numbered *)a)->tensor, y = (uintptr_t)((const numbered *)b)->tensor;
    return (x > y) - (x < y);
}

/* The plan's number of a tensor; SIZE_MAX: it is not written. */
static size_t number_of(const calibrator *c, const gguf_tensor *t) {
    numbered wanted = {t, 0};
    const numbered *found = bsearch(&wanted, c->sorted, c->plan->n_tensors, sizeof *c->sorted, by_address);
    return found ? found->number : SIZE_MAX;
}

static uint64_t matrices_of(const gguf_tensor *t) { return t->ne[2] * t->ne[3]; }

static progress_of *progress_at(const calibrator *c, size_t tensor) {
    return &c->progress[c->output * c->plan->n_tensors + tensor];
}

/* Whether it is rounded here for the output at work. */
static bool is_calibrated(const calibrator *c, size_t tensor) {
    return c->plan->outputs[c->output].tensors[tensor].calibrated;
}

static uint64_t settled(void *data, const gguf_tensor *t) {
    const calibrator *c = data;
    size_t i = number_of(c, t);
    if (i == SIZE_MAX || !is_calibrated(c, i)) return UINT64_MAX;
    uint64_t n = progress_at(c, i)->settled;
    return n < matrices_of(t) ? n : UINT64_MAX;
}

/* Whether some output's output matrix is. */
static bool head_calibrated(const gq_plan *plan) {
    const gguf_tensor *out = forward_model_sizes(plan->calibration->model)->out;
    for (size_t i = 0; i < plan->n_tensors; i++)
        for (size_t o = 0; plan->sources[i].tensor == out && o < plan->n_outputs; o++)
            if (plan->outputs[o].tensors[i].calibrated) return true;
    return false;
}

/* ---- telling ---- */

static bool ask_round(void *data, gq_error *e) {
    calibrator *c = data;
    return sweep_tell(&c->sweep, 0, e);
}

/* ---- a site ---- */

static uint8_t *blocks_of(calibrator *c, const gguf_tensor *t, size_t number, gq_error *e) {
    for (size_t i = 0; i < c->n_weights; i++)
        if (c->weights[i].tensor == t) return c->weights[i].blocks;
    size_t bytes = c->plan->outputs[c->output].tensors[number].out_bytes;
    rounded_weight *grown = realloc(c->weights, (c->n_weights + 1) * sizeof *grown);
    if (grown) c->weights = grown;
    uint8_t *blocks = grown ? memory_lines(1, bytes, NULL) : NULL;
    if (!blocks) return gq_fail_memory(e, bytes), NULL;
    c->weights[c->n_weights++] = (rounded_weight){t, blocks};
    return blocks;
}

static void drop_weights(calibrator *c) {
    for (size_t i = 0; i < c->n_weights; i++) {
        if (c->layer) forward_layer_replace(c->layer, c->weights[i].tensor, 0, NULL);
        free(c->weights[i].blocks);
    }
    c->n_weights = 0;
}

/* All its matrices are rounded. */
static bool settle(calibrator *c, const gguf_tensor *t, size_t number, gq_error *e) {
    const progress_of *p = progress_at(c, number);
    if (c->layer)
        forward_layer_replace(c->layer, t, c->plan->outputs[c->output].tensors[number].to,
                              blocks_of(c, t, number, e));
    return record_add(
        &c->record,
        &(calibrate_entry){
            .tensor = number, .output = (uint32_t)c->output, .reason = p->reason, .rounding = p->rounding},
        e);
}

static bool round_weight(calibrator *c, const site *s, uint64_t matrix, const gguf_tensor *t,
                         const round_inputs *inputs, gq_error *e) {
    size_t number = number_of(c, t);
    progress_of *p = progress_at(c, number);
    uint64_t bytes = c->plan->outputs[c->output].tensors[number].out_bytes / matrices_of(t);
    uint8_t *blocks = c->layer ? blocks_of(c, t, number, e) : NULL;
    if (c->layer && !blocks) return false;
    round_task task = {.plan = c->plan,
                       .outputs = c->outputs,
                       .products = c->products,
                       .output = c->output,
                       .tensor = number,
                       .matrix = matrix,
                       .inputs = *inputs,
                       .kept = blocks ? blocks + matrix * bytes : NULL,
                       .pulse = ask_round,
                       .data = c};
    p->rounding.width = c->how->width < s->features ? c->how->width : s->features;
    if (!round_matrix(&task, &p->rounding, &p->reason, e)) return false;
    p->settled++;
    if (!sweep_tell(&c->sweep, (double)(t->ne[0] * t->ne[1]), e)) return false;
    return p->settled < matrices_of(t) || settle(c, t, number, e);
}

/* Held-back tokens, feature after feature, in the place of the others. */
static float *turned(const site *s, float **tokens, size_t held, size_t stride, gq_error *e) {
    float *x = forward_activations(s->features, stride ? stride : 16, e);
    for (size_t i = 0; x && i < held; i++)
        for (size_t f = 0; f < s->features; f++) x[f * stride + i] = (*tokens)[i * s->features + f];
    free(*tokens);
    *tokens = NULL;
    return x;
}

/* Of one matrix of all the site's weights. Its moments are given up. */
static bool round_site_matrix(calibrator *c, const site *s, size_t i, gq_error *e) {
    site_inputs *of = &s->inputs[i];
    moments_factored f;
    float *mean_square = calloc(s->features, sizeof *mean_square);
    if (!mean_square) return gq_fail_memory(e, s->features * sizeof *mean_square);
    moments_mean_squares(of->moments, mean_square);
    bool ok = moments_factor(of->moments, c->how->settings, &f, e);
    moments_free(of->moments);
    of->moments = NULL;
    if (!ok) return free(mean_square), false;
    round_inputs in = {.factored = &f,
                       .mean_square = f.tokens ? mean_square : NULL,
                       .held = of->held,
                       .stride = forward_stride(of->held)};
    float *original = turned(s, &of->original, of->held, in.stride, e);
    float *rounded = original ? turned(s, &of->rounded, of->held, in.stride, e) : NULL;
    in.original = original, in.rounded = rounded;
    ok = rounded;
    for (size_t w = 0; ok && w < s->n_weights; w++)
        if (settled(c, s->weights[w]) == s->first + i)
            ok = round_weight(c, s, s->first + i, s->weights[w], &in, e);
    free(original), free(rounded), free(mean_square);
    moments_factored_free(&f);
    return ok;
}

/* Gather and round until nothing is left. */
static bool round_sites(calibrator *c, forward_part part, gq_error *e) {
    for (;;) {
        site s;
        site_search search = {.how = c->how,
                              .kernels = c->plan->kernels,
                              .pool = forward_run_pool(c->sweep.run),
                              .original = c->original,
                              .rounded = c->rounded[c->output],
                              .layer = c->layer,
                              .part = part,
                              .settled = settled,
                              .data = c};
        bool ok = site_gather(&s, &search, e), found = s.n_weights > 0;
        for (size_t i = 0; ok && found && i < s.end - s.first; i++) ok = round_site_matrix(c, &s, i, e);
        site_free(&s);
        if (!ok || !found) return ok;
    }
}

/* ---- a layer ---- */

static bool pass(forward_stream *s, forward_layer *l, bool replaced, forward_part part, gq_error *e) {
    forward_layer_use(l, replaced);
    return forward_stream_pass(s, l, part, NULL, e);
}

static bool do_part(calibrator *c, forward_part part, gq_error *e) {
    bool ok = true;
    for (c->output = 0; ok && c->output < c->plan->n_outputs; c->output++) {
        forward_stream *stream = c->rounded[c->output];
        if (!stream) continue;
        ok = round_sites(c, part, e) && pass(stream, c->layer, true, part, e);
        drop_weights(c);
    }
    return ok && pass(c->original, c->layer, false, part, e);
}

static bool do_head(calibrator *c, gq_error *e) {
    bool ok = true;
    for (c->output = 0; ok && c->output < c->plan->n_outputs; c->output++)
        if (c->rounded[c->output]) ok = round_sites(c, FORWARD_WHOLE, e);
    return ok;
}

static bool do_step(void *data, forward_layer *l, gq_error *e) {
    calibrator *c = data;
    c->layer = l;
    if (!l) return do_head(c, e);
    return forward_model_splits(c->how->model)
               ? do_part(c, FORWARD_ATTENTION, e) && do_part(c, FORWARD_FFN, e)
               : do_part(c, FORWARD_WHOLE, e);
}

/* What has been rounded is safe before the record says so. */
static bool finish_step(void *data, sweep_record *to, gq_error *e) {
    calibrator *c = data;
    calibrate_record *r = &c->record;
    if (!record_sum_up(r, c->plan, c->outputs, e) || !output_sync(c->outputs, e)) return false;
    *to = (sweep_record){r->entries, r->n * sizeof *r->entries};
    *r = (calibrate_record){.n = 0};
    return true;
}

/* ---- the embedding ---- */

/* What rows of the embedding decode to in an output: they are encoded by search alone, each for itself. */
typedef struct embedding {
    const calibrator *c;
    const gguf_tensor *from;
    const gguf_type *to;
    uint8_t *raw, *blocks;
} embedding;

static bool read_rows(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e) {
    const embedding *m = data;
    const gq_plan *plan = m->c->plan;
    const codec *codecs = plan->kernels->codecs;
    size_t width = m->from->ne[0];
    strip_encoder with = {.kernels = plan->kernels, .type = m->to, .settings = &plan->settings};
    for (size_t i = 0; i < n; i++) {
        if (!strip_read_decoded(plan->kernels, &plan->model, m->from, ids[i] * (uint64_t)width, width, m->raw,
                                rows + i * width, e))
            return false;
        size_t bad = strip_beyond(&with, rows + i * width, width);
        if (bad < width)
            return strip_fail_to_hold(&with, &plan->model, m->from, ids[i] * (uint64_t)width + bad,
                                      rows[i * width + bad], e);
    }
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < CODEC_MOST_LANES ? n - i : CODEC_MOST_LANES;
        codecs[m->to->id].encode(rows + i * width, m->blocks, some, width, NULL, &plan->settings);
        codecs[m->to->id].decode(m->blocks, rows + i * width, some * width);
    }
    return true;
}

static bool embed(const calibrator *c, size_t output, gq_error *e) {
    const gguf_tensor *from = forward_model_sizes(c->how->model)->embedding;
    size_t number = number_of(c, from);
    uint32_t to = number == SIZE_MAX ? from->type->id : c->plan->outputs[output].tensors[number].to;
    if (to == from->type->id) return forward_stream_embed(c->rounded[output], NULL, e);
    embedding m = {.c = c, .from = from, .to = gguf_type_of(to)};
    size_t width = from->ne[0], stored = gguf_type_bytes(from->type, width),
           bytes = gguf_type_bytes(m.to, width * CODEC_MOST_LANES);
    m.raw = malloc(stored), m.blocks = malloc(bytes);
    forward_rows rows = {read_rows, &m};
    bool ok = m.raw && m.blocks ? forward_stream_embed(c->rounded[output], &rows, e)
                                : gq_fail_memory(e, stored + bytes);
    free(m.raw), free(m.blocks);
    return ok;
}

/* ---- all of it ---- */

static bool embed_all(void *data, gq_error *e) {
    calibrator *c = data;
    if (!forward_stream_embed(c->original, NULL, e)) return false;
    for (size_t o = 0; o < c->plan->n_outputs; o++)
        if (c->rounded[o] && !embed(c, o, e)) return false;
    return true;
}

size_t calibrator_steps(const gq_plan *plan) {
    return plan->calibration->facts.layers + head_calibrated(plan);
}

/* All weights that are rounded: what progress is measured by. */
static double weights_of(const calibrator *c) {
    double n = 0;
    for (size_t o = 0; o < c->plan->n_outputs; o++)
        for (size_t i = 0; i < c->plan->n_tensors; i++)
            if (c->plan->outputs[o].tensors[i].calibrated)
                n += (double)c->plan->outputs[o].tensors[i].n_weights;
    return n;
}

/* Nothing that the plan counts on may be left out: its place in the file would hold zeros. */
static bool all_settled(calibrator *c, gq_error *e) {
    for (c->output = 0; c->output < c->plan->n_outputs; c->output++)
        for (size_t i = 0; i < c->plan->n_tensors; i++)
            if (is_calibrated(c, i) && !progress_at(c, i)->settled)
                return gq_fail(e, "%s: tensor %s: nothing flowed into it", plan_input(c->plan),
                               c->plan->sources[i].name);
    return true;
}

/* Tensors that are finished. *done: their weights. */
static bool take_records(calibrator *c, double *done, gq_error *e) {
    uint64_t at = 0, n;
    for (size_t i = 0; i < c->kept->finished; i++) {
        uint8_t *bytes = checkpoint_next(c->kept, &at, &n, e);
        if (!bytes) return false;
        for (uint64_t k = 0; k < n / sizeof(calibrate_entry); k++) {
            calibrate_entry entry;
            memcpy(&entry, bytes + k * sizeof entry, sizeof entry);
            c->output = entry.output;
            progress_at(c, entry.tensor)->settled = matrices_of(c->plan->sources[entry.tensor].tensor);
            *done += (double)c->plan->outputs[entry.output].tensors[entry.tensor].n_weights;
        }
        free(bytes);
    }
    return true;
}

/* The steps that are not finished, of a sweep whose first stream is the original's. */
static bool run_sweep(calibrator *c, const sweep_plan *plan, gq_error *e) {
    if (!sweep_open(&c->sweep, plan, e)) return false;
    c->original = c->sweep.streams[0], c->rounded = c->sweep.streams + 1;
    c->products = matmul_new(c->plan->kernels, forward_run_pool(c->sweep.run), e);
    return c->products &&
           sweep_run(&c->sweep,
                     &(sweep_calls){.before = embed_all, .on = do_step, .after = finish_step, .data = c},
                     e) &&
           all_settled(c, e);
}

bool calibrator_run(calibrator *c, const gq_callbacks *callbacks, gq_error *e) {
    const gq_plan *plan = c->plan;
    if (c->kept->finished == calibrator_steps(plan)) return true;
    double done = 0;
    bool *absent = calloc(plan->n_outputs + 1, sizeof *absent);
    if (!absent) return gq_fail_memory(e, plan->n_outputs + 1);
    for (size_t o = 0; o < plan->n_outputs; o++) absent[1 + o] = !plan_any_calibrated(plan, o);
    bool ok = take_records(c, &done, e);
    sweep_plan p = {.job = &c->how->job,
                    .bounds = c->how->bounds,
                    .models = c->how->streams,
                    .absent = absent,
                    .n_streams = plan->n_outputs + 1,
                    .numbers = plan->layers.n ? plan->layers.kept : NULL,
                    .n_layers = c->how->facts.layers,
                    .output = head_calibrated(plan),
                    .kept = c->kept,
                    .callbacks = callbacks,
                    .work = weights_of(c),
                    .done = done,
                    .own_work = true};
    ok = ok && run_sweep(c, &p, e);
    c->threads = sweep_threads(&c->sweep);
    drop_weights(c), c->layer = NULL;
    matmul_free(c->products), c->products = NULL;
    sweep_close(&c->sweep);
    free(absent);
    return ok;
}

calibrator *calibrator_new(const gq_plan *plan, const output_set *outputs, checkpoint *kept, gq_error *e) {
    calibrator *c = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c), NULL;
    *c = (calibrator){.plan = plan, .how = plan->calibration, .outputs = outputs, .kept = kept};
    c->sorted = calloc(plan->n_tensors + 1, sizeof *c->sorted);
    c->progress = calloc(plan->n_outputs * plan->n_tensors + 1, sizeof *c->progress);
    if (!c->sorted || !c->progress) {
        gq_fail_memory(e, plan->n_outputs * plan->n_tensors * sizeof *c->progress);
        calibrator_free(c);
        return NULL;
    }
    for (size_t i = 0; i < plan->n_tensors; i++) c->sorted[i] = (numbered){plan->sources[i].tensor, i};
    qsort(c->sorted, plan->n_tensors, sizeof *c->sorted, by_address);
    return c;
}

threads_count calibrator_threads(const calibrator *c) { return c->threads; }

void calibrator_free(calibrator *c) {
    if (!c) return;
    free(c->weights);
    free(c->sorted), free(c->progress), free(c->record.entries);
    free(c);
}
