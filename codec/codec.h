/* Block codecs: one table row per type, one set of kernels per ISA level.
 *
 * A codec works on whole rows. Row length is a multiple of the type's block length; rows are contiguous.
 * Output bytes depend on the input alone: not on the ISA level, the number of threads, or how rows are
 * grouped into calls.
 */
#ifndef GQ_CODEC_H
#define GQ_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "gguf/type.h"

typedef enum codec_effort { EFFORT_FAST, EFFORT_DEFAULT, EFFORT_BEST } codec_effort;

/* What is known of a tensor's inputs, for one of its matrices. An object rather than a vector: second moments
 * may join. */
typedef struct codec_importance {
    const float *column; /* one value >= 0 per column; NULL: all columns count the same */
} codec_importance;

/* rows x cols weights -> blocks. importance may be NULL. Finite x only. */
typedef void codec_encode(const float *x, uint8_t *blocks, size_t rows, size_t cols,
                          const codec_importance *importance, codec_effort effort);
/* n elements (whole blocks) -> float32, exactly as the format says. */
typedef void codec_decode(const uint8_t *blocks, float *x, size_t n);

/* Sums over a run of rows, each in an order that is fixed by the shape alone, so that adding chunks in their
 * order gives the same report for any number of threads. */
typedef struct codec_error {
    uint64_t n;
    double x2, e2;      /* sum x^2, sum (x - x')^2 */
    double wx2, we2;    /* the same under importance; equal to x2, e2 without */
    float max_x, max_e; /* largest |x| and |x - x'| */
} codec_error;
typedef void codec_measure(const float *x, const float *decoded, size_t rows, size_t cols,
                           const codec_importance *importance, codec_error *sum /* added to */);

typedef struct codec {
    uint32_t type;        /* GGUF id */
    codec_decode *decode; /* NULL: not supported */
    codec_encode *encode; /* NULL: decode only */
    float max_magnitude; /* largest |x| that encode can store; beyond it the caller must refuse. Infinity: any
                            finite */
} codec;

/* The kernels of one ISA level. */
typedef struct kernels {
    const codec *codecs; /* indexed by GGUF type id, GGUF_TYPE_LIMIT rows; .decode NULL where unknown */
    size_t (*first_not_finite)(const float *x,
                               size_t n); /* index of the first Inf or NaN, n when there is none */
    codec_measure *measure;
} kernels;

/* Name of a level: "x86-64-v3", "neon", ... */
const char *kernels_name(const kernels *k);
/* The best level that this CPU runs, or the one that GQUANT_ISA names. NULL when that one is unknown or
 * cannot run here. */
const kernels *kernels_select(void);
/* By name; NULL: unknown, not built in, or not for this CPU. */
const kernels *kernels_level(const char *isa);
/* The i-th level built in, best last; NULL behind the last. */
const char *kernels_level_name(size_t i);

/* Plain scalar decoders written from the format description, one element at a time: what the kernels are
 * checked against. */
bool reference_decode(uint32_t type, const uint8_t *blocks, float *x, size_t n);

#endif
