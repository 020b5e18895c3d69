/* Finds what belongs together. quantization_config says how a folder's weights are coded; the names of the parts are
 * the weight's with an ending of the method's own. Every part's shape is compared with the others by the file of its
 * coding (coded_scaled.c, coded_words.c, coded_codes.c), so that reading need not.
 */
#include "hf/sources/sources.h"

#include <stdlib.h>
#include <string.h>

/* ---- methods ---- */

/* Fails where what shifts or sorts elements stands beside a source tensor whose coding has no such thing. */
static bool coded_check_alone(const coded_find *c, const hf_stored *t, size_t cut, bool has_zeros,
                              gq_error *e) {
    const hf_stored *more = coded_sibling(c, t->name, cut, "_g_idx");
    if (!more && !has_zeros) more = coded_sibling(c, t->name, cut, "_zero_point");
    return !more || !coded_method_is(c, "compressed-tensors") ||
           hf_list_fail(c->list, more, e,
                        "not supported beside weights of this format; use the model's folder in 16 bits");
}

/* The formats of compressed-tensors whose source tensors end in _packed: words of integers, or codes of 4 bits with
 * scales of NVFP4 or MXFP4. */
static bool source_make_compressed(const coded_find *c, hf_source *s, gq_error *e) {
    const hf_stored *t = s->stored;
    size_t cut = strlen("_packed");
    if (t->dtype == HF_I32) return source_make_packed(c, s, e);
    const hf_stored *scale = coded_sibling(c, t->name, cut, "_scale");
    if (!scale) return hf_list_fail(c->list, t, e, "its scales are missing: download the whole model");
    if (!coded_check_alone(c, t, cut, false, e)) return false;
    if (scale->dtype == HF_E4M3)
        return source_make_nvfp4(c, s, scale, cut, "_global_scale", true, e) &&
               source_set_name(s, cut, "", e);
    if (scale->dtype != HF_U8 && scale->dtype != HF_E8M0)
        return hf_list_fail(c->list, scale, e, "scales of type %s, expected F8_E4M3 (NVFP4) or U8 (MXFP4)",
                            hf_dtype_name(scale->dtype));
    return source_set_mxfp4(c, s, scale, e) && source_set_name(s, cut, "", e);
}

/* The meaning of an ending of a source tensor's name. Rows are tried in order, and the first that fits decides. */
typedef struct coded_rule {
    const char *method, *end; /* method NULL: any, and none */
    enum { CODED_MAKE, CODED_SCALES, CODED_SCALES_OF_CODES, CODED_LEFT_OUT, CODED_NOTE } does;
    bool (*make)(const coded_find *c, hf_source *s, gq_error *e);
} coded_rule;

static const coded_rule coded_rules[] = {
    {NULL, ".activation_scale", CODED_LEFT_OUT, NULL},
    {NULL, "_activation_scale", CODED_LEFT_OUT, NULL},
    {NULL, ".qscale_act", CODED_LEFT_OUT, NULL},
    {NULL, ".input_scale", CODED_LEFT_OUT, NULL},
    {NULL, ".input_scale_ub", CODED_LEFT_OUT, NULL},
    {NULL, ".input_global_scale", CODED_LEFT_OUT, NULL},
    {NULL, ".output_scale", CODED_LEFT_OUT, NULL},
    {NULL, ".scale_input", CODED_LEFT_OUT, NULL}, /* ComfyUI's, with three rows below */
    {NULL, ".q_scale", CODED_LEFT_OUT, NULL},
    {NULL, ".k_scale", CODED_LEFT_OUT, NULL},
    {NULL, ".v_scale", CODED_LEFT_OUT, NULL},
    {NULL, ".kv_scale", CODED_LEFT_OUT, NULL},
    {NULL, "_scale_inv", CODED_SCALES, NULL},
    {NULL, ".qscale_weight", CODED_SCALES, NULL},
    {NULL, ".weight_scale", CODED_SCALES, NULL},
    {NULL, ".scale", CODED_SCALES_OF_CODES, NULL},
    {NULL, ".scale_weight", CODED_SCALES, NULL},
    {NULL, ".comfy_quant", CODED_SCALES, NULL},
    {NULL, "scaled_fp8", CODED_NOTE, NULL},
    {"compressed-tensors", "_packed", CODED_MAKE, source_make_compressed},
    {"compressed-tensors", ".weight_shape", CODED_SCALES, NULL},
    {"compressed-tensors", ".weight_zero_point", CODED_SCALES, NULL},
    {"compressed-tensors", ".weight_g_idx", CODED_SCALES, NULL},
    {"compressed-tensors", ".weight_global_scale", CODED_SCALES, NULL},
    {"modelopt", ".weight_scale_2", CODED_SCALES, NULL},
    {"gptq", ".qweight", CODED_MAKE, source_make_gptq},
    {"gptq", ".qzeros", CODED_SCALES, NULL},
    {"gptq", ".scales", CODED_SCALES, NULL},
    {"gptq", ".g_idx", CODED_SCALES, NULL},
    {"mxfp4", "_blocks", CODED_MAKE, source_make_mxfp4},
    {"mxfp4", "_scales", CODED_SCALES, NULL},
};
enum { CODED_RULES = sizeof coded_rules / sizeof *coded_rules };

