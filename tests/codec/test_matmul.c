/* Products of matrices: against sums in double precision, and the same bits for every number of threads and
 * at every level that fuses. */
#include <math.h>

#include "codec/codec.h"
#include "forward/products/matmul.h"
#include "tests/support/codecs.h"

#ifdef GQ_BLAS /* sums in an order of its own */
enum { OUR_ORDER = false };
#else
enum { OUR_ORDER = true };
#endif
static const float UNTOUCHED = 77;

static float *floats(size_t n) {
    float *x = aligned_alloc(64, (4 * n + 63) / 64 * 64);
    for (size_t i = 0; i < n; i++) x[i] = random_uniform();
    return x;
}

/* What a product should be: w(row, column) at w[row * stride + column]. */
typedef struct expected {
    const float *w, *x;
    size_t w_stride, x_stride, columns;
} expected;

/* One rounding (or two) per column, each at most half a unit of a partial sum. */
static void check_element(const expected *e, size_t row, size_t token, float y, const char *what) {
    double sum = 0, magnitude = 0;
    for (size_t c = 0; c < e->columns; c++) {
        double product = (double)e->w[row * e->w_stride + c] * (double)e->x[c * e->x_stride + token];
        sum += product, magnitude += fabs(product);
    }
    double bound = (double)(e->columns + 2) * 0x1p-24 * magnitude;
    if (!(fabs((double)y - sum) <= bound))
        fail_msg("%s: row %zu, token %zu is %a, not %a +- %a", what, row, token, (double)y, sum, bound);
}

/* ---- weights as stored ---- */
typedef struct stored {
    matmul_weights weights;
    float *decoded; /* rows x columns */
} stored;

static stored make_weights(uint32_t id, size_t rows, size_t columns) {
    const tensor_type *type = tensor_type_of(id);
    const codec *c = &kernels_select()->codecs[id];
    size_t bytes = gguf_row_bytes(type, columns);
    uint8_t *data = malloc(rows * bytes);
    float *decoded = malloc(4 * rows * columns);
    for (size_t r = 0; r < rows; r++) {
        float *row = decoded + r * columns;
        uint8_t *blocks = data + r * bytes;
        fill_normal(row, columns, 0.5f);
        if (c->encode)
            c->encode(row, blocks, 1, columns, NULL, &(encode_settings){EFFORT_FAST, 0});
        else
            for (size_t i = 0; i < bytes; i++) blocks[i] = (uint8_t)(next_random() >> 32);
        for (size_t i = 0; i < bytes && !c->encode; i += type->block_bytes) /* a scale that is no NaN */
            memcpy(blocks + i, id == GGUF_Q8_K ? "\x6f\x12\x83\x3b" : "\x00\x20\x00\x20", 4);
        assert_true(reference_decode(id, blocks, row, columns));
    }
    return (stored){{data, id, rows, columns}, decoded};
}
static void free_weights(stored *s) { free((void *)(uintptr_t)s->weights.data), free(s->decoded); }

/* Every level and several numbers of threads; what is behind the tokens stays as it was. */
static void check_weights(const stored *s, size_t tokens, size_t pad) {
    const matmul_weights *w = &s->weights;
    const char *name = tensor_type_name(w->type);
    size_t stride = tokens + pad, n = w->rows * stride;
    float *x = floats(w->columns * stride), *y = malloc(4 * n), *first = NULL;
    expected e = {s->decoded, x, w->columns, stride, w->columns};
    EACH_LEVEL(k) {
        float *of_level = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            gq_error error;
            threads_pool *pool = threads_pool_new(threads);
            matmul *m = matmul_new(k, pool, &error);
            assert_non_null(m);
            for (size_t i = 0; i < n; i++) y[i] = UNTOUCHED;
            matmul_run(m, w, x, stride, y, stride, tokens);
            for (size_t r = 0; r < w->rows; r++)
                for (size_t t = tokens; t < stride; t++) assert_true(y[r * stride + t] == UNTOUCHED);
            matmul_free(m);
            threads_pool_free(pool);
            if (!of_level) {
                for (size_t i = 0; i < 200; i++) {
                    size_t r = next_random() % w->rows, t = next_random() % tokens;
                    check_element(&e, r, t, y[r * stride + t], name);
                }
                of_level = malloc(4 * n), memcpy(of_level, y, 4 * n);
            } else if (memcmp(of_level, y, 4 * n))
                fail_msg("%s, %zu tokens: %s differs with %d threads", name, tokens, kernels_name(k),
                         threads);
        }
        if (first && OUR_ORDER && memcmp(first, of_level, 4 * n))
            fail_msg("%s, %zu tokens: %s differs from a level below", name, tokens, kernels_name(k));
        if (fuses(k) && !first)
            first = of_level;
        else
            free(of_level);
    }
    free(x), free(y), free(first);
}

