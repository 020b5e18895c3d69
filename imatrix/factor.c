/* H = R R^T, R upper triangular, strip by strip from the last one on: each strip first loses what later ones
 * explain of it, then its own tile is factored, and the rows above are multiplied with the inverse of that.
 */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "imatrix/moments_sums.h"

enum { STRIP = FEEDBACK_STRIP };

typedef struct work {
    const matmul_kernels *kernels;
    int threads;
    size_t strips;
    float *root;
    float *packed;             /* tiles, transposed, in panels: those of a strip's row, or one */
    float *tiles;              /* of results: one per thread */
    double *own, *own_inverse; /* a tile of the diagonal, its root and then the inverse of that */
} work;

static float *tile_at(const work *w, size_t row, size_t strip) {
    return w->root + feedback_triangle(strip) + row * TILE;
}

/* Element (k, j) of panels is that of the tile's row j, column k. */
static void pack_transposed(const work *w, const float *tile, float *packed) {
    size_t panel = w->kernels->panel;
    for (size_t j = 0; j < STRIP; j++)
        for (size_t k = 0; k < STRIP; k++)
            packed[j / panel * panel * STRIP + k * panel + j % panel] = tile[j * STRIP + k];
}

/* out (+)= tile times a packed one. */
static void multiply(const work *w, const float *tile, const float *packed, float *out, bool add) {
    size_t panel = w->kernels->panel;
    for (size_t j = 0; j < STRIP; j += panel)
        w->kernels->multiply(&(matmul_tile){.w = tile,
                                            .row_step = STRIP,
                                            .column_step = 1,
                                            .x = packed + j * STRIP,
                                            .y = out + j,
                                            .y_stride = STRIP,
                                            .rows = STRIP,
                                            .columns = STRIP,
                                            .tokens = panel,
                                            .add = add});
}

/* The strip's tiles lose what later strips explain. */
static void take_off_later(const work *w, size_t strip) {
    size_t later = w->strips - strip - 1;
    if (!later) return;
#pragma omp parallel num_threads(w->threads)
    {
        float *out = w->tiles + (size_t)omp_get_thread_num() * TILE;
#pragma omp for
        for (size_t i = 0; i < later; i++)
            pack_transposed(w, tile_at(w, strip, strip + 1 + i), w->packed + i * TILE);
#pragma omp for schedule(dynamic, 1)
        for (size_t row = 0; row <= strip; row++) {
            float *tile = tile_at(w, row, strip);
            for (size_t i = 0; i < later; i++)
                multiply(w, tile_at(w, row, strip + 1 + i), w->packed + i * TILE, out, i > 0);
            for (size_t i = 0; i < TILE; i++) tile[i] -= out[i];
        }
    }
}

/* Root of the symmetric tile whose upper half is in w->own, in place. */
static bool root_of_own(const work *w) {
    double *a = w->own, column[STRIP];
    for (size_t c = STRIP; c-- > 0;) {
        double pivot = a[c * STRIP + c];
        if (!(pivot > 0) || isinf(pivot)) return false;
        for (size_t i = 0; i <= c; i++) column[i] = a[i * STRIP + c] /= sqrt(pivot);
        for (size_t i = 0; i < c; i++)
            for (size_t j = i; j < c; j++) a[i * STRIP + j] -= column[i] * column[j];
    }
    return true;
}

static void invert_own(const work *w) {
    const double *r = w->own;
    double *v = w->own_inverse;
    memset(v, 0, sizeof *v * TILE);
    for (size_t i = STRIP; i-- > 0;) {
        v[i * STRIP + i] = 1;
        for (size_t k = i + 1; k < STRIP; k++)
            for (size_t c = k; c < STRIP; c++) v[i * STRIP + c] -= r[i * STRIP + k] * v[k * STRIP + c];
        for (size_t c = i; c < STRIP; c++) v[i * STRIP + c] /= r[i * STRIP + i];
    }
}

