/* An array of the folder as the rules see it: numbers in C order, whatever they are coded in.
 *
 * Its last dimension is a row; all others together count the rows. A GPTQ matrix is seen as it is stored,
 * with inputs as rows, and MXFP4 in units of a block of 32 elements.
 */
#pragma once

#include "gguf/type.h"
#include "hf/arrays/safetensors.h"

typedef enum hf_coding {
    HF_PLAIN,
    HF_SCALED,  /* F8 elements (or any) times a scale for each block of rows and columns */
    HF_PACKED,  /* small integers in words along a row, times a scale for each group of columns */
    HF_GPTQ,    /* small integers in words along a column, scales and zeros for each group of rows */
    HF_MXFP4,   /* blocks of 32 elements, and their scale bytes in another array */
    HF_TERNARY, /* four codes of 2 bits in a byte, of four rows that lie a quarter of the rows apart; and a
                   factor */
    HF_FP4,     /* two codes of 4 bits in a byte, times a scale for each group of columns, times a factor */
} hf_coding;

/* ---- changes that adapters make; hf/arrays/delta.h says what they mean ---- */

/* One of the two matrices. Element (line, k) of matrix m lies at base + m * matrix + line * line_step + k *
 * rank_step; lines are the rows or the columns of the array that is changed. */
typedef struct hf_factor {
    const hf_stored *stored; /* NULL: all its elements are 1 */
    uint64_t base, matrix, line_step, rank_step;
} hf_factor;

/* A row that takes the place of the array's. */
typedef struct hf_own_row {
    uint64_t row, at; /* in the array, and in the adapter's */
} hf_own_row;

typedef struct hf_delta {
    const hf_list *list; /* that the factors are in */
    hf_factor rows, columns;
    uint32_t rank;
    float scale;
    uint64_t only;    /* the one matrix that is changed, counted from 1; 0: all are */
    float *magnitude; /* DoRA: of each output; owned. NULL: none */
    /* DoRA: the norms, as the bits of floats; owned. 0: not known yet. Whoever computes one gets the same. */
    _Atomic uint32_t *norms;
    bool outputs_are_columns;
    bool was_read; /* by somebody who computes numbers of the array, or by a tensor: written by any thread */
    /* In place of all that: rows of columns.stored, sorted by row; owned. NULL: none. */
    hf_own_row *own_rows;
    size_t n_own_rows;
} hf_delta;

typedef struct hf_deltas {
    hf_delta *items;
    size_t n, capacity;
} hf_deltas;

/* ---- */

typedef struct hf_source {
    const char *name; /* without a coding's suffix; owned by the list of sources; first member */
    const hf_list *list;
    const hf_stored *stored; /* elements, words, or blocks */
    hf_coding coding;
    uint32_t n_dims;
    uint64_t shape[HF_DIMS]; /* of units */
    uint64_t rows, columns;
    const hf_stored *scale; /* all but HF_PLAIN */
    const hf_stored *zero;  /* HF_PACKED, HF_SCALED: NULL: none; HF_GPTQ */
    const hf_stored *group; /* HF_GPTQ: the group of each row, HF_PACKED: of each column; NULL: in order */
    uint64_t scale_rows,
        scale_columns; /* rows (of the last two dimensions) and columns that share a scale; HF_GPTQ: rows, 0: not known */
    uint64_t matrix_rows; /* shape[n_dims - 2] */
    uint32_t bits;        /* of a packed integer: 1, 2, 4 or 8 */
    uint32_t zero_more;   /* HF_GPTQ: what is added to a zero */
    float factor;         /* HF_FP4, HF_TERNARY: of all elements */
    bool divides;         /* the same: they are divided by it */
    hf_deltas deltas;     /* changes that adapters make; owned */
    bool is_adapters;     /* an adapter's array in the place of the model's */
} hf_source;

/* Returns the elements of a unit: those of a block, or 1. */
uint64_t hf_source_unit(const hf_source *s);
/* Returns the type whose bytes a source has: reading in it changes nothing. F32 if it has no such type. */
const tensor_type *hf_source_type(const hf_source *s);
/* Without the changes of adapters, which hf/arrays/delta.h adds: reads `n_rows` rows from row `row` on, of each n_columns units from `column` on, in hf_source_type or as
 * F32, one row behind the other. The caller has checked that they are there. */
bool hf_source_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                    const tensor_type *as, void *to, gq_error *e);
