/* The GGUF container: models read from one file or several shards, metadata, and headers to write.
 *
 * Reading trusts nothing: every count, length and offset is compared with the bytes that are left before it
 * is used. The limits and their reasons are in docs/formats.md.
 */
#ifndef GQ_GGUF_H
#define GQ_GGUF_H

#include "gguf/file.h"
#include "gguf/type.h"

enum {
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_NAME = 127,
    GGUF_MAX_KEY = 65535,
    GGUF_MAX_NESTING = 8,
    GGUF_DEFAULT_ALIGNMENT = 32
};

/* Metadata value types, as numbered in the file. */
enum gguf_value_type {
    GGUF_U8,
    GGUF_INT8,
    GGUF_U16,
    GGUF_INT16,
    GGUF_U32,
    GGUF_INT32,
    GGUF_FLOAT32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_INT64,
    GGUF_FLOAT64,
};

/* One key-value pair, kept as the raw bytes it had in the file (little-endian, without the type number), so
 * that writing it again is exact. Strings include their 8-byte length; arrays their 12-byte head. */
typedef struct gguf_kv {
    const char *key; /* NUL-terminated, no NUL inside */
    uint32_t type;
    const uint8_t *value;
    uint64_t size; /* bytes of value */
} gguf_kv;

typedef struct gguf_tensor {
    const char *name;           /* NUL-terminated, no NUL inside, 1..127 bytes */
    uint32_t n_dims;            /* 1..4, as stored */
    uint64_t ne[GGUF_MAX_DIMS]; /* ne[0] is the row length; missing dimensions are 1 */
    const gguf_type *type;
    uint64_t size;   /* bytes */
    uint64_t offset; /* from the start of its shard's file */
    uint32_t shard;
    bool transposed; /* its matrices are stored so: GGUF_TRANSPOSED_KEY */
} gguf_tensor;

typedef struct gguf_shard {
    gq_file file;
    uint32_t version, alignment;
    uint64_t data_offset; /* start of the data section in this file */
    uint64_t n_kv, n_tensors;
    gguf_kv *kv;
    gguf_tensor *tensors; /* in table order */
    void *header;         /* owns what keys, values and names point into */
} gguf_shard;

/* A model: one file, or all shards of a split one, and where the other rooms get to know its container: they
 * take metadata and tensors from these lists and weights through gguf_model_read. Of shards they want what
 * any file has (name, size, identity), and the alignment and header for what is written in the same layout.
 */
typedef struct gguf_model {
    const gguf_kv *kv; /* the first shard's */
    uint64_t n_kv;
    uint32_t n_shards;
    gguf_shard *shards;
    uint64_t n_tensors;
    gguf_tensor **tensors; /* all shards' tensors by (shard, offset); unique names */
    gguf_tensor **by_name; /* the same, for gguf_model_tensor */
} gguf_model;

/* Parse one container; its tensors get shard 0. Takes over `file` in both outcomes. */
bool gguf_shard_read(gguf_shard *s, gq_file *file, gq_error *e);
void gguf_shard_free(gguf_shard *s);

/* Open a model by the path of its only file or of any of its shards; everything is checked except the
 * weights. */
bool gguf_model_open(gguf_model *m, const char *path, gq_error *e);
/* The same from bytes in memory (one file), borrowed until the model is closed. */
bool gguf_model_memory(gguf_model *m, const char *name, const void *bytes, uint64_t size, gq_error *e);
/* A model that is going to be written, as its shards' headers have it: their tensors' bytes read as zeros.
 * The headers are borrowed until it is closed. */
typedef struct gguf_planned {
    const char *path;
    const uint8_t *head; /* bytes of the header */
    uint64_t head_size, size;
} gguf_planned;
bool gguf_model_planned(gguf_model *m, const gguf_planned *shards, uint32_t n, gq_error *e);
void gguf_model_close(gguf_model *m);
/* Whether none of its files has changed since the model was opened. */
bool gguf_model_unchanged(const gguf_model *m, gq_error *e);
/* Whether a file, told by what stat says of it, is one of the model's: whatever its name, writing it would
 * destroy what is read. */
bool gguf_model_has_file(const gguf_model *m, uint64_t device, uint64_t inode);
/* Which shards were written together: a key of ours with a number that all shards of a set share. Others
 * write no such key, and a shard without it is taken as it comes. The number of the first shard that has
 * another than one before it, and that one's; false: there is none. */
#define GGUF_SET_KEY "gquant.split.digest"
bool gguf_model_mixed(const gguf_model *m, uint32_t *shard, uint32_t *other);
const gguf_tensor *gguf_model_tensor(const gguf_model *m, const char *name); /* NULL: no such tensor */
/* The file that a tensor is in, for messages. */
const char *gguf_model_path(const gguf_model *m, const gguf_tensor *t);
/* Which tensors have their matrices stored transposed, ne[0] and ne[1] exchanged: a key of ours with a list
 * of names. What else it holds is passed over when a model is opened; gguf_model_check_transposed tells of
 * it. */
