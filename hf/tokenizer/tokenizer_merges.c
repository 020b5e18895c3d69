/* Vocabularies of tokenizer.json: "model" has the tokens (text to number) and the merges, in order of rank,
 * "added_tokens" those that stand for no text or are found before all else. There are two kinds. Byte-level
 * ones write each byte as a visible character, and GGUF files keep them as they stand. The others are
 * sentencepiece models in another form; they become pieces with scores.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/pretokenizers.h"
#include "hf/tokenizer/tokenizer.h"

static const char JSON_FILE[] = "tokenizer.json";
enum { UNRANKED_SCORE = -1000 };

/* ---- what the file is ---- */

bool hf_json_has_pieces(const hf_tokenizer *t) {
    return hf_type_is(hf_json_model(t), "BPE") &&
           json_is_true(json_object_get(hf_json_model(t), "byte_fallback")) &&
           hf_type_is(json_object_get(t->json, "decoder"), "Sequence");
}

/* Whether a step of a chain puts a space in front of texts. */
static bool step_adds_space(const json_t *step, const char *parts) {
    size_t i;
    const json_t *part;
    json_array_foreach(json_object_get(step, parts), i, part) {
        if (step_adds_space(part, parts)) return true;
    }
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    return hf_type_is(step, "Prepend") ||
           (hf_type_is(step, "Metaspace") && !json_is_false(json_object_get(step, "add_prefix_space")) &&
            (!scheme || strcmp(scheme, "never") != 0));
}

bool hf_json_adds_space(const hf_tokenizer *t) {
    return step_adds_space(json_object_get(t->json, "normalizer"), "normalizers") ||
           step_adds_space(json_object_get(t->json, "pre_tokenizer"), "pretokenizers");
}

/* GGUF files cannot say that a text is changed before it is cut. NFC changes few texts, and what the pieces of
 * sentencepiece have, spaces made visible, is said in another way. */
static bool merges_check_normalizer(const hf_tokenizer *t, const json_t *normalizer, gq_error *e) {
    static const char *const refused[] = {"Lowercase", "StripAccents", "BertNormalizer"};
    const char *type = json_string_value(json_object_get(normalizer, "type"));
    size_t i;
    const json_t *part;
    for (i = 0; i < sizeof refused / sizeof *refused; i++)
        if (hf_type_is(normalizer, refused[i]))
            return hf_tokenizer_fail(t, JSON_FILE, e, "the normalizer %s is not supported", refused[i]);
    json_array_foreach(json_object_get(normalizer, "normalizers"), i, part) {
        if (!merges_check_normalizer(t, part, e)) return false;
    }
    bool is_said = hf_json_has_pieces(t) && type && (!strcmp(type, "Prepend") || !strcmp(type, "Replace"));
    return !json_is_object(normalizer) || is_said ||
           (type && (!strcmp(type, "Sequence") || !strcmp(type, "NFC"))) ||
           hf_folder_warn(t->folder, JSON_FILE, e,
                          "the normalizer %.40s changes texts, which a GGUF cannot say: such texts get other "
                          "tokens than from transformers",
                          type ? type : "without a type");
}

/* Merge settings that a GGUF cannot express. */
static bool merges_check_settings(const hf_tokenizer *t, gq_error *e) {
    static const char *const keys[] = {"end_of_word_suffix", "continuing_subword_prefix"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = json_string_value(json_object_get(hf_json_model(t), keys[i]));
        if (text && *text)
            return hf_tokenizer_fail(t, JSON_FILE, e,
                                     "model.%s is '%.40s', which a GGUF cannot say: the merges would give "
                                     "other tokens",
                                     keys[i], text);
    }
    double dropout = json_number_value(json_object_get(hf_json_model(t), "dropout"));
    return !(dropout > 0) || hf_folder_warn(t->folder, JSON_FILE, e,
                                            "model.dropout is %g: merges are left out by chance in "
                                            "transformers, and none in what reads a GGUF",
                                            dropout);
}

