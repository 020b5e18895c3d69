/* PATTERN=TYPE items: a regular expression that is searched for in tensor names, and the type of the tensors
 * that it is found in; the first item found counts. Patterns are compiled with PCRE2 in a dialect close to
 * ECMAScript, which recipes are written for. They come from users and from recipes that people share, so none
 * may hang the program or take its memory. One match has limits for steps, depth and heap; all compiled
 * patterns together have one for bytes; and a matcher counts the steps of all matches of an output, by a
 * callout before each item of a pattern. mix_patterns_idle finds the patterns that had no effect. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>
#include <string.h>

#include "mixes/rules.h"

/* A name has at most 127 bytes. A pattern with three independent `.*` needs some 127^3 / 6 = 340,000 steps on
 * it; what takes more than a million is runaway backtracking. Depth bounds memory: a few KiB per level. */
enum { MATCH_LIMIT = 1000000, MATCH_DEPTH = 10000, MATCH_HEAP_KIB = 4096 };

/* The cost of a call of the matcher before it looks at the pattern, in items of a pattern. */
enum { CALL_STEPS = 10 };

/* A line of text can ask for 64 KiB of compiled pattern, as (.{200}){20} does; the recipes that people share,
 * one item per tensor of the largest models, stay below 1 MiB. */
enum { MAX_PATTERN = 4096, MAX_COMPILED = 16 << 20, ITEM_OVERHEAD = 256 };

typedef struct item {
    pcre2_code *code;
    uint32_t type;
    char *text; /* the item as given, for messages */
} item;

struct mix_pattern {
    bool typed; /* PATTERN=TYPE */
    size_t n;
    item *items;
};

struct mix_matcher {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    uint64_t steps; /* left */
};

/* Recipes are written for ECMAScript, where $ does not match before a last newline, [] matches nothing,
 * \uXXXX is a character and a group that took no part matches the empty string. */
static const uint32_t dialect = PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_ALT_BSUX |
                                PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C | PCRE2_NEVER_UTF |
                                PCRE2_AUTO_CALLOUT; /* for pattern_count_step */

static bool item_compile(item *it, const char *text, size_t n, bool lower, gq_error *e) {
    if (n > MAX_PATTERN)
        return gq_fail_usage(e, "pattern '%.40s...' of %zu bytes: at most %d are accepted", text, n,
                             MAX_PATTERN);
    char pattern[MAX_PATTERN + 1];
    for (size_t i = 0; i < n; i++)
        pattern[i] = lower && text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 'a' - 'A') : text[i];
    int code = 0;
    PCRE2_SIZE at = 0;
    it->code = pcre2_compile((PCRE2_SPTR)pattern, n, dialect, &code, &at, NULL);
    if (it->code) return true;
    if (code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_NOMEMORY) return gq_fail_memory(e, n);
    char why[160] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return gq_fail_usage(e, "pattern '%s': %s at character %zu", it->text, why, (size_t)at + 1);
}

/* Splits an item: the length of the pattern before the first '=', and the type after it. */
static bool item_split(const char *text, size_t *pattern_length, uint32_t *type, gq_error *e) {
    const char *equals = strchr(text, '=');
    if (!equals) return gq_fail_usage(e, "'%s': expected PATTERN=TYPE", text);
    if (equals == text) return gq_fail_usage(e, "'%s': the pattern before the '=' is empty", text);
    const tensor_type *t = tensor_type_named(equals + 1);
    const mix_filetype *filetype = mix_filetype_named(equals + 1);
    if (!t && filetype && filetype->base < GGUF_TYPE_LIMIT)
        return gq_fail_usage(e, "'%s': %s is a file type, expected a tensor type such as %s", text,
                             equals + 1, tensor_type_name(filetype->base));
    *pattern_length = (size_t)(equals - text);
    return mix_type_named(equals + 1, text, type, e);
}

static void item_free(item *it) {
    pcre2_code_free(it->code);
    free(it->text);
    *it = (item){0};
}

static bool item_read(item *it, const char *text, bool typed, gq_error *e) {
    size_t length = strlen(text);
    *it = (item){.type = GGUF_TYPE_LIMIT};
    if (length == 0) return gq_fail_usage(e, "an empty pattern would match every tensor; write '.' for that");
    if (typed && !item_split(text, &length, &it->type, e)) return false;
    it->text = strdup(text);
    if (!it->text) return gq_fail_memory(e, length);
    if (item_compile(it, text, length, typed, e)) return true;
    item_free(it);
    return false;
}

bool mix_pattern_check(const char *text, gq_error *e) {
    item it;
    bool ok = item_read(&it, text, true, e);
    if (ok) item_free(&it);
    return ok;
}

