/* Tensors that are written transposed. */
#ifndef GQ_TRANSPOSE_H
#define GQ_TRANSPOSE_H

#include "quantize/plan/plan.h"

/* Have the sources that the options name read transposed; those that are stored so become as they were. */
bool plan_transpose(gq_plan *plan, const gq_options *options, gq_error *e);
/* Name the tensors that are stored transposed in the outputs, if there are any. */
bool plan_transposed_write(const gq_plan *plan, gguf_header *h, gq_error *e);

#endif
