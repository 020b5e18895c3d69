/* Adds up Hessians, which hessian.c defines. Tokens wait in slots of HESSIAN_SLOT, once feature by
 * feature and once packed into panels, the form in which kernels want their right-hand side. When there is room
 * for no more, they are settled by products of matrices (forward/products/product.h). If a group is no longer than
 * HESSIAN_TOKENS all of it waits, and its sums are formed apart and added to the total. Short groups, as those
 * of an expert, wait together: the total is read and written once for all of them. A longer group has sums of
 * its own until it ends. Of y y^T the tiles from the diagonal up are kept, of (x - y) y^T all tiles,
 * transposed. cholesky.c computes the Cholesky factor.
 */
#include <stdlib.h>
#include <string.h>

#include "forward/products/product.h"
#include "study/inputs/inputs.h"

/* The floats of HESSIAN_SLOT tokens of so many features, and of all tokens that may wait. */
static uint64_t slot_floats(size_t features) { return feedback_padded(features) * HESSIAN_SLOT; }
static uint64_t waiting_floats(size_t features) {
    return slot_floats(features) * (HESSIAN_TOKENS / HESSIAN_SLOT);
}

/* Whether groups are longer than what may wait, so that they need sums of their own. */
static bool long_groups(hessian_shape s) { return s.group_tokens > HESSIAN_TOKENS; }

static void take_triangle(size_t columns, float **triangle, memory_ledger *l) {
    *triangle = memory_take_zeros(l, feedback_triangle(feedback_strips(columns)), sizeof(float));
}
static void take_square(hessian_shape s, size_t columns, float **square, memory_ledger *l) {
    uint64_t rows = feedback_padded(hessian_second(s, columns));
    if (rows) *square = memory_take_zeros(l, rows * feedback_padded(columns), sizeof(float));
}

/* Returns the i-th block; while counting, when there are none, the one given. */
static hessian_block *block_at(hessian *m, size_t i, hessian_block *counted) {
    return m->blocks ? &m->blocks[i] : counted;
}

void hessian_lay_out_blocks(hessian *m, memory_ledger *l) {
    m->n_blocks = hessian_blocks(m->shape);
    m->blocks = memory_take_zeros(l, m->n_blocks, sizeof *m->blocks);
    for (size_t i = 0; i < m->n_blocks; i++) {
        hessian_block counted = {.columns = 0}, *b = block_at(m, i, &counted);
        b->columns = hessian_block_columns(m->shape, i);
        take_triangle(b->columns, &b->triangle, l);
    }
}

void hessian_lay_out_differences(hessian *m, memory_ledger *l) {
    for (size_t i = 0; i < hessian_blocks(m->shape); i++) {
        hessian_block counted = {.columns = 0}, *b = block_at(m, i, &counted);
        take_square(m->shape, hessian_block_columns(m->shape, i), &b->square, l);
    }
}

/* Takes what only the group at work needs. */
static void lay_out_group(hessian *m, memory_ledger *l) {
    uint64_t waiting = waiting_floats(m->shape.columns);
    size_t second = hessian_second(m->shape, m->shape.columns);
    m->y = memory_take_zeros(l, waiting, sizeof(float));
    m->panels = memory_take_zeros(l, waiting, sizeof(float));
    if (second) m->differences = memory_take_zeros(l, waiting_floats(second), sizeof(float));
    for (size_t i = 0; long_groups(m->shape) && i < m->n_blocks; i++) {
        hessian_block counted = {.columns = 0}, *b = block_at(m, i, &counted);
        take_triangle(hessian_block_columns(m->shape, i), &b->group_triangle, l);
        take_square(m->shape, hessian_block_columns(m->shape, i), &b->group_square, l);
    }
}

static void lay_out_hessian(hessian *m, memory_ledger *l) {
    hessian_lay_out_blocks(m, l), hessian_lay_out_differences(m, l), lay_out_group(m, l);
}

uint64_t hessian_bytes(hessian_shape s) {
    memory_ledger l = {.counts = true};
    if (!hessian_countable(s)) return UINT64_MAX;
    hessian counted = {.shape = s};
    lay_out_hessian(&counted, &l);
    return l.bytes;
}

hessian *hessian_new(const kernels *k, hessian_shape shape, threads_pool *pool, gq_error *e) {
    memory_ledger l = {.failed = false};
    if (shape.width >= shape.columns) shape.width = shape.columns;
    hessian *m = hessian_countable(shape) ? calloc(1, sizeof *m) : NULL;
    if (!m) return gq_fail_memory(e, hessian_bytes(shape)), NULL;
    m->level = k, m->by = product_kernels_for(k, shape.arithmetic), m->shape = shape, m->pool = pool;
    lay_out_hessian(m, &l);
    if (memory_had(&l, e)) return hessian_share(m, NULL), m;
    hessian_free(m);
    return NULL;
}

