/* The evaluation of quants by their base model's predictions: models run side by side, scores that are kept,
 * files of log-probabilities, prompts and questions, drafts. */
#pragma once

#include "forward/graph/draft/draft.h"
#include "forward/stream/kld.h"
#include "quantize/gquant_study.h"
#include "quantize/plan/plan.h"
#include "study/sweep/sweep.h"

/* ---- figures.c ----
 * The figures of an evaluation: for every scored position the results of each model, and from these
 * perplexities, KL divergences and their standard errors.
 *
 * Errors are standard errors of a mean over positions, which are taken for independent samples. */

/* Positions of a window that are scored: the second half, but for the last one, whose successor is not in the
 * window. Windows have at least four tokens. */
static inline size_t scored_from(size_t context) { return context / 2; }
static inline size_t scored_of(size_t context) { return context - 1 - scored_from(context); }
/* Returns where the text has the right token of a scored position, which is the next one. Positions are
 * counted over all windows, and so are the text's tokens. */
static inline size_t scored_right(size_t context, size_t position) {
    size_t n = scored_of(context);
    return position / n * context + scored_from(context) + position % n + 1;
}

/* All positions of one model, in order. */
typedef struct model_scores {
    double *log_p;   /* logarithm of the right token's probability */
    double *kld;     /* from the base model, in nats; NULL for itself */
    bool *same_top1; /* whether the likeliest token is the base model's; NULL for itself */
    /* For a model with an MTP layer: the most likely token, and whether the MTP layer's is the same; else NULL. */
    uint32_t *top;
    bool *accepted;
} model_scores;

typedef struct scores {
    size_t n, n_models; /* positions; the base model, 0, and its quants */
    size_t group;       /* positions of a group of windows (forward/stream/stream.h) */
    size_t of_window;   /* positions of a window */
    bool pools;         /* positions are windows, and KL divergences cosine distances of embeddings */
    model_scores *models;
    /* The weights of positions; scores at positions of weight 0 mean nothing. NULL: all weights are equal. */
    float *weights;
    uint32_t
        *depths; /* tokens that a position is predicted from; NULL: as many as the window has before it */
} scores;

/* Sets weights, and of conversations depths, of windows all of whose positions but the last are scored. */
bool scores_set_weights(scores *s, const forward_job *windows, gq_error *e);
static inline float scores_weight(const scores *s, size_t i) { return s->weights ? s->weights[i] : 1; }

bool scores_new(scores *s, size_t n, size_t group, size_t n_models, gq_error *e);
/* Gets a model's scores together with those of its MTP layer. */
bool scores_add_draft(scores *s, size_t model, gq_error *e);
void scores_free(scores *s); /* also one of zeros */

/* Set the members of *to that follow from the scores; the others stay. */
bool figures_of_base_model(const scores *s, gq_evaluated *to, gq_error *e);
bool figures_of_copy(const scores *s, size_t model, gq_evaluated *to, gq_error *e);
/* Returns the mean KL divergence of model a minus that of model b, in nats; both were scored at the same
 * positions. */
gq_estimate figures_difference(const scores *s, size_t a, size_t b);
/* Gives a statistic of model a, or with b above 0 by how much it is more than that of model b, with the interval
 * that a bootstrap over windows finds. */
bool figures_interval(const scores *s, gq_statistic of, size_t a, size_t b, gq_interval *to, gq_error *e);
/* The weighted sum of samples of a window, or of another block of positions that are alike. */
typedef struct window_sums {
    double x, weight;
} window_sums;
/* The mean of n such blocks, with the interval of a bootstrap over them. */
bool figures_mean_interval(const window_sums *windows, size_t n, gq_interval *to, gq_error *e);
/* The verdict by the intervals of the KL divergence and of changed top-1 tokens (NaN: none). */
gq_level figures_level(const gq_interval *mean_kld, const gq_interval *changed_top1);
/* Fills the figures of model m by depth; from: the first position of a window's that is scored. Returns how
 * many depths have positions. */
