/* The numbers of a dense feed-forward part, with which another part's begin that runs it (dflash.c). */
#pragma once

#include "forward/graph/layer_part.h"

typedef struct ffn_layer {
    size_t ff; /* features in the middle */
} ffn_layer;
