/* A calibration as a plan has decided it, before a weight is read: the text, the tensors, the settings that
 * decide bytes, and the bounds of memory and disk. What was asked for is a gq_calibration; what runs is a
 * calibrator (calibrator.h), which changes nothing here. */
#pragma once

#include "codec/codec.h"
#include "forward/stream/stream.h"
#include "quantize/plan/rounding.h"
#include "study/calibrate/balance.h"
#include "study/calibrate/costs.h"
#include "study/calibrate/settings.h"
#include "study/sweep/checkpoint.h"
#include "study/sweep/sweep.h"

/* Rows of a matrix in memory at once: 24 groups of FEEDBACK_ROWS, work for as many threads. With 14,336
 * columns the decoded rows take a tenth of the Hessian's memory. A multiple of 192, the rows that output
 * errors are added up by. */
enum { CALIBRATION_ROWS = 1536 };

/* The whole text; the windows that a rank has are a text_share's. */
typedef struct calibration_text {
    char *name;           /* NULL: drawn at random */
    text_windows windows; /* `replaced` is not used */
    uint32_t *ids;        /* without the windows of random tokens; NULL: there are none of these */
    size_t drawn;         /* how many there are */
} calibration_text;

/* Bytes, and what they decide. */
typedef struct calibration_memory {
    uint64_t asked;    /* for; 0: no limit */
    uint64_t resident; /* that the process had when the calibration was opened, before anything was measured;
                          decides no bytes of outputs */
    uint64_t deciding; /* by which width and trials are decided: what was asked for, or a fixed number, so
                          that the machine's own memory decides no bytes of outputs */
    uint64_t matrices_at_once;  /* experts whose Hessians fit beside each other */
    uint64_t validation;        /* of the process, besides the streams that are validated (validate.h) */
    uint64_t validation_states; /* of validated streams' states in a file; 0: they are in memory */
    /* For what probes keep (forward_stream_cache), so that a layer's beginning is not run again for each
     * site. Its folder is set when it runs. */
    probe_cache_plan probes;
    /* Blocks of tensors that calibrate_reads_blocks names are not kept in memory when they are written, but
     * read again from the output when they are multiplied. */
    bool reads_blocks;
} calibration_memory;

typedef struct calibration {
    calibration_settings settings; /* what decides bytes */
    char *steps;                   /* names of the settings' steps */
    gq_calibration_facts facts;
    /* -- the text -- */
    calibration_text whole;
    forward_job job; /* of the whole text: windows, context, threads, memory; the progress is the run's */
    /* The ranks that do this together, this one's windows, and the bounds of 1 + n_outputs streams. A rank
     * without windows takes part with one that counts nowhere. */
    text_share text;
    /* The windows with which the base model is run before all else, for what flows into an output matrix that
     * is the embedding as well (embedding.h), and its bounds; all_windows 0: it is not run. */
    text_share ahead;
    /* -- the model -- */
    const model_source *file;
    forward_model *model;                /* of the plan's input */
    balance_scales balance;              /* that it is read with */
    const forward_model *const *streams; /* the model, 1 + n_outputs times */
    const uint64_t *numbers;             /* in the model, of the layers that are run; NULL: all are */
    size_t n_layers;
    uint64_t experts_used; /* experts that a token meets; 0: unknown, so all of them count */
    /* -- the outputs -- */
    const kernels *kernels;
    const encode_settings *encoding;
    size_t n_tensors, n_outputs;
    const model_tensor *const *tensors; /* the model's, n_tensors in the outputs' order */
    const gq_tensor *const *outputs;    /* per output the planned tensors, in the same order */
    /* -- its bounds -- */
    calibration_memory memory;
    checkpoint_head head;  /* of a stream of the base model and one per output, in this order */
    uint64_t records;      /* bytes of the checkpoint's, at most */
    calibrate_costs costs; /* for progress */
    /* -- a run's, in its own copy -- */
    rounding_store store;
    calibrate_sample *sample; /* NULL: all is done */
} calibration;

/* Tokens of the text, without random ones; of conversations, those that count. */
static inline uint64_t calibration_text_tokens(const calibration *c) {
    return forward_job_counted(&c->job) - c->whole.drawn * c->job.context;
}

/* Whether a tensor's blocks can be read again: those of experts are many, and each meets few tokens. */
static inline bool calibrate_reads_blocks(const model_tensor *t) { return t->ne[2] > 1; }

/* Whether a tensor is one of the calibration's and some output has it calibrated. */
static inline bool calibration_has(const calibration *c, const model_tensor *t) {
    for (size_t i = 0; i < c->n_tensors; i++)
        for (size_t o = 0; c->tensors[i] == t && o < c->n_outputs; o++)
            if (c->outputs[o][i].calibrated) return true;
    return false;
}
/* Whether some tensor of an output is calibrated. */
static inline bool calibration_uses(const calibration *c, size_t output) {
    for (size_t i = 0; i < c->n_tensors; i++)
        if (c->outputs[output][i].calibrated) return true;
    return false;
}

/* The rounding whose plans have one. */
extern const rounding_kind rounding_by_calibration;
