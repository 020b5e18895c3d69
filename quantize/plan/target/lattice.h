/* Finds tensors whose weights lie on a lattice of few bits. */
#pragma once

#include "quantize/plan/plan.h"

/* Sets plan_source.lattice of all tensors by a sample of their rows, where an output is quantized. Rows that cannot be read are none of a
 * lattice: the run will say why. False: no memory, or the caller cancelled. */
bool plan_find_lattices(gq_plan *plan, const gq_options *options, gq_error *e);
/* Whether a tensor lies on a lattice that a type holds: encoding loses nothing then but what rounding to the
 * input's type has left. */
static inline bool plan_lattice_holds(const plan_source *s, uint32_t type) {
    return type < 64 && s->lattice >> type & 1;
}
/* Warns of tensors on a lattice, and of outputs whose types do not hold it. Called when these are chosen. */
bool plan_warn_lattices(gq_plan *plan, gq_error *e);