static const coded_rule *coded_rule_of(const coded_find *c, const char *name) {
    for (size_t i = 0; i < CODED_RULES; i++)
        if ((!coded_rules[i].method || coded_method_is(c, coded_rules[i].method)) &&
            name_ends(name, coded_rules[i].end))
            return &coded_rules[i];
    return NULL;
}

/* ---- source tensors that are no words or blocks ---- */

/* Returns the settings of the weights that have a format of compressed-tensors: each group may have one of
 * its own. NULL: no group has it, or groups of it differ in `key`. */
static const json_t *group_weights(const coded_find *c, const char *format, const char *key) {
    const char *name, *common = json_string_value(json_object_get(c->settings, "format"));
    const json_t *found = NULL;
    json_t *group;
    json_object_foreach(json_object_get(c->settings, "config_groups"), name, group) {
        const char *own = json_string_value(json_object_get(group, "format"));
        const json_t *weights = json_object_get(group, "weights");
        if (!own) own = common;
        if (!own || strcmp(own, format) != 0 || !weights) continue;
        const json_t *x = json_object_get(found, key), *y = json_object_get(weights, key);
        if (found && !(x == y || (x && y && json_equal(x, y)))) return NULL;
        found = weights;
    }
    return found;
}

/* Finds the scales that DeepSeek V4 has beside two codes of MXFP4 in a byte. NULL: it is no such source tensor. */
static const hf_stored *coded_mxfp4_scale(const coded_find *c, const hf_stored *t) {
    if (t->dtype != HF_I8 || !name_ends(t->name, ".weight")) return NULL;
    const hf_stored *scale = coded_sibling(c, t->name, strlen("weight"), "scale");
    return scale && scale->dtype == HF_E8M0 ? scale : NULL;
}

/* Whether "X.scale" belongs to "X.weight", as it does in DeepSeek V4: other models have weights of that name. */
static bool coded_scales_codes(const coded_find *c, const hf_stored *t) {
    const hf_stored *owner = coded_sibling(c, t->name, strlen("scale"), "weight");
    return owner && (coded_mxfp4_scale(c, owner) || coded_scale_beside(c, owner) == t);
}

/* Finds the scale of a source tensor. Beside F8 it is a factor, whoever has saved it; beside other types that is so
 * where config.json names one of two methods, unless its format has F8. */
static const hf_stored *coded_scale_of(const coded_find *c, const hf_stored *t) {
    bool counts = stored_is_f8(t) || coded_method_is(c, "modelopt") ||
                  (coded_method_is(c, "compressed-tensors") && !group_weights(c, "float-quantized", "type"));
    return counts ? coded_scale_beside(c, t) : NULL;
}

/* The sizes of the blocks that share a scale, of the formats of plain elements; NULL: the scale's shape
 * says it. */
static const json_t *coded_blocks(const coded_find *c, const hf_stored *t) {
    const json_t *blocks = json_object_get(c->settings, "weight_block_size");
    return blocks ? blocks : plain_setting(c, t, "block_structure");
}

/* Whether elements are codes that mean nothing without what says how they are coded. */
static bool stored_is_coded(const hf_stored *t) {
    return (t->dtype == HF_U8 || t->dtype == HF_I8 || t->dtype == HF_I32) && t->n_dims >= 2 &&
           name_ends(t->name, ".weight");
}

/* Fails where a matrix lacks the scale that others have. */
static bool coded_check_scale(const coded_find *c, const hf_stored *t, const hf_stored *scale, gq_error *e) {
    bool is_noted =
        name_ends(t->name, ".weight") &&
        coded_sibling(c, t->name, strlen("weight"), "comfy_quant"); /* ComfyUI's: F8 and a scale */
    bool needs = stored_is_f8(t) && ((t->n_dims >= 2 && (c->has_scales || c->method)) || is_noted);
    if (!scale && needs)
        return hf_list_fail(c->list, t, e, "elements of type %s without a scale beside them%s",
                            hf_dtype_name(t->dtype),
                            is_noted        ? ", but with a note of one: download the whole model"
                            : c->has_scales ? ", which others have: download the folder again"
                                            : "");
    const hf_stored *beside = t->dtype <= HF_BF16 && !scale ? coded_scale_beside(c, t) : NULL;
    return !beside || hf_list_fail(c->list, t, e,
                                   "elements of type %s with '%s' beside them, and config.json does not say "
                                   "what it is for: use the model's folder in 16 bits",
                                   hf_dtype_name(t->dtype), beside->name);
}

