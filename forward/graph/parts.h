/* The parts that a layer of a model is made of. A new one is added to ARCH_PARTS (arch/graph.h), and what it is
 * stands in forward/graph/layer_part.h. */
#pragma once

#include "arch/graph.h"
#include "forward/graph/weights.h"

typedef struct layer_part layer_part;

#define LAYER_PART_DECLARE(member, part) extern const layer_part part;
ARCH_PARTS(LAYER_PART_DECLARE)
#undef LAYER_PART_DECLARE

/* By arch_part; that of PART_NONE is NULL (model.c). */
extern const layer_part *const layer_parts[ARCH_PART_LIMIT];
