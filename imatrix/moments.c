#include <stdlib.h>
#include <string.h>

#include "imatrix/moments_sums.h"

/* Of a square matrix of so many columns. */
static uint64_t square_floats(size_t columns) {
    uint64_t n = feedback_padded(columns);
    return n * n;
}

static uint64_t waiting_floats(moments_shape s) { return feedback_padded(s.columns) * MOMENTS_TOKENS; }

/* Columns beyond this are no tensor's, and nothing below overflows. */
static bool countable(moments_shape s) { return s.columns <= 1 << 28; }

uint64_t moments_bytes(moments_shape s) {
    if (!countable(s)) return UINT64_MAX;
    uint64_t floats = waiting_floats(s) * (s.two_streams ? 3 : 2);
    for (size_t i = 0; i < moments_blocks(s); i++) {
        size_t columns = moments_block_columns(s, i);
        floats += feedback_triangle(feedback_strips(columns));
        if (s.two_streams) floats += square_floats(columns);
    }
    return sizeof(float) * floats;
}

float *moments_room(uint64_t floats) {
    void *p = NULL;
    return floats <= SIZE_MAX / sizeof(float) && posix_memalign(&p, 64, sizeof(float) * floats) == 0 ? p
                                                                                                     : NULL;
}

static float *zeros(uint64_t floats) {
    float *p = moments_room(floats);
    return p ? memset(p, 0, sizeof *p * floats) : NULL;
}

static bool make_blocks(moments *m) {
    m->n_blocks = moments_blocks(m->shape);
    m->blocks = calloc(m->n_blocks, sizeof *m->blocks);
    for (size_t i = 0; m->blocks && i < m->n_blocks; i++) {
        moments_block *b = &m->blocks[i];
        b->columns = moments_block_columns(m->shape, i);
        b->triangle = zeros(feedback_triangle(feedback_strips(b->columns)));
        if (m->shape.two_streams) b->square = zeros(square_floats(b->columns));
        if (!b->triangle || (m->shape.two_streams && !b->square)) return false;
    }
    return m->blocks != NULL;
}

moments *moments_new(const kernels *k, moments_shape shape, threads_pool *pool, gq_error *e) {
    if (shape.width >= shape.columns) shape.width = shape.columns;
    moments *m = countable(shape) ? calloc(1, sizeof *m) : NULL;
    if (!m) return gq_fail_memory(e, moments_bytes(shape)), NULL;
    m->kernels = k->matmul, m->shape = shape, m->pool = pool;
    m->y = zeros(waiting_floats(shape)), m->panels = zeros(waiting_floats(shape));
    if (shape.two_streams) m->differences = zeros(waiting_floats(shape));
    if (m->y && m->panels && (m->differences || !shape.two_streams) && make_blocks(m)) return m;
    moments_free(m);
    return gq_fail_memory(e, moments_bytes(shape)), NULL;
}

void moments_free(moments *m) {
    if (!m) return;
    for (size_t i = 0; m->blocks && i < m->n_blocks; i++)
        free(m->blocks[i].triangle), free(m->blocks[i].square);
    free(m->blocks), free(m->y), free(m->panels), free(m->differences);
    free(m);
}

void moments_set(moments *m, const float *mean) {
    for (size_t i = 0, first = 0; i < m->n_blocks; first += m->blocks[i++].columns) {
        const moments_block *b = &m->blocks[i];
        for (size_t row = 0; row < b->columns; row++)
            for (size_t strip = row / FEEDBACK_STRIP; strip < feedback_strips(b->columns); strip++) {
                size_t from = strip * FEEDBACK_STRIP, n = b->columns - from;
                memcpy(b->triangle + feedback_triangle(strip) + row * FEEDBACK_STRIP,
                       mean + (first + row) * m->shape.columns + first + from,
                       sizeof *mean * (n < FEEDBACK_STRIP ? n : FEEDBACK_STRIP));
            }
    }
    m->tokens = 1;
}

