/* The kernels of one ISA level as a table. */
#include "codec/simd/kernels.h"

#define ROW(id, name, magnitude) \
    [GGUF_##id] = {GGUF_##id, LEVEL(decode_##name), LEVEL(encode_##name), magnitude},
#define ROW_DECODE(id, name) [GGUF_##id] = {GGUF_##id, LEVEL(decode_##name), NULL, 0},
static const codec codecs[GGUF_TYPE_LIMIT] = {GQ_CODECS(ROW, ROW_DECODE)};

const kernels LEVEL(kernels) = {codecs, LEVEL(first_not_finite), LEVEL(measure)};
