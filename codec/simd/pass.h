/* A pass of codec/feedback.h and what its steps share. Rows are lanes: of a panel of them, as wide as
 * products of matrices like it, column c is one run of floats.
 */
#ifndef GQ_PASS_H
#define GQ_PASS_H

#include "codec/feedback_room.h"
#include "codec/simd/fma.h"
#include "codec/simd/kernels.h"

enum { STRIP = FEEDBACK_STRIP, TURNED = FEEDBACK_TURNED, CHUNK = 32, MOST_GROUP = 8 };

typedef struct pass {
    const feedback_task *task;
    const codec_steps *steps;
    const gguf_type *type;
    size_t rows, panel, panels, padded; /* panel: rows of one; padded: columns */
    size_t length, group, chunk; /* columns: of a block, of a group, of a chunk, no more than a block's */
    /* Per panel, [column][row of the panel]: the weights; w - q; a z; r; t R. */
    float *w, *error, *target, *rest, *goal;
    /* The same of a strip: what earlier columns add up to; that, and w - v, if columns were not rounded; v.
     */
    float *sum, *trial, *trial_error, *value;
    float *turned;   /* a tile, its columns one after another */
    uint8_t *states; /* of a batch of lanes, all its blocks, then of the next one */
    size_t state_bytes;
} pass;

/* Column c of panel p. */
INLINE float *at(const pass *s, float *array, size_t p, size_t c) {
    return array + (p * s->padded + c) * s->panel;
}
INLINE float *strip_at(const pass *s, float *array, size_t p, size_t c) {
    return array + (p * STRIP + c) * s->panel;
}
INLINE void *state_at(const pass *s, size_t p, size_t lane, size_t block) {
    size_t batch = (p * s->panel + lane) / L, blocks = s->task->columns / s->length;
    return s->states + (batch * blocks + block) * s->state_bytes;
}

/* Rows of a matrix in memory, the next one row_step farther. */
typedef struct matrix {
    const float *at;
    size_t row_step, rows, columns;
} matrix;
/* y (+)= m times columns of a panel, from x on. */
INLINE void multiply(const pass *s, matrix m, const float *x, float *y, bool add) {
    s->task->kernels->matmul->multiply(&(matmul_tile){.w = m.at,
                                                      .row_step = m.row_step,
                                                      .column_step = 1,
                                                      .x = x,
                                                      .y = y,
                                                      .y_stride = s->panel,
                                                      .rows = m.rows,
                                                      .columns = m.columns,
                                                      .tokens = s->panel,
                                                      .add = add});
}

INLINE matrix whole_tile(const float *tile) { return (matrix){tile, STRIP, STRIP, STRIP}; }
/* Rows of the turned tile, at columns first to end: what these columns of the tile's strip add to `rows`
 * columns from `row` on. */
INLINE matrix turned_part(const pass *s, size_t row, size_t rows, size_t first, size_t end) {
    return (matrix){s->turned + row * TURNED + first, TURNED, rows, end - first};
}
INLINE void turn_tile(const pass *s, const float *tile) {
    for (size_t i = 0; i < STRIP; i += L)
        for (size_t j = 0; j < STRIP; j += L) {
            vf t[L];
            for (size_t k = 0; k < L; k++) t[k] = load(tile + (i + k) * STRIP + j);
            transpose(t);
            for (size_t k = 0; k < L; k++) store(s->turned + (j + k) * TURNED + i, t[k]);
        }
}

/* Runs of columns: m's begin at `first`; a strip's number, and rows of its matrices, count from there. */
typedef struct run {
    const feedback_moments *m;
    size_t first, strips;
} run;
INLINE const float *root_tile(const run *u, size_t row_strip, size_t strip) {
    return u->m->root + feedback_triangle(strip) + row_strip * STRIP * STRIP;
}
/* Columns that the strip has. */
INLINE size_t strip_columns(const run *u, size_t strip) {
    size_t left = u->m->columns - strip * STRIP;
    return left < STRIP ? left : STRIP;
}

/* A batch of lanes in a chunk. Pointers are to the first lane in the chunk's first column. */
typedef struct lanes {
    const float *root; /* the diagonal's tile, there */
    const float *w, *target;
    float *sum, *error, *rest;
    size_t step; /* from a column to the next */
} lanes;

/* e in column c joins the sums of those from `from` to `end`. */
INLINE void push(const lanes *b, vf *sum, size_t c, size_t from, size_t end, vf e) {
    const float *root = b->root + c * STRIP;
    for (size_t k = from; k < end; k++) sum[k] = fused(all(root[k]), e, sum[k]);
}

/* Once a run's codes are chosen: those of a strip again, all others given; strips from last to first. */
void LEVEL(descend)(const pass *s, const run *u, size_t strip);

#endif
