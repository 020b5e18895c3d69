/* A model as every other folder sees it: metadata, and tensors with a delivered type and shape whose rows can
 * be read in any order. A container (gguf/, a folder of another kind) fills it; how it stores what it
 * delivers is known to the container alone. */
#pragma once

#include "base/file.h"
#include "base/warnings.h"
#include "gguf/type.h"

enum {
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_NAME = 127,
    GGUF_MAX_KEY = 65535,
    GGUF_MAX_NESTING = 8,
    GGUF_DEFAULT_ALIGNMENT = 32
};

/* Metadata value types, as numbered in GGUF files. */
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
    GGUF_VALUE_TYPES /* their number */
};
enum {
    GGUF_STRING_HEADER = 8, /* bytes of a string's length */
    GGUF_ARRAY_HEADER = 12, /* bytes of an array's element type and count */
};

/* One key-value pair, kept as the raw bytes it has in a GGUF file (little-endian, without the type number),
 * so that writing it again is exact. Strings include their 8-byte length; arrays their 12-byte header. */
typedef struct model_kv {
    const char *key; /* NUL-terminated, no NUL inside */
    uint32_t type;
    const uint8_t *value;
    uint64_t size; /* bytes of value */
} model_kv;

/* The origin, for people, of a tensor that its container stores in another way than it delivers it. */
typedef struct model_origin {
    /* Name of the array that it is made of, or of several a pattern, experts.{0..127}.up_proj.weight; "":
     * there are none, it is computed. */
    const char *names;
    const char *type;    /* of their elements: "BF16", "F8_E4M3, a scale per row": what is before a comma can
                            stand alone */
    const char *changes; /* words with "; " between them: "dequantized; stacked"; "as is" */
    uint64_t bytes;      /* stored bytes of the tensor, with scales */
    bool quantized;      /* the source tensor has scales */
    bool merged;         /* an adapter's changes are in it */
} model_origin;

/* A tensor as it is delivered. */
typedef struct model_tensor {
    const char *name;           /* NUL-terminated, no NUL inside, 1..127 bytes */
    uint32_t n_dims;            /* 1..4, as stored */
    uint64_t ne[GGUF_MAX_DIMS]; /* ne[0] is the row length; missing dimensions are 1 */
    const tensor_type *type;
    uint64_t size;                /* bytes of all elements in that type */
    uint64_t offset;              /* for the container alone: where it finds the tensor */
    uint32_t shard;               /* number of the file that it, or its beginning, is in */
    const tensor_type *kept_type; /* the type of an output that does not quantize the tensor; NULL: its own */
    /* the tensor is kept whatever type an output has: a converter would not touch it */
    bool stays;
    bool stays_16;              /* the same, but a file type of F16 keeps it in F16 */
    bool transposed;            /* its matrices are stored with rows and columns exchanged */
    const model_origin *origin; /* the container's; NULL: it is stored as it is delivered */
} model_tensor;

/* A part of what a container holds that is no part of the text model, or that only some programs use. */
typedef struct model_beside {
    const char *kind;   /* "vision", "audio", "speech"; "prediction": blocks that predict further tokens */
    uint64_t n;         /* arrays; of the last kind, blocks */
    uint64_t bytes;     /* 0: not counted */
    bool is_in_outputs; /* the part is delivered with the model */
} model_beside;
enum { MODEL_BESIDE = 4 };

typedef struct model_source model_source;
struct model_scales;

typedef enum model_advice {
    MODEL_WILL_NEED, /* have the disk fetch it */
    MODEL_DONT_NEED, /* the system may drop it from the page cache */
} model_advice;

/* The functions that a container supplies. Elements are given by tensor, first and number, both whole blocks.
 * Pointers may be NULL where a comment says so. */
typedef struct model_container {
    bool (*read)(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n, void *to,
                 gq_error *e);
    /* NULL: there is nothing to advise. */
    void (*advise)(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n,
                   model_advice advice);
    /* Whether hardly any of a range of at most 8 MiB is in the page cache. NULL: all is at hand. */
    bool (*is_cold)(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n);
    /* Folds headers and a sample of the weights into a checksum. */
    bool (*fold_content)(const model_source *m, uint32_t *content, gq_error *e);
    /* Finds two files that were not written together, as model_mixed does. NULL: not known for this
     * container. */
    bool (*mixed)(const model_source *m, uint32_t *file, uint32_t *other);
    /* Returns the byte of its file at which a tensor's elements begin. NULL: its offset. */
    uint64_t (*stored_at)(const model_source *m, const model_tensor *t);
    /* Writes the name that the container has, or would have, for the tensor of a name. False: it is not
     * known. NULL: names are the same. */
    bool (*own_name)(const model_source *m, const char *name, char *to, size_t size);
    void (*close)(void *state);
} model_container;

