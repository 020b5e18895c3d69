#include "hf/tokenizer/tokenizer_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/tokenizer/tokenizer_vocabulary.h"

static const char JSON_FILE[] = "tokenizer.json", SPACE[] = "\xe2\x96\x81";

static const json_t *words_model(const hf_tokenizer *t) { return json_object_get(t->json, "model"); }

static bool words_type_is(const json_t *object, const char *type) {
    const char *is = json_string_value(json_object_get(object, "type"));
    return is && strcmp(is, type) == 0;
}

bool hf_json_has_words(const hf_tokenizer *t) { return words_type_is(words_model(t), "WordPiece"); }

/* ---- tokens ---- */

/* Sets a token that stands for text: whole words and their beginnings get U+2581 in front. */
static bool words_set(hf_tokenizer *t, uint64_t id, const char *text, size_t n, hf_token_type type,
                      gq_error *e) {
    bool goes_on = n >= 2 && memcmp(text, "##", 2) == 0;
    size_t before = goes_on ? 0 : sizeof SPACE - 1, from = goes_on ? 2 : 0;
    if (id >= t->n)
        return hf_tokenizer_fail(t, JSON_FILE, e, "token \"%.40s\" has the id %llu, but vocab_size is %llu",
                                 text, (unsigned long long)id, (unsigned long long)t->n);
    char *whole = malloc(before + n + 1);
    if (!whole) return gq_fail_memory(e, n);
    memcpy(whole, SPACE, before), memcpy(whole + before, text + from, n - from);
    const char *kept = hf_tokenizer_keep(t, whole, before + n - from, e);
    free(whole);
    hf_token *token = kept ? hf_tokenizer_at(t, id, e) : NULL;
    if (token) *token = (hf_token){kept, (uint32_t)(before + n - from), 0, type};
    return token;
}

static bool words_add(hf_tokenizer *t, const json_t *added, gq_error *e) {
    const json_t *content = json_object_get(added, "content");
    uint64_t id;
    if (!json_is_string(content))
        return hf_tokenizer_fail(t, JSON_FILE, e, "added_tokens: a token without content");
    if (!hf_token_id(t, JSON_FILE, json_object_get(added, "id"), &id, e)) return false;
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    if (id >= t->n || !json_is_true(json_object_get(added, "special")))
        return words_set(t, id, text, n, HF_TOKEN_USER, e);
    hf_token *token = hf_tokenizer_at(t, id, e);
    if (token) *token = (hf_token){text, (uint32_t)n, 0, HF_TOKEN_CONTROL};
    return token;
}

bool hf_words_vocabulary(hf_tokenizer *t, gq_error *e) {
    const char *goes_on = json_string_value(json_object_get(words_model(t), "continuing_subword_prefix"));
    if (goes_on && strcmp(goes_on, "##") != 0)
        return hf_tokenizer_fail(
            t, JSON_FILE, e,
            "model.continuing_subword_prefix is \"%.40s\", expected \"##\": converters of "
            "GGUF files know no other",
            goes_on);
    const json_t *vocab = json_object_get(words_model(t), "vocab"), *value, *added;
    const char *text;
    size_t i;
    if (json_object_size(vocab) == 0) return hf_tokenizer_fail(t, JSON_FILE, e, "model.vocab has no tokens");
    if (!hf_tokenizer_size(t, json_object_size(vocab), 1, e)) return false;
    json_object_foreach((json_t *)vocab, text, *(json_t **)&value) {
        uint64_t id;
        if (!hf_token_id(t, JSON_FILE, value, &id, e) ||
            !words_set(t, id, text, strlen(text), HF_TOKEN_NORMAL, e))
            return false;
    }
    json_array_foreach(json_object_get(t->json, "added_tokens"), i, added) {
        if (!words_add(t, added, e)) return false;
    }
    for (uint64_t id = 0; id < t->n; id++) {
        char made[32];
        int n = snprintf(made, sizeof made, "[PAD%llu]", (unsigned long long)id);
        bool is_there = id < t->listed && t->tokens[id].text;
        if (!is_there && !words_set(t, id, made, (size_t)n, HF_TOKEN_UNUSED, e)) return false;
    }
    return true;
}

