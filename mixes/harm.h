/* How much harm an error does in one tensor or another, and where importance data may lack. */
#pragma once

#include "mixes/mixes.h"

/* Whether importance data have a say in how a tensor is stored: blocks are made, of another type than its
 * own.
 */
bool mix_uses_importance(uint32_t from, uint32_t to);

/* Whether importance data that do not fit the tensor are passed over: those of an embedding, whose rows are
 * looked up rather than multiplied, may be made otherwise. Elsewhere they are another model's. */
bool mix_may_lack_importance(const char *name);

/* Whether importance data lack the tensor by design: programs that collect them leave out embeddings, and the
 * output unless asked. */
bool mix_is_outside_importance(const char *name);

/* Whether a tensor's matrices are the experts of a layer; a token meets only some of them. */
bool mix_is_experts(const char *name);
/* Whether they work on what other experts of the layer give: small ones, one for several of these. */
bool mix_is_late_experts(const char *name);
/* Returns how many experts of a layer a token meets; 0: unknown. */
int64_t mix_experts_used(const model_facts *f);
/* Returns how many of a tensor's matrices a token meets: of experts as many as are used, else all. */
uint64_t mix_matrices_met(const char *name, const uint64_t ne[4], const model_facts *f);

/* The factor of a tensor's relative error that makes errors of different tensors comparable: the power of its
 * outlet's weights (mix_outlet), times the part of the experts that one token meets, times two for an
 * embedding that serves as output as well. */
typedef struct mix_uses {
    int64_t n_expert, experts_used; /* by one token; 0: unknown */
    bool tied;                      /* no output tensor */
} mix_uses;
double mix_harm(const char *name, double outlet_power, const mix_uses *uses);
