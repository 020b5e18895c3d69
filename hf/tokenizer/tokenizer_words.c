/* Vocabularies of tokenizer.json without merges: words that are cut into the longest tokens (WordPiece), and unigrams,
 * which are a list of texts with scores by id, and sentencepiece's map of characters in base64. */
#include "hf/tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char JSON_FILE[] = "tokenizer.json", SPACE[] = "\xe2\x96\x81";
static const float PLACEHOLDER_SCORE = -10000;

/* ---- words ---- */

bool hf_json_has_words(const hf_tokenizer *t) { return hf_type_is(hf_json_model(t), "WordPiece"); }

/* Sets a token that stands for text: whole words and their beginnings get U+2581 in front. */
static bool words_set(hf_tokenizer *t, uint64_t id, const char *text, size_t n, hf_token_type type,
                      gq_error *e) {
    bool goes_on = n >= 2 && memcmp(text, "##", 2) == 0;
    size_t before = goes_on ? 0 : sizeof SPACE - 1, from = goes_on ? 2 : 0;
    if (id >= t->n)
        return hf_tokenizer_fail(t, JSON_FILE, e, "token \"%.40s\" has the id %llu, but vocab_size is %llu",
                                 text, LLU(id), LLU(t->n));
    char *whole = malloc(before + n + 1);
    if (!whole) return gq_fail_memory(e, n);
    memcpy(whole, SPACE, before), memcpy(whole + before, text + from, n - from);
    bool ok = hf_tokenizer_set_copy(t, id, whole, before + n - from, 0, type, e);
    free(whole);
    return ok;
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
    return hf_tokenizer_set(t, id, (hf_token){text, (uint32_t)n, 0, HF_TOKEN_CONTROL}, e);
}

bool hf_words_vocabulary(hf_tokenizer *t, gq_error *e) {
    const char *goes_on = json_string_value(json_object_get(hf_json_model(t), "continuing_subword_prefix"));
    if (goes_on && strcmp(goes_on, "##") != 0)
        return hf_tokenizer_fail(
            t, JSON_FILE, e,
            "model.continuing_subword_prefix is \"%.40s\", expected \"##\": converters of "
            "GGUF files know no other",
            goes_on);
    const json_t *vocab = json_object_get(hf_json_model(t), "vocab"), *value, *added;
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
        int n = snprintf(made, sizeof made, "[PAD%llu]", LLU(id));
        bool is_there = id < t->listed && t->tokens[id].text;
        if (!is_there && !words_set(t, id, made, (size_t)n, HF_TOKEN_UNUSED, e)) return false;
    }
    return true;
}

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
    return !json_is_boolean(value) || hf_metadata_bool(t->metadata, key, json_is_true(value), e);
}

static bool words_write_normalizer(hf_tokenizer *t, const json_t *step, gq_error *e) {
    static const char lower[] = "tokenizer.ggml.normalizer.lowercase",
                      strip[] = "tokenizer.ggml.normalizer.strip_accents";
    const json_t *part;
    size_t i;
    if (hf_type_is(step, "Lowercase")) return hf_metadata_bool(t->metadata, lower, true, e);
    if (hf_type_is(step, "StripAccents")) return hf_metadata_bool(t->metadata, strip, true, e);
    if (hf_type_is(step, "BertNormalizer"))
        return words_write_flag(t, lower, json_object_get(step, "lowercase"), e) &&
               words_write_flag(t, strip, json_object_get(step, "strip_accents"), e);
    json_array_foreach(json_object_get(step, "normalizers"), i, part) {
        if (!words_write_normalizer(t, part, e)) return false;
    }
    return true;
}

/* Whether texts are changed as BERT does it. *lowers, *strips: steps that do the same one after the other. */
static bool words_normalize_as_bert(const json_t *step, bool *lowers, bool *strips) {
    const json_t *part;
    size_t i;
    if (hf_type_is(step, "BertNormalizer")) return *lowers = *strips = true;
    if (hf_type_is(step, "Lowercase")) return *lowers = true;
    if (hf_type_is(step, "StripAccents")) return *strips = true;
    if (!hf_type_is(step, "Sequence")) return hf_type_is(step, "NFD") || hf_type_is(step, "NFC");
    json_array_foreach(json_object_get(step, "normalizers"), i, part) {
        if (!words_normalize_as_bert(part, lowers, strips)) return false;
    }
    return true;
}

/* The BertNormalizer of a normalizer, which may be in a Sequence; NULL: none. */
static const json_t *words_bert_normalizer(const json_t *step) {
    const json_t *part, *found = hf_type_is(step, "BertNormalizer") ? step : NULL;
    size_t i;
    json_array_foreach(json_object_get(step, "normalizers"), i, part) {
        if (!found) found = words_bert_normalizer(part);
    }
    return found;
}

