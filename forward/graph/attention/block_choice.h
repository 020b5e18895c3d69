/* Sparse attention by blocks of keys: for each head of keys a token attends to the blocks of the largest
 * scores. */
#pragma once

#include "forward/graph/attention/attention.h"
#include "forward/graph/layer_part.h"

/* Reads the numbers of the choice, and which layers make one. Called when heads and rope are known. */
void block_choice_read_keys(forward_model *m, key_reader *r, model_part *p);
void block_choice_find_tensors(tensor_finder *f, const part_spec *p);
/* Rows of `work` that a layer needs for it; floats for each query beside the scores of a window; and memory
 * for the choice. */
uint64_t block_choice_rows(const part_spec *p);
size_t block_choice_scores(const forward_batch *b, const model_part *p);
void block_choice_lay_out(forward_batch *b, const model_part *p, scratch *s);
/* Makes the choice of what flows into the layer, x: see attention_heads. NULL: all keys are chosen. */
const uint64_t *block_choice_make(forward_batch *b, const part_spec *p, const float *x, size_t stride,
                                  float *work);
/* The choice of a head of keys takes so many words. */
size_t block_choice_step(const forward_batch *b, const part_spec *p);
