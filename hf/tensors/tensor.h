/* A delivered tensor: pieces one behind the other, each a view of a source, with arithmetic on its elements;
 * or numbers that a rule has computed, or zeros. */
#pragma once

#include "gguf/model.h"
#include "hf/arrays/view.h"

typedef enum hf_op_kind {
    HF_ADD,
    HF_MULTIPLY,
    HF_NEGATIVE_EXP,
    HF_EXP,
    HF_SOFTPLUS,
    HF_RECIPROCAL,
    HF_ROUND_TERNARY /* to -1, 0 or 1 after a product with the value, by which they are divided then */
} hf_op_kind;
typedef struct hf_op {
    hf_op_kind kind;
    float value;
} hf_op;
enum { PIECE_OPS = 4 };

typedef struct hf_piece {
    const hf_source *source; /* NULL: `numbers`, or zeros */
    const float *numbers;    /* owned by the piece; beside a source: what its columns are divided by */
    const int64_t *ids;      /* owned by the piece, in place of both: a tensor of I64 or I32 */
    hf_view view;
    uint64_t first, n; /* units of the tensor: elements, or blocks of MXFP4 */
    uint32_t n_ops;
    hf_op ops[PIECE_OPS]; /* one after another; results of F16 sources are rounded to F16 each time */
} hf_piece;

typedef struct hf_tensor {
    model_tensor tensor; /* first member; its name is owned */
    hf_piece *pieces;
    size_t n_pieces;
    const char *stored_name; /* of the first source; owned by it; NULL: computed */
    model_origin origin;     /* texts are owned */
} hf_tensor;

/* Add an operation to a piece. */
bool hf_piece_add_op(hf_piece *p, hf_op_kind kind, double value, gq_error *e);
/* Returns the type of all sources of a tensor whose elements are only moved; NULL: they differ, or are computed. */
const tensor_type *hf_tensor_moved_type(const hf_tensor *t);
/* Sets where pieces begin, and simplifies their views. False: they do not make up the tensor's shape. */
bool hf_tensor_join(hf_tensor *t, gq_error *e);
/* Reads n elements from element `first` on, both whole blocks, in the tensor's type. */
bool hf_tensor_read(const hf_tensor *t, uint64_t first, uint64_t n, void *to, gq_error *e);
/* Calls `visit` with ranges of bytes of files that hold most of these elements: hints, for advice to the
 * system. */
void hf_tensor_ranges(const hf_tensor *t, uint64_t first, uint64_t n,
                      void (*visit)(void *user, const gq_file *f, uint64_t offset, uint64_t bytes),
                      void *user);
/* Describes for people where a tensor comes from: which source tensors, how these are coded, what is done to them. Sets
 * t->origin and its tensor's pointer to it, once the tensor is joined and stays where it is. */
bool hf_tensor_describe(hf_tensor *t, gq_error *e);
void hf_tensor_free(hf_tensor *t);
