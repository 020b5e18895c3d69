/* Computes the Cholesky factor of a Hessian: H = R R^T, R upper triangular. Strips of columns are taken from the last
 * one on. A strip first loses what later strips explain of it, then the same is done within it, band by band: a band
 * loses what later bands explain, its small square gets a root in double, and the rows above are multiplied with the
 * inverse of that root. All but these small roots are products of matrices, which the kernels do fast and threads
 * share by rows. Before this H is divided by the tokens, shrunk towards its diagonal and damped. Where it has no
 * Cholesky factor, ten times the damping is tried, up to 1.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/products/product.h"
#include "study/inputs/inputs.h"

enum {
    BAND = MATMUL_MOST_PANEL, /* columns of a band */
    BANDS = STRIP_COLUMNS / BAND,
    UNIT = STRIP_COLUMNS / 2, /* rows that a thread takes at a time */
};

typedef struct work {
    const product_kernels *floats, *across; /* within a strip; over all that are later */
    threads_pool *pool;
    size_t strips;
    float *root;
    float *later;          /* a strip's tiles in later strips, transposed and negated, in panels */
    product_piece *pieces; /* one for each of these */
    float bands[BANDS][STRIP_COLUMNS *
                       BAND]; /* the same within the strip's own tile: a band's rows in later bands */
    float inverses[BANDS][BAND * BAND]; /* inverses of the bands' own roots, transposed, in panels */
} work;

static float *tile_at(const work *w, size_t row, size_t strip) {
    return w->root + feedback_triangle(strip) + row * HESSIAN_TILE;
}

/* Packs a matrix, its rows STRIP_COLUMNS floats apart, times `sign` into panels in which its rows are columns.
 */
static void pack_transposed(size_t panel, const float *from, size_t rows, size_t columns, float sign,
                            float *packed) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            packed[r / panel * panel * columns + c * panel + r % panel] = sign * from[r * STRIP_COLUMNS + c];
}

/* y = x times a packed matrix of BAND rows and `columns`, or y += with `add`. x and y have n rows. */
static void cholesky_multiply(const work *w, const float *x, size_t x_panel_stride, size_t n,
                              const float *packed, size_t columns, float *y, bool add) {
    size_t panel = w->floats->panel;
    w->floats->multiply(&(product_tile){.w = {x, x_panel_stride, 1},
                                        .x = packed,
                                        .x_panel_stride = panel * columns,
                                        .panel = panel,
                                        .y = y,
                                        .y_stride = STRIP_COLUMNS,
                                        .y_panel_stride = panel,
                                        .rows = n,
                                        .columns = columns,
                                        .tokens = BAND,
                                        .width = panel,
                                        .add = add});
}

/* A strip, whose rows all threads share. */
typedef struct strip_work {
    const work *w;
    size_t strip;
} strip_work;

static void pack_later(void *data, size_t i, int thread) {
    const strip_work *s = data;
    const work *w = s->w;
    (void)thread;
    pack_transposed(w->across->panel, tile_at(w, s->strip, s->strip + 1 + i), STRIP_COLUMNS, STRIP_COLUMNS,
                    -1, w->later + i * HESSIAN_TILE);
    w->pieces[i] =
        (product_piece){feedback_triangle(s->strip + 1 + i), i * HESSIAN_TILE, STRIP_COLUMNS, false};
}

static matrix_product take_off(const void *data, size_t i) {
    const strip_work *s = data;
    const work *w = s->w;
    (void)i;
    return (matrix_product){.w = w->root,
                            .x = w->later,
                            .row_stride = STRIP_COLUMNS,
                            .x_panel_stride = w->across->panel * STRIP_COLUMNS,
                            .y = tile_at(w, 0, s->strip),
                            .y_stride = STRIP_COLUMNS,
                            .rows = (s->strip + 1) * STRIP_COLUMNS,
                            .tokens = STRIP_COLUMNS,
                            .pieces = w->pieces,
                            .n_pieces = w->strips - s->strip - 1,
                            .add = true};
}

/* Subtracts what later strips explain. */
static void take_off_later(strip_work *s) {
    threads_for(s->w->pool, s->w->strips - s->strip - 1, 1, pack_later, s);
    products_run(s->w->pool, s->w->across, 1, (s->strip + 1) * STRIP_COLUMNS, take_off, s);
}

