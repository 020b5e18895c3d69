/* Scores of an evaluation that are kept for the next: the same figures without running a model again, an
 * evaluation that goes on where it was stopped, and nothing taken for a file, a text or a state of things
 * that has changed. */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

enum { CONTEXT = 20, WINDOWS = 5, BLOCKS = 6 }; /* so many that each copy is a group of its own */

static char ids[4096];
static const char *const names[] = {"q2.gguf", "q4.gguf", "q8.gguf"};
static const char *copies[3];

FIXTURE(make_models) {
    static const char *const types[] = {"Q2_K", "Q4_K_S", "Q8_0"};
    folder = temporary_folder();
    model_save(evaluation_model(BLOCKS), path("model.gguf"));
    for (size_t i = 0; i < 3; i++) {
        quantize(path("model.gguf"), path(names[i]), types[i], 1);
        copies[i] = strdup(path(names[i]));
    }
    for (size_t i = 0, at = 0; i < WINDOWS * CONTEXT; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % 512);
    return 0;
}

FIXTURE(remove_models) {
    for (size_t i = 0; i < 3; i++) free((void *)copies[i]);
    remove_folder(folder);
    return 0;
}

/* What progress said of running models before the end: the most work that was done, that there is, its
 * share, and when to stop (a share; 0: never). */
typedef struct seen {
    uint64_t done, total;
    double share, stop_at;
} seen;

static void see(void *user, const gq_progress *p) {
    seen *s = user;
    if (p->share >= 1) return; /* the call that says so comes where nothing was run, too */
    if (!p->tokens) return;    /* checksums come before */
    s->share = (double)p->bytes_done / (double)p->bytes_total;
    if (p->bytes_done > s->done) s->done = p->bytes_done, s->total = p->bytes_total;
}

static bool stops(void *user) {
    const seen *s = user;
    return s->stop_at > 0 && s->share > s->stop_at;
}

/* Evaluates the first n copies; NULL: it was stopped. kept: the file's name; NULL: nothing is kept. */
static gq_evaluation *evaluate(size_t n, const char *kept, seen *s) {
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = s, .progress = see, .cancelled = stops};
    const gq_evaluation_request r = {
        sizeof r,
        .base_model = path("model.gguf"),
        .quants = copies,
        .n_quants = n,
        .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT},
        .threads = 1,
        .scores_file = kept ? path(kept) : NULL,
        .callbacks = &callbacks};
    gq_error e = {0};
    s->done = s->total = 0, s->share = 0;
    gq_evaluation *v = gq_evaluate(&r, &e);
    if (!v && e.status != GQ_INTERRUPTED) fail_msg("%s", e.text);
    return v;
}

static void assert_same(gq_evaluation *a, gq_evaluation *b) {
    size_t n, m;
    const gq_evaluated *x = gq_evaluation_models(a, &n), *y = gq_evaluation_models(b, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        assert_memory_equal(&x[i].perplexity, &y[i].perplexity, sizeof x->perplexity);
        assert_memory_equal(&x[i].kld, &y[i].kld, 4 * sizeof x->kld);
        assert_memory_equal(x[i].quantiles, y[i].quantiles, sizeof x->quantiles);
    }
    gq_evaluation_free(a), gq_evaluation_free(b);
}

/* Evaluates n copies with what is kept, as s says, and has the figures be those of an evaluation without. */
static void assert_kept(size_t n, seen *s) {
    seen plain = {0};
    gq_evaluation *v = evaluate(n, NULL, &plain);
    assert_same(v, evaluate(n, "kept", s));
}

static void remove_kept(void) { unlink(path("kept")), unlink(path("kept.states")); }

TEST(nothing_is_run_twice) {
    seen s = {0};
    gq_evaluation *plain = evaluate(3, NULL, &s);
    uint64_t all = s.total;
    assert_same(plain, evaluate(3, "kept", &s));
    assert_true(s.done > 0);
    assert_kept(3, &s);
    assert_int_equal(s.done, 0);
    assert_kept(2, &s);
    assert_int_equal(s.done, 0);
    remove_kept();
    /* One copy more: it is run, and the original is not. */
    gq_evaluation_free(evaluate(2, "kept", &s));
    assert_kept(3, &s);
    assert_true(s.done > 0 && (double)s.total < 0.3 * (double)all);
    /* Without its states the original is run, too. */
    remove_kept();
    gq_evaluation_free(evaluate(2, "kept", &s));
    assert_int_equal(unlink(path("kept.states")), 0);
    assert_kept(3, &s);
    assert_true((double)s.total > 0.4 * (double)all);
    remove_kept();
}

