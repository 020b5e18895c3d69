/* The origin of a delivered tensor, for people: which arrays it is made of, how these are coded, and what is
 * done to them. */
#pragma once

#include "hf/tensors/tensor.h"

/* Sets t->origin and its tensor's pointer to it, once the tensor is joined and stays where it is. */
bool hf_origin_describe(hf_tensor *t, gq_error *e);
void hf_origin_free(hf_tensor *t);
