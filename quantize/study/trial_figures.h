/* What the logits of trials are from the original's, and the harm that follows from it. */
#ifndef GQ_STUDY_TRIAL_FIGURES_H
#define GQ_STUDY_TRIAL_FIGURES_H

#include "quantize/study/trial_list.h"

/* Adds up the divergences of all trials, whose streams are behind the last layer: first of those of prediction blocks, which
 * are run here, then of all others. */
bool trials_find_figures(trials *t, gq_error *e);
/* Sets `harm` of all that was tried and of what counts as such a tensor. */
void trials_set_harm(trials *t);

#endif
