/* Vocabularies of unigrams in tokenizer.json: a list of texts with scores by id, and sentencepiece's map of characters in base64. */
#include "hf/tokenizer_unigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "hf/tokenizer_vocabulary.h"

static const char JSON_FILE[] = "tokenizer.json";
static const float PLACEHOLDER_SCORE = -10000;

static const json_t *unigram_model(const hf_tokenizer *t) { return json_object_get(t->json, "model"); }

static bool type_is(const json_t *object, const char *type) {
    const char *is = json_string_value(json_object_get(object, "type"));
    return is && strcmp(is, type) == 0;
}

bool hf_json_has_unigrams(const hf_tokenizer *t) { return type_is(unigram_model(t), "Unigram"); }

/* ---- tokens ---- */

static bool put_token(hf_tokenizer *t, uint64_t id, const json_t *pair, gq_error *e) {
    const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
    float value = (float)json_number_value(score);
    if (!json_is_string(text) || !json_is_number(score) || !isfinite(value))
        return hf_tokenizer_fail(t, JSON_FILE, e, "model.vocab: entry %llu is no text with a score",
                                 (unsigned long long)id);
    hf_token *token = hf_tokenizer_at(t, id, e);
    if (token)
        *token =
            (hf_token){json_string_value(text), (uint32_t)json_string_length(text), value, HF_TOKEN_NORMAL};
    return token;
}

static bool put_placeholder(hf_tokenizer *t, uint64_t id, gq_error *e) {
    char made[32];
    int n = snprintf(made, sizeof made, "[PAD%llu]", (unsigned long long)id);
    const char *text = hf_tokenizer_keep(t, made, (size_t)n, e);
    hf_token *token = text ? hf_tokenizer_at(t, id, e) : NULL;
    if (token) *token = (hf_token){text, (uint32_t)n, PLACEHOLDER_SCORE, HF_TOKEN_UNUSED};
    return token;
}

/* Types of added tokens among the first n; those behind are placeholders. */
static bool put_types(hf_tokenizer *t, uint64_t n, gq_error *e) {
    const json_t *unknown = hf_token_content(json_object_get(t->settings, "unk_token")), *added;
    const json_t *number = json_object_get(unigram_model(t), "unk_id");
    uint64_t id, unknown_id = 3;
    size_t i;
    if (json_is_integer(number) && !hf_token_id(t, JSON_FILE, number, &unknown_id, e)) return false;
    json_array_foreach(json_object_get(t->json, "added_tokens"), i, added) {
        if (!hf_token_id(t, JSON_FILE, json_object_get(added, "id"), &id, e)) return false;
        if (unknown && json_equal(unknown, json_object_get(added, "content"))) unknown_id = id;
        if (id < n)
            t->tokens[id].type =
                json_is_true(json_object_get(added, "special")) ? HF_TOKEN_CONTROL : HF_TOKEN_USER;
    }
    if (unknown_id < n) t->tokens[unknown_id].type = HF_TOKEN_UNKNOWN;
    return true;
}

/* ---- the map ---- */

/* Adds the bytes of a text in base64 to the list in the making. */
static bool add_base64(const hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    size_t length;
    uint8_t *bytes = malloc(n + 1);
    if (!bytes) return gq_fail_memory(e, n);
    bool ok = hf_base64(text, n, bytes, &length) ||
              hf_tokenizer_fail(t, JSON_FILE, e, "normalizer.precompiled_charsmap is no base64");
    for (size_t i = 0; ok && i < length; i++) ok = hf_pairs_add(t->pairs, &bytes[i], 1, e);
    free(bytes);
    return ok;
}

/* Finds the map; spaces that other steps strip or join are those of remove_extra_whitespaces. */
static bool find_map(const hf_tokenizer *t, const json_t *step, const json_t **map, gq_error *e) {
    const json_t *part;
    size_t i;
    if (type_is(step, "Precompiled")) return *map = json_object_get(step, "precompiled_charsmap"), true;
    json_array_foreach(json_object_get(step, "normalizers"), i, part) {
        if (!find_map(t, part, map, e)) return false;
    }
    if (!step || json_is_null(step) || type_is(step, "Sequence") || type_is(step, "Strip") ||
        type_is(step, "Replace"))
        return true;
    const char *type = json_string_value(json_object_get(step, "type"));
    return hf_tokenizer_fail(
        t, JSON_FILE, e,
        "normalizer: expected a Precompiled one, found '%.40s', which GGUF files have no place for",
        type ? type : "?");
}

static bool write_map(const hf_tokenizer *t, gq_error *e) {
    const json_t *map = NULL;
    if (!find_map(t, json_object_get(t->json, "normalizer"), &map, e)) return false;
    size_t n = json_string_length(map);
    return n == 0 || (add_base64(t, json_string_value(map), n, e) &&
                      hf_pairs_array(t->pairs, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, e));
}

static bool setting(const hf_tokenizer *t, const char *name, bool otherwise) {
    const json_t *value = json_object_get(t->settings, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

bool hf_json_unigrams_write(hf_tokenizer *t, gq_error *e) {
    const json_t *vocab = json_object_get(unigram_model(t), "vocab");
    uint64_t n = json_array_size(vocab);
    uint32_t kinds;
    if (n == 0 || n > HF_TOKENS_MOST)
        return hf_tokenizer_fail(t, JSON_FILE, e, "model.vocab has %llu tokens, expected 1 to %d",
                                 (unsigned long long)n, HF_TOKENS_MOST);
    if (!hf_tokenizer_size(t, n, 1, e)) return false;
    if (t->n < n) t->n = n;
    for (uint64_t id = 0; id < t->n; id++)
        if (!(id < n ? put_token(t, id, json_array_get(vocab, (size_t)id), e) : put_placeholder(t, id, e)))
            return false;
    return put_types(t, n, e) && hf_pairs_text(t->pairs, "tokenizer.ggml.model", "t5", e) &&
           hf_pairs_text(t->pairs, "tokenizer.ggml.pre", "default", e) &&
           hf_pairs_bool(t->pairs, "tokenizer.ggml.add_space_prefix", setting(t, "add_prefix_space", true),
                         e) &&
           hf_pairs_bool(t->pairs, "tokenizer.ggml.remove_extra_whitespaces",
                         setting(t, "clean_up_tokenization_spaces", false), e) &&
           write_map(t, e) && hf_config_u32_or(t->config, "type_vocab_size", 1, &kinds, e) &&
           hf_pairs_u32(t->pairs, "tokenizer.ggml.token_type_count", kinds, e) &&
           hf_tokenizer_write(t, true, e);
}