static bool merges_check_model(const hf_tokenizer *t, gq_error *e) {
    const json_t *type = json_object_get(hf_json_model(t), "type");
    if (type && !hf_type_is(hf_json_model(t), "BPE"))
        return hf_tokenizer_fail(t, JSON_FILE, e, "a model of type %s, expected BPE",
                                 json_is_string(type) ? json_string_value(type) : "that is no text");
    if (json_object_size(json_object_get(hf_json_model(t), "vocab")) == 0)
        return hf_tokenizer_fail(t, JSON_FILE, e, "model.vocab has no tokens");
    return merges_check_normalizer(t, json_object_get(t->json, "normalizer"), e) &&
           merges_check_settings(t, e);
}

/* ---- added tokens ---- */

typedef struct added_token {
    const char *text;
    size_t length;
    uint64_t id;
    bool is_special, is_normalized;
} added_token;

static bool added_read(const hf_tokenizer *t, const json_t *object, added_token *a, gq_error *e) {
    const json_t *content = json_object_get(object, "content");
    const json_t *normalized = json_object_get(object, "normalized");
    if (!json_is_string(content))
        return hf_tokenizer_fail(t, JSON_FILE, e, "added_tokens: a token without content");
    a->text = json_string_value(content), a->length = json_string_length(content);
    a->is_special = json_is_true(json_object_get(object, "special"));
    a->is_normalized = normalized ? json_is_true(normalized) : !a->is_special;
    return hf_token_id(t, JSON_FILE, json_object_get(object, "id"), &a->id, e);
}

/* ---- texts of byte characters ---- */

/* Returns the byte that a visible character stands for; -1: none. */
static int byte_of_character(uint32_t code) {
    if ((code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xff && code != 0xad)) return (int)code;
    if (code < 0x100 || code > 0x143) return -1;
    int i = (int)code - 0x100;
    return i <= 0x20 ? i : i < 67 ? 0x7f + i - 33 : 0xad;
}

/* Copies bytes as UTF-8: what is none becomes U+FFFD. Returns the length, at most three times n. */
static size_t bytes_to_text(const char *bytes, size_t n, char *to) {
    size_t length = 0;
    for (size_t at = 0; at < n;) {
        uint32_t code;
        size_t part = gq_utf8(bytes + at, n - at, &code);
        memcpy(to + length, part ? bytes + at : "\xef\xbf\xbd", part ? part : 3);
        length += part ? part : 3;
        at += part ? part : 1;
        if (part) continue;
        while (at < n && (bytes[at] & 0xc0) == 0x80) at++; /* what follows a cut character belongs to it */
    }
    return length;
}

/* A token that is looked for in the text as it is becomes what its byte characters stand for, where it
 * consists of nothing else. */
static bool added_decode(hf_tokenizer *t, added_token *a, gq_error *e) {
    char *bytes = malloc(4 * a->length + 1);
    size_t n = 0;
    if (!bytes) return gq_fail_memory(e, 4 * a->length + 1);
    char *text = bytes + a->length;
    for (size_t at = 0, part; at < a->length; at += part) {
        uint32_t code = 0;
        part = gq_utf8(a->text + at, a->length - at, &code);
        int byte = part ? byte_of_character(code) : -1;
        if (byte < 0) {
            free(bytes);
            return true;
        }
        bytes[n++] = (char)byte;
    }
    a->length = bytes_to_text(bytes, n, text);
    a->text = hf_tokenizer_keep(t, text, a->length, e);
    free(bytes);
    return a->text != NULL;
}

static bool decoder_is_bytes(const json_t *decoder) {
    size_t i;
    const json_t *part;
    if (hf_type_is(decoder, "ByteLevel")) return true;
    json_array_foreach(json_object_get(decoder, "decoders"), i, part) {
        if (hf_type_is(part, "ByteLevel")) return true;
    }
    return false;
}

/* ---- merges of bytes ---- */

static bool id_fits(const hf_tokenizer *t, uint64_t id, const char *text, gq_error *e) {
    return id < t->n || hf_tokenizer_fail(t, JSON_FILE, e, "\"%.100s\" has id %llu, expected below %llu",
                                          text, LLU(id), LLU(t->n));
}

/* Ids that two different tokens have: the one that is set last counts. */
typedef struct doubled_ids {
    size_t n;
    uint64_t first;
} doubled_ids;

