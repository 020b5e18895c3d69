/* Importance data made by running a model: the sums of what flows into each weight, the same however the work
 * is cut, interrupted and continued. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "imatrix/imatrix.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/forwarding.h"
#include "tests/support/runs.h"

enum {
    VOCABULARY = 512,
    CONTEXT = 24,
    WINDOWS = 9,
    TOKENS = CONTEXT * WINDOWS,
    EXPERTS = EXPERT_MODEL_EXPERTS
};

static char text[8 * TOKENS];
static uint32_t ids[TOKENS];

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), 3, path("experts.gguf"));
    for (size_t i = 0, at = 0; i < TOKENS; i++) {
        ids[i] = (uint32_t)(i * i * 31 % VOCABULARY);
        at += (size_t)snprintf(text + at, sizeof text - at, "%u ", ids[i]);
    }
    return 0;
}

static const gq_text *the_text(void) {
    static gq_text t;
    t = (gq_text){.name = "ids", .bytes = text, .n = strlen(text), .ids = true, .context = CONTEXT};
    return &t;
}

static gq_importance_request request_of(const char *name, const char *out) {
    return (gq_importance_request){.size = sizeof(gq_importance_request),
                                   .model = path(name),
                                   .texts = the_text(),
                                   .n_texts = 1,
                                   .out = path(out),
                                   .threads = 1};
}

static gq_importance_plan *planned(const gq_importance_request *r) {
    gq_error e;
    gq_importance_plan *p = gq_importance_plan_new(r, &e);
    if (!p) fail_msg("%s", e.text);
    return p;
}

static void compute(const gq_importance_request *r) {
    gq_error e;
    gq_importance_plan *p = planned(r);
    gq_imatrix *m = gq_importance_compute(p, NULL, &e);
    if (!m) fail_msg("%s", e.text);
    gq_imatrix_free(m);
    gq_importance_plan_free(p);
}

/* ---- the sums ---- */

typedef struct direct {
    const char *name;
    size_t seen;
    double sums[4 * 512], counts[EXPERTS];
} direct;

static forward_answer add_directly(void *data, const forward_inputs *in, gq_error *e) {
    direct *d = data;
    (void)e;
    for (size_t w = 0; w < in->n_weights; w++) {
        if (strcmp(in->weights[w]->name, d->name) != 0) continue;
        for (size_t t = 0; t < in->tokens; t++)
            for (size_t f = 0; f < in->features; f++)
                d->sums[in->matrix * in->features + f] += pow((double)in->x[f * in->stride + t], 2);
        d->counts[in->matrix] += (double)in->tokens;
        d->seen++;
    }
    return FORWARD_ON;
}

static void check_entry(const char *file, const imatrix_entry *x, bool counted_each) {
    model_source g = open_model(file);
    size_t vocabulary;
    gq_error e;
    direct *d = calloc(1, sizeof *d);
    d->name = x->name;
    free(forward_whole(&g,
                       &(forwarding){.ids = ids,
                                     .n = TOKENS,
                                     .context = CONTEXT,
                                     .threads = 1,
                                     .observer = &(forward_observer){.on_inputs = add_directly, .data = d}},
                       &vocabulary, &e));
    assert_true(d->seen > 0);
    for (size_t i = 0; i < x->n_values; i++)
        assert_true(fabs((double)x->sums[i] - d->sums[i]) <= 1e-6 * d->sums[i]);
    assert_int_equal(x->n_counts, counted_each ? EXPERTS : 1);
    for (size_t i = 0; i < x->n_counts; i++) assert_true((double)x->counts[i] == d->counts[i]);
    free(d);
    model_close(&g);
}