static bool factor_strip(const work *w, size_t strip) {
    float *own = tile_at(w, strip, strip);
    take_off_later(w, strip);
    for (size_t i = 0; i < TILE; i++) w->own[i] = (double)own[i];
    if (!root_of_own(w)) return false;
    for (size_t i = 0; i < STRIP; i++)
        for (size_t j = 0; j < STRIP; j++) own[i * STRIP + j] = j >= i ? (float)w->own[i * STRIP + j] : 0;
    if (!strip) return true;
    invert_own(w);
    float *inverse = w->tiles; /* not yet in use */
    for (size_t i = 0; i < TILE; i++) inverse[i] = (float)w->own_inverse[i];
    pack_transposed(w, inverse, w->packed);
#pragma omp parallel for schedule(dynamic, 1) num_threads(w->threads)
    for (size_t row = 0; row < strip; row++) {
        float *out = w->tiles + (size_t)omp_get_thread_num() * TILE, *tile = tile_at(w, row, strip);
        multiply(w, tile, w->packed, out, false);
        memcpy(tile, out, sizeof *tile * TILE);
    }
    return true;
}

/* ---- H, damped and shrunk ---- */
typedef struct prepared {
    const moments_block *block;
    double per_token, mean_square;
    size_t unseen;
} prepared;

static double diagonal(const moments_block *b, size_t c) {
    return b->triangle[feedback_triangle(c / STRIP) + c * STRIP + c % STRIP];
}

static prepared prepare(const moments_block *b, uint64_t tokens) {
    prepared p = {b, 1 / (double)tokens, 0, 0};
    for (size_t c = 0; c < b->columns; c++) p.mean_square += diagonal(b, c), p.unseen += diagonal(b, c) == 0;
    p.mean_square *= p.per_token / (double)b->columns;
    return p;
}

/* Into the root's place; the diagonal's tiles whole, too. Where nothing was seen all columns are equal. */
static void fill(const work *w, const prepared *p, double damp, double shrink, float *tiles) {
    const moments_block *b = p->block;
    double added = p->mean_square > 0 ? damp * p->mean_square : 1, kept = (1 - shrink) * p->per_token;
#pragma omp parallel for schedule(dynamic, 1) num_threads(w->threads)
    for (size_t strip = 0; strip < w->strips; strip++) {
        size_t from = feedback_triangle(strip), rows = (strip + 1) * STRIP;
        float *own = tile_at(w, strip, strip), *tile = tiles + strip * TILE;
        for (size_t i = 0; i < rows * STRIP; i++) w->root[from + i] = (float)(kept * b->triangle[from + i]);
        for (size_t i = 0; i < STRIP; i++) {
            size_t c = strip * STRIP + i;
            double value = c < b->columns ? diagonal(b, c) * p->per_token + added : 1;
            for (size_t j = 0; j < i; j++) tile[i * STRIP + j] = tile[j * STRIP + i], own[i * STRIP + j] = 0;
            own[i * STRIP + i] = (float)value;
            memcpy(tile + i * STRIP + i, own + i * STRIP + i, sizeof(float) * (STRIP - i));
        }
    }
}

/* What is tried next. */
static float larger_damp(float damp) {
    float next = damp > 0 ? damp * 10 : 1e-4f;
    return next < 1 ? next : 1;
}

static bool factor_block(const work *w, const prepared *p, moments_settings s, float *tiles, float *damp) {
    for (;; *damp = larger_damp(*damp)) {
        size_t strip = w->strips;
        fill(w, p, (double)*damp, (double)s.shrink, tiles);
        while (strip > 0 && factor_strip(w, strip - 1)) strip--;
        if (!strip) return true;
        if (*damp >= 1) return false;
    }
}

