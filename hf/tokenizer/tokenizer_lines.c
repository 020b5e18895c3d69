/* Vocabularies that have a token a line.
 *
 * PLaMo's tokenizer.jsonl: a JSON array of text, score, kind, and more that readers have no use for. Ids are the
 * lines' numbers. Special tokens are named by their texts in tokenizer_config.json.
 *
 * Qwen 1's qwen.tiktoken: a token's bytes in base64 and its rank, from 0 on. The rank is the id, and says which
 * neighbours are joined first; a file of GGUF lists the pairs that are joined. The pair of a token is what is left of
 * it when its bytes are joined by all smaller ranks. Special tokens follow, as the program in the folder numbers
 * them.
 *
 * RWKV's rwkv_vocab_v20230424.txt: a token's number from 1 on, a literal of Python (a text or bytes), and how many
 * bytes it stands for. Tokens in the file are spelled as Python spells bytes: what is no printable character of
 * ASCII is an escape. Token 0 ends texts.
 */
#include "hf/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char LINES_FILE[] = "tokenizer.jsonl", RANKS_FILE[] = "qwen.tiktoken",
                  WORLD_FILE[] = "rwkv_vocab_v20230424.txt";
enum {
    LINES_PAD_SCORE = -1000,
    LINES_END_OF_TURN = 4,
    LINE_BYTES_MOST = 256, /* of a token of Qwen's or RWKV's; the longest published ones have 128 */
    RANKS_EXTRA = 205,
    WORLD_END_OF_TURN = 261, /* two ends of lines */
};

/* Reads a vocabulary's file, which must be there; the caller frees it. */
static bool lines_file(hf_tokenizer *t, const char *name, char **text, size_t *n, gq_error *e) {
    if (!hf_folder_has(t->folder, name))
        return gq_fail(e, "%s has no %s, which a %s model needs", t->folder->path, name, t->config->arch);
    return hf_folder_text(t->folder, name, text, n, e);
}

/* Returns the next line at *at, without what ends it, and moves on. NULL: there is none. */
static const char *line_next(const char **at, const char *stop, const char **end) {
    const char *line = *at, *found = memchr(line, '\n', (size_t)(stop - line));
    *at = found ? found + 1 : stop, *end = found ? found : stop;
    if (*end > line && (*end)[-1] == '\r') --*end;
    return line < stop ? line : NULL;
}

/* ---- PLaMo's ---- */

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
                                 "line %llu: expected an array of a text, a score and a kind", LLU(id) + 1);
    if (id == HF_TOKENS_MOST)
        return hf_tokenizer_fail(t, LINES_FILE, e, "too many tokens, expected at most %d", HF_TOKENS_MOST);
    hf_token_type type = lines_type(json_string_value(json_array_get(line, 2)), json_string_value(text));
    t->n++;
    return hf_tokenizer_set_copy(t, id, json_string_value(text), json_string_length(text),
                                 (float)json_number_value(score), type, e);
}

static bool lines_read(hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    for (const char *at = text, *end, *line; (line = line_next(&at, text + n, &end));) {
        size_t length = (size_t)(end - line);
        if (strspn(line, " \t\r") >= length) continue;
        json_t *parsed = json_loadb(line, length, 0, NULL);
        bool ok = lines_add(t, parsed, e);
        json_decref(parsed);
        if (!ok) return false;
    }
    return t->n > 0 || hf_tokenizer_fail(t, LINES_FILE, e, "has no tokens; download it again");
}

/* Tokens that the config promises and the file does not have are counted by themselves, from 1. */
static bool lines_fill(hf_tokenizer *t, gq_error *e) {
    uint64_t had = t->n;
    if (!hf_tokenizer_size(t, had, 1, e)) return false;
    if (t->n < had) t->n = had;
    for (uint64_t i = had; i < t->n; i++)
        if (!hf_tokenizer_set_pad(t, i, i - had + 1, LINES_PAD_SCORE, e)) return false;
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
        if (!hf_metadata_u32(t->metadata, rows[i][1], id, e)) return false;
    }
    return hf_metadata_u32(t->metadata, "tokenizer.ggml.eot_token_id", LINES_END_OF_TURN, e) &&
           hf_metadata_bool(t->metadata, "tokenizer.ggml.add_space_prefix", false, e);
}

