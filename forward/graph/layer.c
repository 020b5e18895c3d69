/* Weights in memory: those of one layer, and a tile of the output matrix, which is often too large to be held
 * whole. Matrices stay as they are stored, and products decode them just before use; small weights such as
 * norms and biases are decoded when the layer is read. place_all lays a layer out in memory. Without a layer
 * it only counts bytes, so the size of the largest layer is known when the model is set up, and one buffer
 * serves all layers in turn. A replaced matrix stands beside the layer's own, and forward_layer_use says
 * which of them products take.
 *
 * Where a layer may not take all the bytes that it has, small weights are in memory, then as many rows as
 * there is room for: first those of weights that all tokens meet, then those of experts. The others are read
 * when they are multiplied, up to a window's bytes at a time and by all threads: those that the container
 * codes in its own way are decoded there. So an expert that no token meets is not read. Products of rows are
 * sums by themselves: values do not depend on where rows come from. */
#include <stdlib.h>
#include <string.h>

#include "forward/graph/layer.h"
#include "forward/graph/model.h"

enum {
    /* Enough that all threads have work, and that activations are seldom packed again. */
    WINDOW_BYTES = 64 << 20,
    PIECE_ROWS = 16, /* rows that a thread reads at least: coded sources have scales for several rows */
};

static uint64_t vector_bytes(const model_tensor *t) { return shape_elements(t->ne) * sizeof(float); }

bool model_read_values(const forward_model *m, const model_tensor *t, void *raw, float *values, gq_error *e) {
    if (!t) return true;
    uint64_t n = shape_elements(t->ne);
    if (!model_read(m->file, t, 0, n, raw, e)) return false;
    codec_decode_rows(&m->codecs->codecs[t->type->id], raw, t->ne[0], values, n);
    return true;
}

bool model_read_row(const forward_model *m, const model_tensor *t, uint64_t row, void *raw, float *values,
                    gq_error *e) {
    uint64_t n = t->ne[0];
    if (!model_read(model_file_of(m, t), t, row * n, n, raw, e)) return false;
    m->codecs->codecs[t->type->id].decode(raw, 0, values, n);
    return true;
}

/* ---- layers ---- */

size_t forward_layer_of(const forward_model *m, const char *name) {
    model_block b;
    bool decodes = strncmp(name, "dec.", 4) == 0;
    if (m->arch->graph.coders == CODERS_NONE)
        return model_block_leads(name, &b) && b.number < m->sizes.blocks ? b.number : SIZE_MAX;
    if (!decodes && strncmp(name, "enc.", 4) != 0) return SIZE_MAX;
    if (!model_block_leads(name + 4, &b)) return SIZE_MAX;
    if (!decodes) return b.number < m->encoders ? b.number : SIZE_MAX;
    bool crosses = strncmp(b.rest, "cross_", 6) == 0 || strncmp(b.rest, "ffn_", 4) == 0;
    size_t layer = m->encoders + 2 * b.number + crosses;
    return layer < m->sizes.layers ? layer : SIZE_MAX;
}

/* Lays tensors out in a layer's memory. With a layer they are read into it; without one their bytes are only
 * counted. */
typedef struct layer_placing {
    forward_layer *l;
    bool awaits;          /* the bytes are read by another process */
    const uint64_t *held; /* rows of each weight; NULL: all */
    uint64_t at;
    gq_error *e;
} layer_placing;

static uint64_t layer_place_bytes(layer_placing *p, uint64_t bytes) {
    uint64_t at = p->at;
    p->at += round_up(bytes, LAYER_ALIGNMENT);
    return at;
}

static bool place_vector(layer_placing *p, const model_tensor *t, const float **values) {
    if (!t) return true;
    uint64_t decoded = layer_place_bytes(p, vector_bytes(t)), raw = layer_place_bytes(p, t->size);
    if (!p->l) return true;
    void *floats = p->l->memory + decoded; /* aligned for floats */
    *values = floats;
    return p->awaits || model_read_values(p->l->model, t, p->l->memory + raw, floats, p->e);
}

static bool place_matrix(layer_placing *p, const model_tensor *t, weight_slot s) {
    if (!t) return true;
    uint64_t rows = p->held ? p->held[s] : shape_rows(t->ne);
    uint64_t at = layer_place_bytes(p, rows * model_row_bytes(t));
    if (!p->l) return true;
    p->l->own[s] = (layer_matrix){p->l->memory + at, t->type->id, .held = rows};
    return p->awaits || !rows ||
           model_read(p->l->model->file, t, 0, rows * t->ne[0], p->l->memory + at, p->e);
}

