/* Shared by the files of the tokenizer's part: the vocabulary that is being made, and the folder's files
 * that it is made from. Callers outside include hf/tokenizer.h.
 */
#ifndef GQ_HF_TOKENIZER_PARTS_H
#define GQ_HF_TOKENIZER_PARTS_H

#include "hf/config.h"
#include "hf/pairs.h"

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
    const char *text; /* UTF-8, not NUL-terminated; NULL: no file has a token of this number */
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
    bool is_gpt2;            /* merges of bytes; else pieces with scores, or gemma4's merges of characters */
    bool has_merges;
    bool is_glm; /* llama.cpp has a name of its own for how these cut texts */
} hf_tokenizer;

/* ---- tokenizer_vocabulary.c ---- */

bool hf_is_utf8(const char *text, size_t n);
/* Fails with a sentence about a file of the folder: its path goes in front. */
#define hf_tokenizer_fail(t, file, e, format, ...) \
    gq_fail(e, "%s/%s: " format, (t)->folder->path, file, ##__VA_ARGS__)
/* Reads the number of a token: a JSON integer, or (a key of an object) its digits. Negative ones and those of
 * 2^32 or more are errors. */
bool hf_token_id(const hf_tokenizer *t, const char *file, const json_t *id, uint64_t *value, gq_error *e);
bool hf_token_id_of_key(const hf_tokenizer *t, const char *file, const char *key, uint64_t *value,
                        gq_error *e);
/* Sets t->n to the config's vocab_size, or without one to `counted`, rounded up to a multiple. */
bool hf_tokenizer_size(hf_tokenizer *t, uint64_t counted, uint32_t multiple, gq_error *e);
/* Returns token `id`, which must be below t->n; valid until the next call. NULL: no memory. */
hf_token *hf_tokenizer_at(hf_tokenizer *t, uint64_t id, gq_error *e);
/* Keeps a text for the vocabulary's life; NULL: no memory. */
const char *hf_tokenizer_keep(hf_tokenizer *t, const char *text, size_t n, gq_error *e);
/* Sets an added token: `score`; control if `is_control`, else the user's, whose U+2581 become spaces unless
 * `is_verbatim`. */
bool hf_tokenizer_add(hf_tokenizer *t, uint64_t id, const char *text, size_t n, float score, bool is_control,
                      bool is_verbatim, gq_error *e);
/* Whether a text has the form of a token that stands for no text, whatever its file says. */
bool hf_looks_special(const char *text, size_t n);
/* Writes tokens, types and, if wanted, scores. */
bool hf_tokenizer_write(hf_tokenizer *t, bool with_scores, gq_error *e);
/* The string of an object's member, or of a string; NULL: neither. */
const json_t *hf_token_content(const json_t *token);

/* ---- tokenizer_pieces.c: tokenizer.model ---- */

typedef enum hf_added_rule {
    HF_ADDED_BY_LOOKS, /* what looks special is; U+2581 of others become spaces */
    HF_ADDED_AS_TOLD,  /* phi3: `special` alone decides; tokenizer.json's follow */
    HF_ADDED_APPENDED, /* internlm2: as told; added_tokens.json goes behind the pieces */
} hf_added_rule;

/* Reads the vocabulary of tokenizer.model, which is there. */
bool hf_pieces_vocabulary(hf_tokenizer *t, hf_added_rule rule, uint32_t multiple, bool *adds_space,
                          gq_error *e);

/* ---- tokenizer_merges.c: tokenizer.json ---- */

/* Whether tokenizer.json holds a sentencepiece model: merges of characters, bytes for what is unknown. */
bool hf_json_has_pieces(const hf_tokenizer *t);
/* Whether such a file puts a space in front of texts. */
bool hf_json_adds_space(const hf_tokenizer *t);
/* Reads the vocabulary of such a file as pieces: scores are made from the merges. is_gemma4: it will be run
 * by its merges, and a few of its control tokens are the user's. */
bool hf_json_pieces_vocabulary(hf_tokenizer *t, bool is_gemma4, gq_error *e);
/* Reads the vocabulary of tokenizer.json for merges of bytes. */
bool hf_json_vocabulary(hf_tokenizer *t, uint32_t multiple, gq_error *e);
/* Writes the merges of tokenizer.json, or of merges.txt. */
bool hf_merges_write(hf_tokenizer *t, gq_error *e);

/* ---- tokenizer_special.c: ids of special tokens ---- */

typedef enum hf_special_type {
    HF_BOS,
    HF_EOS,
    HF_UNK,
    HF_SEP,
    HF_PAD,
    HF_CLS,
    HF_MASK,
    HF_EOT,
    HF_EOM,
    HF_SPECIALS
} hf_special_type;

typedef struct hf_special {
    const json_t *token; /* as tokenizer_config.json, or a template, has it; NULL: it does not */
    bool is_wanted;      /* looked for in the files */
    bool is_set;         /* has an id */
    uint32_t id;
    int flag; /* whether it is added to texts: 1, 0; -1: not known */
} hf_special;

typedef struct hf_specials {
    hf_special of[HF_SPECIALS];
    uint64_t below;  /* larger ids are left out */
    bool leaves_pad; /* padding is not looked for */
} hf_specials;

/* Finds ids and flags in the folder's files; `below` and `leaves_pad` are set, the rest is zero. */
bool hf_specials_find(hf_specials *s, const hf_tokenizer *t, gq_error *e);
/* Finds the first added token of tokenizer.json of this text, and its id. */
bool hf_special_find_text(const hf_tokenizer *t, const char *text, hf_special *found);
/* Sets the id of tokenizer.json's added token of this text, unless there is one; the token must be there. */
bool hf_specials_set_text(hf_specials *s, const hf_tokenizer *t, hf_special_type type, const char *text,
                          gq_error *e);
/* Sets the end of texts, where none is known, to the first of several that config.json lists, and warns of
 * it. */
bool hf_specials_set_first_end(hf_specials *s, const hf_tokenizer *t, gq_error *e);
bool hf_specials_write(const hf_specials *s, hf_pairs *pairs, gq_error *e);

/* ---- tokenizer_template.c ---- */

/* Writes the templates by which messages become a text. */
bool hf_templates_write(hf_tokenizer *t, gq_error *e);

#endif
