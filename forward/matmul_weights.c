/* Products with weights as they are stored, by all threads.
 *
 * A step is a range of columns and of tokens whose activations are packed; all rows go through it, in units.
 */
#include "forward/matmul_scratch.h"

enum { PACKED_COLUMNS = 32 }; /* at once: as many pages as a core finds without a search */

typedef struct matmul_step {
    const matmul *m;
    const matmul_weights *w;
    const float *x;
    float *y;
    size_t x_stride, y_stride;
    size_t first_column, columns, first_token, tokens;
    size_t unit_rows, unit_panels;
} matmul_step;

static float *packed_at(const matmul_step *s, size_t panel, size_t column) {
    return s->m->shared + (panel * s->columns + column) * s->m->kernels->panel;
}
static size_t panel_tokens(const matmul_step *s, size_t panel) {
    size_t most = s->m->kernels->panel;
    return smaller(most, s->tokens - panel * most);
}

/* Some columns for all panels, so that x is read row by row. */
static void pack_columns(void *data, size_t i, int thread) {
    const matmul_step *s = data;
    const matmul_kernels *k = s->m->kernels;
    size_t column = i * PACKED_COLUMNS, columns = smaller(PACKED_COLUMNS, s->columns - column);
    (void)thread;
    const float *x = s->x + (s->first_column + column) * s->x_stride + s->first_token;
    for (size_t panel = 0; panel * k->panel < s->tokens; panel++)
        k->pack(x + panel * k->panel, s->x_stride, columns, panel_tokens(s, panel),
                packed_at(s, panel, column));
}

static void decode_tile(const matmul_step *s, size_t row, size_t rows, size_t column, size_t columns,
                        float *tile) {
    const matmul_weights *w = s->w;
    const uint8_t *from = w->data;
    from += row * w->row_bytes + gguf_type_bytes(gguf_type_of(w->type), s->first_column + column);
    for (size_t r = 0; r < rows; r++, from += w->row_bytes, tile += TILE_STRIDE)
        s->m->codecs[w->type].decode(from, tile, columns);
}

/* Some rows by some panels, along all columns of the step. */
static void multiply_unit(void *data, size_t i, int thread) {
    const matmul_step *s = data;
    const matmul_kernels *k = s->m->kernels;
    float *tile = s->m->scratches[thread].floats;
    size_t panels = parts(s->tokens, k->panel), along = parts(panels, s->unit_panels);
    size_t row = i / along * s->unit_rows, rows = smaller(s->unit_rows, s->w->rows - row);
    size_t first = i % along * s->unit_panels, end = smaller(panels, first + s->unit_panels);
    for (size_t column = 0; column < s->columns; column += TILE_COLUMNS) {
        size_t columns = smaller(TILE_COLUMNS, s->columns - column);
        decode_tile(s, row, rows, column, columns, tile);
        for (size_t panel = first; panel < end; panel++)
            k->multiply(&(matmul_tile){
                .w = tile,
                .row_step = TILE_STRIDE,
                .column_step = 1,
                .x = packed_at(s, panel, column),
                .y = s->y + row * s->y_stride + s->first_token + panel * k->panel,
                .y_stride = s->y_stride,
                .rows = rows,
                .columns = columns,
                .tokens = panel_tokens(s, panel),
                .add = s->first_column + column > 0,
            });
    }
}

/* Rows are shared out; tokens, too, where rows are few, although their weights are then decoded twice. */
static void run_step(matmul_step *s) {
    size_t threads = (size_t)threads_pool_most(s->m->pool), panels = parts(s->tokens, s->m->kernels->panel);
    size_t share = parts(s->w->rows, threads * UNITS);
    s->unit_rows = threads == 1 ? TILE_ROWS : smaller(TILE_ROWS, larger(48, parts(share, 12) * 12));
    size_t row_units = parts(s->w->rows, s->unit_rows);
    s->unit_panels = threads == 1 ? panels : larger(1, panels * row_units / (threads * UNITS / 2));
    s->unit_panels = larger(1, smaller(panels, s->unit_panels));
    size_t units = row_units * parts(panels, s->unit_panels);
    threads_for(s->m->pool, parts(s->columns, PACKED_COLUMNS), THREADS_EVEN, pack_columns, s);
    threads_for(s->m->pool, units, 1, multiply_unit, s);
}

void matmul_run(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                size_t y_stride, size_t tokens) {
    matmul_step s = {.m = m, .w = w, .x = x, .y = y, .x_stride = x_stride, .y_stride = y_stride};
    for (; s.first_token < tokens; s.first_token += STEP_TOKENS) {
        s.tokens = smaller(STEP_TOKENS, tokens - s.first_token);
        size_t padded = parts(s.tokens, m->kernels->panel) * m->kernels->panel;
        size_t most = STEP_FLOATS / padded / TILE_COLUMNS * TILE_COLUMNS;
        for (s.first_column = 0; s.first_column < w->columns; s.first_column += most) {
            s.columns = smaller(most, w->columns - s.first_column);
            run_step(&s);
        }
    }
}
