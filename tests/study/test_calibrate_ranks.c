/* Several ranks calibrate as one process does, with the same bytes, and end together whatever fails on one of
 * them. GQUANT_TEST_EVERY=1 has each collective fail, in place of a sample. */
#include <math.h>

#include "base/clock.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/ranks.h"
#include "tests/support/runs.h"

enum { CONTEXT = 64, WINDOWS = 17, TOKENS = CONTEXT * WINDOWS, VOCABULARY = 60, OUTPUTS = 2 };

static char text[8 * TOKENS];

static void write_tiny(const char *name) {
    model_save(variant_model(variant_named(name), GGUF_F32, NULL), path(name));
}

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("small.gguf"), 1, path("experts.gguf"));
    write_tiny("llama"), write_tiny("qwen2moe"), write_tiny("deepseek2"), write_tiny("nanbeige");
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
    bool stops; /* the caller cancels, on rank 1, when three quarters are done */
    bool ok[RANKS_MOST];
    gq_error e[RANKS_MOST];
    uint64_t sent[RANKS_MOST], sent_layer[RANKS_MOST]; /* in the run, and as progress told it */
    gq_calibration_facts facts;
} ranks_job;

typedef struct heard {
    bool stops, most;
    uint64_t sent_layer;
} heard;
static void note_progress(void *data, const gq_progress *p) {
    heard *h = data;
    if (p->bytes_done * 4 > 3 * p->bytes_total) h->most = h->stops;
    if (p->sent_layer) h->sent_layer = p->sent_layer;
}
static bool is_most(void *data) { return ((heard *)data)->most; }

static void calibrate(void *data, gq_comm *comm) {
    ranks_job *j = data;
    int rank = gq_comm_rank(comm);
    gq_error *e = &j->e[rank];
    heard h = {.stops = j->stops && rank == 1};
    gq_callbacks callbacks = {
        .size = sizeof callbacks, .user = &h, .progress = note_progress, .cancelled = is_most};
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
    uint64_t before = gq_comm_bytes_sent(comm);
    j->ok[rank] = plan && gq_run(plan, &callbacks, NULL, e);
    j->sent_layer[rank] = h.sent_layer;
    j->sent[rank] = gq_comm_bytes_sent(comm) - before;
    j->ok[rank] = gq_comm_agree(comm, j->ok[rank], e);
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
TEST(files_are_those_of_one_process) {
    static const int ranks[] = {3, 7};
    ranks_job j = job_of("experts.gguf", "many", 1);
    j.outputs = OUTPUTS;
    expect_files(&j);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        j.threads = 1 + (int)i % 2, j.read_once = ranks[i] == 7;
        ranks_run(ranks[i], calibrate, &j, -1, 0, false);
        assert_all(&j, ranks[i], true);
        assert_int_equal(j.facts.ranks, ranks[i]);
        assert_same_files(&j);
    }
    assert_false(exists(path(".many-0.gguf.gquant-states")));
}

/* What the first layer had a rank send is told from then on, by the counter of the transport: all layers are
 * alike, and little is sent besides. */
TEST(what_the_first_layer_sends_is_told) {
    static const char *const models[] = {"llama", "deepseek2", "small.gguf"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        ranks_job j = job_of(models[i], "told", 1);
        j.type = "Q4_0";
        ranks_run(3, calibrate, &j, -1, 0, false);
        assert_all(&j, 3, true);
        for (int r = 0; r < 3; r++) {
            uint64_t all = j.sent_layer[r] * j.facts.layers;
            if (!j.sent_layer[r] || all > j.sent[r] + j.sent[r] / 2 || all < j.sent[r] / 2)
                fail_msg("%s, rank %d: %llu bytes told of a layer, %llu sent in all", j.model, r,
                         (unsigned long long)j.sent_layer[r], (unsigned long long)j.sent[r]);
        }
    }
}

/* Blocks that are run several times: states of all loops are shared out, stopped on the way and continued by
 * others. */
