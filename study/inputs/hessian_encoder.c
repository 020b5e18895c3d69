/* Encodes rows in memory under the Hessian H of their inputs. Opening checks that H can be a mean of
 * products (diagonal at least 0, symmetric, no entry larger than the root of the product of its two diagonal
 * entries), and factors it once for all rows. Up to FEEDBACK_ROWS rows at a time are then encoded twice: by
 * search, with the diagonal as importance, and with error feedback (codec/feedback.h). For both the error v H
 * v^T of each row is computed from what the blocks decode to, and each row keeps the better blocks. So no row
 * is worse under H than search leaves it. H here is what the caller gave; damping and shrinking
 * (study/inputs/hessian.c) only serve the factoring. */
#include "study/inputs/inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/arrays/arrays.h"

typedef struct hessian_encoder {
    strip_encoder search; /* the mean squares of the columns are its importance */
    const float *hessian; /* H, columns x columns; borrowed */
    size_t columns;
    cholesky factored;
    float *mean_squares;
} hessian_encoder;

/* ---- checking the Hessian ---- */

enum { SQUARE = 64 }; /* columns of a square of H, which is checked together with its mirror image */
static const double SLACK = 0.01; /* relative; Hessians may have been added up in few bits */

static bool check_pair(const float *h, size_t columns, size_t i, size_t j, gq_error *e) {
    double here = (double)h[i * columns + j], across = (double)h[j * columns + i];
    double own = (double)h[i * columns + i], other = (double)h[j * columns + j], most = sqrt(own * other);
    if (fabs(here) <= (1 + SLACK) * most && fabs(here - across) <= SLACK * most) return true;
    return gq_fail_usage(e,
                         "Hessian[%zu][%zu] is %g; expected the value at [%zu][%zu], %g, and at most the "
                         "square root of the product of the two diagonal values, %g and %g",
                         i, j, here, j, i, across, own, other);
}

static bool check_square(const float *h, size_t columns, size_t row, size_t column, gq_error *e) {
    for (size_t i = row; i < row + SQUARE && i < columns; i++)
        for (size_t j = column; j < column + SQUARE && j < i; j++)
            if (!check_pair(h, columns, i, j, e)) return false;
    return true;
}

static bool check_hessian(const float *h, size_t columns, gq_error *e) {
    uint64_t n, bytes;
    if (__builtin_mul_overflow(columns, columns, &n) || __builtin_mul_overflow(n, sizeof *h, &bytes) ||
        bytes > PTRDIFF_MAX)
        return gq_fail_usage(e, "a Hessian of %zu columns is more than memory can hold", columns);
    for (size_t i = 0; i < columns; i++) {
        float own = h[i * columns + i];
        if (!(own >= 0) || isinf(own))
            return gq_fail_usage(
                e, "the Hessian's diagonal at column %zu is %g; it must be 0 or more, and finite", i,
                (double)own);
    }
    for (size_t row = 0; row < columns; row += SQUARE)
        for (size_t column = 0; column <= row; column += SQUARE)
            if (!check_square(h, columns, row, column, e)) return false;
    return true;
}

/* ---- factoring the Hessian ---- */

static bool encoder_factor_hessian(hessian_encoder *f, hessian_settings settings, threads_pool *pool,
                                   gq_error *e) {
    hessian_shape shape = {.columns = f->columns, .width = f->columns};
    hessian *m = hessian_new(f->search.kernels, shape, pool, e);
    if (!m) return false;
    hessian_set(m, f->hessian);
    hessian_mean_squares(m, f->mean_squares);
    bool ok = cholesky_factor(m, settings, &f->factored, e);
    hessian_free(m);
    if (ok && !f->factored.n_runs)
        return gq_fail_usage(
            e, "the Hessian has no Cholesky factor, even damped: expected a positive semidefinite matrix");
    return ok;
}

static void hessian_close(void *encoder) {
    hessian_encoder *f = encoder;
    cholesky_free(&f->factored);
    free(f->mean_squares), free(f);
}