static void doubled_note(doubled_ids *d, const hf_token *token, uint64_t id, const char *text, size_t n) {
    if (!token->text || (token->length == n && memcmp(token->text, text, n) == 0)) return;
    if (d->n++ == 0) d->first = id;
}

static bool doubled_warn(const hf_tokenizer *t, const doubled_ids *d, gq_error *e) {
    return d->n == 0 || hf_folder_warn(t->folder, JSON_FILE, e,
                                       "%zu id%s, such as %llu, %s two tokens with different texts, one of "
                                       "which is lost: the file was changed or is damaged",
                                       d->n, plural_suffix(d->n), LLU(d->first), d->n == 1 ? "has" : "have");
}

static bool vocabulary_list(hf_tokenizer *t, doubled_ids *doubled, gq_error *e) {
    const char *text;
    size_t length;
    json_t *number;
    json_object_keylen_foreach((json_t *)json_object_get(hf_json_model(t), "vocab"), text, length, number) {
        uint64_t id;
        hf_token *token;
        if (!hf_token_id(t, JSON_FILE, number, &id, e) || !id_fits(t, id, text, e) ||
            !(token = hf_tokenizer_at(t, id, e)))
            return false;
        doubled_note(doubled, token, id, text, length);
        *token = (hf_token){text, (uint32_t)length, UNRANKED_SCORE, HF_TOKEN_NORMAL};
    }
    return true;
}

bool hf_json_vocabulary(hf_tokenizer *t, uint32_t multiple, gq_error *e) {
    if (!merges_check_model(t, e)) return false;
    const json_t *vocab = json_object_get(hf_json_model(t), "vocab"),
                 *added = json_object_get(t->json, "added_tokens");
    const json_t *object;
    size_t i, n = json_object_size(vocab);
    bool is_bytes = decoder_is_bytes(json_object_get(t->json, "decoder"));
    added_token a;
    json_array_foreach(added, i, object) {
        if (!added_read(t, object, &a, e)) return false;
        n += json_object_getn(vocab, a.text, a.length) == NULL;
    }
    doubled_ids doubled = {0};
    const hf_token *token;
    if (!hf_tokenizer_size(t, n, multiple, e) || !vocabulary_list(t, &doubled, e)) return false;
    json_array_foreach(added, i, object) {
        if (!added_read(t, object, &a, e) || !id_fits(t, a.id, a.text, e) ||
            !(token = hf_tokenizer_at(t, a.id, e)))
            return false;
        doubled_note(&doubled, token, a.id, a.text, a.length);
        if ((is_bytes && !a.is_normalized && !added_decode(t, &a, e))) return false;
        bool is_control = a.is_special || hf_looks_special(a.text, a.length);
        if (!hf_tokenizer_add(t, a.id, a.text, a.length, UNRANKED_SCORE, is_control, false, e)) return false;
    }
    return doubled_warn(t, &doubled, e);
}

/* ---- pieces ---- */

/* Returns a set of the texts that tokenizer_config.json calls special; NULL: no memory. */
static json_t *pieces_collect_special(const hf_tokenizer *t, gq_error *e) {
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
    json_t *set = json_object();
    const json_t *token, *content;
    size_t i;
    bool ok = set != NULL;
    for (i = 0; ok && i < sizeof keys / sizeof *keys; i++)
        if ((content = hf_token_content(json_object_get(t->settings, keys[i]))))
            ok = json_object_set_new(set, json_string_value(content), json_true()) == 0;
    json_array_foreach(json_object_get(t->settings, "additional_special_tokens"), i, token) {
        if (ok && (content = hf_token_content(token)))
            ok = json_object_set_new(set, json_string_value(content), json_true()) == 0;
    }
    if (ok) return set;
    json_decref(set);
    gq_fail_memory(e, 0);
    return NULL;
}

static hf_token_type piece_type(const json_t *special, const char *text, size_t n, bool is_gemma4,
                                hf_token_type otherwise) {
    static const char *const user[] = {"<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
                                       "<|tool_response>", "<tool_response|>", "<|\"|>"};
    for (size_t i = 0; is_gemma4 && i < sizeof user / sizeof *user; i++)
        if (n == strlen(user[i]) && memcmp(text, user[i], n) == 0) return HF_TOKEN_USER;
    if (n == 6 && memcmp(text, "<0x", 3) == 0 && isxdigit((unsigned char)text[3]) &&
        isxdigit((unsigned char)text[4]) && text[5] == '>')
        return HF_TOKEN_BYTE;
    return json_object_getn(special, text, n) ? HF_TOKEN_CONTROL : otherwise;
}

