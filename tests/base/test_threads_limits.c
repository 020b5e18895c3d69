/* Threads under limits of the process, in children: fewer threads do the work, and the pool tells. Threads
 * that wait cost nothing, and none is left when a pool has ended. */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/threads.h"
#include "tests/support/support.h"

enum { THREADS = 6, INDICES = 1000 };

static void count_index(void *data, size_t i, int thread) {
    (void)i, (void)thread;
    atomic_fetch_add((_Atomic int *)data, 1);
}

/* Loops on a new pool; the threads it had. A loop that is not whole ends the process. */
static threads_count run_pool(int threads) {
    threads_pool *p = threads_pool_new(threads);
    for (int again = 0; again < 3; again++) {
        _Atomic int n = 0;
        threads_for(p, INDICES, 1, count_index, &n);
        if (n != INDICES) _exit(9);
    }
    threads_count c = threads_pool_count(p);
    threads_pool_free(p);
    return c;
}

static void assert_child_succeeds(int (*child)(int n), int n) {
    int status = 1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        _exit(child(n));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status) fail_msg("limit %d: status %x", n, (unsigned)status);
}

/* ---- limits ---- */

/* A user without other processes, as root is not limited. Each pool gets as many threads as the one before.
 */
static int with_few_threads(int n) {
    const uid_t nobody_else = (uid_t)(1000000 + getpid());
    const struct rlimit most = {(rlim_t)n, (rlim_t)n};
    if (setrlimit(RLIMIT_NPROC, &most) != 0 || setresuid(nobody_else, nobody_else, nobody_else) != 0)
        return 2;
    for (int again = 0; again < 20; again++) {
        threads_count c = run_pool(THREADS);
        if (c.wanted != THREADS || c.ran > n || c.error != EAGAIN) return 3;
        if (c.ran < (n > 3 ? n - 1 : 1)) return 4;
    }
    return 0;
}

TEST(threads_are_limited) {
    if (geteuid() != 0) skip();
    /* Of a process that has had threads ThreadSanitizer adds none of its own to children. */
    run_pool(THREADS);
    for (int n = 1; n < THREADS; n++) assert_child_succeeds(with_few_threads, n);
}

static size_t address_bytes(void) {
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%zu", &pages) != 1) _exit(8);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int with_little_memory(int mib) {
    size_t most = address_bytes() + ((size_t)mib << 20);
    if (setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) != 0) return 2;
    for (int again = 0; again < 5; again++) {
        threads_count c = run_pool(64);
        if (c.wanted != 64 || (c.ran < 64) != (c.error != 0)) return 3;
        if (mib < 100 ? c.ran == 64 : mib > 200 && c.ran < 64) return 4; /* 63 stacks of 2 MiB */
    }
    return 0;
}

TEST(memory_is_limited) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); /* their shadows take addresses */
#endif
    for (int mib = 1; mib < 100; mib += 7) assert_child_succeeds(with_little_memory, mib);
    for (int mib = 100; mib < 3000; mib += 190) assert_child_succeeds(with_little_memory, mib);
}

/* Takes all addresses that are left, so that nothing can be loaded or allocated when the threads end. */
static void take_addresses(void *data, size_t i, int thread) {
    (void)data, (void)thread;
    if (i > 0) return;
    size_t now = address_bytes();
    if (setrlimit(RLIMIT_AS, &(struct rlimit){now, now}) != 0) _exit(7);
    while (malloc(64)) {
    }
}

/* A process that ends its first threads while it has no memory: in a program of its own, as others have had threads. */
TEST(threads_end_without_memory) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); /* their shadows take addresses */
#endif
    if (getenv("GQUANT_TEST_STARVED")) {
        threads_pool *p = threads_pool_new(THREADS);
        threads_for(p, INDICES, 1, take_addresses, NULL);
        threads_pool_free(p);
        _exit(0);
    }
    int status = 1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        setenv("GQUANT_TEST_STARVED", "1", 1), setenv("GQUANT_TEST_ONLY", "threads_end_without_memory", 1);
        execl("/proc/self/exe", "test_threads_limits", (char *)NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- waiting, and the end ---- */

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int threads_of_process(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(waiting_threads_sleep) {
    threads_pool *p = threads_pool_new(THREADS);
    for (int i = 0; i < 20; i++) {
        _Atomic int n = 0;
        threads_for(p, INDICES, 1, count_index, &n);
        double before = processor_seconds();
        usleep(20000);
        assert_true(processor_seconds() - before < 0.01); /* of the 0.12 that six threads could use */
    }
    threads_pool_free(p);
    double before = processor_seconds();
    usleep(200000);
    assert_true(processor_seconds() - before < 0.01);
}

TEST(no_thread_is_left) {
    run_pool(THREADS);
    usleep(10000);                     /* a thread that was joined may still be listed */
    int before = threads_of_process(); /* a sanitizer may have one of its own */
    for (int i = 0; i < 20; i++) {
        run_pool(THREADS);
        int after = threads_of_process();
        for (int wait = 0; wait < 1000 && after > before; wait++) usleep(1000), after = threads_of_process();
        assert_int_equal(after, before);
    }
}

/* Pools of one loop's body, and of several threads at a time. */
static void loop_within(void *data, size_t i, int thread) {
    (void)i, (void)thread;
    threads_count c = run_pool(3);
    if (c.ran == 3) atomic_fetch_add((_Atomic int *)data, 1);
}

TEST(pools_within_loops) {
    _Atomic int n = 0;
    threads_pool *p = threads_pool_new(3);
    threads_for(p, 20, 1, loop_within, &n);
    threads_pool_free(p);
    assert_int_equal(n, 20);
}

int main(void) { return tests_run(NULL, NULL); }
