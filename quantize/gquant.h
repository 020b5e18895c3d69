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
 * A call that can fail returns false or NULL and fills *e with a kind and a sentence for people
 * (base/error.h); e may be NULL. Sizes are in bytes, counts in elements. Strings and arrays that a plan, a
 * model or results hand out belong to that object and are good until it is freed. Texts from a file (tensor
 * names, metadata) may hold control characters: pass them through gq_printable() (base/error.h) before you
 * show them.
 *
 * Every function may be called from several threads at once, on the same object where its parameter is const.
 * A forked child may call them, too, and has its own copies of the parent's objects; only a call in which
 * another thread of the parent was when it forked never ends in the child. gq_run and other calls that take
 * long start threads of their own, and call the caller's callbacks from them. A plan does not change once it
 * is made. GQUANT_ISA is the only environment variable that is read.
 *
 * Later versions add to this interface in ways that break no program:
 * - A struct that begins with `size_t size` may get more members at its end. Who makes such a struct sets
 * `size` to its sizeof; in all other members 0 is the default. In those that the library makes, `size` says
 * how much of the struct there is.
 * - A struct that is handed out in arrays has room for more members in `reserved`, which is 0 till then.
 * - All other structs stay as they are.
 */
#ifndef GQUANT_H
#define GQUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

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
GQ_API const char *gq_type_name(uint32_t type); /* tensor type by number: "Q6_K"; "unknown" */
GQ_API bool gq_type_quantized(uint32_t type);   /* false: one number per element, or unknown */
GQ_API bool gq_type_writable(uint32_t type);    /* whether there is an encoder for it */
/* All numbers of types are below it; not every number below it is a type. */
GQ_API uint32_t gq_type_limit(void);
GQ_API int gq_type_find(const char *name); /* by name, in any case; -1: unknown */
/* Elements and bytes of a block; 0: unknown type. Rows are whole numbers of blocks. */
GQ_API uint32_t gq_type_elements(uint32_t type);
GQ_API uint32_t gq_type_bytes(uint32_t type);
GQ_API bool gq_type_readable(uint32_t type); /* whether there is a decoder for it */

/* ---- a text for a model to run on ---- */
enum { GQ_CONTEXT = 512 };
typedef struct gq_text {
    /* For messages; NULL: none. If it is the path of a file, no output may replace that file. */
    const char *name;
    /* n bytes, which need not be UTF-8. NULL: those of the file `name`, which is read as far as the tokens
     * need it */
    const char *bytes;
    size_t n;
    bool ids;           /* it is no text but decimal ids of tokens, separated by white space */
    bool parse_special; /* find control tokens in the text, too */
    /* Tokens of a window; the model runs on each window as a text of its own. 0: GQ_CONTEXT. */
    uint32_t context;
    uint64_t tokens; /* most tokens to use; 0: all. Tokens that do not fill a last window are left out */
} gq_text;

/* ---- what is asked for ---- */
/* A target takes the place of a file type: the largest size of the file in bytes, or of its tensors in bits
 * per weight; one of the two. The type of each tensor is then chosen by its error on a sample of the weights.
 * gq_plan_new reads that sample, once for all outputs. */
typedef struct gq_target {
    uint64_t size; /* 0: none */
    double bpw;    /* 0: none */
} gq_target;

typedef struct gq_output {
    const char *path;     /* NULL: input's name with the type in place of F16, BF16, F32 */
    const char *filetype; /* name (also of a gq_named_recipe) or number; NULL with a target */
    gq_target target;     /* all 0: there is none, and `filetype` decides the types */
    const char *size_of;  /* a file type, whose size on this model is the target; NULL: none */
    uint64_t reserved[3]; /* 0 */
} gq_output;

typedef struct gq_list {
    const char *const *items;
    size_t n;
} gq_list;

enum { GQ_EFFORT_DEFAULT, GQ_EFFORT_FAST, GQ_EFFORT_BEST };

/* Calibration: the model runs on a text, and each matrix is rounded by its inputs there. The columns of a
 * matrix make up for the rounding errors of the columns before them, and for errors of earlier layers.
 * docs/calibration.md says more. */
enum { GQ_CALIBRATION_TOKENS = 65536 };
typedef struct gq_calibration {
    size_t size;
    gq_text text; /* tokens 0: GQ_CALIBRATION_TOKENS. Not needed any more when gq_plan_new has returned */
    bool random;  /* in place of a text: tokens drawn from the vocabulary, the same for the same model. `text`
                     then has no bytes, but its context and tokens hold */
    /* Shares from 0 to 1. In these members 0 stands for the default, and a negative number for 0. */
    float correction; /* share of earlier layers' errors that is made up for; default: T / (T + 3 n), for T
                         tokens and n columns */
    float damp;       /* share of a column's mean square that is added to it; default .01 */
    float shrink;     /* how far different columns' inputs are taken for independent; default .1 */
    uint64_t memory;  /* bytes of memory to stay within; 0: a quarter of the machine's. With little memory
                         rounding gets worse, and the plan warns of it */
    /* Steps that are done, separated by commas: NAME or +NAME adds a step, -NAME takes one away, `all`,
     * `none` and `default` stand for several. A list that begins with a sign changes the default, any other
     * one begins with nothing. docs/calibration.md names them. NULL: the default */
    const char *steps;
    /* Of second moments, of products of weights with activations and of those that rounding takes over many
     * columns: "float32" (NULL), or "bf16", which takes a fraction of the time where the processor has AMX,
     * and elsewhere up to a third more, with the same bytes on all processors */
    const char *arithmetic;
} gq_calibration;

