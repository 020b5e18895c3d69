/* A layer of a calibration, or what flows into the output matrix: the story of layer.c, and what its steps have
 * in common with the job around it. */
#pragma once

#include "study/calibrate/embedding.h"
#include "study/calibrate/record.h"
#include "study/sweep/checkpoint.h"
#include "study/sweep/sweep.h"

/* A tensor of the job, found by its address. */
typedef struct numbered {
    const model_tensor *tensor;
    size_t number;
} numbered;

/* The progress of a tensor for an output. */
typedef struct tensor_progress {
    uint64_t settled; /* matrices */
    round_reason reason;
    calibrate_figures figures;
    float *squares; /* mean squares of its matrices' inputs; NULL: none are known */
} tensor_progress;

typedef struct calibrator {
    const calibrate_job *of;
    checkpoint *saved;
    sweep sweep;
    sweep_progress told; /* in weights that are to be rounded, shared out by what is predicted to take long */
    double per_second;   /* of these units to a predicted second */
    forward_stream *base, **rounded; /* the sweep's; one per output, NULL: not calibrated */
    matmul *products;
    probe_cache *results; /* kept between probes; NULL: none are */
    numbered *sorted;
    tensor_progress *progress; /* output by output */
    calibrate_record record;   /* of the current step */
    embedding_metric embedding;
    calibrate_timing untimed; /* of what is no sample */
} calibrator;

/* Makes the tables of tensors. What they take is freed with calibrator_drop_tensors, also after a failure. */
bool calibrator_list_tensors(calibrator *c, gq_error *e);
void calibrator_drop_tensors(calibrator *c);
/* The job's number of a tensor; SIZE_MAX: it is not written. */
size_t calibrator_number_of(const calibrator *c, const model_tensor *t);
tensor_progress *calibrator_progress_at(const calibrator *c, size_t output, size_t tensor);
/* What follows is a piece of work that is predicted to take so many seconds. */
void calibrator_begin_piece(calibrator *c, double seconds);
calibrate_cost calibrator_cost_of(const calibrator *c, size_t output, const model_tensor *t);
/* Records the figures of a tensor whose matrices are all rounded, and the mean squares of its inputs, which are
 * freed. */
bool calibrator_record(calibrator *c, size_t output, size_t number, gq_error *e);

/* Rounds what is left of a layer, or of the output matrix (NULL), for all outputs, and lets all streams pass
 * it. */
bool calibrator_do_layer(calibrator *c, forward_layer *l, gq_error *e);
