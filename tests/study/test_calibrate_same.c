/* Bytes of a calibrated run depend on neither threads, memory, instruction set, other outputs nor interruptions. */
#include "tests/support/calibrated_jobs.h"

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
    gq_plan *plan = must_plan(&j->options);
    uint64_t all = gq_plan_calibration(plan)->memory;
    assert_true(gq_plan_calibration(plan)->inputs_memory > 0);
    assert_int_equal(gq_plan_calibration(plan)->inputs_disk, 0);
    bool in_file = gq_plan_calibration(plan)->hidden_states_in_file;
    gq_plan_free(plan);
    assert_false(in_file);
    for (unsigned less = 1; !in_file && less < 50; less++) { /* until states go to the file */
        gq_error e;
        j->calibration.memory = all - less * (all / 50);
        if (!(plan = gq_plan_new(&j->options, &e))) break;
        bool narrow = gq_plan_calibration(plan)->width < gq_plan_calibration(plan)->columns;
        in_file = gq_plan_calibration(plan)->hidden_states_in_file;
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
    gq_plan *plan = must_plan(&j->options);
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
        gq_plan *plan = must_plan(&j->options);
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
        gq_plan *plan = must_plan(&j->options);
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
    gq_plan *plan = must_plan(&j->options);
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
    gq_plan *plan = must_plan(&j->options);
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
    while (!run_until(j, 60 + 20 * times))
        assert_true(++times < 20); /* the validation begins anew each time */
    assert_true(times > 0);
    assert_same_file(path("calm2.gguf"), path("often.gguf"));
}

int main(void) { return tests_run(start, folder_remove); }
