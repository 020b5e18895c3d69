/* How the command writes and reads JSON; the header explains how bytes that are not UTF-8 are kept. Writing:
 * the emitter prints brackets and keys itself and hands jansson one value at a time, so a document about 10^5
 * tensors is never in memory as a whole. jansson allocates through need_memory, which ends the program when
 * memory runs out, so that no value can be missing from a document unnoticed. Reading: texts come from
 * anywhere, and "[{},{}," takes eighty times its size as values. While a text is read jansson therefore
 * allocates from a budget of sixteen times its size, and a text that needs more is refused.
 */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { RAW_BYTE = 0xEF00 }; /* plus a byte that is not UTF-8: the code point that stands for it */

/* ---- values ---- */

/* Makes a JSON string of a text. Each byte that is not UTF-8 becomes the three bytes of its private code
 * point. */
json_t *json_of_bytes(const char *text, size_t n) {
    char *copy = need_memory(n + 1, 3), *to = copy;
    for (size_t left = n, length; left > 0; text += length, left -= length) {
        uint32_t code;
        length = gq_utf8(text, left, &code);
        if (length == 0 || (code >= RAW_BYTE + 0x80 && code <= RAW_BYTE + 0xFF)) {
            unsigned char byte = (unsigned char)*text;
            *to++ = '\xEE', *to++ = (char)(0xBC | byte >> 6), *to++ = (char)(0x80 | (byte & 0x3F));
            length = 1;
        } else {
            memcpy(to, text, length);
            to += length;
        }
    }
    json_t *value = json_stringn_nocheck(copy, (size_t)(to - copy));
    free(copy);
    return value;
}

json_t *json_of_text(const char *text) { return json_of_bytes(text, strlen(text)); }

char *json_bytes_of(const json_t *value) {
    const char *text = json_string_value(value);
    size_t n = json_string_length(value);
    char *bytes = need_memory(n + 1, 1), *to = bytes;
    for (const char *end = text + n; text < end;) {
        uint32_t code;
        size_t length = gq_utf8(text, (size_t)(end - text), &code);
        bool raw = code >= RAW_BYTE + 0x80 && code <= RAW_BYTE + 0xFF;
        if (raw)
            *to++ = (char)(code - RAW_BYTE);
        else
            memcpy(to, text, length), to += length;
        text += length;
    }
    return bytes;
}

json_t *json_of_count(uint64_t n) {
    if (n <= INT64_MAX) return json_integer((json_int_t)n);
    char *digits = text_format("%llu", (unsigned long long)n);
    json_t *value = json_string(digits);
    free(digits);
    return value;
}

json_t *json_of_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* Members that had another name in version 0.1. */
static const char *const renamed[][2] = {
    {"changed_top1", "flips"},
    {"changed_top1_interval", "flips_interval"},
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
    {"top1_agreement", "same_top"},
    {"typical_kld", "typical_divergence"},
    {"without_imatrix", "without_importance"}};

const char *json_old_name(const char *key) {
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (!strcmp(renamed[i][0], key)) return renamed[i][1];
    return key;
}

void set_value(json_t *object, const char *key, json_t *value) {
    const char *old = json_old_name(key);
    json_object_set_new(object, key, value);
    if (old != key) json_object_set(object, old, value);
}

void set_text(json_t *object, const char *key, const char *text) {
    set_value(object, key, json_of_text(text));
}

void set_count(json_t *object, const char *key, uint64_t n) {
    set_value(object, key, json_of_count(n));
}

void set_number(json_t *object, const char *key, double value) {
    set_value(object, key, json_of_number(value));
}

void set_bool(json_t *object, const char *key, bool value) {
    set_value(object, key, json_boolean(value));
}

json_t *set_array(json_t *object, const char *key) {
    json_t *array = json_array();
    set_value(object, key, array);
    return array;
}

/* ---- writing ---- */

static void *json_allocate(size_t n) { return need_memory(1, n); }

/* Writes a piece of jansson's output. '<' is escaped because it could end the script element that holds the
 * document, and DEL because it is the one ASCII control character that jansson lets through. JSON has both in
 * texts only, where \u may stand. */
static int emit_text(const char *text, size_t n, void *arg) {
    FILE *to = arg;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '<' || text[i] == '\x7F')
            fprintf(to, "\\u%04x", (unsigned)text[i]);
        else
            fputc(text[i], to);
    return 0;
}

static void put_value(emitter *j, const json_t *value) {
    enum { DIGITS = 9 }; /* significant digits; the sums have no more */
    json_dump_callback(value, emit_text, j->to,
                       JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(DIGITS));
}

static void put_key(emitter *j, const char *key) {
    if (j->filled[j->depth]) fputc(',', j->to);
    if (j->depth) fprintf(j->to, "\n%*s", 2 * j->depth, "");
    j->filled[j->depth] = true;
    if (key) fprintf(j->to, "\"%s\": ", key); /* keys are ours */
}

void emit_open(emitter *j, const char *key, char kind) {
    put_key(j, key);
    fputc(kind, j->to);
    j->depth++;
    j->closing[j->depth] = kind == '{' ? '}' : ']';
    j->filled[j->depth] = false;
}

void emit_start(emitter *j, FILE *to, char kind) {
    *j = (emitter){.to = to};
    /* So that no value is missing when memory runs out: the program ends. */
    json_set_alloc_funcs(json_allocate, free);
    if (kind) emit_open(j, NULL, kind);
}

void emit_close(emitter *j) {
    char closing = j->closing[j->depth];
    bool filled = j->filled[j->depth];
    j->depth--;
    if (filled) fprintf(j->to, "\n%*s", 2 * j->depth, "");
    fputc(closing, j->to);
}

void json_emit(emitter *j, const char *key, json_t *value) {
    put_key(j, key);
    put_value(j, value);
    json_decref(value);
}

void emit_members(emitter *j, json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        put_key(j, key);
        put_value(j, value);
    }
    json_decref(object);
}

void emit_end(emitter *j) {
    while (j->depth) emit_close(j);
    fputc('\n', j->to);
}

void print_json_object(FILE *to, json_t *o) {
    emitter j;
    emit_start(&j, to, '{');
    emit_members(&j, o);
    emit_end(&j);
}

/* ---- reading ---- */

/* The bytes that jansson may still allocate while it reads. Static, since jansson's memory functions get no
 * argument of the caller's. */
static size_t allowance;

static void *allowance_malloc(size_t n) {
    void *memory = n <= allowance ? malloc(n) : NULL;
    size_t taken = malloc_usable_size(memory);
    allowance = taken < allowance ? allowance - taken : 0;
    return memory;
}

static void allowance_free(void *memory) {
    allowance += malloc_usable_size(memory);
    free(memory);
}

json_t *json_read(const char *text, size_t n, const char *name, gq_error *e) {
    /* In multiples of the text: a report of gquant takes about 7, "[{},{}," 80. */
    enum { TIMES = 16, LEAST = 1 << 20 };
    json_error_t error;
    json_malloc_t before;
    json_free_t before_free;
    json_get_alloc_funcs(&before, &before_free);
    allowance = n < (SIZE_MAX - LEAST) / TIMES ? TIMES * n + LEAST : SIZE_MAX;
    json_set_alloc_funcs(allowance_malloc, allowance_free);
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    json_set_alloc_funcs(before, before_free);
    if (value) return value;
    if (json_error_code(&error) == json_error_out_of_memory)
        gq_fail(e, "%s: line %d: takes more memory than a report of its size", name, error.line);
    else
        gq_fail(e, "%s: line %d, column %d: not JSON: %s", name, error.line, error.column, error.text);
    return NULL;
}
