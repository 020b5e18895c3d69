/* The file types: what a user names, the id in general.file_type, the tensor type each one starts from. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mixes/filetypes.h"
#include "mixes/rules.h"

/* Bits per weight are those of a whole 8 B model (Llama 3.1) without importance data; 0 where no such model
 * is meant. */
const mix_filetype mix_filetypes[] = {
    [FT_F32] = {"F32", 0, GGUF_F32, 32.0, "nothing is lost"},
    [FT_F16] = {"F16", 1, GGUF_F16, 16.0, "half precision"},
    [FT_BF16] = {"BF16", 32, GGUF_BF16, 16.0, "the range of F32"},
    [FT_Q4_0] = {"Q4_0", 2, GGUF_Q4_0, 4.64, "legacy"},
    [FT_Q4_1] = {"Q4_1", 3, GGUF_Q4_1, 5.10, "legacy"},
    [FT_Q5_0] = {"Q5_0", 8, GGUF_Q5_0, 5.57, "legacy"},
    [FT_Q5_1] = {"Q5_1", 9, GGUF_Q5_1, 6.04, "legacy"},
    [FT_Q8_0] = {"Q8_0", 7, GGUF_Q8_0, 8.50, "close to the original"},
    [FT_Q2_K] = {"Q2_K", 10, GGUF_Q2_K, 3.16, "2-bit blocks with larger types where it matters"},
    [FT_Q2_K_S] = {"Q2_K_S", 21, GGUF_Q2_K, 2.97, "needs importance data"},
    [FT_Q3_K_S] = {"Q3_K_S", 11, GGUF_Q3_K, 3.64, "small 3-bit mix"},
    [FT_Q3_K_M] = {"Q3_K_M", 12, GGUF_Q3_K, 4.00, "medium 3-bit mix; also named Q3_K"},
    [FT_Q3_K_L] = {"Q3_K_L", 13, GGUF_Q3_K, 4.30, "large 3-bit mix"},
    [FT_Q4_K_S] = {"Q4_K_S", 14, GGUF_Q4_K, 4.67, "small 4-bit mix"},
    [FT_Q4_K_M] = {"Q4_K_M", 15, GGUF_Q4_K, 4.89, "medium 4-bit mix; also named Q4_K"},
    [FT_Q5_K_S] = {"Q5_K_S", 16, GGUF_Q5_K, 5.57, "small 5-bit mix"},
    [FT_Q5_K_M] = {"Q5_K_M", 17, GGUF_Q5_K, 5.70, "medium 5-bit mix; also named Q5_K"},
    [FT_Q6_K] = {"Q6_K", 18, GGUF_Q6_K, 6.56, "6-bit blocks, close to the original"},
    [FT_IQ1_S] = {"IQ1_S", 24, GGUF_IQ1_S, 2.00, "needs importance data"},
    [FT_IQ1_M] = {"IQ1_M", 31, GGUF_IQ1_M, 2.15, "needs importance data"},
    [FT_IQ2_XXS] = {"IQ2_XXS", 19, GGUF_IQ2_XXS, 2.38, "needs importance data"},
    [FT_IQ2_XS] = {"IQ2_XS", 20, GGUF_IQ2_XS, 2.59, "needs importance data"},
    [FT_IQ2_S] = {"IQ2_S", 28, GGUF_IQ2_XS, 2.74, "needs importance data"},
    [FT_IQ2_M] = {"IQ2_M", 29, GGUF_IQ2_S, 2.93, "needs importance data"},
    [FT_IQ3_XXS] = {"IQ3_XXS", 23, GGUF_IQ3_XXS, 3.37, "needs importance data"},
    [FT_IQ3_XS] = {"IQ3_XS", 22, GGUF_IQ3_S, 3.50, "needs importance data"},
    [FT_IQ3_S] = {"IQ3_S", 26, GGUF_IQ3_S, 3.66, "3-bit grid"},
    [FT_IQ3_M] = {"IQ3_M", 27, GGUF_IQ3_S, 3.76, "3-bit grid, larger types where it matters"},
    [FT_IQ4_NL] = {"IQ4_NL", 25, GGUF_IQ4_NL, 4.68, "uneven 4-bit levels, blocks of 32"},
    [FT_IQ4_XS] = {"IQ4_XS", 30, GGUF_IQ4_XS, 4.46, "uneven 4-bit levels"},
    [FT_TQ1_0] = {"TQ1_0", 36, GGUF_TQ1_0, 2.19, "for ternary models"},
    [FT_TQ2_0] = {"TQ2_0", 37, GGUF_TQ2_0, 2.52, "for ternary models"},
    [FT_MXFP4_MOE] = {"MXFP4_MOE", 38, GGUF_MXFP4, 0, "MXFP4 experts, everything else Q8_0"},
    [FT_Q1_0] = {"Q1_0", 40, GGUF_Q1_0, 0, "one bit and a scale per 128 weights, for binary models"},
    [FT_Q2_0] = {"Q2_0", 41, GGUF_Q2_0, 0, "two bits and a scale per 64 weights"},
    [FT_COPY] = {"COPY", -1, GGUF_TYPE_LIMIT, 0, "every tensor stays as it is"},
};
const size_t mix_n_filetypes = N_FILETYPES;
_Static_assert(sizeof mix_filetypes / sizeof *mix_filetypes == N_FILETYPES, "a row per file type");

/* Others are as good or better in the same bytes, or these are for models made for them. */
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
    if (near) return gq_fail_usage(e, "%s: '%s' is no tensor type, did you mean %s?", where, name, near);
    return gq_fail_usage(e, "%s: '%s' is no tensor type", where, name);
}
