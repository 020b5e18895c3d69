/* Adds up second moments, which moments.h defines. Tokens wait in slots of MOMENTS_SLOT, once feature by
 * feature and once packed into panels, the form in which the kernel wants its right-hand side. When
 * MOMENTS_TOKENS wait, or their group ends, they are settled tile by tile, each tile by one thread. If a
 * group is no longer than MOMENTS_TOKENS all of it waits, and some rows of its sums at a time are formed in a
 * small buffer and added to the total. A longer group has sums of its own until it ends. Of y y^T the tiles
 * from the diagonal up are kept, of (x - y) y^T all tiles, transposed. factor.c makes the root.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "imatrix/moments_sums.h"

/* The floats of a square matrix of so many columns. */
static uint64_t square_floats(size_t columns) {
    uint64_t n = feedback_padded(columns);
    return n * n;
}

/* The floats of MOMENTS_SLOT tokens, and of all that may wait. */
static uint64_t slot_floats(moments_shape s) { return feedback_padded(s.columns) * MOMENTS_SLOT; }
static uint64_t waiting_floats(moments_shape s) { return slot_floats(s) * (MOMENTS_TOKENS / MOMENTS_SLOT); }

/* Whether groups are longer than what may wait, so that they need sums of their own. */
static bool long_groups(moments_shape s) { return s.group_tokens > MOMENTS_TOKENS; }

static void take_triangle(size_t columns, float **triangle, memory_ledger *l) {
    *triangle = memory_take_zeros(l, feedback_triangle(feedback_strips(columns)), sizeof(float));
}
static void take_square(moments_shape s, size_t columns, float **square, memory_ledger *l) {
    if (s.two_streams) *square = memory_take_zeros(l, square_floats(columns), sizeof(float));
}

/* Returns the i-th block; while counting, when there are none, the one given. */
static moments_block *block_at(moments *m, size_t i, moments_block *counted) {
    return m->blocks ? &m->blocks[i] : counted;
}

void moments_lay_out_blocks(moments *m, memory_ledger *l) {
    m->n_blocks = moments_blocks(m->shape);
    m->blocks = memory_take_zeros(l, m->n_blocks, sizeof *m->blocks);
    for (size_t i = 0; i < m->n_blocks; i++) {
        moments_block counted = {.columns = 0}, *b = block_at(m, i, &counted);
        b->columns = moments_block_columns(m->shape, i);
        take_triangle(b->columns, &b->triangle, l);
    }
}

void moments_lay_out_differences(moments *m, memory_ledger *l) {
    for (size_t i = 0; i < moments_blocks(m->shape); i++) {
        moments_block counted = {.columns = 0}, *b = block_at(m, i, &counted);
        take_square(m->shape, moments_block_columns(m->shape, i), &b->square, l);
    }
}

/* Takes what only the group at work needs. */
static void lay_out_group(moments *m, memory_ledger *l) {
    uint64_t waiting = waiting_floats(m->shape);
    m->y = memory_take_zeros(l, waiting, sizeof(float));
    m->panels = memory_take_zeros(l, waiting, sizeof(float));
    if (m->shape.two_streams) m->differences = memory_take_zeros(l, waiting, sizeof(float));
    for (size_t i = 0; long_groups(m->shape) && i < m->n_blocks; i++) {
        moments_block counted = {.columns = 0}, *b = block_at(m, i, &counted);
        take_triangle(moments_block_columns(m->shape, i), &b->group_triangle, l);
        take_square(m->shape, moments_block_columns(m->shape, i), &b->group_square, l);
    }
}

static void lay_out_moments(moments *m, memory_ledger *l) {
    moments_lay_out_blocks(m, l), moments_lay_out_differences(m, l), lay_out_group(m, l);
}

uint64_t moments_bytes(moments_shape s) {
    memory_ledger l = {.counts = true};
    if (!moments_countable(s)) return UINT64_MAX;
    moments counted = {.shape = s};
    lay_out_moments(&counted, &l);
    return l.bytes;
}

