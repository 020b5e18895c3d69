/* Calibration in a plan: the windows of the text, the settings that decide bytes, and the memory and disk
 * space it takes. The rounding itself happens in the run. */
#pragma once

#include "forward/stream/stream.h"
#include "quantize/plan/rounding.h"
#include "study/calibrate/balance.h"
#include "study/calibrate/job.h"
#include "study/calibrate/settings.h"
#include "study/inputs/collect.h"
#include "study/sweep/checkpoint.h"

/* Tokens of the input sample. Mean squares need far fewer than Hessians do; these are an eighth of the usual
 * text. */
enum { SAMPLE_TOKENS = 8192 };

typedef struct plan_calibration {
    rounding rounding;    /* what the plan sees of it; first */
    forward_model *model; /* of the plan's input */
    uint32_t *ids;
    uint32_t *text_ids;      /* without the windows of random tokens; NULL: there are none of these */
    size_t drawn;            /* how many there are */
    forward_mark *marks;     /* NULL: all tokens count alike */
    forward_target *targets; /* NULL: no token is masked */
    forward_job job; /* ids, windows, context, threads, memory, extra_bytes; the progress is the run's */
    /* What the calibrator is given. Its text has this rank's windows, its bounds are those of 1 + outputs
     * streams; the memory of its run ahead is within that of the rest. The store and the folder for what
     * probes keep are set when it runs. */
    calibrate_job run;
    size_t taped;                  /* windows, of all loops, whose pairs a rank keeps at a time */
    int ranks;                     /* 1 while what decides bytes is computed */
    calibration_settings settings; /* what decides bytes */
    uint64_t extra_bytes;          /* bytes for Hessians, factors, held-back activations, blocks of a layer */
    uint64_t validation_states;    /* bytes of validated streams' states in a file; 0: they are in memory */
    uint64_t asked;                /* bytes of memory asked for; 0: no limit */
    uint64_t resident;        /* bytes that the process had when the calibration was opened, before anything
                                 was measured; decides no bytes */
    uint64_t deciding_memory; /* bytes by which width and trials are decided: what was asked for, or a fixed
                                 number, so that the machine's own memory decides no bytes */
    collection_sizes sums;    /* bytes of a sample of the inputs, by which types for a target are chosen */
    checkpoint_head head;     /* of a stream of the base model and one per output, in this order */
    uint64_t records;         /* bytes of the checkpoint's, at most */
    char *text;               /* its name; NULL: drawn at random */
    char *steps;              /* names of the settings' steps */
    balance_scales balance;   /* that the plan's input is read with */
    gq_calibration_facts facts;
} plan_calibration;

/* The calibration of a plan; NULL: its rounding is another. */
static inline plan_calibration *plan_calibration_of(const gq_plan *plan) {
    return plan->rounding->facts ? (plan_calibration *)(void *)plan->rounding : NULL;
}

/* Tokens of the text, without random ones; of conversations, those that count. */
static inline uint64_t calibration_text_tokens(const plan_calibration *c) {
    return forward_job_counted(&c->job) - c->drawn * c->job.context;
}

/* Functions of the rounding (rounding_kind), of a plan that has a calibration. */
/* Checks the request, reads the text and sets what decides bytes. Called before types are chosen. */
bool plan_open_calibration(gq_plan *plan, const gq_options *options, gq_error *e);
/* Computes the memory and disk space of a calibrated run. Called when all is laid out and identified. */
bool plan_bound_calibration(gq_plan *plan, gq_error *e);
/* Warns that an earlier run's layers will be continued, or why not. whole: that run has finished all files,
 * and only names may be missing. */
bool plan_announce_calibration(gq_plan *plan, const gq_options *options, bool whole, gq_error *e);
/* Fills the run's costs, and the work that its facts have. measures: by timing a sample, for a second or some
 * (study/calibrate/costs.h); then the facts have the seconds that layers take which are left to do, or 0
 * where that cannot be told. Otherwise, and where it cannot be told, by the speed of a usual processor.
 * callbacks: told that it measures. */
bool plan_cost_calibration(gq_plan *plan, bool measures, const gq_callbacks *callbacks, gq_error *e);
/* Returns the seconds of these costs that are left to do, in layers and before them. */
double plan_calibration_seconds_left(const rounding *r);
void plan_calibration_free(rounding *r);

/* The number in the model of the i-th layer that is run. */
static inline size_t plan_run_layer(const gq_plan *plan, size_t i) {
    return plan->layers.n ? plan->layers.kept[i] : i;
}
/* Whether running the model yields the tensor's inputs. */
bool plan_can_calibrate(const gq_plan *plan, const plan_source *source);
/* Marks the tensors of an output that the run calibrates, and routers that it fits where there are any. */
void plan_choose_calibrated(gq_plan *plan, size_t output);
/* Names in the metadata what was calibrated, and how. */
bool plan_describe_calibration(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e);

/* Removes what runs that were killed have left beside an output, and of ranks in the folder of the first. own: only what a
 * run of this very plan has left. */
void plan_clean_calibration(const gq_plan *plan, size_t output, bool own);
/* A collective, when the plan is made: checks that all ranks have the same, and agrees on what depends on a
 * machine's memory. Without ranks, or a calibration, it does nothing. */
bool plan_agree_calibration(gq_plan *plan, gq_error *e);
