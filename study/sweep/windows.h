/* A text, or ids that stand for one, as windows of tokens that a model runs on, each from position 0 on. */
#pragma once

#include "base/comm/ranks.h"
#include "base/warnings.h"
#include "forward/stream/job.h"
#include "forward/tokens/tokenizer.h"
#include "gguf/model.h"
#include "quantize/gquant_common.h"

typedef struct text_windows {
    uint32_t *ids; /* n windows of `context`, one after another */
    size_t context, n;
    size_t left_over; /* tokens behind the last window */
    size_t stride;    /* tokens from a window's beginning to the next one's; 0: windows do not overlap */
    bool pools;       /* each window has one embedding, and no token is predicted */
    /* Of the same tokens, where windows hold conversations (chats.h), and how many of these there are, with how
     * many tokens; NULL: each window is one text, and all tokens count alike. */
    forward_mark *marks;
    size_t texts, text_tokens;
    /* Of the same tokens, where some are masked (masks.h), and where the logits of these are; NULL: none is. */
    forward_target *targets;
    bool in_place;
    /* The first token of each window where BOS has taken its place; NULL: they stand there. */
    uint32_t *replaced;
} text_windows;

/* What making windows may take. */
typedef struct windows_limits {
    uint64_t memory;               /* of the process, with what it has taken already */
    const gq_callbacks *callbacks; /* asked whether to stop; NULL: nobody is asked */
} windows_limits;

/* What the first so many tokens of a text, 0: all, may take then. */
token_limits windows_token_limits(uint64_t tokens, const windows_limits *limits);

/* Makes windows of a text with the model's own tokenizer; w->ids is malloc'ed, and windows_free frees it. The
 * text begins as the vocabulary begins texts; where that is a BOS, it replaces each window's first token, as
 * in llama.cpp's own programs. A window of a model that gives embeddings ends as a text does, too: with the
 * vocabulary's EOS or separator in place of its last token. Ids are taken as they are, and
 * files of conversations with their weights (chats.h). vocabulary: how many
 * tokens the model has; all ids are below it. Of the text no more is read than the tokens need. */
bool windows_read(text_windows *w, const gq_text *text, const model_source *model, size_t vocabulary,
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
/* Has windows of given ids begin as those of a text do. */
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

/* Warns where windows are longer than those that a model was made for; trained 0: nobody knows. */
bool windows_warn_longer(size_t context, size_t trained, const char *model, warning_list *warnings,
                         gq_error *e);

/* A rank's share of n windows of `context` tokens begins with this one and ends before that of the next rank:
 * whole groups of tokens (forward/stream/stream.h). The last ranks may have none. */
size_t windows_share(const gq_comm *comm, size_t n, size_t context, int rank);
/* Gives all ranks what each has of its windows: `each` bytes of an array for a window. A collective of base/comm/ranks.h. */
bool windows_gather(gq_comm *comm, size_t n, size_t context, void *array, size_t each, gq_error *e);

/* Returns which window of the `group`-th group of `each` is chosen. It moves about from group to group, by the
 * root of 2 less 1, as kinds of text may take turns: with the same one each time all that are chosen could be
 * of one kind. Of the first group it is the last. */
static inline size_t windows_turn(size_t group, size_t each) {
    return each - 1 - (size_t)((uint64_t)((uint32_t)group * 1779033703u) * each >> 32);
}

/* A calibration holds windows back: it does not round by them but checks with them. One window in ten is
 * held back, or the last one where there are fewer than ten. In long texts it is fewer, as HELD_OUT_TOKENS
 * tokens tell a matrix's error to a percent or two. */
enum {
    HELD_OUT_ONE_IN = 10,
    HELD_OUT_TOKENS = 4096,
};
typedef struct windows_held {
    size_t every; /* a window of each whole group of so many is held back; 0: none is */
    size_t n;     /* windows that are held back */
} windows_held;
/* Decides which of n windows of `context` tokens are held back. */
windows_held windows_hold_out(size_t n, size_t context);
static inline bool windows_is_held(windows_held h, size_t window) {
    if (!h.every) return false;
    size_t group = window / h.every;
    return group < h.n && window % h.every == windows_turn(group, h.every);
}
