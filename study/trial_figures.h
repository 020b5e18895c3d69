/* Tensors of a trial in their coarse types, what its logits are from the base model's, and the KLD increase that follows from it. */
#pragma once

#include "study/trial_list.h"

/* Encodes the k-th tensor of a trial, whole, in its coarse type; malloc'ed. NULL: *e says why. */
uint8_t *trial_encode(const trials *t, const trial *of, size_t k, gq_error *e);
/* Has a layer use coarse blocks of a trial's tensors, until trial_restore, which is to be called after a failure, too. They
 * are encoded anew each time, so that those of one trial at a time are in memory. */
bool trial_replace(const trials *t, trial *of, forward_layer *l, gq_error *e);
void trial_restore(const trials *t, trial *of, forward_layer *l);

/* Adds up the divergences of all trials, whose streams are behind the last layer: first of those of prediction blocks, which
 * are run here, then of all others. */
bool trials_find_figures(trials *t, gq_error *e);
/* Sets `sensitivity` of all that was tried and of what counts as such a tensor. */
void trials_set_kld_increase(trials *t);