TEST(weights_of_every_type) {
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        if (!tensor_type_of(id) || !kernels_select()->codecs[id].decode) continue;
        stored s = make_weights(id, 41, 1536);
        check_weights(&s, 37, 11);
        free_weights(&s);
    }
}

TEST(weights_of_odd_shapes) {
    static const struct {
        size_t rows, columns, tokens, pad;
    } shapes[] = {{1, 1, 1, 0},       {1, 5000, 16, 0},  {2, 3, 16, 16},  {300, 7, 1, 15},   {12, 64, 512, 0},
                  {13, 513, 33, 3},   {97, 700, 64, 0},  {6, 31, 95, 1},  {500, 512, 48, 0}, {11, 1025, 2, 0},
                  {250, 100, 700, 4}, {2, 6001, 700, 0}, {3, 40, 2100, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        stored s = make_weights(i % 2 ? GGUF_F16 : GGUF_F32, shapes[i].rows, shapes[i].columns);
        check_weights(&s, shapes[i].tokens, shapes[i].pad);
        free_weights(&s);
    }
}

/* ---- floats, by one thread ---- */
static void check_product(matmul_product p) {
    size_t w_rows = p.transposed ? p.columns : p.rows, n = p.rows * p.y_stride;
    float *w = floats(w_rows * p.w_stride), *x = floats(p.columns * p.x_stride), *y = malloc(4 * n),
          *first = malloc(4 * n);
    float *upright = malloc(4 * p.rows * p.columns);
    for (size_t r = 0; r < p.rows; r++)
        for (size_t c = 0; c < p.columns; c++)
            upright[r * p.columns + c] = p.transposed ? w[c * p.w_stride + r] : w[r * p.w_stride + c];
    expected e = {upright, x, p.columns, p.x_stride, p.columns};
    bool have_first = false;
    EACH_LEVEL(k) {
        gq_error error;
        threads_pool *pool = threads_pool_new(2);
        matmul *m = matmul_new(k, pool, &error);
        assert_non_null(m);
        for (size_t i = 0; i < n; i++) y[i] = UNTOUCHED;
        p.w = w, p.x = x, p.y = y;
        matmul_within(m, 1, &p);
        matmul_free(m);
        threads_pool_free(pool);
        for (size_t r = 0; r < p.rows; r++)
            for (size_t t = p.tokens; t < p.y_stride; t++) assert_true(y[r * p.y_stride + t] == UNTOUCHED);
        for (size_t r = 0; r < p.rows; r++)
            for (size_t t = 0; t < p.tokens; t++)
                if ((r + 7 * t) % 13 == 0) check_element(&e, r, t, y[r * p.y_stride + t], kernels_name(k));
        if (have_first && OUR_ORDER) assert_memory_equal(first, y, 4 * n);
        if (fuses(k) && !have_first) memcpy(first, y, 4 * n), have_first = true;
    }
    free(w), free(x), free(y), free(first), free(upright);
}

TEST(products_of_floats) {
    static const size_t sizes[][3] = {{64, 64, 64},  {1, 1, 1},       {33, 128, 17},  {512, 64, 70},
                                      {30, 600, 31}, {128, 130, 512}, {170, 40, 170}, {40, 610, 610}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            matmul_product p = {
                .rows = sizes[i][0], .columns = sizes[i][1], .tokens = sizes[i][2], .transposed = transposed};
            p.w_stride = (transposed ? p.rows : p.columns) + 3 * i, p.x_stride = p.tokens + i,
            p.y_stride = p.tokens + i / 2;
            check_product(p);
        }
}

int main(void) { return tests_run(NULL, NULL); }
