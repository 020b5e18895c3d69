#include "forward/matmul.h"

#include <omp.h>
#include <stdlib.h>

#include "forward/simd/kernels.h"

/* What is worked on at once. A tile of weights, decoded, and a panel of tokens at the same columns share a
 * core's second cache; the activations of a step are packed once, into panels, and serve all threads. None of
 * these numbers has a bearing on results. */
enum {
    TILE_ROWS = 192,                 /* a multiple of all kernels' rows */
    TILE_COLUMNS = 512,              /* a multiple of all types' blocks */
    TILE_STRIDE = TILE_COLUMNS + 16, /* rows of a tile shall not share a set of a cache */
    STEP_TOKENS = 2048,
    STEP_FLOATS = STEP_TOKENS * 2048,
    UNITS = 8, /* per thread, so that none waits long for the last one */
};
typedef struct room {
    float floats[TILE_ROWS * TILE_STRIDE]; /* a tile, or a panel of tokens */
} room;
_Static_assert((int)TILE_ROWS >= (int)MATMUL_MOST_PANEL, "a room holds a panel");

struct matmul {
    const codec *codecs;
    const matmul_kernels *kernels;
    int threads;
    float *packed; /* panels, each step's columns x panel */
    room *rooms;   /* one per thread */
};

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t parts(size_t n, size_t part) { return (n + part - 1) / part; }

size_t matmul_bytes(int threads) {
    return sizeof(matmul) + sizeof(float) * STEP_FLOATS + sizeof(room) * (size_t)threads;
}

matmul *matmul_new(const kernels *k, int threads, gq_error *e) {
    matmul *m = malloc(sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m), NULL;
    *m = (matmul){k->codecs, forward_kernels_of(k)->matmul, threads, NULL, NULL};
    m->packed = aligned_alloc(64, sizeof(float) * STEP_FLOATS);
    m->rooms = aligned_alloc(64, sizeof(room) * (size_t)threads);
    if (!m->packed || !m->rooms) {
        matmul_free(m);
        return gq_fail_memory(e, matmul_bytes(threads)), NULL;
    }
    return m;
}

void matmul_free(matmul *m) {
    if (!m) return;
    free(m->packed), free(m->rooms);
    free(m);
}

int matmul_threads(const matmul *m) { return m->threads; }

/* ---- weights as they are stored, by all threads ----
 * A step is a range of columns and of tokens whose activations are packed; all rows go through it, in units.
 */
typedef struct step {
    const matmul *m;
    const matmul_weights *w;
    const float *x;
    float *y;
    size_t x_stride, y_stride;
    size_t first_column, columns, first_token, tokens;
    size_t unit_rows, unit_panels;
} step;

static float *packed_at(const step *s, size_t panel, size_t column) {
    return s->m->packed + (panel * s->columns + column) * s->m->kernels->panel;
}
static size_t panel_tokens(const step *s, size_t panel) {
    size_t most = s->m->kernels->panel;
    return smaller(most, s->tokens - panel * most);
}

/* The i-th stretch of TILE_COLUMNS of a panel. */
static void pack_stretch(const step *s, size_t i) {
    const matmul_kernels *k = s->m->kernels;
    size_t stretches = parts(s->columns, TILE_COLUMNS), panel = i / stretches;
    size_t column = i % stretches * TILE_COLUMNS, columns = smaller(TILE_COLUMNS, s->columns - column);
    const float *x = s->x + (s->first_column + column) * s->x_stride + s->first_token + panel * k->panel;
    k->pack(x, s->x_stride, columns, panel_tokens(s, panel), packed_at(s, panel, column));
}

static void decode_tile(const step *s, size_t row, size_t rows, size_t column, size_t columns, float *tile) {
    const matmul_weights *w = s->w;
    const uint8_t *from = w->data;
    from += row * w->row_bytes + gguf_type_bytes(gguf_type_of(w->type), s->first_column + column);
    for (size_t r = 0; r < rows; r++, from += w->row_bytes, tile += TILE_STRIDE)
        s->m->codecs[w->type].decode(from, tile, columns);
}

/* Some rows by some panels, along all columns of the step. */
static void multiply_unit(const step *s, size_t i, float *tile) {
    const matmul_kernels *k = s->m->kernels;
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
static void run_step(step *s) {
    size_t threads = (size_t)s->m->threads, panels = parts(s->tokens, s->m->kernels->panel);
    size_t share = parts(s->w->rows, threads * UNITS);
    s->unit_rows = threads == 1 ? TILE_ROWS : smaller(TILE_ROWS, larger(48, parts(share, 12) * 12));
    size_t row_units = parts(s->w->rows, s->unit_rows);
    s->unit_panels = threads == 1 ? panels : larger(1, panels * row_units / (threads * UNITS / 2));
    s->unit_panels = smaller(panels, s->unit_panels);
    size_t units = row_units * parts(panels, s->unit_panels);
    size_t stretches = panels * parts(s->columns, TILE_COLUMNS);
#pragma omp parallel num_threads(s->m->threads)
    {
#pragma omp for schedule(dynamic, 4)
        for (size_t i = 0; i < stretches; i++) pack_stretch(s, i);
#pragma omp for schedule(dynamic, 1)
        for (size_t i = 0; i < units; i++) multiply_unit(s, i, s->m->rooms[omp_get_thread_num()].floats);
    }
}

void matmul_run(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                size_t y_stride, size_t tokens) {
    step s = {.m = m, .w = w, .x = x, .y = y, .x_stride = x_stride, .y_stride = y_stride};
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

/* ---- floats, by one thread ---- */
/* The positions that some token from first to last sees. */
typedef struct range {
    size_t first, end;
} range;
static range seen(const matmul_product *p, size_t first, size_t last, size_t positions) {
    size_t from = p->window && first >= p->window ? first - p->window + 1 : 0,
           end = smaller(positions, last + 1);
    return (range){smaller(from, end), end};
}

void matmul_within(matmul *m, int thread, const matmul_product *p) {
    const matmul_kernels *k = m->kernels;
    float *panel = m->rooms[thread].floats;
    matmul_tile t = {.row_step = p->transposed ? 1 : p->w_stride,
                     .column_step = p->transposed ? p->w_stride : 1,
                     .x = panel,
                     .y_stride = p->y_stride};
    for (size_t token = 0; token < p->tokens; token += k->panel) {
        t.tokens = smaller(k->panel, p->tokens - token);
        range rows = {0, p->rows}, columns = {0, p->columns};
        if (p->limit == MATMUL_ROWS_SEEN) rows = seen(p, token, token + t.tokens - 1, p->rows);
        if (p->limit == MATMUL_COLUMNS_SEEN) columns = seen(p, token, token + t.tokens - 1, p->columns);
        t.rows = rows.end - rows.first;
        t.y = p->y + rows.first * p->y_stride + token;
        for (size_t column = columns.first; column < columns.end; column += TILE_COLUMNS) {
            t.columns = smaller(TILE_COLUMNS, columns.end - column);
            t.w = p->w + rows.first * t.row_step + column * t.column_step;
            t.add = column > columns.first;
            k->pack(p->x + column * p->x_stride + token, p->x_stride, t.columns, t.tokens, panel);
            k->multiply(&t);
        }
    }
}
