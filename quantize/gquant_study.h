/* Runs models on a text: its tokens, imatrix files, and the evaluation of quants.
 *
 *     gq_text text = {.name = "text.txt"};
 *     gq_importance_request r = {.size = sizeof r, .model = "F16.gguf", .out = "imat.gguf"};
 *     r.texts = &text, r.n_texts = 1;
 *     gq_importance_plan *p = gq_importance_plan_new(&r, &e); // tokens, sizes, the time to expect
 *     gq_imatrix *m = gq_importance_compute(p, NULL, &e);     // continues from where a run was stopped
 *     gq_evaluation_request v = {.size = sizeof v, .base_model = "F16.gguf", .text = text};
 *     v.quants = (const char *[]){"Q4_K_M.gguf"}, v.n_quants = 1;
 *     gq_evaluation *found = gq_evaluate(&v, &e);
 *
 * A model runs a layer at a time, within the memory that the request allows. Figures and files are the same for
 * any number of threads and ranks. Errors, ownership and threads are as gquant.h says.
 */
#pragma once

#include "gquant_inspect.h"
#include "gquant_quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a text as tokens ---- */
typedef struct gq_tokenizer gq_tokenizer;
/* Opens the tokenizer of a model, or of a GGUF that holds nothing but a vocabulary. Its ids are those of
 * llama.cpp. It knows vocabularies that merge by score or rank, those of words
 * cut into the longest tokens, and unigrams (tokenizer.ggml.model llama, gpt2, gemma4, bert, t5). */
GQ_API gq_tokenizer *gq_tokenizer_open(const char *path, gq_error *e);
/* The same of a folder with adapters (NULL: none), which may have a tokenizer of their own. */
GQ_API gq_tokenizer *gq_tokenizer_open_adapted(const char *path, const gq_adapters *adapters, gq_error *e);
GQ_API void gq_tokenizer_close(gq_tokenizer *t);
GQ_API const char *const *gq_tokenizer_warnings(const gq_tokenizer *t, size_t *n);

