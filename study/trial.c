#include "study/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/draft/draft.h"
#include "forward/stream/kld.h"

/* ---- which tensors are tried together ---- */

/* Returns the index of a coarse type that has been measured; BUDGET_TYPES: none has. */
static size_t type_to_try(const measured *m) {
    static const uint32_t types[] = {GGUF_Q3_K, GGUF_Q4_0, GGUF_Q8_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t k = 0; k < BUDGET_TYPES; k++)
            if (budget_types[k] == types[i] && m->error[k] > 0 && isfinite(m->error[k])) return k;
    return BUDGET_TYPES;
}

/* Whether tensor i is the output matrix, which needs no trial. */
static bool trials_is_output(const trials *t, size_t i) {
    const forward_sizes *s = forward_model_sizes(t->of->model);
    return t->plan->sources[i].tensor == s->out && !s->embeds;
}

bool trials_in_layer(const trials *t, size_t i, int64_t layer) {
    const model_tensor *tensor = t->plan->sources[i].tensor;
    if (layer < 0 ? tensor != forward_model_sizes(t->of->model)->embedding
                  : trials_is_output(t, i) || (int64_t)forward_layer_of(t->of->model, tensor->name) != layer)
        return false;
    return t->wanted[i] && (layer < 0 || forward_feeds(t->of->model, tensor));
}

/* The same of an MTP layer. */
static bool trials_in_block(const trials *t, size_t i, const forward_model *block) {
    const model_tensor *tensor = t->plan->sources[i].tensor;
    model_block b;
    return t->wanted[i] && model_block_leads(tensor->name, &b) && b.number == forward_mtp_layer(block) &&
           forward_feeds(t->of->model, tensor);
}

size_t trials_layers(const gq_plan *plan) {
    return plan->rounding->calibration->facts.layers / plan->rounding->calibration->job.loops;
}

/* Tensors of a layer that go together. On model A errors of attn_q and attn_k cost the same within a factor of
 * 2, and those of ffn_gate and ffn_up within 1.6, while one layer's cost up to a hundred times another's. */
static const char *const trial_groups[][TRIAL_TENSORS] = {{"attn_q.", "attn_k.", "attn_v."},
                                                          {"ffn_gate.", "ffn_up."},
                                                          {"ffn_gate_exps.", "ffn_up_exps."},
                                                          {"ffn_gate_shexp.", "ffn_up_shexp."}};

/* Returns the row of trial_groups that a tensor is in; SIZE_MAX: none. */
static size_t trial_group_of(const model_tensor *t) {
    model_block block;
    if (!model_block_in(t->name, &block)) return SIZE_MAX;
    for (size_t i = 0; i < sizeof trial_groups / sizeof *trial_groups; i++)
        for (size_t k = 0; k < TRIAL_TENSORS && trial_groups[i][k]; k++)
            if (!strncmp(block.rest, trial_groups[i][k], strlen(trial_groups[i][k]))) return i;
    return SIZE_MAX;
}

/* Returns the trial, from number `first` on, that a tensor joins, or a new one. */
static trial *trial_for(trials *t, size_t first, const model_tensor *tensor) {
    size_t group = t->is_grouped ? trial_group_of(tensor) : SIZE_MAX;
    for (size_t i = first; i < t->n && group != SIZE_MAX; i++)
        if (t->tried[i].n < TRIAL_TENSORS &&
            trial_group_of(t->plan->sources[t->tried[i].tensor[0]].tensor) == group)
            return &t->tried[i];
    t->tried[t->n] = (trial){.n = 0};
    return &t->tried[t->n++];
}

/* block: NULL: a layer's. */
static void trials_add_layer(trials *t, int64_t layer, const forward_model *block) {
    size_t first = t->n;
    for (size_t i = 0; i < t->plan->n_tensors; i++) {
        size_t type = t->found ? type_to_try(&t->found[i]) : 0;
        if (type == BUDGET_TYPES || !(block ? trials_in_block(t, i, block) : trials_in_layer(t, i, layer)))
            continue;
        trial *own = trial_for(t, first, t->plan->sources[i].tensor);
        own->block = block;
        own->tensor[own->n] = i, own->type[own->n++] = type;
    }
}

