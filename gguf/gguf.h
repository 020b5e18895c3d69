/* The GGUF container: models read from one file or several shards, metadata, and headers to write.
 *
 * Reading trusts nothing: every count, length and offset is compared with the bytes that are left before it
 * is used. The limits and their reasons are in docs/internals/formats.md. */
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
    void *kv; /* of gguf_model_set_kv */
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
    const uint8_t *header_data; /* bytes of the header */
    uint64_t header_size, size;
} gguf_planned;
bool gguf_model_planned(model_source *m, const gguf_planned *shards, uint32_t n, gq_error *e);
/* Replaces the KV pairs by as many, in one allocation that the model frees. */
void gguf_model_set_kv(model_source *m, model_kv *kv);
/* Fails if GGUF_TRANSPOSED_KEY holds anything but names of matrices. Opening a model ignores such entries. */
bool gguf_model_check_transposed(const model_source *m, gq_error *e);

/* One file of a model, its weights aside. */

/* Parse one container; its tensors get shard 0. Takes over `file` in both outcomes. */
bool gguf_shard_read(gguf_shard *s, gq_file *file, gq_error *e);
void gguf_shard_free(gguf_shard *s);

/* The header of a GGUF file to be written: its metadata and the table of its tensors. */

/* The metadata and tensor table to write. Pairs are kept in order; setting a key removes it and appends it at
 * the end. */
typedef struct gguf_header gguf_header;
gguf_header *gguf_header_new(gq_error *e);
void gguf_header_free(gguf_header *h);
/* Append a raw KV pair. Its key and value are borrowed until the header is freed (a vocabulary takes megabytes): the
 * model they came from has to stay open. */
bool gguf_header_copy(gguf_header *h, const model_kv *kv, gq_error *e);
void gguf_header_remove(gguf_header *h, const char *key);
/* value: the raw bytes, as in model_kv. Key and value are copied. */
bool gguf_header_set(gguf_header *h, const char *key, uint32_t type, const void *value, uint64_t size,
                     gq_error *e);
bool gguf_header_set_u32(gguf_header *h, const char *key, uint32_t value, gq_error *e);
bool gguf_header_set_string(gguf_header *h, const char *key, const char *text, gq_error *e);
/* An array: n elements of a type, `size` bytes of them as GGUF stores them; one of n texts. */
bool gguf_header_set_array(gguf_header *h, const char *key, uint32_t element_type, uint64_t n,
                           const void *elements, uint64_t size, gq_error *e);
bool gguf_header_set_texts(gguf_header *h, const char *key, const char *const *texts, uint64_t n,
                           gq_error *e);
const model_kv *gguf_header_find(const gguf_header *h, const char *key); /* valid until the KV pairs change */
/* Append a tensor; trailing dimensions of 1 are dropped (at least one stays). Its offset in the data section
 * follows from those before it and the alignment. The name is copied. */
bool gguf_header_add_tensor(gguf_header *h, const char *name, const uint64_t ne[GGUF_MAX_DIMS],
                            const tensor_type *type, gq_error *e);
/* The same with the first n_dims dimensions (the others are 1), whether the last ones are 1 or not. */
bool gguf_header_add_shaped(gguf_header *h, const char *name, uint32_t n_dims,
                            const uint64_t ne[GGUF_MAX_DIMS], const tensor_type *type, gq_error *e);
/* The arithmetic of laying out, for those who plan sizes: bytes of a tensor's entry in the table; bytes of
 * all that the header has so far, not padded, and the alignment that it and every tensor behind it will be
 * padded to. */
uint64_t gguf_entry_size(const char *name, uint32_t n_dims);
bool gguf_header_measure(gguf_header *h, uint64_t *bytes, uint32_t *alignment, gq_error *e);
/* Lay out: the header's bytes, padded to the alignment (general.alignment in it, or 32), version 3, owned by
 * the header and valid until the next finish or free; *data_size is the padded size of the data section.
 * Fails when a key or a tensor name is there twice: nothing is written that would not be read. */
bool gguf_header_finish(gguf_header *h, const uint8_t **bytes, uint64_t *header_size, uint64_t *data_size,
                        gq_error *e);
/* After finish: offset of a KV pair's value from the start of the file; 0: there is no such KV pair. */
uint64_t gguf_header_value_offset(const gguf_header *h, const char *key);
/* After finish: offset of tensor i from the start of the file. */
uint64_t gguf_header_tensor_offset(const gguf_header *h, uint64_t i);

/* ---- what reader and writer both insist on ---- */

enum {
    GGUF_MAX_ALIGNMENT = 1 << 20,  /* a mebibyte of padding per tensor is more than any storage asks for */
    GGUF_MAGIC = 0x46554747,       /* "GGUF" read as a little-endian number */
    GGUF_HEADER_BYTES = 24,        /* magic, version, two counts */
    GGUF_MIN_PAIR = 8 + 1 + 4 + 1, /* length, name, type, value */
    GGUF_MIN_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, /* length, name, dimension count, one dimension, type, offset */
};

/* general.alignment among the KV pairs, or the default; a power of two up to GGUF_MAX_ALIGNMENT. `file` is for the
 * message. */
bool gguf_alignment(const model_kv *kv, uint64_t n, uint32_t *alignment, const char *file, gq_error *e);

/* Check the dimensions against each other and the type, and set t->size. The message says what is wrong, not
 * with which tensor. */
bool model_tensor_measure(model_tensor *t, gq_error *e);

/* No key and no tensor name is there twice. */
bool gguf_check_names(const model_kv *kv, uint64_t n_kv, const model_tensor *tensors, uint64_t n_tensors,
                      const char *file, gq_error *e);
