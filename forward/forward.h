/* Running a model of the llama family: from ids of tokens to logits, a layer at a time.
 *
 *     forward_model *m = forward_model_new(g, &e);
 *     forward_layer *l = forward_layer_new(m, 0, &e);
 *     forward_batch *b = forward_batch_new(m, context, windows, pool, &e);
 *     forward_embed(b, NULL, ids, x, stride, &e);
 *     for (size_t i = 0; i < sizes->layers; i++)
 *         forward_layer_read(l, i, &e), forward_layer_ahead(l, i + 1),
 *         forward_block(b, l, FORWARD_WHOLE, x, stride, site, &e);
 *     forward_final(b, x, stride, normed, stride, site, &e);
 *     for each run of `rows` tokens of the vocabulary from `first` on:
 *         forward_tile_read(t, first, rows, &e), forward_logits(b, t, normed, stride, tokens, z, stride, &e);
 *
 * What is computed is in docs/forward.md; what an architecture has of it, in its row of the table
 * (forward/architectures.c).
 *
 * Activations are feature-major: feature c of token t is x[c * stride + t]. Rows begin at multiples of 64
 * bytes: the first one is aligned so, and the stride is a multiple of 16 floats, at least the number of
 * tokens (forward_stride). What is behind the last token of a row is overwritten and means nothing. A batch
 * holds whole windows of `context` tokens, one after another; each is a text of its own from position 0 on.
 *
 * Values do not depend on the number of threads, on how windows are put together into batches, or on the ISA
 * level (except that x86-64-v2, which has no fused multiply-add, differs in last bits).
 *
 * Except for forward_model_new and those that return nothing, all calls may be made by several threads at
 * once as long as each has batch, layer and tile of its own.
 */
#ifndef GQ_FORWARD_H
#define GQ_FORWARD_H

#include "base/memory.h"
#include "base/threads.h"
#include "base/warnings.h"
#include "codec/tile.h"
#include "model/model.h"

/* ---- a model that can be run ---- */

typedef struct forward_model forward_model;

/* Reads and checks metadata and tensors. An architecture outside the table, a key that is
 * missing, of a wrong type or in contradiction to others, a tensor that is missing, misshapen, of a type
 * without decoder or unknown to the architecture is an error that names it. g stays the caller's and open
 * until forward_model_free. */
forward_model *forward_model_new(const model_source *g, gq_error *e);
void forward_model_free(forward_model *m);

/* What a model is compared with that is not run. */
typedef struct forward_expected {
    const model_kv *set; /* pairs that count in place of the model's own */
    uint64_t n_set;
    bool (*may_lack)(void *user, const char *tensor); /* whether a tensor may be missing */
    void *user;
    warning_list *doubts; /* sentences about what may be right, and about what cannot be compared */
} forward_expected;
/* Fails where a model lacks a tensor that every model of its architecture has, or has one of another shape
 * than its metadata say: other programs would refuse it, or compute something else. An architecture outside
 * the table and metadata that cannot be read are doubts, not failures. */
bool forward_model_check(const model_source *g, const forward_expected *expected, gq_error *e);
/* How batches that are made from now on multiply weights with activations; at first in float32. */
void forward_model_set_arithmetic(forward_model *m, matmul_arithmetic arithmetic);

typedef struct forward_sizes {
    size_t layers;                       /* layers that are run, one after another */
    size_t blocks;                       /* layers of the file: layer i has the weights of block i % blocks */
    size_t width;                        /* features that layers read and add to */
    size_t vocabulary;                   /* logits of a token; ids are below it */
    size_t trained;                      /* context_length: positions that the model was made for */
    uint64_t layer_bytes;                /* that a whole forward_layer holds: of the largest one */
    uint64_t layer_least;                /* the fewest that one can do with */
    float logit_factor;                  /* that logits are multiplied by */
    const model_tensor *embedding, *out; /* the same where the file has no output.weight */
} forward_sizes;
const forward_sizes *forward_model_sizes(const forward_model *m);
/* Features of the state between layers: the width, and what later layers need of windows of `context` tokens.
 * UINT64_MAX: more than can be counted. */
uint64_t forward_model_state(const forward_model *m, size_t context);
/* The names of the architectures that can be run, in the table's order; NULL behind the last. */
const char *forward_architecture(size_t i);
/* Whether layers can be run in two parts: the second one reads the state that the first one leaves. */
bool forward_model_splits(const forward_model *m);
/* Whether t is reported as a weight at a site (below): the matrices of the layers that are run, and the
 * output matrix unless it is the embedding, whose rows would have to change with it. */
