/* Running a language model: from ids of tokens to logits, a layer at a time.
 *
 *     forward_model *m = forward_model_new(g, &e);
 *     forward_layer *l = forward_layer_new(m, 0, &e);
 *     forward_batch *b = forward_batch_new(m, context, windows, pool, &e);
 *     forward_embed(b, NULL, ids, x, stride, &e);
 *     for (size_t i = 0; i < sizes->layers; i++)
 *         forward_layer_read(l, i, &e), forward_layer_ahead(l, i + 1),
 *         forward_block(b, l, FORWARD_WHOLE, x, stride, observer, &e);
 *     forward_final(b, x, stride, normed, stride, observer, &e);
 *     for each run of `rows` tokens of the vocabulary from `first` on:
 *         forward_tile_read(t, first, rows, &e), forward_logits(b, t, normed, stride, tokens, z, stride, &e);
 *
 * What is computed is in docs/internals/forward.md; what an architecture has of it, in its row of the table
 * (arch/graph.h).
 *
 * Activations are feature-major: feature c of token t is x[c * stride + t]. Rows begin at multiples of 64
 * bytes: the first one is aligned so, and the stride is a multiple of 16 floats, at least the number of
 * tokens (forward_stride). What is behind the last token of a row is overwritten and means nothing. A batch
 * holds whole windows of `context` tokens, one after another; each is a text of its own from position 0 on,
 * or holds several of them (forward_batch_cut).
 *
 * Values do not depend on the number of threads, on how windows are put together into batches, or on the ISA
 * level (except that x86-64-v2, which has no fused multiply-add, differs in last bits).
 *
 * Except for forward_model_new and those that return nothing, all calls may be made by several threads at
 * once as long as each has batch, layer and tile of its own. */
#pragma once

#include "base/memory.h"
#include "base/threads.h"
#include "base/warnings.h"
#include "codec/tile.h"
#include "gguf/model.h"

/* ---- a model that can be run ---- */

typedef struct forward_model forward_model;

/* Reads and checks metadata and tensors. An architecture outside the table, a key that is missing, of a wrong
 * type or in contradiction to others, a tensor that is missing, misshapen, of a type without decoder or unknown
 * to the architecture is an error that names it. g stays the caller's and open until forward_model_free. */
forward_model *forward_model_new(const model_source *g, gq_error *e);
/* The same of a draft model for speculative decoding (draft.h), which its numbers have to fit. Both stay as
 * long as it. */
forward_model *forward_model_new_draft(const model_source *g, const forward_model *target, gq_error *e);
/* Whether a file is of such an architecture. */
bool forward_continues_hidden_states(const model_source *g);
void forward_model_free(forward_model *m);
/* Whether models of this architecture give a text's embedding in place of logits. */
bool forward_embeds(const model_source *g);
/* Whether tokens of this architecture see those behind them, too. */
bool forward_is_bidirectional(const model_source *g);
/* Whether models of this architecture predict what masks stand for, in place of the next token. */
bool forward_fills_masks(const model_source *g);

/* Fails where a model lacks a tensor that every model of its architecture has, or has one of another shape
 * than its metadata say: other programs would refuse it, or compute something else. An architecture outside
 * the table and metadata that cannot be read are doubts, not failures. */
bool forward_model_check(const model_source *g, const model_expected *expected, gq_error *e);
/* Sets the arithmetic of products in batches made from now on; float32 at first. */
void forward_model_set_arithmetic(forward_model *m, matmul_arithmetic arithmetic);

/* The pooling of an embedding model; the numbers are those of pooling_type. */
typedef enum forward_pooling {
    POOL_NONE,
    POOL_MEAN,
    POOL_FIRST,
    POOL_LAST,
    POOL_RANK,
    POOL_KINDS
} forward_pooling;
enum { FORWARD_MOST_DENSE = 2 }; /* matrices behind it */

