/* A base model and its quants run on the same windows, layer by layer, and compared at each scored position;
 * no more logits are held than those of a batch's positions for some tokens of the vocabulary. */
#pragma once

#include "forward/stream/stream.h"
#include "study/evaluate/base_file.h"
#include "study/evaluate/figures.h"
#include "study/evaluate/score_cache.h"
#include "study/sweep/windows.h"

/* Positions of a window that are scored, at its end but for the last one. Of windows that overlap they are as
 * many as from one window to the next, so that each token of the text is scored once. Of conversations and masked windows all are
 * scored, and count as much as the token that is predicted. Of a model that gives
 * embeddings a window is one position. */
static inline size_t windows_scored(const text_windows *w) {
    return w->pools                 ? 1
           : w->stride              ? w->stride
           : w->marks || w->targets ? w->context - 1
                                    : scored_of(w->context);
}

typedef struct runner {
    const char *path;
    model_source file;
    forward_model *model;
} runner;

typedef struct side_by_side {
    const runner *runners; /* the base model, 0, and its quants */
    size_t n;
    const base_file
        *base; /* log-probabilities in place of the base model, whose runner has no model; NULL: it
                              is run */
    const text_windows *windows; /* of all ranks */
    gq_comm *comm;               /* ranks that share them out; NULL: this process alone */
    bool read_once;              /* rank 0 reads the layers for all */
    int threads;
    uint64_t memory; /* bytes to stay within */
    uint64_t layer; /* forward_bounds.layer that ranks have agreed on; 0: what this process's memory allows */
    const char *folder; /* for states that do not fit into it */
    const gq_callbacks *callbacks;
    const char *logits;      /* a file that gets those of the base model; NULL: none */
    const char *base_out;    /* a file that gets those of the base model's scored positions; NULL: none */
    bool replace_logits;     /* of both */
    double seconds_expected; /* for progress; 0: unknown */
    double logits_work;      /* of one of forward_job_work's units of logits; 0: unknown */
    state_cache *states;     /* the base model's; if they are whole, its layers are not run. NULL: not kept */
    /* For progress where a call is several such runs: the work of all, that of those before, and when the
     * first began. 0: it is one. */
    double work, done, started;
} side_by_side;

/* Bytes of the scores of all windows. */
uint64_t side_by_side_score_bytes(const side_by_side *s);
/* Computes memory bounds before anything is read. */
bool side_by_side_bounds(const side_by_side *s, forward_bounds *to, gq_error *e);
/* Returns the work of a run, in forward_job_work's unit of layers. */
double side_by_side_work(const side_by_side *s);
/* Returns the seconds that a run would take on a usual processor, of which only ratios matter. */
double side_by_side_usual_seconds(const side_by_side *s);
/* Measures how long side_by_side_run will take: seconds_expected and logits_work. */
void side_by_side_forecast(side_by_side *s);
/* Fills the scores of all windows, on every rank. Adds a warning where threads could not be started. */
bool side_by_side_run(const side_by_side *s, scores *to, warning_list *warnings, gq_error *e);