bool forward_feeds(const forward_model *m, const model_tensor *t);
/* The factor by which what t gives is added to the state, which nothing else changes before the part of the
 * layer ends, or the whole layer where the model does not split; a token's own factor, forward_inputs.gate,
 * comes on top. Of blocks that are run several times that is so in the last loop. 0: t is no such weight, or
 * a norm or another matrix comes between (docs/calibration.md). */
float forward_adds(const forward_model *m, const model_tensor *t);
/* Whether t is the router of a layer, and the experts that layer i's router chooses from; 0: it has none. */
bool forward_is_router(const forward_model *m, const model_tensor *t);
size_t forward_router_rows(const forward_model *m, size_t i);
/* The experts that there are for each one that a token meets, rounded up; 1: there are none. */
size_t forward_experts_spread(const forward_model *m);
/* rows[forward_router_rows][width] of layer i: what a state gives, but for its length, by which the router
 * chooses experts. The norm's weights before the router are in it, and only differences of experts. */
bool forward_router_read(const forward_model *m, size_t i, float *rows, gq_error *e);

/* ---- weights ---- */

/* One layer's weights in memory as they are stored; the buffers are used again by the next layer. most: bytes
 * that it may take, at least layer_least; of matrices that it then has no room for rows are read each time
 * that they are multiplied. 0: any, so it has all. */
typedef struct forward_layer forward_layer;
forward_layer *forward_layer_new(const forward_model *m, uint64_t most, gq_error *e);
/* Bytes that it takes. */
uint64_t forward_layer_memory_bytes(const forward_model *m, uint64_t most);
bool forward_layer_read(forward_layer *l, size_t i, gq_error *e);
/* Whether a model that runs its blocks several times is through with them behind this layer, so that a norm
 * follows; as it is read, the last block's layers are such. */
void forward_layer_end_loop(forward_layer *l, bool ends);
/* The layer that was read. */
size_t forward_layer_number(const forward_layer *l);
/* Layer i without reading it: the bytes that another process has read are to be put into its memory. What is
 * not in memory each process reads by itself. */
bool forward_layer_await(forward_layer *l, size_t i, gq_error *e);
void *forward_layer_memory(forward_layer *l);
/* The bytes of that memory that are read of layer i; most: as forward_layer_new has it. */
uint64_t forward_layer_bytes(const forward_model *m, size_t i, uint64_t most);
void forward_layer_free(forward_layer *l);
/* Whole blocks of another type in place of a matrix t of the layer that was read, all of its matrices, until
 * another layer is read; the caller keeps them. data NULL: its own again. */
void forward_layer_replace(forward_layer *l, const model_tensor *t, uint32_t type, const void *data);
/* The same of blocks that are read each time that they are multiplied: n bytes from byte `first` of the
 * weight's on, by several threads at once. l has to be one with bytes of its own that it may take. */
typedef struct forward_blocks {
    bool (*read)(void *data, const model_tensor *t, uint64_t first, void *to, size_t n, gq_error *e);
    void *data;
} forward_blocks;
void forward_layer_replace_read(forward_layer *l, const model_tensor *t, uint32_t type, forward_blocks from);
/* Whether another matrix is still to come in place of t, so that no results of runs with replaced weights are
 * kept that it has a part in (forward_stream_keep). Forgotten when another layer is read. */
void forward_layer_expect(forward_layer *l, const model_tensor *t, bool expects);
/* Chooses the weights that later calls use: replaced ones where there are some, or the layer's own, as after
 * forward_layer_read. */
void forward_layer_use(forward_layer *l, bool replaced);
/* Whether layers a and b are made of the same parts, so that running one takes about as long as the other. */
bool forward_layers_alike(const forward_model *m, size_t a, size_t b);
/* Tells the system that l will read layer i soon; does nothing where there is no layer i. */
void forward_layer_ahead(const forward_layer *l, size_t i);

/* A run of rows of the output matrix: of the tokens first ... first + rows - 1 of the vocabulary. `most`
 * rows is what a tile can hold. */
typedef struct forward_tile forward_tile;
forward_tile *forward_tile_new(const forward_model *m, size_t most, gq_error *e);
uint64_t forward_tile_bytes(const forward_model *m, size_t most);
bool forward_tile_read(forward_tile *t, size_t first, size_t rows, gq_error *e);
void forward_tile_free(forward_tile *t);

/* ---- a batch ---- */

/* The multiple of 16 that rows of so many tokens take. */
static inline size_t forward_stride(size_t tokens) { return (tokens + 15) & ~(size_t)15; }
/* n x stride floats, aligned to 64 bytes and zero; free() releases them. NULL: no memory, or too many. */
float *forward_activations_take(memory_ledger *l, size_t features, size_t stride);
float *forward_activations(size_t features, size_t stride, gq_error *e);

