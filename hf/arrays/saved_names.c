/* Models are saved from inside of whatever trained them: compilers and wrappers for several machines put a
 * word of their own into the path of an array's name. Such words say nothing and are taken out. Adapters and
 * quantizers leave arrays that mean something, which no rule here knows: those are refused by the tool's
 * name, as what to do depends on it.
 */
#include "hf/arrays/saved_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/arrays/names.h"

/* ---- wrappers ---- */

/* Parts of a name, between dots: of torch.compile, DataParallel and DeepSpeed, FSDP, activation
 * checkpointing, Fairscale, Lightning. No architecture has a part of this name. */
static const char *const wrappers[] = {
    "_orig_mod",   "module",         "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
    "_fpw_module", "_forward_module"};

static bool part_is_wrapper(const char *part, size_t n) {
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        if (strlen(wrappers[i]) == n && memcmp(wrappers[i], part, n) == 0) return true;
    return false;
}

/* Takes the wrappers out of a name; its last part stays. Returns whether there were any. */
static bool name_unwrap(char *name) {
    char *to = name;
    bool found = false;
    for (const char *from = name, *dot; *from; from = dot) {
        dot = strchrnul(from, '.');
        bool drops = *dot && part_is_wrapper(from, (size_t)(dot - from));
        if (*dot) dot++;
        found |= drops;
        if (!drops) memmove(to, from, (size_t)(dot - from)), to += dot - from;
    }
    *to = 0;
    return found;
}

static int compare_stored(const void *a, const void *b) {
    const hf_stored *x = a, *y = b;
    return x->file != y->file ? (x->file < y->file ? -1 : 1) : strcmp(x->name, y->name);
}

bool hf_list_unwrap(hf_list *l, gq_error *e) {
    size_t n = 0;
    char first[256] = "";
    for (size_t i = 0; i < l->n; i++) {
        char was[256];
        snprintf(was, sizeof was, "%s", l->stored[i].name);
        if (name_unwrap((char *)l->stored[i].name) && n++ == 0) memcpy(first, was, sizeof first);
    }
    if (n == 0) return true;
    qsort(l->stored, l->n, sizeof *l->stored, compare_stored);
    return hf_list_index(l, e) && hf_folder_warn(l->folder, "", e,
                                                 "%zu name%s of arrays, such as '%s', %s a word that a "
                                                 "training tool puts in (_orig_mod, module, "
                                                 "_fsdp_wrapped_module and the like); it is taken out",
                                                 n, plural_suffix(n), first, n == 1 ? "has" : "have");
}

/* ---- marks of tools ---- */

typedef struct tool_mark {
    const char *part; /* of a name; with a '^' in front at its beginning, with a '$' behind at its end */
    const char *what;
} tool_mark;

static const char adapter[] =
    "an adapter of PEFT that is not merged; merge it first (merge_and_unload of PEFT, or "
    "the trainer's own export of merged weights), and take the folder that this saves";

static const tool_mark adapters[] = {
    {"^base_model.model.", adapter},
    {".base_layer.", adapter},
    {"lora_", adapter},
    {"modules_to_save.", adapter},
    {"original_module.", adapter},
    {".ia3_l", adapter},
    {".hada_w", adapter},
    {".lokr_w", adapter},
    {".oft_", adapter},
    {"prompt_encoder.", adapter},
    {"prompt_embeddings", adapter},
    {".vera_", adapter},
};

/* What quantizers are called where config.json does not say it. */
static const tool_mark quantizers[] = {
    {".quant_state.", "bitsandbytes"},
    {".absmax$", "bitsandbytes"},
    {".nested_absmax$", "bitsandbytes"},
    {".quant_map$", "bitsandbytes"},
    {".nested_quant_map$", "bitsandbytes"},
    {".SCB$", "bitsandbytes (LLM.int8)"},
    {".weight_format$", "bitsandbytes (LLM.int8)"},
    {".switch_mlp.", "MLX"},
    {".switch_glu.", "MLX"},
    {".biases$", "MLX"},
    {".qweight$", "GPTQ or AWQ"},
    {".qzeros$", "GPTQ or AWQ"},
    {".g_idx$", "GPTQ"},
    {".scales$", "GPTQ, AWQ or MLX"},
    {"_packed$", "compressed-tensors"},
    {".weight_shape$", "compressed-tensors"},
    {".weight_zero_point$", "compressed-tensors"},
    {".weight_global_scale$", "compressed-tensors"},
    {".weight_scale_2$", "modelopt (NVFP4)"},
    {"_blocks$", "MXFP4"},
    {"_scales$", "MXFP4"},
    {".W_q$", "HQQ"},
    {"._data$", "quanto"},
    {"._scale$", "quanto"},
    {".codebooks$", "AQLM"},
    {".codes$", "AQLM"},
    {".centroids.", "VPTQ"},
    {".Qidxs$", "QuIP#"},
    {".qscale_weight$", "FP8"},
    {"_scale_inv$", "FP8"},
    {".weight_scale$", "FP8"},
};

static const char *mark_find(const tool_mark *marks, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++) {
        char part[64];
        size_t length = strlen(marks[i].part);
        memcpy(part, marks[i].part, length + 1);
        if (part[length - 1] == '$') part[length - 1] = 0;
        if (marks[i].part[length - 1] == '$' ? name_ends(name, part)
            : *part == '^'                   ? name_behind(name, part + 1) != NULL
                                             : strstr(name, part) != NULL)
            return marks[i].what;
    }
    return NULL;
}

bool hf_codes_fail(const hf_list *l, const hf_stored *t, const char *method, gq_error *e) {
    const char *tool = mark_find(quantizers, sizeof quantizers / sizeof *quantizers, t->name);
    return hf_list_fail(
        l, t, e, "elements of type %s, quantized by %s, cannot be read; take the model's folder in 16 bits",
        hf_dtype_name(t->dtype),
        method ? method
        : tool ? tool
               : "a tool that config.json does not name (it has no quantization_config)");
}

bool hf_name_fail(const hf_list *l, const hf_stored *t, const char *arch, const char *method,
                  const char *nearest, gq_error *e) {
    const char *what = mark_find(adapters, sizeof adapters / sizeof *adapters, t->name);
    if (what) return hf_list_fail(l, t, e, "%s", what);
    if (mark_find(quantizers, sizeof quantizers / sizeof *quantizers, t->name))
        return hf_codes_fail(l, t, method, e);
    return hf_list_fail(l, t, e, "no rule of the architecture %s has this name%s%s%s%s", arch,
                        nearest ? " (the nearest is '" : "", nearest ? nearest : "", nearest ? "')" : "",
                        l->is_mlx ? "; the folder was saved by MLX: take the model's original folder" : "");
}
