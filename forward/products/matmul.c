/* A step of a product with weights as they are stored is a range of columns and of tokens whose activations are
 * packed; all rows go through it, in units. */
#include "forward/products/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "forward/products/product.h"

/* Sizes of what is worked on at once. A tile of weights, decoded, and a panel of tokens at the same columns
 * share a core's second cache; the activations of a step are packed once, into panels, and serve all threads.
 * None of these numbers has a bearing on results. */
enum {
    TILE_ROWS = 192,    /* a multiple of all kernels' rows */
    TILE_COLUMNS = 512, /* with as many rows */
    /* A tile of fewer rows has more columns: outputs, a row of all tokens apart, are read and written once for
     * each tile of a row. Multiples of all types' blocks. */
    TILE_MOST_COLUMNS = 1024,
    TILE_BLOCK = 256,
    TILE_GAP_BYTES = 64, /* rows of a tile shall not share a set of a cache */
    TILE_FLOATS = TILE_ROWS * (TILE_COLUMNS + TILE_GAP_BYTES / sizeof(float)),
    SLICE_TOKENS = 2048,
    SLICE_FLOATS = SLICE_TOKENS * 2048,
    UNITS = 8, /* per thread, so that none waits long for the last one */
};
struct matmul_scratch {
    float floats[TILE_FLOATS]; /* a tile of decoded weights, or a panel of tokens */
};
_Static_assert((int)TILE_ROWS >= (int)MATMUL_MOST_PANEL, "it holds a panel of TILE_COLUMNS");

static void lay_out_matmul(matmul *m, int threads, memory_ledger *l) {
    m->shared = memory_take(l, SLICE_FLOATS, sizeof(float));
    m->scratches = memory_take(l, (uint64_t)threads, sizeof(struct matmul_scratch));
}

uint64_t matmul_bytes(int threads) {
    memory_ledger l = {.counts = true};
    lay_out_matmul(&(matmul){.shared = NULL}, threads, &l);
    return l.bytes;
}

matmul *matmul_new(const kernels *k, threads_pool *pool, gq_error *e) {
    memory_ledger l = {.failed = false};
    matmul *m = malloc(sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m), NULL;
    *m = (matmul){.level = k, .floats = kernels_products(k, MATMUL_FLOAT32), .pool = pool};
    matmul_set_arithmetic(m, MATMUL_FLOAT32);
    lay_out_matmul(m, threads_pool_most(pool), &l);
    if (memory_had(&l, e)) return m;
    matmul_free(m);
    return NULL;
}

void matmul_free(matmul *m) {
    if (!m) return;
    free(m->shared), free(m->scratches);
    free(m);
}

const char *const matmul_arithmetic_names[] = {[MATMUL_FLOAT32] = "float32", [MATMUL_BF16] = "bf16"};

bool matmul_arithmetic_take(matmul_arithmetic *to, const char *name, gq_error *e) {
    *to = MATMUL_FLOAT32;
    if (!name || !strcmp(name, matmul_arithmetic_names[MATMUL_FLOAT32])) return true;
    *to = MATMUL_BF16;
    return !strcmp(name, matmul_arithmetic_names[MATMUL_BF16]) ||
           gq_fail_usage(e, "'%.32s' is not an arithmetic; expected float32 or bf16", name);
}

const char *matmul_arithmetic_caution(matmul_arithmetic arithmetic, const kernels *k) {
    /* Tiles take parts of 2 bytes; chains of floats, which do the same elsewhere, are no faster than float32. */
    if (arithmetic != MATMUL_BF16 || kernels_products(k, arithmetic)->bytes == sizeof(uint16_t)) return NULL;
    return "products in bf16 take no less time than in float32 on this processor, which has no AMX; float32 "
           "is more exact";
}

void matmul_set_arithmetic(matmul *m, matmul_arithmetic arithmetic) {
    m->by = product_kernels_for(m->level, arithmetic);
}

enum { PACKED_COLUMNS = 32 }; /* at once: as many pages as a core finds without a search */
_Static_assert((int)PACKED_COLUMNS % (int)MATMUL_BF16_GROUP == 0, "groups are packed whole");
_Static_assert((int)TILE_BLOCK % (int)MATMUL_BF16_GROUP == 0, "and begin with a tile");

/* Rows of weights, decoded from a column on. */
typedef struct stored_rows {
    codec_decode *decode;
    const uint8_t *first;
    size_t bytes; /* of a row */
} stored_rows;

