/* Several ranks calibrate as one process does, with the same bytes, and end together whatever fails on one of
 * them. */
#include <stdlib.h>
#include <string.h>

#include "tests/evaluation_model.h"
#include "tests/folder.h"
#include "tests/ranks.h"
#include "tests/runs.h"

enum { CONTEXT = 64, WINDOWS = 17, TOKENS = CONTEXT * WINDOWS, VOCABULARY = 512, OUTPUTS = 2 };

static char text[8 * TOKENS];

static int start(void **state) {
    (void)state;
    folder = temporary_folder();
    write_run_models(path("small.gguf"), 1, path("experts.gguf"));
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%zu ", i * i * 31 % VOCABULARY);
    return 0;
}

/* A request, and what its ranks had. */
typedef struct ranks_job {
    char model[256], out[OUTPUTS][256];
    const char *type, *steps;
    gq_target target; /* of the second output */
    size_t outputs, windows;
    int threads;
    uint64_t memory;
    bool read_once;
    bool stops; /* the caller cancels, on rank 1, when half is done */
    bool ok[RANKS_MOST];
    gq_error e[RANKS_MOST];
    uint64_t sent[RANKS_MOST];
    gq_calibration_facts facts;
} ranks_job;

static void note_half(void *data, const gq_progress *p) {
    if (p->bytes_done * 2 > p->bytes_total) *(bool *)data = true;
}
static bool is_half(void *data) { return *(bool *)data; }

static void calibrate(void *data, gq_comm *comm) {
    ranks_job *j = data;
    int rank = gq_comm_rank(comm);
    gq_error *e = &j->e[rank];
    bool half = false;
    gq_callbacks callbacks = {
        .size = sizeof callbacks, .user = &half, .progress = note_half, .cancelled = is_half};
    gq_calibration calibration = {.size = sizeof calibration,
                                  .text = {.tokens = j->windows * CONTEXT,
                                           .name = "ids",
                                           .bytes = text,
                                           .n = strlen(text),
                                           .ids = true,
                                           .context = CONTEXT},
                                  .steps = j->steps,
                                  .memory = j->memory};
    gq_output outputs[OUTPUTS] = {{.path = j->out[0], .filetype = j->type},
                                  {.path = j->out[1], .filetype = "Q3_K_S"}};
    if (j->target.size) outputs[1].filetype = NULL, outputs[1].target = j->target;
    gq_plan *plan = gq_plan_new(&(gq_options){.size = sizeof(gq_options),
                                              .input = j->model,
                                              .outputs = outputs,
                                              .n_outputs = j->outputs,
                                              .force = true,
                                              .threads = j->threads,
                                              .measure_file = "",
                                              .calibration = &calibration,
                                              .comm = comm,
                                              .read_once = j->read_once},
                                e);
    j->ok[rank] = plan && gq_run(plan, j->stops && rank == 1 ? &callbacks : NULL, NULL, e);
    j->ok[rank] = gq_comm_agree(comm, j->ok[rank], e);
    j->sent[rank] = gq_comm_bytes_sent(comm);
    if (plan && rank == 0) j->facts = *gq_plan_calibration(plan);
    gq_plan_free(plan);
}

static ranks_job job_of(const char *name, const char *out, int threads) {
    ranks_job j = {.threads = threads, .type = "Q4_K_M", .steps = "all", .outputs = 1, .windows = WINDOWS};
    snprintf(j.model, sizeof j.model, "%s", path(name));
    for (size_t i = 0; i < OUTPUTS; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s-%zu.gguf", out, i);
        snprintf(j.out[i], sizeof j.out[i], "%s", path(file));
    }
    return j;
}

static void assert_all(const ranks_job *j, int n, bool ok) {
    for (int i = 0; i < n; i++)
        if (j->ok[i] != ok) fail_msg("rank %d of %d: %s", i, n, j->e[i].text);
    for (int i = 1; !ok && i < n; i++) /* rank 0 adds what is kept */
        assert_memory_equal(j->e[i].text, j->e[0].text, strlen(j->e[i].text));
}

