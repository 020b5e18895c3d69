/* Looking at models without running them: what a file holds, how far a quant is from its base model, whether a
 * file is sound, and how fast a machine can be with it.
 *
 *     gq_model *m = gq_model_open("model.gguf", &e);    // headers; no weight is read
 *     size_t n;
 *     const gq_stored *tensors = gq_model_tensors(m, &n);
 *     gq_model_read(m, 0, 0, tensors[0].ne[0], row, &e);
 *     gq_model_close(m);
 *
 * Whatever a model, a comparison, a verification or a speed hands out is good until that is freed.
 * Errors, ownership and threads are as gquant.h says.
 */
#pragma once

#include "gquant_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- looking into a file ---- */
typedef enum gq_kind { GQ_UNSIGNED, GQ_SIGNED, GQ_FLOAT, GQ_BOOL, GQ_TEXT, GQ_NESTED } gq_kind;
typedef struct gq_value {
    gq_kind kind;
    union {
        uint64_t as_unsigned;
        int64_t as_signed;
        double as_float;
        bool as_bool;
        struct {
            const char *text; /* `length` bytes, not NUL-terminated; may hold anything */
            uint64_t length;
        };
    };
} gq_value;

typedef struct gq_metadata {
    const char *key;
    const char *type; /* "u32"; of a list, the type of its elements */
    bool list;
    uint64_t count;  /* number of values: 1, or the length of the list */
    const void *raw; /* for gq_metadata_values */
    uint64_t reserved[4];
} gq_metadata;
/* Gets the first values, at most n of them, and returns how many it has got. Texts point into the model.
 * Whole numbers are GQ_SIGNED, or GQ_UNSIGNED where int64_t cannot hold them. Lists within lists are
 * GQ_NESTED, without a value. */
GQ_API size_t gq_metadata_values(const gq_metadata *m, gq_value *values, size_t n);

typedef struct gq_stored { /* a tensor in a file */
    const char *name;
    uint64_t ne[4], n_weights;
    uint32_t n_dims; /* number of dimensions, as stored */
    uint32_t type, shard;
    bool transposed;         /* the file says that its matrices are stored transposed */
    uint64_t bytes, offset;  /* `offset` is from the beginning of the shard's file */
    const gq_origin *origin; /* of a folder, where `type` and `bytes` are what is read of it; else NULL */
    uint64_t reserved[3];
} gq_stored;

typedef struct gq_model gq_model;
/* Opens a model: a GGUF file, of which any shard opens all, or a folder from Hugging Face. The structure is
 * checked, and no weight is read. Of a folder, `version` is 0, and its files count as shards. */
GQ_API gq_model *gq_model_open(const char *path, gq_error *e);
/* The same of a folder with adapters (NULL: none) merged into it, or of a draft's with that of its target. */
GQ_API gq_model *gq_model_open_adapted(const char *path, const gq_adapters *adapters, gq_error *e);
GQ_API void gq_model_close(gq_model *m);
typedef struct gq_model_facts {
    size_t size;
    uint32_t version, shards, alignment;
    uint64_t file_bytes, tensor_bytes, n_tensors, n_weights, n_metadata; /* tensor_bytes: as stored */
} gq_model_facts;
GQ_API const gq_model_facts *gq_model_summary(const gq_model *m);
/* Things about the model that the user should know, one sentence each: what a folder's files have wrong that
 * it can do without. */
GQ_API const char *const *gq_model_warnings(const gq_model *m, size_t *n);
GQ_API const char *gq_model_path(const gq_model *m, uint32_t shard);       /* as it was opened */
GQ_API const gq_metadata *gq_model_metadata(const gq_model *m, size_t *n); /* the first shard's, in order */
GQ_API const gq_stored *gq_model_tensors(const gq_model *m, size_t *n);    /* by shard and offset */

/* The index of a tensor, or of a metadata key-value pair, in the arrays above; SIZE_MAX: there is none of that name. */
GQ_API size_t gq_model_find(const gq_model *m, const char *tensor);
GQ_API size_t gq_model_find_key(const gq_model *m, const char *key);
/* Reads n weights of a tensor from element `first` on, as float32; `first` and n are whole blocks. Values
 * need not be finite. */
GQ_API bool gq_model_read(const gq_model *m, size_t tensor, uint64_t first, uint64_t n, float *x,
                          gq_error *e);
/* Reads the same weights as they are stored. gq_array_bytes says how many bytes that is: of whole rows, or of
 * one row of n columns; of types whose rows have a header (none so far) nothing else is read. */
GQ_API bool gq_model_read_stored(const gq_model *m, size_t tensor, uint64_t first, uint64_t n, void *to,
                                 gq_error *e);

/* ---- what a model is to others ---- */
/* The name of the file type that the model's metadata name; NULL: none that is known. */
GQ_API const char *gq_model_filetype(const gq_model *m);
/* Returns the types of a model's tensors as the text of a recipe file (gq_plan_recipe). malloc'ed; NULL: no
 * memory. */
GQ_API char *gq_model_recipe(const gq_model *m, gq_error *e);

typedef struct gq_memory { /* bytes that llama.cpp takes for a model in addition to its weights, estimated */
    size_t size;
    uint64_t context, context_trained; /* tokens; trained 0: unknown */
    uint64_t cache_bytes;              /* keys and values of all layers in F16; 0: unknown, or none */
    uint64_t buffer_bytes;             /* working memory, approximately */
} gq_memory;
/* Estimates the memory for a context of so many tokens; 0: 8192, or what the model was made for if that is
 * less. The caller sets to->size, which says how much of *to is to be filled. */
