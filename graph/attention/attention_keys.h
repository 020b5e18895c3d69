/* What attention reads of a model's metadata: heads, windows, the layers that use rope. */
#ifndef GQ_GRAPH_ATTENTION_KEYS_H
#define GQ_GRAPH_ATTENTION_KEYS_H

#include "graph/attention/attention.h"

/* Claims the layers that have heads for keys and values. */
void attention_choose_layers(const forward_model *m, key_reader *r, bool *is_own);
/* Reads the numbers of heads and the sizes that the keys give them. */
void attention_read_heads(forward_model *m, key_reader *r, model_part *p);
/* Gives all layers their sizes of a head. Called when windows are known. */
void attention_share_sizes(forward_model *m, model_part *p);
/* Refuses heads of fewer than `least` features, or of no values: where no key says their sizes these are a
 * share of the width, which may be nothing. */
void attention_check_heads(key_reader *r, const model_part *p, size_t least);
void attention_read_windows(forward_model *m, key_reader *r, model_part *p);
/* Decides which layers use rope. Called when windows are known. */
void attention_choose_rope(forward_model *m, key_reader *r, model_part *p);
/* Finds the tensors with factors of rope. */
void attention_find_model_tensors(tensor_finder *f, model_part *p);

#endif
