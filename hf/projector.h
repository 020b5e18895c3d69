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

/* ---- whether a projector is whole (projector_check.c, projector_layers.c, projector_shapes.c) ---- */

enum { HF_PROJECTOR_LAYERS = 4096 }; /* at most */
#define hf_projector_fail(b, t, e, format, ...) \
    gq_fail(e, "%s: tensor '%s' (%s): " format, (b)->list->folder->path, (t)->tensor.name, \
            (t)->stored_name ? (t)->stored_name : "computed", ##__VA_ARGS__)
/* Fails for want of a tensor that goes with another one. */
bool hf_projector_fail_missing(const hf_build *b, const hf_tensor *beside, const char *name, gq_error *e);
/* Finds the bias beside a weight, whose name is written. */
const hf_tensor *hf_projector_bias(const hf_build *b, const hf_tensor *w, char name[GGUF_MAX_NAME + 8]);

/* Fails for layers that differ and for widths that are not the config's; warns of tensors that the row's projectors
 * usually have. `p`: the metadata that are set. */
bool hf_projector_check(const hf_build *b, const arch_projector *row, const hf_metadata *p, gq_error *e);
/* Fails for a number of the config that would make sizes unknown: 0 layers, heads, columns or pixels. */
bool hf_projector_check_counts(const hf_config *c, const arch_projector *row, gq_error *e);
/* Fails for tensors that are not as large as those of their kind. `p`: the metadata that are set. */
bool hf_projector_check_shapes(const hf_build *b, const arch_projector *row, const hf_metadata *p,
                               gq_error *e);
/* Fails unless all layers from 0 to n - 1, whose names begin with `prefix`, have what the first has, and nothing else. */
bool hf_projector_check_blocks(const hf_build *b, const arch_projector *row, const char *prefix, uint32_t n,
                               gq_error *e);
/* Fails where one of two tensors that go together is missing, and for other layers that differ. */
bool hf_projector_check_layers(const hf_build *b, const arch_projector *row, const hf_metadata *p,
                               gq_error *e);
