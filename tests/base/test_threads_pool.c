/* Loops on several threads: each index once, the lowest failure, cancelling, threads that cannot be started,
 * forks. */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/threads.h"
#include "tests/support/support.h"

static int startable = -1; /* so many more; -1: any number */
static int started;

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*enter)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*enter)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*enter)(void *), void *arg) {
    if (startable == 0) return EAGAIN;
    if (startable > 0) startable--;
    started++;
    return __real_pthread_create(t, a, enter, arg);
}

enum { MOST = 1000, MOST_THREADS = 32 };

typedef struct counted {
    int most; /* threads */
    int times[MOST];
    long of_thread[MOST_THREADS]; /* plain numbers: a thread's number is its own */
} counted;

static void count(void *data, size_t i, int thread) {
    counted *c = data;
    assert_true(thread >= 0 && thread < c->most);
    c->times[i]++, c->of_thread[thread]++;
}

static void assert_each_once(threads_pool *p, size_t n, size_t at_once) {
    int most = threads_pool_most(p);
    counted c = {.most = most < MOST_THREADS ? most : MOST_THREADS};
    long all = 0;
    threads_for(p, n, at_once, count, &c);
    for (size_t i = 0; i < MOST; i++) assert_int_equal(c.times[i], i < n);
    for (int i = 0; i < c.most; i++) all += c.of_thread[i];
    assert_int_equal(all, n);
}

TEST(each_index_is_done_once) {
    static const size_t sizes[] = {0, 1, 2, 3, 5, 64, 999, MOST}, shares[] = {THREADS_EVEN, 1, 3, 5000};
    for (int threads = 0; threads <= 5; threads++) {
        threads_pool *p = threads ? threads_pool_new(threads) : NULL;
        assert_int_equal(threads_pool_most(p), threads ? threads : 1);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
                assert_each_once(p, sizes[s], shares[k]);
        threads_pool_free(p);
    }
}

/* Threads between waiting actively, falling asleep and being woken. */
TEST(many_short_loops) {
    threads_pool *p = threads_pool_new(3);
    for (int i = 0; i < 20000; i++) {
        if (i % 1000 == 0) usleep(2000);
        assert_each_once(p, (size_t)(i % 7), 1);
    }
    threads_pool_free(p);
}

/* ---- what can fail ---- */

typedef struct attempt {
    uint64_t fails[3]; /* indices that do */
    uint64_t cancels;  /* once so many are done */
    _Atomic uint64_t done;
    _Atomic bool late_failed; /* a later failure is there already when the first is met */
    uint64_t error[5];        /* of the thread that failed */
    _Atomic uint8_t times[MOST];
} attempt;

static bool try_index(void *data, uint64_t i, int thread) {
    attempt *a = data;
    a->times[i]++;
    for (int k = 0; k < 3; k++) {
        if (i != a->fails[k]) continue;
        /* With others at work the lowest index fails last. */
        for (int wait = 0; k == 0 && thread > 0 && wait < 1000 && !a->late_failed; wait++) sched_yield();
        if (k > 0) a->late_failed = true;
        a->error[thread] = i;
        return false;
    }
    a->done++;
    return true;
}

static bool is_cancelled(void *data) {
    attempt *a = data;
    return a->done >= a->cancels;
}

TEST(the_lowest_failure_is_told) {
    for (int threads = 1; threads <= 5; threads++)
        for (int again = 0; again < 50; again++) {
            attempt a = {.fails = {700, 701, 703}, .cancels = UINT64_MAX};
            threads_pool *p = threads_pool_new(threads);
            threads_outcome o =
                threads_try(p, &(threads_job){100, MOST, try_index, again % 2 ? is_cancelled : NULL, &a});
            threads_pool_free(p);
            assert_int_equal(o.result, THREADS_FAILED);
            assert_int_equal(o.index, 700);
            assert_int_equal(a.error[o.thread], 700);
            for (uint64_t i = 0; i < 700; i++) assert_true(a.times[i] == (i >= 100));
            for (uint64_t i = 701; i < MOST; i++) assert_true(a.times[i] <= (threads > 1));
        }
}

