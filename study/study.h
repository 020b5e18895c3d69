/* Measurements by which a plan chooses types for a size: a sample of the matrices' inputs, and trials of tensors in
 * coarse types. */
#pragma once

#include "quantize/plan/target/target.h"
#include "quantize/strips/strips.h"
#include "study/calibrate/calibration.h"

/* ---- sample.c ----
 * Samples the matrices' inputs on a part of the calibration's text, so that types can be chosen by what
 * errors cost before anything is rounded. */

/* Tokens of the sample. Mean squares need far fewer than Hessians do; these are an eighth of the usual text. */
enum { SAMPLE_TOKENS = 8192 };

/* Takes n of the windows of all, at equal distances, which are kept, and has a job run on them. *kept is to be freed,
 * also on failure. */
bool sample_windows(text_windows *kept, forward_job *j, const forward_job *all, size_t n, gq_error *e);

/* Bytes of the sums over the sample. */
collection_sizes sample_sizes(const gq_plan *plan);
/* Runs the base model. *inputs is the caller's to free, and empty on failure. */
bool sample_run(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks, gq_error *e);

/* n: trials that this process does. windows: of the text that each runs on. measures: else the rates are
 * those of a usual processor. */
trials_forecast calibration_forecast_trials(const calibration *c, size_t n, size_t windows, bool measures);

/* ---- trials.c ----
 * Finds by trial how much each tensor's error changes the model's predictions: a part of the text is run with one
 * tensor at a time in a coarse type, or in models of many layers with some tensors that go together, and the KL
 * divergence from the base model is measured. Types for a target are chosen by it, before anything is rounded. */

/* Decides in how many layers tensors are tried (docs/internals/mixes.md says how). That follows from the model, the
 * wanted tensors, the windows and the calibration's memory.deciding alone. *layers 0: a trial does not fit
 * into that memory, and *least is the bytes it takes; or windows are too short, and *least is 0. */
bool trials_decide_layers(const gq_plan *plan, const bool *wanted, size_t *layers, uint64_t *least,
                          gq_error *e);
/* Sets `sensitivity` of the wanted tensors that are run and were measured, after trials in so many layers; a layer
 * without trials gets the result of the nearest layer's tensor of the same name. KLD increases that `found` had
 * before are dropped. Importance is that of the sources. seconds: for progress. */
bool trials_run(const gq_plan *plan, const bool *wanted, size_t layers, measured *found,
                const gq_callbacks *callbacks, const trials_forecast *seconds, gq_error *e);

/* All of it, for the targets of a plan whose rounding is a calibration. */
extern const measurement measurement_by_trials;

/* ---- trial.c ----
 * Which tensors are tried together, and in which layers: a trial is a stream with one tensor, or some that go
 * together, in a coarse type (trials.c). */

enum {
    MOST_TRIALS = 128, /* each passes half the layers, on average: together as much work as 64 x 512 tokens,
                          half of a calibration's stream by default */
};

enum { TRIAL_TENSORS = 3 };
typedef struct trial {
    size_t n, tensor[TRIAL_TENSORS], type[TRIAL_TENSORS]; /* types: of budget_types */
    const forward_model *block;     /* the MTP layer that has them, and makes the logits; NULL: a layer */
    forward_stream *stream;         /* NULL: it is a block's, which reads the base model's hidden states */
    uint8_t *blocks[TRIAL_TENSORS]; /* in the coarse types, while they are used */
    double kld;                     /* sum over places */
} trial;

/* The compared logits, of the model or of one of its MTP layers, in the base model and in trials. */
typedef struct trial_pass {
    const forward_model *model;
    size_t first, n; /* its trials */
    size_t output;   /* the tensor that makes these logits, where it is wanted; else the number of tensors */
    double places;   /* positions that KL divergences are summed over, by their weights */
    double nll;      /* sum of (1 - p) x power of the row of the token that came next */
} trial_pass;

typedef struct trials {
    const gq_plan *plan;
    const calibration *of;
    const bool *wanted;
    measured *found; /* NULL while the layers are being decided */
    forward_job job;
    text_windows sampled;
    const forward_model **models; /* of the streams */
    sweep sweep;                  /* of the base model's stream */
    forward_stream **streams;     /* the base model's stream, then the trials' */
    trial *tried;                 /* trials, those of MTP layers last */
    size_t n, begun;              /* trials, and those whose layer has come */
    bool is_grouped;              /* tensors that go together share a trial */
    strip_buffers *scratch;
    trial_pass pass; /* at work, or the last one: the model's */
} trials;

/* Layers with weights of their own. */
size_t trials_layers(const gq_plan *plan);

/* Decides whether tensors share trials: where all layers would need too many otherwise. A layer that is not tried
 * costs more than tensors that are not told apart: on model A, types chosen by 33 shared trials in all 8 layers left
 * 0.161 of llama.cpp's KL divergence, by 29 in 4 layers 0.228, by 57 of single tensors 0.156. */
void trials_decide_groups(trials *t);

/* Chooses the trials of the embedding, of so many layers at equal distances, the first and the last among them, and
 * of all MTP layers. */
void trials_choose(trials *t, size_t layers);

/* Whether tensor i is tried in a layer. layer: its number in the input; -1: the embedding. */
bool trials_in_layer(const trials *t, size_t i, int64_t layer);

/* The trials of an MTP layer; NULL: those of layers. *first: the number of their first one. */
size_t trials_of_block(const trials *t, const forward_model *block, size_t *first);

/* ---- trial.c ----
 * Tensors of a trial in their coarse types, what its logits are from the base model's, and the KLD increase that
 * follows from it. */

/* Encodes the k-th tensor of a trial, whole, in its coarse type; malloc'ed. NULL: *e says why. */
uint8_t *trial_encode(const trials *t, const trial *of, size_t k, gq_error *e);
/* Makes a layer use coarse blocks of a trial's tensors until trial_restore, which is to be called after a failure,
 * too. They are encoded anew each time, so that those of one trial at a time are in memory. */
bool trial_replace(const trials *t, trial *of, forward_layer *l, gq_error *e);
void trial_restore(const trials *t, trial *of, forward_layer *l);

/* Adds up the KL divergences of all trials, whose streams are behind the last layer: first of those of MTP layers,
 * which are run here, then of all others. */
bool trials_find_figures(trials *t, gq_error *e);
/* Sets `sensitivity` of all that was tried and of what counts as such a tensor. */
void trials_set_kld_increase(trials *t);