size_t figures_depths(const scores *s, size_t m, size_t from, gq_depth to[GQ_DEPTHS]);

/* ---- base_file.c: logits as they are ----
 * Writes logits to a file: binary32 in the machine's byte order, [position][token of the vocabulary]. The
 * file gets its name when it is whole. Files of base predictions begin and end in the same way. */

typedef struct logits_file {
    const char *path;
    char *beside; /* its name until then */
    int fd;
    bool replace;
    size_t vocabulary;
} logits_file;

/* Begins a file that will have `bytes` bytes; UINT64_MAX: more than can be counted. */
bool logits_file_start(logits_file *f, const char *path, bool replace, uint64_t bytes, size_t vocabulary,
                       gq_error *e);
/* Joins a file that another rank has begun, to write a part of it. */
bool logits_file_join(logits_file *f, const char *path, bool replace, size_t vocabulary, gq_error *e);
/* Writes logits [rows][stride] of the vocabulary's tokens from `first_row` on, at n positions from `position`
 * on (n <= stride). */
bool logits_file_add(logits_file *f, size_t position, size_t n, size_t first_row, size_t rows,
                     const float *logits, size_t stride, gq_error *e);
/* Ends this rank's part: what it wrote is on disk. names: it is the rank that has begun the file: with `ok` all is
 * written, and the file gets its name; else it is removed, and *e stays. Returns whether all is there. */
bool logits_file_end(logits_file *f, bool ok, bool names, gq_error *e);

/* ---- base_file.c ----
 * llama.cpp's files of log-probabilities, which its perplexity program calls the base of a KL divergence: a text
 * as tokens, and for each scored position the logarithms of all next tokens' probabilities in 16 bits each.
 * Little-endian, without padding:
 *
 *     "_logits_"; u32 context, i32 vocabulary, i32 windows; i32 ids [windows][context]
 *     per window context - 1 - context / 2 rows, of the positions from context / 2 on, each
 *         f32 scale, f32 least; u16 code [vocabulary], and one more where the vocabulary is odd
 *
 * A logarithm is scale * code + least. Logits more than 16 below the largest have code 0, as the smallest of
 * the others has. The ids are those of the text: where a vocabulary begins texts with BOS, a model sees BOS
 * in place of each window's first, but the file keeps what stood there. */

/* ---- reading ---- */

typedef struct base_file {
    gq_file file;
    uint32_t *ids; /* of all whole windows; malloc'ed */
    size_t context, vocabulary, windows;
    size_t windows_missing; /* announced by the file, but cut off */
} base_file;

/* Opens a file and reads its tokens. Every size is checked against the file's before anything is allocated; a
 * file that ends early has fewer windows, but at least one. */
bool base_file_open(base_file *f, const char *path, gq_error *e);
void base_file_close(base_file *f); /* also one of zeros */
/* Whether a file begins as one of log-probabilities. false, too, where it cannot be read. */
bool base_file_begins(const char *path);

/* The coding of a position's scores. */
typedef struct base_row {
    float scale, least;
} base_row;

/* Scored positions of a file that are read together, a tile of the vocabulary at a time. */
typedef struct base_batch {
    size_t position, n; /* the first one, counted over all windows; how many */
    base_row *rows;     /* per position */
    double *log_p;      /* the logarithm of the right token's probability, per position */
    float *tile;        /* logarithms: position t of the tile's row r at [r * stride + t] */
} base_batch;

/* Takes memory for batches of at most so many positions, tiles of `rows` tokens and that stride. */
void base_batch_lay_out(base_batch *b, size_t positions, size_t rows, size_t stride, memory_ledger *l);
void base_batch_free(base_batch *b); /* also one of zeros */
/* Begins a batch of n positions. */
bool base_batch_start(base_batch *b, const base_file *f, size_t position, size_t n, gq_error *e);
/* Reads a tile: the tokens first ... first + rows - 1. ids: those of the text, all windows. */
bool base_batch_tile(base_batch *b, const base_file *f, const uint32_t *ids, size_t first, size_t rows,
                     size_t stride, gq_error *e);
