/* Shared by the files of the tokenizer's part: the vocabulary that is being made, and the folder's files
 * that it is made from. Callers outside include hf/tokenizer/tokenizer.h.
 */
#ifndef GQ_HF_TOKENIZER_PARTS_H
#define GQ_HF_TOKENIZER_PARTS_H

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

/* Fails with a sentence about a file of the folder: its path goes in front. */
#define hf_tokenizer_fail(t, file, e, format, ...) \
    gq_fail(e, "%s/%s: " format, (t)->folder->path, file, ##__VA_ARGS__)

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

#endif
