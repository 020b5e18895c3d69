/* A text as windows, and one pass of hidden states over a model's layers: memory, checkpoints, forecasts. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/comm/ranks.h"
#include "forward/stream/stream.h"
#include "forward/tokens/tokenizer.h"
#include "quantize/gquant_common.h"

/* ---- windows.c ----
 * A text, or ids that stand for one, as windows of tokens that a model runs on, each from position 0 on. */

typedef struct text_windows {
    uint32_t *ids; /* n windows of `context`, one after another */
    size_t context, n;
    size_t left_over; /* tokens behind the last window */
    size_t stride;    /* tokens from a window's beginning to the next one's; 0: windows do not overlap */
    bool pools;       /* each window has one embedding, and no token is predicted */
    /* For windows that hold conversations (chats.c): these conversations, their number and tokens; NULL: each window
     * is one text, and all tokens count alike. */
    forward_mark *marks;
    size_t texts, text_tokens;
    /* For texts with masked tokens (masks.c): which are masked, and the places of their logits; NULL: none. */
    forward_masked *masked;
    bool in_place;
    /* The first token of each window where BOS has taken its place; NULL: they stand there. */
    uint32_t *replaced;
} text_windows;

/* Limits for making windows. */
typedef struct windows_limits {
    uint64_t memory;               /* of the process, with what it has taken already */
    const gq_callbacks *callbacks; /* asked whether to stop; NULL: nobody is asked */
} windows_limits;

/* Returns the limits for the first tokens of a text; 0: all. */
token_limits windows_token_limits(uint64_t tokens, const windows_limits *limits);

/* Makes windows of a text with the model's own tokenizer; w->ids is malloc'ed, and windows_free frees it. The
 * text begins as the vocabulary begins texts; where that is a BOS, it replaces each window's first token, as
 * in llama.cpp's own programs. A window of a model that gives embeddings ends as a text does, too: with the
 * vocabulary's EOS or separator in place of its last token. Ids are taken as they are, and
 * files of conversations with their weights (chats.c). vocabulary: how many
 * tokens the model has; all ids are below it. Of the text no more is read than the tokens need. */
bool windows_read(text_windows *w, const gq_text *text, const model_source *model, size_t vocabulary,
                  const windows_limits *limits, warning_list *warnings, gq_error *e);
/* Makes windows likewise, of as many tokens as the text asks for, from all over it (spread.c); of ids the first ones. */
bool windows_read_spread(text_windows *w, const gq_text *asked, const model_source *model, size_t vocabulary,
                         const windows_limits *limits, warning_list *warnings, gq_error *e);
/* Makes windows that begin every `stride` tokens, 1 to context - 1, as many as llama.cpp's strided perplexity
 * makes: where the text ends with a window, that one is left out. Only the text's own BOS is there; no
 * window's first token is replaced, again as in llama.cpp. */
bool windows_read_overlapping(text_windows *w, const gq_text *text, size_t stride, const model_source *model,
                              size_t vocabulary, const windows_limits *limits, warning_list *warnings,
                              gq_error *e);
/* Makes windows of random tokens, drawn from the vocabulary's normal ones; the same model gives the same
 * windows. Their number is the text's `tokens`; the text itself is not read. Windows begin as above. */
bool windows_draw(text_windows *w, const gq_text *text, const model_source *model, size_t vocabulary,
                  gq_error *e);
/* Puts a window of random tokens among every four of the text. A text of one kind leaves most directions of the
 * inputs unseen, and errors are moved there; random tokens see them (bench/results/calibration.md). Where tokens have
 * weights, random ones have the texts' mean weight, so that they are no larger a share of what is summed. No such
 * window is held out. *texts gets the ids of the text's
 * windows, to be freed (NULL: there are too few), *n_drawn the number of random ones. */
bool windows_mix_random(text_windows *w, const model_source *model, size_t vocabulary, uint32_t **texts,
                        size_t *n_drawn, gq_error *e);
/* Makes windows of given ids begin as those of a text. */
bool windows_begin_as_texts(text_windows *w, const model_source *model, gq_error *e);
/* Makes n texts, which something follows, tokens with the model's own tokenizer: a BOS begins them, no EOS ends them,
 * whatever the vocabulary says, and control tokens in them are text. to: n empty lists, whose
 * ids are the caller's to free, after a failure, too. */
