/* libgquant: quantize GGUF models. This is all that the gquant command itself uses.
 *
 *     gq_output out = {.path = "model-Q4_K_M.gguf", .filetype = "Q4_K_M"};
 *     gq_options o = {.size = sizeof o, .input = "model-F16.gguf", .outputs = &out, .n_outputs = 1};
 *     gq_error e;
 *     gq_plan *plan = gq_plan_new(&o, &e);               // reads headers and importance data
 *     gq_results *results = NULL;
 *     if (plan && gq_run(plan, NULL, &results, &e)) ...  // writes the file, measures the loss
 *     gq_results_free(results);
 *     gq_plan_free(plan);
 *
 * Sizes are in bytes, counts in elements. Strings and arrays that a plan hands out belong to the plan, those
 * of results to the results. Texts from a file (tensor names, metadata) may hold control characters:
 * gq_printable() of base/error.h before showing them.
 *
 * Everything here may be called from several threads, also for the same object where that is const, and in a
 * child that was forked. Objects that the parent made are the child's own then; a call that another thread
 * of the parent was in has no end there. A plan does not change once it is made; gq_run and others that take
 * long start threads of their own, from which callbacks are called. Of the environment only GQUANT_ISA is
 * read.
 *
 * What joins in later versions breaks no program:
 * - A struct that begins with `size_t size` may get more members at its end. Who makes one sets it to the
 * struct's sizeof; in all other members 0 is the default. What the library makes says how much of it there
 * is.
 * - One that is handed out in arrays has room for more in `reserved`, which is 0 till then.
 * - All other structs stay as they are.
 */
#ifndef GQUANT_H
#define GQUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

GQ_API const char *gq_version(void);
/* ISA level the kernels will use: "x86-64-v4", ...; NULL when GQUANT_ISA names one that cannot run here, or
 * none can. */
GQ_API const char *gq_isa(void);
GQ_API const char *gq_isa_level(size_t i); /* the i-th that is built in, best last; NULL behind the last */
GQ_API const char *gq_build(void);         /* a digest of the sources that this was built from */
GQ_API const char *gq_features(void);      /* what it is made of, in words */

/* ---- file types ---- */
GQ_API size_t gq_filetype_count(void);
GQ_API const char *gq_filetype_name(size_t i);    /* "Q4_K_M" */
GQ_API const char *gq_filetype_summary(size_t i); /* one line for lists, may be empty */
GQ_API double gq_filetype_bits(size_t i);  /* per weight of a whole model, about; 0: depends on the model */
GQ_API int gq_filetype_id(size_t i);       /* general.file_type; -1 for COPY */
GQ_API bool gq_filetype_advised(size_t i); /* false: others are better in the same bytes, or it is special */
GQ_API const char *gq_filetype_made_for(size_t i); /* "ternary models", the only ones it suits; "": any */
/* Index of a name in any case or of a decimal id; -1: unknown. */
GQ_API int gq_filetype_find(const char *name);
GQ_API const char *gq_filetype_nearest(const char *name); /* for "did you mean" */
GQ_API const char *gq_type_name(uint32_t type);           /* tensor type: "Q6_K" */
GQ_API bool gq_type_quantized(uint32_t type);             /* false: one number per element, or unknown */
GQ_API bool gq_type_writable(uint32_t type);              /* whether there is an encoder for it */
GQ_API uint32_t gq_type_limit(void);       /* all numbers are below it; not all below it are types */
GQ_API int gq_type_find(const char *name); /* in any case; -1: unknown */
/* Elements of a block (rows are whole numbers of blocks); 0: unknown type. */
GQ_API uint32_t gq_type_elements(uint32_t type);
GQ_API uint32_t gq_type_bytes(uint32_t type);
GQ_API bool gq_type_readable(uint32_t type); /* whether there is a decoder for it */

/* ---- a text for a model to run on ---- */
enum { GQ_CONTEXT = 512 };
typedef struct gq_text {
    const char *name;  /* for messages; NULL: none. Where it is a file's, nothing is written over that */
    const char *bytes; /* n of them, at most 1 GiB; need not be UTF-8 */
    size_t n;
    bool ids;           /* they are no text but decimal ids of tokens, with white space between them */
    bool parse_special; /* find control tokens in the text, too */
    uint32_t context;   /* tokens of a window, each of which is a text of its own; 0: GQ_CONTEXT */
    uint64_t tokens;    /* take so many at most; 0: all. What is left over by whole windows is not used */
} gq_text;

/* ---- what is asked for ---- */
/* In place of a file type: the largest size of the file in bytes, or of its tensors in bits per weight. Types
 * are chosen by their error on a sample of the weights, which gq_plan_new reads, once for all outputs. */
typedef struct gq_target {
    uint64_t size; /* 0: none */
    double bpw;    /* 0: none */
} gq_target;

typedef struct gq_output {
    const char *path;     /* NULL: input's name with the type in place of F16, BF16, F32 */
    const char *filetype; /* name or number; NULL with a target */
    gq_target target;     /* all 0: the file type says it */
    uint64_t reserved[4]; /* 0 */
} gq_output;

