/* A model's tokenizer behind the public header. */
#include <stdlib.h>

#include "base/fail.h"
#include "base/sized.h"
#include "forward/tokens/tokenizer.h"
#include "quantize/gquant_study.h"
#include "quantize/quantize.h"
#include "study/sweep/sweep.h"

struct gq_tokenizer {
    model_source file; /* the tokenizer's texts point into it */
    tokenizer *tokenizer;
    warning_list warnings; /* the model's, and the tokenizer's */
};

static bool tokenizer_join_warnings(gq_tokenizer *t, gq_error *e) {
    size_t n;
    const char *const *own = tokenizer_warnings(t->tokenizer, &n);
    bool ok = warnings_join(&t->warnings, &t->file.warnings, e);
    for (size_t i = 0; ok && i < n; i++) ok = warnings_copy(&t->warnings, e, own[i]);
    return ok;
}

gq_tokenizer *gq_tokenizer_open(const char *path, gq_error *e) {
    return gq_tokenizer_open_adapted(path, NULL, e);
}

gq_tokenizer *gq_tokenizer_open_adapted(const char *path, const gq_adapters *adapters, gq_error *e) {
    gq_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return gq_fail_memory(e, sizeof *t), NULL;
    if (!input_open_adapted(&t->file, path, adapters, e)) {
        free(t);
        return NULL;
    }
    if (model_check_whole(&t->file, e))
        t->tokenizer = tokenizer_new(t->file.path, t->file.kv, t->file.n_kv, e);
    if (t->tokenizer && tokenizer_join_warnings(t, e)) return t;
    gq_tokenizer_close(t);
    return NULL;
}

void gq_tokenizer_close(gq_tokenizer *t) {
    if (!t) return;
    tokenizer_free(t->tokenizer);
    model_close(&t->file);
    warnings_free(&t->warnings);
    free(t);
}

const char *const *gq_tokenizer_warnings(const gq_tokenizer *t, size_t *n) {
    return warnings_texts(&t->warnings, n);
}

bool gq_tokenize(const gq_tokenizer *t, const char *text, size_t n, const gq_tokenize_options *options,
                 gq_tokens *to, gq_error *e) {
    token_list list = {0};
    gq_tokenize_options how;
    gq_callbacks callbacks;
    gq_file file;
    *to = (gq_tokens){0};
    if (!SIZED_TAKE(how, options, e) || !SIZED_TAKE(callbacks, how.callbacks, e)) return false;
    how.callbacks = &callbacks;
    if (how.file && text)
        return gq_fail_usage(e, "expected a text or a file of text to tokenize, found both");
    if (!(how.file ? gq_file_open(&file, how.file, e) : gq_file_memory(&file, "the text", text, n, NULL, e)))
        return false;
    unsigned flags =
        (how.no_ends ? 0u : TOKENIZE_ADD_SPECIAL) | (how.parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
    token_limits limits =
        windows_token_limits(how.tokens, &(windows_limits){memory_budget_of(how.memory), how.callbacks});
    bool ok = tokenizer_read(t->tokenizer, &file, flags, &limits, &list, e) ||
              gq_fail_again(e, e, "%s: %s", file.path, gq_error_text(e));
    gq_file_close(&file);
    if (!ok) {
        free(list.ids);
        return false;
    }
    if (how.tokens && list.n > how.tokens) list.n = (size_t)how.tokens;
    *to = (gq_tokens){.ids = list.ids, .n = list.n, .bytes_dropped = list.dropped};
    return true;
}

void gq_tokens_free(gq_tokens *tokens) {
    free(tokens->ids);
    *tokens = (gq_tokens){0};
}
