#include "quantize/strips/strip.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

const kernels *strip_kernels(gq_error *e) {
    const kernels *k = kernels_select();
    if (!k) gq_fail_usage(e, "%s", kernels_why_none());
    return k;
}

uint64_t strip_pieces(const model_tensor *t) {
    return ceil_div(shape_elements(t->ne), strip_whole(t, STRIP_PIECE));
}

/* ---- places ---- */

strip strip_from(const uint64_t ne[4], uint64_t first, uint64_t end) {
    uint64_t row = first / ne[0], column = first % ne[0], rows = (end - first) / ne[0];
    strip s = {.first = first, .rows = 1, .matrix = row / ne[1], .column = column};
    uint64_t left = ne[1] - row % ne[1]; /* rows of this matrix */
    if (column == 0 && rows > 0) {
        s.rows = (size_t)(rows < left ? rows : left), s.cols = (size_t)ne[0];
        return s;
    }
    uint64_t cols = ne[0] - column;
    s.cols = (size_t)(cols < end - first ? cols : end - first);
    return s;
}

codec_importance strip_importance(const strip *s, const tensor_inputs *inputs) {
    if (!inputs->columns) return (codec_importance){.column = NULL};
    return matrix_inputs_at(tensor_inputs_matrix(inputs, s->matrix), s->column);
}

/* ---- reading ---- */

bool strip_fail(const model_source *m, const model_tensor *t, uint64_t element, float x, gq_error *e,
                const char *and, ...) {
    char what[96];
    va_list arguments;
    va_start(arguments, and);
    vsnprintf(what, sizeof what, and, arguments);
    va_end(arguments);
    return gq_fail_as(e, GQ_BAD_WEIGHTS, "%s: tensor %s: element %llu is %g, and %s", model_file_path(m, t),
                      t->name, (unsigned long long)element, (double)x, what);
}

bool strip_read_decoded(const kernels *k, const model_source *m, const model_tensor *t, uint64_t first,
                        size_t n, uint8_t *stored, float *x, gq_error *e) {
    if (!model_read(m, t, first, n, stored, e)) return false;
    const codec *of = &k->codecs[t->type->id];
    if (!of->decode) return true;
    codec_decode_rows(of, stored, t->ne[0], x, n);
    size_t bad = k->first_not_finite(x, n);
    return bad == n || strip_fail(m, t, first + bad, x[bad], e, "weights must be finite");
}

/* ---- encoding ---- */

/* Index of the first value beyond what a type can hold; n: none. On the bits, a stretch at a time, so that
 * the compiler can use vectors. */
static size_t first_beyond(const float *x, size_t n, float most) {
    int32_t bound, bits;
    memcpy(&bound, &most, sizeof bound);
    for (size_t i = 0; i < n;) {
        size_t end = n - i < 1024 ? n : i + 1024;
        int32_t beyond = 0;
        for (size_t j = i; j < end; j++) {
            memcpy(&bits, &x[j], sizeof bits);
            beyond |= (bits & INT32_MAX) > bound;
        }
        for (; beyond && i < end; i++)
            if (fabsf(x[i]) > most) return i;
        i = end;
    }
    return n;
}

size_t strip_beyond(const strip_encoder *to, const float *x, size_t n) {
    float most = to->kernels->codecs[to->type->id].max_magnitude;
    return isfinite(most) ? first_beyond(x, n, most) : n;
}

/* Decode what was encoded, as many rows at a time as there is room for, or part of a long one. */
size_t strip_measure(const strip_encoder *to, const float *x, size_t rows, size_t cols, const uint8_t *blocks,
                     float *decoded, codec_error *sum) {
    const kernels *k = to->kernels;
    size_t most_cols = cols < STRIP_ELEMENTS ? cols : STRIP_ELEMENTS, most_rows = STRIP_ELEMENTS / most_cols,
           n;
    for (size_t at = 0; at < rows * cols; at += n) {
        size_t left = rows - at / cols, column = at % cols;
        size_t some = left < most_rows ? left : most_rows,
               some_cols = cols - column < most_cols ? cols - column : most_cols;
        codec_importance importance = to->importance;
        if (importance.column) importance.column += column;
        n = some * some_cols;
        codec_decode_rows(&k->codecs[to->type->id], blocks + tensor_type_bytes(to->type, cols, at), cols,
                          decoded, n);
        k->measure(x + at, decoded, some, some_cols, importance.column ? &importance : NULL, sum);
        if (isfinite(sum->max_e)) continue;
        size_t bad = k->first_not_finite(decoded, n);
        return at + (bad < n ? bad : 0); /* none is bad where only the difference overflowed */
    }
    return rows * cols;
}

size_t strip_encode(const strip_encoder *to, const float *x, size_t rows, size_t cols, uint8_t *blocks,
                    float *decoded, codec_error *sum) {
    const codec *c = &to->kernels->codecs[to->type->id];
    size_t beyond = strip_beyond(to, x, rows * cols);
    if (beyond < rows * cols) return beyond;
    c->encode(x, blocks, rows, cols, to->importance.column ? &to->importance : NULL, to->settings);
    return strip_measure(to, x, rows, cols, blocks, decoded, sum);
}

bool strip_fail_to_hold(const strip_encoder *to, const model_source *m, const model_tensor *t,
                        uint64_t element, float x, gq_error *e) {
    float most = to->kernels->codecs[to->type->id].max_magnitude;
    if (fabsf(x) > most)
        return strip_fail(m, t, element, x, e, "%s holds no magnitude above %g", to->type->name,
                          (double)most);
    return strip_fail(m, t, element, x, e, "its block does not decode to finite numbers as %s",
                      to->type->name);
}