typedef struct gq_list {
    const char *const *items;
    size_t n;
} gq_list;

enum { GQ_EFFORT_DEFAULT, GQ_EFFORT_FAST, GQ_EFFORT_BEST };

/* Rounding by what flows into each matrix when the model runs on a text: what is lost in one column the
 * following ones make good, and what earlier layers have lost, too. docs/calibration.md says more. */
enum { GQ_CALIBRATION_TOKENS = 65536 };
typedef struct gq_calibration {
    size_t size;
    gq_text text; /* tokens 0: GQ_CALIBRATION_TOKENS. Not needed any more when gq_plan_new returns */
    bool random;  /* in place of a text: tokens drawn from the vocabulary, the same for the same model;
                     context and tokens of `text` hold, which has no bytes */
    /* To 1; 0: the default; negative: none. */
    float correction; /* how far the loss of what comes before is made good; default: by the tokens */
    float damp;       /* share of the mean square of a matrix's inputs that is added to each; default .01 */
    float shrink;     /* how far inputs are taken for independent of each other; default .1 */
    uint64_t memory;  /* bytes to stay within; 0: a quarter of the machine's. Little of it makes rounding
                         worse, which the plan warns of */
} gq_calibration;

typedef struct gq_options {
    size_t size;
    const char *input; /* a GGUF, or any shard of a split one */
    const gq_output *outputs;
    size_t n_outputs;
    const char *out_dir; /* folder for outputs without a path; NULL: the input's. It must be there,
                            but for a plan alone (dry_run) */
    const char *imatrix; /* NULL: none */
    int threads;         /* 0: one per core */
    int effort;          /* GQ_EFFORT_* */
    bool pure, strict, force, allow_requantize, leave_output_tensor;
    const char *output_tensor_type, *token_embedding_type; /* NULL: by the mix */
    const char *missing_importance; /* type of tensors that the importance data lack and whose own type
                                       demands them; NULL: that is a failure */
    gq_list tensor_types;           /* "PATTERN=TYPE", first match wins */
    gq_list keep;                   /* patterns: tensors that stay as they are */
    gq_list include_weights, exclude_weights;
    gq_list override_kv;      /* "KEY=TYPE:VALUE" */
    const char *prune_layers; /* "3,7,11" */
    bool keep_split;
    uint64_t split_max_size;  /* bytes per output shard, 0: do not split */
    bool imatrix_path;        /* store the importance file's path as given, not its base name */
    uint32_t part, parts;     /* this process does the part-th (1..parts) share; 0, 0: all */
    bool join;                /* finish a file whose shares are all done */
    bool dry_run;             /* only the plan: no file but measure_file is written, none is in its way */
    const char *measure_file; /* where what a target measures is kept for the next time; NULL:
                                 INPUT.gquant-measure; "": nowhere */
    const struct gq_callbacks *callbacks; /* while measuring; NULL: none */
    uint32_t sync_ms; /* how often gq_run makes finished work safe from a crash; 0: every two seconds */
    const gq_calibration *calibration; /* NULL: none. Not beside importance data, of which it knows more */
    gq_list transpose; /* patterns: matrices to write transposed (docs/formats.md), or back if they are */
    /* Paths of other files that the caller reads, such as recipes: none is written over or removed, even
     * where one has the name of a file that is made beside an output. */
    gq_list other_inputs;
} gq_options;

/* Two members of gq_options that cannot be combined. */
typedef struct gq_conflict {
    size_t first, second; /* their offsets in gq_options; a target's is that of `outputs` */
    const char *why;
    uint64_t reserved[4];
} gq_conflict;
/* The first two members in conflict; NULL: none. gq_plan_new refuses them, too, with words of its own; this
 * tells before anything is read. */
GQ_API const gq_conflict *gq_options_conflict(const gq_options *options);

/* The PATTERN=TYPE items in a text of n bytes, as recipe files have them: separated by white space, or by a
 * comma behind a type; # begins a comment. `name` is for messages, NULL: no file. Free with gq_recipe_free.
 */
typedef struct gq_recipe {
    size_t n;
    char **items;
} gq_recipe;
GQ_API bool gq_recipe_read(gq_recipe *r, const char *name, const char *text, size_t n, gq_error *e);
GQ_API void gq_recipe_free(gq_recipe *r);

/* ---- the plan: everything that is known before a weight is read ---- */
typedef enum gq_coverage { GQ_IMPORTANCE_UNUSED, GQ_IMPORTANCE_MISSING, GQ_IMPORTANCE_FULL } gq_coverage;

typedef struct gq_tensor {
    const char *name;        /* in the output */
    const char *source_name; /* in the input (they differ where layers are pruned) */
    uint64_t ne[4], n_weights;
    uint32_t n_dims;         /* as written: without trailing ones, but in image models as in the input */
    uint32_t from, to;       /* tensor types */
    uint32_t wanted;         /* type before the row-length check; differs from `to` for a fallback */
    uint64_t fallback_bytes; /* of out_bytes, what a fallback costs beyond the wanted type */
    const char *why;         /* why kept, fallen back, or chosen by an option; "" for the plain rule */
    uint64_t in_bytes, out_bytes;
    gq_coverage importance;
    uint64_t experts,
        experts_unseen; /* matrices with importance data of their own; of these, never activated */
    bool calibrated;    /* rounded by what flows into it, where the run finds that to be better */
    bool transposed;    /* the output has its matrices transposed */
    uint64_t reserved[3];
} gq_tensor;

