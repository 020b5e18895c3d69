/* The mixes: (role, file type, condition) -> tensor type. The first row that fits decides; where none fits,
 * the tensor gets the file type's base type. Rows are in the order of docs/internals/mixes.md, which explains
 * them. */
#include "mixes/rules.h"

#define ANY UINT64_MAX
#define BASE GGUF_TYPE_LIMIT
#define NOT_LOW (ANY & ~FILETYPES_LOW)
#define LOW FILETYPES_LOW
#define LOW_S FILETYPES_LOW_S
#define F(x) FILETYPE(x)

static const struct rule {
    uint32_t roles;
    uint64_t filetypes;
    uint32_t all_of, none_of; /* conditions */
    uint32_t type;
} rules[] = {
    /* clang-format off */

    /* ---- output, and embedding of a model without one ---- */
    {ROLE_OUTPUT, F(MXFP4_MOE),                    0,           0,           GGUF_Q8_0},
    {ROLE_OUTPUT, ANY,                             IF_FALCON,   0,           GGUF_Q8_0},
    {ROLE_OUTPUT, ANY,                             IF_ODD_ROW,  0,           GGUF_Q8_0},
    {ROLE_OUTPUT, LOW | F(IQ3_XXS),                0,           0,           GGUF_Q5_K},
    {ROLE_OUTPUT, F(Q8_0),                         0,           0,           GGUF_Q8_0},
    {ROLE_OUTPUT, ANY,                             0,           0,           GGUF_Q6_K},

    /* ---- MXFP4_MOE: by shape ---- */
    {ROLES_FFN,   F(MXFP4_MOE),                    IF_3D,       0,           GGUF_MXFP4},
    {~0u,         F(MXFP4_MOE),                    IF_3D,       IF_BAILING3, GGUF_MXFP4},
    {~0u,         F(MXFP4_MOE),                    0,           0,           GGUF_Q8_0},

    /* ---- embedding beside an output tensor ---- */
    {ROLE_EMBED,  LOW_S | F(IQ3_XXS),              0,           0,           GGUF_IQ3_S},
    {ROLE_EMBED,  LOW,                             0,           0,           GGUF_Q2_K},
    {ROLE_EMBED,  F(TQ1_0) | F(TQ2_0) | F(Q2_0),   0,           0,           GGUF_Q4_K},

    /* ---- file types below three bits ---- */
    {ROLE_V,      LOW,                             IF_GQA4,     0,           GGUF_Q4_K},
    {ROLE_V,      LOW,                             IF_NX4,      0,           GGUF_Q4_K},
    {ROLE_V,      LOW_S,                           0,           0,           GGUF_IQ3_S},
    {ROLE_V,      LOW,                             0,           0,           GGUF_Q2_K},
    {ROLE_K,      LOW,                             IF_NX8,      0,           GGUF_Q4_K},
    {ROLE_DOWN,   LOW_S,                           IF_E8,       0,           GGUF_IQ3_S},
    {ROLE_DOWN,   LOW,                             IF_E8,       0,           GGUF_Q2_K},
    {ROLE_O,      LOW,                             IF_NX8,      0,           GGUF_Q5_K},
    {ROLE_O,      F(IQ1_S) | F(IQ1_M),             0,           0,           GGUF_IQ2_XXS},
    {ROLE_O,      LOW_S,                           0,           0,           GGUF_IQ3_S},

    /* ---- V: values, also fused with queries and keys ---- */
    {ROLE_V,      NOT_LOW,                         IF_NX8,      0,           GGUF_Q8_0},
    {ROLE_V,      F(Q2_K) | F(Q2_K_S),             IF_GQA4,     0,           GGUF_Q4_K},
    {ROLE_V,      F(Q2_K),                         0,           0,           GGUF_Q3_K},
    {ROLE_V,      F(Q3_K_M),                       IF_I2,       0,           GGUF_Q5_K},
    {ROLE_V,      F(Q3_K_M),                       0,           0,           GGUF_Q4_K},
    {ROLE_V,      F(Q3_K_L),                       0,           0,           GGUF_Q5_K},
    {ROLE_V,      F(Q4_K_S),                       IF_I4,       0,           GGUF_Q5_K},
    {ROLE_V,      F(Q4_K_M) | F(Q5_K_M),           IF_MORE,     0,           GGUF_Q6_K},
    {ROLE_V,      F(IQ3_XXS),                      IF_GQA4,     0,           GGUF_Q4_K},
    {ROLE_V,      F(IQ3_XXS),                      IF_IMATRIX,  0,           GGUF_IQ3_XXS},
    {ROLE_V,      F(IQ3_XXS),                      0,           0,           GGUF_IQ3_S},
    {ROLE_V,      F(IQ3_XS) | F(IQ3_S),            IF_GQA4,     0,           GGUF_Q4_K},
    {ROLE_V,      F(IQ3_M),                        0,           0,           GGUF_Q4_K},
    {ROLE_V,      F(IQ4_NL) | F(IQ4_XS),           IF_GQA4,     0,           GGUF_Q5_K},

    /* ---- K, Q: keys and queries ---- */
    {ROLE_K,      NOT_LOW,                         IF_NX8,      0,           GGUF_Q8_0},
    {ROLE_K | ROLE_Q, F(IQ3_XS),                   0,           0,           GGUF_IQ3_XXS},
    {ROLE_K | ROLE_Q, F(IQ3_XXS),                  0,           0,           GGUF_IQ2_S},

    /* ---- DOWN: out of the feed-forward part ---- */
    {ROLE_DOWN,   F(Q2_K),                         0,           0,           GGUF_Q3_K},
    {ROLE_DOWN,   F(Q2_K_S),                       IF_E8,       0,           GGUF_Q4_K},
    {ROLE_DOWN,   F(Q3_K_M),                       IF_E16,      0,           GGUF_Q5_K},
    {ROLE_DOWN,   F(Q3_K_M),                       0,           IF_FALCON,   GGUF_Q4_K},
    {ROLE_DOWN,   F(Q3_K_M),                       IF_MORE,     0,           GGUF_Q4_K},
    {ROLE_DOWN,   F(Q3_K_L),                       IF_FALCON,   0,           GGUF_Q4_K},
    {ROLE_DOWN,   F(Q3_K_L),                       0,           0,           GGUF_Q5_K},
    {ROLE_DOWN,   F(Q4_K_S),                       IF_E8,       IF_FALCON,   GGUF_Q5_K},
    {ROLE_DOWN,   F(Q4_K_M),                       IF_MORE,     IF_FALCON,   GGUF_Q6_K},
    {ROLE_DOWN,   F(Q4_K_M),                       IF_E16,      0,           GGUF_Q6_K},
    {ROLE_DOWN,   F(Q4_K_M),                       IF_MORE,     0,           GGUF_Q5_K},
    {ROLE_DOWN,   F(Q5_K_M),                       IF_MORE,     0,           GGUF_Q6_K},
    {ROLE_DOWN,   F(IQ3_XXS),                      IF_E8,       IF_IMATRIX,  GGUF_Q4_K},
    {ROLE_DOWN,   F(IQ3_XXS),                      0,           IF_IMATRIX,  GGUF_Q3_K},
    {ROLE_DOWN,   F(IQ3_M),                        IF_E8,       0,           GGUF_Q4_K},
    {ROLE_DOWN,   F(IQ3_M),                        IF_NX8 | IF_MORE, 0,      GGUF_Q4_K},
    {ROLE_DOWN,   F(IQ4_NL) | F(IQ4_XS),           IF_E8,       IF_IMATRIX,  GGUF_Q5_K},
    {ROLE_DOWN,   F(Q4_0),                         IF_IMATRIX | IF_E8, 0,    GGUF_Q4_1},
    {ROLE_DOWN,   F(Q5_0),                         IF_IMATRIX | IF_E8, 0,    GGUF_Q5_1},

    /* ---- O: out of the attention ---- */
    {ROLE_O,      F(Q3_K_L),                       IF_FALCON,   0,           GGUF_Q4_K},
    {ROLE_O,      NOT_LOW,                         IF_FALCON,   0,           BASE},
    {ROLE_O,      F(Q2_K) | F(Q3_K_S) | F(Q3_K_M) | F(Q4_K_S) | F(Q4_K_M) | F(IQ3_XXS) | F(IQ3_XS) | F(IQ3_S) |
                  F(IQ3_M) | F(IQ4_NL) | F(IQ4_XS), IF_NX8,     0,           GGUF_Q5_K},
    {ROLE_O,      NOT_LOW,                         IF_NX8,      0,           BASE},
    {ROLE_O,      F(Q2_K),                         0,           0,           GGUF_Q3_K},
    {ROLE_O,      F(Q3_K_M) | F(IQ3_M),            0,           0,           GGUF_Q4_K},
    {ROLE_O,      F(Q3_K_L),                       0,           0,           GGUF_Q5_K},
    {ROLE_O,      F(IQ3_XXS),                      0,           0,           GGUF_IQ3_S},

    /* ---- UP, GATE: into the feed-forward part ---- */
    {ROLE_UP | ROLE_GATE, F(IQ3_XS),               IF_MIDDLE,   0,           GGUF_IQ3_XXS},

    /* ---- image and video models ---- */
    {ROLE_IMAGE_V, F(Q2_K),                        0,           0,           GGUF_Q3_K},
    {ROLE_IMAGE_V, F(Q3_K_M),                      IF_I2,       0,           GGUF_Q5_K},
    {ROLE_IMAGE_V, F(Q3_K_M),                      0,           0,           GGUF_Q4_K},
    {ROLE_IMAGE_V, F(Q3_K_L),                      0,           0,           GGUF_Q5_K},
    {ROLE_IMAGE_V, F(Q4_K_S),                      IF_I4,       0,           GGUF_Q5_K},
    {ROLE_IMAGE_V, F(Q4_K_M) | F(Q5_K_M),          0,           0,           GGUF_Q6_K},
    {ROLE_IMAGE_QKV, F(Q3_K_M) | F(Q3_K_L),        0,           0,           GGUF_Q4_K},
    {ROLE_IMAGE_QKV, F(Q4_K_M),                    0,           0,           GGUF_Q5_K},
    {ROLE_IMAGE_QKV, F(Q5_K_M),                    0,           0,           GGUF_Q6_K},
    {ROLE_IMAGE_DOWN, F(Q3_K_M),                   0,           0,           GGUF_Q4_K},
    {ROLE_IMAGE_DOWN, F(Q3_K_L) | F(Q4_K_S),       0,           0,           GGUF_Q5_K},
    {ROLE_IMAGE_DOWN, F(Q4_K_M) | F(Q5_K_M),       0,           0,           GGUF_Q6_K},
    {ROLE_IMAGE_DOWN, F(Q4_0),                     0,           0,           GGUF_Q4_1},
    {ROLE_IMAGE_DOWN, F(Q5_0),                     0,           0,           GGUF_Q5_1},

    /* clang-format on */
};

