/* Reads conversations line by line and packs them. Where a conversation goes follows from the lengths of those
 * before it alone, so that the same file makes the same windows on every machine. */
#include "study/sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* ---- ids ---- */

bool ids_next(ids_reader *r, int *c, gq_error *e) {
    if (r->next == r->n) {
        r->n = (size_t)min(sizeof r->buffer, r->file->size - r->at), r->next = 0;
        if (!gq_file_read(r->file, r->at, r->buffer, r->n, e)) return false;
        r->at += r->n;
    }
    *c = r->n ? r->buffer[r->next++] : -1;
    return true;
}

bool ids_read_word(ids_reader *r, int c, char shown[IDS_SHOWN], uint64_t *id, bool *is_id, gq_error *e) {
    size_t n = 0;
    shown[0] = 0;
    for (*id = 0, *is_id = true; c >= 0 && !ids_is_space(c);) {
        if (n <= IDS_WORD) n += (size_t)snprintf(shown + n, IDS_SHOWN - n, c ? "%c" : "\\x00", c);
        *is_id = *is_id && c >= '0' && c <= '9';
        if (*is_id) *id = 10 * *id + (uint64_t)(c - '0');
        *is_id = *is_id && *id <= UINT32_MAX;
        if (!ids_next(r, &c, e)) return false;
    }
    if (c >= 0) r->next--; /* white space, which may end a line */
    return true;
}

/* The beginning of a file, and the version after it, which ends with its line. */
static const char MAGIC[] = "#gquant-chats ", VERSION[] = "1";
enum {
    OPEN_WINDOWS = 64, /* windows that still take conversations: with more of them hardly less stays empty */
    MOST_IDS = 1 << 30,
};

bool chats_begin(const gq_file *file) {
    char begins[sizeof MAGIC - 1];
    gq_error unused;
    return file->size >= sizeof begins && gq_file_read(file, 0, begins, sizeof begins, &unused) &&
           memcmp(begins, MAGIC, sizeof begins) == 0;
}

/* Fails for a file of another version. Its lines may end as those of Windows. */
static bool chats_check_version(const gq_text *text, const gq_file *file, gq_error *e) {
    enum { MOST = 32 };
    char line[MOST + 1];
    size_t n = file->size < MOST ? (size_t)file->size : MOST;
    if (!gq_file_read(file, 0, line, n, e)) return false;
    line[n] = 0;
    char *version = line + sizeof MAGIC - 1;
    version[strcspn(version, "\r\n")] = 0;
    return !strcmp(version, VERSION) ||
           gq_fail(e,
                   "%s: has conversations of version '%s', expected '%s': render them again with this "
                   "version's gquant-chat",
                   text->name ? text->name : "the conversations", version, VERSION);
}

/* The conversation that is read. What a window has no room for is counted alone, so that a line of any length
 * takes no more memory than a window. */
typedef struct chat {
    uint32_t *ids, *weights;
    size_t n, ids_capacity, weights_capacity;
} chat;

typedef struct chats_packing {
    windows_packer to;
    const gq_text *text;
    size_t vocabulary;
    size_t cut, uncounted; /* conversations */
} chats_packing;

static const char *chats_name(const gq_text *text) { return text->name ? text->name : "the conversations"; }

/* ---- a line ---- */

/* Reads "=0.25": a weight of 0 to 1, in FORWARD_WEIGHT_ONE-ths. The point is one in every locale. */
static bool chat_read_weight(const char *word, uint32_t *weight) {
    double value = 0, digit = 1;
    const char *at = word + 1;
    if (!(*at >= '0' && *at <= '9')) return false;
    for (; *at >= '0' && *at <= '9'; at++) value = 10 * value + (*at - '0');
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++) value += (digit /= 10) * (*at - '0');
    if (*at || value > 1) return false;
    *weight = (uint32_t)lround(value * FORWARD_WEIGHT_ONE);
    if (value > 0 && *weight == 0) *weight = 1;
    return true;
}

static bool chat_add(chat *c, uint32_t id, uint32_t weight, gq_error *e) {
    if (!memory_grow(&c->ids, &c->ids_capacity, c->n + 1, sizeof *c->ids, e) ||
        !memory_grow(&c->weights, &c->weights_capacity, c->n + 1, sizeof *c->weights, e))
        return false;
    c->ids[c->n] = id, c->weights[c->n] = weight;
    return true;
}

static bool chat_read_word(const chats_packing *p, chat *c, ids_reader *r, int first, uint32_t *weight,
                           gq_error *e) {
    char shown[IDS_SHOWN];
    uint64_t id;
    bool is_id;
    if (!ids_read_word(r, first, shown, &id, &is_id, e)) return false;
    if (first == '=' && strlen(shown) > IDS_WORD)
        return gq_fail(e, "%s, line %zu: the weight '%.*s...' is longer than %d characters",
                       chats_name(p->text), r->line, (int)IDS_WORD, shown, (int)IDS_WORD);
    if (first == '=' && chat_read_weight(shown, weight)) return true;
    if (!is_id)
        return gq_fail(e,
                       "%s, line %zu: found '%s', expected a token id or a weight from 0 to 1 such as =0.5",
                       chats_name(p->text), r->line, shown);
    if (id >= p->vocabulary)
        return gq_fail(e,
                       "%s, line %zu: token %llu, but the model has %zu tokens, 0 to %zu; are the ids of "
                       "another vocabulary?",
                       chats_name(p->text), r->line, LLU(id), p->vocabulary, p->vocabulary - 1);
    if (c->n >= MOST_IDS)
        return gq_fail(e, "%s, line %zu: has more than %d tokens", chats_name(p->text), r->line, MOST_IDS);
    bool ok = c->n >= p->to.w->context || chat_add(c, (uint32_t)id, *weight, e);
    return c->n++, ok;
}

