/* Reads a vocabulary from a model's metadata into the tables that tokenizing needs. The kind and the
 * splitting rule come first, then the tokens. These are numbered pieces, in the order of their ids, and texts
 * that only merges have follow behind, so a piece below n_tokens is a token's id. Scores become ranks, so
 * that all kinds join the lowest first. Then come the classes, BOS and EOS, and what follows from the texts:
 * tokens of single bytes, and whether a text may be cut at spaces. Where a key is missing llama.cpp's default
 * holds. The file's reader has checked lengths; here types and numbers of elements are. */
#include "forward/tokens/vocabulary.h"
#include "forward/tokens/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata ---- */

typedef struct source {
    const char *file;
    const model_kv *kv;
    uint64_t n_kv;
    gq_error *e;
} source;

#define PREFIX "tokenizer.ggml."

static const model_kv *vocabulary_find_pair(const source *s, const char *name) {
    char key[64];
    snprintf(key, sizeof key, PREFIX "%s", name);
    return model_kv_find(s->kv, s->n_kv, key);
}

static bool get_bool(const source *s, const char *name, bool value) {
    const model_kv *kv = vocabulary_find_pair(s, name);
    return kv && kv->type == GGUF_BOOL ? *kv->value != 0 : value;
}

/* Finds a list with elements of this type; *elements NULL: the key is not there. False: it is no such list. */
static bool get_list(const source *s, const char *name, uint32_t type, uint64_t *n,
                     const uint8_t **elements) {
    const model_kv *kv = vocabulary_find_pair(s, name);
    uint32_t found;
    *elements = NULL, *n = 0;
    if (!kv) return true;
    if (kv->size > INT32_MAX)
        return gq_fail(s->e, "%s: key " PREFIX "%s has %llu bytes, more than any vocabulary", s->file, name,
                       (unsigned long long)kv->size);
    if (model_kv_array(kv, &found, n, elements) && found == type) return true;
    return gq_fail(s->e, "%s: key " PREFIX "%s is not an array of %s", s->file, name, gguf_value_name(type));
}

static bool vocabulary_warn(vocabulary *v, const source *s, const char *text) {
    char *line = strdup(text);
    if (!line || v->n_warnings == VOCABULARY_WARNINGS) {
        free(line);
        return line || gq_fail_memory(s->e, strlen(text));
    }
    v->warnings[v->n_warnings++] = line;
    return true;
}

/* ---- kind ---- */

static bool read_rule(vocabulary *v, const source *s, bool *no_pre) {
    const char *pre = "default";
    uint64_t n = strlen(pre);
    *no_pre = !model_kv_string(vocabulary_find_pair(s, "pre"), &pre, &n);
    if (!pretokenizers_find(pre, n, &v->rule))
        return gq_fail(s->e,
                       "%s: key " PREFIX "pre is '%.*s', an unknown pre-tokenizer; the model can be "
                       "quantized, but texts cannot be tokenized for it",
                       s->file, (int)(n < 80 ? n : 80), pre);
    if (v->rule.raw) v->kind = VOCABULARY_RAW;
    return true;
}

static bool read_kind(vocabulary *v, const source *s) {
    static const char *const names[] = {[VOCABULARY_SPM] = "llama",
                                        [VOCABULARY_BPE] = "gpt2",
                                        [VOCABULARY_RAW] = "gemma4",
                                        [VOCABULARY_WORDS] = "bert",
                                        [VOCABULARY_UNIGRAM] = "t5"};
    const char *model;
    uint64_t n;
    if (!model_kv_string(vocabulary_find_pair(s, "model"), &model, &n))
        return gq_fail(
            s->e, "%s: key " PREFIX "model is missing: the file has no vocabulary to tokenize with", s->file);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) != n || memcmp(names[i], model, n) != 0) continue;
        v->kind = (vocabulary_kind)i;
        v->rule.always_bos = v->rule.raw = v->kind == VOCABULARY_RAW;
        bool no_pre = false;
        if (v->kind == VOCABULARY_BPE && !read_rule(v, s, &no_pre)) return false;
        return !no_pre || vocabulary_warn(v, s,
                                          "the file does not name its pre-tokenizer (key " PREFIX
                                          "pre); the default one is used, which may differ from the model's");
    }
    return gq_fail(s->e,
                   "%s: key " PREFIX
                   "model is '%.*s', an unsupported tokenizer; expected llama, gpt2, gemma4, bert or t5",
                   s->file, (int)(n < 80 ? n : 80), model);
}

/* ---- tokens ---- */

/* The string at *at of a list that the reader has checked. */
static piece next_string(const uint8_t **at) {
    uint64_t length;
    memcpy(&length, *at, sizeof length);
    piece p = {(const char *)*at + sizeof length, (uint32_t)length};
    *at += sizeof length + length;
    return p;
}

