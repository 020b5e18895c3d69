/* PLaMo's tokenizer.jsonl: a line per token, an array of text, score, kind, and more that readers have no use for. Ids are
 * the lines' numbers. Special tokens are named by their texts in tokenizer_config.json.
 */
#include "hf/tokenizer/tokenizer_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "hf/tokenizer/tokenizer_vocabulary.h"

static const char LINES_FILE[] = "tokenizer.jsonl";
enum { LINES_PAD_SCORE = -1000, LINES_END_OF_TURN = 4 };

static hf_token_type lines_type(const char *kind, const char *text) {
    static const struct {
        const char *kind;
        hf_token_type type;
    } kinds[] = {{"UNKNOWN", HF_TOKEN_UNKNOWN}, {"CONTROL", HF_TOKEN_CONTROL}, {"BYTE", HF_TOKEN_BYTE}};
    size_t n = strlen(text);
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i].kind) == 0) return kinds[i].type;
    bool is_special = strncmp(text, "<|plamo:", 8) == 0 && n > 9 && strcmp(text + n - 2, "|>") == 0;
    return is_special ? HF_TOKEN_CONTROL : HF_TOKEN_NORMAL;
}

static bool lines_add(hf_tokenizer *t, const json_t *line, gq_error *e) {
    const json_t *text = json_array_get(line, 0), *score = json_array_get(line, 1);
    uint64_t id = t->n;
    if (!json_is_string(text) || !json_is_number(score))
        return hf_tokenizer_fail(t, LINES_FILE, e,
                                 "line %llu: expected an array of a text, a score and a kind",
                                 (unsigned long long)id + 1);
    if (id == HF_TOKENS_MOST)
        return hf_tokenizer_fail(t, LINES_FILE, e, "too many tokens, expected at most %d", HF_TOKENS_MOST);
    const char *kept = hf_tokenizer_keep(t, json_string_value(text), json_string_length(text), e);
    hf_token *token = kept ? hf_tokenizer_at(t, id, e) : NULL;
    if (!token) return false;
    *token = (hf_token){kept, (uint32_t)json_string_length(text), (float)json_number_value(score),
                        lines_type(json_string_value(json_array_get(line, 2)), kept)};
    t->n++;
    return true;
}

static bool lines_read(hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    for (const char *end; n > 0; n -= (size_t)(end - text), text = end) {
        end = memchr(text, '\n', n);
        end = end ? end + 1 : text + n;
        size_t length = (size_t)(end - text);
        if (strspn(text, " \t\r\n") >= length) continue;
        json_t *line = json_loadb(text, length, 0, NULL);
        bool ok = lines_add(t, line, e);
        json_decref(line);
        if (!ok) return false;
    }
    return t->n > 0 || hf_tokenizer_fail(t, LINES_FILE, e, "has no tokens; download it again");
}

/* Tokens that the config promises and the file does not have are counted by themselves, from 1. */
static bool lines_fill(hf_tokenizer *t, gq_error *e) {
    uint64_t had = t->n;
    if (!hf_tokenizer_size(t, had, 1, e)) return false;
    if (t->n < had) t->n = had;
    for (uint64_t i = had; i < t->n; i++) {
        char made[32];
        int n = snprintf(made, sizeof made, "[PAD%llu]", (unsigned long long)(i - had + 1));
        const char *text = hf_tokenizer_keep(t, made, (size_t)n, e);
        hf_token *token = text ? hf_tokenizer_at(t, i, e) : NULL;
        if (!token) return false;
        *token = (hf_token){text, (uint32_t)n, LINES_PAD_SCORE, HF_TOKEN_UNUSED};
    }
    return true;
}

/* Finds the first token of a text. */
static bool lines_find(const hf_tokenizer *t, const json_t *text, uint32_t *id) {
    for (*id = 0; *id < t->n; ++*id)
        if (t->tokens[*id].length == json_string_length(text) &&
            memcmp(t->tokens[*id].text, json_string_value(text), t->tokens[*id].length) == 0)
            return true;
    return false;
}

static bool lines_write_specials(const hf_tokenizer *t, gq_error *e) {
    static const char *const rows[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                          {"eos_token", "tokenizer.ggml.eos_token_id"},
                                          {"pad_token", "tokenizer.ggml.padding_token_id"},
                                          {"sep_token", "tokenizer.ggml.seperator_token_id"},
                                          {"unk_token", "tokenizer.ggml.unknown_token_id"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *text = hf_token_content(json_object_get(t->settings, rows[i][0]));
        uint32_t id;
        if (!text) continue;
        if (!lines_find(t, text, &id))
            return hf_tokenizer_fail(t, "tokenizer_config.json", e, "%s is \"%s\", which is no token of %s",
                                     rows[i][0], json_string_value(text), LINES_FILE);
        if (!hf_pairs_u32(t->pairs, rows[i][1], id, e)) return false;
    }
    return hf_pairs_u32(t->pairs, "tokenizer.ggml.eot_token_id", LINES_END_OF_TURN, e) &&
           hf_pairs_bool(t->pairs, "tokenizer.ggml.add_space_prefix", false, e);
}

bool hf_lines_write(hf_tokenizer *t, gq_error *e) {
    char *text;
    size_t n;
    if (!hf_folder_has(t->folder, LINES_FILE))
        return gq_fail(e, "%s has no %s, which a %s model needs", t->folder->path, LINES_FILE,
                       t->config->arch);
    if (!hf_folder_text(t->folder, LINES_FILE, &text, &n, e)) return false;
    bool ok = lines_read(t, text, n, e);
    free(text);
    return ok && lines_fill(t, e) && hf_pairs_text(t->pairs, "tokenizer.ggml.model", "plamo2", e) &&
           hf_pairs_text(t->pairs, "tokenizer.ggml.pre", "default", e) && hf_tokenizer_write(t, true, e) &&
           lines_write_specials(t, e);
}