#define GGUF_TRANSPOSED_KEY "gquant.transposed"
bool gguf_model_check_transposed(const gguf_model *m, gq_error *e);
static inline bool gguf_is_matrix(const uint64_t ne[GGUF_MAX_DIMS]) { return ne[0] > 1 && ne[1] > 1; }
/* Read n elements of a tensor from `first` on, as they are stored; both whole blocks. */
bool gguf_model_read(const gguf_model *m, const gguf_tensor *t, uint64_t first, uint64_t n, void *to,
                     gq_error *e);

/* "u32"; "unknown" for unknown numbers. */
const char *gguf_value_name(uint32_t type);
/* Bytes of a value; 0 where it varies (strings, arrays) and for unknown numbers. */
uint32_t gguf_value_size(uint32_t type);

/* Metadata look-up by whole key, from the first pair on (for many keys there is gguf/index.h); NULL when
 * absent. */
const gguf_kv *gguf_find(const gguf_kv *kv, uint64_t n, const char *key);
/* Value conversions: false when the type does not fit or kv is NULL. Any integer type is read as int64 (u64
 * above INT64_MAX: false); f32 and f64 as double. */
bool gguf_kv_int(const gguf_kv *kv, int64_t *value);
bool gguf_kv_float(const gguf_kv *kv, double *value);
/* The bytes of a string value (not NUL-terminated; may hold anything). */
bool gguf_kv_string(const gguf_kv *kv, const char **text, uint64_t *length);
/* Array head; elements of fixed size start at *elements. */
bool gguf_kv_array(const gguf_kv *kv, uint32_t *element_type, uint64_t *count, const uint8_t **elements);

/* ---- writing ---- */

/* The metadata and tensor table to write. Pairs are kept in order; setting a key removes it and appends it at
 * the end. */
typedef struct gguf_header gguf_header;
gguf_header *gguf_header_new(gq_error *e);
void gguf_header_free(gguf_header *h);
/* Append a raw pair. Its key and value are borrowed until the header is freed (a vocabulary takes megabytes):
 * the model they came from has to stay open. */
bool gguf_header_copy(gguf_header *h, const gguf_kv *kv, gq_error *e);
void gguf_header_remove(gguf_header *h, const char *key);
/* value: the raw bytes, as in gguf_kv. Key and value are copied. */
bool gguf_header_set(gguf_header *h, const char *key, uint32_t type, const void *value, uint64_t size,
                     gq_error *e);
bool gguf_header_set_u32(gguf_header *h, const char *key, uint32_t value, gq_error *e);
bool gguf_header_set_string(gguf_header *h, const char *key, const char *text, gq_error *e);
const gguf_kv *gguf_header_find(const gguf_header *h, const char *key); /* valid until the pairs change */
/* Append a tensor; trailing dimensions of 1 are dropped (at least one stays). Its offset in the data section
 * follows from those before it and the alignment. The name is copied. */
bool gguf_header_add_tensor(gguf_header *h, const char *name, const uint64_t ne[GGUF_MAX_DIMS],
                            const gguf_type *type, gq_error *e);
/* The same with the first n_dims dimensions (the others are 1), whether the last ones are 1 or not. */
bool gguf_header_add_shaped(gguf_header *h, const char *name, uint32_t n_dims,
                            const uint64_t ne[GGUF_MAX_DIMS], const gguf_type *type, gq_error *e);
/* The arithmetic of laying out, for those who plan sizes: n rounded up to an alignment (a power of two);
 * bytes of a tensor's entry in the table; bytes of all that the header has so far, not padded, and the
 * alignment that it and every tensor behind it will be padded to. */
static inline uint64_t gguf_round_up(uint64_t n, uint64_t alignment) {
    return (n + alignment - 1) & ~(alignment - 1);
}
uint64_t gguf_entry_size(const char *name, uint32_t n_dims);
bool gguf_header_measure(gguf_header *h, uint64_t *bytes, uint32_t *alignment, gq_error *e);
/* Lay out: the header's bytes, padded to the alignment (general.alignment in it, or 32), version 3, owned by
 * the header and valid until the next finish or free; *data_size is the padded size of the data section.
 * Fails when a key or a tensor name is there twice: nothing is written that would not be read. */
bool gguf_header_finish(gguf_header *h, const uint8_t **bytes, uint64_t *header_size, uint64_t *data_size,
                        gq_error *e);
/* After finish: offset of tensor i from the start of the file, and its bytes. */
uint64_t gguf_header_tensor_offset(const gguf_header *h, uint64_t i);
uint64_t gguf_header_tensor_size(const gguf_header *h, uint64_t i);

#endif