TEST(a_job_is_cancelled) {
    for (int threads = 1; threads <= 3; threads++) {
        attempt a = {.fails = {MOST, MOST, MOST}, .cancels = 300};
        threads_pool *p = threads_pool_new(threads);
        threads_job job = {0, MOST, try_index, is_cancelled, &a};
        assert_int_equal(threads_try(p, &job).result, THREADS_CANCELLED);
        assert_true(a.done >= 300 && a.done < 300 + (uint64_t)threads);
        a.done = 0;
        a.cancels = UINT64_MAX;
        assert_int_equal(threads_try(p, &job).result, THREADS_DONE);
        assert_int_equal(a.done, MOST);
        job.end = 0;
        assert_int_equal(threads_try(p, &job).result, THREADS_DONE);
        threads_pool_free(p);
    }
}

static bool fail_always(void *data, uint64_t i, int thread) {
    (void)data, (void)i, (void)thread;
    return false;
}
static bool cancel_if_failed(void *data) {
    bool *asked = data, before = *asked;
    *asked = true;
    return before;
}

/* A failure says more than that the job was cancelled, too. */
TEST(a_failure_outweighs_cancelling) {
    bool asked = false;
    threads_outcome o = threads_try(NULL, &(threads_job){7, 9, fail_always, cancel_if_failed, &asked});
    assert_true(o.result == THREADS_FAILED && o.index == 7 && o.thread == 0);
}

/* ---- threads ---- */

TEST(threads_are_started_for_work) {
    started = 0;
    threads_pool *p = threads_pool_new(THREADS_MAX);
    assert_each_once(p, 1, 1);
    assert_int_equal(started, 0);
    assert_each_once(p, 3, 1);
    assert_int_equal(started, 2);
    assert_each_once(p, 2, 1);
    assert_int_equal(started, 2);
    threads_count c = threads_pool_count(p);
    assert_true(c.wanted == 3 && c.ran == 3 && !c.error);
    assert_each_once(p, 4, 1);
    c = threads_pool_count(p);
    assert_true(c.wanted == 4 && c.ran == 4 && !c.error);
    assert_each_once(p, 20, 1);
    c = threads_pool_count(p);
    assert_true(c.wanted == 20 && c.ran == 20 && !c.error);
    threads_pool_free(p);
}

TEST(fewer_threads_do_the_work) {
    for (int n = 0; n < 4; n++) {
        threads_pool *p = threads_pool_new(5);
        startable = n;
        assert_each_once(p, MOST, 1);
        assert_each_once(p, MOST, 1);
        startable = -1;
        threads_count c = threads_pool_count(p);
        assert_true(c.wanted == 5 && c.ran == n + 1 && c.error == EAGAIN);
        threads_pool_free(p);
    }
    assert_int_equal(threads_pool_count(NULL).error, 0);
}

static void run_once(void *data, int thread) {
    counted *c = data;
    c->of_thread[thread]++;
}

TEST(work_together) {
    threads_pool *p = threads_pool_new(4);
    for (int again = 0; again < 100; again++) {
        counted c = {.most = 4};
        threads_together(p, 4, run_once, &c);
        assert_int_equal(c.of_thread[0], 1);
        for (int i = 1; i < 4; i++) assert_true(c.of_thread[i] <= 1);
    }
    threads_pool_free(p);
}

#ifdef __SANITIZE_THREAD__ /* it ends a child that starts threads */
enum { CHILDS_THREADS = 1 };
#else
enum { CHILDS_THREADS = 3 };
#endif

/* Until all of a pool's threads are at work at once: none is still being started then. */
typedef struct met {
    _Atomic int n;
    int all;
} met;

static void meet(void *data, int thread) {
    met *m = data;
    (void)thread;
    atomic_fetch_add(&m->n, 1);
    while (atomic_load(&m->n) < m->all) sched_yield();
}

/* A child goes on with a pool whose threads it does not have, and may have pools of its own. */
TEST(after_a_fork) {
    threads_pool *p = threads_pool_new(3);
    /* A thread that is being started may hold a lock of the sanitizers' when the process forks. */
    threads_together(p, 3, meet, &(met){.all = 3});
    assert_each_once(p, MOST, 1);
    for (int i = 0; i < 20; i++) {
        int status = 1;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60); /* it would wait for threads that only the parent has */
            threads_pool *own = threads_pool_new(CHILDS_THREADS);
            assert_each_once(p, MOST, 1);
            assert_each_once(own, MOST, 1);
            threads_pool_free(own), threads_pool_free(p);
            _exit(0);
        }
        assert_each_once(p, MOST, 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    threads_pool_free(p);
}

int main(void) { return tests_run(NULL, NULL); }
