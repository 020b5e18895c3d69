/* Conversion of source tensors to the tensors of a GGUF: names, rules, ops, checks, delivered tensors (build.c
 * lists the stages). */
#pragma once

#include <inttypes.h>

#include "arch/projector.h"
#include "arch/rules.h"
#include "hf/sources/sources.h"

/* ---- tensor.c ----
 * A delivered tensor: pieces one behind the other, each a view of a source, with arithmetic on its elements; or numbers
 * that a rule has computed, or zeros. */

typedef enum hf_value_op_kind {
    HF_ADD,
    HF_MULTIPLY,
    HF_NEGATIVE_EXP,
    HF_EXP,
    HF_SOFTPLUS,
    HF_RECIPROCAL,
    HF_ROUND_TERNARY /* to -1, 0 or 1 after a product with the value, by which they are divided then */
} hf_value_op_kind;
typedef struct hf_value_op {
    hf_value_op_kind kind;
    float value;
} hf_value_op;
enum { PIECE_OPS = 4 };

typedef struct hf_piece {
    const hf_source *source; /* NULL: `numbers`, or zeros */
    const float *numbers;    /* owned by the piece; beside a source: what its columns are divided by */
    const int64_t *ids;      /* owned by the piece, in place of both: a tensor of I64 or I32 */
    hf_view view;
    uint64_t first, n; /* units of the tensor: elements, or blocks of MXFP4 */
    uint32_t n_ops;
    hf_value_op ops[PIECE_OPS]; /* one after another; results of F16 sources are rounded to F16 each time */
} hf_piece;

typedef struct hf_tensor {
    model_tensor tensor; /* first member; its name is owned */
    hf_piece *pieces;
    size_t n_pieces;
    const char *stored_name; /* of the first source; owned by it; NULL: computed */
    model_origin origin;     /* texts are owned */
} hf_tensor;

/* Add an operation to a piece. */
bool hf_piece_add_op(hf_piece *p, hf_value_op_kind kind, double value, gq_error *e);
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
/* origin.c: describes for people where a tensor comes from: which source tensors, how these are coded, what is
 * done to them. Sets t->origin and its tensor's pointer to it, once the tensor is joined and stays where it is. */
bool hf_tensor_describe(hf_tensor *t, gq_error *e);
void hf_tensor_free(hf_tensor *t);

/* ---- build.c ----
 * Makes the tensors of a GGUF from the source tensors of a folder: names by tables of rules, shapes and order by ops. */

typedef struct hf_build hf_build;

/* A source tensor whose name has fitted a rule. */
typedef struct hf_match {
    const hf_source *source;
    const arch_rule *rule;
    const char *suffix;     /* ".weight", ".bias", or "": what the rule's name lacked */
    uint64_t layer, expert; /* the numbers in its name; 0 where it has none */
    bool is_transposed; /* rows and columns of its matrices are exchanged: the rule expects the contrary */
} hf_match;

typedef bool hf_op(hf_build *b, const hf_match *f, gq_error *e);

/* Names that have a rule only after something was put in front of them, or taken away. */
typedef struct hf_respelled {
    size_t n;
    const char *first, *prefix; /* the first such name, and what was put or taken */
} hf_respelled;

struct hf_build {
    const hf_config *config;
    const arch_folder *arch;                /* the row whose rules the folder has */
    const struct arch_projector *projector; /* projector to make in place of the text model; NULL: none */
    hf_sizes sizes;
    uint64_t n_experts;
    uint64_t n_tokens; /* of the vocabulary; UINT64_MAX: not known */
    const hf_list *list;
    hf_source *sources; /* sorted as the list is */
    size_t n_sources;
    hf_source **by_end; /* the same by their names read backwards; NULL: nobody has asked yet */
    uint64_t n_stacked; /* pieces of stacked tensors */
    hf_respelled completed, shortened;
    hf_match head;   /* the matrix of the output, which waits until all others are there; source NULL: none */
    bool keeps_ones; /* dimensions of 1 at the end of a tensor's */
    bool norms_have_one; /* 1 has been added to what the architecture's norms lack it in (hf/tensors/mlx.c) */
    bool is_transposed;  /* matrices that the architecture's rules transpose are transposed already */
    /* A source tensor of experts whose matrices were transposed, and one whose shape does not show it; NULL: none. */
    const hf_source *transposed, *square;
    hf_tensor *tensors;
    size_t n, capacity;
    name_index by_name;
};

/* Makes all tensors. On failure, too, hf_build_free has to be called. */
bool hf_build_tensors(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens, gq_error *e);
/* The same with sources that `change` is given, with `user`, before tensors are made of them. */
typedef bool hf_build_change(const void *user, hf_build *b, gq_error *e);
bool hf_build_changed_tensors(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens,
                              hf_build_change *change, const void *user, gq_error *e);
