/* Rounding a matrix by what is known of its inputs, and by search alone beside it: what does better on
 * held-back tokens is written. */
#ifndef GQ_CALIBRATE_ROUND_H
#define GQ_CALIBRATE_ROUND_H

#include "forward/matmul.h"
#include "imatrix/moments.h"
#include "quantize/calibrate/job.h"

/* Why a matrix was rounded by search alone. */
typedef enum round_reason {
    ROUND_CALIBRATED,
    ROUND_UNSEEN,    /* by any token */
    ROUND_ROOTLESS,  /* moments that no damping gives a root */
    ROUND_UNCHECKED, /* few tokens, and none held back */
    ROUND_WORSE,
    ROUND_REASONS
} round_reason;
const char *round_reason_text(round_reason r);

/* The figures of a tensor's matrices, as in gq_rounding. */
typedef struct calibrate_figures {
    uint64_t matrices, plain, unchecked;
    double power, searched, written;
    uint64_t codes, ends, tokens, width;
    float damp;
    uint32_t unused; /* so that no byte of it is without a value */
} calibrate_figures;

typedef struct round_inputs {
    const moments_factored *factored;
    const float *mean_square; /* per column; NULL: nothing is known */
    /* Held-back tokens, feature-major, of both models. */
    const float *original, *rounded;
    size_t held, stride;
} round_inputs;

typedef struct round_task {
    const calibrate_job *of;
    matmul *products;
    size_t output, tensor; /* numbers of the job */
    uint64_t matrix;
    round_inputs inputs;
    uint8_t *kept;                             /* the matrix's blocks go there, too; may be NULL */
    bool (*progress)(void *data, gq_error *e); /* asked between runs of rows */
    void *data;
} round_task;

/* Bytes that round_matrix takes meanwhile for a matrix of the tensor, besides its inputs. */
uint64_t round_bytes(const model_tensor *tensor, const gguf_type *to, int threads);
/* sums is added to; why and damp are those of the worst so far. */
bool round_matrix(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e);

#endif
