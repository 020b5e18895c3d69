/* A set of experts of a layer, run on the tokens that meet each of them. */
#pragma once

#include "forward/graph/experts/experts.h"

/* Puts the sum of what the experts of a set make of r->in into r->sum. */
bool experts_run_set(const experts_run *r, const expert_set *set);
/* gate = act(gate) up, whose rows stand behind the gates'; act(gate) where experts have no gates. */
void experts_gate_rows(forward_batch *b, const activation_rule *act, batch_values gate);
