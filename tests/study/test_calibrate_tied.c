/* An embedding that is the output matrix as well: it is rounded by what flows into the output, which a run of
 * the original ahead of all else finds out. That does less harm, and bytes depend neither on threads, memory
 * and ranks, nor on when a run was stopped. One that flows into routers alone is tried in the model. */
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/quant_kld.h"
#include "tests/support/ranks.h"
#include "tests/support/runs.h"

/* Of 19 windows the run ahead has 10 tokens for each of 96 columns: 15. */
enum { CONTEXT = 64, WINDOWS = 19, TOKENS = CONTEXT * WINDOWS };

static char text[8 * TOKENS];

/* Mixtures with an output matrix of their own. */
static const char *const routed[] = {"bailingmoe2", "dbrx", "grok", "minimax-m2"};

static void write_model(const char *name) {
    variant v = *variant_named(name);
    v.width = 96, v.layers = 2;
    if (!v.arch) v.arch = name;
    model_save(variant_model(&v, GGUF_F32, NULL), path(name));
}

FIXTURE(start) {
    folder = temporary_folder();
    write_model("granitemoe"), write_model("gemma2");
    for (size_t i = 0; i < sizeof routed / sizeof *routed; i++) write_model(routed[i]);
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at +=
            (size_t)snprintf(text + at, sizeof text - at, "%zu ", (i * i * 31 + i / 7) % VARIANT_VOCABULARY);
    return 0;
}

/* A request, and where it is stopped: when progress names this, or never. */
typedef struct tied_job {
    char model[256], out[256];
    const char *steps, *stops_at;
    int threads;
    uint64_t memory;
    bool plans; /* and does no more */
    bool ok[RANKS_MOST], in_file;
    gq_step step; /* the embedding's */
} tied_job;

typedef struct stop {
    const char *at;
    bool reached;
} stop;
static void note_step(void *data, const gq_progress *p) {
    stop *s = data;
    s->reached = s->reached || (p->tensor && strstr(p->tensor, s->at));
}
static bool is_reached(void *data) { return ((stop *)data)->reached; }

static void calibrate(void *data, gq_comm *comm) {
    tied_job *j = data;
    int rank = gq_comm_rank(comm);
    gq_error e = {.text = ""};
    stop stops = {.at = j->stops_at};
    gq_callbacks callbacks = {
        .size = sizeof callbacks, .user = &stops, .progress = note_step, .cancelled = is_reached};
    gq_calibration calibration = {
        .size = sizeof calibration,
        .text = {.name = "ids", .bytes = text, .n = strlen(text), .ids = true, .context = CONTEXT},
        .steps = j->steps,
        .correction = 0.8f, /* fixed, so that steps alone differ */
        .memory = j->memory};
    gq_output output = {.path = j->out, .filetype = "Q4_0"};
    gq_results *results = NULL;
    gq_plan *plan = gq_plan_new(&(gq_options){.size = sizeof(gq_options),
                                              .input = j->model,
                                              .outputs = &output,
                                              .n_outputs = 1,
                                              .force = true,
                                              .threads = j->threads,
                                              .token_embedding_type = "q4_0",
                                              .calibration = &calibration,
                                              .comm = comm},
                                &e);
    if (plan && rank == 0) j->in_file = gq_plan_calibration(plan)->hidden_states_in_file;
    j->ok[rank] =
        plan && (j->plans || gq_run(plan, j->stops_at ? &callbacks : NULL, rank ? NULL : &results, &e));
    j->ok[rank] = gq_comm_agree(comm, j->ok[rank], &e);
    if (!j->ok[rank] && !j->stops_at && !j->plans) fprintf(stderr, "rank %d: %s\n", rank, e.text);
    size_t n = 0;
    const gq_step *s = results ? gq_results_steps(results, 0, &n) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(s[i].name, "embedding")) j->step = s[i], j->step.name = "embedding";
    gq_results_free(results);
    gq_plan_free(plan);
}

static tied_job job_of(const char *name, const char *out, const char *steps) {
    tied_job j = {.threads = 1, .steps = steps};
    snprintf(j.model, sizeof j.model, "%s", path(name));
    snprintf(j.out, sizeof j.out, "%s", path(out));
    return j;
}

