/* The parts that a layer of a model is made of. A new one is added to ARCH_PARTS (arch/graph.h), and what it is
 * stands in graph/layer_part.h. */
#ifndef GQ_FORWARD_PARTS_H
#define GQ_FORWARD_PARTS_H

#include "arch/graph.h"

typedef struct layer_part layer_part;

#define LAYER_PART_DECLARE(member, part) extern const layer_part part;
ARCH_PARTS(LAYER_PART_DECLARE)
#undef LAYER_PART_DECLARE

/* By arch_part; that of PART_NONE is NULL. */
extern const layer_part *const layer_parts[ARCH_PART_LIMIT];

typedef struct weight_facts {
    const char *name; /* "blk.N." before it and ".weight" or ".bias" behind it make the tensor's */
    bool is_decoded;
    bool is_bare;
    bool is_routed;
    bool is_late;
    bool is_helper;
} weight_facts;
extern const weight_facts weight_facts_of[WEIGHT_SLOTS];

#endif
