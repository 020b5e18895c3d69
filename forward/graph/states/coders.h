/* Models with an encoder and a decoder (t5). The encoder's blocks are layers as in any encoder. A block of the decoder
 * is two layers: one whose tokens see those before them, and one whose tokens see what the encoder gives, with a
 * feed-forward part. In a window of n tokens the first n / 2 are the encoder's text. The decoder reads as many behind
 * them, with the token that it starts with in place of the first; one that is left over is only predicted. So a token
 * has one state as in other models, and each layer runs on the half that is its own, whose columns are put side by side
 * first.
 *
 * Models of such an encoder alone (t5encoder) have the same names, and each layer runs on all tokens.
 */
#pragma once

#include "forward/graph/batch.h"
#include "forward/graph/keys.h"

typedef enum coder_kind { CODER_NONE, CODER_ENCODER, CODER_DECODER, CODER_CROSS } coder_kind;
typedef struct coder_layer {
    coder_kind kind; /* CODER_NONE: the model has blocks as most have them */
    size_t block;    /* whose tensors it has */
} coder_layer;
coder_layer coder_layer_of(const forward_model *m, size_t layer);

/* Reads how many layers there are, of so many blocks of the encoder, and the decoder's first token. */
void coders_read_keys(forward_model *m, key_reader *r, uint64_t blocks);
/* Takes the feed-forward parts away from layers that have none. */
void coders_choose_parts(forward_model *m);

/* Where a layer's half of each window stands, side by side, while it runs. */
typedef struct coder_half {
    float *x; /* the batch's states, to which they go back */
    size_t stride, context;
} coder_half;
/* Has the batch work on the half of a layer: x and stride become those of its columns. */
coder_half coders_enter(forward_batch *b, size_t layer, float **x, size_t *stride);
void coders_leave(forward_batch *b, size_t layer, const coder_half *whole);

/* Writes what the encoder gives to y[width], normed, while a layer runs that reads it. */
void coders_read_encoder(forward_batch *b, float *y, size_t stride);
/* As batch_report_inputs, of what the encoder gives. */
bool coders_report_encoder(forward_batch *b, const float *x, size_t stride, const weight_slot *slots);
/* Has inputs of all tokens, behind the last layer, become those of the decoder's. */
void coders_pick_decoder(forward_batch *b, forward_inputs *in);
/* The id whose embedding a token of the batch gets. */
uint32_t coders_id(const forward_batch *b, const uint32_t *ids, size_t token);
