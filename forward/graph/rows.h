/* Steps that treat rows of activations one by one: the pool's threads share them out. */
#pragma once

#include "forward/graph/batch.h"

/* Rows of the batch's temporaries, for its tokens. */
static inline batch_values batch_rows(const forward_batch *b, float *x, size_t rows) {
    return (batch_values){x, rows, b->stride, b->tokens};
}

/* x += factor * y. */
void batch_add(forward_batch *b, float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows,
               float factor);
/* y = x. */
void batch_copy(const forward_batch *b, float *y, size_t y_stride, const float *x, size_t x_stride,
                size_t rows);
/* Copies rows that stand in groups: of each group of `group` rows, `each` ones from `first` on. */
typedef struct row_groups {
    size_t groups, group, first, each;
} row_groups;
void batch_sort_rows(forward_batch *b, const float *from, float *to, const row_groups *g);

/* x = f(x, number), f being a kernel: scaled, within -number and number, capped. */
void batch_change_rows(forward_batch *b, void (*f)(float *x, float number, size_t n), batch_values x,
                       float number);
void batch_scale(forward_batch *b, float *x, size_t stride, size_t rows, float factor);
/* Each row times a factor of its own, then plus a number of its own; either may be NULL. */
void batch_affine_rows(forward_batch *b, batch_values x, const float *factors, const float *added);
/* x *= y, element by element. y_stride 0: one row for all. */
void batch_multiply_rows(forward_batch *b, batch_values x, const float *y, size_t y_stride);
/* x = act(x) y; y NULL: x = act(x). */
void batch_gate_rows(forward_batch *b, const activation_rule *act, batch_values x, const float *y,
                     size_t y_stride);
/* gate = silu(gate) x, or sigmoid(gate) x. */
void batch_gate_states(forward_batch *b, float *gate, const float *x, size_t rows, bool is_sigmoid);
void batch_sigmoid_rows(forward_batch *b, float *x, size_t rows);
/* x = softplus(x + bias) of each row; bias NULL: 0. */
void batch_softplus_rows(forward_batch *b, float *x, const float *bias, size_t rows);
/* decay = e^(factor rate) of each row. */
void batch_decay_rows(forward_batch *b, float *decay, const float *rate, const float *factor, size_t rows);