bool windows_tokenize(const model_source *model, const char *const *texts, size_t n, token_list *to,
                      gq_error *e);
void windows_free(text_windows *w); /* also one of zeros */
/* A job of all windows, with neither threads nor memory so far. */
forward_job windows_job(const text_windows *w);
/* A checksum of tokens and what their marks say; of ids alone where marks is NULL. */
uint32_t windows_checksum(const uint32_t *ids, const forward_mark *marks, size_t tokens);
/* The same of windows, and of what their masks stand for. */
uint32_t windows_sum_up(const text_windows *w);

/* Warns of windows of one token, and of those longer than a model was made for; trained 0: nobody knows. */
bool windows_warn_longer(size_t context, size_t trained, const char *model, warning_list *warnings,
                         gq_error *e);

/* A rank's share of n windows of `context` tokens begins with this one and ends before that of the next rank:
 * whole groups of tokens (forward/stream/stream.h). The last ranks may have none. */
size_t windows_share(const gq_comm *comm, size_t n, size_t context, int rank);
/* Gives all ranks what each has of its windows: `each` bytes of an array for a window. A collective of
 * base/comm/ranks.h. */
bool windows_gather(gq_comm *comm, size_t n, size_t context, void *array, size_t each, gq_error *e);

/* Returns which window of the `group`-th group of `each` is chosen. It moves about from group to group, by the
 * root of 2 less 1, as kinds of text may alternate: with the same one each time all that are chosen could be
 * of one kind. Of the first group it is the last. */
static inline size_t windows_place_in_group(size_t group, size_t each) {
    return each - 1 - (size_t)((uint64_t)((uint32_t)group * 1779033703u) * each >> 32);
}

/* A calibration holds windows back: it does not round by them but checks with them. One window in ten is held out, or
 * the last one where there are fewer than ten. In long texts it is fewer, as HELD_OUT_TOKENS tokens tell a matrix's
 * error to a percent or two. */
enum {
    HELD_OUT_ONE_IN = 10,
    HELD_OUT_TOKENS = 4096,
};
typedef struct windows_held {
    size_t every; /* a window of each whole group of so many is held out; 0: none is */
    size_t n;     /* windows that are held out */
} windows_held;
/* Decides which of n windows of `context` tokens are held out. */
windows_held windows_hold_out(size_t n, size_t context);
static inline bool windows_is_held(windows_held h, size_t window) {
    if (!h.every) return false;
    size_t group = window / h.every;
    return group < h.n && window % h.every == windows_place_in_group(group, h.every);
}

/* ---- chats.c ----
 * Files of token ids: words between white space. Conversations that were rendered outside, as gquant-chat writes
 * them: ids with a weight for each token (docs/formats.md). */

/* A file of ids, byte by byte. Begins with zeros but for the file and line 1. */
typedef struct ids_reader {
    const gq_file *file;
    uint64_t at;
    size_t n, next; /* bytes in the buffer, and the one that comes next */
    size_t line;    /* from 1 */
    unsigned char buffer[1 << 16];
} ids_reader;

/* The beginning of a word, for messages: of a longer one than IDS_WORD bytes no more than these. */
enum { IDS_WORD = 40, IDS_SHOWN = 64 };

/* *c: the next byte; -1: there is none. */
bool ids_next(ids_reader *r, int *c, gq_error *e);
/* Reads the word that begins with byte c, which white space follows. is_id: it is a decimal number below 2^32. */
bool ids_read_word(ids_reader *r, int c, char shown[IDS_SHOWN], uint64_t *id, bool *is_id, gq_error *e);
static inline bool ids_is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Packs texts into windows, one after another. Begins with zeros but for w, whose context is set, and limits. */
typedef struct windows_packer {
    text_windows *w;
    const token_limits *limits;
    size_t *used; /* tokens of each window, up to the next step; the caller frees it */
    size_t ids_capacity, marks_capacity, used_capacity;
} windows_packer;
/* Puts a text of 1 to a window's tokens into the first of the last few windows that has room behind what it
 * holds. weights: of each token, in FORWARD_WEIGHT_ONE-ths. What is left of the window stands as the text's last
 * token again, and counts nothing. *begin: where its first token is in w->ids. */