/* ---- what is done to a text ---- */

/* Programs cut words of all such vocabularies alike, and look at no name. Llama.cpp's converter has some by the ids
 * that a text gets; that of BERT's English vocabulary without capitals is known by its size and some tokens. */
static const char *words_cut_name(const hf_tokenizer *t) {
    static const struct {
        uint64_t id;
        const char *text;
    } marks[] = {{1996, "\xe2\x96\x81the"},
                 {7592, "\xe2\x96\x81hello"},
                 {2088, "\xe2\x96\x81world"},
                 {30521, "\xef\xbd\x9e"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n = strlen(marks[i].text);
        const hf_token *of = marks[i].id < t->listed ? &t->tokens[marks[i].id] : NULL;
        if (!of || of->length != n || memcmp(of->text, marks[i].text, n) != 0) return "default";
    }
    return "jina-v2-en";
}

static bool words_write_flag(hf_tokenizer *t, const char *key, const json_t *value, gq_error *e) {
    return !json_is_boolean(value) || hf_pairs_bool(t->pairs, key, json_is_true(value), e);
}

static bool words_write_normalizer(hf_tokenizer *t, const json_t *step, gq_error *e) {
    static const char lower[] = "tokenizer.ggml.normalizer.lowercase",
                      strip[] = "tokenizer.ggml.normalizer.strip_accents";
    const json_t *part;
    size_t i;
    if (words_type_is(step, "Lowercase")) return hf_pairs_bool(t->pairs, lower, true, e);
    if (words_type_is(step, "StripAccents")) return hf_pairs_bool(t->pairs, strip, true, e);
    if (words_type_is(step, "BertNormalizer"))
        return words_write_flag(t, lower, json_object_get(step, "lowercase"), e) &&
               words_write_flag(t, strip, json_object_get(step, "strip_accents"), e);
    json_array_foreach(json_object_get(step, "normalizers"), i, part) {
        if (!words_write_normalizer(t, part, e)) return false;
    }
    return true;
}

/* Programs that read such files cut words at spaces and punctuation, and let each Chinese character stand alone: no pair
 * says otherwise. */
static bool words_warn_cuts(const hf_tokenizer *t, gq_error *e) {
    const json_t *cut = json_object_get(t->json, "pre_tokenizer"),
                 *normalizer = json_object_get(t->json, "normalizer");
    if (cut && !json_is_null(cut) && !words_type_is(cut, "BertPreTokenizer") &&
        !hf_folder_warn(t->folder, JSON_FILE, e,
                        "its pre_tokenizer is no BertPreTokenizer: programs that read the GGUF cut words as "
                        "that one does, so ids of some texts differ"))
        return false;
    return !words_type_is(normalizer, "BertNormalizer") ||
           !json_is_false(json_object_get(normalizer, "handle_chinese_chars")) ||
           hf_folder_warn(t->folder, JSON_FILE, e,
                          "handle_chinese_chars is false: programs that read the GGUF let each Chinese "
                          "character stand alone all the same, so ids of such texts differ");
}

bool hf_words_write(hf_tokenizer *t, gq_error *e) {
    uint32_t kinds;
    return words_warn_cuts(t, e) && hf_config_u32_or(t->config, "type_vocab_size", 1, &kinds, e) &&
           hf_pairs_u32(t->pairs, "tokenizer.ggml.token_type_count", kinds, e) &&
           hf_pairs_text(t->pairs, "tokenizer.ggml.pre", words_cut_name(t), e) &&
           words_write_normalizer(t, json_object_get(t->json, "normalizer"), e);
}
