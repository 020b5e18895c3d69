/* Finds tensors by name and checks their shapes. The first fault sets *e and clears `ok`; later calls do
 * nothing. */
#ifndef GQ_FORWARD_TENSORS_H
#define GQ_FORWARD_TENSORS_H

#include "forward/model.h"

typedef struct tensor_finder {
    forward_model *m;
    gq_error *e;
    bool ok;
    bool *taken;   /* per tensor of the file, in the order of by_name */
    layer_plan *l; /* the layer whose tensors are looked for now */
    size_t index;  /* its number */
} tensor_finder;

typedef struct tensor_shape {
    uint64_t ne[3];
    int n; /* dimensions */
} tensor_shape;
#define SHAPE(...) ((tensor_shape){{__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)})

/* Finds a tensor by its whole name and marks it as taken; NULL: it is not there, or p is ABSENT or UNUSED. In
 * the end a tensor that nobody has taken is an error. */
const model_tensor *tensors_take(tensor_finder *f, const char *name, presence p, tensor_shape of);

/* Marks a tensor as taken that has no effect, where it is there. */
void tensors_ignore(tensor_finder *f, const char *name);

/* ---- of the layer ---- */

/* A name such as "blk.0.attn_q.weight", valid until the next call. */
const char *tensors_layer_name(size_t layer, weight_slot s, const char *suffix);
bool tensors_layer_has(const forward_model *m, size_t layer, weight_slot s);
/* Rows of a matrix whose number follows only from its own shape; 1 where it is missing, which
 * tensors_take_weight then reports. */
size_t tensors_rows(const tensor_finder *f, weight_slot s);
/* Rows of each of two matrices that are stored as one; at least 1. Checking the shape of both finds an odd
 * number. */
static inline size_t tensors_halved(size_t rows) { return rows < 2 ? 1 : rows / 2; }
/* Take into the layer's plan: a weight; a weight with a bias as long as its outputs; a bias alone. */
void tensors_take_weight(tensor_finder *f, weight_slot s, presence p, tensor_shape of);
void tensors_take_biased(tensor_finder *f, weight_slot s, presence p, tensor_shape of, presence bias);
void tensors_take_bias(tensor_finder *f, weight_slot s, presence p, tensor_shape of);

#endif
