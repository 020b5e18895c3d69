/* What the parts of a layer do alike: products, norms, sums, telling what flows in. */
#include "forward/batch.h"

#include <math.h>

void batch_multiply(forward_batch *b, weight_slot s, size_t matrix, const float *x, size_t x_stride, float *y,
                    size_t y_stride, size_t tokens) {
    const forward_layer *l = b->layer;
    const gguf_tensor *t = l->plan->weight[s];
    const layer_matrix *stored = l->replaced && l->other[s].data ? &l->other[s] : &l->own[s];
    size_t rows = t->ne[1], bytes = gguf_type_bytes(gguf_type_of(stored->type), t->ne[0]);
    matmul_weights w = {stored->data + matrix * rows * bytes, stored->type, rows, t->ne[0], bytes};
    matmul_run(b->products, &w, x, x_stride, y, y_stride, tokens);
    if (!l->bias_values[s]) return;
    const float *bias = l->bias_values[s] + matrix * rows;
#pragma omp parallel for num_threads(b->threads)
    for (size_t r = 0; r < rows; r++) b->model->elements->add(y + r * y_stride, bias[r], tokens);
}

bool batch_blame_weights(gq_error *e) {
    if (e) e->status = GQ_BAD_WEIGHTS;
    return false;
}

bool batch_finite(forward_batch *b, const char *what, const gguf_tensor *t, const float *x, size_t stride,
                  size_t features, size_t tokens) {
    const kernels *k = b->model->codecs;
    size_t bad = SIZE_MAX; /* the first such row */
#pragma omp parallel for num_threads(b->threads) reduction(min : bad)
    for (size_t r = 0; r < features; r++)
        if (r < bad && k->first_not_finite(x + r * stride, tokens) < tokens) bad = r;
    if (bad == SIZE_MAX) return true;
    size_t token = k->first_not_finite(x + bad * stride, tokens);
    float value = x[bad * stride + token];
    if (isnan(value)) value = NAN; /* its sign is the processor's */
    gq_fail(b->e, "%s: %s %s is not finite: feature %zu of token %zu of the batch is %g", b->model->path,
            what, t->name, bad, token, (double)value);
    return batch_blame_weights(b->e);
}

bool batch_inputs(forward_batch *b, const forward_inputs *in) {
    b->answer = FORWARD_FAILED;
    if (batch_finite(b, "what flows into", in->weights[0], in->x, in->stride, in->features, in->tokens))
        b->answer = b->site ? b->site->take(b->site->data, in, b->e) : FORWARD_ON;
    return b->answer == FORWARD_ON || b->answer == FORWARD_SKIP;
}

static bool tell_site(forward_batch *b, forward_inputs in, const weight_slot *slots) {
    in.matrices = 1;
    in.routed = weight_facts_of[*slots].is_routed; /* all of a list, or none */
    for (; *slots != WEIGHT_SLOTS; slots++) {
        const gguf_tensor *t = b->layer->plan->weight[*slots];
        if (!t) continue;
        in.weights[in.n_weights++] = t;
        in.matrices = t->ne[2];
    }
    return batch_inputs(b, &in);
}

bool batch_site(forward_batch *b, const float *x, size_t stride, size_t features, size_t tokens,
                size_t matrix, const weight_slot *slots) {
    return tell_site(
        b,
        (forward_inputs){.matrix = matrix, .x = x, .features = features, .tokens = tokens, .stride = stride},
        slots);
}

bool batch_site_routed(forward_batch *b, const float *x, size_t stride, size_t features,
                       const uint32_t *token, size_t tokens, size_t matrix, const weight_slot *slots) {
    return tell_site(b,
                     (forward_inputs){.matrix = matrix,
                                      .x = x,
                                      .features = features,
                                      .tokens = tokens,
                                      .stride = stride,
                                      .token = token},
                     slots);
}

void batch_norm(forward_batch *b, const norm_groups *g) {
    const forward_model *m = b->model;
    size_t spans = (b->tokens + ELEMENT_SPAN - 1) / ELEMENT_SPAN;
#pragma omp parallel for num_threads(b->threads)
    for (size_t i = 0; i < g->groups * spans; i++) {
        size_t group = i / spans, first = i % spans * ELEMENT_SPAN, rows = group * g->features;
        size_t n = b->tokens - first < ELEMENT_SPAN ? b->tokens - first : ELEMENT_SPAN;
        m->elements->norm(&(norm_task){
            .x = g->x + rows * g->x_stride + first,
            .y = g->y + rows * g->y_stride + first,
            .x_stride = g->x_stride,
            .y_stride = g->y_stride,
            .features = g->features,
            .n = n,
            .weight = g->weight + group * g->weight_step,
            .bias = g->bias,
            .eps = m->eps,
            .centre = m->arch->layer_norm,
        });
    }
}

void batch_norm_slot(forward_batch *b, weight_slot s, const float *x, size_t x_stride, size_t features,
                     float *y, size_t y_stride) {
    const forward_layer *l = b->layer;
    batch_norm(b, &(norm_groups){x, l->values[s], l->bias_values[s], y, x_stride, y_stride, features, 1, 0});
}

void batch_add(forward_batch *b, float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows,
               float factor) {
#pragma omp parallel for num_threads(b->threads)
    for (size_t r = 0; r < rows; r++)
        b->model->elements->add_scaled(x + r * x_stride, y + r * y_stride, factor, b->tokens);
}
