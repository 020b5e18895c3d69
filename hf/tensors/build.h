/* Makes the tensors of a GGUF from the source tensors of a folder: names by tables of rules, shapes and order by steps. */
#pragma once

#include "arch/rules.h"
#include "hf/folder/config.h"
#include "hf/folder/pairs.h"
#include "hf/tensors/tensor.h"

typedef struct hf_build hf_build;

/* An array whose name has fitted a rule. */
typedef struct hf_found {
    const hf_source *source;
    const arch_rule *rule;
    const char *suffix;     /* ".weight", ".bias", or "": what the rule's name lacked */
    uint64_t layer, expert; /* the numbers in its name; 0 where it has none */
    bool is_turned; /* rows and columns of its matrices are exchanged: the rule expects the contrary */
} hf_found;

typedef bool hf_step(hf_build *b, const hf_found *f, gq_error *e);

/* Names that have a rule only after something was put in front of them, or taken away. */
typedef struct hf_respelled {
    size_t n;
    const char *first, *prefix; /* the first such name, and what was put or taken */
} hf_respelled;

struct hf_build {
    const hf_config *config;
    const arch_folder *arch;                /* whose rules the folder has */
    const struct arch_projector *projector; /* that is made in place of the text model; NULL: none */
    hf_sizes sizes;
    uint64_t n_experts;
    uint64_t n_tokens; /* of the vocabulary; UINT64_MAX: not known */
    const hf_list *list;
    hf_source *sources; /* sorted as the list is */
    size_t n_sources;
    hf_source **by_end; /* the same by their names read backwards; NULL: nobody has asked yet */
    uint64_t n_stacked; /* pieces of stacked tensors */
    hf_respelled completed, shortened;
    hf_found head;   /* the matrix of the output, which waits until all others are there; source NULL: none */
    bool keeps_ones; /* dimensions of 1 at the end of a tensor's */
    bool norms_have_one; /* 1 has been added to what the architecture's norms lack it in (hf/tensors/mlx.c) */
    bool is_turned;      /* matrices that the architecture's rules turn are turned already */
    /* An array of experts whose matrices were turned, and one whose shape does not tell; NULL: none. */
    const hf_source *turned, *square;
    hf_tensor *tensors;
    size_t n, capacity;
    name_index by_name;
};

/* Makes all tensors. On failure, too, hf_build_free has to be called. */
bool hf_build_tensors(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens, gq_error *e);
/* The same with sources that `change` is given, with `user`, before tensors are made of them. */
typedef bool hf_build_change(const void *user, hf_build *b, gq_error *e);
bool hf_build_changed_tensors(hf_build *b, const hf_config *c, const hf_list *l, uint64_t n_tokens,
                              hf_build_change *change, const void *user, gq_error *e);
/* Makes tensors of some arrays alone, whose sources the build takes over, also on failure; whether a model
 * has others is not looked at. */
bool hf_build_arrays(hf_build *b, const hf_config *c, const hf_list *l, hf_source *sources, size_t n,
                     gq_error *e);
/* Checks the tensors of a text model (hf/tensors/checks.c), and warns of what the GGUF will not have as the config says. */
bool hf_build_check(const hf_build *b, gq_error *e);
/* Whether a model must have a head of its own. */
bool hf_build_needs_head(const hf_build *b);
/* Finds what MLX has done to the source tensors, by their shapes and names (hf/tensors/mlx.c); convolutions get the shape
 * of the original. Warns where anything is found. What cannot be undone is an error. */
bool hf_mlx_find(hf_build *b, gq_error *e);
