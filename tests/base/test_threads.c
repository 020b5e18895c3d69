/* Threads that cannot be started: the others do the work, the same bytes come out, and a warning says so. */
#include "base/threads.h"
#include "tests/support/folder.h"
#include "tests/support/model.h"

#include <errno.h>
#include <pthread.h>

static long startable = -1; /* threads that may still be started; -1: any number */
static long started;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*enter)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*enter)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*enter)(void *), void *arg) {
    pthread_mutex_lock(&lock);
    bool may = startable != 0;
    if (startable > 0) startable--;
    started += may;
    pthread_mutex_unlock(&lock);
    return may ? __real_pthread_create(t, a, enter, arg) : EAGAIN;
}

enum { THREADS = 4 };

FIXTURE(set_up) {
    folder = temporary_folder();
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){1024, 4200}, NULL); /* five pieces */
    model_add(m, "blk.0.ffn_up.weight", GGUF_F16, (uint64_t[4]){512, 512}, NULL);
    model_save(m, path("in.gguf"));
    quantize(path("in.gguf"), path("wanted.gguf"), "Q8_0", THREADS);
    return 0;
}

static bool has(const char *const *texts, size_t n, const char *text) {
    for (size_t i = 0; i < n; i++)
        if (strstr(texts[i], text)) return true;
    return false;
}

static gq_output out;
static gq_options options_for(int threads) {
    out = (gq_output){.path = path("out.gguf"), .filetype = "Q8_0"};
    return (gq_options){
        sizeof(gq_options), .input = path("in.gguf"),   .outputs = &out, .n_outputs = 1, .threads = threads,
        .force = true,      .effort = GQ_EFFORT_DEFAULT};
}

/* The syncer's thread comes first, then the workers'; the caller's is always there. */
TEST(a_run_goes_on_with_fewer) {
    for (long n = 0; n <= THREADS; n++) {
        gq_options o = options_for(THREADS);
        o.sync_ms = 1; /* so that a run without a syncer records on its way */
        char says[64];
        gq_error e;
        size_t n_warnings;
        gq_results *results;
        gq_plan *plan = gq_plan_new(&o, &e);
        if (!plan) fail_msg("%s", e.text);
        startable = n;
        if (!gq_run(plan, NULL, &results, &e)) fail_msg("%ld threads: %s", n, e.text);
        startable = -1;
        const char *const *warnings = gq_results_warnings(results, &n_warnings);
        snprintf(says, sizeof says, "only %ld of %d threads", n > 0 ? n : 1, THREADS);
        assert_int_equal(has(warnings, n_warnings, says), n < THREADS);
        gq_results_free(results), gq_plan_free(plan);
        assert_same_file(path("out.gguf"), path("wanted.gguf"));
        assert_int_equal(unlink(path("out.gguf")), 0);
        assert_int_equal(count_files(folder), 2);
    }
}

static bool after_some(void *user) { return ++*(_Atomic int *)user > 4; }

/* Without a thread of its own the journal is kept all the same; and a run that fails hands out its warnings.
 */
TEST(what_is_done_is_recorded) {
    _Atomic int asked = 0;
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = &asked, .cancelled = after_some};
    gq_options o = options_for(THREADS);
    gq_error e;
    gq_results *results;
    size_t n;
    gq_plan *plan = must_plan(&o);
    startable = 0;
    assert_false(gq_run(plan, &callbacks, &results, &e));
    startable = -1;
    assert_non_null(strstr(e.text, "continues from there"));
    const char *const *warnings = gq_results_warnings(results, &n);
    assert_true(has(warnings, n, "only 1 of 4 threads"));
    gq_results_free(results), gq_plan_free(plan);
    gq_results_free(run_plan(&o));
    assert_same_file(path("out.gguf"), path("wanted.gguf"));
    assert_int_equal(unlink(path("out.gguf")), 0);
    assert_int_equal(count_files(folder), 2);
}

/* Comparing, verifying and measuring share a scanner. */
TEST(scans_go_on_with_fewer) {
    gq_error e;
    size_t n;
    startable = 1;
    gq_comparison *c =
        gq_compare(&(gq_comparison_request){.size = sizeof(gq_comparison_request),
                                            .base_model = path("in.gguf"),
                                            .quants = (const char *const[]){path("wanted.gguf")},
                                            .n_quants = 1,
                                            .threads = THREADS},
                   &e);
    if (!c) fail_msg("%s", e.text);
    const char *const *warnings = gq_comparison_warnings(c, &n);
    assert_true(has(warnings, n, "only 2 of 4 threads"));
    gq_comparison_free(c);
    startable = 0;
    gq_verification *v = gq_verify(path("wanted.gguf"), NULL, 0, THREADS, NULL, &e);
    if (!v) fail_msg("%s", e.text);
    warnings = gq_verification_warnings(v, &n);
    assert_true(has(warnings, n, "only 1 of 4 threads"));
    gq_verification_free(v);
    gq_options o = options_for(THREADS);
    out.filetype = NULL, out.target.bpw = 6, o.measure_file = "";
    gq_plan *plan = gq_plan_new(&o, &e);
    if (!plan) fail_msg("%s", e.text);
    warnings = gq_plan_warnings(plan, &n);
    assert_true(has(warnings, n, "only 1 of 4 threads"));
    gq_plan_free(plan);
    startable = -1;
    v = gq_verify(path("wanted.gguf"), NULL, 0, THREADS, NULL, &e);
    warnings = gq_verification_warnings(v, &n);
    assert_false(has(warnings, n, "threads"));
    gq_verification_free(v);
}

/* No more threads than there is work for, whatever is asked for. */
TEST(idle_threads_are_not_started) {
    gq_options o = options_for(4096);
    started = 0;
    gq_results_free(run_plan(&o));
    if (started <= 0 || started >= 64) fail_msg("%ld threads were started", started);
    assert_same_file(path("out.gguf"), path("wanted.gguf"));
    o.threads = 4097;
    assert_non_null(strstr(failure(&o), "threads: expected 1 to "));
}

/* Those that run models start all at once. */
TEST(threads_have_a_bound) {
    assert_true(threads_asked(1 << 20) == THREADS_MAX && threads_asked(3) == 3);
    assert_int_equal(threads_asked(0), threads_available());
}

int main(void) { return tests_run(set_up, folder_remove); }