uint32_t mix_rule(uint64_t filetype, mix_role role, uint32_t facts, uint32_t base) {
    for (const struct rule *r = rules; r < rules + sizeof rules / sizeof *rules; r++)
        if ((r->roles & role) && (r->filetypes & filetype) && (facts & r->all_of) == r->all_of &&
            !(facts & r->none_of))
            return r->type == BASE ? base : r->type;
    return base;
}

static const struct {
    uint32_t type, replacement;
} replacements[] = {
    {GGUF_IQ1_S, GGUF_IQ4_NL},   {GGUF_IQ1_M, GGUF_IQ4_NL},  {GGUF_IQ2_XXS, GGUF_IQ4_NL},
    {GGUF_IQ2_XS, GGUF_IQ4_NL},  {GGUF_IQ2_S, GGUF_IQ4_NL},  {GGUF_IQ3_S, GGUF_IQ4_NL},
    {GGUF_IQ3_XXS, GGUF_IQ4_NL}, {GGUF_IQ4_XS, GGUF_IQ4_NL}, {GGUF_Q2_K, GGUF_Q4_0},
    {GGUF_Q3_K, GGUF_Q4_0},      {GGUF_TQ1_0, GGUF_Q4_0},    {GGUF_TQ2_0, GGUF_Q4_0},
    {GGUF_Q2_0, GGUF_Q4_0},      {GGUF_Q4_K, GGUF_Q5_0},     {GGUF_Q5_K, GGUF_Q5_1},
    {GGUF_Q6_K, GGUF_Q8_0},
};

uint32_t mix_replacement(uint32_t type) {
    for (size_t i = 0; i < sizeof replacements / sizeof *replacements; i++)
        if (replacements[i].type == type) return replacements[i].replacement;
    const tensor_type *t = tensor_type_of(type);
    return t && t->block_elements == 32 ? type : GGUF_TYPE_LIMIT;
}
