/* Moments of a site and their root, and what rounding does to outputs: against sums in double precision. */
#include <math.h>

#include "base/checked.h"
#include "study/inputs/inputs.h"
#include "tests/support/codecs.h"
#include "tests/support/tile_model.h"

#ifdef GQ_BLAS /* sums have an order of its own */
enum { SUMS_ARE_BLAS = 1 };
#else
enum { SUMS_ARE_BLAS = 0 };
#endif

enum { N = 300, TOKENS = 600, UNSEEN = 17, STRIDE = TOKENS + 8 };

static float x[N * STRIDE], y[N * STRIDE];
static const hessian_settings plain = {0.05f, 0.25f, 0.5f, false, NULL, NULL};

FIXTURE(fill_activations) {
    static float mixed[TOKENS];
    seed_random(3), fill_normal(mixed, TOKENS, 1);
    for (size_t c = 0; c < N; c++)
        for (size_t t = 0; t < TOKENS; t++) {
            float common = c % 3 ? mixed[t] : 0;
            y[c * STRIDE + t] = c == UNSEEN ? 0 : 0.5f * random_normal() + common;
            x[c * STRIDE + t] = c == UNSEEN ? 0 : 1.1f * y[c * STRIDE + t] + 0.05f * random_normal();
        }
    return 0;
}

static double mean_product(const float *a, const float *b) {
    double sum = 0;
    for (size_t t = 0; t < TOKENS; t++) sum += (double)a[t] * (double)b[t];
    return sum / TOKENS;
}

/* Of the activations, in `calls` calls. */
static cholesky factored(const kernels *k, size_t width, bool both, int threads, size_t calls,
                         hessian_settings settings) {
    gq_error e;
    cholesky f;
    threads_pool *pool = threads_pool_new(threads);
    hessian *m = hessian_new(k, (hessian_shape){N, width, both, 0, 0, MATMUL_FLOAT32}, pool, &e);
    assert_non_null(m);
    for (size_t i = 0, done = 0; i < calls; i++) {
        size_t end = TOKENS * (i + 1) / calls;
        hessian_add(m, both ? x + done : NULL, STRIDE, y + done, STRIDE, end - done);
        done = end;
    }
    assert_true(cholesky_factor(m, settings, &f, &e));
    hessian_free(m);
    threads_pool_free(pool);
    return f;
}

static float in_triangle(const float *a, size_t i, size_t j) {
    return a[feedback_triangle(j / 256) + i * 256 + j % 256];
}

