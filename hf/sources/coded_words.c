/* Integers of 2, 4 or 8 bits in words of 32: along a row, with a scale for each group of columns (pack-quantized of
 * compressed-tensors), or along a column, with scales and zero points for each group of rows (GPTQ).
 */
#include "hf/sources/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

enum { WORD_BITS = 32 };

/* ---- finding scales, zero points and groups ---- */

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

bool source_make_packed(const coded_find *c, hf_source *s, gq_error *e) {
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
    s->coding = &hf_packed, s->bits = (uint32_t)x.bits, s->scale_rows = 1,
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

/* Calls `fits` with each number that a key has in the settings of GPTQ: first that of all modules, then those
 * that `dynamic` gives some by a pattern. Which one is a tensor's own follows from its shapes. Returns the
 * first that fits; 0: none does, *first: that of all modules. */
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

bool source_make_gptq(const coded_find *c, hf_source *s, gq_error *e) {
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
    s->coding = &hf_gptq, s->bits = (uint32_t)bits, s->zero_more = !is_v2;
    source_set_shape(s, 2, (uint64_t[]){mul_sat(t->shape[0], 32 / s->bits), t->shape[1]});
    if (!source_check_scale(c, t, s->scale, e)) return false;
    if (s->scale->n_dims != 2 || s->scale->shape[1] != s->columns) return coded_fail(c, t, s->scale, e);
    if (s->zero->dtype != HF_I32 || s->zero->shape[0] != s->scale->shape[0])
        return coded_fail(c, t, s->zero, e);
    return source_set_gptq_groups(c, s, e) && source_set_name(s, cut, "weight", e);
}

/* ---- reading ---- */

static uint32_t packed_value(uint32_t word, uint64_t i, uint32_t bits) {
    return word >> (i * bits) & (uint32_t)((1ull << bits) - 1);
}

/* Reads the zero points of one row's groups: rows are packed in words, one below the other. */
static bool zeros_read(const hf_source *s, uint64_t row, uint64_t groups, int32_t *to, gq_error *e) {
    uint64_t a_word = WORD_BITS / s->bits;
    if (!stored_read(s->list, s->zero, row / a_word * groups, groups, to, e)) return false;
    for (uint64_t g = 0; g < groups; g++)
        to[g] = (int32_t)packed_value((uint32_t)to[g], row % a_word, s->bits);
    return true;
}

static bool group_fail(const hf_source *s, uint64_t input, int32_t g, uint64_t groups, gq_error *e) {
    return gq_fail_as(e, GQ_BAD_WEIGHTS, "%s: tensor '%s': g_idx of input %llu is %d, expected 0 to %llu",
                      s->group ? hf_list_path(s->list, s->group->file) : "", s->group ? s->group->name : "",
                      LLU(input), g, LLU(groups) - 1);
}

/* Sets the group of each of n columns. */
static bool groups_read(const hf_source *s, uint64_t column, uint64_t n, uint64_t groups, int32_t *to,
                        gq_error *e) {
    if (s->group && !stored_read(s->list, s->group, column, n, to, e)) return false;
    for (uint64_t i = 0; i < n; i++) {
        if (!s->group) to[i] = (int32_t)((column + i) / s->scale_columns);
        if (to[i] < 0 || (uint64_t)to[i] >= groups) return group_fail(s, column + i, to[i], groups, e);
    }
    return true;
}

static bool packed_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                        void *out, gq_error *e) {
    float *to = out;
    uint64_t a_word = WORD_BITS / s->bits, row_words = ceil_div(s->columns, a_word), first = column / a_word;
    uint64_t words = (column + n - 1) / a_word - first + 1, groups = ceil_div(s->columns, s->scale_columns);
    uint32_t *word = malloc(words * sizeof *word);
    float *scales = malloc(groups * sizeof *scales);
    int32_t *zeros = malloc(groups * sizeof *zeros), *group = malloc(n * sizeof *group);
    bool ok = ((word && scales && zeros && group) || gq_fail_memory(e, words * sizeof *word)) &&
              groups_read(s, column, n, groups, group, e);
    for (uint64_t g = 0; ok && g < groups; g++) zeros[g] = 1 << (s->bits - 1);
    for (uint64_t r = row; ok && r < row + n_rows; r++, to += n) {
        ok = stored_read(s->list, s->stored, r * row_words + first, words, word, e) &&
             hf_list_floats(s->list, s->scale, r * groups, groups, scales, e) &&
             (!s->zero || zeros_read(s, r, groups, zeros, e));
        for (uint64_t i = 0; ok && i < n; i++) {
            uint64_t c = column + i;
            int32_t q =
                (int32_t)packed_value(word[c / a_word - first], c % a_word, s->bits) - zeros[group[i]];
            to[i] = (float)q * scales[group[i]];
        }
    }
    free(word), free(scales), free(zeros), free(group);
    return ok;
}