typedef struct gq_summary {
    size_t size;
    const char *path; /* of the output (first shard's, when split) */
    const char *filetype;
    uint64_t n_tensors, n_weights;
    uint64_t in_bytes;                    /* tensor data read */
    uint64_t out_bytes;                   /* tensor data written */
    uint64_t file_bytes;                  /* size of the output, all shards together */
    uint64_t n_fallbacks, fallback_bytes; /* fallbacks, and bytes they cost beyond the wanted types */
    uint64_t n_without_importance;        /* tensors quantized without data although there is such data */
    uint64_t n_experts_unseen;
} gq_summary;

typedef struct gq_plan gq_plan;
GQ_API gq_plan *gq_plan_new(const gq_options *options, gq_error *e);
GQ_API void gq_plan_free(gq_plan *plan);
GQ_API const gq_summary *gq_plan_summary(const gq_plan *plan, size_t output);
GQ_API size_t gq_plan_outputs(const gq_plan *plan);
/* Tensors in output order. */
GQ_API const gq_tensor *gq_plan_tensors(const gq_plan *plan, size_t output, size_t *n);
/* Things the user should know before the work starts, one sentence each. */
GQ_API const char *const *gq_plan_warnings(const gq_plan *plan, size_t *n);
/* The file from which measurements came, or in which they are kept now; NULL: there is none. */
GQ_API const char *gq_plan_measure_file(const gq_plan *plan);
/* Seconds that it took to make the plan: with a target mostly to measure. */
GQ_API double gq_plan_seconds(const gq_plan *plan);
typedef struct gq_calibration_facts {
    size_t size;
    const char *text; /* its name, without folders; NULL: drawn at random */
    uint32_t context;
    uint64_t windows, tokens;
    uint64_t held_back; /* of the windows: matrices are checked with these */
    uint64_t columns;   /* of the widest matrix */
    uint64_t width;    /* columns whose inputs are seen together; less than `columns` where memory is short */
    double per_column; /* tokens per column of the matrix that has the fewest */
    uint64_t layers, layers_finished; /* by an earlier run, which will be continued */
    uint64_t windows_at_once, experts_at_once;
    uint64_t memory;       /* bytes that the process takes at most */
    uint64_t disk;         /* bytes beside the outputs until they are done */
    bool states_in_file;   /* they do not fit into memory, and are read from there */
    double work;           /* floating-point operations, about */
    bool has_trials;       /* types are chosen for a target */
    uint64_t trial_layers; /* layers whose tensors' effect on the predictions is tried for it; 0: presumed */
} gq_calibration_facts;
GQ_API const gq_calibration_facts *gq_plan_calibration(const gq_plan *plan); /* NULL: there is none */
/* The types of an output as recipe files have them, for the same types at any file type that quantizes: items
 * for all tensors that a file type decides. malloc'ed; NULL: no memory. */
GQ_API char *gq_plan_recipe(const gq_plan *plan, size_t output, gq_error *e);

/* ---- the work ---- */
typedef struct gq_loss {
    uint64_t n;       /* elements; 0: not measured (kept byte for byte) */
    double x2, e2;    /* sum of x^2 and of (x - x')^2, x' being what the file decodes to */
    double wx2, we2;  /* the same under importance (or moments); 0 where there is none */
    double max_error; /* largest |x - x'| */
    uint32_t crc32;   /* of the tensor's bytes in the output */
    uint64_t reserved[4];
} gq_loss;
GQ_API double gq_loss_rmse(const gq_loss *l);     /* sqrt(e2 / n) */
GQ_API double gq_loss_relative(const gq_loss *l); /* sqrt(e2 / x2) */
GQ_API double gq_loss_weighted(const gq_loss *l); /* sqrt(we2 / wx2); NaN without importance */
GQ_API double gq_loss_snr_db(const gq_loss *l);   /* 10 log10(x2 / e2); infinity when nothing was lost */

typedef struct gq_progress {
    size_t size;
    uint64_t bytes_done, bytes_total; /* of tensor data to read */
    uint64_t weights_done;
    double seconds; /* since the call was made */
    /* Parts of bytes_done and weights_done that an earlier run had finished, and of seconds that went into
     * looking at them, or into calibrating. They say nothing about this run's speed. */
    uint64_t bytes_resumed, weights_resumed;
    double seconds_resumed;
    const char *tensor; /* the first that is not done yet; NULL: none in particular */
    uint64_t tokens;    /* of a text that models are run on; 0: there is none */
} gq_progress;

/* The result of calibrating a tensor. Sums are over held-back tokens, with its inputs X in the original model
 * and Y in the rounded one. */
