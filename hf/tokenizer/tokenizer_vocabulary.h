/* A vocabulary in the making, and the folder's files that it is made from: tokens set by number, and written when all are
 * known. Callers outside include hf/tokenizer/tokenizer.h.
 */
#pragma once

#include "hf/folder/config.h"
#include "hf/folder/pairs.h"

/* Tokens of a vocabulary. The largest published ones have some 262,000. The bound keeps a config.json that
 * promises billions from filling the memory with placeholders. */
enum { HF_TOKENS_MOST = 1 << 21 };

/* tokenizer.ggml.token_type */
typedef enum hf_token_type {
    HF_TOKEN_NORMAL = 1,
    HF_TOKEN_UNKNOWN,
    HF_TOKEN_CONTROL,
    HF_TOKEN_USER,
    HF_TOKEN_UNUSED,
    HF_TOKEN_BYTE
} hf_token_type;

typedef struct hf_token {
    const char *text; /* UTF-8, not NUL-terminated; NULL: no file has a token of this number; first member */
    uint32_t length;
    float score;
    hf_token_type type;
} hf_token;

typedef struct hf_tokenizer {
    hf_folder *folder;
    const hf_config *config;
    hf_pairs *pairs;
    char **unknown_cut;
    json_t *json;            /* tokenizer.json; NULL: there is none. So the next two */
    json_t *settings;        /* tokenizer_config.json; an empty object counts as none */
    json_t *more;            /* added_tokens.json */
    char *model;             /* bytes of tokenizer.model */
    json_t *made;            /* texts of tokens that are in none of the files: an array of strings */
    hf_token *tokens;        /* by number */
    size_t listed, capacity; /* entries of `tokens`, at most n */
    uint64_t n;              /* tokens of the vocabulary; those that are not listed are placeholders */
    bool is_glm;             /* llama.cpp has a name of its own for how these cut texts */
} hf_tokenizer;

/* A text in the making. */
typedef struct hf_text {
    char *text; /* NUL-terminated */
    size_t n, capacity;
} hf_text;
bool hf_text_append(hf_text *to, const char *text, size_t n, gq_error *e);

/* The model of tokenizer.json; and whether an object of it has this type. */
static inline const json_t *hf_json_model(const hf_tokenizer *t) { return json_object_get(t->json, "model"); }
static inline bool hf_type_is(const json_t *object, const char *type) {
    return hf_json_is(json_object_get(object, "type"), type);
}

/* Fails with a sentence about a file of the folder: its path goes in front. */
#define hf_tokenizer_fail(t, file, e, format, ...) \
    gq_fail(e, "%s/%s: " format, (t)->folder->path, file, ##__VA_ARGS__)

bool hf_is_utf8(const char *text, size_t n);
/* Decodes base64 of n digits with their padding; `to` holds 3 bytes for each 4. False: it is none. */
bool hf_base64(const char *text, size_t n, uint8_t *to, size_t *length);

/* Reads the number of a token: a JSON integer, or (a key of an object) its digits. Negative ones and those of
 * 2^32 or more are errors. */
bool hf_token_id(const hf_tokenizer *t, const char *file, const json_t *id, uint64_t *value, gq_error *e);
bool hf_token_id_of_key(const hf_tokenizer *t, const char *file, const char *key, uint64_t *value,
                        gq_error *e);
/* Sets t->n to the config's vocab_size, or without one to `counted`, rounded up to a multiple. */
bool hf_tokenizer_size(hf_tokenizer *t, uint64_t counted, uint32_t multiple, gq_error *e);
/* Returns token `id`, which must be below t->n; valid until the next call. NULL: no memory. */
hf_token *hf_tokenizer_at(hf_tokenizer *t, uint64_t id, gq_error *e);
/* Sets it. */
bool hf_tokenizer_set(hf_tokenizer *t, uint64_t id, hf_token token, gq_error *e);
/* Keeps a text for the vocabulary's life; NULL: no memory. */
const char *hf_tokenizer_keep(hf_tokenizer *t, const char *text, size_t n, gq_error *e);
/* Sets a token to a copy of a text. */
bool hf_tokenizer_set_copy(hf_tokenizer *t, uint64_t id, const char *text, size_t n, float score,
                           hf_token_type type, gq_error *e);
/* Sets a token that stands for none, "[PAD" and a number. */
bool hf_tokenizer_set_pad(hf_tokenizer *t, uint64_t id, uint64_t number, float score, gq_error *e);
/* Sets an added token: `score`; control if `is_control`, else the user's, whose U+2581 become spaces unless
 * `is_verbatim`. */
bool hf_tokenizer_add(hf_tokenizer *t, uint64_t id, const char *text, size_t n, float score, bool is_control,
                      bool is_verbatim, gq_error *e);
/* Whether a text has the form of a token that stands for no text, whatever its file says. */
bool hf_looks_special(const char *text, size_t n);
/* Writes tokens, types and, if wanted, scores. */
bool hf_tokenizer_write(hf_tokenizer *t, bool with_scores, gq_error *e);
/* Writes the kind of a vocabulary and the name of how texts are cut for it. */
bool hf_tokenizer_write_model(const hf_tokenizer *t, const char *model, const char *pre, gq_error *e);
/* Writes how many kinds of tokens the config has, 1 where it does not say. */
bool hf_tokenizer_write_kinds(const hf_tokenizer *t, gq_error *e);
/* The string of an object's member, or of a string; NULL: neither. */
const json_t *hf_token_content(const json_t *token);

/* ---- tokenizer_pieces.c: tokenizer.model ---- */

typedef enum hf_added_rule {
    HF_ADDED_BY_LOOKS,  /* what looks special is; U+2581 of others become spaces */
    HF_ADDED_AS_TOLD,   /* phi3: `special` alone decides; tokenizer.json's follow */
    HF_ADDED_APPENDED,  /* internlm2: as told; added_tokens.json goes behind the pieces */
    HF_ADDED_REDEFINED, /* arctic: as told by tokenizer_config.json alone, special ones in place of pieces */
} hf_added_rule;

/* Reads the vocabulary of tokenizer.model, which is there. */
bool hf_pieces_vocabulary(hf_tokenizer *t, hf_added_rule rule, uint32_t multiple, bool *adds_space,
                          gq_error *e);

#define HF_UNIGRAM_FILE "sentencepiece.bpe.model"
/* Reads and writes the vocabulary of XLM-RoBERTa's file, which is there: its pieces, but other special tokens. */
bool hf_unigram_write(hf_tokenizer *t, gq_error *e);
/* The file of T5's vocabulary; NULL: the folder has none. */
const char *hf_spiece_file(const hf_tokenizer *t);
/* The same of that file: its pieces as they are, and tokens of added_tokens.json. */
bool hf_spiece_write(hf_tokenizer *t, gq_error *e);

/* ---- tokenizer_template.c ---- */

/* Writes the templates by which messages become a text. */
bool hf_templates_write(hf_tokenizer *t, gq_error *e);
