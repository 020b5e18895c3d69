/* Keys that hardly another architecture has, and numbers that follow from others: what a row names as `own`
 * (arch/graph.h). All other keys are read before, without a fault, and each part knows its numbers and layers. */
#pragma once

#include "forward/graph/keys.h"
#include "forward/graph/model.h"

void own_keys_read(forward_model *m, key_reader *r);
