/* How an architecture's metadata are described: lists of items, each of which sets a pair, or a few that
 * belong together. hf/arch_lists.h says which files have the lists. */
#ifndef GQ_HF_ARCH_PAIRS_H
#define GQ_HF_ARCH_PAIRS_H

#include <string.h>

#include "hf/config.h"
#include "hf/pairs.h"

/* The meaning of a missing value; null counts as missing. */
typedef enum arch_need {
    NEEDED,      /* an error */
    IF,          /* no pair */
    IF_NOT_ZERO, /* no pair, and 0 counts as missing, too */
    OR,          /* the item's `value` */
    OR_NOT_ZERO, /* the item's `value`, also in place of 0 */
} arch_need;

typedef struct arch_item arch_item;
/* Sets the pairs of an item. */
typedef bool arch_make(const arch_item *i, const hf_config *c, hf_pairs *p, gq_error *e);

struct arch_item {
    const char *key; /* of the pair; NULL where the function knows it */
    arch_make *make; /* NULL ends a list */
    /* The place of the value: names as hf_config_get takes them. A name that begins with "rope." is looked up
     * in the completed parameters of the rotation, with "full." in those of layers with full attention.
     * Functions of several values take several of these, with a space between. NULL: `value` itself. */
    const char *names;
    arch_need need;
    double value;
    const arch_item *list; /* for pair_list */
};

bool arch_items_set(const arch_item *list, const hf_config *c, hf_pairs *p, gq_error *e);

/* ---- values ---- */

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
/* Finds an array with an entry for each layer: for all main blocks, or for these and the predicting ones.
 * Another length is an error. *list NULL: there is no such key, or it is null. */
bool arch_layer_list(const hf_config *c, const char *name, const json_t **list, gq_error *e);
static inline bool arch_layer_is(const json_t *list, uint64_t layer, const char *kind) {
    const char *text = json_string_value(json_array_get(list, layer));
    return text && strcmp(text, kind) == 0;
}

/* ---- items that any list may have ---- */

arch_make pair_list;     /* all items of another list */
arch_make pair_remove;   /* takes a pair away again */
arch_make pair_u32;      /* an integer */
arch_make pair_lengths;  /* an integer, or an array of them, one for each layer */
arch_make pair_float;    /* a number */
arch_make pair_bool;     /* true or false */
arch_make pair_text;     /* `names` itself */
arch_make pair_blocks;   /* the number of blocks */
arch_make pair_predict;  /* the number of predicting blocks; of need IF: where the config has the names */
arch_make pair_first;    /* the first entry of a list of equal integers, or an integer */
arch_make pair_count;    /* the number of a list's entries; 0 without a list */
arch_make pair_zeros;    /* the number of zeros that a list begins with */
arch_make pair_times;    /* `value` times an integer */
arch_make pair_product;  /* of two integers */
arch_make pair_sum;      /* of two integers */
arch_make pair_quotient; /* of two integers, rounded down */
arch_make pair_kv_heads; /* heads of keys and values: as many as others, if the config does not say */
/* The part of a width that a factor gives, rounded down: of the head's width (head_dim, or width / heads), of
 * width / heads, of the width, then divided by heads, or of the first of two names. */
arch_make pair_share_of_head, pair_share_of_even_head, pair_share_of_width, pair_share_of;
arch_make pair_gating; /* the function of the router's scores, by its name */
arch_make pair_causal; /* only where attention is not */
/* The pairs of the rotation; and, in the place of its kind, those of models that stretch the base. */
arch_make pair_rope, rope_mistral, rope_phi, rope_hunyuan, rope_hunyuan_experts, rope_nemotron, rope_qwen35,
    rope_glm4, rope_gptneox, rope_deepseek, rope_step;

/* ---- items of a few architectures; names, where there are some, are the list that says it ---- */

/* Arrays with a value for each layer. "NAME=TEXT": whether an entry is this text. */
arch_make layers_flags, layers_olmo_window, layers_exaone_window, layers_conv_heads, layers_full_heads,
    layers_period_heads, layers_kimi_heads, layers_granite, layers_nemotron, layers_gemma3n_sparsity,
    layers_gemma4, layers_step, layers_step_clamp, layers_mimo;
arch_make own_minicpm, own_deepseek_dense, own_deepseek_norm, own_gemma3_window, own_gemma_altup,
    own_llama4_window, own_smallthinker, own_lfm2_width, own_step_dense, own_mpt_alibi, own_kimi_checks,
    own_mimo_checks, own_time_step_rank, own_mamba, own_mamba2;

#endif
