/* The projector of a folder: the multimodal projector, as the file that llama.cpp's converter makes with
 * --mmproj. */
#pragma once

#include "hf/tensors/tensors.h"

/* Finds the row of a config's projector and lays out c->merged as its items expect (arch/projector.h). c->merged must
 * be as hf_config_open leaves it. Fails for a class that has none, by its name and with what to do. */
bool hf_projector_find(const arch_projector **row, hf_config *c, gq_error *e);
/* Makes its tensors, of sources that `change`, with `user`, changes (NULL: as they are), and sets its metadata.
 * Source tensors that are none of the projector's leave the list. On failure, too, hf_build_free has to be called. */
bool hf_projector_build(hf_build *b, const arch_projector *row, const hf_config *c, hf_list *l,
                        hf_metadata *metadata, hf_build_change *change, const void *user, gq_error *e);

/* ---- whether a projector is whole (projector_check.c, arch/projector.c) ---- */

/* Fails for layers that differ and for widths that are not the config's; warns of tensors that the row's projectors
 * usually have. `p`: the metadata that are set. */
bool hf_projector_check(const hf_build *b, const arch_projector *row, const hf_metadata *p, gq_error *e);
/* Fails for a number of the config that would make sizes unknown: 0 layers, heads, columns or pixels. */
bool hf_projector_check_counts(const hf_config *c, const arch_projector *row, gq_error *e);
/* Fails for tensors that are not as large as those of their kind. `p`: the metadata that are set. */
bool hf_projector_check_shapes(const hf_build *b, const arch_projector *row, const hf_metadata *p,
                               gq_error *e);
