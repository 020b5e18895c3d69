/* Tensors in the making, found or made by name, with pieces that are set once. */
#pragma once

#include <inttypes.h>

#include "hf/tensors/build.h"

void hf_build_free(hf_build *b);

/* Fails with a sentence about the source tensor: file and name go in front. */
#define hf_found_fail(f, e, ...) hf_list_fail((f)->source->list, (f)->source->stored, e, __VA_ARGS__)
/* Fails with its shape, and with what was expected in place of it. */
bool hf_found_fail_shape(const hf_found *f, gq_error *e, const char *expected, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a rule's name, up to a '|', with numbers for its signs and `end` behind it; expert UINT64_MAX: its sign stays.
 * False: it is too long. */
bool hf_pattern_write(const char *pattern, uint64_t layer, uint64_t expert, const char *end, char *to,
                      size_t size);
/* Makes a tensor of one element and of F32. */
hf_tensor *hf_build_add(hf_build *b, const char *name, size_t n_pieces, gq_error *e);
/* Finds or makes the tensor called by part `which` of the rule's name, of n_pieces pieces. ne has n_dims
 * entries, the row length first. A tensor that is there must have the same shape. NULL: *e says why. Valid
 * until the next one is made. */
hf_tensor *hf_build_tensor(hf_build *b, const hf_found *f, unsigned which, size_t n_pieces, uint32_t n_dims,
                           const uint64_t *ne, gq_error *e);
/* Sets piece number `i`, which must be free, and returns it. */
hf_piece *hf_build_piece(const hf_found *f, hf_tensor *t, size_t i, const hf_view *v, gq_error *e);
/* A tensor of one piece whose shape is the last n_dims dimensions of a view. */
hf_piece *hf_build_view(hf_build *b, const hf_found *f, unsigned which, const hf_view *v, gq_error *e);
/* The same with a shape of its own. */
hf_piece *hf_build_shaped(hf_build *b, const hf_found *f, unsigned which, const hf_view *v, uint32_t n_dims,
                          const uint64_t *ne, gq_error *e);
/* A tensor of one piece, the whole array; the same with an operation. */
hf_piece *hf_build_whole(hf_build *b, const hf_found *f, gq_error *e);
bool hf_build_with_op(hf_build *b, const hf_found *f, hf_op_kind kind, double value, gq_error *e);
/* Finds or makes a tensor of n pieces that has the array's shape, as hf_build_tensor does. */
hf_tensor *hf_build_parts(hf_build *b, const hf_found *f, size_t n, gq_error *e);
/* A tensor of one piece that has the array's shape and its elements in another order. */
hf_piece *hf_build_reordered(hf_build *b, const hf_found *f, const hf_view *v, gq_error *e);
/* Returns how many names the rule has in GGUF, with '|' between them. */
unsigned hf_found_names(const hf_found *f);
/* Makes n tensors of equal parts of a dimension, which n divides. */
bool hf_build_equal_parts(hf_build *b, const hf_found *f, uint32_t dim, unsigned n, gq_error *e);
/* The array as the rule sees it: turned, where the rule expects the contrary. */
hf_view hf_found_view(const hf_found *f);
/* A tensor of numbers, which it takes over; also on failure. */
bool hf_build_numbers(hf_build *b, const char *name, float *numbers, uint64_t n, gq_error *e);
/* The same with a shape, which fails where it is not that of n numbers. */
bool hf_build_numbers_shaped(hf_build *b, const char *name, float *numbers, uint64_t n, uint32_t n_dims,
                             const uint64_t *ne, gq_error *e);
/* Reads an array of I64 or I32. The caller frees it; NULL: *e says why. */
int64_t *hf_ids_read(const hf_found *f, gq_error *e);
/* Makes a tensor of an array's n integers, of GGUF_I64 or GGUF_I32, in so many rows. It takes `ids` over, also
 * on failure. */
bool hf_build_ids(hf_build *b, const hf_found *f, uint32_t type, int64_t *ids, uint64_t n, uint64_t rows,
                  gq_error *e);
/* Sets the type that a tensor is delivered in, whatever type is asked for; `user` is the caller's. */
typedef bool hf_type_setter(const hf_build *b, const void *user, hf_tensor *t, gq_error *e);
/* Puts the pieces of all tensors together, none of which may be missing, and says what each is made of. */
bool hf_build_complete(const hf_build *b, hf_type_setter *set_type, const void *user, gq_error *e);
/* NULL: no such tensor. Valid until the next one is made. */
hf_tensor *hf_build_find(const hf_build *b, const char *name);
/* Finds an array by the end of its name in the folder, of several that with the shortest name; *found NULL:
 * none. */
bool hf_build_source(hf_build *b, const char *name, const hf_source **found, gq_error *e);