/* Makes tensors of some source tensors alone, whose sources the build takes over, also on failure; whether a model
 * has others is not looked at. */
bool hf_build_arrays(hf_build *b, const hf_config *c, const hf_list *l, hf_source *sources, size_t n,
                     gq_error *e);
/* Checks the tensors of a text model (hf/tensors/checks.c), and warns of what the GGUF will not have as the config
 * says. */
bool hf_build_check(const hf_build *b, gq_error *e);
/* Whether a model must have a head of its own. */
bool hf_build_needs_head(const hf_build *b);
/* Finds what MLX has done to the source tensors, by their shapes and names (hf/tensors/mlx.c); convolutions get the
 * shape of the original. Warns where anything is found. What cannot be undone is an error. */
bool hf_mlx_find(hf_build *b, gq_error *e);

/* ---- builder.c: tensors in the making, found or made by name, with pieces that are set once. ---- */

void hf_build_free(hf_build *b);

/* Fails with a sentence about the source tensor: file and name go in front. */
#define hf_match_fail(f, e, ...) hf_list_fail((f)->source->list, (f)->source->stored, e, __VA_ARGS__)
/* Fails with its shape, and with what was expected in place of it. */
bool hf_match_fail_shape(const hf_match *f, gq_error *e, const char *expected);
bool hf_match_fail_rows(const hf_match *f, gq_error *e, uint64_t n, const char *of);

/* Writes a rule's name, up to a '|', with numbers for its signs and `end` behind it; expert UINT64_MAX: its sign stays.
 * False: it is too long. */
bool hf_pattern_write(const char *pattern, uint64_t layer, uint64_t expert, const char *end, char *to,
                      size_t size);
/* Makes a tensor of one element and of F32. */
hf_tensor *hf_build_add(hf_build *b, const char *name, size_t n_pieces, gq_error *e);
/* Finds or makes the tensor called by part `which` of the rule's name, of n_pieces pieces. ne has n_dims
 * entries, the row length first. A tensor that is there must have the same shape. NULL: *e says why. Valid
 * until the next one is made. */
hf_tensor *hf_build_tensor(hf_build *b, const hf_match *f, unsigned which, size_t n_pieces, uint32_t n_dims,
                           const uint64_t *ne, gq_error *e);
/* Reads elements of an array that an op computes with at once, and refuses integers and codes. */
bool hf_build_floats(const hf_source *s, uint64_t first, uint64_t n, float *to, gq_error *e);
/* Sets piece number `i`, which must be free, and returns it. */
hf_piece *hf_build_piece(const hf_match *f, hf_tensor *t, size_t i, const hf_view *v, gq_error *e);
/* A tensor of one piece whose shape is the last n_dims dimensions of a view. */
hf_piece *hf_build_view(hf_build *b, const hf_match *f, unsigned which, const hf_view *v, gq_error *e);
/* The same with a shape of its own. */
hf_piece *hf_build_shaped(hf_build *b, const hf_match *f, unsigned which, const hf_view *v, uint32_t n_dims,
                          const uint64_t *ne, gq_error *e);
/* A tensor of one piece, the whole source tensor; the same with an operation. */
hf_piece *hf_build_whole(hf_build *b, const hf_match *f, gq_error *e);
bool hf_build_with_op(hf_build *b, const hf_match *f, hf_value_op_kind kind, double value, gq_error *e);
/* Finds or makes a tensor of n pieces that has the source tensor's shape, as hf_build_tensor does. */
hf_tensor *hf_build_pieces(hf_build *b, const hf_match *f, size_t n, gq_error *e);
/* A tensor of one piece that has the source tensor's shape and its elements in another order. */
hf_piece *hf_build_reordered(hf_build *b, const hf_match *f, const hf_view *v, gq_error *e);
/* Returns how many names the rule has in GGUF, with '|' between them. */
unsigned hf_match_names(const hf_match *f);
/* Makes n tensors of equal parts of a dimension, which n divides. */
bool hf_build_equal_pieces(hf_build *b, const hf_match *f, uint32_t dim, unsigned n, gq_error *e);
/* The source tensor as the rule sees it: transposed, where the rule expects the contrary. */
hf_view hf_match_view(const hf_match *f);
/* A tensor of numbers, which it takes over; also on failure. */
bool hf_build_numbers(hf_build *b, const char *name, float *numbers, uint64_t n, gq_error *e);
/* The same with a shape, which fails where it is not that of n numbers. */
bool hf_build_numbers_shaped(hf_build *b, const char *name, float *numbers, uint64_t n, uint32_t n_dims,
                             const uint64_t *ne, gq_error *e);
