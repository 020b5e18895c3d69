/* The mixes: (role, file type, condition) -> tensor type. The first row that fits decides; where none fits,
 * the tensor gets the file type's base type. Rows are in the order of docs/internals/mixes.md, which explains
 * them. */
#include "mixes/rules.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

    /* ---- DOWN: out of the feed-forward sublayer ---- */
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

    /* ---- UP, GATE: into the feed-forward sublayer ---- */
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

/* ---- file types ---- */

/* The file types: what a user names, the id in general.file_type, the tensor type each one starts from. */

#define ROW(name, id, base, bits, summary) [FT_##name] = {#name, id, GGUF_##base, bits, summary},
const mix_filetype mix_filetypes[] = {MIX_FILETYPES(ROW)};
#undef ROW
const size_t mix_n_filetypes = N_FILETYPES;

/* These types are not offered: other types are as good in the same bytes, or these are for models made for them. */
static const uint64_t never_advised = FILETYPE(F32) | FILETYPE(F16) | FILETYPE(BF16) | FILETYPE(Q4_0) |
                                      FILETYPE(Q4_1) | FILETYPE(Q5_0) | FILETYPE(Q5_1) | FILETYPE(TQ1_0) |
                                      FILETYPE(TQ2_0) | FILETYPE(MXFP4_MOE) | FILETYPE(Q1_0) | FILETYPE(Q2_0);

bool mix_filetype_advised(const mix_filetype *f) {
    return !(never_advised & UINT64_C(1) << (f - mix_filetypes));
}

/* File types for special models. Any other model becomes useless with them. */
static const struct {
    int filetype;
    const char *models;
} made_for[] = {{FT_TQ1_0, "ternary models"},
                {FT_TQ2_0, "ternary models"},
                {FT_Q1_0, "binary models"},
                {FT_Q2_0, "models trained for it"}};

const char *mix_filetype_made_for(const mix_filetype *f) {
    for (size_t i = 0; i < sizeof made_for / sizeof *made_for; i++)
        if (f == &mix_filetypes[made_for[i].filetype]) return made_for[i].models;
    return "";
}

static const struct {
    const char *alias;
    int filetype;
} aliases[] = {{"Q3_K", FT_Q3_K_M}, {"Q4_K", FT_Q4_K_M}, {"Q5_K", FT_Q5_K_M}};

const mix_filetype *mix_filetype_numbered(int64_t id) {
    for (int i = 0; i < N_FILETYPES; i++)
        if (mix_filetypes[i].id == id) return &mix_filetypes[i];
    return NULL;
}

const mix_filetype *mix_filetype_of(const model_kv *kv, uint64_t n_kv) {
    int64_t id;
    return model_kv_int(model_kv_find(kv, n_kv, "general.file_type"), &id) ? mix_filetype_numbered(id) : NULL;
}

const mix_filetype *mix_filetype_named(const char *name) {
    for (int i = 0; i < N_FILETYPES; i++)
        if (strcasecmp(name, mix_filetypes[i].name) == 0) return &mix_filetypes[i];
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcasecmp(name, aliases[i].alias) == 0) return &mix_filetypes[aliases[i].filetype];
    if (!*name || strlen(name) > 3 || name[strspn(name, "0123456789")]) return NULL;
    return mix_filetype_numbered(strtol(name, NULL, 10));
}

/* Half of what was typed must be right, or a '_M' is missing. */
static const char *nearest_name(const char *name, const char *const *known, size_t n) {
    return *name ? gq_nearest(name, known, n, (unsigned)strlen(name) + 3) : NULL;
}

const char *mix_filetype_nearest(const char *name) {
    const char *known[N_FILETYPES];
    for (int i = 0; i < N_FILETYPES; i++) known[i] = mix_filetypes[i].name;
    return nearest_name(name, known, N_FILETYPES);
}

bool mix_type_named(const char *name, const char *where, uint32_t *type, gq_error *e) {
    const tensor_type *t = tensor_type_named(name);
    if (t) {
        *type = t->id;
        return true;
    }
    const char *known[GGUF_TYPE_LIMIT];
    size_t n = 0;
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++)
        if (tensor_type_of(id)) known[n++] = tensor_type_name(id);
    const char *near = nearest_name(name, known, n);
    if (near) return gq_fail_usage(e, "%s: '%s' is not a tensor type, did you mean %s?", where, name, near);
    return gq_fail_usage(e, "%s: '%s' is not a tensor type", where, name);
}
