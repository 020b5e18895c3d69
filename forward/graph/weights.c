/* The kinds of weights (arch/weights.h). */
#include "forward/graph/model.h"

#define WEIGHT_KIND_SMALL .is_decoded = true
#define WEIGHT_KIND_BARE .is_decoded = true, .is_bare = true
#define WEIGHT_KIND_MATRIX .is_decoded = false
#define WEIGHT_KIND_HELPER .is_helper = true
#define WEIGHT_KIND_PAIR .is_helper = true, .is_bare = true
#define WEIGHT_KIND_EXPERTS .is_routed = true
#define WEIGHT_KIND_LATE_EXPERTS .is_routed = true, .is_late = true

#define FACTS(member, text, kind) [WEIGHT_##member] = {.name = (text), WEIGHT_KIND_##kind},
const weight_facts weight_facts_of[WEIGHT_SLOTS] = {ARCH_WEIGHTS(FACTS)};
