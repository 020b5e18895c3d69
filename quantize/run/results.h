/* The results of a run, for its caller. They are apart from the plan, which does not change. Error sums of
 * chunks are folded into them in chunk order, whatever order they come in, so that reports do not depend on
 * the number of threads. */
#pragma once

#include "quantize/plan/plan.h"

struct gq_results {
    size_t n_tensors;
    gq_loss *losses;        /* output by output */
    gq_rounding *roundings; /* the same; NULL: nothing is calibrated */
    gq_step *steps;         /* output by output, n_steps each; NULL: likewise */
    size_t n_steps;
    uint32_t *sources; /* per tensor: checksum of its weights, as the input delivers them */
    uint64_t *reused;  /* per output: tensors that were copied, and their bytes */
    warning_list warnings;
    gq_progress progress;
};

/* Makes the results of a run that has done nothing yet. */
gq_results *results_new(const gq_plan *plan, gq_error *e);
/* Return a tensor's place in the results; the results own it. */
gq_loss *results_loss(gq_results *r, size_t output, size_t tensor);
/* Return a tensor's, or a step's, place in the results of a calibrated run. */
gq_rounding *results_rounding(gq_results *r, size_t output, size_t tensor);
gq_step *results_step(gq_results *r, size_t output, size_t step);

/* ---- error sums of chunks, folded in their order ---- */

/* The error sums of one chunk for one output. Journals store it as it is. */
typedef struct chunk_sum {
    double x2, e2, wx2, we2;
    float max_e;
    uint32_t crc;      /* of the chunk's bytes in the output */
    uint32_t source;   /* the same of its weights, as the input delivers them; 0: it is transposed */
    uint32_t reserved; /* 0 */
} chunk_sum;

typedef struct error_sums {
    const gq_plan *plan;
    gq_results *results;           /* get the losses of tensors as they are complete */
    const gq_callbacks *callbacks; /* whose tensor_done is called then; may be NULL */
    uint64_t begin, next;          /* the first chunk that is counted; the first that is not folded yet */
    size_t tensor;                 /* the first that is not complete yet */
    gq_loss *losses;               /* its own so far, one per output */
    uint32_t source;               /* the tensor's checksum so far, as the input delivers it */
    /* Chunks that came before an earlier one: chunk i waits in place i % capacity. Few, as chunks are handed
     * out in order. */
    size_t capacity;
    bool *waiting;
    chunk_sum *sums; /* capacity x outputs */
} error_sums;

bool error_sums_new(error_sums *t, const gq_plan *plan, gq_results *results, const gq_callbacks *callbacks,
                    uint64_t begin, gq_error *e);
void error_sums_free(error_sums *t);
/* Adds a chunk's sums, one per output; each chunk once, in any order. */
bool error_sums_add(error_sums *t, uint64_t chunk_number, const chunk_sum *sums, gq_error *e);