static bool place_all(layer_placing *p, const layer_spec *plan) {
    const float *floats;
    for (weight_slot s = 0; s < WEIGHT_SLOTS && !plan->is_idle; s++) {
        bool ok = weight_facts_of[s].is_decoded
                      ? place_vector(p, plan->weight[s], p->l ? &p->l->values[s] : &floats)
                      : place_matrix(p, plan->weight[s], s);
        if (!ok || !place_vector(p, plan->bias[s], p->l ? &p->l->bias_values[s] : &floats) ||
            !place_vector(p, plan->factor[s], p->l ? &p->l->factor_values[s] : &floats))
            return false;
    }
    return true;
}

static bool slot_is_matrix(const layer_spec *plan, weight_slot s) {
    return plan->weight[s] && !weight_facts_of[s].is_decoded;
}

/* With most 0 a layer has all its rows in memory: there are none to read. */
uint64_t layer_window_bytes(const layer_spec *plan, uint64_t most) {
    uint64_t bytes = 0;
    for (weight_slot s = 0; most && s < WEIGHT_SLOTS; s++) {
        const model_tensor *t = plan->weight[s];
        if (!slot_is_matrix(plan, s)) continue;
        uint64_t row = mul_sat(t->ne[0], sizeof(float)); /* of whatever type is in its place */
        bytes = max(bytes, max(row, min(WINDOW_BYTES, mul_sat(t->ne[1], row))));
    }
    return round_up(bytes, LAYER_ALIGNMENT);
}

/* The fewest bytes: what is taken with no row of a matrix in memory, and the window. */
uint64_t layer_spec_least(const layer_spec *plan) {
    const uint64_t none[WEIGHT_SLOTS] = {0};
    layer_placing p = {.held = none};
    place_all(&p, plan);
    return add_sat(p.at, layer_window_bytes(plan, 1));
}

/* Chooses how many rows of each weight are in memory where a layer may take `most` bytes; 0: all. */
static void layer_choose_held(const layer_spec *plan, uint64_t most, uint64_t held[WEIGHT_SLOTS]) {
    uint64_t least = layer_spec_least(plan), left = most ? most - min(most, least) : UINT64_MAX;
    for (int routed = 0; routed < 2; routed++)
        for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
            const model_tensor *t = plan->weight[s];
            if (!slot_is_matrix(plan, s) || weight_facts_of[s].is_routed != routed) continue;
            uint64_t row = model_row_bytes(t), room = left - left % LAYER_ALIGNMENT;
            held[s] = min(shape_rows(t->ne), room / row);
            left -= round_up(held[s] * row, LAYER_ALIGNMENT);
        }
}

uint64_t layer_spec_bytes(const layer_spec *plan) {
    layer_placing p = {0};
    place_all(&p, plan);
    return p.at;
}

uint64_t forward_layer_memory_bytes(const forward_model *m, uint64_t most) {
    const forward_sizes *s = &m->sizes;
    return most ? max(s->layer_least, min(most, add_sat(s->layer_bytes, s->layer_least))) : s->layer_bytes;
}

void forward_layer_set_model(forward_layer *l, const forward_model *m) {
    *l = (forward_layer){.model = m, .most = l->most, .memory = l->memory, .memory_bytes = l->memory_bytes};
}

forward_layer *forward_layer_new(const forward_model *m, uint64_t most, gq_error *e) {
    forward_layer *l = calloc(1, sizeof *l);
    if (!l) return gq_fail_memory(e, sizeof *l), NULL;
    *l = (forward_layer){.model = m, .most = most, .memory_bytes = forward_layer_memory_bytes(m, most)};
    l->memory = memory_lines(1, l->memory_bytes, e);
    if (l->memory) return l;
    forward_layer_free(l);
    return NULL;
}

size_t forward_layer_number(const forward_layer *l) { return l->index; }

static bool layer_place(forward_layer *l, size_t i, bool awaits, gq_error *e) {
    const forward_model *m = l->model;
    uint64_t held[WEIGHT_SLOTS] = {0};
    forward_layer_set_model(l, m);
    if (i >= m->sizes.layers)
        return gq_fail(e, "%s: layer %zu does not exist: the model has %zu, counted from 0", m->path, i,
                       m->sizes.layers);
    layer_choose_held(&m->layers[i], l->most, held);
    layer_placing p = {.l = l, .awaits = awaits, .held = held, .e = e};
    if (!place_all(&p, &m->layers[i])) return false;
    l->window = l->memory + p.at, l->window_bytes = layer_window_bytes(&m->layers[i], l->most);
    l->plan = &m->layers[i], l->index = i;
    l->ends_loop = (i + 1) % m->sizes.blocks == 0;
    return true;
}

