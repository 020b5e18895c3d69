/* Codes that share a byte: two of 4 bits, which are MXFP4 or NVFP4, and four of 2 bits, which are BitNet's. */
#include "hf/sources/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

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

/* ---- blocks of MXFP4 ---- */

enum { MXFP4_BYTES = 17, MXFP4_CODES = 16 }; /* a scale and 32 codes of 4 bits */

bool source_make_mxfp4(const coded_find *c, hf_source *s, gq_error *e) {
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
    s->coding = &hf_mxfp4;
    source_set_shape(s, t->n_dims - 1, t->shape);
    return source_set_name(s, strlen("_blocks"), "", e);
}

/* Byte k of the source has elements 2 k and 2 k + 1; byte j of a GGUF block has elements j and j + 16. */
static void mxfp4_repack(uint8_t scale, const uint8_t *in, uint8_t *out) {
    *out++ = scale;
    for (int m = 0; m < MXFP4_CODES / 2; m++) {
        out[2 * m] = (uint8_t)((in[m] & 15) | (in[m + 8] & 15) << 4);
        out[2 * m + 1] = (uint8_t)(in[m] >> 4 | (in[m + 8] >> 4) << 4);
    }
}

static bool mxfp4_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                       void *out, gq_error *e) {
    uint8_t *to = out;
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

static void mxfp4_write_type(const hf_source *s, char *to, size_t room) {
    (void)s;
    snprintf(to, room, "MXFP4");
}

const hf_coding hf_mxfp4 = {.type = GGUF_MXFP4, .read = mxfp4_read, .write_type = mxfp4_write_type};

/* ---- codes of 4 bits beside their scales ---- */

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
    s->coding = &hf_fp4, s->scale = scale, s->scale_rows = 1, s->scale_columns = group, s->factor = 1;
    return (s->columns % group == 0 && scale->n == mul_sat(s->rows, s->columns / group) &&
            (scale->n_dims < 2 || scale->shape[scale->n_dims - 1] == s->columns / group)) ||
           coded_fail(c, t, scale, e);
}

bool source_make_nvfp4(const coded_find *c, hf_source *s, const hf_stored *scale, size_t cut,
                       const char *factor, bool divides, gq_error *e) {
    return source_set_fp4(c, s, scale, 16, e) &&
           source_set_factor(c, s, coded_sibling(c, s->stored->name, cut, factor), factor, divides, e);
}

bool source_set_mxfp4(const coded_find *c, hf_source *s, const hf_stored *scale, gq_error *e) {
    if (!source_set_fp4(c, s, scale, 32, e)) return false;
    if (strstr(s->stored->name, ".experts.")) {
        s->shape[s->n_dims - 1] /= 32, s->columns /= 32;
        s->coding = &hf_mxfp4;
    }
    return true;
}

/* Byte k has elements 2 k, in its low half, and 2 k + 1. A code is a number of one mantissa bit, and its
 * product with a scale of E4M3 or E8M0 is exact: the factor is the only rounding. */
static bool fp4_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                     void *out, gq_error *e) {
    float *to = out;
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

static void fp4_write_type(const hf_source *s, char *to, size_t room) {
    snprintf(to, room, s->scale_columns == 16 ? "NVFP4" : "MXFP4");
}

const hf_coding hf_fp4 = {.read = fp4_read, .write_type = fp4_write_type};

/* ---- codes of -1, 0 and 1 ---- */

bool source_make_ternary(const coded_find *c, hf_source *s, const hf_stored *scale, gq_error *e) {
    const hf_stored *t = s->stored;
    const char *layers = coded_text(c, "linear_class");
    if (t->n_dims != 2) return hf_list_fail(c->list, t, e, "%u dimensions, expected a matrix", t->n_dims);
    source_set_shape(s, 2, (uint64_t[]){mul_sat(4, t->shape[0]), t->shape[1]});
    s->coding = &hf_ternary, s->scale = scale;
    return source_set_factor(c, s, scale, "_scale", !(layers && strcmp(layers, "autobitlinear") == 0), e);
}

static bool ternary_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n,
                         void *out, gq_error *e) {
    float *to = out;
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

static void ternary_write_type(const hf_source *s, char *to, size_t room) {
    (void)s;
    snprintf(to, room, "BitNet int2, a scale per matrix");
}

const hf_coding hf_ternary = {.read = ternary_read, .write_type = ternary_write_type};