/* Returns a lower rank for a higher score. The bits of floats from 0 upward, read as integers, are in the
 * order of the floats; below 0 the order is reversed. */
static uint32_t rank_of_score(float score) {
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = bits & 0x80000000 ? ~bits : bits | 0x80000000;
    return ~ascending;
}

/* *numbers: one for each token, or NULL. */
static bool get_numbers(const vocabulary *v, const source *s, const char *name, uint32_t type,
                        const uint8_t **numbers, const char *what) {
    uint64_t n;
    if (!get_list(s, name, type, &n, numbers)) return false;
    if (!*numbers || n >= v->n_tokens) return true;
    return gq_fail(s->e, "%s: %llu %s for %u tokens", s->file, (unsigned long long)n, what, v->n_tokens);
}

static bool read_scores(vocabulary *v, const source *s) {
    const uint8_t *scores;
    float score = 0;
    if (v->kind != VOCABULARY_SPM) return true;
    if (!get_numbers(v, s, "scores", GGUF_FLOAT32, &scores, "scores")) return false;
    v->ranks = calloc(v->n_tokens, sizeof *v->ranks);
    if (!v->ranks) return gq_fail_memory(s->e, v->n_tokens * sizeof *v->ranks);
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (scores) memcpy(&score, scores + 4 * (size_t)i, sizeof score);
        v->ranks[i] = rank_of_score(score);
    }
    return true;
}

static bool read_classes(vocabulary *v, const source *s) {
    enum { UNKNOWN = 2, CONTROL = 3, USER = 4 };
    const uint8_t *types;
    if (!get_numbers(v, s, "token_type", GGUF_INT32, &types, "token types")) return false;
    v->classes = calloc(v->n_tokens, 1);
    if (!v->classes) return gq_fail_memory(s->e, v->n_tokens);
    for (uint32_t i = 0; types && i < v->n_tokens; i++) {
        int32_t type;
        memcpy(&type, types + 4 * (size_t)i, sizeof type);
        if (type == UNKNOWN || type == CONTROL) v->classes[i] = TOKEN_CONTROL;
        if (type == USER) v->classes[i] = TOKEN_USER;
    }
    return true;
}

/* Makes the tokens pieces, first of all, so that a piece below n_tokens is a token's id. *texts: where texts
 * for empty tokens are put. */
static bool vocabulary_read_tokens(vocabulary *v, const source *s, uint64_t n_merges, char **texts) {
    enum { EMPTY = 24 }; /* bytes of "[EMPTY_4294967295]" */
    uint64_t n;
    const uint8_t *at;
    bool fresh;
    if (!get_list(s, "tokens", GGUF_STRING, &n, &at)) return false;
    if (!at || n == 0)
        return gq_fail(s->e, "%s: key " PREFIX "tokens is missing: the file has no vocabulary", s->file);
    if (!pieces_new(&v->pieces, n + 3 * n_merges + 256, s->e)) return false;
    for (uint64_t i = 0; i < n; i++) {
        piece p = next_string(&at);
        if (p.length == 0) {
            p.text = *texts,
            p.length = (uint32_t)snprintf(*texts, EMPTY, "[EMPTY_%llu]", (unsigned long long)i);
            *texts += p.length;
        }
        size_t valid = v->kind == VOCABULARY_BPE ? 0 : p.length; /* its bytes are written as characters */
        uint32_t code;
        for (size_t one; valid < p.length && (one = gq_utf8(p.text + valid, p.length - valid, &code));)
            valid += one;
        if (valid < p.length)
            return gq_fail(s->e, "%s: token %llu is not UTF-8, as tokens of byte-level BPE are", s->file,
                           (unsigned long long)i);
        uint32_t id = pieces_add(&v->pieces, p.text, p.length, &fresh);
        if (!fresh)
            return gq_fail(s->e, "%s: tokens %u and %llu have the same text '%.*s'", s->file, id,
                           (unsigned long long)i, (int)(p.length < 80 ? p.length : 80), p.text);
        if (p.length > v->longest) v->longest = p.length;
    }
    v->n_tokens = (uint32_t)n;
    return true;
}

/* Opens the map of characters of a vocabulary of unigrams, if it has one. */
static bool read_map(const source *s, charsmap *map) {
    static const char NAME[] = "precompiled_charsmap";
    const model_kv *kv = vocabulary_find_pair(s, NAME);
    const uint8_t *bytes;
    uint64_t n;
    uint32_t type;
    gq_error e;
    if (!kv) return true;
    if (!model_kv_array(kv, &type, &n, &bytes) || (type != GGUF_U8 && type != GGUF_INT8))
        return gq_fail(s->e, "%s: key " PREFIX "%s is not an array of bytes", s->file, NAME);
    return n == 0 /* none, as in llama.cpp */ || charsmap_open(map, bytes, n, &e) ||
           gq_fail(s->e, "%s: key " PREFIX "%s %s", s->file, NAME, e.text);
}

