/* Steps that mixers with a convolution or a state share. Rows are those of the batch's temporaries. */
#ifndef GQ_FORWARD_RECURRENCE_STEPS_H
#define GQ_FORWARD_RECURRENCE_STEPS_H

#include "graph/batch.h"
#include "graph/keys.h"
#include "graph/scratch.h"

/* Each row of x along the tokens of each window (simd/recurrence.h). */
typedef struct convolved_rows {
    float *x;
    const float *kernel, *bias; /* [rows][taps]; [rows], or NULL */
    size_t rows, taps;
    bool has_silu;   /* applied to the result */
    bool is_centred; /* of an odd number of taps, as many as before a token are behind it */
} convolved_rows;
void batch_convolve(forward_batch *b, const convolved_rows *c);
/* Copies rows that stand in groups: of each group of `group` rows, `each` ones from `first` on. */
typedef struct row_groups {
    size_t groups, group, first, each;
} row_groups;
void batch_sort_rows(forward_batch *b, const float *from, float *to, const row_groups *g);
/* x *= y, element by element. */
void batch_multiply_rows(forward_batch *b, float *x, const float *y, size_t rows);
/* gate = silu(gate) x, or sigmoid(gate) x. */
void batch_gate_rows(forward_batch *b, float *gate, const float *x, size_t rows, bool is_sigmoid);
/* An activation without numbers of its own. */
void batch_activate_rows(forward_batch *b, activation act, float *x, size_t rows);
void batch_tanh_rows(forward_batch *b, float *x, size_t rows);
/* Each row times a factor of its own, then plus a number of its own; either may be NULL. */
void batch_affine_rows(forward_batch *b, float *x, const float *factors, const float *added, size_t rows);
void batch_sigmoid_rows(forward_batch *b, float *x, size_t rows);
/* x = softplus(x + bias) of each row; bias NULL: 0. */
void batch_softplus_rows(forward_batch *b, float *x, const float *bias, size_t rows);
/* decay = e^(factor rate) of each row. */
void batch_decay_rows(forward_batch *b, float *decay, const float *rate, const float *factor, size_t rows);

/* Memory of the threads for states: a part's struct in batch_own. */
typedef struct recurrence_scratch {
    float *floats; /* [threads][each] */
    size_t each;
} recurrence_scratch;
void recurrence_take_scratch(forward_batch *b, const model_part *p, scratch *s, size_t each);

/* The recurrence of simd/recurrence.h for all heads in all windows. */
typedef struct recurrent_heads {
    const float *key, *query; /* [key_heads][rows] */
    const float *decay;       /* [heads], or with has_decays [heads][rows] */
    const float *rate;        /* [heads] */
    const float *skip;        /* a number per head; NULL: 0 */
    float *value;             /* [heads][columns] */
    size_t heads, key_heads, rows, columns;
    float scale;
    bool has_decays, is_delta;
    bool is_grouped; /* neighbouring heads share a key head; else h and h + key_heads do */
} recurrent_heads;
void batch_recur(forward_batch *b, const recurrence_scratch *r, const recurrent_heads *h);

/* Claims the layers that a list names, or else all but each interval-th: choose_layers of a layer_part. */
void recurrence_choose_layers(const forward_model *m, key_reader *r, bool *is_own);

/* The recurrence of states that forget (simd/recurrence.h) for all heads in all windows. */
typedef struct forgetting_heads {
    const float *key, *query, *decay, *remove, *restore; /* [heads][head] */
    float *value;                                        /* the same */
    size_t heads, head;
} forgetting_heads;
void batch_forget(forward_batch *b, const recurrence_scratch *r, const forgetting_heads *h);

#endif