/* Reads to the end of a line; *more: there may be another one. */
static bool chat_read_line(const chats_packing *p, chat *c, ids_reader *r, bool *more, gq_error *e) {
    uint32_t weight = FORWARD_WEIGHT_ONE;
    bool comments = false;
    int byte;
    for (c->n = 0, *more = true;;) {
        if (!ids_next(r, &byte, e)) return false;
        if (byte < 0 || byte == '\n') break;
        if (comments || ids_is_space(byte)) continue;
        comments = byte == '#';
        if (!comments && !chat_read_word(p, c, r, byte, &weight, e)) return false;
    }
    r->line++, *more = byte >= 0;
    return true;
}

/* ---- windows ---- */

/* The first open window with room for so many tokens, or a new one; SIZE_MAX: no memory. */
static size_t packer_find_window(windows_packer *p, size_t tokens, gq_error *e) {
    text_windows *w = p->w;
    for (size_t i = w->n > OPEN_WINDOWS ? w->n - OPEN_WINDOWS : 0; p->used && i < w->n; i++)
        if (p->used[i] < w->context && w->context - p->used[i] >= tokens) return i;
    size_t all = mul_sat(w->n + 1, w->context);
    if (all > MOST_IDS)
        return gq_fail(e, "conversations fill windows of more than %d tokens; use fewer", MOST_IDS), SIZE_MAX;
    if (!token_limits_hold(p->limits, &(token_list){.n = 0}, all, mul_sat(all, sizeof *w->marks), e) ||
        !memory_grow(&w->ids, &p->ids_capacity, all, sizeof *w->ids, e) ||
        !memory_grow(&w->marks, &p->marks_capacity, all, sizeof *w->marks, e) ||
        !memory_grow(&p->used, &p->used_capacity, w->n + 1, sizeof *p->used, e))
        return SIZE_MAX;
    p->used[w->n] = 0;
    return w->n++;
}

bool windows_pack(windows_packer *p, const uint32_t *ids, const uint32_t *weights, size_t n, size_t *begin,
                  gq_error *e) {
    text_windows *w = p->w;
    size_t window = packer_find_window(p, n, e);
    if (window == SIZE_MAX) return false;
    size_t used = p->used[window];
    *begin = window * w->context + used;
    for (size_t t = 0; t < w->context - used; t++) {
        w->ids[*begin + t] = ids[t < n ? t : n - 1];
        w->marks[*begin + t] =
            t < n ? (forward_mark){(uint32_t)t, weights[t]} : (forward_mark){FORWARD_BEHIND_TEXT, 0};
    }
    p->used[window] = ceil_div(used + n, FORWARD_TEXT_ALIGNMENT) * FORWARD_TEXT_ALIGNMENT;
    w->texts++, w->text_tokens += n;
    return true;
}

static bool chats_add(chats_packing *p, chat *c, gq_error *e) {
    bool counts = false;
    size_t begin;
    if (c->n > p->to.w->context) c->n = p->to.w->context, p->cut++;
    for (size_t t = 0; t < c->n && !counts; t++) counts = c->weights[t];
    if (!counts) p->uncounted++;
    return !counts || windows_pack(&p->to, c->ids, c->weights, c->n, &begin, e);
}

static bool chats_warn(const chats_packing *p, warning_list *warnings, gq_error *e) {
    const char *name = chats_name(p->text);
    return (!p->cut || warnings_add(warnings, e,
                                    "%s: %zu conversation%s cut to the %zu tokens of a window; longer "
                                    "windows would keep all",
                                    name, p->cut, p->cut == 1 ? " is" : "s are", p->to.w->context)) &&
           (!p->uncounted ||
            warnings_add(warnings, e,
                         "%s: %zu conversation%s left out, as all tokens that would be used have weight 0",
                         name, p->uncounted, p->uncounted == 1 ? " is" : "s are"));
}

bool chats_read(text_windows *w, const gq_text *text, const gq_file *file, size_t vocabulary,
                const token_limits *limits, warning_list *warnings, gq_error *e) {
    chats_packing p = {.to = {.w = w, .limits = limits}, .text = text, .vocabulary = vocabulary};
    chat c = {.ids = NULL};
    ids_reader *r = calloc(1, sizeof *r);
    bool ok = (r || gq_fail_memory(e, sizeof *r)) && chats_check_version(text, file, e), more = true;
    if (r) r->file = file, r->line = 1;
    while (ok && more && !(text->tokens && w->text_tokens >= text->tokens)) {
        static const token_list asks = {.capacity = 1};
        ok = chat_read_line(&p, &c, r, &more, e) && token_limits_allow(limits, &asks, e);
        bool is_beyond = text->tokens && w->texts && min(c.n, w->context) > text->tokens - w->text_tokens;
        if (ok && is_beyond) break;
        ok = ok && (!c.n || chats_add(&p, &c, e));
    }
    ok = ok &&
         (w->n || gq_fail(e, "%s: no conversation has a token with a weight above 0", chats_name(text))) &&
         chats_warn(&p, warnings, e);
    free(r), free(c.ids), free(c.weights), free(p.to.used);
    return ok;
}
