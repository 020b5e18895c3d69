#include "base/fail.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t gq_utf8(const char *text, size_t n, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    *code = *s;
    if (*s < 0x80) return 1;
    size_t length = *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;
    if (*s < 0xc2 || *s > 0xf4 || length > n) return 0;
    *code = *s & 0x7fu >> length;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (s[i] & 0x3f);
    }
    bool ok = *code >= least[length] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
    return ok ? length : 0;
}

bool gq_acts(uint32_t code) {
    static const uint32_t ranges[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                                         {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1]) return true;
    return false;
}

char *gq_printable(char *to, size_t size, const char *text) {
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;
    while (*text) {
        uint32_t code;
        size_t n = gq_utf8(text, 4, &code); /* a NUL ends a sequence, too */
        if (gq_acts(code)) n = 0;
        if (size - at <= (n ? n : 4)) break; /* leaves room for the NUL */
        if (n) {
            memcpy(to + at, text, n);
            at += n, text += n;
        } else {
            unsigned char byte = (unsigned char)*text++;
            memcpy(to + at, (char[4]){'\\', 'x', hex[byte >> 4], hex[byte & 15]}, 4);
            at += 4;
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
static void error_set(gq_error *e, gq_status status, gq_remedy remedy, const char *format,
                      va_list arguments) {
    static const char gap[] = " ... ";
    char raw[4096], shown[4 * sizeof raw];
    if (!e) return;
    vsnprintf(raw, sizeof raw, format, arguments); /* arguments may point into e->text */
    gq_printable(shown, sizeof shown, raw);
    size_t n = strlen(shown), half = (sizeof e->text - sizeof gap) / 2;
    e->status = status, e->remedy = remedy;
    if (n < sizeof e->text) {
        memcpy(e->text, shown, n + 1);
        return;
    }
    int front = (int)(sequence_start(shown, shown + half) - shown);
    const char *tail = shown + n - half;
    while ((*tail & 0xc0) == 0x80) tail++;
    snprintf(e->text, sizeof e->text, "%.*s%s%s", front, shown, gap, tail);
}

/* Shared by the functions below, which differ in their arguments. */
#define ERROR_SET(status, remedy) \
    va_list arguments; \
    va_start(arguments, format); \
    error_set(e, status, remedy, format, arguments); \
    va_end(arguments)

bool(gq_fail)(gq_error *e, const char *format, ...) {
    ERROR_SET(GQ_FAILED, GQ_REMEDY_NONE);
    return false;
}

bool(gq_fail_usage)(gq_error *e, const char *format, ...) {
    ERROR_SET(GQ_USAGE, GQ_REMEDY_NONE);
    return false;
}

bool(gq_fail_remedy)(gq_error *e, gq_remedy remedy, const char *format, ...) {
    ERROR_SET(GQ_FAILED, remedy);
    return false;
}

bool(gq_fail_as)(gq_error *e, gq_status status, const char *format, ...) {
    ERROR_SET(status, GQ_REMEDY_NONE);
    return false;
}

bool(gq_fail_again)(gq_error *e, const gq_error *why, const char *format, ...) {
    gq_status status = why ? why->status : GQ_FAILED;
    ERROR_SET(status, why ? why->remedy : GQ_REMEDY_NONE);
    return false;
}

bool(gq_fail_memory)(gq_error *e, unsigned long long bytes) {
    return gq_fail_remedy(e, GQ_REMEDY_MEMORY, "out of memory: %llu bytes were needed", bytes);
}

/* ---- the known word that a mistyped one was meant to be ---- */

enum { LONGEST = 64 }; /* longer words are like no other */

/* The cost of typing b where a was meant; 0 stands for no character. A forgotten '_' is the likeliest
 * slip, a wrong digit the least likely: it asks for something else. */
static unsigned slip_cost(char a, char b) {
    if (toupper((unsigned char)a) == toupper((unsigned char)b)) return 0;
    if ((a == 0 && b == '_') || (a == '_' && b == 0)) return 1;
    return isdigit((unsigned char)a) || isdigit((unsigned char)b) ? 3 : 2;
}

/* Edit distance with these costs. */
static unsigned slip_distance(const char *a, const char *b) {
    size_t n = strlen(b);
    unsigned row[LONGEST + 1] = {0};
    for (size_t j = 0; j < n; j++) row[j + 1] = row[j] + slip_cost(0, b[j]);
    for (; *a; a++) {
        unsigned diagonal = row[0];
        row[0] += slip_cost(*a, 0);
        for (size_t j = 0; j < n; j++) {
            unsigned best = diagonal + slip_cost(*a, b[j]);
            if (row[j] + slip_cost(0, b[j]) < best) best = row[j] + slip_cost(0, b[j]);
            if (row[j + 1] + slip_cost(*a, 0) < best) best = row[j + 1] + slip_cost(*a, 0);
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[n];
}

const char *gq_nearest(const char *text, const char *const *words, size_t n, unsigned below) {
    const char *best = NULL;
    for (size_t i = 0; strlen(text) <= LONGEST && i < n; i++) {
        unsigned slips = strlen(words[i]) <= LONGEST ? slip_distance(text, words[i]) : below;
        if (slips < below) below = slips, best = words[i];
    }
    return best;
}
