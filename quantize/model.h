/* The definition of gq_model of the public header. */
#ifndef GQ_MODEL_H
#define GQ_MODEL_H

#include "model/model.h"
#include "quantize/gquant.h"

struct gq_model {
    model_source file;
    gq_metadata *metadata;
    gq_stored *tensors;
    gq_model_facts facts;
};

#endif