bool windows_pack(windows_packer *p, const uint32_t *ids, const uint32_t *weights, size_t n, size_t *begin,
                  gq_error *e);

/* Whether a file begins as one of conversations. */
bool chats_begin(const gq_file *file);
/* Packs the conversations of a file into windows: in order, each into the first of the last few windows that
 * has room for it behind what it holds already. So windows hold several conversations, and what is behind
 * the last of each step of tokens counts nothing. A conversation that is longer than a window is cut; one
 * whose tokens count nothing is left out. w->context is set before. */
bool chats_read(text_windows *w, const gq_text *text, const gq_file *file, size_t vocabulary,
                const token_limits *limits, warning_list *warnings, gq_error *e);

/* ---- masks.c ----
 * Masked windows, for diffusion language models (dream, llada, llada-moe, rnd1): such a model predicts what masks stand
 * for, and is trained and used on nothing else. */

typedef enum masks_share {
    MASKS_DRAWN, /* of a text's n tokens 1 to n, each number as likely as the others */
    MASKS_ALL,
} masks_share;

/* Fails where the model predicts what masks stand for and does not say which token is one. */
bool masks_check(const model_source *model, size_t vocabulary, gq_error *e);
/* Masks tokens of each text that windows hold, if the model predicts what masks stand for: of those that count, and
 * never the first, as models that shift logits have none for it. w->masked is malloc'ed. How many are masked and
 * which follows from the number of the text among the windows alone, so it is the same for any threads, ranks and
 * parts. If one token in four is masked, each counts as four: a text counts the same, whatever share is masked. */
bool masks_set(text_windows *w, const model_source *model, size_t vocabulary, masks_share share, gq_error *e);

/* ---- memory_budget.c ----
 * The memory that running a model may take, and what the process has taken already. All in bytes. */

/* Bytes of memory that the machine has. */
uint64_t memory_budget_machine(void);
/* Returns the memory that was asked for, or for 0 a quarter of the machine's. */
uint64_t memory_budget_of(uint64_t asked);
/* Returns the bytes that the process has already, and some more for libraries and uncounted allocations. */
uint64_t memory_budget_taken(void);
/* Returns the most bytes that the process has had so far; 0: nobody knows. */
uint64_t memory_budget_peak(void);
/* Gives the system back what was freed, so that it does not count beside what is allocated next; where the C
 * library can. */
void memory_budget_give_back(void);
/* Fails because the memory that was asked for, which the ranks of a machine share, is less than what each of
 * them takes with a window of `context` tokens. asked 0: memory_budget_of's was to do. to: what it is not
 * enough for, behind a space; may be "". */
bool memory_budget_fail(const gq_comm *comm, uint64_t asked, const char *to, size_t context, uint64_t taken,
                        gq_error *e);

/* ---- checkpoint.c ----
 * Keeps the finished layers of a model that is run over a text, so that an interrupted run can continue. The
 * file lies beside the output. It begins with a header that says what run it belongs to. For each stream there
 * are two slots for the hidden states of all tokens, which layers use in turn, and behind them a record per finished
 * layer.
 *
 * A record is written when the hidden states after its layer are safe on disk, and holds their checksums. A torn
 * record counts as not there. If the hidden states do not have the last record's checksums, the run starts afresh. */

typedef enum checkpoint_kind { CHECKPOINT_IMPORTANCE, CHECKPOINT_CALIBRATION } checkpoint_kind;

/* The header of a checkpoint: the run it belongs to, in the machine's own byte order. Unset members are 0. */
typedef struct checkpoint_header {
    char magic[8];
    char build[24];
    uint32_t kind;           /* a checkpoint_kind */
    uint32_t times, content; /* of the model */
    uint32_t ids;            /* checksum */
    uint32_t context;
    uint32_t settings; /* settings that values depend on, as a number of the caller's */
    uint64_t windows;
    uint64_t slot; /* bytes of one, of one stream */
    uint32_t streams;
    uint32_t fused;       /* this processor multiplies and adds in one step, which last bits depend on */
    uint32_t unused, crc; /* crc: of all before it */
} checkpoint_header;

