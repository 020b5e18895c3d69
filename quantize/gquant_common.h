/* Shared by the other headers of libgquant: the version, file types and tensor types by name and number, a
 * text, a tensor and what it lost, and files that are read or written whole.
 *
 * Functions here that return a text return a constant of the library, but for files. Tensor types are numbers
 * as GGUF has them, file types are indices below gq_filetype_count().
 * Errors, ownership and threads are as gquant.h says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/adapters.h"
#include "base/callbacks.h"
#include "base/error.h"

/* A member of a struct whose name in version 0.1 was `old`, which works as well for one release. */
#define GQ_RENAMED(type, name, old) \
    union { \
        type name; \
        type old; \
    }

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the library ---- */
GQ_API const char *gq_version(void);
/* The instruction set level that the kernels will use: "x86-64-v4", ...; NULL when GQUANT_ISA names one that
 * cannot run here, or none can. */
GQ_API const char *gq_isa(void);
/* The i-th level that is built in, from 0 on, the best last; NULL: there are no more. */
GQ_API const char *gq_isa_level(size_t i);
GQ_API const char *gq_build(void);    /* a digest of the sources that this was built from */
GQ_API const char *gq_features(void); /* the libraries that it was built with, for people */

/* ---- file types: i is below gq_filetype_count() ---- */
GQ_API size_t gq_filetype_count(void);
GQ_API const char *gq_filetype_name(size_t i);    /* "Q4_K_M" */
GQ_API const char *gq_filetype_summary(size_t i); /* one line for lists, may be empty */
/* Bits per weight of a whole model, about; 0: depends on the model. */
GQ_API double gq_filetype_bits(size_t i);
GQ_API int gq_filetype_id(size_t i); /* general.file_type; -1 for COPY */
/* false: other types are better in the same bytes, or it is for special models. */
GQ_API bool gq_filetype_advised(size_t i);
GQ_API const char *gq_filetype_made_for(size_t i); /* "ternary models", the only ones it suits; "": any */
/* Index of a file type by its name, in any case, or by its decimal id; -1: unknown. */
GQ_API int gq_filetype_find(const char *name);
/* The most similar name, for "did you mean"; NULL: none is similar. */
GQ_API const char *gq_filetype_nearest(const char *name);
GQ_API double gq_bits_per_weight(uint64_t bytes, double weights); /* 0 without weights */
GQ_API const char *gq_type_name(uint32_t type); /* tensor type by number: "Q6_K"; "unknown" */
GQ_API bool gq_type_quantized(uint32_t type);   /* false: one number per element, or unknown */
GQ_API bool gq_type_writable(uint32_t type);    /* whether there is an encoder for it */
/* All numbers of types are below it; not every number below it is a type. */
GQ_API uint32_t gq_type_limit(void);
GQ_API int gq_type_find(const char *name); /* by name, in any case; -1: unknown */
/* Elements and bytes of a block; 0: unknown type. Rows are whole numbers of blocks; gq_array_bytes counts
 * the bytes of rows. */
GQ_API uint32_t gq_type_elements(uint32_t type);
GQ_API uint32_t gq_type_bytes(uint32_t type);
GQ_API bool gq_type_readable(uint32_t type); /* whether there is a decoder for it */
/* ---- classes of Hugging Face folders, as config.json names them under "architectures" ---- */
typedef enum gq_class_kind {
    GQ_CLASS_MODEL,
    GQ_CLASS_DRAFT,     /* a draft model, which needs the folder of its target */
    GQ_CLASS_PROJECTOR, /* its vision or audio encoder becomes a projector file (mmproj) */
    GQ_CLASS_REFUSED,
} gq_class_kind;
typedef struct gq_folder_class {
    const char *name;
    /* The architecture, or the projector type, of the GGUF file, and a second projector type; of a class that
     * is refused the reason. NULL: the config decides, or there is none. */
    const char *makes, *also;
    gq_class_kind kind;
    uint64_t reserved[2];
} gq_folder_class;
/* Gets row i of the list; false: there are no more. A class that makes several architectures has several
 * rows. */