void hessian_drop_group(hessian *m) {
    for (size_t i = 0; m->blocks && i < m->n_blocks; i++) {
        hessian_block *b = &m->blocks[i];
        free(b->group_triangle), free(b->group_square);
        b->group_triangle = b->group_square = NULL;
    }
    free(m->y), free(m->panels), free(m->differences);
    m->y = m->panels = m->differences = NULL;
}

void hessian_free(hessian *m) {
    if (!m) return;
    hessian_drop_group(m);
    for (size_t i = 0; m->blocks && i < m->n_blocks; i++)
        free(m->blocks[i].triangle), free(m->blocks[i].square);
    free(m->blocks);
    free(m);
}

void hessian_set(hessian *m, const float *mean) {
    for (size_t i = 0, first = 0; i < m->n_blocks; first += m->blocks[i++].columns) {
        const hessian_block *b = &m->blocks[i];
        for (size_t row = 0; row < b->columns; row++)
            for (size_t strip = row / STRIP_COLUMNS; strip < feedback_strips(b->columns); strip++) {
                size_t from = strip * STRIP_COLUMNS, n = b->columns - from;
                memcpy(b->triangle + feedback_triangle(strip) + row * STRIP_COLUMNS,
                       mean + (first + row) * m->shape.columns + first + from,
                       sizeof *mean * (n < STRIP_COLUMNS ? n : STRIP_COLUMNS));
            }
    }
    m->tokens = 1;
}

void hessian_mean_squares(hessian *m, float *columns) {
    hessian_settle(m);
    for (size_t i = 0; i < m->n_blocks; i++, columns += m->shape.width)
        for (size_t c = 0; c < m->blocks[i].columns; c++) {
            size_t strip = c / STRIP_COLUMNS;
            const float *row = m->blocks[i].triangle + feedback_triangle(strip) + c * STRIP_COLUMNS;
            columns[c] = m->tokens ? (float)((double)row[c % STRIP_COLUMNS] / (double)m->tokens) : 0;
        }
}

uint64_t hessian_tokens(const hessian *m) { return m->tokens; }

/* ---- products ---- */

/* The i-th element of waiting tokens. */
static void *waiting_at(const hessian *m, const float *first, size_t i) {
    return (char *)first + i * m->by->bytes;
}

/* The element of a place's slot. */
static size_t slot_at(size_t place, size_t features) {
    return place % HESSIAN_TOKENS / HESSIAN_SLOT * slot_floats(features);
}

enum { HESSIAN_PIECES = HESSIAN_GROUPS + HESSIAN_TOKENS / HESSIAN_SLOT };

/* Rows of a strip's tiles. */
typedef struct strip_rows {
    size_t begin, end;
} strip_rows;

/* This rank's rows of n tiles, which lie one after another from the given one on. */
static strip_rows rows_of_share(hessian_share_of share, size_t tile, size_t n) {
    uint64_t first = tile * HESSIAN_SLICES, begin = max(share.begin, first),
             end = min(share.end, first + n * HESSIAN_SLICES);
    if (begin >= end) return (strip_rows){0, 0};
    return (strip_rows){(begin - first) * HESSIAN_SLICE, (end - first) * HESSIAN_SLICE};
}

/* The buffered tokens, and the part of a block's sums that they are added to: the triangle, or the square. */
typedef struct settling {
    const hessian *m;
    bool is_square;
    float *sums, *group;        /* of the block; group NULL: it has none */
    hessian_share_of share;     /* of this rank */
    size_t first, strips, rows; /* first of its columns among all; strips of these, and down the square */
    product_piece pieces[HESSIAN_PIECES];
    size_t n_pieces;
} settling;

/* Lists the tokens of all groups that wait, those side by side in a slot as one piece. features: of x. */
static void hessian_list_pieces(settling *s, size_t features) {
    const hessian *m = s->m;
    for (size_t g = 0; g < m->n_groups; g++)
        for (size_t at = m->groups[g].begin, end; at < m->groups[g].end; at = end) {
            size_t token = at % HESSIAN_SLOT;
            end = min(m->groups[g].end, at + HESSIAN_SLOT - token);
            s->pieces[s->n_pieces++] = (product_piece){slot_at(at, m->shape.columns) + token,
                                                       slot_at(at, features) + token * m->by->panel, end - at,
                                                       at == m->groups[g].begin};
        }
}

/* The sums from float `at` on: tokens of the waiting columns from `row` on times a strip of x from feature
 * `column` on. */
