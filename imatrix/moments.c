/* Adds up second moments, which moments.h defines. Tokens wait in slots of MOMENTS_SLOT, once feature by
 * feature and once packed into panels, the form in which the kernel wants its right-hand side. When there is
 * room for no more, they are settled tile by tile, each tile by one thread. If a group is no longer than
 * MOMENTS_TOKENS all of it waits, and some rows of its sums at a time are formed in a small buffer and added
 * to the total. Short groups, as those of an expert, wait together: the total is read and written once for
 * all of them. A longer group has sums of its own until it ends. Of y y^T the tiles from the diagonal up are
 * kept, of (x - y) y^T all tiles, transposed. factor.c makes the root.
 */
#include <stdlib.h>
#include <string.h>

#include "base/blas.h"
#include "base/checked.h"
#include "base/memory.h"
#include "imatrix/moments_sums.h"

/* The floats of MOMENTS_SLOT tokens of so many features, and of all tokens that may wait. */
static uint64_t slot_floats(size_t features) { return feedback_padded(features) * MOMENTS_SLOT; }
static uint64_t waiting_floats(size_t features) {
    return slot_floats(features) * (MOMENTS_TOKENS / MOMENTS_SLOT);
}

/* Whether groups are longer than what may wait, so that they need sums of their own. */
static bool long_groups(moments_shape s) { return s.group_tokens > MOMENTS_TOKENS; }

static void take_triangle(size_t columns, float **triangle, memory_ledger *l) {
    *triangle = memory_take_zeros(l, feedback_triangle(feedback_strips(columns)), sizeof(float));
}
static void take_square(moments_shape s, size_t columns, float **square, memory_ledger *l) {
    uint64_t rows = feedback_padded(moments_second(s, columns));
    if (rows) *square = memory_take_zeros(l, rows * feedback_padded(columns), sizeof(float));
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
    uint64_t waiting = waiting_floats(m->shape.columns);
    size_t second = moments_second(m->shape, m->shape.columns);
    m->y = memory_take_zeros(l, waiting, sizeof(float));
    m->panels = memory_take_zeros(l, waiting, sizeof(float));
    if (second) m->differences = memory_take_zeros(l, waiting_floats(second), sizeof(float));
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
    if (shape.arithmetic == MATMUL_BF16) m->bf16 = kernels_bf16(k);
    lay_out_moments(m, &l);
    if (memory_had(&l, e)) return moments_share(m, NULL), m;
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
    moments_settle(m);
    for (size_t i = 0; i < m->n_blocks; i++, columns += m->shape.width)
        for (size_t c = 0; c < m->blocks[i].columns; c++) {
            size_t strip = c / PASS_COLUMNS;
            const float *row = m->blocks[i].triangle + feedback_triangle(strip) + c * PASS_COLUMNS;
            columns[c] = m->tokens ? (float)((double)row[c % PASS_COLUMNS] / (double)m->tokens) : 0;
        }
}

uint64_t moments_tokens(const moments *m) { return m->tokens; }

/* ---- products ---- */

/* Waiting tokens in panels, m->panels or m->differences: a strip of their features. */
typedef struct waiting_panels {
    const float *first;
    size_t features, column; /* all that a token has there; the strip's first */
} waiting_panels;

/* Whether a BLAS makes the products. It takes features as they are, as panels of one, and has threads of its
 * own. Those of bf16 are always ours. */
static bool by_blas(const moments *m) {
#ifdef GQ_BLAS
    return !m->bf16;
#else
    return (void)m, false;
#endif
}

static size_t moments_panel(const moments *m) {
    return by_blas(m) ? 1 : m->bf16 ? m->bf16->panel : m->kernels->panel;
}
static threads_pool *moments_pool(const moments *m) { return by_blas(m) ? NULL : m->pool; }

/* The i-th element of waiting tokens. */
static void *waiting_at(const moments *m, const float *first, size_t i) {
    return (char *)first + i * (m->bf16 ? m->bf16->bytes : sizeof(float));
}

/* The element of a place's slot. */
static size_t slot_at(size_t place, size_t features) {
    return place % MOMENTS_TOKENS / MOMENTS_SLOT * slot_floats(features);
}

