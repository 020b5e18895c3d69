/* Finds what belongs together. How a folder's weights are coded is reported by quantization_config; the names of
 * the parts are the weight's with an ending of the method's own. Every part's shape is compared with the
 * others here, so that reading need not.
 */
#include "hf/sources/sources.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Names a source after its source tensor, with the last `cut` characters replaced. */
static bool source_set_name(hf_source *s, size_t cut, const char *end, gq_error *e) {
    size_t n = strlen(s->stored->name) - cut, m = strlen(end);
    char *name = malloc(n + m + 1);
    if (!name) return gq_fail_memory(e, n + m + 1);
    memcpy(name, s->stored->name, n);
    memcpy(name + n, end, m + 1);
    s->name = name;
    return true;
}

static void source_set_shape(hf_source *s, uint32_t n_dims, const uint64_t *shape) {
    s->n_dims = n_dims, s->rows = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        s->shape[i] = shape[i];
        if (i + 1 < n_dims) s->rows *= shape[i];
    }
    s->columns = n_dims ? shape[n_dims - 1] : 1;
    s->matrix_rows = n_dims > 1 ? shape[n_dims - 2] : 1;
}

static bool coded_fail(const coded_find *c, const hf_stored *t, const hf_stored *other, gq_error *e) {
    return hf_list_fail(c->list, t, e, "its shape does not fit that of '%s'", other->name);
}

/* ---- a scale for each block of rows and columns ---- */

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

/* The formats of compressed-tensors whose elements are stored one by one. */
static const char *const plain_formats[] = {"float-quantized", "int-quantized", "naive-quantized",
                                            "mxfp8-quantized", NULL};

/* The modules that a group of config_groups names, as compressed-tensors has it: by a name, or an expression of it,
 * which goes before a class of modules. */
typedef enum group_claim { CLAIM_NONE, CLAIM_BY_CLASS, CLAIM_BY_NAME } group_claim;

/* Whether a target names a class of modules that a weight may be of: those of linear layers, or of embeddings. */
static bool target_is_class(const char *target, const char *module) {
    size_t n = strlen(target);
    if (!isupper((unsigned char)*target) || (n > 9 && !strcmp(target + n - 9, "Attention"))) return false;
    return strcmp(target, "Embedding") != 0 || strstr(module, "embed");
}