TEST(loops_are_shared) {
    ranks_job j = job_of("nanbeige", "loops", 1);
    j.type = "Q4_0", j.outputs = OUTPUTS;
    expect_files(&j);
    j.stops = true;
    ranks_run(2, calibrate, &j, -1, 0, false);
    assert_all(&j, 2, false);
    assert_int_equal(j.e[0].status, GQ_INTERRUPTED);
    j.stops = false;
    ranks_run(3, calibrate, &j, -1, 0, false);
    assert_all(&j, 3, true);
    assert_true(j.facts.layers_finished > 0);
    assert_same_files(&j);
}

/* Which collectives fail: all from 0 on by so many, and the first and last few. */
static uint64_t collectives_step(void) {
    const char *asked = getenv("GQUANT_TEST_EVERY");
    return asked && atoi(asked) > 0 ? (uint64_t)atoi(asked) : 19;
}

static void remove_outputs(const ranks_job *j) {
    char states[300];
    snprintf(states, sizeof states, "%s/.broken-0.gguf.gquant-states", folder);
    remove(j->out[0]), remove(states);
}

/* A collective fails on one rank, or (RANKS_EACH) on each: all end with that error, the lowest rank's. No
 * output is there, unless it was finished before; and one or two ranks go on to the same bytes. Returns how
 * many seconds the failing took. */
static double one_failure_ends_all(ranks_job *j, int faulty, uint64_t collective, bool after) {
    char rank[64];
    remove_outputs(j);
    snprintf(rank, sizeof rank, "was made to fail on rank %d", faulty == RANKS_EACH ? 0 : faulty);
    double began = clock_seconds();
    ranks_run(2, calibrate, j, faulty, collective, after);
    double took = clock_seconds() - began;
    assert_all(j, 2, false);
    if (!strstr(j->e[0].text, rank))
        fail_msg("collective %llu: '%s', not '%s'", (unsigned long long)collective, j->e[0].text, rank);
    if (exists(j->out[0])) assert_same_file(path("one-0.gguf"), j->out[0]);
    if (collective % 2)
        calibrate(j, NULL);
    else
        ranks_run(2, calibrate, j, -1, 0, false);
    assert_all(j, 1, true);
    assert_same_file(path("one-0.gguf"), j->out[0]);
    return took;
}

TEST(whatever_fails_ends_all) {
    static const char *const models[] = {"llama", "qwen2moe"};
    static const int faulty[] = {0, 1, RANKS_EACH};
    for (size_t m = 0; m < 2; m++) {
        ranks_job j = job_of(models[m], "broken", 1);
        j.windows = 9, j.type = "Q4_0";
        expect_files(&j);
        uint64_t n = ranks_run(2, calibrate, &j, -1, 0, false), step = collectives_step();
        assert_all(&j, 2, true);
        assert_true(n > 50);
        double longest = 0;
        uint64_t tried = 0;
        for (uint64_t i = 0; i + 1 < n; i += i < 4 || i + 4 > n ? 1 : step)
            for (int way = step == 1 ? 0 : (int)(i % 6); way < 6; way += step == 1 ? 1 : 6, tried++)
                longest = fmax(longest, one_failure_ends_all(&j, faulty[way % 3], i, way < 3));
        print_message("%s: %llu failures of %llu collectives, ended after %.1f s at most\n", models[m],
                      (unsigned long long)tried, (unsigned long long)n, longest);
    }
}

/* One rank's caller stops it; others go on from there, with another number of ranks. */
TEST(what_one_rank_stops_others_continue) {
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
        write_whole(path(".stopped-0.gguf.gquant-ranks"), "", 0); /* as if killed while they looked for it */
        if (i)
            ranks_run(ranks[i], calibrate, &j, -1, 0, false);
        else
            calibrate(&j, NULL);
        assert_all(&j, ranks[i], true);
        assert_int_equal(j.facts.layers_finished, 1);
        assert_false(exists(path(".stopped-0.gguf.gquant-ranks")));
        assert_same_files(&j);
    }
}

int main(void) { return tests_run(start, folder_remove); }
