/* A strip: what is in memory of a tensor at once. Reading it, decoding and checking what was read; encoding
 * it, decoding that and measuring how far it is from what was read.
 */
#ifndef GQ_STRIP_H
#define GQ_STRIP_H

#include "codec/codec.h"
#include "imatrix/inputs.h"
#include "model/model.h"

enum {
    /* Elements that are decoded at once, a multiple of every type's block: with 2^16 the buffers stay in a
     * core's second-level cache. */
    STRIP_ELEMENTS = 1 << 16,
    /* Elements that a worker takes at once where it only looks, in strips. */
    STRIP_PIECE = 1 << 20,
    STORED_BYTES = 8, /* of an element, at most */
};

/* A thread's memory for looking: two strips, as stored and decoded. */
typedef struct strip_pair {
    uint8_t stored[2][STORED_BYTES * STRIP_ELEMENTS];
    float decoded[2][STRIP_ELEMENTS];
} strip_pair;

/* The kernels for this process; NULL: GQUANT_ISA names what cannot run, or there are none. */
const kernels *strip_kernels(gq_error *e);
uint64_t strip_pieces(uint64_t elements); /* of STRIP_PIECE, the last one shorter */

/* A stretch of a tensor that is dealt with at once: whole rows, or a part of one row. */
typedef struct strip {
    uint64_t first; /* element */
    size_t rows, cols;
    uint64_t matrix, column; /* where `first` is */
} strip;
/* The longest one from an element on, that is of one matrix and ends at `end` at the latest. */
strip strip_from(const uint64_t ne[4], uint64_t first, uint64_t end);
/* Returns the importance of the strip's columns; without columns if there is none. */
codec_importance strip_importance(const strip *s, const tensor_inputs *inputs);

/* Read n elements of a tensor from `first` on, as stored, and decode them, where their type can be decoded.
 * All must be finite; GQ_BAD_WEIGHTS: some are not. */
bool strip_read_decoded(const kernels *k, const model_source *m, const model_tensor *t, uint64_t first,
                        size_t n, uint8_t *stored, float *x, gq_error *e);
/* Fail with GQ_BAD_WEIGHTS: an element is x, "and ...". */
bool strip_fail(const model_source *m, const model_tensor *t, uint64_t element, float x, gq_error *e,
                const char *and, ...) __attribute__((format(printf, 6, 7)));

/* How rows x cols finite weights become blocks of a type. */
typedef struct strip_encoder {
    const kernels *kernels;
    const gguf_type *type;
    codec_importance importance; /* of the matrix they are of, from their first column on */
    const encode_settings *settings;
} strip_encoder;

/* Encode x into blocks, decode these into `decoded`, which has room for STRIP_ELEMENTS elements, and add up
 * the errors. Returns rows * cols, or the first element that the type cannot hold: the blocks are then good
 * for nothing, and strip_fail_to_hold says why. */
size_t strip_encode(const strip_encoder *to, const float *x, size_t rows, size_t cols, uint8_t *blocks,
                    float *decoded, codec_error *sum);
/* The second half of it: of blocks that were encoded before, with the same result. */
size_t strip_measure(const strip_encoder *to, const float *x, size_t rows, size_t cols, const uint8_t *blocks,
                     float *decoded, codec_error *sum);
/* The first of n elements whose magnitude the type does not hold; n: it holds all. */
size_t strip_beyond(const strip_encoder *to, const float *x, size_t n);
bool strip_fail_to_hold(const strip_encoder *to, const model_source *m, const model_tensor *t,
                        uint64_t element, float x, gq_error *e);

#endif
