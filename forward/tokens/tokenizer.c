/* Tokenizes a text to the same ids as llama.cpp, in memory that does not grow with the text. Special tokens are cut
 * out first (specials.c). A stretch between them is cleaned or gets its spaces marked, as the kind of vocabulary
 * wants it, and is cut into words by patterns (splitter.c), at spaces or at newlines; merging.c makes ids of the
 * words, words.c and unigram.c of those that do not merge.
 *
 * All of that is done a piece of the text at a time. Each step says up to which place its result does not
 * depend on what follows, and what is behind that place waits for the next piece. Where nothing is certain
 * more of the text is taken at once, as long as memory lasts: a word that patterns cut out has to be there as
 * a whole, and is refused where it is longer. */
#include "forward/tokens/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/units.h"
#include "forward/tokens/tokens.h"

struct tokenizer {
    vocabulary vocabulary;
    specials specials;
};

tokenizer *tokenizer_new(const char *file, const model_kv *kv, uint64_t n_kv, gq_error *e) {
    tokenizer *t = calloc(1, sizeof *t);
    if (!t) return gq_fail_memory(e, sizeof *t), NULL;
    if (vocabulary_read(&t->vocabulary, file, kv, n_kv, e) && specials_new(&t->specials, &t->vocabulary, e))
        return t;
    tokenizer_free(t);
    return NULL;
}

void tokenizer_free(tokenizer *t) {
    if (!t) return;
    specials_free(&t->specials);
    vocabulary_free(&t->vocabulary);
    free(t);
}

const char *const *tokenizer_warnings(const tokenizer *t, size_t *n) {
    *n = t->vocabulary.n_warnings;
    return (const char *const *)t->vocabulary.warnings;
}

bool tokenizer_begins(const tokenizer *t, uint32_t *bos) {
    *bos = t->vocabulary.bos;
    return t->vocabulary.add_bos && *bos != NO_PIECE;
}

bool tokenizer_ends(const tokenizer *t, uint32_t *eos) {
    const vocabulary *v = &t->vocabulary;
    bool has_sep = v->add_sep && v->sep != NO_PIECE;
    *eos = has_sep ? v->sep : v->eos;
    return has_sep || (v->add_eos && v->eos != NO_PIECE);
}

/* ---- a run ---- */

/* Bytes that are searched for special tokens at once, few, as in a run of newlines thirty of them may begin
 * at each byte; and bytes that are cut into words at once. */
enum { SEARCHED = 1 << 14, PIECE = 1 << 18 };

typedef struct buffer {
    char *bytes;
    size_t n, capacity;
} buffer;

typedef struct tokenizing {
    merging merging;
    words_maker words; /* of a vocabulary of words */
    unigram_work unigrams;
    const vocabulary *v;
    const gq_file *file;
    size_t piece;
    buffer raw;    /* of the text, behind what has been cut at special tokens */
    uint64_t at;   /* its first byte in the text */
    buffer text;   /* cleaned or marked, behind what has been cut into words */
    uint64_t fed;  /* the end of the fed text in the file */
    size_t enough; /* bytes of `text` that are worth cutting into words */
    buffer marked, stand_in;
    special_cuts cuts;
    bool in_text;  /* a stretch between special tokens has begun and not ended */
    bool odd;      /* some of its characters need stand-ins (tokens.h) */
    bool newlines; /* `text` begins in the middle of a run of newlines */
    gq_error *e;
} tokenizing;

static bool buffer_has_room(tokenizing *r, buffer *b, size_t n) {
    return memory_grow(&b->bytes, &b->capacity, n, 1, r->e);
}

/* Bytes of the file that `text` stands for: U+2581 is one of them, and so is U+FFFD. */
static uint64_t waiting_bytes(const tokenizing *r) {
    uint64_t n = r->text.n;
    for (size_t i = 0; i + 3 <= r->text.n; i++)
        if (!memcmp(r->text.bytes + i, "\xe2\x96\x81", 3) || !memcmp(r->text.bytes + i, "\xef\xbf\xbd", 3))
            n -= 2;
    return min(n, r->fed);
}

/* Whether so many bytes more may be taken, as nothing can be cut off what there is. */
static bool may_take_bytes(tokenizing *r, uint64_t more, uint64_t at, uint64_t run) {
    char room[UNITS_TEXT_BYTES];
    uint64_t memory = r->merging.limits->memory, taken = r->merging.held;
    if (!memory || add_sat(taken, more) <= memory) return true;
    return gq_fail_usage(r->e,
                         "%llu bytes or more of the text cannot be split, from byte %llu on: a longer run "
                         "does not fit in the %s of memory left for the text",
                         (unsigned long long)run, (unsigned long long)at, units_memory(room, memory));
}

