/* Reads rectangles of source tensors that may be coded. What belongs to several rows (a row of scales, a word that
 * holds some inputs of every output) is read once for them.
 */
#include "hf/sources/sources.h"

#include <float.h>
#include <stdlib.h>

#include "base/fail.h"

enum {
    PIECE_ELEMENTS = 65536, /* elements that are converted at a time */
    WORD_BITS = 32,
    MXFP4_BYTES = 17, /* a scale and 32 codes of 4 bits */
    MXFP4_CODES = 16,
};

/* The type that a source has by itself; types of 0 are F32. */
static const tensor_type *stored_type(const hf_source *s) {
    static const uint8_t types[HF_DTYPES] = {[HF_F16] = GGUF_F16, [HF_BF16] = GGUF_BF16};
    uint32_t type = s->coding == HF_MXFP4   ? GGUF_MXFP4
                    : s->coding == HF_PLAIN ? types[s->stored->dtype]
                                            : GGUF_F32;
    return tensor_type_of(type);
}

const tensor_type *hf_source_type(const hf_source *s) {
    return s->deltas.n ? tensor_type_of(GGUF_F32) : stored_type(s);
}

uint64_t hf_source_unit(const hf_source *s) {
    return s->coding == HF_MXFP4 ? tensor_type_of(GGUF_MXFP4)->block_elements : 1;
}

/* ---- stored elements as floats ---- */

#define CONVERT(name, type, expression) \
    static void name(const uint8_t *from, float *to, uint64_t n) { \
        for (uint64_t i = 0; i < n; i++) { \
            type x; \
            memcpy(&x, from + i * sizeof x, sizeof x); \
            to[i] = expression; \
        } \
    }
CONVERT(convert_f64, double, (float)x)
CONVERT(convert_f32, float, x)
CONVERT(convert_f16, uint16_t, number_from_f16(x))
CONVERT(convert_bf16, uint16_t, number_from_bf16(x))
CONVERT(convert_e8m0, uint8_t, number_from_e8m0(x))
CONVERT(convert_i64, int64_t, (float)x)
CONVERT(convert_i32, int32_t, (float)x)
CONVERT(convert_i16, int16_t, x)
CONVERT(convert_i8, int8_t, x)
CONVERT(convert_u8, uint8_t, x)
CONVERT(convert_bool, uint8_t, x != 0)

/* A byte has few values: all of them are converted first, where that is less work. */
#define CONVERT_BYTES(name, number) \
    static void name(const uint8_t *from, float *to, uint64_t n) { \
        float values[256]; \
        if (n < 256) { \
            for (uint64_t i = 0; i < n; i++) to[i] = number(from[i]); \
            return; \
        } \
        for (unsigned b = 0; b < 256; b++) values[b] = number((uint8_t)b); \
        for (uint64_t i = 0; i < n; i++) to[i] = values[from[i]]; \
    }
CONVERT_BYTES(convert_e4m3, number_from_e4m3)
CONVERT_BYTES(convert_e5m2, number_from_e5m2)

static void (*const converters[HF_DTYPES])(const uint8_t *from, float *to, uint64_t n) = {
    [HF_F64] = convert_f64,   [HF_F32] = convert_f32,   [HF_F16] = convert_f16,   [HF_BF16] = convert_bf16,
    [HF_E4M3] = convert_e4m3, [HF_E5M2] = convert_e5m2, [HF_E8M0] = convert_e8m0, [HF_I64] = convert_i64,
    [HF_I32] = convert_i32,   [HF_I16] = convert_i16,   [HF_I8] = convert_i8,     [HF_U8] = convert_u8,
    [HF_BOOL] = convert_bool,
};

static const gq_file *stored_file(const hf_list *l, const hf_stored *t) {
    return &l->folder->files[t->file].file;
}

static bool stored_read(const hf_list *l, const hf_stored *t, uint64_t first, uint64_t n, void *to,
                        gq_error *e) {
    uint32_t size = hf_dtype_bytes(t->dtype);
    return gq_file_read(stored_file(l, t), t->offset + first * size, to, n * size, e);
}

bool hf_list_floats(const hf_list *l, const hf_stored *t, uint64_t first, uint64_t n, float *to,
                    gq_error *e) {
    uint32_t size = hf_dtype_bytes(t->dtype);
    if (t->dtype == HF_F32) return stored_read(l, t, first, n, to, e);
    uint64_t most = min(n, PIECE_ELEMENTS);
    uint8_t *bytes = malloc(most * size + 1);
    bool ok = bytes || gq_fail_memory(e, most * size);
    for (uint64_t done = 0, some; ok && done < n; done += some) {
        some = min(n - done, PIECE_ELEMENTS);
        ok = stored_read(l, t, first + done, some, bytes, e);
        if (ok) converters[t->dtype](bytes, to + done, some);
    }
    free(bytes);
    return ok;
}

/* ---- scaled elements ---- */

/* Returns the number of the row of scales that a row has. */
static uint64_t scale_row_of(const hf_source *s, uint64_t row) {
    return row / s->matrix_rows * ceil_div(s->matrix_rows, s->scale_rows) +
           row % s->matrix_rows / s->scale_rows;
}

