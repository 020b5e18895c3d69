/* Vocabularies of unigrams in tokenizer.json: a list of texts with scores by id, and sentencepiece's map of characters in base64. */
#include "hf/tokenizer/tokenizer_unigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/name_index.h"
#include "hf/tokenizer/tokenizer_vocabulary.h"

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
        return hf_tokenizer_fail(
            t, JSON_FILE, e,
            "model.vocab: entry %llu %s, expected a text and a score, a finite number: get "
            "the file from the model's repository",
            (unsigned long long)id,
            !json_is_string(text)    ? "has no text"
            : !score                 ? "has no score"
            : !json_is_number(score) ? "has a score that is no number"
                                     : "has a score beyond all floats");
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

typedef struct piece_name {
    const char *text; /* first member */
} piece_name;

/* Warns of texts that several of the first n tokens have: readers find one of these. */
static bool warn_doubled(const hf_tokenizer *t, uint64_t n, gq_error *e) {
    name_index by_name = {.n = 0};
    piece_name *names = malloc(n * sizeof *names);
    uint64_t doubled = 0, other, first = 0;
    bool ok = names || gq_fail_memory(e, n * sizeof *names);
    for (uint64_t i = 0; ok && i < n; i++) {
        names[i].text = t->tokens[i].text;
        bool is_there = name_index_find(&by_name, names, sizeof *names, names[i].text, &other);
        if (is_there && doubled++ == 0) first = i;
        ok = is_there || name_index_add(&by_name, names, sizeof *names, i, e);
    }
    free(names), name_index_free(&by_name);
    return ok &&
           (doubled == 0 ||
            hf_folder_warn(t->folder, JSON_FILE, e,
                           "model.vocab: %llu text%s, such as \"%.40s\", %s there again: programs use one "
                           "id of a text",
                           (unsigned long long)doubled, plural_suffix(doubled), t->tokens[first].text,
                           doubled == 1 ? "is" : "are"));
}

/* Reads the id of the unknown token, where the model says it; the added tokens may say another. */
static bool read_unknown(const hf_tokenizer *t, uint64_t n, uint64_t *id, gq_error *e) {
    const json_t *number = json_object_get(unigram_model(t), "unk_id");
    *id = 3;
    if (!number || json_is_null(number)) return true;
    return hf_token_id(t, JSON_FILE, number, id, e) &&
           (*id < n || hf_tokenizer_fail(t, JSON_FILE, e, "model.unk_id is %llu, expected below %llu",
                                         (unsigned long long)*id, (unsigned long long)n));
}

/* Types of added tokens among the first n; those behind are placeholders. */
static bool put_types(hf_tokenizer *t, uint64_t n, gq_error *e) {
    const json_t *unknown = hf_token_content(json_object_get(t->settings, "unk_token")), *added;
    uint64_t id, unknown_id;
    size_t i;
    if (!read_unknown(t, n, &unknown_id, e)) return false;
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

static uint32_t read_u32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Adds the bytes of a text in base64 to the list in the making. */
static bool add_base64(const hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    size_t length;
    uint8_t *bytes = malloc(n + 1);
    if (!bytes) return gq_fail_memory(e, n);
    bool ok = hf_base64(text, n, bytes, &length) ||
              hf_tokenizer_fail(t, JSON_FILE, e, "normalizer.precompiled_charsmap is no base64");
    uint64_t table = ok && length >= 4 ? read_u32(bytes) : 0;
    if (ok && (length < 4 || table >= length - 4))
        ok = hf_tokenizer_fail(
            t, JSON_FILE, e,
            "normalizer.precompiled_charsmap: %zu bytes, expected a table of %llu and texts "
            "behind it: get the file from the model's repository",
            length, (unsigned long long)table);
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
    if (map && !json_is_string(map) && !json_is_null(map))
        return hf_tokenizer_fail(t, JSON_FILE, e, "normalizer.precompiled_charsmap is no text");
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
    return warn_doubled(t, n, e) && put_types(t, n, e) &&
           hf_pairs_text(t->pairs, "tokenizer.ggml.model", "t5", e) &&
           hf_pairs_text(t->pairs, "tokenizer.ggml.pre", "default", e) &&
           hf_pairs_bool(t->pairs, "tokenizer.ggml.add_space_prefix", setting(t, "add_prefix_space", true),
                         e) &&
           hf_pairs_bool(t->pairs, "tokenizer.ggml.remove_extra_whitespaces",
                         setting(t, "clean_up_tokenization_spaces", false), e) &&
           write_map(t, e) && hf_config_u32_or(t->config, "type_vocab_size", 1, &kinds, e) &&
           hf_pairs_u32(t->pairs, "tokenizer.ggml.token_type_count", kinds, e) &&
           hf_tokenizer_write(t, true, e);
}