/* Returns the checkpoint's path for an output; malloc'ed, NULL: no memory. */
char *checkpoint_path(const char *out);
/* Whether this processor multiplies and adds in one step. */
bool checkpoint_fuses(void);
/* Completes a header: sets magic, fused and crc. */
void checkpoint_seal(checkpoint_header *h);

typedef struct checkpoint {
    int fd; /* -1: not open */
    char *path;
    uint64_t slot;    /* bytes of one */
    uint32_t streams; /* streams, each with two slots */
    uint64_t end;     /* of the records */
    size_t finished;  /* layers */
    const char *why;  /* there was one that could not be continued; NULL: there was none */
} checkpoint;

/* Looks for a checkpoint that a run with this header would continue: ->finished is then above 0, else ->why may say why
 * not. Changes nothing, but reads the hidden states to check them. *c is to be closed. This function and the two
 * below fail where memory or a read does, as that is no reason to begin anew. */
bool checkpoint_peek(checkpoint *c, const char *out, const checkpoint_header *h, gq_error *e);
/* Continue it or begin another, locked, with room for so many bytes of records set aside. On failure *c is
 * fit for checkpoint_close. */
bool checkpoint_open(checkpoint *c, const char *out, const checkpoint_header *h, uint64_t records,
                     gq_error *e);
/* Continue it, locked, and make none: ->fd is -1 where there is none, and ->finished 0 where it is no use. */
bool checkpoint_open_old(checkpoint *c, const char *out, const checkpoint_header *h, gq_error *e);
/* Open, without its lock, the one that another process has opened, which has so many finished layers. This process
 * only writes hidden states and reads records. */
bool checkpoint_join(checkpoint *c, const char *out, const checkpoint_header *h, size_t finished,
                     gq_error *e);
void checkpoint_close(checkpoint *c);
void checkpoint_remove(const checkpoint *c); /* one that checkpoint_open has opened */
/* Remove what lies beside an output that is whole, unless another process is at work with it: what belongs to
 * this header; or whatever is of a kind, when the output of the run that left it is gone. */
void checkpoint_clean(const char *out, const checkpoint_header *h);
void checkpoint_clean_kind(const char *out, checkpoint_kind kind);

uint64_t checkpoint_slots(void); /* offset of the first stream's two; the other streams' follow */
/* Bytes of the file. */
uint64_t checkpoint_bytes(const checkpoint_header *h, uint64_t records);

/* The next layer is about to put hidden states into their slot. */
bool checkpoint_begin(const checkpoint *c, gq_error *e);
/* Makes the hidden states that were written safe from a power cut; checkpoint_add does so itself. */
bool checkpoint_sync(const checkpoint *c, gq_error *e);
/* The next layer is done: its hidden states are in their slot. sums: forward_stream_sum of each stream; NULL: nothing
 * comes behind this step, and states do not matter any more. */
bool checkpoint_add(checkpoint *c, const uint64_t *sums, const void *bytes, uint64_t n, gq_error *e);
/* Records in order: *at is 0 before the first. malloc'ed. */
uint8_t *checkpoint_next(const checkpoint *c, uint64_t *at, uint64_t *n, gq_error *e);

/* ---- sweep.c ----
 * One pass of models over a text, layer by layer: what imatrix data, evaluation, a sample of the inputs,
 * trials of types and the calibration have in common. The models' hidden states are in memory, in a file without a
 * name, or in the slots of a checkpoint, from which an interrupted sweep continues. Where ranks share the text
 * each has hidden states of its own windows, and they do the steps together.
 *
 *     sweep s;
 *     bool ok = sweep_open(&s, &plan, e) && sweep_run(&s, &calls, e);
 *     ...                                       // logits, from s.run and s.streams
 *     sweep_close(&s); */

/* ---- progress of models that are run, told to the caller's callbacks, which are asked whether to continue ---- */

/* The work is a line from 0 to `work`, in forward_job_work's unit or the user's own. It may be cut into
 * spans, such as the steps of a sweep, and these into pieces, whose predicted work need not be met: what is
 * reported of a piece stays within it, and the next one begins where it ends, so that the reported share
 * never falls and ends at 1. */
