/* Inputs that each layer has of its own, `n` numbers per token:
 *
 *     e = (rmsnorm(per_layer_model_proj x / sqrt(width), per_layer_proj_norm)
 *          + sqrt(n) per_layer_token_embd[token]) / sqrt(2)
 *
 * x is what was embedded. The inputs of all layers are carried from the embedding on. llama.cpp does not
 * quantize per_layer_model_proj, so what flows into it is not reported. */
#pragma once

#include "forward/graph/layer_part.h"

typedef struct layer_inputs {
    size_t n; /* per layer; 0: none */
    const model_tensor *table, *matrix, *norm;
} layer_inputs;

typedef struct layer_inputs_scratch {
    void *raw;     /* rows of the matrix that make one layer's inputs, or a row of the table, as stored */
    float *values; /* a row of the table, decoded */
    float *weight; /* of the norm */
} layer_inputs_scratch;

void layer_inputs_find(tensor_finder *f, layer_inputs *n);
void layer_inputs_find_layer(tensor_finder *f, const layer_inputs *n);
void layer_inputs_lay_out(const layer_inputs *n, layer_inputs_scratch *own, scratch *s);
/* Fills the n x layers rows of the state that are carried. */
bool layer_inputs_embed(forward_batch *b, const layer_inputs *n, const layer_inputs_scratch *own,
                        const uint32_t *ids, const float *x, float *carried, size_t stride);
/* b->part = rmsnorm(proj (act(inp_gate x) * e), post_norm); e: the layer's rows of the state. Takes n rows of
 * work. */
bool layer_inputs_run(forward_batch *b, const layer_inputs *n, const float *e, const float *x, size_t stride);
