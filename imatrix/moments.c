#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "imatrix/moments_sums.h"

/* Of a square matrix of so many columns. */
static uint64_t square_floats(size_t columns) {
    uint64_t n = feedback_padded(columns);
    return n * n;
}

static uint64_t waiting_bytes(moments_shape s) {
    return sizeof(float) * (uint64_t)MOMENTS_TOKENS * feedback_padded(s.columns) * (s.two_streams ? 3 : 2);
}

/* Columns beyond this are no tensor's, and nothing below overflows. */
static bool countable(moments_shape s) { return s.columns <= 1 << 28; }

uint64_t moments_bytes(moments_shape s, int threads) {
    if (!countable(s)) return UINT64_MAX;
    uint64_t bytes = waiting_bytes(s) + sizeof(float) * TILE * (uint64_t)threads;
    for (size_t i = 0; i < moments_blocks(s); i++) {
        size_t columns = moments_block_columns(s, i);
        bytes += sizeof(double) * feedback_triangle(feedback_strips(columns));
        if (s.two_streams) bytes += sizeof(double) * square_floats(columns);
    }
    return bytes;
}

static void *zeros(size_t n, size_t size) {
    size_t bytes = (n * size + 63) / 64 * 64;
    void *p = aligned_alloc(64, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

static bool make_blocks(moments *m) {
    m->n_blocks = moments_blocks(m->shape);
    m->blocks = calloc(m->n_blocks, sizeof *m->blocks);
    for (size_t i = 0; m->blocks && i < m->n_blocks; i++) {
        moments_block *b = &m->blocks[i];
        b->columns = moments_block_columns(m->shape, i);
        b->triangle = zeros(feedback_triangle(feedback_strips(b->columns)), sizeof(double));
        if (m->shape.two_streams) b->square = zeros(square_floats(b->columns), sizeof(double));
        if (!b->triangle || (m->shape.two_streams && !b->square)) return false;
    }
    return m->blocks != NULL;
}

moments *moments_new(const kernels *k, moments_shape shape, int threads, gq_error *e) {
    size_t n = feedback_padded(shape.columns) * MOMENTS_TOKENS;
    if (shape.width >= shape.columns) shape.width = shape.columns;
    moments *m = countable(shape) ? calloc(1, sizeof *m) : NULL;
    if (!m) return gq_fail_memory(e, moments_bytes(shape, threads)), NULL;
    m->kernels = k->matmul, m->shape = shape, m->threads = threads;
    m->y = zeros(n, sizeof(float)), m->panels = zeros(n, sizeof(float));
    if (shape.two_streams) m->difference = zeros(n, sizeof(float));
    m->tiles = zeros((size_t)TILE * (size_t)threads, sizeof(float));
    if (m->y && m->panels && m->tiles && (m->difference || !shape.two_streams) && make_blocks(m)) return m;
    moments_free(m);
    return gq_fail_memory(e, moments_bytes(shape, threads)), NULL;
}

void moments_free(moments *m) {
    if (!m) return;
    for (size_t i = 0; m->blocks && i < m->n_blocks; i++)
        free(m->blocks[i].triangle), free(m->blocks[i].square);
    free(m->blocks), free(m->y), free(m->difference), free(m->panels), free(m->tiles);
    free(m);
}

uint64_t moments_tokens(const moments *m) { return m->tokens; }

/* ---- products ---- */
/* STRIP rows of `rows` times those of a strip of y from column `first` on, over all that wait. */
static void add_tile(const moments *m, const float *rows, size_t first, float *tile, double *sums) {
    size_t panel = m->kernels->panel;
    for (size_t i = 0; i < FEEDBACK_STRIP; i += panel)
        m->kernels->multiply(&(matmul_tile){.w = rows,
                                            .row_step = MOMENTS_TOKENS,
                                            .column_step = 1,
                                            .x = m->panels + (first + i) * MOMENTS_TOKENS,
                                            .y = tile + i,
                                            .y_stride = FEEDBACK_STRIP,
                                            .rows = FEEDBACK_STRIP,
                                            .columns = m->waiting,
                                            .tokens = panel});
    for (size_t i = 0; i < TILE; i++) sums[i] += (double)tile[i];
}

/* A row of tiles of a block, of both matrices: the triangle's is short where the square's is not needed. */
static void settle_block(moments *m, moments_block *b, size_t first) {
    size_t strips = feedback_strips(b->columns);
#pragma omp parallel for schedule(dynamic, 1) num_threads(m->threads)
    for (size_t unit = 0; unit < strips * strips; unit++) {
        size_t strip = unit / strips, row = unit % strips,
               at = (first + row * FEEDBACK_STRIP) * MOMENTS_TOKENS;
        float *tile = m->tiles + (size_t)omp_get_thread_num() * TILE;
        size_t column = first + strip * FEEDBACK_STRIP;
        if (row <= strip)
            add_tile(m, m->y + at, column, tile, b->triangle + feedback_triangle(strip) + row * TILE);
        if (b->square)
            add_tile(m, m->difference + at, column, tile,
                     b->square + feedback_square(b->columns, strip) + row * TILE);
    }
}

void moments_settle(moments *m) {
    if (!m->waiting) return;
    for (size_t i = 0; i < m->n_blocks; i++) settle_block(m, &m->blocks[i], i * m->shape.width);
    m->waiting = 0;
}

/* Tokens join those that wait. */
static void take(moments *m, const float *x, size_t x_stride, const float *y, size_t y_stride,
                 size_t tokens) {
    size_t panel = m->kernels->panel;
#pragma omp parallel for num_threads(m->threads)
    for (size_t c = 0; c < m->shape.columns; c++) {
        size_t to = c * MOMENTS_TOKENS + m->waiting;
        float *packed = m->panels + c / panel * panel * MOMENTS_TOKENS + c % panel + m->waiting * panel;
        memcpy(m->y + to, y + c * y_stride, sizeof(float) * tokens);
        for (size_t t = 0; t < tokens; t++) packed[t * panel] = y[c * y_stride + t];
        for (size_t t = 0; m->difference && t < tokens; t++)
            m->difference[to + t] = x ? x[c * x_stride + t] - y[c * y_stride + t] : 0;
    }
    m->waiting += tokens, m->tokens += tokens;
}

void moments_add(moments *m, const float *x, size_t x_stride, const float *y, size_t y_stride,
                 size_t tokens) {
    for (size_t done = 0, n; done < tokens; done += n) {
        n = MOMENTS_TOKENS - m->waiting;
        if (n > tokens - done) n = tokens - done;
        take(m, x ? x + done : NULL, x_stride, y + done, y_stride, n);
        if (m->waiting == MOMENTS_TOKENS) moments_settle(m);
    }
}
