/* Windows to calibrate on: from all over a text, and random ones among them.
 *
 * Many texts are files one after another, and a beginning that is of one kind calibrates badly: with the first
 * 8,192 tokens of four kinds in a row SmolLM2 135M has twice the KL divergence (bench/results/calibration.md).
 * So the windows are taken from all over the text; and of one that would take long to tokenize, so are pieces
 * of it. Ids are taken in their order: who makes them has chosen. */
#include "study/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/random.h"

/* ---- windows from all over a text ---- */

enum { PIECES = 64, LEAST_BYTES = 1 << 20, BYTES_A_TOKEN = 16 };

/* Returns how many bytes of a piece are whole lines, if that is half of it, or else whole UTF-8 characters, moved to
 * its beginning. */
static size_t keep_whole_lines(char *piece, size_t n) {
    const char *line = memchr(piece, '\n', n);
    size_t begin = line ? (size_t)(line - piece) + 1 : 0, end = n;
    while (end > begin && piece[end - 1] != '\n') end--;
    if (end - begin < n / 2) {
        for (begin = 0, end = n; begin < end && (piece[begin] & 0xc0) == 0x80;) begin++;
        size_t lead = end; /* of the last character, which may be cut */
        while (lead > begin && end - lead < 3 && (piece[lead - 1] & 0xc0) == 0x80) lead--;
        if (lead > begin && (piece[lead - 1] & 0xc0) == 0xc0) end = lead - 1;
    }
    memmove(piece, piece + begin, end - begin);
    return end - begin;
}

/* Replaces a text of more than `bytes` by pieces of it. *owned: the pieces, to be freed; NULL: it is shorter. */
static bool take_pieces(gq_text *text, size_t bytes, char **owned, gq_error *e) {
    size_t piece = bytes / PIECES;
    gq_file f;
    *owned = NULL;
    if (text->bytes ? !gq_file_memory(&f, text->name ? text->name : "the text", text->bytes, text->n, NULL, e)
                    : !gq_file_open(&f, text->name, e))
        return false;
    bool ok = f.size <= bytes || (*owned = malloc(bytes)) || gq_fail_memory(e, bytes);
    size_t n = 0;
    for (uint64_t i = 0; ok && *owned && i < PIECES; i++) {
        uint64_t begin = (uint64_t)((__uint128_t)(f.size - piece) * i / (PIECES - 1));
        ok = gq_file_read(&f, begin, *owned + n, piece, e);
        if (ok) n += keep_whole_lines(*owned + n, piece);
    }
    gq_file_close(&f);
    if (*owned) text->bytes = *owned, text->n = n;
    return ok;
}

static size_t greatest_divisor(size_t a, size_t b) {
    for (size_t rest; b; a = b, b = rest) rest = a % b;
    return a;
}

/* Takes `wanted` of the windows, one of each of as many equal parts of the text, at a place that differs from
 * part to part: kinds of text that take turns are all met. They follow each other as multiples of the golden
 * ratio do, so the first few are of the whole text, too; some steps of a calibration look at no more. */
static bool pick_windows(text_windows *w, size_t wanted, gq_error *e) {
    size_t n = min(w->n, wanted), bytes = w->context * sizeof *w->ids, stride = random_spread(1, n),
           order = 0;
    while (stride > 1 && greatest_divisor(stride, n) > 1) stride--;
    uint32_t *picked = calloc(n, bytes);
    if (!picked) return gq_fail_memory(e, mul_sat(n, bytes));
    for (size_t i = 0; i < n; i++, order = (order + max(stride, 1)) % n) {
        size_t begin = (size_t)((unsigned __int128)w->n * order / n),
               size = (size_t)((unsigned __int128)w->n * (order + 1) / n) - begin;
        begin += random_spread(i, size);
        memcpy(picked + i * w->context, w->ids + begin * w->context, bytes);
    }
    free(w->ids);
    w->ids = picked, w->n = n;
    return true;
}

