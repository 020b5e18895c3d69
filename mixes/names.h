/* A tensor's name: its role, and whether it is on the list of tensors that are left alone. */
#pragma once

#include "mixes/rules.h"

mix_role mix_role_of(const char *name);

/* Why a tensor with this name is left alone, NULL when it is not. */
const char *mix_left_alone(const char *name);

bool mix_outlet(const char *name, size_t i, char outlet[128]);

/* ---- of image and video models ---- */

mix_role mix_image_role_of(const char *name);

/* Whether users of an image model keep a tensor of this name: by what its row keeps (arch_image). */
bool mix_family_keeps(const char *const *keeps, const char *name);

/* Whether an architecture is one of the image and video models, whose readers want shapes as they were made:
 * a [64, 1] there is no [64]. */
bool mix_is_image_model(const char *name);
