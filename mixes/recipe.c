/* Recipe files: many PATTERN=TYPE items in a text. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mixes/rules.h"

static bool recipe_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Bytes of the item at `text`: up to white space, or to a comma behind its '='. A comma before that belongs
 * to the pattern, as in a{1,2}. */
static size_t item_length(const char *text, size_t n) {
    bool typed = false;
    size_t i = 0;
    for (; i < n && !recipe_is_space(text[i]) && !(typed && text[i] == ','); i++) typed |= text[i] == '=';
    return i;
}

static bool fail_here(const char *name, const char *text, size_t at, const char *why, gq_error *e) {
    if (!name) return gq_fail_usage(e, "%s", why);
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++, column++)
        if (text[i] == '\n') line++, column = 0;
    return gq_fail_usage(e, "%s, line %zu, column %zu: %s", name, line, column, why);
}

static bool recipe_append(mix_recipe *r, size_t *capacity, const char *text, size_t n, gq_error *e) {
    if (!memory_grow(&r->items, capacity, r->n + 1, sizeof *r->items, e)) return false;
    char *item = strndup(text, n);
    if (!item) return gq_fail_memory(e, n);
    r->items[r->n++] = item;
    return true;
}

bool mix_recipe_read(mix_recipe *r, const char *name, const char *text, size_t n, gq_error *e) {
    size_t capacity = 0,
           at = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* editors on Windows write a BOM */
    *r = (mix_recipe){0};
    const char *nul = memchr(text, 0, n);
    bool ok = !nul || fail_here(name, text, (size_t)(nul - text), "a zero byte; this is no text file", e);
    while (ok && at < n) {
        if (recipe_is_space(text[at]) || text[at] == ',') {
            at++;
        } else if (text[at] == '#') {
            while (at < n && text[at] != '\n') at++;
        } else {
            size_t length = item_length(text + at, n - at);
            gq_error why = {0};
            ok = recipe_append(r, &capacity, text + at, length, e);
            if (ok && !mix_pattern_check(r->items[r->n - 1], &why))
                ok = fail_here(name, text, at, why.text, e);
            at += length;
        }
    }
    if (!ok) mix_recipe_free(r);
    return ok;
}

void mix_recipe_free(mix_recipe *r) {
    for (size_t i = 0; i < r->n; i++) free(r->items[i]);
    free(r->items);
    *r = (mix_recipe){0};
}
