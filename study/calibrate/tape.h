/* Pairs of inputs on their way between ranks. Sums over tokens are chains in the order of the text
 * (forward/stream/stream.h), and each rank has some windows of it. So a rank first records the pairs that its own
 * batches give, and then all ranks play all records in the order of the text: each gets every pair, and adds
 * it to its share of the Hessian. */
#pragma once

#include "base/comm/ranks.h"

/* Pairs of a matrix: x[features of the base][tokens] and y[features][tokens]. */
typedef struct site_pairs {
    const float *x, *y;
    size_t x_stride, y_stride, tokens;
    const uint32_t *token; /* numbers among the batch's; NULL: all in order */
} site_pairs;

/* The same as one piece: x, y, and the numbers. */
typedef struct tape_entry {
    uint64_t matrix, window, tokens; /* window: the batch's first one */
    uint64_t numbered;               /* 1: `token` is not NULL */
} tape_entry;

typedef struct tape {
    size_t x_features, features;
    size_t n, capacity, n_pieces, pieces_capacity;
    tape_entry *entries;
    float **pieces;
} tape;

/* Bytes of an entry of so many tokens. */
uint64_t tape_bytes(uint64_t x_features, uint64_t features, uint64_t tokens);
void tape_free(tape *t); /* also one of zeros */
bool tape_record(tape *t, uint64_t matrix, uint64_t window, const site_pairs *p, gq_error *e);
/* A collective: has every rank play the entries of all, those of rank 0 first. Empties the tape. */
typedef bool tape_player(void *data, const tape_entry *entry, const site_pairs *p, gq_error *e);
bool tape_play(tape *t, gq_comm *comm, tape_player *player, void *data, gq_error *e);
