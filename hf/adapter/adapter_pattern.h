/* Patterns by which an adapter's config names modules. */
#ifndef GQ_HF_ADAPTER_PATTERN_H
#define GQ_HF_ADAPTER_PATTERN_H

#include <stdbool.h>

#include "base/error.h"

/* Whether a pattern, a regular expression, fits a module's name: the whole of it, or what follows a dot. One
 * that cannot be run within little time fails. */
bool hf_pattern_fits(const char *pattern, const char *module, bool *fits, gq_error *e);
/* Whether a module's name is `end`, or ends with a dot and it. */
bool hf_module_ends(const char *module, const char *end);

#endif
