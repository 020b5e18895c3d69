/* Facts from a model's metadata: its architecture, values under its architecture's keys, and the block in a
 * tensor's name. */
#pragma once

#include "gguf/model.h"

typedef struct model_facts {
    const model_kv *kv; /* the model's */
    uint64_t n_kv;
    const model_kv *set; /* KV pairs that replace those of `kv` with the same key; the last of several counts */
    uint64_t n_set;
    char arch[128]; /* general.architecture; "": unknown */
} model_facts;

/* Collects the facts of two lists of KV pairs, which stay the caller's and must outlive them. */
model_facts model_facts_of(const model_kv *kv, uint64_t n_kv, const model_kv *set, uint64_t n_set);
/* Finds a KV pair by its whole key; NULL: absent. */
const model_kv *model_facts_find(const model_facts *f, const char *key);
/* Whether the KV pair of a whole key is this text. */
bool model_fact_is(const model_facts *f, const char *key, const char *text);
/* Returns the KV pair under {arch}.name; NULL: absent. */
const model_kv *model_fact(const model_facts *f, const char *name);
/* Element i of a list of integers or bools; a value that is no list counts for every i. false: there is none,
 * or kv is NULL. */
bool model_fact_at(const model_kv *kv, uint64_t i, int64_t *value);
/* An integer under {arch}.name, or the first of a list of them; false: not there. */
bool model_fact_int(const model_facts *f, const char *name, int64_t *value);

/* The block in a name: N of the first "blk.N." Numbers with leading zeros or of more than nine digits are
 * none, so that two names never mean one block. */
typedef struct model_block {
    uint64_t number;
    const char *digits, *rest; /* point into the name: to N, and behind the second dot */
} model_block;
bool model_block_in(const char *name, model_block *b);
/* Finds a block only where the name begins with it. */
bool model_block_leads(const char *name, model_block *b);
/* Returns the block number as llama.cpp reads it to order tensors and count blocks: any number behind a
 * leading "blk.", -1 when there is none; very long ones end at INT64_MAX. */
int64_t model_block_number(const char *name);

/* ---- what two models' metadata say otherwise of how they are run ---- */

/* Warns of metadata keys of the base model's architecture that the quant lacks, has in addition, or has with
 * another value: the first few with both values. If the quant has another number of layers, arrays and counts
 * of layers are not compared. A file of another architecture is no quant of the model. */
bool differing_warn(const model_source *original, const model_source *copy, warning_list *to, gq_error *e);
