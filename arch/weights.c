#include "arch/weights.h"

#define FACTS(member, text, kind) [WEIGHT_##member] = {.name = (text), WEIGHT_KIND_##kind},
const weight_facts weight_facts_of[WEIGHT_SLOTS] = {ARCH_WEIGHTS(FACTS)};
