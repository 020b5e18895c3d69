#include "graph/eagle.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "graph/layer_part.h"

typedef struct eagle_numbers {
    size_t layers[EAGLE_LAYERS];
    size_t width;             /* of the target's states */
    bool has_normed_residual; /* the state's norm is what results are added to */
    bool norms_states;        /* the target's states pass a norm, all three as one */
} eagle_numbers;

typedef struct eagle_scratch {
    float *both; /* embedding and state, each behind its norm */
} eagle_scratch;

forward_model *forward_eagle_new(const model_source *file, const forward_model *target, gq_error *e) {
    forward_model *m = calloc(1, sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m), NULL;
    m->file = file, m->path = file->path, m->arch = arch_named("eagle3"), m->part_kinds = target->part_kinds;
    m->target = target, m->arithmetic = target->arithmetic;
    if (model_set_up(m, e)) return m;
    forward_model_free(m);
    return NULL;
}

const size_t *forward_eagle_layers(const forward_model *draft) {
    const eagle_numbers *n = model_numbers(draft, &part_eagle);
    return n->layers;
}

const forward_model *forward_eagle_head(const forward_model *draft) {
    return draft->sizes.out == draft->target->sizes.out ? draft->target : draft;
}

/* ---- setting up ---- */

static void eagle_read_keys(forward_model *m, key_reader *r, model_part *p) {
    eagle_numbers *n = p->numbers;
    const forward_sizes *of = &m->target->sizes;
    key_list layers = key_list_of(r, "target_layers");
    n->width = key_number_needed(r, "target_hidden_size", 1, MODEL_MOST);
    if (!layers.kv) key_number_needed(r, "target_layers", 0, 0);
    for (size_t i = 0; i < EAGLE_LAYERS; i++) n->layers[i] = key_number_at(r, &layers, i, 0, 0, MODEL_MOST);
    n->has_normed_residual = key_bool(r, "norm_before_residual", false);
    n->norms_states = key_bool(r, "norm_before_fc", false);
    if (!r->ok) return;
    if (n->width != of->width)
        key_fail(r, "target_hidden_size", "is %zu, and %s has states of %zu: it is a draft of another model",
                 n->width, m->target->path, of->width);
    for (size_t i = 0; i < EAGLE_LAYERS && r->ok; i++)
        if (n->layers[i] < 1 || n->layers[i] >= of->layers)
            key_fail(r, "target_layers", "has %zu, expected layers 1 to %zu, as %s has %zu", n->layers[i],
                     of->layers - 1, m->target->path, of->layers);
    m->mixer_width = 2 * m->sizes.width;
}

static void eagle_find_tensors(tensor_finder *f, const plan_part *p) {
    const eagle_numbers *n = p->part->numbers;
    uint64_t states = EAGLE_LAYERS * (uint64_t)n->width;
    f->l->weight[WEIGHT_EAGLE_FC] = tensors_take(f, "fc.weight", REQUIRED, SHAPE(states, f->m->sizes.width));
    f->l->weight[WEIGHT_EAGLE_NORM] =
        tensors_take(f, "enc.output_norm.weight", n->norms_states ? REQUIRED : ABSENT, SHAPE(states));
}

/* ---- a run ---- */

/* The embedding of the token stands behind the state. */
static uint64_t eagle_carried_rows(const forward_model *m, const model_part *p, size_t context) {
    (void)p, (void)context;
    return m->sizes.width;
}

static uint64_t eagle_scratch_rows(const forward_model *m, const layer_plan *l, const plan_part *p) {
    (void)m, (void)l, (void)p;
    return 0;
}

static void eagle_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    eagle_scratch *own = batch_own(b, p);
    own->both = scratch_take(s, 2 * (uint64_t)b->model->sizes.width, b->stride, sizeof *own->both);
}

static bool eagle_begin(forward_batch *b, const plan_part *p, float *x, size_t stride) {
    const eagle_numbers *n = p->part->numbers;
    const eagle_scratch *own = batch_own(b, p->part);
    size_t width = b->model->sizes.width, s = b->stride;
    float *state = own->both + width * s;
    batch_norm_slot(b, WEIGHT_ATTN_NORM, batch_carried(b, p->part), b->state_stride, width, own->both, s);
    batch_norm_slot(b, WEIGHT_ATTN_NORM_2, x, stride, width, state, s);
    if (n->has_normed_residual) batch_copy(b, x, stride, state, s, width);
    return true;
}

static const float *eagle_flows_in(forward_batch *b, const plan_part *p, size_t *stride) {
    const eagle_scratch *own = batch_own(b, p->part);
    *stride = b->stride;
    return own->both;
}

const layer_part part_eagle = {.model_bytes = sizeof(eagle_numbers),
                               .read_keys = eagle_read_keys,
                               .carried_rows = eagle_carried_rows,
                               .find_tensors = eagle_find_tensors,
                               .scratch_rows = eagle_scratch_rows,
                               .lay_out = eagle_lay_out,
                               .begin = eagle_begin,
                               .flows_in = eagle_flows_in};

bool forward_eagle_fuse(forward_batch *b, const forward_layer *l, const float *x, size_t stride, float *g,
                        size_t g_stride, gq_error *e) {
    const forward_model *m = b->model;
    const eagle_numbers *n = model_numbers(m, &part_eagle);
    size_t states = EAGLE_LAYERS * n->width;
    float *normed = n->norms_states ? forward_activations(states, b->stride, e) : NULL;
    if (n->norms_states && !normed) return false;
    b->layer = l, b->observer = NULL, b->e = e, b->answer = FORWARD_ON, b->unread = false;
    if (normed) batch_norm_slot(b, WEIGHT_EAGLE_NORM, x, stride, states, normed, b->stride);
    bool ok =
        batch_apply(b, WEIGHT_EAGLE_FC, 0, normed ? normed : x, normed ? b->stride : stride, g, g_stride);
    free(normed);
    return ok && !b->unread;
}

bool forward_eagle_embed(const forward_model *draft, const uint32_t *ids, size_t n, float *y, size_t stride,
                         gq_error *e) {
    const model_tensor *t = draft->sizes.embedding;
    const model_source *file = t == draft->target->sizes.embedding ? draft->target->file : draft->file;
    size_t width = draft->sizes.width;
    float *row = malloc(2 * width * sizeof *row); /* as it is stored, and behind that decoded */
    bool ok = row || gq_fail_memory(e, 2 * width * sizeof *row);
    for (size_t i = 0; ok && i < n; i++) {
        uint64_t id = ids[i] < tensor_rows(t) ? ids[i] : 0; /* such a token is not the draft's to propose */
        if (!(ok = model_read(file, t, id * width, width, row, e))) break;
        draft->codecs->codecs[t->type->id].decode((const void *)row, 0, row + width, width);
        for (size_t c = 0; c < width; c++) y[c * stride + i] = row[width + c];
    }
    free(row);
    return ok;
}
