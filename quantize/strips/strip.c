#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "quantize/strips/strips.h"

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

/* ---- reading ---- */

/* Fails with GQ_BAD_WEIGHTS; the message says that the element is x, "and" what the format says. */
__attribute__((format(printf, 6, 7))) static bool strip_fail(const model_source *m, const model_tensor *t,
                                                             uint64_t element, float x, gq_error *e,
                                                             const char *and, ...) {
    char what[96];
    va_list arguments;
    va_start(arguments, and);
    vsnprintf(what, sizeof what, and, arguments);
    va_end(arguments);
    return gq_fail_as(e, GQ_BAD_WEIGHTS, "%s: tensor %s: element %llu is %g, and %s", model_file_path(m, t),
                      t->name, LLU(element), (double)x, what);
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
        const float *importance = to->importance ? to->importance + column : NULL;
        n = some * some_cols;
        codec_decode_rows(&k->codecs[to->type->id], blocks + tensor_type_bytes(to->type, cols, at), cols,
                          decoded, n);
        k->measure(x + at, decoded, some, some_cols, importance, sum);
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
    c->encode(x, blocks, rows, cols, to->importance, to->settings);
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

/* ---- matrices with rows and columns exchanged ---- */

/* A band is decoded at once: BAND_ROWS stored rows, and of each as many weights as fit, whole blocks at both
 * ends. 16 rows fill a cache line when they are written the other way. Rows are an odd number of cache lines
 * apart (255): at a power of two they would push each other out of the cache. */
enum {
    BAND_ROWS = 16,
    BAND_ROOM = STRIP_ELEMENTS / BAND_ROWS - 16,
    LONGEST_BLOCK = 256,
    BAND = BAND_ROOM - 2 * LONGEST_BLOCK,
    /* A band's rows that are no longer are read at once, 16 KiB at most, which is as quick as a few bytes. */
    SHORT_ROW = 256
};

void transposed_shape(const uint64_t ne[4], uint64_t to[4]) {
    uint64_t transposed[4] = {ne[1], ne[0], ne[2], ne[3]};
    memcpy(to, transposed, sizeof transposed);
}

uint64_t transposed_element(const model_tensor *stored, uint64_t i) {
    uint64_t rows = stored->ne[0], columns = stored->ne[1], row = i / columns;
    return (row / rows * columns + i % columns) * rows + row % rows;
}

typedef struct band {
    uint64_t first; /* element of the stored tensor */
    size_t lead, n; /* weights before the wanted ones in what is read of a row; wanted weights */
    size_t length;  /* of what is read of a row, whole blocks */
    size_t apart;   /* elements from a row's to the next: BAND_ROOM, or whole short rows one after another */
} band;

/* A band's stored rows become columns of x, whose rows are `stride` apart. */
static bool read_band(const kernels *k, const model_source *m, const model_tensor *stored, const band *b,
                      size_t rows, uint8_t *bytes, float *decoded, float *x, size_t stride, gq_error *e) {
    bool at_once = b->apart == b->length;
    for (size_t r = 0; r < (at_once ? 1 : rows); r++)
        if (!strip_read_decoded(k, m, stored, b->first + r * stored->ne[0],
                                at_once ? rows * b->length : b->length, bytes, decoded + r * b->apart, e))
            return false;
    for (size_t i = 0; i < b->n; i++)
        for (size_t r = 0; r < rows; r++) x[i * stride + r] = decoded[r * b->apart + b->lead + i];
    return true;
}

/* Rows `row` to `row` + n of one transposed matrix. */
static bool transposed_read_rows(const kernels *k, const model_source *m, const model_tensor *stored,
                                 const strip *s, uint64_t matrix, uint64_t row, size_t n, uint8_t *bytes,
                                 float *decoded, float *x, gq_error *e) {
    uint64_t block = stored->type->block_elements, begin = row / block * block,
             end = (row + n + block - 1) / block * block;
    if (stored->ne[0] <= SHORT_ROW) begin = 0, end = stored->ne[0];
    for (size_t c = 0; c < s->cols; c += BAND_ROWS) {
        size_t rows = s->cols - c < BAND_ROWS ? s->cols - c : BAND_ROWS;
        band b = {.first = (matrix * stored->ne[1] + s->column + c) * stored->ne[0] + begin,
                  .lead = (size_t)(row - begin),
                  .n = n,
                  .length = (size_t)(end - begin),
                  .apart = stored->ne[0] <= SHORT_ROW ? (size_t)stored->ne[0] : BAND_ROOM};
        if (!read_band(k, m, stored, &b, rows, bytes, decoded, x + c, s->cols, e)) return false;
    }
    return true;
}

bool transposed_read(const kernels *k, const model_source *m, const model_tensor *stored, const strip *s,
                     uint8_t *bytes, float *decoded, float *x, gq_error *e) {
    uint64_t first = s->first / stored->ne[1]; /* row */
    for (size_t r = 0, n; r < s->rows; r += n) {
        uint64_t matrix = (first + r) / stored->ne[0], row = (first + r) % stored->ne[0],
                 left = stored->ne[0] - row; /* rows of this matrix */
        n = s->rows - r < BAND ? s->rows - r : BAND;
        if (n > left) n = (size_t)left;
        if (!transposed_read_rows(k, m, stored, s, matrix, row, n, bytes, decoded, x + r * s->cols, e))
            return false;
    }
    return true;
}
