/* The types that a budget may give to a tensor; docs/target-size.md has the reasons. */
#include "mixes/budget.h"
#include "mixes/mixes.h"

/* Types with long blocks first. Those with blocks of 32 serve where rows are no multiple of 256; elsewhere a
 * long block does better in the same bytes. */
const uint32_t budget_types[BUDGET_TYPES] = {GGUF_IQ1_S, GGUF_IQ1_M,   GGUF_IQ2_XXS, GGUF_IQ2_XS, GGUF_IQ2_S,
                                             GGUF_Q2_K,  GGUF_IQ3_XXS, GGUF_IQ3_S,   GGUF_Q3_K,   GGUF_IQ4_XS,
                                             GGUF_Q4_K,  GGUF_Q5_K,    GGUF_Q6_K,    GGUF_Q8_0,   GGUF_F16,
                                             GGUF_Q4_0,  GGUF_IQ4_NL,  GGUF_Q4_1,    GGUF_Q5_0,   GGUF_Q5_1};
enum { STAND_INS = 15 }; /* first of those for odd rows */

bool budget_type_applies(size_t type, const char *name, const gguf_type *from, uint64_t columns,
                         bool has_importance) {
    const gguf_type *to = gguf_type_of(budget_types[type]);
    if (columns % to->block_elements || (type >= STAND_INS && columns % 256 == 0)) return false;
    if (mix_demands_importance(name, to->id) && !has_importance) return false;
    return gguf_type_bytes(to, columns) < gguf_type_bytes(from, columns);
}
