/* What changes the state behind both parts of a layer.
 *
 * tail_embedding adds what was embedded, times a number of the layer, so it is carried through all layers.
 *
 * tail_per_layer has inputs of each layer's own, `inputs` numbers per token, which are made once of what was
 * embedded and of a second table of embeddings:
 *
 *     e = (rmsnorm(per_layer_model_proj x / sqrt(width), per_layer_proj_norm)
 *          + sqrt(inputs) per_layer_token_embd[token]) / sqrt(2)
 *
 * Behind its feed-forward part a layer adds rmsnorm(proj (act(inp_gate x) * e), post_norm), and the state is
 * multiplied by layer_output_scale where the layer has one. The inputs of all layers are carried from the
 * embedding on. llama.cpp does not quantize per_layer_model_proj, so what flows into it is not reported.
 */
#include <math.h>
#include <string.h>

#include "forward/layer_part.h"

/* ---- what was embedded ---- */

static void embedding_find_tensors(tensor_finder *f, const plan_part *p) {
    (void)p;
    tensors_take_weight(f, WEIGHT_LAYER_OUTPUT_SCALE, REQUIRED, SHAPE(1));
}

static uint64_t embedding_carried_rows(const forward_model *m, const model_part *p) {
    (void)p;
    return m->sizes.width;
}

static bool embedding_embed(forward_batch *b, const model_part *p, const uint32_t *ids, const float *x,
                            float *carried, size_t stride) {
    (void)p, (void)ids;
    for (size_t c = 0; c < b->model->sizes.width; c++)
        memcpy(carried + c * stride, x + c * stride, b->tokens * sizeof *x);
    return true;
}

static uint64_t no_rows(const forward_model *m, const layer_plan *l, const plan_part *p) {
    (void)m, (void)l, (void)p;
    return 0;
}

static bool embedding_run(forward_batch *b, const plan_part *p, const float *x, size_t stride) {
    (void)x;
    batch_add(b, b->state, stride, batch_carried(b, p->part), stride, b->model->sizes.width,
              *b->layer->values[WEIGHT_LAYER_OUTPUT_SCALE]);
    return true;
}

const layer_part tail_embedding = {
    .find_tensors = embedding_find_tensors,
    .carried_rows = embedding_carried_rows,
    .embed = embedding_embed,
    .scratch_rows = no_rows,
    .run = embedding_run,
};

/* ---- inputs of each layer's own ---- */

typedef struct inputs_numbers {
    size_t inputs; /* per layer; 0: none */
    const model_tensor *table, *matrix, *norm;
} inputs_numbers;

typedef struct inputs_layer {
    size_t index;
} inputs_layer;

typedef struct inputs_scratch {
    void *raw;     /* rows of the matrix that make one layer's inputs, or a row of the table, as stored */
    float *values; /* a row of the table, decoded */
    float *weight; /* of the norm */
} inputs_scratch;

static void inputs_read_keys(forward_model *m, key_reader *r, model_part *p) {
    inputs_numbers *n = p->numbers;
    n->inputs = key_number_needed(r, "embedding_length_per_layer_input", 0, 1 << 20);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        inputs_layer *l = model_layer_numbers(m, p, i);
        if (l) l->index = i;
    }
}

static void inputs_find_model_tensors(tensor_finder *f, model_part *p) {
    const forward_model *m = f->m;
    inputs_numbers *n = p->numbers;
    uint64_t all = n->inputs * m->sizes.layers;
    if (!n->inputs) return;
    n->table = tensors_take(f, "per_layer_token_embd.weight", REQUIRED, SHAPE(all, m->sizes.vocabulary));
    n->matrix = tensors_take(f, "per_layer_model_proj.weight", REQUIRED, SHAPE(m->sizes.width, all));
    n->norm = tensors_take(f, "per_layer_proj_norm.weight", REQUIRED, SHAPE(n->inputs));
}

static void inputs_find_tensors(tensor_finder *f, const plan_part *p) {
    const inputs_numbers *n = p->part->numbers;
    uint64_t d = f->m->sizes.width;
    tensors_take_weight(f, WEIGHT_LAYER_OUTPUT_SCALE, OPTIONAL, SHAPE(1));
    if (!n->inputs) return;
    tensors_take_weight(f, WEIGHT_INP_GATE, REQUIRED, SHAPE(d, n->inputs));
    tensors_take_weight(f, WEIGHT_PROJ, REQUIRED, SHAPE(n->inputs, d));
    tensors_take_weight(f, WEIGHT_POST_NORM, REQUIRED, SHAPE(d));
}

static uint64_t inputs_carried_rows(const forward_model *m, const model_part *p) {
    const inputs_numbers *n = p->numbers;
    return n->inputs * m->sizes.layers;
}

static uint64_t inputs_count_rows(const forward_model *m, const layer_plan *l, const plan_part *p) {
    const inputs_numbers *n = p->part->numbers;
    (void)m, (void)l;
    return n->inputs;
}

