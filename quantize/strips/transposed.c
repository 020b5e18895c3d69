#include "quantize/strips/transposed.h"

#include <string.h>

/* A band is decoded at once: BAND_ROWS stored rows, and of each as many weights as fit, whole blocks at both
 * ends. 16 rows fill a cache line when they are written the other way. Rows are an odd number of cache lines
 * apart (255): at a power of two they would push each other out of the cache. */
enum {
    BAND_ROWS = 16,
    BAND_ROOM = STRIP_ELEMENTS / BAND_ROWS - 16,
    LONGEST_BLOCK = 256,
    BAND = BAND_ROOM - 2 * LONGEST_BLOCK,
    SHORT_ROW =
        256 /* a band's rows that are no longer are read at once, 16 KiB at most, which is as quick as a few bytes */
};

void transposed_shape(const uint64_t ne[4], uint64_t to[4]) {
    uint64_t turned[4] = {ne[1], ne[0], ne[2], ne[3]};
    memcpy(to, turned, sizeof turned);
}

uint64_t transposed_element(const model_tensor *stored, uint64_t i) {
    uint64_t rows = stored->ne[0], columns = stored->ne[1], row = i / columns;
    return (row / rows * columns + i % columns) * rows + row % rows;
}

typedef struct band {
    uint64_t first; /* element of the stored tensor */
    size_t lead, n; /* weights before the wanted ones in what is read of a row; wanted weights */
    size_t length;  /* of what is read of a row, whole blocks */
    size_t apart;   /* what is read of two rows: BAND_ROOM, or whole short rows one after another */
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
