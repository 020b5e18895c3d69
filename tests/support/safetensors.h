/* safetensors files made by tests: a tensor at a time, or with any header. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bytes of a file, malloc'ed: the header's length, the header, n bytes of elements; `data` NULL:
 * zeros. */
static inline uint8_t *safetensors_bytes(const char *header, const void *data, size_t n, size_t *size) {
    size_t length = strlen(header);
    uint8_t *bytes = calloc(1, 8 + length + n);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(bytes + 8, header, length);
    if (data) memcpy(bytes + 8 + length, data, n);
    *size = 8 + length + n;
    return bytes;
}

static inline void safetensors_write_header(const char *path, const char *header, const void *data,
                                            size_t n) {
    size_t size;
    uint8_t *bytes = safetensors_bytes(header, data, n, &size);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0) perror(path), abort();
    free(bytes);
}

/* A file that grows. All zeros is an empty one. */
typedef struct safetensors {
    char header[16384];
    uint8_t *data;
    size_t n;
} safetensors;

static inline void safetensors_empty(safetensors *s) {
    free(s->data);
    *s = (safetensors){.n = 0};
}

/* Adds a tensor of n bytes and returns them; `shape` is JSON. `bytes` NULL: they count up from 0 to 63, again
 * and again. */
static inline uint8_t *safetensors_add(safetensors *s, const char *name, const char *dtype, const char *shape,
                                       const void *bytes, size_t n) {
    size_t at = strlen(s->header);
    int more = snprintf(s->header + at, sizeof s->header - at,
                        "%c\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", at ? ',' : '{',
                        name, dtype, shape, s->n, s->n + n);
    if ((size_t)more >= sizeof s->header - at || !(s->data = realloc(s->data, s->n + n + 1))) abort();
    uint8_t *to = s->data + s->n;
    for (size_t i = 0; i < n; i++) to[i] = bytes ? ((const uint8_t *)bytes)[i] : (uint8_t)(i % 64);
    s->n += n;
    return to;
}

/* Adds a tensor of small BF16 weights, different for each name. */
static inline void safetensors_add_weights(safetensors *s, const char *name, const char *shape,
                                           size_t weights) {
    uint32_t x = 1;
    for (const char *c = name; *c; c++) x = x * 31 + (uint8_t)*c;
    uint8_t *to = safetensors_add(s, name, "BF16", shape, NULL, 2 * weights);
    for (size_t i = 0; i < weights; i++) {
        x = x * 1664525 + 1013904223;
        uint16_t h = (uint16_t)((x >> 16 & 0x807f) | (0x3c00 + (x >> 8 & 0x180)));
        memcpy(to + 2 * i, &h, 2); /* little-endian */
    }
}

static inline void safetensors_write(const safetensors *s, const char *path) {
    char header[sizeof s->header + 2];
    snprintf(header, sizeof header, "%s}", *s->header ? s->header : "{");
    safetensors_write_header(path, header, s->data, s->n);
}
