/* The policy as tables, for the files of mixes/ only. docs/internals/mixes.md says in words what they say in
 * rows. */
#pragma once

#include "mixes/mixes.h"

/* The file types: name, number in general.file_type, base type, bits per weight, summary. Bits are those of a
 * whole 8 B model (Llama 3.1) without an imatrix; 0 where no such model is meant. */
#define MIX_FILETYPES(F) \
    F(F32, 0, F32, 32.0, "nothing is lost") \
    F(F16, 1, F16, 16.0, "half precision") \
    F(BF16, 32, BF16, 16.0, "the range of F32") \
    F(Q4_0, 2, Q4_0, 4.64, "legacy") \
    F(Q4_1, 3, Q4_1, 5.10, "legacy") \
    F(Q5_0, 8, Q5_0, 5.57, "legacy") \
    F(Q5_1, 9, Q5_1, 6.04, "legacy") \
    F(Q8_0, 7, Q8_0, 8.50, "close to the base model") \
    F(Q2_K, 10, Q2_K, 3.16, "2-bit blocks with larger types where it matters") \
    F(Q2_K_S, 21, Q2_K, 2.97, "needs an imatrix") \
    F(Q3_K_S, 11, Q3_K, 3.64, "small 3-bit mix") \
    F(Q3_K_M, 12, Q3_K, 4.00, "medium 3-bit mix; also named Q3_K") \
    F(Q3_K_L, 13, Q3_K, 4.30, "large 3-bit mix") \
    F(Q4_K_S, 14, Q4_K, 4.67, "small 4-bit mix") \
    F(Q4_K_M, 15, Q4_K, 4.89, "medium 4-bit mix; also named Q4_K") \
    F(Q5_K_S, 16, Q5_K, 5.57, "small 5-bit mix") \
    F(Q5_K_M, 17, Q5_K, 5.70, "medium 5-bit mix; also named Q5_K") \
    F(Q6_K, 18, Q6_K, 6.56, "6-bit blocks, close to the base model") \
    F(IQ1_S, 24, IQ1_S, 2.00, "needs an imatrix") \
    F(IQ1_M, 31, IQ1_M, 2.15, "needs an imatrix") \
    F(IQ2_XXS, 19, IQ2_XXS, 2.38, "needs an imatrix") \
    F(IQ2_XS, 20, IQ2_XS, 2.59, "needs an imatrix") \
    F(IQ2_S, 28, IQ2_XS, 2.74, "needs an imatrix") \
    F(IQ2_M, 29, IQ2_S, 2.93, "needs an imatrix") \
    F(IQ3_XXS, 23, IQ3_XXS, 3.37, "needs an imatrix") \
    F(IQ3_XS, 22, IQ3_S, 3.50, "needs an imatrix") \
    F(IQ3_S, 26, IQ3_S, 3.66, "3-bit grid") \
    F(IQ3_M, 27, IQ3_S, 3.76, "3-bit grid, larger types where it matters") \
    F(IQ4_NL, 25, IQ4_NL, 4.68, "uneven 4-bit levels, blocks of 32") \
    F(IQ4_XS, 30, IQ4_XS, 4.46, "uneven 4-bit levels") \
    F(TQ1_0, 36, TQ1_0, 2.19, "for ternary models") \
    F(TQ2_0, 37, TQ2_0, 2.52, "for ternary models") \
    F(MXFP4_MOE, 38, MXFP4, 0, "MXFP4 experts, everything else Q8_0") \
    F(Q1_0, 40, Q1_0, 0, "one bit and a scale per 128 weights, for binary models") \
    F(Q2_0, 41, Q2_0, 0, "two bits and a scale per 64 weights") \
    F(COPY, -1, TYPE_LIMIT, 0, "every tensor stays as it is")

/* Rows of mix_filetypes. */
#define MIX_FILETYPE_ROW(name, ...) FT_##name,
enum { MIX_FILETYPES(MIX_FILETYPE_ROW) N_FILETYPES };
#undef MIX_FILETYPE_ROW
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
    IF_IMATRIX = 1 << 9,   /* the run has an imatrix */
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

/* A tensor's name: its role, and whether it is on the list of tensors that are left alone. */

mix_role mix_role_of(const char *name);

/* Why a tensor with this name is left alone, NULL when it is not. */
const char *mix_left_alone(const char *name);

/* ---- of image and video models ---- */

mix_role mix_image_role_of(const char *name);

/* Whether users of an image model keep a tensor of this name: by what its row keeps (arch_image). */
bool mix_family_keeps(const char *const *keeps, const char *name);
