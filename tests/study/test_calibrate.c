/* Rounding with what flows into each matrix of a running model: that it harms less, and that its bytes depend
 * on neither threads, memory, instruction set, other outputs nor interruptions. */
#include <limits.h>
#include <signal.h>

#include "model/value.h"
#include "quantize/study/calibrate/steps.h"
#include "tests/support/copy_divergence.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/runs.h"

enum { VOCABULARY = 512, CONTEXT = 24, WINDOWS = 16, TOKENS = CONTEXT * WINDOWS, LAYERS = 2 };

static char text[8 * TOKENS], dull[8 * TOKENS];

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), LAYERS, path("experts.gguf"));
    for (size_t i = 0, at = 0, much = 0; i < TOKENS; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%zu ", i * i * 31 % VOCABULARY);
        much += (size_t)snprintf(dull + much, sizeof dull - much, "7 ");
    }
    return 0;
}

/* ---- jobs ---- */

typedef struct job {
    gq_output outputs[3];
    gq_calibration calibration;
    gq_options options;
} job;

static job *job_of(const char *in, const char *out, const char *type) {
    static job j;
    j = (job){
        .outputs = {{.path = lasting(out), .filetype = type}},
        .calibration =
            {.size = sizeof(gq_calibration),
             .text = {.name = "ids", .bytes = text, .n = strlen(text), .ids = true, .context = CONTEXT}},
        .options = {.size = sizeof(gq_options), .n_outputs = 1, .threads = 1, .force = true}};
    j.options.input = lasting(in), j.options.outputs = j.outputs;
    j.options.calibration = &j.calibration;
    return &j;
}

static gq_plan *planned(const job *j) {
    gq_error e;
    gq_plan *plan = gq_plan_new(&j->options, &e);
    if (!plan) fail_msg("%s", e.text);
    return plan;
}

static gq_results *run(const job *j) {
    gq_error e;
    gq_results *results;
    gq_plan *plan = planned(j);
    if (!gq_run(plan, NULL, &results, &e)) fail_msg("%s", e.text);
    gq_plan_free(plan);
    return results;
}
static void just_run(const job *j) { gq_results_free(run(j)); }

/* ---- what it brings ---- */

static double divergence(const char *original, const char *copy) {
    return copy_divergence(path(original), lasting(copy), text, CONTEXT);
}

static void check_roundings(const gq_results *results, size_t matrices) {
    size_t n, found = 0;
    const gq_rounding *r = gq_results_roundings(results, 0, &n);
    double searched = 0, written = 0;
    for (size_t i = 0; i < n; i++) {
        if (!r[i].matrices) continue;
        assert_true(r[i].power > 0 && r[i].written <= r[i].searched && r[i].tokens > 0);
        assert_true(r[i].plain == 0 || *r[i].why);
        found += r[i].matrices;
        searched += r[i].searched / r[i].power, written += r[i].written / r[i].power;
    }
    assert_int_equal(found, matrices);
    assert_true(written < searched);
}

TEST(a_calibrated_file_does_less_harm) {
    static const char *const types[] = {"Q2_K", "IQ4_XS", "Q5_1"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        quantize(path("model.gguf"), path("plain.gguf"), types[i], 1);
        gq_results *results = run(job_of("model.gguf", "calibrated.gguf", types[i]));
        check_roundings(results, LAYERS * 7 + 1);
        gq_results_free(results);
        double plain = divergence("model.gguf", "plain.gguf"),
               calibrated = divergence("model.gguf", "calibrated.gguf");
        if (!(calibrated < plain)) fail_msg("%s: %g, %g without", types[i], calibrated, plain);
        unlink(path("plain.gguf"));
    }
}

/* Damped by the mean of all squares, ordinary columns beside large ones make good no errors. Sweeps let them
 * answer for a large one that comes behind them. With their scales moved away there are none. */
static double harm_with_steps(const char *in, const char *steps) {
    job *j = job_of(in, "steps.gguf", "Q4_K_S");
    j->calibration.steps = steps;
    just_run(j);
    double harm = divergence(in, "steps.gguf");
    unlink(path("steps.gguf"));
    return harm;
}

