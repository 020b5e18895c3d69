/* The arrays of a model that an adapter's modules are. */
#ifndef GQ_HF_ADAPTER_ADAPTER_TARGET_H
#define GQ_HF_ADAPTER_ADAPTER_TARGET_H

#include "hf/adapter/adapter.h"
#include "hf/tensors/build.h"

enum { HF_TARGET_BYTES = 512 };

/* A source with the rule and the numbers of its name. */
typedef struct hf_target_rule {
    const char *to, *suffix;
    uint64_t layer, expert;
    size_t source;
} hf_target_rule;

/* The sources of a build, to be found by an adapter's names. Pointers to sources are good until one is
 * added. */
typedef struct hf_targets {
    const hf_adapter *adapter;
    hf_build *build;
    name_index by_name;
    hf_target_rule *by_rule; /* sorted; n_rules of them */
    size_t n_rules;
    size_t n_left_out; /* modules of parts that the model's GGUF does not have, and the first of them */
    const char *left_out;
} hf_targets;

bool hf_targets_begin(hf_targets *t, gq_error *e);
void hf_targets_free(hf_targets *t);
/* Finds the source of a module's array; NULL: there is none. *left_out: it is of a part that is no part of
 * the language model, such as a tower that sees. */
hf_source *hf_target_find(const hf_targets *t, const char *module, const char *suffix, bool *left_out);
/* Adds a source without an array. NULL: the model has no place for it, or there is no memory. */
hf_source *hf_target_add(hf_targets *t, const char *module, const char *suffix, gq_error *e);
/* Has a source read another array, which is 1- or 2-dimensional. */
void hf_target_replace(hf_source *s, const hf_list *l, const hf_stored *by);
/* Puts an adapter's rows of single tokens in the place of the embedding's. */
bool hf_target_replace_rows(hf_targets *t, const hf_adapted *m, gq_error *e);
/* Whether the name that a module and a suffix make becomes the tensor `tensor`, as rules name it. */
bool hf_target_is(const hf_build *b, const char *module, const char *suffix, const char *tensor);
/* Whether the rule of a source turns its matrices: they are stored with inputs as rows. */
bool hf_target_turns(const hf_targets *t, const hf_source *s);
/* Writes a module's name without ".base_layer" behind it, which nested changes have. */
void hf_target_module(const char *name, char *to, size_t size);
/* Fails where the config names modules that the model has and the adapter lacks. */
bool hf_target_check_complete(const hf_targets *t, gq_error *e);

#endif