typedef struct gq_tokenize_options {
    size_t size;
    bool no_ends;       /* leave out BOS and EOS where the vocabulary has texts begin and end with them */
    bool parse_special; /* find control tokens in the text, too */
    /* A file in place of the text, which is NULL then; read as far as the tokens need it */
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

/* ---- imatrix data as a thing of its own ---- */
typedef struct gq_imatrix gq_imatrix;
GQ_API gq_imatrix *gq_imatrix_open(const char *path, gq_error *e); /* checks the values, too */
GQ_API void gq_imatrix_free(gq_imatrix *m);

typedef struct gq_imatrix_facts {
    size_t size;
    bool legacy;                      /* the file has the .dat layout, whose counts are calls, not tokens */
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

/* The coverage of one weight of a model by imatrix data. */
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

/* Adds b's sums and counts to a, so that each text counts by its tokens. After a failure free a. */
GQ_API bool gq_imatrix_merge(gq_imatrix *a, const gq_imatrix *b, gq_error *e);
/* Writes the GGUF layout, or else the .dat layout, as gq_write_whole does. */
GQ_API bool gq_imatrix_write(const gq_imatrix *m, const char *path, bool gguf, bool force, gq_error *e);

/* ---- making an imatrix ---- */
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
    gq_adapters adapters;          /* merged into the model */
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
    uint64_t memory; /* bytes that the process takes at most */
    uint64_t disk;   /* bytes beside the output until it is done */
    /* Hidden states do not fit into memory beside a batch. */
    GQ_RENAMED(bool, hidden_states_in_file, states_in_file);
    /* With ranks: their number; the windows of the rank that has most. `memory` is that of the rank that needs most.
     * What ranks send is reported as they work: gq_progress.sent_layer. */
    uint32_t ranks;
    uint64_t rank_windows;
    double seconds_expected; /* seconds of the layers that are left; 0: not measured */
    const char *arithmetic;  /* of products: "float32" or "bf16" */
    bool
        is_whole; /* the file already exists, and is what gq_importance_compute would write, which then returns it */
} gq_importance_facts;
GQ_API const gq_importance_facts *gq_importance_summary(const gq_importance_plan *p);
GQ_API const char *const *gq_importance_warnings(const gq_importance_plan *p, size_t *n);
/* Runs the model, a layer at a time, writes the file, and returns the data, which the caller frees. What an
 * interrupted run has finished is kept beside the file, and the same request continues from there, also with
 * another number of ranks. Of ranks only rank 0 gets the data; the others get an object without entries.
 * callbacks may be NULL. */
GQ_API gq_imatrix *gq_importance_compute(gq_importance_plan *p, const gq_callbacks *callbacks, gq_error *e);

/* ---- running a model on a text ---- */
/* A question with several choices: plain text, UTF-8. Each choice follows the question behind a space. */
typedef struct gq_question {
    const char *text;
    const char *const *choices; /* 2 to GQ_CHOICES of them */
    size_t n_choices;
    size_t answer; /* the number of the right one, from 0 on */
} gq_question;
enum { GQ_CHOICES = 64 };

typedef struct gq_evaluation_request {
    size_t size;
    GQ_RENAMED(const char *, base_model, original);
    GQ_RENAMED(const char *const *, quants, copies); /* none or more */
    GQ_RENAMED(size_t, n_quants, n_copies);
    gq_text text;
    int threads;     /* 0: one per core */
    uint64_t memory; /* bytes of memory to stay within, as far as one window at a time allows, with a warning
                        where it does not; 0: a quarter of the machine's. Ranks on one machine share it */
    const char
        *folder; /* for a file of hidden states that do not fit into memory; NULL: the current folder */
    const char *logits;  /* file for the base model's logits as binary32, [token][vocabulary]; NULL: none */
    bool replace_logits; /* replace the files that logits are written to if they are there */
    const gq_callbacks *callbacks;
    /* llama.cpp's files of log-probabilities, 16 bits each, of its perplexity program's --kl-divergence-base.
     * base: one that takes the place of the base model, which is NULL then, and of the text, of which only
     * `tokens` is read. Where the quants are such files, too, nothing is run, and any architecture will do;
     * the summary then names none. base_out: one to be written of the base model's. NULL: none */
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
    /* File in which the scores of all models are saved for the next evaluation with the same base model, text and
     * settings, and beside it, with the suffix .states, the base model's hidden states: so no model is run again
     * whose bytes are the same, and an evaluation that was stopped continues. "": BASE.gquant-scores; NULL: nowhere.
     * Not with base, base_out, logits or comm */
    const char *scores_file;
    gq_adapters
        adapters; /* merged into the base model; the quants are as they are. target: of the draft's folder */
    /* The number of prompts, beginnings of windows or of conversations, that are continued greedily; 0: none. Like
     * questions not with base, nor comm, nor for encoders. */
    uint32_t prompts;
    const gq_question *questions;
    size_t n_questions;
    /* A smaller model that drafts tokens: gq_evaluation_drafted reports how much each model accepts.
     * One of the same vocabulary, or a draft of this model (EAGLE-3, DFlash, DSpark, an assistant of Gemma
     * 4): a file, or a folder, which takes its vocabulary from adapters.target or from the base model, if
     * that is a folder. NULL: none. Not with base, comm or stride, nor for encoders. */
    const char *draft;
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
    /* Comparison of a quant with the base model; 0 for the base model. kld: mean Kullback-Leibler divergence of the
     * next token's probabilities, in nats; quantiles: of the KL divergence over tokens. ratio: the perplexity as a
     * multiple of the base model's. rms_change: root mean square change of the right token's probability.
     * top1_agreement: share of positions where the likeliest token is the same. */
    GQ_RENAMED(gq_estimate, kld, divergence);
    gq_estimate ratio, rms_change;
    GQ_RENAMED(gq_estimate, top1_agreement, same_top);
    double quantiles[GQ_QUANTILES];
    /* The acceptance rate of the model's first MTP layer: how often its first choice is the model's own, for both
     * models; NaN: no MTP layer is run. */
    gq_estimate acceptance;
    uint64_t reserved[2];
} gq_evaluated;

typedef struct gq_evaluation gq_evaluation;
/* Runs the base model and all quants side by side, layer by layer, and compares their predictions of the next
 * token. The second half of each window is scored, unless there is a stride. The quants must have the
 * base model's architecture, shape and vocabulary. */
GQ_API gq_evaluation *gq_evaluate(const gq_evaluation_request *r, gq_error *e);
GQ_API void gq_evaluation_free(gq_evaluation *v);
/* The *n models: 0 is the base model, its quants follow. */
GQ_API const gq_evaluated *gq_evaluation_models(const gq_evaluation *v, size_t *n);
/* The mean KL divergence of model a minus that of model b; both are quants. As both are scored at the same
 * positions, its error is smaller than theirs. */
GQ_API void gq_evaluation_difference(const gq_evaluation *v, size_t a, size_t b, gq_estimate *to);

/* A mean, and the interval in which it is with another text of the same kind 19 times of 20: from a
 * bootstrap, which draws whole windows with replacement, since positions of a window are alike. The draws are
 * the same each time. low and high are NaN where there are fewer than 4 windows. */
typedef struct gq_interval {
    double value, low, high;
    uint64_t windows; /* or prompts, questions */
} gq_interval;
enum { GQ_BOOTSTRAP_DRAWS = 2000 };
typedef enum gq_statistic {
    GQ_KLD,
    GQ_CHANGED_TOP1, /* share of positions at which the likeliest token is another than the base model's */
    GQ_NLL,          /* -log p of the right token, in nats: the logarithm of the perplexity */
    GQ_DIVERGENCE = GQ_KLD, /* names of version 0.1, which work for one release */
    GQ_FLIPS = GQ_CHANGED_TOP1,
    GQ_SURPRISE = GQ_NLL,
} gq_statistic;
/* Gets a statistic of model a; or, with a quant b, by how much it is more than b's, on the same windows. b 0:
 * a itself; of the NLL that of the base model can be a, too. */
GQ_API bool gq_evaluation_interval(const gq_evaluation *v, gq_statistic of, size_t a, size_t b,
                                   gq_interval *to, gq_error *e);

/* Figures of positions that are predicted from more than `from` tokens, and at most `to` of them. */
enum { GQ_DEPTHS = 4 }; /* up to 512, 4,096, 32,768, and more */
typedef struct gq_depth {
    uint32_t from, to;
    uint64_t scored;
    double perplexity;
    GQ_RENAMED(double, kld, divergence);
    GQ_RENAMED(double, changed_top1, flips);
} gq_depth;
/* Fills to[] for a model; returns how many depths have scored positions. */
GQ_API size_t gq_evaluation_depths(const gq_evaluation *v, size_t model, gq_depth to[GQ_DEPTHS]);

/* The one scale of quality: what a quantized model's KL divergence from its base model and its share of
 * changed top-1 tokens come to. The upper ends of the 95 % intervals decide; without an interval the value
 * itself does. */
typedef enum gq_level {
    GQ_INDISTINGUISHABLE,
    GQ_CLOSE,
    GQ_VISIBLE_LOSS,
    GQ_LARGE_LOSS,
    GQ_SEVERE_LOSS,
    GQ_LEVELS
} gq_level;
GQ_API bool gq_evaluation_level(const gq_evaluation *v, size_t model, gq_level *to, gq_error *e);
/* The level of two figures; NaN: not measured. */
GQ_API gq_level gq_level_of(double kld, double changed_top1);
/* The limits of a level: a KL divergence in nats, and a share of changed top-1 tokens. */
GQ_API void gq_level_limits(gq_level level, double *kld, double *changed_top1);
GQ_API const char *gq_level_text(gq_level level); /* "close to the base model on this text" */
GQ_API const char *gq_level_word(gq_level level); /* for tables: "close" */

/* Prompts that the base model continues greedily, token after token, and whether a quant continues them so,
 * too. */
enum { GQ_CONTINUED = 32, GQ_PARTS = 33 }; /* tokens; numbers of them that can be the same */
typedef struct gq_continued {
    uint64_t prompts;
    gq_interval same; /* share of the prompts whose tokens are all the same: Wilson's interval */
    /* Prompts by their tokens that are the same before the first other one; the last has those with all. */
    uint64_t parts[GQ_PARTS];
    double mean; /* the mean of these numbers of tokens */
} gq_continued;
/* false: none was asked for (gq_evaluation_request.prompts), or the model is the base model. */
GQ_API bool gq_evaluation_continued(const gq_evaluation *v, size_t model, gq_continued *to);

/* Questions with several choices: a model chooses the one with the largest probability behind the question. */
typedef struct gq_chosen {
    uint64_t questions, right;
    uint64_t lost, gained,
        others;           /* of a quant: right in the base model alone; in the quant alone; in neither, but
                                      another choice */
    gq_interval accuracy; /* Wilson's interval */
    gq_interval more;     /* accuracy of a quant less that of the base model: McNemar's interval */
} gq_chosen;
/* false: none were asked (gq_evaluation_request.questions). */
GQ_API bool gq_evaluation_chosen(const gq_evaluation *v, size_t model, gq_chosen *to);

/* Tokens that a draft proposes and a model accepts, both greedily. The text is cut into pieces of up to 124
 * tokens. In the second half of each, first choices are compared; behind each, a draft of GQ_DRAFTED tokens
 * is tried. Intervals are of a bootstrap over pieces. */
enum { GQ_DRAFTED = 4 };
typedef struct gq_drafted {
    uint64_t texts, positions; /* pieces; positions whose first choices are compared */
    gq_interval first;         /* share of these at which the draft's first choice is the model's */
    gq_interval
        accepted[GQ_DRAFTED]; /* share of drafts of which the first 1 ... GQ_DRAFTED tokens are accepted */
    gq_interval length[GQ_DRAFTED]; /* mean tokens that are accepted of a draft of 1 ... GQ_DRAFTED */
} gq_drafted;
/* Checks, without running either, that a draft can be named for a model with these adapters (NULL: none), of
 * whose target it may take its vocabulary. Of a model that cannot be run only tokens and the width of hidden states
 * are compared. */
GQ_API bool gq_check_draft(const char *draft, const char *model, const gq_adapters *adapters, gq_error *e);
/* false: no draft was named (gq_evaluation_request.draft). */
GQ_API bool gq_evaluation_drafted(const gq_evaluation *v, size_t model, gq_drafted *to);
typedef struct gq_evaluation_facts {
    size_t size;
    const char *architecture;
    uint32_t context;
    uint64_t windows, tokens, scored;                      /* `tokens` are run; `scored` of them are scored */
    uint64_t peak_bytes;                                   /* memory that is taken, at most */
    GQ_RENAMED(uint64_t, hidden_state_bytes, state_bytes); /* of all tokens, in memory or in a file */
    GQ_RENAMED(bool, hidden_states_in_file, states_in_file);
    double seconds;
    double seconds_expected; /* 0: not measured */
    /* Runs on several ranks: their number, and the windows of the rank that has most. peak_bytes and
     * state_bytes are of the rank that has most, too. */
    uint32_t ranks;
    uint64_t rank_windows;
    uint32_t stride; /* as it was asked for */
    uint64_t texts;  /* conversations that the windows hold; 0: the text is none of these */
    /* The models fill masks: what is scored are tokens that are masked, and how much one counts is the number
     * of its window's tokens for each that is masked. */
    bool masked;
    /* Tokens of the text, of prompts and of questions, each as often as the models ran on it in these seconds;
     * 0: all scores were kept. */
    uint64_t tokens_run;
} gq_evaluation_facts;
GQ_API const gq_evaluation_facts *gq_evaluation_summary(const gq_evaluation *v);
/* Opens and checks the models and cuts the text into windows, but runs nothing. Only the summary and the
 * warnings of the result mean something. */
GQ_API gq_evaluation *gq_evaluation_plan(const gq_evaluation_request *r, gq_error *e);
GQ_API const char *const *gq_evaluation_warnings(const gq_evaluation *v, size_t *n);
/* Checks that the outputs of a plan, which need not exist yet, can be run and compared with its input: with
 * the result that gq_evaluate will have once they exist. */
GQ_API bool gq_evaluation_check(const gq_plan *plan, gq_error *e);

#ifdef __cplusplus
}
#endif
