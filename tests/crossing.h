/* Random models and random sets of options, for test_crossings. All draw from tests/numbers.h, so that one
 * seed makes one case. */
#ifndef GQ_TEST_CROSSING_H
#define GQ_TEST_CROSSING_H

#include "tests/support.h"

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
} crossing_model;

/* Draw a model and write it into `folder`: as whole.gguf, and, where it has several shards, as these, too. */
void crossing_model_draw(crossing_model *m, const char *folder);
/* Path of the input, or of one of its shards, below the folder it was written to. Static buffer. */
const char *crossing_model_input(const crossing_model *m);
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
    N_ASPECTS
};

typedef struct crossing_options {
    arguments aspects[N_ASPECTS];
    arguments before; /* words before the input that belong to the outputs */
    arguments outputs;
    bool target; /* a size in place of a type */
    bool list;   /* every word of `outputs` is an output */
} crossing_options;

/* The model lies in ../in, with importance.dat, importance-2.dat and the same as .gguf. */
void crossing_options_draw(crossing_options *o, const crossing_model *m);
/* Draw one aspect afresh. */
void crossing_aspect_draw(crossing_options *o, enum crossing_aspect aspect, const crossing_model *m);
void crossing_options_copy(crossing_options *to, const crossing_options *from);
void crossing_options_free(crossing_options *o);

#endif