static bool source_make_plain(const coded_find *c, hf_source *s, gq_error *e) {
    const hf_stored *t = s->stored, *scale = coded_scale_of(c, t);
    s->coding = &hf_plain;
    source_set_shape(s, t->n_dims, t->shape);
    if (!source_set_name(s, 0, "", e)) return false;
    if (t->n == 0) return hf_list_fail(c->list, t, e, "no elements");
    if (scale && t->dtype == HF_U8 && scale->dtype == HF_E4M3) /* NVFP4 of modelopt */
        return source_make_nvfp4(c, s, scale, 0, "_scale_2", false, e);
    const hf_stored *mxfp4 = coded_mxfp4_scale(c, t);
    if (mxfp4) return source_set_mxfp4(c, s, mxfp4, e);
    if (coded_method_is(c, "bitnet") && t->dtype == HF_U8 && (scale = coded_scale_beside(c, t)))
        return source_make_ternary(c, s, scale, e);
    if (stored_is_coded(t) && (!scale || t->dtype == HF_U8)) return hf_codes_fail(c->list, t, c->method, e);
    return coded_check_alone(c, t, 0, true, e) && coded_check_scale(c, t, scale, e) &&
           (!scale || coded_check_one_scale(c, t, e)) &&
           (!scale || source_add_scale(c, s, scale, coded_blocks(c, t), e));
}

/* Whether a source tensor serves another one that is there. */
static bool coded_serves(const coded_find *c, const hf_stored *t, const coded_rule *r, gq_error *e) {
    static const char *const owners[] = {"",       "_packed", "_blocks",  ".weight",
                                         "weight", "qweight", ".qweight", ".weight_packed"};
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
        for (size_t cut = strlen(r->end) - (*r->end == '.'); cut <= strlen(r->end); cut++) {
            const hf_stored *owner = coded_sibling(c, t->name, cut, owners[i]);
            if (owner && owner != t) return true;
        }
    return hf_list_fail(c->list, t, e, "there is no weight that it belongs to");
}

/* Makes the source of a source tensor, unless it serves another one. */
static bool sources_add(coded_find *c, const hf_stored *t, hf_source *sources, size_t *n, gq_error *e) {
    const coded_rule *r = coded_rule_of(c, t->name);
    if (r && r->does == CODED_LEFT_OUT) {
        if (c->n_left_out++ == 0) c->left_out = t->name;
        return true;
    }
    if (r && r->does == CODED_NOTE) return true;
    if (r && r->does == CODED_SCALES) return coded_serves(c, t, r, e);
    if (r && r->does == CODED_SCALES_OF_CODES) {
        if (coded_scales_codes(c, t)) return true;
        r = NULL;
    }
    hf_source *s = &sources[(*n)++];
    *s = (hf_source){.list = c->list, .stored = t};
    return r ? r->make(c, s, e) : source_make_plain(c, s, e);
}

bool hf_sources_find(const hf_config *config, const hf_list *l, hf_source **sources, size_t *n, gq_error *e) {
    coded_find c = {.config = config, .list = l};
    *n = 0, *sources = calloc(l->n + 1, sizeof **sources);
    if (!*sources) return gq_fail_memory(e, l->n * sizeof **sources);
    bool ok = coded_find_method(&c, e);
    for (size_t i = 0; ok && i < l->n && !c.has_scales; i++) /* the mark of a file is ComfyUI's */
        c.has_scales = (stored_is_f8(&l->stored[i]) && coded_scale_beside(&c, &l->stored[i])) ||
                       name_ends(l->stored[i].name, "scaled_fp8");
    for (size_t i = 0; ok && i < l->n; i++) ok = sources_add(&c, &l->stored[i], *sources, n, e);
    ok = ok && coded_warn_left_out(&c, e);
    json_decref(c.own);
    return ok;
}

void hf_sources_free(hf_source *sources, size_t n) {
    for (size_t i = 0; i < n; i++) hf_deltas_free(&sources[i].deltas), free((char *)sources[i].name);
    free(sources);
}