/* Lists the tokens of "vocab", then the added ones behind them. */
static bool pieces_list(hf_tokenizer *t, const json_t *special, bool is_gemma4, gq_error *e) {
    const json_t *object;
    size_t i, n = json_object_size(json_object_get(hf_json_model(t), "vocab"));
    added_token a;
    t->n = n;
    if (n > HF_TOKENS_MOST)
        return hf_tokenizer_fail(t, JSON_FILE, e, "%zu tokens, expected at most %d", n, HF_TOKENS_MOST);
    doubled_ids doubled = {0};
    if (!vocabulary_list(t, &doubled, e) || !doubled_warn(t, &doubled, e)) return false;
    for (i = 0; i < t->listed; i++) {
        hf_token *token = &t->tokens[i];
        if (token->text)
            token->type = piece_type(special, token->text, token->length, is_gemma4, HF_TOKEN_NORMAL);
    }
    json_array_foreach(json_object_get(t->json, "added_tokens"), i, object) {
        if (!added_read(t, object, &a, e)) return false;
        if (a.id < n) continue;
        if (a.id >= HF_TOKENS_MOST)
            return hf_tokenizer_fail(t, JSON_FILE, e, "\"%.100s\" has id %llu, expected below %d", a.text,
                                     LLU(a.id), HF_TOKENS_MOST);
        hf_token_type type = piece_type(special, a.text, a.length, is_gemma4, HF_TOKEN_USER);
        if (!hf_tokenizer_set(t, a.id, (hf_token){a.text, (uint32_t)a.length, UNRANKED_SCORE, type}, e))
            return false;
    }
    t->n = t->listed;
    for (i = 0; i < t->listed; i++)
        if (!t->tokens[i].text)
            return hf_tokenizer_fail(t, JSON_FILE, e, "no token has id %zu, but there are ids up to %zu", i,
                                     t->listed - 1);
    return true;
}

/* ---- merges: each is read into a text that the next one uses again ---- */

/* Appends a half whose spaces, if any, take the form that they have in byte-level vocabularies. */
static bool merge_append_half(hf_text *m, const json_t *half, gq_error *e) {
    const char *text = json_string_value(half), *end = text + json_string_length(half);
    for (const char *space; text < end; text = space) {
        bool is_space = *text == ' ';
        if (!is_space && !(space = memchr(text, ' ', (size_t)(end - text)))) space = end;
        if (is_space) space = text + 1;
        if (!hf_text_append(m, is_space ? "\xc4\xa0" : text, is_space ? 2 : (size_t)(space - text), e))
            return false;
    }
    return true;
}

/* Reads an element of "merges": "left right", or [left, right]. */
static bool merge_read(const hf_tokenizer *t, const json_t *merge, hf_text *m, gq_error *e) {
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    m->n = 0;
    if (json_is_string(merge))
        return hf_text_append(m, json_string_value(merge), json_string_length(merge), e);
    if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right))
        return hf_tokenizer_fail(t, JSON_FILE, e, "model.merges has an element that is no pair of texts");
    return merge_append_half(m, left, e) && hf_text_append(m, " ", 1, e) && merge_append_half(m, right, e);
}

bool hf_merge_split(const json_t *merge, hf_merge *m) {
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right)) {
        *m = (hf_merge){json_string_value(left), json_string_value(right), json_string_length(left),
                        json_string_length(right)};
        return true;
    }
    const char *text = json_string_value(merge);
    size_t n = json_string_length(merge);
    const char *space = text && n > 1 ? memchr(text + 1, ' ', n - 1) : NULL;
    if (space) *m = (hf_merge){text, space + 1, (size_t)(space - text), n - (size_t)(space - text) - 1};
    return space;
}