static int square_by_size(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

/* The mean of the squares that are not 0, each at most 4 times their median. */
static double usual_square(size_t first, size_t columns) {
    double squares[N], sum = 0;
    size_t n = 0;
    for (size_t c = first; c < first + columns; c++)
        if (c != UNSEEN) squares[n++] = mean_product(y + c * STRIDE, y + c * STRIDE);
    qsort(squares, n, sizeof *squares, square_by_size);
    for (size_t i = 0; i < n; i++) sum += fmin(squares[i], 4 * squares[n / 2]);
    return sum / (double)n;
}

/* R R^T is H, damped and shrunk; D is as it was seen. */
static void check_run(const feedback_hessian *run, size_t first, size_t columns, bool both, bool by_mean) {
    double mean = 0, usual = usual_square(first, columns);
    assert_int_equal(run->columns, columns);
    for (size_t c = first; c < first + columns; c++)
        mean += mean_product(y + c * STRIDE, y + c * STRIDE) / (double)columns;
    for (size_t i = 0; i < columns; i++)
        for (size_t j = i; j < columns; j++) {
            const float *yi = y + (first + i) * STRIDE, *yj = y + (first + j) * STRIDE;
            double h = mean_product(yi, yj), found = 0;
            h = i != j ? 0.75 * h : h + 0.05 * (by_mean ? mean : h + 1e-3 * usual);
            for (size_t k = j; k < columns; k++)
                found += (double)in_triangle(run->cholesky, i, k) * (double)in_triangle(run->cholesky, j, k);
            if (fabs(found - h) > 1e-5 * mean) fail_msg("H at %zu, %zu is %g, not %g", i, j, found, h);
            if (i / 256 == j / 256) {
                float a = run->diagonal[i * 256 + j % 256], b = run->diagonal[j * 256 + i % 256];
                assert_true(a == b && fabs((double)a - h) < 3e-6 * mean);
            }
        }
    for (size_t i = 0; both && i < columns; i++)
        for (size_t j = 0; j < columns; j++) {
            const float *yj = y + (first + j) * STRIDE;
            double d =
                mean_product(x + (first + i) * STRIDE, yj) - mean_product(y + (first + i) * STRIDE, yj);
            float found =
                run->gptaq_d[feedback_square(columns, j / 256) + i / 256 * 65536 + j % 256 * 256 + i % 256];
            if (fabs((double)found - d) > 3e-6 * mean) fail_msg("D at %zu, %zu", i, j);
        }
}

TEST(roots_are_of_the_moments) {
    for (int both = 0; both < 2; both++) {
        cholesky f = factored(kernels_select(), N, both, 2, 5, plain);
        assert_int_equal(f.n_runs, 1);
        assert_int_equal(f.tokens, TOKENS);
        assert_int_equal(f.unseen, 1);
        assert_true(f.damp == plain.damp && f.runs->gptaq_a == 0.5f);
        check_run(f.runs, 0, N, both, false);
        for (size_t c = 0; c < N; c++) /* no feedback from it or to it */
            if (c != UNSEEN &&
                in_triangle(f.runs->cholesky, c < UNSEEN ? c : UNSEEN, c < UNSEEN ? UNSEEN : c) != 0)
                fail_msg("the unseen column meets column %zu", c);
        assert_true(!f.runs->gptaq_d == !both);
        cholesky_free(&f);
    }
}

TEST(blocks_of_the_diagonal) {
    cholesky f = factored(kernels_select(), 256, true, 2, 1, plain);
    assert_int_equal(f.n_runs, 2);
    check_run(&f.runs[0], 0, 256, true, false), check_run(&f.runs[1], 256, N - 256, true, false);
    cholesky_free(&f);
    hessian_settings by_mean = plain;
    by_mean.mean_damping = true;
    f = factored(kernels_select(), N, true, 2, 1, by_mean);
    check_run(f.runs, 0, N, true, true);
    cholesky_free(&f);
}

static void same_bits(const cholesky *a, const cholesky *b, const char *what) {
    for (size_t i = 0; i < a->n_runs; i++) {
        size_t strips = feedback_strips(a->runs[i].columns);
        if (memcmp(a->runs[i].cholesky, b->runs[i].cholesky, 4 * feedback_triangle(strips)) ||
            memcmp(a->runs[i].diagonal, b->runs[i].diagonal, 4 * 65536 * strips) ||
            memcmp(a->runs[i].gptaq_d, b->runs[i].gptaq_d, 4 * 65536 * strips * strips))
            fail_msg("hessian differ with %s", what);
    }
}

/* Not on calls or threads either. */
TEST(bits_do_not_depend_on_the_level) {
    if (SUMS_ARE_BLAS) skip();
    cholesky before = {.n_runs = 0};
    EACH_LEVEL(k) {
        cholesky one = factored(k, N, true, 1, 1, plain), many = factored(k, N, true, 3, 7, plain);
        same_bits(&one, &many, "threads or calls");
        if (before.n_runs) same_bits(&before, &one, kernels_name(k));
        cholesky_free(&many), cholesky_free(&before);
        if (fuses(k))
            before = one;
        else
            cholesky_free(&one);
    }
    cholesky_free(&before);
}

/* Columns that are copies of each other have no root without damping; ten times as much is tried. */
TEST(damping_grows_until_there_is_a_root) {
    static float same[64 * TOKENS];
    gq_error e;
    cholesky f;
    for (size_t i = 0; i < 64 * TOKENS; i++) same[i] = y[i % TOKENS];
    for (int broken = 0; broken < 2; broken++) {
        hessian *m =
            hessian_new(kernels_select(), (hessian_shape){64, 64, false, 0, 0, MATMUL_FLOAT32}, NULL, &e);
        assert_true(cholesky_factor(m, HESSIAN_DEFAULT, &f, &e)); /* of no token */
        assert_true(f.n_runs == 0 && f.tokens == 0);
        if (broken) same[5 * TOKENS + 3] = 3e38f; /* its square is infinite: there is none at all */
        hessian_add(m, NULL, 0, same, TOKENS, TOKENS);
        assert_true(cholesky_factor(m, (hessian_settings){1e-9f, 0, -1, false, NULL, NULL}, &f, &e));
        assert_int_equal(f.n_runs, !broken);
        assert_true(broken ? f.damp == 1 : f.damp > 2e-9f && f.damp < 1e-2f);
        cholesky_free(&f), hessian_free(m);
    }
}

TEST(little_text_corrects_little) {
    assert_true(hessian_gptaq_a(3000, 1000) == 0.5f);
    assert_true(hessian_gptaq_a(0, 1000) == 0);
    assert_true(hessian_gptaq_a(1 << 20, 16) > 0.999f);
    cholesky f = factored(kernels_select(), 256, true, 1, 1, HESSIAN_DEFAULT);
    assert_true(f.runs[0].gptaq_a == hessian_gptaq_a(TOKENS, 256));
    assert_true(f.runs[1].gptaq_a == hessian_gptaq_a(TOKENS, N - 256));
    cholesky_free(&f);
}

/* Returns the most bytes from hessian_new to the end of cholesky_factor. */
static uint64_t peak_of(hessian_shape s) {
    memory_ledger l = {.counts = true};
    memory_hold(&l, hessian_bytes(s));
    cholesky_count_memory(s, &l);
    return l.peak;
}

/* H, D and the root of H as floats, and little else: of the widest matrices 8 bytes per pair of columns. */
TEST(memory_is_eight_bytes_per_pair) {
    hessian_shape wide = {.columns = 14336, .width = 14336, .two_streams = true},
                  blocks = {.columns = 14336, .width = 4096, .two_streams = true},
                  one = {.columns = 14336, .width = 14336};
    double pairs = 14336.0 * 14336, in_blocks = 3 * 4096.0 * 4096 + 2048.0 * 2048;
    double all = (double)peak_of(wide);
    double cut = (double)peak_of(blocks);
    double alone = (double)peak_of(one);
    assert_true(all > 8 * pairs && all < 8.5 * pairs);
    assert_true(cut > 8 * in_blocks && cut < 8 * in_blocks + 0.5 * pairs);
    assert_true(alone > 4 * pairs && alone < 4.5 * pairs);
    assert_true(hessian_bytes((hessian_shape){SIZE_MAX, SIZE_MAX, true, 0, 0, MATMUL_FLOAT32}) == UINT64_MAX);
    assert_true(peak_of((hessian_shape){SIZE_MAX, SIZE_MAX, true, 0, 0, MATMUL_FLOAT32}) == UINT64_MAX);
}

/* ---- groups of tokens ---- */

enum { LONG = 1500, LONG_STRIDE = LONG + 4, SOME = 40, LACKING = 300 };
static float long_x[SOME * LONG_STRIDE], many_y[SOME * LONG_STRIDE], lacked[LACKING * LONG_STRIDE];

/* A chain per group, then one over groups: of (x - y) y^T, or of y y^T. */
static float sum_in_groups(const float *a, const float *b, const float *times, size_t group) {
    float total = 0;
    for (size_t begin = 0; begin < LONG; begin += group) {
        float chain = 0;
        for (size_t t = begin; t < begin + group && t < LONG; t++)
            chain = fmaf(b ? a[t] - b[t] : a[t], times[t], chain);
        total += chain;
    }
    return total;
}

/* Adds all tokens, `step` of them at a time. */
static void add_in_groups(hessian *m, const float *from, size_t group, size_t step) {
    for (size_t at = 0, n; at < LONG; at += n) {
        size_t end = (at / group + 1) * group;
        n = end - at < step ? end - at : step;
        if (n > LONG - at) n = LONG - at;
        hessian_add(m, from + at, LONG_STRIDE, many_y + at, LONG_STRIDE, n);
        if (at + n == end) hessian_end_group(m);
    }
}

/* What is lacking has more features than y has columns. */
static void check_lacking(const kernels *k, size_t group, int threads, size_t step) {
    gq_error e;
    cholesky f;
    threads_pool *pool = threads_pool_new(threads);
    hessian *m = hessian_new(k, (hessian_shape){SOME, SOME, false, group, LACKING, MATMUL_FLOAT32}, pool, &e);
    assert_non_null(m);
    add_in_groups(m, lacked, group, step);
    assert_true(cholesky_factor(m, plain, &f, &e));
    assert_null(f.runs->gptaq_d);
    for (size_t c = 0; c < SOME; c++)
        for (size_t r = 0; r < LACKING; r++) {
            float got = f.runs->gptaq_p[r / 256 * 256 * 256 + c * 256 + r % 256],
                  wanted = (float)((double)sum_in_groups(many_y + c * LONG_STRIDE, NULL,
                                                         lacked + r * LONG_STRIDE, group) /
                                   LONG);
            if (got != wanted)
                fail_msg("groups of %zu: P at %zu, %zu is %a, not %a", group, r, c, (double)got,
                         (double)wanted);
        }
    cholesky_free(&f), hessian_free(m);
    threads_pool_free(pool);
}

static void check_groups(const kernels *k, size_t group, int threads, size_t step) {
    gq_error e;
    cholesky f;
    float squares[SOME];
    threads_pool *pool = threads_pool_new(threads);
    hessian *m = hessian_new(k, (hessian_shape){SOME, SOME, true, group, 0, MATMUL_FLOAT32}, pool, &e);
    assert_non_null(m);
    add_in_groups(m, long_x, group, step);
    hessian_mean_squares(m, squares);
    assert_true(cholesky_factor(m, plain, &f, &e));
    const float *d = f.runs->gptaq_d;
    for (size_t i = 0; i < SOME; i++) {
        const float *yi = many_y + i * LONG_STRIDE, *xi = long_x + i * LONG_STRIDE;
        float square = (float)((double)sum_in_groups(yi, NULL, yi, group) / LONG);
        if (squares[i] != square)
            fail_msg("groups of %zu: the mean square of column %zu is %a, not %a", group, i,
                     (double)squares[i], (double)square);
        for (size_t j = 0; j < SOME; j++) {
            const float *yj = many_y + j * LONG_STRIDE;
            float wanted = (float)((double)sum_in_groups(xi, yi, yj, group) / LONG);
            if (d[j * 256 + i] != wanted)
                fail_msg("groups of %zu: D at %zu, %zu is %a, not %a", group, i, j, (double)d[j * 256 + i],
                         (double)wanted);
        }
    }
    cholesky_free(&f), hessian_free(m);
    threads_pool_free(pool);
}

/* Each bit is that of a chain per group and one over the groups: whatever the calls, the threads and the
 * level are, where groups are short, of the length that all may wait, and longer. */
TEST(sums_have_the_order_of_groups) {
    if (SUMS_ARE_BLAS) skip();
    static const size_t groups[] = {100, 256, 300, 512, 513, 700, 1100, 2000};
    for (size_t i = 0; i < SOME * LONG_STRIDE; i++)
        many_y[i] = random_normal() + 0.3f, long_x[i] = many_y[i] + 0.1f * random_normal();
    for (size_t i = 0; i < LACKING * LONG_STRIDE; i++) lacked[i] = random_normal();
    EACH_LEVEL(k)
    for (size_t i = 0; fuses(k) && i < sizeof groups / sizeof *groups; i++) {
        check_groups(k, groups[i], 1, LONG);
        check_groups(k, groups[i], 3, 77);
        if (i % 3 == 1) check_lacking(k, groups[i], 2, 77);
    }
}

/* Of many tokens, too, and far from zero, float32 is enough. */
TEST(long_sums_are_near) {
    enum { FEW = 16, MANY = 20000 };
    static float long_y[FEW * MANY];
    gq_error e;
    cholesky f;
    hessian *m =
        hessian_new(kernels_select(), (hessian_shape){FEW, FEW, false, 0, 0, MATMUL_FLOAT32}, NULL, &e);
    for (size_t i = 0; i < FEW * MANY; i++) long_y[i] = random_normal() + (i / MANY == 3 ? 30 : 0.5f);
    hessian_add(m, NULL, 0, long_y, MANY, MANY);
    assert_true(cholesky_factor(m, (hessian_settings){0, 0, -1, false, NULL, NULL}, &f, &e));
    for (size_t i = 0; i < FEW; i++)
        for (size_t j = 0; j < FEW; j++) {
            double h = 0, ii = 0, jj = 0;
            for (size_t t = 0; t < MANY; t++) {
                double a = (double)long_y[i * MANY + t], b = (double)long_y[j * MANY + t];
                h += a * b / MANY, ii += a * a / MANY, jj += b * b / MANY;
            }
            assert_true(fabs((double)f.runs->diagonal[i * 256 + j] - h) < 1e-5 * sqrt(ii * jj));
        }
    cholesky_free(&f), hessian_free(m);
}

/* ---- groups ---- */

static size_t some_number(uint32_t *state, size_t most) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % most + 1;
}