struct model_source {
    const char *path; /* of the model, for messages: of its first file, or its folder */
    const model_kv *kv;
    uint64_t n_kv;
    uint64_t n_tensors;
    model_tensor **tensors; /* in the order in which they are stored; unique names */
    model_tensor **by_name; /* the same by name, for model_tensor_named */
    uint32_t n_files;
    const gq_file **files; /* for their names, sizes and identity; what is in them only the container reads */
    uint32_t version;      /* of the container's format */
    uint32_t alignment;    /* alignment of tensors in a file written like the input */
    warning_list warnings; /* parts that the container left out or doubts: a few sentences at most */
    /* A KV pair that programs need but that the container has no value for, and a sentence that says why, both the
     * container's; NULL: nothing is missing. */
    const char *missing_key, *missing_why;
    model_beside beside[MODEL_BESIDE]; /* other parts of the container */
    size_t n_beside;
    bool needs_head; /* the container says that the embedding is not the output matrix, too */
    const model_container *container; /* NULL: not open */
    void *state;                      /* the container's */
    /* Scales that are moved between tensors as they are read (gguf/scales.h), the caller's; NULL: none. */
    const struct model_scales *scales;
};

/* Fills m->by_name with the tensors, sorted by name; a name that is there twice is an error. Called by
 * containers. */
bool model_index_names(model_source *m, gq_error *e);
/* Fails where a KV pair is missing (missing_key). */
bool model_check_whole(const model_source *m, gq_error *e);
/* Closes the files and frees all that the model holds. A model of zeros may be closed, too. */
void model_close(model_source *m);

/* ---- tensors ---- */

const model_tensor *model_tensor_named(const model_source *m, const char *name); /* NULL: no such tensor */
/* Returns the tensor's place in by_name; n_tensors: no such tensor. */
uint64_t model_tensor_index(const model_source *m, const char *name);
/* Returns the path of the file that a tensor is in, for messages; the model owns it. */
const char *model_file_path(const model_source *m, const model_tensor *t);
static inline bool shape_is_matrix(const uint64_t ne[GGUF_MAX_DIMS]) { return ne[0] > 1 && ne[1] > 1; }
/* Returns the bytes of a row, and of n elements as tensor_type_bytes counts them, as they are delivered. */
static inline uint64_t model_row_bytes(const model_tensor *t) { return gguf_row_bytes(t->type, t->ne[0]); }
static inline uint64_t model_bytes(const model_tensor *t, uint64_t n) {
    return tensor_type_bytes(t->type, t->ne[0], n);
}
/* Bytes that are read of n of a tensor's elements, about: as it is stored, not as it is delivered. */
static inline uint64_t model_bytes_read(const model_tensor *t, uint64_t n) {
    uint64_t all = shape_elements(t->ne);
    if (!t->origin || !t->origin->bytes || !all) return model_bytes(t, n);
    return (uint64_t)((double)t->origin->bytes * ((double)n / (double)all));
}
/* Reads n elements of a tensor from element `first` on, in their delivered type, into `to`, model_bytes(t, n)
 * bytes. `first` and n are whole blocks; where rows have a header, whole rows or a part of one. Safe from
 * several threads at once. */
bool model_read(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n, void *to,
                gq_error *e);
/* Announces to the system which elements will be read soon, or not again. */
void model_advise(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n,
                  model_advice advice);
bool model_is_cold(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n);
uint64_t model_stored_at(const model_source *m, const model_tensor *t);

/* ---- files ---- */

uint64_t model_file_bytes(const model_source *m); /* of all files */
/* Computes a model's fingerprint: folds into *times those of its files that hold weights, and into *content
 * headers, a little of the weights, and all of the other files, whose times say nothing more. Both are
 * checksums to continue; 0 begins one. */