static bool read_unigram(vocabulary *v, const source *s) {
    const uint8_t *scores, *types;
    if (v->kind != VOCABULARY_UNIGRAM) return true;
    if (!get_numbers(v, s, "scores", GGUF_FLOAT32, &scores, "scores") ||
        !get_numbers(v, s, "token_type", GGUF_INT32, &types, "token types") ||
        !(v->unigram = unigram_new(v, s->file, scores, types, s->e)))
        return false;
    v->unigram->adds_space = get_bool(s, "add_space_prefix", false);
    v->unigram->trims = get_bool(s, "remove_extra_whitespaces", false);
    return read_map(s, &v->unigram->map);
}

/* Whether neighbours of a text merge by a list. */
static bool has_merges(vocabulary_kind kind) { return kind == VOCABULARY_BPE || kind == VOCABULARY_RAW; }

/* ---- merges ---- */

/* Bytes that the texts of all merges, and of tokens without a text, take together at most. */
static uint64_t vocabulary_texts_bytes(const source *s) {
    const model_kv *merges = vocabulary_find_pair(s, "merges"), *tokens = vocabulary_find_pair(s, "tokens");
    return (merges ? merges->size : 0) + 3 * (tokens ? tokens->size : 0) + 1024;
}

static bool read_merges(vocabulary *v, const source *s, uint64_t n, const uint8_t *at, char *texts) {
    bool fresh;
    if (!merges_new(&v->merges, n, s->e)) return false;
    for (uint64_t i = 0; i < n; i++) {
        piece line = next_string(&at);
        const char *space = line.length > 1 ? memchr(line.text + 1, ' ', line.length - 1) : NULL;
        if (!space) continue; /* two empty halves */
        size_t left = (size_t)(space - line.text), right = line.length - left - 1;
        memcpy(texts, line.text, left);
        memcpy(texts + left, space + 1, right);
        merge m = {.rank = (uint32_t)i};
        m.left = pieces_add(&v->pieces, line.text, left, &fresh);
        m.right = pieces_add(&v->pieces, space + 1, right, &fresh);
        m.result = pieces_add(&v->pieces, texts, left + right, &fresh);
        if (fresh) texts += left + right;
        merges_add(&v->merges, &m);
    }
    return true;
}

static bool find_merges(const vocabulary *v, const source *s, uint64_t *n, const uint8_t **at) {
    const char *pre;
    uint64_t length;
    *n = 0, *at = NULL;
    if (!has_merges(v->kind)) return true;
    if (!get_list(s, "merges", GGUF_STRING, n, at)) return false;
    if (*at) return true;
    bool may = model_kv_string(vocabulary_find_pair(s, "pre"), &pre, &length) && length == 7 &&
               !memcmp(pre, "kimi-k2", 7);
    return may ||
           gq_fail(s->e, "%s: key " PREFIX "merges is missing: its vocabulary cannot tokenize without it",
                   s->file);
}

/* ---- what follows from the texts ---- */

static const char SPACE[] = "\xe2\x96\x81"; /* U+2581 */

static bool space_only_ahead(const piece *p) {
    size_t at = 0;
    while (p->length - at >= 3 && !memcmp(p->text + at, SPACE, 3)) at += 3;
    return !memmem(p->text + at, p->length - at, SPACE, 3);
}

static void find_bytes(vocabulary *v) {
    for (unsigned i = 0; i < 256; i++) {
        char text[8], byte = (char)i, mapped[2];
        snprintf(text, sizeof text, "<0x%02X>", i);
        v->bytes[i] = pieces_find(&v->pieces, text, 6);
        v->single[i] = pieces_find(&v->pieces, &byte, 1);
        v->mapped[i] = pieces_find(&v->pieces, mapped, symbol_of_byte((uint8_t)i, mapped));
        if (v->bytes[i] >= v->n_tokens) v->bytes[i] = NO_PIECE;
        if (v->single[i] >= v->n_tokens) v->single[i] = NO_PIECE;
    }
    v->cut_at_spaces = true;
    for (uint32_t i = v->kind == VOCABULARY_SPM ? 0 : v->n_tokens; i < v->pieces.n && v->cut_at_spaces; i++)
        v->cut_at_spaces = space_only_ahead(&v->pieces.items[i]);
    /* In vocabularies by rank the results of merges count, and such a result may be a token, too. */
    for (uint64_t i = 0; i < v->merges.n_slots && v->cut_at_spaces; i++)
        if (v->merges.slots[i].left != NO_PIECE)
            v->cut_at_spaces = space_only_ahead(&v->pieces.items[v->merges.slots[i].result]);
}

/* ---- beginning and end ---- */

