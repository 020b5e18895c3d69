#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hf/tokenizer/tokenizer.h"

enum { PLACEHOLDER_SCORE = -10000 };
static const char META_SPACE[] = "\xe2\x96\x81"; /* U+2581, by which sentencepiece shows a space */

bool hf_is_utf8(const char *text, size_t n) {
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t code;
        length = (uint8_t)text[at] < 128 ? 1 : gq_utf8(text + at, n - at, &code);
        if (length == 0) return false;
    }
    return true;
}

bool hf_text_append(hf_text *to, const char *text, size_t n, gq_error *e) {
    if (!memory_grow(&to->text, &to->capacity, to->n + n + 1, 1, e)) return false;
    memcpy(to->text + to->n, text, n);
    to->n += n;
    to->text[to->n] = 0;
    return true;
}

static int digit_of(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool hf_base64(const char *text, size_t n, uint8_t *to, size_t *length) {
    size_t digits = n;
    while (digits > 0 && n - digits < 2 && text[digits - 1] == '=') digits--;
    uint32_t bits = 0;
    unsigned count = 0;
    *length = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0 || n % 4 != 0) return false;
        bits = (bits & 63) << 6 | (uint32_t)digit, count += 6; /* six or fewer are left of the last one */
        if (count < 8) continue;
        count -= 8;
        to[(*length)++] = (uint8_t)(bits >> count);
    }
    return true;
}

/* ---- numbers of tokens ---- */

bool hf_token_id(const hf_tokenizer *t, const char *file, const json_t *id, uint64_t *value, gq_error *e) {
    if (!json_is_integer(id)) return hf_tokenizer_fail(t, file, e, "a token's id is not an integer");
    json_int_t n = json_integer_value(id);
    if (n < 0 || n > UINT32_MAX)
        return hf_tokenizer_fail(t, file, e, "a token has id %lld, expected 0 to 4294967295", (long long)n);
    *value = (uint64_t)n;
    return true;
}

bool hf_token_id_of_key(const hf_tokenizer *t, const char *file, const char *key, uint64_t *value,
                        gq_error *e) {
    char *end;
    size_t digits = strspn(key, "0123456789");
    if (digits == 0 || key[digits])
        return hf_tokenizer_fail(t, file, e,
                                 "added_tokens_decoder: the id \"%.40s\" is not an integer from 0 on", key);
    *value = digits > 10 ? UINT64_MAX : strtoull(key, &end, 10);
    return *value <= UINT32_MAX ||
           hf_tokenizer_fail(t, file, e, "added_tokens_decoder: id %.40s, expected 0 to 4294967295", key);
}

bool hf_tokenizer_size(hf_tokenizer *t, uint64_t counted, uint32_t multiple, gq_error *e) {
    uint32_t size = 0;
    if (!hf_config_u32_or(t->config, "vocab_size", 0, &size, e)) return false;
    uint64_t n = size ? size : counted;
    if (multiple == 0) return hf_config_fail(t->config, e, "pad_vocab_size_multiple is 0");
    t->n = mul_sat(ceil_div(n, multiple), multiple);
    if (t->n > HF_TOKENS_MOST)
        return hf_config_fail(t->config, e, "a vocabulary of %llu tokens, expected at most %d", LLU(t->n),
                              HF_TOKENS_MOST);
    return true;
}

/* ---- tokens ---- */

hf_token *hf_tokenizer_at(hf_tokenizer *t, uint64_t id, gq_error *e) {
    if (id >= t->listed) {
        if (!memory_grow(&t->tokens, &t->capacity, id + 1, sizeof *t->tokens, e)) return NULL;
        for (; t->listed <= id; t->listed++)
            t->tokens[t->listed] = (hf_token){.score = PLACEHOLDER_SCORE, .type = HF_TOKEN_UNUSED};
    }
    return &t->tokens[id];
}

const char *hf_tokenizer_keep(hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    json_t *copy = json_stringn(text, n);
    if (!t->made) t->made = json_array();
    if (copy && t->made && json_array_append_new(t->made, copy) == 0) return json_string_value(copy);
    gq_fail_memory(e, n);
    return NULL;
}

bool hf_tokenizer_set(hf_tokenizer *t, uint64_t id, hf_token token, gq_error *e) {
    hf_token *at = hf_tokenizer_at(t, id, e);
    if (at) *at = token;
    return at;
}

bool hf_tokenizer_set_copy(hf_tokenizer *t, uint64_t id, const char *text, size_t n, float score,
                           hf_token_type type, gq_error *e) {
    const char *kept = hf_tokenizer_keep(t, text, n, e);
    return kept && hf_tokenizer_set(t, id, (hf_token){kept, (uint32_t)n, score, type}, e);
}

