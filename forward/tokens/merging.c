/* Merges of a word to ids (BPE). A word is split into symbols, bytes or characters, and neighbours are joined as long
 * as two of them merge (join.c). A symbol that is no token in the end is written byte by byte. Natural text repeats
 * its words, so the ids of recent words are kept for the length of a call; cutting more finely than needed makes
 * words repeat and leaves the ids as they are. A word that is longer than a window is joined window by window, each
 * from the first symbol that the one before could not be certain of. */
#include "forward/tokens/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/name_index.h"
#include "base/units.h"

/* The ids of recent words, one word per slot, found by its hash. 2^15 slots of 96 bytes take 3 MiB. */
enum {
    CACHE_SLOTS = 1 << 15, /* at most */
    CACHE_WORD = 38,
    CACHE_IDS = 14
};

/* Bytes that are joined at once. */
enum { WINDOW = 1 << 15 };

struct cached_word {
    uint8_t length, n; /* length 0: free */
    char text[CACHE_WORD];
    uint32_t ids[CACHE_IDS];
};

bool merging_new(merging *m, const vocabulary *v, uint64_t n, const token_limits *limits, token_list *to,
                 gq_error *e) {
    *m = (merging){.v = v, .limits = limits, .to = to, .cache_slots = 16, .e = e};
    m->window = limits->window ? limits->window : WINDOW;
    while (m->cache_slots < CACHE_SLOTS && m->cache_slots < n) m->cache_slots *= 2;
    m->cache = calloc(m->cache_slots, sizeof *m->cache);
    return m->cache || gq_fail_memory(e, m->cache_slots * sizeof *m->cache);
}

void merging_free(merging *m) {
    free(m->cache);
    join_scratch_free(&m->scratch);
}

/* A symbol for each byte, and a join that is possible for each; joining leaves some that are not. Arrays that
 * grow by doubling may be half empty. */
uint64_t merging_bytes(size_t window) {
    return CACHE_SLOTS * sizeof(cached_word) + (uint64_t)window * 2 * (sizeof(symbol) + 2 * sizeof(join));
}

bool merging_goes_on(merging *m) {
    const token_limits *l = m->limits;
    m->enough = l->tokens && m->to->n >= l->tokens;
    if (m->enough) return false;
    return !l->cancelled || !l->cancelled(l->user) ||
           gq_fail_as(m->e, GQ_INTERRUPTED, "stopped while the text was tokenized");
}

/* ---- symbols ---- */

/* *end: the bytes that the symbols have. Of a beginning the last symbol may lack bytes, and is left out. */
static bool read_symbols(merging *m, const char *word, size_t n, bool whole, size_t *end) {
    const vocabulary *v = m->v;
    m->scratch.n = 0;
    for (*end = 0; *end < n;) {
        size_t length = symbol_length(v->kind, word + *end, whole ? n - *end : SIZE_MAX);
        if (length > n - *end) break;
        uint32_t number = v->kind == VOCABULARY_BPE ? v->mapped[(uint8_t)word[*end]]
                                                    : pieces_find(&v->pieces, word + *end, length);
        if (!join_add_symbol(&m->scratch, (uint32_t)*end, (uint32_t)length, number, m->e)) return false;
        *end += length;
    }
    return true;
}

/* Writes a symbol that is no token byte by byte. A byte without a token is left out and counted where
 * llama.cpp leaves it out, in vocabularies by rank; elsewhere it is an error. */
static bool emit_bytes(merging *m, const char *bytes, size_t n) {
    const vocabulary *v = m->v;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        char mapped[2] = {(char)byte};
        size_t length = v->kind == VOCABULARY_BPE ? symbol_of_byte(byte, mapped) : 1;
        uint32_t known = v->kind == VOCABULARY_BPE ? NO_PIECE : v->bytes[byte];
        for (size_t k = 0; k < length; k++) {
            uint32_t id =
                known != NO_PIECE || v->kind == VOCABULARY_RAW ? known : v->single[(uint8_t)mapped[k]];
            if (id != NO_PIECE && !token_list_add(m->to, id, m->e)) return false;
            if (id == NO_PIECE && v->kind == VOCABULARY_SPM)
                return gq_fail(m->e, "the vocabulary has no token for the byte %02X of the text", byte);
            if (id == NO_PIECE && k + 1 == length) m->to->dropped++;
        }
    }
    return true;
}

/* Writes the symbols that begin before `end`. */
static bool emit_symbols(merging *m, const char *word, size_t end) {
    for (size_t i = 0; i < m->scratch.n && m->scratch.symbols[i].start < end; i++) {
        const symbol *s = &m->scratch.symbols[i];
        if (s->length == 0) continue;
        bool ok = s->piece < m->v->n_tokens ? token_list_add(m->to, s->piece, m->e)
                                            : emit_bytes(m, word + s->start, s->length);
        if (!ok) return false;
    }
    return true;
}