moments *moments_new(const kernels *k, moments_shape shape, threads_pool *pool, gq_error *e) {
    memory_ledger l = {.failed = false};
    if (shape.width >= shape.columns) shape.width = shape.columns;
    moments *m = moments_countable(shape) ? calloc(1, sizeof *m) : NULL;
    if (!m) return gq_fail_memory(e, moments_bytes(shape)), NULL;
    m->kernels = k->matmul, m->shape = shape, m->pool = pool;
    lay_out_moments(m, &l);
    if (memory_had(&l, e)) return m;
    moments_free(m);
    return NULL;
}

void moments_drop_group(moments *m) {
    for (size_t i = 0; m->blocks && i < m->n_blocks; i++) {
        moments_block *b = &m->blocks[i];
        free(b->group_triangle), free(b->group_square);
        b->group_triangle = b->group_square = NULL;
    }
    free(m->y), free(m->panels), free(m->differences);
    m->y = m->panels = m->differences = NULL;
}

void moments_free(moments *m) {
    if (!m) return;
    moments_drop_group(m);
    for (size_t i = 0; m->blocks && i < m->n_blocks; i++)
        free(m->blocks[i].triangle), free(m->blocks[i].square);
    free(m->blocks);
    free(m);
}

void moments_set(moments *m, const float *mean) {
    for (size_t i = 0, first = 0; i < m->n_blocks; first += m->blocks[i++].columns) {
        const moments_block *b = &m->blocks[i];
        for (size_t row = 0; row < b->columns; row++)
            for (size_t strip = row / PASS_COLUMNS; strip < feedback_strips(b->columns); strip++) {
                size_t from = strip * PASS_COLUMNS, n = b->columns - from;
                memcpy(b->triangle + feedback_triangle(strip) + row * PASS_COLUMNS,
                       mean + (first + row) * m->shape.columns + first + from,
                       sizeof *mean * (n < PASS_COLUMNS ? n : PASS_COLUMNS));
            }
    }
    m->tokens = 1;
}

void moments_mean_squares(moments *m, float *columns) {
    moments_end_group(m);
    for (size_t i = 0; i < m->n_blocks; i++, columns += m->shape.width)
        for (size_t c = 0; c < m->blocks[i].columns; c++) {
            size_t strip = c / PASS_COLUMNS;
            const float *row = m->blocks[i].triangle + feedback_triangle(strip) + c * PASS_COLUMNS;
            columns[c] = m->tokens ? (float)((double)row[c % PASS_COLUMNS] / (double)m->tokens) : 0;
        }
}

/* ---- products ---- */

/* Computes `rows` rows of a tile: y of the columns from `row` on times the panels of a strip from `column`
 * on, over all tokens that wait. add: in addition to what is there. */
static void sum_rows(const moments *m, size_t row, size_t rows, const float *panels, size_t column,
                     float *sums, bool add) {
    size_t panel = m->kernels->panel;
    for (size_t first = 0; first < m->waiting; first += MOMENTS_SLOT) {
        size_t slot = first / MOMENTS_SLOT * slot_floats(m->shape), left = m->waiting - first;
        for (size_t i = 0; i < PASS_COLUMNS; i += panel)
            m->kernels->multiply(&(matmul_tile){.w = m->y + slot + row * MOMENTS_SLOT,
                                                .row_step = MOMENTS_SLOT,
                                                .column_step = 1,
                                                .x = panels + slot + (column + i) * MOMENTS_SLOT,
                                                .y = sums + i,
                                                .y_stride = PASS_COLUMNS,
                                                .rows = rows,
                                                .columns = left < MOMENTS_SLOT ? left : MOMENTS_SLOT,
                                                .tokens = panel,
                                                .add = add || first > 0});
    }
}

static void add_floats(float *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] += from[i];
}

/* Adds a group that waits as a whole to the total's tile: its sums are formed from 0, some rows at a time. */
static void add_group(const moments *m, size_t row, const float *panels, size_t column, float *total) {
    enum { ROWS = 48 }; /* a multiple of all kernels' rows; 48 KiB on the stack */
    _Alignas(64) float sums[ROWS * PASS_COLUMNS];
    if (m->waiting == 0) return;
    for (size_t r = 0, n; r < PASS_COLUMNS; r += n) {
        n = PASS_COLUMNS - r < ROWS ? PASS_COLUMNS - r : ROWS;
        sum_rows(m, row + r, n, panels, column, sums, false);
        add_floats(total + r * PASS_COLUMNS, sums, n * PASS_COLUMNS);
    }
}