/* ---- all blocks ---- */
static void *room(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

float moments_correction(uint64_t tokens, size_t columns) {
    return (float)((double)tokens / ((double)tokens + 3.0 * (double)columns));
}

uint64_t moments_factored_bytes(moments_shape s) {
    uint64_t bytes = 0;
    if (s.columns > 1 << 28) return UINT64_MAX;
    for (size_t i = 0; i < moments_blocks(s); i++) {
        uint64_t strips = feedback_strips(moments_block_columns(s, i));
        bytes += sizeof(float) * (feedback_triangle(strips) + strips * TILE);
        if (s.two_streams) bytes += sizeof(float) * strips * strips * TILE;
    }
    return bytes;
}

static float *mean_difference(const moments *m, const moments_block *b) {
    size_t n = feedback_padded(b->columns) * feedback_padded(b->columns);
    float *d = room(sizeof *d * n);
    if (!d) return NULL;
#pragma omp parallel for num_threads(m->threads)
    for (size_t i = 0; i < n; i++) d[i] = (float)(b->square[i] / (double)m->tokens);
    return d;
}

/* Rooms for a block, in f's next run. */
static bool make_run(const moments *m, const moments_block *b, moments_settings s, moments_factored *f) {
    feedback_moments *run = &f->runs[f->n_runs++];
    size_t strips = feedback_strips(b->columns);
    float *difference = b->square ? mean_difference(m, b) : NULL;
    *run = (feedback_moments){.columns = b->columns,
                              .root = room(sizeof(float) * feedback_triangle(strips)),
                              .diagonal = room(sizeof(float) * strips * TILE),
                              .difference = difference,
                              .correction = s.correction < 0 ? moments_correction(m->tokens, b->columns)
                                                             : s.correction};
    return run->root && run->diagonal && (difference || !b->square);
}

static bool factor_all(moments *m, work *w, moments_settings s, moments_factored *f, bool *found,
                       gq_error *e) {
    *found = true;
    for (size_t i = 0; i < m->n_blocks && *found; i++) {
        const moments_block *b = &m->blocks[i];
        prepared p = prepare(b, m->tokens);
        float damp = s.damp;
        f->unseen += p.unseen;
        if (!make_run(m, b, s, f)) return gq_fail_memory(e, moments_factored_bytes(m->shape));
        feedback_moments *run = &f->runs[f->n_runs - 1];
        w->strips = feedback_strips(b->columns), w->root = (float *)(uintptr_t)run->root;
        *found = factor_block(w, &p, s, (float *)(uintptr_t)run->diagonal, &damp);
        if (damp > f->damp) f->damp = damp;
    }
    return true;
}

bool moments_factor(moments *m, moments_settings s, moments_factored *f, gq_error *e) {
    size_t strips = feedback_strips(m->blocks[0].columns), threads = (size_t)m->threads;
    bool found = false, ok;
    *f = (moments_factored){.tokens = m->tokens};
    moments_settle(m);
    if (!m->tokens) return true;
    work w = {.kernels = m->kernels, .threads = m->threads};
    f->runs = calloc(m->n_blocks, sizeof *f->runs);
    w.packed = room(sizeof(float) * strips * TILE), w.tiles = room(sizeof(float) * threads * TILE);
    w.own = room(sizeof(double) * TILE), w.own_inverse = room(sizeof(double) * TILE);
    ok = f->runs && w.packed && w.tiles && w.own && w.own_inverse;
    ok = ok ? factor_all(m, &w, s, f, &found, e) : gq_fail_memory(e, sizeof(float) * strips * TILE);
    free(w.packed), free(w.tiles), free(w.own), free(w.own_inverse);
    if (!found) {
        moments_factored kept = *f;
        moments_factored_free(f);
        f->tokens = kept.tokens, f->unseen = kept.unseen, f->damp = kept.damp;
    }
    return ok;
}

void moments_factored_free(moments_factored *f) {
    for (size_t i = 0; i < f->n_runs; i++) {
        free((void *)(uintptr_t)f->runs[i].root), free((void *)(uintptr_t)f->runs[i].diagonal);
        free((void *)(uintptr_t)f->runs[i].difference);
    }
    free(f->runs);
    *f = (moments_factored){.n_runs = 0};
}