/* Makes the tile a base model's: llama.cpp leaves probabilities below e^-16 out of a KL divergence from a file, so
 * their logarithms become so low that their exponentials vanish. */
void base_batch_leave_out(base_batch *b, size_t rows, size_t stride);

/* Returns the KL divergence from a base as llama.cpp defines it, sum p (log p - log q) over the probabilities p that
 * the file has. Their sum is not quite 1: it is e^z with z = `base`.log_sum, and kld_at has divided by that.
 * quant_sum: the logarithm of the sum of q; 0 where q comes from logits, whose sum is 1. */
double base_kld(const kld_figures *base, const kld_figures *quant, double quant_sum);

/* ---- writing ---- */

/* Range of a position's logits, which must be known before the first is written. */
typedef struct base_range {
    float most, least; /* logits */
    double log_sum;    /* of their exponentials */
} base_range;

typedef struct base_writer {
    logits_file file;
    uint64_t rows_at; /* offset of the first row */
} base_writer;

/* Begins a file; it gets its name when it is whole (logits_file_end). */
bool base_writer_start(base_writer *w, const char *path, bool replace, const text_windows *windows,
                       size_t vocabulary, gq_error *e);
/* Joins a file that another rank has begun. */
bool base_writer_join(base_writer *w, const char *path, bool replace, const text_windows *windows,
                      size_t vocabulary, gq_error *e);
/* Writes the codes of logits [rows][stride] of the vocabulary's tokens from `first` on, at n scored positions
 * from `position` on, whose ranges are given. */
bool base_writer_add(base_writer *w, const base_range *range, size_t position, size_t n, size_t first,
                     size_t rows, const float *logits, size_t stride, gq_error *e);

/* ---- files compared with each other ----
 * Nothing is run, so their models may be of any architecture, and any program may have written them. */

/* Checks that a quant's file has the base model's text, windows and vocabulary. */
bool base_scores_check(const base_file *base_model, const base_file *quant, gq_error *e);

/* Bytes of memory that it takes to compare n files at so many scored positions. */
uint64_t base_scores_bytes(size_t n, size_t positions);

/* Fills the scores of the first `windows` windows from n files: the base model's, 0, and those of its quants. ids:
 * the tokens of these windows. A KL divergence is as that of a model from a base (side_by_side.c), sum p (log p - log
 * q) over the probabilities p that the base model's file has. */
bool base_scores_run(const base_file *files, size_t n, const uint32_t *ids, size_t windows, int threads,
                     const gq_callbacks *callbacks, scores *to, gq_error *e);

/* ---- score_cache.c ----
 * What an evaluation keeps for the next one of the same base model, text and settings: the scores of every
 * model at every position, from which all figures follow, and the base model's hidden states behind its last layer,
 * from which its log-probabilities follow. So a quant is run once, and an evaluation that was stopped continues
 * with the quants that it has not scored.
 *
 * Scores are in a GGUF without tensors, like measurements, with a text that says what they are of and one
 * array for each model, whose key is the checksum of the model's content. Each array has a checksum. States
 * are in a file beside it, whose header is written when they are whole. Both files can be removed at any time. */

/* ---- the content of a model ----
 * A checksum of all that a model is. Unlike model_fingerprint, which says whether unfinished work may continue, it
 * reads every byte: what is kept under it vouches for no changed file. */

typedef struct content_sum {
    uint64_t bytes; /* of the tensors */
    uint32_t crc;   /* of pairs, names, types, shapes and weights as they are delivered */
} content_sum;

/* Returns about how many seconds that takes. */
double content_seconds(const model_source *m, int threads);
/* callbacks: asked whether to continue, and told how far it is; may be NULL. */
bool content_sum_up(const model_source *m, int threads, const gq_callbacks *callbacks, content_sum *to,
                    gq_error *e);

enum { SCORE_CACHE_OF = 200 };

/* ---- the base model's hidden states ---- */