void trials_choose(trials *t, size_t layers) {
    size_t all = trials_layers(t->plan), last = SIZE_MAX;
    const plan_layers *left = &t->plan->layers;
    t->n = 0;
    trials_add_layer(t, -1, NULL);
    for (size_t i = 0; i < layers; i++) {
        size_t at = layers > 1 ? i * (all - 1) / (layers - 1) : (all - 1) / 2;
        if (at != last) trials_add_layer(t, (int64_t)(left->n ? left->kept[at] : at), NULL);
        last = at;
    }
    for (size_t k = 0; k < forward_model_mtp_layers(t->of->model); k++)
        trials_add_layer(t, 0, forward_model_mtp_layer(t->of->model, k));
}

size_t trials_of_block(const trials *t, const forward_model *block, size_t *first) {
    size_t n = 0;
    for (*first = 0; *first < t->n && t->tried[*first].block != block;) ++*first;
    while (*first + n < t->n && t->tried[*first + n].block == block) n++;
    return n;
}

void trials_decide_groups(trials *t) {
    t->is_grouped = false;
    trials_choose(t, trials_layers(t->plan));
    t->is_grouped = t->n > MOST_TRIALS;
}

/* ---- coarse blocks ---- */

typedef struct coarse {
    const gq_plan *plan;
    const plan_source *source;
    const tensor_type *type;
    uint8_t *blocks;
} coarse;

static bool encode_piece(void *arg, work_piece *p, gq_error *e) {
    const coarse *c = arg;
    strip_buffers *scratch = p->scratch;
    const model_tensor *t = c->source->tensor;
    uint64_t piece = strip_whole(t, STRIP_PIECE), at = p->number * piece;
    uint64_t end = min(shape_elements(t->ne), at + piece);
    strip_encoder to = {.kernels = c->plan->kernels, .type = c->type, .settings = &c->plan->settings};
    while (at < end) {
        strip s = strip_from(t->ne, at, end - at < STRIP_ELEMENTS ? end : at + STRIP_ELEMENTS);
        size_t n = s.rows * s.cols;
        codec_error sum = {0};
        to.importance = tensor_inputs_at(&c->source->inputs, s.matrix, s.column);
        if (!strip_read_decoded(c->plan->kernels, &c->plan->model, t, at, n, scratch->stored[0],
                                scratch->decoded[0], e))
            return false;
        size_t held = strip_encode(&to, scratch->decoded[0], s.rows, s.cols, scratch->stored[1],
                                   scratch->decoded[1], &sum);
        if (held < n)
            return strip_fail_to_hold(&to, &c->plan->model, t, at + held, scratch->decoded[0][held], e);
        memcpy(c->blocks + tensor_type_bytes(c->type, t->ne[0], at), scratch->stored[1],
               tensor_type_bytes(c->type, s.cols, n));
        at += n;
    }
    return true;
}

uint8_t *trial_encode(const trials *t, const trial *of, size_t k, gq_error *e) {
    coarse c = {t->plan, &t->plan->sources[of->tensor[k]], tensor_type_of(budget_types[of->type[k]]), NULL};
    const uint64_t *ne = c.source->tensor->ne, n = shape_elements(ne),
                   bytes = tensor_type_bytes(c.type, ne[0], n);
    schedule s = {.pool = NULL};
    c.blocks = malloc(bytes);
    if (!c.blocks) return gq_fail_memory(e, bytes), NULL;
    bool ok =
        schedule_start(&s, t->job.threads, sizeof(strip_buffers), NULL, e) &&
        schedule_run(
            &s, &(schedule_job){.end = strip_pieces(c.source->tensor), .work = encode_piece, .arg = &c}, e);
    schedule_end(&s);
    if (!ok) free(c.blocks), c.blocks = NULL;
    return c.blocks;
}

bool trial_replace(const trials *t, trial *of, forward_layer *l, gq_error *e) {
    bool ok = true;
    for (size_t k = 0; ok && k < of->n; k++) {
        ok = (of->blocks[k] = trial_encode(t, of, k, e)) != NULL;
        forward_layer_replace(l, t->plan->sources[of->tensor[k]].tensor, budget_types[of->type[k]],
                              of->blocks[k]);
    }
    forward_layer_use(l, true);
    return ok;
}