TEST(sums_are_those_of_what_flows_in) {
    gq_importance_request r = request_of("experts.gguf", "experts.out");
    gq_error e;
    imatrix im;
    r.output = true;
    compute(&r);
    assert_true(imatrix_open(&im, path("experts.out"), &e));
    assert_null(im.warnings);
    assert_int_equal(im.n_entries, 7 + 8 + 1);
    assert_true(im.chunk_count == WINDOWS && im.chunk_size == CONTEXT);
    assert_true(im.n_datasets == 1 && !strcmp(im.datasets[0], "ids"));
    for (uint64_t i = 0; i < im.n_entries; i++)
        check_entry(path("experts.gguf"), &im.entries[i], strstr(im.entries[i].name, "_exps"));
    imatrix_free(&im);
}

TEST(nothing_depends_on_threads_and_memory) {
    gq_importance_request r = request_of("experts.gguf", "one.out");
    compute(&r);
    r.force = true;
    gq_importance_plan *p = planned(&r);
    gq_importance_facts all = *gq_importance_summary(p);
    gq_importance_plan_free(p);
    assert_true(!all.hidden_states_in_file && all.windows_at_once == WINDOWS);
    r.out = path("two.out"), r.threads = 2;
    compute(&r);
    assert_same_file(path("one.out"), path("two.out"));
    /* Between what holds all states and what is refused: some memory with which states go to the file. What
     * the process has counts, and changes; so both ends are looked for again where they have met. */
    bool in_file = false;
    uint64_t refused = 0, all_fit = 2 * all.memory;
    for (int tries = 0; !in_file && tries < 200; tries++) {
        gq_error e;
        if (all_fit - refused < 4096) refused = 0, all_fit = 2 * all.memory;
        r.memory = refused + (all_fit - refused) / 2, r.threads = 1;
        p = gq_importance_plan_new(&r, &e);
        if (!p)
            refused = r.memory;
        else if (!(in_file = gq_importance_summary(p)->hidden_states_in_file))
            all_fit = r.memory;
        gq_importance_plan_free(p);
    }
    assert_true(in_file);
    r.memory += (all_fit - r.memory) / 2; /* it may have a little more by now */
    compute(&r);
    assert_same_file(path("one.out"), path("two.out"));
}

TEST(parts_add_up) {
    gq_importance_request r = request_of("experts.gguf", "whole.out");
    gq_imatrix *sum = NULL;
    gq_error e;
    compute(&r);
    r.parts = 4;
    for (r.part = 1; r.part <= 4; r.part++) {
        char name[] = "partN.out";
        name[4] = (char)('0' + r.part), r.out = path(name);
        compute(&r);
        gq_imatrix *m = gq_imatrix_open(r.out, &e);
        if (sum) {
            assert_true(gq_imatrix_merge(sum, m, &e));
            gq_imatrix_free(m);
        } else {
            sum = m;
        }
    }
    assert_true(gq_imatrix_write(sum, path("sum.out"), true, false, &e));
    assert_int_equal(gq_imatrix_summary(sum)->chunk_count, WINDOWS);
    gq_imatrix_free(sum);
    imatrix a, b;
    assert_true(imatrix_open(&a, path("whole.out"), &e) && imatrix_open(&b, path("sum.out"), &e));
    assert_int_equal(a.n_entries, b.n_entries);
    for (uint64_t i = 0; i < a.n_entries; i++) {
        const imatrix_entry *x = &a.entries[i], *y = &b.entries[i];
        assert_string_equal(x->name, y->name);
        assert_memory_equal(x->counts, y->counts, x->n_counts * sizeof *x->counts);
        for (uint64_t k = 0; k < x->n_values; k++)
            assert_true(fabsf(x->sums[k] - y->sums[k]) <= 1e-6f * x->sums[k]);
    }
    imatrix_free(&a), imatrix_free(&b);
    r.part = 1, r.parts = WINDOWS + 1, r.out = path("none.out");
    assert_null(gq_importance_plan_new(&r, &e));
    assert_non_null(strstr(e.text, "and each part needs one"));
}

