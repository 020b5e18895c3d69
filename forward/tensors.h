/* Finding tensors by name, with their shapes checked. The first thing that is wrong is told and ends it;
 * later calls do nothing. */
#ifndef GQ_FORWARD_TENSORS_H
#define GQ_FORWARD_TENSORS_H

#include "forward/model.h"

typedef struct tensor_finder {
    forward_model *m;
    gq_error *e;
    bool ok;
    bool *taken;   /* by place in the file's tensors by name */
    layer_plan *l; /* whose tensors are looked for now */
    size_t index;  /* its number */
} tensor_finder;

typedef struct tensor_shape {
    uint64_t ne[3];
    int n; /* dimensions */
} tensor_shape;
#define SHAPE(...) ((tensor_shape){{__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)})

/* By its whole name; NULL: it is not there, or ABSENT. A tensor that nobody takes is an error in the end. */
const model_tensor *tensors_take(tensor_finder *f, const char *name, presence p, tensor_shape of);

/* ---- of the layer ---- */

/* A name such as "blk.0.attn_q.weight", valid until the next call. */
const char *tensors_layer_name(size_t layer, weight_slot s, const char *suffix);
bool tensors_layer_has(const forward_model *m, size_t layer, weight_slot s);
/* Rows of a matrix whose number only its own shape tells; 1 where it is not there, which is told later. */
size_t tensors_rows(const tensor_finder *f, weight_slot s);
/* Rows of each of two matrices in one; at least 1, which the shape of both then tells from what is there. */
static inline size_t tensors_halved(size_t rows) { return rows < 2 ? 1 : rows / 2; }
/* Into the plan: a weight; and with a bias as long as its outputs; a bias alone. */
void tensors_take_weight(tensor_finder *f, weight_slot s, presence p, tensor_shape of);
void tensors_take_biased(tensor_finder *f, weight_slot s, presence p, tensor_shape of, presence bias);
void tensors_take_bias(tensor_finder *f, weight_slot s, presence p, tensor_shape of);

#endif