bool hf_lines_write(hf_tokenizer *t, gq_error *e) {
    char *text;
    size_t n;
    if (!lines_file(t, LINES_FILE, &text, &n, e)) return false;
    bool ok = lines_read(t, text, n, e);
    free(text);
    return ok && lines_fill(t, e) && hf_tokenizer_write_model(t, "plamo2", "default", e) &&
           hf_tokenizer_write(t, true, e) && lines_write_specials(t, e);
}

/* ---- Qwen 1's ---- */

static bool rank_read_line(hf_tokenizer *t, const char *line, const char *end, uint64_t id, gq_error *e) {
    uint8_t bytes[3 * (LINE_BYTES_MOST / 3 + 2)];
    char text[2 * LINE_BYTES_MOST + 1];
    size_t n = 0, length = 0, digits = (size_t)(end - line);
    const char *space = memchr(line, ' ', digits);
    uint64_t rank = 0;
    bool ok = space && (size_t)(space - line) / 4 <= LINE_BYTES_MOST / 3 + 1 &&
              hf_base64(line, (size_t)(space - line), bytes, &n) && n > 0 && n <= LINE_BYTES_MOST &&
              end - space > 1 && end - space < 12;
    for (const char *at = ok ? space + 1 : end; ok && at < end; at++)
        ok = *at >= '0' && *at <= '9', rank = 10 * rank + (uint64_t)(*at - '0');
    if (!ok || rank != id)
        return hf_tokenizer_fail(t, RANKS_FILE, e,
                                 "line %llu: expected 1 to %d bytes in base64, a space and the rank %llu: "
                                 "download the file again",
                                 LLU(id) + 1, LINE_BYTES_MOST, LLU(id));
    if (id >= t->n)
        return hf_tokenizer_fail(t, RANKS_FILE, e, "more tokens than vocab_size, which is %llu", LLU(t->n));
    for (size_t i = 0; i < n; i++) length += hf_byte_character(bytes[i], text + length);
    return hf_tokenizer_set_copy(t, id, text, length, 0, HF_TOKEN_NORMAL, e);
}

static bool ranks_read(hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    uint64_t id = 0;
    for (const char *at = text, *end, *line; (line = line_next(&at, text + n, &end));)
        if (end > line && !rank_read_line(t, line, end, id++, e)) return false;
    return id > 0 || hf_tokenizer_fail(t, RANKS_FILE, e, "has no tokens: download it again");
}

/* Indexes the first n tokens, whose texts end with a NUL here. */
static bool ranks_index(const hf_tokenizer *t, uint64_t n, name_index *by_text, gq_error *e) {
    for (uint64_t i = 0, other; i < n; i++) {
        if (name_index_find(by_text, t->tokens, sizeof *t->tokens, t->tokens[i].text, &other))
            return hf_tokenizer_fail(t, RANKS_FILE, e,
                                     "lines %llu and %llu have the same bytes: download the file again",
                                     LLU(other) + 1, LLU(i) + 1);
        if (!name_index_add(by_text, t->tokens, sizeof *t->tokens, i, e)) return false;
    }
    return true;
}

/* The rank of a piece of a token's text; UINT64_MAX: it is no token. */
static uint64_t rank_of(const hf_tokenizer *t, const name_index *by_text, const char *text, size_t n) {
    char piece[2 * LINE_BYTES_MOST + 1];
    uint64_t rank;
    memcpy(piece, text, n), piece[n] = 0;
    return name_index_find(by_text, t->tokens, sizeof *t->tokens, piece, &rank) ? rank : UINT64_MAX;
}