TEST(several_texts_are_one) {
    gq_importance_request r = request_of("model.gguf", "texts.out");
    gq_error e;
    size_t n;
    gq_text two[2] = {*the_text(), *the_text()};
    two[1].name = "again";
    r.texts = two, r.n_texts = 2;
    gq_importance_plan *p = planned(&r);
    assert_int_equal(gq_importance_summary(p)->windows, 2 * WINDOWS);
    gq_importance_plan_free(p);
    two[0].tokens = TOKENS + 2 * CONTEXT + 1;
    compute(&r);
    gq_imatrix *m = gq_imatrix_open(path("texts.out"), &e);
    const gq_imatrix_facts *f = gq_imatrix_summary(m);
    assert_true(f->chunk_count == WINDOWS + 2 && f->n_datasets == 2);
    assert_string_equal(f->datasets[1], "again");
    gq_imatrix_free(m);
    two[0].tokens = TOKENS + 1, r.force = true;
    p = planned(&r);
    const char *const *warnings = gq_importance_warnings(p, &n);
    assert_true(n == 1 && strstr(warnings[0], "1 text is not used"));
    gq_importance_plan_free(p);
}

/* ---- interrupted ---- */

typedef struct moment {
    size_t calls, at; /* killed at this call */
    bool kill;        /* else asked to stop */
} moment;

static bool reached(void *user) {
    moment *m = user;
    if (++m->calls != m->at) return false;
    if (m->kill) raise(SIGKILL);
    return true;
}

/* In a process of its own; whether it finished. */
static bool compute_until(const gq_importance_request *r, size_t at) {
    pid_t child = fork();
    if (child == 0) {
        moment m = {.at = at, .kill = true};
        gq_error e;
        gq_importance_plan *p = gq_importance_plan_new(r, &e);
        bool done =
            p && gq_importance_compute(
                     p, &(gq_callbacks){.size = sizeof(gq_callbacks), .user = &m, .cancelled = reached}, &e);
        if (!done) fprintf(stderr, "%s\n", e.text);
        _exit(done ? 0 : 1);
    }
    return run_finished(child);
}

TEST(a_killed_run_goes_on) {
    gq_importance_request r = request_of("experts.gguf", "calm.out");
    r.output = true;
    compute(&r);
    size_t killed = 0;
    for (size_t at = 1; at <= 20; at++) { /* a run asks about as often */
        r = request_of("experts.gguf", "killed.out"), r.output = true;
        bool done = compute_until(&r, at);
        killed += !done;
        if (!done) {
            assert_true(exists(path(".killed.out.gquant-states")));
            assert_false(exists(path("killed.out")));
            compute(&r);
        }
        assert_same_file(path("calm.out"), path("killed.out"));
        assert_false(exists(path(".killed.out.gquant-states")));
        unlink(path("killed.out"));
    }
    assert_true(killed >= 18);
}

/* No more than what was told beforehand, nor a small part of that: a small model leaves most of a step of
 * products unused. */
