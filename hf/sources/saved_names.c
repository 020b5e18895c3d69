/* Models are saved from inside of whatever trained them: compilers and wrappers for several machines put a
 * word of their own into the path of a source tensor's name. Such words say nothing and are taken out. Adapters and
 * quantizers leave source tensors that mean something, which no rule here knows: those are refused by the tool's
 * name, as what to do depends on it.
 */
#include "hf/sources/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/rules.h"

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

/* Takes "language_model." out of a name where the multimodal projector follows it: some tools save a tower as a
 * part of the language model. Returns whether it was there. */
static bool name_move_tower(char *name) {
    const char *const *const towers = NAMES("visual.", "vision_tower.", "vision_model.", "vision_encoder.",
                                            "audio_tower.", "audio_encoder.", "multi_modal_projector.");
    static const char part[] = "language_model.";
    char *at = strncmp(name, "model.", 6) == 0 ? name + 6 : name, *behind = at + sizeof part - 1;
    if (strncmp(at, part, sizeof part - 1) != 0) return false;
    for (const char *const *tower = towers; *tower; tower++)
        if (name_behind(behind, *tower)) return memmove(at, behind, strlen(behind) + 1), true;
    return false;
}

static int compare_stored(const void *a, const void *b) {
    const hf_stored *x = a, *y = b;
    return x->file != y->file ? (x->file < y->file ? -1 : 1) : strcmp(x->name, y->name);
}

/* Changes all names, and warns where any did change. */
static bool list_rename(hf_list *l, bool (*change)(char *name), const char *what, gq_error *e) {
    size_t n = 0;
    char first[256] = "";
    for (size_t i = 0; i < l->n; i++) {
        char was[256];
        snprintf(was, sizeof was, "%s", l->stored[i].name);
        if (change((char *)l->stored[i].name) && n++ == 0) memcpy(first, was, sizeof first);
    }
    if (n == 0) return true;
    qsort(l->stored, l->n, sizeof *l->stored, compare_stored);
    return hf_list_index(l, e) &&
           hf_folder_warn(l->folder, "", e, "%zu tensor name%s, such as '%s', %s %s; it is removed", n,
                          plural_suffix(n), first, n == 1 ? "has" : "have", what);
}

bool hf_list_unwrap(hf_list *l, gq_error *e) {
    return list_rename(
               l, name_unwrap,
               "a word that a training tool puts in (_orig_mod, module, _fsdp_wrapped_module and the like)",
               e) &&
           list_rename(l, name_move_tower, "'language_model.' before the encoders", e);
}

/* ---- marks of tools ---- */

/* Parts of names; with a '^' in front at its beginning, with a '$' behind at its end. NULL ends a list. */
static const char adapter[] =
    "an adapter of PEFT that is not merged; merge it first (merge_and_unload of PEFT, or "
    "the trainer's own export of merged weights), and take the folder that this saves";
static const char *const *const adapter_marks =
    NAMES("^base_model.model.", ".base_layer.", "lora_", "modules_to_save.", "original_module.", ".ia3_l",
          ".hada_w", ".lokr_w", ".oft_", "prompt_encoder.", "prompt_embeddings", ".vera_");

/* Names of quantizers where config.json does not say them. */
static const struct {
    const char *what, *const marks[6];
} quantizers[] = {
    {"bitsandbytes", {".quant_state.", ".absmax$", ".nested_absmax$", ".quant_map$", ".nested_quant_map$"}},
    {"bitsandbytes (LLM.int8)", {".SCB$", ".weight_format$"}},
    {"MLX", {".switch_mlp.", ".switch_glu.", ".biases$"}},
    {"GPTQ or AWQ", {".qweight$", ".qzeros$"}},
    {"GPTQ", {".g_idx$"}},
    {"GPTQ, AWQ or MLX", {".scales$"}},
    {"compressed-tensors", {"_packed$", ".weight_shape$", ".weight_zero_point$", ".weight_global_scale$"}},
    {"modelopt (NVFP4)", {".weight_scale_2$"}},
    {"MXFP4", {"_blocks$", "_scales$"}},
    {"HQQ", {".W_q$"}},
    {"quanto", {"._data$", "._scale$"}},
    {"AQLM", {".codebooks$", ".codes$"}},
    {"VPTQ", {".centroids."}},
    {"QuIP#", {".Qidxs$"}},
    {"FP8", {".qscale_weight$", "_scale_inv$", ".weight_scale$"}},
};

static bool mark_fits(const char *const *marks, const char *name) {
    for (; *marks; marks++) {
        char part[64];
        size_t n = strlen(*marks) - 1;
        snprintf(part, sizeof part, "%.*s", (int)n, *marks);
        if ((*marks)[n] == '$' ? name_ends(name, part)
            : **marks == '^'   ? name_behind(name, *marks + 1) != NULL
                               : strstr(name, *marks) != NULL)
            return true;
    }
    return false;
}

static const char *quantizer_find(const char *name) {
    for (size_t i = 0; i < sizeof quantizers / sizeof *quantizers; i++)
        if (mark_fits(quantizers[i].marks, name)) return quantizers[i].what;
    return NULL;
}

bool hf_codes_fail(const hf_list *l, const hf_stored *t, const char *method, gq_error *e) {
    const char *tool = quantizer_find(t->name);
    return hf_list_fail(
        l, t, e, "elements of type %s, quantized by %s, are not supported; use the model's folder in 16 bits",
        hf_dtype_name(t->dtype),
        method ? method
        : tool ? tool
               : "a tool that config.json does not name (it has no quantization_config)");
}

bool hf_name_fail(const hf_list *l, const hf_stored *t, const char *arch, const char *method,
                  const char *nearest, gq_error *e) {
    if (mark_fits(adapter_marks, t->name)) return hf_list_fail(l, t, e, "%s", adapter);
    if (name_ends(t->name, ".pre_quant_scale"))
        return hf_list_fail(l, t, e,
                            "it scales the inputs of its matrix (AWQ of modelopt), which gquant does not do; "
                            "use the model's folder in 16 bits");
    if (quantizer_find(t->name)) return hf_codes_fail(l, t, method, e);
    return hf_list_fail(l, t, e, "unknown tensor for architecture %s%s%s%s%s", arch,
                        nearest ? " (the nearest is '" : "", nearest ? nearest : "", nearest ? "')" : "",
                        l->is_mlx ? "; the folder was saved by MLX: use the model's original folder" : "");
}
