/* Moments when memory runs out: an error each time, nothing lost, and what is made without one is whole. */
#include "study/inputs/inputs.h"
#include "tests/memory/memory.h"
#include "tests/support/codecs.h"

enum { N = 300, TOKENS = 300 };
static float x[N * TOKENS], y[N * TOKENS];
static threads_pool *pool; /* of two */

static bool factor_once(gq_error *e) {
    cholesky f = {.n_runs = 0};
    hessian *m = hessian_new(kernels_select(), (hessian_shape){N, 256, true, 0, 0, MATMUL_FLOAT32}, pool, e);
    if (!m) return false;
    hessian_add(m, x, TOKENS, y, TOKENS, TOKENS);
    bool ok = cholesky_factor(m, HESSIAN_DEFAULT, &f, e);
    assert_int_equal(f.n_runs, ok ? 2 : 0);
    assert_true(ok || !f.runs);
    hessian_free(m), cholesky_free(&f);
    return ok;
}

static bool compare_once(gq_error *e) {
    matmul *m = matmul_new(kernels_select(), pool, e);
    if (!m) return false;
    output_errors sums[(TOKENS + OUTPUT_SPAN - 1) / OUTPUT_SPAN] = {0};
    matmul_weights w = {x, GGUF_F32, TOKENS, N};
    output_side original = {w, x, TOKENS, NULL, NULL}, rounded = {w, y, TOKENS, NULL, NULL};
    bool ok = output_compare(m, &original, &rounded, 1, 16, sums, e);
    matmul_free(m);
    return ok;
}

static void each_allocation_may_fail(bool (*once)(gq_error *e), long least) {
    for (long i = 1;; i++) {
        gq_error e = {.text = ""};
        fail_at = i;
        bool ok = once(&e), failed = fail_at == 0;
        fail_at = 0;
        assert_true(ok == !failed);
        if (ok) {
            assert_true(i > least);
            return;
        }
        assert_non_null(strstr(e.text, "memory"));
    }
}

TEST(moments_report_it) { each_allocation_may_fail(factor_once, 12); }
TEST(outputs_report_it) { each_allocation_may_fail(compare_once, 2); }

static void do_nothing(void *data, size_t i, int thread) { (void)data, (void)i, (void)thread; }

/* A first loop starts the threads: what that allocates may fail, and fewer threads do the work then. */
FIXTURE(start_threads) {
    pool = threads_pool_new(2);
    if (pool) threads_for(pool, 2, THREADS_EVEN, do_nothing, NULL);
    return !pool;
}
FIXTURE(end_threads) {
    threads_pool_free(pool);
    return 0;
}

int main(void) {
    seed_random(1), fill_normal(x, N * TOKENS, 1), fill_normal(y, N * TOKENS, 1);
    return tests_run(start_threads, end_threads);
}
