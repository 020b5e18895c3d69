/* Tensors of earlier outputs that a run may copy instead of making them again. The plan compares digests,
 * types and shapes, which costs nothing; run/reuse.c then reads both the sources and the copies. */
#pragma once

#include "quantize/plan/plan.h"

/* A tensor of an earlier output that may be what the plan would make. */
typedef struct reuse_offer {
    const model_source *from; /* NULL: there is none */
    const model_tensor *tensor;
    bool is_digested;       /* there are the checksums of tensor_digest */
    uint32_t source, bytes; /* these */
} reuse_offer;

/* Opens the earlier outputs and fills the offers of each output. Called when all is laid out. */
bool plan_reuse(gq_plan *plan, const gq_options *options, gq_error *e);
/* Fails if an earlier output has changed since it was opened. */
bool plan_reused_unchanged(const gq_plan *plan, gq_error *e);

/* Whether sizes and headers of an earlier file are those that the output will have, but for the checksums
 * that only a run finds. false: *why says in a clause about "it" what differs first. */
bool plan_compare_header(const gq_plan *plan, const plan_output *out, const model_source *earlier,
                         gq_error *why);
/* Whether a file of the input was modified after one of an earlier output. */
bool plan_input_is_newer(const gq_plan *plan, const model_source *earlier);