/* Joins the bytes of token `id` by smaller ranks, and adds the pair that is left. at[i] is where part i begins,
 * join[i] the rank of parts i and i + 1 together. */
static bool rank_add_pair(const hf_tokenizer *t, const name_index *by_text, uint64_t id, gq_error *e) {
    const hf_token *token = &t->tokens[id];
    uint16_t at[LINE_BYTES_MOST + 2];
    uint64_t join[LINE_BYTES_MOST + 1];
    size_t n = 0;
    for (size_t i = 0; i < token->length; i++)
        if ((token->text[i] & 0xc0) != 0x80) at[n++] = (uint16_t)i;
    if (n == 1) return true;
    at[n] = (uint16_t)token->length;
    for (size_t i = 0; i + 1 < n; i++) join[i] = rank_of(t, by_text, token->text + at[i], at[i + 2] - at[i]);
    for (size_t least = 0; n > 2; least = 0) {
        for (size_t i = 1; i + 1 < n; i++)
            if (join[i] < join[least]) least = i;
        if (join[least] >= id) break;
        memmove(at + least + 1, at + least + 2, (n - least - 1) * sizeof *at);
        memmove(join + least, join + least + 1, (n - least - 2) * sizeof *join);
        n--;
        for (size_t i = least ? least - 1 : 0; i <= least && i + 1 < n; i++)
            join[i] = rank_of(t, by_text, token->text + at[i], at[i + 2] - at[i]);
    }
    if (n != 2 || rank_of(t, by_text, token->text, at[1]) >= id ||
        rank_of(t, by_text, token->text + at[1], token->length - at[1]) >= id)
        return hf_tokenizer_fail(t, RANKS_FILE, e,
                                 "line %llu: its bytes are not a merge of two tokens of smaller ranks: the "
                                 "file was changed or is damaged",
                                 LLU(id) + 1);
    char pair[2 * LINE_BYTES_MOST + 2];
    memcpy(pair, token->text, at[1]), pair[at[1]] = ' ';
    memcpy(pair + at[1] + 1, token->text + at[1], token->length - at[1]);
    return hf_metadata_add_string(t->metadata, pair, token->length + 1, e);
}

static bool ranks_write_merges(hf_tokenizer *t, uint64_t n, gq_error *e) {
    name_index by_text = {.n = 0};
    bool ok = ranks_index(t, n, &by_text, e);
    for (uint64_t i = 0; ok && i < n; i++) ok = rank_add_pair(t, &by_text, i, e);
    name_index_free(&by_text);
    return ok && hf_metadata_array(t->metadata, "tokenizer.ggml.merges", GGUF_STRING, e);
}

static bool ranks_add_special(hf_tokenizer *t, uint64_t *id, const char *text, gq_error *e) {
    const char *kept = hf_tokenizer_keep(t, text, strlen(text), e);
    if (*id >= t->n)
        return hf_config_fail(t->config, e, "vocab_size is %llu, but %s has number %llu", LLU(t->n), text,
                              LLU(*id));
    return kept && hf_tokenizer_add(t, (*id)++, kept, strlen(text), 0, true, true, e);
}

/* Models that see have some more. */
static bool ranks_add_specials(hf_tokenizer *t, uint64_t id, gq_error *e) {
    static const char *const texts[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
                             *const seeing[] = {"<ref>",   "</ref>", "<box>",  "</box>",  "<quad>",
                                                "</quad>", "<img>",  "</img>", "<imgpad>"};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof texts / sizeof *texts; i++)
        ok = ranks_add_special(t, &id, texts[i], e);
    for (int i = 0; ok && i < RANKS_EXTRA; i++) {
        char text[24];
        snprintf(text, sizeof text, "<|extra_%d|>", i);
        ok = ranks_add_special(t, &id, text, e);
    }
    bool has_vision = hf_config_get(t->config, "visual");
    for (size_t i = 0; ok && has_vision && i < sizeof seeing / sizeof *seeing; i++)
        ok = ranks_add_special(t, &id, seeing[i], e);
    return ok;
}

