/* The results of a run, for its caller. They are apart from the plan, which does not change. */
#ifndef GQ_RESULTS_H
#define GQ_RESULTS_H

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

#endif