typedef struct gq_rounding {
    uint64_t matrices;  /* 0: was not calibrated; all that follows is zero */
    uint64_t plain;     /* of these, written as without calibration, which was better or all there was */
    uint64_t unchecked; /* and those that no held-back token reached */
    double power;       /* |X W|^2 */
    double searched, written; /* |X W - Y Q|^2 as without calibration, and as written */
    uint64_t codes, ends;     /* codes; and those at an end of their range that a weight lay beyond */
    uint64_t tokens;          /* that its inputs were seen of; of experts the fewest */
    uint64_t width;           /* columns whose inputs were seen together */
    float damp;               /* the most that was needed */
    const char *why;          /* of plain matrices, the first one's reason; "" */
    uint64_t reserved[4];
} gq_rounding;

typedef struct gq_callbacks {
    size_t size;
    void *user;
    /* Both are called from one thread at a time, which holds up the others: be quick, and do not end the
     * program, whose unfinished files would stay. */
    void (*progress)(void *user, const gq_progress *progress);
    void (*tensor_done)(void *user, size_t output, size_t tensor, const gq_loss *loss);
    /* Asked now and then, from any thread; true: finish the chunks in hand and stop with GQ_INTERRUPTED. */
    bool (*cancelled)(void *user);
} gq_callbacks;

typedef struct gq_results gq_results;
/* Do the plan. On failure nothing is left under any output's name, unless all files were whole already and
 * only some lack their names; where the message says that the same command goes on from what is done, so does
 * gq_run with this plan. callbacks may be NULL. *results is what the run has found, of one that has failed as
 * far as it came (NULL: there was no memory for it); results may be NULL, too. Signals are left as they are;
 * a file that RLIMIT_FSIZE forbids is a failure before the work, not a SIGXFSZ. */
GQ_API bool gq_run(const gq_plan *plan, const gq_callbacks *callbacks, gq_results **results, gq_error *e);
GQ_API void gq_results_free(gq_results *r);
/* Losses of each tensor, in the plan's order. Zeros for tensors that have not been done, or of which this run
 * did a part only. */
GQ_API const gq_loss *gq_results_losses(const gq_results *r, size_t output, size_t *n);
/* Roundings of each tensor, in the plan's order. NULL, n 0: nothing was calibrated. */
GQ_API const gq_rounding *gq_results_roundings(const gq_results *r, size_t output, size_t *n);
/* Errors of a tensor's outputs, sqrt(searched / power), and of what was written; NaN: unknown. */
GQ_API double gq_rounding_searched(const gq_rounding *r);
GQ_API double gq_rounding_written(const gq_rounding *r);
/* How far it came, what of that had been done before, and the seconds of the whole call. No tensor. */
GQ_API const gq_progress *gq_results_progress(const gq_results *r);
/* Things that the user should know of the run, one sentence each. */
GQ_API const char *const *gq_results_warnings(const gq_results *r, size_t *n);

/* ---- arrays in memory ----
 * Rows of float32, one after another, to and from blocks as a file has them. Bytes are the same for any
 * number of threads and on every CPU (by moments: on every one that fuses multiplications and additions, as
 * all but the oldest do). Sizes that do not fit each other are refused. */
typedef struct gq_array_options {
    size_t size;
    const float *importance; /* one value >= 0 per column; NULL: all count the same */
    int effort;              /* GQ_EFFORT_* */
    int threads;             /* 0: one per core */
    const gq_callbacks *callbacks;
    /* In place of importance: the inputs' second moments, cols x cols: the mean of y y^T over inputs y that
     * the rows are multiplied with; importance is its diagonal. What rounding a column loses the columns
     * behind it make good (not in types of single numbers). Of each row that or search alone is taken, as
     * its error under these moments is less; wx2 and we2 are such errors, w H w^T. Takes the time of a
     * factorization, cols^3. NULL: none. */
    const float *moments;
    float damp, shrink; /* of moments; as in gq_calibration */
} gq_array_options;
/* Bytes of rows x cols in a type. Fails where rows are no whole blocks, or it is more than memory can hold.
 */
GQ_API bool gq_array_bytes(uint32_t type, uint64_t rows, uint64_t cols, size_t *bytes, gq_error *e);
/* Into `to`, which has the `bytes` that gq_array_bytes tells. options may be NULL, as well as loss. All of x
 * has to be finite, and within what the type can hold: GQ_BAD_WEIGHTS. */
GQ_API bool gq_encode(uint32_t type, uint64_t rows, uint64_t cols, const float *x,
                      const gq_array_options *options, void *to, size_t bytes, gq_loss *loss, gq_error *e);
GQ_API bool gq_decode(uint32_t type, uint64_t rows, uint64_t cols, const void *blocks, size_t bytes, float *x,
                      int threads, gq_error *e);
/* out[row] = the row times x, as kernels of a runtime compute it: of blocks x is rounded to 16 bits. */
GQ_API bool gq_dot(uint32_t type, uint64_t rows, uint64_t cols, const void *blocks, size_t bytes,
                   const float *x, float *out, int threads, gq_error *e);

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
            const char *text; /* not NUL-terminated, may hold anything */
            uint64_t length;
        };
    };
} gq_value;

