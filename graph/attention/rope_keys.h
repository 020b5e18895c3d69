/* What rope reads of a model's metadata and tensors. */
#ifndef GQ_GRAPH_ROPE_KEYS_H
#define GQ_GRAPH_ROPE_KEYS_H

#include "graph/attention/rope.h"

/* head, local_head: values of one, also in layers with a window. is_latent: some of them are not turned, and
 * the model says from how many tokens on there is a temperature. */
void rope_read_keys(rope_numbers *n, const forward_model *m, key_reader *r, size_t head, size_t local_head,
                    bool is_latent);
/* Reads the sections of positions. */
void rope_read_sections(rope_numbers *n, key_reader *r, rope_sections kind);
void rope_find_tensors(rope_numbers *n, tensor_finder *f);

#endif