/* Fails with GQ_USAGE where the Hessian can be no mean of products: not finite, not symmetric, or too large. */
static void *hessian_open(const strip_encoder *search, size_t columns, const gq_array_options *o,
                          gq_error *e) {
    hessian_settings settings;
    if (!hessian_settings_take(&settings, o->damp, o->shrink, 0, e) || !check_hessian(o->hessian, columns, e))
        return NULL;
    hessian_encoder *f = calloc(1, sizeof *f);
    if (!f) return gq_fail_memory(e, sizeof *f), NULL;
    *f = (hessian_encoder){.search = *search, .hessian = o->hessian, .columns = columns};
    f->mean_squares = malloc(sizeof *f->mean_squares * columns);
    f->search.importance = f->mean_squares;
    threads_pool *pool = f->mean_squares ? threads_pool_new(threads_asked(o->threads)) : NULL;
    bool ok = pool ? encoder_factor_hessian(f, settings, pool, e)
                   : gq_fail_memory(e, sizeof *f->mean_squares * columns);
    threads_pool_free(pool);
    if (ok) return f;
    hessian_close(f);
    return NULL;
}

/* ---- scratch ---- */

typedef struct encoder_scratch {
    uint8_t *scratch, *fed;         /* scratch of codec_feedback, and the blocks that it makes */
    float *decoded, *lost, *answer; /* lost: errors, [panel][column][row]; answer: H times them */
} encoder_scratch;

/* Lays out a thread's scratch and returns its size. */
static size_t place_in(const hessian_encoder *f, uint8_t *scratch, encoder_scratch *p) {
    size_t n = FEEDBACK_ROWS * f->columns, at = 0;
    const struct {
        void *to;
        size_t bytes;
    } regions[] = {
        {&p->scratch, feedback_bytes(f->search.kernels, f->search.type->id, f->columns, MATMUL_FLOAT32)},
        {&p->fed, FEEDBACK_ROWS * gguf_row_bytes(f->search.type, f->columns)},
        {&p->decoded, sizeof(float) * (n < STRIP_ELEMENTS ? STRIP_ELEMENTS : n)},
        {&p->lost, sizeof(float) * n},
        {&p->answer, sizeof(float) * FEEDBACK_ROWS * STRIP_COLUMNS},
    };
    for (size_t i = 0; i < sizeof regions / sizeof *regions; at += (regions[i++].bytes + 63) / 64 * 64) {
        uint8_t *here = scratch ? scratch + at : NULL;
        memcpy(regions[i].to, &here, sizeof here);
    }
    return at;
}

/* Returns the bytes of scratch that feedback_encode needs: aligned to 64, one for each thread. */
static size_t hessian_scratch_bytes(const void *encoder) {
    encoder_scratch p;
    return place_in(encoder, NULL, &p);
}

/* ---- errors under the Hessian ---- */

static const product_kernels *encoder_products(const hessian_encoder *f) {
    return f->search.kernels->products[MATMUL_FLOAT32];
}

/* Packs x minus `decoded` (NULL: x itself) into panels; rows beyond `rows` are zeros. */
static void pack_lost(const hessian_encoder *f, const float *x, const float *decoded, size_t rows,
                      float *lost) {
    size_t panel = encoder_products(f)->panel, cols = f->columns;
    for (size_t r = 0; r < FEEDBACK_ROWS; r++)
        for (size_t c = 0; c < cols; c++) {
            size_t i = r * cols + c;
            lost[r / panel * panel * cols + c * panel + r % panel] = r >= rows ? 0
                                                                     : decoded ? x[i] - decoded[i]
                                                                               : x[i];
        }
}

/* Multiplies the tile of H that begins at row `first` and column `column` with the errors, into p->answer;
 * add: adds to what is there. */
static void encoder_multiply_panels(const hessian_encoder *f, const encoder_scratch *p, size_t panels,
                                    size_t first, size_t column, bool add) {
    const product_kernels *k = encoder_products(f);
    size_t rows = f->columns - first, columns = f->columns - column;
    k->multiply(&(product_tile){.w = {f->hessian + first * f->columns + column, f->columns, 1},
                                .x = p->lost + column * k->panel,
                                .x_panel_stride = f->columns * k->panel,
                                .panel = k->panel,
                                .y = p->answer,
                                .y_stride = k->panel,
                                .y_panel_stride = STRIP_COLUMNS * k->panel,
                                .rows = rows < STRIP_COLUMNS ? rows : STRIP_COLUMNS,
                                .columns = columns < STRIP_COLUMNS ? columns : STRIP_COLUMNS,
                                .tokens = panels * k->panel,
                                .width = k->panel,
                                .add = add});
}

