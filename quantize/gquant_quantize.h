/* Quantizing a model: what is asked for, the plan of it, and the run that writes the files.
 *
 *     options -> gq_plan_new -> gq_run -> gq_results
 *
 * A plan is all that is known before a weight is read: the type of each tensor, sizes, warnings. It does not
 * change. A run reads the input once for all outputs. One that was stopped continues when the same is asked
 * again. Errors, ownership and threads are as gquant.h says.
 */
#pragma once

#include "base/comm/comm.h"
#include "gquant_common.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* Calibration: the model runs on a text, and each matrix is rounded by its inputs there. The columns of a
 * matrix make up for the rounding errors of the columns before them, and for errors of earlier layers.
 * docs/calibration.md says more. */
enum { GQ_CALIBRATION_TOKENS = 65536 };
typedef struct gq_calibration {
    size_t size;
    /* tokens 0: GQ_CALIBRATION_TOKENS. Of a longer text the windows lie at even distances, and beyond 1 MB
     * (or 16 bytes a token) in 64 pieces at even distances, but from the beginning on where such pieces have too
     * few tokens; ids are taken in their order. Not needed any more when gq_plan_new has returned */
    gq_text text;
    bool random; /* in place of a text: tokens drawn from the vocabulary, the same for the same model. `text`
                     then has no bytes, but its context and tokens hold */
    /* Shares from 0 to 1. In these members 0 stands for the default, and a negative number for 0. */
    float correction; /* share of earlier layers' errors that is compensated; default: half of what fits the
                         held-out tokens of each matrix, at most T / (T + 3 n) for T tokens and n columns */
    float damp;       /* share of a column's mean square that is added to it; default 0.01 */
    float shrink;     /* how far different columns' inputs are taken for independent; default 0.3 */
    uint64_t memory; /* bytes of memory to stay within; 0: 12 GiB, or a quarter of the machine's where that is
                         more. With little memory rounding gets worse, and the plan warns of it */
    /* Steps that are done, separated by commas: NAME or +NAME adds a step, -NAME takes one away, `all`,
     * `none` and `default` stand for several. A list that begins with a sign changes the default, any other
     * one begins with nothing. docs/calibration.md names them. NULL: the default */
    const char *steps;
    /* The arithmetic of Hessians, of products of weights with activations and of products over many columns in
     * rounding: "float32" (NULL), or "bf16", which takes a fraction of the time where the processor has AMX, and
     * elsewhere up to a third more, with the same bytes on all processors */
    const char *arithmetic;
    /* The seconds that gq_run may take on this machine; 0: no limit. The best calibration is then planned whose
     * forecast is within it: text.tokens is what is used at most, 262,144 if it is 0; `steps` must be NULL. What was
     * chosen is in gq_calibration_facts; the bytes are those of a plan that asks for it. An unfinished run is
     * continued as it was begun. A machine that is too slow for the least calibration is a usage error. */
    double seconds;
} gq_calibration;

