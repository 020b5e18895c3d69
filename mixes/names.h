/* A tensor's name: its role, and whether it is on the list of tensors that are left alone. */
#ifndef GQ_MIXES_NAMES_H
#define GQ_MIXES_NAMES_H

#include "mixes/rules.h"

mix_role mix_role_of(const char *name);

/* Why a tensor with this name is left alone, NULL when it is not. */
const char *mix_left_alone(const char *name);

/* A fragment is found anywhere in the name; with '=' before it, it is the whole name. */
bool mix_name_matches(const char *fragment, const char *name);

bool mix_outlet(const char *name, size_t i, char outlet[128]);

#endif
