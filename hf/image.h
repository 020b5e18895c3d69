/* Image and video models: source tensors that keep their names, and an architecture that is recognised by them. The
 * tensors and metadata are those that ComfyUI-GGUF's converter makes and its loader expects (docs/image-models.md).
 */
#pragma once

#include "hf/tensors/tensors.h"

/* Makes tensors of all source tensors of the model, and its metadata. On failure, too, hf_build_free has to be
 * called. */
bool hf_image_build(hf_build *b, const hf_config *c, const hf_list *l, hf_metadata *metadata, gq_error *e);
