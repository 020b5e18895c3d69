/* Scores that get a number by the distance of query and key and by the head (t5): near distances have one each, farther
 * ones share it, and all from 128 on have the last. */
#pragma once

#include "forward/graph/attention/attention.h"
#include "forward/graph/layer_part.h"

void relative_read_keys(forward_model *m, key_reader *r, model_part *p);
/* A layer without numbers of its own has those of the first one of its kind. */
void relative_find_tensors(tensor_finder *f, const part_spec *p);
/* Memory for which number each distance has; then it is filled. */
void relative_lay_out(forward_batch *b, const model_part *p, scratch *s);
void relative_prepare(forward_batch *b, const model_part *p);
/* Adds a block's numbers to its scores, where the layer has some. */
void relative_add(forward_batch *b, const part_spec *p, const attention_heads *h, const attention_block *s);
