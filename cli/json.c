#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "quantize/gquant.h"

void emit_start(emitter *j, FILE *to) { *j = (emitter){.to = to}; }

static void new_line(emitter *j) {
    if (j->inline_from && j->depth >= j->inline_from)
        fputs(j->filled[j->depth] ? " " : "", j->to);
    else
        fprintf(j->to, "\n%*s", 2 * j->depth, "");
}

static void quoted(FILE *to, const char *text, size_t length) {
    fputc('"', to);
    for (size_t left = length, n; left > 0; text += n, left -= n) {
        uint32_t code;
        n = gq_utf8(text, left, &code);
        if (n == 0)
            fputs("\\ufffd", to), n = 1;
        else if (code == '"' || code == '\\')
            fprintf(to, "\\%c", (int)code);
        else if (gq_acts(code) || code == '<') /* all below U+10000 */
            fprintf(to, "\\u%04x", (unsigned)code);
        else
            fwrite(text, 1, n, to);
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