static stored_rows rows_from(const matmul *m, const matmul_weights *w, size_t row) {
    size_t bytes = gguf_row_bytes(tensor_type_of(w->type), w->columns);
    return (stored_rows){m->level->codecs[w->type].decode, (const uint8_t *)w->data + row * bytes, bytes};
}

/* ---- by tiles ---- */

typedef struct matmul_slice {
    const matmul *m;
    const matmul_weights *w;
    const float *x;
    float *y;
    size_t x_stride, y_stride;
    size_t first_column, columns, first_token, tokens;
    size_t tile_columns, tile_stride; /* stride: with a gap, so that rows do not share a set of a cache */
    size_t unit_rows, unit_panels;
    size_t panel, bytes,
        packed_columns; /* tokens of a panel; bytes of an element; columns as they are packed */
} matmul_slice;

static void *packed_at(const matmul_slice *s, size_t panel, size_t column) {
    return (char *)s->m->shared + (panel * s->packed_columns + column) * s->panel * s->bytes;
}
/* Some columns for all panels, so that x is read row by row. */
static void pack_columns(void *data, size_t i, int) {
    const matmul_slice *s = data;
    size_t column = i * PACKED_COLUMNS, columns = min(PACKED_COLUMNS, s->columns - column);
    const float *x = s->x + (s->first_column + column) * s->x_stride + s->first_token;
    for (size_t panel = 0; panel * s->panel < s->tokens; panel++, x += s->panel)
        s->m->by->pack(x, s->x_stride, columns, min(s->panel, s->tokens - panel * s->panel),
                       packed_at(s, panel, column));
}

static void decode_tile(const matmul_slice *s, size_t row, size_t rows, size_t column, size_t columns,
                        float *tile) {
    const product_kernels *by = s->m->by;
    stored_rows from = rows_from(s->m, s->w, row);
    float decoded[TILE_MOST_COLUMNS];
    char *to = (char *)tile;
    for (size_t r = 0; r < rows; r++, to += s->tile_stride * s->bytes) {
        float *x = by->rounds ? decoded : (float *)(void *)to;
        from.decode(from.first + r * from.bytes, s->first_column + column, x, columns);
        if (by->rounds) by->round(decoded, columns, 0, to);
    }
}

/* Some rows by some panels, along all columns of the step. */
static void multiply_unit(void *data, size_t i, int thread) {
    const matmul_slice *s = data;
    float *tile = s->m->scratches[thread].floats;
    size_t panels = ceil_div(s->tokens, s->panel), along = ceil_div(panels, s->unit_panels);
    size_t row = i / along * s->unit_rows, rows = min(s->unit_rows, s->w->rows - row);
    size_t first = i % along * s->unit_panels, end = min(panels, first + s->unit_panels);
    size_t token = s->first_token + first * s->panel,
           tokens = min((end - first) * s->panel, s->tokens - first * s->panel);
    for (size_t column = 0; column < s->columns; column += s->tile_columns) {
        size_t columns = min(s->tile_columns, s->columns - column);
        decode_tile(s, row, rows, column, columns, tile);
        s->m->by->multiply(&(product_tile){.w = {tile, s->tile_stride, 1},
                                           .x = packed_at(s, first, column),
                                           .x_panel_stride = s->packed_columns * s->panel,
                                           .panel = s->panel,
                                           .y = s->y + row * s->y_stride + token,
                                           .y_stride = s->y_stride,
                                           .y_panel_stride = s->panel,
                                           .rows = rows,
                                           .columns = columns,
                                           .tokens = tokens,
                                           .width = s->panel,
                                           .add = s->first_column + column > 0});
    }
}

/* Cuts the step's columns into tiles of about one width. Returns the rows of one. */
static size_t lay_out_tiles(matmul_slice *s) {
    size_t tiles = ceil_div(s->columns, TILE_MOST_COLUMNS);
    s->tile_columns = round_up(ceil_div(s->columns, tiles), TILE_BLOCK);
    s->tile_stride = s->tile_columns + TILE_GAP_BYTES / s->bytes;
    size_t rows = TILE_FLOATS * sizeof(float) / (s->tile_stride * s->bytes);
    return min(TILE_ROWS, rows - rows % s->m->by->rows);
}