static bool read_end(vocabulary *v, const source *s, const char *name, uint32_t otherwise, uint32_t *id) {
    const model_kv *kv = vocabulary_find_pair(s, name);
    int64_t number;
    *id = otherwise < v->n_tokens ? otherwise : NO_PIECE;
    if (!model_kv_int(kv, &number)) return true;
    if (number >= 0 && number < (int64_t)v->n_tokens) {
        *id = (uint32_t)number;
        return true;
    }
    char text[160];
    snprintf(text, sizeof text, "key " PREFIX "%s is %lld, but there are %u tokens; it is ignored", name,
             (long long)number, v->n_tokens);
    return vocabulary_warn(v, s, text);
}

static bool read_ends(vocabulary *v, const source *s) {
    static const uint32_t bos[] = {[VOCABULARY_SPM] = 1,
                                   [VOCABULARY_BPE] = 11,
                                   [VOCABULARY_RAW] = NO_PIECE,
                                   [VOCABULARY_WORDS] = 101,
                                   [VOCABULARY_UNIGRAM] = NO_PIECE},
                          eos[] = {[VOCABULARY_SPM] = 2,
                                   [VOCABULARY_BPE] = 11,
                                   [VOCABULARY_RAW] = NO_PIECE,
                                   [VOCABULARY_WORDS] = NO_PIECE,
                                   [VOCABULARY_UNIGRAM] = 1};
    bool is_words = v->kind == VOCABULARY_WORDS, is_unigram = v->kind == VOCABULARY_UNIGRAM;
    if (!read_end(v, s, "bos_token_id", v->rule.no_bos ? NO_PIECE : bos[v->kind], &v->bos) ||
        !read_end(v, s, "eos_token_id", eos[v->kind], &v->eos) ||
        !read_end(v, s, "seperator_token_id", is_words ? 102 : NO_PIECE, &v->sep) ||
        !read_end(v, s, "unknown_token_id",
                  is_words     ? 100
                  : is_unigram ? 2
                               : NO_PIECE,
                  &v->unknown))
        return false;
    v->add_bos = v->rule.always_bos ||
                 get_bool(s, "add_bos_token", is_words || v->kind == VOCABULARY_SPM || v->rule.add_bos);
    v->add_sep = get_bool(s, "add_sep_token", is_words);
    v->lowers = get_bool(s, "normalizer.lowercase", true);
    v->strips_accents = get_bool(s, "normalizer.strip_accents", v->lowers);
    v->add_eos = get_bool(s, "add_eos_token", is_unigram);
    v->space_prefix = v->kind == VOCABULARY_SPM && get_bool(s, "add_space_prefix", true);
    return true;
}

static bool names_phi3(const source *s) {
    const char *name;
    uint64_t n;
    if (!model_kv_string(model_kv_find(s->kv, s->n_kv, "general.name"), &name, &n)) return false;
    for (uint64_t i = 0; i + 4 <= n; i++) {
        bool phi = (name[i] | 32) == 'p' && (name[i + 1] | 32) == 'h' && (name[i + 2] | 32) == 'i';
        if (phi && (name[i + 3] == '3' || (i + 5 <= n && name[i + 3] == '-' && name[i + 4] == '3')))
            return true;
    }
    return false;
}

bool vocabulary_read(vocabulary *v, const char *file, const model_kv *kv, uint64_t n_kv, gq_error *e) {
    *v = (vocabulary){.bos = NO_PIECE};
    source s = {file, kv, n_kv, e};
    uint64_t n_merges;
    const uint8_t *merges;
    if (!read_kind(v, &s) || !find_merges(v, &s, &n_merges, &merges)) return false;
    char *texts = v->texts = malloc(vocabulary_texts_bytes(&s));
    if (!texts) return gq_fail_memory(e, vocabulary_texts_bytes(&s));
    if (!vocabulary_read_tokens(v, &s, n_merges, &texts) || !read_scores(v, &s) || !read_classes(v, &s) ||
        (has_merges(v->kind) && !read_merges(v, &s, n_merges, merges, texts)) || !read_ends(v, &s))
        return false;
    vocabulary_correct_classes(v, kv, n_kv);
    if (!read_unigram(v, &s)) return false;
    find_bytes(v);
    v->strips = names_phi3(&s);
    if (v->kind == VOCABULARY_BPE && !(v->splitter = splitter_new(&v->rule, e))) return false;
    return true;
}

void vocabulary_free(vocabulary *v) {
    pieces_free(&v->pieces);
    merges_free(&v->merges);
    splitter_free(v->splitter);
    unigram_free(v->unigram);
    free(v->classes), free(v->ranks), free(v->texts);
    for (size_t i = 0; i < v->n_warnings; i++) free(v->warnings[i]);
    *v = (vocabulary){0};
}
