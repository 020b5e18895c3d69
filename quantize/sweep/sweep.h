/* One pass of models over a text, layer by layer: what importance data, evaluation, a sample of the inputs,
 * trials of types and the calibration have in common. The models' states are in memory, in a file without a
 * name, or in the slots of a checkpoint, from which an interrupted sweep goes on.
 *
 *     sweep s;
 *     bool ok = sweep_open(&s, &plan, e) && sweep_run(&s, &calls, e);
 *     ...                                       // logits, from s.run and s.streams
 *     sweep_close(&s);
 */
#ifndef GQ_SWEEP_H
#define GQ_SWEEP_H

#include "forward/stream.h"
#include "quantize/sweep/checkpoint.h"
#include "quantize/sweep/progress.h"

/* The models, the text and the states of a sweep. All that it points to must outlive the sweep. */
typedef struct sweep_plan {
    const forward_job *job; /* but for its progress, which is the sweep's */
    forward_bounds bounds;  /* of all streams */
    /* One stream for each of these models. absent: streams that are not run though they have their slots;
     * NULL: none is. */
    const forward_model *const *models;
    const bool *absent;
    size_t n_streams;
    /* Steps: so many layers, then what flows into the output matrix where that is asked for. numbers: those
     * of the layers in the model; NULL: 0, 1, 2 ... A model that has fewer layers is not run through the
     * others. */
    const uint64_t *numbers;
    size_t n_layers;
    bool output;
    const char *folder; /* for a file of states where there is no checkpoint; NULL: they fit into memory */
    checkpoint *kept;   /* what is finished, to which steps are added; NULL: nothing is kept */
    const gq_callbacks *callbacks; /* asked whether to go on, and told about progress; may be NULL */
    double work, done;             /* that progress counts: all, and what an earlier run has done */
    bool own_work;                 /* only sweep_tell counts; or else forward_job_work's unit is used */
} sweep_plan;

/* The record that a step leaves in the checkpoint; the bytes are malloc'ed, and the sweep frees them. */
typedef struct sweep_record {
    void *bytes;
    uint64_t n;
} sweep_record;

typedef struct sweep_calls {
    /* Before the first layer of a sweep that does not go on from a checkpoint: each stream gets its states.
     * NULL: forward_stream_embed. */
    bool (*before)(void *data, gq_error *e);
    /* On a layer, read, of one of the models; NULL in place of it: on the output matrix. All streams of the
     * model are to pass. NULL: they pass one after another, and the site is told what flows. */
    bool (*on)(void *data, forward_layer *l, gq_error *e);
    /* After a step; `to` is empty before. NULL: nothing is to be done. */
    bool (*after)(void *data, sweep_record *to, gq_error *e);
    const forward_site *site; /* may be NULL */
    void *data;
} sweep_calls;

typedef struct sweep {
    const sweep_plan *plan;
    forward_job job;
    forward_run *run;
    forward_stream **streams; /* absent ones are NULL */
    sweep_progress progress;
    char what[64]; /* the step at work, for progress */
    size_t step;   /* its number, and that of its layer in the model */
    size_t layer;
    int states; /* descriptor of the file without a name; -1: there is none */
} sweep;

size_t sweep_steps(const sweep_plan *p);
/* The run and its streams. In any case *s is fit for sweep_close, as one of zeros is, and does not move
 * before it. */
bool sweep_open(sweep *s, const sweep_plan *p, gq_error *e);
/* All steps that the checkpoint does not have. */
bool sweep_run(sweep *s, const sweep_calls *calls, gq_error *e);
/* So much work is done; false: the sweep is to end with this error. */
bool sweep_tell(sweep *s, double work, gq_error *e);
/* How many threads it has had. */
threads_count sweep_threads(const sweep *s);
void sweep_close(sweep *s);

#endif
