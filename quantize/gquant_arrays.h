/* Arrays in memory: encoded and decoded without a file, and written as a model.
 *
 *     size_t bytes;
 *     gq_array_bytes(type, rows, cols, &bytes, &e);
 *     void *blocks = malloc(bytes);
 *     gq_encode(type, rows, cols, x, NULL, blocks, bytes, &loss, &e);
 *     gq_gguf_builder *b = gq_gguf_builder_new(&e);
 *     gq_gguf_builder_set(b, "general.architecture", "string", false, &name, 1, &e);
 *     gq_gguf_builder_add(b, "blk.0.ffn_up.weight", 2, (uint64_t[]){cols, rows}, type, blocks, bytes, &e);
 *     gq_gguf_builder_write(b, "model.gguf", false, &e);
 *     gq_gguf_builder_free(b);                                 // the blocks are still the caller's
 *
 * Arrays are the caller's. x has rows x cols floats, row after row.
 * Errors, ownership and threads are as gquant.h says.
 */
#pragma once

#include "gquant_inspect.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arrays in memory ----
 * Rows of float32, one after another, to and from blocks as a file has them. Bytes are the same for any
 * number of threads and on every CPU (by a Hessian: on every one that fuses multiplications and additions, as
 * all but the oldest do). Sizes that do not fit each other are refused. */
typedef struct gq_array_options {
    size_t size;
    const float *importance; /* one value >= 0 per column; NULL: all count the same */
    int effort;              /* GQ_EFFORT_* */
    int threads;             /* 0: one per core */
    const gq_callbacks *callbacks;
    /* In place of importance: the Hessian H of the inputs, cols x cols, the mean of y y^T over the
     * inputs y that the rows are multiplied with. Importance is then their diagonal, and columns make up for
     * the rounding errors of those before them. Each row gets that result or search's alone, whichever has
     * the smaller error under H; a loss's wx2 and we2 are such sums, w H w^T. Not for types of single
     * numbers. Takes the time of a factorization, about cols^3. NULL: none. */
    GQ_RENAMED(const float *, hessian, moments);
    float damp, shrink; /* used with a Hessian, as in gq_calibration */
} gq_array_options;
/* *bytes: what rows x cols elements take in a type. Fails where a row is no whole number of blocks, or where
 * memory cannot hold so much. */
GQ_API bool gq_array_bytes(uint32_t type, uint64_t rows, uint64_t cols, size_t *bytes, gq_error *e);
/* Encodes x, rows x cols weights, into `to`, which has as many bytes as gq_array_bytes says. options and loss
 * may be NULL. Fails with GQ_BAD_WEIGHTS where a weight is not finite or beyond what the type can hold. */
GQ_API bool gq_encode(uint32_t type, uint64_t rows, uint64_t cols, const float *x,
                      const gq_array_options *options, void *to, size_t bytes, gq_loss *loss, gq_error *e);
/* Decodes blocks into x, rows x cols floats. `bytes` has to be what gq_array_bytes says. threads: 0: one per
 * core. */
GQ_API bool gq_decode(uint32_t type, uint64_t rows, uint64_t cols, const void *blocks, size_t bytes, float *x,
                      int threads, gq_error *e);
/* Multiplies each row with x, cols numbers below 2^100: out[row] is their product, as programs that run
 * models compute it. For types of blocks x is rounded to 16 bits. */
GQ_API bool gq_dot(uint32_t type, uint64_t rows, uint64_t cols, const void *blocks, size_t bytes,
                   const float *x, float *out, int threads, gq_error *e);

/* ---- writing a model from arrays ---- */
typedef struct gq_gguf_builder gq_gguf_builder;
/* Names of version 0.1, which work for one release. */
#define gq_draft gq_gguf_builder
#define gq_draft_new gq_gguf_builder_new
#define gq_draft_free gq_gguf_builder_free
#define gq_draft_set gq_gguf_builder_set
#define gq_draft_remove gq_gguf_builder_remove
#define gq_draft_copy gq_gguf_builder_copy
#define gq_draft_add gq_gguf_builder_add
#define gq_draft_write gq_gguf_builder_write
GQ_API gq_gguf_builder *gq_gguf_builder_new(gq_error *e);
GQ_API void gq_gguf_builder_free(gq_gguf_builder *b);
/* Sets a key-value pair of the metadata. Pairs are written in the order in which they are set; one that already
 * exists moves to the end. type: "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool" or
 * "string", as in gq_metadata. list: the value is a list of n elements; else n is 1. A value that the type cannot
 * hold is refused. */
GQ_API bool gq_gguf_builder_set(gq_gguf_builder *b, const char *key, const char *type, bool list,
                                const gq_value *values, size_t n, gq_error *e);
/* Removes a key-value pair; nothing happens where there is none. */
GQ_API void gq_gguf_builder_remove(gq_gguf_builder *b, const char *key);
/* Copies all metadata of a model, except what is about its shards. */
GQ_API bool gq_gguf_builder_copy(gq_gguf_builder *b, const gq_model *from, gq_error *e);
/* Adds the next tensor. n_dims is 1 to 4, ne[0] the length of a row. `bytes` has to be what type and
 * dimensions take. data is borrowed until the builder is freed. */
GQ_API bool gq_gguf_builder_add(gq_gguf_builder *b, const char *name, uint32_t n_dims, const uint64_t *ne,
                                uint32_t type, const void *data, size_t bytes, gq_error *e);
/* Writes the model as gq_write_whole does. */
GQ_API bool gq_gguf_builder_write(gq_gguf_builder *b, const char *path, bool replace, gq_error *e);

#ifdef __cplusplus
}
#endif
