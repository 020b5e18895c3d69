/* The kernels of one ISA level as a table. */
#include "codec/simd/kernels.h"

_Static_assert(GQ_LANES <= CODEC_MOST_LANES, "callers make room for so many");

#define ROW(id, name, magnitude) \
    [GGUF_##id] = {GGUF_##id, LEVEL(decode_##name), LEVEL(encode_##name), \
                   magnitude, &LEVEL(columnwise_##name), LEVEL(dot_##name)},
#define ROW_NUMBERS(id, name, magnitude) \
    [GGUF_##id] = {GGUF_##id, LEVEL(decode_##name), LEVEL(encode_##name), magnitude, NULL, LEVEL(dot_##name)},
#define ROW_DECODE(id, name) \
    [GGUF_##id] = {GGUF_##id, LEVEL(decode_##name), NULL, 0, NULL, LEVEL(dot_##name)},
static const codec codecs[GGUF_TYPE_LIMIT] = {GQ_CODECS(ROW, ROW_NUMBERS, ROW_DECODE)};

#define TABLE(name, bf16) \
    const kernels name = {GQ_LANES, \
                          codecs, \
                          LEVEL(first_not_finite), \
                          LEVEL(measure), \
                          {[MATMUL_FLOAT32] = &LEVEL(products_float32), [MATMUL_BF16] = &bf16}, \
                          LEVEL(feedback), \
                          LEVEL(read)};
TABLE(LEVEL(kernels), LEVEL(products_bf16))
#ifdef GQ_WITH_AMX /* the level amx is this one, but for products of bf16 parts */
extern const product_kernels products_bf16_amx;
extern const kernels kernels_amx;
TABLE(kernels_amx, products_bf16_amx)
#endif