static void inputs_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    const inputs_numbers *n = p->numbers;
    inputs_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    if (!n->inputs) return;
    uint64_t rows = n->inputs * gguf_type_bytes(n->matrix->type, n->matrix->ne[0]);
    uint64_t row = gguf_type_bytes(n->table->type, n->table->ne[0]);
    own->raw = scratch_take(s, rows > row ? rows : row, 1, 1);
    own->values = scratch_take(s, n->table->ne[0], 1, sizeof(float));
    own->weight = scratch_take(s, n->inputs, 1, sizeof(float));
}

/* One layer's share of what the matrix gives, normalised. */
static bool inputs_project(forward_batch *b, const model_part *p, size_t layer, const float *x, float *to,
                           size_t stride) {
    const forward_model *m = b->model;
    const inputs_numbers *n = p->numbers;
    inputs_scratch *own = batch_own(b, p);
    uint64_t width = m->sizes.width, first = layer * n->inputs;
    matmul_weights w = {own->raw, n->matrix->type->id, n->inputs, width,
                        gguf_type_bytes(n->matrix->type, width)};
    if (!model_read(m->file, n->matrix, first * width, n->inputs * width, own->raw, b->e)) return false;
    matmul_run(b->products, &w, x, stride, to, stride, b->tokens);
    batch_scale(b, to, stride, n->inputs, 1 / sqrtf((float)width));
    batch_norm(b, &(norm_groups){.x = to,
                                 .y = to,
                                 .weight = own->weight,
                                 .x_stride = stride,
                                 .y_stride = stride,
                                 .features = n->inputs,
                                 .groups = 1});
    return true;
}

static bool inputs_embed(forward_batch *b, const model_part *p, const uint32_t *ids, const float *x,
                         float *carried, size_t stride) {
    const forward_model *m = b->model;
    const inputs_numbers *n = p->numbers;
    inputs_scratch *own = batch_own(b, p);
    size_t all = n->inputs * m->sizes.layers;
    float root = sqrtf((float)n->inputs), half = sqrtf(.5f);
    if (!all) return true;
    if (!model_read_values(m, n->norm, own->raw, own->weight, b->e)) return false;
    for (size_t i = 0; i < m->sizes.layers; i++)
        if (!inputs_project(b, p, i, x, carried + i * n->inputs * stride, stride)) return false;
    for (size_t t = 0; t < b->tokens; t++) {
        if (!model_read(m->file, n->table, ids[t] * (uint64_t)all, all, own->raw, b->e)) return false;
        m->codecs->codecs[n->table->type->id].decode(own->raw, own->values, all);
        for (size_t c = 0; c < all; c++)
            carried[c * stride + t] = (carried[c * stride + t] + root * own->values[c]) * half;
    }
    return true;
}

typedef struct inputs_rows {
    const forward_batch *b;
    float *gate;
    const float *inputs;
} inputs_rows;

static void inputs_gate_row(void *data, size_t r, int thread) {
    const inputs_rows *g = data;
    const forward_batch *b = g->b;
    (void)thread;
    b->model->elements->gate(&b->layer->plan->act, g->gate + r * b->stride, g->inputs + r * b->state_stride,
                             b->tokens);
}

static bool inputs_run(forward_batch *b, const plan_part *p, const float *x, size_t stride) {
    const inputs_numbers *n = p->part->numbers;
    const inputs_layer *l = p->numbers;
    const float *scale = b->layer->values[WEIGHT_LAYER_OUTPUT_SCALE];
    size_t width = b->model->sizes.width, s = b->stride;
    const float *own = batch_carried(b, p->part) + l->index * n->inputs * stride;
    if (n->inputs) {
        if (!batch_site(b, x, stride, width, b->tokens, 0, (weight_slot[]){WEIGHT_INP_GATE, WEIGHT_SLOTS}))
            return false;
        batch_multiply(b, WEIGHT_INP_GATE, 0, x, stride, b->work, s, b->tokens);
        threads_for(b->pool, n->inputs, THREADS_EVEN, inputs_gate_row, &(inputs_rows){b, b->work, own});
        if (!batch_site(b, b->work, s, n->inputs, b->tokens, 0, (weight_slot[]){WEIGHT_PROJ, WEIGHT_SLOTS}))
            return false;
        batch_multiply(b, WEIGHT_PROJ, 0, b->work, s, b->part, s, b->tokens);
        batch_norm_slot(b, WEIGHT_POST_NORM, b->part, s, width, b->part, s);
        batch_add(b, b->state, stride, b->part, s, width, 1);
    }
    if (scale) batch_scale(b, b->state, stride, width, *scale);
    return true;
}

const layer_part tail_per_layer = {
    .model_bytes = sizeof(inputs_numbers),
    .layer_bytes = sizeof(inputs_layer),
    .read_keys = inputs_read_keys,
    .find_model_tensors = inputs_find_model_tensors,
    .find_tensors = inputs_find_tensors,
    .carried_rows = inputs_carried_rows,
    .embed = inputs_embed,
    .scratch_rows = inputs_count_rows,
    .lay_out = inputs_lay_out,
    .run = inputs_run,
};