typedef struct gq_metadata {
    const char *key;
    const char *type; /* "u32"; of a list, its elements' */
    bool list;
    uint64_t count; /* values: 1, or the list's length */
    const void *raw;
    uint64_t reserved[4];
} gq_metadata;
/* The first values, at most n; returns how many there are. */
GQ_API size_t gq_metadata_values(const gq_metadata *m, gq_value *values, size_t n);

typedef struct gq_stored { /* a tensor in a file */
    const char *name;
    uint64_t ne[4], n_weights;
    uint32_t n_dims; /* as stored */
    uint32_t type, shard;
    bool transposed;        /* its matrices are stored so, as the file says */
    uint64_t bytes, offset; /* from the start of the shard's file */
    uint64_t reserved[4];
} gq_stored;

typedef struct gq_model gq_model;
/* Any shard's path opens the whole model. Structure is checked, no weight is read. */
GQ_API gq_model *gq_model_open(const char *path, gq_error *e);
GQ_API void gq_model_close(gq_model *m);
typedef struct gq_model_facts {
    size_t size;
    uint32_t version, shards, alignment;
    uint64_t file_bytes, tensor_bytes, n_tensors, n_weights, n_metadata;
} gq_model_facts;
GQ_API const gq_model_facts *gq_model_summary(const gq_model *m);
GQ_API const char *gq_model_path(const gq_model *m, uint32_t shard);       /* as it was opened */
GQ_API const gq_metadata *gq_model_metadata(const gq_model *m, size_t *n); /* the first shard's, in order */
GQ_API const gq_stored *gq_model_tensors(const gq_model *m, size_t *n);    /* by shard and offset */

/* The number of a tensor, or of a pair of metadata; SIZE_MAX: there is none of that name. */
GQ_API size_t gq_model_find(const gq_model *m, const char *tensor);
GQ_API size_t gq_model_find_key(const gq_model *m, const char *key);
/* n weights of a tensor from `first` on, as float32; both whole blocks. Weights are taken as they come,
 * finite or not. */
GQ_API bool gq_model_read(const gq_model *m, size_t tensor, uint64_t first, uint64_t n, float *x,
                          gq_error *e);
/* The same as they are stored: gq_array_bytes of one row of n tells how much that is. */
GQ_API bool gq_model_read_stored(const gq_model *m, size_t tensor, uint64_t first, uint64_t n, void *to,
                                 gq_error *e);

/* ---- writing a model from arrays ---- */
typedef struct gq_draft gq_draft;
GQ_API gq_draft *gq_draft_new(gq_error *e);
GQ_API void gq_draft_free(gq_draft *d);
/* Metadata, in the order in which they are set; one that is there already moves to the end. type: "u8", "i8",
 * "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool" or "string", as gq_metadata has it. A value
 * that the type cannot hold is refused. list: n of them; else n is 1. */
GQ_API bool gq_draft_set(gq_draft *d, const char *key, const char *type, bool list, const gq_value *values,
                         size_t n, gq_error *e);
GQ_API void gq_draft_remove(gq_draft *d, const char *key);
/* All metadata of a model, but for those that tell of its shards. */
GQ_API bool gq_draft_copy(gq_draft *d, const gq_model *from, gq_error *e);
/* The next tensor: ne[0] is the length of its rows, n_dims 1 to 4. The bytes are borrowed until the draft is
 * freed, and as many as the type and the dimensions ask for. */
GQ_API bool gq_draft_add(gq_draft *d, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
                         const void *data, size_t bytes, gq_error *e);
/* Writes the model as gq_write_whole does. */
GQ_API bool gq_draft_write(gq_draft *d, const char *path, bool replace, gq_error *e);

typedef struct gq_memory { /* bytes that a model takes besides its weights, when llama.cpp runs it */
    size_t size;
    uint64_t context, context_trained; /* tokens; trained 0: unknown */
    uint64_t cache_bytes;              /* keys and values of all layers in F16; 0: unknown, or none */
    uint64_t buffer_bytes;             /* an allowance for what it works in */
} gq_memory;
/* For a context of so many tokens; 0: 8192, or what the model was made for if that is less. to->size is set
 * by the caller, and tells how much of *to there is to fill. */
GQ_API void gq_model_memory(const gq_model *m, uint64_t context, gq_memory *to);

/* ---- comparing models ---- */
typedef struct gq_comparison_request {
    size_t size;
    const char *original;
    const char *const *copies; /* one or more */
    size_t n_copies;
    const char *imatrix; /* NULL: none */
    int threads;         /* 0: one per core */
    const gq_callbacks *callbacks;
} gq_comparison_request;

typedef struct gq_comparison gq_comparison;
/* How far the copies' weights are from the original's, tensor by tensor, whatever types they have and whoever
 * wrote them; also under importance, where there is data. The original is read once. Tensors that cannot be
 * compared are named in warnings; a copy with nothing to compare is a failure. */
