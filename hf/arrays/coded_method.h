/* The method by which a folder's weights are quantized, and the arrays that belong to it. */
#pragma once

#include "hf/arrays/coded.h"

/* What config.json says of it, held against the arrays. */
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

/* Returns a text of the settings; NULL: no such key, or no text. */
const char *coded_text(const coded_find *c, const char *key);
bool coded_method_is(const coded_find *c, const char *method);
/* Finds the array whose name is `name` with its last `cut` characters replaced. NULL: there is none. */
const hf_stored *coded_sibling(const coded_find *c, const char *name, size_t cut, const char *end);
/* Returns the floats beside an array of F8 by which it is multiplied; NULL: there are none. `t` may be of any
 * type. */
const hf_stored *coded_scale_beside(const coded_find *c, const hf_stored *t);
bool stored_is_f8(const hf_stored *t);

/* Finds how weights are coded: in config.json, or in the file that modelopt leaves beside it. What they say
 * counts only where arrays are coded; else it warns. On failure, too, the caller releases c->own. */
bool coded_find_method(coded_find *c, gq_error *e);
/* Warns of the scales of activations that were left out. */
bool coded_warn_left_out(const coded_find *c, gq_error *e);
