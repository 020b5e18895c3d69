/* Finds out, before the work, which tensors a run may copy from earlier outputs (plan/reuse.h). */
#ifndef GQ_RUN_REUSE_H
#define GQ_RUN_REUSE_H

#include "quantize/run/results.h"

/* What reading the sources and the offers has found. */
typedef struct reuse_reading {
    const gq_plan *plan;
    const struct reuse_offer **offers; /* per output a list of tensors; NULL: none */
    uint32_t *sources;                 /* per tensor: checksum of its weights, if an offer needs it */
    uint32_t *bytes;                   /* per output and tensor: of the blocks offered */
    bool *unlike;                      /* the same: encoding the weights gives other blocks */
} reuse_reading;

/* Makes room for a plan's; the caller fills ->offers, and frees *r also after a failure. */
bool reuse_reading_new(reuse_reading *r, const gq_plan *plan, gq_error *e);
void reuse_reading_free(reuse_reading *r);
/* Reads what is offered to the tensors of chunks begin to end (excluded), and their sources. */
bool reuse_read(reuse_reading *r, uint64_t begin, uint64_t end, const gq_callbacks *callbacks, gq_error *e);
/* Whether a tensor that is offered is what the plan would make. false: *why says in a clause why not. */
bool reuse_proves(const reuse_reading *r, size_t output, size_t tensor, gq_error *why);

/* Returns for each output and tensor whether it is copied from an earlier output, malloc'ed; NULL: it failed.
 * The results get the sums. */
bool *reuse_check(const gq_plan *plan, uint64_t begin, uint64_t end, const gq_callbacks *callbacks,
                  gq_results *results, gq_error *e);

#endif
