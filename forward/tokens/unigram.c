/* The best way to each place of a text is found from left to right: over all tokens that end there, the best
 * way to where the token begins, plus its score (Viterbi). Sums run on from one window of the text to the
 * next, so that they are rounded as if there were one window. A window that is not the text's last is cut
 * where all ways that are still open come from. */
#include "forward/tokens/tokens.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"

struct unigram_node {
    double score;        /* of the best way to this place */
    uint32_t from, next; /* the last token's begin, and the next token's end */
    uint32_t token;
    bool is_reached, is_open;
};

/* ---- the vocabulary ---- */

static const float UNKNOWN_BELOW = 10; /* the lowest score */

static bool read_tokens(unigram *u, const vocabulary *v, const char *file, const uint8_t *scores,
                        const uint8_t *types, gq_error *e) {
    enum { NORMAL = 1, USER = 4, UNUSED = 5 };
    float lowest = FLT_MAX;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const piece *p = &v->pieces.items[i];
        int32_t type = NORMAL; /* as in the file; classes are corrected later */
        if (types) memcpy(&type, types + 4 * (size_t)i, sizeof type);
        if (scores) memcpy(&u->scores[i], scores + 4 * (size_t)i, sizeof *u->scores);
        if (!isfinite(u->scores[i]))
            return gq_fail(e, "%s: the score of token %u is not a finite number", file, i);
        if (type == NORMAL) lowest = fminf(lowest, u->scores[i]);
        if (type == USER || v->classes[i] == TOKEN_USER) u->scores[i] = 0; /* comes first */
        if (type == USER && !tree_add(&u->own, p->text, p->length, i, e)) return false;
        if ((type == NORMAL || type == USER || type == UNUSED) &&
            !tree_add(&u->tree, p->text, p->length, i, e))
            return false;
    }
    u->unknown = lowest - UNKNOWN_BELOW;
    return true;
}

unigram *unigram_new(const vocabulary *v, const char *file, const uint8_t *scores, const uint8_t *types,
                     gq_error *e) {
    unigram *u = calloc(1, sizeof *u);
    if (!u) return gq_fail_memory(e, sizeof *u), NULL;
    u->tree.seed = u->own.seed = v->pieces.seed;
    u->scores = calloc(v->n_tokens, sizeof *u->scores);
    if (!u->scores) gq_fail_memory(e, v->n_tokens * sizeof *u->scores);
    if (u->scores && read_tokens(u, v, file, scores, types, e)) return u;
    unigram_free(u);
    return NULL;
}

void unigram_free(unigram *u) {
    if (!u) return;
    tree_free(&u->tree), tree_free(&u->own);
    free(u->scores);
    free(u);
}

void unigram_work_free(unigram_work *w) { free(w->nodes); }

/* ---- the normal form ---- */

static const char SPACE[] = "\xe2\x96\x81"; /* U+2581 */

/* Writes a replacement, of which spaces become U+2581, or go. */
static char *put_form(unigram_work *w, const unigram *u, const normal_form *form, char *to) {
    for (size_t i = 0; i < form->length; i++) {
        bool is_space = form->text[i] == ' ';
        bool begins = !is_space && !w->in_text && ((u->adds_space && !w->has_space) || u->trims);
        if (begins) w->has_space = true;
        if (begins || (is_space && !u->trims)) memcpy(to, SPACE, 3), to += 3;
        if (!is_space) *to++ = form->text[i];
        w->in_text = !is_space;
    }
    return to;
}

/* Finds the normal form of what a text begins with. Bytes that a token begins with that users have defined
 * stay as they are, also where the token does not follow, and within a character: so llama.cpp has it. */
static bool find_form(const unigram *u, const char *text, size_t n, bool last, normal_form *form,
                      gq_error *e) {
    size_t same = 0;
    for (uint32_t node = 0; same < n && (node = tree_child(&u->own, node, (uint8_t)text[same])) != 0;) same++;
    if (same == 0) return charsmap_find(&u->map, text, n, last, form, e);
    bool ends = same < n || last;
    *form = (normal_form){text, ends ? same : 0, ends ? same : 0};
    return true;
}

bool unigram_normalize(unigram_work *w, const unigram *u, const char *text, size_t n, bool last, char **to,
                       size_t *length, size_t *capacity, size_t *done, gq_error *e) {
    size_t at = 0;
    for (normal_form form; at < n; at += form.taken) {
        if (!find_form(u, text + at, n - at, last, &form, e)) return false;
        if (form.taken == 0) break;
        if (form.length == 0) continue;
        if (!memory_grow(to, capacity, *length + 4 * form.length, 1, e)) return false;
        *length = (size_t)(put_form(w, u, &form, *to + *length) - *to);
    }
    *done += at;
    if (last) w->in_text = w->has_space = false;
    return true;
}

