/* Recipe files: many PATTERN=TYPE items in a text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    bool ok = !nul || fail_here(name, text, (size_t)(nul - text), "a zero byte; this is not a text file", e);
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

/* ---- written ---- */

/* Recipe files from types: one item for all blocks in which a tensor has the same type. */

enum {
    MAX_ITEM = 2000
}; /* bytes of an item from which on another one is begun; readers take twice as much */

typedef struct entry {
    const char *rest; /* the name, or what follows "blk.N." in it */
    int64_t block;    /* -1: none */
    uint32_t type;
} entry;

static int by_rest_type_block(const void *left, const void *right) {
    const entry *a = left, *b = right;
    int rests = strcmp(a->rest, b->rest);
    if (rests) return rests;
    if ((a->block < 0) != (b->block < 0)) return a->block < 0 ? -1 : 1;
    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

/* A name as a pattern that hits nothing else. Readers turn patterns into lower case and end them at '=', and
 * items at white space, so all that might mean something is written by its number. */
static void write_name(FILE *to, const char *name) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    for (; *name; name++)
        if (strchr(plain, *name))
            putc(*name, to);
        else if (*name == '.')
            fputs("\\.", to);
        else
            fprintf(to, "\\x%02x", (unsigned)(unsigned char)*name);
}

/* One item for the first of n entries and those behind it that differ in the block only; returns how many. */
static size_t write_item(FILE *to, const entry *entries, size_t n) {
    const entry *first = entries;
    size_t same = 1;
    int length = 0;
    putc('^', to);
    if (first->block >= 0) length = fprintf(to, "blk\\.(%" PRId64, first->block);
    for (; first->block >= 0 && same < n && length < MAX_ITEM; same++) {
        const entry *next = &entries[same];
        if (strcmp(next->rest, first->rest) != 0 || next->type != first->type) break;
        length += fprintf(to, "|%" PRId64, next->block);
    }
    if (first->block >= 0) fputs(")\\.", to);
    write_name(to, first->rest);
    fprintf(to, "$=%s\n", tensor_type_name(first->type));
    return same;
}

char *mix_recipe_write(const mix_tensor *tensors, const uint32_t *types, size_t n, const char *comment,
                       gq_error *e) {
    char *text = NULL;
    size_t size = 0, listed = 0;
    entry *entries = calloc(n + 1, sizeof *entries);
    FILE *to = entries ? open_memstream(&text, &size) : NULL;
    for (size_t i = 0; to && i < n; i++) {
        if (!mix_may_change(&tensors[i])) continue;
        entry *x = &entries[listed++];
        model_block block;
        bool in_block = model_block_leads(tensors[i].name, &block);
        x->rest = in_block ? block.rest : tensors[i].name;
        x->block = in_block ? (int64_t)block.number : -1;
        x->type = types[i];
    }
    if (to) {
        qsort(entries, listed, sizeof *entries, by_rest_type_block);
        fprintf(to, "# %s\n", comment);
        for (size_t at = 0; at < listed;) at += write_item(to, entries + at, listed - at);
    }
    bool ok = to && !ferror(to);
    ok = to && fclose(to) == 0 && ok;
    free(entries);
    if (ok) return text;
    free(text);
    gq_fail_memory(e, n * sizeof *entries);
    return NULL;
}

/* ---- with names ---- */

/* Recipes that publishers of models made common, by the names that their files have. docs/recipes.md says
 * where each is from. A recipe is a file type and patterns that go before its rules. */

#define LARGE_ENDS "^output\\.weight$=Q8_0\n^token_embd\\.weight$=Q8_0\n"
const mix_named_recipe mix_named_recipes[] = {
    {"Q2_K_L", "Q2_K", LARGE_ENDS, "Q2_K with embedding and output in Q8_0"},
    {"Q3_K_XL", "Q3_K_L", LARGE_ENDS, "Q3_K_L with embedding and output in Q8_0"},
    {"Q4_K_L", "Q4_K_M", LARGE_ENDS, "Q4_K_M with embedding and output in Q8_0"},
    {"Q5_K_L", "Q5_K_M", LARGE_ENDS, "Q5_K_M with embedding and output in Q8_0"},
    {"Q6_K_L", "Q6_K", LARGE_ENDS, "Q6_K with embedding and output in Q8_0"},
};
const size_t mix_n_named_recipes = sizeof mix_named_recipes / sizeof *mix_named_recipes;

const mix_named_recipe *mix_recipe_named(const char *name) {
    for (size_t i = 0; i < mix_n_named_recipes; i++)
        if (!strcasecmp(mix_named_recipes[i].name, name)) return &mix_named_recipes[i];
    return NULL;
}