typedef struct gq_options {
    size_t size;
    const char *input; /* a GGUF, or any shard of a split one */
    const gq_output *outputs;
    size_t n_outputs;
    const char *out_dir; /* folder for outputs without a path; NULL: the input's. It must exist, except for a
                            dry run */
    const char *imatrix; /* file of importance data; NULL: none */
    int threads;         /* 0: one per core */
    int effort;          /* GQ_EFFORT_* */
    /* pure: all tensors get the base type of the file type, instead of its mix. strict: a fallback is an
     * error. force: outputs replace files that are there. allow_requantize: tensors of the input may be
     * quantized already. leave_output_tensor: output.weight stays as it is. */
    bool pure, strict, force, allow_requantize, leave_output_tensor;
    const char *output_tensor_type, *token_embedding_type; /* tensor types by name; NULL: by the mix */
    const char *missing_importance; /* type for tensors whose own type needs importance data and that have
                                       none; NULL: these are an error */
    gq_list tensor_types;           /* "PATTERN=TYPE", first match wins */
    gq_list keep;                   /* patterns of tensors that stay as they are */
    /* Texts. include: only importance data whose names contain one of them are used. exclude: importance data
     * whose names contain one of them are left out. */
    gq_list include_weights, exclude_weights;
    /* "KEY=TYPE:VALUE": metadata to set; TYPE is int, float, bool or str, or file: the text of a file. */
    gq_list override_kv;
    const char *prune_layers; /* "3,7,11": layers to leave out, counted from 0; NULL: none */
    bool keep_split;          /* as many shards as the input has, with the same tensors in each */
    uint64_t split_max_size;  /* bytes of an output's shard, at most; 0: do not split */
    bool imatrix_path;        /* store the importance file's path as given, not its base name */
    uint32_t part, parts;     /* do only the part-th (1..parts) share of the work; 0, 0: all of it */
    bool join;                /* finish files whose parts are all done */
    bool dry_run;             /* only the plan: nothing but measure_file is written, and outputs may exist */
    const char *measure_file; /* file in which a target's measurements are kept for the next time; NULL:
                                 INPUT.gquant-measure; "": nowhere */
    const struct gq_callbacks *callbacks; /* called while the plan measures; NULL: none */
    uint32_t sync_ms; /* milliseconds after which gq_run makes finished work safe from a crash; 0: 2,000 */
    const gq_calibration *calibration; /* NULL: none. Not together with importance data */
    gq_list transpose; /* patterns of matrices to write transposed (docs/formats.md), or back if they are
                          transposed already */
    /* Paths of other files that the caller reads, such as recipes. None of them is overwritten or removed,
     * even where one has the name of a file that is made beside an output. */
    gq_list other_inputs;
    /* Patterns of metadata keys to leave out. Those of override_kv stay, and so do general.architecture and
     * what follows from the file's layout. */
    gq_list remove_kv;
    /* The input, opened already (gq_model_open with `input`): for several plans of one model, since opening
     * a folder of very many arrays takes a second. It stays open until the last plan is freed. NULL: the plan
     * opens `input` itself. */
    const struct gq_model *model;
    /* Earlier outputs of this library. gq_run copies a tensor from the first of them in which it is what the
     * run would make of it again, by the digests in their metadata: its source, type, settings and importance
     * data are the same, and it was made by this very build. Outputs are the same with and without. An output
     * may replace such a file. */
    gq_list reuse;
    bool no_digests; /* leave the key gquant.digests out of the outputs' metadata */
    /* Where there is a calibration: measure how long the work will take, for about a second, or some
     * seconds where layers are large and threads few; the result is gq_calibration_facts.seconds_expected.
     * With a target, or with `foretell`, the trials' time is measured before them, too:
     * gq_progress.seconds_expected. */
    bool forecast;
    /* Measure as for a target, for outputs without one, too, so that summaries have the divergence to expect.
     * It needs a calibration, whose text the trials run on; the measurements are those of a target. */
    bool foretell;
    /* The ranks that share a calibration's work; NULL: this process alone. They need one folder for outputs,
     * all get the same options, and rank 0 alone writes the files, which have the bytes that one process
     * gives them. It must outlive the plan. */
    gq_comm *comm;
    bool read_once; /* rank 0 reads the layers that are calibrated and sends them to the others */
    /* With dry_run: types and sizes as if there were importance data of every tensor. */
    bool assume_importance;
    /* Patterns of tensors that the input may lack. Without them a model whose architecture is known has to
     * have all tensors that every such model has; one that is missing then is a warning. */
    gq_list allow_missing;
} gq_options;

/* Two members of gq_options that cannot be combined. */
typedef struct gq_conflict {
    size_t first, second; /* their offsets in gq_options; for a target, that of `outputs` */
    const char *why;
    uint64_t reserved[4];
} gq_conflict;
/* Returns the first pair of members in conflict; NULL: there is none. gq_plan_new refuses them, too, in words
 * of its own; this call finds them before anything is read. */
GQ_API const gq_conflict *gq_options_conflict(const gq_options *options);

/* Names that stand for a file type with items of a recipe that go before its rules, as publishers of models
 * use them. They are taken wherever a file type is asked for. */
typedef struct gq_named_recipe {
    const char *name, *filetype; /* "Q4_K_L", "Q4_K_M" */
    const char *items;           /* as a recipe file has them */
    const char *summary;
} gq_named_recipe;
GQ_API const gq_named_recipe *gq_named_recipe_at(size_t i);           /* NULL: there are no more */
GQ_API const gq_named_recipe *gq_named_recipe_find(const char *name); /* in any case; NULL: unknown */

/* Reads the PATTERN=TYPE items in a text of n bytes, as recipe files have them: separated by white space, or
 * by a comma behind a type; # begins a comment. `name` is for messages; NULL: the text is from no file. Free
 * *r with gq_recipe_free. */
typedef struct gq_recipe {
    size_t n;
    char **items;
} gq_recipe;
GQ_API bool gq_recipe_read(gq_recipe *r, const char *name, const char *text, size_t n, gq_error *e);
GQ_API void gq_recipe_free(gq_recipe *r);

/* ---- the plan: everything that is known before a weight is read ---- */
/* The origin of a tensor that a folder from Hugging Face stores in another way than GGUF does. */
typedef struct gq_origin {
    size_t size;
    /* Name of its array in the folder; of several a pattern, such as experts.{0..127}.up_proj.weight; "": it
     * has none, it is computed. */
    const char *names;
    const char *type;    /* of the array: "BF16", "F8_E4M3, a scale per row" */
    const char *changes; /* what is done to it, such as "dequantized; stacked"; "as is" */
    uint64_t bytes;      /* stored of it, with scales */
    bool quantized;      /* it has scales */
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
    uint64_t experts, experts_unseen; /* matrices (experts) that have importance data of their own; of these,
                                         those that no token reached */
    bool calibrated; /* rounded by its inputs (gq_calibration), as far as the run finds that to be better */
    bool transposed; /* the output has its matrices transposed */
    const gq_origin *origin; /* NULL: the input is a GGUF */
    uint64_t reserved[2];
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
    uint64_t n_without_importance;        /* tensors quantized without importance, though data were given */
    uint64_t n_experts_unseen;
    /* Mean divergence to expect of the output, in nats, from trials that each put one tensor into a coarse
     * type: of plain encoding, without what a calibration makes better. NaN: not known. Set for outputs with
     * a target and a calibration, and for all with gq_options.foretell. */
    double expected;
} gq_summary;

typedef struct gq_plan gq_plan;
/* Makes a plan; NULL: *e says why not. Nothing that `options` points to is needed afterwards. In the
 * functions below, `output` is an index into options->outputs. */