static tied_job calibrated(const char *name, const char *out, const char *steps) {
    tied_job j = job_of(name, out, steps);
    calibrate(&j, NULL);
    assert_true(j.ok[0]);
    return j;
}

static double kld(const char *name, const char *copy) { return quant_kld(path(name), copy, text, CONTEXT); }

/* Scaled embeddings, soft-caps of logits, logits that are divided; and routers that the embedding flows into.
 */
TEST(tied_embeddings_are_rounded_by_the_output) {
    static const char *const names[] = {"gemma2", "granitemoe"};
    for (size_t i = 0; i < 2; i++) {
        tied_job with = calibrated(names[i], "with.gguf", "default"),
                 without = calibrated(names[i], "without.gguf", "-embedding");
        assert_int_equal(without.step.matrices, 0);
        assert_true(with.step.matrices == 1 && with.step.kept == 1 && with.step.compared == 1);
        if (!(with.step.with < .9 * with.step.without))
            fail_msg("%s: %g, %g without", names[i], with.step.with, with.step.without);
        double kl = kld(names[i], with.out), before = kld(names[i], without.out);
        /* Of a random model and this little text, chance moves it by a percent or two. */
        if (!(kl < 1.03 * before)) fail_msg("%s: %g, %g without", names[i], kl, before);
    }
}

/* Whether errors that move routers or all others do more harm is different from model to model. */
TEST(embeddings_that_do_harm_are_searched) {
    size_t kept = 0, n = sizeof routed / sizeof *routed;
    for (size_t i = 0; i < n; i++) {
        tied_job with = calibrated(routed[i], "with.gguf", "embedding"),
                 without = calibrated(routed[i], "without.gguf", "none");
        assert_true(with.step.matrices == 1 && with.step.compared == 1);
        double kl = kld(routed[i], with.out), before = kld(routed[i], without.out);
        if (!(kl <= before)) fail_msg("%s: %g, %g without", routed[i], kl, before);
        kept += with.step.kept;
    }
    assert_true(kept > 0 && kept < n);
}

TEST(same_for_threads_memory_and_ranks) {
    tied_job one = calibrated("granitemoe", "one.gguf", NULL), j = job_of("granitemoe", "other.gguf", NULL);
    static const int ranks[] = {1, 3, 7};
    for (size_t i = 0; i < 3; i++) { /* of seven ranks some have no windows of the run ahead */
        j.threads = 1 + (int)i;
        ranks_run(ranks[i], calibrate, &j, -1, 0, false);
        for (int r = 0; r < ranks[i]; r++) assert_true(j.ok[r]);
        assert_same_file(one.out, j.out);
    }
    if (SANITIZED) return;                  /* sanitizers take memory of their own */
    uint64_t low = 1 << 20, high = 1 << 30; /* too little, enough */
    for (j.plans = true; high - low > 4096;) {
        j.memory = low + (high - low) / 2;
        calibrate(&j, NULL);
        *(j.ok[0] ? &high : &low) = j.memory;
    }
    j.plans = false, j.memory = high + (64 << 10);
    calibrate(&j, NULL);
    assert_true(j.ok[0] && j.in_file);
    assert_same_file(one.out, j.out);
}

TEST(stopped_anywhere_it_goes_on) {
    static const char *const at[] = {"layer 2 of 2, ahead", "the output matrix, ahead", "embedding",
                                     "layer 1 of 2, rounding", "layer 2 of 2, inputs"};
    tied_job one = calibrated("granitemoe", "calm.gguf", NULL);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        tied_job j = job_of("granitemoe", "stopped.gguf", NULL);
        remove(j.out);
        j.stops_at = at[i];
        calibrate(&j, NULL);
        if (j.ok[0]) fail_msg("%s was not met", at[i]);
        j.stops_at = NULL;
        calibrate(&j, NULL);
        assert_true(j.ok[0]);
        assert_same_file(one.out, j.out);
    }
}

int main(void) { return tests_run(start, folder_remove); }
