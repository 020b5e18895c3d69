/* The file types: what a user names, the id in general.file_type, the tensor type each one starts from. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mixes/mixes.h"
#include "mixes/rules.h"

#define ROW(name, id, base, bits, summary) [FT_##name] = {#name, id, GGUF_##base, bits, summary},
const mix_filetype mix_filetypes[] = {MIX_FILETYPES(ROW)};
#undef ROW
const size_t mix_n_filetypes = N_FILETYPES;

/* Not offered: other types are as good in the same bytes, or these are for models made for them. */
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
    if (near) return gq_fail_usage(e, "%s: '%s' is not a tensor type, did you mean %s?", where, name, near);
    return gq_fail_usage(e, "%s: '%s' is not a tensor type", where, name);
}