GQ_API bool gq_folder_class_at(size_t i, gq_folder_class *to);

/* The effort of the search for scales of blocks. */
enum { GQ_EFFORT_DEFAULT, GQ_EFFORT_FAST, GQ_EFFORT_BEST };

/* ---- a text for a model to run on ---- */
enum { GQ_CONTEXT = 512 };
typedef struct gq_text {
    /* The name in messages; NULL: none. If it is the path of a file, no output may replace that file. */
    const char *name;
    /* n bytes, which need not be UTF-8. NULL: those of the file `name`, which is read as far as the tokens
     * need it */
    const char *bytes;
    size_t n;
    bool ids;           /* it is no text but decimal ids of tokens, separated by white space; or conversations
                           with a weight for each token, as gquant-chat writes them (docs/formats.md) */
    bool parse_special; /* find control tokens in the text, too */
    /* Tokens of a window; the model runs on each window as a text of its own. 0: GQ_CONTEXT. */
    uint32_t context;
    uint64_t tokens; /* most tokens to use; 0: all. Tokens that do not fill a last window are left out */
} gq_text;

/* ---- a tensor of an output, and an output ---- */
/* The origin of a tensor that a folder from Hugging Face stores in another way than GGUF does. */
typedef struct gq_origin {
    size_t size;
    /* Name of its array in the folder; of several a pattern, such as experts.{0..127}.up_proj.weight; "": it
     * has none, it is computed. */
    const char *names;
    const char *type;    /* of the array: "BF16", "F8_E4M3, a scale per row" */
    const char *changes; /* changes on the way, such as "dequantized; stacked"; "as is" */
    uint64_t bytes;      /* stored of it, with scales */
    bool quantized;      /* the source tensor has scales */
} gq_origin;

typedef enum gq_coverage { GQ_IMPORTANCE_UNUSED, GQ_IMPORTANCE_MISSING, GQ_IMPORTANCE_FULL } gq_coverage;

typedef struct gq_tensor {
    const char *name;        /* in the output */
    const char *source_name; /* in the input (they differ where layers are pruned) */
    uint64_t ne[4], n_weights;
    uint32_t n_dims;   /* as written: without trailing dimensions of 1, but in image models as in the input */
    uint32_t from, to; /* tensor types */
    uint32_t wanted;   /* the type by the rules; not `to` where its blocks do not fit the rows: a fallback */
    uint64_t fallback_bytes;      /* the part of out_bytes that a fallback costs beyond the wanted type */
    const char *why;              /* why kept, fallen back, or chosen by an option; "" for the plain rule */
    uint64_t in_bytes, out_bytes; /* as stored in the input, and in the output */
    gq_coverage importance;
    uint64_t experts, experts_unseen; /* matrices (experts) that have imatrix data of their own; of these,
                                         those that no token reached */
    bool calibrated; /* rounded by its inputs (gq_calibration), as far as the run finds that to be better */
    bool transposed; /* the output has its matrices transposed */
    const gq_origin *origin; /* NULL: the input is a GGUF */
    /* The tensor types, bit by number, that store the weights of a QAT checkpoint without error, as the weights
     * lie on the type's quantization grid; 0: none */
    GQ_RENAMED(uint64_t, grid_types, lattice_types);
    uint64_t reserved[1];
} gq_tensor;

typedef struct gq_summary {
    size_t size;
    const char *path; /* of the output (first shard's, when split) */
    const char *filetype;
    uint64_t n_tensors, n_weights;
    uint64_t in_bytes;                    /* bytes of tensor data that are read */
    uint64_t out_bytes;                   /* bytes of tensor data that are written */
    uint64_t file_bytes;                  /* size of the output, all shards together */
    uint64_t n_fallbacks, fallback_bytes; /* tensors with a fallback, and the bytes that these cost */
    /* Tensors quantized without importance, though an imatrix was given. */
    GQ_RENAMED(uint64_t, n_without_imatrix, n_without_importance);
    uint64_t n_experts_unseen;
    /* Mean KL divergence to expect of the output, in nats, from trials that each put one tensor into a coarse
     * type: of plain encoding, without what a calibration makes better. NaN: not known. Set for outputs with
     * a target and a calibration, and for all with gq_options.foretell. */
    double expected;
} gq_summary;

