/* Adapters brought to the arrays of a model's folder. */
#pragma once

#include "hf/adapter/adapter.h"
#include "hf/tensors/build.h"

typedef struct hf_adapters {
    hf_adapter *items; /* n of them, in the order in which they are merged */
    size_t n;
} hf_adapters;

/* Opens all. On failure, too, hf_adapters_close has to be called. */
bool hf_adapters_open(hf_adapters *a, const gq_adapters *given, gq_error *e);
void hf_adapters_close(hf_adapters *a);
/* Returns the folder whose tokenizer the merged model has: that of the last adapter that has one, which is
 * told, or else the model's. Takes over the number of tokens where an adapter has resized the embedding. */
bool hf_adapters_settle_tokens(hf_adapters *a, hf_config *c, const hf_list *l, hf_folder **tokens,
                               gq_error *e);
/* Notes which modules the model's folder has arrays of: where a projector is made, whose list loses the others. */
void hf_adapters_find_modules(hf_adapters *a, const hf_list *l);
/* Gives the sources of a build the changes of all adapters, and replaces or adds those that an adapter has in
 * whole. Fails where an adapter is of another model, and for arrays that belong to nothing. */
bool hf_adapters_attach(const hf_adapters *a, hf_build *b, gq_error *e);
/* Looks, in a finished build, for changes of arrays that no tensor is made of: refused in a projector, told in a model. */
bool hf_adapters_check_used(const hf_adapters *a, const hf_build *b, gq_error *e);
/* Adds a pair that says what was merged: names of folders, factors and checksums. A projector has it where they change it.
 */
bool hf_adapters_pair(const hf_adapters *a, const hf_build *b, hf_pairs *pairs, gq_error *e);
/* Folds all that decides the merged weights into a checksum. */
bool hf_adapters_fold(const hf_adapters *a, uint32_t *content, gq_error *e);