/* Adds the product of tokens that are side by side in a slot. */
static void sum_piece(const moments *m, size_t row, size_t rows, waiting_panels x, moments_group of,
                      float *sums, bool add) {
    size_t token = of.begin % MOMENTS_SLOT, tokens = of.end - of.begin;
    const void *y = waiting_at(m, m->y, slot_at(of.begin, m->shape.columns) + row * MOMENTS_SLOT + token),
               *panels = waiting_at(m, x.first,
                                    slot_at(of.begin, x.features) + x.column * MOMENTS_SLOT +
                                        token * moments_panel(m));
#ifdef GQ_BLAS
    if (by_blas(m)) {
        blas_multiply(&(blas_product){.a = y,
                                      .a_step = MOMENTS_SLOT,
                                      .b = panels,
                                      .b_step = MOMENTS_SLOT,
                                      .b_turned = true,
                                      .y = sums,
                                      .y_step = PASS_COLUMNS,
                                      .rows = rows,
                                      .columns = PASS_COLUMNS,
                                      .inner = tokens,
                                      .factor = 1,
                                      .add = add});
        return;
    }
#endif
    matmul_multiply_tile(m->kernels, m->bf16,
                         &(matmul_bf16_tile){.w = y,
                                             .row_step = MOMENTS_SLOT,
                                             .x = panels,
                                             .x_step = moments_panel(m) * MOMENTS_SLOT,
                                             .y = sums,
                                             .y_stride = PASS_COLUMNS,
                                             .rows = rows,
                                             .columns = tokens,
                                             .tokens = PASS_COLUMNS,
                                             .add = add});
}

/* Computes `rows` rows of a tile: y of the columns from `row` on times a strip of panels, over all tokens of
 * a group that wait. add: in addition to what is there. */
static void sum_rows(const moments *m, size_t row, size_t rows, waiting_panels x, moments_group of,
                     float *sums, bool add) {
    for (moments_group piece = {of.begin, of.begin}; piece.end < of.end; piece.begin = piece.end) {
        piece.end = min(of.end, piece.begin + MOMENTS_SLOT - piece.begin % MOMENTS_SLOT);
        sum_piece(m, row, rows, x, piece, sums, add || piece.begin > of.begin);
    }
}

static void add_floats(float *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] += from[i];
}

/* Rows of a tile. */
typedef struct tile_rows {
    size_t begin, end;
} tile_rows;

/* Adds groups that wait as wholes to the total's tile, one after another: each one's sums are formed from 0,
 * some rows at a time. */
static void add_groups(const moments *m, size_t row, tile_rows of, waiting_panels x, float *total) {
    enum { MOST_ROWS = 48 }; /* a multiple of all kernels' rows but the tiles'; 48 KiB on the stack */
    _Alignas(64) float sums[MOST_ROWS * PASS_COLUMNS];
    size_t step = m->bf16      ? MOST_ROWS / m->bf16->rows * m->bf16->rows
                  : by_blas(m) ? of.end - of.begin
                               : MOST_ROWS;
    for (size_t r = of.begin, n; r < of.end; r += n) {
        n = min(of.end - r, step);
        for (size_t g = 0; g < m->n_groups; g++) {
            float *to = total + r * PASS_COLUMNS;
            if (m->groups[g].begin >= m->groups[g].end) continue;
            sum_rows(m, row + r, n, x, m->groups[g], by_blas(m) ? to : sums, by_blas(m));
            if (!by_blas(m)) add_floats(to, sums, n * PASS_COLUMNS);
        }
    }
}

/* Adds waiting tokens to the group's chain; at the group's end, the chain to the total. */
static void settle_sums(const moments *m, size_t row, tile_rows of, waiting_panels x, float *group,
                        float *total, bool ends) {
    size_t at = of.begin * PASS_COLUMNS, n = of.end - of.begin;
    if (of.begin == of.end) return;
    if (!group) {
        add_groups(m, row, of, x, total);
        return;
    }
    sum_rows(m, row + of.begin, n, x, m->groups[0], group + at, m->begun);
    if (ends) add_floats(total + at, group + at, n * PASS_COLUMNS);
}

/* The rows of the i-th tile that are this rank's. */
static tile_rows rows_of_share(moments_share_of share, size_t tile) {
    uint64_t first = tile * MOMENTS_SLICES, begin = max(share.begin, first),
             end = min(share.end, first + MOMENTS_SLICES);
    if (begin >= end) return (tile_rows){0, 0};
    return (tile_rows){(begin - first) * MOMENTS_SLICE, (end - first) * MOMENTS_SLICE};
}

typedef struct settled_block {
    const moments *m;
    const moments_block *block;
    size_t first; /* first of its columns among all */
    bool ends;    /* the group ends */
} settled_block;

/* Settles a tile of the triangle; with a BLAS the first tile's turn settles the strip, whose tiles are below
 * each other, in one product. */