/* Notes what is held, and whether the list has room for another piece's ids. */
static bool count_memory(tokenizing *r) {
    const token_list *to = r->merging.to;
    uint64_t most = to->n + r->text.n + r->raw.n,
             ids = most > to->capacity ? max(most, mul_sat(2, to->capacity)) : to->capacity;
    uint64_t raw = add_sat(mul_sat(2, r->raw.capacity), mul_sat(r->cuts.capacity, sizeof(fragment)));
    uint64_t buffers = add_sat(raw, r->text.capacity + r->marked.capacity + r->stand_in.capacity);
    r->merging.held =
        add_sat(merging_bytes(r->merging.window), add_sat(buffers, mul_sat(ids, sizeof *to->ids)));
    return to->n < PIECE || token_limits_hold(r->merging.limits, to, ids, buffers, r->e);
}

/* ---- from a text to words ---- */

static const char SPACE[] = "\xe2\x96\x81"; /* U+2581 */

/* Copies a text with U+2581 for each space, and one in front with `prefix`. to: 3 (n + 1) bytes. */
static size_t put_spaces(const char *text, size_t n, bool prefix, char *to) {
    char *at = to;
    if (prefix) memcpy(at, SPACE, 3), at += 3;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ')
            memcpy(at, SPACE, 3), at += 3;
        else
            *at++ = text[i];
    }
    return (size_t)(at - to);
}

/* Adds a word, or as much of its beginning as is certain. */
static bool add_word(tokenizing *r, const char *word, size_t n, bool last, size_t *done) {
    if (!last) return merging_add_beginning(&r->merging, word, n, done);
    *done += n;
    return merging_add_word(&r->merging, word, n);
}

/* Cuts before each run of U+2581, if nothing in the vocabulary joins across such a place: the ids stay the
 * same, and words repeat. */
static bool cut_at_spaces(tokenizing *r, const char *text, size_t n, bool last, size_t *done) {
    size_t start = 0;
    bool was_space = true;
    for (size_t at = 0, length; r->v->cut_at_spaces && at < n; at += length) {
        length = symbol_length(VOCABULARY_SPM, text + at, n - at);
        bool space = length == 3 && !memcmp(text + at, SPACE, 3);
        if (space && !was_space) {
            if (!merging_add_word(&r->merging, text + start, at - start)) return false;
            start = at;
        }
        was_space = space;
    }
    *done += start;
    return add_word(r, text + start, n - start, last, done);
}

/* Adds a run of newlines: as one token, or by its merges. A run that may continue is left until it is longer than any
 * token. */
static bool add_newlines(tokenizing *r, const char *text, size_t n, bool last, size_t *done) {
    size_t before = *done;
    if (!last) {
        bool ok = n <= r->v->longest || merging_add_beginning(&r->merging, text, n, done);
        r->newlines |= *done > before;
        return ok;
    }
    uint32_t id = r->newlines ? NO_PIECE : pieces_find(&r->v->pieces, text, n);
    r->newlines = false, *done += n;
    return id < r->v->n_tokens ? token_list_add(r->merging.to, id, r->e)
                               : merging_add_word(&r->merging, text, n);
}

static bool add_lines(tokenizing *r, const char *text, size_t n, bool last, size_t *done) {
    for (size_t at = 0, end; at < n; at = end) {
        bool newlines = text[at] == '\n';
        for (end = at; end < n && (text[end] == '\n') == newlines;) end++;
        bool closed = last || end < n;
        r->newlines &= newlines;
        if (!(newlines ? add_newlines(r, text + at, end - at, closed, done)
                       : cut_at_spaces(r, text + at, end - at, closed, done)))
            return false;
    }
    return true;
}

static bool add_split_word(void *user, const char *word, size_t n, gq_error *) {
    return merging_add_word(user, word, n);
}

/* Cuts cleaned text by the vocabulary's patterns. */
static bool split_words(tokenizing *r, bool last, split_word *word, void *user, size_t *done) {
    const buffer *text = &r->text;
    if (r->odd) {
        if (!buffer_has_room(r, &r->stand_in, text->n)) return false;
        utf8_stand_in(text->bytes, text->n, r->stand_in.bytes);
    }
    if (last) *done = text->n;
    return splitter_run(r->v->splitter, r->odd ? r->stand_in.bytes : text->bytes, text->bytes, text->n,
                        last ? NULL : done, word, user, r->e);
}

