#include "publish/jinja/lex.h"

#include <ctype.h>
#include <string.h>

#include "base/fail.h"

typedef struct jinja_lexer {
    const char *at, *end;
    jinja_memory *memory;
    jinja_token *tokens;
    size_t n, capacity;
    bool at_line_start; /* the text that comes next begins a line */
    bool trims;         /* and its blanks at its beginning are left out */
} jinja_lexer;

static void lex_add(jinja_lexer *l, jinja_token_kind kind, const char *at, size_t n) {
    if (l->n == l->capacity) {
        size_t capacity = l->n ? 2 * l->n : 64;
        jinja_token *tokens = jinja_take(l->memory, capacity * sizeof *tokens);
        if (!tokens) return;
        if (l->n) memcpy(tokens, l->tokens, l->n * sizeof *tokens);
        l->tokens = tokens, l->capacity = capacity;
    }
    l->tokens[l->n++] = (jinja_token){kind, {at, n}};
}

static bool lex_begins(const jinja_lexer *l, const char *text) {
    size_t n = strlen(text);
    return (size_t)(l->end - l->at) >= n && !memcmp(l->at, text, n);
}

/* Adds the text before a tag, which begins at `tag`, less its blanks at both ends as far as tags say so. */
static void lex_add_outside(jinja_lexer *l, const char *tag) {
    const char *from = l->at, *to = tag;
    char kind = tag < l->end ? tag[1] : 0, sign = tag + 2 < l->end ? tag[2] : 0;
    while (l->trims && from < to && isspace((unsigned char)*from)) from++;
    if (kind && sign == '-')
        while (to > from && isspace((unsigned char)to[-1])) to--;
    else if ((kind == '%' || kind == '#') && sign != '+') {
        const char *line = to;
        while (line > from && (line[-1] == ' ' || line[-1] == '\t')) line--;
        if (line > from ? line[-1] == '\n' : l->at_line_start) to = line;
    }
    if (to > from) lex_add(l, TOKEN_OUTSIDE, from, (size_t)(to - from));
    l->at = tag, l->trims = false;
}

/* Passes the end of a tag, and the end of the line behind a block. */
static void lex_close(jinja_lexer *l, bool is_print) {
    l->trims = *l->at == '-';
    bool keeps = *l->at == '+';
    l->at += 2 + (l->trims || keeps);
    l->at_line_start = false;
    if (!is_print && !keeps && l->at < l->end && *l->at == '\n') l->at++, l->at_line_start = true;
}

/* Whether the tag that began ends here, with or without a sign before. */
static bool lex_at_end(const jinja_lexer *l, const char *close) {
    jinja_lexer behind = *l;
    if (l->at < l->end && (*l->at == '-' || *l->at == '+')) behind.at++;
    return lex_begins(l, close) || lex_begins(&behind, close);
}

/* Adds a string; false: it does not end, or has an escape that is not understood. */
static bool lex_string(jinja_lexer *l) {
    static const char letters[] = "nrt\\'\"", meant[] = "\n\r\t\\'\"";
    const char quote = *l->at++, *from = l->at;
    while (l->at < l->end && *l->at != quote) l->at += *l->at == '\\' && l->end - l->at > 1 ? 2 : 1;
    if (l->at >= l->end) return false;
    char *text = jinja_take(l->memory, (size_t)(l->at - from) + 1), *to = text;
    for (const char *c = from; text && c < l->at; c++) {
        const char *letter = *c == '\\' && c[1] ? strchr(letters, c[1]) : NULL;
        if (*c == '\\' && !letter) return false;
        *to++ = letter ? meant[letter - letters] : *c;
        c += letter != NULL;
    }
    l->at++;
    lex_add(l, TOKEN_STRING, text, (size_t)(to - text));
    return true;
}

/* Adds a word or a sign of a tag. */
static bool lex_word(jinja_lexer *l, int *nested) {
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    const char *from = l->at;
    if (*from == '\'' || *from == '"') return lex_string(l);
    while (l->at < l->end && (isalnum((unsigned char)*l->at) || *l->at == '_')) l->at++;
    if (l->at > from) {
        bool is_number = isdigit((unsigned char)*from);
        lex_add(l, is_number ? TOKEN_NUMBER : TOKEN_NAME, from, (size_t)(l->at - from));
        return !is_number || l->at == l->end || *l->at != '.'; /* a fraction */
    }
    if (!*from || !strchr("+-*/%~()[]{},.:|=<>!", *from)) return false;
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (lex_begins(l, two[i])) n = 2;
    *nested += (*from == '{') - (*from == '}');
    l->at += n;
    lex_add(l, TOKEN_OPERATOR, from, n);
    return true;
}

static bool lex_tag(jinja_lexer *l, bool is_print) {
    const char *close = is_print ? "}}" : "%}";
    int nested = 0; /* braces of dicts */
    lex_add(l, is_print ? TOKEN_PRINT : TOKEN_STATEMENT, l->at, 2);
    l->at += 2;
    if (l->at < l->end && (*l->at == '-' || *l->at == '+')) l->at++;
    for (;;) {
        while (l->at < l->end && isspace((unsigned char)*l->at)) l->at++;
        if (l->at >= l->end) return false;
        if (nested <= 0 && lex_at_end(l, close)) break;
        if (!lex_word(l, &nested)) return false;
    }
    lex_add(l, TOKEN_CLOSE, l->at, 2);
    lex_close(l, is_print);
    return true;
}

/* Passes a comment. */
static bool lex_comment(jinja_lexer *l) {
    const char *end = memmem(l->at, (size_t)(l->end - l->at), "#}", 2);
    if (!end) return false;
    l->at = end - (end[-1] == '-' || end[-1] == '+');
    lex_close(l, false);
    return true;
}

/* Returns the next tag; the template's end: there is none. */
static const char *lex_next_tag(const jinja_lexer *l) {
    const char *at = l->at;
    while ((at = memchr(at, '{', (size_t)(l->end - at))))
        if (l->end - at > 1 && strchr("{%#", at[1]) && at[1])
            return at;
        else
            at++;
    return l->end;
}

const jinja_token *jinja_lex(const char *template, size_t n, jinja_memory *m, gq_error *e) {
    jinja_lexer l = {.at = template, .end = template + n, .memory = m, .at_line_start = true};
    if (n && l.end[-1] == '\n') l.end--; /* as Jinja has it */
    bool ok = true;
    while (ok && l.at < l.end) {
        lex_add_outside(&l, lex_next_tag(&l));
        if (l.at < l.end) ok = l.at[1] == '#' ? lex_comment(&l) : lex_tag(&l, l.at[1] == '{');
    }
    lex_add(&l, TOKEN_END, l.end, 0);
    if (m->is_full) return gq_fail_memory(e, m->total), NULL;
    if (!ok) return gq_fail(e, "not understood at byte %zu", (size_t)(l.at - template)), NULL;
    return l.tokens;
}
