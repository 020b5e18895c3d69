/* Finds tensors by name and checks their shapes. The first fault sets *e and clears `ok`; later calls do
 * nothing. */
#pragma once

#include "forward/graph/model.h"
#include "gguf/facts.h"

typedef struct tensor_finder {
    forward_model *m;
    gq_error *e;
    bool ok;
    bool *taken;                      /* per tensor of the file, in the order of by_name */
    layer_spec *l;                    /* the layer whose tensors are looked for now */
    size_t index;                     /* its number */
    const struct tensor_hooks *hooks; /* NULL: the model is run */
    size_t n_required;                /* tensors that were asked for and may not be missing */
    bool is_partial; /* the layer lacks a tensor that may be missing: shapes of others are not compared */
} tensor_finder;

/* Additional questions of the check of a model that is not run (expected.c). */
typedef struct tensor_hooks {
    /* Returns the name of a missing tensor; where other layers have the tensor, and others in one matrix,
     * that matrix's name. */
    const char *(*name)(const tensor_finder *f, const char *name, char other[GGUF_MAX_NAME + 1]);
    /* Whether a tensor of this name may be missing; if so it becomes a doubt. */
    bool (*may_lack)(tensor_finder *f, const char *name);
    /* Compares rows that follow only from a tensor's own shape with the key that has their number. NULL: no
     * shape is compared. */
    void (*check_rows)(tensor_finder *f, weight_slot s, const model_tensor *t);
    /* Notes whether the layer has an optional tensor; may be NULL. */
    void (*count_optional)(tensor_finder *f, weight_slot s, bool is_bias, bool has);
    void *own; /* of the hooks */
} tensor_hooks;

typedef struct tensor_shape {
    uint64_t ne[4];
    int n; /* dimensions */
} tensor_shape;
#define SHAPE(...) ((tensor_shape){{__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)})

/* Finds a tensor by its whole name and marks it as taken; NULL: it is not there, or p is ABSENT or UNUSED. In
 * the end a tensor that nobody has taken is an error. */
const model_tensor *tensors_take(tensor_finder *f, const char *name, presence p, tensor_shape of);

/* The same of a table of 32-bit integers, which nothing decodes. */
const model_tensor *tensors_take_integers(tensor_finder *f, const char *name, presence p, tensor_shape of);

/* Finds all of a model's tensors. The caller frees f->taken, also after a failure. */
bool tensors_find_all(tensor_finder *f);
/* Whether a tensor belongs to a block behind those that are run, which predicts more tokens. */
bool tensors_in_extra_block(const tensor_finder *f, const char *name, model_block *b);

enum { TENSOR_OWN_NAME = 256 };
/* Returns " (the name that its container has for a tensor)", written into own; "": the same name. */
const char *tensors_own_name(const tensor_finder *f, const char *name, char own[TENSOR_OWN_NAME]);
/* Fails with both shapes. why: what the expected one follows from, or "". */
void tensors_fail_shape(tensor_finder *f, const model_tensor *t, tensor_shape s, const char *why);
/* Fails for want of a tensor; if the model is only checked and the tensor may be missing that is a doubt. */
void tensors_fail_missing(tensor_finder *f, const char *name);
/* Rows of a tensor as it is delivered. */
static inline uint64_t tensor_rows(const model_tensor *t) { return t->ne[t->transposed ? 0 : 1]; }

/* Marks a tensor as taken that has no effect, where it is there. */
void tensors_ignore(tensor_finder *f, const char *name);

/* ---- of the layer ---- */

/* A name such as "blk.0.attn_q.weight". */
typedef struct tensor_name {
    char text[GGUF_MAX_NAME + 1];
} tensor_name;
tensor_name tensors_layer_name(const forward_model *m, size_t layer, weight_slot s, const char *suffix);
bool tensors_layer_has(const forward_model *m, size_t layer, weight_slot s);
/* Returns the layer's weight of that name; NULL: it has none. */
const model_tensor *tensors_layer_weight(const forward_model *m, size_t layer, weight_slot s);
/* Rows of a matrix whose number follows only from its own shape; 1 where it is missing, which
 * tensors_take_weight then reports. */
size_t tensors_rows(tensor_finder *f, weight_slot s);
/* Rows of each of two matrices that are stored as one; at least 1. Checking the shape of both finds an odd
 * number. */
static inline size_t tensors_halved(size_t rows) { return rows < 2 ? 1 : rows / 2; }
/* Take into the layer's plan: a weight; a weight with a bias as long as its outputs; a bias alone. */
void tensors_take_weight(tensor_finder *f, weight_slot s, presence p, tensor_shape of);
void tensors_take_biased(tensor_finder *f, weight_slot s, presence p, tensor_shape of, presence bias);
void tensors_take_bias(tensor_finder *f, weight_slot s, presence p, tensor_shape of);

bool model_find_tensors(forward_model *m, gq_error *e);
