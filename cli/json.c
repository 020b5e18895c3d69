/* Texts come from anywhere, and "[{},{}," takes eighty times its size as values. While a text is read jansson therefore
 * allocates from a budget of sixteen times its size, and a text that needs more is refused.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

char *json_bytes_of(const json_t *value) {
    const char *text = json_string_value(value);
    size_t n = json_string_length(value);
    char *bytes = need_memory(n + 1, 1), *to = bytes;
    for (const char *end = text + n; text < end;) {
        uint32_t code;
        size_t length = gq_utf8(text, (size_t)(end - text), &code);
        bool raw = code >= JSON_RAW_BYTE + 0x80 && code <= JSON_RAW_BYTE + 0xFF;
        if (raw)
            *to++ = (char)(code - JSON_RAW_BYTE);
        else
            memcpy(to, text, length), to += length;
        text += length;
    }
    return bytes;
}

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
    /* Limits of memory in multiples of the text's size: a report of gquant takes about 7, "[{},{}," 80. */
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
        gq_fail(e, "%s: line %d: needs more memory than a report of this size; expected a report of gquant",
                name, error.line);
    else
        gq_fail(e, "%s: line %d, column %d: not JSON: %s", name, error.line, error.column, error.text);
    return NULL;
}
