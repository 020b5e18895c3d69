/* Chooses the type of each tensor: a file type (a named mix), facts about the model, a list of tensors in, a
 * type per tensor out. Pure functions and tables; the rules are those of docs/internals/mixes.md.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
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
    /* {arch}.block_count, times {arch}.num_loops if there is one, and what arch/ has as bare_layers; -1: unknown */
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
    bool imatrix; /* importance data with at least one usable entry is there */
    bool pure, leave_output;
    bool requantize; /* tensors of a source that converts may be quantized although they are already */
    int64_t output_type, embedding_type; /* type ids, -1: not given */
    int64_t missing_type;        /* for tensors without the data their type demands; -1: only flag them */
    const bool *covered;         /* one per tensor: has importance data; NULL: unknown, none is raised */
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
    MIX_RAISED,   /* its type demands importance data that are not there: mix_options.missing_type */
} mix_reason;

typedef struct mix_choice {
    uint32_t type;
    uint32_t wanted; /* before the row-length check; equals type unless MIX_FALLBACK */
    mix_reason reason;
    const char *why;    /* static text for the plan, "" for MIX_RULE */
    bool needs_imatrix; /* must not be quantized without importance data (pointless where type is the
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
