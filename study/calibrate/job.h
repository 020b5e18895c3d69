/* The calibrator's input: the tensors, the text, and where blocks go. All it points to is the caller's and
 * does not change while the calibrator runs. */
#pragma once

#include "codec/codec.h"
#include "forward/stream/stream.h"
#include "quantize/plan/rounding.h"
#include "study/calibrate/costs.h"
#include "study/calibrate/settings.h"
#include "study/sweep/sweep.h"

/* Rows of a matrix in memory at once: 24 groups of FEEDBACK_ROWS, work for as many threads. With 14,336
 * columns the decoded rows take a tenth of the Hessian's memory. A multiple of 192, the rows that output
 * errors are added up by. */
enum { CALIBRATION_ROWS = 1536 };

typedef struct calibrate_job {
    const model_source *file;
    const kernels *kernels;
    const encode_settings *encoding;
    const calibration_settings *settings;
    /* The text, the ranks that do this together, and the bounds of all streams. A rank without windows takes
     * part with one that counts nowhere. */
    text_share text;
    const forward_model *const *streams; /* the base model's model, 1 + n_outputs times */
    const uint64_t *numbers;             /* in the model, of the layers that are run; NULL: all are */
    size_t n_layers;
    uint64_t experts_used;     /* experts that a token meets; 0: unknown, so all of them count */
    uint64_t matrices_at_once; /* experts whose Hessians fit beside each other */
    uint64_t validation_bytes; /* of the process, besides the streams that are validated (validate.h) */
    size_t n_tensors, n_outputs;
    const model_tensor *const *tensors; /* the model's, n_tensors in the outputs' order */
    const gq_tensor *const *outputs;    /* per output the planned tensors, in the same order */
    rounding_store store;
    calibrate_costs costs;   /* for progress */
    double seconds_expected; /* likewise; 0: unknown */
    /* Blocks of tensors that calibrate_reads_blocks names are not kept in memory when they are written, but
     * read again from the output when they are multiplied. */
    bool reads_blocks;
    /* For what probes keep (forward_stream_cache), so that a layer's beginning is not run again for each site.
     */
    probe_cache_plan keeps;
    /* The windows of the text with which the base model is run before all else, for what flows into an output
     * matrix that is the embedding as well (embedding.h); all_windows 0: it is not run. */
    text_share ahead;
    calibrate_sample *sample; /* NULL: all is done */
} calibrate_job;

/* Whether a tensor's blocks can be read again: those of experts are many, and each meets few tokens. */
static inline bool calibrate_reads_blocks(const model_tensor *t) { return t->ne[2] > 1; }

/* Whether a tensor is one of the job's and some output has it calibrated. */
static inline bool calibrate_job_has(const calibrate_job *j, const model_tensor *t) {
    for (size_t i = 0; i < j->n_tensors; i++)
        for (size_t o = 0; j->tensors[i] == t && o < j->n_outputs; o++)
            if (j->outputs[o][i].calibrated) return true;
    return false;
}
/* Whether some tensor of an output is calibrated. */
static inline bool calibrate_job_uses(const calibrate_job *j, size_t output) {
    for (size_t i = 0; i < j->n_tensors; i++)
        if (j->outputs[output][i].calibrated) return true;
    return false;
}
