/* The codecs for arrays in memory: array_encode (gq_encode of the public header), gq_decode and gq_dot. A
 * call checks type and sizes first. Then it cuts the rows into pieces, each of whole batches of rows and
 * about a strip long, and threads take the pieces in order. A piece's result depends on its own rows alone,
 * and error sums are added in the order of pieces; so neither bytes nor figures depend on the number of
 * threads. Rows are encoded by strip_encode (quantize/strips/strip.c), or, where the caller gives a Hessian,
 * by the encoder that is handed in. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/fail.h"
#include "base/sized.h"
#include "codec/vector.h"
#include "quantize/arrays/arrays.h"
#include "quantize/quantize.h"

/* ---- shapes ---- */

bool gq_array_bytes(uint32_t type, uint64_t rows, uint64_t cols, size_t *bytes, gq_error *e) {
    const tensor_type *t = tensor_type_of(type);
    uint64_t n, floats;
    if (!t) return gq_fail_usage(e, "unknown tensor type %u", type);
    if (cols == 0 || cols % t->block_elements != 0)
        return gq_fail_usage(e, "rows of %llu columns, expected a multiple of %u for %s", LLU(cols),
                             t->block_elements, t->name);
    if (!gguf_fits_row(t, cols))
        return gq_fail_usage(e, "rows of %llu columns, expected at most %d for %s", LLU(cols),
                             GGUF_HEADERED_COLUMNS, t->name);
    if (__builtin_mul_overflow(rows, cols, &n) || __builtin_mul_overflow(n, sizeof(float), &floats) ||
        !gguf_rows_fit(t, cols, rows, PTRDIFF_MAX) || floats > PTRDIFF_MAX)
        return gq_fail_usage(e, "%llu rows of %llu columns are more than memory can hold", LLU(rows),
                             LLU(cols));
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
    const array_rounding *rounding; /* used instead of `encoder` where a Hessian is given; NULL: none is */
    void *rounder;                  /* opened by it */
    codec_vector vector;
    codec_error *errors; /* one per piece */
} array;

static bool array_check(array *a, uint32_t type, uint64_t rows, uint64_t cols, size_t given, gq_error *e) {
    size_t bytes = 0;
    if (!gq_array_bytes(type, rows, cols, &bytes, e)) return false;
    *a = (array){.kernels = strip_kernels(e), .type = tensor_type_of(type)};
    if (!a->kernels) return false;
    if (given != bytes)
        return gq_fail_usage(e, "%zu bytes of blocks, expected %zu for %llu rows of %llu columns as %s",
                             given, bytes, LLU(rows), LLU(cols), a->type->name);
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
        bad = a->rounder ? a->rounding->encode(a->rounder, x, rows, to, p->scratch, sum)
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
        if (a->rounder || a->encoder.importance) loss->wx2 += s->wx2, loss->we2 += s->we2;
        if ((double)s->max_e > loss->max_error) loss->max_error = (double)s->max_e;
    }
}

static bool encode_pieces(array *a, int threads, const gq_callbacks *callbacks, gq_loss *loss, gq_error *e) {
    size_t scratch = a->rounder ? a->rounding->scratch_bytes(a->rounder) : sizeof(float) * STRIP_ELEMENTS;
    a->errors = calloc(array_pieces(a) + 1, sizeof *a->errors);
    if (!a->errors) return gq_fail_memory(e, array_pieces(a) * sizeof *a->errors);
    bool ok = run_pieces(a, threads, scratch, callbacks, array_encode_piece, e);
    if (ok && loss) array_sum_loss(a, loss);
    free(a->errors);
    return ok;
}

static bool encode_by_hessian(array *a, const gq_array_options *o, const gq_callbacks *callbacks,
                              gq_loss *loss, gq_error *e) {
    if (!a->rounding)
        return gq_fail_usage(e,
                             "encoding by a Hessian needs a forward pass's products, and " RUNNERS_MISSING);
    if (o->importance) return gq_fail_usage(e, "give importance or a Hessian, not both");
    if (!a->codec->columnwise)
        return gq_fail_usage(e,
                             "%s stores each weight separately, so a Hessian has no effect; expected a type "
                             "with blocks, such as Q4_K",
                             a->type->name);
    a->rounder = a->rounding->open(&a->encoder, a->cols, o, e);
    if (!a->rounder) return false;
    a->rows_of_piece = a->rounding->rows;
    bool ok = encode_pieces(a, o->threads, callbacks, loss, e);
    a->rounding->close(a->rounder);
    return ok;
}

bool array_encode(uint32_t type, uint64_t rows, uint64_t cols, const float *x,
                  const gq_array_options *options, void *to, size_t bytes, const array_rounding *rounding,
                  gq_loss *loss, gq_error *e) {
    static const codec_effort efforts[] = {
        [GQ_EFFORT_DEFAULT] = EFFORT_DEFAULT, [GQ_EFFORT_FAST] = EFFORT_FAST, [GQ_EFFORT_BEST] = EFFORT_BEST};
    array a;
    gq_array_options asked;
    gq_callbacks callbacks;
    if (!SIZED_TAKE(asked, options, e) || !SIZED_TAKE(callbacks, asked.callbacks, e) ||
        !array_check(&a, type, rows, cols, bytes, e) || !check_importance(asked.importance, a.cols, e))
        return false;
    if (asked.effort < 0 || (size_t)asked.effort >= sizeof efforts / sizeof *efforts)
        return gq_fail_usage(e, "effort %d, expected 0 (default), 1 (fast) or 2 (best)", asked.effort);
    if (!a.codec->encode) return gq_fail_usage(e, "no encoder for %s", a.type->name);
    const encode_settings settings = {.effort = efforts[asked.effort]};
    a.x = x, a.to = to, a.rounding = rounding;
    a.encoder = (strip_encoder){
        .kernels = a.kernels, .type = a.type, .importance = asked.importance, .settings = &settings};
    return asked.hessian ? encode_by_hessian(&a, &asked, &callbacks, loss, e)
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
    if (!a.codec->decode) return gq_fail_usage(e, "no decoder for %s", a.type->name);
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
    if (!a.codec->dot) return gq_fail_usage(e, "no vector product for %s", a.type->name);
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
