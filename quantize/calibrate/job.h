/* The calibrator's input: the tensors, the text, and where blocks go. It is constant while the calibrator
 * runs.
 */
#ifndef GQ_CALIBRATE_JOB_H
#define GQ_CALIBRATE_JOB_H

#include "codec/codec.h"
#include "forward/stream.h"
#include "quantize/calibrate/settings.h"
#include "quantize/gquant.h"

/* Rows of a matrix that are in hand at once: 24 times what a pass takes, enough for as many threads, and of
 * moments for 14,336 columns a tenth. A multiple of 192, by which the outputs' errors are added up. */
enum { CALIBRATION_ROWS = 1536 };

/* The tensors of the outputs' files; offsets are those in a tensor. */
typedef struct calibrate_store {
    bool (*write)(void *data, size_t output, size_t tensor, uint64_t offset, const void *bytes, size_t n,
                  gq_error *e);
    bool (*read)(void *data, size_t output, size_t tensor, uint64_t offset, void *to, size_t n, gq_error *e);
    bool (*sync)(void *data, gq_error *e); /* what was written is safe from a power cut */
    void *data;
} calibrate_store;

typedef struct calibrate_job {
    const model_source *file;
    const kernels *kernels;
    const encode_settings *encoding;
    const calibration_settings *settings;
    const forward_job *run;              /* the text; threads, memory */
    forward_bounds bounds;               /* of all streams */
    const forward_model *const *streams; /* once for the original and once per output */
    const uint64_t *numbers;             /* of the layers that are run; NULL: all are */
    size_t n_layers;
    uint64_t experts_used;     /* that a token meets; 0: not known, all of them */
    uint64_t matrices_at_once; /* experts whose moments fit beside each other */
    size_t n_tensors, n_outputs;
    const model_tensor *const *tensors; /* of the model, in the outputs' order */
    const gq_tensor *const *outputs;    /* what becomes of them, per output */
    calibrate_store store;
} calibrate_job;

/* Whether some tensor of an output is calibrated. */
static inline bool calibrate_job_uses(const calibrate_job *j, size_t output) {
    for (size_t i = 0; i < j->n_tensors; i++)
        if (j->outputs[output][i].calibrated) return true;
    return false;
}

#endif
