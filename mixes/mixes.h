/* Chooses the type of each tensor: a file type (a named mix), facts about the model, a list of tensors in, a
 * type per tensor out. Pure functions and tables; the rules are those of docs/internals/mixes.md. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/warnings.h"
#include "gguf/facts.h"
#include "gguf/type.h"

/* A file type: what the user names. */
typedef struct mix_filetype {
    const char *name;    /* "Q4_K_M" */
    int32_t id;          /* general.file_type; -1 for COPY */
    uint32_t base;       /* tensor type it starts from; GGUF_TYPE_LIMIT for COPY */
    double bits;         /* per weight of a whole model, about; 0: depends on the model */
    const char *summary; /* for lists: one line, may be empty */
} mix_filetype;
extern const mix_filetype mix_filetypes[];
extern const size_t mix_n_filetypes;

/* Facts from the metadata. Missing ones make rules that need them not fire. */
typedef struct mix_model {
    const char *arch; /* NULL or "": unknown */
    /* {arch}.block_count, times {arch}.num_loops if there is one, and what arch/ has as bare_layers; -1:
     * unknown */
    int64_t n_blocks;
    int64_t n_head, n_head_kv,
        n_expert; /* as the rules take them: absent n_head and n_expert are 0, absent n_head_kv is n_head */
    bool is_adapter; /* its matrices are not called weights */
} mix_model;

typedef struct mix_tensor {
    const char *name; /* output name: after pruning and renumbering */
    uint64_t ne[4];
    uint32_t type; /* source type */
    /* Set where the source converts (a folder from Hugging Face): the type of what is not quantized beside
     * quantized tensors, and whether a file of F16 and the like leaves the tensor in that type, too. NULL:
     * the source does not convert. */
    const tensor_type *kept_type;
    bool stays, stays_16;
} mix_tensor;

typedef struct mix_pattern mix_pattern; /* a compiled PATTERN=TYPE */

typedef struct mix_options {
    const mix_filetype *filetype;
    bool imatrix; /* there is an imatrix with at least one usable entry */
    bool pure, leave_output;
    bool requantize; /* tensors of a source that converts may be quantized although they are already */
    int64_t output_type, embedding_type; /* type ids, -1: not given */
    int64_t missing_type;        /* for tensors without the data their type demands; -1: only flag them */
    const bool *covered;         /* one per tensor: the imatrix covers it; NULL: unknown, none is raised */
    const mix_pattern *patterns; /* --tensor-type */
    const mix_pattern *recipe;   /* of the file type's name: after `patterns`; NULL: none */
    const mix_pattern *keep;     /* --keep: no type in them; tensors that match keep their source type */
    const uint32_t *types;       /* one per tensor, in place of the mix tables; NULL: by the tables */
} mix_options;

/* Why a tensor has its type. */
typedef enum mix_reason {
    MIX_RULE,     /* by the mix tables, or the base type */
    MIX_COPY,     /* COPY */
    MIX_ONE_DIM,  /* kept: fewer than two dimensions */
    MIX_NAME,     /* kept: its name is not a weight's, or is on the list of tensors left alone */
    MIX_KEEP,     /* kept: --keep, --leave-output-tensor or a family's default */
    MIX_OPTION,   /* by --tensor-type, --output-tensor-type, --token-embedding-type */
    MIX_GIVEN,    /* from mix_options.types */
    MIX_FALLBACK, /* the row length does not fit the wanted type */
    MIX_RAISED,   /* its type requires an imatrix, which lacks it: mix_options.missing_type */
} mix_reason;

typedef struct mix_choice {
    uint32_t type;
    uint32_t wanted; /* before the row-length check; equals type unless MIX_FALLBACK */
    mix_reason reason;
    const char *why;    /* static text for the plan, "" for MIX_RULE */
    bool needs_imatrix; /* must not be quantized without an imatrix (pointless where type is the
                           source's) */
    /* The first of mix_options.patterns and of .keep to match, by number; MIX_NO_PATTERN: none does. */
    size_t pattern, keeper;
    bool by_pattern; /* the former has given the tensor its type */
} mix_choice;
#define MIX_NO_PATTERN SIZE_MAX

