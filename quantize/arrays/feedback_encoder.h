/* Rows in memory to blocks by second moments of their inputs: each row with error feedback (codec/feedback.h)
 * or by search alone, as its error under the moments is less. */
#ifndef GQ_FEEDBACK_ENCODER_H
#define GQ_FEEDBACK_ENCODER_H

#include "imatrix/moments.h"
#include "quantize/strips/strip.h"

typedef struct feedback_encoder {
    strip_encoder search; /* the mean squares of the columns are its importance */
    const float *moments; /* H, columns x columns; the caller's */
    size_t columns;
    moments_factored factored;
    float *mean_squares;
} feedback_encoder;

/* `with`: of a type that has steps, without importance. Fails with GQ_USAGE where the moments are none: not
 * finite, not symmetric, or beyond what a mean of products can be. */
bool feedback_encoder_open(feedback_encoder *f, strip_encoder with, const float *moments, size_t columns,
                           moments_settings settings, int threads, gq_error *e);
void feedback_encoder_close(feedback_encoder *f);
/* Bytes of a thread's memory, aligned to 64. */
size_t feedback_encoder_scratch_bytes(const feedback_encoder *f);
/* Like strip_encode, of up to FEEDBACK_ROWS rows. Weighted sums are those under H: of w H w^T, and of the
 * same of what was lost. */
size_t feedback_encode(const feedback_encoder *f, const float *x, size_t rows, uint8_t *blocks, void *scratch,
                       codec_error *sum);

#endif