/* Tokens of the i-th group. */
typedef size_t group_size(size_t i, uint32_t *state);

static size_t of_all_sizes(size_t i, uint32_t *state) {
    return some_number(state, i % 7 == 6 ? HESSIAN_TOKENS : 70);
}
/* As many as may wait, where shorter ones wait already. */
static size_t as_long_as_may_wait(size_t i, uint32_t *state) {
    return i % 3 ? HESSIAN_TOKENS : some_number(state, 70);
}
/* As many groups as may wait. */
static size_t of_one_place(size_t i, uint32_t *state) { return (void)i, some_number(state, 32); }

/* Of groups of some sizes, in calls of all sizes. alone: each group is settled before the next one begins. */
static cholesky of_groups(const hessian_shape shape, group_size *size, bool alone) {
    gq_error e;
    cholesky f;
    float squares[N];
    threads_pool *pool = threads_pool_new(2);
    hessian *m = hessian_new(kernels_select(), shape, pool, &e);
    assert_non_null(m);
    uint32_t state = 11;
    for (size_t group = 0, done = 0; done < 3 * TOKENS; group++) {
        size_t left = size(group, &state);
        for (size_t n; left > 0; left -= n, done += n) {
            size_t at = done % TOKENS;
            n = min(min(some_number(&state, 90), left), TOKENS - at);
            hessian_add(m, x + at, STRIDE, y + at, STRIDE, n);
        }
        hessian_end_group(m);
        if (group % 3 == 0) hessian_end_group(m); /* of no tokens */
        if (alone) hessian_mean_squares(m, squares);
    }
    assert_true(cholesky_factor(m, plain, &f, &e));
    hessian_free(m);
    threads_pool_free(pool);
    return f;
}

