/* Qwen 1's qwen.tiktoken: a line per token, its bytes in base64 and its rank, from 0 on. The rank is the id, and says which
 * neighbours are joined first; a file of GGUF lists the pairs that are joined. The pair of a token is what is left of it
 * when its bytes are joined by all smaller ranks. Special tokens follow, as the program in the folder numbers them.
 */
#include "hf/tokenizer/tokenizer_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/name_index.h"
#include "hf/tokenizer/check_name.h"
#include "hf/tokenizer/tokenizer_special.h"
#include "hf/tokenizer/tokenizer_vocabulary.h"

static const char RANKS_FILE[] = "qwen.tiktoken";
enum { RANK_BYTES_MOST = 256 /* of a token; the longest published one has 128 */, RANKS_EXTRA = 205 };

typedef struct rank_name {
    const char *text; /* its bytes as visible characters; first member */
} rank_name;

typedef struct rank_list {
    hf_tokenizer *t;
    rank_name *names;
    uint64_t n;
    name_index by_name;
} rank_list;

/* ---- reading ---- */

static bool rank_read_line(hf_tokenizer *t, const char *line, const char *end, uint64_t id, gq_error *e) {
    uint8_t bytes[3 * (RANK_BYTES_MOST / 3 + 2)];
    char text[2 * RANK_BYTES_MOST + 1];
    size_t n = 0, length = 0, digits = (size_t)(end - line);
    const char *space = memchr(line, ' ', digits);
    uint64_t rank = 0;
    bool ok = space && (size_t)(space - line) / 4 <= RANK_BYTES_MOST / 3 + 1 &&
              hf_base64(line, (size_t)(space - line), bytes, &n) && n > 0 && n <= RANK_BYTES_MOST &&
              end - space > 1 && end - space < 12;
    for (const char *at = ok ? space + 1 : end; ok && at < end; at++)
        ok = *at >= '0' && *at <= '9', rank = 10 * rank + (uint64_t)(*at - '0');
    if (!ok || rank != id)
        return hf_tokenizer_fail(t, RANKS_FILE, e,
                                 "line %llu: expected 1 to %d bytes in base64, a space and the rank %llu: "
                                 "download the file again",
                                 (unsigned long long)id + 1, RANK_BYTES_MOST, (unsigned long long)id);
    if (id >= t->n)
        return hf_tokenizer_fail(t, RANKS_FILE, e, "more tokens than vocab_size, which is %llu",
                                 (unsigned long long)t->n);
    for (size_t i = 0; i < n; i++) length += hf_byte_character(bytes[i], text + length);
    const char *kept = hf_tokenizer_keep(t, text, length, e);
    hf_token *token = kept ? hf_tokenizer_at(t, id, e) : NULL;
    if (token) *token = (hf_token){.text = kept, .length = (uint32_t)length, .type = HF_TOKEN_NORMAL};
    return token;
}

static bool ranks_read(hf_tokenizer *t, const char *text, size_t n, gq_error *e) {
    uint64_t id = 0;
    for (const char *line = text, *next; line < text + n; line = next) {
        const char *end = memchr(line, '\n', (size_t)(text + n - line));
        next = end ? end + 1 : text + n;
        if (!end) end = text + n;
        if (end > line && end[-1] == '\r') end--;
        if (end > line && !rank_read_line(t, line, end, id++, e)) return false;
    }
    return id > 0 || hf_tokenizer_fail(t, RANKS_FILE, e, "has no tokens: download it again");
}

/* ---- pairs ---- */

static bool ranks_index(rank_list *l, gq_error *e) {
    for (uint64_t i = 0, other; i < l->n; i++) {
        l->names[i].text = l->t->tokens[i].text;
        if (name_index_find(&l->by_name, l->names, sizeof *l->names, l->names[i].text, &other))
            return hf_tokenizer_fail(l->t, RANKS_FILE, e,
                                     "lines %llu and %llu have the same bytes: download the file again",
                                     (unsigned long long)other + 1, (unsigned long long)i + 1);
        if (!name_index_add(&l->by_name, l->names, sizeof *l->names, i, e)) return false;
    }
    return true;
}

/* The rank of a piece of a token's text; UINT64_MAX: it is no token. */
static uint64_t rank_of(const rank_list *l, const char *text, size_t n) {
    char piece[2 * RANK_BYTES_MOST + 1];
    uint64_t rank;
    memcpy(piece, text, n), piece[n] = 0;
    return name_index_find(&l->by_name, l->names, sizeof *l->names, piece, &rank) ? rank : UINT64_MAX;
}

/* Joins the bytes of token `id` by smaller ranks, and adds the pair that is left. at[i] is where part i begins, join[i]
 * the rank of parts i and i + 1 together. */
