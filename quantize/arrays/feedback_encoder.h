/* Encodes rows in memory by the second moments of their inputs: each row with error feedback
 * (codec/feedback.h) or by search alone, whichever has the smaller error under the moments. */
#ifndef GQ_FEEDBACK_ENCODER_H
#define GQ_FEEDBACK_ENCODER_H

#include "imatrix/moments.h"
#include "quantize/strips/strip.h"

typedef struct feedback_encoder {
    strip_encoder search; /* the mean squares of the columns are its importance */
    const float *moments; /* H, columns x columns; borrowed */
    size_t columns;
    moments_factored factored;
    float *mean_squares;
} feedback_encoder;

/* Makes ready for rows of `columns` columns. `with`: an encoder without importance, of a type whose codec has
 * steps. moments: borrowed until feedback_encoder_close. threads: for factoring; 0: one per core. Fails with
 * GQ_USAGE where the moments can be no mean of products: not finite, not symmetric, or too large. After a
 * failure there is nothing to close. */
bool feedback_encoder_open(feedback_encoder *f, strip_encoder with, const float *moments, size_t columns,
                           moments_settings settings, int threads, gq_error *e);
void feedback_encoder_close(feedback_encoder *f);
/* Returns the bytes of scratch that feedback_encode needs: aligned to 64, one for each thread. */
size_t feedback_encoder_scratch_bytes(const feedback_encoder *f);
/* Does what strip_encode does, for up to FEEDBACK_ROWS rows. The weighted sums are under H: wx2 of w H w^T
 * for each row w, we2 of the same for its error. scratch: the thread's. */
size_t feedback_encode(const feedback_encoder *f, const float *x, size_t rows, uint8_t *blocks, void *scratch,
                       codec_error *sum);

#endif
