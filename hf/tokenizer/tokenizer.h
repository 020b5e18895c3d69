/* tokenizer.ggml.*: vocabularies of all kinds, special ids, how a text is cut before it is encoded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "hf/folder/folder.h"

/* ---- tokenizer_vocabulary.c ----
 * A vocabulary in the making, and the folder's files that it is made from: tokens set by number, and written when all
 * are known. Callers outside include hf/tokenizer/tokenizer.h. */

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
    hf_metadata *metadata;
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
    HF_ADDED_AS_SET,    /* phi3: `special` alone decides; tokenizer.json's follow */
    HF_ADDED_APPENDED,  /* internlm2: as told; added_tokens.json goes behind the pieces */
    HF_ADDED_REDEFINED, /* arctic: as known by tokenizer_config.json alone, special ones in place of pieces */
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

/* ---- check_name.c: the name of a pre-tokenizer by the ids that the folder's own tokenizer gives one text. ---- */

/* Encodes the text as tokenizer.json says, which cuts by `lines` (hf/tokenizer/pretokenizer.c), and looks the ids up,
 * with BOS in front and without. *name NULL: no such ids are known, or the steps are not of a kind that can
 * be carried out here. */
bool hf_check_name(const hf_tokenizer *t, const char *lines, const char **name, gq_error *e);

/* Writes the visible character that stands for a byte in vocabularies of bytes; returns its bytes, 1 or 2. */
size_t hf_byte_character(uint8_t byte, char *to);

/* ---- pretokenizer.c: the name that GGUF files give to how a text is cut before its pieces are encoded. ---- */

/* Writes tokenizer.ggml.pre by the pre_tokenizer of t->json; an unknown one sets *t->unknown_cut instead. */
bool hf_pretokenizer_write(hf_tokenizer *t, gq_error *e);

/* ---- probe.c: recognizes how a folder cuts texts by what its regular expressions make of one text. ---- */

enum {
    HF_PROBE_STEPS = 16, /* steps of a chain; published ones have at most six */
    HF_PROBE_MOST = 1024 /* bytes of a text that is cut */
};