/* Cuts what there is of a stretch of text into words. last: it ends there. */
static bool cut_words(tokenizing *r, bool last) {
    buffer *text = &r->text;
    size_t done = 0;
    bool ok = r->v->kind == VOCABULARY_WORDS ? words_add(&r->words, text->bytes, text->n, last, &done)
              : r->v->kind == VOCABULARY_BPE ? split_words(r, last, add_split_word, &r->merging, &done)
              : r->v->kind == VOCABULARY_RAW ? add_lines(r, text->bytes, text->n, last, &done)
              : r->v->unigram ? unigram_cut(&r->unigrams, &r->merging, text->bytes, text->n, last, &done)
                              : cut_at_spaces(r, text->bytes, text->n, last, &done);
    if (!ok) return false;
    text->n -= done;
    if (done) memmove(text->bytes, text->bytes + done, text->n); /* else there may be no bytes at all */
    r->enough = (size_t)max(r->piece, mul_sat(2, text->n));
    if (r->enough <= text->capacity) return true;
    uint64_t run = waiting_bytes(r);
    return may_take_bytes(r, mul_sat(r->odd ? 4 : 2, r->enough - text->capacity), r->fed - run, run);
}

/* ---- from the file to a text ---- */

/* Cleans n bytes that begin at `first` of the file, behind what waits. */
static bool clean_text(tokenizing *r, const char *text, size_t n, const char *raw, size_t n_raw,
                       uint64_t first) {
    size_t length;
    bool odd;
    if (!buffer_has_room(r, &r->text, r->text.n + 3 * n)) return false;
    if (!utf8_clean(text, n, first, r->text.bytes + r->text.n, &length, &odd, r->e))
        return text != raw && utf8_clean(raw, n_raw, first, r->text.bytes + r->text.n, &length, &odd, r->e);
    r->text.n += length, r->odd |= odd;
    return true;
}

/* Makes n bytes normal, behind what waits. Some of them may be kept until it is known what follows. */
static bool normalize_text(tokenizing *r, const char *text, size_t n, bool last) {
    buffer *kept = &r->marked, *to = &r->text;
    size_t done = 0;
    if (!buffer_has_room(r, kept, kept->n + n + 1)) return false;
    memcpy(kept->bytes + kept->n, text, n);
    kept->n += n;
    if (!unigram_normalize(&r->unigrams, r->v->unigram, kept->bytes, kept->n, last, &to->bytes, &to->n,
                           &to->capacity, &done, r->e))
        return false;
    kept->n -= done;
    memmove(kept->bytes, kept->bytes + done, kept->n);
    return true;
}

/* Adds n bytes to a stretch of text, which begins there unless it has begun. */
static bool feed_text(tokenizing *r, const char *text, size_t n, uint64_t first) {
    buffer *to = r->v->kind == VOCABULARY_SPM ? &r->text : &r->marked;
    bool prefix = r->v->space_prefix && !r->in_text;
    bool is_plain = r->v->kind == VOCABULARY_BPE || r->v->kind == VOCABULARY_WORDS;
    bool is_unigram = r->v->kind == VOCABULARY_UNIGRAM;
    r->in_text = true, r->fed = first + n;
    if (!is_plain && !is_unigram) {
        if (to == &r->marked) to->n = 0;
        if (!buffer_has_room(r, to, to->n + 3 * (n + 1))) return false;
        to->n += put_spaces(text, n, prefix, to->bytes + to->n);
    }
    bool ok = r->v->kind == VOCABULARY_SPM ? true
              : is_unigram                 ? normalize_text(r, text, n, false)
              : is_plain                   ? clean_text(r, text, n, text, n, first)
                                           : clean_text(r, to->bytes, to->n, text, n, first);
    return ok && (r->text.n < r->enough || cut_words(r, false));
}

static bool end_text(tokenizing *r) {
    bool ok = !r->in_text || ((!r->v->unigram || normalize_text(r, "", 0, true)) && cut_words(r, true));
    r->in_text = r->odd = r->newlines = false;
    return ok;
}

