/* The pairs of one architecture: its list of items is found and set, and what every reader needs is
 * completed. */
#include "hf/metadata/metadata.h"
#include "hf/metadata/arch_pairs.h"
#include "hf/metadata/modules.h"

enum { BLOCKS_MOST = 8192 }; /* main and predicting; hf_config_read allows 4096 of the former */

bool hf_items_set(const arch_item *list, const hf_config *c, hf_pairs *p, gq_error *e) {
#define MAKE(member, function) [member] = (function),
    static pair_make *const makes[ARCH_MAKE_LIMIT] = {ARCH_MAKES(MAKE)};
#undef MAKE
    while (list->make != MAKE_END && makes[list->make](list, c, p, e)) list++;
    return list->make == MAKE_END;
}

bool pair_list(const arch_item *i, const hf_config *c, hf_pairs *p, gq_error *e) {
    return hf_items_set(i->list, c, p, e);
}

bool pair_list_if(const arch_item *i, const hf_config *c, hf_pairs *p, gq_error *e) {
    return !arch_value(c, i->names) || hf_items_set(i->list, c, p, e);
}

/* Adds the pairs that no reader can do without; a config that lacks their values is refused. */
static bool arch_complete(const hf_config *c, hf_pairs *p, gq_error *e) {
    static const arch_item needed[] = {U32(".embedding_length", "hidden_size"),
                                       U32(".attention.head_count", "num_attention_heads"),
                                       U32_IS(".context_length", 2048), END};
    for (const arch_item *i = needed; i->make != MAKE_END; i++)
        if (!hf_pairs_find(p, i->key) && !pair_u32(i, c, p, e)) return false;
    return hf_pairs_find(p, ".attention.layer_norm_epsilon") ||
           hf_pairs_find(p, ".attention.layer_norm_rms_epsilon") ||
           hf_pairs_f32(p, ".attention.layer_norm_rms_epsilon", 1e-6F, e);
}

bool hf_arch_pairs(const hf_config *c, hf_pairs *p, gq_error *e) {
    if (c->layers > BLOCKS_MOST || c->predicting > BLOCKS_MOST || hf_config_blocks(c) > BLOCKS_MOST)
        return hf_config_fail(c, e, "%llu layers and %llu that predict, expected at most %d together",
                              (unsigned long long)c->layers, (unsigned long long)c->predicting, BLOCKS_MOST);
    return hf_items_set(c->class_row->pairs ? c->class_row->pairs : c->like->pairs, c, p, e) &&
           arch_complete(c, p, e) && hf_modules_pair(c, p, e);
}
