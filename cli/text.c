#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

void *need(void *memory) {
    if (!memory) {
        fputs("gquant: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

void *need_memory(size_t count, size_t size) { return need(calloc(count ? count : 1, size)); }

void *need_more(void *old, size_t count, size_t size) {
    return need(reallocarray(old, count ? count : 1, size));
}

/* The room is 1, 2, 4, ... */
void *need_next(void *old, size_t n, size_t size) {
    return n & (n - 1) ? old : need_more(old, n ? 2 * n : 1, size);
}

char *text_format_list(const char *text, va_list args) {
    char *to = NULL;
    if (vasprintf(&to, text, args) < 0) to = NULL;
    return need(to);
}

char *text_format(const char *text, ...) {
    va_list args;
    va_start(args, text);
    char *to = text_format_list(text, args);
    va_end(args);
    return to;
}

char *text_add_word(char *line, const char *word) {
    static const char harmless[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%";
    char *longer = NULL;
    if (*word && word[strspn(word, harmless)] == 0) {
        longer = text_format("%s %s", line, word);
    } else {
        char *quoted = need_memory(4 * strlen(word) + 3, 1), *to = quoted;
        *to++ = '\'';
        for (; *word; word++)
            if (*word == '\'')
                to = stpcpy(to, "'\\''");
            else
                *to++ = *word;
        *to = '\'';
        longer = text_format("%s %s", line, quoted);
        free(quoted);
    }
    free(line);
    return longer;
}

char *shape_text(const uint64_t *ne, uint32_t n, bool transposed) {
    char text[96];
    int length = 0;
    for (uint32_t d = 0; d < n && d < 4; d++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%" PRIu64, d ? " x " : "", ne[d]);
    return text_format("%s%s", text, transposed ? " T" : "");
}

/* Three significant digits: what the eye takes in. */
static char *scaled_text(char to[UNIT_ROOM], double value, double step, const char *const *units, size_t n) {
    size_t unit = 0;
    while (unit + 1 < n && value >= step) value /= step, unit++;
    int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    snprintf(to, UNIT_ROOM, "%.*f%s", digits, value, units[unit]);
    return to;
}

char *file_text(char to[UNIT_ROOM], double bytes) {
    static const char *const units[] = {" bytes", " kB", " MB", " GB", " TB"};
    return scaled_text(to, bytes, 1000, units, 5);
}

char *memory_text(char to[UNIT_ROOM], double bytes) {
    static const char *const units[] = {" bytes", " KiB", " MiB", " GiB", " TiB"};
    return scaled_text(to, bytes, 1024, units, 5);
}

char *count_text(char to[UNIT_ROOM], double n) {
    static const char *const units[] = {"", " k", " M", " B", " T"};
    return scaled_text(to, n, 1000, units, 5);
}

char *time_text(char to[UNIT_ROOM], double seconds) {
    if (!(seconds >= 0 && seconds < 1e9)) seconds = 0;
    if (seconds < 60) {
        snprintf(to, UNIT_ROOM, "%.*f s", seconds < 10 ? 1 : 0, seconds);
        return to;
    }
    long s = (long)(seconds + 0.5);
    if (s < 3600)
        snprintf(to, UNIT_ROOM, "%ld:%02ld", s / 60, s % 60);
    else
        snprintf(to, UNIT_ROOM, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    return to;
}

char *duration_text(char to[UNIT_ROOM], double seconds) {
    static const struct {
        double least, unit;
        const char *name;
    } units[] = {
        {36 * 3600, 24 * 3600, "days"}, {90 * 60, 3600, "hours"}, {90, 60, "minutes"}, {1.5, 1, "seconds"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (seconds >= units[i].least && seconds < 1e9) {
            double n = seconds / units[i].unit;
            snprintf(to, UNIT_ROOM, "%.*f %s", n < 9.5 && units[i].unit > 60 ? 1 : 0, n, units[i].name);
            return to;
        }
    snprintf(to, UNIT_ROOM, "%s", seconds < 1e9 ? "a second" : "over 30 years");
    return to;
}

int decimals_for(double least) {
    if (!(least > 0 && isfinite(least))) return 0;
    double decimals = 2 - floor(log10(least));
    return decimals < 0 ? 0 : decimals > 8 ? 8 : (int)decimals;
}

bool size_parse(const char *text, uint64_t *bytes) {
    if (!isdigit((unsigned char)*text)) return false;
    char *end;
    double value = strtod(text, &end);
    static const char letters[] = "kmgt";
    const char *letter = *end ? strchr(letters, tolower((unsigned char)*end)) : NULL;
    if (letter) {
        bool binary = end[1] == 'i';
        value *= pow(binary ? 1024 : 1000, (double)(letter - letters + 1));
        end += binary ? 2 : 1;
    }
    if (*end == 'B') end++;
    /* 2^63 keeps the conversion defined and is beyond any file system. */
    if (*end || strpbrk(text, "xXpPeE") || !(value >= 1 && value < 0x1p63)) return false;
    *bytes = (uint64_t)value;
    return true;
}

bool duration_parse(const char *text, double *seconds) {
    static const struct {
        char letter;
        double seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}; /* in this order, each once */
    double sum = 0;
    size_t next = 0, n = sizeof units / sizeof *units;
    if (strpbrk(text, "xXpPeE")) return false;
    while (isdigit((unsigned char)*text)) {
        char *end;
        double value = strtod(text, &end);
        while (next < n && units[next].letter != *end) next++;
        if (next == n) return false;
        sum += value * units[next++].seconds;
        text = end + 1;
    }
    *seconds = sum;
    return *text == 0 && sum > 0 && sum < 1e9;
}

bool number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value) {
    uint64_t n = 0;
    if (!*text) return false;
    for (const char *c = text; *c; c++) {
        if (!isdigit((unsigned char)*c) || n > (UINT64_MAX - 9) / 10) return false;
        n = 10 * n + (uint64_t)(*c - '0');
    }
    if (n < min || n > max) return false;
    *value = n;
    return true;
}

/* A third of the letters wrong is still a slip; more is another word. */
const char *text_nearest_word(const char *text, const char *const *words, size_t n) {
    return gq_nearest(text, words, n, 2 * ((unsigned)strlen(text) / 3 + 2));
}
