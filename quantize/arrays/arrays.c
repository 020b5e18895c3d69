/* The codecs for arrays in memory: gq_encode, gq_decode and gq_dot of the public header. A call checks type
 * and sizes first. Then it cuts the rows into pieces, each of whole batches of rows and about a strip long,
 * and threads take the pieces in order. A piece's result depends on its own rows alone, and error sums are
 * added in the order of pieces; so neither bytes nor figures depend on the number of threads. Rows are
 * encoded by strip_encode (quantize/strips/strip.h), or, where the caller gives second moments, by
 * feedback_encode. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/sized.h"
#include "base/threads.h"
#include "codec/vector.h"
#include "quantize/gquant_arrays.h"
#include "quantize/strips/schedule.h"
#include "quantize/strips/strip.h"
#include "study/inputs/factor.h"
#include "study/inputs/moments.h"

/* ---- encoding under second moments ---- */

/* Encodes rows in memory under the second moments H of their inputs. Opening checks that H can be a mean of
 * products (diagonal at least 0, symmetric, no entry larger than the root of the product of its two diagonal
 * entries), and factors it once for all rows. Up to FEEDBACK_ROWS rows at a time are then encoded twice: by
 * search, with the diagonal as importance, and with error feedback (codec/feedback.h). For both the error v H
 * v^T of each row is computed from what the blocks decode to, and each row keeps the better blocks. So no row
 * is worse under H than search leaves it. H here is what the caller gave; damping and shrinking
 * (study/inputs/moments.h) only serve the factoring. */

typedef struct feedback_encoder {
    strip_encoder search; /* the mean squares of the columns are its importance */
    const float *moments; /* H, columns x columns; borrowed */
    size_t columns;
    moments_factored factored;
    float *mean_squares;
} feedback_encoder;

/* ---- checking the moments ---- */

enum { SQUARE = 64 }; /* columns of a square of H, which is checked together with its mirror image */
static const double SLACK = 0.01; /* relative; moments may have been added up in few bits */

static bool check_pair(const float *h, size_t columns, size_t i, size_t j, gq_error *e) {
    double here = (double)h[i * columns + j], across = (double)h[j * columns + i];
    double own = (double)h[i * columns + i], other = (double)h[j * columns + j], most = sqrt(own * other);
    if (fabs(here) <= (1 + SLACK) * most && fabs(here - across) <= SLACK * most) return true;
    return gq_fail_usage(e,
                         "the second moment of columns %zu and %zu is %g; it must be that of %zu and %zu, "
                         "%g, and no more than the root of their own, %g and %g",
                         i, j, here, j, i, across, own, other);
}

static bool check_square(const float *h, size_t columns, size_t row, size_t column, gq_error *e) {
    for (size_t i = row; i < row + SQUARE && i < columns; i++)
        for (size_t j = column; j < column + SQUARE && j < i; j++)
            if (!check_pair(h, columns, i, j, e)) return false;
    return true;
}

static bool check_moments(const float *h, size_t columns, gq_error *e) {
    uint64_t n, bytes;
    if (__builtin_mul_overflow(columns, columns, &n) || __builtin_mul_overflow(n, sizeof *h, &bytes) ||
        bytes > PTRDIFF_MAX)
        return gq_fail_usage(e, "second moments of %zu columns are more than memory can hold", columns);
    for (size_t i = 0; i < columns; i++) {
        float own = h[i * columns + i];
        if (!(own >= 0) || isinf(own))
            return gq_fail_usage(
                e, "the second moment of column %zu with itself is %g; it must be 0 or more, and finite", i,
                (double)own);
    }
    for (size_t row = 0; row < columns; row += SQUARE)
        for (size_t column = 0; column <= row; column += SQUARE)
            if (!check_square(h, columns, row, column, e)) return false;
    return true;
}

/* ---- factoring the moments ---- */

static bool encoder_factor_moments(feedback_encoder *f, moments_settings settings, threads_pool *pool,
                                   gq_error *e) {
    moments_shape shape = {.columns = f->columns, .width = f->columns};
    moments *m = moments_new(f->search.kernels, shape, pool, e);
    if (!m) return false;
    moments_set(m, f->moments);
    moments_mean_squares(m, f->mean_squares);
    bool ok = moments_factor(m, settings, &f->factored, e);
    moments_free(m);
    if (ok && !f->factored.n_runs)
        return gq_fail_usage(e, "the second moments have no root, however much they are damped: "
                                "they are no mean of products");
    return ok;
}

