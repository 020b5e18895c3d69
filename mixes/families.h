/* Image and video models: what their users keep, and the roles of their tensors. */
#ifndef GQ_MIXES_FAMILIES_H
#define GQ_MIXES_FAMILIES_H

#include "mixes/rules.h"

mix_role mix_image_role_of(const char *name);

/* An architecture that is no language model, and what its users keep in source precision. */
typedef struct mix_family {
    const char *arch;
    const char *const *keep; /* NULL-terminated, as for mix_name_matches */
} mix_family;
const mix_family *mix_family_of(const char *arch); /* NULL: none */
/* Whether its users keep a tensor of this name. */
bool mix_family_keeps(const mix_family *f, const char *name);

/* Whether an architecture is one of the image and video models, whose readers want shapes as they were made:
 * a [64, 1] there is no [64]. */
bool mix_is_image_model(const char *arch);

#endif
