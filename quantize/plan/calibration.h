/* Calibration in a plan: the text as windows, what memory allows, and what it takes. The run does the rest.
 */
#ifndef GQ_CALIBRATION_H
#define GQ_CALIBRATION_H

#include "forward/stream.h"
#include "imatrix/collect.h"
#include "imatrix/moments.h"
#include "quantize/plan/plan.h"
#include "quantize/sweep/checkpoint.h"
#include "quantize/sweep/windows.h"

/* Rows of a matrix that are in hand at once: 24 times what a pass takes, enough for as many threads, and of
 * moments for 14,336 columns a tenth. A multiple of 192, by which the outputs' errors are added up. */
enum { CALIBRATION_ROWS = 1536 };

/* Held-back tokens of one expert, at most: enough to tell two roundings apart. */
enum { EXPERT_HELD_TOKENS = 512 };

typedef struct plan_calibration {
    forward_model *model;          /* of the plan's input */
    const forward_model **streams; /* the same, once for the original and once per output */
    uint32_t *ids;
    forward_job job;           /* ids, windows, context, threads, memory, besides; the pulse is the run's */
    forward_bounds bounds;     /* of 1 + outputs streams of the model */
    moments_settings settings; /* damp, shrink, correction */
    int sweeps;                /* of descent: 2 with effort best, else 0 */
    size_t width;     /* of moments' blocks, at most: a multiple of FEEDBACK_STRIP; SIZE_MAX: whole rows */
    uint64_t besides; /* bytes for moments, factors, held-back activations, blocks of a layer */
    uint64_t matrices_at_once; /* experts whose moments fit beside each other */
    uint64_t asked;            /* of memory; 0: nothing */
    uint64_t resident;         /* bytes that the process had when the calibration was opened, before anything
                                  was measured; decides no bytes */
    uint64_t deciding_memory;  /* bytes by which width and trials are decided: what was asked for, or a fixed
                                  number, so that the machine's own memory decides no bytes */
    collection_sizes sums;     /* of a sample of the inputs, by which types for a size are chosen */
    windows_held held;         /* windows that only check */
    uint32_t digest;           /* of all of this that decides bytes; identities have it, too */
    checkpoint_head head;      /* of a stream of the original and one per output, in this order */
    uint64_t records;          /* bytes of the checkpoint's, at most */
    char *text;                /* its name; NULL: drawn at random */
    gq_calibration_facts facts;
} plan_calibration;

/* Check the request, read the text, set what decides bytes. Before types are chosen. */
bool plan_open_calibration(gq_plan *plan, const gq_options *options, gq_error *e);
/* What memory and disk it takes. When all is laid out and identified. */
bool plan_bound_calibration(gq_plan *plan, gq_error *e);
/* Say what an earlier run has left; whole: all files, but for some of their names. */
bool plan_announce_calibration(gq_plan *plan, bool whole, gq_error *e);
void plan_calibration_free(plan_calibration *c);

/* Tokens of all held-back windows; and how many of them one matrix is checked with at most. */
static inline size_t calibration_held_tokens(const plan_calibration *c) { return c->held.n * c->job.context; }
static inline size_t calibration_held_most(const plan_calibration *c, bool is_routed) {
    size_t all = calibration_held_tokens(c);
    return is_routed && all > EXPERT_HELD_TOKENS ? EXPERT_HELD_TOKENS : all;
}

/* The number in the model of the i-th layer that is run. */
static inline size_t plan_run_layer(const gq_plan *plan, size_t i) {
    return plan->layers.n ? plan->layers.kept[i] : i;
}
/* Whether a run over the text tells what flows into the tensor. */
bool plan_can_calibrate(const gq_plan *plan, const plan_source *source);
/* Whether the run rounds a tensor by that: what a gq_tensor's `calibrated` is made of, once types are chosen.
 */
bool plan_calibrated(const gq_plan *plan, size_t output, size_t tensor);
/* Whether some tensor of an output is calibrated. */
bool plan_any_calibrated(const gq_plan *plan, size_t output);

#endif