/* Without an id in any file, texts begin and end with the first special token. */
static bool ranks_write_ids(const hf_tokenizer *t, uint32_t end, gq_error *e) {
    hf_specials s = {.below = UINT64_MAX};
    bool any = false;
    if (!hf_specials_find(&s, t, e)) return false;
    for (int i = 0; i < HF_SPECIALS; i++) any = any || s.of[i].is_set;
    for (int i = HF_BOS; i <= HF_UNK; i++)
        if (!s.of[i].is_set && (!any || i == HF_UNK)) s.of[i].is_set = true, s.of[i].id = end;
    return hf_specials_write(&s, t->metadata, e);
}

bool hf_ranks_write(hf_tokenizer *t, gq_error *e) {
    enum { PUBLISHED_TOKENS = 151936 };
    char *text;
    size_t n;
    if (!hf_tokenizer_size(t, PUBLISHED_TOKENS, 1, e) || !lines_file(t, RANKS_FILE, &text, &n, e))
        return false;
    bool ok = ranks_read(t, text, n, e);
    uint64_t ranks = t->listed;
    free(text);
    return ok && ranks_add_specials(t, ranks, e) && hf_tokenizer_write_model(t, "gpt2", "qwen2", e) &&
           hf_tokenizer_write(t, false, e) && ranks_write_merges(t, ranks, e) &&
           ranks_write_ids(t, (uint32_t)ranks, e) && hf_templates_write(t, e);
}

/* ---- RWKV's ---- */

typedef struct world_token {
    uint8_t bytes[LINE_BYTES_MOST];
    size_t n;
} world_token;

static bool world_add(world_token *k, uint32_t byte) {
    if (k->n == LINE_BYTES_MOST || byte > 255) return false;
    k->bytes[k->n++] = (uint8_t)byte;
    return true;
}

/* Adds a character of a text as UTF-8. */
static bool world_add_character(world_token *k, uint32_t c) {
    if (c < 0x80) return world_add(k, c);
    if (c < 0x800) return world_add(k, 0xc0 | c >> 6) && world_add(k, 0x80 | (c & 63));
    if (c < 0x10000)
        return world_add(k, 0xe0 | c >> 12) && world_add(k, 0x80 | (c >> 6 & 63)) &&
               world_add(k, 0x80 | (c & 63));
    return c < 0x110000 && world_add(k, 0xf0 | c >> 18) && world_add(k, 0x80 | (c >> 12 & 63)) &&
           world_add(k, 0x80 | (c >> 6 & 63)) && world_add(k, 0x80 | (c & 63));
}

static bool hex_read(const char **at, const char *end, unsigned digits, uint32_t *value) {
    *value = 0;
    for (unsigned i = 0; i < digits; i++, ++*at) {
        if (*at == end) return false;
        const char *digit = strchr("0123456789abcdef", **at | 0x20);
        if (!**at || !digit) return false;
        *value = *value << 4 | (uint32_t)(digit - "0123456789abcdef");
    }
    return true;
}

/* Reads what follows a backslash. In bytes \u means nothing, and \x is one byte; in texts it is a character. */
static bool world_read_escape(const char **at, const char *end, bool is_bytes, world_token *k) {
    static const char letters[] = "\\'\"ntrabfv0", meant[] = "\\'\"\n\t\r\a\b\f\v";
    if (*at == end) return false;
    char letter = *(*at)++;
    const char *found = letter ? strchr(letters, letter) : NULL;
    uint32_t value;
    if (found) return world_add(k, (uint8_t)meant[found - letters]);
    unsigned digits = letter == 'x' ? 2 : is_bytes ? 0 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (!digits || !hex_read(at, end, digits, &value)) return false;
    return is_bytes ? world_add(k, value) : world_add_character(k, value);
}