static bool rank_add_pair(const rank_list *l, uint64_t id, gq_error *e) {
    const hf_token *token = &l->t->tokens[id];
    uint16_t at[RANK_BYTES_MOST + 2];
    uint64_t join[RANK_BYTES_MOST + 1];
    size_t n = 0;
    for (size_t i = 0; i < token->length; i++)
        if ((token->text[i] & 0xc0) != 0x80) at[n++] = (uint16_t)i;
    if (n == 1) return true;
    at[n] = (uint16_t)token->length;
    for (size_t i = 0; i + 1 < n; i++) join[i] = rank_of(l, token->text + at[i], at[i + 2] - at[i]);
    for (size_t least = 0; n > 2; least = 0) {
        for (size_t i = 1; i + 1 < n; i++)
            if (join[i] < join[least]) least = i;
        if (join[least] >= id) break;
        memmove(at + least + 1, at + least + 2, (n - least - 1) * sizeof *at);
        memmove(join + least, join + least + 1, (n - least - 2) * sizeof *join);
        n--;
        for (size_t i = least ? least - 1 : 0; i <= least && i + 1 < n; i++)
            join[i] = rank_of(l, token->text + at[i], at[i + 2] - at[i]);
    }
    if (n != 2 || rank_of(l, token->text, at[1]) >= id ||
        rank_of(l, token->text + at[1], token->length - at[1]) >= id)
        return hf_tokenizer_fail(
            l->t, RANKS_FILE, e,
            "line %llu: its bytes cannot be joined of two tokens of smaller ranks: the file "
            "was changed or is damaged",
            (unsigned long long)id + 1);
    char pair[2 * RANK_BYTES_MOST + 2];
    memcpy(pair, token->text, at[1]), pair[at[1]] = ' ';
    memcpy(pair + at[1] + 1, token->text + at[1], token->length - at[1]);
    return hf_pairs_add_string(l->t->pairs, pair, token->length + 1, e);
}

static bool ranks_write_merges(hf_tokenizer *t, uint64_t n, gq_error *e) {
    rank_name *names = malloc((n + 1) * sizeof *names);
    rank_list l = {.t = t, .names = names, .n = n};
    bool ok = names ? ranks_index(&l, e) : gq_fail_memory(e, n * sizeof *names);
    for (uint64_t i = 0; ok && i < n; i++) ok = rank_add_pair(&l, i, e);
    name_index_free(&l.by_name), free(names);
    return ok && hf_pairs_array(t->pairs, "tokenizer.ggml.merges", GGUF_STRING, e);
}

/* ---- special tokens ---- */

static bool ranks_add_special(hf_tokenizer *t, uint64_t *id, const char *text, gq_error *e) {
    const char *kept = hf_tokenizer_keep(t, text, strlen(text), e);
    if (*id >= t->n)
        return hf_config_fail(t->config, e, "vocab_size is %llu, but %s has number %llu",
                              (unsigned long long)t->n, text, (unsigned long long)*id);
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
    bool sees = hf_config_get(t->config, "visual");
    for (size_t i = 0; ok && sees && i < sizeof seeing / sizeof *seeing; i++)
        ok = ranks_add_special(t, &id, seeing[i], e);
    return ok;
}

/* Where no file has an id, texts begin and end with the first special token. */
static bool ranks_write_ids(const hf_tokenizer *t, uint32_t end, gq_error *e) {
    hf_specials s = {.below = UINT64_MAX};
    bool any = false;
    if (!hf_specials_find(&s, t, e)) return false;
    for (int i = 0; i < HF_SPECIALS; i++) any = any || s.of[i].is_set;
    for (int i = HF_BOS; i <= HF_UNK; i++)
        if (!s.of[i].is_set && (!any || i == HF_UNK)) s.of[i].is_set = true, s.of[i].id = end;
    return hf_specials_write(&s, t->pairs, e);
}

bool hf_ranks_write(hf_tokenizer *t, gq_error *e) {
    enum { PUBLISHED_TOKENS = 151936 };
    char *text;
    size_t n;
    if (!hf_folder_has(t->folder, RANKS_FILE))
        return gq_fail(e, "%s has no %s, which a %s model needs", t->folder->path, RANKS_FILE,
                       t->config->arch);
    if (!hf_tokenizer_size(t, PUBLISHED_TOKENS, 1, e) || !hf_folder_text(t->folder, RANKS_FILE, &text, &n, e))
        return false;
    bool ok = ranks_read(t, text, n, e);
    uint64_t ranks = t->listed;
    free(text);
    return ok && ranks_add_specials(t, ranks, e) &&
           hf_pairs_text(t->pairs, "tokenizer.ggml.model", "gpt2", e) &&
           hf_pairs_text(t->pairs, "tokenizer.ggml.pre", "qwen2", e) && hf_tokenizer_write(t, false, e) &&
           ranks_write_merges(t, ranks, e) && ranks_write_ids(t, (uint32_t)ranks, e) &&
           hf_templates_write(t, e);
}