/* Looks up the token that a merge makes: its two halves without what is between them. NULL: there is none. */
static const json_t *merge_result(const json_t *vocab, const json_t *merge, hf_text *m, gq_error *e) {
    hf_merge halves;
    m->n = 0;
    if (!hf_merge_split(merge, &halves) || !hf_text_append(m, halves.left, halves.n_left, e) ||
        !hf_text_append(m, halves.right, halves.n_right, e) || m->n == 0)
        return NULL;
    return json_object_getn(vocab, m->text, m->n);
}

/* Pieces are joined by score. The merge of rank r gives its result -r, so that they are joined in the order
 * that the model was trained with; what no merge makes comes after all of them. (llama.cpp's converter
 * gives all the same score, -1000, which joins from left to right.) */
static bool pieces_rank(hf_tokenizer *t, gq_error *e) {
    const json_t *vocab = json_object_get(hf_json_model(t), "vocab"),
                 *merges = json_object_get(hf_json_model(t), "merges");
    const json_t *merge;
    size_t rank, n = json_array_size(merges);
    hf_text m = {.text = NULL};
    gq_error why = {.status = GQ_OK};
    float unranked = UNRANKED_SCORE - (float)n;
    for (size_t i = 0; i < t->listed; i++) t->tokens[i].score = unranked;
    json_array_foreach(merges, rank, merge) {
        const json_t *id = merge_result(vocab, merge, &m, &why);
        size_t i = id ? (size_t)json_integer_value(id) : t->listed;
        if (i < t->listed && t->tokens[i].score <= unranked) t->tokens[i].score = -(float)rank;
    }
    free(m.text);
    if (why.status != GQ_OK && e) *e = why;
    return why.status == GQ_OK;
}

bool hf_json_pieces_vocabulary(hf_tokenizer *t, bool is_gemma4, gq_error *e) {
    if (!merges_check_model(t, e)) return false;
    json_t *special = pieces_collect_special(t, e);
    bool ok = special && pieces_list(t, special, is_gemma4, e) && (is_gemma4 || pieces_rank(t, e));
    json_decref(special);
    return ok;
}

/* ---- writing merges ---- */

static bool merges_write_json(hf_tokenizer *t, gq_error *e) {
    const json_t *merge, *vocab = json_object_get(hf_json_model(t), "vocab");
    size_t i, strays = 0;
    hf_text m = {.text = NULL};
    gq_error why = {.status = GQ_OK};
    char first[128] = "";
    bool ok = true;
    json_array_foreach(json_object_get(hf_json_model(t), "merges"), i, merge) {
        bool is_token = merge_result(vocab, merge, &m, &why) != NULL;
        if (!ok || why.status != GQ_OK) break;
        ok = merge_read(t, merge, &m, e) && hf_metadata_add_string(t->metadata, m.text, m.n, e);
        if (ok && !is_token && strays++ == 0) snprintf(first, sizeof first, "%.*s", (int)m.n, m.text);
    }
    free(m.text);
    if (ok && !(ok = why.status == GQ_OK) && e) *e = why;
    return ok && (strays == 0 ||
                  hf_folder_warn(t->folder, JSON_FILE, e,
                                 "%zu merge%s, such as '%s', %s no token of the vocabulary, which Hugging "
                                 "Face's library refuses: the file was changed or is damaged",
                                 strays, plural_suffix(strays), first, strays == 1 ? "makes" : "make"));
}

/* ---- words that are tokens ---- */

static bool is_longer_than_character(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n > 1;
}

/* Counts ordinary tokens of several characters that no merge makes. */
static bool count_unmade(const hf_tokenizer *t, size_t *n, const char **first, gq_error *e) {
    const json_t *merge, *id, *vocab = json_object_get(hf_json_model(t), "vocab");
    const char *text;
    size_t i;
    hf_text m = {.text = NULL};
    gq_error why = {.status = GQ_OK};
    bool *is_made = calloc(t->listed + 1, sizeof *is_made);
    if (!is_made) return gq_fail_memory(e, t->listed + 1);
    json_array_foreach(json_object_get(hf_json_model(t), "merges"), i, merge) {
        if ((id = merge_result(vocab, merge, &m, &why)) && (uint64_t)json_integer_value(id) < t->listed)
            is_made[json_integer_value(id)] = true;
    }
    json_object_foreach((json_t *)vocab, text, id) {
        uint64_t at = (uint64_t)json_integer_value(id);
        if (at < t->listed && !is_made[at] && t->tokens[at].type == HF_TOKEN_NORMAL &&
            is_longer_than_character(text) && (*n)++ == 0)
            *first = text;
    }
    free(m.text), free(is_made);
    if (why.status != GQ_OK && e) *e = why;
    return why.status == GQ_OK;
}