/* Buffers to read a few columns of a GPTQ matrix. */
typedef struct gptq_columns {
    uint32_t *words, *zeros;
    float *scales;
    uint64_t word_row, group; /* rows and groups in memory; UINT64_MAX: none */
} gptq_columns;

static bool gptq_load(const hf_source *s, gptq_columns *p, uint64_t row, uint64_t column, uint64_t n,
                      gq_error *e) {
    uint64_t a_word = WORD_BITS / s->bits, zero_words = ceil_div(s->columns, a_word), first = column / a_word;
    int32_t g = 0;
    if (row / a_word != p->word_row) {
        p->word_row = row / a_word;
        if (!stored_read(s->list, s->stored, p->word_row * s->columns + column, n, p->words, e)) return false;
    }
    if (!s->group)
        g = (int32_t)(row / s->scale_rows);
    else if (!stored_read(s->list, s->group, row, 1, &g, e))
        return false;
    if (g < 0 || (uint64_t)g >= s->scale->shape[0]) return group_fail(s, row, g, s->scale->shape[0], e);
    if ((uint64_t)g == p->group) return true;
    p->group = (uint64_t)g;
    return hf_list_floats(s->list, s->scale, p->group * s->columns + column, n, p->scales, e) &&
           stored_read(s->list, s->zero, p->group * zero_words + first, (column + n - 1) / a_word - first + 1,
                       p->zeros, e);
}

static bool gptq_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                      void *out, gq_error *e) {
    float *to = out;
    uint64_t a_word = WORD_BITS / s->bits, first = column / a_word;
    gptq_columns p = {.words = calloc(n, sizeof *p.words),
                      .zeros = calloc(n, sizeof *p.zeros),
                      .scales = calloc(n, sizeof *p.scales),
                      .word_row = UINT64_MAX,
                      .group = UINT64_MAX};
    bool ok = (p.words && p.zeros && p.scales) || gq_fail_memory(e, n * sizeof *p.words);
    for (uint64_t r = row; ok && r < row + n_rows; r++, to += n) {
        ok = gptq_load(s, &p, r, column, n, e);
        for (uint64_t i = 0; ok && i < n; i++) {
            uint32_t zero =
                packed_value(p.zeros[(column + i) / a_word - first], (column + i) % a_word, s->bits);
            int32_t q =
                (int32_t)packed_value(p.words[i], r % a_word, s->bits) - (int32_t)(zero + s->zero_more);
            to[i] = p.scales[i] * (float)q;
        }
    }
    free(p.words), free(p.zeros), free(p.scales);
    return ok;
}

static void packed_write_type(const hf_source *s, char *to, size_t room) {
    snprintf(to, room, "int%u, a scale per %llu columns", s->bits, LLU(s->scale_columns));
}

static void gptq_write_type(const hf_source *s, char *to, size_t room) {
    snprintf(to, room, "GPTQ int%u, a scale per %llu columns", s->bits,
             LLU(s->rows / max(1, s->scale->shape[0])));
}

const hf_coding hf_packed = {.read = packed_read, .write_type = packed_write_type};
const hf_coding hf_gptq = {.read = gptq_read, .write_type = gptq_write_type};
