#include "gguf/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Length of the well-formed UTF-8 sequence at s that is safe to show; 0 for control characters (U+0000..1F,
 * U+007F..9F) and for bytes that are no UTF-8, whose effect on a terminal nobody knows. */
static size_t printable_length(const unsigned char *s) {
    if (s[0] < 0x80) return s[0] >= 0x20 && s[0] != 0x7f;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    /* the second byte excludes C1 controls, overlong forms, surrogates, and what lies above U+10FFFF */
    unsigned char low = s[0] == 0xc2 || s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    return s[1] >= low && s[1] <= high ? n : 0;
}

char *gq_printable(char *to, size_t size, const char *text) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *s = (const unsigned char *)text;
    size_t at = 0;
    while (*s) {
        size_t n = printable_length(s);
        if (size - at <= (n ? n : 4)) break; /* leaves room for the NUL */
        if (n) {
            memcpy(to + at, s, n);
            at += n, s += n;
        } else {
            memcpy(to + at, (char[4]){'\\', 'x', hex[*s >> 4], hex[*s & 15]}, 4);
            at += 4, s++;
        }
    }
    to[at] = 0;
    return to;
}

/* Move back to the start of a UTF-8 sequence, so that a cut does not leave half of one. */
static const char *sequence_start(const char *text, const char *at) {
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): `at` points into `text` */
    while (at > text && (*at & 0xc0) == 0x80) at--;
    return at;
}

/* A text that is too long loses its middle: the file's name is at the start, the reason at the end. */
static void set(gq_error *e, gq_status status, const char *format, va_list arguments) {
    static const char gap[] = " ... ";
    char raw[4096], shown[4 * sizeof raw];
    vsnprintf(raw, sizeof raw, format, arguments); /* arguments may point into e->text */
    gq_printable(shown, sizeof shown, raw);
    size_t n = strlen(shown), half = (sizeof e->text - sizeof gap) / 2;
    e->status = status;
    if (n < sizeof e->text) {
        memcpy(e->text, shown, n + 1);
        return;
    }
    int head = (int)(sequence_start(shown, shown + half) - shown);
    const char *tail = shown + n - half;
    while ((*tail & 0xc0) == 0x80) tail++;
    snprintf(e->text, sizeof e->text, "%.*s%s%s", head, shown, gap, tail);
}

bool(gq_fail)(gq_error *e, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (e) set(e, GQ_FAILED, format, arguments);
    va_end(arguments);
    return false;
}

bool(gq_fail_usage)(gq_error *e, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (e) set(e, GQ_USAGE, format, arguments);
    va_end(arguments);
    return false;
}

bool(gq_fail_memory)(gq_error *e, unsigned long long bytes) {
    return gq_fail(e, "out of memory: %llu bytes were needed", bytes);
}
