/* Digests of an output's tensors, by which a later run recognises what it would make again. They stand in the
 * metadata under GGUF_DIGESTS_KEY: an array of u32, three for each tensor in stored order. Like all that is
 * in an output they depend on neither times nor builds. */
#ifndef GQ_DIGESTS_H
#define GQ_DIGESTS_H

#include "gguf/header.h"
#include "quantize/plan/plan.h"

typedef struct tensor_digest {
    uint32_t made_by; /* types, shape, settings and importance; 0: copied, or made of more than its own
                         weights: nobody can tell whether it would be the same */
    uint32_t source;  /* checksum of the weights, as the input delivered them; where made_by is 0,
                         plan_ways_digest */
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
/* Returns the digests of a model's tensors, in stored order; NULL: it has none, or they cannot be right. They
 * need not be aligned: copy each. */
const uint8_t *digests_find(const model_source *m);

#endif
