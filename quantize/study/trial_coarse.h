/* Tensors of a trial in their coarse types, and a layer that uses them. */
#ifndef GQ_STUDY_TRIAL_COARSE_H
#define GQ_STUDY_TRIAL_COARSE_H

#include "quantize/study/trial_list.h"

/* Encodes the k-th tensor of a trial, whole, in its coarse type; malloc'ed. NULL: *e says why. */
uint8_t *trial_encode(const trials *t, const trial *of, size_t k, gq_error *e);
/* Has a layer use coarse blocks of a trial's tensors, until trial_restore, which is to be called after a failure, too. They
 * are encoded anew each time, so that those of one trial at a time are in memory. */
bool trial_replace(const trials *t, trial *of, forward_layer *l, gq_error *e);
void trial_restore(const trials *t, trial *of, forward_layer *l);

#endif