/* The text by whose ids llama.cpp's converter names pre-tokenizers. */
#define HF_CHECK_TEXT \
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\342\200\215🌫\357\270\217 (" \
    "multiple emojis concatenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 " \
    "3...3 កាន់តែពិសេសអាច😁 ?我想在apple工作1314151天～ ------======= нещо на Български ''''''```````" \
    "\"\"\"\"......!!!!!!?\??\??\? I've been 'told he's there, 'RE you sure? 'M not sure I'll" \
    " make it, 'D you like some tea? We'Ve a'lL"
/* The text; a NUL follows the n bytes. llama.cpp's groups of pre-tokenizers cut it in ways of their own, but for two,
 * which cut all texts alike. */
extern const char hf_probe_text[];
extern const size_t hf_probe_bytes;

/* The cuts of the text: a bit for every byte that a piece begins at. */
typedef struct hf_probe_cuts {
    uint8_t bits[128];
} hf_probe_cuts;

static inline void hf_probe_mark(hf_probe_cuts *c, size_t at) { c->bits[at / 8] |= (uint8_t)(1 << at % 8); }
static inline bool hf_probe_is_cut(const hf_probe_cuts *c, size_t at) {
    return c->bits[at / 8] >> at % 8 & 1;
}
/* Returns the name of a group that cuts the text so; NULL: none does. */
const char *hf_probe_name(const hf_probe_cuts *c);

/* Cuts any text of at most HF_PROBE_MOST bytes by steps as hf/tokenizer/pretokenizer.c has them: lines that begin with
 * S, D or B. *is_cut false: the steps cannot be run. Expressions of any origin: they get little time and
 * memory. */
bool hf_probe_cut(const char *lines, const char *text, size_t n, hf_probe_cuts *cuts, bool *is_cut,
                  gq_error *e);
/* Cuts the probe's text; *name NULL: no group cuts it so, or the steps cannot be run. */
bool hf_probe_run(const char *lines, const char **name, gq_error *e);

/* ---- sentencepiece.c ----
 * tokenizer.model: the vocabulary of a sentencepiece model, a message of Protocol Buffers. */

/* The numbers of ModelProto.SentencePiece.Type: the order counts. */
typedef enum hf_piece_type {
    HF_PIECE_NORMAL = 1,
    HF_PIECE_UNKNOWN,
    HF_PIECE_CONTROL,
    HF_PIECE_USER,
    HF_PIECE_UNUSED,
    HF_PIECE_BYTE
} hf_piece_type;

typedef struct hf_token_piece {
    const char *text; /* UTF-8 within the file's bytes, not NUL-terminated */
    uint32_t length;
    float score; /* finite */
    hf_piece_type type;
} hf_token_piece;

typedef struct hf_pieces {
    hf_token_piece *pieces; /* by their numbers; at least one */
    size_t n, capacity;
    bool adds_space; /* a space goes in front of a text before it is encoded */
    bool trims;      /* spaces at its ends, and all but one between words, are left out */
    bool is_unigram; /* a text is cut into the pieces of the largest sum of scores; else pieces are merged */
    const uint8_t
        *characters; /* map of characters (precompiled_charsmap), n_characters bytes; NULL: not in the file */
    size_t n_characters;
} hf_pieces;

/* Reads n bytes, which must stay as long as the pieces. `name` is the file, for messages. */
bool hf_pieces_read(hf_pieces *p, const char *name, const void *bytes, size_t n, gq_error *e);
void hf_pieces_free(hf_pieces *p);

/* ---- tokenizer.c ----
 * tokenizer.ggml.*: a vocabulary, its special ids, chat templates, and the name of how a text is cut before it is
 * encoded, from tokenizer.json or tokenizer.model and the files beside them. */

/* Adds the metadata; *n_tokens is the length of the vocabulary, which the embedding must have rows for.
 * *unknown_cut (the caller frees it; may become NULL): a sentence with the regular expression of a
 * pre-tokenizer that no name is known for; then tokenizer.ggml.pre is missing, and the caller decides. */
bool hf_tokenizer_metadata(hf_folder *f, const hf_config *c, hf_metadata *metadata, uint64_t *n_tokens,
                           char **unknown_cut, gq_error *e);

/* ---- tokenizer_lines.c ----
 * Vocabularies that have a token a line: PLaMo's, Qwen 1's bytes in the order of their ranks, and RWKV's. */

/* Reads tokenizer.jsonl and writes all metadata of the tokenizer but its template. */
bool hf_lines_write(hf_tokenizer *t, gq_error *e);
/* Reads qwen.tiktoken and writes all metadata of the tokenizer. */
bool hf_ranks_write(hf_tokenizer *t, gq_error *e);
/* The same of rwkv_vocab_v20230424.txt. */
bool hf_world_write(hf_tokenizer *t, gq_error *e);

/* ---- tokenizer_merges.c: vocabularies and merges of tokenizer.json. ---- */

/* Whether tokenizer.json holds a sentencepiece model: merges of characters, bytes for what is unknown. */
bool hf_json_has_pieces(const hf_tokenizer *t);
/* Whether such a file puts a space in front of texts. */
bool hf_json_adds_space(const hf_tokenizer *t);
/* Reads the vocabulary of such a file as pieces: scores are made from the merges. is_gemma4: it will be run
 * by its merges, and a few of its control tokens are the user's. */
bool hf_json_pieces_vocabulary(hf_tokenizer *t, bool is_gemma4, gq_error *e);
/* Reads the vocabulary of tokenizer.json for merges of bytes. */
bool hf_json_vocabulary(hf_tokenizer *t, uint32_t multiple, gq_error *e);
/* The halves of a merge, which are not NUL-terminated. */
typedef struct hf_merge {
    const char *left, *right;
    size_t n_left, n_right;
} hf_merge;
/* Splits an element of "merges", "left right" or [left, right]. False: it is neither. */
bool hf_merge_split(const json_t *merge, hf_merge *m);
/* Writes the merges of tokenizer.json, or of merges.txt. */
bool hf_merges_write(hf_tokenizer *t, gq_error *e);

/* ---- tokenizer_special.c: ids of special tokens, and whether they are added to texts. ---- */

/* The order counts: the files of a folder name those before HF_EOT, and those up to HF_UNK have an id in every
 * vocabulary that has a token a line. */
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
    uint64_t below;      /* larger ids are left out */
    bool leaves_pad;     /* padding is not looked for */
    const json_t *first; /* the token that begins texts, if it is not BOS; else NULL */
} hf_specials;

/* Finds ids and flags in the folder's files; `below` and `leaves_pad` are set, the rest is zero. */
bool hf_specials_find(hf_specials *s, const hf_tokenizer *t, gq_error *e);
/* Finds the first added token of tokenizer.json of this text, and its id. */
bool hf_special_find_text(const hf_tokenizer *t, const char *text, hf_special *found);
/* Sets the id of tokenizer.json's added token of this text, unless there is one; the token must be there. */
bool hf_specials_set_text(hf_specials *s, const hf_tokenizer *t, hf_special_type type, const char *text,
                          gq_error *e);
/* Sets the end of texts, where none is known, to the first of several that config.json lists, and warns of
 * it, and where there is none. */
bool hf_specials_set_first_end(hf_specials *s, const hf_tokenizer *t, gq_error *e);
/* Warns of tokens that are to be added to texts and that no file names, and does not have them added. */
bool hf_specials_drop_flags(hf_specials *s, const hf_tokenizer *t, gq_error *e);
bool hf_specials_write(const hf_specials *s, hf_metadata *metadata, gq_error *e);

/* ---- tokenizer_words.c ----
 * Vocabularies of tokenizer.json whose words are cut into the longest tokens (WordPiece), or whose tokens have scores,
 * the largest sum of which decides (unigrams). */

bool hf_json_has_words(const hf_tokenizer *t);
/* Reads the vocabulary. U+2581 goes before tokens that begin a word, and "##" is cut off the others. */
bool hf_words_vocabulary(hf_tokenizer *t, gq_error *e);
/* Writes the name of how texts are cut, what is done to characters, and the number of kinds of tokens. */
bool hf_words_write(hf_tokenizer *t, gq_error *e);

bool hf_json_has_unigrams(const hf_tokenizer *t);
/* Reads and writes the vocabulary, the map of characters, and the number of kinds of tokens. */
bool hf_json_unigrams_write(hf_tokenizer *t, gq_error *e);