/* Compares all blocks' roots, and D or P. */
static void check_waiting(const hessian_shape shape, group_size *size) {
    cholesky a = of_groups(shape, size, true), b = of_groups(shape, size, false);
    assert_int_equal(a.tokens, b.tokens);
    assert_int_equal(a.n_runs, ceil_div(N, shape.width));
    assert_int_equal(b.n_runs, a.n_runs);
    for (size_t i = 0; i < a.n_runs; i++) {
        const feedback_hessian *of_a = &a.runs[i], *of_b = &b.runs[i];
        size_t columns = of_a->columns, rows = shape.residual_features ? shape.residual_features : columns;
        assert_memory_equal(of_a->cholesky, of_b->cholesky,
                            feedback_triangle(feedback_strips(columns)) * sizeof(float));
        assert_memory_equal(shape.residual_features ? of_a->gptaq_p : of_a->gptaq_d,
                            shape.residual_features ? of_b->gptaq_p : of_b->gptaq_d,
                            feedback_padded(rows) * feedback_padded(columns) * sizeof(float));
    }
    cholesky_free(&a), cholesky_free(&b);
}

TEST(groups_that_wait_together_are_added_one_by_one) {
    static group_size *const sizes[] = {of_all_sizes, as_long_as_may_wait, of_one_place};
    for (int bf16 = SUMS_ARE_BLAS; bf16 < 2; bf16++) /* those in bf16 are ours */
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            matmul_arithmetic arithmetic = bf16 ? MATMUL_BF16 : MATMUL_FLOAT32;
            check_waiting((hessian_shape){N, N, true, 0, 0, arithmetic}, sizes[i]);
            check_waiting((hessian_shape){N, N, false, 0, 40, arithmetic}, sizes[i]);
            check_waiting((hessian_shape){N, 256, true, 0, 0, arithmetic}, sizes[i]); /* in two blocks */
        }
}