/* Subtracts from n rows of a strip, x being the first, what later bands explain of this band. */
static void band_subtract_later(const work *w, size_t band, float *x, size_t n) {
    size_t end = (band + 1) * BAND;
    if (end < STRIP_COLUMNS)
        cholesky_multiply(w, x + end, STRIP_COLUMNS, n, w->bands[band], STRIP_COLUMNS - end, x + band * BAND,
                          true);
}
static void times_inverse(const work *w, size_t band, float *x, size_t n) {
    float copy[STRIP_COLUMNS * BAND];
    for (size_t r = 0; r < n; r++)
        memcpy(copy + r * BAND, x + r * STRIP_COLUMNS + band * BAND, sizeof(float) * BAND);
    cholesky_multiply(w, copy, BAND, n, w->inverses[band], BAND, x + band * BAND, false);
}

/* Replaces a band's square by its Cholesky factor, and packs the inverse. False: it has no Cholesky factor. */
static bool band_factor(work *w, size_t band, float *square) {
    double a[BAND][BAND], v[BAND][BAND] = {{0}};
    float inverse[BAND * STRIP_COLUMNS];
    for (size_t i = 0; i < BAND; i++)
        for (size_t j = i; j < BAND; j++) a[i][j] = (double)square[i * STRIP_COLUMNS + j];
    for (size_t c = BAND; c-- > 0;) {
        if (!(a[c][c] > 0) || isinf(a[c][c])) return false;
        a[c][c] = sqrt(a[c][c]);
        for (size_t i = 0; i < c; i++) a[i][c] /= a[c][c];
        for (size_t i = 0; i < c; i++)
            for (size_t j = i; j < c; j++) a[i][j] -= a[i][c] * a[j][c];
    }
    for (size_t i = BAND; i-- > 0;) {
        v[i][i] = 1;
        for (size_t k = i + 1; k < BAND; k++)
            for (size_t c = k; c < BAND; c++) v[i][c] -= a[i][k] * v[k][c];
        for (size_t c = i; c < BAND; c++) v[i][c] /= a[i][i];
    }
    for (size_t i = 0; i < BAND; i++)
        for (size_t j = 0; j < BAND; j++) {
            square[i * STRIP_COLUMNS + j] = j >= i ? (float)a[i][j] : 0;
            inverse[i * STRIP_COLUMNS + j] = (float)v[i][j];
        }
    pack_transposed(w->floats->panel, inverse, BAND, BAND, 1, w->inverses[band]);
    return true;
}

/* Factors the strip's tile on the diagonal, which gets zeros below the diagonal. False: it has no Cholesky factor. */
static bool cholesky_own(work *w, float *own) {
    for (size_t i = 1; i < STRIP_COLUMNS; i++) memset(own + i * STRIP_COLUMNS, 0, sizeof(float) * i);
    for (size_t band = BANDS; band-- > 0;) {
        size_t first = band * BAND, end = first + BAND;
        pack_transposed(w->floats->panel, own + first * STRIP_COLUMNS + end, BAND, STRIP_COLUMNS - end, -1,
                        w->bands[band]);
        band_subtract_later(w, band, own, end);
        if (!band_factor(w, band, own + first * STRIP_COLUMNS + first)) return false;
        times_inverse(w, band, own, first);
    }
    return true;
}

static void finish_unit(void *data, size_t unit, int thread) {
    const strip_work *s = data;
    float *rows = tile_at(s->w, 0, s->strip) + unit * UNIT * STRIP_COLUMNS;
    (void)thread;
    for (size_t band = BANDS; band-- > 0;)
        band_subtract_later(s->w, band, rows, UNIT), times_inverse(s->w, band, rows, UNIT);
}

static bool cholesky_strip(work *w, size_t strip) {
    strip_work s = {w, strip};
    take_off_later(&s);
    if (!cholesky_own(w, tile_at(w, strip, strip))) return false;
    threads_for(w->pool, strip * STRIP_COLUMNS / UNIT, 1, finish_unit, &s);
    return true;
}