typedef struct gq_options {
    size_t size;
    const char *input; /* a GGUF, or any shard of a split one */
    const gq_output *outputs;
    size_t n_outputs;
    const char *out_dir; /* folder for outputs without a path; NULL: the input's. It must exist, except for a
                            dry run */
    const char *imatrix; /* imatrix file; NULL: none */
    int threads;         /* 0: one per core */
    int effort;          /* GQ_EFFORT_* */
    /* pure: all tensors get the base type of the file type, instead of its mix. strict: a fallback is an
     * error. force: outputs replace files that are there. allow_requantize: tensors of the input may be
     * quantized already. leave_output_tensor: output.weight stays as it is. */
    bool pure, strict, force, allow_requantize, leave_output_tensor;
    const char *output_tensor_type, *token_embedding_type; /* tensor types by name; NULL: by the mix */
    const char *missing_importance; /* type for tensors whose own type needs an imatrix and that have
                                       none; NULL: these are an error */
    gq_list tensor_types;           /* "PATTERN=TYPE", first match wins */
    gq_list keep;                   /* patterns of tensors that stay as they are */
    /* Texts. include: only imatrix data whose names contain one of them are used. exclude: imatrix data
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
    const char *measure_file; /* file in which a target's measurements are saved for the next run; NULL:
                                 INPUT.gquant-measure; "": nowhere */
    const gq_callbacks *callbacks; /* called while the plan measures; NULL: none */
    uint32_t sync_ms; /* milliseconds after which gq_run makes finished work safe from a crash; 0: 2,000 */
    const gq_calibration *calibration; /* NULL: none. Not together with an imatrix */
    gq_list
        transpose; /* patterns of matrices to write transposed (docs/internals/formats.md), or back if they are
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
     * run would make of it again, by the digests in their metadata: its source, type, settings and imatrix
     * data are the same, and it was made by this very build. Outputs are the same with and without. An output
     * may replace such a file. */
    gq_list reuse;
    bool no_digests; /* leave the key gquant.digests out of the outputs' metadata */
    /* Measures how long a calibration will take, for about a second, or some seconds if layers are large and
     * threads few; the result is gq_calibration_facts.seconds_expected. With a target, or with `foretell`, the
     * trials' time is measured before them, too: gq_progress.seconds_expected. */
    bool forecast;
    /* Measure as for a target, for outputs without one, too, so that summaries have the KL divergence to
     * expect. It needs a calibration, whose text the trials run on; the measurements are those of a target. */
    bool foretell;
    /* The ranks that share a calibration's work; NULL: this process alone. They need one folder for outputs,
     * all get the same options, and rank 0 alone writes the files, which have the bytes that one process
     * gives them. It must outlive the plan. */
    gq_comm *comm;
    bool read_once; /* rank 0 reads the layers that are calibrated and sends them to the others */
    /* With dry_run: types and sizes as if there were imatrix data of every tensor. */
    bool assume_importance;
    /* Patterns of tensors that the input may lack. Without them a model whose architecture is known has to
     * have all tensors that every such model has; one that is missing then is a warning. */
    gq_list allow_missing;
    /* Adapters that are merged into the input, a folder, as it is read; of a draft's folder, its target. With
     * `model` they are those that it was opened with. */
    gq_adapters adapters;
    /* MTP layers: leave them out; or write a draft's file, which has nothing but these, the embedding, the last
     * norm and the output matrix, under the metadata of the whole model. Both as llama.cpp's converter does. */
    bool no_mtp, mtp_only;
    /* Writes the multimodal projector (mmproj) of a folder from Hugging Face in place of its text model, as
     * llama.cpp's converter makes it. Types are F32, F16, BF16 and Q8_0. Of adapters it takes what changes it. */
    bool projector;
    /* Matrices of layers that tensor_types make NVFP4 are written times a power of two, and beside each a
     * tensor NAME.scale with its inverse, by which runtimes multiply what the matrix gives. */
    bool tensor_scales;
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
/* Returns the parts of the input's folder that the outputs leave out, or that only some programs use: *n parts. */
typedef struct gq_beside {
    const char *kind;   /* "vision", "audio", "speech"; "prediction": blocks that predict further tokens */
    uint64_t n;         /* arrays; of the last kind, blocks */
    uint64_t bytes;     /* 0: not counted */
    bool is_in_outputs; /* the others: a projector has the vision and audio encoders (gq_options.projector) */
} gq_beside;
GQ_API const gq_beside *gq_plan_beside(const gq_plan *plan, size_t *n);
/* The file that a target's measurements came from, or that keeps them now; NULL: there is none. */
GQ_API const char *gq_plan_measure_file(const gq_plan *plan);
/* Seconds that it took to make the plan; with a target, mostly for measuring. */
GQ_API double gq_plan_seconds(const gq_plan *plan);
typedef struct gq_calibration_facts {
    size_t size;
    const char *text; /* the text's name, without folders; NULL: tokens drawn at random */
    uint32_t context;
    uint64_t windows, tokens;                  /* of conversations: tokens that count */
    GQ_RENAMED(uint64_t, held_out, held_back); /* windows, of these, that only validate */
    uint64_t columns;                          /* of the widest matrix */
    uint64_t width;    /* columns considered together; less than `columns` where memory is short */
    double per_column; /* tokens per column of the matrix that has the fewest */
    uint64_t layers, layers_finished; /* by an earlier run, which will be continued */
    uint64_t windows_at_once, experts_at_once;
    uint64_t memory; /* bytes that the process takes at most */
    uint64_t disk;   /* bytes beside the outputs until they are done */
    /* Hidden states do not fit into memory beside a batch. */
    GQ_RENAMED(bool, hidden_states_in_file, states_in_file);
    double work;           /* floating-point operations, approximately */
    bool has_trials;       /* there is a target, for which trials may be run */
    uint64_t trial_layers; /* layers in which the effect of each tensor's error on the predictions is tried;
                              0: none, it is estimated */
    const char *steps;     /* names of the steps that are done, separated by ", "; "none" */
    double
        seconds_expected; /* seconds of a whole run, without the layers that are finished; 0: not measured */
    uint64_t tokens_advised; /* with fewer tokens of text a longer one would make a better file */
    /* With ranks: their number; the windows of the rank that has most. `memory` is that of the rank that needs most.
     * What ranks send is reported as they work: gq_progress.sent_layer. */
    uint32_t ranks;
    uint64_t rank_windows;
    /* Bytes of `memory` and of `disk` with inputs of matrices that are cached so that nothing is run twice.
     * What does not get them on disk is run again, and the file is the same. */
    uint64_t inputs_memory, inputs_disk;
    const char *arithmetic; /* of Hessians and products: "float32" or "bf16" */
    /* With gq_calibration.seconds: the steps that were left out to meet it, in the form of gq_calibration.steps ("":
     * none); else NULL. `tokens` were chosen, too. */
    const char *left_out;
} gq_calibration_facts;
GQ_API const gq_calibration_facts *gq_plan_calibration(const gq_plan *plan); /* NULL: there is none */
/* Returns the seconds that gq_run will take, about: those of a calibration as they were measured with
 * gq_options.forecast, all else at the speeds of a usual processor. */
GQ_API double gq_plan_run_seconds(const gq_plan *plan);
/* Estimates of a run's time, memory and disk space. */
typedef struct gq_needs {
    size_t size;
    double seconds;
    uint64_t memory; /* bytes that the process takes at most */
    uint64_t
        disk; /* bytes of the outputs and of what lies beside them until they are done, beyond what is there */
    uint64_t disk_free; /* bytes that are free where the first output goes; UINT64_MAX: not known */
} gq_needs;
GQ_API void gq_plan_needs(const gq_plan *plan, gq_needs *to);
/* The tokens of the text's windows, one window after another, as the model runs on them: *n of them. Another
 * plan of the model that is given them as gq_text.ids has the same windows. NULL and 0: no calibration, or
 * one on conversations, whose ids alone would not do. */
GQ_API const uint32_t *gq_plan_calibration_ids(const gq_plan *plan, uint64_t *n);
/* Returns how many of an output's tensors gq_run would copy from earlier outputs (gq_options.reuse) if their
 * sources have not changed, which only reading them shows; *bytes: what they take in it. */
GQ_API uint64_t gq_plan_reusable(const gq_plan *plan, size_t output, uint64_t *bytes);
/* The relation of an earlier file to the plan by its header; gq_check_earlier reads the whole file. */
typedef enum gq_earlier {
    /* the earlier file has other types, metadata, settings, imatrix data or calibration */
    GQ_EARLIER_OTHER,
    GQ_EARLIER_IN_DOUBT, /* nothing speaks against it, but the input was modified after it */
    GQ_EARLIER_SAME,
} gq_earlier;
GQ_API gq_earlier gq_plan_compare_earlier(const gq_plan *plan, size_t output, const struct gq_model *earlier);
/* Returns the types of an output's tensors as the text of a recipe file. With it, any file type that
 * quantizes gives the same types: it has items for all tensors whose type a file type decides. malloc'ed;
 * NULL: no memory. */
GQ_API char *gq_plan_recipe(const gq_plan *plan, size_t output, gq_error *e);

/* ---- the work ---- */
/* The result of calibrating a tensor W, which became Q. The sums are over held-out tokens; X are the
 * tensor's inputs in the base model, Y those in the rounded one. */
typedef struct gq_rounding {
    uint64_t matrices;  /* 0: was not calibrated; all that follows is zero, and `why` "" */
    uint64_t plain;     /* matrices that were encoded plainly, as `why` says */
    uint64_t unchecked; /* matrices that no held-out token reached, so that nothing was compared */
    double power;       /* |X W|^2 */
    GQ_RENAMED(double, plain_error, searched); /* |X W - Y Q|^2 of plain encoding */
    double written;                            /* the same as written */
    uint64_t codes;
    GQ_RENAMED(uint64_t, clipped, ends); /* codes at an end of their range because the weight lay beyond it */
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
    const char *what; /* description in a few words */
    bool on;
    uint64_t matrices; /* on which it was tried */
    uint64_t kept;     /* matrices that were written with the step */
    /* The number of these matrices whose error was measured on held-out tokens without and with the step, and sums of
     * their relative squared errors in the metric that the step minimizes. For the step "validation" they are mean KL
     * divergences on held-out windows, in nats (1 - cosine where the model gives embeddings): of plain encoding, and
     * of what was written. */
    uint64_t compared;
    double without, with;
    uint64_t reserved[4];
} gq_step;

typedef struct gq_results gq_results;
/* Carries a plan out: writes all outputs and measures what was lost. callbacks may be NULL, and so may
 * results. *results gets what the run has found, also after a failure, as far as it came; NULL: there was no
 * memory for it. The caller frees it.
 *
 * On failure no output has its name, unless all files were whole already and only some lacked their names.
 * Where the message says that the same command continues from what is done, so does gq_run with this plan.
 * Signals are left as they are: a file that RLIMIT_FSIZE forbids is a failure before the work, no SIGXFSZ. */
GQ_API bool gq_run(const gq_plan *plan, const gq_callbacks *callbacks, gq_results **results, gq_error *e);
/* Reads sources and earlier outputs (gq_options.reuse) as gq_run does first, and writes nothing, also of a
 * dry run's plan. The results have what gq_run would copy: gq_results_reused. NULL: it failed. */
GQ_API gq_results *gq_reuse_check(const gq_plan *plan, const gq_callbacks *callbacks, gq_error *e);
/* The file that exists under an output's name. */
typedef struct gq_found {
    bool is_there;
    bool is_whole; /* the file is, byte by byte, what gq_run would write */
    /* why a file that is there is not whole: text is a clause, "it was made without an imatrix" */
    gq_error why;
} gq_found;
/* Says of each output of a plan, also of a dry run's, whether the file under its name is what gq_run would
 * write. Headers are compared; tensors, and the sources that they were made of, are read, and checked by the
 * digests, by the sources' own bytes, and by encoding a sixteenth of the weights; all of them where the file
 * has no digests. Of calibrated tensors the file has a checksum of all the model's weights. A transposed
 * tensor does not say what weights it was made of: such a file must be younger than the input's. found: one
 * per output. false: memory or reading failed. */
GQ_API bool gq_check_earlier(const gq_plan *plan, gq_found *found, const gq_callbacks *callbacks,
                             gq_error *e);
/* Removes what stopped runs have left beside an output that is whole: unfinished files, journals, hidden states.
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
/* Relative error of a tensor's outputs: sqrt(plain_error / power), and sqrt(written / power); NaN: unknown. */
GQ_API double gq_rounding_plain(const gq_rounding *r);
#define gq_rounding_searched gq_rounding_plain /* its name in version 0.1 */
GQ_API double gq_rounding_written(const gq_rounding *r);
/* Returns how many of an output's tensors were copied from earlier outputs (gq_options.reuse); *bytes: what
 * they take in it. */
GQ_API uint64_t gq_results_reused(const gq_results *r, size_t output, uint64_t *bytes);
/* The progress of the run, the part of it that an earlier run had done, and the seconds of the whole call. `tensor`
 * is NULL. */
GQ_API const gq_progress *gq_results_progress(const gq_results *r);
/* Things that the user should know about the run, one sentence each. */
GQ_API const char *const *gq_results_warnings(const gq_results *r, size_t *n);

#ifdef __cplusplus
}
#endif