/* Whether texts are cut as BERT does it; cutting at spaces before that changes nothing. */
static bool words_cut_as_bert(const json_t *step) {
    const json_t *part, *parts = json_object_get(step, "pretokenizers");
    size_t i;
    bool is_bert = hf_type_is(step, "BertPreTokenizer");
    json_array_foreach(parts, i, part) {
        if (words_cut_as_bert(part))
            is_bert = true;
        else if (!hf_type_is(part, "WhitespaceSplit"))
            return false;
    }
    return is_bert;
}

/* Whether a processor, which may be in a Sequence, puts a token before and one behind a text. */
static bool words_are_enclosed(const json_t *processor) {
    const json_t *part, *single = json_object_get(processor, "single");
    size_t i, n = json_array_size(single);
    json_array_foreach(json_object_get(processor, "processors"), i, part) {
        if (words_are_enclosed(part)) return true;
    }
    return hf_type_is(processor, "BertProcessing") || hf_type_is(processor, "RobertaProcessing") ||
           (hf_type_is(processor, "TemplateProcessing") && n > 2 &&
            json_object_get(json_array_get(single, 0), "SpecialToken") &&
            json_object_get(json_array_get(single, n - 1), "SpecialToken"));
}

/* Programs that read such files change, cut and enclose texts as BERT does, and let each Chinese character stand
 * alone: no key says otherwise. */
static bool words_warn_cuts(const hf_tokenizer *t, gq_error *e) {
    const json_t *normalizer = json_object_get(t->json, "normalizer"),
                 *bert = words_bert_normalizer(normalizer);
    bool lowers = false, strips = false,
         is_bert = words_normalize_as_bert(normalizer, &lowers, &strips) && lowers && strips;
    const struct {
        bool differs;
        const char *what;
    } all[] = {{!is_bert, "its normalizer is not a BertNormalizer, which llama.cpp assumes: some"},
               {json_is_false(json_object_get(bert, "clean_text")),
                "clean_text is false, but llama.cpp drops control characters: such"},
               {!words_cut_as_bert(json_object_get(t->json, "pre_tokenizer")),
                "its pre_tokenizer is not a BertPreTokenizer, which llama.cpp assumes: some"},
               {!words_are_enclosed(json_object_get(t->json, "post_processor")),
                "its post_processor does not enclose texts in two tokens, as llama.cpp does: all"},
               {json_is_false(json_object_get(bert, "handle_chinese_chars")),
                "handle_chinese_chars is false, but llama.cpp splits Chinese characters: such"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].differs &&
            !hf_folder_warn(t->folder, JSON_FILE, e, "%s texts get other token ids", all[i].what))
            return false;
    return true;
}

bool hf_words_write(hf_tokenizer *t, gq_error *e) {
    return words_warn_cuts(t, e) && hf_tokenizer_write_kinds(t, e) &&
           hf_metadata_text(t->metadata, "tokenizer.ggml.pre", words_cut_name(t), e) &&
           words_write_normalizer(t, json_object_get(t->json, "normalizer"), e);
}

/* ---- unigrams ---- */

bool hf_json_has_unigrams(const hf_tokenizer *t) { return hf_type_is(hf_json_model(t), "Unigram"); }

static bool put_token(hf_tokenizer *t, uint64_t id, const json_t *pair, gq_error *e) {
    const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
    float value = (float)json_number_value(score);
    if (!json_is_string(text) || !json_is_number(score) || !isfinite(value))
        return hf_tokenizer_fail(
            t, JSON_FILE, e,
            "model.vocab: entry %llu %s, expected a text and a score, a finite number: get "
            "the file from the model's repository",
            LLU(id),
            !json_is_string(text)    ? "has no text"
            : !score                 ? "has no score"
            : !json_is_number(score) ? "has a score that is no number"
                                     : "has a score beyond all floats");
    const hf_token token = {json_string_value(text), (uint32_t)json_string_length(text), value,
                            HF_TOKEN_NORMAL};
    return hf_tokenizer_set(t, id, token, e);
}

/* Warns of texts that several of the first n tokens have: readers find one of these. */
static bool warn_doubled(const hf_tokenizer *t, uint64_t n, gq_error *e) {
    name_index by_name = {.n = 0};
    uint64_t doubled = 0, other, first = 0;
    bool ok = true;
    for (uint64_t i = 0; ok && i < n; i++) {
        bool is_there = name_index_find(&by_name, t->tokens, sizeof *t->tokens, t->tokens[i].text, &other);
        if (is_there && doubled++ == 0) first = i;
        ok = is_there || name_index_add(&by_name, t->tokens, sizeof *t->tokens, i, e);
    }
    name_index_free(&by_name);
    return ok &&
           (doubled == 0 ||
            hf_folder_warn(
                t->folder, JSON_FILE, e,
                "model.vocab: %llu text%s, such as \"%.40s\", %s twice: programs use one id of a text",
                LLU(doubled), plural_suffix(doubled), t->tokens[first].text, doubled == 1 ? "is" : "are"));
}