bool hf_tokenizer_set_pad(hf_tokenizer *t, uint64_t id, uint64_t number, float score, gq_error *e) {
    char made[32];
    int n = snprintf(made, sizeof made, "[PAD%llu]", LLU(number));
    return hf_tokenizer_set_copy(t, id, made, (size_t)n, score, HF_TOKEN_UNUSED, e);
}

/* Returns a copy of the text with spaces for all U+2581, and its new length; NULL: no memory. */
static const char *vocabulary_make_spaces(hf_tokenizer *t, const char *text, size_t *n, gq_error *e) {
    enum { WIDTH = sizeof META_SPACE - 1 };
    char *copy = malloc(*n + 1);
    const char *kept = NULL;
    size_t length = 0;
    if (!copy) return gq_fail_memory(e, *n), NULL;
    for (size_t at = 0; at < *n;) {
        bool is_space = *n - at >= WIDTH && memcmp(text + at, META_SPACE, WIDTH) == 0;
        copy[length++] = is_space ? ' ' : text[at];
        at += is_space ? WIDTH : 1;
    }
    kept = hf_tokenizer_keep(t, copy, length, e);
    free(copy);
    *n = length;
    return kept;
}

bool hf_tokenizer_add(hf_tokenizer *t, uint64_t id, const char *text, size_t n, float score, bool is_control,
                      bool is_verbatim, gq_error *e) {
    if (!is_control && !is_verbatim && memmem(text, n, META_SPACE, sizeof META_SPACE - 1) &&
        !(text = vocabulary_make_spaces(t, text, &n, e)))
        return false;
    hf_token_type type = is_control ? HF_TOKEN_CONTROL : HF_TOKEN_USER;
    return hf_tokenizer_set(t, id, (hf_token){text, (uint32_t)n, score, type}, e);
}

bool hf_looks_special(const char *text, size_t n) {
    static const char *const forms[][2] = {/* begins, ends */
                                           {"<|", "|>"},
                                           {"<\xef\xbd\x9c", "\xef\xbd\x9c>"},
                                           {"<unused", ">"}};
    static const char *const whole[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (n == strlen(whole[i]) && memcmp(text, whole[i], n) == 0) return true;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t begin = strlen(forms[i][0]), end = strlen(forms[i][1]);
        if (n >= begin && n >= end && memcmp(text, forms[i][0], begin) == 0 &&
            memcmp(text + n - end, forms[i][1], end) == 0)
            return true;
    }
    return false;
}

const json_t *hf_token_content(const json_t *token) {
    const json_t *content = json_is_object(token) ? json_object_get(token, "content") : token;
    return json_is_string(content) ? content : NULL;
}

/* ---- writing ---- */

static bool vocabulary_write_texts(hf_tokenizer *t, gq_error *e) {
    for (uint64_t i = 0; i < t->n; i++) {
        char made[32];
        const hf_token *token = i < t->listed && t->tokens[i].text ? &t->tokens[i] : NULL;
        int length = token ? 0 : snprintf(made, sizeof made, "[PAD%llu]", LLU(i));
        if (!hf_metadata_add_string(t->metadata, token ? token->text : made,
                                    token ? token->length : (size_t)length, e))
            return false;
    }
    return hf_metadata_array(t->metadata, "tokenizer.ggml.tokens", GGUF_STRING, e);
}

bool hf_tokenizer_write(hf_tokenizer *t, bool with_scores, gq_error *e) {
    if (t->n == 0)
        return gq_fail(e, "%s: the tokenizer's files have no tokens: download them again", t->folder->path);
    if (!vocabulary_write_texts(t, e)) return false;
    for (uint64_t i = 0; with_scores && i < t->n; i++)
        if (!hf_metadata_add_f32(t->metadata, i < t->listed ? t->tokens[i].score : PLACEHOLDER_SCORE, e))
            return false;
    if (with_scores && !hf_metadata_array(t->metadata, "tokenizer.ggml.scores", GGUF_FLOAT32, e))
        return false;
    for (uint64_t i = 0; i < t->n; i++)
        if (!hf_metadata_add_i32(t->metadata, i < t->listed ? (int32_t)t->tokens[i].type : HF_TOKEN_UNUSED,
                                 e))
            return false;
    return hf_metadata_array(t->metadata, "tokenizer.ggml.token_type", GGUF_INT32, e);
}

bool hf_tokenizer_write_model(const hf_tokenizer *t, const char *model, const char *pre, gq_error *e) {
    return hf_metadata_text(t->metadata, "tokenizer.ggml.model", model, e) &&
           hf_metadata_text(t->metadata, "tokenizer.ggml.pre", pre, e);
}

bool hf_tokenizer_write_kinds(const hf_tokenizer *t, gq_error *e) {
    uint32_t kinds;
    return hf_config_u32_or(t->config, "type_vocab_size", 1, &kinds, e) &&
           hf_metadata_u32(t->metadata, "tokenizer.ggml.token_type_count", kinds, e);
}
