/* The statistics of the inputs of a model's matrices, ready for use: made of importance data once, and never
 * changed after. Filters, normalising and what stands in for experts that no token reached are dealt with
 * while it is made.
 */
#pragma once

#include "base/error.h"
#include "codec/codec.h"
#include "gguf/model.h"

/* Statistics of one matrix: a tensor of two dimensions is one, a tensor of experts has one for each expert.
 */
typedef struct matrix_inputs {
    /* Tokens that reached it, or calls in data that count these. 0: none, and all columns count the same */
    float tokens;
    const float *mean_square; /* per column; NULL: nothing is known */
} matrix_inputs;

/* Statistics of a tensor's matrices. The values belong to the model_inputs. */
typedef struct tensor_inputs {
    uint64_t columns;          /* 0: nothing is known */
    uint64_t n_values;         /* columns x matrices */
    uint64_t n_counted;        /* matrices with a count of their own; 1: one for all */
    uint64_t n_unseen;         /* of these, reached by no token */
    const float *tokens;       /* n_counted */
    const float *mean_squares; /* n_values */
} tensor_inputs;

typedef struct model_inputs {
    char *path;
    uint64_t n_entries;   /* left by the filter; 0: nothing is known */
    uint32_t chunk_count; /* 0: not stored */
    const char *dataset;  /* the first data set that the data were made from; NULL: not stored */
    const char *warnings; /* of reading: lines, each with its newline; NULL: none */
    struct imatrix *data; /* for inputs.c alone */
} model_inputs;

/* Selects entries by name: those with one of the texts in it are used if `include` is set, else left out. n =
 * 0: all are used. */
typedef struct inputs_filter {
    const char *const *texts;
    size_t n;
    bool include;
} inputs_filter;

/* Read, filter and check importance data. On failure *m is empty, and model_inputs_free does no harm. */
bool model_inputs_read(model_inputs *m, const char *path, inputs_filter filter, gq_error *e);
/* The same of data in memory, which it takes over; name: for messages. */
bool model_inputs_of(model_inputs *m, struct imatrix *data, const char *name, gq_error *e);
void model_inputs_free(model_inputs *m);
/* A checksum that is equal for data that say the same about the same tensors. */
uint32_t model_inputs_digest(const model_inputs *m);

/* The name of one of the entries, which are in order of their names. */
const char *model_inputs_entry(const model_inputs *m, uint64_t i);
/* Look a tensor up. False: its entry has another shape; found->n_values is then what the entry has, and
 * nothing is known. Where there is no entry nothing is known either. */
bool model_inputs_find(const model_inputs *m, const char *tensor, uint64_t columns, uint64_t matrices,
                       tensor_inputs *found, gq_error *e);
/* The same for a tensor as all see it: one that is stored transposed has no inputs, as one weight for a whole
 * row would decide nothing in it. */
bool model_inputs_find_tensor(const model_inputs *m, const model_tensor *t, bool transposed,
                              tensor_inputs *found, gq_error *e);
/* A checksum of the values; 0 where nothing is known. */
uint32_t tensor_inputs_digest(const tensor_inputs *t);

matrix_inputs tensor_inputs_matrix(const tensor_inputs *t, uint64_t matrix);
/* The view of encoders and error measures, from a column on. */
codec_importance matrix_inputs_at(matrix_inputs m, uint64_t column);
