/* File types by name, number and size. */
#pragma once

#include "mixes/mixes.h"

/* Whether it may be recommended: COPY may. */
bool mix_filetype_advised(const mix_filetype *f);
const char *mix_filetype_made_for(const mix_filetype *f); /* "ternary models"; "": any */
/* By name (any case, aliases Q3_K Q4_K Q5_K) or decimal number; by general.file_type; NULL: unknown. */
const mix_filetype *mix_filetype_named(const char *name);
const mix_filetype *mix_filetype_numbered(int64_t id);
/* The known name nearest to `name`, for suggestions; NULL when none resembles it. */
const char *mix_filetype_nearest(const char *name);

/* Tensor type of a name in any case. Fails with the nearest known one in the message, which begins with
 * `where`. */
bool mix_type_named(const char *name, const char *where, uint32_t *type, gq_error *e);
