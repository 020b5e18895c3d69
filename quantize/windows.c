#include "quantize/windows.h"

#include <stdlib.h>
#include <string.h>

#include "forward/tokenizer.h"

static const char *name_of(const gq_text *text) { return text->name ? text->name : "the text"; }

/* ---- ids ---- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool fail_id(const gq_text *text, const char *at, size_t length, gq_error *e) {
    size_t line = 1;
    for (const char *c = text->bytes; c < at; c++) line += *c == '\n';
    return gq_fail(e, "%s, line %zu: '%.*s' where a token's id is expected, a decimal number below 2^32",
                   name_of(text), line, length < 40 ? (int)length : 40, at);
}

static bool read_ids(token_list *to, const gq_text *text, gq_error *e) {
    const char *at = text->bytes, *end = at + text->n;
    for (;;) {
        while (at < end && is_space(*at)) at++;
        if (at == end) return true;
        const char *start = at;
        uint64_t id = 0;
        while (at < end && *at >= '0' && *at <= '9' && id <= UINT32_MAX)
            id = 10 * id + (uint64_t)(*at++ - '0');
        if (id > UINT32_MAX || (at < end && !is_space(*at)) || at == start) {
            while (at < end && !is_space(*at)) at++;
            return fail_id(text, start, (size_t)(at - start), e);
        }
        if (!token_list_add(to, (uint32_t)id, e)) return false;
    }
}

/* ---- a text ---- */

static bool copy_warnings(const tokenizer *t, word_list *to, gq_error *e) {
    size_t n;
    const char *const *warnings = tokenizer_warnings(t, &n);
    for (size_t i = 0; i < n; i++)
        if (!words_add(to, e, "%s", warnings[i])) return false;
    return true;
}

static bool read_text(token_list *to, const gq_text *text, const gguf_model *m, bool *begins, uint32_t *bos,
                      word_list *warnings, gq_error *e) {
    const gguf_shard *first = &m->shards[0];
    tokenizer *t = tokenizer_new(first->file.path, first->kv, first->n_kv, e);
    if (!t) return gq_fail(e, "%s (ids of tokens can take the place of a text)", e ? e->text : "");
    unsigned flags = TOKENIZE_ADD_SPECIAL | (text->parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
    bool ok = copy_warnings(t, warnings, e) && tokenizer_run(t, text->bytes, text->n, flags, to, e);
    if (ok && to->dropped)
        ok =
            words_add(warnings, e,
                      "%s: %llu bytes have no token in this vocabulary and are left out; is it in a language "
                      "that the model knows?",
                      name_of(text), (unsigned long long)to->dropped);
    *begins = tokenizer_begins(t, bos);
    tokenizer_free(t);
    return ok;
}

/* ---- windows ---- */

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

bool windows_read(text_windows *w, const gq_text *text, const gguf_model *model, size_t vocabulary,
                  word_list *warnings, gq_error *e) {
    token_list list = {0};
    bool begins = false;
    uint32_t bos = 0;
    *w = (text_windows){.context = text->context ? text->context : GQ_CONTEXT};
    if (text->n == 0)
        return gq_fail(e, "%s: is empty; a text of one window of %zu tokens or more is needed", name_of(text),
                       w->context);
    bool ok =
        text->ids ? read_ids(&list, text, e) : read_text(&list, text, model, &begins, &bos, warnings, e);
    size_t tokens = list.n;
    if (text->tokens && list.n > text->tokens) list.n = (size_t)text->tokens;
    ok = ok && check_ids(text, &list, vocabulary, e) && check_length(text, tokens, list.n, w->context, e);
    if (!ok) {
        free(list.ids);
        return false;
    }
    w->ids = list.ids;
    w->n = list.n / w->context;
    w->left_over = list.n % w->context;
    for (size_t i = 0; begins && i < w->n; i++) w->ids[i * w->context] = bos;
    return true;
}

void windows_free(text_windows *w) {
    free(w->ids);
    *w = (text_windows){.n = 0};
}