void moments_mean_squares(moments *m, float *columns) {
    moments_settle(m);
    for (size_t i = 0; i < m->n_blocks; i++, columns += m->shape.width)
        for (size_t c = 0; c < m->blocks[i].columns; c++) {
            size_t strip = c / FEEDBACK_STRIP;
            const float *row = m->blocks[i].triangle + feedback_triangle(strip) + c * FEEDBACK_STRIP;
            columns[c] = m->tokens ? (float)((double)row[c % FEEDBACK_STRIP] / (double)m->tokens) : 0;
        }
}

/* ---- products ---- */
/* To a tile of sums: y of a strip's columns, from `row` on, times panels of others, from `column` on, over
 * all tokens that wait. */
static void add_tile(const moments *m, size_t row, const float *panels, size_t column, float *sums) {
    size_t panel = m->kernels->panel;
    for (size_t i = 0; i < FEEDBACK_STRIP; i += panel)
        m->kernels->multiply(&(matmul_tile){.w = m->y + row * MOMENTS_TOKENS,
                                            .row_step = MOMENTS_TOKENS,
                                            .column_step = 1,
                                            .x = panels + (column + i) * MOMENTS_TOKENS,
                                            .y = sums + i,
                                            .y_stride = FEEDBACK_STRIP,
                                            .rows = FEEDBACK_STRIP,
                                            .columns = m->waiting,
                                            .tokens = panel,
                                            .add = true});
}

typedef struct settled_block {
    const moments *m;
    const moments_block *block;
    size_t first; /* of its columns */
} settled_block;

/* A tile of both matrices of a block; the square's are turned. */
static void settle_tile(void *data, size_t unit, int thread) {
    const settled_block *of = data;
    const moments_block *b = of->block;
    const moments *m = of->m;
    size_t strips = feedback_strips(b->columns), strip = unit / strips, row = unit % strips;
    size_t at = of->first + row * FEEDBACK_STRIP, column = of->first + strip * FEEDBACK_STRIP;
    (void)thread;
    if (row <= strip) add_tile(m, at, m->panels, column, b->triangle + feedback_triangle(strip) + row * TILE);
    if (b->square)
        add_tile(m, column, m->differences, at, b->square + feedback_square(b->columns, strip) + row * TILE);
}

void moments_settle(moments *m) {
    if (!m->waiting) return;
    for (size_t i = 0; i < m->n_blocks; i++) {
        settled_block of = {m, &m->blocks[i], i * m->shape.width};
        size_t strips = feedback_strips(of.block->columns);
        threads_for(m->pool, strips * strips, 1, settle_tile, &of);
    }
    m->waiting = 0;
}

/* Tokens that join those that wait. */
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
    size_t packed = c / panel * panel * MOMENTS_TOKENS + c % panel + m->waiting * panel;
    (void)thread;
    memcpy(m->y + c * MOMENTS_TOKENS + m->waiting, from, sizeof(float) * t->tokens);
    for (size_t i = 0; i < t->tokens; i++) m->panels[packed + i * panel] = from[i];
    for (size_t i = 0; m->differences && i < t->tokens; i++)
        m->differences[packed + i * panel] = x ? x[i] - from[i] : 0;
}

void moments_add(moments *m, const float *x, size_t x_stride, const float *y, size_t y_stride,
                 size_t tokens) {
    for (size_t done = 0, n; done < tokens; done += n) {
        n = MOMENTS_TOKENS - m->waiting;
        if (n > tokens - done) n = tokens - done;
        taken t = {m, x ? x + done : NULL, y + done, x_stride, y_stride, n};
        threads_for(m->pool, m->shape.columns, THREADS_EVEN, take_column, &t);
        m->waiting += n, m->tokens += n;
        if (m->waiting == MOMENTS_TOKENS) moments_settle(m);
    }
}
