/* For the files of gguf/ only: what reader and writer both insist on. */
#ifndef GQ_RULES_H
#define GQ_RULES_H

#include "gguf/gguf.h"

enum {
    MAX_ALIGNMENT = 1 << 20,  /* a mebibyte of padding per tensor is more than any storage asks for */
    MAGIC = 0x46554747,       /* "GGUF" read as a little-endian number */
    HEAD_BYTES = 24,          /* magic, version, two counts */
    MIN_PAIR = 8 + 1 + 4 + 1, /* length, name, type, value */
    MIN_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, /* length, name, dimension count, one dimension, type, offset */
};

/* general.alignment among the pairs, or the default; a power of two up to MAX_ALIGNMENT. `file` is for the
 * message. */
bool gguf_alignment(const model_kv *kv, uint64_t n, uint32_t *alignment, const char *file, gq_error *e);

/* Check the dimensions against each other and the type, and set t->size. The message says what is wrong, not
 * with which tensor. */
bool model_tensor_measure(model_tensor *t, gq_error *e);

/* No key and no tensor name is there twice. */
bool gguf_check_names(const model_kv *kv, uint64_t n_kv, const model_tensor *tensors, uint64_t n_tensors,
                      const char *file, gq_error *e);

#endif
