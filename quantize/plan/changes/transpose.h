/* Tensors that are written transposed (gq_options.transpose). */
#ifndef GQ_TRANSPOSE_H
#define GQ_TRANSPOSE_H

#include "gguf/header.h"
#include "quantize/plan/plan.h"

/* Makes the sources that the options name be read transposed. Those that are stored transposed get their rows
 * and columns back. */
bool plan_transpose(gq_plan *plan, const gq_options *options, gq_error *e);
/* Writes the key that names the outputs' transposed tensors, if there are any. */
bool plan_transposed_write(const gq_plan *plan, gguf_header *h, gq_error *e);

#endif
