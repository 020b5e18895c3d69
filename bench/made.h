/* Synthetic models for make-model: shapes, names and numbers, and how each container is written.
 *
 * A row's numbers depend on the seed, the tensor and the row's number alone, so that a GGUF file and a folder
 * from the same options hold the same weights.
 */
#pragma once

#include <stdio.h>

#include "gguf/gguf.h"

typedef struct made_shape {
    uint64_t width, layers, heads, kv_heads, feed, vocabulary, experts, used;
} made_shape;

typedef struct made_weight {
    char name[GGUF_MAX_NAME + 1];
    uint64_t ne[4];
    bool norm, input; /* a norm's scale (all near 1, F32); has input activations, so it has importance */
} made_weight;

typedef struct made_model {
    made_shape shape;
    const tensor_type *type;
    bool fp8; /* a folder's matrices inside of layers are F8_E4M3, with a scale for 128 x 128 of them */
    uint64_t seed;
    bool sparse;
    made_weight *weights;
    size_t n;
} made_model;

/* Memory of zeros, or the end of the program. */
void *made_allocate(size_t count, size_t size);
void made_exit_unless(bool ok, const gq_error *e);
FILE *made_create(const char *path);
void made_write(FILE *f, const void *bytes, size_t n);
/* Make a file `size` bytes long, the rest of which is a hole of zeros. */
void made_extend(FILE *f, const char *path, uint64_t size);
void made_close(FILE *f, const char *path);

/* splitmix64: every state gives an independent stream, so each row can start from its own. */
uint64_t made_next(uint64_t *state);
/* Close to normal, deviation 1. */
float made_normal(uint64_t *state);
/* Fills n numbers of row `row` of a tensor; rows of all its matrices are counted. */
void made_fill_row(const made_model *m, const made_weight *w, uint64_t row, float *x);

/* Sets the shape and lists the weights. width 0: the widest model that still has eight layers; feed 0: three
 * times the width; used: experts per token. */
void made_lay_out(made_model *m, double weights, uint64_t width, uint64_t feed, uint64_t experts,
                  uint64_t used);
/* Norms and routers are F32. */
const tensor_type *made_type_of(const made_model *m, const made_weight *w);

/* Writes syllables of word `n` of the synthetic vocabulary: every text of syllables once, so that word n of 100
 * or more is syllable n % 100 followed by word n / 100 - 1. Returns its length. */
int made_word(char *to, size_t size, uint64_t n);
/* Writes a Hugging Face folder with so many safetensors files. */
void made_write_folder(const made_model *m, const char *path, uint64_t shards);
/* Writes a LoRA adapter of rank 8 for the output projections of attention, as PEFT saves it; base: the folder
 * it is for. */
void made_write_adapter(const made_model *m, const char *base, const char *path);
