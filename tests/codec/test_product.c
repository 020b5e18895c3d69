/* Kernels of another library, which share out their work themselves (forward/products/product.h): here plain C, a
 * stand-in for a BLAS or a device. Each output is the chain that our own kernels make, so all that is
 * multiplied by them has the bits of a level that fuses; and they get matrices as large as those who ask have
 * them. */
#include <math.h>

#include "base/memory.h"
#include "codec/feedback.h"
#include "forward/products/matmul.h"
#include "forward/products/product.h"
#include "study/inputs/inputs.h"
#include "tests/support/codecs.h"

/* ---- the kernels ---- */
static struct { size_t calls, rows, columns, tokens; /* the most of each */ } asked;

static void plain_round(const float *x, size_t n, size_t column, void *row) {
    memcpy((float *)row + column, x, sizeof *x * n);
}
static void plain_pack(const float *x, size_t stride, size_t columns, size_t tokens, void *panel) {
    (void)tokens;
    for (size_t c = 0; c < columns; c++) ((float *)panel)[c] = x[c * stride];
}
static void plain_place(const float *x, size_t n, size_t column, void *panel, size_t token) {
    (void)token;
    plain_round(x, n, column, panel);
}
static product_rows plain_tile(const float *tile, bool transposed, float *scratch) {
    (void)scratch;
    return transposed ? (product_rows){tile, 1, STRIP_COLUMNS} : (product_rows){tile, STRIP_COLUMNS, 1};
}
static void plain_multiply(const product_tile *t) {
    asked.calls++;
    asked.rows = max(asked.rows, t->rows), asked.columns = max(asked.columns, t->columns);
    asked.tokens = max(asked.tokens, t->tokens);
    for (size_t r = 0; r < t->rows; r++)
        for (size_t i = 0; i < t->tokens; i++) {
            const float *w = (const float *)t->w.at + r * t->w.row_stride;
            const float *x = (const float *)t->x + i / t->width * t->x_panel_stride + i % t->width;
            float *y = t->y + i / t->width * t->y_panel_stride + r * t->y_stride + i % t->width,
                  sum = t->add ? *y : 0;
            for (size_t c = 0; c < t->columns; c++)
                sum = fmaf(w[c * t->w.column_stride], x[c * t->panel], sum);
            *y = sum;
        }
}
static const product_kernels plain = {.panel = 1,
                                      .bytes = sizeof(float),
                                      .rows = 1,
                                      .whole = true,
                                      .round = plain_round,
                                      .pack = plain_pack,
                                      .place = plain_place,
                                      .tile = plain_tile,
                                      .multiply = plain_multiply};

static const kernels *level(void) {
    const kernels *k = kernels_select();
    if (!strcmp(kernels_name(k), "x86-64-v2") || !strcmp(kernels_name(k), "generic")) skip();
    memset(&asked, 0, sizeof asked);
    return k;
}

static float *numbers(size_t n) {
    float *x = malloc(sizeof *x * n);
    fill_normal(x, n, 0.5f);
    return x;
}

/* ---- who asks ---- */
TEST(weights_go_in_one_piece) {
    enum { MATRIX_ROWS = 50, COLUMNS = 700, COLUMN_TOKENS = 37, STRIDE = 40 };
    const kernels *k = level();
    gq_error e;
    threads_pool *pool = threads_pool_new(2);
    matmul *m = matmul_new(k, pool, &e);
    float *w = numbers(MATRIX_ROWS * COLUMNS), *x = numbers(COLUMNS * STRIDE);
    float *y = calloc(2 * MATRIX_ROWS * STRIDE, sizeof *y), *other = y + MATRIX_ROWS * STRIDE;
    for (size_t tokens = 1; tokens <= COLUMN_TOKENS; tokens += COLUMN_TOKENS - 1) {
        size_t stride = tokens == 1 ? 1 : STRIDE; /* of a single token x is one row, too */
        matmul_weights of = {w, GGUF_F32, MATRIX_ROWS, COLUMNS};
        m->by = kernels_products(k, MATMUL_FLOAT32);
        matmul_run(m, &of, x, stride, y, stride, tokens);
        m->by = &plain;
        matmul_run(m, &of, x, stride, other, stride, tokens);
        assert_memory_equal(y, other, sizeof *y * MATRIX_ROWS * STRIDE);
    }
    assert_true(asked.calls == 2 && asked.rows == MATRIX_ROWS && asked.columns == COLUMNS);
    matmul_free(m), threads_pool_free(pool);
    free(w), free(x), free(y);
}

enum { N = 608, TOKENS = 300, ROWS = 40 };

/* Of one group, which is added to nothing: others would be added to the total one by one. */
static hessian *moments_by(const kernels *k, const product_kernels *by, const float *x, const float *y) {
    gq_error e;
    hessian *m = hessian_new(k, (hessian_shape){.columns = N, .width = N, .two_streams = true}, NULL, &e);
    assert_non_null(m);
    m->by = by;
    hessian_add(m, x, TOKENS, y, TOKENS, TOKENS);
    hessian_settle(m);
    return m;
}

TEST(moments_go_by_strips) {
    const kernels *k = level();
    float *x = numbers((size_t)N * TOKENS), *y = numbers((size_t)N * TOKENS);
    hessian *ours = moments_by(k, kernels_products(k, MATMUL_FLOAT32), x, y),
            *other = moments_by(k, &plain, x, y);
    size_t strips = feedback_strips(N);
    assert_memory_equal(ours->blocks->triangle, other->blocks->triangle,
                        sizeof *x * feedback_triangle(strips));
    assert_memory_equal(ours->blocks->square, other->blocks->square,
                        sizeof *x * strips * strips * HESSIAN_TILE);
    assert_int_equal(asked.rows, strips * STRIP_COLUMNS);
    hessian_free(ours), hessian_free(other);
    free(x), free(y);
}

static void round_by(const kernels *k, const cholesky *f, const product_kernels *by, const float *w,
                     uint8_t *blocks) {
    feedback_sums sums = {0};
    feedback_task t = {.kernels = k,
                       .type = GGUF_Q8_0,
                       .sweeps = 1,
                       .hessian = f->runs,
                       .n_hessians = f->n_runs,
                       .columns = N,
                       .by = by};
    t.scratch = memory_lines(1, feedback_bytes(k, t.type, N, MATMUL_FLOAT32), NULL);
    codec_feedback(&t, w, ROWS, blocks, &sums);
    free(t.scratch);
}

TEST(a_pass_goes_by_strips) {
    const kernels *k = level();
    gq_error e;
    cholesky f;
    float *x = numbers((size_t)N * TOKENS), *y = numbers((size_t)N * TOKENS), *w = numbers(ROWS * N);
    size_t bytes = ROWS * gguf_row_bytes(tensor_type_of(GGUF_Q8_0), N);
    uint8_t *blocks = malloc(bytes), *others = malloc(bytes);
    hessian *m = moments_by(k, &plain, x, y);
    assert_true(cholesky_factor(m, HESSIAN_DEFAULT, &f, &e) && f.n_runs == 1);
    round_by(k, &f, NULL, w, blocks);
    memset(&asked, 0, sizeof asked);
    round_by(k, &f, &plain, w, others);
    assert_memory_equal(blocks, others, bytes);
    assert_int_equal(asked.columns, (feedback_strips(N) - 1) * STRIP_COLUMNS);
    hessian_free(m), cholesky_free(&f);
    free(x), free(y), free(w), free(blocks), free(others);
}

int main(void) { return tests_run(NULL, NULL); }
