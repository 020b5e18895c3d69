/* Image and video models: what their users keep, and the roles of their tensors. */
#ifndef GQ_MIXES_FAMILIES_H
#define GQ_MIXES_FAMILIES_H

#include "mixes/rules.h"

mix_role mix_image_role_of(const char *name);

/* Whether users of an image model keep a tensor of this name: by what its row keeps (arch_image). */
bool mix_family_keeps(const char *const *keeps, const char *name);

/* Whether an architecture is one of the image and video models, whose readers want shapes as they were made:
 * a [64, 1] there is no [64]. */
bool mix_is_image_model(const char *name);

#endif
