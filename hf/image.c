#include "hf/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The first row all of whose arrays are there decides. Rows of one architecture are releases with other
 * names; `instead`: these names are not those that readers of GGUF files know. */
typedef struct image_rule {
    const char *arch;
    const char *has[4];
    const char *instead;
} image_rule;

#define DIFFUSERS(file) "the names of diffusers: take the model's original file" file
static const image_rule rules[] = {
    {"qwen_image",
     {"time_text_embed.timestep_embedder.linear_2.weight", "transformer_blocks.0.attn.norm_added_q.weight",
      "transformer_blocks.0.img_mlp.net.0.proj.weight"},
     NULL},
    {"flux", {"transformer_blocks.0.attn.norm_added_k.weight"}, DIFFUSERS(", as flux1-dev.safetensors")},
    {"flux", {"double_blocks.0.img_attn.proj.weight"}, NULL},
    {"sd3", {"transformer_blocks.0.attn.add_q_proj.weight"}, DIFFUSERS(", as sd3.5_large.safetensors")},
    {"sd3", {"joint_blocks.0.x_block.attn.qkv.weight"}, NULL},
    {"aura", {"joint_transformer_blocks.3.ff_context.out_projection.weight"}, DIFFUSERS("")},
    {"aura", {"double_layers.3.modX.1.weight"}, NULL},
    {"hidream",
     {"caption_projection.0.linear.weight", "double_stream_blocks.0.block.ff_i.shared_experts.w3.weight"},
     NULL},
    {"cosmos", {"blocks.0.mlp.layer1.weight", "blocks.0.adaln_modulation_cross_attn.1.weight"}, NULL},
    {"ltxv",
     {"adaln_single.emb.timestep_embedder.linear_2.weight", "transformer_blocks.27.scale_shift_table",
      "caption_projection.linear_2.weight"},
     NULL},
    {"hyvid",
     {"double_blocks.0.img_attn_proj.weight",
      "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight"},
     NULL},
    {"wan",
     {"blocks.0.attn1.norm_q.weight", "condition_embedder.text_embedder.linear_1.weight"},
     DIFFUSERS("")},
    {"wan", {"blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "head.modulation"}, NULL},
    {"sdxl", {"down_blocks.0.downsamplers.0.conv.weight", "add_embedding.linear_1.weight"}, NULL},
    {"sdxl",
     {"input_blocks.3.0.op.weight", "input_blocks.6.0.op.weight", "output_blocks.2.2.conv.weight",
      "output_blocks.5.2.conv.weight"},
     NULL},
    {"sdxl", {"label_emb.0.0.weight"}, NULL},
    {"sd1", {"down_blocks.0.downsamplers.0.conv.weight"}, NULL},
    {"sd1",
     {"input_blocks.3.0.op.weight", "input_blocks.9.0.op.weight", "output_blocks.2.1.conv.weight",
      "output_blocks.8.2.conv.weight"},
     NULL},
    {"lumina2", {"cap_embedder.1.weight", "context_refiner.0.attention.qkv.weight"}, NULL},
};
enum { RULES = sizeof rules / sizeof *rules };

const char *hf_image_names(void) {
    return "flux, chroma, sd1, sdxl, sd3, aura, hidream, cosmos, hyvid, ltxv, lumina2, qwen_image, wan, "
           "z_image";
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

static const image_rule *list_find_rule(const hf_list *l, const char *prefix) {
    for (size_t i = 0; i < RULES; i++) {
        size_t k = 0;
        while (k < 4 && rules[i].has[k] && list_has(l, prefix, rules[i].has[k])) k++;
        if (k == 4 || !rules[i].has[k]) return &rules[i];
    }
    return NULL;
}

bool hf_image_is(const char *folder, const char *file) {
    hf_folder f;
    hf_list l = {.folder = NULL};
    bool is = hf_folder_open(&f, folder, NULL) && hf_list_read_file(&l, &f, file, NULL);
    const image_rule *r = is ? list_find_rule(&l, list_prefix(&l)) : NULL;
    hf_list_free(&l), hf_folder_close(&f);
    return r && !r->instead;
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

static bool list_recognise(const hf_list *l, const char **prefix, const char **arch, gq_error *e) {
    *prefix = list_prefix(l);
    const image_rule *r = list_find_rule(l, *prefix);
    if (l->n == 0) return gq_fail(e, "%s has no arrays", l->folder->files[0].file.path);
    if (!list_check_kind(l, e)) return false;
    if (r && !r->instead) return *arch = r->arch, true;
    const char *path = hf_list_path(l, l->stored[0].file);
    if (r) return gq_fail(e, "%s: %s has %s", path, r->arch, r->instead);
    return gq_fail(e,
                   "%s: its arrays ('%s' and %zu more) are those of no image model that is known (%s); a "
                   "language model is given as its folder, with config.json",
                   path, l->stored[0].name, l->n - 1, hf_image_names());
}

/* ---- tensors ---- */

/* Parameters that are no layer's weights: readers take them as they are, and know no BF16. */
static bool image_stays_f32(const char *arch, const char *name) {
    static const char *const rows[][2] = {
        {"wan", ".modulation"},        {"hidream", ".ff_i.gate.weight"}, {"hidream", "img_emb.emb_pos"},
        {"ltxv", "scale_shift_table"}, {"cosmos", "pos_embedder"},       {"lumina2", "pad_token"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], arch) == 0 && strstr(name, rows[i][1])) return true;
    return false;
}

static bool image_leaves_out(const char *arch, const char *name) {
    return strcmp(arch, "cosmos") == 0 && (strstr(name, "_extra_state") || strstr(name, "accum_"));
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
        uint64_t *ne = &m->ne[smaller(i, GGUF_MAX_DIMS - 1)];
        *ne = times(*ne, s->shape[n - 1 - i]);
    }
    m->n_dims = (uint32_t)smaller(larger(1, n), GGUF_MAX_DIMS);
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

static bool image_add(hf_build *b, const hf_source *s, const char *arch, const char *prefix, hf_pairs *pairs,
                      gq_error *e) {
    const hf_stored *t = s->stored;
    const char *name = name_behind(s->name, prefix);
    if (!name || image_leaves_out(arch, name)) return true;
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
    bool folds = strcmp(arch, "sd1") == 0 || strcmp(arch, "sdxl") == 0;
    made->pieces[0] = (hf_piece){.source = s, .view = hf_view_of(s)};
    made->stored_name = s->name;
    if (tensor_set_shape(m, s, folds) && !pairs_add_shape(pairs, name, s, e)) return false;
    bool wide =
        s->n_dims <= 1 || s->n_dims > GGUF_MAX_DIMS || t->n <= SMALL_ELEMENTS || image_stays_f32(arch, name);
    if (t->dtype == HF_F16 || !wide) m->type = hf_source_type(s);
    if (!wide && (t->dtype == HF_E4M3 || t->dtype == HF_E5M2)) m->kept_type = gguf_type_of(GGUF_F16);
    return hf_tensor_join(made, e);
}

bool hf_image_build(hf_build *b, const hf_config *c, const hf_list *l, hf_pairs *pairs, gq_error *e) {
    const char *prefix = NULL, *arch = NULL;
    *b = (hf_build){.config = c, .list = l};
    if (!list_recognise(l, &prefix, &arch, e) || !hf_pairs_text(pairs, "general.architecture", arch, e) ||
        !hf_sources_find(c, l, &b->sources, &b->n_sources, e))
        return false;
    for (size_t i = 0; i < b->n_sources; i++)
        if (!image_add(b, &b->sources[i], arch, prefix, pairs, e)) return false;
    for (size_t i = 0; i < b->n; i++)
        if (!hf_origin_describe(&b->tensors[i], e)) return false;
    return true;
}
