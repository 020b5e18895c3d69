#include <stdlib.h>
#include <string.h>

#include "hf/tokenizer/tokenizer.h"

enum { ADDED_SCORE = -1000, REDEFINED_SCORE = -10000 };

/* ---- added tokens ---- */

/* added_tokens.json: text to number. is_appended: the numbers do not count, the tokens follow the others. */
static bool pieces_add_texts(hf_tokenizer *t, bool is_appended, gq_error *e) {
    const char *text;
    size_t length;
    json_t *id;
    json_object_keylen_foreach(t->more, text, length, id) {
        uint64_t at;
        if (!hf_token_id(t, "added_tokens.json", id, &at, e)) return false;
        if (is_appended) {
            if (t->n == HF_TOKENS_MOST)
                return hf_tokenizer_fail(t, "added_tokens.json", e, "too many tokens, expected at most %d",
                                         HF_TOKENS_MOST);
            at = t->n++;
        }
        if (at < t->n && !hf_tokenizer_add(t, at, text, length, ADDED_SCORE, false, true, e)) return false;
    }
    return true;
}

/* Adds a token that an object describes. By looks, numbers behind the vocabulary are left out; as told, they
 * are an error. */
static bool pieces_add_object(hf_tokenizer *t, const char *file, uint64_t id, const json_t *token,
                              hf_added_rule rule, gq_error *e) {
    const json_t *content = json_object_get(token, "content");
    if (!json_is_string(content))
        return hf_tokenizer_fail(t, file, e, "the added token %llu has no content", LLU(id));
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    bool by_looks = rule == HF_ADDED_BY_LOOKS, is_special = json_is_true(json_object_get(token, "special"));
    bool redefines = rule == HF_ADDED_REDEFINED;
    if (id >= t->n)
        return by_looks || redefines ||
               hf_tokenizer_fail(t, file, e, "the added token \"%s\" has id %llu, expected below %llu", text,
                                 LLU(id), LLU(t->n));
    float score = redefines ? (is_special ? 0 : REDEFINED_SCORE) : ADDED_SCORE;
    if (!hf_tokenizer_add(t, id, text, n, score, is_special || (by_looks && hf_looks_special(text, n)),
                          !by_looks, e))
        return false;
    const json_t *unknown = hf_token_content(json_object_get(t->settings, "unk_token"));
    if (redefines && is_special && unknown && json_equal(unknown, content))
        t->tokens[id].type = HF_TOKEN_UNKNOWN;
    return true;
}

/* added_tokens_decoder of tokenizer_config.json: number to object; added_tokens of tokenizer.json: objects.
 */
static bool pieces_add_objects(hf_tokenizer *t, hf_added_rule rule, gq_error *e) {
    const char *key;
    json_t *token;
    size_t i;
    uint64_t id;
    json_object_foreach(json_object_get(t->settings, "added_tokens_decoder"), key, token) {
        if (!hf_token_id_of_key(t, "tokenizer_config.json", key, &id, e) ||
            !pieces_add_object(t, "tokenizer_config.json", id, token, rule, e))
            return false;
    }
    if (rule == HF_ADDED_BY_LOOKS || rule == HF_ADDED_REDEFINED) return true;
    json_array_foreach(json_object_get(t->json, "added_tokens"), i, token) {
        if (!hf_token_id(t, "tokenizer.json", json_object_get(token, "id"), &id, e) ||
            !pieces_add_object(t, "tokenizer.json", id, token, rule, e))
            return false;
    }
    return true;
}

/* ---- pieces ---- */

/* Reads the pieces of a file; the caller frees them. */
static bool pieces_read_file(hf_tokenizer *t, const char *file, hf_pieces *pieces, gq_error *e) {
    size_t n;
    char *name = hf_folder_path(t->folder, file, e);
    bool ok = name && hf_folder_text(t->folder, file, &t->model, &n, e) &&
              hf_pieces_read(pieces, name, t->model, n, e);
    free(name);
    return ok;
}

static hf_token pieces_token(const hf_token_piece *piece, hf_added_rule rule) {
    static const char RESERVED[] = "[UNUSED", DRAGON[] = "\xf0\x9f\x90\x89";
    hf_token token = {piece->text, piece->length, piece->score, (hf_token_type)piece->type};
    if (piece->type == HF_PIECE_USER) token.type = HF_TOKEN_NORMAL;
    if (rule != HF_ADDED_APPENDED) return token;
    if (piece->length == 1 && piece->text[0] == 0) token.text = DRAGON, token.length = sizeof DRAGON - 1;
    if (piece->length >= sizeof RESERVED - 1 && memcmp(piece->text, RESERVED, sizeof RESERVED - 1) == 0)
        token.type = HF_TOKEN_UNUSED;
    return token;
}

static bool sentencepiece_list(hf_tokenizer *t, const hf_pieces *pieces, hf_added_rule rule, gq_error *e) {
    if (rule == HF_ADDED_APPENDED && t->n > pieces->n)
        return hf_config_fail(t->config, e, "vocab_size is %llu, but tokenizer.model has %zu pieces",
                              LLU(t->n), pieces->n);
    for (uint64_t i = 0; i < t->n && i < pieces->n; i++)
        if (!hf_tokenizer_set(t, i, pieces_token(&pieces->pieces[i], rule), e)) return false;
    return true;
}