void forward_layer_end_loop(forward_layer *l, bool ends) { l->ends_loop = ends; }
bool forward_layer_read(forward_layer *l, size_t i, gq_error *e) { return layer_place(l, i, false, e); }
bool forward_layer_await(forward_layer *l, size_t i, gq_error *e) { return layer_place(l, i, true, e); }

void *forward_layer_memory(forward_layer *l) { return l->memory; }

uint64_t forward_layer_bytes(const forward_model *m, size_t i, uint64_t most) {
    uint64_t held[WEIGHT_SLOTS] = {0};
    layer_choose_held(&m->layers[i], most, held);
    layer_placing p = {.held = held};
    place_all(&p, &m->layers[i]);
    return p.at;
}

static void layer_put(forward_layer *l, const model_tensor *t, layer_matrix other) {
    for (weight_slot s = 0; s < WEIGHT_SLOTS; s++)
        if (l->own[s].data && l->plan->weight[s] == t) l->other[s] = other;
}

void forward_layer_replace(forward_layer *l, const model_tensor *t, uint32_t type, const void *data) {
    layer_put(l, t, (layer_matrix){data, type, .held = UINT64_MAX});
}

void forward_layer_replace_read(forward_layer *l, const model_tensor *t, uint32_t type, forward_blocks from) {
    layer_put(l, t, (layer_matrix){l->window, type, .held = 0, .from = from});
}

void forward_layer_expect(forward_layer *l, const model_tensor *t, bool expects) {
    for (weight_slot s = 0; s < WEIGHT_SLOTS; s++)
        if (l->own[s].data && l->plan->weight[s] == t) l->awaits[s] = expects;
}

void forward_layer_use(forward_layer *l, bool replaced) { l->replaced = replaced; }

void forward_layer_free(forward_layer *l) {
    if (l) free(l->memory);
    free(l);
}

void forward_layer_ahead(const forward_layer *l, size_t i) {
    const forward_model *m = l->model;
    uint64_t held[WEIGHT_SLOTS] = {0};
    if (i >= m->sizes.layers) return;
    layer_choose_held(&m->layers[i], l->most, held);
    for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
        const model_tensor *t = m->layers[i].weight[s];
        uint64_t n = !t ? 0 : weight_facts_of[s].is_decoded ? shape_elements(t->ne) : held[s] * t->ne[0];
        if (n) model_advise(m->file, t, 0, n, MODEL_WILL_NEED);
    }
}

/* ---- rows that are not in memory ---- */

typedef struct rows_reading {
    const forward_layer *layer;
    const model_tensor *tensor;
    const layer_matrix *of;
    uint64_t first, n, each, row_bytes; /* each: rows of a piece */
} rows_reading;

static bool rows_read_piece(const rows_reading *r, uint64_t i, gq_error *e) {
    const model_tensor *t = r->tensor;
    uint64_t row = i * r->each, n = min(r->each, r->n - row), bytes = r->row_bytes;
    uint8_t *to = r->layer->window + row * bytes;
    const forward_blocks *from = &r->of->from;
    return from->read
               ? from->read(from->data, t, (r->first + row) * bytes, to, n * bytes, e)
               : model_read(r->layer->model->file, t, (r->first + row) * t->ne[0], n * t->ne[0], to, e);
}

static bool rows_try_piece(void *data, uint64_t i, int) { return rows_read_piece(data, i, NULL); }

/* Reads all pieces; where a thread fails the caller finds out why. */
static bool rows_read(const rows_reading *r, threads_pool *pool, gq_error *e) {
    uint64_t pieces = ceil_div(r->n, r->each);
    const threads_job job = {.end = pieces, .work = rows_try_piece, .data = (void *)r};
    if (threads_try(pool, &job).result == THREADS_DONE) return true;
    for (uint64_t i = 0; i < pieces; i++)
        if (!rows_read_piece(r, i, e)) return false;
    return true;
}

/* Asks the system to prefetch the rows that are likely to be read next. */
static void rows_advise(const rows_reading *r) {
    const model_tensor *t = r->tensor;
    uint64_t next = r->first + r->n, n = min(r->n, shape_rows(t->ne) - next);
    if (n && !r->of->from.read)
        model_advise(r->layer->model->file, t, next * t->ne[0], n * t->ne[0], MODEL_WILL_NEED);
}

