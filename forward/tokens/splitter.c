#define PCRE2_CODE_UNIT_WIDTH 8
#include "forward/tokens/splitter.h"

#include <pcre2.h>
#include <stdlib.h>

struct splitter {
    const char *const *patterns;
    pcre2_code *codes[SPLIT_MOST];
    size_t n;
};

splitter *splitter_new(const split_rule *rule, gq_error *e) {
    splitter *s = calloc(1, sizeof *s);
    if (!s) return gq_fail_memory(e, sizeof *s), NULL;
    s->patterns = rule->patterns;
    for (; s->patterns && s->patterns[s->n]; s->n++) {
        int code;
        PCRE2_SIZE at;
        pcre2_code *c = pcre2_compile((PCRE2_SPTR)s->patterns[s->n], PCRE2_ZERO_TERMINATED,
                                      PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
        if (!c) {
            gq_fail(e, "the pattern of a pre-tokenizer cannot be compiled (PCRE2 error %d at %zu)", code,
                    (size_t)at);
            splitter_free(s);
            return NULL;
        }
        s->codes[s->n] = c;
        /* If this fails the interpreter does the same, slower. */
        pcre2_jit_compile(c, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    }
    return s;
}

void splitter_free(splitter *s) {
    for (size_t i = 0; s && i < s->n; i++) pcre2_code_free(s->codes[i]);
    free(s);
}

typedef struct splitting {
    const splitter *s;
    const char *subject, *text;
    pcre2_match_data *match;
    pcre2_match_context *context;
    split_word *word;
    void *user;
    gq_error *e;
} splitting;

static bool split_piece(const splitting *w, size_t level, size_t start, size_t end);

/* The next match in start..end at or behind `from`; *found false: there is none. open: a piece that continues behind
 * `end`. A match counts only where nothing behind `end` was asked for; else *begin is where it might begin. */
static bool find_match(const splitting *w, size_t level, size_t start, size_t end, size_t from, bool open,
                       size_t *begin, size_t *behind, bool *found) {
    int n = pcre2_match(w->s->codes[level], (PCRE2_SPTR)w->subject + start, end - start, from - start,
                        PCRE2_NO_UTF_CHECK | (open ? PCRE2_PARTIAL_HARD : 0), w->match, w->context);
    *found = n >= 0, *begin = end;
    if (n == PCRE2_ERROR_NOMATCH) return true;
    if (n == PCRE2_ERROR_PARTIAL) {
        *begin = start + pcre2_get_ovector_pointer(w->match)[0];
        return true;
    }
    if (n < 0) return gq_fail(w->e, "pre-tokenizing the text failed at byte %zu (PCRE2 error %d)", from, n);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(w->match);
    *begin = start + at[0], *behind = start + at[1];
    return true;
}

static size_t next_character(const char *text, size_t at, size_t end) {
    do at++;
    while (at < end && (text[at] & 0xc0) == 0x80);
    return at;
}

/* A run of digits in groups of three from the right; *from is where the piece before it began. */
static bool split_triples(const splitting *w, size_t level, size_t *from, size_t begin, size_t behind) {
    bool with_text = w->s->patterns[level] == SPLIT_TRIPLES_OF_TEXT;
    size_t left = 0;
    for (size_t at = begin; at < behind; at = next_character(w->subject, at, behind)) left++;
    for (size_t at = begin; at < behind; at = next_character(w->subject, at, behind), left--) {
        if (left % 3 || (with_text && at == begin)) continue;
        if (!split_piece(w, level + 1, *from, at)) return false;
        *from = at;
    }
    if (!with_text) return true;
    if (!split_piece(w, level + 1, *from, behind)) return false;
    *from = behind;
    return true;
}

/* Cut a piece by the patterns from `level` on: matches and what lies between them are pieces of their own. done NULL:
 * the piece ends at `end`. Else it continues there, and so does the last piece that it is cut into; *done: where the
 * words end that are certain. The patterns never look back, so what is left of a piece is cut as it would be with
 * what is not. */
static bool split_open(const splitting *w, size_t level, size_t start, size_t end, size_t *done) {
    if (done) *done = start;
    if (start == end || (level == w->s->n && done)) return true;
    if (level == w->s->n) return w->word(w->user, w->text + start, end - start, w->e);
    const char *pattern = w->s->patterns[level];
    bool triples = pattern == SPLIT_TRIPLES || pattern == SPLIT_TRIPLES_OF_TEXT;
    for (size_t from = start, search = start;;) {
        size_t begin, behind;
        bool found;
        if (!find_match(w, level, start, end, search, done, &begin, &behind, &found)) return false;
        if (!found) return split_open(w, level + 1, from, begin, done);
        if (triples) {
            if (!split_triples(w, level, &from, begin, behind)) return false;
        } else {
            if (!split_piece(w, level + 1, from, begin) || !split_piece(w, level + 1, begin, behind))
                return false;
            from = behind;
        }
        search = behind;
    }
}

static bool split_piece(const splitting *w, size_t level, size_t start, size_t end) {
    return split_open(w, level, start, end, NULL);
}

bool splitter_run(const splitter *s, const char *subject, const char *text, size_t n, size_t *done,
                  split_word *word, void *user, gq_error *e) {
    /* Repeats of more than one character keep a frame each; what they need grows with the longest run. */
    enum { STACK_START = 32 << 10, STACK_MOST = 16 << 20 };
    splitting w = {.s = s, .subject = subject, .text = text, .word = word, .user = user, .e = e};
    w.match = pcre2_match_data_create(1, NULL);
    w.context = pcre2_match_context_create(NULL);
    uint32_t compiled = 0; /* a PCRE2 that is built without its compiler has no stack for it either */
    pcre2_config(PCRE2_CONFIG_JIT, &compiled);
    pcre2_jit_stack *stack = compiled ? pcre2_jit_stack_create(STACK_START, STACK_MOST, NULL) : NULL;
    bool ok = w.match && w.context && (stack || !compiled);
    if (!ok) gq_fail_memory(e, STACK_START);
    if (ok) {
        if (stack) pcre2_jit_stack_assign(w.context, NULL, stack);
        pcre2_set_match_limit(w.context, UINT32_MAX); /* the patterns are ours, and linear */
        ok = split_open(&w, 0, 0, n, done);
    }
    pcre2_match_data_free(w.match);
    pcre2_match_context_free(w.context);
    pcre2_jit_stack_free(stack);
    return ok;
}
