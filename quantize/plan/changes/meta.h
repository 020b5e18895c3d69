/* The metadata of an output: the input's, as overrides, pruned layers and new types change them. */
#pragma once

#include "gguf/gguf.h"
#include "quantize/plan/plan.h"

/* Writes all pairs except those about shards into a header. */
bool plan_meta_write(const gq_plan *plan, const plan_output *out, const gq_options *options, gguf_header *h,
                     gq_error *e);