GQ_API gq_plan *gq_plan_new(const gq_options *options, gq_error *e);
GQ_API void gq_plan_free(gq_plan *plan);
GQ_API const gq_summary *gq_plan_summary(const gq_plan *plan, size_t output);
GQ_API size_t gq_plan_outputs(const gq_plan *plan);
/* The *n tensors of an output, in its order. */
GQ_API const gq_tensor *gq_plan_tensors(const gq_plan *plan, size_t output, size_t *n);
/* Things the user should know before the work starts, one sentence each. */
GQ_API const char *const *gq_plan_warnings(const gq_plan *plan, size_t *n);
/* The file that a target's measurements came from, or that keeps them now; NULL: there is none. */
GQ_API const char *gq_plan_measure_file(const gq_plan *plan);
/* Seconds that it took to make the plan; with a target, mostly for measuring. */
GQ_API double gq_plan_seconds(const gq_plan *plan);
typedef struct gq_calibration_facts {
    size_t size;
    const char *text; /* the text's name, without folders; NULL: tokens drawn at random */
    uint32_t context;
    uint64_t windows, tokens;
    uint64_t held_back; /* windows, of these, that only check the matrices */
    uint64_t columns;   /* of the widest matrix */
    uint64_t width;     /* columns considered together; less than `columns` where memory is short */
    double per_column;  /* tokens per column of the matrix that has the fewest */
    uint64_t layers, layers_finished; /* by an earlier run, which will be continued */
    uint64_t windows_at_once, experts_at_once;
    uint64_t memory;       /* bytes that the process takes at most */
    uint64_t disk;         /* bytes beside the outputs until they are done */
    bool states_in_file;   /* they do not fit into memory beside what is run at once */
    double work;           /* floating-point operations, approximately */
    bool has_trials;       /* there is a target, for which trials may be run */
    uint64_t trial_layers; /* layers in which the effect of each tensor's error on the predictions is tried;
                              0: none, it is estimated */
    const char *steps;     /* that are done, separated by ", "; "none" */
    double
        seconds_expected; /* that a whole run takes, without the layers that are finished; 0: not measured */
    uint64_t tokens_advised; /* with fewer tokens of text a longer one would make a better file */
    /* Of ranks: how many share the work; windows of the rank that has most. `memory` is that of the rank that
     * needs most. sent, sent_layer: bytes that a rank sends at most, in all and for one layer. */
    uint32_t ranks;
    uint64_t rank_windows, sent, sent_layer;
    /* Bytes of `memory` and of `disk` with inputs of matrices that are kept so that nothing is run twice.
     * What does not get them on disk is run again, and the file is the same. */
    uint64_t inputs_memory, inputs_disk;
    const char *arithmetic; /* of moments and products: "float32" or "bf16" */
} gq_calibration_facts;
GQ_API const gq_calibration_facts *gq_plan_calibration(const gq_plan *plan); /* NULL: there is none */
/* Returns the seconds that gq_run will take, about: those of a calibration as they were measured with
 * gq_options.forecast, all else at the speeds of a usual processor. */
GQ_API double gq_plan_run_seconds(const gq_plan *plan);
/* The tokens of the text's windows, one window after another, as the model runs on them: *n of them. Another
 * plan of the model that is given them as gq_text.ids has the same windows. NULL and 0: no calibration. */
GQ_API const uint32_t *gq_plan_calibration_ids(const gq_plan *plan, uint64_t *n);
/* Returns how many of an output's tensors gq_run would copy from earlier outputs (gq_options.reuse) if their
 * sources have not changed, which only reading them tells; *bytes: what they take in it. */
GQ_API uint64_t gq_plan_reusable(const gq_plan *plan, size_t output, uint64_t *bytes);
/* What an earlier file is to the plan, as far as its header tells: gq_check_earlier reads all of it. */
typedef enum gq_earlier {
    GQ_EARLIER_OTHER,    /* it has other types, metadata, settings, importance data or calibration */
    GQ_EARLIER_IN_DOUBT, /* nothing speaks against it, but the input was modified after it */
    GQ_EARLIER_SAME,
} gq_earlier;
GQ_API gq_earlier gq_plan_compare_earlier(const gq_plan *plan, size_t output, const struct gq_model *earlier);
/* Returns the types of an output's tensors as the text of a recipe file. With it, any file type that
 * quantizes gives the same types: it has items for all tensors whose type a file type decides. malloc'ed;
 * NULL: no memory. */
GQ_API char *gq_plan_recipe(const gq_plan *plan, size_t output, gq_error *e);

/* ---- the work ---- */
typedef struct gq_loss {
    uint64_t n;       /* elements; 0: not measured (kept byte for byte) */
    double x2, e2;    /* sum of x^2 and of (x - x')^2, x' being what the file decodes to */
    double wx2, we2;  /* the same sums with each square multiplied by its column's importance (or under
                         moments); 0 where there is none */
    double max_error; /* largest |x - x'| */
    uint32_t crc32;   /* of the tensor's bytes in the output */
    uint64_t reserved[4];
} gq_loss;
GQ_API double gq_loss_rmse(const gq_loss *l);     /* sqrt(e2 / n), in units of the weights */
GQ_API double gq_loss_relative(const gq_loss *l); /* sqrt(e2 / x2) */
GQ_API double gq_loss_weighted(const gq_loss *l); /* sqrt(we2 / wx2); NaN without importance */
GQ_API double gq_loss_snr_db(const gq_loss *l);   /* 10 log10(x2 / e2); infinity when nothing was lost */

typedef struct gq_progress {
    size_t size;
    /* Bytes of tensor data to read; where a model is run, they stand for its work. bytes_total 0: there is
     * nothing to count yet, as a sample of the work is measured. */
    uint64_t bytes_done, bytes_total;
    uint64_t weights_done;
    double seconds; /* since the call was made */
    /* The parts of bytes_done and weights_done that an earlier run had finished, and the part of seconds that
     * went into checking them, or into calibrating. For this run's speed subtract them. */
    uint64_t bytes_resumed, weights_resumed;
    double seconds_resumed;
    const char *tensor; /* the first that is not done yet, or the layer at work; NULL: none in particular */
    uint64_t tokens;    /* tokens of the text that models are run on; 0: there is none */
    double seconds_expected; /* that the whole call takes, by a forecast before the work; 0: there is none */
    /* The share of the whole call's work that is done, 0 to 1, by the time that each part of it is predicted
     * to take. It never falls, and is 1 in the last call alone. bytes_done and weights_done may begin again
     * with each stage of a call; this does not. share_resumed: the part of it that an earlier run had
     * finished. */
    double share, share_resumed;
    double seconds_left; /* by the time that this run's share took, at first by the forecast; NaN: unknown */
} gq_progress;

