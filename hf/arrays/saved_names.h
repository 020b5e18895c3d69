/* Names that training tools, compilers and adapters leave in a folder's arrays. */
#pragma once

#include "hf/arrays/safetensors.h"

/* Takes the wrappers of training tools out of all names, such as "_orig_mod.", wherever they stand, and warns
 * of it. Two arrays with one name afterwards are an error. */
bool hf_list_unwrap(hf_list *l, gq_error *e);
/* Fails for an array that no rule of an architecture has: by the tool whose mark its name bears, with what to
 * do; else by the nearest name that a rule has, NULL where none is near. `method`: the quant_method of
 * config.json, which is told in place of a quantizer's name; NULL: none. */
bool hf_name_fail(const hf_list *l, const hf_stored *t, const char *arch, const char *method,
                  const char *nearest, gq_error *e);
/* The same for an array of codes that no rule of a quantization reads. */
bool hf_codes_fail(const hf_list *l, const hf_stored *t, const char *method, gq_error *e);
