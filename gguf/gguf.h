/* The GGUF container: models read from one file or several shards, metadata, and headers to write.
 *
 * Reading trusts nothing: every count, length and offset is compared with the bytes that are left before it
 * is used. The limits and their reasons are in docs/internals/formats.md.
 */
#pragma once

#include "gguf/model.h"

typedef struct gguf_shard {
    gq_file file;
    uint32_t version, alignment;
    uint64_t data_offset; /* bytes from the start of the file to the data section */
    uint64_t n_kv, n_tensors;
    model_kv *kv;
    model_tensor *tensors; /* in table order */
    void *header;          /* owns what keys, values and names point into */
} gguf_shard;

/* The files behind a model of this container: one file, or all shards of a split one. */
typedef struct gguf_container {
    uint32_t n_shards;
    gguf_shard *shards;
    size_t shards_capacity;
} gguf_container;
static inline const gguf_container *gguf_container_of(const model_source *m) { return m->state; }

/* Open a model by the path of its only file or of any of its shards; everything is checked except the
 * weights. */
bool gguf_model_open(model_source *m, const char *path, gq_error *e);
/* The same from bytes in memory (one file), borrowed until the model is closed. */
bool gguf_model_memory(model_source *m, const char *name, const void *bytes, uint64_t size, gq_error *e);
/* A model that is going to be written, as its shards' headers have it: their tensors' bytes read as zeros.
 * The headers are borrowed until it is closed. */
typedef struct gguf_planned {
    const char *path;
    const uint8_t *head; /* bytes of the header */
    uint64_t head_size, size;
} gguf_planned;
bool gguf_model_planned(model_source *m, const gguf_planned *shards, uint32_t n, gq_error *e);
/* Fails if GGUF_TRANSPOSED_KEY holds anything but names of matrices. Opening a model ignores such entries. */
bool gguf_model_check_transposed(const model_source *m, gq_error *e);