/* ---- H, damped and shrunk ----
 * Every column is damped by a share of its own square. In large models a few columns are 10 to 300 times larger than
 * others; a share of the mean of all squares would be many times an ordinary column's own, so that these could
 * compensate no errors. A thousandth of what is usual is added for columns that were hardly seen. On model A of
 * bench/results/small-models.md both dampings leave the same KL divergence; with such columns in it, its own leaves 0.65
 * of the other's (bench/results/calibration.md). */
typedef struct prepared {
    const hessian_block *block;
    double per_token, mean_square;
    double usual; /* mean of the squares of columns that were seen, of each at most FACTOR_USUAL medians */
    size_t unseen;
} prepared;
static const double FACTOR_USUAL = 4, FACTOR_FLOOR = 1e-3;

static double hessian_diagonal(const hessian_block *b, size_t c) {
    return (double)b->triangle[feedback_triangle(c / STRIP_COLUMNS) + c * STRIP_COLUMNS + c % STRIP_COLUMNS];
}

static int square_by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* seen: gets the squares of columns that are not zero. */
static void cholesky_find_usual(prepared *p, float *seen) {
    const hessian_block *b = p->block;
    size_t n = 0;
    for (size_t c = 0; c < b->columns; c++)
        if (hessian_diagonal(b, c) > 0) seen[n++] = (float)(hessian_diagonal(b, c) * p->per_token);
    if (!n) return;
    qsort(seen, n, sizeof *seen, square_by_size);
    double most = FACTOR_USUAL * (double)seen[n / 2];
    for (size_t i = 0; i < n; i++) p->usual += (double)seen[i] < most ? (double)seen[i] : most;
    p->usual /= (double)n;
}

static prepared cholesky_prepare_block(const hessian_block *b, uint64_t tokens, float *seen) {
    prepared p = {.block = b, .per_token = 1 / (double)tokens};
    for (size_t c = 0; c < b->columns; c++)
        p.mean_square += hessian_diagonal(b, c), p.unseen += hessian_diagonal(b, c) == 0;
    p.mean_square *= p.per_token / (double)b->columns;
    cholesky_find_usual(&p, seen);
    return p;
}

typedef struct cholesky_filling {
    const work *w;
    const prepared *p;
    double own, added, kept; /* share of a column's square, and what is added besides; share of the sums */
    float *tiles;
} cholesky_filling;

static void fill_strip(void *data, size_t strip, int thread) {
    const cholesky_filling *f = data;
    const work *w = f->w;
    const hessian_block *b = f->p->block;
    size_t from = feedback_triangle(strip), rows = (strip + 1) * STRIP_COLUMNS;
    float *own = tile_at(w, strip, strip), *tile = f->tiles + strip * HESSIAN_TILE;
    (void)thread;
    for (size_t i = 0; i < rows * STRIP_COLUMNS; i++)
        w->root[from + i] = (float)(f->kept * (double)b->triangle[from + i]);
    for (size_t i = 0; i < STRIP_COLUMNS; i++) {
        size_t c = strip * STRIP_COLUMNS + i;
        double square = c < b->columns ? hessian_diagonal(b, c) * f->p->per_token : 0;
        double value = c < b->columns ? square + f->own * square + f->added : 1;
        for (size_t j = 0; j < i; j++) tile[i * STRIP_COLUMNS + j] = tile[j * STRIP_COLUMNS + i];
        own[i * STRIP_COLUMNS + i] = (float)value;
        memcpy(tile + i * STRIP_COLUMNS + i, own + i * STRIP_COLUMNS + i,
               sizeof(float) * (STRIP_COLUMNS - i));
    }
}

/* Puts H into the root's place, and its tiles on the diagonal, both halves of them, into `tiles`. Where no
 * input was ever other than 0, the diagonal is 1 everywhere. */
static void cholesky_fill(const work *w, const prepared *p, hessian_settings s, double damp, float *tiles) {
    cholesky_filling f = {w, p, 0, 1, (1 - (double)s.shrink) * p->per_token, tiles};
    if (p->mean_square > 0 && s.mean_damping) f.added = damp * p->mean_square;
    if (p->mean_square > 0 && !s.mean_damping) f.own = damp, f.added = damp * FACTOR_FLOOR * p->usual;
    threads_for(w->pool, w->strips, 1, fill_strip, &f);
}