/* Readers know by the pre-tokenizer's name whether a word that is a token is looked up before merges. The two ways
 * differ in tokens that no merge makes. */
static bool merges_warn_ignored(const hf_tokenizer *t, gq_error *e) {
    bool is_ignored = json_is_true(json_object_get(hf_json_model(t), "ignore_merges"));
    const char *pre, *first = "";
    uint64_t length;
    size_t n = 0;
    split_rule rule;
    const model_kv *kv = hf_metadata_find(t->metadata, "tokenizer.ggml.pre");
    if (!kv || !model_kv_string(kv, &pre, &length) || !pretokenizers_find(pre, length, &rule) || rule.raw ||
        rule.ignore_merges == is_ignored)
        return true;
    if (!count_unmade(t, &n, &first, e)) return false;
    return n == 0 ||
           hf_folder_warn(t->folder, JSON_FILE, e,
                          "model.ignore_merges is %s, but for tokenizer.ggml.pre '%.*s' llama.cpp %s: texts "
                          "with %zu token%s that no merge makes, such as '%.40s', get other tokens than from "
                          "transformers",
                          is_ignored ? "true" : "not true", (int)length, pre,
                          is_ignored ? "merges all words" : "takes a word that is a token as it is", n,
                          plural_suffix(n), first);
}

/* ---- writing merges of lines ---- */

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Adds a line of merges.txt that consists of two words; others are skipped. */
static bool merges_add_line(hf_tokenizer *t, const char *line, const char *end, gq_error *e) {
    char *pair;
    const char *words[2], *behind[2];
    size_t n = 0;
    for (const char *at = line; at < end;) {
        while (at < end && is_blank(*at)) at++;
        const char *begin = at;
        while (at < end && !is_blank(*at)) at++;
        if (at == begin) break;
        if (n == 2) return true;
        words[n] = begin, behind[n++] = at;
    }
    if (n != 2) return true;
    size_t left = (size_t)(behind[0] - words[0]), right = (size_t)(behind[1] - words[1]);
    if (!(pair = malloc(left + right + 1))) return gq_fail_memory(e, left + right + 1);
    memcpy(pair, words[0], left), pair[left] = ' ', memcpy(pair + left + 1, words[1], right);
    bool ok = hf_metadata_add_string(t->metadata, pair, left + right + 1, e);
    free(pair);
    return ok;
}

static bool merges_write_text(hf_tokenizer *t, gq_error *e) {
    char *text;
    size_t n;
    if (!hf_folder_text(t->folder, "merges.txt", &text, &n, e)) return false;
    if (!text) return true;
    bool ok = hf_is_utf8(text, n) || hf_tokenizer_fail(t, "merges.txt", e, "not UTF-8");
    for (const char *line = text, *end = text + n; ok && line < end;) {
        const char *next = line + strcspn(line, "\r\n");
        if (!(line == text && *line == '#')) ok = merges_add_line(t, line, next, e);
        line = next + 1; /* a NUL byte, too, ends a line */
    }
    free(text);
    return ok;
}

bool hf_merges_write(hf_tokenizer *t, gq_error *e) {
    const json_t *merges = json_object_get(hf_json_model(t), "merges");
    bool ok = (json_array_size(merges) ? merges_write_json(t, e) && merges_warn_ignored(t, e)
                                       : merges_write_text(t, e)) &&
              hf_metadata_array(t->metadata, "tokenizer.ggml.merges", GGUF_STRING, e);
    return ok && (hf_metadata_find(t->metadata, "tokenizer.ggml.merges") ||
                  hf_folder_warn(t->folder, JSON_FILE, e,
                                 "it has no merges, and there is no merges.txt: llama.cpp will refuse the "
                                 "GGUF; use the tokenizer of the model's original folder"));
}