/* Rows are shared out; tokens, too, where rows are few, although their weights are then decoded twice. */
static void run_slice(matmul_slice *s) {
    size_t threads = (size_t)threads_pool_most(s->m->pool), panels = ceil_div(s->tokens, s->panel);
    size_t share = ceil_div(s->w->rows, threads * UNITS), most = lay_out_tiles(s);
    s->unit_rows = threads == 1 ? most : min(most, max(48, ceil_div(share, 12) * 12));
    size_t row_units = ceil_div(s->w->rows, s->unit_rows);
    s->unit_panels = threads == 1 ? panels : max(1, panels * row_units / (threads * UNITS / 2));
    s->unit_panels = max(1, min(panels, s->unit_panels));
    size_t units = row_units * ceil_div(panels, s->unit_panels);
    threads_for(s->m->pool, ceil_div(s->columns, PACKED_COLUMNS), THREADS_EVEN, pack_columns, s);
    threads_for(s->m->pool, units, 1, multiply_unit, s);
}

static void matmul_run_tiles(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                             size_t y_stride, size_t tokens) {
    matmul_slice s = {.m = m, .w = w, .x = x, .y = y, .x_stride = x_stride, .y_stride = y_stride};
    s.panel = m->by->panel, s.bytes = m->by->bytes;
    for (; s.first_token < tokens; s.first_token += SLICE_TOKENS) {
        s.tokens = min(SLICE_TOKENS, tokens - s.first_token);
        size_t padded = ceil_div(s.tokens, s.panel) * s.panel;
        size_t most = SLICE_FLOATS / padded / TILE_COLUMNS * TILE_COLUMNS;
        for (s.first_column = 0; s.first_column < w->columns; s.first_column += most) {
            s.columns = min(most, w->columns - s.first_column);
            s.packed_columns = ceil_div(s.columns, PACKED_COLUMNS) * PACKED_COLUMNS;
            run_slice(&s);
        }
    }
}

/* ---- whole ---- */

typedef struct decoded_rows {
    stored_rows from;
    size_t column, columns;
    float *to;
} decoded_rows;

static void decode_whole_row(void *data, size_t r, int) {
    const decoded_rows *d = data;
    d->from.decode(d->from.first + r * d->from.bytes, d->column, d->to + r * d->columns, d->columns);
}

/* All threads decode rows to floats, as many as fit; x is one panel as it lies. */
static void matmul_run_whole(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                             size_t y_stride, size_t tokens) {
    size_t step = min(w->columns, SLICE_FLOATS / TILE_COLUMNS * TILE_COLUMNS), most = SLICE_FLOATS / step;
    for (size_t row = 0; row < w->rows; row += most)
        for (size_t column = 0; column < w->columns; column += step) {
            decoded_rows d = {rows_from(m, w, row), column, min(step, w->columns - column), m->shared};
            size_t rows = min(most, w->rows - row);
            threads_for(m->pool, rows, THREADS_EVEN, decode_whole_row, &d);
            m->by->multiply(&(product_tile){.w = {m->shared, d.columns, 1},
                                            .x = x + column * x_stride,
                                            .x_panel_stride = d.columns, /* not needed but of a stride of 1 */
                                            .panel = x_stride,
                                            .y = y + row * y_stride,
                                            .y_stride = y_stride,
                                            .rows = rows,
                                            .columns = d.columns,
                                            .tokens = tokens,
                                            .width = tokens,
                                            .add = column > 0});
        }
}

/* ---- both ---- */

void matmul_run(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                size_t y_stride, size_t tokens) {
    (m->by->whole ? matmul_run_whole : matmul_run_tiles)(m, w, x, x_stride, y, y_stride, tokens);
}

threads_pool *matmul_pool(const matmul *m) { return m->pool; }

void matmul_within(matmul *m, int thread, const matmul_product *p) {
    const product_kernels *k = m->floats;
    float *panel = m->scratches[thread].floats;
    size_t row_stride = p->transposed ? 1 : p->w_stride, column_stride = p->transposed ? p->w_stride : 1;
    product_tile t = {
        .x = panel, .panel = k->panel, .width = k->panel, .y_stride = p->y_stride, .rows = p->rows};
    for (size_t token = 0; token < p->tokens; token += k->panel) {
        t.tokens = min(k->panel, p->tokens - token);
        t.y = p->y + token;
        for (size_t column = 0; column < p->columns; column += TILE_COLUMNS) {
            t.columns = min(TILE_COLUMNS, p->columns - column);
            t.w = (product_rows){p->w + column * column_stride, row_stride, column_stride};
            t.add = column > 0;
            k->pack(p->x + column * p->x_stride + token, p->x_stride, t.columns, t.tokens, panel);
            k->multiply(&t);
        }
    }
}
