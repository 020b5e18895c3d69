/* Whether a projector's tensors are as large as those of its kind. */
#pragma once

#include "arch/projector.h"
#include "hf/tensors/build.h"

/* Fails for a number of the config that would make sizes unknown: 0 layers, heads, columns or pixels. */
bool hf_projector_check_counts(const hf_config *c, const arch_projector *row, gq_error *e);
/* `p`: the metadata that are set. */
bool hf_projector_check_shapes(const hf_build *b, const arch_projector *row, const hf_pairs *p, gq_error *e);
