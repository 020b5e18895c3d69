/* Names of source tensors: one spelling for all releases, the rule that each has, and back from a tensor to its source. */
#pragma once

#include "arch/projector.h"
#include "hf/tensors/build.h"

typedef enum hf_name_result {
    HF_NAME_FOUND,
    HF_NAME_LEFT_OUT, /* encoders and buffers */
    HF_NAME_UNKNOWN,
    HF_NAME_TOO_LONG
} hf_name_result;

/* Looks a name up: as it is, else with what begins the names of its kind of model put in front, or with a
 * "model." too many taken away. The build counts what had to be put or taken. */
hf_name_result hf_names_find_rule(hf_build *b, const char *name, hf_found *f);
/* Finds the rule of a name that a projector takes, also where "model." in front is too much or missing. Left out: such a
 * name without a rule. */
hf_name_result hf_names_find_projector_rule(const arch_projector *row, const char *name, hf_found *f);
/* Puts pieces in place of others. False: the name becomes too long. */
bool hf_names_replace(char *name, size_t size, const arch_rename *list);
/* Warns of names that were completed or shortened. */
bool hf_names_warn(const hf_build *b, gq_error *e);
/* Fails for a source tensor whose name is unknown. */
bool hf_names_fail(const hf_build *b, const hf_source *s, gq_error *e);
/* Writes the name of the source tensor, or the pattern of several, that a tensor of this name is made of, or would be:
 * else that of the bias or weight beside what its other half is made of; else what the same tensor of another layer is
 * made of, with this layer's number; else what a rule would take. False: it is not known. */
bool hf_names_find_source(const hf_build *b, const char *name, char *to, size_t size);

/* Sets c->predicting: as many MTP layers as the config announces, if the folder has tensors of any of them. */
bool hf_predicting_find(hf_config *c, const hf_list *l, gq_error *e);
/* Gives a tensor of such a layer the name that a main layer's would have. False: it is to be left out. */
bool hf_predicting_rename(const hf_config *c, char *name, size_t size);

/* ---- hf/tensors/rules.c ---- */

extern const arch_rule hf_common_rules[], hf_mlx_rules[];
extern const arch_rename hf_common_renames[];
extern const char *const *const hf_common_left_out;