static matrix_product settle_sums(const settling *s, size_t row, strip_rows of, size_t column, size_t at) {
    const hessian *m = s->m;
    return (matrix_product){
        .w = waiting_at(m, m->y, (s->first + row + of.begin) * HESSIAN_SLOT),
        .x = waiting_at(m, s->is_square ? m->differences : m->panels, column * HESSIAN_SLOT),
        .row_stride = HESSIAN_SLOT,
        .x_panel_stride = m->by->panel * HESSIAN_SLOT,
        .y = (s->group ? s->group : s->sums) + at + of.begin * STRIP_COLUMNS,
        .y_stride = STRIP_COLUMNS,
        .rows = of.end - of.begin,
        .tokens = STRIP_COLUMNS,
        .pieces = s->pieces,
        .n_pieces = s->n_pieces,
        .add = s->group && m->begun,
        .apart = !s->group};
}

static matrix_product settle_strip(const void *data, size_t strip) {
    const settling *s = data;
    size_t at = feedback_triangle(strip);
    return settle_sums(s, 0, rows_of_share(s->share, at / HESSIAN_TILE, strip + 1),
                       s->first + strip * STRIP_COLUMNS, at);
}

/* A tile of the square or rectangle, which is transposed. A square has this block's features alone, a
 * rectangle all. */
static matrix_product settle_tile(const void *data, size_t tile) {
    const settling *s = data;
    size_t first = s->m->shape.residual_features ? 0 : s->first;
    return settle_sums(s, tile / s->rows * STRIP_COLUMNS, rows_of_share(s->share, tile, 1),
                       first + tile % s->rows * STRIP_COLUMNS, tile * HESSIAN_TILE);
}

/* Adds a part of a long group's sums to the total. */
static void add_group(void *data, size_t i, int thread) {
    const settling *s = data;
    matrix_product p = (s->is_square ? settle_tile : settle_strip)(s, i);
    float *to = s->sums + (p.y - s->group);
    (void)thread;
    for (size_t k = 0; k < p.rows * STRIP_COLUMNS; k++) to[k] += p.y[k];
}

static void settle_block_sums(settling *s, bool ends) {
    threads_pool *pool = s->m->pool;
    size_t n = s->is_square ? s->strips * s->rows : s->strips;
    matrix_product_at *at = s->is_square ? settle_tile : settle_strip;
    products_run(pool, s->m->by, n, s->is_square ? STRIP_COLUMNS : n * STRIP_COLUMNS, at, s);
    if (s->group && ends) threads_for(pool, n, 1, add_group, s);
}

/* Strips of features down a block's square or rectangle; 0: it has none. */
static size_t square_strips(const hessian *m, const hessian_block *b) {
    return feedback_strips(hessian_second(m->shape, b->columns));
}

/* Adds all groups that wait to the sums; those of a long group to its own, which at its end join the total.
 * ends: the one at work is whole. */
static void settle_groups(hessian *m, bool ends) {
    for (int square = 0; square < 2; square++) {
        settling s = {.m = m, .is_square = square};
        hessian_list_pieces(&s, square ? hessian_second(m->shape, m->shape.columns) : m->shape.columns);
        for (size_t i = 0; i < m->n_blocks; i++) {
            const hessian_block *b = &m->blocks[i];
            s.first = i * m->shape.width, s.strips = feedback_strips(b->columns),
            s.rows = square_strips(m, b);
            s.sums = square ? b->square : b->triangle;
            s.group = square ? b->group_square : b->group_triangle;
            s.share = square ? b->of_square : b->of_triangle;
            settle_block_sums(&s, ends);
        }
    }
    m->n_groups = 1, m->groups[0] = (hessian_group){0, 0}, m->begun = !ends;
}

/* The group at work, after those that have ended where there are any. */
static hessian_group *group_at_work(hessian *m) { return &m->groups[m->n_groups - 1]; }

/* Settles the groups that have ended, so that the one at work has all the room. */
static void settle_ended(hessian *m) {
    hessian_group at_work = *group_at_work(m);
    *group_at_work(m) = (hessian_group){at_work.end, at_work.end};
    settle_groups(m, true);
    m->groups[0] = at_work;
}

void hessian_settle(hessian *m) {
    if (m->n_groups > 1 || (m->n_groups && m->groups[0].end > m->groups[0].begin) || m->begun)
        settle_groups(m, true);
}

void hessian_end_group(hessian *m) {
    if (long_groups(m->shape) || !m->n_groups) {
        hessian_settle(m);
        return;
    }
    size_t end = group_at_work(m)->end;
    if (end == group_at_work(m)->begin) return;
    end = round_up(end, HESSIAN_PLACES);
    m->groups[m->n_groups++] = (hessian_group){end, end};
}

/* ---- shares ---- */

