/* The arrays of a folder without their coding: scales, words and blocks that belong together become one
 * source. */
#pragma once

#include "hf/arrays/source.h"
#include "hf/folder/config.h"

/* Makes a source of each array, in the list's order; those that only serve another are none. */
bool hf_sources_find(const hf_config *c, const hf_list *l, hf_source **sources, size_t *n, gq_error *e);
void hf_sources_free(hf_source *sources, size_t n);