TEST(what_was_stopped_goes_on) {
    seen s = {0};
    for (double at = 0.2; at < 0.95; at += 0.3) {
        gq_evaluation *plain = evaluate(3, NULL, &s);
        uint64_t all = s.total;
        s.stop_at = at;
        assert_null(evaluate(3, "kept", &s));
        assert_true(s.done > 0);
        s.stop_at = 0;
        assert_same(plain, evaluate(3, "kept", &s));
        /* The first copy is done with the original after half of the work, and each other after a quarter. */
        if (at > 0.7) assert_true((double)s.total < 0.6 * (double)all);
        if (at > 0.8) assert_true((double)s.total < 0.35 * (double)all);
        remove_kept();
    }
}

/* Changes a byte of a file, whose size and times stay. at: from its end. */
static void change(const char *name, size_t at) {
    struct stat st;
    assert_int_equal(stat(path(name), &st), 0);
    FILE *f = fopen(path(name), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -(long)at, SEEK_END), 0);
    int byte = fgetc(f);
    fseek(f, -(long)at, SEEK_END);
    fputc(byte ^ 64, f);
    fclose(f);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path(name), times, 0), 0);
}

/* Neither size nor time tell a changed file, but its bytes do. */
TEST(a_changed_file_is_run_again) {
    static const char *const files[] = {"q8.gguf", "model.gguf"};
    seen s = {0};
    for (size_t i = 0; i < 2; i++) {
        gq_evaluation_free(evaluate(3, "kept", &s));
        change(files[i], 33);
        assert_kept(3, &s);
        assert_true(s.done > 0);
        change(files[i], 33);
        remove_kept();
    }
    gq_evaluation_free(evaluate(3, "kept", &s));
    ids[0]++;
    assert_kept(3, &s);
    assert_true(s.done > 0);
    ids[0]--;
    remove_kept();
}

TEST(damage_is_found) {
    seen s = {0};
    gq_evaluation_free(evaluate(2, "kept", &s));
    size_t n, bytes;
    free(read_whole(path("kept"), &n)), free(read_whole(path("kept.states"), &bytes));
    for (size_t i = 0; i < 6; i++) {
        size_t at = 1 + i * (n - 2) / 5;
        change("kept", at);
        gq_evaluation *v = NULL;
        seen again = {0};
        gq_callbacks none = {.size = sizeof none, .user = &again, .progress = see};
        const gq_evaluation_request r = {
            sizeof r,
            .base_model = path("model.gguf"),
            .quants = copies,
            .n_quants = 2,
            .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT},
            .scores_file = path("kept"),
            .callbacks = &none};
        gq_error e = {0};
        v = gq_evaluate(&r, &e);
        if (v) /* where the file is no longer one of scores it is refused, and stays */
            assert_same(evaluate(2, NULL, &s), v);
        else
            assert_true(strstr(e.text, "damaged scores; remove the file") ||
                        strstr(e.text, "choose another name")),
                change("kept", at);
    }
    for (size_t i = 0; i < 2; i++) { /* states, then their head */
        gq_evaluation_free(evaluate(2, "kept", &s));
        for (size_t k = 0; k < 64; k++) change("kept.states", i ? bytes - k : 2 + k * (bytes - 4100) / 64);
        assert_kept(3, &s);
        unlink(path("kept"));
    }
    remove_kept();
}

TEST(the_files_of_others_stay) {
    static const char *const others[] = {"kept", "kept.states"};
    for (size_t i = 0; i < 2; i++) {
        gq_error e = {0};
        size_t n;
        write_whole(path(others[i]), "mine, and a little longer than any head of ours would be", 56);
        const gq_evaluation_request r = {
            sizeof r, .base_model = path("model.gguf"),
            .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT},
            .scores_file = path("kept")};
        gq_evaluation *v = gq_evaluate(&r, &e);
        assert_int_equal(v != NULL, i == 1); /* without room for states the original is run anew each time */
        gq_evaluation_free(v);
        char *found = (char *)read_whole(path(others[i]), &n);
        assert_int_equal(n, 56);
        assert_memory_equal(found, "mine", 4);
        free(found);
        remove_kept();
    }
}

int main(void) { return tests_run(make_models, remove_models); }
