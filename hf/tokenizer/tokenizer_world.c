/* RWKV's rwkv_vocab_v20230424.txt: a line per token, its number from 1 on, a literal of Python (a text or bytes), and how
 * many bytes it stands for. Tokens in the file are spelled as Python spells bytes: what is no printable character of ASCII
 * is an escape. Token 0 ends texts.
 */
#include "hf/tokenizer/tokenizer_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "hf/folder/json.h"
#include "hf/tokenizer/tokenizer_vocabulary.h"

static const char WORLD_FILE[] = "rwkv_vocab_v20230424.txt";
enum {
    WORLD_BYTES_MOST = 256, /* of a token; the longest published one has 128 */
    WORLD_END_OF_TURN = 261 /* two ends of lines */
};

typedef struct world_token {
    uint8_t bytes[WORLD_BYTES_MOST];
    size_t n;
} world_token;

static bool world_add(world_token *k, uint32_t byte) {
    if (k->n == WORLD_BYTES_MOST || byte > 255) return false;
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
    char spelled[4 * WORLD_BYTES_MOST + 1];
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
    const char *text = hf_tokenizer_keep(t, spelled, n, e);
    hf_token *token = text ? hf_tokenizer_at(t, id, e) : NULL;
    if (token) *token = (hf_token){.text = text, .length = (uint32_t)n, .type = HF_TOKEN_NORMAL};
    return token != NULL;
}

static bool world_add_line(hf_tokenizer *t, const char *line, const char *end, uint64_t number, gq_error *e) {
    world_token k = {.n = 0};
    const char *at = memchr(line, ' ', (size_t)(end - line));
    unsigned long long bytes = 0;
    at = at ? at + 1 : end;
    bool ok = world_read_literal(&at, end, &k) && at < end && *at == ' ';
    for (at += ok; ok && at < end; at++) {
        ok = *at >= '0' && *at <= '9' && bytes <= WORLD_BYTES_MOST;
        bytes = 10 * bytes + (unsigned)(*at - '0');
    }
    if (!ok || bytes != k.n)
        return hf_tokenizer_fail(
            t, WORLD_FILE, e,
            "line %llu: expected a number, a literal of Python and its %zu bytes: download "
            "the file again",
            (unsigned long long)number, k.n);
    if (number >= t->n)
        return hf_tokenizer_fail(t, WORLD_FILE, e, "more tokens than vocab_size, which is %llu",
                                 (unsigned long long)t->n);
    return world_keep(t, number, &k, e);
}

static bool world_read(hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    uint64_t number = 1;
    for (const char *line = text, *next; line < text + n; line = next, number++) {
        const char *end = memchr(line, '\n', (size_t)(text + n - line));
        next = end ? end + 1 : text + n;
        if (!end) end = text + n;
        if (end > line && end[-1] == '\r') end--;
        if (!world_add_line(t, line, end, number, e)) return false;
    }
    return number > 1 || hf_tokenizer_fail(t, WORLD_FILE, e, "has no tokens: download it again");
}

bool hf_world_write(hf_tokenizer *t, gq_error *e) {
    enum { PUBLISHED_TOKENS = 65536 };
    hf_token *first;
    char *text;
    size_t n;
    if (!hf_folder_has(t->folder, WORLD_FILE))
        return gq_fail(e, "%s has no %s, which a %s model needs", t->folder->path, WORLD_FILE,
                       t->config->arch);
    if (!hf_tokenizer_size(t, PUBLISHED_TOKENS, 1, e) || !(first = hf_tokenizer_at(t, 0, e)) ||
        !hf_folder_text(t->folder, WORLD_FILE, &text, &n, e))
        return false;
    *first = (hf_token){.text = "<s>", .length = 3, .type = HF_TOKEN_CONTROL};
    bool ok = world_read(t, text, n, e);
    free(text);
    return ok && hf_pairs_text(t->pairs, "tokenizer.ggml.model", "rwkv", e) &&
           hf_tokenizer_write(t, false, e) && hf_pairs_u32(t->pairs, "tokenizer.ggml.bos_token_id", 0, e) &&
           hf_pairs_u32(t->pairs, "tokenizer.ggml.eos_token_id", 0, e) &&
           hf_pairs_u32(t->pairs, "tokenizer.ggml.eot_token_id", WORLD_END_OF_TURN, e) &&
           hf_templates_write(t, e);
}