/* ---- outputs ---- */

TEST(outputs_are_compared) {
    enum { ROWS = 250 };
    static float w[ROWS * N], q[ROWS * N];
    gq_error e;
    double power = 0, error[2] = {0};
    output_errors first = {0};
    fill_normal(w, ROWS * N, 1);
    for (size_t i = 0; i < ROWS * N; i++) q[i] = w[i] + 0.1f * random_normal();
    for (size_t r = 0; r < ROWS; r++)
        for (size_t t = 0; t < TOKENS; t++) {
            double wanted = 0, got[2] = {0};
            for (size_t c = 0; c < N; c++) {
                wanted += (double)w[r * N + c] * (double)x[c * STRIDE + t];
                got[0] += (double)q[r * N + c] * (double)y[c * STRIDE + t];
                got[1] += (double)w[r * N + c] * (double)y[c * STRIDE + t];
            }
            power += wanted * wanted;
            for (int i = 0; i < 2; i++) error[i] += (wanted - got[i]) * (wanted - got[i]);
        }
    for (int threads = 1; threads <= 2; threads++) {
        threads_pool *pool = threads_pool_new(threads);
        matmul *m = matmul_new(kernels_select(), pool, &e);
        matmul_weights of_w = {w, GGUF_F32, ROWS, N}, of_q = {q, GGUF_F32, ROWS, N};
        output_side original = {of_w, x, STRIDE, NULL, NULL},
                    rounded[2] = {{of_q, y, STRIDE, NULL, NULL}, {of_w, y, STRIDE, NULL, NULL}};
        output_errors spans[(ROWS + OUTPUT_SPAN - 1) / OUTPUT_SPAN] = {0}, sums = {0};
        assert_true(output_compare(m, &original, rounded, 2, TOKENS, spans, &e));
        output_errors_add(&sums, spans, sizeof spans / sizeof *spans);
        assert_true(fabs(sums.power - power) < 1e-5 * power);
        for (int i = 0; i < 2; i++) assert_true(fabs(sums.error[i] - error[i]) < 1e-4 * error[i]);
        if (threads == 1) first = sums;
        if (!SUMS_ARE_BLAS) assert_memory_equal(&first, &sums, sizeof sums);
        matmul_free(m);
        threads_pool_free(pool);
    }
}