/* `zeros` NULL: none. */
static void source_scale_row(const hf_source *s, uint64_t column, uint64_t n, const float *scales,
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

/* Elements of 8 or 4 bits that are floats have signs of their own, so no tool writes a scale below 0. Integers may have one. */
static bool scales_check(const hf_source *s, const float *scales, uint64_t n, gq_error *e) {
    bool are_floats = s->coding == HF_FP4 || s->stored->dtype == HF_E4M3 || s->stored->dtype == HF_E5M2;
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

static bool scales_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column,
                        uint64_t n_columns, float *to, gq_error *e) {
    uint64_t n = scale_rows_of(s, row, n_rows) * scales_of(s, column, n_columns);
    if (!blocks_read(s, s->scale, row, n_rows, column, n_columns, to, e)) return false;
    for (uint64_t i = 0; s->scale->dtype == HF_U8 && i < n; i++) to[i] = number_from_e8m0((uint8_t)to[i]);
    return scales_check(s, to, n, e);
}

static bool scaled_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                        float *to, gq_error *e) {
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

/* ---- packed integers ---- */

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
                        float *to, gq_error *e) {
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
                      float *to, gq_error *e) {
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

/* ---- MXFP4 ---- */

/* Byte k of the source has elements 2 k and 2 k + 1; byte j of a GGUF block has elements j and j + 16. */
static void mxfp4_repack(uint8_t scale, const uint8_t *in, uint8_t *out) {
    *out++ = scale;
    for (int m = 0; m < MXFP4_CODES / 2; m++) {
        out[2 * m] = (uint8_t)((in[m] & 15) | (in[m + 8] & 15) << 4);
        out[2 * m + 1] = (uint8_t)(in[m] >> 4 | (in[m + 8] >> 4) << 4);
    }
}

static bool mxfp4_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                       uint8_t *to, gq_error *e) {
    uint8_t *codes = malloc(n * MXFP4_CODES), *scales = malloc(n);
    bool ok = (codes && scales) || gq_fail_memory(e, n * MXFP4_CODES);
    for (uint64_t r = row; ok && r < row + n_rows; r++) {
        uint64_t at = r * s->columns + column;
        ok = stored_read(s->list, s->stored, at * MXFP4_CODES, n * MXFP4_CODES, codes, e) &&
             stored_read(s->list, s->scale, at, n, scales, e);
        for (uint64_t i = 0; ok && i < n; i++, to += MXFP4_BYTES)
            mxfp4_repack(scales[i], codes + i * MXFP4_CODES, to);
    }
    free(codes), free(scales);
    return ok;
}

/* ---- codes of 4 bits ---- */

/* Byte k has elements 2 k, in its low half, and 2 k + 1. A code is a number of one mantissa bit, and its
 * product with a scale of E4M3 or E8M0 is exact: the factor is the only rounding. */
static bool fp4_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                     float *to, gq_error *e) {
    static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    uint64_t n_scales = n / s->scale_columns + 2;
    uint8_t *codes = malloc(n / 2 + 2);
    float *scales = calloc(n_scales, sizeof *scales);
    bool ok = (codes && scales) || gq_fail_memory(e, n_scales * sizeof *scales);
    for (uint64_t r = row; ok && r < row + n_rows; r++, to += n) {
        uint64_t at = r * s->columns + column, odd = at % 2;
        ok = stored_read(s->list, s->stored, at / 2, (n + odd + 1) / 2, codes, e) &&
             scales_read(s, r, 1, column, n, scales, e);
        for (uint64_t i = 0; ok && i < n; i++) to[i] = values[codes[(i + odd) / 2] >> (i + odd) % 2 * 4 & 15];
        if (ok) source_scale_row(s, column, n, scales, NULL, to);
        for (uint64_t i = 0; ok && i < n; i++) to[i] = s->divides ? to[i] / s->factor : to[i] * s->factor;
    }
    free(codes), free(scales);
    return ok;
}

/* ---- codes of -1, 0 and 1 ---- */

static bool ternary_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                         float *to, gq_error *e) {
    uint64_t stored_rows = s->rows / 4;
    uint8_t *codes = malloc(n);
    bool ok = codes || gq_fail_memory(e, n);
    for (uint64_t r = row; ok && r < row + n_rows; r++, to += n) {
        unsigned shift = (unsigned)(r / stored_rows) * 2;
        ok = stored_read(s->list, s->stored, r % stored_rows * s->columns + column, n, codes, e);
        for (uint64_t i = 0; ok && i < n; i++) {
            float x = (float)(codes[i] >> shift & 3) - 1;
            to[i] = s->divides ? x / s->factor : x * s->factor;
        }
    }
    free(codes);
    return ok;
}

/* ---- any ---- */

static bool plain_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                       const tensor_type *as, uint8_t *to, gq_error *e) {
    bool raw = as->id == stored_type(s)->id && (as->id != GGUF_F32 || s->stored->dtype == HF_F32);
    if (n == s->columns) n *= n_rows, n_rows = 1; /* whole rows follow one another */
    for (uint64_t r = row; r < row + n_rows; r++, to += n * as->block_bytes) {
        uint64_t at = r * s->columns + column;
        if (!(raw ? stored_read(s->list, s->stored, at, n, to, e)
                  : hf_list_floats(s->list, s->stored, at, n, (float *)(void *)to, e)))
            return false;
    }
    return true;
}

bool hf_source_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                    const tensor_type *as, void *to, gq_error *e) {
    switch (s->coding) {
    case HF_SCALED:
        return scaled_read(s, row, n_rows, column, n_columns, to, e);
    case HF_PACKED:
        return packed_read(s, row, n_rows, column, n_columns, to, e);
    case HF_GPTQ:
        return gptq_read(s, row, n_rows, column, n_columns, to, e);
    case HF_FP4:
        return fp4_read(s, row, n_rows, column, n_columns, to, e);
    case HF_TERNARY:
        return ternary_read(s, row, n_rows, column, n_columns, to, e);
    case HF_MXFP4:
        return mxfp4_read(s, row, n_rows, column, n_columns, to, e);
    default:
        return plain_read(s, row, n_rows, column, n_columns, as, to, e);
    }
}