/* Has one process make the files of a job as one-0.gguf and so on. */
static void expect_files(const ranks_job *like) {
    ranks_job j = *like;
    j.threads = 1;
    for (size_t i = 0; i < OUTPUTS; i++)
        snprintf(j.out[i], sizeof j.out[i], "%s", path(i ? "one-1.gguf" : "one-0.gguf"));
    calibrate(&j, NULL);
    assert_all(&j, 1, true);
}

static void assert_same_files(const ranks_job *j) {
    for (size_t i = 0; i < j->outputs; i++) {
        char one[256];
        snprintf(one, sizeof one, "%s", path(i ? "one-1.gguf" : "one-0.gguf"));
        assert_same_file(one, j->out[i]);
        remove(j->out[i]);
    }
}

/* Seventeen windows of 64 tokens are three groups, so the last of seven ranks have none. */
static void files_are_those_of_one_process(void **state) {
    (void)state;
    static const int ranks[] = {3, 7};
    ranks_job j = job_of("experts.gguf", "many", 1);
    j.outputs = OUTPUTS;
    expect_files(&j);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        j.threads = 1 + (int)i % 2, j.read_once = ranks[i] == 7;
        ranks_run(ranks[i], calibrate, &j, -1, 0, false);
        assert_all(&j, ranks[i], true);
        assert_int_equal(j.facts.ranks, ranks[i]);
        if (!j.read_once && !(j.facts.sent * 10 > j.sent[0] * 7 && j.facts.sent * 7 < j.sent[0] * 10))
            fail_msg("%llu bytes sent, %llu told", (unsigned long long)j.sent[0],
                     (unsigned long long)j.facts.sent);
        assert_same_files(&j);
    }
    assert_false(exists(path(".many-0.gguf.gquant-states")));
}

/* Every collective fails once, on the first rank or on another, before or after: all ranks end with that
 * error, nothing is half-written, and the same request goes on. */
static void whatever_fails_ends_all(void **state) {
    (void)state;
    enum { EVERY = 31 };
    ranks_job j = job_of("small.gguf", "broken", 1);
    j.windows = 9, j.type = "Q4_0", j.steps = "default";
    expect_files(&j);
    uint64_t n = ranks_run(2, calibrate, &j, -1, 0, false);
    assert_all(&j, 2, true);
    assert_true(n > 50);
    for (uint64_t i = 0; i + 1 < n; i += i < 4 || i + 4 > n ? 1 : EVERY) {
        remove(j.out[0]), remove(path(".broken-0.gguf.gquant-states"));
        ranks_run(2, calibrate, &j, i / EVERY % 2 ? 0 : 1, i, i % 2);
        assert_all(&j, 2, false);
        assert_non_null(strstr(j.e[0].text, "was made to fail on rank"));
    }
    ranks_run(2, calibrate, &j, -1, 0, false);
    assert_all(&j, 2, true);
    assert_same_files(&j);
}

/* One rank's caller stops it; others go on from there, with another number of ranks. */
static void what_one_rank_stops_others_continue(void **state) {
    (void)state;
    static const int ranks[] = {1, 3};
    ranks_job j = job_of("experts.gguf", "stopped", 1);
    expect_files(&j);
    for (size_t i = 0; i < 2; i++) {
        j.stops = true;
        ranks_run(2, calibrate, &j, -1, 0, false);
        assert_all(&j, 2, false);
        assert_int_equal(j.e[0].status, GQ_INTERRUPTED);
        assert_false(exists(j.out[0]));
        assert_true(exists(path(".stopped-0.gguf.gquant-states")));
        j.stops = false;
        if (i)
            ranks_run(ranks[i], calibrate, &j, -1, 0, false);
        else
            calibrate(&j, NULL);
        assert_all(&j, ranks[i], true);
        assert_int_equal(j.facts.layers_finished, 1);
        assert_same_files(&j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_those_of_one_process),
        cmocka_unit_test(whatever_fails_ends_all),
        cmocka_unit_test(what_one_rank_stops_others_continue),
    };
    return cmocka_run_group_tests(tests, start, folder_remove);
}
