/* Rounding: what decides the codes of a plan's tensors. The core has the search of the codecs, plain or
 * weighted by an imatrix (rounding_search): the engine's pass over chunks does it, so there is nothing to run
 * before. Another kind is handed in (model_runners) and rounds some tensors into the outputs' files ahead of
 * that pass, which reads their blocks back and measures them: calibration, in study/calibrate/. A plan, its
 * identity, its metadata, the engine and the results know what is here, and nothing of what stands behind it. */
#pragma once

#include "quantize/plan/plan.h"

/* The access of a rounding to tensors in the outputs' files. offset and n are bytes, from the tensor's beginning.
 * read may be NULL where files are only written. */
typedef struct rounding_store {
    bool (*write)(void *data, size_t output, size_t tensor, uint64_t offset, const void *bytes, size_t n,
                  gq_error *e);
    bool (*read)(void *data, size_t output, size_t tensor, uint64_t offset, void *to, size_t n, gq_error *e);
    bool (*sync)(void *data, gq_error *e); /* makes written bytes safe from a power cut */
    void *data;
} rounding_store;

/* The finished part of an interrupted run, in a file beside the first output. Zeros: nothing. */
typedef struct rounding_kept {
    size_t finished; /* steps; above 0: the same command continues from there */
    void *file;      /* the rounding's own */
} rounding_kept;

/* The functions of a kind of rounding. A function that is NULL has nothing to do. */
typedef struct rounding_kind {
    /* -- making a plan, in this order -- */
    /* Checks the request and fixes what decides bytes; of plan->rounding only `kind` is set. */
    bool (*open)(gq_plan *plan, const gq_options *options, gq_error *e);
    /* Whether it will know a tensor's inputs, so that types which demand that can be chosen. */
    bool (*can_round)(const gq_plan *plan, const plan_source *source);
    /* Marks the tensors of an output, whose types are chosen, that are rounded ahead (gq_tensor.calibrated). */
    void (*choose)(gq_plan *plan, size_t output);
    /* Adds what it did to the metadata of an output. */
    bool (*describe)(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e);
    /* Bounds memory and disk space. All is laid out and identified. */
    bool (*bound)(gq_plan *plan, gq_error *e);
    /* Warns that an earlier run's work will be continued, or why not. whole: that run has finished all files. */
    bool (*announce)(gq_plan *plan, const gq_options *options, bool whole, gq_error *e);
    bool (*agree)(gq_plan *plan, gq_error *e); /* a collective of all ranks: what depends on a machine */
    /* Forecasts the run. measures: by timing a sample. */
    bool (*forecast)(gq_plan *plan, bool measures, const gq_callbacks *callbacks, gq_error *e);
    void (*clear)(rounding *r); /* frees what `open` made, also after a failure; not the struct itself */
    /* -- running a plan -- */
    double (*seconds_left)(const rounding *r); /* of `run` */
    /* Rounds what is marked, or what an earlier run has not finished, into the store. written: the files are
     * whole, and only figures for the results are read. store and results NULL: this rank helps the first
     * one. */
    bool (*run)(const gq_plan *plan, const rounding_store *store, bool written, gq_results *results,
                const gq_callbacks *callbacks, rounding_kept *kept, gq_error *e);
    void (*remove_kept)(const rounding_kept *kept); /* the file; it stays open */
    void (*close_kept)(rounding_kept *kept);
    /* Removes what runs that were killed have left beside an output. own: only those of this very plan. */
    void (*clean_up)(const gq_plan *plan, size_t output, bool own);
    /* The steps of the rounding, whose figures are in the results. */
    size_t n_steps;
    gq_step (*step)(const rounding *r, size_t i);
} rounding_kind;

struct rounding {
    const rounding_kind *kind;
    uint64_t kept_bytes; /* on the disk, of an interrupted run that will be continued */
    uint32_t digest;     /* of all its settings that decide bytes; part of identities where it runs ahead */
    bool knows_inputs;   /* of some tensors at least */
    const gq_calibration_facts *facts; /* NULL: not a calibration */
    const uint32_t *ids; /* tokens that the model is run on, of equal weight; NULL: none, or others */
    uint64_t n_ids;
    struct calibration
        *calibration; /* of study/calibrate, which alone knows what it has; NULL: another kind */
};

/* Opens the rounding that the options ask for. */
bool rounding_open(gq_plan *plan, const gq_options *options, gq_error *e);
void rounding_free(rounding *r);

/* Whether tensors are rounded before the pass over chunks. */
static inline bool rounding_runs_ahead(const gq_plan *plan) { return plan->rounding->kind->run; }
static inline bool rounding_can_round(const gq_plan *plan, const plan_source *source) {
    const rounding_kind *k = plan->rounding->kind;
    return k->can_round && k->can_round(plan, source);
}
static inline double rounding_seconds_left(const gq_plan *plan) {
    const rounding_kind *k = plan->rounding->kind;
    return k->seconds_left ? k->seconds_left(plan->rounding) : 0;
}
/* Removes what any rounding that ran ahead has left beside an output. */
void rounding_clean_up(const gq_plan *plan, size_t output);