/* Reads the id of the unknown token, where the model says it; the added tokens may say another. */
static bool read_unknown(const hf_tokenizer *t, uint64_t n, uint64_t *id, gq_error *e) {
    const json_t *number = json_object_get(hf_json_model(t), "unk_id");
    *id = 3;
    if (!number || json_is_null(number)) return true;
    return hf_token_id(t, JSON_FILE, number, id, e) &&
           (*id < n || hf_tokenizer_fail(t, JSON_FILE, e, "model.unk_id is %llu, expected below %llu",
                                         LLU(*id), LLU(n)));
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

static uint32_t read_u32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Adds the bytes of a text in base64 to the list in the making. */
static bool add_base64(const hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    size_t length;
    uint8_t *bytes = malloc(n + 1);
    if (!bytes) return gq_fail_memory(e, n);
    bool ok = hf_base64(text, n, bytes, &length) ||
              hf_tokenizer_fail(t, JSON_FILE, e, "normalizer.precompiled_charsmap is not base64");
    uint64_t table = ok && length >= 4 ? read_u32(bytes) : 0;
    if (ok && (length < 4 || table >= length - 4))
        ok = hf_tokenizer_fail(
            t, JSON_FILE, e,
            "normalizer.precompiled_charsmap: %zu bytes, expected a table of %llu and texts "
            "behind it: get the file from the model's repository",
            length, LLU(table));
    for (size_t i = 0; ok && i < length; i++) ok = hf_metadata_add(t->metadata, &bytes[i], 1, e);
    free(bytes);
    return ok;
}

/* Finds the map; spaces that other steps strip or join are those of remove_extra_whitespaces. */
static bool find_map(const hf_tokenizer *t, const json_t *step, const json_t **map, gq_error *e) {
    const json_t *part;
    size_t i;
    if (hf_type_is(step, "Precompiled")) return *map = json_object_get(step, "precompiled_charsmap"), true;
    json_array_foreach(json_object_get(step, "normalizers"), i, part) {
        if (!find_map(t, part, map, e)) return false;
    }
    if (!step || json_is_null(step) || hf_type_is(step, "Sequence") || hf_type_is(step, "Strip") ||
        hf_type_is(step, "Replace"))
        return true;
    const char *type = json_string_value(json_object_get(step, "type"));
    return hf_tokenizer_fail(t, JSON_FILE, e,
                             "normalizer: expected a Precompiled one, found '%.40s', which GGUFs cannot have",
                             type ? type : "?");
}

static bool write_map(const hf_tokenizer *t, gq_error *e) {
    const json_t *map = NULL;
    if (!find_map(t, json_object_get(t->json, "normalizer"), &map, e)) return false;
    if (map && !json_is_string(map) && !json_is_null(map))
        return hf_tokenizer_fail(t, JSON_FILE, e, "normalizer.precompiled_charsmap is not a string");
    size_t n = json_string_length(map);
    return n == 0 || (add_base64(t, json_string_value(map), n, e) &&
                      hf_metadata_array(t->metadata, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, e));
}

static bool setting(const hf_tokenizer *t, const char *name, bool otherwise) {
    const json_t *value = json_object_get(t->settings, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

bool hf_json_unigrams_write(hf_tokenizer *t, gq_error *e) {
    const json_t *vocab = json_object_get(hf_json_model(t), "vocab");
    uint64_t n = json_array_size(vocab);
    if (n == 0 || n > HF_TOKENS_MOST)
        return hf_tokenizer_fail(t, JSON_FILE, e, "model.vocab has %llu tokens, expected 1 to %d", LLU(n),
                                 HF_TOKENS_MOST);
    if (!hf_tokenizer_size(t, n, 1, e)) return false;
    if (t->n < n) t->n = n;
    for (uint64_t id = 0; id < t->n; id++)
        if (!(id < n ? put_token(t, id, json_array_get(vocab, (size_t)id), e)
                     : hf_tokenizer_set_pad(t, id, id, PLACEHOLDER_SCORE, e)))
            return false;
    return warn_doubled(t, n, e) && put_types(t, n, e) && hf_tokenizer_write_model(t, "t5", "default", e) &&
           hf_metadata_bool(t->metadata, "tokenizer.ggml.add_space_prefix",
                            setting(t, "add_prefix_space", true), e) &&
           hf_metadata_bool(t->metadata, "tokenizer.ggml.remove_extra_whitespaces",
                            setting(t, "clean_up_tokenization_spaces", false), e) &&
           write_map(t, e) && hf_tokenizer_write_kinds(t, e) && hf_tokenizer_write(t, true, e);
}
