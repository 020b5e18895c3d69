#include "hf/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/checked.h"
#include "base/fail.h"
#include "hf/build_tensor.h"
#include "hf/coded.h"
#include "hf/names.h"
#include "hf/origin.h"

enum {
    SMALL_ELEMENTS = 1024, /* at most: such arrays are F32 */
    FOLDED_LEAST = 512,    /* elements of an array that is stored as rows of 256 */
    FOLDED_ROW = 256,
};

/* ---- which architecture ---- */

const char *hf_image_names(char *text, size_t size) {
    const architecture *a;
    *text = 0;
    for (size_t i = 0, n = 0; (a = arch_at(i)) && n < size; i++)
        if (a->image.keeps) n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", a->name);
    return text;
}

/* Prefixes of the names of the model's arrays: files that also hold text encoders have a prefix for
 * each; others have one for all. */
static const char *list_prefix(const hf_list *l) {
    static const char *const some[] = {"model.diffusion_model.", "model."}, *const all = "net.";
    for (size_t k = 0; k < sizeof some / sizeof *some; k++)
        for (size_t i = 0; i < l->n; i++)
            if (name_behind(l->stored[i].name, some[k])) return some[k];
    for (size_t i = 0; i < l->n; i++)
        if (!name_behind(l->stored[i].name, all)) return "";
    return all;
}

static bool list_has(const hf_list *l, const char *prefix, const char *name) {
    char whole[256];
    return (size_t)snprintf(whole, sizeof whole, "%s%s", prefix, name) < sizeof whole &&
           hf_list_find(l, whole);
}

static bool list_fits(const hf_list *l, const char *prefix, const arch_image_mark *mark) {
    for (size_t k = 0; k < sizeof mark->has / sizeof *mark->has && mark->has[k]; k++)
        if (!list_has(l, prefix, mark->has[k])) return false;
    return true;
}

/* Finds the first architecture one of whose marks fits. NULL: there is none. */
static const architecture *list_find_mark(const hf_list *l, const char *prefix,
                                          const arch_image_mark **mark) {
    const architecture *a;
    for (size_t i = 0; (a = arch_at(i)); i++)
        for (*mark = a->image.marks; *mark && (*mark)->has[0]; ++*mark)
            if (list_fits(l, prefix, *mark)) return a;
    return NULL;
}

bool hf_image_is(const char *folder, const char *file) {
    hf_folder f;
    hf_list l = {.folder = NULL};
    bool is = hf_folder_open(&f, folder, NULL) && hf_list_read_file(&l, &f, file, NULL);
    const arch_image_mark *mark;
    is = is && list_find_mark(&l, list_prefix(&l), &mark) && !mark->instead;
    hf_list_free(&l), hf_folder_close(&f);
    return is;
}

/* Fails for arrays that are no model's, or coded as only other programs know: a piece of a name tells. */
static bool list_check_kind(const hf_list *l, gq_error *e) {
    static const char scaled[] =
        "weights of 8 bits with scales, as ComfyUI stores them, cannot be read: take "
        "the file in 16 bits",
                      lora[] = "a LoRA, not a model: merge it into its model first",
                      four[] = "weights quantized to 4 bits cannot be read: take the file in 16 bits";
    static const char *const rows[][2] = {
        {".lora_", lora},          {"lora_unet_", lora},      {"lora_transformer_", lora},
        {".hada_w1_", lora},       {".lokr_w1", lora},        {"scaled_fp8", scaled},
        {".scale_weight", scaled}, {".weight_scale", scaled}, {".comfy_quant", scaled},
        {".quant_state.", four},   {".weight.absmax", four},  {".wscales", four},
    };
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (strstr(l->stored[i].name, rows[k][0]))
                return hf_list_fail(l, &l->stored[i], e, "%s", rows[k][1]);
    return true;
}

static bool list_recognise(const hf_list *l, const char **prefix, const architecture **arch, gq_error *e) {
    char names[HF_IMAGE_NAMES];
    const arch_image_mark *mark;
    *prefix = list_prefix(l);
    *arch = list_find_mark(l, *prefix, &mark);
    if (l->n == 0) return gq_fail(e, "%s has no arrays", l->folder->files[0].file.path);
    if (!list_check_kind(l, e)) return false;
    if (*arch && !mark->instead) return true;
    const char *path = hf_list_path(l, l->stored[0].file);
    if (*arch) return gq_fail(e, "%s: %s has %s", path, (*arch)->name, mark->instead);
    return gq_fail(e,
                   "%s: its arrays ('%s' and %zu more) are those of no image model that is known (%s); a "
                   "language model is given as its folder, with config.json",
                   path, l->stored[0].name, l->n - 1, hf_image_names(names, sizeof names));
}

