#include "forward/tokens/tokens.h"

#include <string.h>

#include "base/checked.h"
#include "base/memory.h"

static const char SPACE[] = "\xe2\x96\x81"; /* U+2581 */
enum { SPACE_BYTES = sizeof SPACE - 1, HANGUL_FIRST = 0xac00, HANGUL_END = 0xd7a4, HANGUL_EACH = 588 };

/* ---- characters ---- */

static bool is_among(const character_range *ranges, uint32_t c) {
    while (ranges->last && ranges->last < c) ranges++;
    return ranges->last && ranges->first <= c;
}

static bool is_chinese(uint32_t c) {
    static const character_range ranges[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                             {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                             {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}, {0, 0}};
    return is_among(ranges, c);
}

/* Whether it is a word of its own. */
static bool stands_alone(uint32_t c) {
    bool is_sign = c < 0x7f && strchr("$+<=>^`|~", (int)c) && c;
    return is_sign || is_among(characters_punctuation, c) || is_chinese(c);
}

static uint32_t make_small(uint32_t c) {
    for (const character_case *k = characters_cases; k->last && k->first <= c; k++)
        if (c <= k->last && (c - k->first) % k->step == 0) return (uint32_t)((int32_t)c + k->by);
    return c;
}

static uint32_t take_accents_off(uint32_t c) {
    if (c >= HANGUL_FIRST && c < HANGUL_END) return 0x1100 + (c - HANGUL_FIRST) / HANGUL_EACH;
    const uint32_t *bases = characters_bases; /* of a range's characters */
    for (const character_range *r = characters_composed; r->last && r->first <= c; r++) {
        if (c <= r->last) return bases[c - r->first];
        bases += r->last - r->first + 1;
    }
    return c;
}

/* ---- words ---- */

static bool words_append(words_maker *m, uint32_t c) {
    if (m->v->lowers) c = make_small(c);
    if (!memory_grow(&m->text, &m->capacity, m->n + SPACE_BYTES + 4, 1, m->e)) return false;
    if (m->n == 0) memcpy(m->text, SPACE, SPACE_BYTES), m->n = SPACE_BYTES;
    m->n += utf8_put(m->text + m->n, c);
    return true;
}

/* Cuts the word into tokens; what does not end with its last byte is not kept. */
static bool words_cut(words_maker *m) {
    size_t before = m->to->n;
    for (size_t at = 0, length; at < m->n; at += length) {
        uint32_t id = NO_PIECE;
        for (length = min(m->n - at, m->v->longest); length > 0; length--) {
            id = pieces_find(&m->v->pieces, m->text + at, length);
            if (id < m->v->n_tokens) break;
        }
        if (length == 0) {
            m->to->n = before;
            break;
        }
        if (!token_list_add(m->to, id, m->e)) return false;
    }
    if (m->to->n > before) return true;
    return m->v->unknown == NO_PIECE
               ? gq_fail(m->e, "a word of the text has no tokens, and the vocabulary has no unknown token")
               : token_list_add(m->to, m->v->unknown, m->e);
}

static bool words_end(words_maker *m) {
    bool ok = m->n == 0 || words_cut(m);
    m->n = 0;
    return ok;
}

bool words_add(words_maker *m, const char *text, size_t n, bool last, size_t *done) {
    size_t begin = 0, length; /* of the word in the making */
    for (size_t at = 0; at < n; at += length) {
        uint32_t c;
        length = gq_utf8(text + at, n - at, &c);
        if (length == 0) {
            length = 1;
            continue;
        }
        if (m->v->strips_accents) c = take_accents_off(c);
        bool is_space = is_among(characters_spaces, c), is_alone = !is_space && stands_alone(c);
        if (is_space || is_alone) {
            if (!words_end(m) || (is_alone && (!words_append(m, c) || !words_end(m)))) return false;
            begin = at + length;
        } else if (!is_among(characters_left_out, c) &&
                   !(m->v->strips_accents && is_among(characters_marks, c))) {
            if (!words_append(m, c)) return false;
        }
    }
    if (last) return *done += n, words_end(m);
    m->n = 0, *done += begin;
    return true;
}
