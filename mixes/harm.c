/* How much harm an error does in one tensor or another, and where data may lack: docs/internals/target-size.md. */
#include <string.h>

#include "mixes/mixes.h"
#include "mixes/rules.h"

bool mix_is_late_experts(const char *name) { return strstr(name, "_chexps") != NULL; }

bool mix_is_experts(const char *name) { return strstr(name, "exps") != NULL; }

int64_t mix_experts_used(const model_facts *f) {
    int64_t used;
    return model_fact_int(f, "expert_used_count", &used) && used > 0 ? used : 0;
}

uint64_t mix_matrices_met(const char *name, const uint64_t ne[4], const model_facts *f) {
    uint64_t all = shape_matrices(ne), used = mix_is_experts(name) ? (uint64_t)mix_experts_used(f) : 0;
    return used > 0 && used < all ? used : all;
}

double mix_harm(const char *name, double outlet_power, const mix_uses *uses) {
    double harm = outlet_power;
    bool shared = uses->experts_used > 0 && uses->experts_used < uses->n_expert;
    if (shared && mix_is_experts(name)) harm *= (double)uses->experts_used / (double)uses->n_expert;
    if (uses->tied && strcmp(name, "token_embd.weight") == 0) harm *= 2;
    return harm;
}

bool mix_uses_importance(uint32_t from, uint32_t to) { return to != from && tensor_type_of(to)->quantized; }

bool mix_is_outside_importance(const char *name) { return mix_role_of(name) & (ROLE_OUTPUT | ROLE_EMBED); }

bool mix_may_lack_importance(const char *name) { return mix_role_of(name) == ROLE_EMBED; }