/* ---- what a tensor lost ---- */
struct gq_loss {
    uint64_t n;       /* elements; 0: not measured (kept byte for byte) */
    double x2, e2;    /* sum of x^2 and of (x - x')^2, x' being what the file decodes to */
    double wx2, we2;  /* the same sums with each square multiplied by its column's importance (or under
                         a Hessian); 0 where there is none */
    double max_error; /* largest |x - x'| */
    uint32_t crc32;   /* of the tensor's bytes in the output */
    uint64_t reserved[4];
};
GQ_API double gq_loss_rmse(const gq_loss *l);     /* sqrt(e2 / n), in units of the weights */
GQ_API double gq_loss_relative(const gq_loss *l); /* sqrt(e2 / x2) */
GQ_API double gq_loss_weighted(const gq_loss *l); /* sqrt(we2 / wx2); NaN without importance */
GQ_API double gq_loss_snr_db(const gq_loss *l);   /* 10 log10(x2 / e2); infinity when nothing was lost */

/* ---- small files ---- */
/* Reads all bytes of a regular file into memory: *n of them, malloc'ed, with a NUL behind them. Fails where
 * there are more than `most`. Never waits for a FIFO. */
GQ_API char *gq_read_whole(const char *path, size_t most, size_t *n, gq_error *e);
/* Writes the SHA-256 of a file as 64 hexadecimal digits and a NUL, as sha256sum prints it. */
enum { GQ_SHA256_TEXT = 65 };
GQ_API bool gq_file_sha256(const char *path, char text[GQ_SHA256_TEXT], gq_error *e);
/* Checks that a file may get this name. A file or link that is there may be replaced only if `replace` is
 * set, anything else never. The folder has to exist. */
GQ_API bool gq_check_target(const char *path, bool replace, gq_error *e);
/* Removes what a killed gq_write_whole has left beside a file of that name, if anything; the next one does,
 * too. To be called behind gq_check_inputs. */
GQ_API void gq_clean_target(const char *path);
/* Checks that writing a file of that name destroys no input. Neither the file nor the hidden names beside it,
 * which files have until they are whole, may be one of the inputs under any name, a shard of an input that is
 * a model, or the file of a model's measurements. Inputs need not exist. The failure is GQ_USAGE where a name
 * is an input's, and another one where memory runs out. */
GQ_API bool gq_check_inputs(const char *path, const char *const *inputs, size_t n, gq_error *e);
/* The same for one input with adapters and other folders that go with it, whose files are inputs, too, and
 * whose measurements have a name of their own. */
GQ_API bool gq_check_inputs_adapted(const char *path, const char *input, const gq_adapters *adapters,
                                    gq_error *e);
/* Writes n bytes to a file, which gets its name when it is whole and on disk. gq_check_target says whether it
 * may. */
GQ_API bool gq_write_whole(const char *path, bool replace, const void *bytes, size_t n, gq_error *e);
/* Returns the path under which something is kept beside a model between runs: the model's own, without the
 * slashes behind a folder's, with the suffix behind it. malloc'ed; NULL: no memory. */
#define GQ_MEASURE_SUFFIX ".gquant-measure" /* errors of a target's types on a sample of the weights */
#define GQ_SCORES_SUFFIX ".gquant-scores"   /* scores of evaluations */
GQ_API char *gq_kept_path(const char *model, const char *suffix, gq_error *e);
/* Frees what is said to be malloc'ed, for languages that have no free(). memory may be NULL. */
GQ_API void gq_free(void *memory);

#ifdef __cplusplus
}
#endif
