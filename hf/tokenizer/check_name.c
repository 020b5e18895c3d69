/* Merges of bytes, carried out on one text of some 400 bytes. tokens/tokenizer.h does that for any text, but
 * by a name of how to cut, which is what is looked for here. So the cuts are those of the folder's own
 * expressions (hf/tokenizer/probe.h). Of the vocabulary's merges, half a million in the largest, only those matter
 * whose result is a part of the text; few are, and they are searched one by one.
 */
#include "hf/tokenizer/check_name.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/memory.h"
#include "hf/tokenizer/prehash.h"
#include "hf/tokenizer/probe.h"
#include "hf/tokenizer/tokenizer_special.h"
#include "hf/tokenizer/tokenizer_vocabulary.h"

enum {
    TEXT_MOST = HF_PROBE_MOST,
    MAPPED_MOST = 2 * TEXT_MOST,
    MERGES_MOST = 1 << 16 /* of the text; published vocabularies have some thousands */
};

typedef struct check_merge {
    const char *left, *right; /* not NUL-terminated; in order of rank */
    size_t n_left, n_right;
} check_merge;

/* A span of the mapped text: a symbol while a piece is joined. */
typedef struct check_span {
    size_t begin, n;
} check_span;

/* Finds an added token, of those that begin there the longest. */
typedef struct check_added {
    size_t n; /* bytes; 0: none begins there */
    const json_t *id;
} check_added;

typedef struct name_check {
    const json_t *vocab;
    const char *lines;
    bool ignores_merges;
    size_t text_n;
    char mapped[MAPPED_MOST]; /* the text in byte characters */
    size_t at[TEXT_MOST + 1]; /* where each byte's character begins */
    check_added added[TEXT_MOST];
    check_merge *merges;
    size_t n_merges, capacity;
    uint32_t ids[TEXT_MOST + 1]; /* the first is left free for BOS */
    size_t n;
    bool is_encoded; /* false: something cannot be carried out */
} name_check;

/* ---- the text ---- */

