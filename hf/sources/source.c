/* Reads rectangles of source tensors. Those that are coded are read by the file of their coding (coded_scaled.c,
 * coded_words.c, coded_codes.c): what belongs to several rows (a row of scales, a word that holds some inputs of every
 * output) is read once for them.
 */
#include "hf/sources/sources.h"

#include <stdlib.h>

#include "base/fail.h"

/* ---- stored elements as floats ---- */

enum { PIECE_ELEMENTS = 65536 }; /* that are converted at a time */

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

bool stored_read(const hf_list *l, const hf_stored *t, uint64_t first, uint64_t n, void *to, gq_error *e) {
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

/* ---- source tensors ---- */

/* The type that a source has by itself; types of 0 are F32. */
static const tensor_type *stored_type(const hf_source *s) {
    static const uint8_t types[HF_DTYPES] = {[HF_F16] = GGUF_F16, [HF_BF16] = GGUF_BF16};
    return tensor_type_of(s->coding == &hf_plain ? types[s->stored->dtype] : s->coding->type);
}

const tensor_type *hf_source_type(const hf_source *s) {
    return s->deltas.n ? tensor_type_of(GGUF_F32) : stored_type(s);
}

uint64_t hf_source_unit(const hf_source *s) { return tensor_type_of(s->coding->type)->block_elements; }

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

const hf_coding hf_plain = {.read = NULL};

bool hf_source_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                    const tensor_type *as, void *to, gq_error *e) {
    return s->coding == &hf_plain ? plain_read(s, row, n_rows, column, n_columns, as, to, e)
                                  : s->coding->read(s, row, n_rows, column, n_columns, to, e);
}