typedef struct sweep_progress {
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;
    double started; /* by clock_seconds, in seconds */
    double work, done, resumed;
    double begin, end; /* of the piece at hand */
    double next;       /* begin of the next piece, */
    double limit;      /* and where the last one of the span ends */
} sweep_progress;

/* done: the part of the work that an earlier run did. tokens: of the text, for gq_progress. */
sweep_progress sweep_progress_start(const gq_callbacks *callbacks, double work, double done, uint64_t tokens);
/* Announces the work from `begin` to `end`; all before is done. */
void sweep_progress_span(sweep_progress *p, double begin, double end);
/* Announces a piece of the span and its work. */
void sweep_progress_piece(sweep_progress *p, double work);
/* Reports that a share of the piece at hand is done. It asks nothing, and threads may call it in turn. */
void sweep_progress_within(sweep_progress *p, double share, const char *what);
/* Reports work done since the last call (0: none). It is a forward_job's callback: data is a sweep_progress,
 * `what` names the step and is not copied. false: the caller cancelled, GQ_INTERRUPTED. */
bool sweep_progress_report(void *data, double work, const char *what, gq_error *e);

/* ---- the text ---- */

/* A rank's share of a text that models are run on, and what that may take: what a sweep, the calibrator and
 * their plans need alike. */
typedef struct text_share {
    forward_job job;       /* with this rank's windows; threads and memory */
    forward_bounds bounds; /* of all streams */
    gq_comm *comm;         /* ranks that share the text; NULL: this process has all of it */
    /* The windows of all ranks, and the number of this one's first. idle: it has none of them: those of the
     * job, if any, count nowhere and are not kept. */
    size_t all_windows, first_window;
    bool idle;
    bool read_once; /* rank 0 reads the layers for all */
} text_share;

/* Makes a job that has the windows of the whole text one with this rank's. */
void text_share_take(text_share *t, gq_comm *comm, bool read_once);

/* ---- the sweep ---- */

/* The models, the text and the hidden states of a sweep. All that it points to must outlive the sweep. */
typedef struct sweep_plan {
    /* The job's `progress` and `data` are not used: the sweep has its own. The checkpoint's file has the
     * windows of all ranks. */
    text_share text;
    /* One stream for each of these models. absent: streams that are not run though they have their slots;
     * NULL: none is. */
    const forward_model *const *models;
    const bool *absent;
    size_t n_streams;
    /* Steps: so many layers, then the inputs of the output matrix and through MTP layers
     * (forward/graph/draft/draft.h), where that is asked for: one step, which begins with the hidden states behind
     * the layers. numbers: those of the layers in the model, of all its loops; NULL: 0, 1, 2 ... A model that has
     * fewer layers is not run through the others. */
    const uint64_t *numbers;
    size_t n_layers;
    bool output, mtp_layers;
    const char
        *folder; /* for a file of hidden states where there is no checkpoint; NULL: they fit into memory */
    checkpoint *checkpoint; /* the finished layers, to which steps are added; NULL: none */
    /* A file of the caller's to which the first stream's hidden states are also written; NULL: none. is_first_done:
     * those behind its last layer are there, so that it passes none. */
    const hidden_state_slots *first;
    bool is_first_done;
    struct {
        const gq_callbacks *callbacks; /* notified, and asked whether to continue; may be NULL */
        double work, done;             /* the whole work, and the part that an earlier run did */
        double started;                /* by clock_seconds, where a call is several sweeps; 0: now */
        double seconds_expected;       /* for gq_progress; 0: unknown */
        /* Work per unit that forward_job_work counts: of passes through layers, and of logits behind the last layer.
         * 0: one. */
        double layer_work, logits_work;
        /* For jobs whose progress covers more than the sweep: the caller's work and pieces, in place of those above but
         * the last two. NULL: the sweep's own. */
        sweep_progress *within;
    } progress;
} sweep_plan;

/* The record that a step leaves in the checkpoint: n bytes, malloc'ed; the sweep frees them. */
typedef struct sweep_record {
    void *bytes;
    uint64_t n;
} sweep_record;

