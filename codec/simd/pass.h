/* A pass of codec/feedback.h and what its steps share. Rows are lanes: of a panel of them, as wide as
 * products of matrices like it, column c is `panel` floats, one behind the other.
 */
#ifndef GQ_PASS_H
#define GQ_PASS_H

#include "codec/feedback_scratch.h"
#include "codec/simd/fma.h"
#include "codec/simd/kernels.h"

enum {
    PASS_TURNED_COLUMNS = FEEDBACK_TURNED, /* from a row of the turned tile to the next */
    SLICE_COLUMNS = CODEC_MOST_GROUP,      /* of a slice; a strip is a number of slices */
};

/* Some columns of all panels, in panels of the level's elements of bf16. */
typedef struct pass_parts {
    uint8_t *at;
    size_t columns;
} pass_parts;

typedef struct feedback_pass {
    const feedback_task *task;
    const codec_steps *steps;
    const tensor_type *type;
    size_t panel, panels, padded; /* panel: rows of one; padded: columns */
    size_t width;                 /* lanes of a panel that are worked on: L where no batch has more */
    /* Rows are taken in batches, each in panels of its own. All rows of a call are one batch, but in a chain
     * it is the rows that are rounded at once, and the pass has some batches from batch `first` on. */
    size_t lanes, batch_panels, batches, first; /* lanes: rows of a batch */
    size_t length, group, slice; /* columns: of a block, of a group, of a slice, no more than a block's */
    /* Per panel, [column][row of the panel]: the weights; w - q; a z; r; t R. */
    float *w, *error, *target, *rest, *goal;
    /* The same of a strip: what earlier columns add up to; that, w - q and r where nothing is kept; v, as
     * the columns were met; and v as the scales of blocks are chosen for, and as did best. */
    float *sum, *trial, *trial_error, *trial_rest, *value, *aim, *best;
    float *turned; /* a tile, its columns one after another */
    /* Where products over more than a strip are in bf16, else NULL: the weights; a z, later w - q; and a
     * strip's r or what a sweep changed. */
    const matmul_bf16_kernels *bf16;
    pass_parts parts_of_w, parts, strip_parts;
    void *tile_rows; /* room for a tile */
    uint8_t *states; /* of a batch of lanes, all its blocks, then of the next one */
    size_t state_bytes;
} feedback_pass;

/* Column c of panel p. */
INLINE float *pass_at(const feedback_pass *s, float *array, size_t p, size_t c) {
    return array + (p * s->padded + c) * s->panel;
}
INLINE float *pass_strip_at(const feedback_pass *s, float *array, size_t p, size_t c) {
    return array + (p * PASS_COLUMNS + c) * s->panel;
}
/* The rows that a panel has from its k-th lane on; 0: those lanes repeat the last row. */
INLINE size_t pass_lanes_used(const feedback_pass *s, size_t p, size_t k) {
    size_t before = p % s->batch_panels * s->panel + k;
    return before < s->lanes ? s->lanes - before : 0;
}
/* The number, in x and in the blocks, of a panel's k-th row. */
INLINE size_t pass_row(const feedback_pass *s, size_t p, size_t k) {
    const feedback_chain *chain = s->task->chain;
    size_t lane = p % s->batch_panels * s->panel + k;
    if (lane >= s->lanes) lane = s->lanes - 1;
    if (!chain) return lane;
    size_t place = (s->first + p / s->batch_panels) * chain->together + lane % chain->together;
    return lane / chain->together * chain->step + feedback_chain_row(chain->length, chain->together, place);
}
INLINE void *pass_state_at(const feedback_pass *s, size_t p, size_t lane, size_t block) {
    size_t batch = (p * s->panel + lane) / L, blocks = s->task->columns / s->length;
    return s->states + (batch * blocks + block) * s->state_bytes;
}

/* Rows of a matrix in memory, the next one row_step farther, the next column column_step. */
typedef struct pass_matrix {
    const float *at;
    size_t row_step, column_step, rows, columns;
} pass_matrix;
/* y (+)= m times columns of a panel, from x on. */
INLINE void pass_multiply(const feedback_pass *s, pass_matrix m, const float *x, float *y, bool add) {
    s->task->kernels->matmul->multiply(&(matmul_tile){.w = m.at,
                                                      .row_step = m.row_step,
                                                      .column_step = m.column_step,
                                                      .x = x,
                                                      .y = y,
                                                      .y_stride = s->panel,
                                                      .rows = m.rows,
                                                      .columns = m.columns,
                                                      .tokens = s->width,
                                                      .add = add});
}

