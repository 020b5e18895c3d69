/* The policy as tables, for the files of mixes/ only. docs/internals/mixes.md says in words what they say in
 * rows. */
#ifndef GQ_MIXES_RULES_H
#define GQ_MIXES_RULES_H

#include "mixes/mixes.h"

/* Rows of mix_filetypes. */
enum {
    FT_F32,
    FT_F16,
    FT_BF16,
    FT_Q4_0,
    FT_Q4_1,
    FT_Q5_0,
    FT_Q5_1,
    FT_Q8_0,
    FT_Q2_K,
    FT_Q2_K_S,
    FT_Q3_K_S,
    FT_Q3_K_M,
    FT_Q3_K_L,
    FT_Q4_K_S,
    FT_Q4_K_M,
    FT_Q5_K_S,
    FT_Q5_K_M,
    FT_Q6_K,
    FT_IQ1_S,
    FT_IQ1_M,
    FT_IQ2_XXS,
    FT_IQ2_XS,
    FT_IQ2_S,
    FT_IQ2_M,
    FT_IQ3_XXS,
    FT_IQ3_XS,
    FT_IQ3_S,
    FT_IQ3_M,
    FT_IQ4_NL,
    FT_IQ4_XS,
    FT_TQ1_0,
    FT_TQ2_0,
    FT_MXFP4_MOE,
    FT_Q1_0,
    FT_Q2_0,
    FT_COPY,
    N_FILETYPES
};
/* Sets of file types have one bit per row. */
#define FILETYPE(x) (UINT64_C(1) << FT_##x)
#define FILETYPES_LOW_S (FILETYPE(IQ2_S) | FILETYPE(IQ2_M))
#define FILETYPES_LOW \
    (FILETYPE(IQ1_S) | FILETYPE(IQ1_M) | FILETYPE(IQ2_XXS) | FILETYPE(IQ2_XS) | FILETYPES_LOW_S)

/* The purpose of a tensor, read from its name. */
typedef enum mix_role {
    ROLE_OUTPUT = 1 << 0, /* also the embedding of a model without an output tensor, in the rule table */
    ROLE_EMBED = 1 << 1,
    ROLE_V = 1 << 2,
    ROLE_K = 1 << 3,
    ROLE_Q = 1 << 4,
    ROLE_O = 1 << 5,
    ROLE_UP = 1 << 6,
    ROLE_GATE = 1 << 7,
    ROLE_DOWN = 1 << 8,
    ROLE_OTHER = 1 << 9,
    /* of image models, which have rules of their own */
    ROLE_IMAGE_V = 1 << 10,
    ROLE_IMAGE_QKV = 1 << 11,
    ROLE_IMAGE_DOWN = 1 << 12,
    ROLE_IMAGE_OTHER = 1 << 13,
} mix_role;
#define ROLES_FFN (ROLE_UP | ROLE_GATE | ROLE_DOWN)

/* Facts about a tensor when its rule is looked up; unknown facts are absent. i of n is its place among
 * the tensors of its role. */
enum {
    IF_GQA4 = 1 << 0,      /* four or more heads share one key and value head */
    IF_NX4 = 1 << 1,       /* four or more experts */
    IF_NX8 = 1 << 2,       /* eight experts exactly */
    IF_E8 = 1 << 3,        /* i in the first eighth of n */
    IF_E16 = 1 << 4,       /* i in the first sixteenth */
    IF_MORE = 1 << 5,      /* i in the first eighth, the last, or every third between */
    IF_MIDDLE = 1 << 6,    /* i neither in the first eighth nor in the last */
    IF_I2 = 1 << 7,        /* i < 2 */
    IF_I4 = 1 << 8,        /* i < 4 */
    IF_IMATRIX = 1 << 9,   /* the run has importance data */
    IF_FALCON = 1 << 10,   /* architecture falcon */
    IF_BAILING3 = 1 << 11, /* architecture bailingmoe3 */
    IF_3D = 1 << 12,       /* third dimension greater than 1 */
    IF_ODD_ROW = 1 << 13,  /* row length no multiple of the base type's block */
};

/* The type for a tensor by the mix tables; the file type's base type where no row applies. */
uint32_t mix_rule(uint64_t filetype, mix_role role, uint32_t facts, uint32_t base);

/* The type whose block is 32 that stands in for a type whose longer block does not divide the row;
 * GGUF_TYPE_LIMIT when there is none. */
uint32_t mix_replacement(uint32_t type);

/* The limit of steps for matching all tensors of an output, which take seconds. 2000 patterns, one for each
 * of 2000 tensors, take 33 million. */
enum { MIX_PATTERN_STEPS = 200000000 };

#endif
