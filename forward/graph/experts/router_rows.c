/* A model's routers as matrices of the state: what an error of the state does to the choice of experts. */
#include <stdlib.h>

#include "forward/graph/experts/experts.h"

/* Returns the plan of layer i's experts; NULL: it has none. */
static const layer_spec *routed_layer(const forward_model *m, size_t i) {
    const layer_spec *l = i < m->sizes.layers ? &m->layers[i] : NULL;
    return l && l->ffn.part && l->ffn.part->kind == &ffn_experts ? l : NULL;
}

size_t forward_router_rows(const forward_model *m, size_t i) {
    const layer_spec *l = routed_layer(m, i);
    return l ? l->weight[WEIGHT_FFN_ROUTER]->ne[1] : 0;
}

bool forward_is_router(const forward_model *m, const model_tensor *t) {
    model_block b;
    const layer_spec *l = model_block_leads(t->name, &b) ? routed_layer(m, b.number) : NULL;
    return l && l->weight[WEIGHT_FFN_ROUTER] == t;
}

/* Returns the weights of the norm that the router reads the state through; NULL: there are none. */
static const model_tensor *router_gain(const forward_model *m, const layer_spec *l) {
    if (m->arch->graph.routing.reads_start) return NULL;
    if (l->weight[WEIGHT_FFN_ROUTER_SCALE]) return l->weight[WEIGHT_FFN_ROUTER_SCALE];
    if (l->weight[WEIGHT_FFN_NORM_EXPS]) return l->weight[WEIGHT_FFN_NORM_EXPS];
    return l->ffn.before == WEIGHT_SLOTS ? NULL : l->weight[l->ffn.before];
}

static void multiply_columns(float *rows, size_t n, size_t width, const float *gain) {
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < width; c++) rows[r * width + c] *= gain[c];
}

/* Takes from n values, `step` floats apart, their mean. */
static void take_mean_off(float *x, size_t n, size_t step) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i * step];
    for (size_t i = 0; i < n; i++) x[i * step] -= (float)(sum / (double)n);
}

bool forward_router_read(const forward_model *m, size_t i, float *rows, gq_error *e) {
    const layer_spec *l = routed_layer(m, i);
    const model_tensor *t = l->weight[WEIGHT_FFN_ROUTER], *gain = router_gain(m, l);
    size_t width = m->sizes.width, n = t->ne[1];
    uint64_t raw_bytes = gain && gain->size > t->size ? gain->size : t->size;
    void *raw = malloc(raw_bytes);
    float *by = malloc(width * sizeof *by);
    bool ok = (raw && by) || gq_fail_memory(e, raw_bytes + width * sizeof *by);
    ok = ok && model_read_values(m, t, raw, rows, e) && model_read_values(m, gain, raw, by, e);
    if (ok && gain) multiply_columns(rows, n, width, by);
    /* Only differences of rows choose; and a norm may take the state's mean from it. */
    for (size_t c = 0; ok && c < width; c++) take_mean_off(rows + c, n, width);
    for (size_t r = 0; ok && m->centres && r < n; r++) take_mean_off(rows + r * width, width, 1);
    free(raw), free(by);
    return ok;
}
