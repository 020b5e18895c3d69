/* The states of all windows of a stream, in memory or in slots of a file. */
#pragma once

#include "forward/stream/stream.h"

typedef struct states {
    size_t width, context, windows, batch; /* batch: windows of one, but for the last of a loop */
    size_t loops;                          /* each has states of all windows; batches are within one */
    size_t batches;
    float **held;     /* per batch [width][stride]; NULL: states are in the file */
    float *x;         /* states of the batch that was read from the file */
    float *window;    /* a window on its way to or from the file; NULL: there is no file */
    state_slots file; /* fd -1: nowhere */
    unsigned slot;    /* that holds the states before the layer that is next, or was begun */
    bool begun;       /* what there is now is what the layer's first part has left */
    /* Per loop: CRC-32 of the bytes written so far to the slot after the present one; forward_stream_sum. */
    uint64_t *running, *sums;
} states;

/* Windows in a batch, and the floats from one of its features to the next. */
size_t states_windows(const states *s, size_t batch);
/* The number of the batch's first window among those of its loop; and the number of the loop. */
size_t states_first(const states *s, size_t batch);
size_t states_loop(const states *s, size_t batch);
size_t states_stride(const states *s, size_t batch);

/* On failure *s is fit for states_free. */
bool states_new(states *s, bool in_file, const state_slots *file, gq_error *e);
void states_free(states *s);
/* Bytes that states_new takes where states are written to a file as well; in_file: where they are only there.
 */
uint64_t states_bytes(uint64_t width, const forward_job *j, size_t batch, bool in_file);

/* A batch's states to change or look at, valid until the next call; fresh: what they were does not matter. */
float *states_take(states *s, size_t batch, bool fresh, gq_error *e);
/* Keep what states_take has handed out and the caller changed, in the slot after the present one. done: they
 * are those after a layer, and not only after its first part, for which memory will do. */
bool states_put(states *s, size_t batch, const float *x, bool done, gq_error *e);
/* To be called when all batches have been put: the next slot, or with done false the first part's states,
 * become the present ones. */
void states_turn(states *s, bool done);
bool states_resume(states *s, unsigned slot, gq_error *e);