/* The result of calibrating a tensor W, which became Q. The sums are over held-back tokens; X are the
 * tensor's inputs in the original model, Y those in the rounded one. */
typedef struct gq_rounding {
    uint64_t matrices;        /* 0: was not calibrated; all that follows is zero, and `why` "" */
    uint64_t plain;           /* of these, encoded without error feedback, as `why` says */
    uint64_t unchecked;       /* of these, reached by no held-back token, so that nothing was compared */
    double power;             /* |X W|^2 */
    double searched, written; /* |X W - Y Q|^2 without error feedback, and as written */
    /* Codes, and those of them at an end of their range because the weight lay beyond it. */
    uint64_t codes, ends;
    uint64_t tokens; /* tokens whose inputs were collected; of experts, the fewest of any */
    uint64_t width;  /* columns whose inputs were considered together */
    float damp;      /* the largest damping that a matrix needed */
    const char *why; /* reason for the first plain matrix; "": there is none */
    uint64_t steps;  /* bit i: step i of gq_results_steps was used on some matrix of the tensor */
    uint64_t reserved[3];
} gq_rounding;

/* The result of a step of a calibration, in all tensors of an output. */
typedef struct gq_step {
    const char *name; /* as in gq_calibration.steps */
    const char *what; /* what it does, in a few words */
    bool on;
    uint64_t matrices; /* on which it was tried */
    uint64_t kept;     /* of these, that were written with it */
    /* Of these, matrices whose error was measured on held-back tokens without the step and with it: sums of
     * their relative squared errors, in the metric that the step makes small. */
    uint64_t compared;
    double without, with;
    uint64_t reserved[4];
} gq_step;

typedef struct gq_callbacks {
    size_t size;
    void *user;
    /* Each callback may be NULL. These two are called from one thread at a time, while others may wait for
     * it: be quick, and do not end the program, as its unfinished files would stay. */
    void (*progress)(void *user, const gq_progress *progress);
    void (*tensor_done)(void *user, size_t output, size_t tensor, const gq_loss *loss);
    /* Asked now and then, from any thread, also from several at once; true: finish the chunks in hand and
     * stop with GQ_INTERRUPTED. */
    bool (*cancelled)(void *user);
} gq_callbacks;

typedef struct gq_results gq_results;
/* Carries a plan out: writes all outputs and measures what was lost. callbacks may be NULL, and so may
 * results. *results gets what the run has found, also after a failure, as far as it came; NULL: there was no
 * memory for it. The caller frees it.
 *
 * On failure no output has its name, unless all files were whole already and only some lacked their names.
 * Where the message says that the same command goes on from what is done, so does gq_run with this plan.
 * Signals are left as they are: a file that RLIMIT_FSIZE forbids is a failure before the work, not a SIGXFSZ.
 */
GQ_API bool gq_run(const gq_plan *plan, const gq_callbacks *callbacks, gq_results **results, gq_error *e);
/* Reads sources and earlier outputs (gq_options.reuse) as gq_run does first, and writes nothing, also of a
 * dry run's plan. The results have what gq_run would copy: gq_results_reused. NULL: it failed. */
GQ_API gq_results *gq_reuse_check(const gq_plan *plan, const gq_callbacks *callbacks, gq_error *e);
/* What is there under an output's name already. */
typedef struct gq_found {
    bool is_there;
    bool is_whole; /* it is, byte by byte, what gq_run would write */
    gq_error why;  /* it is there and is not that: text is a clause, "it was made without importance data" */
} gq_found;
/* Says of each output of a plan, also of a dry run's, whether the file under its name is what gq_run would
 * write. Headers are compared; tensors, and the sources that they were made of, are read, and checked by the
 * digests, by the sources' own bytes, and by encoding a sixteenth of the weights; all of them where the file
 * has no digests. A calibrated or transposed tensor does not tell what weights it was made of: such a file
 * must be younger than the input's. found: one per output. false: memory or reading failed. */
GQ_API bool gq_check_earlier(const gq_plan *plan, gq_found *found, const gq_callbacks *callbacks,
                             gq_error *e);
/* Removes what stopped runs have left beside an output that is whole: unfinished files, journals, states.
 * What another process is at work with stays. */
GQ_API void gq_clean_earlier(const gq_plan *plan, size_t output);
GQ_API void gq_results_free(gq_results *r);
/* The loss of each tensor, in the plan's order: *n of them. All zeros: the tensor was not done, or this run
 * did only a part of it. */
GQ_API const gq_loss *gq_results_losses(const gq_results *r, size_t output, size_t *n);
/* The rounding of each tensor, in the plan's order: *n of them. NULL and 0: nothing was calibrated. */
GQ_API const gq_rounding *gq_results_roundings(const gq_results *r, size_t output, size_t *n);
/* The steps of the calibration, done or not: *n of them. NULL and 0: nothing was calibrated. */
GQ_API const gq_step *gq_results_steps(const gq_results *r, size_t output, size_t *n);
/* Relative error of a tensor's outputs: sqrt(searched / power), and sqrt(written / power); NaN: unknown. */
GQ_API double gq_rounding_searched(const gq_rounding *r);
GQ_API double gq_rounding_written(const gq_rounding *r);
/* Returns how many of an output's tensors were copied from earlier outputs (gq_options.reuse); *bytes: what
 * they take in it. */
GQ_API uint64_t gq_results_reused(const gq_results *r, size_t output, uint64_t *bytes);
/* How far the run came, what of that an earlier run had done, and the seconds of the whole call. `tensor` is
 * NULL. */
GQ_API const gq_progress *gq_results_progress(const gq_results *r);
/* Things that the user should know about the run, one sentence each. */
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
    /* In place of importance: the second moments H of the inputs, cols x cols, the mean of y y^T over the
     * inputs y that the rows are multiplied with. Importance is then their diagonal, and columns make up for
     * the rounding errors of those before them. Each row gets that result or search's alone, whichever has
     * the smaller error under H; a loss's wx2 and we2 are such sums, w H w^T. Not for types of single
     * numbers. Takes the time of a factorization, about cols^3. NULL: none. */
    const float *moments;
    float damp, shrink; /* used with moments, as in gq_calibration */
} gq_array_options;
/* *bytes: what rows x cols elements take in a type. Fails where a row is no whole number of blocks, or where
 * memory cannot hold so much. */
GQ_API bool gq_array_bytes(uint32_t type, uint64_t rows, uint64_t cols, size_t *bytes, gq_error *e);
/* Encodes x, rows x cols weights, into `to`, which has as many bytes as gq_array_bytes says. options and loss
 * may be NULL. Fails with GQ_BAD_WEIGHTS where a weight is not finite or beyond what the type can hold. */