GQ_API void gq_model_memory(const gq_model *m, uint64_t context, gq_memory *to);

/* ---- comparing models ---- */
typedef struct gq_comparison_request {
    size_t size;
    GQ_RENAMED(const char *, base_model, original);
    GQ_RENAMED(const char *const *, quants, copies); /* one or more */
    GQ_RENAMED(size_t, n_quants, n_copies);
    const char *imatrix; /* NULL: none */
    int threads;         /* 0: one per core */
    const gq_callbacks *callbacks;
    gq_adapters adapters; /* merged into the base model */
} gq_comparison_request;

typedef struct gq_comparison gq_comparison;
/* Measures how far the quants' weights are from the base model's, tensor by tensor, whatever types they have
 * and whoever wrote them; with an imatrix, also weighted by it. The base model is read once. Tensors that
 * cannot be compared are named in warnings; a quant with nothing to compare is a failure. */
GQ_API gq_comparison *gq_compare(const gq_comparison_request *r, gq_error *e);
GQ_API void gq_comparison_free(gq_comparison *c);
/* The quant's path, file type and size, and sums over the tensors compared; in_bytes is of the base model's
 * tensors. */
GQ_API const gq_summary *gq_comparison_summary(const gq_comparison *c, size_t quant);
/* The *n tensors compared, in the base model's order; `from` is the base model's type, `to` the quant's. In
 * the same order: the index of each among the base model's tensors, and its loss, whose n is 0 where the
 * bytes are the same. */
GQ_API const gq_tensor *gq_comparison_tensors(const gq_comparison *c, size_t quant, size_t *n);
GQ_API const size_t *gq_comparison_numbers(const gq_comparison *c, size_t quant);
GQ_API const gq_loss *gq_comparison_losses(const gq_comparison *c, size_t quant);
GQ_API const char *const *gq_comparison_warnings(const gq_comparison *c, size_t *n);
GQ_API double gq_comparison_seconds(const gq_comparison *c);

/* ---- verifying a file ---- */
typedef struct gq_checksum { /* a tensor's checksum in a report */
    const char *name;
    uint32_t crc32;
} gq_checksum;

typedef struct gq_verdict {
    const char *name;
    uint32_t type;
    uint32_t crc32;      /* of the tensor's bytes */
    bool decoded;        /* false: the type has no decoder, so only the checksum was checked */
    bool expected;       /* the checksum was compared */
    const char *problem; /* "": none */
    bool has_digest;     /* the file's own digest of the bytes was compared */
    uint64_t reserved[3];
} gq_verdict;

typedef struct gq_verified_type { /* checks of decoders, on a sample of each tensor */
    uint32_t type;
    size_t tensors, problems;
    uint64_t compared; /* weights for which all ways of decoding agreed */
    double worst; /* largest distance of a fast product with a vector from the plain one; 1: the tolerance */
    uint64_t reserved[4];
} gq_verified_type;

typedef struct gq_verification gq_verification;
/* Reads the whole file and checks it: values and scales are finite, codes in range; fast decoders, plain
 * decoders and products with a vector agree; shards were written together; and checksums are those of the
 * file's own digests, and those expected (n of them; 0: none is). Problems that it finds are in the verdicts;
 * NULL where the file cannot be read or the work was stopped. */
GQ_API gq_verification *gq_verify(const char *path, const gq_checksum *expected, size_t n, int threads,
                                  const gq_callbacks *callbacks, gq_error *e);
GQ_API void gq_verification_free(gq_verification *v);
GQ_API const gq_verdict *gq_verification_verdicts(const gq_verification *v, size_t *n); /* one per tensor */
/* One per type in the file. */
GQ_API const gq_verified_type *gq_verification_types(const gq_verification *v, size_t *n);
/* Expected tensors that the file does not have. */
GQ_API const char *const *gq_verification_missing(const gq_verification *v, size_t *n);
/* Warnings about the work, not about the file. */
GQ_API const char *const *gq_verification_warnings(const gq_verification *v, size_t *n);

/* ---- the speed of a model ---- */
typedef struct gq_speed_type {
    uint32_t type;
    uint64_t matrices, weights, bytes;
    /* seconds: of the products, a file's time divided among its types by what threads spent on each.
     * read_seconds: of only reading the same bytes, measured in turn with the products. */
    double seconds;
    double read_seconds;
    uint64_t reserved[4];
} gq_speed_type;
typedef struct gq_speed_file {
    const char *path;
    uint64_t file_bytes;
    /* matrices that a token is multiplied with; of experts, those that it uses */
    uint64_t matrices, weights, bytes;
    double seconds, read_seconds;
    gq_speed_type *types; /* the n_types types that it has, by number */
    size_t n_types;
    uint64_t reserved[4];
} gq_speed_file;
typedef struct gq_speed_request {
    size_t size;
    const char *const *models;
    size_t n_models;
    int threads; /* 0: one per core */
    const gq_callbacks *callbacks;
} gq_speed_request;

typedef struct gq_speed gq_speed;
/* Measures how long this machine takes to multiply all matrices of each model with a vector once, as for
 * every token that a model makes. From that follows an upper bound for tokens per second, as attention, norms
 * and the like are left out. A model is read into memory for that, up to 1 GiB of it at a time. */
GQ_API gq_speed *gq_speed_measure(const gq_speed_request *r, gq_error *e);
GQ_API void gq_speed_free(gq_speed *v);
GQ_API const gq_speed_file *gq_speed_files(const gq_speed *v, size_t *n);
GQ_API int gq_speed_threads(const gq_speed *v);
GQ_API const char *const *gq_speed_warnings(const gq_speed *v, size_t *n);

#ifdef __cplusplus
}
#endif
