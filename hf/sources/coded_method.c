/* The quantization settings of config.json are often left over: programs that save a dequantized or merged model
 * seldom remove them. So the source tensors decide: where all are floats of 16 bits or more, nothing is quantized,
 * whatever is said. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hf/sources/sources.h"

const char *coded_text(const coded_find *c, const char *key) {
    return json_string_value(json_object_get(c->settings, key));
}

bool coded_method_is(const coded_find *c, const char *method) {
    return c->method && strcmp(c->method, method) == 0;
}

const hf_stored *coded_sibling(const coded_find *c, const char *name, size_t cut, const char *end) {
    char other[512];
    size_t n = strlen(name) - cut;
    if (n + strlen(end) >= sizeof other) return NULL;
    memcpy(other, name, n);
    memcpy(other + n, end, strlen(end) + 1);
    return hf_list_find(c->list, other);
}

bool stored_is_f8(const hf_stored *t) { return t->dtype == HF_E4M3 || t->dtype == HF_E5M2; }

/* Finds the scale of one of the names that tools give it, beginning with number *i, which is set behind it. */
static const hf_stored *scale_next(const coded_find *c, const hf_stored *t, size_t *i) {
    static const struct {
        bool replaces, is_of_f8; /* "weight" in the name; beside F8 alone */
        const char *end;
    } names[] = {{.end = "_scale_inv"},
                 {.end = "_scale"},
                 {.replaces = true, .end = "qscale_weight"},
                 {.replaces = true, .end = "scale_weight"},
                 {.replaces = true, .is_of_f8 = true, .end = "scale"}};
    const hf_stored *scale = NULL;
    bool is_weight = name_ends(t->name, ".weight");
    for (; !scale && *i < (is_weight ? sizeof names / sizeof *names : 1); ++*i)
        if (!names[*i].is_of_f8 || stored_is_f8(t))
            scale = coded_sibling(c, t->name, names[*i].replaces ? strlen("weight") : 0, names[*i].end);
    return scale;
}

const hf_stored *coded_scale_beside(const coded_find *c, const hf_stored *t) {
    size_t i = 0;
    return scale_next(c, t, &i);
}

bool coded_check_one_scale(const coded_find *c, const hf_stored *t, gq_error *e) {
    size_t i = 0;
    const hf_stored *scale = scale_next(c, t, &i), *other = scale_next(c, t, &i);
    return !other || hf_list_fail(c->list, t, e,
                                  "'%s' and '%s' are both beside it, and nothing says which is its scale: "
                                  "the folder was put together from two; download the model again",
                                  scale->name, other->name);
}

bool source_set_name(hf_source *s, size_t cut, const char *end, gq_error *e) {
    size_t n = strlen(s->stored->name) - cut, m = strlen(end);
    char *name = malloc(n + m + 1);
    if (!name) return gq_fail_memory(e, n + m + 1);
    memcpy(name, s->stored->name, n);
    memcpy(name + n, end, m + 1);
    s->name = name;
    return true;
}

void source_set_shape(hf_source *s, uint32_t n_dims, const uint64_t *shape) {
    s->n_dims = n_dims, s->rows = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        s->shape[i] = shape[i];
        if (i + 1 < n_dims) s->rows *= shape[i];
    }
    s->columns = n_dims ? shape[n_dims - 1] : 1;
    s->matrix_rows = n_dims > 1 ? shape[n_dims - 2] : 1;
}

/* ---- whether anything is coded ---- */

/* Whether a source tensor holds codes: matrices of small integers or of F8. Positions and indices are integers, too.
 */
static bool stored_is_codes(const hf_stored *t) {
    if (t->dtype <= HF_BF16 || t->dtype == HF_BOOL || t->n_dims < 2) return false;
    return !name_ends(t->name, "_ids") && !name_ends(t->name, "_index") && !name_ends(t->name, "bias");
}

static bool list_is_coded(const hf_list *l) {
    for (size_t i = 0; i < l->n; i++)
        if (stored_is_codes(&l->stored[i])) return true;
    return false;
}

/* ---- settings ---- */

static bool coded_fail_method(const coded_find *c, const char *format, gq_error *e) {
    return hf_config_fail(c->config, e,
                          "weights quantized by %s%s%s are not supported; use the model's folder in 16 bits",
                          c->method, format ? ", format " : "", format ? format : "");
}

/* Checks the format of each group of compressed-tensors. */
static bool coded_check_groups(const coded_find *c, gq_error *e) {
    static const char *const formats[] = {"float-quantized",     "int-quantized",  "naive-quantized",
                                          "mxfp8-quantized",     "pack-quantized", "mxfp4-pack-quantized",
                                          "nvfp4-pack-quantized"};
    enum { FORMATS = sizeof formats / sizeof *formats };
    const char *name, *common = coded_text(c, "format");
    json_t *group, *groups = json_object_get(c->settings, "config_groups");
    if (json_object_size(groups) == 0) return coded_fail_method(c, common, e);
    json_object_foreach(groups, name, group) {
        const char *own = json_string_value(json_object_get(group, "format"));
        size_t i = 0;
        if (!own) own = common;
        while (own && i < FORMATS && strcmp(formats[i], own) != 0) i++;
        if (!own || i == FORMATS || !json_is_object(json_object_get(group, "weights")))
            return coded_fail_method(c, own, e);
    }
    return true;
}

/* Rotations that make weights easier to round are put into them before, or are done to inputs and outputs
 * while a model runs: nothing that reads a GGUF does the latter. */