typedef struct sweep_calls {
    /* Called before the first layer, unless the sweep continues from a checkpoint; gives each stream its
     * states. NULL: forward_stream_embed does. */
    bool (*before)(void *data, gq_error *e);
    /* Called with a layer or an MTP layer of one model, which is in memory, or with NULL for the output matrix; lets
     * all streams of that model pass. `on` NULL: they pass one after another, and `observer` gets the inputs of their
     * weights. */
    bool (*on)(void *data, forward_layer *l, gq_error *e);
    /* Called after each step; may fill *to, which is empty before. Of ranks only rank 0's record is kept.
     * NULL: not called. */
    bool (*after)(void *data, sweep_record *to, gq_error *e);
    const forward_observer *observer; /* may be NULL */
    void *data;
} sweep_calls;

typedef struct sweep {
    const sweep_plan *plan;
    forward_job job;
    forward_run *run;              /* NULL: this rank has no windows */
    forward_stream **streams;      /* absent ones are NULL */
    sweep_progress own, *progress; /* progress: the one that gets reports, its own or the plan's */
    char what[64]; /* the step at work, for progress, and behind the first what_step bytes its phase */
    size_t what_step;
    size_t step; /* its number, and that of its layer in the model */
    size_t layer;
    int hidden_states_fd; /* descriptor of the file without a name; -1: there is none */
} sweep;

/* Lets the layer s->layer of a model pass on a rank without windows, which takes part in what all ranks do. */
bool sweep_skip_layer(const sweep *s, const forward_model *m, gq_error *e);
size_t sweep_steps(const sweep_plan *p);
/* Makes bounds.layer the same on all ranks, that of the rank with least memory, where one reads the layers
 * for all. Called while planning. */
bool sweep_agree_layer(gq_comm *comm, bool read_once, uint64_t *layer, gq_error *e);
/* Makes the run and its streams. After a failure, too, *s has to be closed with sweep_close, and it must not
 * move in memory until then. A sweep of zeros may be closed as well. */
bool sweep_open(sweep *s, const sweep_plan *p, gq_error *e);
/* Does all steps that the checkpoint does not have. */
bool sweep_run(sweep *s, const sweep_calls *calls, gq_error *e);
/* Both are callbacks, too; data: the sweep. Asks whether to continue; false: the sweep has to end with this error. */
bool sweep_ask(void *data, gq_error *e);
/* Reports that a share of the piece of work at hand is done. */
void sweep_report(void *data, double share);
/* Returns the sweep's threads; NULL: it runs nothing. */
threads_pool *sweep_pool(const sweep *s);
/* Names what is done within a step, for progress: "inputs", "rounding". */
void sweep_name_phase(sweep *s, const char *phase);
/* Returns how many threads worked. */
threads_count sweep_threads(const sweep *s);
void sweep_close(sweep *s);

/* ---- forecast.c ----
 * Measures how long running models takes on this machine, before it is done: some tokens of the text go
 * through one layer of each kind, and through some rows of the output matrix. It takes about a second, or
 * some seconds where layers are large and threads few, and decides no bytes. */

typedef struct forecast_request {
    const forward_job *job; /* its text, threads and memory; its `progress` is not called */
    const forward_model *const *models;
    size_t n_models;
    const gq_callbacks *callbacks; /* told that a sample is measured; may be NULL */
    size_t batch;                  /* windows at once; 0: as many as the job has at most */
    uint64_t layer; /* bytes that a layer may take (forward_bounds); the sample takes the fewest */
    size_t scored;  /* positions of each window whose logits are compared, the last ones; 0: none */
} forecast_request;

/* Seconds, sums over all models. */
typedef struct forecast_pace {
    double read;   /* reading all layers once */
    double token;  /* a token through all layers */
    double scored; /* logits of a position, compared over the whole vocabulary */
} forecast_pace;

/* For work of fewer floating-point operations, which is done within a second, nothing is measured. */
static const double FORECAST_LEAST_WORK = 4e9;
/* The forecast in seconds for work as short as this. */
enum { FORECAST_LEAST_SECONDS = 1 };
/* If nothing is measured: the seconds of a typical processor's thread for a weight and a token, which are two
 * operations. */
static const double FORECAST_USUAL_PRODUCT = 2.5e-11;
/* Operations of one stream of each model through its layers, and through the output matrix for the scored
 * positions, about. */
double forecast_work(const forecast_request *r);

bool forecast_measure(const forecast_request *r, forecast_pace *to, gq_error *e);