const uint8_t *layer_rows(const forward_layer *l, weight_slot s, uint64_t first, uint64_t *n,
                          threads_pool *pool, gq_error *e) {
    const layer_matrix *of = layer_matrix_used(l, s);
    const model_tensor *t = l->plan->weight[s];
    uint64_t bytes = gguf_row_bytes(tensor_type_of(of->type), t->ne[0]);
    if (first < of->held) return *n = min(*n, of->held - first), of->data + first * bytes;
    *n = min(*n, l->window_bytes / bytes);
    uint64_t threads = (uint64_t)threads_pool_most(pool);
    rows_reading r = {.layer = l,
                      .tensor = t,
                      .of = of,
                      .first = first,
                      .n = *n,
                      .each = max(PIECE_ROWS, ceil_div(*n, threads)),
                      .row_bytes = bytes};
    if (!rows_read(&r, pool, e)) return NULL;
    rows_advise(&r);
    return l->window;
}

/* ---- tiles ---- */

static size_t tile_rows(const forward_model *m, size_t most) {
    return most < m->sizes.vocabulary ? most : m->sizes.vocabulary;
}

/* Takes memory for the rows and, where there is a bias, for its values; *raw: for the bias as it is stored. */
static void lay_out_tile(forward_tile *t, void **raw, memory_ledger *l) {
    const model_tensor *bias = t->model->out_bias;
    t->data = memory_take(l, t->most, model_row_bytes(t->model->sizes.out));
    if (bias) t->bias = memory_take(l, 1, vector_bytes(bias)), *raw = memory_take(l, 1, bias->size);
}

uint64_t forward_tile_bytes(const forward_model *m, size_t most) {
    memory_ledger l = {.counts = true};
    void *raw;
    lay_out_tile(&(forward_tile){.model = m, .most = tile_rows(m, most)}, &raw, &l);
    return l.bytes;
}

/* The bias is read here, whole: it is small beside a few rows of the matrix. */
forward_tile *forward_tile_new(const forward_model *m, size_t most, gq_error *e) {
    memory_ledger l = {.failed = false};
    void *raw = NULL;
    forward_tile *t = calloc(1, sizeof *t);
    if (!t) return gq_fail_memory(e, sizeof *t), NULL;
    *t = (forward_tile){.model = m, .most = tile_rows(m, most ? most : 1)};
    lay_out_tile(t, &raw, &l);
    bool ok = memory_had(&l, e) && (!m->out_bias || model_read_values(m, m->out_bias, raw, t->bias, e));
    free(raw);
    if (ok) return t;
    forward_tile_free(t);
    return NULL;
}

bool forward_tile_read(forward_tile *t, size_t first, size_t rows, gq_error *e) {
    const forward_model *m = t->model;
    const model_tensor *out = m->sizes.out;
    t->rows = 0;
    if (rows > t->most || first > m->sizes.vocabulary || rows > m->sizes.vocabulary - first)
        return gq_fail(e, "%s: tensor %s: rows %zu to %zu wanted, of %zu, and at most %zu at once", m->path,
                       out->name, first, first + rows, m->sizes.vocabulary, t->most);
    if (!model_read(model_file_of(m, out), out, first * out->ne[0], rows * out->ne[0], t->data, e))
        return false;
    t->first = first, t->rows = rows;
    return true;
}

void forward_tile_free(forward_tile *t) {
    if (t) free(t->data), free(t->bias);
    free(t);
}

/* ---- kinds of weights (arch/weights.h) ---- */

#define WEIGHT_KIND_SMALL .is_decoded = true
#define WEIGHT_KIND_BARE .is_decoded = true, .is_bare = true
#define WEIGHT_KIND_MATRIX .is_decoded = false
#define WEIGHT_KIND_HELPER .is_helper = true
#define WEIGHT_KIND_PAIR .is_helper = true, .is_bare = true
#define WEIGHT_KIND_EXPERTS .is_routed = true
#define WEIGHT_KIND_LATE_EXPERTS .is_routed = true, .is_late = true

#define FACTS(member, text, kind) [WEIGHT_##member] = {.name = (text), WEIGHT_KIND_##kind},
const weight_facts weight_facts_of[WEIGHT_SLOTS] = {ARCH_WEIGHTS(FACTS)};