typedef struct forward_sizes {
    size_t layers;                       /* layers that are run, one after another */
    size_t blocks;                       /* layers of the file: layer i has the weights of block i % blocks */
    size_t width;                        /* features that layers read and add to */
    size_t vocabulary;                   /* logits of a token; ids are below it */
    size_t trained;                      /* context_length: positions that the model was made for */
    uint64_t layer_bytes;                /* memory of a whole forward_layer: of the largest layer */
    uint64_t layer_least;                /* the fewest that one can do with */
    float logit_factor;                  /* logits are multiplied by this */
    const model_tensor *embedding, *out; /* the same where the file has no output.weight */
    bool halves;             /* an encoder reads the first half of a window, a decoder the second */
    bool embeds;             /* the model gives a text's embedding and no logits (forward/graph/block.h) */
    forward_pooling pooling; /* of its hidden states, if it does */
    size_t embedded;         /* features of that */
} forward_sizes;
const forward_sizes *forward_model_sizes(const forward_model *m);
/* The first token of a window of so many that predicts the one behind it. */
static inline size_t forward_predicts_from(const forward_model *m, size_t context) {
    return forward_model_sizes(m)->halves ? context / 2 : 0;
}
/* Features of the hidden state between layers: the width, and what later layers need of windows of `context`
 * tokens. UINT64_MAX: more than can be counted. */
uint64_t forward_model_features(const forward_model *m, size_t context);
/* Whether layers can be run in two sublayers: the second sublayer reads only the residual stream behind the first. */
bool forward_model_splits(const forward_model *m);
/* Whether t is reported as a weight with its inputs (below): the matrices of the layers that are run, of MTP
 * layers that are set up (draft.h), and the output matrix unless it is the embedding, whose rows would have
 * to change with it. What reads all streams of a model behind its last layer (hyper.c) is reported as well,
 * and is none of these. */
bool forward_feeds(const forward_model *m, const model_tensor *t);
/* The layer that has the weight of this name; SIZE_MAX: none that is run, or an MTP layer. Of blocks that are
 * run several times, the first. */
size_t forward_layer_of(const forward_model *m, const char *name);
/* N of "blk.N." in the names of a layer's weights. */
size_t forward_block_of(const forward_model *m, size_t layer);
/* The first matrix that has a factor beside it, by which its products are multiplied; NULL: none has. */
const model_tensor *forward_factored(const forward_model *m);
/* The factor by which what t gives is added to the residual stream, which nothing else changes before the
 * sublayer of the layer ends, or the whole layer where the model does not split; a token's own factor,
 * forward_inputs.gate, comes on top. Of blocks that are run several times that is so in the last loop. 0: t
 * is no such weight, or a norm or another matrix comes between (docs/internals/calibration.md). */
float forward_adds(const forward_model *m, const model_tensor *t);
/* The experts that there are for each one that a token meets, rounded up; 1: there are none. */
size_t forward_experts_spread(const forward_model *m);
/* The most times that an expert may get the same token: those of late layers may get it several times. */
size_t forward_experts_repeats(const forward_model *m);

/* Whether layer i is not run: of blocks that are run several times some rest in some loops. */
bool forward_layer_idles(const forward_model *m, size_t i);
/* Whether layers a and b are made of the same sublayers, so that running one takes about as long as the other. */
bool forward_layers_alike(const forward_model *m, size_t a, size_t b);

/* ---- a batch ---- */

/* The multiple of 16 that rows of so many tokens take. */
static inline size_t forward_stride(size_t tokens) { return (tokens + 15) & ~(size_t)15; }
/* n x stride floats, aligned to 64 bytes and zero; free() releases them. NULL: no memory, or too many. */
float *forward_activations_take(memory_ledger *l, size_t features, size_t stride);
float *forward_activations(size_t features, size_t stride, gq_error *e);

/* The position of a token in a packed window. Windows may hold several texts, one after another, each of
 * which begins at a multiple of FORWARD_TEXT_ALIGNMENT tokens of its window and has position 0 there. What fills
 * the window behind a text has position FORWARD_BEHIND_TEXT and weight 0. weight: how much the token counts
 * in what is learned from the text, in FORWARD_WEIGHT_ONE-ths. */
enum { FORWARD_TEXT_ALIGNMENT = 64, FORWARD_WEIGHT_ONE = 256 };
#define FORWARD_BEHIND_TEXT UINT32_MAX
typedef struct forward_mark {
    uint32_t position, weight;
} forward_mark;

/* Temporaries of up to `windows` windows of `context` tokens, for the threads of a pool (NULL: the caller's
 * alone), which lives as long as the batch. */
typedef struct forward_batch forward_batch;
forward_batch *forward_batch_new(const forward_model *m, size_t context, size_t windows, threads_pool *pool,
                                 gq_error *e);
/* Bytes that it takes, without the hidden states x and what forward_final writes, which are the caller's;
 * UINT64_MAX: more than can be counted. */
