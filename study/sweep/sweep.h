/* One pass of models over a text, layer by layer: what importance data, evaluation, a sample of the inputs,
 * trials of types and the calibration have in common. The models' states are in memory, in a file without a
 * name, or in the slots of a checkpoint, from which an interrupted sweep goes on. Where ranks share the text
 * each has states of its own windows, and they do the steps together.
 *
 *     sweep s;
 *     bool ok = sweep_open(&s, &plan, e) && sweep_run(&s, &calls, e);
 *     ...                                       // logits, from s.run and s.streams
 *     sweep_close(&s);
 */
#pragma once

#include "forward/graph/layer.h"
#include "forward/stream/stream.h"
#include "study/sweep/checkpoint.h"
#include "study/sweep/windows.h"

/* ---- progress of models that are run, told to the caller's callbacks, which are asked whether to continue ---- */

/* The work is a line from 0 to `work`, in forward_job_work's unit or the user's own. It may be cut into
 * spans, such as the steps of a sweep, and these into pieces, whose predicted work need not be met: what is
 * told of a piece stays within it, and the next one begins where it ends, so that the share that is told
 * never falls and ends at 1. */
typedef struct sweep_progress {
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;
    double started; /* by clock_seconds, in seconds */
    double work, done, resumed;
    double begin, end; /* of the piece at hand */
    double next;       /* where the next piece begins, */
    double limit;      /* and where the last one of the span ends */
} sweep_progress;

/* done: the part of the work that an earlier run did. tokens: of the text, for gq_progress. */
sweep_progress sweep_progress_start(const gq_callbacks *callbacks, double work, double done, uint64_t tokens);
/* What follows is the work from `begin` to `end`; all before is done. */
void sweep_progress_span(sweep_progress *p, double begin, double end);
/* What follows is a piece of the span, of so much work. */
void sweep_progress_piece(sweep_progress *p, double work);
/* Tells that a share of the piece at hand is done. It asks nothing, and threads may call it in turn. */
void sweep_progress_within(sweep_progress *p, double share, const char *what);
/* Reports work done since the last call (0: none). It is a forward_job's callback: data is a sweep_progress,
 * `what` names the step and is not copied. false: the caller cancelled, GQ_INTERRUPTED. */
bool sweep_progress_report(void *data, double work, const char *what, gq_error *e);

/* ---- the text ---- */

/* A rank's share of a text that models are run on, and what that may take: what a sweep, the calibrator and
 * their plans need alike. */
typedef struct text_share {
    forward_job job;       /* with this rank's windows; threads and memory */
    forward_bounds bounds; /* of all streams */
    gq_comm *comm;         /* ranks that share the text; NULL: this process has all of it */
    /* The windows of all ranks, and the number of this one's first. idle: it has none of them: those of the
     * job, if any, count nowhere and are not kept. */
    size_t all_windows, first_window;
    bool idle;
    bool read_once; /* rank 0 reads the layers for all */
} text_share;

/* Makes a job that has the windows of the whole text one with this rank's. */
void text_share_take(text_share *t, gq_comm *comm, bool read_once);

/* ---- the sweep ---- */

