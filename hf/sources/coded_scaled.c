/* Elements that are stored one by one, and multiplied by scales: F8 of many tools, integers of compressed-tensors. A
 * scale belongs to a block of rows and columns, whose size config.json says, or the scales' shape.
 */
#include "hf/sources/sources.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* ---- finding scales and zero points ---- */

bool source_check_scale(const coded_find *c, const hf_stored *t, const hf_stored *scale, gq_error *e) {
    bool is_power = scale->dtype == HF_U8 && stored_is_f8(t); /* MXFP8 */
    return scale->dtype < HF_I64 || is_power ||
           hf_list_fail(c->list, scale, e, "a scale of type %s, expected floats",
                        hf_dtype_name(scale->dtype));
}

bool factor_read(const coded_find *c, const hf_stored *scale, float *x, gq_error *e) {
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
        s->scale_rows = s->matrix_rows = s->rows, matrices = 1; /* one for all: they count as one matrix */
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

bool source_add_scale(const coded_find *c, hf_source *s, const hf_stored *scale, const json_t *blocks,
                      gq_error *e) {
    float x;
    if (!source_check_scale(c, s->stored, scale, e)) return false;
    s->coding = &hf_scaled, s->scale = scale;
    if (!source_set_scale_blocks(c, s, blocks, e) || !source_set_zeros(c, s, e)) return false;
    return scale->n > 1 || scale->dtype == HF_U8 || factor_read(c, scale, &x, e);
}

/* ---- reading ---- */

/* Returns the number of the row of scales that a row has. */
static uint64_t scale_row_of(const hf_source *s, uint64_t row) {
    return row / s->matrix_rows * ceil_div(s->matrix_rows, s->scale_rows) +
           row % s->matrix_rows / s->scale_rows;
}

void source_scale_row(const hf_source *s, uint64_t column, uint64_t n, const float *scales,
                      const float *zeros, float *x) {
    for (uint64_t i = 0, end; i < n; i = end, scales++) {
        end = min(n, i + s->scale_columns - (column + i) % s->scale_columns);
        for (uint64_t k = i; zeros && k < end; k++) x[k] -= *zeros;
        for (uint64_t k = i; k < end; k++) x[k] *= *scales;
        if (zeros) zeros++;
    }
}

/* Reads n_rows rows from row `row` on of a source tensor, n_columns elements of each; whole rows at once. */
static bool rectangle_read(const hf_list *l, const hf_stored *t, uint64_t row_elements, uint64_t row,
                           uint64_t n_rows, uint64_t column, uint64_t n_columns, float *to, gq_error *e) {
    if (n_columns == row_elements) n_columns *= n_rows, n_rows = 1;
    for (uint64_t r = 0; r < n_rows; r++, to += n_columns)
        if (!hf_list_floats(l, t, (row + r) * row_elements + column, n_columns, to, e)) return false;
    return true;
}

static uint64_t scale_rows_of(const hf_source *s, uint64_t row, uint64_t n_rows) {
    return scale_row_of(s, row + n_rows - 1) - scale_row_of(s, row) + 1;
}

static uint64_t scales_of(const hf_source *s, uint64_t column, uint64_t n_columns) {
    return (column + n_columns - 1) / s->scale_columns - column / s->scale_columns + 1;
}

/* Elements of 8 or 4 bits that are floats have signs of their own, so no tool writes a scale below 0. Integers
 * may have one. */
static bool scales_check(const hf_source *s, const float *scales, uint64_t n, gq_error *e) {
    bool are_floats = s->coding != &hf_scaled || s->stored->dtype == HF_E4M3 || s->stored->dtype == HF_E5M2;
    for (uint64_t i = 0; are_floats && i < n; i++)
        if (!(scales[i] >= 0 && scales[i] <= FLT_MAX))
            return gq_fail_as(e, GQ_BAD_WEIGHTS, "%s: tensor '%s': a scale of %g, expected 0 or more",
                              hf_list_path(s->list, s->scale->file), s->scale->name, (double)scales[i]);
    return true;
}

/* Reads what each block of some columns of rows has, scales or zero points: scale_rows_of rows of scales_of numbers. */
static bool blocks_read(const hf_source *s, const hf_stored *t, uint64_t row, uint64_t n_rows,
                        uint64_t column, uint64_t n_columns, float *to, gq_error *e) {
    return rectangle_read(s->list, t, ceil_div(s->columns, s->scale_columns), scale_row_of(s, row),
                          scale_rows_of(s, row, n_rows), column / s->scale_columns,
                          scales_of(s, column, n_columns), to, e);
}

bool scales_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                 float *to, gq_error *e) {
    uint64_t n = scale_rows_of(s, row, n_rows) * scales_of(s, column, n_columns);
    if (!blocks_read(s, s->scale, row, n_rows, column, n_columns, to, e)) return false;
    for (uint64_t i = 0; s->scale->dtype == HF_U8 && i < n; i++) to[i] = number_from_e8m0((uint8_t)to[i]);
    return scales_check(s, to, n, e);
}

static bool scaled_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                        void *out, gq_error *e) {
    float *to = out;
    uint64_t rows = scale_rows_of(s, row, n_rows), width = scales_of(s, column, n);
    float *scales = calloc(rows * width, 2 * sizeof *scales), *zeros = s->zero ? scales + rows * width : NULL;
    bool ok = (scales || gq_fail_memory(e, 2 * rows * width * sizeof *scales)) &&
              rectangle_read(s->list, s->stored, s->columns, row, n_rows, column, n, to, e) &&
              scales_read(s, row, n_rows, column, n, scales, e) &&
              (!zeros || blocks_read(s, s->zero, row, n_rows, column, n, zeros, e));
    for (uint64_t r = 0; ok && r < n_rows; r++, to += n) {
        uint64_t at = (scale_rows_of(s, row, r + 1) - 1) * width;
        source_scale_row(s, column, n, scales + at, zeros ? zeros + at : NULL, to);
    }
    free(scales);
    return ok;
}

static void scaled_write_type(const hf_source *s, char *to, size_t room) {
    const char *type = hf_dtype_name(s->stored->dtype);
    if (s->scale_columns == s->columns && (s->scale_rows == 1 || s->scale_rows == s->matrix_rows))
        snprintf(to, room, "%s, a scale per %s", type, s->scale_rows == s->matrix_rows ? "matrix" : "row");
    else
        snprintf(to, room, "%s, a scale per %llu x %llu block", type, LLU(s->scale_rows),
                 LLU(s->scale_columns));
}

const hf_coding hf_scaled = {.read = scaled_read, .write_type = scaled_write_type};
