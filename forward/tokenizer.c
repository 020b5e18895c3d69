/* From a text to the ids of its tokens, the same ones that llama.cpp gives. Special tokens are cut out first
 * (specials.c). A stretch between them is cleaned or gets its spaces marked, as the kind of vocabulary wants
 * it, and is cut into words by patterns (splitter.c), at spaces or at newlines. A word is split into symbols,
 * bytes or characters, and neighbours are joined as long as two of them merge (join.c). A symbol that is no
 * token in the end is written byte by byte. Natural text repeats its words, so the ids of recent words are
 * kept for the length of a call; cutting more finely than needed makes words repeat and leaves the ids as
 * they are.
 */
#include "forward/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/memory.h"
#include "forward/join.h"
#include "forward/specials.h"
#include "forward/utf8.h"

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

bool token_list_add(token_list *l, uint32_t id, gq_error *e) {
    if (!memory_grow(&l->ids, &l->capacity, l->n + 1, sizeof *l->ids, e)) return false;
    l->ids[l->n++] = id;
    return true;
}

/* ---- a run ---- */

/* The ids of recent words, one word per slot, found by its hash. 2^15 slots of 96 bytes take 3 MiB. */
enum { CACHE_SLOTS = 1 << 15, CACHE_WORD = 38, CACHE_IDS = 14 };

typedef struct cached_word {
    uint8_t length, n; /* length 0: free */
    char text[CACHE_WORD];
    uint32_t ids[CACHE_IDS];
} cached_word;

typedef struct tokenizing {
    const vocabulary *v;
    join_scratch scratch;
    cached_word *cache;
    token_list *to;
    gq_error *e;
} tokenizing;

static cached_word *cache_slot(const tokenizing *r, const char *word, size_t n) {
    return &r->cache[gguf_hash(word, n, 0) % CACHE_SLOTS];
}

/* ---- from a word to ids ---- */

static size_t symbol_length(vocabulary_kind kind, const char *at, size_t left) {
    static const uint8_t by_nibble[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    if (kind == VOCABULARY_BPE) return 1;
    size_t n = by_nibble[(uint8_t)*at >> 4];
    return n < left ? n : left;
}

static bool read_symbols(tokenizing *r, const char *word, size_t n) {
    const vocabulary *v = r->v;
    r->scratch.n = 0;
    for (size_t at = 0, length; at < n; at += length) {
        length = symbol_length(v->kind, word + at, n - at);
        uint32_t number = v->kind == VOCABULARY_BPE ? v->mapped[(uint8_t)word[at]]
                                                    : pieces_find(&v->pieces, word + at, length);
        if (!join_add_symbol(&r->scratch, (uint32_t)at, (uint32_t)length, number, r->e)) return false;
    }
    return true;
}

/* Writes a symbol that is no token byte by byte. A byte without a token is left out and counted where
 * llama.cpp leaves it out, in vocabularies by rank; elsewhere it is an error. */
static bool emit_bytes(tokenizing *r, const char *bytes, size_t n) {
    const vocabulary *v = r->v;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        char mapped[2] = {(char)byte};
        size_t length = v->kind == VOCABULARY_BPE ? vocabulary_map_byte(byte, mapped) : 1;
        uint32_t known = v->kind == VOCABULARY_BPE ? NO_PIECE : v->bytes[byte];
        for (size_t k = 0; k < length; k++) {
            uint32_t id =
                known != NO_PIECE || v->kind == VOCABULARY_RAW ? known : v->single[(uint8_t)mapped[k]];
            if (id != NO_PIECE && !token_list_add(r->to, id, r->e)) return false;
            if (id == NO_PIECE && v->kind == VOCABULARY_SPM)
                return gq_fail(r->e, "the vocabulary has no token for the byte %02X of the text", byte);
            if (id == NO_PIECE && k + 1 == length) r->to->dropped++;
        }
    }
    return true;
}