GQ_API bool gq_encode(uint32_t type, uint64_t rows, uint64_t cols, const float *x,
                      const gq_array_options *options, void *to, size_t bytes, gq_loss *loss, gq_error *e);
/* Decodes blocks into x, rows x cols floats. `bytes` has to be what gq_array_bytes says. threads: 0: one per
 * core. */
GQ_API bool gq_decode(uint32_t type, uint64_t rows, uint64_t cols, const void *blocks, size_t bytes, float *x,
                      int threads, gq_error *e);
/* Multiplies each row with x, cols numbers below 2^100: out[row] is their product, as programs that run
 * models compute it. For types of blocks x is rounded to 16 bits. */
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
 * Whole numbers
 * are GQ_SIGNED, or GQ_UNSIGNED where int64_t cannot hold them. Lists within lists are GQ_NESTED, without a
 * value. */
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

/* The index of a tensor, or of a metadata pair, in the arrays above; SIZE_MAX: there is none of that name. */
GQ_API size_t gq_model_find(const gq_model *m, const char *tensor);
GQ_API size_t gq_model_find_key(const gq_model *m, const char *key);
/* Reads n weights of a tensor from element `first` on, as float32; `first` and n are whole blocks. Values
 * need not be finite. */
GQ_API bool gq_model_read(const gq_model *m, size_t tensor, uint64_t first, uint64_t n, float *x,
                          gq_error *e);
/* Reads the same weights as they are stored; gq_array_bytes of one row of n columns says how many bytes that
 * is. */
GQ_API bool gq_model_read_stored(const gq_model *m, size_t tensor, uint64_t first, uint64_t n, void *to,
                                 gq_error *e);

/* ---- writing a model from arrays ---- */
typedef struct gq_draft gq_draft;
GQ_API gq_draft *gq_draft_new(gq_error *e);
GQ_API void gq_draft_free(gq_draft *d);
/* Sets a metadata pair. Pairs are written in the order in which they are set; one that is there already moves
 * to the end. type: "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool" or "string",
 * as in gq_metadata. list: the value is a list of n elements; else n is 1. A value that the type cannot hold
 * is refused. */
GQ_API bool gq_draft_set(gq_draft *d, const char *key, const char *type, bool list, const gq_value *values,
                         size_t n, gq_error *e);
/* Removes a metadata pair; nothing happens where there is none. */
GQ_API void gq_draft_remove(gq_draft *d, const char *key);
/* Copies all metadata of a model, except pairs about its shards. */
GQ_API bool gq_draft_copy(gq_draft *d, const gq_model *from, gq_error *e);
/* Adds the next tensor. n_dims is 1 to 4, ne[0] the length of a row. `bytes` has to be what type and
 * dimensions take. data is borrowed until the draft is freed. */
GQ_API bool gq_draft_add(gq_draft *d, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
                         const void *data, size_t bytes, gq_error *e);
/* Writes the model as gq_write_whole does. */
GQ_API bool gq_draft_write(gq_draft *d, const char *path, bool replace, gq_error *e);

/* Returns the types of a model's tensors as the text of a recipe file (gq_plan_recipe). malloc'ed; NULL: no
 * memory. */
GQ_API char *gq_model_recipe(const gq_model *m, gq_error *e);

typedef struct gq_memory { /* bytes that llama.cpp takes for a model besides its weights, estimated */
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
    const char *original;
    const char *const *copies; /* one or more */
    size_t n_copies;
    const char *imatrix; /* NULL: none */
    int threads;         /* 0: one per core */
    const gq_callbacks *callbacks;
} gq_comparison_request;

typedef struct gq_comparison gq_comparison;
/* Measures how far the copies' weights are from the original's, tensor by tensor, whatever types they have
 * and whoever wrote them; with importance data, also weighted by it. The original is read once. Tensors that
 * cannot be compared are named in warnings; a copy with nothing to compare is a failure. */
GQ_API gq_comparison *gq_compare(const gq_comparison_request *r, gq_error *e);
GQ_API void gq_comparison_free(gq_comparison *c);
/* The copy's path, file type and size, and sums over the tensors compared; in_bytes is of the original's
 * tensors. */
GQ_API const gq_summary *gq_comparison_summary(const gq_comparison *c, size_t copy);
/* The *n tensors compared, in the original's order; `from` is the original's type, `to` the copy's. In the
 * same order: the index of each among the original's tensors, and its loss, whose n is 0 where the bytes are
 * the same. */
GQ_API const gq_tensor *gq_comparison_tensors(const gq_comparison *c, size_t copy, size_t *n);
GQ_API const size_t *gq_comparison_numbers(const gq_comparison *c, size_t copy);
GQ_API const gq_loss *gq_comparison_losses(const gq_comparison *c, size_t copy);
GQ_API const char *const *gq_comparison_warnings(const gq_comparison *c, size_t *n);
GQ_API double gq_comparison_seconds(const gq_comparison *c);

/* ---- verifying a file ---- */
typedef struct gq_checksum { /* what a report says about a tensor */
    const char *name;
    uint32_t crc32;
} gq_checksum;