GQ_API gq_comparison *gq_compare(const gq_comparison_request *r, gq_error *e);
GQ_API void gq_comparison_free(gq_comparison *c);
GQ_API const gq_summary *gq_comparison_summary(const gq_comparison *c, size_t copy); /* in: the original's */
/* Tensors compared, in the original's order, from its type to the copy's; which of the original's each is;
 * and how far they are apart. n of a loss is 0 where the bytes are the same. */
GQ_API const gq_tensor *gq_comparison_tensors(const gq_comparison *c, size_t copy, size_t *n);
GQ_API const size_t *gq_comparison_numbers(const gq_comparison *c, size_t copy);
GQ_API const gq_loss *gq_comparison_losses(const gq_comparison *c, size_t copy);
GQ_API const char *const *gq_comparison_warnings(const gq_comparison *c, size_t *n);
GQ_API double gq_comparison_seconds(const gq_comparison *c);

/* ---- verifying a file ---- */
typedef struct gq_checksum { /* what a report says of a tensor */
    const char *name;
    uint32_t crc32;
} gq_checksum;

typedef struct gq_verdict {
    const char *name;
    uint32_t type;
    uint32_t crc32;      /* of the tensor's bytes */
    bool decoded;        /* false: the type has no decoder, so that only the checksum could be looked at */
    bool expected;       /* the checksum was compared */
    const char *problem; /* "": none */
    uint64_t reserved[4];
} gq_verdict;

typedef struct gq_verified_type { /* of a sample of each tensor: a sixteenth */
    uint32_t type;
    size_t tensors, problems;
    uint64_t compared; /* weights, all ways of decoding them agreed */
    double worst;      /* a product with a vector, how far from that of the plain decoder; 1: the tolerance */
    uint64_t reserved[4];
} gq_verified_type;

typedef struct gq_verification gq_verification;
/* Reads the whole file: values and scales finite, codes in range, kernels, plain decoders
 * and products with a vector of one mind,
 * shards written together, and checksums as expected (n of them; 0: none are). NULL when it cannot be read;
 * problems are in the verdicts.
 */
GQ_API gq_verification *gq_verify(const char *path, const gq_checksum *expected, size_t n, int threads,
                                  const gq_callbacks *callbacks, gq_error *e);
GQ_API void gq_verification_free(gq_verification *v);
GQ_API const gq_verdict *gq_verification_verdicts(const gq_verification *v, size_t *n);    /* per tensor */
GQ_API const gq_verified_type *gq_verification_types(const gq_verification *v, size_t *n); /* that it has */
/* Expected tensors that the file does not have. */
GQ_API const char *const *gq_verification_missing(const gq_verification *v, size_t *n);
/* About the work, not the file. */
GQ_API const char *const *gq_verification_warnings(const gq_verification *v, size_t *n);