static void feedback_encoder_close(feedback_encoder *f) {
    moments_factored_free(&f->factored);
    free(f->mean_squares);
    f->mean_squares = NULL;
}

/* Makes ready for rows of `columns` columns. `with`: an encoder without importance, of a type whose codec has
 * steps. moments: borrowed until feedback_encoder_close. threads: for factoring; 0: one per core. Fails with
 * GQ_USAGE where the moments can be no mean of products: not finite, not symmetric, or too large. After a
 * failure there is nothing to close. */
static bool feedback_encoder_open(feedback_encoder *f, strip_encoder with, const float *h, size_t columns,
                                  moments_settings settings, int threads, gq_error *e) {
    *f = (feedback_encoder){.search = with, .moments = h, .columns = columns};
    if (!check_moments(h, columns, e)) return false;
    f->mean_squares = malloc(sizeof *f->mean_squares * columns);
    if (!f->mean_squares) return gq_fail_memory(e, sizeof *f->mean_squares * columns);
    f->search.importance.column = f->mean_squares;
    threads_pool *pool = threads_pool_new(threads_asked(threads));
    bool ok = pool ? encoder_factor_moments(f, settings, pool, e) : gq_fail_memory(e, sizeof pool);
    threads_pool_free(pool);
    if (!ok) feedback_encoder_close(f);
    return ok;
}

/* ---- scratch ---- */

typedef struct encoder_scratch {
    uint8_t *pass, *fed;            /* scratch of codec_feedback, and the blocks that it makes */
    float *decoded, *lost, *answer; /* lost: errors, [panel][column][row]; answer: H times them */
} encoder_scratch;

/* Lays out a thread's scratch and returns its size. */
static size_t place_in(const feedback_encoder *f, uint8_t *scratch, encoder_scratch *p) {
    size_t n = FEEDBACK_ROWS * f->columns, at = 0;
    const struct {
        void *to;
        size_t bytes;
    } parts[] = {
        {&p->pass, feedback_bytes(f->search.kernels, f->search.type->id, f->columns, MATMUL_FLOAT32)},
        {&p->fed, FEEDBACK_ROWS * gguf_row_bytes(f->search.type, f->columns)},
        {&p->decoded, sizeof(float) * (n < STRIP_ELEMENTS ? STRIP_ELEMENTS : n)},
        {&p->lost, sizeof(float) * n},
        {&p->answer, sizeof(float) * FEEDBACK_ROWS * PASS_COLUMNS},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; at += (parts[i++].bytes + 63) / 64 * 64) {
        uint8_t *here = scratch ? scratch + at : NULL;
        memcpy(parts[i].to, &here, sizeof here);
    }
    return at;
}

/* Returns the bytes of scratch that feedback_encode needs: aligned to 64, one for each thread. */
static size_t feedback_encoder_scratch_bytes(const feedback_encoder *f) {
    encoder_scratch p;
    return place_in(f, NULL, &p);
}

/* ---- errors under the moments ---- */

static const product_kernels *encoder_products(const feedback_encoder *f) {
    return f->search.kernels->products[MATMUL_FLOAT32];
}

