/* Checksums by which a plan is recognised: whoever continues work or uses measurements again compares them.
 */
#pragma once

#include "gguf/gguf.h"
#include "quantize/plan/plan.h"

extern const char gq_build_id[9]; /* of the sources that this was built from (cmake/build-id.cmake) */
/* "0.1.0-1a2b3c4d": version and sources, which decide the bytes as much as the plan does. */
void plan_build(char to[24]);
/* Computes the input's checksums; reads a small part of its weights. */
bool plan_identify_input(gq_plan *plan, gq_error *e);
/* Returns a checksum of all options that decide the bytes of blocks. */
uint32_t plan_settings_digest(const gq_plan *plan);
/* Computes the checksums of options and layout. Called when all outputs are laid out. */
void plan_identify_layout(gq_plan *plan);
/* A number for a set of shards: what it is made of, and how. Unlike the identity it depends on neither times
 * nor builds, since it is in the output. */
uint64_t plan_set_digest(const gq_plan *plan, const plan_output *out);

/* ---- tensors ---- */

/* Digests of an output's tensors, by which a later run recognises what it would make again. They stand in the
 * metadata under GGUF_DIGESTS_KEY: an array of u32, three for each tensor in stored order. Like all that is
 * in an output they depend on neither times nor builds. */

typedef struct tensor_digest {
    uint32_t made_by; /* types, shape, settings and importance; 0: copied, or made of more than its own
                         weights: nobody can tell whether it would be the same */
    uint32_t source;  /* checksum of the weights, as the input delivered them; where made_by is 0,
                         what the output is made of besides the input: settings, importance data,
                         calibration. That does not depend on how the input is stored */
    uint32_t bytes;   /* of the tensor's bytes in the output */
} tensor_digest;

/* Returns tensor_digest.made_by of an output's tensor, whose type and importance are known. */
uint32_t digest_made_by(const gq_plan *plan, const plan_output *out, size_t tensor);
/* The same for other settings, or with and without importance data. */
uint32_t digest_of_settings(const gq_plan *plan, const plan_output *out, size_t tensor,
                            const encode_settings *with, bool has_importance);
/* Returns the digests in the output's header, as far as the plan knows them; NULL: it will have none. */
const uint8_t *digests_planned(const plan_output *out);
/* Whether an output's digests need checksums that only the run finds; not those of a mere copy. */
bool digests_await_run(const gq_plan *plan, const plan_output *out);
/* Adds the array to a header, with what is known before the run. A mere copy of the input gets the input's,
 * if it has any. */
bool digests_write(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e);
/* Returns the checksum of all weights, of those of each tensor in the plan's order. */
uint32_t digest_of_sources(const gq_plan *plan, const uint32_t *sources);
/* Returns the digests of a model's tensors, in stored order; NULL: it has none, or they cannot be right. They
 * need not be aligned: copy each. */
const uint8_t *digests_find(const model_source *m);
