/* How much harm an error does in one tensor or another, and where data may lack: docs/mixes.md. */
#include <string.h>

#include "mixes/rules.h"

static const char expert_fragment[] = "_exps";

double mix_harm(const char *name, double outlet_power, const mix_uses *uses) {
    double harm = outlet_power;
    bool shared = uses->experts_used > 0 && uses->experts_used < uses->n_expert;
    if (shared && strstr(name, expert_fragment)) harm *= (double)uses->experts_used / (double)uses->n_expert;
    if (uses->tied && strcmp(name, "token_embd.weight") == 0) harm *= 2;
    return harm;
}

bool mix_uses_importance(uint32_t from, uint32_t to) { return to != from && gguf_type_of(to)->quantized; }

bool mix_may_lack_importance(const char *name) { return mix_role_of(name) == ROLE_EMBED; }
