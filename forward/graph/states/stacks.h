/* Two stacks of blocks by turns. */
#pragma once

#include "forward/graph/layer_part.h"

/* Reads how often stacks are run; blocks: block_count, which counts each run of a block. Sets the model's blocks and
 * loops. */
void stacks_read_keys(forward_model *m, key_reader *r, uint64_t blocks);
/* Marks the layers that are not run, when all loops have theirs. Does nothing in other models. */
void stacks_rest(forward_model *m);
