/* Functions that the files of this folder offer each other at one ISA level, and the list of codecs.
 *
 * A type's functions have its name in symbols behind theirs; for Q4_K:
 *
 *     decode_q4_k                decode.c; types of grids: grid_read.c
 *     dot_q4_k                   rows times a vector: dot.c, dot_k.c; types of grids: grid_read.c
 *     encode_q4_k, columnwise_q4_k    which encoder_of.inc makes at the end of the file of the type's family, of
 *                                CHOOSE(q4_k), ROUND(q4_k) and PACK(q4_k): legacy.c (32 elements), k_affine.c,
 *                                k_scaled.c, fp4.c, low_bit.c, grid.c (by grid_encoder_of.inc); numbers: plain.c
 *
 * encode.c drives all encoders; feedback.c, block.c and descent.c drive codec_columnwise for GPTQ-style rounding;
 * measure.c adds up errors; matmul.c and matmul_bf16.c multiply; table.c is what callers get.
 *
 * Words, from large to small:
 *     batch        GQ_LANES rows at the same block of columns. A lane is a row of it: x[c] is a vector with
 *                  column c of all of them
 *     super-block  a block of 256 columns, cut into sub-blocks, each with a packed scale; a block is what a
 *                  type stores together
 *     group        columns that are coded together: 1, or the 4 or 8 of an entry of a grid
 * and in GPTQ-style rounding:
 *     strip        STRIP_COLUMNS columns, after which errors are multiplied with the Cholesky factor at once
 *     slice        columns of a strip that are rounded before the rest of the strip learns of their errors
 *     panel        rows side by side as a product takes them, one batch or several */
#pragma once

#include "codec/codec.h"
#include "codec/simd/lanes.h"

/* A row per type that can be decoded: GGUF id, name in symbols, largest magnitude that can be encoded, encoder
 * or not. The magnitude is the largest binary16 (65504) times the largest code, and for the types with a minimum
 * of its own what that alone can hold; for grids, what all weights of an entry can be at once. */
#define GQ_CODECS(X, NUMBERS, DECODE_ONLY) \
    NUMBERS(F32, f32, INFINITY) \
    NUMBERS(F16, f16, 65504.0f) \
    NUMBERS(BF16, bf16, 0x1.fep127f) \
    X(Q4_0, q4_0, 8 * 65504.0f) \
    X(Q4_1, q4_1, 65504.0f) \
    X(Q5_0, q5_0, 16 * 65504.0f) \
    X(Q5_1, q5_1, 65504.0f) \
    X(Q8_0, q8_0, 127 * 65504.0f) \
    DECODE_ONLY(Q8_1, q8_1) \
    X(Q2_K, q2_k, 15 * 65504.0f) \
    X(Q3_K, q3_k, 128 * 65504.0f) \
    X(Q4_K, q4_k, 63 * 65504.0f) \
    X(Q5_K, q5_k, 63 * 65504.0f) \
    X(Q6_K, q6_k, 4096 * 65504.0f) \
    DECODE_ONLY(Q8_K, q8_k) \
    X(IQ4_NL, iq4_nl, 113 * 65504.0f) \
    X(IQ4_XS, iq4_xs, 3616 * 65504.0f) \
    X(IQ1_S, iq1_s, 16 * 65504.0f) \
    X(IQ1_M, iq1_m, 16 * 65504.0f) \
    X(IQ2_XXS, iq2_xxs, 31 * 65504.0f) \
    X(IQ2_XS, iq2_xs, 31 * 65504.0f) \
    X(IQ2_S, iq2_s, 31 * 65504.0f) \
    X(IQ3_XXS, iq3_xxs, 217 * 65504.0f) \
    X(IQ3_S, iq3_s, 31 * 65504.0f) \
    X(TQ1_0, tq1_0, 65504.0f) \
    X(TQ2_0, tq2_0, 65504.0f) \
    X(MXFP4, mxfp4, 0x1.8p126f) \
    X(NVFP4, nvfp4, 6 * 448.0f) \
    X(Q1_0, q1_0, 65504.0f) \
    X(Q2_0, q2_0, 65504.0f)

#define GQ_DECLARE_DECODE(id, name) \
    codec_decode LEVEL(decode_##name); \
    codec_dot LEVEL(dot_##name);
#define GQ_DECLARE_NUMBERS(id, name, magnitude) \
    GQ_DECLARE_DECODE(id, name) \
    codec_encode LEVEL(encode_##name);
#define GQ_DECLARE(id, name, magnitude) \
    GQ_DECLARE_NUMBERS(id, name, magnitude) \
    extern const codec_columnwise LEVEL(columnwise_##name);
GQ_CODECS(GQ_DECLARE, GQ_DECLARE_NUMBERS, GQ_DECLARE_DECODE)

/* A decoder begins like this, and goes from block to block. */
#define DECODE(name) \
    void LEVEL(decode_##name)(const uint8_t *restrict b, size_t first, float *restrict x, size_t n)
#define EACH_BLOCK(type) \
    for (b += first / GGUF_##type##_ELEMENTS * GGUF_##type##_BYTES; n; \
         n -= GGUF_##type##_ELEMENTS, x += GGUF_##type##_ELEMENTS, b += GGUF_##type##_BYTES)

extern const product_kernels LEVEL(products_float32), LEVEL(products_bf16);
codec_measure LEVEL(measure);
void LEVEL(feedback)(const struct feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                     struct feedback_sums *sums);
size_t LEVEL(first_not_finite)(const float *x, size_t n);
uint64_t LEVEL(read)(const uint8_t *bytes, size_t n);
extern const kernels LEVEL(kernels);
