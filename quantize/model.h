/* The definition of gq_model of the public header. */
#ifndef GQ_MODEL_H
#define GQ_MODEL_H

#include "model/model.h"
#include "quantize/gquant_inspect.h"

struct gq_model {
    model_source file;
    gq_metadata *metadata;
    gq_stored *tensors;
    gq_origin *origins; /* of the tensors */
    gq_model_facts facts;
};

/* Fills *to, if a tensor has an origin, and returns it; else NULL. Its texts are the model's. */
const gq_origin *model_origin_show(const model_tensor *t, gq_origin *to);
/* Returns the bytes that a tensor takes in the model's files. */
uint64_t model_stored_bytes(const model_tensor *t);

#endif