static bool emit_symbols(tokenizing *r, const char *word) {
    for (size_t i = 0; i < r->scratch.n; i++) {
        const symbol *s = &r->scratch.symbols[i];
        if (s->length == 0) continue;
        bool ok = s->piece < r->v->n_tokens ? token_list_add(r->to, s->piece, r->e)
                                            : emit_bytes(r, word + s->start, s->length);
        if (!ok) return false;
    }
    return true;
}

/* Returns the token that the whole word is; NO_PIECE: it is none, or the vocabulary merges all words. */
static uint32_t whole_word(const tokenizing *r, const char *word, size_t n) {
    enum { LONGEST = 512 }; /* bytes; no token that means something is longer */
    char mapped[2 * LONGEST];
    size_t length = 0;
    if (r->v->kind != VOCABULARY_BPE || !r->v->rule.ignore_merges || n > LONGEST) return NO_PIECE;
    for (size_t i = 0; i < n; i++) length += vocabulary_map_byte((uint8_t)word[i], mapped + length);
    uint32_t id = pieces_find(&r->v->pieces, mapped, length);
    return id < r->v->n_tokens ? id : NO_PIECE;
}

static bool merge_word(tokenizing *r, const char *word, size_t n) {
    uint32_t id = whole_word(r, word, n);
    if (id != NO_PIECE) return token_list_add(r->to, id, r->e);
    return read_symbols(r, word, n) && join_all(r->v, word, &r->scratch, r->e) && emit_symbols(r, word);
}

