/* Metadata of the output: what overrides and pruned layers make of the input's. */
#ifndef GQ_META_H
#define GQ_META_H

#include "gguf/gguf.h"
#include "quantize/plan/plan.h"

/* All but the split keys. */
bool plan_meta_write(const gq_plan *plan, const plan_output *out, const gq_options *options, gguf_header *h,
                     gq_error *e);

#endif
