/* How a folder's weights are coded, as a whole: what config.json says of it, held against the arrays. */
#ifndef GQ_HF_CODED_PARTS_H
#define GQ_HF_CODED_PARTS_H

#include "hf/arrays/coded.h"

typedef struct coded_find {
    const hf_config *config;
    const hf_list *list;
    const json_t *settings; /* quantization_config; NULL: none */
    json_t *own;            /* what was read from hf_quant_config.json; NULL: nothing */
    const char *method;     /* its quant_method, or what stands for one; NULL: none, or no array is coded */
    bool has_scales;        /* some array of F8 has a scale beside it */
    size_t n_left_out;      /* scales of activations */
    const char *left_out;   /* the first of them */
} coded_find;

#endif
