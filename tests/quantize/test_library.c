/* The library as programs use it: built with an older or a newer header, in several threads, in a process
 * that was forked, with several calls at a time. */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

static char ids[1024], *original, *copy; /* path() is for one thread */

FIXTURE(make_model) {
    folder = temporary_folder();
    original = strdup(path("model.gguf")), copy = strdup(path("q4.gguf"));
    model_save(evaluation_model(1), original);
    quantize(original, copy, "Q4_K_M", 1);
    for (size_t i = 0, at = 0; i < 40; i++) at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * 7);
    return 0;
}

/* ---- sizes ---- */

static gq_plan *plan_of_size(const void *options, size_t size, gq_error *e) {
    char *exact = malloc(size); /* whoever reads beyond it is seen by the sanitizer */
    memcpy(exact, options, size), memcpy(exact, &size, sizeof size);
    gq_plan *plan = gq_plan_new((const gq_options *)exact, e);
    free(exact);
    return plan;
}

TEST(structs_of_other_versions) {
    const gq_output out = {.path = path("out.gguf"), .filetype = "Q8_0"};
    struct newer {
        gq_options options;
        int more;
    } newer = {.options = {.input = original, .outputs = &out, .n_outputs = 1, .dry_run = true}};
    gq_error e;
    static const size_t wrong[] = {0, 4, 1 << 20};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        newer.options.size = wrong[i];
        assert_null(gq_plan_new(&newer.options, &e));
        assert_true(e.status == GQ_USAGE && strstr(e.text, "sizeof"));
    }
    size_t older = offsetof(gq_options, threads);
    newer.options.threads = -5; /* which is not there for an older caller */
    gq_plan *plan = plan_of_size(&newer, older, &e);
    assert_non_null(plan);
    assert_int_equal(gq_plan_summary(plan, 0)->size, sizeof(gq_summary));
    gq_plan_free(plan);
    assert_null(plan_of_size(&newer, sizeof(gq_options), &e));
    assert_non_null(strstr(e.text, "-5"));
    newer.options.threads = 0;
    gq_plan_free(plan = plan_of_size(&newer, sizeof newer, &e));
    assert_non_null(plan);
    newer.more = 1;
    assert_null(plan_of_size(&newer, sizeof newer, &e));
    assert_true(e.status == GQ_USAGE && strstr(e.text, "does not have"));
}

TEST(callbacks_have_a_size_too) {
    gq_error e;
    const gq_callbacks unsized = {.size = 0};
    assert_null(gq_verify(original, NULL, 0, 1, &unsized, &e));
    assert_non_null(strstr(e.text, "sizeof"));
}

TEST(no_more_is_filled_than_there_is) {
    gq_error e;
    gq_model *m = gq_model_open(original, &e);
    gq_memory memory, whole = {.size = sizeof whole};
    memset(&memory, 0x55, sizeof memory);
    memory.size = offsetof(gq_memory, cache_bytes);
    gq_model_memory(m, 32, &memory), gq_model_memory(m, 32, &whole);
    assert_int_equal(memory.context, 32);
    assert_int_equal(memory.cache_bytes, 0x5555555555555555);
    assert_true(whole.cache_bytes > 0 && whole.cache_bytes != memory.cache_bytes);
    gq_model_close(m);
}

/* ---- a process that was forked ---- */

static double kld(void) {
    gq_error e;
    size_t n;
    const gq_evaluation_request r = {
        .size = sizeof r,
        .base_model = original,
        .quants = (const char *[]){copy},
        .n_quants = 1,
        .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = 20},
        .threads = 3};
    gq_evaluation *v = gq_evaluate(&r, &e);
    double of = v ? gq_evaluation_models(v, &n)[1].kld.value : -1;
    gq_evaluation_free(v);
    return of;
}

static bool quantized(const char *to, const char *type, bool calibrated) {
    gq_error e;
    const gq_calibration by = {.size = sizeof by,
                               .text = {.bytes = ids, .n = strlen(ids), .ids = true, .context = 8}};
    const gq_output out = {.path = to, .filetype = type};
    const gq_options o = {.size = sizeof o,
                          .input = original,
                          .outputs = &out,
                          .n_outputs = 1,
                          .threads = 2,
                          .force = true,
                          .calibration = calibrated ? &by : NULL};
    gq_plan *plan = gq_plan_new(&o, &e);
    bool ok = plan && gq_run(plan, NULL, NULL, &e);
    gq_plan_free(plan);
    return ok;
}

/* A child may evaluate and quantize after its parent has, and while another thread of that does. */
static void *evaluate_on(void *stop) {
    while (!*(_Atomic bool *)stop) kld();
    return NULL;
}

TEST(after_a_fork) {
    _Atomic bool stop = false;
    double here = kld();
    assert_true(here > 0);
    assert_true(quantized(path("calibrated"), "Q4_K_M", true));
    pthread_t busy;
    assert_int_equal(pthread_create(&busy, NULL, evaluate_on, &stop), 0);
    int status = 1;
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "child-%d", i);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(60); /* it would wait for threads that only the parent has */
            bool ok = kld() == here && quantized(path(name), "Q4_K_M", true);
            _exit(ok ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_same_file(path(name), path("calibrated"));
    }
    stop = true;
    pthread_join(busy, NULL);
}

/* ---- several calls at a time ---- */

typedef struct caller {
    char out[4096];
    gq_tokenizer *tokenizer; /* one for all */
    bool ok;
} caller;

static void *call_all(void *arg) {
    caller *c = arg;
    gq_error e;
    c->ok = true;
    for (int i = 0; c->ok && i < 4; i++) {
        size_t n;
        gq_tokens tokens;
        gq_verification *v = gq_verify(copy, NULL, 0, 2, NULL, &e);
        c->ok = v && !*gq_verification_verdicts(v, &n)->problem && quantized(c->out, "Q4_K_M", false) &&
                gq_tokenize(c->tokenizer, "abcab", 5, NULL, &tokens, &e) && tokens.n > 0;
        if (c->ok) gq_tokens_free(&tokens);
        gq_verification_free(v);
    }
    return NULL;
}

TEST(from_several_threads) {
    enum { N = 4 };
    pthread_t threads[N];
    caller callers[N];
    gq_error e;
    gq_tokenizer *t = gq_tokenizer_open(original, &e);
    if (!t) fail_msg("%s", e.text);
    char name[32];
    for (int i = 0; i < N; i++) {
        callers[i] = (caller){.tokenizer = t};
        snprintf(name, sizeof name, "thread-%d", i);
        snprintf(callers[i].out, sizeof callers[i].out, "%s", path(name));
        assert_int_equal(pthread_create(&threads[i], NULL, call_all, &callers[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_true(callers[i].ok);
        assert_same_file(callers[i].out, copy);
    }
    gq_tokenizer_close(t);
}

static int remove_all(void **state) {
    free(original), free(copy);
    return folder_remove(state);
}

int main(void) { return tests_run(make_model, remove_all); }