/* ---- products in bf16 ---- */
INLINE void *pass_parts_at(const feedback_pass *s, pass_parts parts, size_t p, size_t c) {
    return parts.at + (p * parts.columns + c) * s->panel * s->bf16->bytes;
}
/* Rounds a strip of each panel. x: of the first one, whose next begins x_step floats behind it. */
INLINE void pass_round_strip(const feedback_pass *s, const float *x, size_t x_step, pass_parts to, size_t c) {
    for (size_t p = 0; p < s->panels; p++)
        s->bf16->pack(x + p * x_step, s->panel, PASS_COLUMNS, s->panel, pass_parts_at(s, to, p, c));
}
/* The same of an array of all columns, from column `from` on. */
INLINE void pass_round_columns(const feedback_pass *s, float *array, size_t from, pass_parts to, size_t c) {
    pass_round_strip(s, pass_at(s, array, 0, from), s->padded * s->panel, to, c);
}
/* y (+)= a tile times a strip of each panel, from column c on. y: as x above. */
INLINE void pass_multiply_parts(const feedback_pass *s, const void *tile_rows, pass_parts x, size_t c,
                                float *y, size_t y_step, bool add) {
    for (size_t p = 0; p < s->panels; p++)
        s->bf16->multiply(&(matmul_bf16_tile){.w = tile_rows,
                                              .row_step = PASS_COLUMNS,
                                              .x = pass_parts_at(s, x, p, c),
                                              .y = y + p * y_step,
                                              .y_stride = s->panel,
                                              .rows = PASS_COLUMNS,
                                              .columns = PASS_COLUMNS,
                                              .tokens = s->width,
                                              .add = add});
}
/* The tile's rows as products take them. They are one tile's at a time. */
INLINE const void *pass_tile_rows(const feedback_pass *s, const float *tile, bool turned) {
    return s->bf16->rows_of(feedback_rounded(tile, turned), PASS_COLUMNS * PASS_COLUMNS, s->tile_rows);
}

/* ---- tiles ---- */
INLINE pass_matrix whole_tile(const float *tile) {
    return (pass_matrix){tile, PASS_COLUMNS, 1, PASS_COLUMNS, PASS_COLUMNS};
}
/* For one product; for several turn_tile is faster. */
INLINE pass_matrix whole_tile_turned(const float *tile) {
    return (pass_matrix){tile, 1, PASS_COLUMNS, PASS_COLUMNS, PASS_COLUMNS};
}
/* Rows of the turned tile, at columns first to end: what these columns of the tile's strip add to `rows`
 * columns from `row` on. */
INLINE pass_matrix turned_part(const feedback_pass *s, size_t row, size_t rows, size_t first, size_t end) {
    return (pass_matrix){s->turned + row * PASS_TURNED_COLUMNS + first, PASS_TURNED_COLUMNS, 1, rows,
                         end - first};
}
/* The tile that lies behind it is taken next, and is called from memory meanwhile. */
INLINE void turn_tile(const feedback_pass *s, const float *tile) {
    const float *next = tile + PASS_COLUMNS * PASS_COLUMNS;
    for (size_t i = 0; i < PASS_COLUMNS; i += L)
        for (size_t j = 0; j < PASS_COLUMNS; j += L) {
            vf t[L];
            for (size_t k = 0; k < L; k++) t[k] = vf_load(tile + (i + k) * PASS_COLUMNS + j);
            for (size_t k = 0; k < L; k++) __builtin_prefetch(next + (i + k) * PASS_COLUMNS + j, 0, 2);
            vf_transpose(t);
            for (size_t k = 0; k < L; k++) vf_store(s->turned + (j + k) * PASS_TURNED_COLUMNS + i, t[k]);
        }
}

/* A span of columns, those of m: it begins at column `first`; the numbers of its strips, and the rows of its
 * matrices, count from there. */
typedef struct pass_span {
    const feedback_moments *m;
    size_t first, strips;
} pass_span;
INLINE const float *root_tile(const pass_span *u, size_t row_strip, size_t strip) {
    return u->m->root + feedback_triangle(strip) + row_strip * PASS_COLUMNS * PASS_COLUMNS;
}
/* Columns that the strip has. */
INLINE size_t strip_columns(const pass_span *u, size_t strip) {
    size_t left = u->m->columns - strip * PASS_COLUMNS;
    return left < PASS_COLUMNS ? left : PASS_COLUMNS;
}

/* A batch of lanes in a slice. Pointers are to the first lane in the slice's first column. */
typedef struct pass_lanes {
    const float *root; /* the diagonal's tile, there */
    const float *w, *target;
    float *sum, *error, *rest, *value;
    size_t step; /* from a column to the next */
} pass_lanes;

/* e in column c joins the sums of those from `from` to `end`. */
INLINE void pass_push(const pass_lanes *b, vf *sum, size_t c, size_t from, size_t end, vf e) {
    const float *root = b->root + c * PASS_COLUMNS;
    for (size_t k = from; k < end; k++) sum[k] = vf_fused(vf_all(root[k]), e, sum[k]);
}

/* The position of a pass: a block of columns in a strip, for all rows. */
typedef struct pass_position {
    const pass_span *u;
    size_t strip, c; /* in the strip */
    size_t first;    /* of the strip, in the row */
} pass_position;

/* Rounds a block of a panel; returns how many weights were beyond the ends of their range. */
uint64_t LEVEL(round_block)(const feedback_pass *s, const pass_position *b, size_t p);
/* Once a span's codes are chosen: those of a strip again, all others given; strips from last to first. */
void LEVEL(descend)(const feedback_pass *s, const pass_span *u, size_t strip);

#endif