/* Returns the damping that is tried next. */
static float larger_damp(float damp) {
    float next = damp > 0 ? damp * 10 : 1e-4f;
    return next < 1 ? next : 1;
}

/* Tiles that are multiplied for strips `first` to the last: each by all later ones, and by its own. */
static double cholesky_tiles(const work *w, size_t first) {
    double sum = 0;
    for (size_t i = first; i < w->strips; i++) sum += (double)(i + 1) * (double)(w->strips - i);
    return sum;
}

/* block: its number, of so many. */
static bool cholesky_block(work *w, const prepared *p, hessian_settings s, size_t block, size_t blocks,
                           float *tiles, float *damp) {
    double all = cholesky_tiles(w, 0);
    while (true) {
        size_t strip = w->strips;
        cholesky_fill(w, p, s, (double)*damp, tiles);
        while (strip > 0 && cholesky_strip(w, strip - 1)) {
            strip--;
            if (s.report) s.report(s.data, ((double)block + cholesky_tiles(w, strip) / all) / (double)blocks);
        }
        if (!strip) return true;
        if (*damp >= 1) return false;
        *damp = larger_damp(*damp);
    }
}

/* ---- all blocks ---- */
static bool take_share(float *to, float asked, const char *what, gq_error *e) {
    if (!(asked <= 1))
        return gq_fail_usage(e, "%s of %g: expected a number from 0 to 1", what, (double)asked);
    if (asked != 0) *to = asked > 0 ? asked : 0;
    return true;
}

bool hessian_settings_take(hessian_settings *s, float damp, float shrink, float gptaq_a, gq_error *e) {
    *s = HESSIAN_DEFAULT;
    return take_share(&s->gptaq_a, gptaq_a, "a weight of the GPTAQ term (correction)", e) &&
           take_share(&s->damp, damp, "a damping", e) && take_share(&s->shrink, shrink, "a shrinkage", e);
}

float hessian_gptaq_a(uint64_t tokens, size_t columns) {
    return (float)((double)tokens / ((double)tokens + 3.0 * (double)columns));
}

static work *lay_out_work(hessian_shape s, memory_ledger *l) {
    size_t strips = feedback_strips(hessian_block_columns(s, 0));
    work *w = memory_take(l, 1, sizeof *w);
    float *later = memory_take(l, strips * HESSIAN_TILE, sizeof(float));
    product_piece *pieces = memory_take(l, strips, sizeof *pieces);
    if (w) w->later = later, w->pieces = pieces;
    return w;
}

/* Takes memory for the runs' matrices. Differences need none: the Hessian's sums become means in place. */
static void lay_out_runs(hessian_shape s, cholesky *f, memory_ledger *l) {
    size_t n = hessian_blocks(s);
    f->runs = memory_take_zeros(l, n, sizeof *f->runs);
    if (f->runs) f->n_runs = n;
    for (size_t i = 0; i < n; i++) {
        feedback_hessian counted = {.columns = 0}, *run = f->runs ? &f->runs[i] : &counted;
        size_t strips = feedback_strips(hessian_block_columns(s, i));
        run->columns = hessian_block_columns(s, i);
        run->cholesky = memory_take(l, feedback_triangle(strips), sizeof(float));
        run->diagonal = memory_take(l, strips * HESSIAN_TILE, sizeof(float));
    }
}

void cholesky_count_memory(hessian_shape s, memory_ledger *l) {
    memory_ledger blocks = {.counts = true}, differences = blocks, made = blocks, runs = blocks;
    hessian m = {.shape = s};
    cholesky f = {.n_runs = 0};
    if (!hessian_countable(s)) {
        memory_hold(l, UINT64_MAX);
        return;
    }
    hessian_lay_out_blocks(&m, &blocks), hessian_lay_out_differences(&m, &differences);
    lay_out_work(s, &made), lay_out_runs(s, &f, &runs);
    memory_release(l, hessian_bytes(s) - blocks.bytes - differences.bytes); /* the group at work */
    memory_hold(l, made.bytes + runs.bytes);
    memory_release(l, made.bytes + blocks.bytes);
}

typedef struct differences {
    float *sums;
    uint64_t tokens;
} differences;