static void settle_triangle(const settled_block *of, size_t row, size_t strip) {
    const moments_block *b = of->block;
    size_t at = feedback_triangle(strip) + row * TILE;
    tile_rows rows = rows_of_share(b->of_triangle, at / TILE);
    size_t end = feedback_triangle(strip + 1) / TILE * MOMENTS_SLICES;
    if (by_blas(of->m) && b->of_triangle.begin <= feedback_triangle(strip) / TILE * MOMENTS_SLICES &&
        b->of_triangle.end >= end)
        rows.end = row ? rows.begin : (strip + 1) * PASS_COLUMNS;
    settle_sums(of->m, of->first + row * PASS_COLUMNS, rows,
                (waiting_panels){of->m->panels, of->m->shape.columns, of->first + strip * PASS_COLUMNS},
                b->group_triangle ? b->group_triangle + at : NULL, b->triangle + at, of->ends);
}

/* Settles a tile of the square or rectangle, which is transposed. A square has this block's features alone, a
 * rectangle all. */
static void settle_square(const settled_block *of, size_t row, size_t rows, size_t strip) {
    const moments_block *b = of->block;
    const moments_shape *s = &of->m->shape;
    size_t at = (strip * rows + row) * TILE, first = s->lacking ? 0 : of->first;
    settle_sums(
        of->m, of->first + strip * PASS_COLUMNS, rows_of_share(b->of_square, at / TILE),
        (waiting_panels){of->m->differences, moments_second(*s, s->columns), first + row * PASS_COLUMNS},
        b->group_square ? b->group_square + at : NULL, b->square + at, of->ends);
}

/* Strips of features down a block's square or rectangle; 0: it has none. */
static size_t square_strips(const moments *m, const moments_block *b) {
    return feedback_strips(moments_second(m->shape, b->columns));
}

static void settle_tile(void *data, size_t unit, int thread) {
    const settled_block *of = data;
    size_t strips = feedback_strips(of->block->columns), rows = square_strips(of->m, of->block);
    size_t most = strips > rows ? strips : rows; /* not 0: a block has a column at least */
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
    size_t strip = unit / most, row = unit % most;
    (void)thread;
    if (row <= strip) settle_triangle(of, row, strip);
    if (row < rows) settle_square(of, row, rows, strip);
}

/* Adds all groups that wait to the sums. ends: the one at work is whole. */
static void settle_groups(moments *m, bool ends) {
    for (size_t i = 0; i < m->n_blocks; i++) {
        settled_block of = {m, &m->blocks[i], i * m->shape.width, ends};
        size_t strips = feedback_strips(of.block->columns), rows = square_strips(m, of.block);
        threads_for(moments_pool(m), strips * (strips > rows ? strips : rows), 1, settle_tile, &of);
    }
    m->n_groups = 1, m->groups[0] = (moments_group){0, 0}, m->begun = !ends;
}

/* The group at work, after those that have ended where there are any. */
static moments_group *group_at_work(moments *m) { return &m->groups[m->n_groups - 1]; }

/* Settles the groups that have ended, so that the one at work has all the room. */
static void settle_ended(moments *m) {
    moments_group at_work = *group_at_work(m);
    *group_at_work(m) = (moments_group){at_work.end, at_work.end};
    settle_groups(m, true);
    m->groups[0] = at_work;
}

void moments_settle(moments *m) {
    if (m->n_groups > 1 || (m->n_groups && m->groups[0].end > m->groups[0].begin) || m->begun)
        settle_groups(m, true);
}

void moments_end_group(moments *m) {
    if (long_groups(m->shape) || !m->n_groups) {
        moments_settle(m);
        return;
    }
    size_t end = group_at_work(m)->end;
    if (end == group_at_work(m)->begin) return;
    end = round_up(end, MOMENTS_PLACES);
    m->groups[m->n_groups++] = (moments_group){end, end};
}

/* ---- shares ---- */

static uint64_t triangle_slices(const moments_block *b) {
    return feedback_triangle(feedback_strips(b->columns)) / TILE * MOMENTS_SLICES;
}
static uint64_t square_slices(const moments *m, const moments_block *b) {
    return square_strips(m, b) * feedback_strips(b->columns) * MOMENTS_SLICES;
}

static moments_share_of moments_slices_of(const gq_comm *comm, uint64_t slices) {
    int rank = gq_comm_rank(comm);
    return (moments_share_of){comm_share(comm, slices, rank), comm_share(comm, slices, rank + 1)};
}