/* ---- tensors ---- */

static bool name_has_any(const char *name, const char *const *pieces) {
    for (; pieces && *pieces; pieces++)
        if (strstr(name, *pieces)) return true;
    return false;
}

/* Sets a tensor's dimensions, row length first. GGUF has four: the outermost of a larger array are one there.
 * Arrays of UNets whose rows fit no block are stored as rows of 256. Returns whether the shape is another. */
static bool tensor_set_shape(model_tensor *m, const hf_source *s, bool folds) {
    uint32_t n = s->n_dims;
    if (folds && n > 1 && s->stored->n >= FOLDED_LEAST && s->stored->n % FOLDED_ROW == 0 &&
        s->columns % FOLDED_ROW != 0) {
        m->ne[0] = FOLDED_ROW, m->ne[1] = s->stored->n / FOLDED_ROW, m->n_dims = 2;
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *ne = &m->ne[min(i, GGUF_MAX_DIMS - 1)];
        *ne = mul_sat(*ne, s->shape[n - 1 - i]);
    }
    m->n_dims = (uint32_t)min(max(1, n), GGUF_MAX_DIMS);
    return n > GGUF_MAX_DIMS;
}

/* Notes the shape that a tensor has for its readers. */
static bool pairs_add_shape(hf_pairs *pairs, const char *name, const hf_source *s, gq_error *e) {
    char key[GGUF_MAX_NAME + 32];
    snprintf(key, sizeof key, "comfy.gguf.orig_shape.%s", name);
    for (uint32_t i = 0; i < s->n_dims; i++) {
        int32_t count = (int32_t)s->shape[i];
        if (s->shape[i] > INT32_MAX)
            return hf_list_fail(s->list, s->stored, e, "a dimension is larger than 2^31 - 1");
        if (!hf_pairs_add(pairs, &count, sizeof count, e)) return false;
    }
    return hf_pairs_array(pairs, key, GGUF_INT32, e);
}

static bool image_add(hf_build *b, const hf_source *s, const arch_image *image, const char *prefix,
                      hf_pairs *pairs, gq_error *e) {
    const hf_stored *t = s->stored;
    const char *name = name_behind(s->name, prefix);
    if (!name || name_has_any(name, image->left_out)) return true;
    if (!*name || strlen(name) > GGUF_MAX_NAME)
        return hf_list_fail(b->list, t, e, "its name has %zu bytes, expected 1 to %d", strlen(name),
                            GGUF_MAX_NAME);
    if (t->dtype >= HF_E8M0)
        return hf_list_fail(
            b->list, t, e,
            "elements of type %s: weights quantized by another program cannot be read; take the file in "
            "16 bits",
            hf_dtype_name(t->dtype));
    hf_tensor *made = hf_build_add(b, name, 1, e);
    if (!made) return false;
    model_tensor *m = &made->tensor;
    made->pieces[0] = (hf_piece){.source = s, .view = hf_view_of(s)};
    made->stored_name = s->name;
    if (tensor_set_shape(m, s, image->folds) && !pairs_add_shape(pairs, name, s, e)) return false;
    /* parameters that are no layer's weights: readers take them as they are, and know no BF16 */
    bool wide = s->n_dims <= 1 || s->n_dims > GGUF_MAX_DIMS || t->n <= SMALL_ELEMENTS ||
                name_has_any(name, image->stays);
    if (t->dtype == HF_F16 || !wide) m->type = hf_source_type(s);
    if (!wide && (t->dtype == HF_E4M3 || t->dtype == HF_E5M2)) m->kept_type = tensor_type_of(GGUF_F16);
    return hf_tensor_join(made, e);
}

bool hf_image_build(hf_build *b, const hf_config *c, const hf_list *l, hf_pairs *pairs, gq_error *e) {
    const char *prefix = NULL;
    const architecture *arch = NULL;
    *b = (hf_build){.config = c, .list = l};
    if (!list_recognise(l, &prefix, &arch, e) ||
        !hf_pairs_text(pairs, "general.architecture", arch->name, e) ||
        !hf_sources_find(c, l, &b->sources, &b->n_sources, e))
        return false;
    for (size_t i = 0; i < b->n_sources; i++)
        if (!image_add(b, &b->sources[i], &arch->image, prefix, pairs, e)) return false;
    for (size_t i = 0; i < b->n; i++)
        if (!hf_origin_describe(&b->tensors[i], e)) return false;
    return true;
}
