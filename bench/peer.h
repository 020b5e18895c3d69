/* The incumbent's row encoders and decoders, taken from its release library, to measure ours beside them. */
#ifndef GQ_PEER_H
#define GQ_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct peer_codec {
    /* Returns bytes written. importance: one value per column, or NULL. */
    size_t (*encode)(const float *x, void *blocks, int64_t rows, int64_t cols, const float *importance);
    void (*decode)(const void *blocks, float *x, int64_t n);
} peer_codec;

/* The library in a folder; NULL when it cannot be loaded (dlerror() says why). */
void *peer_open(const char *folder);
/* type_name as in listings: "Q4_K". false: the library has no encoder for it. */
bool peer_codec_of(void *library, const char *type_name, peer_codec *codec);

#endif
