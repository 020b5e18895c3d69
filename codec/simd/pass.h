/* A pass of codec/feedback.h over the columns, and what its functions share. Rows are lanes: of a panel of
 * them, as wide as products of matrices like it, column c is `panel` floats, one behind the other. */
#pragma once

#include "codec/feedback.h"
#include "codec/simd/fma.h"
#include "codec/simd/kernels.h"

enum {
    SLICE_COLUMNS = CODEC_MOST_GROUP, /* of a slice; a strip is a number of slices */
};

/* Columns of all panels as products over more than a strip take them: floats where they are, or in panels of
 * the kernels' elements what they are rounded to. */
typedef struct pass_operand {
    void *at;
    size_t columns; /* from a panel to the next */
} pass_operand;

typedef struct feedback_pass {
    const feedback_task *task;
    const codec_columnwise *columnwise;
    const tensor_type *type;
    size_t panel, panels, padded; /* panel: rows of one; padded: columns */
    size_t width;                 /* lanes of a panel that are worked on: L where no batch has more */
    /* Rows are taken in batches, each in panels of its own. All rows of a call are one batch, but in a chain
     * it is the rows that are rounded at once, and the pass has some batches from batch `first` on. */
    size_t lanes, batch_panels, batches, first; /* lanes: rows of a batch */
    size_t length, group, slice; /* columns: of a block, of a group, of a slice, no more than a block's */
    /* Per panel, [column][row of the panel]: the weights; w - q; a z; r; t R. */
    float *w, *error, *shift, *rest, *goal;
    /* The same of a strip: what earlier columns add up to; that, w - q and r where nothing is kept; v, as
     * the columns were met; and v as the scales of blocks are chosen for, and as did best. */
    float *sum, *trial, *trial_error, *trial_rest, *value, *aim, *best;
    float *transposed; /* a tile, its columns one after another */
    /* Kernels of products over more than a strip, and their operands: the weights, a z, w - q; and a strip,
     * only where operands are rounded. */
    const product_kernels *by;
    pass_operand of_w, of_shift, of_error, of_strip;
    uint8_t *states; /* of a batch of lanes, all its blocks, then of the next one */
    size_t state_bytes;
} feedback_pass;

/* Column c of panel p. */
INLINE float *pass_at(const feedback_pass *s, float *array, size_t p, size_t c) {
    return array + (p * s->padded + c) * s->panel;
}
INLINE float *pass_strip_at(const feedback_pass *s, float *array, size_t p, size_t c) {
    return array + (p * STRIP_COLUMNS + c) * s->panel;
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
    return lane / chain->together * chain->stride + feedback_chain_row(chain->length, chain->together, place);
}
INLINE void *pass_state_at(const feedback_pass *s, size_t p, size_t lane, size_t block) {
    size_t batch = (p * s->panel + lane) / L, blocks = s->task->columns / s->length;
    return s->states + (batch * blocks + block) * s->state_bytes;
}

/* y (+)= rows times `columns` columns of a panel, from x on. These products are of floats. */
INLINE void pass_multiply(const feedback_pass *s, product_rows w, size_t rows, size_t columns, const float *x,
                          float *y, bool add) {
    s->task->kernels->products[MATMUL_FLOAT32]->multiply(&(product_tile){.w = w,
                                                                         .x = x,
                                                                         .panel = s->panel,
                                                                         .y = y,
                                                                         .y_stride = s->panel,
                                                                         .rows = rows,
                                                                         .columns = columns,
                                                                         .tokens = s->width,
                                                                         .width = s->width,
                                                                         .add = add});
}
/* The same of a strip, by a tile of STRIP_COLUMNS rows. */
INLINE void pass_multiply_tile(const feedback_pass *s, product_rows w, const float *x, float *y, bool add) {
    pass_multiply(s, w, STRIP_COLUMNS, STRIP_COLUMNS, x, y, add);
}

/* ---- products over more than a strip ---- */
INLINE void *pass_operand_at(const feedback_pass *s, pass_operand x, size_t p, size_t c) {
    return (uint8_t *)x.at + (p * x.columns + c) * s->panel * s->by->bytes;
}
/* Rounds a strip of each panel, where products are of rounded numbers. x: of the first one, whose next begins
 * `columns` columns behind it. */
