/* A comparison: its models, the tensors that they share, and their losses. */
#ifndef GQ_INSPECT_COMPARISON_H
#define GQ_INSPECT_COMPARISON_H

#include "base/warnings.h"
#include "imatrix/inputs.h"
#include "quantize/gquant_inspect.h"
#include "quantize/strips/strip.h"

/* A model and its name. */
typedef struct named_model {
    model_source model;
    char path[4096];
} named_model;

typedef struct compared_copy {
    named_model file;
    gq_summary summary;
    size_t n;
    gq_tensor *tensors; /* that it shares with the original */
    size_t *numbers;    /* which of the original's each is */
    gq_loss *losses;
} compared_copy;

struct gq_comparison {
    const kernels *kernels;
    named_model original;
    size_t n_copies;
    compared_copy *copies;
    model_inputs inputs; /* without a path: no importance data */
    gq_origin *origins;  /* of the original's tensors */
    warning_list warnings;
    double seconds;
};

#endif
