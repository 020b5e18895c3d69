/* Which tensors are tried together, and in which layers: a trial is a stream with one tensor, or some that go
 * together, in a coarse type (trials.h). */
#pragma once

#include "quantize/strips/strip.h"
#include "study/calibrate/calibration.h"
#include "study/sample.h"
#include "study/sweep/sweep.h"
#include "study/trials.h"

enum {
    MOST_TRIALS = 128, /* each passes half the layers, on average: together as much work as 64 x 512 tokens,
                          half of a calibration's stream by default */
};

enum { TRIAL_TENSORS = 3 };
typedef struct trial {
    size_t n, tensor[TRIAL_TENSORS], type[TRIAL_TENSORS]; /* types: of budget_types */
    const forward_model *block; /* the prediction block that has them, and makes the logits; NULL: a layer */
    forward_stream *stream;     /* NULL: it is a block's, which reads the base model's states */
    uint8_t *blocks[TRIAL_TENSORS]; /* in the coarse types, while they are used */
    double kld;                     /* sum over places */
} trial;

/* What is compared: logits of the model, or of one of its prediction blocks, of the base model and of trials. */
typedef struct trial_pass {
    const forward_model *model;
    size_t first, n; /* its trials */
    size_t output;   /* the tensor that makes these logits, where it is wanted; else the number of tensors */
    double places;   /* that divergences are summed over, by their weights */
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
    forward_stream **streams;     /* that one and the trials' */
    trial *tried;                 /* those of prediction blocks are the last */
    size_t n, begun;              /* trials, and those whose layer has come */
    bool is_grouped;              /* tensors that go together share a trial */
    strip_pair *scratch;
    trial_pass pass; /* at work, or the last one: the model's */
} trials;

/* Layers with weights of their own. */
size_t trials_layers(const gq_plan *plan);

/* Decides whether tensors share trials: where all layers would need too many otherwise. A layer that is not
 * tried costs more than tensors that are not told apart: on model A, types chosen by 33 shared trials in all
 * 8 layers left .161 of llama.cpp's divergence, by 29 in 4 layers .228, by 57 of single tensors .156. */
void trials_decide_groups(trials *t);

/* Chooses the trials of the embedding, of so many layers at equal distances, the first and the last among
 * them, and of all prediction blocks. */
void trials_choose(trials *t, size_t layers);

/* Whether tensor i is tried in a layer. layer: its number in the input; -1: the embedding. */
bool trials_in_layer(const trials *t, size_t i, int64_t layer);

/* The trials of a prediction block; NULL: those of layers. *first: the number of their first one. */
size_t trials_of_block(const trials *t, const forward_model *block, size_t *first);