uint64_t forward_batch_bytes(const forward_model *m, size_t context, size_t windows, int threads);
/* Makes it one of another model with the same kernels, whose batch would take no more memory. */
bool forward_batch_set_model(forward_batch *b, const forward_model *m, gq_error *e);
/* Sets the number of windows that calls work on from now on, at most the number it was made for; the last
 * batch of a text has fewer. */
void forward_batch_windows(forward_batch *b, size_t windows);
/* Cuts these windows into the texts that the marks of their tokens give: no token sees one of another text.
 * forward_batch_windows makes each window one text again. */
void forward_batch_cut(forward_batch *b, const forward_mark *marks);
void forward_batch_free(forward_batch *b);

/* The inputs of a matrix of weights, handed out right before it is used (docs/internals/forward.md has the
 * list): `features` rows of activations of `tokens` tokens. Weights that share inputs are reported together.
 * A weight of several matrices (experts, heads) is reported once per matrix and batch; an expert without
 * tokens in a batch is not reported. */
enum { FORWARD_MOST_WEIGHTS = 8 };
typedef struct forward_inputs {
    const model_tensor *weights[FORWARD_MOST_WEIGHTS];
    size_t n_weights;
    size_t matrix, matrices; /* number of the matrix, and of how many; 0 of 1 for plain weights */
    bool routed;             /* the matrices are experts: each sees tokens of its own */
    bool late;               /* and they read what other experts of the layer give */
    const float *x;
    size_t features, tokens, stride;
    /* Tokens of the batch, ascending; NULL: all in order. A stream's inputs may have no token at all. Late
     * experts may see a token several times, so that there are more tokens than in the batch. */
    const uint32_t *token;
    size_t first;    /* the batch's first token among all of the stream's; 0 without a stream */
    uint64_t weight; /* of all these tokens together, in FORWARD_WEIGHT_ONE-ths; 0 without a stream */
    /* Per token, what the output of its matrix is multiplied by, or that of its expert; NULL: 1. */
    const float *gate;
} forward_inputs;
typedef enum forward_answer {
    FORWARD_FAILED, /* the call ends with the error that was given */
    FORWARD_ON,
    /* Nothing more is computed for this expert, and the sum of experts lacks it; for other matrices the same as
     * FORWARD_ON. */
    FORWARD_SKIP,
    FORWARD_END, /* nothing more is computed: the call returns true, and what it gives means nothing */
} forward_answer;
/* The queries and keys of a layer, as they are compared (forward/graph/attention/scores.h). */
typedef struct forward_scores forward_scores;
/* Called by the thread that called forward_block or forward_final. */
typedef struct forward_observer {
    /* May be NULL for a stream: all continues. */
    forward_answer (*on_inputs)(void *data, const forward_inputs *inputs, gq_error *e);
    void *data;
    /* Called right before a layer attends, where it has forward_row_groups; NULL: not asked for. */
    forward_answer (*on_scores)(void *data, const forward_scores *scores, gq_error *e);
    size_t windows; /* forward_stream_probe runs no more than so many, the batch's first; 0: all */
} forward_observer;

/* Tensors between which scales can be moved: whatever a column of some matrices is multiplied by, and the
 * weights that make what it reads divided by, logits stay the same, bit for bit with powers of two. */

enum {
    FORWARD_GROUP_READERS = 8,
    FORWARD_GROUP_MAKERS = 2,
    FORWARD_SCALE_GROUPS = 6, /* of a block, at most */
};

typedef struct forward_scale_group {
    /* Matrices of `columns` columns each. */
    const model_tensor *readers[FORWARD_GROUP_READERS];
    size_t n_readers;
    size_t n_judged; /* the first readers, by which columns are judged: others are helpers (arch/weights.h) */
    size_t columns;
    /* A norm's weights and bias, one value per column for all readers; or a matrix, of which row first_row +
     * c makes column c. Then matrix i of the one reader reads what matrix i of the maker gives. */
    const model_tensor *makers[FORWARD_GROUP_MAKERS];
    size_t n_makers;
    bool of_rows;
    size_t first_row;
} forward_scale_group;

/* Fills the groups of block i, those of the output matrix where i is the number of blocks, and returns how
 * many there are. Sublayers of which it is not known have none. */
size_t forward_scale_groups(const forward_model *m, size_t i,
                            forward_scale_group groups[FORWARD_SCALE_GROUPS]);
