/* An adapter as PEFT saves it: adapter_config.json, and pairs of narrow matrices for modules of a model. Its
 * arrays are sorted by what they are for; hf/adapter/adapter_merge.h brings them to the arrays of the model.
 */
#pragma once

#include "base/adapters.h"
#include "hf/arrays/safetensors.h"

/* The arrays of one module; NULL: it has no such array. */
typedef struct hf_adapted {
    const char *module;     /* as the model calls it, without "base_model.model."; owned; first member */
    const hf_stored *a, *b; /* lora_A [r, inputs], lora_B [outputs, r] */
    const hf_stored *embed_a, *embed_b; /* lora_embedding_A [r, tokens], lora_embedding_B [width, r] */
    const hf_stored *bias;              /* of lora_B */
    const hf_stored *magnitude;         /* of DoRA */
    const hf_stored *weight, *own_bias; /* that take the place of the model's: modules_to_save and the like */
    const hf_stored *base, *base_bias;  /* the model's own below a change, saved with it */
    const hf_stored *original, *original_bias; /* the model's own beside what takes its place: not read */
    const hf_stored *rows; /* trainable tokens: rows that take the place of the embedding's */
    bool is_of_folder;     /* the model's folder has such an array: set for projectors */
} hf_adapted;

typedef struct hf_adapter {
    hf_folder folder;
    hf_list list;
    json_t *config;
    char *file; /* path of adapter_config.json, for messages */
    double given_scale;
    double rank, alpha;
    bool rank_stable, has_dora, has_bias; /* use_rslora, use_dora, lora_bias */
    bool
        by_expert; /* lora_B of several experts has one behind the other; else the expert is the faster index */
    hf_adapted *modules; /* sorted by name */
    size_t n, capacity;
} hf_adapter;

/* Opens a folder and checks its config; the arrays are checked as far as they can be without a model. On
 * failure, too, hf_adapter_close has to be called. */
bool hf_adapter_open(hf_adapter *a, const gq_adapter *given, gq_error *e);
void hf_adapter_close(hf_adapter *a);
/* Finds the rank that a module should have, and the factor of its changes, by the patterns of the config. */
bool hf_adapter_scale(const hf_adapter *a, const char *module, double *rank, double *scale, gq_error *e);
/* Folds the config, the arrays' places and a sample of their elements into a checksum. */
bool hf_adapter_fold(const hf_adapter *a, uint32_t *content, gq_error *e);
/* The model that the config names; NULL: none. */
const char *hf_adapter_base(const hf_adapter *a);
/* Whether the folder has a vocabulary of its own. */
bool hf_adapter_has_vocabulary(const hf_adapter *a);
/* The module's matrices, lora_A or lora_embedding_A; NULL: it has none. */
const hf_stored *hf_adapted_pair(const hf_adapted *m);
/* Finds a module by its name; NULL: the adapter has none such. */
const hf_adapted *hf_adapter_find(const hf_adapter *a, const char *module);
/* Whether a list of modules of the config, or an expression, names a module, as PEFT reads them. An expression that cannot
 * be run names none. */
bool hf_adapter_names(const hf_adapter *a, const char *key, const char *module);
/* Whether a module's name is `end`, or ends with a dot and it. */
bool hf_module_ends(const char *module, const char *end);
/* Fails with a sentence about adapter_config.json: its path goes in front. */
#define hf_adapter_fail(a, e, format, ...) gq_fail(e, "%s: " format, (a)->file, ##__VA_ARGS__)