bool windows_read_spread(text_windows *w, const gq_text *asked, const model_source *model, size_t vocabulary,
                         const windows_limits *limits, warning_list *warnings, gq_error *e) {
    gq_text text = *asked;
    size_t window = text.context ? text.context : GQ_CONTEXT, wanted = text.tokens / window;
    size_t enough = (size_t)max(LEAST_BYTES, mul_sat(text.tokens, BYTES_A_TOKEN));
    char *pieces = NULL;
    if (text.ids || !wanted || !(text.name || text.bytes))
        return windows_read(w, &text, model, vocabulary, limits, warnings, e);
    text.tokens = enough; /* a token has a byte or more */
    gq_error why;
    if (!take_pieces(&text, enough, &pieces, e)) return false;
    bool ok = windows_read(w, &text, model, vocabulary, limits, warnings, pieces ? &why : e);
    /* Tokens of many bytes, or bytes that are no text: as much of the whole text as is wanted. */
    if (pieces && (ok ? w->n < wanted : why.status == GQ_FAILED && why.remedy != GQ_REMEDY_MEMORY)) {
        windows_free(w);
        ok = windows_read(w, asked, model, vocabulary, limits, warnings, e);
    } else if (!ok && pieces)
        gq_fail_again(e, &why, "%s", why.text);
    free(pieces);
    return ok && pick_windows(w, wanted, e);
}

/* ---- random windows ---- */

/* The mean weight of the texts' tokens. */
static uint32_t mean_weight(const text_windows *w) {
    uint64_t sum = 0, n = 0;
    for (size_t i = 0; w->marks && i < w->n * w->context; i++)
        if (w->marks[i].position != FORWARD_BEHIND_TEXT) sum += w->marks[i].weight, n++;
    return n ? (uint32_t)max(1, (sum + n / 2) / n) : FORWARD_WEIGHT_ONE;
}

bool windows_mix_random(text_windows *w, const model_source *model, size_t vocabulary, uint32_t **texts,
                        size_t *n_drawn, gq_error *e) {
    enum { TEXTS = 4, EACH = TEXTS + 1 };
    size_t groups = w->n / TEXTS, n = w->n + groups, window = w->context;
    gq_text like = {.context = (uint32_t)window, .tokens = groups * window};
    windows_held held = windows_hold_out(n, window);
    uint32_t weight = mean_weight(w);
    text_windows drawn = {.n = 0}, mixed = *w;
    memory_ledger l = {.failed = false};
    *texts = NULL, *n_drawn = groups;
    if (!groups) return true;
    mixed.n = n, mixed.marks = NULL, mixed.ids = memory_take(&l, mul_sat(n, window), sizeof *w->ids);
    if (w->marks) mixed.marks = memory_take(&l, mul_sat(n, window), sizeof *w->marks);
    bool ok = memory_had(&l, e) && windows_draw(&drawn, &like, model, vocabulary, e);
    for (size_t i = 0, text = 0; ok && i < n; i++) {
        size_t group = i / EACH, place = group * EACH + windows_place_in_group(group, EACH);
        if (windows_is_held(held, place)) place += place % EACH ? -1 : 1; /* its neighbour in the group */
        bool is_drawn = group < groups && i == place;
        const uint32_t *from = is_drawn ? drawn.ids + group * window : w->ids + text * window;
        memcpy(mixed.ids + i * window, from, window * sizeof *from);
        for (size_t t = 0; w->marks && t < window; t++)
            mixed.marks[i * window + t] =
                is_drawn ? (forward_mark){(uint32_t)t, weight} : w->marks[text * window + t];
        text += !is_drawn;
    }
    free(drawn.ids), free(drawn.replaced);
    if (ok)
        *texts = w->ids, free(w->marks), *w = mixed;
    else
        free(mixed.ids), free(mixed.marks);
    return ok;
}