TEST(each_step_helps_where_few_inputs_are_large) {
    static const char *const steps[] = {"none", "damping", "damping,sweeps", "damping,sweeps,balance"};
    double harm[4];
    model_save(evaluation_model_but(1, NULL, 100), path("outliers.gguf"));
    for (size_t i = 0; i < 4; i++) harm[i] = harm_with_steps("outliers.gguf", steps[i]);
    unlink(path("outliers.gguf"));
    if (!(harm[1] < 0.8 * harm[0] && harm[2] < harm[1] && harm[3] < 0.9 * harm[2]))
        fail_msg("%g, %g damped column by column, %g swept, %g balanced", harm[0], harm[1], harm[2], harm[3]);
}

/* The embedding is the output matrix, whose columns cannot be balanced; its errors are in both figures. */
TEST(steps_help_where_few_inputs_of_a_tied_model_are_large) {
    model_save(evaluation_model_tied(1, 100), path("tied.gguf"));
    double without = harm_with_steps("tied.gguf", "none"), with = harm_with_steps("tied.gguf", "");
    unlink(path("tied.gguf"));
    if (!(with < 0.8 * without)) fail_msg("%g, %g with all steps", without, with);
}

typedef struct moment {
    size_t calls, at; /* killed at this call */
} moment;

static bool reached(void *user) {
    moment *m = user;
    if (++m->calls == m->at) raise(SIGKILL);
    return false;
}

/* In a process of its own; whether it finished. */
static bool run_until(const job *j, size_t at) {
    pid_t child = fork();
    if (child == 0) {
        moment m = {.at = at};
        gq_error e;
        gq_plan *p = gq_plan_new(&j->options, &e);
        bool done =
            p && gq_run(p, &(gq_callbacks){.size = sizeof(gq_callbacks), .user = &m, .cancelled = reached},
                        NULL, &e);
        if (!done) fprintf(stderr, "%s\n", e.text);
        _exit(done ? 0 : 1);
    }
    return run_finished(child);
}

/* Scales that are moved are found again by a run that goes on, and by one without other outputs; what is kept
 * as it is has them, too, and the model is the same. */
TEST(moved_scales_are_the_same_for_any_run) {
    model_save(evaluation_model_but(1, NULL, 100), path("outliers.gguf"));
    just_run(job_of("outliers.gguf", "calm.gguf", "Q6_K"));
    job *j = job_of("outliers.gguf", "often.gguf", "Q6_K");
    j->outputs[1] = (gq_output){.path = lasting("kept.gguf"), .filetype = "F16"};
    j->options.n_outputs = 2, j->options.threads = 2;
    assert_false(run_until(j, 60));
    just_run(j);
    assert_same_file(path("calm.gguf"), path("often.gguf"));
    assert_true(divergence("outliers.gguf", "kept.gguf") < 1e-9);
    model_source g = open_model(path("often.gguf"));
    int64_t columns;
    assert_true(model_kv_int(model_kv_find(g.kv, g.n_kv, "quantize.calibration.balanced"), &columns));
    assert_int_equal(columns, 3 * 4);
    model_close(&g);
}

/* A layer whose keys have few directions: all rows of a head are mixed of three, and hardly turned. So most
 * of what rounding does to a query can be made good by its other values. */
