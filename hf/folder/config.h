/* config.json: which architecture, and its numbers by any of the names that models give them. */
#pragma once

#include "arch/arch.h"
#include "hf/folder/folder.h"

typedef struct hf_config {
    hf_folder *folder;
    char *file;     /* path of config.json, for messages */
    json_t *stored; /* the object as the file has it */
    json_t *
        modules; /* those of an encoder's modules.json, an array; NULL: there are none (hf/metadata/modules.h) */
    json_t *merged; /* text_config's values over the root's */
    json_t *rope; /* the rotation's parameters as the models' several spellings mean them: rope_parameters, or
                   * rope_scaling, completed from the root */
    const char *class_name;         /* architectures[0] that decides; owned by the objects */
    const char *arch;               /* general.architecture */
    const architecture *row;        /* of arch */
    const arch_class *class_row;    /* of class_name, in this row */
    const arch_folder *like;        /* whose pairs and rules the folder has: the row's, or another one's */
    uint64_t layers;                /* main blocks */
    uint64_t predicting;            /* blocks behind them that predict further tokens */
    const struct hf_config *target; /* of a draft: the model that it drafts for; else NULL */
    bool is_lent;                   /* a target's, for the tokenizer of a draft */
} hf_config;

static inline uint64_t hf_config_blocks(const hf_config *c) { return c->layers + c->predicting; }

/* Values of `merged`. `names`: one name, or several with '|' between them, of which the first that is a key
 * counts, even if its value is null. NULL: no such key, or null. A name may go into objects:
 * "attn_config.kv_n_heads". */
const json_t *hf_config_find(const hf_config *c, const char *names); /* the same, but null is a value */
const json_t *hf_config_get(const hf_config *c, const char *names);
bool hf_config_has(const hf_config *c, const char *names); /* the key is there; null counts, too */
/* Each reads a value of its kind. False: it is not there, or of another kind, and *e names key, file and what
 * was found. An integer is a JSON integer from 0 to 2^32 - 1; a float any number that a 32-bit float can
 * hold. */
bool hf_config_u32(const hf_config *c, const char *names, uint32_t *value, gq_error *e);
bool hf_config_float(const hf_config *c, const char *names, double *value, gq_error *e);
bool hf_config_bool(const hf_config *c, const char *names, bool *value, gq_error *e);
/* The same where the value may be missing, or null: then it is the default. */
bool hf_config_u32_or(const hf_config *c, const char *names, uint32_t missing, uint32_t *value, gq_error *e);
bool hf_config_float_or(const hf_config *c, const char *names, double missing, double *value, gq_error *e);
bool hf_config_bool_or(const hf_config *c, const char *names, bool missing, bool *value, gq_error *e);
/* Returns the text of a key; NULL: it is not there, or no text. */
const char *hf_config_text(const hf_config *c, const char *names);
/* Reads a value that is no member of `merged` itself; `what` names it in the message. */
bool hf_value_u32(const hf_config *c, const json_t *v, const char *what, uint32_t *value, gq_error *e);
bool hf_value_float(const hf_config *c, const json_t *v, const char *what, double *value, gq_error *e);
/* Fails with a sentence about config.json: its path goes in front. */
#define hf_config_fail(c, e, format, ...) gq_fail(e, "%s: " format, (c)->file, ##__VA_ARGS__)

/* ---- sizes that several rules need ---- */

typedef struct hf_sizes {
    uint32_t width; /* hidden_size */
    uint32_t heads, kv_heads;
    uint32_t head_width; /* head_dim, or width / heads */
} hf_sizes;
/* Sizes that a model has no use for may be missing: 0. */
bool hf_config_sizes(const hf_config *c, hf_sizes *s, gq_error *e);
