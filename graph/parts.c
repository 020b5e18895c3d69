#include "graph/parts.h"

#define PART(member, part) [member] = &(part),
const layer_part *const layer_parts[ARCH_PART_LIMIT] = {ARCH_PARTS(PART)};
