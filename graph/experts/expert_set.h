/* A set of experts of a layer, run on the tokens that meet each of them. */
#ifndef GQ_GRAPH_EXPERT_SET_H
#define GQ_GRAPH_EXPERT_SET_H

#include "graph/experts/experts.h"

/* Puts the sum of what the experts of a set make of r->in into r->sum. */
bool experts_run_set(const experts_run *r, const expert_set *set);
/* gate = act(gate) up, `rows` rows of each, one behind the other; act(gate) where experts have no gates. */
void experts_gate_rows(const forward_batch *b, const activation_rule *act, float *gate, size_t rows,
                       size_t stride, size_t n);
/* x *= factor, for `rows` rows, with a factor for each of n tokens. */
void experts_weigh_rows(forward_batch *b, const float *factor, float *x, size_t rows, size_t stride,
                        size_t n);

#endif