/* ---- the speed of a model ---- */
typedef struct gq_speed_type {
    uint32_t type;
    uint64_t matrices, weights, bytes;
    double seconds;      /* of the products; types share a file's by what they took of all threads' time */
    double read_seconds; /* of reading the same bytes and doing nothing else, in turn with the products */
    uint64_t reserved[4];
} gq_speed_type;
typedef struct gq_speed_file {
    const char *path;
    uint64_t file_bytes;
    uint64_t matrices, weights, bytes; /* that one token is multiplied with; of experts, those it uses */
    double seconds, read_seconds;
    gq_speed_type *types; /* those it has, by number */
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
/* How long it takes here to multiply all matrices of each model with a vector once, as for every token that
 * the model makes: an upper bound for tokens per second, without attention, norms and the like. A model is
 * read into memory for that, up to 1 GiB of it at a time. */
GQ_API gq_speed *gq_speed_measure(const gq_speed_request *r, gq_error *e);
GQ_API void gq_speed_free(gq_speed *v);
GQ_API const gq_speed_file *gq_speed_files(const gq_speed *v, size_t *n);
GQ_API int gq_speed_threads(const gq_speed *v);
GQ_API const char *const *gq_speed_warnings(const gq_speed *v, size_t *n);

/* ---- importance data as a thing of its own ---- */
typedef struct gq_imatrix gq_imatrix;
GQ_API gq_imatrix *gq_imatrix_open(const char *path, gq_error *e); /* values are checked, too */
GQ_API void gq_imatrix_free(gq_imatrix *m);

typedef struct gq_imatrix_facts {
    size_t size;
    bool legacy;                      /* the .dat layout, whose counts are calls, not tokens */
    uint32_t chunk_count, chunk_size; /* 0: not stored */
    size_t n_entries, n_datasets;
    const char *const *datasets;
    const char *warnings; /* lines, "" when there are none */
} gq_imatrix_facts;
GQ_API const gq_imatrix_facts *gq_imatrix_summary(const gq_imatrix *m);

/* Numbers of one entry, over the mean squared activations of all columns that a token reached. Shares are 0
 * to 1; what is not defined is NaN. */
typedef struct gq_imatrix_row {
    const char *name, *role; /* role: the name behind "blk.N." */
    int64_t layer;           /* -1: none */
    uint64_t values, experts, experts_unseen;
    const float *counts; /* tokens of each expert, or of all; in the .dat layout calls */
    double sum, min, max, mean, deviation;
    double active;            /* share above 0.00001 */
    double entropy, evenness; /* bits; and as a share of the most that so many columns can have */
    double outliers;          /* share more than one deviation above the mean */
    double cosine;            /* similarity with the same role one layer earlier */
    uint64_t reserved[4];
} gq_imatrix_row;
GQ_API const gq_imatrix_row *gq_imatrix_rows(const gq_imatrix *m, size_t *n); /* by name */

/* Mean squared activations of one of an entry's matrices (experts have one each), one per column: importance
 * for gq_encode. n: how many there are, the entry's values over its matrices. Where no token came by all
 * are 1. */
GQ_API bool gq_imatrix_columns(const gq_imatrix *m, size_t row, uint64_t matrix, float *to, size_t n,
                               gq_error *e);

/* The coverage of one weight of a model by importance data. */
typedef struct gq_imatrix_cover {
    const char *name;
    uint64_t columns, matrices;
    bool has_entry, fits;           /* an entry of the weight's name; of the weight's size */
    uint64_t experts, experts_seen; /* matrices counted by themselves; of these, reached by a token */
    double smallest_count;
    uint64_t reserved[4];
} gq_imatrix_cover;
typedef struct gq_imatrix_coverage {
    size_t size;
    size_t n, n_unused;
    gq_imatrix_cover *weights; /* all that a quantizer would touch */
    const char **unused;       /* entries that no such weight has */
    gq_model *model;           /* holds the names */
    size_t n_unknown;
    const char **unknown; /* of the unused ones, in the same order, those that no tensor of the model has */
} gq_imatrix_coverage;
GQ_API gq_imatrix_coverage *gq_imatrix_cover_model(const gq_imatrix *m, const char *model, gq_error *e);
GQ_API void gq_imatrix_coverage_free(gq_imatrix_coverage *coverage);

/* Add b into a: sums and counts, so that each weighs by its tokens. On failure a is fit for freeing only. */
GQ_API bool gq_imatrix_merge(gq_imatrix *a, const gq_imatrix *b, gq_error *e);
/* Write the GGUF layout or the .dat layout, as gq_write_whole does. */
GQ_API bool gq_imatrix_write(const gq_imatrix *m, const char *path, bool gguf, bool force, gq_error *e);

/* ---- a text as tokens ---- */
typedef struct gq_tokenizer gq_tokenizer;
/* The tokenizer of a model, or of a GGUF that holds nothing but a vocabulary: the ids are those of llama.cpp.
 * Vocabularies that merge by score or rank (tokenizer.ggml.model llama, gpt2, gemma4) are known. */
GQ_API gq_tokenizer *gq_tokenizer_open(const char *path, gq_error *e);
GQ_API void gq_tokenizer_close(gq_tokenizer *t);
GQ_API const char *const *gq_tokenizer_warnings(const gq_tokenizer *t, size_t *n);

typedef struct gq_tokenize_options {
    size_t size;
    bool no_ends;       /* leave out BOS and EOS where the vocabulary has texts begin and end with them */
    bool parse_special; /* find control tokens in the text, too */
} gq_tokenize_options;
typedef struct gq_tokens {
    uint32_t *ids; /* malloc'ed */
    size_t n;
    uint64_t bytes_dropped; /* of the text, for which the vocabulary has no token */
} gq_tokens;
/* n bytes (at most 1 GiB), which need not be UTF-8. options may be NULL. Safe from several threads. */
GQ_API bool gq_tokenize(const gq_tokenizer *t, const char *text, size_t n, const gq_tokenize_options *options,
                        gq_tokens *to, gq_error *e);
GQ_API void gq_tokens_free(gq_tokens *tokens);

/* ---- running a model on a text ---- */
typedef struct gq_evaluation_request {
    size_t size;
    const char *original;
    const char *const *copies; /* none or more */
    size_t n_copies;
    gq_text text;
    int threads;     /* 0: one per core */
    uint64_t memory; /* bytes to stay within, as far as one window at a time allows; 0: a quarter of the
                        machine's */
    const char
        *folder; /* for a file with the states of tokens, where they take more; NULL: the current one */
    const char *logits;  /* a file that gets the original's logits, binary32, all tokens' one after another;
                            NULL: none */
    bool replace_logits; /* even where there is such a file */
    const gq_callbacks *callbacks;
} gq_evaluation_request;

typedef struct gq_estimate {
    double value, error; /* error: one standard error; NaN: unknown */
} gq_estimate;

enum { GQ_QUANTILES = 6 }; /* median, 90, 95, 99, 99.9 %, maximum */
typedef struct gq_evaluated {
    const char *path;
    const char *filetype; /* "" where it says none */
    uint64_t file_bytes, tensor_bytes, n_weights;
    gq_estimate perplexity;
    /* Figures of copies against the original: the mean Kullback-Leibler divergence of the next token's
     * probabilities, in nats, and its quantiles over tokens; the perplexity as a multiple of the original's;
     * the root mean square of the change of the right token's probability; in what share of places the
     * likeliest token is the same. */
    gq_estimate divergence, ratio, rms_change, same_top;
    double quantiles[GQ_QUANTILES];
    uint64_t reserved[4];
} gq_evaluated;

typedef struct gq_evaluation gq_evaluation;
/* Runs the original and all copies side by side, layer by layer, and compares what they expect next after
 * each token; scored is the second half of each window. The copies have the original's architecture, shape
 * and vocabulary. */
GQ_API gq_evaluation *gq_evaluate(const gq_evaluation_request *r, gq_error *e);
GQ_API void gq_evaluation_free(gq_evaluation *v);
/* 0 is the original, its copies follow. */
GQ_API const gq_evaluated *gq_evaluation_models(const gq_evaluation *v, size_t *n);
/* The mean divergence of model a less that of model b; both are copies. The places are the same for both, so
 * its error is smaller than theirs. */
GQ_API void gq_evaluation_difference(const gq_evaluation *v, size_t a, size_t b, gq_estimate *to);
typedef struct gq_evaluation_facts {
    size_t size;
    const char *architecture;
    uint32_t context;
    uint64_t windows, tokens, scored; /* tokens that are run, and those of them that are scored */
    uint64_t peak_bytes;              /* of memory that is taken, at most */
    uint64_t state_bytes;             /* of all tokens' states, in memory or in a file */
    bool states_in_file;
    double seconds;
} gq_evaluation_facts;
GQ_API const gq_evaluation_facts *gq_evaluation_summary(const gq_evaluation *v);
/* Models opened and checked, the text cut into windows, and nothing run: only the summary and warnings tell
 * something of the result. */
GQ_API gq_evaluation *gq_evaluation_plan(const gq_evaluation_request *r, gq_error *e);
GQ_API const char *const *gq_evaluation_warnings(const gq_evaluation *v, size_t *n);
/* Whether the outputs of a plan, which need not be there, can be run and compared with its input: as
 * gq_evaluate finds it once they are. */
GQ_API bool gq_evaluation_check(const gq_plan *plan, gq_error *e);
/* ---- making importance data ---- */
typedef struct gq_importance_request {
    size_t size;
    const char *model;
    const gq_text *texts; /* one or more, each cut into windows by itself; the first one's context and tokens
                             hold for all together */
    size_t n_texts;
    const char *out; /* gets the data in the GGUF layout, or in the .dat layout */
    bool dat;
    bool force;           /* replace a file that is there */
    bool output;          /* of the output matrix, too */
    uint32_t part, parts; /* only the part-th (1..parts) share of the windows; 0, 0: all */
    int threads;          /* 0: one per core */
    uint64_t memory; /* bytes to stay within; 0: a quarter of the machine's, or what a single window needs */
} gq_importance_request;

typedef struct gq_importance_plan gq_importance_plan;
/* Turns texts into tokens and looks at the model's headers. What the request points to is not needed then. */
GQ_API gq_importance_plan *gq_importance_plan_new(const gq_importance_request *r, gq_error *e);
GQ_API void gq_importance_plan_free(gq_importance_plan *p);
typedef struct gq_importance_facts {
    size_t size;
    const char *architecture;
    uint32_t context;
    uint64_t windows, tokens;         /* of this part */
    uint64_t layers, layers_finished; /* by an earlier run, which will be continued */
    uint64_t windows_at_once;
    uint64_t memory;     /* bytes that the process takes at most */
    uint64_t disk;       /* bytes beside the output until it is done */
    bool states_in_file; /* they do not fit into memory, and are read from there */
} gq_importance_facts;
GQ_API const gq_importance_facts *gq_importance_summary(const gq_importance_plan *p);
GQ_API const char *const *gq_importance_warnings(const gq_importance_plan *p, size_t *n);
/* Run the model, a layer at a time, and write the file. What has been finished of an interrupted run is kept
 * beside it; the same request goes on from there. callbacks may be NULL. */
GQ_API gq_imatrix *gq_importance_compute(gq_importance_plan *p, const gq_callbacks *callbacks, gq_error *e);

/* ---- small files ---- */
/* All bytes of a regular file, at most `most`, malloc'ed, with a NUL behind them. Never waits for a FIFO. */
GQ_API char *gq_read_whole(const char *path, size_t most, size_t *n, gq_error *e);
/* May a file get this name? One that is there, or a link, is replaced with `replace` only, anything else
 * never; the folder has to be there. */
GQ_API bool gq_check_target(const char *path, bool replace, gq_error *e);
/* Whether a file of that name may be written without destroying what is read: it, and the hidden names beside
 * it that files have until they are whole, are none of the inputs by any name, no shard of one that is a
 * model, and not what was measured of a model. Inputs need not be there. The failure is GQ_USAGE where a name
 * is an input's, and another one where memory runs out. */
GQ_API bool gq_check_inputs(const char *path, const char *const *inputs, size_t n, gq_error *e);
/* Write n bytes to a file that gets its name, if it may, when it is whole and on disk. */
GQ_API bool gq_write_whole(const char *path, bool replace, const void *bytes, size_t n, gq_error *e);
/* Give back what is said to be malloc'ed, for languages that have no free(). NULL is fine. */
GQ_API void gq_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