/* ---- ways ---- */

static void reach(unigram_node *nodes, size_t from, size_t to, uint32_t token, double score) {
    unigram_node *s = &nodes[to];
    score += nodes[from].score;
    if (s->is_reached && score <= s->score) return;
    s->score = score, s->from = (uint32_t)from, s->token = token, s->is_reached = true;
}

/* Takes all tokens at a place whose character has `length` bytes. False: the window ends before it is known
 * which these are. */
static bool reach_from(unigram_node *nodes, const vocabulary *v, const char *text, size_t at, size_t n,
                       size_t length, bool whole) {
    const unigram *u = v->unigram;
    bool has_character = false;
    uint32_t node = 0;
    size_t end = at;
    while (end < n && (node = tree_child(&u->tree, node, (uint8_t)text[end])) != 0) {
        uint32_t token = tree_value(&u->tree, node);
        end++;
        if (token == TREE_NONE) continue;
        has_character |= end - at == length;
        reach(nodes, at, end, token, u->scores[token]);
    }
    if (end == n && node != 0 && !whole) return false;
    if (!has_character) reach(nodes, at, at + length, v->unknown, u->unknown);
    return true;
}

/* Returns the last place that all open ways come by: `at`, and what is reached behind it. */
static size_t common_place(unigram_node *nodes, size_t at, size_t n) {
    size_t open = 0;
    for (size_t i = at; i <= n; i++) open += nodes[i].is_open = nodes[i].is_reached;
    for (size_t i = n; i > 0 && open > 1; i--) {
        if (!nodes[i].is_open) continue;
        unigram_node *before = &nodes[nodes[i].from];
        nodes[i].is_open = false;
        if (before->is_open) open--;
        before->is_open = true;
    }
    while (n > 0 && !nodes[n].is_open) n--;
    return n;
}

/* Finds the best way through a window, and the place up to which it is certain. */
static bool find_way(unigram_work *w, const merging *m, const char *text, size_t n, bool whole,
                     size_t *certain) {
    if (!memory_grow(&w->nodes, &w->capacity, (uint64_t)n + 1, sizeof *w->nodes, m->e)) return false;
    memset(w->nodes, 0, (n + 1) * sizeof *w->nodes);
    w->nodes[0].score = w->score, w->nodes[0].is_reached = true;
    size_t at = 0;
    while (at < n) {
        size_t length = symbol_length(m->v->kind, text + at, SIZE_MAX);
        if (length > n - at && !whole) break;
        length = min(length, n - at);
        if (!reach_from(w->nodes, m->v, text, at, n, length, whole)) break;
        at += length;
    }
    *certain = whole ? n : common_place(w->nodes, at, n);
    return true;
}

/* Appends the tokens of the way to a place. */
static bool emit_way(unigram_work *w, merging *m, size_t place) {
    unigram_node *nodes = w->nodes;
    for (size_t at = place; at > 0; at = nodes[at].from) nodes[nodes[at].from].next = (uint32_t)at;
    for (size_t at = 0; at < place;) {
        uint32_t token = nodes[at = nodes[at].next].token;
        bool is_unknown = token == m->v->unknown;
        if (token == NO_PIECE)
            return gq_fail(m->e,
                           "a character of the text has no token, and the vocabulary has no unknown token");
        if (!(is_unknown && w->after_unknown) && !token_list_add(m->to, token, m->e)) return false;
        w->after_unknown = is_unknown;
    }
    w->score = nodes[place].score;
    return true;
}

bool unigram_cut(unigram_work *w, merging *m, const char *text, size_t n, bool last, size_t *done) {
    size_t window = m->window, certain;
    for (size_t at = 0; at < n; at += certain) {
        size_t here = min(window, n - at);
        if (!merging_goes_on(m) || !find_way(w, m, text + at, here, last && here == n - at, &certain) ||
            !emit_way(w, m, certain))
            return false;
        *done += certain;
        if (certain == 0 && here == n - at) break;
        if (certain == 0 && !merging_may_widen(m, window)) return false;
        window = certain ? m->window : 2 * window;
    }
    if (last) w->score = 0, w->after_unknown = false;
    return true;
}
