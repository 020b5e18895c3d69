/* Turns a text into windows of token ids. A text is run through the model's own tokenizer; ids that stand for
 * one are read as decimal numbers; or tokens are drawn at random. The list is then cut to the number of
 * tokens asked for, each id is checked against the model's vocabulary, and tokens that do not fill a last
 * window are left over. A model runs on each window from position 0 on. So where the vocabulary begins texts
 * with BOS, each window's first token becomes BOS, but not where the caller gave ids. Which windows a
 * calibration holds back follows from their number alone (windows_hold_back). Random tokens come from a fixed
 * seed: the same model gives the same windows. */
#include "quantize/sweep/windows.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/random.h"
#include "forward/groups.h"
#include "forward/tokenizer.h"

static const char *name_of(const gq_text *text) { return text->name ? text->name : "the text"; }

/* ---- ids ---- */

static bool windows_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool fail_id(const gq_text *text, const char *at, size_t length, gq_error *e) {
    size_t line = 1;
    for (const char *c = text->bytes; c < at; c++) line += *c == '\n';
    return gq_fail(e, "%s, line %zu: '%.*s' where a token's id is expected, a decimal number below 2^32",
                   name_of(text), line, length < 40 ? (int)length : 40, at);
}

static bool read_ids(token_list *to, const gq_text *text, gq_error *e) {
    const char *at = text->bytes, *end = at + text->n;
    for (;;) {
        while (at < end && windows_is_space(*at)) at++;
        if (at == end) return true;
        const char *start = at;
        uint64_t id = 0;
        while (at < end && *at >= '0' && *at <= '9' && id <= UINT32_MAX)
            id = 10 * id + (uint64_t)(*at++ - '0');
        if (id > UINT32_MAX || (at < end && !windows_is_space(*at)) || at == start) {
            while (at < end && !windows_is_space(*at)) at++;
            return fail_id(text, start, (size_t)(at - start), e);
        }
        if (!token_list_add(to, (uint32_t)id, e)) return false;
    }
}

/* ---- a text ---- */

static bool copy_warnings(const tokenizer *t, warning_list *to, gq_error *e) {
    size_t n;
    const char *const *warnings = tokenizer_warnings(t, &n);
    for (size_t i = 0; i < n; i++)
        if (!warnings_add(to, e, "%s", warnings[i])) return false;
    return true;
}