/* The tensor through which a layer's other tensors act on the rest of the model: what attention, another
 * mixer or a feed-forward network adds to the stream passes its last matrix. Names may have several: the
 * first that the model has, from i = 0 on, is meant. Puts the name it would have into `outlet`; false: there
 * are no more, or the tensor acts by itself. */
enum { MIX_OUTLETS = 2 };
bool mix_outlet(const char *name, size_t i, char outlet[128]);

/* Whether an architecture is one of the image and video models, whose readers want shapes as they were made:
 * a [64, 1] there is no [64]. */
bool mix_is_image_model(const char *name);

/* File types by name, number and size. */

/* Whether it may be recommended: COPY may. */
bool mix_filetype_advised(const mix_filetype *f);
const char *mix_filetype_made_for(const mix_filetype *f); /* "ternary models"; "": any */
/* By name (any case, aliases Q3_K Q4_K Q5_K) or decimal number; by general.file_type; NULL: unknown. */
const mix_filetype *mix_filetype_named(const char *name);
const mix_filetype *mix_filetype_numbered(int64_t id);
/* The file type that a model's metadata name; NULL: none that is known. */
const mix_filetype *mix_filetype_of(const model_kv *kv, uint64_t n_kv);
/* The known name nearest to `name`, for suggestions; NULL when none resembles it. */
const char *mix_filetype_nearest(const char *name);

/* Tensor type of a name in any case. Fails with the nearest known one in the message, which begins with
 * `where`. */
bool mix_type_named(const char *name, const char *where, uint32_t *type, gq_error *e);

/* Items PATTERN=TYPE: which tensors they name, and which of them did nothing. */

/* Parse "PATTERN=TYPE" items (TYPE absent for --keep: pass types = false) into one list, in order; PCRE2 search,
 * the pattern text is lower-cased first for --tensor-type as recipes expect. NULL and e on a malformed item. */
mix_pattern *mix_patterns_new(const char *const *items, size_t n, bool types, gq_error *e);
void mix_patterns_free(mix_pattern *p);
/* Whether the text is a well-formed PATTERN=TYPE. */
bool mix_pattern_check(const char *item, gq_error *e);
/* The changing state of matching patterns, one for each thread: the patterns themselves stay constant. It
 * counts the steps that are left. NULL: no memory. */
typedef struct mix_matcher mix_matcher;
mix_matcher *mix_matcher_new(gq_error *e);
void mix_matcher_free(mix_matcher *m);
/* First pattern found in the name: its number and type, or MIX_NO_PATTERN. Fails when the matcher has no step
 * left, or when a pattern takes too long by itself. */
bool mix_patterns_find(const mix_pattern *p, mix_matcher *m, const char *name, size_t *number, uint32_t *type,
                       gq_error *e);
/* Patterns that did nothing in the n choices (of one mix_assign or of several): how many, and the first of
 * them as given. */
typedef struct mix_idle_patterns {
    size_t unmatched, powerless; /* the first to match no tensor; or only tensors that they cannot change */
    const char *first_unmatched, *first_powerless;
} mix_idle_patterns;
/* Warns of n patterns without effect (0: no warning): what the patterns are for, why they do nothing, and the
 * first of them. */
bool mix_patterns_warn(warning_list *to, size_t n, const char *first, const char *why, gq_error *e);
bool mix_patterns_idle(const mix_pattern *p, const mix_choice *choices, size_t n, mix_idle_patterns *idle,
                       gq_error *e);

/* Each tensor's type, by rules, patterns and options. */

mix_model mix_model_of(const model_facts *f); /* arch is the facts' own */

/* Whether an option may give the tensor another type. Norms, biases and the like always keep theirs. */
bool mix_may_change(const mix_tensor *tensor);