void trial_restore(const trials *t, trial *of, forward_layer *l) {
    forward_layer_use(l, false);
    for (size_t k = 0; k < of->n; k++) {
        forward_layer_replace(l, t->plan->sources[of->tensor[k]].tensor, budget_types[of->type[k]], NULL);
        free(of->blocks[k]), of->blocks[k] = NULL;
    }
}

/* ---- KL divergences ---- */

/* sum h_j W_vj^2 of a row of the output matrix. */
static bool row_power(const trials *t, size_t output, uint32_t row, double *power, gq_error *e) {
    const plan_source *s = &t->plan->sources[output];
    const float *h = tensor_inputs_at(&s->inputs, 0, 0);
    uint64_t n = s->tensor->ne[0];
    const float *w = t->scratch->decoded[0];
    *power = 0;
    for (uint64_t at = 0; at < n; at += STRIP_ELEMENTS) {
        size_t count = n - at < STRIP_ELEMENTS ? n - at : STRIP_ELEMENTS;
        if (!strip_read_decoded(t->plan->kernels, &t->plan->model, s->tensor, row * n + at, count,
                                t->scratch->stored[0], t->scratch->decoded[0], e))
            return false;
        for (size_t i = 0; i < count; i++) *power += (double)h[at + i] * w[i] * w[i];
    }
    return true;
}

/* The tensor that makes the logits, where its KLD increase is wanted: the model's, or a block's own. */
static size_t wanted_output(const trials *t, const forward_model *m) {
    size_t i = 0;
    const forward_sizes *s = forward_model_sizes(m);
    if (s->embeds || (forward_mtp_of(m) && !forward_mtp_has_head(m))) return t->plan->n_tensors;
    while (i < t->plan->n_tensors &&
           !(t->wanted[i] && t->plan->sources[i].tensor == s->out && t->plan->sources[i].inputs.columns))
        i++;
    return i;
}

static bool add_figures(void *data, const kld *d, size_t position, size_t next, double weight, gq_error *e) {
    trials *t = data;
    double power = 0;
    t->pass.places += weight;
    for (size_t k = 0; k < t->pass.n; k++)
        t->tried[t->pass.first + k].kld += weight * kld_at(d, position, k + 1).kld;
    if (t->pass.output < t->plan->n_tensors &&
        !row_power(t, t->pass.output, forward_job_right(&t->job, next), &power, e))
        return false;
    t->pass.nll += -weight * expm1(kld_at(d, position, 0).log_p) * power;
    return true;
}

/* The same of embeddings: a window's KL divergence is their cosine distance. */
static bool add_distances(void *data, size_t first_window, size_t windows, const double *const *vectors,
                          gq_error *e) {
    trials *t = data;
    size_t n = forward_model_sizes(t->of->model)->embedded;
    (void)first_window, (void)e;
    t->pass.places += (double)windows;
    for (size_t w = 0; w < windows; w++)
        for (size_t k = 0; k < t->pass.n; k++)
            t->tried[k].kld += forward_distance(vectors[0] + w * n, vectors[k + 1] + w * n, n);
    return true;
}

/* Stream 0 is the base model's, and the trials of a block run by turns on its states. */
static bool use_coarse_block(void *data, size_t stream, forward_layer *l, bool is_done, gq_error *e) {
    trials *t = data;
    if (stream == 0) return true;
    trial *of = &t->tried[t->pass.first + stream - 1];
    if (!is_done) return trial_replace(t, of, l, e);
    trial_restore(t, of, l);
    return true;
}

/* Adds the KLD increase of the output matrix by the logits of a pass. */
static void add_output_increase(trials *t) {
    const trial_pass *p = &t->pass;
    double factor = forward_model_sizes(p->model)->logit_factor;
    if (p->output < t->plan->n_tensors && p->nll > 0 && isfinite(p->nll))
        t->found[p->output].sensitivity =
            fmax(t->found[p->output].sensitivity, 0) + .5 * factor * factor * p->nll / p->places;
}