static void divide_tile(void *data, size_t tile, int thread) {
    const differences *d = data;
    (void)thread;
    for (size_t i = tile * HESSIAN_TILE; i < (tile + 1) * HESSIAN_TILE; i++)
        d->sums[i] = (float)((double)d->sums[i] / (double)d->tokens);
}

/* Hands a run the sums of its block's differences, which become means in place. */
static void divide_differences(const hessian *m, hessian_block *b, hessian_settings s,
                               feedback_hessian *run) {
    size_t strips = feedback_strips(b->columns), rows = feedback_strips(hessian_second(m->shape, b->columns));
    float *d = b->square;
    b->square = NULL;
    *(m->shape.residual_features ? &run->gptaq_p : &run->gptaq_d) = d;
    run->gptaq_a = s.gptaq_a < 0 ? hessian_gptaq_a(m->tokens, b->columns) : s.gptaq_a;
    if (d) threads_for(m->pool, strips * rows, THREADS_EVEN, divide_tile, &(differences){d, m->tokens});
}

/* False: a block has no Cholesky factor. */
static bool cholesky_all(hessian *m, work *w, hessian_settings s, cholesky *f) {
    bool found = true;
    for (size_t i = 0; i < m->n_blocks && found; i++) {
        hessian_block *b = &m->blocks[i];
        feedback_hessian *run = &f->runs[i];
        prepared p = cholesky_prepare_block(b, m->tokens, w->later);
        float damp = s.damp;
        f->unseen += p.unseen;
        divide_differences(m, b, s, run);
        w->strips = feedback_strips(b->columns), w->root = (float *)run->cholesky;
        found = cholesky_block(w, &p, s, i, m->n_blocks, (float *)run->diagonal, &damp);
        if (damp > f->damp) f->damp = damp;
        free(b->triangle), b->triangle = NULL;
    }
    return found;
}

bool cholesky_factor(hessian *m, hessian_settings s, cholesky *f, gq_error *e) {
    memory_ledger l = {.failed = false};
    *f = (cholesky){.tokens = m->tokens};
    hessian_settle(m);
    if (!m->tokens) return true;
    hessian_drop_group(m);
    work *w = lay_out_work(m->shape, &l);
    lay_out_runs(m->shape, f, &l);
    bool ok = memory_had(&l, e), found = false;
    if (ok) {
        w->floats = kernels_products(m->level, MATMUL_FLOAT32), w->pool = m->pool;
        w->across = product_kernels_for(m->level, MATMUL_FLOAT32);
        found = cholesky_all(m, w, s, f);
    }
    if (w) free(w->later), free(w->pieces);
    free(w);
    if (!found) {
        cholesky kept = *f;
        cholesky_free(f);
        f->tokens = kept.tokens, f->unseen = kept.unseen, f->damp = kept.damp;
    }
    return ok;
}

static void cholesky_round_strip(void *data, size_t strip, int thread) {
    (void)thread;
    feedback_round_strip(data, strip);
}

void cholesky_round(cholesky *f, matmul_arithmetic arithmetic, threads_pool *pool) {
    for (size_t i = 0; arithmetic == MATMUL_BF16 && i < f->n_runs; i++) {
        threads_for(pool, feedback_strips(f->runs[i].columns), 1, cholesky_round_strip, &f->runs[i]);
        f->runs[i].arithmetic = MATMUL_BF16;
    }
}

void cholesky_free(cholesky *f) {
    for (size_t i = 0; f->runs && i < f->n_runs; i++) {
        free((void *)f->runs[i].cholesky), free((void *)f->runs[i].diagonal);
        free((void *)f->runs[i].gptaq_d), free((void *)f->runs[i].gptaq_p);
    }
    free(f->runs);
    *f = (cholesky){.n_runs = 0};
}

/* ---- weights that are not rounded ---- */

/* Solves for the rows' targets one by one: z R^T = w D from the last column on, then u R = z from the first,
 * and t = w + a u. Each sum is one chain in the order of columns. */
typedef struct refit_span {
    const feedback_hessian *m;
    size_t columns, strips;
    float *w;
    double *z;
    size_t row_floats;    /* from a row to the next */
    const uint64_t *rows; /* their numbers in the matrix, where P is given */
    size_t row_tiles;     /* of all rows of the matrix */
} refit_span;