static void encoder_add_errors(const hessian_encoder *f, const encoder_scratch *p, size_t panels,
                               size_t first, double factor, double *of_row) {
    size_t panel = encoder_products(f)->panel, rows = f->columns - first;
    for (size_t i = 0; i < panels; i++)
        for (size_t c = 0; c < (rows < STRIP_COLUMNS ? rows : STRIP_COLUMNS); c++)
            for (size_t lane = 0; lane < panel; lane++)
                of_row[i * panel + lane] += factor *
                                            (double)p->answer[(i * STRIP_COLUMNS + c) * panel + lane] *
                                            (double)p->lost[(i * f->columns + first + c) * panel + lane];
}

/* Computes v H v^T of each row v: of x where `decoded` is NULL, else of the errors. H is symmetric, so tiles
 * below the diagonal count twice and those above it are skipped. */
static void encoder_measure_errors(const hessian_encoder *f, const encoder_scratch *p, const float *x,
                                   const float *decoded, size_t rows, double *of_row) {
    size_t panel = encoder_products(f)->panel, panels = (rows + panel - 1) / panel;
    pack_lost(f, x, decoded, rows, p->lost);
    memset(of_row, 0, sizeof *of_row * FEEDBACK_ROWS);
    for (size_t first = 0; first < f->columns; first += STRIP_COLUMNS) {
        for (size_t column = 0; column < first; column += STRIP_COLUMNS)
            encoder_multiply_panels(f, p, panels, first, column, column > 0);
        if (first > 0) encoder_add_errors(f, p, panels, first, 2, of_row);
        encoder_multiply_panels(f, p, panels, first, first, false);
        encoder_add_errors(f, p, panels, first, 1, of_row);
    }
}

static void measure_blocks(const hessian_encoder *f, const encoder_scratch *p, const float *x,
                           const uint8_t *blocks, size_t rows, double *of_row) {
    codec_decode_rows(&f->search.kernels->codecs[f->search.type->id], blocks, f->columns, p->decoded,
                      rows * f->columns);
    encoder_measure_errors(f, p, x, p->decoded, rows, of_row);
}

/* ---- rows ---- */

static void encoder_feed_rows(const hessian_encoder *f, const encoder_scratch *p, const float *x,
                              size_t rows) {
    codec_effort effort = f->search.settings->effort;
    feedback_sums sums = {0};
    codec_feedback(&(feedback_task){.kernels = f->search.kernels,
                                    .type = f->search.type->id,
                                    .effort = effort,
                                    .sweeps = feedback_sweeps(effort),
                                    .trials = feedback_trials(effort),
                                    .hessian = f->factored.runs,
                                    .n_hessians = f->factored.n_runs,
                                    .columns = f->columns,
                                    .scratch = p->scratch},
                   x, rows, p->fed, &sums);
}

/* Does what strip_encode does, for up to FEEDBACK_ROWS rows. The weighted sums are under H: wx2 of w H w^T
 * for each row w, we2 of the same for its error. scratch: the thread's. */
static size_t hessian_encode(const void *encoder, const float *x, size_t rows, uint8_t *blocks, void *scratch,
                             codec_error *sum) {
    const hessian_encoder *f = encoder;
    const size_t row_bytes = gguf_row_bytes(f->search.type, f->columns);
    double power[FEEDBACK_ROWS], plain_error[FEEDBACK_ROWS], fed[FEEDBACK_ROWS];
    double wx2 = sum->wx2, we2 = sum->we2;
    codec_error of_search = {0};
    strip_encoder plain = f->search;
    encoder_scratch p;
    place_in(f, scratch, &p);
    size_t bad = strip_encode(&f->search, x, rows, f->columns, blocks, p.decoded, &of_search);
    if (bad < rows * f->columns) return bad;
    encoder_feed_rows(f, &p, x, rows);
    encoder_measure_errors(f, &p, x, NULL, rows, power);
    measure_blocks(f, &p, x, blocks, rows, plain_error);
    measure_blocks(f, &p, x, p.fed, rows, fed);
    for (size_t r = 0; r < rows; r++) {
        bool better = fed[r] < plain_error[r]; /* false where feedback ran into values that are not finite */
        if (better) memcpy(blocks + r * row_bytes, p.fed + r * row_bytes, row_bytes);
        wx2 += power[r], we2 += better ? fed[r] : plain_error[r];
    }
    plain.importance = NULL;
    bad = strip_measure(&plain, x, rows, f->columns, blocks, p.decoded, sum);
    sum->wx2 = wx2, sum->we2 = we2;
    return bad;
}

const array_rounding rounding_by_hessian = {FEEDBACK_ROWS, hessian_open, hessian_scratch_bytes,
                                            hessian_encode, hessian_close};