typedef struct hidden_state_cache {
    int fd; /* -1: none are kept */
    char *path;
    char of[SCORE_CACHE_OF];
    uint64_t bytes;
    bool whole; /* the file has them */
} hidden_state_cache;

/* Makes the file ready: with an earlier run's hidden states if they are whole, else with room for them. On failure
 * ->fd is -1. */
bool hidden_state_cache_open(hidden_state_cache *s, const char *path, const char *of, uint64_t bytes,
                             gq_error *e);
/* Returns the slots for a stream's hidden states. */
hidden_state_slots hidden_state_cache_place(const hidden_state_cache *s);
/* Marks the hidden states as complete. sum: forward_stream_sum. */
bool hidden_state_cache_finish(hidden_state_cache *s, uint64_t sum, gq_error *e);
void hidden_state_cache_close(hidden_state_cache *s);

/* ---- scores ---- */

typedef struct score_cache {
    char *path;
    gguf_header *header; /* all that the file has */
    size_t positions;
} score_cache;

/* Writes what scores belong to: build, base_model, text and settings. */
void score_cache_name(const content_sum *base_model, const text_windows *windows, char of[SCORE_CACHE_OF]);
/* Reads what is kept, if it is of that; else begins anew, in place of what is there if it holds scores, too.
 * The file is written at once, so that a failure to write it is reported before the work. */
bool score_cache_open(score_cache *k, const char *path, const char *of, size_t positions, gq_error *e);
void score_cache_close(score_cache *k); /* also one of zeros */
/* Fills the scores of a model; KL divergence NULL: the base model's. false: they are not kept. */
bool score_cache_find(const score_cache *k, const content_sum *model, model_scores *to);
/* Adds a model's scores and writes the file. */
bool score_cache_add(score_cache *k, const content_sum *model, const model_scores *from, gq_error *e);

/* Tokens without those that fill up windows. */
static inline size_t windows_tokens(const text_windows *w) {
    return w->marks ? w->text_tokens : w->n * w->context;
}

/* ---- side_by_side.c ----
 * A base model and its quants run on the same windows, layer by layer, and compared at each scored position;
 * no more logits are held than those of a batch's positions for some tokens of the vocabulary. */

/* Positions of a window that are scored, at its end but for the last one. Of windows that overlap they are as
 * many as from one window to the next, so that each token of the text is scored once. Of conversations and masked
 * windows all are scored, and count as much as the token that is predicted. Of a model that gives embeddings a window
 * is one position. */
static inline size_t windows_scored(const text_windows *w) {
    return w->pools                ? 1
           : w->stride             ? w->stride
           : w->marks || w->masked ? w->context - 1
                                   : scored_of(w->context);
}

typedef struct runner {
    const char *path;
    model_source file;
    forward_model *model;
} runner;

typedef struct side_by_side {
    const runner *runners; /* the base model, 0, and its quants */
    size_t n;
    const base_file
        *base; /* log-probabilities in place of the base model, whose runner has no model; NULL: it
                              is run */
    const text_windows *windows; /* of all ranks */
    gq_comm *comm;               /* ranks that share them out; NULL: this process alone */
    bool read_once;              /* rank 0 reads the layers for all */
    int threads;
    uint64_t memory; /* bytes to stay within */
    uint64_t layer; /* forward_bounds.layer that ranks have agreed on; 0: what this process's memory allows */
    const char *folder; /* for hidden states that do not fit into it */
    const gq_callbacks *callbacks;
    const char *logits;      /* a file that gets those of the base model; NULL: none */
    const char *base_out;    /* a file that gets those of the base model's scored positions; NULL: none */
    bool replace_logits;     /* of both */
    double seconds_expected; /* for progress; 0: unknown */
    double logits_work;      /* of one of forward_job_work's units of logits; 0: unknown */
    hidden_state_cache
        *hidden_states; /* the base model's; if they are whole, its layers are not run. NULL: not kept */
    /* For progress where a call is several such runs: the work of all, that of those before, and when the
     * first began. 0: it is one. */
    double work, done, started;
    uint64_t *tokens_run; /* each run adds its tokens; NULL: they are not counted */
} side_by_side;

