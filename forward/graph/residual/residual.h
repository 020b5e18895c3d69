/* The bank of kimi-k3: hidden states before earlier layers, which a layer reads together with the residual
 * stream. */
#pragma once

#include "forward/graph/batch.h"
#include "forward/graph/keys.h"
#include "forward/graph/sublayer.h"

/* The input of a sublayer of the layer: hidden states of the bank and x, each times a share, which is a softmax
 * of the products of their norms with the slot's weights. Without a bank, or while it is empty, x itself.
 * *stride: of x, then of what is returned. */
const float *bank_read(forward_batch *b, weight_slot score, const float *x, size_t *stride);
/* Lets the bank take x where the layer does so; x is then 0, so the layer's mixer begins it anew. */
void bank_take(forward_batch *b, float *x, size_t stride);

/* Models with an encoder and a decoder (t5). The encoder's blocks are layers as in any encoder. A block of
 * the decoder is two layers: one whose tokens see those before them, and one whose tokens see what the
 * encoder gives, with a feed-forward sublayer. In a window of n tokens the first n / 2 are the encoder's text.
 * The decoder reads as many behind them, with the token that it starts with in place of the first; one that
 * is left over is only predicted. So a token has one state as in other models, and each layer runs on the
 * half that is its own, whose columns are put side by side first.
 *
 * Models of such an encoder alone (t5encoder) have the same names, and each layer runs on all tokens. */

typedef enum coder_kind { CODER_NONE, CODER_ENCODER, CODER_DECODER, CODER_CROSS } coder_kind;
typedef struct coder_layer {
    coder_kind kind; /* CODER_NONE: the model has blocks as most have them */
    size_t block;    /* number of the block whose tensors the layer has */
} coder_layer;
coder_layer coder_layer_of(const forward_model *m, size_t layer);

/* Reads how many layers there are, of so many blocks of the encoder, and the decoder's first token. */
void coders_read_keys(forward_model *m, key_reader *r, uint64_t blocks);
/* Takes the feed-forward sublayers away from layers that have none. */
void coders_choose_sublayers(forward_model *m);

/* A layer's half of each window, side by side, while the layer runs. */
typedef struct coder_half {
    float *x; /* the batch's hidden states, to which they go back */
    size_t stride, context;
} coder_half;
/* Makes the batch work on half of a layer's columns: x and stride become those of its columns. */
coder_half coders_enter(forward_batch *b, size_t layer, float **x, size_t *stride);
void coders_leave(forward_batch *b, size_t layer, const coder_half *whole);

/* Writes what the encoder gives to y[width], normed, while a layer runs that reads it. */
void coders_read_encoder(forward_batch *b, float *y, size_t stride);
/* batch_report_inputs for the encoder's output. */
bool coders_report_encoder(forward_batch *b, const float *x, size_t stride, const weight_slot *slots);
/* Turns the encoder's output for all tokens, after its last layer, into the decoder's input. */
void coders_pick_decoder(forward_batch *b, forward_inputs *in);
/* The id whose embedding a token of the batch gets. */
uint32_t coders_id(const forward_batch *b, const uint32_t *ids, size_t token);

/* Inputs that each layer has of its own, `n` numbers per token:
 *
 *     e = (rmsnorm(per_layer_model_proj x / sqrt(width), per_layer_proj_norm)
 *          + sqrt(n) per_layer_token_embd[token]) / sqrt(2)
 *
 * x is what was embedded. The inputs of all layers are carried from the embedding on. llama.cpp does not
 * quantize per_layer_model_proj, so its input is not reported. */

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
/* Fills the n x layers rows of the hidden state that are carried. */
bool layer_inputs_embed(forward_batch *b, const layer_inputs *n, const layer_inputs_scratch *own,
                        const uint32_t *ids, const float *x, float *carried, size_t stride);
/* b->output = rmsnorm(proj (act(inp_gate x) * e), post_norm); e: the layer's rows of the hidden state. Takes n
 * rows of work. */
bool layer_inputs_run(forward_batch *b, const layer_inputs *n, const float *e, const float *x, size_t stride);

/* N-gram embeddings: rows of a table, found by a hash of the last tokens, which the streams of a token
 * receive (gated.c). */

enum { NGRAM_MOST = 8, NGRAM_MOST_HEADS = 64 };

typedef struct ngram_numbers {
    size_t heads, head; /* rows that a token has in the table, and their values; 0 heads: there is no table */
    size_t size, per_size; /* tokens of the longest n-gram; rows for n-grams of each size from 2 on */
    size_t taps;           /* of the convolution */
    size_t layer;          /* before which streams take it in */
    uint64_t end;          /* an id at which n-grams begin anew */
    uint64_t factor[NGRAM_MOST], first[NGRAM_MOST_HEADS], rows[NGRAM_MOST_HEADS];
    const model_tensor *table;
} ngram_numbers;

typedef struct ngram_scratch {
    void *raw;     /* a row of the table, as stored */
    float *values; /* decoded */
} ngram_scratch;

void ngrams_read_keys(ngram_numbers *n, const forward_model *m, key_reader *r);
void ngrams_find_table(tensor_finder *f, ngram_numbers *n);
void ngrams_find_tensors(tensor_finder *f, uint64_t streams);
/* Whether streams take it in before this layer. */
bool ngrams_are_read(const ngram_numbers *n, size_t layer);
uint64_t ngrams_count_rows(const ngram_numbers *n, const forward_model *m, size_t streams);
void ngrams_lay_out(const ngram_numbers *n, ngram_scratch *own, scratch *s);
/* Adds it to the streams, rows of the hidden state, behind which the tokens' ids stand. False: b->e, or the
 * site's answer. */
bool ngrams_add(forward_batch *b, const ngram_numbers *n, const ngram_scratch *own, size_t streams,
                float *residual);

/* Two stacks of blocks by turns. */

/* Reads how often stacks are run; blocks: block_count, which counts each run of a block. Sets the model's
 * blocks and loops. */
void stacks_read_keys(forward_model *m, key_reader *r, uint64_t blocks);
/* Marks the layers that are not run, when all loops have theirs. Does nothing in other models. */
void stacks_rest(forward_model *m);