typedef struct gq_verdict {
    const char *name;
    uint32_t type;
    uint32_t crc32;      /* of the tensor's bytes */
    bool decoded;        /* false: the type has no decoder, so only the checksum was looked at */
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
    uint64_t matrices, weights, bytes; /* what one token is multiplied with; of experts, those it uses */
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

/* ---- importance data as a thing of its own ---- */
typedef struct gq_imatrix gq_imatrix;
GQ_API gq_imatrix *gq_imatrix_open(const char *path, gq_error *e); /* checks the values, too */
GQ_API void gq_imatrix_free(gq_imatrix *m);

typedef struct gq_imatrix_facts {
    size_t size;
    bool legacy;                      /* it is the .dat layout, whose counts are calls, not tokens */
    uint32_t chunk_count, chunk_size; /* 0: not stored */
    size_t n_entries, n_datasets;
    const char *const *datasets;
    const char *warnings; /* lines of text; "": there are none */
} gq_imatrix_facts;
GQ_API const gq_imatrix_facts *gq_imatrix_summary(const gq_imatrix *m);

/* Statistics of one entry, over the mean squared activations of all columns that a token reached. Shares are
 * 0 to 1; a number that is not defined is NaN. */
typedef struct gq_imatrix_row {
    const char *name, *role; /* role: the name behind "blk.N." */
    int64_t layer;           /* -1: none */
    uint64_t values, experts, experts_unseen;
    const float *counts; /* `experts` of them: tokens that reached each expert, or one number for all; in the
                            .dat layout calls */
    double sum, min, max, mean, deviation;
    double active;            /* share of columns above 0.00001 */
    double entropy, evenness; /* in bits; and as a share of the most that so many columns can have */
    double outliers;          /* share of columns more than one deviation above the mean */
    double cosine;            /* similarity with the same role one layer earlier */
    uint64_t reserved[4];
} gq_imatrix_row;
GQ_API const gq_imatrix_row *gq_imatrix_rows(const gq_imatrix *m, size_t *n); /* *n rows, sorted by name */

/* Gets the mean squared activations of one matrix of an entry (experts have one each), one per column:
 * importance for gq_encode. row: index in gq_imatrix_rows. n: the number of columns, the entry's values
 * divided by its matrices. If no token reached the matrix, all are 1. */
GQ_API bool gq_imatrix_columns(const gq_imatrix *m, size_t row, uint64_t matrix, float *to, size_t n,
                               gq_error *e);

/* The coverage of one weight of a model by importance data. */
typedef struct gq_imatrix_cover {
    const char *name;
    uint64_t columns, matrices;
    bool has_entry, fits; /* there is an entry of the weight's name; it has the weight's size */
    /* Matrices with a count of their own; of these, those that a token reached. */
    uint64_t experts, experts_seen;
    double smallest_count;
    uint64_t reserved[4];
} gq_imatrix_cover;
typedef struct gq_imatrix_coverage {
    size_t size;
    size_t n, n_unused;
    gq_imatrix_cover *weights; /* n of them: all weights that a quantizer would change */
    const char **unused;       /* names of n_unused entries that belong to no such weight */
    gq_model *model;           /* holds the names */
    size_t n_unknown;
    const char **unknown; /* of the unused names, in the same order, those of no tensor of the model */
} gq_imatrix_coverage;
GQ_API gq_imatrix_coverage *gq_imatrix_cover_model(const gq_imatrix *m, const char *model, gq_error *e);
GQ_API void gq_imatrix_coverage_free(gq_imatrix_coverage *coverage);

/* Adds b's sums and counts to a, so that each text counts by its tokens. After a failure a can only be freed.
 */
GQ_API bool gq_imatrix_merge(gq_imatrix *a, const gq_imatrix *b, gq_error *e);
/* Writes the GGUF layout, or else the .dat layout, as gq_write_whole does. */
GQ_API bool gq_imatrix_write(const gq_imatrix *m, const char *path, bool gguf, bool force, gq_error *e);

/* ---- a text as tokens ---- */
typedef struct gq_tokenizer gq_tokenizer;
/* Opens the tokenizer of a model, or of a GGUF that holds nothing but a vocabulary. Its ids are those of
 * llama.cpp. It knows vocabularies that merge by score or rank (tokenizer.ggml.model llama, gpt2, gemma4). */
GQ_API gq_tokenizer *gq_tokenizer_open(const char *path, gq_error *e);
GQ_API void gq_tokenizer_close(gq_tokenizer *t);
GQ_API const char *const *gq_tokenizer_warnings(const gq_tokenizer *t, size_t *n);

typedef struct gq_tokenize_options {
    size_t size;
    bool no_ends;       /* leave out BOS and EOS where the vocabulary has texts begin and end with them */
    bool parse_special; /* find control tokens in the text, too */
    /* In place of the text, which is NULL then: a file, which is read as far as the tokens need it */
    const char *file;
    uint64_t tokens;               /* the first so many; 0: all */
    uint64_t memory;               /* bytes of memory to stay within; 0: a quarter of the machine's */
    const gq_callbacks *callbacks; /* asked whether to stop; NULL: none */
} gq_tokenize_options;
typedef struct gq_tokens {
    uint32_t *ids; /* malloc'ed */
    size_t n;
    uint64_t bytes_dropped; /* bytes of the text for which the vocabulary has no token */
} gq_tokens;
/* Turns n bytes of text, which need not be UTF-8, into tokens. options may be NULL. Free *to with
 * gq_tokens_free. Memory grows with the ids, and with the longest word where a vocabulary cuts words by
 * patterns: a word that is too long for it is refused. */
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
    uint64_t memory; /* bytes of memory to stay within, as far as one window at a time allows; 0: a quarter of
                        the machine's. Ranks on one machine share it */
    const char *folder;  /* for a file of states that do not fit into memory; NULL: the current folder */
    const char *logits;  /* file for the original's logits as binary32, [token][vocabulary]; NULL: none */
    bool replace_logits; /* replace the files that logits are written to if they are there */
    const gq_callbacks *callbacks;
    /* llama.cpp's files of log-probabilities, 16 bits each, of its perplexity program's --kl-divergence-base.
     * base: one that takes the place of the original, which is NULL then, and of the text, of which only
     * `tokens` is read. Where the copies are such files, too, nothing is run, and any architecture will do;
     * the summary then names none. base_out: one to be written of the original's. NULL: none */
    const char *base, *base_out;
    /* The ranks that share the windows out among them; NULL: this process alone. They need one folder for
     * files that are written, and all get the figures that one process gets. It must outlive the call. */
    gq_comm *comm;
    bool forecast;  /* measure first how long it will take, for about a second, or some seconds where layers
                       are large and threads few: gq_progress.seconds_expected, and that of the summary */
    bool read_once; /* rank 0 reads the layers' weights and sends them to the others */
    /* Windows begin every `stride` tokens, 1 to one less than a window has, and the last `stride` tokens of
     * each are scored, so that each is predicted from at least the rest of a window: llama.cpp's strided
     * perplexity. Only the text begins with BOS. Not with base, base_out or logits. 0: windows follow one
     * another, and the second half of each is scored */
    uint32_t stride;
    /* File in which the scores of all models are kept for the next evaluation with the same original, text
     * and settings, and beside it, with the suffix .states, the original's states: so no model is run again
     * whose bytes are the same, and an evaluation that was stopped goes on. "": ORIGINAL.gquant-scores; NULL:
     * nowhere. Not with base, base_out, logits or comm */
    const char *scores_file;
} gq_evaluation_request;

typedef struct gq_estimate {
    double value, error; /* error: the standard error; NaN: unknown */
} gq_estimate;

enum { GQ_QUANTILES = 6 }; /* median, 90, 95, 99, 99.9 %, maximum */
typedef struct gq_evaluated {
    const char *path;
    const char *filetype; /* "": the file names none */
    uint64_t file_bytes, tensor_bytes, n_weights;
    gq_estimate perplexity;
    /* These compare a copy with the original; for the original they are 0. divergence: mean Kullback-Leibler
     * divergence of the next token's probabilities, in nats; quantiles: of the divergence over tokens. ratio:
     * the perplexity as a multiple of the original's. rms_change: root mean square change of the right
     * token's probability. same_top: share of positions where the likeliest token is the same. */
    gq_estimate divergence, ratio, rms_change, same_top;
    double quantiles[GQ_QUANTILES];
    uint64_t reserved[4];
} gq_evaluated;

