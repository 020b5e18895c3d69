/* llama.cpp's row encoders and decoders from its release library, for comparisons. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/type.h"

typedef struct peer_codec {
    size_t (*rows)(const float *x, void *blocks, int64_t rows, int64_t cols, const float *importance);
    bool demands_importance;
    void (*decode)(const void *blocks, float *x, int64_t n);
} peer_codec;

/* The library in a folder; NULL when it cannot be loaded (dlerror() says why). */
void *peer_open(const char *folder);
/* false: the library has no encoder for the type. */
bool peer_codec_of(void *library, const tensor_type *type, peer_codec *codec);
/* importance: one value per column; NULL: all equal (types that require an imatrix get ones). */
void peer_encode(const peer_codec *codec, const float *x, void *blocks, size_t rows, size_t cols,
                 const float *importance);
