#include "gguf/type.h"

#include <stddef.h>
#include <strings.h>

/* Indexed by id; retired numbers have no name. */
#define ROW(type, elements, bytes, quantized) [GGUF_##type] = {GGUF_##type, #type, elements, bytes, quantized}
static const gguf_type types[GGUF_TYPE_LIMIT] = {
    ROW(F32, 1, 4, false),       ROW(F16, 1, 2, false),       ROW(Q4_0, 32, 18, true),
    ROW(Q4_1, 32, 20, true),     ROW(Q5_0, 32, 22, true),     ROW(Q5_1, 32, 24, true),
    ROW(Q8_0, 32, 34, true),     ROW(Q8_1, 32, 36, true),     ROW(Q2_K, 256, 84, true),
    ROW(Q3_K, 256, 110, true),   ROW(Q4_K, 256, 144, true),   ROW(Q5_K, 256, 176, true),
    ROW(Q6_K, 256, 210, true),   ROW(Q8_K, 256, 292, true),   ROW(IQ2_XXS, 256, 66, true),
    ROW(IQ2_XS, 256, 74, true),  ROW(IQ3_XXS, 256, 98, true), ROW(IQ1_S, 256, 50, true),
    ROW(IQ4_NL, 32, 18, true),   ROW(IQ3_S, 256, 110, true),  ROW(IQ2_S, 256, 82, true),
    ROW(IQ4_XS, 256, 136, true), ROW(I8, 1, 1, false),        ROW(I16, 1, 2, false),
    ROW(I32, 1, 4, false),       ROW(I64, 1, 8, false),       ROW(F64, 1, 8, false),
    ROW(IQ1_M, 256, 56, true),   ROW(BF16, 1, 2, false),      ROW(TQ1_0, 256, 54, true),
    ROW(TQ2_0, 256, 66, true),   ROW(MXFP4, 32, 17, true),    ROW(NVFP4, 64, 36, true),
    ROW(Q1_0, 128, 18, true),    ROW(Q2_0, 64, 18, true),
};
#undef ROW

const gguf_type *gguf_type_of(uint32_t id) {
    return id < GGUF_TYPE_LIMIT && types[id].name ? &types[id] : NULL;
}

const gguf_type *gguf_type_named(const char *name) {
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++)
        if (types[id].name && strcasecmp(types[id].name, name) == 0) return &types[id];
    return NULL;
}

const char *gguf_type_name(uint32_t id) {
    const gguf_type *type = gguf_type_of(id);
    return type ? type->name : "unknown";
}
