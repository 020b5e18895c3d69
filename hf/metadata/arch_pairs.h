/* The pairs that a row's list of items describes (arch/pairs.h): each item sets one, or a few that belong together. */
#pragma once

#include <string.h>

#include "arch/pairs.h"
#include "hf/folder/config.h"
#include "hf/folder/pairs.h"

/* Sets the pairs of an item. */
typedef bool pair_make(const arch_item *i, const hf_config *c, hf_pairs *p, gq_error *e);

#define PAIR_MAKE_DECLARE(member, function) pair_make function;
ARCH_MAKES(PAIR_MAKE_DECLARE)
#undef PAIR_MAKE_DECLARE

/* Sets items that are integers, numbers, booleans and texts. */
bool arch_plain_set(const arch_item *list, const hf_config *c, hf_pairs *p, gq_error *e);

/* ---- values ---- */

/* Copies what stands before the first of these signs, in a pair of names or "NAME=TEXT"; returns what is behind it. */
enum { HF_NAMES_PART = 256 };
const char *arch_names_part(char part[HF_NAMES_PART], const char *names, const char *signs);
/* Finds the value of the first of the names that is a key; NULL: there is none, or it is null. */
const json_t *arch_value(const hf_config *c, const char *names);
/* Reads the number of an item whose value is `names`, or a part of its names. *missing: there is none, and
 * the item's need says that it sets no pair then. */
bool arch_u32(const arch_item *i, const hf_config *c, const char *names, uint32_t *value, bool *missing,
              gq_error *e);
bool arch_float(const arch_item *i, const hf_config *c, const char *names, double *value, bool *missing,
                gq_error *e);
/* Sets a pair to a number that was computed; what u32 cannot hold is an error that names the pair. */
bool arch_set_u64(const arch_item *i, const hf_config *c, hf_pairs *p, uint64_t value, gq_error *e);
/* Adds a number of a layer to an array in the making; what i32 cannot hold is an error. */
bool arch_add_number(const hf_config *c, hf_pairs *p, uint64_t value, gq_error *e);
/* Fails unless two keys have the same integer. */
bool arch_check_same(const hf_config *c, const char *name, const char *other, gq_error *e);
/* Finds an array with an entry for each layer: for all main blocks, or for these and the predicting ones.
 * Another length is an error. *list NULL: there is no such key, or it is null. */
bool arch_layer_list(const hf_config *c, const char *name, const json_t **list, gq_error *e);
static inline bool arch_layer_is(const json_t *list, uint64_t layer, const char *kind) {
    return hf_json_is(json_array_get(list, layer), kind);
}