mix_pattern *mix_patterns_new(const char *const *items, size_t n, bool types, gq_error *e) {
    mix_pattern *p = calloc(1, sizeof *p);
    if (p) p->items = calloc(n ? n : 1, sizeof *p->items);
    bool ok = p && p->items;
    if (ok) p->typed = types;
    if (!ok) gq_fail_memory(e, n * sizeof *p->items);
    for (size_t compiled = 0; ok && p->n < n;) {
        ok = item_read(&p->items[p->n], items[p->n], types, e);
        if (!ok) break;
        size_t size = 0;
        pcre2_pattern_info(p->items[p->n++].code, PCRE2_INFO_SIZE, &size);
        compiled += size + ITEM_OVERHEAD;
        if (compiled > MAX_COMPILED)
            ok = gq_fail_usage(e, "%zu patterns, of which the first %zu already need %d MiB of memory", n,
                               p->n, MAX_COMPILED >> 20);
    }
    if (ok) return p;
    mix_patterns_free(p);
    return NULL;
}

void mix_patterns_free(mix_pattern *p) {
    if (!p) return;
    for (size_t i = 0; i < p->n; i++) item_free(&p->items[i]);
    free(p->items);
    free(p);
}

/* ---- matching ---- */

/* Called before each item of a pattern. */
static int pattern_count_step(pcre2_callout_block *, void *matcher) {
    mix_matcher *m = matcher;
    return m->steps && --m->steps ? 0 : PCRE2_ERROR_CALLOUT;
}

mix_matcher *mix_matcher_new(gq_error *e) {
    mix_matcher *m = calloc(1, sizeof *m);
    if (m) m->data = pcre2_match_data_create(1, NULL), m->limits = pcre2_match_context_create(NULL);
    if (!m || !m->data || !m->limits) {
        gq_fail_memory(e, sizeof *m);
        mix_matcher_free(m);
        return NULL;
    }
    m->steps = MIX_PATTERN_STEPS;
    pcre2_set_match_limit(m->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(m->limits, MATCH_DEPTH);
    pcre2_set_heap_limit(m->limits, MATCH_HEAP_KIB);
    pcre2_set_callout(m->limits, pattern_count_step, m);
    return m;
}

void mix_matcher_free(mix_matcher *m) {
    if (!m) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->limits);
    free(m);
}

bool mix_patterns_find(const mix_pattern *p, mix_matcher *m, const char *name, size_t *number, uint32_t *type,
                       gq_error *e) {
    *number = MIX_NO_PATTERN;
    size_t length = strlen(name);
    for (size_t i = 0; p && i < p->n; i++) {
        m->steps -= m->steps < CALL_STEPS ? m->steps : CALL_STEPS;
        int found = pcre2_match(p->items[i].code, (PCRE2_SPTR)name, length, 0, 0, m->data, m->limits);
        if (m->steps == 0)
            return gq_fail_usage(e, "the %zu patterns take too long on all tensors together, as '%s' on '%s'",
                                 p->n, p->items[i].text, name);
        if (found == PCRE2_ERROR_NOMATCH) continue;
        if (found == PCRE2_ERROR_NOMEMORY) return gq_fail_memory(e, MATCH_HEAP_KIB * 1024ull);
        if (found < 0)
            return gq_fail_usage(
                e, "pattern '%s' takes too long on tensor '%s': nested repeats such as (a+)+ explode",
                p->items[i].text, name);
        *number = i;
        *type = p->items[i].type;
        return true;
    }
    return true;
}

bool mix_patterns_idle(const mix_pattern *p, const mix_choice *choices, size_t n, mix_idle_patterns *idle,
                       gq_error *e) {
    enum { UNMATCHED, MATCHED, DECIDED };
    *idle = (mix_idle_patterns){.unmatched = 0};
    if (!p) return true;
    uint8_t *did = calloc(p->n + 1, sizeof *did);
    if (!did) return gq_fail_memory(e, p->n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t number = p->typed ? choices[i].pattern : choices[i].keeper;
        if (number == MIX_NO_PATTERN || did[number] == DECIDED) continue;
        did[number] = p->typed && choices[i].by_pattern ? DECIDED : MATCHED;
    }
    for (size_t i = p->n; i-- > 0;) {
        if (did[i] == UNMATCHED) idle->unmatched++, idle->first_unmatched = p->items[i].text;
        if (did[i] == MATCHED && p->typed) idle->powerless++, idle->first_powerless = p->items[i].text;
    }
    free(did);
    return true;
}

bool mix_patterns_warn(warning_list *to, size_t n, const char *first, const char *why, gq_error *e) {
    return n == 0 || warnings_add(to, e, "%zu pattern%s %s%s%s'", n, plural_suffix(n), why,
                                  n == 1 ? ": '" : "; first: '", first);
}