static bool coded_check_rotations(const coded_find *c, gq_error *e) {
    const char *name;
    const json_t *all = json_object_get(c->settings, "transform_config");
    json_t *group, *apply;
    size_t i;
    json_object_foreach(json_object_get(all, "config_groups"), name, group) {
        json_array_foreach(json_object_get(group, "apply"), i, apply) {
            const char *where = json_string_value(json_object_get(apply, "location"));
            if (!where || strncmp(where, "weight_", 7) != 0)
                return hf_config_fail(c->config, e,
                                      "transform_config.%s rotates %s at run time, which llama.cpp does not "
                                      "support; use the model's folder in 16 bits",
                                      name, where ? where : "something");
        }
    }
    return true;
}

/* Returns what settings say that quantized the weights. NULL: they say nothing, or "none". MLX has no name. */
static const char *settings_name(const coded_find *c) {
    if (c->method) return strcmp(c->method, "none") == 0 ? NULL : c->method;
    bool is_mlx = json_object_get(c->settings, "bits") && json_object_get(c->settings, "group_size");
    return is_mlx ? "MLX" : NULL;
}

/* AutoRound saves in the layouts of others. */
static void method_resolve(coded_find *c) {
    const char *layout = coded_text(c, "packing_format");
    if (c->method && strstr(c->method, "auto-round") && layout && strstr(layout, "gptq")) c->method = "gptq";
    if (c->method && (!*c->method || strcmp(c->method, "none") == 0)) c->method = NULL;
}

/* Reads the file that modelopt leaves beside config.json. */
static bool method_read_own(coded_find *c, gq_error *e) {
    if (c->settings || !hf_folder_has(c->list->folder, "hf_quant_config.json")) return true;
    if (!hf_folder_json(c->list->folder, "hf_quant_config.json", &c->own, e)) return false;
    c->settings = json_object_get(c->own, "quantization");
    c->method = "modelopt";
    return true;
}

static bool settings_check(const coded_find *c, gq_error *e) {
    const json_t *named = json_object_get(c->settings, "quant_method");
    return !((c->settings && !json_is_object(c->settings)) ||
             (named && !json_is_null(named) && !coded_text(c, "quant_method"))) ||
           hf_config_fail(c->config, e,
                          "quantization_config: expected an object whose quant_method is a text");
}

/* ---- what config_groups say of one source tensor ---- */

/* The formats of compressed-tensors whose elements are stored one by one. */
static const char *const plain_formats[] = {"float-quantized", "int-quantized", "naive-quantized",
                                            "mxfp8-quantized", NULL};

/* Whether a target names a class of modules that a weight may be of: those of linear layers, or of embeddings. */
static bool target_is_class(const char *target, const char *module) {
    size_t n = strlen(target);
    if (!isupper((unsigned char)*target) || (n > 9 && !strcmp(target + n - 9, "Attention"))) return false;
    return strcmp(target, "Embedding") != 0 || strstr(module, "embed");
}

group_claim group_claims(const json_t *group, const hf_stored *weight) {
    static const char expression[] = "re:";
    const char *end = strrchr(weight->name, '.');
    const json_t *targets = json_object_get(group, "targets"), *target;
    group_claim claim = targets ? CLAIM_NONE : CLAIM_BY_CLASS;
    char *module = strndup(weight->name, end ? (size_t)(end - weight->name) : strlen(weight->name));
    size_t i;
    json_array_foreach(targets, i, target) {
        const char *text = hf_json_text(target);
        bool fits = false, is_expression = text && !strncmp(text, expression, sizeof expression - 1);
        gq_error unused;
        if (!text || !module) continue;
        if (is_expression)
            fits = hf_expression_fits(text, text + sizeof expression - 1, module, &fits, &unused) && fits;
        else
            fits = strcmp(text, module) == 0;
        if (fits)
            claim = CLAIM_BY_NAME;
        else if (claim == CLAIM_NONE && !is_expression && target_is_class(text, module))
            claim = CLAIM_BY_CLASS;
    }
    free(module);
    return claim;
}

const json_t *plain_setting(const coded_find *c, const hf_stored *t, const char *key) {
    const char *name, *common = coded_text(c, "format");
    const json_t *found = NULL;
    int most = -1;
    json_t *group;
    json_object_foreach(json_object_get(c->settings, "config_groups"), name, group) {
        const char *own = json_string_value(json_object_get(group, "format"));
        int claim = (int)group_claims(group, t);
        if (!name_is_one(own ? own : common ? common : "", plain_formats) || claim < most) continue;
        const json_t *value = json_object_get(json_object_get(group, "weights"), key);
        found = claim > most || json_equal(found, value) ? value : NULL;
        most = claim;
    }
    return found;
}

/* ---- the method ---- */

bool coded_find_method(coded_find *c, gq_error *e) {
    c->settings = hf_config_get(c->config, "quantization_config");
    c->method = coded_text(c, "quant_method");
    if (!method_read_own(c, e) || !settings_check(c, e)) return false;
    const char *name = settings_name(c);
    if (!list_is_coded(c->list)) {
        c->method = NULL;
        return !name || hf_folder_warn(c->list->folder, c->own ? "hf_quant_config.json" : "config.json", e,
                                       "it says that the weights are quantized (%s), but all are 16-bit "
                                       "floats or wider: they are read as floats",
                                       name);
    }
    method_resolve(c);
    return !coded_method_is(c, "compressed-tensors") ||
           (coded_check_groups(c, e) && coded_check_rotations(c, e));
}

bool coded_warn_left_out(const coded_find *c, gq_error *e) {
    return c->n_left_out == 0 ||
           hf_folder_warn(
               c->list->folder, "", e,
               "%zu activation scale%s, such as '%s', %s left out: the weights do not depend on them",
               c->n_left_out, plural_suffix(c->n_left_out), c->left_out, c->n_left_out == 1 ? "is" : "are");
}