bool hf_pieces_vocabulary(hf_tokenizer *t, hf_added_rule rule, uint32_t multiple, bool *adds_space,
                          gq_error *e) {
    hf_pieces pieces;
    if (!pieces_read_file(t, "tokenizer.model", &pieces, e)) return false;
    *adds_space = pieces.adds_space;
    bool ok = hf_tokenizer_size(t, pieces.n, multiple, e) && sentencepiece_list(t, &pieces, rule, e);
    hf_pieces_free(&pieces);
    return ok && hf_folder_json(t->folder, "added_tokens.json", &t->more, e) &&
           (rule == HF_ADDED_REDEFINED || pieces_add_texts(t, rule == HF_ADDED_APPENDED, e)) &&
           pieces_add_objects(t, rule, e);
}

/* ---- XLM-RoBERTa's ---- */

enum { UNIGRAM_SCORE = -10000, UNIGRAM_OWN = 3 }; /* OWN: special tokens that the file begins with */

/* Pieces behind the file's special tokens come one number later; the numbers behind the last are named by the number
 * before. */
static bool unigram_list(hf_tokenizer *t, const hf_pieces *pieces, gq_error *e) {
    static const hf_token specials[] = {{"<s>", 3, 0, HF_TOKEN_CONTROL},
                                        {"<pad>", 5, 0, HF_TOKEN_CONTROL},
                                        {"</s>", 4, 0, HF_TOKEN_CONTROL},
                                        {"<unk>", 5, 0, HF_TOKEN_UNKNOWN}};
    for (uint64_t i = 0; i < t->n; i++) {
        bool is_piece = i > UNIGRAM_OWN && i <= pieces->n;
        if (!(i <= UNIGRAM_OWN ? hf_tokenizer_set(t, i, specials[i], e)
              : is_piece ? hf_tokenizer_set(t, i, pieces_token(&pieces->pieces[i - 1], HF_ADDED_BY_LOOKS), e)
                         : hf_tokenizer_set_pad(t, i, i - 1, UNIGRAM_SCORE, e)))
            return false;
    }
    return true;
}

static bool unigram_write_pairs(const hf_tokenizer *t, const hf_pieces *pieces, gq_error *e) {
    for (size_t i = 0; i < pieces->n_characters; i++)
        if (!hf_metadata_add(t->metadata, pieces->characters + i, 1, e)) return false;
    return (!pieces->characters ||
            hf_metadata_array(t->metadata, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, e)) &&
           hf_tokenizer_write_model(t, "t5", "default", e) &&
           hf_metadata_bool(t->metadata, "tokenizer.ggml.add_space_prefix", pieces->adds_space, e) &&
           hf_metadata_bool(t->metadata, "tokenizer.ggml.remove_extra_whitespaces", pieces->trims, e);
}

/* Reads the pieces of a file of more than `least`; the caller frees them. */
static bool unigram_read(hf_tokenizer *t, const char *file, size_t least, hf_pieces *pieces, gq_error *e) {
    bool ok = pieces_read_file(t, file, pieces, e);
    if (!ok || (pieces->is_unigram && pieces->n > least)) return ok;
    hf_pieces_free(pieces);
    return hf_tokenizer_fail(t, file, e, "expected a unigram model of more than %zu pieces", least);
}

bool hf_unigram_write(hf_tokenizer *t, gq_error *e) {
    hf_pieces pieces;
    if (!unigram_read(t, HF_UNIGRAM_FILE, UNIGRAM_OWN, &pieces, e)) return false;
    bool ok = hf_tokenizer_size(t, pieces.n, 1, e);
    if (ok && t->n < pieces.n) t->n = pieces.n;
    ok = ok && unigram_list(t, &pieces, e) && unigram_write_pairs(t, &pieces, e) &&
         hf_tokenizer_write_kinds(t, e) && hf_tokenizer_write(t, true, e);
    hf_pieces_free(&pieces);
    return ok;
}

/* ---- T5's ---- */

const char *hf_spiece_file(const hf_tokenizer *t) {
    static const char *const names[] = {"tokenizer.model", "spiece.model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (hf_folder_has(t->folder, names[i])) return names[i];
    return NULL;
}

/* Pieces by their numbers; those behind the last have placeholders. */
static bool spiece_list(hf_tokenizer *t, const char *file, const hf_pieces *pieces, gq_error *e) {
    if (t->n < pieces->n)
        return hf_config_fail(t->config, e, "vocab_size is %llu, but %s has %zu pieces", LLU(t->n), file,
                              pieces->n);
    for (uint64_t i = 0; i < t->n; i++)
        if (!(i < pieces->n ? hf_tokenizer_set(t, i, pieces_token(&pieces->pieces[i], HF_ADDED_BY_LOOKS), e)
                            : hf_tokenizer_set_pad(t, i, i, UNIGRAM_SCORE, e)))
            return false;
    return true;
}

bool hf_spiece_write(hf_tokenizer *t, gq_error *e) {
    hf_pieces pieces;
    const char *file = hf_spiece_file(t);
    if (!unigram_read(t, file, 0, &pieces, e)) return false;
    bool ok = hf_tokenizer_size(t, pieces.n, 1, e) && spiece_list(t, file, &pieces, e) &&
              hf_folder_json(t->folder, "added_tokens.json", &t->more, e) && pieces_add_texts(t, false, e) &&
              unigram_write_pairs(t, &pieces, e) && hf_tokenizer_write(t, true, e);
    hf_pieces_free(&pieces);
    return ok;
}