static void write_model_of_few_keys(const char *name, uint32_t seed) {
    static const struct {
        const char *name;
        uint64_t columns, rows;
    } parts[] = {{"attn_norm", 256, 0},     {"attn_q", 256, 256},  {"attn_v", 256, 64},
                 {"attn_output", 256, 256}, {"ffn_norm", 256, 0},  {"ffn_gate", 256, 512},
                 {"ffn_up", 256, 512},      {"ffn_down", 512, 256}};
    model *m = model_new("llama", 1);
    float epsilon = 1e-5f, base = 1e9f, *mixed = random_values(64 * 256, 2 * seed + 1),
          *by = random_values(64 * 3, 2 * seed + 2);
    model_set_u32(m, "llama.attention.head_count", 8);
    model_set_u32(m, "llama.attention.head_count_kv", 2);
    model_set_u32(m, "llama.embedding_length", 256);
    model_set_u32(m, "llama.feed_forward_length", 512);
    model_set_u32(m, "llama.context_length", 64);
    model_set(m, "llama.rope.freq_base", GGUF_FLOAT32, &base, 4);
    model_set(m, "llama.attention.layer_norm_rms_epsilon", GGUF_FLOAT32, &epsilon, 4);
    token_model_letters(m, true, VOCABULARY);
    add_weights(m, "token_embd.weight", 30, 256, VOCABULARY);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char full[64];
        snprintf(full, sizeof full, "blk.0.%s.weight", parts[i].name);
        add_weights(m, full, 5, parts[i].columns, parts[i].rows);
    }
    for (size_t r = 64; r-- > 0;) /* rows 0, 1, 2 are mixed last */
        for (size_t c = 0; c < 256; c++) {
            float sum = 0;
            for (size_t k = 0; k < 3; k++) sum += 100 * by[r * 3 + k] * mixed[k * 256 + c];
            mixed[r * 256 + c] = sum;
        }
    model_add(m, "blk.0.attn_k.weight", GGUF_F16, (uint64_t[4]){256, 64}, mixed);
    add_weights(m, "output_norm.weight", 1, 256, 0), add_weights(m, "output.weight", 5, 256, VOCABULARY);
    model_save(m, path(name)), free(mixed), free(by);
}

/* Rows of one head count together: what attention makes of them is nearer to the original's. A single model
 * may be lucky without, so three of them decide together: .35 of the divergence with fused multiply-add, .49
 * without. */
TEST(rows_rounded_one_after_another_do_less_harm) {
    static const char *const coarse = "attn_q[.]=Q3_K";
    double left[2] = {0};
    for (uint32_t seed = 0; seed < 3; seed++) {
        write_model_of_few_keys("few.gguf", seed);
        for (int with = 0; with < 2; with++) {
            job *j = job_of("few.gguf", "rows.gguf", "Q8_0");
            j->options.tensor_types = (gq_list){&coarse, 1};
            j->calibration.steps = with ? "" : "-rows";
            gq_results *results = run(j);
            size_t n;
            const gq_step *steps = gq_results_steps(results, 0, &n);
            assert_int_equal(steps[STEP_ROWS].matrices, with ? 3 : 0);
            gq_results_free(results);
            left[with] += divergence("few.gguf", "rows.gguf");
        }
    }
    if (!(left[1] < 0.7 * left[0])) fail_msg("%g, %g without", left[1], left[0]);
}

/* ---- states of several streams ---- */

/* Ids of a text; those of `seed` 1 are other ones. */
static const char *stream_ids(uint32_t seed, size_t n) {
    static char of[2][8 * TOKENS];
    uint64_t random = 77 + seed;
    for (size_t i = 0, at = 0; i < n; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        at += (size_t)snprintf(of[seed] + at, sizeof of[seed] - at, "%u ",
                               (unsigned)(random >> 33) % VARIANT_VOCABULARY);
    }
    return of[seed];
}

/* With what importance data of the same text make of a plain file. */
static void quantize_by_importance(const char *in, const char *out, const char *ids) {
    gq_text t = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT};
    gq_importance_request r = {.size = sizeof r,
                               .model = lasting(in),
                               .texts = &t,
                               .n_texts = 1,
                               .out = lasting("streams.imatrix"),
                               .force = true,
                               .output = true,
                               .threads = 1};
    gq_error e;
    gq_importance_plan *p = gq_importance_plan_new(&r, &e);
    gq_imatrix *m = p ? gq_importance_compute(p, NULL, &e) : NULL;
    if (!m) fail_msg("%s", e.text);
    gq_importance_plan_free(p);
    job *j = job_of(in, out, "Q3_K_M");
    j->options.calibration = NULL, j->options.imatrix = lasting("streams.imatrix");
    just_run(j);
    gq_imatrix_free(m);
}