/* Adds waiting tokens to the group's chain; at the group's end, the chain to the total. */
static void settle_sums(const moments *m, size_t row, const float *panels, size_t column, float *group,
                        float *total, bool ends) {
    if (!group) {
        add_group(m, row, panels, column, total);
        return;
    }
    if (m->waiting) sum_rows(m, row, PASS_COLUMNS, panels, column, group, m->begun);
    if (ends) add_floats(total, group, TILE);
}

typedef struct settled_block {
    const moments *m;
    const moments_block *block;
    size_t first; /* first of its columns among all */
    bool ends;    /* the group ends */
} settled_block;

/* Settles a tile of both matrices of a block; the square's tiles are transposed. */
static void settle_tile(void *data, size_t unit, int thread) {
    const settled_block *of = data;
    const moments_block *b = of->block;
    const moments *m = of->m;
    size_t strips = feedback_strips(b->columns), strip = unit / strips, row = unit % strips;
    size_t at = of->first + row * PASS_COLUMNS, column = of->first + strip * PASS_COLUMNS;
    size_t triangle = feedback_triangle(strip) + row * TILE,
           square = feedback_square(b->columns, strip) + row * TILE;
    (void)thread;
    if (row <= strip)
        settle_sums(m, at, m->panels, column, b->group_triangle ? b->group_triangle + triangle : NULL,
                    b->triangle + triangle, of->ends);
    if (b->square)
        settle_sums(m, column, m->differences, at, b->group_square ? b->group_square + square : NULL,
                    b->square + square, of->ends);
}

static void moments_settle(moments *m, bool ends) {
    if (!m->waiting && !(ends && m->begun)) return;
    for (size_t i = 0; i < m->n_blocks; i++) {
        settled_block of = {m, &m->blocks[i], i * m->shape.width, ends};
        size_t strips = feedback_strips(of.block->columns);
        threads_for(m->pool, strips * strips, 1, settle_tile, &of);
    }
    m->waiting = 0, m->begun = !ends;
}

void moments_end_group(moments *m) { moments_settle(m, true); }

/* Tokens that are put with those that wait. */
typedef struct taken {
    const moments *m;
    const float *x, *y;
    size_t x_stride, y_stride, tokens;
} taken;

static void take_column(void *data, size_t c, int thread) {
    const taken *t = data;
    const moments *m = t->m;
    const float *from = t->y + c * t->y_stride, *x = t->x ? t->x + c * t->x_stride : NULL;
    size_t panel = m->kernels->panel;
    size_t slot = m->waiting / MOMENTS_SLOT * slot_floats(m->shape), place = m->waiting % MOMENTS_SLOT;
    size_t packed = slot + c / panel * panel * MOMENTS_SLOT + c % panel + place * panel;
    (void)thread;
    memcpy(m->y + slot + c * MOMENTS_SLOT + place, from, sizeof(float) * t->tokens);
    for (size_t i = 0; i < t->tokens; i++) m->panels[packed + i * panel] = from[i];
    for (size_t i = 0; m->differences && i < t->tokens; i++)
        m->differences[packed + i * panel] = x ? x[i] - from[i] : 0;
}

void moments_add(moments *m, const float *x, size_t x_stride, const float *y, size_t y_stride,
                 size_t tokens) {
    for (size_t done = 0, n; done < tokens; done += n) {
        n = MOMENTS_SLOT - m->waiting % MOMENTS_SLOT;
        if (n > tokens - done) n = tokens - done;
        taken t = {m, x ? x + done : NULL, y + done, x_stride, y_stride, n};
        threads_for(m->pool, m->shape.columns, THREADS_EVEN, take_column, &t);
        m->waiting += n, m->tokens += n;
        if (m->waiting == MOMENTS_TOKENS) moments_settle(m, !long_groups(m->shape));
    }
}