/* Reads a literal; *at is behind it then. */
static bool world_read_literal(const char **at, const char *end, world_token *k) {
    bool is_bytes = *at < end && **at == 'b';
    *at += is_bytes;
    if (*at == end || (**at != '\'' && **at != '"')) return false;
    for (char quote = *(*at)++; *at < end && **at != quote;) {
        char c = *(*at)++;
        if (c == '\\' ? !world_read_escape(at, end, is_bytes, k) : !world_add(k, (uint8_t)c)) return false;
    }
    return (*at)++ < end;
}

/* Spells bytes as Python does. */
static bool world_keep(hf_tokenizer *t, uint64_t id, const world_token *k, gq_error *e) {
    static const char plain[] = "\\\n\t\r", letters[] = "\\ntr";
    char spelled[4 * LINE_BYTES_MOST + 1];
    size_t n = 0;
    bool both = memchr(k->bytes, '\'', k->n) && memchr(k->bytes, '"', k->n);
    for (size_t i = 0; i < k->n; i++) {
        uint8_t c = k->bytes[i];
        const char *found = c ? strchr(plain, c) : NULL;
        if (found || (both && c == '\''))
            spelled[n++] = '\\', spelled[n++] = found ? letters[found - plain] : '\'';
        else if (c >= ' ' && c < 0x7f)
            spelled[n++] = (char)c;
        else
            n += (size_t)snprintf(spelled + n, 5, "\\x%02x", c);
    }
    return hf_tokenizer_set_copy(t, id, spelled, n, 0, HF_TOKEN_NORMAL, e);
}

static bool world_add_line(hf_tokenizer *t, const char *line, const char *end, uint64_t number, gq_error *e) {
    world_token k = {.n = 0};
    const char *at = memchr(line, ' ', (size_t)(end - line));
    unsigned long long bytes = 0;
    at = at ? at + 1 : end;
    bool ok = world_read_literal(&at, end, &k) && at < end && *at == ' ';
    for (at += ok; ok && at < end; at++) {
        ok = *at >= '0' && *at <= '9' && bytes <= LINE_BYTES_MOST;
        bytes = 10 * bytes + (unsigned)(*at - '0');
    }
    if (!ok || bytes != k.n)
        return hf_tokenizer_fail(
            t, WORLD_FILE, e,
            "line %llu: expected a number, a literal of Python and its %zu bytes: download "
            "the file again",
            LLU(number), k.n);
    if (number >= t->n)
        return hf_tokenizer_fail(t, WORLD_FILE, e, "more tokens than vocab_size, which is %llu", LLU(t->n));
    return world_keep(t, number, &k, e);
}

static bool world_read(hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    uint64_t number = 1;
    for (const char *at = text, *end, *line; (line = line_next(&at, text + n, &end)); number++)
        if (!world_add_line(t, line, end, number, e)) return false;
    return number > 1 || hf_tokenizer_fail(t, WORLD_FILE, e, "has no tokens: download it again");
}

bool hf_world_write(hf_tokenizer *t, gq_error *e) {
    enum { PUBLISHED_TOKENS = 65536 };
    const hf_token end = {.text = "<s>", .length = 3, .type = HF_TOKEN_CONTROL};
    char *text;
    size_t n;
    if (!hf_tokenizer_size(t, PUBLISHED_TOKENS, 1, e) || !hf_tokenizer_set(t, 0, end, e) ||
        !lines_file(t, WORLD_FILE, &text, &n, e))
        return false;
    bool ok = world_read(t, text, n, e);
    free(text);
    return ok && hf_metadata_text(t->metadata, "tokenizer.ggml.model", "rwkv", e) &&
           hf_tokenizer_write(t, false, e) &&
           hf_metadata_u32(t->metadata, "tokenizer.ggml.bos_token_id", 0, e) &&
           hf_metadata_u32(t->metadata, "tokenizer.ggml.eos_token_id", 0, e) &&
           hf_metadata_u32(t->metadata, "tokenizer.ggml.eot_token_id", WORLD_END_OF_TURN, e) &&
           hf_templates_write(t, e);
}
