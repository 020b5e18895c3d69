/* A size instead of a name: one type per tensor so that the sizes fit a budget and the errors add up to as
 * little as possible. Pure arithmetic on sizes and errors that the caller has measured. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gguf/type.h"

/* The types there are to choose from, in addition to the tensor's own. */
enum { BUDGET_TYPES = 21 };
extern const uint32_t budget_types[BUDGET_TYPES];
/* Whether one of them (by its place in the table) is a choice for a tensor with rows of that many columns.
 * loses_nothing: the tensor's weights are all on the type's grid, so that it is one beside better types, too. */
bool budget_type_applies(size_t type, const char *name, const tensor_type *from, uint64_t columns,
                         bool has_importance, bool loses_nothing);

typedef struct budget_candidate {
    uint32_t type;  /* for the caller; not looked at */
    uint64_t bytes; /* bytes of the tensor in the file with this type, padding included */
    double error;   /* >= 0; any unit that may be added over tensors */
} budget_candidate;

/* The candidates of one tensor, at least one, in any order. */
typedef struct budget_tensor {
    const budget_candidate *candidates;
    size_t n;
} budget_tensor;

typedef struct budget_result {
    uint64_t bytes;
    double error;
    double bound; /* no choice within the budget has less error than this */
} budget_result;

/* choice[i] becomes the index of the candidate for tensors[i]. The same input gives the same choice
 * everywhere. Fails when even the smallest candidates exceed the budget, saying what they need, and on errors
 * that are negative or no numbers. */
bool budget_choose(const budget_tensor *tensors, size_t n, uint64_t budget, size_t *choice,
                   budget_result *result, gq_error *e);