typedef struct gq_evaluation gq_evaluation;
/* Runs the original and all copies side by side, layer by layer, and compares their predictions of the next
 * token. The second half of each window is scored, unless there is a stride. The copies must have the
 * original's architecture, shape and vocabulary. */
GQ_API gq_evaluation *gq_evaluate(const gq_evaluation_request *r, gq_error *e);
GQ_API void gq_evaluation_free(gq_evaluation *v);
/* The *n models: 0 is the original, its copies follow. */
GQ_API const gq_evaluated *gq_evaluation_models(const gq_evaluation *v, size_t *n);
/* The mean divergence of model a minus that of model b; both are copies. As both are scored at the same
 * positions, its error is smaller than theirs. */
GQ_API void gq_evaluation_difference(const gq_evaluation *v, size_t a, size_t b, gq_estimate *to);
typedef struct gq_evaluation_facts {
    size_t size;
    const char *architecture;
    uint32_t context;
    uint64_t windows, tokens, scored; /* `tokens` are run; `scored` of them are scored */
    uint64_t peak_bytes;              /* memory that is taken, at most */
    uint64_t state_bytes;             /* of all tokens' states, in memory or in a file */
    bool states_in_file;
    double seconds;
    double seconds_expected; /* 0: not measured */
    /* Of ranks: how many there are; windows of the rank that has most. peak_bytes and state_bytes are those
     * of the rank that has most, too. sent: bytes that a rank sends at most, but for layers that rank 0 reads
     * for all. */
    uint32_t ranks;
    uint64_t rank_windows, sent;
    uint32_t stride; /* as it was asked for */
} gq_evaluation_facts;
GQ_API const gq_evaluation_facts *gq_evaluation_summary(const gq_evaluation *v);
/* Opens and checks the models and cuts the text into windows, but runs nothing. Only the summary and the
 * warnings of the result mean something. */
GQ_API gq_evaluation *gq_evaluation_plan(const gq_evaluation_request *r, gq_error *e);
GQ_API const char *const *gq_evaluation_warnings(const gq_evaluation *v, size_t *n);
/* Checks that the outputs of a plan, which need not exist yet, can be run and compared with its input: with
 * the result that gq_evaluate will have once they exist. */
GQ_API bool gq_evaluation_check(const gq_plan *plan, gq_error *e);

/* ---- tables and charts of files ---- */
typedef struct gq_page_row {
    const char *path; /* of the file, or of its first shard; its name alone is shown */
    const char *type; /* "Q4_K_M": the point's name in the chart */
    uint64_t file_bytes;
    double bits;                   /* per weight; 0: not known */
    const gq_evaluated *evaluated; /* NULL: it was not */
    double relative_error;         /* of the weights; NaN: not measured */
    double reads, generates;       /* tokens per second, of a prompt and of an answer; 0: not measured */
    uint64_t reserved[4];
} gq_page_row;
typedef struct gq_page {
    size_t size;
    const gq_page_row *rows; /* n of them, in any order: the largest file is shown first */
    size_t n;
    const gq_evaluated *original; /* set both if any row is evaluated, else none */
    const gq_evaluation_facts *evaluation;
    uint64_t memory;        /* bytes that a file takes besides itself to run; 0: no column of memory */
    bool errors;            /* a column of relative errors, where any is known */
    const char *speed_note; /* sentence on how speed was measured; NULL: none */
} gq_page;
/* Returns the table in Markdown, or as a <table> of HTML, with notes on its columns below; malloc'ed. */
GQ_API char *gq_page_table(const gq_page *page, bool html, gq_error *e);
/* Returns a chart of divergence, or else of relative errors, against size: SVG for light and dark pages;
 * malloc'ed. */
GQ_API char *gq_page_chart(const gq_page *page, gq_error *e);

/* ---- what fits a machine: all file types planned ---- */
typedef struct gq_survey_request {
    size_t size;
    /* As for gq_plan_new, but for the outputs and what concerns them, which are left out. With a calibration
     * the model is tried on its text, and divergences are foretold; nothing is calibrated. */
    const gq_options *options;
    uint64_t context;   /* tokens to have memory for; 0: as gq_model_memory does */
    uint64_t ram;       /* bytes of memory that the machine has; 0: not given */
    const char *folder; /* for measurements that cannot be kept beside the model; NULL: /tmp */
    uint64_t reserve;   /* bytes of `ram` for the system and other programs; 0: an eighth, at most 8 GiB;
                           UINT64_MAX: none */
} gq_survey_request;
typedef struct gq_choice {
    const char *name;     /* of the file type */
    const char *made_for; /* the only kind of models that it suits; "": any */
    uint64_t file_bytes;
    uint64_t memory_bytes; /* of weights, keys and values of the context, and buffers */
    double bits;           /* per weight */
    double expected;       /* divergence as in gq_summary; NaN: not known */
    bool fits;             /* into `ram`, beside what is reserved */
    bool best;             /* the one to take: of the advised types that fit, the largest */
    bool needs_importance; /* can only be made with importance data, which were not given; never the best */
    uint64_t reserved[4];
} gq_choice;
typedef struct gq_curve_point {
    uint64_t file_bytes; /* to ask for as a target */
    uint64_t memory;     /* bytes of a machine for which it is the best; 0: only a point of the curve */
    double expected;     /* divergence; NaN: not known */
    uint64_t reserved[4];
} gq_curve_point;
typedef struct gq_survey_facts {
    size_t size;
    uint64_t context, context_trained;  /* tokens, as in gq_memory */
    uint64_t cache_bytes, buffer_bytes; /* likewise */
    const char *quantized;   /* tensor type of most of a model that is quantized already; NULL: it is not */
    const char *dequantized; /* the same of a folder whose type GGUF does not have; NULL: it is not */
    uint64_t target;         /* bytes that `ram` leaves for a file, beside what is reserved */
    uint64_t smallest; /* bytes of about the smallest file that a target can make; 0: not known, or some type
                          fits */
    uint64_t reserve;  /* bytes of `ram` that are left to the system; 0: none, or there is no `ram` */
} gq_survey_facts;
typedef struct gq_survey gq_survey;
/* Plans each file type, and with a calibration mixes of several sizes. NULL: the file is no model, or these
 * options do not fit it. */
