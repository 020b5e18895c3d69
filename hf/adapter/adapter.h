/* Adapters (LoRA): merged into the model as it is read, or made a file of their own. */
#pragma once

#include "base/adapters.h"
#include "hf/tensors/tensors.h"

/* ---- adapter.c ----
 * An adapter as PEFT saves it: adapter_config.json, and pairs of narrow matrices for modules of a model. Its tensors
 * are sorted by what they are for; hf/adapter/adapter_merge.c brings them to the tensors of the model. */

/* The tensors of one module; NULL: it has no such tensor. */
typedef struct hf_adapted {
    const char *module;     /* as the model calls it, without "base_model.model."; owned; first member */
    const hf_stored *a, *b; /* lora_A [r, inputs], lora_B [outputs, r] */
    const hf_stored *embed_a, *embed_b; /* lora_embedding_A [r, tokens], lora_embedding_B [width, r] */
    const hf_stored *bias;              /* of lora_B */
    const hf_stored *magnitude;         /* of DoRA */
    const hf_stored *weight, *own_bias; /* tensors that replace the model's: modules_to_save and the like */
    const hf_stored *base, *base_bias;  /* the model's own below a change, saved with it */
    const hf_stored *original, *original_bias; /* the model's own beside what takes its place: not read */
    const hf_stored *rows; /* trainable tokens: rows that take the place of the embedding's */
    bool is_of_folder;     /* the model's folder has such a tensor: set for projectors */
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

/* Opens a folder and checks its config; the tensors are checked as far as they can be without a model. On
 * failure, too, hf_adapter_close has to be called. */
bool hf_adapter_open(hf_adapter *a, const gq_adapter *given, gq_error *e);
void hf_adapter_close(hf_adapter *a);
/* Finds the rank that a module should have, and the factor of its changes, by the patterns of the config. */
bool hf_adapter_scale(const hf_adapter *a, const char *module, double *rank, double *scale, gq_error *e);
/* Folds the config, the tensors' places and a sample of their elements into a checksum. */
bool hf_adapter_fold(const hf_adapter *a, uint32_t *content, gq_error *e);
/* The model that the config names; NULL: none. */
const char *hf_adapter_base(const hf_adapter *a);
/* Whether the folder has a vocabulary of its own. */
bool hf_adapter_has_vocabulary(const hf_adapter *a);
/* The module's matrices, lora_A or lora_embedding_A; NULL: it has none. */
const hf_stored *hf_adapted_lora(const hf_adapted *m);
/* Finds a module by its name; NULL: the adapter has none such. */
const hf_adapted *hf_adapter_find(const hf_adapter *a, const char *module);
/* Whether a list of modules of the config, or an expression, names a module, as PEFT reads them. An expression that
 * cannot be run names none. */
bool hf_adapter_names(const hf_adapter *a, const char *key, const char *module);
/* Whether a module's name is `end`, or ends with a dot and it. */
bool hf_module_ends(const char *module, const char *end);
/* Fails with a sentence about adapter_config.json: its path goes in front. */
#define hf_adapter_fail(a, e, format, ...) gq_fail(e, "%s: " format, (a)->file, ##__VA_ARGS__)

/* ---- adapter_module.c: the tensors of a model that an adapter's modules are. ---- */

enum { HF_MODULE_BYTES = 512 };

/* A source with the rule and the numbers of its name. */
typedef struct hf_module_rule {
    const char *to, *suffix;
    uint64_t layer, expert;
    size_t source;
} hf_module_rule;

/* The sources of a build, to be found by an adapter's names. Pointers to sources are good until one is added. */
typedef struct hf_modules {
    const hf_adapter *adapter;
    hf_build *build;
    name_index by_name;
    hf_module_rule *by_rule; /* sorted; n_rules of them */
    size_t n_rules;
    size_t n_left_out; /* modules of parts that the file does not have, and the first of them */
    const char *left_out;
} hf_modules;

bool hf_modules_begin(hf_modules *t, gq_error *e);
void hf_modules_free(hf_modules *t);
/* Finds the source of a module's tensor; NULL: there is none. */
hf_source *hf_module_find(const hf_modules *t, const char *module, const char *suffix);
/* Whether a module without a source is of a part that this file does not have: a vision encoder, where the text
 * model is made, the text model, where the projector is. Counts those that nothing else says of. */
bool hf_module_is_elsewhere(hf_modules *t, const hf_adapted *m, const char *suffix);
/* Whether this adapter changes or replaces a source. */
bool hf_module_has_change(const hf_modules *t, const hf_source *s);
/* Adds a source without a tensor. NULL: the model has no place for it, or there is no memory. */
hf_source *hf_module_add(hf_modules *t, const char *module, const char *suffix, gq_error *e);
/* Adds a source for the head `module`, which is the embedding in this model, with the embedding's tensor; if that is
 * known. */
bool hf_module_copy_embedding(hf_modules *t, const char *module, gq_error *e);
/* Makes a source read another tensor, of one dimension or more. */
void hf_module_replace(hf_source *s, const hf_list *l, const hf_stored *by);
/* Puts an adapter's rows of single tokens in the place of the embedding's. */
bool hf_module_replace_rows(hf_modules *t, const hf_adapted *m, gq_error *e);
/* Whether the name that a module and a suffix make becomes the tensor `tensor`, as rules name it. */
bool hf_module_is(const hf_build *b, const char *module, const char *suffix, const char *tensor);
/* Whether the rule of a source transposes its matrices: they are stored with inputs as rows. */
bool hf_module_is_transposed(const hf_modules *t, const hf_source *s);
/* Writes a module's name without ".base_layer" behind it, which nested changes have. */
void hf_module_name(const char *name, char *to, size_t size);
/* Whether a name is that of one expert's part of a parameter of all, in a module whose name ends with `head`. */
bool hf_module_is_expert_of(const char *name, const char *head, const char *parameter);
/* Names of one expert's matrices that lie one behind the other in a tensor of all; two spellings. */
typedef struct hf_expert_matrices {
    const char *parameter, *parts[2][2];
    unsigned n;
} hf_expert_matrices;
extern const hf_expert_matrices hf_expert_matrix_rows[]; /* the last has no parameter */

/* ---- adapter_check.c: whether an adapter has all that its config names. ---- */

/* Compares an attached adapter with its config: fails where tensors are missing that the config names, and where
 * it names others than there are. Where the model may lack what a name stands for, it warns. */
bool hf_adapter_check_complete(const hf_modules *t, gq_error *e);

/* ---- adapter_file.c: an adapter's folder as the GGUF file that llama.cpp loads beside a model (--lora). ---- */

/* Opens the adapter in `path` with the config of the model's folder `base`, whose weights need not be there:
 * a tensor TENSOR.lora_a and one TENSOR.lora_b for each matrix that it changes, as llama.cpp's
 * convert_lora_to_gguf.py has them. */
bool hf_adapter_file_open(model_source *m, const char *path, const char *base, gq_error *e);

/* ---- adapter_merge.c: adapters brought to the tensors of a model's folder. ---- */

typedef struct hf_adapters {
    hf_adapter *items; /* n of them, in the order in which they are merged */
    size_t n;
} hf_adapters;

/* Opens all. On failure, too, hf_adapters_close has to be called. */
bool hf_adapters_open(hf_adapters *a, const gq_adapters *given, gq_error *e);
void hf_adapters_close(hf_adapters *a);
/* Returns the folder whose tokenizer the merged model has: that of the last adapter that has one, with a
 * warning, or else the model's. Takes over the number of tokens where an adapter has resized the embedding. */
bool hf_adapters_settle_tokens(hf_adapters *a, hf_config *c, const hf_list *l, hf_folder **tokens,
                               gq_error *e);
/* Notes which modules the model's folder has tensors of: where a projector is made, whose list loses the others. */
void hf_adapters_find_modules(hf_adapters *a, const hf_list *l);
/* Gives the sources of a build the changes of all adapters, and replaces or adds those that an adapter has in
 * whole. Fails where an adapter is of another model, and for tensors that belong to nothing. */
bool hf_adapters_attach(const hf_adapters *a, hf_build *b, gq_error *e);
/* Looks, in a finished build, for changes of tensors that no tensor is made of: refused in a projector, reported
 * in a model. */
bool hf_adapters_check_used(const hf_adapters *a, const hf_build *b, gq_error *e);
/* Adds metadata on what was merged: names of folders, factors and checksums. A projector has it if an adapter
 * changes the projector. */
bool hf_adapters_metadata(const hf_adapters *a, const hf_build *b, hf_metadata *metadata, gq_error *e);
/* Folds all that decides the merged weights into a checksum. */
bool hf_adapters_fold(const hf_adapters *a, uint32_t *content, gq_error *e);