static uint64_t triangle_slices(const hessian_block *b) {
    return feedback_triangle(feedback_strips(b->columns)) / HESSIAN_TILE * HESSIAN_SLICES;
}
static uint64_t square_slices(const hessian *m, const hessian_block *b) {
    return square_strips(m, b) * feedback_strips(b->columns) * HESSIAN_SLICES;
}

static hessian_share_of hessian_slices_of(const gq_comm *comm, uint64_t slices) {
    int rank = gq_comm_rank(comm);
    return (hessian_share_of){comm_share(comm, slices, rank), comm_share(comm, slices, rank + 1)};
}

void hessian_share(hessian *m, const gq_comm *comm) {
    for (size_t i = 0; i < m->n_blocks; i++) {
        hessian_block *b = &m->blocks[i];
        b->of_triangle = hessian_slices_of(comm, triangle_slices(b));
        b->of_square = hessian_slices_of(comm, square_slices(m, b));
    }
}

static bool gather_slices(float *sums, uint64_t slices, gq_comm *comm, uint64_t *begins, gq_error *e) {
    for (int r = 0; r <= gq_comm_ranks(comm); r++)
        begins[r] = comm_share(comm, slices, r) * HESSIAN_SLICE * STRIP_COLUMNS * sizeof *sums;
    return !slices || comm_gather(comm, sums, begins, e);
}

bool hessian_gather(hessian *m, gq_comm *comm, gq_error *e) {
    size_t ranks = (size_t)gq_comm_ranks(comm);
    if (ranks == 1) return true;
    uint64_t *begins = calloc(ranks + 1, sizeof *begins);
    bool ok = begins || gq_fail_memory(e, (ranks + 1) * sizeof *begins);
    hessian_settle(m);
    for (size_t i = 0; ok && i < m->n_blocks; i++) {
        const hessian_block *b = &m->blocks[i];
        ok = gather_slices(b->triangle, triangle_slices(b), comm, begins, e) &&
             gather_slices(b->square, square_slices(m, b), comm, begins, e);
    }
    free(begins);
    return ok;
}

/* Tokens that are put with those that wait, from a place on. */
typedef struct taken {
    const hessian *m;
    const float *x, *y;
    size_t x_stride, y_stride, place, tokens;
} taken;

/* Puts the tokens' values of feature c, of so many, into the panels of their slot. */
static void put_in_panels(const taken *t, float *panels, size_t features, size_t c, const float *x) {
    const product_kernels *by = t->m->by;
    size_t at = slot_at(t->place, features) + c / by->panel * by->panel * HESSIAN_SLOT;
    by->place(x, t->tokens, t->place % HESSIAN_SLOT, waiting_at(t->m, panels, at), c % by->panel);
}

static void take_column(void *data, size_t c, int thread) {
    const taken *t = data;
    const hessian *m = t->m;
    const float *from = t->y + c * t->y_stride, *x = t->x ? t->x + c * t->x_stride : NULL;
    float differences[HESSIAN_SLOT];
    (void)thread;
    m->by->round(from, t->tokens, t->place % HESSIAN_SLOT,
                 waiting_at(m, m->y, slot_at(t->place, m->shape.columns) + c * HESSIAN_SLOT));
    put_in_panels(t, m->panels, m->shape.columns, c, from);
    if (!m->shape.two_streams) return;
    for (size_t i = 0; i < t->tokens; i++) differences[i] = x ? x[i] - from[i] : 0;
    put_in_panels(t, m->differences, m->shape.columns, c, differences);
}

static void take_residual(void *data, size_t c, int thread) {
    const taken *t = data;
    const hessian *m = t->m;
    (void)thread;
    put_in_panels(t, m->differences, m->shape.residual_features, c, t->x + c * t->x_stride);
}

void hessian_add(hessian *m, const float *x, size_t x_stride, const float *y, size_t y_stride,
                 size_t tokens) {
    if (!m->n_groups) m->n_groups = 1;
    for (size_t done = 0, n; done < tokens; done += n) {
        size_t place = group_at_work(m)->end;
        n = min(tokens - done, HESSIAN_SLOT - place % HESSIAN_SLOT);
        if (m->n_groups > 1 && place + n > m->groups[0].begin + HESSIAN_TOKENS) settle_ended(m);
        n = min(n, m->groups[0].begin + HESSIAN_TOKENS - place);
        taken t = {m, x ? x + done : NULL, y + done, x_stride, y_stride, place, n};
        threads_for(m->pool, m->shape.columns, THREADS_EVEN, take_column, &t);
        if (m->shape.residual_features)
            threads_for(m->pool, m->shape.residual_features, THREADS_EVEN, take_residual, &t);
        hessian_group *at_work = group_at_work(m);
        at_work->end += n, m->tokens += n;
        if (at_work->end == at_work->begin + HESSIAN_TOKENS) settle_groups(m, !long_groups(m->shape));
    }
}
