/* general.* and the architecture's own metadata. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "arch/kv.h"
#include "hf/sources/sources.h"

/* ---- kv.c ----
 * The metadata that a row's list of items describes (arch/kv.h): each item sets one, or a few that belong together. */

/* Sets the metadata of an item. */
typedef bool kv_make(const arch_item *i, const hf_config *c, hf_metadata *p, gq_error *e);

#define KV_MAKE_DECLARE(member, function, type) kv_make function;
ARCH_MAKES(KV_MAKE_DECLARE)
#undef KV_MAKE_DECLARE
/* The definition of one, which need not use the item. */
#define KV_MAKE(name) \
    bool name(__attribute__((unused)) const arch_item *i, const hf_config *c, hf_metadata *p, gq_error *e)

/* Sets items that are integers, numbers, booleans and texts. */
bool arch_plain_set(const arch_item *list, const hf_config *c, hf_metadata *p, gq_error *e);

/* ---- values ---- */

/* Copies what stands before the first of these signs, in a pair of names or "NAME=TEXT"; returns what is behind it. */
enum { HF_NAMES_PART = 256 };
const char *arch_names_part(char part[HF_NAMES_PART], const char *names, const char *signs);
/* Finds the value of the first of the names that is a key; NULL: there is none, or it is null. */
const json_t *arch_value(const hf_config *c, const char *names);
/* Reads the number of an item whose value is `names`, or a part of its names. *missing: there is none, and
 * the item's need says that it sets no key then. */
bool arch_u32(const arch_item *i, const hf_config *c, const char *names, uint32_t *value, bool *missing,
              gq_error *e);
bool arch_float(const arch_item *i, const hf_config *c, const char *names, double *value, bool *missing,
                gq_error *e);
/* Sets a key to a number that was computed; what u32 cannot hold is an error that names the key. */
bool arch_set_u64(const arch_item *i, const hf_config *c, hf_metadata *p, uint64_t value, gq_error *e);
/* Adds a number of a layer to an array in the making; what i32 cannot hold is an error. */
bool arch_add_number(const hf_config *c, hf_metadata *p, uint64_t value, gq_error *e);
/* Fails unless two keys have the same integer. */
bool arch_check_same(const hf_config *c, const char *name, const char *other, gq_error *e);
/* Finds an array with an entry for each layer: for all main blocks, or for these and MTP layers.
 * Another length is an error. *list NULL: there is no such key, or it is null. */
bool arch_layer_list(const hf_config *c, const char *name, const json_t **list, gq_error *e);
static inline bool arch_layer_is(const json_t *list, uint64_t layer, const char *kind) {
    return hf_json_is(json_array_get(list, layer), kind);
}

/* ---- general.c, kv.c: general.* and the architecture's own metadata ---- */

struct arch_item; /* arch/kv.h */
struct hf_build;  /* hf/tensors/tensors.h */

/* Counts over the tensors of the model to be, for general.size_label; weights 0: it has none of these. */
typedef struct hf_counts {
    uint64_t weights;          /* elements of all tensors */
    uint64_t expert_weights;   /* weights in stacked experts: names with _exps. and 3 dimensions */
    uint64_t per_expert;       /* sum of elements / experts over these tensors */
    uint64_t experts, stacked; /* sum of their numbers of experts; number of such tensors */
} hf_counts;

/* Sets the metadata of a list of items. */
bool hf_items_set(const struct arch_item *list, const hf_config *c, hf_metadata *p, gq_error *e);
/* The architecture's metadata, from the config alone. */
bool hf_arch_metadata(const hf_config *c, hf_metadata *metadata, gq_error *e);
/* Adds what tensors decide: numbers that GGUF has as metadata. */
bool hf_tensor_metadata(struct hf_build *b, hf_metadata *metadata, gq_error *e);

/* ---- general.c: the metadata that describes a model: its name, makers, licence. ---- */

/* general.*: config, generation_config.json, the README's front matter, the folder's name. */
bool hf_general_metadata(hf_folder *f, const hf_config *c, const hf_counts *counts, hf_metadata *metadata,
                         gq_error *e);

/* ---- model_id.c ----
 * Takes a model's id apart: "Qwen/Qwen2.5-0.5B-Instruct" has an organization, a name, and in the name a basename, a
 * size and what it was tuned for. */

enum { HF_ID_MOST = 256 }; /* bytes of an id with its NUL; longer ones say nothing */

/* "": the id does not say it. */
typedef struct hf_model_id {
    char name[HF_ID_MOST], organization[HF_ID_MOST]; /* as in the id */
    char basename[HF_ID_MOST], finetune[HF_ID_MOST], version[HF_ID_MOST], size[HF_ID_MOST];
} hf_model_id;

/* weights: the model's own number of them, which a size in the name has to be near to. False: the id is
 * empty or too long. */
bool hf_model_id_parse(hf_model_id *m, const char *id, uint64_t weights);
/* Writes a name for people: "qwen2.5-0.5B" becomes "Qwen2.5 0.5B". The text has less than HF_ID_MOST bytes.
 */
void hf_model_title(char title[HF_ID_MOST], const char *name);

/* ---- modules.c ----
 * The modules of a sentence transformer, which modules.json lists: how hidden states are pooled, and dense heads behind
 * that. */

/* Reads modules.json and adds the arrays of dense modules to the list, as
 * dense_2.weight and dense_3.weight, where the architecture has such heads. */
bool hf_modules_add(hf_list *l, hf_config *c, gq_error *e);
/* Adds the pooling that modules.json has to the metadata of a decoder, whose list of items has none. */
bool hf_modules_metadata(const hf_config *c, hf_metadata *p, gq_error *e);

/* ---- readme.c: the front matter and the title of a model's README.md. ---- */

/* Reads it into an object whose values are strings, or arrays of strings: *front, which the caller releases
 * with json_decref. There may be no file and no front matter: then the object is empty. What is not
 * understood is skipped. "#", which can be no key, has the first heading behind the front matter. */
bool hf_readme_front(hf_folder *f, json_t **front, gq_error *e);