TEST(memory_is_as_told) {
    gq_importance_request r = request_of("model.gguf", "memory.out");
    if (SANITIZED) return;
    pid_t child = fork();
    if (child == 0) {
        struct rusage used;
        gq_error e;
        gq_importance_plan *p = gq_importance_plan_new(&r, &e);
        uint64_t told = p ? gq_importance_summary(p)->memory : 0;
        if (!p || !gq_importance_compute(p, NULL, &e) || getrusage(RUSAGE_SELF, &used) != 0) _exit(1);
        _exit((uint64_t)used.ru_maxrss * 1024 > told       ? 2
              : (uint64_t)used.ru_maxrss * 1024 < told / 5 ? 3
                                                           : 0);
    }
    int status;
    assert_true(waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

/* Again and again, until nothing is left to be done. */
TEST(a_run_killed_often_goes_on) {
    gq_importance_request r = request_of("model.gguf", "calm3.out");
    compute(&r);
    r.out = path("often.out");
    for (size_t times = 0; !compute_until(&r, 7); times++) assert_true(times < 10);
    assert_same_file(path("calm3.out"), path("often.out"));
}

static gq_error stop_at(const gq_importance_request *r, size_t at) {
    gq_error e;
    moment m = {.at = at};
    gq_importance_plan *p = planned(r);
    assert_null(gq_importance_compute(
        p, &(gq_callbacks){.size = sizeof(gq_callbacks), .user = &m, .cancelled = reached}, &e));
    gq_importance_plan_free(p);
    return e;
}

static bool warns(const gq_importance_request *r, const char *what) {
    gq_importance_plan *p = planned(r);
    size_t n;
    bool found = false;
    const char *const *warnings = gq_importance_warnings(p, &n);
    for (size_t i = 0; i < n; i++) found |= strstr(warnings[i], what) != NULL;
    gq_importance_plan_free(p);
    return found;
}

TEST(what_was_finished_is_told) {
    gq_importance_request r = request_of("model.gguf", "told.out");
    gq_error e = stop_at(&r, 2);
    assert_int_equal(e.status, GQ_INTERRUPTED);
    assert_null(strstr(e.text, "goes on")); /* nothing was finished, and nothing stays */
    assert_false(exists(path(".told.out.gquant-states")));
    e = stop_at(&r, 9);
    assert_int_equal(e.status, GQ_INTERRUPTED);
    assert_non_null(strstr(e.text, "the same command continues from there"));
    assert_true(warns(&r, "will be continued"));
    gq_importance_plan *p = planned(&r);
    assert_int_equal(gq_importance_summary(p)->layers_finished, 1);
    gq_importance_plan_free(p);
    /* Not with other settings, another text, another model, a damaged head. */
    gq_importance_request other = r;
    other.output = true;
    assert_true(warns(&other, "its text or its options were different"));
    gq_text shorter = *the_text();
    shorter.tokens = 2 * CONTEXT, other = r, other.texts = &shorter;
    assert_true(warns(&other, "its text or its options were different"));
    other = r, other.model = path("experts.gguf");
    assert_true(warns(&other, "it was of another model"));
    int fd = open(path(".told.out.gquant-states"), O_RDWR);
    assert_true(pwrite(fd, "?", 1, 40) == 1);
    assert_true(warns(&r, "its file is damaged"));
    compute(&r);
    close(fd);
    r.out = path("calm3.out"), r.force = true;
    compute(&r);
    assert_same_file(path("calm3.out"), path("told.out"));
}

/* A byte of the n-th record; begun: how many layers the file is to say have been begun, 0: what it says. */
static void damage_record(const char *name, size_t n, uint64_t begun) {
    int fd = open(name, O_RDWR);
    if (begun) assert_true(pwrite(fd, &begun, 8, 2048) == 8);
    off_t at = 4096 + 2 * (off_t)(TOKENS * 256 * sizeof(float));
    uint64_t size;
    for (;; n--) {
        assert_true(pread(fd, &size, 8, at + 8) == 8);
        if (n == 0) break;
        at += 24 + (off_t)size;
    }
    assert_true(pwrite(fd, "?", 1, at + 24 + 1000) == 1);
    close(fd);
}

TEST(torn_records_do_not_count) {
    gq_importance_request r = request_of("model.gguf", "torn.out");
    stop_at(&r, 13);
    gq_importance_plan *p = planned(&r);
    assert_int_equal(gq_importance_summary(p)->layers_finished, 2);
    gq_importance_plan_free(p);
    /* The third layer has been begun, so that what the first left is not there any more. */
    damage_record(path(".torn.out.gquant-states"), 1, 0);
    assert_true(warns(&r, "its file is damaged"));
    /* When it is not yet begun (a stop comes before it writes) the second is done again. */
    damage_record(path(".torn.out.gquant-states"), 1, 2);
    p = planned(&r);
    assert_int_equal(gq_importance_summary(p)->layers_finished, 1);
    gq_importance_plan_free(p);
    compute(&r);
    r.out = path("calm3.out"), r.force = true;
    compute(&r);
    assert_same_file(path("calm3.out"), path("torn.out"));
}

TEST(one_at_a_time) {
    gq_importance_request r = request_of("model.gguf", "held.out");
    gq_error e;
    stop_at(&r, 9);
    gq_importance_plan *p = planned(&r);
    int fd = open(path(".held.out.gquant-states"), O_RDWR);
    assert_true(flock(fd, LOCK_EX) == 0);
    assert_null(gq_importance_compute(p, NULL, &e));
    assert_non_null(strstr(e.text, "another process is writing"));
    assert_true(exists(path(".held.out.gquant-states")));
    close(fd);
    gq_importance_plan_free(p);
}

/* ---- refused ---- */

static void refuses(const gq_importance_request *r, const char *why) {
    gq_error e = {0};
    gq_importance_plan *p = gq_importance_plan_new(r, &e);
    if (p || !strstr(e.text, why)) fail_msg("'%s', expected '%s'", p ? "a plan" : e.text, why);
}

TEST(what_cannot_be_done_is_said) {
    gq_importance_request r = request_of("model.gguf", "refused.out");
    gq_text t = *the_text();
    r.texts = &t;
    r.n_texts = 0, refuses(&r, "no text"), r.n_texts = 1;
    t.n = 0, refuses(&r, "ids: is empty"), t.n = strlen(text);
    t.tokens = CONTEXT - 1, refuses(&r, "fewer than one window of 24"), t.tokens = 0;
    t.context = 1000, refuses(&r, "fewer than one window of 1000"), t.context = CONTEXT;
    r.part = 1, refuses(&r, "part 1 of 0: parts are numbered from 1");
    r.part = 0, r.parts = 2, refuses(&r, "part 0 of 2"), r.part = 3, refuses(&r, "part 3 of 2");
    r.part = r.parts = 0;
    r.memory = 1 << 20, refuses(&r, "1.00 MiB of memory is not enough"), r.memory = 0;
    r.out = path("nowhere/x"), refuses(&r, "does not exist");
    r.out = path("model.gguf"), refuses(&r, "is one of the inputs");
    r.out = path("refused.out"), r.model = path("no.gguf"), refuses(&r, "cannot be opened");
    assert_false(exists(path(".refused.out.gquant-states")));
}

/* What flows in is not finite: said by name, and nothing stays. */
TEST(values_that_are_not_finite_are_named) {
    model *m = evaluation_model(1);
    float *x = random_values(256 * 64, 1);
    x[5] = INFINITY;
    gq_error e;
    model_set_u32(m, "llama.block_count", 2);
    static const char *const names[] = {"attn_norm", "attn_q",   "attn_k", "attn_output",
                                        "ffn_norm",  "ffn_gate", "ffn_up", "ffn_down"};
    static const uint64_t sizes[][2] = {{256, 0}, {256, 256}, {256, 64},  {256, 256},
                                        {256, 0}, {256, 512}, {256, 512}, {512, 256}};
    char name[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "blk.1.%s.weight", names[i]);
        add_weights(m, name, 5, sizes[i][0], sizes[i][1]);
    }
    model_add(m, "blk.1.attn_v.weight", GGUF_F32, (uint64_t[4]){256, 64}, x);
    model_save(m, path("inf.gguf")), free(x);
    gq_importance_request r = request_of("inf.gguf", "inf.out");
    gq_importance_plan *p = planned(&r);
    assert_null(gq_importance_compute(p, NULL, &e));
    assert_non_null(strstr(e.text, "blk.1.attn_output.weight is not finite"));
    gq_importance_plan_free(p);
}

int main(void) { return tests_run(start, folder_remove); }