/* Reads a source tensor of I64 or I32. The caller frees it; NULL: *e says why. */
int64_t *hf_ids_read(const hf_match *f, gq_error *e);
/* Makes a tensor of a source tensor's n integers, of GGUF_I64 or GGUF_I32, in so many rows. It takes `ids` over, also
 * on failure. */
bool hf_build_ids(hf_build *b, const hf_match *f, uint32_t type, int64_t *ids, uint64_t n, uint64_t rows,
                  gq_error *e);
/* Sets the type that a tensor is delivered in, whatever type is asked for; `user` is the caller's. */
typedef bool hf_type_setter(const hf_build *b, const void *user, hf_tensor *t, gq_error *e);
/* Puts the pieces of all tensors together, none of which may be missing, and says what each is made of. */
bool hf_build_complete(const hf_build *b, hf_type_setter *set_type, const void *user, gq_error *e);
/* NULL: no such tensor. Valid until the next one is made. */
hf_tensor *hf_build_find(const hf_build *b, const char *name);
/* Finds a source tensor by the end of its name in the folder, of several that with the shortest name; *found NULL:
 * none. */
bool hf_build_source(hf_build *b, const char *name, const hf_source **found, gq_error *e);

/* ---- names.c ----
 * Names of source tensors: one spelling for all releases, the rule that each has, and back from a tensor to its source. */

typedef enum hf_name_result {
    HF_NAME_FOUND,
    HF_NAME_LEFT_OUT, /* encoders and buffers */
    HF_NAME_UNKNOWN,
    HF_NAME_TOO_LONG
} hf_name_result;

/* Looks a name up: as it is, else with what begins the names of its kind of model put in front, or with a
 * "model." too many taken away. The build counts what had to be put or taken. */
hf_name_result hf_names_find_rule(hf_build *b, const char *name, hf_match *f);
/* Finds the rule of a name that a projector takes, also where "model." in front is too much or missing. Left out:
 * such a name without a rule. */
hf_name_result hf_names_find_projector_rule(const arch_projector *row, const char *name, hf_match *f);
/* Puts pieces in place of others. False: the name becomes too long. */
bool hf_names_replace(char *name, size_t size, const arch_rename *list);
/* Warns of names that were completed or shortened. */
bool hf_names_warn(const hf_build *b, gq_error *e);
/* Fails for a source tensor whose name is unknown. */
bool hf_names_fail(const hf_build *b, const hf_source *s, gq_error *e);
/* Writes the name of the source tensor, or the pattern of several, that a tensor of this name is made of, or would be:
 * else that of the bias or weight beside what its other half is made of; else what the same tensor of another layer is
 * made of, with this layer's number; else what a rule would take. False: it is not known. */
bool hf_names_find_source(const hf_build *b, const char *name, char *to, size_t size);

/* ---- mtp.c ---- */

/* Sets c->mtp: as many MTP layers as the config announces, if the folder has tensors of any of them. */
bool hf_mtp_find(hf_config *c, const hf_list *l, gq_error *e);
/* Gives a tensor of such a layer the name that a main layer's would have. False: it is to be left out. */
bool hf_mtp_rename(const hf_config *c, char *name, size_t size);

/* ---- hf/tensors/rules.c ---- */

extern const arch_rule hf_common_rules[], hf_mlx_rules[];
extern const arch_rename hf_common_renames[];
extern const char *const *const hf_common_left_out;

/* ---- ops.c ----
 * Ops that rules name (arch/rules.h), and what is computed when all tensors are known (arch/folder.h). */

/* Does what a rule says for a source tensor. */
bool hf_build_op(hf_build *b, const hf_match *f, gq_error *e);
/* Computes what an architecture's folders need in the end (hf/tensors/computed.c). */
bool hf_build_finish(hf_build *b, gq_error *e);

#define OP_DECLARE(member, function, makes) hf_op hf_op_##function;
ARCH_OPS(OP_DECLARE)
#undef OP_DECLARE
/* An op's definition. */
#define HF_OP(name) bool hf_op_##name(hf_build *b, const hf_match *f, gq_error *e)

typedef bool hf_finish(hf_build *b, gq_error *e);
#define FINISH_DECLARE(member, function) hf_finish function;
ARCH_FINISHES(FINISH_DECLARE)
#undef FINISH_DECLARE

/* ---- hf/image.c ----
 * Image and video models: source tensors that keep their names, and an architecture that is recognised by them. The
 * tensors and metadata are those that ComfyUI-GGUF's converter makes and its loader expects (docs/image-models.md). */

/* Makes tensors of all source tensors of the model, and its metadata. On failure, too, hf_build_free has to be
 * called. */
bool hf_image_build(hf_build *b, const hf_config *c, const hf_list *l, hf_metadata *metadata, gq_error *e);