GQ_API gq_survey *gq_survey_new(const gq_survey_request *r, gq_error *e);
GQ_API void gq_survey_free(gq_survey *s);
GQ_API const gq_survey_facts *gq_survey_summary(const gq_survey *s);
/* *n file types, smallest file first. Of a model that is quantized already only those that make it smaller.
 */
GQ_API const gq_choice *gq_survey_choices(const gq_survey *s, size_t *n);
GQ_API const gq_curve_point *gq_survey_curve(const gq_survey *s, size_t *n); /* smallest first */
GQ_API const char *const *gq_survey_warnings(const gq_survey *s, size_t *n);

/* ---- a folder to publish ---- */
typedef struct gq_publish_request {
    size_t size;
    /* Outputs without a path, in the folder out_dir, which must exist. No output: a ladder alone. With
     * dry_run nothing is written. */
    const gq_options *options;
    /* File name with {type}, and maybe {model}, that ends in .gguf; NULL: {model}-{type}.gguf. */
    const char *name;
    bool ladder; /* besides, the best mix for each common size of memory, from 4 to 256 GB */
    const char *base_model, *license,
        *quantized_by; /* for the page; NULL: what the model says, if anything */
    const char *how;   /* line that makes the folder again, shown as code; NULL: none */
    /* The text to evaluate on and what goes with it; the files are put in. NULL: nothing is evaluated. */
    const gq_evaluation_request *evaluation;
    const char *speeds; /* what llama-bench measured, its output as JSON, JSON lines or CSV; NULL: nothing */
    const gq_callbacks *callbacks;
    /* Called before and after each part of the work, for programs that show it; each may be NULL. phase:
     * "plan", "verify" (of what is there), "quantize" (plan: what is made now), "evaluate" or "checksums",
     * with which the page is written. gq_progress.share and seconds_left are those of the whole call, all
     * else is of the part at work. failure: NULL, it went well. kept: a file is there and whole, and is not
     * made again. */
    void *user;
    void (*begins)(void *user, const char *phase, const gq_plan *plan);
    void (*ends)(void *user, const char *phase, const gq_error *failure);
    void (*kept)(void *user, const char *path);
} gq_publish_request;
typedef struct gq_publication gq_publication;
/* Makes the files that are not there yet, evaluates all, and writes README.md, divergence.svg and SHA256SUMS
 * into the folder. A README.md that this library has not written is replaced only with options->force.
 * NULL: *e says why; what is whole stays and counts the next time. */
GQ_API gq_publication *gq_publish(const gq_publish_request *r, gq_error *e);
GQ_API void gq_publication_free(gq_publication *p);
/* The plan of all files, made now or before. */
GQ_API const gq_plan *gq_publication_plan(const gq_publication *p);
GQ_API size_t gq_publication_made(const gq_publication *p);                     /* files made by this call */
GQ_API const gq_evaluation *gq_publication_evaluation(const gq_publication *p); /* NULL: there is none */
GQ_API const char *const *gq_publication_warnings(const gq_publication *p, size_t *n);

/* ---- making importance data ---- */
typedef struct gq_importance_request {
    size_t size;
    const char *model;
    const gq_text *texts; /* one or more, each cut into windows by itself; the context and tokens of the first
                             hold for all together */
    size_t n_texts;
    const char *out; /* path of the file that gets the data; dat: in the .dat layout, not the GGUF layout */
    bool dat;
    bool force;           /* replace a file that is there */
    bool output;          /* make data of the output matrix, too */
    uint32_t part, parts; /* only the part-th (1..parts) share of the windows; 0, 0: all */
    int threads;          /* 0: one per core */
    /* Bytes of memory to stay within, also where a layer does not fit; less than a single window needs is
     * refused. 0: a quarter of the machine's. Ranks on one machine share it. */
    uint64_t memory;
    /* The ranks that share the windows out among them; NULL: this process alone. They need one folder for
     * `out`, and get the bytes that one process gets. It must outlive the plan. */
    gq_comm *comm;
    bool forecast;  /* measure how long it will take, for about a second, or some seconds where layers are
                       large and threads few: gq_importance_facts.seconds_expected */
    bool read_once; /* rank 0 reads the layers' weights and sends them to the others */
    const char *arithmetic;        /* of products, as in gq_calibration: "float32" (NULL) or "bf16" */
    bool dry_run;                  /* only the plan: `out` may exist, and its folder may be missing */
    const gq_callbacks *callbacks; /* asked whether to stop while the texts become tokens, and told that a
 sample is measured; NULL: none */
} gq_importance_request;

typedef struct gq_importance_plan gq_importance_plan;
/* Turns the texts into tokens and reads the model's headers. What the request points to is not needed
 * afterwards. */
GQ_API gq_importance_plan *gq_importance_plan_new(const gq_importance_request *r, gq_error *e);
GQ_API void gq_importance_plan_free(gq_importance_plan *p);
typedef struct gq_importance_facts {
    size_t size;
    const char *architecture;
    uint32_t context;
    uint64_t windows, tokens;         /* windows and tokens of this part */
    uint64_t layers, layers_finished; /* by an earlier run, which will be continued */
    uint64_t windows_at_once;
    uint64_t memory;     /* bytes that the process takes at most */
    uint64_t disk;       /* bytes beside the output until it is done */
    bool states_in_file; /* they do not fit into memory beside what is run at once */
    /* Of ranks: how many there are; windows of the rank that has most. `memory` is that of the rank that
     * needs most. sent, sent_layer: bytes that a rank sends at most, in all and for one layer. */
    uint32_t ranks;
    uint64_t rank_windows, sent, sent_layer;
    double seconds_expected; /* that the layers left take; 0: not measured */
    const char *arithmetic;  /* of products: "float32" or "bf16" */
} gq_importance_facts;
GQ_API const gq_importance_facts *gq_importance_summary(const gq_importance_plan *p);
GQ_API const char *const *gq_importance_warnings(const gq_importance_plan *p, size_t *n);
/* Runs the model, a layer at a time, writes the file, and returns the data, which the caller frees. What an
 * interrupted run has finished is kept beside the file, and the same request continues from there, also with
 * another number of ranks. Of ranks only rank 0 gets the data; the others get an object without entries.
 * callbacks may be NULL. */
GQ_API gq_imatrix *gq_importance_compute(gq_importance_plan *p, const gq_callbacks *callbacks, gq_error *e);

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
/* Writes n bytes to a file, which gets its name when it is whole and on disk. gq_check_target says whether it
 * may. */
GQ_API bool gq_write_whole(const char *path, bool replace, const void *bytes, size_t n, gq_error *e);
/* Frees what is said to be malloc'ed, for languages that have no free(). memory may be NULL. */
GQ_API void gq_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
