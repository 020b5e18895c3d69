/* Shared by the codec tests: the ISA levels of this machine, random weights, and encoding that is checked to
 * give the same bytes at each level. */
#pragma once

#include "codec/codec.h"
#include "tests/support/numbers.h"
#include "tests/support/support.h"

/* k: the kernels of each level that this CPU runs. */
#define EACH_LEVEL(k) \
    for (size_t level_ = 0; kernels_level_name(level_); level_++) \
        for (const kernels *k = kernels_level(kernels_level_name(level_)); k; k = NULL)
/* type: each GGUF type that can be encoded. */
#define EACH_ENCODER(type) \
    for (uint32_t id_ = 0; id_ < GGUF_TYPE_LIMIT; id_++) \
        for (const tensor_type *type = encoder_of(id_); type; type = NULL)
#define EACH_EFFORT(effort) for (codec_effort effort = EFFORT_FAST; effort <= EFFORT_BEST; effort++)

/* Properties of each type that can be decoded. */
typedef struct codec_known {
    uint32_t type;
    /* Largest relative errors that an encoder may leave. */
    float normal;   /* normal weights: the type's known error plus 5 % */
    float uniform;  /* uniform weights: levels evenly over the range of a row, 1 / (levels - 1) */
    float constant; /* all weights of a row equal */
    float alone;    /* one weight and zeros */
    /* Where blocks have their scales; all else may be any byte. */
    int halves[2];              /* binary16; -1: none */
    int exponents, n_exponents; /* bytes that are exponents, as many as that */
    bool single;                /* binary32 at the beginning */
    int spread;                 /* binary16 in the top nibbles of four words from here, 0: none */
} codec_known;
extern const codec_known codecs_known[];
extern const size_t n_codecs_known;
const codec_known *known_of(uint32_t type); /* fails the test where there is no row */

/* NULL where there is no encoder. */
const tensor_type *encoder_of(uint32_t id);
const char *effort_name(codec_effort effort);
/* Whether a level has fused multiply-adds; those that have give the same bits. */
bool fuses(const kernels *k);

size_t encoded_size(const tensor_type *type, size_t rows, size_t cols);
/* Blocks of rows x cols weights, malloc'ed. Fails the test when two levels differ or one writes outside its
 * output. importance: cols values, or NULL. */
uint8_t *encode_everywhere(const tensor_type *type, const float *x, size_t rows, size_t cols,
                           const float *importance, codec_effort effort);
/* The decoded blocks, malloc'ed. */
float *through(const tensor_type *type, const float *x, size_t rows, size_t cols, const float *importance,
               codec_effort effort);
bool all_finite(const float *x, size_t n);
/* sqrt(sum w (x - y)^2 / sum w x^2); 0 for zeros that stayed zeros. */
double relative_error(const float *x, const float *y, size_t rows, size_t cols, const float *importance);
