/* Random models and random sets of options, for test_crossings and test_crossings_runs. All draw from
 * tests/support/numbers.h, so that one seed makes one case. */
#pragma once

#include "tests/support/support.h"

uint64_t below(uint64_t n);     /* 0 .. n - 1 */
bool chance(unsigned per_cent); /* true that often */

/* ---- words of a command line ---- */

typedef struct arguments {
    size_t n;
    char *items[64];
} arguments;
void arguments_add(arguments *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arguments_append(arguments *to, const arguments *from);
void arguments_free(arguments *a);
bool arguments_same(const arguments *a, const arguments *b);

/* ---- models ---- */

enum { CROSSING_TENSORS = 160 };

typedef struct crossing_tensor {
    char name[128];
    uint64_t ne[4];
    uint32_t type;
    bool matrix; /* more than one row: what is quantized */
} crossing_tensor;

typedef struct crossing_model {
    const char *arch;
    uint32_t blocks, shards;
    size_t n;
    crossing_tensor tensors[CROSSING_TENSORS];
    bool any_quantized, spoilt; /* spoilt: a weight may not be quantized */
    bool runs;                  /* the model can be run on a text */
    bool letters;               /* it has a vocabulary for texts, of letters */
    bool chats;                 /* it takes conversations: its tokens see none behind them */
} crossing_model;

/* Draw a model and write it into `folder`: as whole.gguf, and, where it has several shards, as these, too. */
void crossing_model_draw(crossing_model *m, const char *folder);
/* Path of the input, or of one of its shards, below the folder it was written to. Static buffer. */
const char *crossing_model_input(const crossing_model *m);
/* The same for a model that can be run. It writes tokens beside it, too: ids.txt, ids-2.txt, text.txt and
 * text-2.txt, whether the model has a vocabulary for these or not. */
void crossing_model_draw_running(crossing_model *m, const char *folder);
/* Importance data for the model, partly missing and seldom wrong, in both layouts. */
void crossing_importance_draw(const crossing_model *m, const char *folder, const char *dat, const char *gguf);

/* ---- options ---- */

/* Each aspect is drawn by itself, so that two sets can differ in one. */
enum crossing_aspect {
    ASPECT_TYPES, /* tensor types by pattern, kept tensors, pure, output and embedding */
    ASPECT_TRANSPOSE,
    ASPECT_IMPORTANCE,
    ASPECT_WEIGHTS, /* for which importance data is used */
    ASPECT_PRUNE,
    ASPECT_SPLIT,
    ASPECT_EFFORT,
    ASPECT_REQUANTIZE,
    ASPECT_METADATA,
    ASPECT_STRICT,
    N_PLAIN_ASPECTS, /* the others are empty where the model cannot be run */
    ASPECT_TOKENS =
        N_PLAIN_ASPECTS, /* on which it is run, in windows of how many, and what is made of that */
    ASPECT_MEMORY,
    ASPECT_EVALUATE,
    N_ASPECTS
};

/* What the command is asked to make. */
enum crossing_job { JOB_QUANTIZE, JOB_CALIBRATE, JOB_IMPORTANCE, JOB_LOGITS };

typedef struct crossing_options {
    arguments aspects[N_ASPECTS];
    arguments before;  /* words before the input that belong to the outputs */
    arguments command; /* the command's name, none for quantizing */
    arguments texts;   /* words between the input and the outputs */
    arguments outputs;
    enum crossing_job job;
    uint64_t least_memory; /* that the job can do with on most_threads; 0: not known */
    unsigned most_threads; /* 0: any */
    bool target;           /* a size in place of a type */
    bool list;             /* every word of `outputs` is an output */
} crossing_options;

/* The model lies in ../in, with importance.dat, importance-2.dat and the same as .gguf. */
void crossing_options_draw(crossing_options *o, const crossing_model *m);
/* The same for a model that can be run, with tokens beside it. */
void crossing_options_draw_running(crossing_options *o, const crossing_model *m);
/* Draw one aspect afresh. */
void crossing_aspect_draw(crossing_options *o, enum crossing_aspect aspect, const crossing_model *m);
void crossing_run_aspect_draw(crossing_options *o, enum crossing_aspect aspect, const crossing_model *m);
/* One that may be drawn afresh for this job. */
enum crossing_aspect crossing_aspect_any(const crossing_options *o);
void crossing_options_copy(crossing_options *to, const crossing_options *from);
void crossing_options_free(crossing_options *o);
