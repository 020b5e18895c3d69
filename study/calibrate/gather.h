/* Gathers the inputs of a site.
 *
 * Both streams are run batch by batch from the states before a part of a layer up to the first site that has
 * weights left to round. Experts are gathered some at a time, as many as their Hessians fit beside each other.
 * Tokens that only the rounded model sends to an expert count with no difference between the streams.
 *
 * Where the weight's output is added to the state (forward_adds) the target can be the state after it, in
 * place of the output that the base model's weight gave. Then both streams run to the end of the part, the
 * rounded one with the weight as it is in the file, and r is what its state lacks for the base model's. A token
 * whose output is multiplied by a gate g, of those of all matrices that it meets, sum G, counts as g y with
 * g / G r: each matrix answers for its share, so that together they make up for all of it.
 */
#pragma once

#include "study/calibrate/calibrator.h"
#include "study/calibrate/site.h"

/* Bytes of what is gathered, and of what is needed only while it is gathered. */
uint64_t site_bytes(const site_sizes *z);
uint64_t site_gathering_bytes(const site_sizes *z);
/* Bytes of a matrix's held-back tokens, of the base model's side or the rounded model's. */
uint64_t site_held_bytes(const site_sizes *z, bool base);

/* Runs both streams up to the calibrator's next site and gathers it; s->n_weights is 0 where none is left. The
 * caller frees *s, also on failure. */
bool site_gather(site *s, calibrator *c, gq_error *e);
