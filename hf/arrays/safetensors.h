/* The weights as safetensors files have them: headers read and checked, elements left alone. */
#pragma once

#include "base/name_index.h"
#include "hf/folder/folder.h"

enum { HF_DIMS = 8 };

/* The order counts: types that weights are published in (up to HF_BF16), floats of 8 bits, powers of two (HF_E8M0, which
 * are no weights without a coding), then integers (from HF_I64 on). */
typedef enum hf_dtype {
    HF_F64,
    HF_F32,
    HF_F16,
    HF_BF16,
    HF_E4M3,
    HF_E5M2,
    HF_E8M0,
    HF_I64,
    HF_I32,
    HF_I16,
    HF_I8,
    HF_U8,
    HF_BOOL,
    HF_DTYPES
} hf_dtype;

typedef struct hf_stored {
    const char *name; /* owned by the list; first member, for base/name_index.h */
    hf_dtype dtype;
    uint32_t n_dims;
    uint64_t shape[HF_DIMS]; /* outermost first, as PyTorch has it */
    uint64_t n;              /* elements */
    uint64_t offset, bytes;  /* in the file */
    uint32_t file;           /* number in the folder's list */
} hf_stored;

typedef struct hf_list {
    hf_folder *folder;
    hf_stored *stored; /* part by part, names of a part in order of code points */
    size_t n, capacity;
    name_index by_name;
    bool is_mlx;  /* a file says that MLX has saved it */
    char *config; /* "config" of a file's metadata, which image models' readers look for; owned. NULL: none */
} hf_list;

/* Opens all parts of a folder and reads their headers: those that model.safetensors.index.json names, or all
 * that are called model*.safetensors. */
bool hf_list_read(hf_list *l, hf_folder *f, gq_error *e);
/* The same with another name in place of "model". */
bool hf_list_read_called(hf_list *l, hf_folder *f, const char *called, gq_error *e);
/* The same for one file; with its other parts, where its name says that it has some. */
bool hf_list_read_file(hf_list *l, hf_folder *f, const char *name, gq_error *e);
/* Adds the arrays of one more file, in whose names `to` takes the place of `from` at their beginning. */
bool hf_list_add_file(hf_list *l, const char *name, const char *from, const char *to, gq_error *e);
/* Returns the length of a name before "-kkkkk-of-nnnnn.safetensors", and the number of parts; 0: the name is
 * no part's. */
size_t hf_part_stem(const char *name, unsigned *parts);
/* Fails with what a folder without such weights holds instead, and what to do. */
bool hf_folder_fail_no_weights(const hf_folder *f, const char *called, gq_error *e);
void hf_list_free(hf_list *l);
/* Makes the index of names anew, once names have changed. Fails for a name that two arrays have. */
bool hf_list_index(hf_list *l, gq_error *e);
const hf_stored *hf_list_find(const hf_list *l, const char *name); /* NULL: none */
const char *hf_dtype_name(hf_dtype d);
uint32_t hf_dtype_bytes(hf_dtype d);
/* Reads n elements of a tensor from element `first` on as floats (nearest, where floats cannot hold them). */
bool hf_list_floats(const hf_list *l, const hf_stored *t, uint64_t first, uint64_t n, float *to, gq_error *e);
/* Adds the names, places and shapes of all tensors, and a sample of their bytes, to a checksum. */
bool hf_list_fold(const hf_list *l, uint32_t *content, gq_error *e);
const char *hf_list_path(const hf_list *l, uint32_t file);
/* Fails with a sentence about a tensor: its file and name go in front. */
#define hf_list_fail(l, t, e, format, ...) \
    gq_fail(e, "%s: tensor '%s': " format, hf_list_path(l, (t)->file), (t)->name, ##__VA_ARGS__)