size_t hf_byte_character(uint8_t byte, char *to) {
    uint32_t code = byte;
    if (byte <= 0x20)
        code = 0x100u + byte;
    else if (byte >= 0x7f && byte <= 0xa0)
        code = 0x121u + (byte - 0x7fu);
    else if (byte == 0xad)
        code = 0x143;
    if (code < 0x80) return *to = (char)code, 1;
    to[0] = (char)(0xc0 | code >> 6), to[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

static void map_text(name_check *c) {
    size_t length = 0;
    c->text_n = strlen(hf_check_text);
    for (size_t i = 0; i < c->text_n; i++) {
        c->at[i] = length;
        length += hf_byte_character((uint8_t)hf_check_text[i], c->mapped + length);
    }
    c->at[c->text_n] = length;
}

static void find_added(name_check *c, const json_t *added) {
    const json_t *token;
    size_t i;
    json_array_foreach(added, i, token) {
        const json_t *content = json_object_get(token, "content");
        size_t n = json_string_length(content);
        for (size_t at = 0; n > 0 && at + n <= c->text_n; at++)
            if (n > c->added[at].n && memcmp(hf_check_text + at, json_string_value(content), n) == 0)
                c->added[at] = (check_added){n, json_object_get(token, "id")};
    }
}

/* ---- merges ---- */

static bool text_contains(const name_check *c, const char *left, size_t n_left, const char *right,
                          size_t n_right) {
    size_t size = c->at[c->text_n];
    if (n_left == 0 || n_right == 0 || n_left > size || n_right > size - n_left) return false;
    const char *last = c->mapped + size - n_left - n_right;
    for (const char *from = c->mapped; from <= last; from++) {
        if (!(from = memchr(from, *left, (size_t)(last - from) + 1))) return false;
        if (memcmp(from, left, n_left) == 0 && memcmp(from + n_left, right, n_right) == 0) return true;
    }
    return false;
}

/* Splits an element of "merges", "left right" or [left, right]. False: it is neither. */
static bool merge_split(const json_t *merge, check_merge *m) {
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_is_string(left) && json_is_string(right)) {
        *m = (check_merge){json_string_value(left), json_string_value(right), json_string_length(left),
                           json_string_length(right)};
        return true;
    }
    const char *text = json_string_value(merge);
    size_t n = json_string_length(merge);
    const char *space = text && n > 1 ? memchr(text + 1, ' ', n - 1) : NULL;
    if (!space) return false;
    size_t n_left = (size_t)(space - text);
    *m = (check_merge){text, space + 1, n_left, n - n_left - 1};
    return true;
}

static bool merges_collect(name_check *c, const json_t *merges, gq_error *e) {
    size_t i;
    const json_t *merge;
    check_merge m;
    json_array_foreach(merges, i, merge) {
        if (!merge_split(merge, &m) || !text_contains(c, m.left, m.n_left, m.right, m.n_right)) continue;
        if (!memory_grow(&c->merges, &c->capacity, c->n_merges + 1, sizeof *c->merges, e)) return false;
        c->merges[c->n_merges++] = m;
        if (c->n_merges == MERGES_MOST) return c->is_encoded = false, true;
    }
    return true;
}

static size_t merge_rank(const name_check *c, const check_span *pair) {
    const char *text = c->mapped + pair->begin;
    for (size_t i = 0; i < c->n_merges; i++) {
        const check_merge *m = &c->merges[i];
        if (m->n_left == pair[0].n && m->n_right == pair[1].n && memcmp(text, m->left, m->n_left) == 0 &&
            memcmp(text + m->n_left, m->right, m->n_right) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* ---- pieces ---- */

static bool token_id(const json_t *number, uint32_t *id) {
    json_int_t value = json_integer_value(number);
    *id = (uint32_t)value;
    return json_is_integer(number) && value >= 0 && value <= UINT32_MAX;
}

static bool add_token(name_check *c, size_t begin, size_t n) {
    if (!token_id(json_object_getn(c->vocab, c->mapped + begin, n), &c->ids[1 + c->n])) return false;
    c->n++;
    return true;
}

/* Joins the pair of the lowest rank, of equal ones the first, until none is left. Returns the symbols. */
static size_t join_symbols(const name_check *c, check_span *symbols, size_t n) {
    size_t ranks[TEXT_MOST]; /* of a symbol with the next */
    for (size_t i = 0; i + 1 < n; i++) ranks[i] = merge_rank(c, symbols + i);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == SIZE_MAX) break;
        symbols[best].n += symbols[best + 1].n;
        n--;
        memmove(symbols + best + 1, symbols + best + 2, (n - best - 1) * sizeof *symbols);
        memmove(ranks + best, ranks + best + 1, (n - best - 1) * sizeof *ranks);
        if (best + 1 < n) ranks[best] = merge_rank(c, symbols + best);
        if (best > 0) ranks[best - 1] = merge_rank(c, symbols + best - 1);
    }
    return n;
}

/* Adds the tokens of bytes [begin, end) of the text. False: a symbol is no token. */
static bool add_piece(name_check *c, size_t begin, size_t end) {
    check_span symbols[TEXT_MOST];
    size_t n = 0;
    if (c->ignores_merges && add_token(c, c->at[begin], c->at[end] - c->at[begin])) return true;
    for (size_t i = begin; i < end; i++) symbols[n++] = (check_span){c->at[i], c->at[i + 1] - c->at[i]};
    n = join_symbols(c, symbols, n);
    for (size_t i = 0; i < n; i++)
        if (!add_token(c, symbols[i].begin, symbols[i].n)) return false;
    return true;
}

/* Adds what lies between two added tokens. */
static bool add_segment(name_check *c, size_t begin, size_t end, gq_error *e) {
    hf_probe_cuts cuts = {{0}};
    bool is_cut;
    if (begin == end) return true;
    if (!hf_probe_cut(c->lines, hf_check_text + begin, end - begin, &cuts, &is_cut, e)) return false;
    for (size_t from = begin, to; is_cut && c->is_encoded && from < end; from = to) {
        for (to = from + 1; to < end && !hf_probe_is_cut(&cuts, to - begin);) to++;
        c->is_encoded = add_piece(c, from, to);
    }
    c->is_encoded = c->is_encoded && is_cut;
    return true;
}

/* ---- the whole ---- */

static bool encode(name_check *c, gq_error *e) {
    size_t from = 0;
    for (size_t at = 0; at < c->text_n && c->is_encoded; at++) {
        const check_added *added = &c->added[at];
        if (added->n == 0) continue;
        if (!add_segment(c, from, at, e)) return false;
        c->is_encoded = c->is_encoded && token_id(added->id, &c->ids[1 + c->n++]);
        from = at + added->n, at = from - 1;
    }
    return !c->is_encoded || add_segment(c, from, c->text_n, e);
}

static bool find_bos(const hf_tokenizer *t, uint32_t *id) {
    const json_t *content = hf_token_content(json_object_get(t->settings, "bos_token"));
    hf_special found = {.id = 0};
    bool is_found = content && hf_special_find_text(t, json_string_value(content), &found);
    *id = found.id;
    return is_found;
}

static bool check_look_up(name_check *c, const hf_tokenizer *t, const char **name, gq_error *e) {
    if (find_bos(t, &c->ids[0]) && !hf_prehash_find(c->ids, c->n + 1, name, e)) return false;
    return *name || hf_prehash_find(c->ids + 1, c->n, name, e);
}

bool hf_check_name(const hf_tokenizer *t, const char *lines, const char **name, gq_error *e) {
    const json_t *model = json_object_get(t->json, "model");
    name_check *c = calloc(1, sizeof *c);
    *name = NULL;
    if (!c) return gq_fail_memory(e, sizeof *c);
    c->vocab = json_object_get(model, "vocab"), c->lines = lines;
    c->ignores_merges = json_is_true(json_object_get(model, "ignore_merges"));
    c->is_encoded = true;
    map_text(c);
    find_added(c, json_object_get(t->json, "added_tokens"));
    bool ok = merges_collect(c, json_object_get(model, "merges"), e) && encode(c, e) &&
              (!c->is_encoded || check_look_up(c, t, name, e));
    free(c->merges);
    free(c);
    return ok;
}
