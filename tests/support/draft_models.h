/* Small random models with MTP layers: those of tests/support/forward_models.h with MTP layers added. */
#pragma once

#include "tests/support/forward_models.h"

typedef struct draft_model {
    const char *name, *base; /* base: the variant; NULL: the name */
    uint32_t layers, blocks; /* layers without the MTP layers; 0: 2; blocks 0: 1 */
    const char *mixers;      /* with those of the MTP layers; NULL: as the variant has them */
    const char *keys;        /* set over those of the variant, which has lists for its own layers */
    bool bare_head;          /* the last norm is called layer_output_norm; else nextn.shared_head_norm */
    bool own_ends;           /* own embedding and output matrix */
    bool has_both; /* an MTP layer has both parts, where layers have one, and its second norm another name */
    bool fused_qkv, no_enorm;
    bool wide_indexer; /* 12 heads of 64, as llama.cpp's graphs need them */
    uint32_t dense;    /* so many layers without experts; 0: as the variant has it */
} draft_model;

/* Draft models for speculative decoding, by name: "own" and "shared" are EAGLE-3, the first with every tensor that
 * such a draft model may have itself. NULL after the last. */
const char *target_draft_at(size_t i);
model *target_draft_new(const char *name);
/* The name of their target, and the target: "target" or "gemma4-target". */
const char *target_of_draft(const char *name);
model *target_new(const char *name);

const draft_model *draft_model_at(size_t i); /* NULL after the last */
const draft_model *draft_model_named(const char *name);
model *draft_model_new(const draft_model *d, uint32_t type);
