/* Whether a projector is whole: arrays that are missing or of another shape are found before anything is written. */
#pragma once

#include "arch/projector.h"
#include "hf/tensors/build.h"

/* Fails for layers that differ and for widths that are not the config's; warns of tensors that the row's projectors
 * usually have. `p`: the metadata that are set. */
bool hf_projector_check(const hf_build *b, const arch_projector *row, const hf_pairs *p, gq_error *e);
