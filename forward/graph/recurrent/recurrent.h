/* Steps that mixers with a convolution or a state share. Rows are those of the batch's temporaries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "forward/graph/batch.h"
#include "forward/graph/keys.h"
#include "forward/graph/sublayer.h"

/* Convolves each row of x[rows] along the tokens of each text (simd/recurrence.c) with the layer's kernel [rows][taps]
 * and its bias, if it has one. Centered: of an odd number of taps, as many as before a token are behind it. */
typedef enum convolution { CONVOLUTION_PLAIN, CONVOLUTION_SILU, CONVOLUTION_CENTERED } convolution;
void batch_convolve(forward_batch *b, weight_slot kernel, float *x, size_t rows, size_t taps,
                    convolution kind);
/* Memory of the threads for states: a sublayer's struct in batch_own. */
typedef struct recurrence_scratch {
    float *floats; /* [threads][each] */
    size_t each;
} recurrence_scratch;
void recurrence_take_scratch(forward_batch *b, const model_sublayer *p, scratch *s, size_t each);

/* The recurrence of simd/recurrence.c for all heads in all windows. */
typedef struct recurrent_heads {
    const float *key, *query; /* [key_heads][rows] */
    const float *decay;       /* [heads], or with has_decays [heads][rows] */
    const float *rate;        /* [heads] */
    const float *skip;        /* a number per head; NULL: 0 */
    float *value;             /* [heads][columns] */
    size_t heads, key_heads, rows, columns;
    float scale;
    bool has_decays, is_delta;
    bool is_grouped; /* neighboring heads share a key head; else h and h + key_heads do */
} recurrent_heads;
void batch_recur(forward_batch *b, const recurrence_scratch *r, const recurrent_heads *h);

/* Claims the layers that a list names, or else all but each interval-th: choose_layers of a sublayer. */
void recurrence_choose_layers(const forward_model *m, key_reader *r, bool *is_own);

/* The recurrence of states that forget (simd/recurrence.c) for all heads in all windows. */
typedef struct forgetting_heads {
    const float *key, *query, *decay, *remove, *restore; /* [heads][head] */
    float *value;                                        /* the same */
    size_t heads, head;
} forgetting_heads;
void batch_forget(forward_batch *b, const recurrence_scratch *r, const forgetting_heads *h);

/* The numbers of KDA, some of which only the keys of one architecture say (own_keys.c). */

typedef struct kda_numbers {
    size_t taps;                 /* tokens that a convolution sees */
    size_t head;                 /* features of a head */
    bool is_flat;                /* ssm_a has one dimension */
    bool has_bound, is_positive; /* decays have a lower bound; ssm_a is stored positive */
    float bound;
    float
        unit_eps; /* beside the sum of squares where queries and keys get unit length; 0: the eps of norms */
} kda_numbers;

typedef struct kda_layer {
    size_t heads;
} kda_layer;

/* y = x + (m + lerp) (x of the token before - x) for each row and window; before the first token x is 0. m:
 * rows of the batch's stride, or NULL: 0. lerp: a number for each row. */
typedef struct rwkv_blend {
    const float *x, *m, *lerp;
    float *y;
    size_t x_stride;
} rwkv_blend;
void rwkv_blend_rows(forward_batch *b, const rwkv_blend *l);
