/* Pools of threads in a program that has regions of OpenMP itself. */
#include <omp.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/threads.h"
#include "tests/support/support.h"

enum { INDICES = 1000, THREADS = 3 };

static void count_index(void *data, size_t i, int thread) {
    (void)i, (void)thread;
    atomic_fetch_add((_Atomic int *)data, 1);
}

/* Whether a new pool does all of a loop, and has the threads that it asked for. */
static bool pool_works(int threads) {
    threads_pool *p = threads_pool_new(threads);
    bool ok = true;
    for (int again = 0; again < 3; again++) {
        _Atomic int n = 0;
        threads_for(p, INDICES, 1, count_index, &n);
        ok = ok && n == INDICES;
    }
    ok = ok && threads_pool_count(p).ran == threads;
    threads_pool_free(p);
    return ok;
}

static int region_sum(void) {
    int sum = 0;
#pragma omp parallel for num_threads(THREADS) reduction(+ : sum)
    for (int i = 0; i < INDICES; i++) sum += 1;
    return sum;
}

/* libgomp's regions wait for ever in a child of a process that has had one: the pools of this library are no
 * such thing. This test comes first, before this process has a region. */
TEST(a_child_has_its_own_regions) {
    int status = 1;
    threads_pool *p = threads_pool_new(THREADS);
    _Atomic int n = 0;
    threads_for(p, INDICES, 1, count_index, &n);
    assert_true(pool_works(THREADS));
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        bool ok = region_sum() == INDICES && pool_works(THREADS);
        threads_for(p, INDICES, 1, count_index, &n); /* alone, on the parent's */
        ok = ok && n == 2 * INDICES;
        threads_pool_free(p);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    threads_pool_free(p);
}

TEST(in_a_region) {
    _Atomic int worked = 0;
    for (int again = 0; again < 20; again++) {
#pragma omp parallel num_threads(THREADS)
        {
            if (pool_works(THREADS)) atomic_fetch_add(&worked, 1);
#pragma omp barrier
#pragma omp single
            if (pool_works(THREADS)) atomic_fetch_add(&worked, 1);
        }
    }
    assert_int_equal(worked, 20 * (THREADS + 1));
}

static void body_with_a_region(void *data, size_t i, int thread) {
    (void)i, (void)thread;
    if (region_sum() == INDICES) atomic_fetch_add((_Atomic int *)data, 1);
}

TEST(a_region_in_a_loop) {
    _Atomic int n = 0;
    threads_pool *p = threads_pool_new(THREADS);
    threads_for(p, 100, 1, body_with_a_region, &n);
    threads_pool_free(p);
    assert_int_equal(n, 100);
}

/* What the program has set stays, and does not count for pools. */
TEST(settings_are_the_programs) {
    omp_set_num_threads(2), omp_set_dynamic(1), omp_set_max_active_levels(5);
    assert_true(pool_works(5));
    assert_int_equal(omp_get_max_threads(), 2);
    assert_int_equal(omp_get_dynamic(), 1);
    assert_int_equal(omp_get_max_active_levels(), 5);
    assert_int_equal(omp_get_level(), 0);
    assert_int_equal(region_sum(), INDICES);
}

/* A child of a process that has regions: its pools have threads all the same. */
TEST(a_child_after_regions) {
    int status = 1;
    assert_int_equal(region_sum(), INDICES);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(pool_works(THREADS) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) { return tests_run(NULL, NULL); }
