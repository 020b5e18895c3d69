/* What a run's chunks cost, for the share of it that is told: types are encoded at speeds that differ by ten
 * times and more, and a copy costs next to nothing. */
#ifndef GQ_RUN_COST_H
#define GQ_RUN_COST_H

#include "quantize/plan/plan.h"

/* Returns the seconds, about, that a thread takes for each weight of a tensor, in all outputs. reused: per
 * output and tensor, or NULL. */
double run_cost_per_weight(const gq_plan *plan, size_t tensor, const bool *reused);

#endif
