/* The facts of each weight that a layer may have (arch/weights.h). */
#pragma once

#include <stdbool.h>

#include "arch/weights.h"

typedef struct weight_facts {
    const char *name; /* "blk.N." before it and ".weight" or ".bias" behind it make the tensor's */
    bool is_decoded;
    bool is_bare;
    bool is_routed;
    bool is_late;
    bool is_helper;
} weight_facts;
extern const weight_facts weight_facts_of[WEIGHT_SLOTS];
