/* Drafts, and the folder of the model that a draft drafts for: its target. */
#pragma once

#include "hf/folder/config.h"

typedef struct hf_target {
    hf_folder folder;
    hf_config config;
    hf_config tokens; /* the same, for the tokenizer: its vocab_size is the draft's */
} hf_target;

/* Opens the target of a draft, `path`, and sets draft->target; NULL: none is named. A model that needs none must have
 * none. hf_target_close has to be called on failure, too. */
bool hf_target_open(hf_target *t, const char *path, hf_config *draft, gq_error *e);
void hf_target_close(hf_target *t);
/* Fails where a target is named for what is no draft's folder. */
bool hf_target_refuse(const char *target, const char *path, gq_error *e);

/* Returns how many tokens a draft can choose from, where it says so; else 0. */
uint64_t hf_draft_tokens(const hf_config *c);
/* Returns how many numbers of the target's states a draft takes in at each token; 0: it is not known. */
uint64_t hf_draft_states(const hf_config *c);
