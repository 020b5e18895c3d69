/* The pairs that describe a model: its name, makers, licence. */
#pragma once

#include "hf/metadata/metadata.h"

/* general.*: config, generation_config.json, the README's front matter, the folder's name. */
bool hf_general_pairs(hf_folder *f, const hf_config *c, const hf_counts *counts, hf_pairs *pairs,
                      gq_error *e);