/* The models, the text and the states of a sweep. All that it points to must outlive the sweep. */
typedef struct sweep_plan {
    /* The job's `progress` and `data` are not used: the sweep has its own. The checkpoint's file has the
     * windows of all ranks. */
    text_share text;
    /* One stream for each of these models. absent: streams that are not run though they have their slots;
     * NULL: none is. */
    const forward_model *const *models;
    const bool *absent;
    size_t n_streams;
    /* Steps: so many layers, then what flows into the output matrix and through prediction blocks (forward/graph/draft/draft.h),
     * where that is asked for: one step, which begins with the states behind the layers. numbers: those of the layers in the model, of all its loops; NULL: 0, 1, 2 ... A model that has fewer layers is not
     * run through the others. */
    const uint64_t *numbers;
    size_t n_layers;
    bool output, drafts;
    const char *folder; /* for a file of states where there is no checkpoint; NULL: they fit into memory */
    checkpoint *checkpoint; /* what is finished, to which steps are added; NULL: nothing is */
    /* Where the first stream's states are written besides, in a file of the caller's; NULL: nowhere.
     * is_first_done: those behind its last layer are there, so that it passes none. */
    const state_slots *first;
    bool is_first_done;
    const gq_callbacks *callbacks; /* notified of progress and asked whether to continue; may be NULL */
    double work, done;             /* the whole work, and the part that an earlier run did */
    double started;          /* by clock_seconds, for progress, where a call is several sweeps; 0: now */
    double seconds_expected; /* for gq_progress; 0: unknown */
    /* Units of work that one of forward_job_work's is: what layers that pass report, and logits behind the
     * last step. 0: one. */
    double layer_work, logits_work;
    /* Where a job has more to tell than its sweep: whose work and pieces are the caller's. NULL: the sweep's
     * own, of `work` and `done`. */
    sweep_progress *progress;
} sweep_plan;

/* The record that a step leaves in the checkpoint: n bytes, malloc'ed; the sweep frees them. */
typedef struct sweep_record {
    void *bytes;
    uint64_t n;
} sweep_record;

typedef struct sweep_calls {
    /* Called before the first layer, unless the sweep continues from a checkpoint; gives each stream its
     * states. NULL: forward_stream_embed does. */
    bool (*before)(void *data, gq_error *e);
    /* Called with a layer or a prediction block of one model, which is in memory, or with NULL for the output
     * matrix; lets all streams of that model pass. `on` NULL: they pass one after another, and `observer` gets
     * the inputs of their weights. */
    bool (*on)(void *data, forward_layer *l, gq_error *e);
    /* Called after each step; may fill *to, which is empty before. Of ranks only rank 0's record is kept.
     * NULL: not called. */
    bool (*after)(void *data, sweep_record *to, gq_error *e);
    const forward_observer *observer; /* may be NULL */
    void *data;
} sweep_calls;

typedef struct sweep {
    const sweep_plan *plan;
    forward_job job;
    forward_run *run;              /* NULL: this rank has no windows */
    forward_stream **streams;      /* absent ones are NULL */
    sweep_progress own, *progress; /* progress: the one that is told, its own or the plan's */
    char what[64]; /* the step at work, for progress, and behind the first what_step bytes its phase */
    size_t what_step;
    size_t step; /* its number, and that of its layer in the model */
    size_t layer;
    int states; /* descriptor of the file without a name; -1: there is none */
} sweep;

/* Lets the layer s->layer of a model pass on a rank without windows, which takes part in what all ranks do. */
bool sweep_skip_layer(const sweep *s, const forward_model *m, gq_error *e);
size_t sweep_steps(const sweep_plan *p);
/* Makes bounds.layer the same on all ranks, that of the rank with least memory, where one reads the layers
 * for all. Called while planning. */
bool sweep_agree_layer(gq_comm *comm, bool read_once, uint64_t *layer, gq_error *e);
/* Makes the run and its streams. After a failure, too, *s has to be closed with sweep_close, and it must not
 * move in memory until then. A sweep of zeros may be closed as well. */
bool sweep_open(sweep *s, const sweep_plan *p, gq_error *e);
/* Does all steps that the checkpoint does not have. */
bool sweep_run(sweep *s, const sweep_calls *calls, gq_error *e);
/* Both are callbacks, too; data: the sweep. Asks whether to continue; false: the sweep has to end with this error. */
bool sweep_ask(void *data, gq_error *e);
/* Tells that a share of the piece of work at hand is done. */
void sweep_report(void *data, double share);
/* Its threads; NULL where it runs nothing. */
threads_pool *sweep_pool(const sweep *s);
/* Names what is done within a step, for progress: "inputs", "rounding". */
void sweep_name_phase(sweep *s, const char *phase);
/* Returns how many threads worked. */
threads_count sweep_threads(const sweep *s);
void sweep_close(sweep *s);