static const float *root_row(const refit_span *s, size_t row, size_t strip) {
    return s->m->cholesky + feedback_triangle(strip) + row * STRIP_COLUMNS;
}

static size_t strip_end(const refit_span *s, size_t strip) {
    size_t end = (strip + 1) * STRIP_COLUMNS;
    return end < s->columns ? end : s->columns;
}

/* z = p, the row of P: tiles have a column's rows side by side. tiles: of rows, in a strip of columns. */
static void read_p(const refit_span *s, uint64_t row, size_t tiles, double *z) {
    for (size_t c = 0; c < s->columns; c++) {
        size_t tile = c / STRIP_COLUMNS * tiles + row / STRIP_COLUMNS;
        z[c] =
            (double)
                s->m->gptaq_p[tile * HESSIAN_TILE + c % STRIP_COLUMNS * STRIP_COLUMNS + row % STRIP_COLUMNS];
    }
}

/* z = w D; tiles of D are transposed. */
static void multiply_moved(const refit_span *s, const float *w, double *z) {
    for (size_t c = 0; c < s->columns; c++) {
        size_t strip = c / STRIP_COLUMNS;
        const float *d = s->m->gptaq_d + feedback_square(s->m->columns, strip);
        double sum = 0;
        for (size_t k = 0; k < s->columns; k++)
            sum += (double)w[k] * (double)d[k / STRIP_COLUMNS * HESSIAN_TILE +
                                            c % STRIP_COLUMNS * STRIP_COLUMNS + k % STRIP_COLUMNS];
        z[c] = sum;
    }
}

/* z R^T = what z holds. */
static void solve_transposed(const refit_span *s, double *z) {
    for (size_t r = s->columns; r-- > 0;) {
        double sum = 0;
        for (size_t strip = r / STRIP_COLUMNS; strip < s->strips; strip++) {
            size_t from = strip * STRIP_COLUMNS, first = from > r ? from : r + 1;
            const float *root = root_row(s, r, strip);
            for (size_t c = first; c < strip_end(s, strip); c++) sum += z[c] * (double)root[c - from];
        }
        z[r] = (z[r] - sum) / (double)root_row(s, r, r / STRIP_COLUMNS)[r % STRIP_COLUMNS];
    }
}

/* z R = what z holds. */
static void solve_straight(const refit_span *s, double *z) {
    for (size_t r = 0; r < s->columns; r++) {
        z[r] /= (double)root_row(s, r, r / STRIP_COLUMNS)[r % STRIP_COLUMNS];
        for (size_t strip = r / STRIP_COLUMNS; strip < s->strips; strip++) {
            size_t from = strip * STRIP_COLUMNS, first = from > r ? from : r + 1;
            const float *root = root_row(s, r, strip);
            for (size_t c = first; c < strip_end(s, strip); c++) z[c] -= z[r] * (double)root[c - from];
        }
    }
}

static void refit_row(void *data, size_t row, int thread) {
    const refit_span *s = data;
    float *w = s->w + row * s->row_floats;
    double *z = s->z + row * s->row_floats;
    (void)thread;
    if (s->m->gptaq_d)
        multiply_moved(s, w, z);
    else
        read_p(s, s->rows[row], s->row_tiles, z);
    solve_transposed(s, z), solve_straight(s, z);
    for (size_t c = 0; c < s->columns; c++) w[c] += (float)((double)s->m->gptaq_a * z[c]);
}

void refit_rows(const cholesky *f, threads_pool *pool, const refit_place *at, float *w, size_t n, double *z) {
    size_t all = 0;
    for (size_t i = 0; i < f->n_runs; i++) all += f->runs[i].columns;
    for (size_t i = 0, first = 0; i < f->n_runs; first += f->runs[i++].columns) {
        const feedback_hessian *m = &f->runs[i];
        refit_span s = {m, m->columns, feedback_strips(m->columns), w + first, z + first, all, NULL, 0};
        if (at) s.rows = at->rows, s.row_tiles = feedback_strips(at->matrix_rows);
        if ((m->gptaq_d || (m->gptaq_p && at)) && m->gptaq_a > 0) threads_for(pool, n, 1, refit_row, &s);
    }
}