/* Whether the tensor must not get this type without an imatrix. */
bool mix_demands_importance(const char *name, uint32_t type);

/* The order in which the rules count tensors, and in which they are written: by (block number, name), or as
 * given with keep_order. order[n] receives indices into tensors. */
bool mix_order(const mix_tensor *tensors, size_t n, bool keep_order, uint32_t *order, gq_error *e);

/* choices[i] is for tensors[i] (input order). Fails where the rules say that a run must not start, naming the
 * tensor; a missing imatrix is only flagged (needs_imatrix). */
bool mix_assign(const mix_model *model, const mix_options *options, const mix_tensor *tensors, size_t n,
                const uint32_t *order, mix_choice *choices, gq_error *e);

/* The file type that a file is called by whose types were chosen otherwise: that of most weights. */
const mix_filetype *mix_prevalent(const mix_tensor *tensors, const mix_choice *choices, size_t n);

/* Recipes: files of items PATTERN=TYPE, read and written, and those that have a name. */

/* The items of a recipe file, ready for mix_patterns_new. White space separates them, and so does a comma behind
 * a type; where an item would start, '#' makes the rest of the line a comment. Fails on the first item that is
 * not PATTERN=TYPE, with its line and column and with `name`, the file's; NULL: the text is no file. */
typedef struct mix_recipe {
    size_t n;
    char **items;
} mix_recipe;
bool mix_recipe_read(mix_recipe *r, const char *name, const char *text, size_t n, gq_error *e);
void mix_recipe_free(mix_recipe *r);
/* The text of a recipe that gives each tensor its type (types[i], whose blocks fit its rows) where the file
 * type quantizes; those that always keep theirs are not in it. The comment, one line, comes first. malloc'ed;
 * NULL: no memory. */
char *mix_recipe_write(const mix_tensor *tensors, const uint32_t *types, size_t n, const char *comment,
                       gq_error *e);

/* A recipe with a name: a file type, and items that go before its rules. */
typedef struct mix_named_recipe {
    const char *name, *filetype;
    const char *items; /* as a recipe file has them */
    const char *summary;
} mix_named_recipe;
extern const mix_named_recipe mix_named_recipes[];
extern const size_t mix_n_named_recipes;
const mix_named_recipe *mix_recipe_named(const char *name); /* in any case; NULL: there is none */

/* The sensitivity of tensors, and which tensors an imatrix may lack. */

/* Whether an imatrix affects how a tensor is stored: blocks are made, of another type than its own. */
bool mix_uses_importance(uint32_t from, uint32_t to);

/* Whether an imatrix entry that does not fit the tensor is ignored: that of an embedding, whose rows are
 * looked up rather than multiplied, may be made otherwise. Elsewhere the imatrix is another model's. */
bool mix_may_lack_importance(const char *name);

/* Whether an imatrix lacks the tensor by design: llama-imatrix leaves out embeddings, and the output matrix
 * unless --process-output is given. */
bool mix_is_outside_importance(const char *name);

/* Whether a tensor's matrices are the experts of a layer; a token meets only some of them. */
bool mix_is_experts(const char *name);
/* Whether these experts read the outputs of other experts of the layer: small ones, each for several of the
 * others. */
bool mix_is_late_experts(const char *name);
/* Returns how many experts of a layer a token meets; 0: unknown. */
int64_t mix_experts_used(const model_facts *f);
/* Returns how many of a tensor's matrices a token meets: of experts as many as are used, else all. */
uint64_t mix_matrices_met(const char *name, const uint64_t ne[4], const model_facts *f);

/* The factor of a tensor's relative error that makes errors of different tensors comparable: the power of its
 * outlet's weights (mix_outlet), times the part of the experts that one token meets, times two for an
 * embedding that serves as output as well. */
typedef struct mix_uses {
    int64_t n_expert, experts_used; /* by one token; 0: unknown */
    bool tied;                      /* no output tensor */
} mix_uses;
double mix_sensitivity(const char *name, double outlet_power, const mix_uses *uses);
