/* Weights in memory: those of one layer, and a tile of the output matrix. layer.c says how they lie there. */
#pragma once

#include "forward/graph/forward.h"

/* One layer's weights in memory as they are stored; the buffers are used again by the next layer. most: bytes
 * that it may take, at least layer_least; of matrices that it then has no room for rows are read each time
 * that they are multiplied. 0: any, so it has all. */
typedef struct forward_layer forward_layer;
forward_layer *forward_layer_new(const forward_model *m, uint64_t most, gq_error *e);
/* Makes it one of another model, whose layers take no more memory; none is read. */
void forward_layer_set_model(forward_layer *l, const forward_model *m);
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
 * kept that it has a part in (forward_stream_cache). Forgotten when another layer is read. */
void forward_layer_expect(forward_layer *l, const model_tensor *t, bool expects);
/* Chooses the weights that later calls use: replaced ones where there are some, or the layer's own, as after
 * forward_layer_read. */
void forward_layer_use(forward_layer *l, bool replaced);

/* Announces to the system that l will read layer i soon; does nothing where there is no layer i. */
void forward_layer_ahead(const forward_layer *l, size_t i);

typedef struct layer_spec layer_spec; /* forward/graph/model.h */
/* Bytes of a layer in memory, whole; and the fewest that it takes, with no matrix in memory but those at
 * work. */
uint64_t layer_spec_bytes(const layer_spec *plan);
uint64_t layer_spec_least(const layer_spec *plan);
/* Returns the share of these bytes that holds rows read on multiplication. most: bytes that the layer may
 * take (forward_layer_new). */
uint64_t layer_window_bytes(const layer_spec *plan, uint64_t most);

/* A run of rows of the output matrix: of the tokens first ... first + rows - 1 of the vocabulary. `most`
 * rows is what a tile can hold. */
typedef struct forward_tile forward_tile;
forward_tile *forward_tile_new(const forward_model *m, size_t most, gq_error *e);
uint64_t forward_tile_bytes(const forward_model *m, size_t most);
bool forward_tile_read(forward_tile *t, size_t first, size_t rows, gq_error *e);
void forward_tile_free(forward_tile *t);