/* Bytes of the scores of all windows. */
uint64_t side_by_side_score_bytes(const side_by_side *s);
/* Computes memory bounds before anything is read. */
bool side_by_side_bounds(const side_by_side *s, forward_bounds *to, gq_error *e);
/* Returns the work of a run, in forward_job_work's unit of layers. */
double side_by_side_work(const side_by_side *s);
/* Returns the seconds that a run would take on a usual processor, of which only ratios matter. */
double side_by_side_usual_seconds(const side_by_side *s);
/* Measures how long side_by_side_run will take: seconds_expected and logits_work. */
void side_by_side_forecast(side_by_side *s);
/* Fills the scores of all windows, on every rank. Adds a warning where threads could not be started. */
bool side_by_side_run(const side_by_side *s, scores *to, warning_list *warnings, gq_error *e);

/* ---- cached_run.c ----
 * side_by_side_run with what earlier evaluations have kept (score_cache.c): models whose scores are there are not
 * run. The others are run a few quants at a time, and what they gave is kept at once; so an evaluation that
 * is stopped loses the quants at work alone. */

typedef struct cached_run_request {
    const side_by_side *all; /* the base model and all quants, as one run would have them */
    const char *path;        /* of the scores */
    bool is_named;           /* by the user: a path that cannot be used is an error, else a warning */
    bool forecast;           /* measure first how long the models that are run will take */
} cached_run_request;

/* Fills the scores of all. *seconds_expected: 0 where nothing is run or was not measured. */
bool cached_run(const cached_run_request *r, scores *to, double *seconds_expected, warning_list *warnings,
                gq_error *e);

/* ---- asked.c ----
 * What quants are asked besides a text: to continue prompts as the base model does, and to choose answers; drafts are
 * tried on such texts, too (drafted.c). They are packed into windows of their own, as conversations are
 * (study/sweep/chats.c), with weights only where models are asked, and run as the evaluation's text is. */

typedef struct asked_texts {
    text_windows windows;
    token_limits limits;
    windows_packer packer;
    size_t *begins; /* place in the windows of each one's first token that counts */
    size_t n, capacity;
} asked_texts;

/* Begins with no text. s: how models will be run. */
void asked_begin(asked_texts *t, const side_by_side *s, size_t context);
void asked_free(asked_texts *t);
/* Adds a text, of which the tokens from `first` on are asked for. */
bool asked_add(asked_texts *t, const uint32_t *ids, size_t n, size_t first, gq_error *e);
/* The position among the scored ones that predicts a token of the windows. */
size_t asked_position(const asked_texts *t, size_t token);
/* Runs the first n models of s. The likeliest token is kept, too, of the first `tops` of them. */
bool asked_run(const asked_texts *t, const side_by_side *s, size_t n, size_t tops, scores *to, gq_error *e);

/* Raises *peak to the bytes that both below take at most, for s->windows and their scores are held beside. False: a
 * prompt or a question is none. */
bool asked_bounds(const side_by_side *s, size_t prompts, const gq_question *questions, size_t n,
                  uint64_t *peak, gq_error *e);
/* s: how the models are run, with the windows of the text, of which prompts are the beginnings. Both return an
 * array with one for each model, malloc'ed; NULL: *e says why. */
gq_continued *asked_continue(const side_by_side *s, size_t prompts, gq_error *e);
gq_chosen *asked_choose(const side_by_side *s, const gq_question *questions, size_t n, gq_error *e);

/* ---- draft_step.c ----
 * The text that drafts are tried on, cut into pieces; the ways to draft by what is taken of a target (continued.c),
 * and what they have in common. Behind each piece a draft proposes GQ_DRAFTED tokens; then the models are run once on
 * all pieces with what was proposed behind them, as programs verify drafts. */

enum { PIECE_TOKENS = 128 - GQ_DRAFTED }; /* at most */

/* A piece of the text: where in the windows its first position that is compared has its token, and where the first
 * drafted one stands. */
