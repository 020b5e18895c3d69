/* The tensor types of GGUF: numbers, names and sizes. What the bytes mean is known to codec/ alone. */
#pragma once

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

/* Elements and bytes of a block, bytes of a row's header, and whether it is quantized. From this one list come
 * gguf/type.c's table and the constants GGUF_Q4_K_ELEMENTS, GGUF_Q4_K_BYTES, ... */
#define GGUF_TYPES(X) \
    X(F32, 1, 4, 0, false) \
    X(F16, 1, 2, 0, false) \
    X(Q4_0, 32, 18, 0, true) \
    X(Q4_1, 32, 20, 0, true) \
    X(Q5_0, 32, 22, 0, true) \
    X(Q5_1, 32, 24, 0, true) \
    X(Q8_0, 32, 34, 0, true) \
    X(Q8_1, 32, 36, 0, true) \
    X(Q2_K, 256, 84, 0, true) \
    X(Q3_K, 256, 110, 0, true) \
    X(Q4_K, 256, 144, 0, true) \
    X(Q5_K, 256, 176, 0, true) \
    X(Q6_K, 256, 210, 0, true) \
    X(Q8_K, 256, 292, 0, true) \
    X(IQ2_XXS, 256, 66, 0, true) \
    X(IQ2_XS, 256, 74, 0, true) \
    X(IQ3_XXS, 256, 98, 0, true) \
    X(IQ1_S, 256, 50, 0, true) \
    X(IQ4_NL, 32, 18, 0, true) \
    X(IQ3_S, 256, 110, 0, true) \
    X(IQ2_S, 256, 82, 0, true) \
    X(IQ4_XS, 256, 136, 0, true) \
    X(I8, 1, 1, 0, false) \
    X(I16, 1, 2, 0, false) \
    X(I32, 1, 4, 0, false) \
    X(I64, 1, 8, 0, false) \
    X(F64, 1, 8, 0, false) \
    X(IQ1_M, 256, 56, 0, true) \
    X(BF16, 1, 2, 0, false) \
    X(TQ1_0, 256, 54, 0, true) \
    X(TQ2_0, 256, 66, 0, true) \
    X(MXFP4, 32, 17, 0, true) \
    X(NVFP4, 64, 36, 0, true) \
    X(Q1_0, 128, 18, 0, true) \
    X(Q2_0, 64, 18, 0, true)

#define GGUF_BLOCK_SIZE(type, elements, bytes, header, quantized) \
    GGUF_##type##_ELEMENTS = (elements), GGUF_##type##_BYTES = (bytes),
enum { GGUF_TYPES(GGUF_BLOCK_SIZE) };
#undef GGUF_BLOCK_SIZE

/* A row is a header, which most types do without, and a whole number of blocks behind it. A block decodes from
 * its own bytes and its row's header. So a part of a row, some of its blocks, is by itself what a row is: the
 * header and those blocks. That is how it is read and how its bytes are counted. */
typedef struct tensor_type {
    uint32_t id;
    const char *name; /* as in listings: "Q4_K" */
    uint16_t block_elements;
    uint16_t block_bytes;
    uint16_t row_header_bytes;
    bool quantized; /* false: one number per element (floats, integers) */
} tensor_type;

/* Columns of a row with a header, at most: such rows are read and written whole, by all who do so in pieces. */
enum { GGUF_HEADERED_COLUMNS = 1 << 16 };

/* Finds a type by its number; NULL: the number is retired or unknown. */
const tensor_type *tensor_type_of(uint32_t id);
/* Finds a type by its name, in any case; NULL: there is none. */
const tensor_type *tensor_type_named(const char *name);
/* Returns a type's name for messages; "unknown" for unknown numbers. */
const char *tensor_type_name(uint32_t id);
/* Counts a tensor's elements, as the functions below without a check for overflow: the reader has refused
 * tensors for which elements or bytes overflow (model_tensor_measure). */
static inline uint64_t shape_elements(const uint64_t ne[4]) { return ne[0] * ne[1] * ne[2] * ne[3]; }
/* Counts a tensor's matrices: one with up to two dimensions; with three, one per expert or head. */
static inline uint64_t shape_matrices(const uint64_t ne[4]) { return ne[2] * ne[3]; }
/* Counts the rows of all matrices. */
static inline uint64_t shape_rows(const uint64_t ne[4]) { return ne[1] * shape_matrices(ne); }

/* Whether rows of so many columns can be of a type. */
static inline bool gguf_fits_row(const tensor_type *type, uint64_t columns) {
    return columns % type->block_elements == 0 &&
           (!type->row_header_bytes || columns <= GGUF_HEADERED_COLUMNS);
}
/* Counts the bytes of a row, or of a part of one with so many columns. */
static inline uint64_t gguf_row_bytes(const tensor_type *type, uint64_t columns) {
    return type->row_header_bytes + columns / type->block_elements * type->block_bytes;
}
/* Whether so many rows take no more than `most` bytes. */
static inline bool gguf_rows_fit(const tensor_type *type, uint64_t columns, uint64_t rows, uint64_t most) {
    return columns / type->block_elements <= (most - type->row_header_bytes) / type->block_bytes &&
           rows <= most / gguf_row_bytes(type, columns);
}
/* Counts the bytes of n elements from the beginning of a row on, of rows of so many columns: those of whole
 * rows, and of the part of one behind them. So it is also where element n begins, or in a row with a header
 * that element's block. */
static inline uint64_t tensor_type_bytes(const tensor_type *type, uint64_t columns, uint64_t n) {
    uint64_t headers = type->row_header_bytes ? n / columns + (n % columns > 0) : 0;
    return headers * type->row_header_bytes + n / type->block_elements * type->block_bytes;
}