/* What tiles would make of a column's squares: a chain for each group of tokens, in steps of 32 of its
 * tokens. */
static float squares_by_tiles(size_t c) {
    enum { STEP = MATMUL_BF16_GROUP };
    float total = 0;
    for (size_t first = 0; first < TOKENS; first += HESSIAN_TOKENS) {
        float sum = 0;
        for (size_t t = first; t < first + HESSIAN_TOKENS && t < TOKENS; t += STEP) {
            uint16_t part[STEP] = {0};
            for (size_t i = 0; i < STEP && t + i < TOKENS; i++)
                part[i] = tile_model_part(y[c * STRIDE + t + i]);
            sum = tile_model_output(part, part, 2, STEP / 2, sum);
        }
        total += sum;
    }
    return (float)((double)total / TOKENS);
}

/* In bf16 Hessians are those of tiles, bit by bit, at every level, and depend neither on calls nor on threads.
 */
TEST(moments_in_bf16) {
    static const size_t pieces[] = {TOKENS, 31, 100};
    float squares[N], expected[N];
    gq_error e;
    for (size_t c = 0; c < N; c++) expected[c] = squares_by_tiles(c);
    for (size_t l = 0; kernels_level_name(l); l++) {
        const kernels *k = kernels_level(kernels_level_name(l));
        for (size_t i = 0; k && i < 3; i++) {
            threads_pool *pool = threads_pool_new(1 + (int)i);
            hessian_shape shape = {.columns = N, .width = N, .two_streams = true, .arithmetic = MATMUL_BF16};
            hessian *m = hessian_new(k, shape, pool, &e);
            for (size_t t = 0, n; t < TOKENS; t += n) {
                n = TOKENS - t < pieces[i] ? TOKENS - t : pieces[i];
                hessian_add(m, x + t, STRIDE, y + t, STRIDE, n);
            }
            hessian_mean_squares(m, squares);
            assert_memory_equal(squares, expected, sizeof squares);
            hessian_free(m), threads_pool_free(pool);
        }
    }
}

int main(void) { return tests_run(fill_activations, NULL); }