/* Calibrates a small model by one thread and by two, which is no worse than importance data. */
static void check_variant(const char *name) {
    model_save(variant_model(variant_named(name), GGUF_F16, NULL), path("streams.gguf"));
    const char *ids = stream_ids(0, TOKENS), *held = stream_ids(1, TOKENS);
    quantize_by_importance("streams.gguf", "important.gguf", ids);
    for (int threads = 1; threads <= 2; threads++) {
        job *j = job_of("streams.gguf", threads == 1 ? "calibrated.gguf" : "other.gguf", "Q3_K_M");
        j->options.threads = threads;
        j->calibration.text.bytes = ids, j->calibration.text.n = strlen(ids);
        just_run(j);
    }
    assert_same_file(path("calibrated.gguf"), path("other.gguf"));
    double important = copy_divergence(path("streams.gguf"), lasting("important.gguf"), held, CONTEXT),
           calibrated = copy_divergence(path("streams.gguf"), lasting("calibrated.gguf"), held, CONTEXT);
    if (!(calibrated <= important)) fail_msg("%s: %g, %g by importance", name, calibrated, important);
}

/* Compressed and pooled keys, hyper-connections, tables of experts and of n-grams; the last one's embedding is its
 * output, before which the streams have matrices of their own. */
TEST(models_of_streams_are_calibrated) {
    check_variant("deepseek4"), check_variant("qwen4exp"), check_variant("qwen4exp-blocks");
}

TEST(experts_are_rounded_by_their_own_tokens) {
    job *j = job_of("experts.gguf", "experts-out.gguf", "Q4_0");
    gq_results *results = run(j);
    check_roundings(results, 7 + 4 + 3 * EXPERT_MODEL_EXPERTS + 1 + 2);
    gq_results_free(results);
}

/* A file's tensor; malloc'ed. */
static uint8_t *bytes_in(const char *file, const char *name, uint64_t *size) {
    model_source g = open_model(path(file));
    uint8_t *bytes = tensor_bytes(&g, name, size);
    model_close(&g);
    return bytes;
}

static bool same_tensor(const char *a, const char *b, const char *name) {
    uint64_t n, m;
    uint8_t *x = bytes_in(a, name, &n), *y = bytes_in(b, name, &m);
    bool same = n == m && memcmp(x, y, n) == 0;
    free(x), free(y);
    return same;
}

/* Pairs of matrices beside others, of adapters that tokens of the text switch on. */
TEST(adapters_of_a_file_stay) {
    size_t stayed = 0;
    check_variant("graniteswitch");
    model_source g = open_model(path("streams.gguf"));
    for (uint64_t i = 0; i < g.n_tensors; i++) {
        if (!strstr(g.tensors[i]->name, ".lora_")) continue;
        if (!same_tensor("streams.gguf", "calibrated.gguf", g.tensors[i]->name))
            fail_msg("%s", g.tensors[i]->name);
        stayed++;
    }
    model_close(&g);
    assert_int_equal(stayed, 3 * 14);
    assert_false(same_tensor("streams.gguf", "calibrated.gguf", "blk.2.attn_qkv.weight"));
}

/* Without their steps the router keeps its bytes, and the embedding is the plain file's; the file says
 * whether routers may have changed. */
TEST(routers_and_embeddings_change_by_their_steps_alone) {
    static const char router[] = "blk.1.ffn_gate_inp.weight", embedding[] = "token_embd.weight";
    quantize(path("experts.gguf"), path("plain.gguf"), "Q4_0", 1);
    for (int without = 0; without < 2; without++) {
        job *j = job_of("experts.gguf", "routed.gguf", "Q4_0");
        j->calibration.steps = without ? "-embedding,-router" : NULL;
        gq_results *results = run(j);
        size_t n;
        const gq_step *s = gq_results_steps(results, 0, &n);
        for (size_t i = 0; i < n; i++)
            if (!strcmp(s[i].name, "router") || !strcmp(s[i].name, "embedding")) {
                assert_int_equal(s[i].matrices, !without);
                assert_true(without || (s[i].compared == 1 && s[i].with <= s[i].without));
                /* this router is random: whether a fit of it keeps more tokens is not known beforehand */
                if (!strcmp(s[i].name, "router"))
                    assert_true(same_tensor("experts.gguf", "routed.gguf", router) == !s[i].kept);
                else
                    assert_true(same_tensor("plain.gguf", "routed.gguf", embedding) == !s[i].kept);
            }
        model_source g = open_model(path("routed.gguf"));
        assert_true((model_kv_find(g.kv, g.n_kv, "quantize.calibration.fitted") != NULL) == !without);
        model_close(&g);
        gq_results_free(results);
    }
    unlink(path("plain.gguf")), unlink(path("routed.gguf"));
}

