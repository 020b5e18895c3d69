/* Opens a model by its path, whatever container it is in, and says what it has. */
#pragma once

#include "gguf/model.h"
#include "quantize/gquant_inspect.h"

/* Opens a GGUF file, any shard of a split one, a Hugging Face folder, or an image model's safetensors.
 * Everything is checked except
 * the weights. The caller closes *m with model_close, which it may also do after a failure. */
bool input_open(model_source *m, const char *path, gq_error *e);
/* The same with adapters merged into it, and with a draft's target, which only a folder can have; NULL: none. */
bool input_open_adapted(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e);
/* The same for the projector of a folder, in place of its text model; no target. */
bool input_open_projector(model_source *m, const char *path, const gq_adapters *adapters, gq_error *e);
/* Returns the path that names of outputs begin with: that of the input, unless the model is called otherwise;
 * the names of adapters (NULL: none) follow. malloc'ed; NULL: no memory. */
char *input_stem(const char *path, const gq_adapters *adapters, gq_error *e);
/* gq_kept_path of an input with adapters. */
char *input_kept_path(const char *path, const gq_adapters *adapters, const char *suffix, gq_error *e);

/* An open model, as the public header has it. */
struct gq_model {
    model_source file;
    gq_metadata *metadata;
    gq_stored *tensors;
    gq_origin *origins; /* of the tensors */
    gq_model_facts facts;
    /* Per tensor of `file`, what the first plan that was lent the model has found of the lattice that it lies on
     * (plan/target/lattice.c); 0: nothing yet. It saves the others reading the weights again. */
    _Atomic uint64_t *lattices;
};

/* Fills *to, if a tensor has an origin, and returns it; else NULL. Its texts are the model's. */
const gq_origin *model_origin_show(const model_tensor *t, gq_origin *to);
/* Returns the bytes that a tensor takes in the model's files. */
uint64_t model_stored_bytes(const model_tensor *t);
