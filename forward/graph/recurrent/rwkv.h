/* Shared by the mixers and the feed-forward part of RWKV. */
#pragma once

#include "forward/graph/layer_part.h"

/* y = x + (m + lerp) (x of the token before - x) for each row and window; before the first token x is 0. m:
 * rows of the batch's stride, or NULL: 0. lerp: a number for each row. */
typedef struct rwkv_blend {
    const float *x, *m, *lerp;
    float *y;
    size_t x_stride;
} rwkv_blend;
void rwkv_blend_rows(forward_batch *b, const rwkv_blend *l);