INLINE void pass_round_strip(const feedback_pass *s, const float *x, size_t columns, pass_operand to,
                             size_t c) {
    for (size_t p = 0; s->by->rounds && p < s->panels; p++, x += columns * s->panel)
        s->by->pack(x, s->panel, STRIP_COLUMNS, s->panel, pass_operand_at(s, to, p, c));
}
/* The same of an array of all columns, from column c on, to where its operand has them. */
INLINE void pass_round_columns(const feedback_pass *s, float *array, pass_operand to, size_t c) {
    pass_round_strip(s, pass_at(s, array, 0, c), s->padded, to, c);
}
/* Returns such a strip as an operand, which is one strip's at a time. */
INLINE pass_operand pass_strip_operand(const feedback_pass *s, float *x, size_t columns) {
    pass_round_strip(s, x, columns, s->of_strip, 0);
    return s->by->rounds ? s->of_strip : (pass_operand){x, columns};
}
/* y (+)= STRIP_COLUMNS rows times some columns of each panel, from column c on. y: as x above. */
INLINE void pass_multiply_all(const feedback_pass *s, product_rows w, size_t columns, pass_operand x,
                              size_t c, float *y, size_t y_columns, bool add) {
    s->by->multiply(&(product_tile){.w = w,
                                    .x = pass_operand_at(s, x, 0, c),
                                    .x_panel_stride = x.columns * s->panel,
                                    .panel = s->panel,
                                    .y = y,
                                    .y_stride = s->panel,
                                    .y_panel_stride = y_columns * s->panel,
                                    .rows = STRIP_COLUMNS,
                                    .columns = columns,
                                    .tokens = s->panels * s->width,
                                    .width = s->width,
                                    .add = add});
}
/* A tile's rows, or transposed its columns, as these products take them. They are one tile's at a time. */
INLINE product_rows pass_tile(const feedback_pass *s, const float *tile, bool transposed) {
    return s->by->tile(tile, transposed, s->transposed);
}

/* ---- tiles ---- */
/* Rows of a tile of floats from `row` on, at columns from `column` on. */
INLINE product_rows tile_rows(const float *tile, size_t row, size_t column) {
    return (product_rows){tile + row * STRIP_COLUMNS + column, STRIP_COLUMNS, 1};
}
/* The tile's columns, for one product; for several transpose_tile is faster. */
INLINE product_rows tile_columns(const float *tile) { return (product_rows){tile, 1, STRIP_COLUMNS}; }
INLINE void transpose_tile(const feedback_pass *s, const float *tile) {
    s->task->kernels->products[MATMUL_FLOAT32]->tile(tile, true, s->transposed);
}
/* Rows of the transposed tile, at columns from `first` on: what these columns of the tile's strip add to columns
 * from `row` on. */
INLINE product_rows transposed_rows(const feedback_pass *s, size_t row, size_t first) {
    return (product_rows){s->transposed + row * PRODUCT_TRANSPOSED + first, PRODUCT_TRANSPOSED, 1};
}

/* A span of columns, those of m: it begins at column `first`; the numbers of its strips, and the rows of its
 * matrices, count from there. */
typedef struct pass_span {
    const feedback_hessian *m;
    size_t first, strips;
} pass_span;
INLINE const float *root_tile(const pass_span *u, size_t row_strip, size_t strip) {
    return u->m->cholesky + feedback_triangle(strip) + row_strip * STRIP_COLUMNS * STRIP_COLUMNS;
}
/* Columns that the strip has. */
INLINE size_t strip_columns(const pass_span *u, size_t strip) {
    size_t left = u->m->columns - strip * STRIP_COLUMNS;
    return left < STRIP_COLUMNS ? left : STRIP_COLUMNS;
}

/* A batch of lanes in a slice. Pointers are to the first lane in the slice's first column. */
typedef struct pass_lanes {
    const float *root; /* the diagonal's tile, there */
    const float *w, *shift;
    float *sum, *error, *rest, *value;
    size_t stride; /* from a column to the next */
} pass_lanes;

/* e in column c joins the sums of those from `from` to `end`. */
INLINE void pass_push(const pass_lanes *b, vf *sum, size_t c, size_t from, size_t end, vf e) {
    const float *root = b->root + c * STRIP_COLUMNS;
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
