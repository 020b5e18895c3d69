/* Whether an embedding that was rounded for the routers does the model less harm than plain encoding's. How much
 * a choice of experts matters, and how much all else that an error of the embedding does, no metric of one
 * matrix tells: so both are tried. The model is run on the text's beginning with each of them in place of its
 * own embedding, and the divergences of its predictions are compared. No window decides how such an embedding
 * is rounded, so none need be held back.
 */
#ifndef GQ_CALIBRATE_EMBEDDING_TRIAL_H
#define GQ_CALIBRATE_EMBEDDING_TRIAL_H

#include "quantize/study/calibrate/embedding.h"
#include "quantize/study/sweep/sweep.h"

enum {
    EMBEDDING_TRIAL_TOKENS =
        512, /* differences of a tenth are seen; those of the models in bench/results/small-models.md
                                     are larger */
    EMBEDDING_TRIAL_STREAMS = 3,
};

/* Whether an embedding that is calibrated is tried: its errors are in routers and are no output matrix's, and a
 * window of so many tokens has some to predict. numbers, n: as in embedding_is_routed. */
bool embedding_is_tried(const forward_model *m, const uint64_t *numbers, size_t n, size_t context);
/* Tries the embedding that was written for an output, tensor `number` of the job. kept: as embedding_start has it.
 * *harms: plain encoding did no worse. A collective of the job's ranks, of which the first one runs the model;
 * all get the same. */
bool embedding_try(const calibrate_job *job, size_t output, size_t number, const uint8_t *kept, bool *harms,
                   gq_error *e);

#endif
