/* The rule that an array's name has. */
#pragma once

#include "arch/projector.h"
#include "hf/tensors/build.h"

typedef enum hf_name_result {
    HF_NAME_FOUND,
    HF_NAME_LEFT_OUT, /* towers and buffers */
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
/* Fails for an array whose name is unknown. */
bool hf_names_fail(const hf_build *b, const hf_source *s, gq_error *e);
