#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void emit_start(emitter *j, FILE *to) { *j = (emitter){.to = to}; }

static void new_line(emitter *j) {
    if (j->inline_from && j->depth >= j->inline_from)
        fputs(j->filled[j->depth] ? " " : "", j->to);
    else
        fprintf(j->to, "\n%*s", 2 * j->depth, "");
}

/* Length of the UTF-8 sequence that begins n bytes, 0 when it is none: overlong forms, surrogates and what is
 * beyond U+10FFFF are none. */
static size_t sequence(const unsigned char *s, size_t n) {
    if (*s < 0x80) return 1;
    size_t length = *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;
    if (*s < 0xc2 || *s > 0xf4 || length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f)) return 0;
    if ((*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f)) return 0;
    return length;
}

static void quoted(FILE *to, const char *text, size_t length) {
    const unsigned char *c = (const unsigned char *)text;
    fputc('"', to);
    for (size_t left = length, n; left > 0; c += n, left -= n) {
        n = sequence(c, left);
        if (n == 0)
            fputs("\\ufffd", to), n = 1;
        else if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f || *c == '<')
            fprintf(to, "\\u%04x", *c);
        else
            fwrite(c, 1, n, to);
    }
    fputc('"', to);
}

static void before_value(emitter *j, const char *key) {
    if (j->filled[j->depth]) fputc(',', j->to);
    if (j->depth) new_line(j);
    j->filled[j->depth] = true;
    if (!key) return;
    quoted(j->to, key, strlen(key));
    fputs(": ", j->to);
}

void emit_open(emitter *j, const char *key, char kind) {
    before_value(j, key);
    fputc(kind, j->to);
    j->depth++;
    j->closing[j->depth] = kind == '{' ? '}' : ']';
    j->filled[j->depth] = false;
}

void emit_open_line(emitter *j, const char *key, char kind) {
    emit_open(j, key, kind);
    if (!j->inline_from) j->inline_from = j->depth;
}

void emit_close(emitter *j) {
    char closing = j->closing[j->depth];
    bool filled = j->filled[j->depth], line = j->inline_from && j->depth >= j->inline_from;
    if (j->depth == j->inline_from) j->inline_from = 0;
    j->depth--;
    if (filled && !line) fprintf(j->to, "\n%*s", 2 * j->depth, "");
    fputc(closing, j->to);
}

void emit_bytes(emitter *j, const char *key, const char *text, size_t length) {
    before_value(j, key);
    quoted(j->to, text, length);
}

void emit_text(emitter *j, const char *key, const char *text) { emit_bytes(j, key, text, strlen(text)); }

void emit_count(emitter *j, const char *key, uint64_t n) {
    before_value(j, key);
    fprintf(j->to, "%" PRIu64, n);
}

void emit_signed(emitter *j, const char *key, int64_t n) {
    before_value(j, key);
    fprintf(j->to, "%" PRId64, n);
}

void emit_number(emitter *j, const char *key, double value) {
    before_value(j, key);
    if (isfinite(value))
        fprintf(j->to, "%.9g", value); /* nine digits: what the sums are good for */
    else
        fputs("null", j->to);
}

void emit_bool(emitter *j, const char *key, bool value) {
    before_value(j, key);
    fputs(value ? "true" : "false", j->to);
}

void emit_end(emitter *j) { fputc('\n', j->to); }
