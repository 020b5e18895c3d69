/* Ids of special tokens, and whether they are added to texts. */
#pragma once

#include "hf/tokenizer/tokenizer_vocabulary.h"

/* The order counts: the files of a folder name those before HF_EOT, and those up to HF_UNK have an id in every vocabulary
 * that has a token a line. */
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