static bool add_fragments(tokenizing *r) {
    for (size_t i = 0; i < r->cuts.n; i++) {
        const fragment *f = &r->cuts.items[i];
        bool ok = f->token == NO_PIECE ? feed_text(r, r->raw.bytes + f->start, f->length, r->at + f->start)
                                       : end_text(r) && token_list_add(r->merging.to, f->token, r->e);
        if (!ok) return false;
    }
    return true;
}

/* Reads more of the text, until there are n bytes of it. */
static bool fill_raw(tokenizing *r, size_t n) {
    buffer *b = &r->raw;
    uint64_t left = r->file->size - r->at - b->n;
    size_t more = (size_t)min(left, n - b->n);
    if (!buffer_has_room(r, b, b->n + more + 1) ||
        !gq_file_read(r->file, r->at + b->n, b->bytes + b->n, more, r->e))
        return false;
    b->n += more;
    return true;
}

static bool add_file(tokenizing *r, const tokenizer *t, unsigned flags) {
    size_t n = min(r->piece, SEARCHED);
    for (bool last = false; !last;) {
        buffer *b = &r->raw;
        if (!merging_goes_on(&r->merging) || !fill_raw(r, n) || !count_memory(r)) return false;
        last = r->at + b->n == r->file->size;
        if (!specials_cut(&t->specials, r->v, b->bytes, b->n, last, flags & TOKENIZE_PARSE_SPECIAL, &r->cuts,
                          r->e) ||
            !add_fragments(r))
            return false;
        r->at += r->cuts.end, b->n -= r->cuts.end;
        memmove(b->bytes, b->bytes + r->cuts.end, b->n);
        n = (size_t)max(min(r->piece, SEARCHED), mul_sat(2, b->n));
        if (!last && n > b->capacity && !may_take_bytes(r, mul_sat(2, n - b->capacity), r->at, b->n))
            return false;
    }
    return end_text(r);
}

/* ---- the whole ---- */

static bool add_end(tokenizing *r, bool wanted, uint32_t id, const char *what) {
    if (!wanted) return true;
    if (id != NO_PIECE) return token_list_add(r->merging.to, id, r->e);
    return gq_fail(r->e, "the vocabulary adds %s token to every text but defines none", what);
}

static void tokenizing_free(tokenizing *r) {
    free(r->raw.bytes), free(r->text.bytes), free(r->marked.bytes), free(r->stand_in.bytes);
    free(r->cuts.items), free(r->words.text);
    unigram_work_free(&r->unigrams);
    merging_free(&r->merging);
}

bool tokenizer_read(const tokenizer *t, const gq_file *text, unsigned flags, const token_limits *limits,
                    token_list *to, gq_error *e) {
    const vocabulary *v = &t->vocabulary;
    tokenizing r = {.v = v, .file = text, .piece = limits->piece ? limits->piece : PIECE, .e = e};
    r.enough = r.piece;
    r.words = (words_maker){.v = v, .to = to, .e = e};
    bool ok = merging_new(&r.merging, v, text->size, limits, to, e) &&
              add_end(&r, v->add_bos && flags & TOKENIZE_ADD_SPECIAL, v->bos, "a BOS") &&
              add_file(&r, t, flags) &&
              add_end(&r, v->add_eos && flags & TOKENIZE_ADD_SPECIAL, v->eos, "an EOS") &&
              add_end(&r, v->kind == VOCABULARY_WORDS && v->add_sep && flags & TOKENIZE_ADD_SPECIAL, v->sep,
                      "a separator");
    ok |= r.merging.enough;
    tokenizing_free(&r);
    return ok;
}

bool tokenizer_run(const tokenizer *t, const char *text, size_t n, unsigned flags, token_list *to,
                   gq_error *e) {
    gq_file file;
    if (!gq_file_memory(&file, "the text", text, n, NULL, e)) return false;
    bool ok = tokenizer_read(t, &file, flags, &(token_limits){.tokens = 0}, to, e);
    gq_file_close(&file);
    return ok;
}

static bool add_length(void *user, const char *, size_t n, gq_error *e) {
    return token_list_add(user, (uint32_t)n, e);
}

bool tokenizer_words(const tokenizer *t, const char *text, size_t n, token_list *lengths, gq_error *e) {
    tokenizing r = {.v = &t->vocabulary, .e = e};
    size_t done;
    if (r.v->kind != VOCABULARY_BPE)
        return gq_fail(e, "only byte-level BPE vocabularies have a pre-tokenizer");
    bool ok = clean_text(&r, text, n, text, n, 0) && split_words(&r, true, add_length, lengths, &done);
    tokenizing_free(&r);
    return ok;
}
