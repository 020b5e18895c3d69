/* Running whole models for tests: all logits of some windows of ids. */
#pragma once

#include "forward/graph/forward.h"

typedef struct forwarding {
    const uint32_t *ids;
    size_t n, context;         /* n is a multiple of context */
    size_t windows;            /* of a batch; 0: all in one */
    const forward_mark *marks; /* of all ids, where windows hold several texts; NULL: they do not */
    int threads;
    uint64_t layer; /* bytes that a layer may take, as forward_layer_new has it */
    size_t tile;    /* rows of the output matrix at once; 0: all */
    bool parts;     /* each layer's parts separately, where the model allows it */
    forward_observer *observer;
    double *pooled; /* receives the embedding of each window, if the model has one; NULL: not wanted */
} forwarding;

/* Logits of each token, vocabulary after vocabulary; malloc'ed. NULL: e says why. */
float *forward_whole(const model_source *g, const forwarding *f, size_t *vocabulary, gq_error *e);
