#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Members that had another name in version 0.1. */
static const char *const renamed[][2] = {{"changed_top1", "flips"},
                                         {"changed_top1_interval", "flips_interval"},
                                         {"clipped", "ends"},
                                         {"expected_kld", "expected_divergence"},
                                         {"grid_types", "lattice_types"},
                                         {"held_out", "held_back"},
                                         {"hidden_state_bytes", "state_bytes"},
                                         {"hidden_states_in_file", "states_in_file"},
                                         {"kld", "divergence"},
                                         {"kld_90", "divergence_90"},
                                         {"kld_95", "divergence_95"},
                                         {"kld_99", "divergence_99"},
                                         {"kld_99_9", "divergence_99_9"},
                                         {"kld_error", "divergence_error"},
                                         {"kld_interval", "divergence_interval"},
                                         {"kld_max", "divergence_max"},
                                         {"kld_median", "divergence_median"},
                                         {"needs_imatrix", "needs_importance"},
                                         {"nll_interval", "surprise_interval"},
                                         {"plain_output_error", "searched_output_error"},
                                         {"top1_agreement", "same_top"},
                                         {"typical_kld", "typical_divergence"},
                                         {"without_imatrix", "without_importance"}};

const char *json_old_name(const char *key) {
    for (size_t i = 0; key && i < sizeof renamed / sizeof *renamed; i++)
        if (!strcmp(renamed[i][0], key)) return renamed[i][1];
    return key;
}

static void json_begin_value(json_writer *j, const char *key) {
    struct json_level *l = &j->levels[j->depth];
    if (l->filled) fputs(l->lines || !j->depth ? "," : ", ", j->to);
    if (l->lines) fprintf(j->to, "\n%*s", 2 * j->depth, "");
    l->filled = true;
    if (key) fprintf(j->to, "\"%s\": ", key); /* keys are ours */
}

json_writer json_start(FILE *to, char kind) {
    json_writer j = {.to = to};
    if (kind) json_open_lines(&j, NULL, kind);
    return j;
}

void json_open(json_writer *j, const char *key, char kind) {
    json_begin_value(j, key);
    fputc(kind, j->to);
    j->levels[++j->depth] = (struct json_level){.closing = kind == '{' ? '}' : ']'};
}

void json_open_lines(json_writer *j, const char *key, char kind) {
    json_open(j, key, kind);
    j->levels[j->depth].lines = true;
}

void json_close(json_writer *j) {
    struct json_level *l = &j->levels[j->depth--];
    if (l->lines && l->filled) fprintf(j->to, "\n%*s", 2 * j->depth, "");
    fputc(l->closing, j->to);
}

void json_end(json_writer *j) {
    while (j->depth) json_close(j);
    fputc('\n', j->to);
}

/* Writes a value that is made already, under both names. */
static void json_put_raw(json_writer *j, const char *key, const char *value) {
    const char *old = json_old_name(key);
    json_begin_value(j, key), fputs(value, j->to);
    if (old != key && !j->exact) json_begin_value(j, old), fputs(value, j->to);
}

size_t json_escape(char to[JSON_ESCAPED], const char *text, size_t n) {
    uint32_t code;
    size_t length = gq_utf8(text, n, &code);
    if (length == 0 || (code >= JSON_RAW_BYTE + 0x80 && code <= JSON_RAW_BYTE + 0xFF))
        code = JSON_RAW_BYTE + (unsigned char)*text, length = 1;
    if (code == '"' || code == '\\')
        snprintf(to, JSON_ESCAPED, "\\%c", (int)code);
    else if (code >= 0x10000)
        snprintf(to, JSON_ESCAPED, "\\u%04X\\u%04X", 0xD800 + ((code - 0x10000) >> 10 & 0x3FF),
                 0xDC00 + (code & 0x3FF));
    else if (code < ' ' || code > '~' || code == '<')
        snprintf(to, JSON_ESCAPED, "\\u%04X", code & 0xFFFF);
    else
        to[0] = (char)code, to[1] = 0;
    return length;
}

void json_put_bytes(json_writer *j, const char *key, const char *text, size_t n) {
    char escaped[JSON_ESCAPED];
    json_begin_value(j, key);
    fputc('"', j->to);
    for (size_t length; n > 0; text += length, n -= length)
        length = json_escape(escaped, text, n), fputs(escaped, j->to);
    fputc('"', j->to);
}

void json_put_text(json_writer *j, const char *key, const char *text) {
    if (text)
        json_put_bytes(j, key, text, strlen(text));
    else
        json_put_raw(j, key, "null");
}

void json_put_count(json_writer *j, const char *key, uint64_t n) {
    char text[24];
    snprintf(text, sizeof text, n <= INT64_MAX ? "%" PRIu64 : "\"%" PRIu64 "\"", n);
    json_put_raw(j, key, text);
}

void json_put_signed(json_writer *j, const char *key, int64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, n);
    json_put_raw(j, key, text);
}

void json_put_number(json_writer *j, const char *key, double value) {
    enum { DIGITS = 9, ALL_DIGITS = 17 }; /* significant ones; the sums have no more than nine */
    char text[40];
    snprintf(text, sizeof text - 2, "%.*g", j->exact ? ALL_DIGITS : DIGITS, value);
    size_t n = strlen(text);
    if (isfinite(value) && !strpbrk(text, ".e")) memcpy(text + n, ".0", sizeof ".0");
    const char *none = !j->exact ? "null" : isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    json_put_raw(j, key, isfinite(value) ? text : none);
}

void json_put_bool(json_writer *j, const char *key, bool value) {
    json_put_raw(j, key, value ? "true" : "false");
}

void json_put_texts(json_writer *j, const char *key, const char *const *texts, size_t n) {
    json_open(j, key, '[');
    for (size_t i = 0; i < n; i++) json_put_text(j, NULL, texts[i]);
    json_close(j);
}