bool model_fingerprint(const model_source *m, uint32_t *times, uint32_t *content, gq_error *e);
/* Whether a file was read whole, as texts of a folder are, and is closed. */
static inline bool model_file_is_text(const gq_file *f) { return f->fd < 0 && !f->bytes; }
/* Whether none of its files has changed since the model was opened. */
bool model_unchanged(const model_source *m, gq_error *e);
/* Whether the file with this st_dev and st_ino is one of the model's: whatever its name, writing it would
 * destroy what is read. */
bool model_has_file(const model_source *m, uint64_t device, uint64_t inode);
/* A key of ours marks files that were written together: all shards of a set have the same number under it. Other
 * programs write no such key, and a shard without it fits any set. model_mixed finds the first shard whose
 * number differs from that of a shard before it: their indices go to *shard and *other. false: there is none. */
#define GGUF_SET_KEY "gquant.split.digest"
bool model_mixed(const model_source *m, uint32_t *shard, uint32_t *other);
/* A key of ours has three numbers for each tensor, in stored order: what it was made by, and checksums of the
 * weights it was made of and of its bytes (quantize/plan/plan.h). */
#define GGUF_DIGESTS_KEY "gquant.digests"
/* A key of ours has a checksum of all weights that an output with calibrated tensors was made of, which their
 * digests do not show: a layer is rounded by what the layers before it give. */
#define GGUF_SOURCE_KEY "gquant.source"
/* A key of ours says how a calibration multiplied where that was not in float32: "bf16". */
#define GGUF_ARITHMETIC_KEY "gquant.calibration.arithmetic"
/* A key of ours lists the names of tensors whose matrices are stored transposed, with ne[0] and ne[1]
 * exchanged. */
#define GGUF_TRANSPOSED_KEY "gquant.transposed"

/* ---- for containers: a sample of what files hold, for a fingerprint ---- */

/* Bytes of a file that belong together: the elements of a tensor. */
typedef struct sample_range {
    const gq_file *file;
    uint64_t offset, size;
} sample_range;

/* Folds pieces of n ranges into a checksum: up to 4 MiB, which are read in no time and reach every part of a
 * large model. `range_of` returns range number i. */
bool sample_fold(uint64_t n, sample_range (*range_of)(const void *user, uint64_t i), const void *user,
                 uint32_t *content, gq_error *e);

/* Values of metadata: their types, and KV pairs read as numbers and texts. */

/* Returns the name of a value type: "u32"; "unknown" for unknown numbers. */
const char *gguf_value_name(uint32_t type);
/* Returns the bytes of a value of a type; 0 where they vary (strings, arrays) and for unknown numbers. */
uint32_t gguf_value_size(uint32_t type);

/* Whether an integer type holds a number of this magnitude, below 0 or not. */
bool gguf_value_holds(uint32_t type, bool negative, uint64_t magnitude);

/* Finds a KV pair by its whole key, from the first KV pair on; NULL: there is none. For many keys there is
 * base/name_index.h. */
const model_kv *model_kv_find(const model_kv *kv, uint64_t n, const char *key);
/* Convert a value; false: its type does not fit, or kv is NULL. Any integer type is read as int64_t (false: a
 * u64 above INT64_MAX), f32 and f64 as double. */
bool model_kv_int(const model_kv *kv, int64_t *value);
bool model_kv_float(const model_kv *kv, double *value);
/* Points *text to the bytes of a string value, *length of them: not NUL-terminated, may hold anything. */
bool model_kv_string(const model_kv *kv, const char **text, uint64_t *length);
/* Whether a value is this text. */
bool model_kv_is_text(const model_kv *kv, const char *text);
/* Reads an array's header: the type and number of its elements. *elements points to the first of them. */
bool model_kv_array(const model_kv *kv, uint32_t *element_type, uint64_t *count, const uint8_t **elements);

/* The check of a model that is not run: in a build with a forward pass forward_model_check (forward/graph/forward.h),
 * which knows the tensors of each architecture. Whoever opens and writes models gets it handed in. */
typedef struct model_expected {
    const model_kv *set; /* KV pairs that count in place of the model's own */
    uint64_t n_set;
    bool (*may_lack)(void *user, const char *tensor); /* whether a tensor may be missing */
    void *user;
    warning_list *doubts; /* sentences about what may be right, and about what cannot be compared */
    bool without_blocks;  /* MTP layers are not read: they are not wanted */
} model_expected;
typedef bool model_check(const model_source *g, const model_expected *expected, gq_error *e);
