/* Rows of a layer's weights that are not in memory. Where a layer may not take all the bytes that it has,
 * small weights are in memory, then as many rows as there is room for: first those of weights that all tokens
 * meet, then those of experts. The others are read when they are multiplied, up to a window's bytes at a time
 * and by all threads: those that the container codes in its own way are decoded there. So an expert that no
 * token meets is not read. Products of rows are sums by themselves: values do not depend on where rows come
 * from.
 */
#include "graph/layer_rows.h"
#include "base/checked.h"
#include "graph/layer.h"
#include "graph/model.h"

enum {
    /* Enough that all threads have work, and that activations are seldom packed again. */
    WINDOW_BYTES = 64 << 20,
    PIECE_ROWS = 16, /* that a thread reads at least: coded sources have scales for several rows */
};

/* ---- what is in memory ---- */

static bool slot_is_matrix(const layer_plan *plan, weight_slot s) {
    return plan->weight[s] && !weight_facts_of[s].is_decoded;
}

uint64_t layer_window_bytes(const layer_plan *plan, uint64_t most) {
    uint64_t bytes = 0;
    for (weight_slot s = 0; most && s < WEIGHT_SLOTS; s++) {
        const model_tensor *t = plan->weight[s];
        if (!slot_is_matrix(plan, s)) continue;
        uint64_t row = mul_sat(t->ne[0], sizeof(float)); /* of whatever type is in its place */
        bytes = max(bytes, max(row, min(WINDOW_BYTES, mul_sat(t->ne[1], row))));
    }
    return round_up(bytes, LAYER_ALIGNMENT);
}

/* Bytes of a small weight: as floats, and as it is stored. */
static uint64_t small_weight_bytes(const model_tensor *t) {
    if (!t) return 0;
    uint64_t floats = shape_elements(t->ne) * sizeof(float);
    return round_up(floats, LAYER_ALIGNMENT) + round_up(t->size, LAYER_ALIGNMENT);
}

/* Bytes that are taken whatever is in memory of the matrices. */
static uint64_t layer_fixed_bytes(const layer_plan *plan) {
    uint64_t bytes = 0;
    for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
        bytes += small_weight_bytes(plan->bias[s]);
        if (!slot_is_matrix(plan, s)) bytes += small_weight_bytes(plan->weight[s]);
    }
    return bytes;
}

uint64_t layer_plan_least(const layer_plan *plan) {
    return add_sat(layer_fixed_bytes(plan), layer_window_bytes(plan, 1));
}

void layer_choose_held(const layer_plan *plan, uint64_t most, uint64_t held[WEIGHT_SLOTS]) {
    uint64_t least = layer_plan_least(plan), left = most ? most - min(most, least) : UINT64_MAX;
    for (int routed = 0; routed < 2; routed++)
        for (weight_slot s = 0; s < WEIGHT_SLOTS; s++) {
            const model_tensor *t = plan->weight[s];
            if (!slot_is_matrix(plan, s) || weight_facts_of[s].is_routed != routed) continue;
            uint64_t row = model_row_bytes(t), room = left - left % LAYER_ALIGNMENT;
            held[s] = min(shape_rows(t->ne), room / row);
            left -= round_up(held[s] * row, LAYER_ALIGNMENT);
        }
}

/* ---- reading ---- */

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

static bool rows_try_piece(void *data, uint64_t i, int thread) {
    (void)thread;
    return rows_read_piece(data, i, NULL);
}

/* Reads all pieces; where a thread fails the caller finds out why. */
static bool rows_read(const rows_reading *r, threads_pool *pool, gq_error *e) {
    uint64_t pieces = ceil_div(r->n, r->each);
    const threads_job job = {.end = pieces, .work = rows_try_piece, .data = (void *)r};
    if (threads_try(pool, &job).result == THREADS_DONE) return true;
    for (uint64_t i = 0; i < pieces; i++)
        if (!rows_read_piece(r, i, e)) return false;
    return true;
}

/* Has the system fetch the rows that are likely to be read next. */
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
