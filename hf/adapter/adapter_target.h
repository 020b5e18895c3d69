/* The arrays of a model that an adapter's modules are. */
#pragma once

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
    size_t n_left_out; /* modules of parts that the file does not have, and the first of them */
    const char *left_out;
} hf_targets;

bool hf_targets_begin(hf_targets *t, gq_error *e);
void hf_targets_free(hf_targets *t);
/* Finds the source of a module's array; NULL: there is none. */
hf_source *hf_target_find(const hf_targets *t, const char *module, const char *suffix);
/* Whether a module without a source is of a part that this file does not have: a tower that sees, where the text model is
 * made, the text model, where the projector is. Counts those that nothing else says of. */
bool hf_target_is_elsewhere(hf_targets *t, const hf_adapted *m, const char *suffix);
/* Whether this adapter changes or replaces a source. */
bool hf_target_has_change(const hf_targets *t, const hf_source *s);
/* Adds a source without an array. NULL: the model has no place for it, or there is no memory. */
hf_source *hf_target_add(hf_targets *t, const char *module, const char *suffix, gq_error *e);
/* Adds a source for the head `module`, which is the embedding in this model, with the embedding's array; if that is
 * known. */
bool hf_target_copy_embedding(hf_targets *t, const char *module, gq_error *e);
/* Has a source read another array, of one dimension or more. */
void hf_target_replace(hf_source *s, const hf_list *l, const hf_stored *by);
/* Puts an adapter's rows of single tokens in the place of the embedding's. */
bool hf_target_replace_rows(hf_targets *t, const hf_adapted *m, gq_error *e);
/* Whether the name that a module and a suffix make becomes the tensor `tensor`, as rules name it. */
bool hf_target_is(const hf_build *b, const char *module, const char *suffix, const char *tensor);
/* Whether the rule of a source turns its matrices: they are stored with inputs as rows. */
bool hf_target_turns(const hf_targets *t, const hf_source *s);
/* Writes a module's name without ".base_layer" behind it, which nested changes have. */
void hf_target_module(const char *name, char *to, size_t size);
/* Whether a name is that of one expert's part of a parameter of all, in a module whose name ends with `head`. */
bool hf_target_is_expert_of(const char *name, const char *head, const char *parameter);
/* Names of one expert's matrices that lie one behind the other in an array of all; two spellings. */
typedef struct hf_expert_parts {
    const char *parameter, *parts[2][2];
    unsigned n;
} hf_expert_parts;
extern const hf_expert_parts hf_expert_part_rows[]; /* the last has no parameter */
