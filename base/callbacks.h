/* Progress and cancellation of long calls.
 *
 * A request names its gq_callbacks, which are needed until the call returns. They are called from threads of
 * the library. The gq_progress is the library's, and good during the callback. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gq_progress {
    size_t size;
    /* Bytes of tensor data to read; where a model is run, they stand for its work. bytes_total 0: there is
     * nothing to count yet, as a sample of the work is measured. */
    uint64_t bytes_done, bytes_total;
    uint64_t weights_done;
    double seconds; /* since the call was made */
    /* The parts of bytes_done and weights_done that an earlier run had finished, and the part of seconds that
     * went into checking them, or into calibrating. For this run's speed subtract them. */
    uint64_t bytes_resumed, weights_resumed;
    double seconds_resumed;
    const char *tensor; /* the first that is not done yet, or the layer at work; NULL: none in particular */
    uint64_t tokens;    /* tokens of the text that models are run on; 0: there is none */
    /* seconds of the whole call, by a forecast before the work; 0: there is no forecast */
    double seconds_expected;
    /* The share of the whole call's work that is done, 0 to 1, by the time that each part of it is predicted to
     * take. It never falls, and is 1 in the last call alone. bytes_done and weights_done may begin again with
     * each stage of a call; this does not. share_resumed: the part of it that an earlier run had finished. */
    double share, share_resumed;
    double seconds_left; /* by the time that this run's share took, at first by the forecast; NaN: unknown */
    /* Bytes that this rank sent for the first layer that it ran in this call, by its own counter
     * (gq_comm_bytes_sent). Others of its shape take about as many. 0: none is done yet, or there is one
     * process. */
    uint64_t sent_layer;
} gq_progress;

typedef struct gq_loss gq_loss; /* gquant_common.h */

typedef struct gq_callbacks {
    size_t size;
    void *user;
    /* Each callback may be NULL. These two are called from one thread at a time, while others may wait for
     * it: be quick, and do not end the program, as its unfinished files would stay. */
    void (*progress)(void *user, const gq_progress *progress);
    void (*tensor_done)(void *user, size_t output, size_t tensor, const gq_loss *loss);
    /* Asked now and then, from any thread, also from several at once; true: finish the chunks in hand and
     * stop with GQ_INTERRUPTED. */
    bool (*cancelled)(void *user);
} gq_callbacks;

#ifdef __cplusplus
}
#endif