static bool add_word(void *user, const char *word, size_t n, gq_error *e) {
    tokenizing *r = user;
    (void)e;
    if (n == 0 || n > CACHE_WORD) return n == 0 || merge_word(r, word, n);
    cached_word *c = cache_slot(r, word, n);
    if (c->length == n && !memcmp(c->text, word, n)) {
        for (size_t i = 0; i < c->n; i++)
            if (!token_list_add(r->to, c->ids[i], r->e)) return false;
        return true;
    }
    size_t first = r->to->n;
    uint64_t dropped = r->to->dropped;
    if (!merge_word(r, word, n)) return false;
    size_t count = r->to->n - first;
    if (count > CACHE_IDS || r->to->dropped != dropped) return true;
    c->length = (uint8_t)n, c->n = (uint8_t)count;
    memcpy(c->text, word, n);
    if (count) memcpy(c->ids, r->to->ids + first, count * sizeof *c->ids);
    return true;
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

/* Cuts before each run of U+2581, if nothing in the vocabulary joins across such a place: the ids stay the
 * same, and words repeat. */
static bool cut_at_spaces(tokenizing *r, const char *text, size_t n) {
    if (!r->v->cut_at_spaces) return add_word(r, text, n, r->e);
    size_t start = 0;
    bool was_space = true;
    for (size_t at = 0, length; at < n; at += length) {
        length = symbol_length(VOCABULARY_SPM, text + at, n - at);
        bool space = length == 3 && !memcmp(text + at, SPACE, 3);
        if (space && !was_space) {
            if (!add_word(r, text + start, at - start, r->e)) return false;
            start = at;
        }
        was_space = space;
    }
    return add_word(r, text + start, n - start, r->e);
}

/* Adds a run of newlines: as one token, or by its merges. */
static bool add_newlines(tokenizing *r, const char *text, size_t n) {
    uint32_t id = pieces_find(&r->v->pieces, text, n);
    return id < r->v->n_tokens ? token_list_add(r->to, id, r->e) : add_word(r, text, n, r->e);
}

static bool add_lines(tokenizing *r, const char *text, size_t n) {
    for (size_t at = 0, end; at < n; at = end) {
        bool newlines = text[at] == '\n';
        for (end = at; end < n && (text[end] == '\n') == newlines;) end++;
        if (!(newlines ? add_newlines(r, text + at, end - at) : cut_at_spaces(r, text + at, end - at)))
            return false;
    }
    return true;
}

/* Cuts cleaned text by the vocabulary's patterns. odd: some characters need stand-ins (utf8.h). */
static bool split_words(const vocabulary *v, const char *clean, size_t n, bool odd, split_word *word,
                        void *user, gq_error *e) {
    char *stand_in = odd ? malloc(n + 1) : NULL;
    if (odd && !stand_in) return gq_fail_memory(e, n);
    if (odd) utf8_stand_in(clean, n, stand_in);
    bool ok = splitter_run(v->splitter, odd ? stand_in : clean, clean, n, word, user, e);
    free(stand_in);
    return ok;
}

static bool add_text(tokenizing *r, const char *text, size_t n) {
    const vocabulary *v = r->v;
    size_t most = 3 * (n + 1), length;
    bool odd, spaced = v->kind != VOCABULARY_BPE;
    char *marked = spaced ? malloc(most) : NULL, *clean = v->kind != VOCABULARY_SPM ? malloc(3 * most) : NULL;
    bool ok = (!spaced || marked) && (v->kind == VOCABULARY_SPM || clean);
    if (!ok) gq_fail_memory(r->e, 4 * most);
    if (ok && spaced) n = put_spaces(text, n, v->space_prefix, marked), text = marked;
    if (ok && v->kind == VOCABULARY_SPM) ok = cut_at_spaces(r, text, n);
    if (ok && clean) {
        ok = utf8_clean(text, n, clean, &length, &odd, r->e);
        if (ok)
            ok = v->kind == VOCABULARY_RAW ? add_lines(r, clean, length)
                                           : split_words(v, clean, length, odd, add_word, r, r->e);
    }
    free(marked), free(clean);
    return ok;
}

/* ---- the whole ---- */

static bool add_end(tokenizing *r, bool wanted, uint32_t id, const char *what) {
    if (!wanted) return true;
    if (id != NO_PIECE) return token_list_add(r->to, id, r->e);
    return gq_fail(r->e, "the vocabulary wants every text to have %s token, and names none", what);
}

bool tokenizer_run(const tokenizer *t, const char *text, size_t n, unsigned flags, token_list *to,
                   gq_error *e) {
    const vocabulary *v = &t->vocabulary;
    tokenizing r = {.v = v, .to = to, .e = e};
    fragment *fragments = NULL;
    size_t n_fragments = 0;
    if (n > TOKENIZE_MOST)
        return gq_fail(e, "a text of %zu bytes: at most %zu are taken at once", n, TOKENIZE_MOST);
    r.cache = calloc(CACHE_SLOTS, sizeof *r.cache);
    bool ok = r.cache || gq_fail_memory(e, CACHE_SLOTS * sizeof *r.cache);
    ok = ok && add_end(&r, v->add_bos && flags & TOKENIZE_ADD_SPECIAL, v->bos, "a BOS") &&
         specials_cut(&t->specials, v, text, n, flags & TOKENIZE_PARSE_SPECIAL, &fragments, &n_fragments, e);
    for (size_t i = 0; ok && i < n_fragments; i++)
        ok = fragments[i].token != NO_PIECE ? token_list_add(to, fragments[i].token, e)
                                            : add_text(&r, text + fragments[i].start, fragments[i].length);
    ok = ok && add_end(&r, v->add_eos && flags & TOKENIZE_ADD_SPECIAL, v->eos, "an EOS");
    free(fragments), free(r.cache);
    join_scratch_free(&r.scratch);
    return ok;
}

static bool add_length(void *user, const char *word, size_t n, gq_error *e) {
    (void)word;
    return token_list_add(user, (uint32_t)n, e);
}

bool tokenizer_words(const tokenizer *t, const char *text, size_t n, token_list *lengths, gq_error *e) {
    const vocabulary *v = &t->vocabulary;
    size_t length;
    bool odd;
    if (v->kind != VOCABULARY_BPE || n > TOKENIZE_MOST)
        return gq_fail(e, "only vocabularies by rank on bytes cut words, of texts up to %zu bytes",
                       TOKENIZE_MOST);
    char *clean = malloc(3 * n + 1);
    bool ok = clean ? utf8_clean(text, n, clean, &length, &odd, e) : gq_fail_memory(e, 3 * n);
    ok = ok && split_words(v, clean, length, odd, add_length, lengths, e);
    free(clean);
    return ok;
}