/* Packs x minus `decoded` (NULL: x itself) into panels; rows beyond `rows` are zeros. */
static void pack_lost(const feedback_encoder *f, const float *x, const float *decoded, size_t rows,
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
static void encoder_multiply_panels(const feedback_encoder *f, const encoder_scratch *p, size_t panels,
                                    size_t first, size_t column, bool add) {
    const product_kernels *k = encoder_products(f);
    size_t rows = f->columns - first, columns = f->columns - column;
    k->multiply(&(product_tile){.w = {f->moments + first * f->columns + column, f->columns, 1},
                                .x = p->lost + column * k->panel,
                                .x_step = f->columns * k->panel,
                                .panel = k->panel,
                                .y = p->answer,
                                .y_stride = k->panel,
                                .y_step = PASS_COLUMNS * k->panel,
                                .rows = rows < PASS_COLUMNS ? rows : PASS_COLUMNS,
                                .columns = columns < PASS_COLUMNS ? columns : PASS_COLUMNS,
                                .tokens = panels * k->panel,
                                .width = k->panel,
                                .add = add});
}

static void encoder_add_errors(const feedback_encoder *f, const encoder_scratch *p, size_t panels,
                               size_t first, double factor, double *of_row) {
    size_t panel = encoder_products(f)->panel, rows = f->columns - first;
    for (size_t i = 0; i < panels; i++)
        for (size_t c = 0; c < (rows < PASS_COLUMNS ? rows : PASS_COLUMNS); c++)
            for (size_t lane = 0; lane < panel; lane++)
                of_row[i * panel + lane] += factor *
                                            (double)p->answer[(i * PASS_COLUMNS + c) * panel + lane] *
                                            (double)p->lost[(i * f->columns + first + c) * panel + lane];
}

/* Computes v H v^T of each row v: of x where `decoded` is NULL, else of the errors. H is symmetric, so tiles
 * below the diagonal count twice and those above it are skipped. */
static void encoder_measure_errors(const feedback_encoder *f, const encoder_scratch *p, const float *x,
                                   const float *decoded, size_t rows, double *of_row) {
    size_t panel = encoder_products(f)->panel, panels = (rows + panel - 1) / panel;
    pack_lost(f, x, decoded, rows, p->lost);
    memset(of_row, 0, sizeof *of_row * FEEDBACK_ROWS);
    for (size_t first = 0; first < f->columns; first += PASS_COLUMNS) {
        for (size_t column = 0; column < first; column += PASS_COLUMNS)
            encoder_multiply_panels(f, p, panels, first, column, column > 0);
        if (first > 0) encoder_add_errors(f, p, panels, first, 2, of_row);
        encoder_multiply_panels(f, p, panels, first, first, false);
        encoder_add_errors(f, p, panels, first, 1, of_row);
    }
}

static void measure_blocks(const feedback_encoder *f, const encoder_scratch *p, const float *x,
                           const uint8_t *blocks, size_t rows, double *of_row) {
    codec_decode_rows(&f->search.kernels->codecs[f->search.type->id], blocks, f->columns, p->decoded,
                      rows * f->columns);
    encoder_measure_errors(f, p, x, p->decoded, rows, of_row);
}

/* ---- rows ---- */

static void encoder_feed_rows(const feedback_encoder *f, const encoder_scratch *p, const float *x,
                              size_t rows) {
    codec_effort effort = f->search.settings->effort;
    feedback_sums sums = {0};
    codec_feedback(&(feedback_task){.kernels = f->search.kernels,
                                    .type = f->search.type->id,
                                    .effort = effort,
                                    .sweeps = feedback_sweeps(effort),
                                    .trials = feedback_trials(effort),
                                    .moments = f->factored.runs,
                                    .n_moments = f->factored.n_runs,
                                    .columns = f->columns,
                                    .scratch = p->pass},
                   x, rows, p->fed, &sums);
}

/* Does what strip_encode does, for up to FEEDBACK_ROWS rows. The weighted sums are under H: wx2 of w H w^T
 * for each row w, we2 of the same for its error. scratch: the thread's. */
static size_t feedback_encode(const feedback_encoder *f, const float *x, size_t rows, uint8_t *blocks,
                              void *scratch, codec_error *sum) {
    const size_t row_bytes = gguf_row_bytes(f->search.type, f->columns);
    double power[FEEDBACK_ROWS], searched[FEEDBACK_ROWS], fed[FEEDBACK_ROWS];
    double wx2 = sum->wx2, we2 = sum->we2;
    codec_error of_search = {0};
    strip_encoder plain = f->search;
    encoder_scratch p;
    place_in(f, scratch, &p);
    size_t bad = strip_encode(&f->search, x, rows, f->columns, blocks, p.decoded, &of_search);
    if (bad < rows * f->columns) return bad;
    encoder_feed_rows(f, &p, x, rows);
    encoder_measure_errors(f, &p, x, NULL, rows, power);
    measure_blocks(f, &p, x, blocks, rows, searched);
    measure_blocks(f, &p, x, p.fed, rows, fed);
    for (size_t r = 0; r < rows; r++) {
        bool better = fed[r] < searched[r]; /* false where feedback ran into values that are not finite */
        if (better) memcpy(blocks + r * row_bytes, p.fed + r * row_bytes, row_bytes);
        wx2 += power[r], we2 += better ? fed[r] : searched[r];
    }
    plain.importance.column = NULL;
    bad = strip_measure(&plain, x, rows, f->columns, blocks, p.decoded, sum);
    sum->wx2 = wx2, sum->we2 = we2;
    return bad;
}

/* ---- shapes ---- */

bool gq_array_bytes(uint32_t type, uint64_t rows, uint64_t cols, size_t *bytes, gq_error *e) {
    const tensor_type *t = tensor_type_of(type);
    uint64_t n, floats;
    if (!t) return gq_fail_usage(e, "there is no tensor type %u", type);
    if (cols == 0 || cols % t->block_elements != 0)
        return gq_fail_usage(e, "rows of %llu columns: of %s they have to be a multiple of %u",
                             (unsigned long long)cols, t->name, t->block_elements);
    if (!gguf_fits_row(t, cols))
        return gq_fail_usage(e, "rows of %llu columns: of %s they have %d at most", (unsigned long long)cols,
                             t->name, GGUF_HEADED_COLUMNS);
    if (__builtin_mul_overflow(rows, cols, &n) || __builtin_mul_overflow(n, sizeof(float), &floats) ||
        !gguf_rows_fit(t, cols, rows, PTRDIFF_MAX) || floats > PTRDIFF_MAX)
        return gq_fail_usage(e, "%llu rows of %llu columns are more than memory can hold",
                             (unsigned long long)rows, (unsigned long long)cols);
    *bytes = (size_t)(rows * gguf_row_bytes(t, cols));
    return true;
}

/* An array that a call works on, in pieces of whole rows. */
typedef struct array {
    const kernels *kernels;
    const tensor_type *type;
    const codec *codec;
    size_t rows, cols, row_bytes, rows_of_piece;
    const float *x; /* to encode, or to multiply with */
    const uint8_t *blocks;
    uint8_t *to;
    float *out;
    strip_encoder encoder;
    feedback_encoder feedback; /* used instead of `encoder` where there are moments */
    codec_vector vector;
    codec_error *errors; /* one per piece */
} array;

static bool array_check(array *a, uint32_t type, uint64_t rows, uint64_t cols, size_t given, gq_error *e) {
    size_t bytes = 0;
    if (!gq_array_bytes(type, rows, cols, &bytes, e)) return false;
    *a = (array){.kernels = strip_kernels(e), .type = tensor_type_of(type)};
    if (!a->kernels) return false;
    if (given != bytes)
        return gq_fail_usage(e, "%llu rows of %llu columns take %zu bytes as %s, and there are %zu",
                             (unsigned long long)rows, (unsigned long long)cols, bytes, a->type->name, given);
    a->codec = &a->kernels->codecs[type];
    a->rows = (size_t)rows, a->cols = (size_t)cols;
    a->row_bytes = gguf_row_bytes(a->type, a->cols);
    /* Pieces are whole batches: an encoder takes as long for a single row as for a batch. */
    size_t batches = STRIP_ELEMENTS / CODEC_MOST_LANES / a->cols;
    a->rows_of_piece = CODEC_MOST_LANES * (batches ? batches : 1);
    return true;
}

static size_t array_pieces(const array *a) {
    return a->rows / a->rows_of_piece + (a->rows % a->rows_of_piece > 0);
}

static size_t rows_from(const array *a, size_t row) {
    return a->rows - row < a->rows_of_piece ? a->rows - row : a->rows_of_piece;
}

static bool run_pieces(array *a, int threads, size_t scratch, const gq_callbacks *callbacks,
                       bool (*work)(void *array, work_piece *p, gq_error *e), gq_error *e) {
    schedule s;
    const schedule_job job = {.end = array_pieces(a), .work = work, .arg = a};
    if (!schedule_start(&s, threads, scratch, callbacks, e)) return false;
    s.progress.bytes_total = (uint64_t)a->rows * a->row_bytes;
    bool ok = schedule_run(&s, &job, e);
    schedule_end(&s);
    return ok;
}

static void note_done(const array *a, work_piece *p, size_t rows) {
    p->weights = (uint64_t)rows * a->cols, p->bytes = (uint64_t)rows * a->row_bytes;
}

/* ---- encoding ---- */

static bool fail_weight(const array *a, size_t element, gq_error *e) {
    const double x = (double)a->x[element], most = (double)a->codec->max_magnitude;
    const size_t row = element / a->cols, column = element % a->cols;
    if (!isfinite(x))
        return gq_fail_as(e, GQ_BAD_WEIGHTS, "row %zu, column %zu is %g, and weights must be finite", row,
                          column, x);
    if (fabs(x) > most)
        return gq_fail_as(e, GQ_BAD_WEIGHTS, "row %zu, column %zu is %g, and %s holds no magnitude above %g",
                          row, column, x, a->type->name, most);
    return gq_fail_as(e, GQ_BAD_WEIGHTS,
                      "row %zu, column %zu is %g, and its block does not decode to finite numbers as %s", row,
                      column, x, a->type->name);
}

static bool array_encode_piece(void *arg, work_piece *p, gq_error *e) {
    array *a = arg;
    size_t row = (size_t)p->number * a->rows_of_piece, rows = rows_from(a, row), n = rows * a->cols;
    const float *x = a->x + row * a->cols;
    size_t bad = a->kernels->first_not_finite(x, n);
    uint8_t *to = a->to + row * a->row_bytes;
    codec_error *sum = &a->errors[p->number];
    if (bad == n)
        bad = a->feedback.moments ? feedback_encode(&a->feedback, x, rows, to, p->scratch, sum)
                                  : strip_encode(&a->encoder, x, rows, a->cols, to, p->scratch, sum);
    note_done(a, p, rows);
    return bad == n || fail_weight(a, row * a->cols + bad, e);
}

static bool check_importance(const float *importance, size_t cols, gq_error *e) {
    for (size_t i = 0; importance && i < cols; i++)
        if (!(importance[i] >= 0) || isinf(importance[i]))
            return gq_fail_usage(e, "the importance of column %zu is %g; it must be 0 or more, and finite", i,
                                 (double)importance[i]);
    return true;
}

/* Adds up in the order of pieces, so that the number of threads changes no bit. */
static void array_sum_loss(const array *a, gq_loss *loss) {
    *loss = (gq_loss){.crc32 = checksum_add(0, a->to, a->rows * a->row_bytes)};
    for (size_t i = 0; i < array_pieces(a); i++) {
        const codec_error *s = &a->errors[i];
        loss->n += s->n, loss->x2 += s->x2, loss->e2 += s->e2;
        if (a->feedback.moments || a->encoder.importance.column) loss->wx2 += s->wx2, loss->we2 += s->we2;
        if ((double)s->max_e > loss->max_error) loss->max_error = (double)s->max_e;
    }
}

static bool encode_pieces(array *a, int threads, const gq_callbacks *callbacks, gq_loss *loss, gq_error *e) {
    size_t scratch =
        a->feedback.moments ? feedback_encoder_scratch_bytes(&a->feedback) : sizeof(float) * STRIP_ELEMENTS;
    a->errors = calloc(array_pieces(a) + 1, sizeof *a->errors);
    if (!a->errors) return gq_fail_memory(e, array_pieces(a) * sizeof *a->errors);
    bool ok = run_pieces(a, threads, scratch, callbacks, array_encode_piece, e);
    if (ok && loss) array_sum_loss(a, loss);
    free(a->errors);
    return ok;
}

static bool encode_by_moments(array *a, const gq_array_options *o, const gq_callbacks *callbacks,
                              gq_loss *loss, gq_error *e) {
    moments_settings settings;
    if (o->importance)
        return gq_fail_usage(e, "importance is what second moments say of single columns: give one of them");
    if (!a->codec->steps)
        return gq_fail_usage(e, "%s rounds each weight by itself: second moments say nothing to it",
                             a->type->name);
    if (!moments_settings_take(&settings, o->damp, o->shrink, 0, e) ||
        !feedback_encoder_open(&a->feedback, a->encoder, o->moments, a->cols, settings, o->threads, e))
        return false;
    a->rows_of_piece = FEEDBACK_ROWS;
    bool ok = encode_pieces(a, o->threads, callbacks, loss, e);
    feedback_encoder_close(&a->feedback);
    return ok;
}

bool gq_encode(uint32_t type, uint64_t rows, uint64_t cols, const float *x, const gq_array_options *options,
               void *to, size_t bytes, gq_loss *loss, gq_error *e) {
    static const codec_effort efforts[] = {
        [GQ_EFFORT_DEFAULT] = EFFORT_DEFAULT, [GQ_EFFORT_FAST] = EFFORT_FAST, [GQ_EFFORT_BEST] = EFFORT_BEST};
    array a;
    gq_array_options asked;
    gq_callbacks callbacks;
    if (!SIZED_TAKE(asked, options, e) || !SIZED_TAKE(callbacks, asked.callbacks, e) ||
        !array_check(&a, type, rows, cols, bytes, e) || !check_importance(asked.importance, a.cols, e))
        return false;
    if (asked.effort < 0 || (size_t)asked.effort >= sizeof efforts / sizeof *efforts)
        return gq_fail_usage(e, "effort %d is none of fast, default and best", asked.effort);
    if (!a.codec->encode) return gq_fail_usage(e, "there is no encoder for %s", a.type->name);
    const encode_settings settings = {.effort = efforts[asked.effort]};
    a.x = x, a.to = to;
    a.encoder = (strip_encoder){
        .kernels = a.kernels, .type = a.type, .importance.column = asked.importance, .settings = &settings};
    return asked.moments ? encode_by_moments(&a, &asked, &callbacks, loss, e)
                         : encode_pieces(&a, asked.threads, &callbacks, loss, e);
}

/* ---- decoding ---- */

static bool decode_piece(void *arg, work_piece *p, gq_error *e) {
    array *a = arg;
    (void)e;
    size_t row = (size_t)p->number * a->rows_of_piece, rows = rows_from(a, row);
    codec_decode_rows(a->codec, a->blocks + row * a->row_bytes, a->cols, a->out + row * a->cols,
                      rows * a->cols);
    note_done(a, p, rows);
    return true;
}

bool gq_decode(uint32_t type, uint64_t rows, uint64_t cols, const void *blocks, size_t bytes, float *x,
               int threads, gq_error *e) {
    array a;
    if (!array_check(&a, type, rows, cols, bytes, e)) return false;
    if (!a.codec->decode) return gq_fail_usage(e, "there is no decoder for %s", a.type->name);
    a.blocks = blocks, a.out = x;
    return run_pieces(&a, threads, 64, NULL, decode_piece, e);
}

/* ---- products ---- */

static bool multiply_piece(void *arg, work_piece *p, gq_error *e) {
    array *a = arg;
    (void)e;
    size_t row = (size_t)p->number * a->rows_of_piece, rows = rows_from(a, row);
    a->codec->dot(a->blocks + row * a->row_bytes, rows, a->cols, &a->vector, a->out + row);
    note_done(a, p, rows);
    return true;
}

bool gq_dot(uint32_t type, uint64_t rows, uint64_t cols, const void *blocks, size_t bytes, const float *x,
            float *out, int threads, gq_error *e) {
    array a;
    if (!array_check(&a, type, rows, cols, bytes, e)) return false;
    if (!a.codec->dot) return gq_fail_usage(e, "there is no product with a vector for %s", a.type->name);
    for (size_t i = 0; i < a.cols; i++)
        if (!(fabsf(x[i]) < 0x1p100f))
            return gq_fail_usage(e, "element %zu of the vector is %g; it must be finite and below 2^100", i,
                                 (double)x[i]);
    float *scratch = malloc(sizeof *scratch * codec_vector_floats(a.cols));
    if (!scratch) return gq_fail_memory(e, sizeof *scratch * codec_vector_floats(a.cols));
    a.blocks = blocks, a.out = out, a.vector = codec_vector_make(x, a.cols, scratch);
    bool ok = run_pieces(&a, threads, 64, NULL, multiply_piece, e);
    free(scratch);
    return ok;
}