typedef struct draft_piece {
    size_t from, root;
} draft_piece;

enum { DRAFT_NONE = UINT32_MAX }; /* a token that no model chooses */

typedef struct draft_texts {
    asked_texts texts;
    draft_piece *pieces; /* texts.n of them */
    /* The draft's choices: for each scored position (asked_position), and GQ_DRAFTED tokens after each piece. */
    uint32_t *choices, *proposed;
    size_t positions;
} draft_texts;

/* Cuts the windows of s into pieces; also after a failure they are to be freed. */
bool draft_texts_begin(draft_texts *t, const side_by_side *s, gq_error *e);
void draft_texts_free(draft_texts *t);
/* Sets a token, or DRAFT_NONE, as the k-th that is proposed after a piece. vocabulary: the target's. */
void draft_texts_propose(draft_texts *t, size_t piece, size_t k, uint32_t token, size_t vocabulary);

/* Windows that are run at once. */
typedef struct draft_batch {
    size_t first, tokens, windows, stride; /* first: its first token among all */
    float *taken;                          /* [rows of the draft's sources][stride] */
} draft_batch;

typedef struct continued_run {
    draft_texts *t;
    const model_source *file; /* the draft's */
    const forward_model *target;
    forward_model *draft;
    const draft_sources *sources;
    sweep sweep;
    size_t first_window; /* first of the windows that are run now */
    draft_batch *batches;
    size_t n_batches;
    size_t passing;       /* the batch that a layer of the target is run on */
    size_t batch_windows; /* at most */
    int64_t *ids;         /* the target's token of each of the draft's; NULL: they are the same */
    void *own;            /* the method's */
} continued_run;

/* A kind of draft. Called when the target has been run, with its threads. */
typedef struct draft_method {
    const char *arch;
    bool (*begin)(continued_run *r, gq_error *e); /* once; also after a failure `end` follows */
    bool (*draft)(continued_run *r, draft_batch *b, gq_error *e);
    void (*end)(continued_run *r);
} draft_method;
extern const draft_method draft_method_eagle, draft_method_dflash, draft_method_assistant;

/* Shared by the methods: sets a batch of the draft to the windows and texts of b. */
void draft_choose_batch(const continued_run *r, forward_batch *batch, const draft_batch *b);

/* One step of all drafts of a batch whose positions predict one token each, one after the other: which of a batch's
 * positions matter. Of step 0 they are all that predict a compared token, later the k-th drafted ones. */
typedef struct draft_step {
    size_t n;
    size_t *at, *predicts; /* position, and the token that it predicts */
    size_t *piece;         /* the piece that gets the token as its next one; SIZE_MAX: none does */
    uint32_t *token;       /* the predicted token, a token of the target */
    /* [columns][stride of n]: the inputs of the output matrix; logits; the largest ones */
    float *picked, *logits, *best;
    forward_batch *head; /* of one token */
    forward_tile *tile;
} draft_step;
/* tokens: of a batch, at most. To be freed also after a failure. */
bool draft_step_new(draft_step *s, const continued_run *r, size_t tokens, gq_error *e);
void draft_step_free(draft_step *s);
/* behind: positions from one that predicts a token to that. */
void draft_step_pick(draft_step *s, const continued_run *r, const draft_batch *b, size_t k, size_t behind);
/* The likeliest token at each position, of normed[columns][stride]. */
bool draft_step_predict(draft_step *s, const continued_run *r, const float *normed, size_t stride,
                        gq_error *e);
/* Keeps these as choices and proposals. */
void draft_step_keep(const draft_step *s, const continued_run *r, size_t k);

/* ---- drafted.c ----
 * What a smaller model drafts and how much of it the evaluated models accept, both greedily: the draft proposes its
 * likeliest tokens one after another, and a model accepts them as long as they are its own likeliest ones. */

typedef struct drafter {
    runner own;                   /* its file, and its model where that runs by itself */
    bool continues_hidden_states; /* the draft continues the target's hidden states (continued.c) */
} drafter;