void moments_share(moments *m, const gq_comm *comm) {
    for (size_t i = 0; i < m->n_blocks; i++) {
        moments_block *b = &m->blocks[i];
        b->of_triangle = moments_slices_of(comm, triangle_slices(b));
        b->of_square = moments_slices_of(comm, square_slices(m, b));
    }
}

static bool gather_slices(float *sums, uint64_t slices, gq_comm *comm, uint64_t *begins, gq_error *e) {
    for (int r = 0; r <= gq_comm_ranks(comm); r++)
        begins[r] = comm_share(comm, slices, r) * MOMENTS_SLICE * PASS_COLUMNS * sizeof *sums;
    return !slices || comm_gather(comm, sums, begins, e);
}

bool moments_gather(moments *m, gq_comm *comm, gq_error *e) {
    size_t ranks = (size_t)gq_comm_ranks(comm);
    if (ranks == 1) return true;
    uint64_t *begins = calloc(ranks + 1, sizeof *begins);
    bool ok = begins || gq_fail_memory(e, (ranks + 1) * sizeof *begins);
    moments_settle(m);
    for (size_t i = 0; ok && i < m->n_blocks; i++) {
        const moments_block *b = &m->blocks[i];
        ok = gather_slices(b->triangle, triangle_slices(b), comm, begins, e) &&
             gather_slices(b->square, square_slices(m, b), comm, begins, e);
    }
    free(begins);
    return ok;
}

/* Tokens that are put with those that wait, from a place on. */
typedef struct taken {
    const moments *m;
    const float *x, *y;
    size_t x_stride, y_stride, place, tokens;
} taken;

/* Puts the tokens' values of feature c, of so many, into the panels of their slot. */
static void put_in_panels(const taken *t, float *panels, size_t features, size_t c, const float *x) {
    const moments *m = t->m;
    size_t panel = moments_panel(m), token = t->place % MOMENTS_SLOT, tokens = t->tokens;
    size_t at = slot_at(t->place, features) + c / panel * panel * MOMENTS_SLOT;
    if (m->bf16) {
        m->bf16->place(x, tokens, token, waiting_at(m, panels, at), c % panel);
        return;
    }
    for (size_t i = 0; i < tokens; i++) panels[at + c % panel + (token + i) * panel] = x[i];
}

static void take_column(void *data, size_t c, int thread) {
    const taken *t = data;
    const moments *m = t->m;
    const float *from = t->y + c * t->y_stride, *x = t->x ? t->x + c * t->x_stride : NULL;
    size_t token = t->place % MOMENTS_SLOT;
    float *row = waiting_at(m, m->y, slot_at(t->place, m->shape.columns) + c * MOMENTS_SLOT),
          differences[MOMENTS_SLOT];
    (void)thread;
    if (m->bf16)
        m->bf16->round(from, t->tokens, token, row);
    else
        memcpy(row + token, from, sizeof(float) * t->tokens);
    put_in_panels(t, m->panels, m->shape.columns, c, from);
    if (!m->shape.two_streams) return;
    for (size_t i = 0; i < t->tokens; i++) differences[i] = x ? x[i] - from[i] : 0;
    put_in_panels(t, m->differences, m->shape.columns, c, differences);
}

static void take_lacking(void *data, size_t c, int thread) {
    const taken *t = data;
    const moments *m = t->m;
    (void)thread;
    put_in_panels(t, m->differences, m->shape.lacking, c, t->x + c * t->x_stride);
}

void moments_add(moments *m, const float *x, size_t x_stride, const float *y, size_t y_stride,
                 size_t tokens) {
    if (!m->n_groups) m->n_groups = 1;
    for (size_t done = 0, n; done < tokens; done += n) {
        size_t place = group_at_work(m)->end;
        n = min(tokens - done, MOMENTS_SLOT - place % MOMENTS_SLOT);
        if (m->n_groups > 1 && place + n > m->groups[0].begin + MOMENTS_TOKENS) settle_ended(m);
        n = min(n, m->groups[0].begin + MOMENTS_TOKENS - place);
        taken t = {m, x ? x + done : NULL, y + done, x_stride, y_stride, place, n};
        threads_for(m->pool, m->shape.columns, THREADS_EVEN, take_column, &t);
        if (m->shape.lacking) threads_for(m->pool, m->shape.lacking, THREADS_EVEN, take_lacking, &t);
        moments_group *at_work = group_at_work(m);
        at_work->end += n, m->tokens += n;
        if (at_work->end == at_work->begin + MOMENTS_TOKENS) settle_groups(m, !long_groups(m->shape));
    }
}