/* Temporaries of up to `windows` windows of `context` tokens, for the threads of a pool (NULL: the caller's
 * alone), which lives as long as the batch. */
typedef struct forward_batch forward_batch;
forward_batch *forward_batch_new(const forward_model *m, size_t context, size_t windows, threads_pool *pool,
                                 gq_error *e);
/* Bytes that it takes, without the state x and what forward_final writes, which are the caller's;
 * UINT64_MAX: more than can be counted. */
uint64_t forward_batch_bytes(const forward_model *m, size_t context, size_t windows, int threads);
/* Sets the number of windows that calls work on from now on, at most the number it was made for; the last
 * batch of a text has fewer. */
void forward_batch_windows(forward_batch *b, size_t windows);
void forward_batch_free(forward_batch *b);

/* The inputs of a matrix of weights, handed out right before it is used (docs/forward.md has the list):
 * `features` rows of activations of `tokens` tokens. Weights that share inputs are reported together. A
 * weight of several matrices (experts, heads) is reported once per matrix and batch; an expert without tokens
 * in a batch is not reported. */
enum { FORWARD_MOST_WEIGHTS = 8 };
typedef struct forward_inputs {
    const model_tensor *weights[FORWARD_MOST_WEIGHTS];
    size_t n_weights;
    size_t matrix, matrices; /* which of how many of these weights; 0 of 1 for plain ones */
    bool routed;             /* the matrices are experts: each sees tokens of its own */
    bool late;               /* and they read what other experts of the layer give */
    const float *x;
    size_t features, tokens, stride;
    /* Which tokens of the batch, ascending; NULL: all in order. Late experts may see a token several times,
     * so that there are more tokens than in the batch. */
    const uint32_t *token;
    size_t first; /* the batch's first token among all of the stream's; 0 without a stream */
    /* Per token, what the output of its matrix is multiplied by, or that of its expert; NULL: 1. */
    const float *gate;
} forward_inputs;
typedef enum forward_answer {
    FORWARD_FAILED, /* the call ends with the error that was given */
    FORWARD_ON,
    /* Nothing more is computed for this expert, which the sum of experts then lacks; not an expert's: the
     * same as FORWARD_ON. */
    FORWARD_SKIP,
    FORWARD_END, /* nothing more is computed: the call returns true, and what it gives means nothing */
} forward_answer;
/* The queries and keys of a layer, as they are compared (forward/scores.h). */
typedef struct forward_scores forward_scores;
/* Called by the thread that called forward_block or forward_final. */
typedef struct forward_site {
    forward_answer (*on_inputs)(void *data, const forward_inputs *inputs, gq_error *e);
    void *data;
    /* Called right before a layer attends, where it has forward_row_groups; NULL: not asked for. */
    forward_answer (*on_scores)(void *data, const forward_scores *scores, gq_error *e);
    size_t windows; /* forward_stream_look runs no more than so many, the batch's first; 0: all */
} forward_site;

/* Other rows than the file's embedding: of n ids, n x width floats, before they are scaled. */
typedef struct forward_rows {
    bool (*read)(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e);
    void *data;
} forward_rows;
/* x[state]: the state before the first layer. ids: one per token of the batch; those beyond the vocabulary
 * are an error. rows NULL: those of the embedding, which are read from the file as needed. */
bool forward_embed(forward_batch *b, const forward_rows *rows, const uint32_t *ids, float *x, size_t stride,
                   gq_error *e);

/* The parts of a layer that are run. Running one after the other gives the same bits as the whole. */
typedef enum forward_part { FORWARD_ATTENTION = 1, FORWARD_FFN = 2, FORWARD_WHOLE = 3 } forward_part;
/* x becomes the state after this part of the layer that l holds; a single part is an error where the model
 * does not split. Inf or NaN in what flows into weights is an error that names them. site may be NULL. */
bool forward_block(forward_batch *b, const forward_layer *l, forward_part part, float *x, size_t stride,
                   const forward_site *site, gq_error *e);
/* normed[width]: what flows into the output matrix, of the state after the last layer. x stays. May be done
 * in place. */
bool forward_final(forward_batch *b, const float *x, size_t stride, float *normed, size_t normed_stride,
                   const forward_site *site, gq_error *e);
/* z[rows of the tile][tokens]: final logits (scaled, capped) of `tokens` tokens, any of any batch, as
 * forward_final left them. */
bool forward_logits(forward_batch *b, const forward_tile *t, const float *normed, size_t normed_stride,
                    size_t tokens, float *z, size_t stride, gq_error *e);

#endif
