/* Recipe files from types: one item for all blocks in which a tensor has the same type. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mixes/rules.h"
#include "model/facts.h"

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
    fprintf(to, "$=%s\n", gguf_type_name(first->type));
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
