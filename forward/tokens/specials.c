/* Finds the special tokens of a vocabulary, and where they stand in a text. The file's classes are corrected
 * by well-known texts, in the way llama.cpp does it, so that ids agree with its own. The texts of all special
 * tokens form one tree over bytes, kept as a hash table of edges, so a text is searched for all of them at
 * once. Of the occurrences found, longer tokens take their bytes first, and an occurrence that has lost a
 * byte is dropped. What is left cuts the text into fragments: special tokens, and the stretches between them,
 * of which tokenizer.c makes ids. */
#include "forward/tokens/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* ---- which tokens are special ---- */

/* Texts that llama.cpp takes for control tokens whatever the file says, as they end a turn. */
static const char *const ends_of_turns[] = {
    "<|eot_id|>",         "<|im_end|>", "<|end|>",    "<end_of_turn>", "<|endoftext|>",
    "<|end_of_text|>",    "<EOT>",      "_<EOT>",     "[EOT]",         "<｜end▁of▁sentence｜>",
    "<end_of_utterance>", "<|eom_id|>", "<|return|>", "<|call|>",      "<|calls|>",
    "<|flush|>",          "</s>",       "[EOS]",      "<eos>",         "<turn|>",
    "<|tool_response>",   "[e~[",       NULL};

/* End-of-text tokens by their texts, unless a key names the token. */
static const struct {
    const char *keys[2];
    const char *texts[10];
} infill[] = {
    {{"fim_pre_token_id", "prefix_token_id"},
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
      "<|code_prefix|>", "<|prefix|>"}},
    {{"fim_suf_token_id", "suffix_token_id"},
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
      "<|code_suffix|>", "<|suffix|>"}},
    {{"fim_mid_token_id", "middle_token_id"},
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
      "<|middle|>"}},
    {{"fim_pad_token_id"}, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {{"fim_rep_token_id"}, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {{"fim_sep_token_id"}, {"<|file_sep|>"}},
};

static const char *const channels[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>", NULL};

static uint32_t token_named(const vocabulary *v, const char *text) {
    uint32_t id = pieces_find(&v->pieces, text, strlen(text));
    return id < v->n_tokens ? id : NO_PIECE;
}

static void set_classes(vocabulary *v, const char *const *texts, token_class class) {
    for (; *texts; texts++) {
        uint32_t id = token_named(v, *texts);
        if (id != NO_PIECE) v->classes[id] = (uint8_t) class;
    }
}

static bool vocabulary_has_token(const vocabulary *v, const char *text) {
    return token_named(v, text) != NO_PIECE;
}

void vocabulary_correct_classes(vocabulary *v, const model_kv *kv, uint64_t n_kv) {
    set_classes(v, ends_of_turns, TOKEN_CONTROL);
    for (size_t i = 0; i < sizeof infill / sizeof *infill; i++) {
        bool named = false;
        for (size_t k = 0; k < 2 && infill[i].keys[k]; k++) {
            char key[64];
            snprintf(key, sizeof key, "tokenizer.ggml.%s", infill[i].keys[k]);
            named |= model_kv_find(kv, n_kv, key) != NULL;
        }
        if (!named) set_classes(v, infill[i].texts, TOKEN_CONTROL);
    }
    set_classes(v, channels, TOKEN_USER);
    if ((vocabulary_has_token(v, "<|call|>") || vocabulary_has_token(v, "<|calls|>")) &&
        (vocabulary_has_token(v, "<|return|>") || vocabulary_has_token(v, "<|flush|>")))
        set_classes(v, (const char *const[]){"<|end|>", NULL}, TOKEN_USER);
    if (vocabulary_has_token(v, "<|tool_response>"))
        set_classes(v, (const char *const[]){"</s>", NULL}, TOKEN_PLAIN);
}

/* ---- all of them as a tree ---- */

static int longer_first(const void *a, const void *b, void *arg) {
    const vocabulary *v = arg;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint32_t n = v->pieces.items[i].length, m = v->pieces.items[k].length;
    if (n != m) return n > m ? -1 : 1;
    return i < k ? -1 : i > k;
}

bool specials_new(specials *s, const vocabulary *v, gq_error *e) {
    *s = (specials){.tree = {.seed = v->pieces.seed}};
    for (uint32_t i = 0; i < v->n_tokens; i++) s->n += v->classes[i] != TOKEN_PLAIN;
    s->order = calloc(s->n + 1, sizeof *s->order);
    if (!s->order) return gq_fail_memory(e, (s->n + 1) * sizeof *s->order);
    for (uint32_t i = 0, n = 0; i < v->n_tokens; i++)
        if (v->classes[i] != TOKEN_PLAIN) s->order[n++] = i;
    qsort_r(s->order, s->n, sizeof *s->order, longer_first, (void *)v);
    for (uint32_t i = 0; i < s->n; i++) {
        const piece *p = &v->pieces.items[s->order[i]];
        if (!tree_add(&s->tree, p->text, p->length, i, e)) return false;
    }
    return true;
}

void specials_free(specials *s) {
    free(s->order);
    tree_free(&s->tree);
    *s = (specials){0};
}

/* ---- cutting ---- */

typedef struct occurrence {
    uint32_t order; /* the special token's number */
    uint32_t start;
} occurrence;

typedef struct found {
    occurrence *items;
    size_t n, capacity;
} found;

static bool find_all(const specials *s, const vocabulary *v, const char *text, size_t n, bool control,
                     found *f, gq_error *e) {
    bool starts[256];
    for (unsigned i = 0; i < 256; i++) starts[i] = tree_child(&s->tree, 0, (uint8_t)i) != 0;
    for (size_t at = 0; at < n; at++) {
        if (!starts[(uint8_t)text[at]]) continue;
        uint32_t node = 0;
        for (size_t k = at; k < n && (node = tree_child(&s->tree, node, (uint8_t)text[k])) != 0; k++) {
            uint32_t order = tree_value(&s->tree, node);
            if (order == TREE_NONE) continue;
            bool plain = !control && v->classes[s->order[order]] == TOKEN_CONTROL;
            if (plain) continue;
            if (!memory_grow(&f->items, &f->capacity, f->n + 1, sizeof *f->items, e)) return false;
            f->items[f->n++] = (occurrence){order, (uint32_t)at};
        }
    }
    return true;
}

static int by_order(const void *a, const void *b) {
    const occurrence *x = a, *y = b;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Whether white space behind this token stays in a vocabulary that strips it (Phi-3's). */
static bool keeps_space(const piece *p) {
    static const char *const texts[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (p->length == strlen(texts[i]) && !memcmp(p->text, texts[i], p->length)) return true;
    return false;
}

static bool is_special_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

enum { FREE, TAKEN, STRIPPED, UNSURE }; /* fate of a byte */

/* Gives bytes to occurrences, those of longer tokens first and each token's from left to right: the order in
 * which llama.cpp cuts. The occurrences that get all their bytes are kept in *f. From byte `unseen` on there
 * may be others, which go first unless their order is that of an occurrence further left. *certain: the place
 * up to which they change nothing. */
static void take_bytes(const specials *s, const vocabulary *v, const char *text, size_t n, size_t unseen,
                       uint8_t *fate, found *f, size_t *certain) {
    size_t kept = 0;
    for (size_t i = 0; i < f->n; i++) {
        occurrence o = f->items[i];
        const piece *p = &v->pieces.items[s->order[o.order]];
        uint8_t *bytes = fate + o.start;
        if (memchr(bytes, TAKEN, p->length) || memchr(bytes, STRIPPED, p->length)) continue;
        if (memchr(bytes, UNSURE, p->length) || (o.order > 0 && o.start + (size_t)p->length > unseen)) {
            memset(bytes, UNSURE, p->length);
            if (o.start < *certain) *certain = o.start;
            continue;
        }
        memset(bytes, TAKEN, p->length);
        f->items[kept++] = o;
        bool strip = v->strips && !keeps_space(p);
        for (size_t at = o.start + (size_t)p->length;
             strip && at < n && fate[at] == FREE && is_special_space(text[at]); at++)
            fate[at] = STRIPPED;
    }
    f->n = kept;
}

static int by_start(const void *a, const void *b) {
    const occurrence *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Returns the last place up to `most` that no occurrence and no white space behind one lies across: what is
 * on one side of it changes nothing on the other. The occurrences are in the order of the text. */
static size_t last_independent_place(const specials *s, const vocabulary *v, const char *text, const found *f,
                                     size_t most) {
    size_t behind = 0, word = SIZE_MAX, best = 0; /* ends of occurrences; of what is no white space */
    for (size_t at = 0, i = 0; at <= most; at++) {
        for (; i < f->n && f->items[i].start < at; i++) {
            size_t end = f->items[i].start + (size_t)v->pieces.items[s->order[f->items[i].order]].length;
            if (end > behind) behind = end;
        }
        if (at > 0 && !is_special_space(text[at - 1])) word = at - 1;
        bool strips = behind > 0 && is_special_space(text[at]) && (word == SIZE_MAX || word < behind);
        if (at >= behind && !strips) best = at;
    }
    return best;
}

/* Whether byte `at` lies within a character that began behind `from`. */
static bool is_inside_character(const char *text, size_t from, size_t at) {
    for (size_t back = 1; back <= 3 && from + back <= at; back++) {
        unsigned char c = (unsigned char)text[at - back];
        if ((text[at] & 0xc0) != 0x80) return false;
        if (c >= 0xc0) return back < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u);
        if (c < 0x80) return false;
    }
    return false;
}

/* Moves a place from within an occurrence or a character to its beginning. */
static size_t place_between(const specials *s, const vocabulary *v, const char *text, const found *f,
                            size_t at) {
    size_t behind = 0;
    for (size_t i = 0; i < f->n && f->items[i].start < at; i++) {
        size_t end = f->items[i].start + (size_t)v->pieces.items[s->order[f->items[i].order]].length;
        if (end > at) return f->items[i].start;
        behind = end;
    }
    while (at > behind && is_inside_character(text, behind, at)) at--;
    return at;
}

static void found_drop_from(found *f, size_t place) {
    size_t kept = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->items[i].start < place) f->items[kept++] = f->items[i];
    f->n = kept;
}

/* Decides about the occurrences of a stretch of text, and up to which place that is certain. */
static void specials_decide(const specials *s, const vocabulary *v, const char *text, size_t n, bool last,
                            found *f, uint8_t *fate, size_t *certain) {
    size_t longest = s->n ? v->pieces.items[s->order[0]].length : 0;
    size_t unseen = last ? SIZE_MAX : longest <= 1 ? n : n < longest ? 0 : n - longest + 1;
    *certain = last || n == 0 ? n : unseen < n ? unseen : n - 1;
    if (!last && v->strips) { /* white space goes by tokens that may be far ahead of it */
        *certain = n = last_independent_place(s, v, text, f, *certain);
        unseen = SIZE_MAX;
    }
    if (!last) found_drop_from(f, v->strips ? n : unseen);
    if (f->n) {
        qsort(f->items, f->n, sizeof *f->items, by_order);
        take_bytes(s, v, text, n, unseen, fate, f, certain);
        qsort(f->items, f->n, sizeof *f->items, by_start);
    }
    if (!last) *certain = place_between(s, v, text, f, *certain);
    found_drop_from(f, *certain);
}

bool specials_cut(const specials *s, const vocabulary *v, const char *text, size_t n, bool last, bool control,
                  special_cuts *to, gq_error *e) {
    found f = {0};
    size_t certain = 0;
    uint8_t *fate = calloc(n + 1, 1);
    bool ok = fate || gq_fail_memory(e, n + 1);
    ok = ok && find_all(s, v, text, n, control, &f, e);
    if (ok) specials_decide(s, v, text, n, last, &f, fate, &certain);
    ok = ok && memory_grow(&to->items, &to->capacity, 2 * f.n + 1, sizeof *to->items, e);
    to->n = 0, to->end = certain;
    for (size_t at = 0, i = 0; ok && at < certain;) {
        size_t end = i < f.n ? f.items[i].start : certain;
        while (at < end && fate[at] == STRIPPED) at++;
        if (at < end) to->items[to->n++] = (fragment){at, end - at, NO_PIECE};
        at = end;
        if (i == f.n) continue;
        uint32_t token = s->order[f.items[i++].order];
        to->items[to->n++] = (fragment){at, v->pieces.items[token].length, token};
        at += v->pieces.items[token].length;
    }
    free(f.items), free(fate);
    return ok;
}
