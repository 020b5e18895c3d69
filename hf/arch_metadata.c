/* The pairs of one architecture: its list of items is found and set, and what every reader needs is
 * completed. */
#include <string.h>

#include "hf/arch_lists.h"
#include "hf/arch_pairs.h"
#include "hf/metadata.h"

enum { BLOCKS_MOST = 8192 }; /* main and predicting; hf_config_read allows 4096 of the former */

/* NULL: there is no row of this name. */
static const arch_item *arch_items_of(const char *arch) {
    static const arch_row *const tables[] = {arch_rows_dense, arch_rows_experts, arch_rows_recurrent};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const arch_row *r = tables[t]; r->arch; r++)
            if (strcmp(r->arch, arch) == 0) return r->list;
    return NULL;
}

/* Adds the pairs that no reader can do without; a config that lacks their values is refused. */
static bool arch_complete(const hf_config *c, hf_pairs *p, gq_error *e) {
    static const arch_item needed[] = {
        {.key = ".embedding_length", .make = pair_u32, .names = "hidden_size"},
        {.key = ".attention.head_count", .make = pair_u32, .names = "num_attention_heads"},
        {.key = ".context_length", .make = pair_u32, .value = 2048},
        {.key = NULL}};
    for (const arch_item *i = needed; i->make; i++)
        if (!hf_pairs_find(p, i->key) && !i->make(i, c, p, e)) return false;
    return hf_pairs_find(p, ".attention.layer_norm_epsilon") ||
           hf_pairs_find(p, ".attention.layer_norm_rms_epsilon") ||
           hf_pairs_f32(p, ".attention.layer_norm_rms_epsilon", 1e-6F, e);
}

bool hf_arch_pairs(const hf_config *c, hf_pairs *p, gq_error *e) {
    /* Granite's hybrid models without a recurrent layer are another architecture with the same pairs. */
    static const char *const hybrids[] = {"GraniteMoeHybridForCausalLM", "BambaForCausalLM"};
    const arch_item *list = arch_items_of(c->arch);
    for (size_t i = 0; i < sizeof hybrids / sizeof *hybrids; i++)
        if (c->class_name && strcmp(c->class_name, hybrids[i]) == 0) list = arch_items_of("granitehybrid");
    if (!list) return hf_config_fail(c, e, "no metadata are known for the architecture %s", c->arch);
    if (c->layers > BLOCKS_MOST || c->predicting > BLOCKS_MOST || hf_config_blocks(c) > BLOCKS_MOST)
        return hf_config_fail(c, e, "%llu layers and %llu that predict, expected at most %d together",
                              (unsigned long long)c->layers, (unsigned long long)c->predicting, BLOCKS_MOST);
    return arch_items_set(list, c, p, e) && arch_complete(c, p, e);
}
