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

#include "forward/graph/block.h"
#include "forward/stream/stream.h"
#include "study/calibrate/site.h"

/* Bytes of what is gathered, and of what is needed only while it is gathered. */
uint64_t site_bytes(const site_sizes *z);
uint64_t site_gathering_bytes(const site_sizes *z);
/* Bytes of a matrix's held-back tokens, of the base model's side or the rounded model's. */
uint64_t site_held_bytes(const site_sizes *z, bool base);

typedef struct site_search {
    const calibrate_job *of;
    threads_pool *pool;
    forward_stream *base, *rounded;
    forward_layer *layer; /* NULL: what flows into the output matrix */
    forward_part part;
    /* Returns how many of a weight's matrices need no rounding any more; these are the first, as matrices are
     * rounded in order. As many as it has, or more: none is left. */
    uint64_t (*settled)(void *data, const model_tensor *t);
    /* Called when it is known which site it is, and as it is gathered: with the share that is done. May be
     * NULL. */
    void (*begun)(void *data, const site *s);
    void (*told)(void *data, double share);
    void *data;
} site_search;
/* Runs both streams and gathers one site; s->n_weights is 0 where none is left. The caller frees *s, also on
 * failure. */
bool site_gather(site *s, const site_search *search, gq_error *e);