static bool windows_read_text(token_list *to, const gq_text *text, const model_source *m, bool *begins,
                              uint32_t *bos, warning_list *warnings, gq_error *e) {
    tokenizer *t = model_check_whole(m, e) ? tokenizer_new(m->path, m->kv, m->n_kv, e) : NULL;
    if (!t) return gq_fail_again(e, e, "%s (ids of tokens can take the place of a text)", gq_error_text(e));
    unsigned flags = TOKENIZE_ADD_SPECIAL | (text->parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
    bool ok = copy_warnings(t, warnings, e) && tokenizer_run(t, text->bytes, text->n, flags, to, e);
    if (ok && to->dropped)
        ok = warnings_add(
            warnings, e,
            "%s: %llu bytes have no token in this vocabulary and are left out; is it in a language "
            "that the model knows?",
            name_of(text), (unsigned long long)to->dropped);
    *begins = tokenizer_begins(t, bos);
    tokenizer_free(t);
    return ok;
}

/* ---- windows ---- */

/* Begins each window with BOS, and keeps what stood there. */
static bool windows_begin(text_windows *w, uint32_t bos, gq_error *e) {
    w->replaced = malloc(w->n * sizeof *w->replaced);
    if (!w->replaced) return gq_fail_memory(e, w->n * sizeof *w->replaced);
    for (size_t i = 0; i < w->n; i++) {
        w->replaced[i] = w->ids[i * w->context];
        w->ids[i * w->context] = bos;
    }
    return true;
}

static bool check_ids(const gq_text *text, const token_list *l, size_t vocabulary, gq_error *e) {
    for (size_t i = 0; i < l->n; i++)
        if (l->ids[i] >= vocabulary)
            return gq_fail(e, "%s: token %zu is %u, but the model has %zu tokens, 0 to %zu; %s",
                           name_of(text), i + 1, l->ids[i], vocabulary, vocabulary - 1,
                           text->ids ? "are the ids of another vocabulary?"
                                     : "its vocabulary does not fit its embedding");
    return true;
}

static bool check_length(const gq_text *text, size_t tokens, size_t taken, size_t context, gq_error *e) {
    if (taken >= context) return true;
    if (tokens > taken)
        return gq_fail_usage(
            e, "%zu tokens are fewer than one window of %zu: take more tokens, or shorter windows", taken,
            context);
    return gq_fail(e,
                   "%s: has %zu tokens, fewer than one window of %zu: take a longer text, or shorter windows",
                   name_of(text), tokens, context);
}

/* Reads the tokens that the windows w are cut from: no more than the text may give, and at least a window. */
static bool windows_read_tokens(const text_windows *w, token_list *list, const gq_text *text,
                                const model_source *model, size_t vocabulary, bool *begins, uint32_t *bos,
                                warning_list *warnings, gq_error *e) {
    if (text->n == 0)
        return gq_fail(e, "%s: is empty; a text of one window of %zu tokens or more is needed", name_of(text),
                       w->context);
    bool ok =
        text->ids ? read_ids(list, text, e) : windows_read_text(list, text, model, begins, bos, warnings, e);
    size_t tokens = list->n;
    if (text->tokens && list->n > text->tokens) list->n = (size_t)text->tokens;
    ok = ok && check_ids(text, list, vocabulary, e) && check_length(text, tokens, list->n, w->context, e);
    if (!ok) free(list->ids);
    return ok;
}

static text_windows windows_of(const gq_text *text) {
    return (text_windows){.context = text->context ? text->context : GQ_CONTEXT};
}

bool windows_read(text_windows *w, const gq_text *text, const model_source *model, size_t vocabulary,
                  warning_list *warnings, gq_error *e) {
    token_list list = {0};
    bool begins = false;
    uint32_t bos = 0;
    *w = windows_of(text);
    if (!windows_read_tokens(w, &list, text, model, vocabulary, &begins, &bos, warnings, e)) return false;
    w->ids = list.ids;
    w->n = list.n / w->context;
    w->left_over = list.n % w->context;
    if (!begins || windows_begin(w, bos, e)) return true;
    windows_free(w);
    return false;
}

/* Cuts a list into windows that overlap. */
static bool windows_cut_overlapping(text_windows *w, const token_list *list, gq_error *e) {
    size_t bytes = w->context * sizeof *w->ids;
    w->n = larger(1, parts(list->n - w->context, w->stride));
    w->left_over = list->n - w->context - (w->n - 1) * w->stride;
    w->ids = calloc(w->n, bytes);
    for (size_t i = 0; w->ids && i < w->n; i++)
        memcpy(w->ids + i * w->context, list->ids + i * w->stride, bytes);
    return w->ids || gq_fail_memory(e, times(w->n, bytes));
}

bool windows_read_overlapping(text_windows *w, const gq_text *text, size_t stride, const model_source *model,
                              size_t vocabulary, warning_list *warnings, gq_error *e) {
    token_list list = {0};
    bool begins, ok = false;
    uint32_t bos;
    *w = windows_of(text);
    w->stride = stride;
    if (stride == 0 || stride >= w->context)
        return gq_fail_usage(
            e,
            "windows of %zu tokens that begin every %zu: expected a step of 1 to %zu, as the "
            "step's tokens are scored, each after the one before it",
            w->context, stride, w->context - 1);
    if (windows_read_tokens(w, &list, text, model, vocabulary, &begins, &bos, warnings, e)) {
        ok = windows_cut_overlapping(w, &list, e);
        free(list.ids);
    }
    return ok;
}

/* ---- tokens drawn at random ---- */

/* Returns the ids that may be drawn, *n of them, malloc'ed: the vocabulary's normal tokens, or all where it
 * names no kinds. */
static uint32_t *windows_ordinary_tokens(const model_source *m, size_t vocabulary, size_t *n, gq_error *e) {
    enum { NORMAL = 1 };
    const model_kv *kv = model_kv_find(m->kv, m->n_kv, "tokenizer.ggml.token_type");
    const uint8_t *kinds = NULL;
    uint32_t type, *ids = malloc(vocabulary * sizeof *ids);
    uint64_t known = 0;
    if (!ids) return gq_fail_memory(e, vocabulary * sizeof *ids), NULL;
    if (!kv || !model_kv_array(kv, &type, &known, &kinds) || type != GGUF_INT32) known = 0;
    for (size_t i = *n = 0; i < vocabulary && i < known; i++) {
        int32_t kind;
        memcpy(&kind, kinds + i * sizeof kind, sizeof kind);
        if (kind == NORMAL) ids[(*n)++] = (uint32_t)i;
    }
    for (size_t i = 0; *n == 0 && i < vocabulary; i++) ids[i] = (uint32_t)i;
    if (*n == 0) *n = vocabulary;
    return ids;
}

/* *begins: whether texts begin with *bos; not where the tokenizer is not known. Returns false where memory
 * failed, which says nothing about the tokenizer. */
static bool begins_with(const model_source *m, bool *begins, uint32_t *bos, gq_error *e) {
    gq_error why = {.text = ""};
    tokenizer *t = tokenizer_new(m->path, m->kv, m->n_kv, &why);
    *begins = t && tokenizer_begins(t, bos);
    tokenizer_free(t);
    return t || why.remedy != GQ_REMEDY_MEMORY || gq_fail_again(e, &why, "%s", why.text);
}

bool windows_draw(text_windows *w, const gq_text *text, const model_source *model, size_t vocabulary,
                  gq_error *e) {
    enum { SEED = 1, MOST = 1 << 30 };
    size_t context = text->context ? text->context : GQ_CONTEXT, n_ids;
    *w = (text_windows){.context = context, .n = text->tokens / context};
    if (text->tokens > MOST)
        return gq_fail_usage(e, "%llu tokens: at most %d can be drawn at random",
                             (unsigned long long)text->tokens, MOST);
    if (!check_length(text, SIZE_MAX, text->tokens, context, e)) return false;
    uint32_t *ids = windows_ordinary_tokens(model, vocabulary, &n_ids, e), bos;
    uint64_t seed = SEED;
    w->ids = ids ? calloc(w->n * context, sizeof *w->ids) : NULL;
    if (ids && !w->ids) gq_fail_memory(e, w->n * context * sizeof *w->ids);
    for (size_t i = 0; w->ids && i < w->n * context; i++)
        w->ids[i] = ids[(uint64_t)((__uint128_t)random_step(&seed) * n_ids >> 64)];
    free(ids);
    bool begins, ok = w->ids && begins_with(model, &begins, &bos, e);
    for (size_t i = 0; ok && begins && bos < vocabulary && i < w->n; i++) w->ids[i * context] = bos;
    if (!ok) windows_free(w);
    return ok;
}

bool windows_begin_as_texts(text_windows *w, const model_source *model, gq_error *e) {
    uint32_t bos;
    bool begins;
    return w->replaced || (begins_with(model, &begins, &bos, e) && (!begins || windows_begin(w, bos, e)));
}

void windows_free(text_windows *w) {
    free(w->ids), free(w->replaced);
    *w = (text_windows){.n = 0};
}

/* ---- windows that are held back ---- */

/* every is the smallest multiple of HELD_BACK_ONE_IN with n / every <= most, that is, above n / (most + 1).
 */
windows_held windows_hold_back(size_t n, size_t context) {
    size_t most = HELD_BACK_TOKENS / context;
    if (most < 1) most = 1;
    if (n < 2) return (windows_held){.every = 0};
    if (n < HELD_BACK_ONE_IN) return (windows_held){.every = n, .n = 1};
    size_t every = (n / (HELD_BACK_ONE_IN * (most + 1)) + 1) * HELD_BACK_ONE_IN;
    return (windows_held){.every = every, .n = n / every};
}

size_t windows_share(const gq_comm *comm, size_t n, size_t context, int rank) {
    size_t group = token_group_windows(context);
    return smaller(n, comm_share(comm, parts(n, group), rank) * group);
}
