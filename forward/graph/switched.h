/* Matrices with small ones beside them (graniteswitch): a pair for each adapter, and one for no adapter. A product
 * x with a matrix gets B (A x) added, of the pair of the token's adapter. A token of a list switches its adapter on
 * for itself and those behind it in its text; the embedding that it has is another token's. */
#pragma once

#include "forward/graph/batch.h"

/* The token whose embedding this one has. */
uint32_t switched_id(const forward_model *m, uint32_t id);
