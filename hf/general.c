#include "hf/metadata.h"
bool hf_general_pairs(hf_folder *f, const hf_config *c, const hf_counts *counts, hf_pairs *pairs,
                      gq_error *e) {
    (void)f, (void)c, (void)counts, (void)pairs, (void)e;
    return true;
}