static group_claim group_claims(const json_t *group, const hf_stored *weight) {
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

/* Returns a setting of the group of a plain format that a source tensor is of; NULL: there is none, or groups that
 * name it alike disagree. */
static const json_t *plain_setting(const coded_find *c, const hf_stored *t, const char *key) {
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

static bool source_check_scale(const coded_find *c, const hf_stored *t, const hf_stored *scale, gq_error *e) {
    bool is_power = scale->dtype == HF_U8 && stored_is_f8(t); /* MXFP8 */
    return scale->dtype < HF_I64 || is_power ||
           hf_list_fail(c->list, scale, e, "a scale of type %s, expected floats",
                        hf_dtype_name(scale->dtype));
}

/* Reads the scale of a whole source tensor: 0 would lose the source tensor, and no tool writes one that is below 0
 * or infinite. */
static bool factor_read(const coded_find *c, const hf_stored *scale, float *x, gq_error *e) {
    if (!hf_list_floats(c->list, scale, 0, 1, x, e)) return false;
    return (isfinite(*x) && *x > 0) ||
           hf_list_fail(c->list, scale, e, "the scale of the whole tensor is %g, expected a number above 0",
                        (double)*x);
}

/* Returns how many columns of a row share a scale; 0: that is not known. */
static uint64_t scale_group(const coded_find *c, const hf_source *s) {
    enum { MX_GROUP = 32 };
    const hf_stored *scale = s->scale;
    if (stored_is_f8(s->stored) && (scale->dtype == HF_U8 || scale->dtype == HF_E8M0)) return MX_GROUP;
    const char *name;
    json_t *group;
    json_object_foreach(json_object_get(c->settings, "config_groups"), name, group) {
        json_int_t n = json_integer_value(json_object_get(json_object_get(group, "weights"), "group_size"));
        if (n > 0 && scale->n == mul_sat(s->rows, ceil_div(s->columns, (uint64_t)n))) return (uint64_t)n;
    }
    return 0;
}

/* Whether scales have two dimensions more than their source tensor: [blocks, 1, blocks, 1], FP8_PB_WO of modelopt. */
static bool scale_is_spread(const hf_source *s) {
    uint32_t n = s->n_dims;
    return n >= 2 && s->scale->n_dims == n + 2 && s->scale->shape[n + 1] == 1 && s->scale->shape[n - 1] == 1;
}

/* Sets how many rows and columns share a scale, by the block sizes of the config, or by the scale's shape
 * alone. */
static bool source_set_scale_blocks(const coded_find *c, hf_source *s, const json_t *blocks, gq_error *e) {
    enum { SPREAD_BLOCK = 128 }; /* rows and columns, of all files of that kind */
    const hf_stored *scale = s->scale;
    uint64_t matrices = s->rows / max(1, s->matrix_rows), group = scale_group(c, s);
    bool has_blocks = json_array_size(blocks) == 2, is_spread = scale_is_spread(s);
    s->scale_rows = max(1, s->matrix_rows), s->scale_columns = max(1, s->columns);
    if (has_blocks) {
        json_int_t rows = json_integer_value(json_array_get(blocks, 0)),
                   columns = json_integer_value(json_array_get(blocks, 1));
        if (rows <= 0 || columns <= 0)
            return hf_config_fail(c->config, e, "the block size of scales is not two integers");
        s->scale_rows = (uint64_t)rows, s->scale_columns = (uint64_t)columns;
    } else if (is_spread) {
        s->scale_rows = s->scale_columns = SPREAD_BLOCK, has_blocks = true;
    } else if (scale->n == s->rows) {
        s->scale_rows = 1;
    } else if (scale->n == 1) {
        s->scale_rows = s->rows = max(1, s->rows), s->matrix_rows = s->rows, matrices = 1; /* one for all */
    } else if (group && scale->n == mul_sat(s->rows, ceil_div(s->columns, group))) {
        s->scale_rows = 1, s->scale_columns = group;
    }
    uint64_t high = ceil_div(s->matrix_rows, s->scale_rows), wide = ceil_div(s->columns, s->scale_columns);
    uint64_t wanted = mul_sat(matrices, mul_sat(high, wide));
    bool same_dims = scale->n_dims == s->n_dims;
    if (scale->n != wanted && !has_blocks)
        return hf_list_fail(
            c->list, s->stored, e,
            "'%s' has scales of blocks of rows and columns, quantized by %s, and config.json does not say "
            "their size: expected quantization_config.weight_block_size, most often [128, 128]; get the "
            "config.json that belongs to these weights, or use the model's folder in 16 bits",
            scale->name, c->method ? c->method : "an FP8 tool that config.json does not name");
    bool fits = scale->n == wanted && (same_dims || is_spread || !has_blocks) &&
                (!same_dims || s->n_dims == 0 || scale->shape[s->n_dims - 1] == wide) &&
                (!is_spread || scale->shape[s->n_dims] == wide);
    return fits || coded_fail(c, s->stored, scale, e);
}

/* Finds the zero points of elements that are stored one by one, as many as scales. */
static bool source_set_zeros(const coded_find *c, hf_source *s, gq_error *e) {
    const hf_stored *t = s->stored, *scale = s->scale;
    if (!coded_method_is(c, "compressed-tensors")) return true;
    s->zero = coded_sibling(c, t->name, 0, "_zero_point");
    if (!s->zero && json_is_false(plain_setting(c, t, "symmetric")))
        return hf_list_fail(c->list, t, e,
                            "there is no _zero_point beside it, and the config says symmetric: false: "
                            "download the whole model");
    bool fits = !s->zero || (s->zero->n == scale->n && s->zero->n_dims == scale->n_dims &&
                             memcmp(s->zero->shape, scale->shape, sizeof scale->shape) == 0);
    return fits || coded_fail(c, t, s->zero, e);
}

static bool source_add_scale(const coded_find *c, hf_source *s, const hf_stored *scale, const json_t *blocks,
                             gq_error *e) {
    float x;
    if (!source_check_scale(c, s->stored, scale, e)) return false;
    s->coding = HF_SCALED, s->scale = scale;
    if (!source_set_scale_blocks(c, s, blocks, e) || !source_set_zeros(c, s, e)) return false;
    return scale->n > 1 || scale->dtype == HF_U8 || factor_read(c, scale, &x, e);
}

/* ---- integers in words ---- */

static bool bits_fit(uint64_t bits) { return bits == 2 || bits == 4 || bits == 8; }

/* Finds the group of each column, where the config says that columns were sorted before they were grouped. */
static bool source_set_order(const coded_find *c, hf_source *s, const json_t *order, gq_error *e) {
    const char *text = json_string_value(order);
    bool sorts = json_is_true(order) || (text && (!strcmp(text, "group") || !strcmp(text, "dynamic")));
    float first;
    s->group = coded_sibling(c, s->stored->name, strlen("_packed"), "_g_idx");
    if (!s->group)
        return !sorts || hf_list_fail(c->list, s->stored, e,
                                      "there is no _g_idx beside it, and the config says actorder: group: "
                                      "download the whole model");
    if (s->group->dtype != HF_I32 || s->group->n != s->columns) return coded_fail(c, s->stored, s->group, e);
    if (!hf_list_floats(c->list, s->group, 0, 1, &first, e)) return false;
    if (first == -1) s->group = NULL; /* all are -1 where nothing was sorted */
    return true;
}

/* Settings of a group of config_groups for packed integers. */
typedef struct packed_setting {
    json_int_t bits, group; /* group: columns; those of a row where a row has one scale */
    bool has_zeros;
    const json_t *order;
} packed_setting;

/* Whether a row of a matrix has one scale: by the strategy, or by a size of -1 or null where there is none. */
static bool group_is_row(const json_t *weights) {
    const char *strategy = json_string_value(json_object_get(weights, "strategy"));
    const json_t *size = json_object_get(weights, "group_size");
    bool has_none = !json_is_number(size) || json_integer_value(size) == -1;
    return has_none && strategy && strcmp(strategy, "channel") == 0;
}

static packed_setting packed_setting_of(const hf_source *s, const json_t *weights) {
    return (packed_setting){.bits = json_integer_value(json_object_get(weights, "num_bits")),
                            .group = group_is_row(weights)
                                         ? (json_int_t)s->columns
                                         : json_integer_value(json_object_get(weights, "group_size")),
                            .has_zeros = json_is_false(json_object_get(weights, "symmetric")),
                            .order = json_object_get(weights, "actorder")};
}

/* Whether the words and scales of a source tensor are as many as a setting says. */
static bool packed_setting_fits(const hf_source *s, const packed_setting *x) {
    return s->stored->shape[1] == ceil_div(s->columns, 32 / (uint64_t)x->bits) &&
           s->scale->n == mul_sat(s->rows, ceil_div(s->columns, (uint64_t)x->group));
}

/* Finds the setting of a source tensor. Which one is its own follows from its shapes, as patterns of module names may
 * overlap, then by its name, then by the zero points that are there; where none fits it is the first, by which the
 * shapes are refused. */
static bool packed_find_setting(const coded_find *c, const hf_source *s, packed_setting *found, gq_error *e) {
    const char *name, *common = coded_text(c, "format");
    int most = -1;
    json_t *group;
    *found = (packed_setting){.bits = 0};
    json_object_foreach(json_object_get(c->settings, "config_groups"), name, group) {
        const char *own = json_string_value(json_object_get(group, "format"));
        if (!own) own = common;
        if (!own || strcmp(own, "pack-quantized") != 0) continue;
        packed_setting x = packed_setting_of(s, json_object_get(group, "weights"));
        if (!bits_fit((uint64_t)x.bits) || x.group <= 0)
            return hf_config_fail(c->config, e,
                                  "quantization_config.config_groups.%s: packed integers of %lld bits in "
                                  "groups of %lld, expected 2, 4 or 8 bits, and a group_size, or strategy "
                                  "channel; or use the model's folder in 16 bits",
                                  name, (long long)x.bits, (long long)x.group);
        int fit = packed_setting_fits(s, &x)
                      ? 8 + 2 * (int)group_claims(group, s->stored) + (s->zero || !x.has_zeros)
                      : 0;
        if (fit > most) most = fit, *found = x;
    }
    return found->bits || hf_config_fail(c->config, e,
                                         "no group of quantization_config.config_groups says of how many "
                                         "bits packed integers are");
}

static bool source_make_packed(const coded_find *c, hf_source *s, gq_error *e) {
    const hf_stored *t = s->stored, *shape = coded_sibling(c, t->name, strlen("_packed"), "_shape");
    packed_setting x;
    float size[2];
    s->scale = coded_sibling(c, t->name, strlen("_packed"), "_scale");
    s->zero = coded_sibling(c, t->name, strlen("_packed"), "_zero_point");
    if (!s->scale || !shape || shape->n != 2 || t->dtype != HF_I32 || t->n_dims != 2)
        return hf_list_fail(c->list, t, e, "packed integers need a _scale and a _shape beside them");
    if (!hf_list_floats(c->list, shape, 0, 2, size, e)) return false;
    if (!(size[0] >= 1 && size[1] >= 1 && size[0] < 0x1p31f && size[1] < 0x1p31f))
        return hf_list_fail(c->list, shape, e, "expected two sizes");
    source_set_shape(s, 2, (uint64_t[]){(uint64_t)size[0], (uint64_t)size[1]});
    if (!packed_find_setting(c, s, &x, e)) return false;
    s->coding = HF_PACKED, s->bits = (uint32_t)x.bits, s->scale_rows = 1,
    s->scale_columns = (uint64_t)x.group;
    uint64_t groups = ceil_div(s->columns, s->scale_columns), a_word = 32 / s->bits;
    if (t->shape[0] != s->rows || t->shape[1] != ceil_div(s->columns, a_word))
        return coded_fail(c, t, shape, e);
    if (!source_check_scale(c, t, s->scale, e)) return false;
    if (s->scale->n != mul_sat(s->rows, groups) || (s->scale->n_dims > 1 && s->scale->shape[0] != s->rows))
        return coded_fail(c, t, s->scale, e);
    uint64_t words = ceil_div(s->rows, a_word);
    if (s->zero && (s->zero->dtype != HF_I32 || s->zero->n != mul_sat(words, groups) ||
                    (s->zero->n_dims > 1 && s->zero->shape[0] != words)))
        return coded_fail(c, t, s->zero, e);
    if (!s->zero && x.has_zeros)
        return hf_list_fail(c->list, t, e,
                            "there is no _zero_point beside it, and the config says symmetric: false: "
                            "download the whole model");
    return source_set_order(c, s, x.order, e) && source_set_name(s, strlen("_packed"), "", e);
}

/* Calls `fits` with each number that a key has in the settings of GPTQ: first that of all modules, then those that
 * `dynamic` gives some by a pattern. Which one is a tensor's own follows from its shapes. Returns the first that fits; 0:
 * none does, *first: that of all modules. */
static json_int_t gptq_number(const coded_find *c, const hf_source *s, const char *key,
                              bool (*fits)(const hf_source *s, json_int_t n), json_int_t *first) {
    const char *pattern;
    json_t *module;
    *first = json_integer_value(json_object_get(c->settings, key));
    if (fits(s, *first)) return *first;
    json_object_foreach(json_object_get(c->settings, "dynamic"), pattern, module) {
        json_int_t n = json_integer_value(json_object_get(module, key));
        if (fits(s, n)) return n;
    }
    return 0;
}

static bool gptq_bits_fit(const hf_source *s, json_int_t bits) {
    return bits_fit((uint64_t)bits) && s->zero->n_dims == 2 &&
           s->zero->shape[1] == ceil_div(s->stored->shape[1], 32 / (uint64_t)bits);
}

static bool gptq_group_fits(const hf_source *s, json_int_t size) {
    return size > 0 ? ceil_div(s->rows, (uint64_t)size) == s->scale->shape[0]
                    : size == -1 && s->scale->shape[0] == 1;
}

/* Without g_idx inputs are grouped in their order, so many to a group. */
static bool source_set_gptq_groups(const coded_find *c, hf_source *s, gq_error *e) {
    const hf_stored *t = s->stored;
    if (s->group)
        return (s->group->dtype == HF_I32 && s->group->n == s->rows) || coded_fail(c, t, s->group, e);
    if (json_is_true(json_object_get(c->settings, "desc_act")))
        return hf_list_fail(
            c->list, t, e,
            "there is no g_idx beside it, and the config says desc_act: true: download the whole model");
    json_int_t first, size = gptq_number(c, s, "group_size", gptq_group_fits, &first);
    if (size == 0 && first <= 0 && first != -1)
        return hf_list_fail(c->list, t, e,
                            "there is no g_idx beside it, and config.json has no "
                            "quantization_config.group_size");
    s->scale_rows = size > 0 ? (uint64_t)size : max(1, s->rows);
    return size != 0 || coded_fail(c, t, s->scale, e);
}

static bool source_make_gptq(const coded_find *c, hf_source *s, gq_error *e) {
    const hf_stored *t = s->stored;
    const char *format = coded_text(c, "checkpoint_format"), *packing = coded_text(c, "packing_format");
    size_t cut = strlen("qweight");
    s->scale = coded_sibling(c, t->name, cut, "scales"), s->zero = coded_sibling(c, t->name, cut, "qzeros");
    s->group = coded_sibling(c, t->name, cut, "g_idx");
    json_int_t first = json_integer_value(json_object_get(c->settings, "bits")), bits;
    if (!bits_fit((uint64_t)first))
        return hf_config_fail(c->config, e, "GPTQ with %lld bits, expected 2, 4 or 8", (long long)first);
    if (!s->scale || !s->zero || t->dtype != HF_I32 || t->n_dims != 2)
        return hf_list_fail(c->list, t, e, "GPTQ needs scales and qzeros beside it");
    bits = gptq_number(c, s, "bits", gptq_bits_fit, &first);
    if (!bits) return coded_fail(c, t, s->zero, e);
    bool is_v2 = (format && strcmp(format, "gptq_v2") == 0) || (packing && strstr(packing, "gptqmodel"));
    s->coding = HF_GPTQ, s->bits = (uint32_t)bits, s->zero_more = !is_v2;
    source_set_shape(s, 2, (uint64_t[]){mul_sat(t->shape[0], 32 / s->bits), t->shape[1]});
    if (!source_check_scale(c, t, s->scale, e)) return false;
    if (s->scale->n_dims != 2 || s->scale->shape[1] != s->columns) return coded_fail(c, t, s->scale, e);
    if (s->zero->dtype != HF_I32 || s->zero->shape[0] != s->scale->shape[0])
        return coded_fail(c, t, s->zero, e);
    return source_set_gptq_groups(c, s, e) && source_set_name(s, cut, "weight", e);
}

/* ---- MXFP4 ---- */

static bool source_make_mxfp4(const coded_find *c, hf_source *s, gq_error *e) {
    const hf_stored *t = s->stored;
    if (t->n_dims != 4)
        return hf_list_fail(c->list, t, e,
                            "blocks of MXFP4 in %u dimensions, expected 4: experts, rows, blocks, bytes",
                            t->n_dims);
    s->scale = coded_sibling(c, t->name, strlen("_blocks"), "_scales");
    if (!s->scale) return hf_list_fail(c->list, t, e, "its scales are missing: download the whole model");
    if (t->dtype != HF_U8 || s->scale->dtype != HF_U8 || t->shape[3] != 16 || s->scale->n_dims != 3 ||
        memcmp(s->scale->shape, t->shape, 3 * sizeof *t->shape) != 0)
        return coded_fail(c, t, s->scale, e);
    s->coding = HF_MXFP4;
    source_set_shape(s, t->n_dims - 1, t->shape);
    return source_set_name(s, strlen("_blocks"), "", e);
}

/* ---- two codes in a byte ---- */

/* Sets what NVFP4 and MXFP4 have in common: codes along a row, and the scales of so many columns. */
static bool source_set_fp4(const coded_find *c, hf_source *s, const hf_stored *scale, uint64_t group,
                           gq_error *e) {
    const hf_stored *t = s->stored;
    uint64_t shape[HF_DIMS];
    if ((t->dtype != HF_U8 && t->dtype != HF_I8) || t->n_dims < 2 || t->n == 0)
        return hf_list_fail(c->list, t, e, "4-bit codes: expected a matrix of type U8 or I8");
    memcpy(shape, t->shape, sizeof shape);
    shape[t->n_dims - 1] = mul_sat(2, shape[t->n_dims - 1]);
    source_set_shape(s, t->n_dims, shape);
    s->coding = HF_FP4, s->scale = scale, s->scale_rows = 1, s->scale_columns = group, s->factor = 1;
    return (s->columns % group == 0 && scale->n == mul_sat(s->rows, s->columns / group) &&
            (scale->n_dims < 2 || scale->shape[scale->n_dims - 1] == s->columns / group)) ||
           coded_fail(c, t, scale, e);
}

/* Sets the factor of NVFP4 or BitNet, one number for the whole source tensor. */
static bool source_set_factor(const coded_find *c, hf_source *s, const hf_stored *factor, const char *missing,
                              bool divides, gq_error *e) {
    s->divides = divides;
    if (!factor)
        return hf_list_fail(c->list, s->stored, e, "there is no %s beside it: download the whole model",
                            missing);
    if (factor->n != 1 || factor->dtype >= HF_I64) return coded_fail(c, s->stored, factor, e);
    return factor_read(c, factor, &s->factor, e);
}

/* Experts stay MXFP4, which GGUF has; other source tensors may be split and turned as floats alone. */
static bool source_set_mxfp4(const coded_find *c, hf_source *s, const hf_stored *scale, gq_error *e) {
    if (!source_set_fp4(c, s, scale, 32, e)) return false;
    if (strstr(s->stored->name, ".experts.")) {
        s->shape[s->n_dims - 1] /= 32, s->columns /= 32;
        s->coding = HF_MXFP4;
    }
    return true;
}

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
        return source_set_fp4(c, s, scale, 16, e) &&
               source_set_factor(c, s, coded_sibling(c, t->name, cut, "_global_scale"), "_global_scale", true,
                                 e) &&
               source_set_name(s, cut, "", e);
    if (scale->dtype != HF_U8 && scale->dtype != HF_E8M0)
        return hf_list_fail(c->list, scale, e, "scales of type %s, expected F8_E4M3 (NVFP4) or U8 (MXFP4)",
                            hf_dtype_name(scale->dtype));
    return source_set_mxfp4(c, s, scale, e) && source_set_name(s, cut, "", e);
}

/* ---- methods ---- */

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

/* BitNet: four codes in a byte, which stand for -1, 0 and 1; bits 2 i and 2 i + 1 of row r are row i R / 4 +
 * r of the R rows. The scale divides, but for layers that multiply their outputs by it. */
static bool source_make_ternary(const coded_find *c, hf_source *s, const hf_stored *scale, gq_error *e) {
    const hf_stored *t = s->stored;
    const char *layers = coded_text(c, "linear_class");
    if (t->n_dims != 2) return hf_list_fail(c->list, t, e, "%u dimensions, expected a matrix", t->n_dims);
    source_set_shape(s, 2, (uint64_t[]){mul_sat(4, t->shape[0]), t->shape[1]});
    s->coding = HF_TERNARY, s->scale = scale;
    return source_set_factor(c, s, scale, "_scale", !(layers && strcmp(layers, "autobitlinear") == 0), e);
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
    s->coding = HF_PLAIN;
    source_set_shape(s, t->n_dims, t->shape);
    if (!source_set_name(s, 0, "", e)) return false;
    if (t->n == 0) return hf_list_fail(c->list, t, e, "no elements");
    if (scale && t->dtype == HF_U8 && scale->dtype == HF_E4M3) /* NVFP4 of modelopt */
        return source_set_fp4(c, s, scale, 16, e) &&
               source_set_factor(c, s, coded_sibling(c, t->name, 0, "_scale_2"), "_scale_2", false, e);
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