/* Opens a draft for a target, which stays open as long. One of another vocabulary, or of a kind that is not run, is
 * an error that names it. path: it stays the caller's. folder: whose vocabulary a draft's folder takes; NULL: the
 * target's. */
bool drafter_open(drafter *d, const char *path, const runner *target, const char *folder, gq_error *e);
/* Bytes that are held of a target's hidden states for so many tokens of a text, where the draft continues them; else
 * 0. memory: of all. */
uint64_t drafter_bytes(const drafter *d, const runner *target, uint64_t tokens, uint64_t memory);
void drafter_close(drafter *d); /* also one of zeros */

/* The time that it takes as a multiple of that of running s, about, by the operations of both. */
double drafted_share(const side_by_side *s, const drafter *d);
/* s: how models are run, with the windows of the text. Returns an array with one for each model, malloc'ed; NULL: *e
 * says why. */
gq_drafted *drafted_run(const side_by_side *s, const drafter *d, gq_error *e);

/* ---- continued.c ----
 * Draft models that read what a target computes (forward/graph/draft/draft.h). The target runs on the pieces, as many
 * windows at a time as memory holds what is taken of them; a batch after the other then goes to the method of the
 * draft's kind, which fills choices and proposals. */

/* Checks that a draft fits a target. */
bool continued_check(const model_source *file, const runner *target, gq_error *e);
/* Bytes of what is taken of so many tokens that are held at once. memory: of all. */
uint64_t continued_bytes(const model_source *file, const runner *target, uint64_t tokens, uint64_t memory);
/* Seconds of a usual processor for continued_propose. */
double continued_usual_seconds(const draft_texts *t, const side_by_side *s, const drafter *d);
/* Fills choices and proposals of the pieces by what the first model of s computes. */
bool continued_propose(draft_texts *t, const side_by_side *s, const drafter *d, gq_error *e);

/* ---- compared.c ----
 * An evaluation: what is known of its models, which are opened here and checked to be quants of one base model, and
 * from what its figures are made. */

struct gq_evaluation {
    size_t n;
    size_t
        first; /* the first runner that is a model: 0, or 1 where a base file takes the base model's place */
    runner *runners;   /* the base model, 0, and its quants */
    base_file *bases;  /* per runner, where it is a file of log-probabilities; else zeros */
    bool none_runs;    /* all are such files */
    char *scores_path; /* file of the scores; NULL: none */
    bool is_named;     /* by the caller */
    char **paths;
    gq_evaluated *models;
    text_windows windows;
    forward_bounds bounds;
    scores scores;
    gq_continued *continued; /* of each model; NULL: not asked for */
    gq_chosen *chosen;       /* likewise */
    drafter drafter;         /* zeros: no draft was named */
    gq_drafted *drafted;     /* of each model; NULL: there is none */
    double
        draft_share; /* the time of drafts as a multiple of that of running all models, as it is expected */
    double draft_seconds; /* seconds of drafts; 0: unknown */
    warning_list warnings;
    char architecture[128];
    double seconds, seconds_expected;
    uint64_t tokens_run;
    gq_evaluation_facts facts;
};

model_facts compared_facts(const model_source *m);
/* Returns the model that all others must be quants of. */
const runner *compared_reference(const gq_evaluation *v);
/* Opens the base model and its quants, or the base files that stand for them, and checks them. */
bool compared_open_all(gq_evaluation *v, const gq_evaluation_request *r, gq_error *e);
/* Takes a plan's input as the base model, which stays open when it is returned. */
bool compared_lend_reference(gq_evaluation *v, const gq_plan *plan, gq_error *e);
void compared_return_reference(gq_evaluation *v);
/* Opens quant i, which does not exist yet, by the headers that it will have. */
bool compared_open_planned(gq_evaluation *v, size_t i, const plan_output *out, gq_error *e);
/* Fails where the quant is none; warns where its metadata differ. */
bool compared_check(gq_evaluation *v, const runner *quant, gq_error *e);
