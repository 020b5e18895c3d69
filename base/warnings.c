#include "base/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool warnings_copy(warning_list *l, gq_error *e, const char *text) {
    char **grown = realloc(l->items, (l->n + 1) * sizeof *grown);
    if (grown) l->items = grown;
    char *copy = grown ? strdup(text) : NULL;
    if (!copy) return gq_fail_memory(e, strlen(text) + 1);
    l->items[l->n++] = copy;
    return true;
}

bool warnings_add(warning_list *l, gq_error *e, const char *format, ...) {
    gq_error text;
    char message[sizeof text.text];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    gq_fail(&text, "%s", message); /* makes control characters visible */
    return warnings_copy(l, e, text.text);
}

static bool warnings_have(const warning_list *l, const char *text) {
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i], text) == 0) return true;
    return false;
}

bool warnings_join(warning_list *l, const warning_list *from, gq_error *e) {
    for (size_t i = 0; i < from->n; i++)
        if (!warnings_have(l, from->items[i]) && !warnings_copy(l, e, from->items[i])) return false;
    return true;
}

bool warnings_add_lines(warning_list *l, gq_error *e, const char *text) {
    bool ok = true;
    for (const char *line = text ? text : "", *end; ok && *line; line = end + (*end == '\n')) {
        end = strchrnul(line, '\n');
        ok = warnings_add(l, e, "%.*s", (int)(end - line), line);
    }
    return ok;
}

void warnings_cut(warning_list *l, size_t n) {
    while (l->n > n) free(l->items[--l->n]);
}

bool warnings_add_threads(warning_list *l, threads_count count, gq_error *e) {
    if (!count.error) return true;
    if (!warnings_add(l, e, "only %d of %d threads could be started (%s), so it takes longer", count.ran,
                      count.wanted, strerror(count.error)))
        return false;
    for (size_t i = 0; i + 1 < l->n; i++)
        if (strcmp(l->items[i], l->items[l->n - 1]) == 0) return warnings_cut(l, l->n - 1), true;
    return true;
}

void warnings_free(warning_list *l) {
    warnings_cut(l, 0);
    free(l->items);
    *l = (warning_list){0};
}
