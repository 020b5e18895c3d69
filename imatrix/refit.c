/* Solves for the rows' targets one by one: z R^T = w D from the last column on, then u R = z from the first,
 * and t = w + a u. Each sum is one chain in the order of columns. */
#include "imatrix/refit.h"

#include "imatrix/moments_sums.h"

typedef struct refit_span {
    const feedback_moments *m;
    size_t columns, strips;
    float *w;
    double *z;
    size_t row_floats; /* from a row to the next */
} refit_span;

static const float *root_row(const refit_span *s, size_t row, size_t strip) {
    return s->m->root + feedback_triangle(strip) + row * PASS_COLUMNS;
}

static size_t strip_end(const refit_span *s, size_t strip) {
    size_t end = (strip + 1) * PASS_COLUMNS;
    return end < s->columns ? end : s->columns;
}

/* z = w D; tiles of D are turned. */
static void multiply_moved(const refit_span *s, const float *w, double *z) {
    for (size_t c = 0; c < s->columns; c++) {
        size_t strip = c / PASS_COLUMNS;
        const float *d = s->m->difference + feedback_square(s->m->columns, strip);
        double sum = 0;
        for (size_t k = 0; k < s->columns; k++)
            sum += (double)w[k] *
                   (double)d[k / PASS_COLUMNS * TILE + c % PASS_COLUMNS * PASS_COLUMNS + k % PASS_COLUMNS];
        z[c] = sum;
    }
}

/* z R^T = what z holds. */
static void solve_turned(const refit_span *s, double *z) {
    for (size_t r = s->columns; r-- > 0;) {
        double sum = 0;
        for (size_t strip = r / PASS_COLUMNS; strip < s->strips; strip++) {
            size_t from = strip * PASS_COLUMNS, first = from > r ? from : r + 1;
            const float *root = root_row(s, r, strip);
            for (size_t c = first; c < strip_end(s, strip); c++) sum += z[c] * (double)root[c - from];
        }
        z[r] = (z[r] - sum) / (double)root_row(s, r, r / PASS_COLUMNS)[r % PASS_COLUMNS];
    }
}

/* z R = what z holds. */
static void solve_straight(const refit_span *s, double *z) {
    for (size_t r = 0; r < s->columns; r++) {
        z[r] /= (double)root_row(s, r, r / PASS_COLUMNS)[r % PASS_COLUMNS];
        for (size_t strip = r / PASS_COLUMNS; strip < s->strips; strip++) {
            size_t from = strip * PASS_COLUMNS, first = from > r ? from : r + 1;
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
    multiply_moved(s, w, z), solve_turned(s, z), solve_straight(s, z);
    for (size_t c = 0; c < s->columns; c++) w[c] += (float)((double)s->m->correction * z[c]);
}

void refit_rows(const moments_factored *f, threads_pool *pool, float *w, size_t n, double *z) {
    size_t all = 0;
    for (size_t i = 0; i < f->n_runs; i++) all += f->runs[i].columns;
    for (size_t i = 0, first = 0; i < f->n_runs; first += f->runs[i++].columns) {
        const feedback_moments *m = &f->runs[i];
        refit_span s = {m, m->columns, feedback_strips(m->columns), w + first, z + first, all};
        if (m->difference && m->correction > 0) threads_for(pool, n, 1, refit_row, &s);
    }
}
