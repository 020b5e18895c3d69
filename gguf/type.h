/* The tensor types of GGUF: numbers, names and sizes. Nothing of what the bytes mean. */
#ifndef GQ_TYPE_H
#define GQ_TYPE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GGUF_F32 = 0,
    GGUF_F16 = 1,
    GGUF_Q4_0 = 2,
    GGUF_Q4_1 = 3,
    GGUF_Q5_0 = 6,
    GGUF_Q5_1 = 7,
    GGUF_Q8_0 = 8,
    GGUF_Q8_1 = 9,
    GGUF_Q2_K = 10,
    GGUF_Q3_K = 11,
    GGUF_Q4_K = 12,
    GGUF_Q5_K = 13,
    GGUF_Q6_K = 14,
    GGUF_Q8_K = 15,
    GGUF_IQ2_XXS = 16,
    GGUF_IQ2_XS = 17,
    GGUF_IQ3_XXS = 18,
    GGUF_IQ1_S = 19,
    GGUF_IQ4_NL = 20,
    GGUF_IQ3_S = 21,
    GGUF_IQ2_S = 22,
    GGUF_IQ4_XS = 23,
    GGUF_I8 = 24,
    GGUF_I16 = 25,
    GGUF_I32 = 26,
    GGUF_I64 = 27,
    GGUF_F64 = 28,
    GGUF_IQ1_M = 29,
    GGUF_BF16 = 30,
    GGUF_TQ1_0 = 34,
    GGUF_TQ2_0 = 35,
    GGUF_MXFP4 = 39,
    GGUF_NVFP4 = 40,
    GGUF_Q1_0 = 41,
    GGUF_Q2_0 = 42,
    GGUF_TYPE_LIMIT = 43,
};

typedef struct gguf_type {
    uint32_t id;
    const char *name;        /* as in listings: "Q4_K" */
    uint16_t block_elements; /* a row is a whole number of blocks */
    uint16_t block_bytes;
    bool quantized; /* false: one number per element (floats, integers) */
} gguf_type;

/* NULL for retired and unknown numbers. */
const gguf_type *gguf_type_of(uint32_t id);
/* By name, case ignored; NULL when there is none. */
const gguf_type *gguf_type_named(const char *name);
/* Name for messages; "type 77?" style text is up to the caller: returns "unknown" for unknown ids. */
const char *gguf_type_name(uint32_t id);

#endif