/* All tokens are one, and go to the same experts. */
TEST(an_expert_that_sees_nothing_is_searched) {
    job *j = job_of("experts.gguf", "dull.gguf", "Q4_0");
    j->calibration.text.bytes = dull, j->calibration.text.n = strlen(dull);
    j->calibration.steps = "-random";
    gq_plan *plan = planned(j);
    gq_results *results = NULL;
    gq_error e;
    size_t n, seen = 0;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    assert_true(gq_run(plan, NULL, &results, &e));
    const gq_rounding *r = gq_results_roundings(results, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (strstr(t[i].name, "_exps")) {
            assert_true(r[i].matrices == EXPERT_MODEL_EXPERTS && r[i].plain >= 2 && r[i].tokens == 0);
            assert_non_null(strstr(r[i].why, "no token"));
            seen++;
        }
    assert_int_equal(seen, 3);
    gq_results_free(results);
    gq_plan_free(plan);
}

/* ---- what it does not depend on ---- */

/* Errors that steps report are sums over windows, however many of these are in memory. */
static void assert_same_steps(const gq_results *a, const gq_results *b) {
    size_t n, m;
    const gq_step *x = gq_results_steps(a, 0, &n), *y = gq_results_steps(b, 0, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        if (x[i].kept != y[i].kept || x[i].without != y[i].without || x[i].with != y[i].with)
            fail_msg("%s: %a without and %a with it, %a and %a", x[i].name, x[i].without, x[i].with,
                     y[i].without, y[i].with);
}

TEST(same_for_any_threads_and_memory) {
    gq_results *one = run(job_of("experts.gguf", "one.gguf", "Q4_K_S"));
    job *j = job_of("experts.gguf", "two.gguf", "Q4_K_S");
    j->options.threads = 3;
    just_run(j);
    assert_same_file(path("one.gguf"), path("two.gguf"));
    if (SANITIZED) { /* sanitizers take memory of their own, more and more of it */
        gq_results_free(one);
        return;
    }
    j->options.threads = 16; /* for as many memory would have to hold the widest matrix at once */
    gq_plan *plan = planned(j);
    uint64_t all = gq_plan_calibration(plan)->memory;
    assert_true(gq_plan_calibration(plan)->inputs_memory > 0);
    assert_int_equal(gq_plan_calibration(plan)->inputs_disk, 0);
    bool in_file = gq_plan_calibration(plan)->states_in_file;
    gq_plan_free(plan);
    assert_false(in_file);
    for (unsigned less = 1; !in_file && less < 50; less++) { /* until states go to the file */
        gq_error e;
        j->calibration.memory = all - less * (all / 50);
        if (!(plan = gq_plan_new(&j->options, &e))) break;
        bool narrow = gq_plan_calibration(plan)->width < gq_plan_calibration(plan)->columns;
        in_file = gq_plan_calibration(plan)->states_in_file;
        assert_true(!in_file || gq_plan_calibration(plan)->inputs_disk > 0);
        gq_plan_free(plan);
        assert_false(narrow);
    }
    assert_true(in_file);
    gq_results *two = run(j);
    assert_same_file(path("one.gguf"), path("two.gguf"));
    assert_same_steps(one, two);
    gq_results_free(one), gq_results_free(two);
}

TEST(same_on_levels_that_fuse) {
    static const char *const levels[] = {"x86-64-v3", "x86-64-v4", "amx"};
    const char *asked = getenv("GQUANT_ISA") ? strdup(getenv("GQUANT_ISA")) : NULL;
    size_t made = 0;
    if (SANITIZED) return; /* the same job on the same threads */
    for (size_t i = 0; i < 3; i++) {
        setenv("GQUANT_ISA", levels[i], 1);
        if (!gq_isa()) continue;
        job *j = job_of("experts.gguf", made ? "b.gguf" : "a.gguf", "Q3_K_S");
        j->calibration.arithmetic = "bf16"; /* in which only these levels differ from each other's work */
        just_run(j);
        if (made++) assert_same_file(path("a.gguf"), path("b.gguf"));
    }
    unsetenv("GQUANT_ISA");
    if (asked) setenv("GQUANT_ISA", asked, 1), free((void *)asked);
    if (made < 2) skip();
}

TEST(same_beside_other_outputs) {
    just_run(job_of("model.gguf", "alone.gguf", "Q4_K_M"));
    job *j = job_of("model.gguf", "first.gguf", "Q2_K");
    j->outputs[1] = (gq_output){.path = lasting("second.gguf"), .filetype = "Q4_K_M"};
    j->outputs[2] = (gq_output){.path = lasting("third.gguf"), .filetype = "F16"};
    j->options.n_outputs = 3;
    just_run(j);
    assert_same_file(path("alone.gguf"), path("second.gguf"));
}

TEST(layers_may_be_left_out) {
    job *j = job_of("model.gguf", "pruned.gguf", "Q4_K_S");
    j->options.prune_layers = "0";
    gq_results *results = run(j);
    check_roundings(results, (LAYERS - 1) * 7 + 1);
    gq_results_free(results);
}

/* Types chosen by what flows in, and then rounded by it. */
TEST(a_size_may_be_asked_for) {
    job *j = job_of("model.gguf", "sized.gguf", NULL);
    j->outputs[0].target.bpw = 4.5, j->options.measure_file = path("measured");
    gq_plan *plan = planned(j);
    const gq_summary *s = gq_plan_summary(plan, 0);
    assert_true(8.0 * (double)s->out_bytes <= 4.5 * (double)s->n_weights);
    gq_plan_free(plan);
    gq_results *results = run(j);
    check_roundings(results, LAYERS * 7 + 1);
    gq_results_free(results);
    assert_int_equal(rename(path("sized.gguf"), path("first")), 0);
    just_run(j); /* from what was measured before */
    assert_same_file(path("first"), path("sized.gguf"));
}

/* ---- interrupted ---- */

/* The least memory that a plan takes. */
static uint64_t least_memory(job *j) {
    uint64_t low = 1 << 20, high = 1 << 30; /* too little, enough */
    while (high - low > 4096) {
        gq_error e;
        j->calibration.memory = low + (high - low) / 2;
        gq_plan *plan = gq_plan_new(&j->options, &e);
        *(plan ? &high : &low) = j->calibration.memory;
        gq_plan_free(plan);
    }
    return high;
}

/* How many experts are done at once follows from what the process has taken already, too. Here that is more
 * from one run to the next, until a plan does not fit; the width follows from the memory asked for alone. */
TEST(same_for_any_number_of_experts_at_once) {
    if (SANITIZED) return; /* sanitizers take memory of their own, more and more of it */
    const size_t step = 1 << 20, most = 64;
    job *j = job_of("experts.gguf", "some.gguf", "Q4_K_S");
    j->calibration.memory = least_memory(j) + most * step;
    uint64_t width = 0, seen[EXPERT_MODEL_EXPERTS + 1] = {0}, numbers = 0;
    void *taken[2 * 64];
    size_t n = 0;
    for (gq_error e; n < 2 * most; taken[n++] = memset(malloc(step), 1, step)) {
        gq_plan *plan = gq_plan_new(&j->options, &e);
        if (!plan) break;
        gq_calibration_facts f = *gq_plan_calibration(plan);
        gq_plan_free(plan);
        if (width == 0) width = f.width;
        assert_int_equal(f.width, width);
        if (seen[f.experts_at_once]++) continue;
        assert_true(run_until(j, 0)); /* memory that a run takes here would count in the next one */
        if (numbers++)
            assert_same_file(path("first-experts.gguf"), path("some.gguf"));
        else
            assert_int_equal(rename(path("some.gguf"), lasting("first-experts.gguf")), 0);
    }
    while (n > 0) free(taken[--n]);
    assert_true(numbers > 1);
}

/* Experts are decoded for each batch, so whole batches come before experts beside each other. */
TEST(batches_are_whole_before_experts_are_together) {
    if (SANITIZED) return;
    job *j = job_of("experts.gguf", "batches.gguf", "Q4_K_S");
    uint64_t least = least_memory(j), whole = 0, several = 0, parts = 0;
    for (uint64_t more = 64 << 20;; more = more > 1 << 20 ? more - (1 << 20) : more / 2) {
        j->calibration.memory = least + more;
        gq_plan *plan = planned(j);
        gq_calibration_facts f = *gq_plan_calibration(plan);
        gq_plan_free(plan);
        if (!whole) whole = f.windows_at_once;
        if (f.experts_at_once > 1 && f.windows_at_once < whole)
            fail_msg("%llu bytes: %llu experts, but %llu windows of %llu",
                     (unsigned long long)j->calibration.memory, (unsigned long long)f.experts_at_once,
                     (unsigned long long)f.windows_at_once, (unsigned long long)whole);
        several += f.experts_at_once > 1 && f.experts_at_once < EXPERT_MODEL_EXPERTS;
        parts += f.windows_at_once < whole;
        if (!more) break;
    }
    assert_true(whole > 1 && several > 0 && parts > 0);
}

/* A mixture's batches are larger, but what fits with usual ones is still done. */
TEST(large_batches_give_way) {
    enum { LONG = 64, MANY = 16384, USUAL = 2048 / LONG, LARGE = 8192 / LONG };
    if (SANITIZED) return;
    variant v = *variant_named("llama-moe");
    v.width = 96, v.ff = 160, v.experts = 64, v.used = 2;
    model_save(variant_model(&v, GGUF_F32, NULL), path("many.gguf"));
    static char ids[3 * MANY + 1];
    for (size_t i = 0, at = 0; i < MANY; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % VARIANT_VOCABULARY);
    job *j = job_of("many.gguf", "many-out.gguf", "Q4_0");
    j->calibration.text.bytes = ids, j->calibration.text.n = strlen(ids), j->calibration.text.context = LONG;
    uint64_t least = least_memory(j), before = LARGE, usual = 0, between = 0, in_parts = 0;
    j->calibration.text.tokens = USUAL * LONG; /* no large batches */
    assert_true(least < least_memory(j) + (2 << 20));
    j->calibration.text.tokens = 0;
    for (uint64_t more = 256 << 20; more > 1 << 16; more -= more / 16) {
        j->calibration.memory = least + more;
        gq_plan *plan = planned(j);
        gq_calibration_facts f = *gq_plan_calibration(plan);
        gq_plan_free(plan);
        if (more == 256 << 20) assert_int_equal(f.windows_at_once, LARGE);
        /* Before batches are small, a layer need not be in memory as a whole. */
        if (f.windows_at_once > before && (before >= USUAL / 2 || in_parts++))
            fail_msg("%llu bytes: %llu windows, %llu with more", (unsigned long long)j->calibration.memory,
                     (unsigned long long)f.windows_at_once, (unsigned long long)before);
        before = f.windows_at_once, usual += before == USUAL, between += before == LARGE / 2;
    }
    assert_true(usual > 0 && between > 0 && before < USUAL && in_parts == 1);
}

/* Behind this call a layer of experts.gguf is finished; 20 until that was looked for. */
static size_t call_behind_a_layer = 20;

static size_t layers_announced(const job *j, bool *told) {
    gq_plan *plan = planned(j);
    size_t n = gq_plan_calibration(plan)->layers_finished;
    *told = warned(plan, " will be continued: ");
    gq_plan_free(plan);
    return n;
}

/* Finished layers are in the output: without it there is nothing to go on with, and nothing is promised. */
TEST(layers_without_their_output_are_not_announced) {
    job *j = job_of("experts.gguf", "half.gguf", "Q4_K_S");
    bool told = false;
    for (size_t at = call_behind_a_layer; layers_announced(j, &told) == 0;
         call_behind_a_layer = at, at += 20) {
        assert_true(at < 2000);
        assert_false(told);
        if (run_until(j, at)) unlink(path("half.gguf"));
    }
    assert_true(told);
    assert_int_equal(unlink(path(".half.gguf.gquant")), 0);
    assert_int_equal(layers_announced(j, &told), 0);
    assert_false(told);
    just_run(j);
    unlink(path("half.gguf"));
}

/* A machine may be slower when a run goes on; what was chosen by a time stays. */
TEST(a_run_within_a_time_goes_on_as_it_was_begun) {
    bool told = false;
    just_run(job_of("experts.gguf", "calm.gguf", "Q4_K_S"));
    job *j = job_of("experts.gguf", "timed.gguf", "Q4_K_S");
    for (size_t at = call_behind_a_layer; j->calibration.seconds = 1e6, layers_announced(j, &told) == 0;
         at += 20) {
        assert_true(at < 2000);
        if (run_until(j, at)) unlink(path("timed.gguf"));
    }
    j->calibration.seconds = 1e-3; /* too little for a new run */
    assert_true(layers_announced(j, &told) > 0);
    just_run(j);
    assert_same_file(path("calm.gguf"), path("timed.gguf"));
    unlink(path("timed.gguf"));
    gq_error e = {.text = ""};
    assert_null(gq_plan_new(&j->options, &e));
    assert_non_null(strstr(e.text, "the least calibration takes about"));
    assert_int_equal(e.status, GQ_USAGE);
}

/* Blocks that are run several times: the states of all loops lie one after another, and windows are fewer
 * than what metrics of rows look at. */
static void check_loops(const char *name, const char *tensors) {
    enum { LONG = 200, FEW = 3 };
    variant v = *variant_named(name);
    v.arch = name, v.width = 96, v.ff = 160, v.extra_model = tensors;
    model_save(variant_model(&v, GGUF_F32, NULL), path("loops.gguf"));
    char ids[8 * LONG * FEW];
    for (size_t i = 0, at = 0; i < LONG * FEW; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % VARIANT_VOCABULARY);
    job *j = job_of("loops.gguf", "loops1.gguf", "Q4_0");
    j->calibration.text.bytes = ids, j->calibration.text.n = strlen(ids), j->calibration.text.context = LONG;
    just_run(j);
    j->outputs[0].path = lasting("loops2.gguf");
    if (SANITIZED) return; /* sanitizers take memory of their own, more and more of it */
    j->calibration.memory = least_memory(j) + (256 << 10);
    gq_plan *plan = planned(j);
    assert_int_equal(gq_plan_calibration(plan)->windows_at_once, 1);
    gq_plan_free(plan);
    just_run(j);
    assert_same_file(path("loops1.gguf"), path("loops2.gguf"));
    unlink(path("loops1.gguf")), unlink(path("loops2.gguf"));
}

/* In hrm_text a stack of blocks rests in some loops. */
TEST(same_with_loops_for_any_memory) {
    check_loops("nanbeige", NULL);
    check_loops("hrm_text", "hrm.z_l_init=96");
}

TEST(a_killed_run_goes_on) {
    gq_results *calm = run(job_of("experts.gguf", "calm.gguf", "Q4_K_S"));
    size_t n, killed = 0;
    const gq_rounding *wanted = gq_results_roundings(calm, 0, &n);
    job *j = job_of("experts.gguf", "killed.gguf", "Q4_K_S");
    for (size_t at = 1; at < 300; at += (SANITIZED ? 3 : 1) * (4 + 2 * at)) {
        bool done = run_until(j, at);
        killed += !done;
        if (!done) {
            gq_results *results = run(j);
            const gq_rounding *found = gq_results_roundings(results, 0, &n);
            for (size_t i = 0; i < n; i++)
                assert_true(found[i].written == wanted[i].written && found[i].codes == wanted[i].codes);
            gq_results_free(results);
        }
        assert_same_file(path("calm.gguf"), path("killed.gguf"));
        assert_false(exists(path(".killed.gguf.gquant-states")));
        unlink(path("killed.gguf"));
    }
    assert_true(killed >= 3);
    gq_results_free(calm);
}

/* Again and again, until nothing is left to be done. */
TEST(a_run_killed_often_goes_on) {
    just_run(job_of("model.gguf", "calm2.gguf", "Q4_K_S"));
    job *j = job_of("model.gguf", "often.gguf", "Q4_K_S");
    size_t times = 0;
    while (!run_until(j, 60)) assert_true(++times < 20);
    assert_true(times > 0);
    assert_same_file(path("calm2.gguf"), path("often.gguf"));
}

int main(void) { return tests_run(start, folder_remove); }