/* ---- words ---- */

/* Returns the token that the whole word is; NO_PIECE: it is none, or the vocabulary merges all words. */
static uint32_t whole_word(const merging *m, const char *word, size_t n) {
    enum { LONGEST = 512 }; /* bytes; no token that means something is longer */
    char mapped[2 * LONGEST];
    size_t length = 0;
    if (m->v->kind != VOCABULARY_BPE || !m->v->rule.ignore_merges || n > LONGEST) return NO_PIECE;
    for (size_t i = 0; i < n; i++) length += symbol_of_byte((uint8_t)word[i], mapped + length);
    uint32_t id = pieces_find(&m->v->pieces, mapped, length);
    return id < m->v->n_tokens ? id : NO_PIECE;
}

bool merging_may_widen(merging *m, size_t window) {
    char room[UNITS_TEXT_BYTES];
    uint64_t memory = m->limits->memory;
    if (window < UINT32_MAX / 4 && (!memory || add_sat(m->held, merging_bytes(2 * window)) <= memory))
        return true;
    return gq_fail_usage(m->e,
                         "the tokens of a run of %zu bytes depend on what follows it, and a longer run does "
                         "not fit in the %s of memory left for the text",
                         window, units_memory(room, memory));
}

/* A window that is not certain of any symbol is tried again twice as long. */
bool merging_add_beginning(merging *m, const char *word, size_t n, size_t *done) {
    size_t joined = 0;
    for (size_t window = m->window, end; window <= n - joined;) {
        const char *at = word + joined;
        if (!merging_goes_on(m) || !read_symbols(m, at, window, false, &end) ||
            !join_beginning(m->v, at, window, &m->scratch, &end, m->e) || !emit_symbols(m, at, end))
            return false;
        if (end == 0 && !merging_may_widen(m, window)) return false;
        joined += end;
        window = end ? m->window : 2 * window;
    }
    *done += joined;
    return true;
}

static bool merge_word(merging *m, const char *word, size_t n) {
    uint32_t id = whole_word(m, word, n);
    size_t done = 0, end;
    if (id != NO_PIECE) return token_list_add(m->to, id, m->e);
    if (n > m->window && !merging_add_beginning(m, word, n, &done)) return false;
    word += done, n -= done;
    return read_symbols(m, word, n, true, &end) && join_all(m->v, word, &m->scratch, m->e) &&
           emit_symbols(m, word, n);
}

bool merging_add_word(merging *m, const char *word, size_t n) {
    if (n == 0 || n > CACHE_WORD) return n == 0 || merge_word(m, word, n);
    cached_word *c = &m->cache[name_hash(word, n, 0) & (m->cache_slots - 1)];
    if (c->length == n && !memcmp(c->text, word, n)) {
        for (size_t i = 0; i < c->n; i++)
            if (!token_list_add(m->to, c->ids[i], m->e)) return false;
        return true;
    }
    size_t first = m->to->n;
    uint64_t dropped = m->to->dropped;
    if (!merge_word(m, word, n)) return false;
    size_t count = m->to->n - first;
    if (count > CACHE_IDS || m->to->dropped != dropped) return true;
    c->length = (uint8_t)n, c->n = (uint8_t)count;
    memcpy(c->text, word, n);
    if (count) memcpy(c->ids, m->to->ids + first, count * sizeof *c->ids);
    return true;
}

/* ---- the ids of a text, and how many of them may be held ---- */

bool token_list_add(token_list *l, uint32_t id, gq_error *e) {
    if (!memory_grow(&l->ids, &l->capacity, l->n + 1, sizeof *l->ids, e)) return false;
    l->ids[l->n++] = id;
    return true;
}

bool token_limits_hold(const token_limits *l, const token_list *list, uint64_t ids, uint64_t others,
                       gq_error *e) {
    char room[UNITS_TEXT_BYTES];
    return !l->memory || add_sat(mul_sat(ids, sizeof *list->ids), others) <= l->memory ||
           gq_fail_usage(e,
                         "the ids of more than %zu tokens do not fit into the %s of memory that are left for "
                         "the text: take fewer tokens",
                         list->n, units_memory(room, l->memory));
}

bool token_limits_allow(const token_limits *l, const token_list *list, gq_error *e) {
    enum { ASKED = 1 << 12 }; /* tokens after which the caller is asked */
    if (list->n % ASKED == 0 && l->cancelled && l->cancelled(l->user))
        return gq_fail_as(e, GQ_INTERRUPTED, "stopped while tokens were read");
    return list->n < list->capacity || token_limits_hold(l, list, mul_sat(2, list->capacity), 0, e);
}