static bool find_figures(trials *t, gq_error *e) {
    const forward_pooled pooled = {.windows = add_distances, .data = t};
    const forward_predictions all = {
        .job = &t->job, .model = t->of->model, .at = add_figures, .block = use_coarse_block, .data = t};
    t->streams[0] = t->sweep.streams[0];
    for (size_t i = 0; i < t->pass.n; i++) {
        forward_stream *own = t->tried[t->pass.first + i].stream;
        t->streams[1 + i] = own ? own : t->streams[0];
    }
    if (forward_model_sizes(t->pass.model)->embeds)
        return forward_run_embeddings(t->sweep.run, t->streams, 1 + t->pass.n, &pooled, e);
    return forward_run_predictions(t->sweep.run, t->streams, 1 + t->pass.n, &all, e);
}

bool trials_find_figures(trials *t, gq_error *e) {
    const forward_model *m = t->of->model;
    bool ok = true;
    for (size_t k = 0; ok && k < forward_model_mtp_layers(m); k++) {
        const forward_model *block = forward_model_mtp_layer(m, k);
        t->pass = (trial_pass){.model = block, .output = wanted_output(t, block)};
        t->pass.n = trials_of_block(t, block, &t->pass.first);
        if (!t->pass.n && t->pass.output == t->plan->n_tensors) continue;
        forward_stream_mtp(t->sweep.streams[0], block);
        ok = find_figures(t, e);
        forward_stream_mtp(t->sweep.streams[0], NULL);
        if (ok) add_output_increase(t);
    }
    t->pass = (trial_pass){.model = m, .output = wanted_output(t, m)};
    t->pass.n = trials_of_block(t, NULL, &t->pass.first);
    return ok && find_figures(t, e);
}

/* ---- KLD increase ---- */

/* Sets the nats per relative squared error of a trial's tensors: the same for each. */
static void set_trial_increase(const trials *t, const trial *of, double places) {
    double mean = of->kld / places, error = 0;
    for (size_t k = 0; k < of->n; k++) {
        const measured *m = &t->found[of->tensor[k]];
        if (m->power > 0) error += m->error[of->type[k]] / m->power;
    }
    for (size_t k = 0; k < of->n && isfinite(mean) && error > 0; k++)
        if (t->found[of->tensor[k]].power > 0) t->found[of->tensor[k]].sensitivity = fmax(mean, 0) / error;
}

/* Takes over the KLD increase of the trial's tensor of the same name, if its layer is nearer than those so far. */
static void take_nearer_increase(const trials *t, const trial *of, const model_block *own, uint64_t *nearest,
                                 double *sensitivity) {
    model_block other;
    for (size_t k = 0; k < of->n; k++) {
        const measured *tried = &t->found[of->tensor[k]];
        if (tried->sensitivity < 0 || !model_block_in(t->plan->sources[of->tensor[k]].tensor->name, &other) ||
            strcmp(own->rest, other.rest))
            continue;
        uint64_t far = own->number > other.number ? own->number - other.number : other.number - own->number;
        if (far < *nearest) *nearest = far, *sensitivity = tried->sensitivity;
    }
}

/* A layer without a trial uses the result of the nearest layer's tensor of the same name, but not that of an MTP
 * layer, whose logits are others. */
static void spread_increase(const trials *t) {
    for (size_t i = 0; i < t->plan->n_tensors; i++) {
        model_block own;
        uint64_t nearest = UINT64_MAX;
        if (!t->wanted[i] || t->found[i].sensitivity >= 0 ||
            !model_block_in(t->plan->sources[i].tensor->name, &own))
            continue;
        double sensitivity = t->found[i].sensitivity;
        for (size_t k = 0; k < t->n && !t->tried[k].block; k++)
            take_nearer_increase(t, &t->tried[k], &own, &nearest, &sensitivity);
        t->found[i].sensitivity = sensitivity;
    }
}

void trials_set_kld_increase(trials *t) {
    for (size_t i = 0; i < t->n; i++) set_trial_increase(t, &t->tried[i], t->pass.places);
    add_output_increase(t);
    spread_increase(t);
}
