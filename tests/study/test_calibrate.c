/* Rounding with what flows into each matrix of a running model: that it harms less, in models of all kinds. */
#include "gguf/model.h"
#include "study/calibrate/calibration.h"
#include "tests/support/calibrated_jobs.h"
#include "tests/support/quant_kld.h"

/* ---- what it brings ---- */

static double kld(const char *original, const char *copy) {
    return quant_kld(path(original), lasting(copy), text, CONTEXT);
}

TEST(a_calibrated_file_does_less_harm) {
    static const char *const types[] = {"Q2_K", "IQ4_XS", "Q5_1"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        quantize(path("model.gguf"), path("plain.gguf"), types[i], 1);
        gq_results *results = run(job_of("model.gguf", "calibrated.gguf", types[i]));
        check_roundings(results, LAYERS * 7 + 1);
        gq_results_free(results);
        double plain = kld("model.gguf", "plain.gguf"), calibrated = kld("model.gguf", "calibrated.gguf");
        if (!(calibrated < plain)) fail_msg("%s: %g, %g without", types[i], calibrated, plain);
        unlink(path("plain.gguf"));
    }
}

/* Damped by the mean of all squares, ordinary columns beside large ones make good no errors. Sweeps let them
 * answer for a large one that comes behind them. With their scales moved away there are none. */
static double kld_with_steps(const char *in, const char *steps) {
    job *j = job_of(in, "steps.gguf", "Q4_K_S");
    j->calibration.steps = steps;
    j->calibration.correction = 0.5f, j->calibration.shrink = 0.1f; /* fixed, so that steps alone differ */
    just_run(j);
    double found = kld(in, "steps.gguf");
    unlink(path("steps.gguf"));
    return found;
}

TEST(each_step_helps_where_few_inputs_are_large) {
    static const char *const steps[] = {"none", "damping", "damping,sweeps", "damping,sweeps,balance"};
    double kld[4];
    model_save(evaluation_model_but(1, NULL, 100), path("outliers.gguf"));
    for (size_t i = 0; i < 4; i++) kld[i] = kld_with_steps("outliers.gguf", steps[i]);
    unlink(path("outliers.gguf"));
    if (!(kld[1] < 0.8 * kld[0] && kld[2] < kld[1] && kld[3] < 0.9 * kld[2]))
        fail_msg("%g, %g damped column by column, %g swept, %g balanced", kld[0], kld[1], kld[2], kld[3]);
}

/* The embedding is the output matrix, whose columns cannot be balanced; its errors are in both figures. */
TEST(steps_help_where_few_inputs_of_a_tied_model_are_large) {
    model_save(evaluation_model_tied(1, 100), path("tied.gguf"));
    double without = kld_with_steps("tied.gguf", "none"), with = kld_with_steps("tied.gguf", "");
    unlink(path("tied.gguf"));
    if (!(with < 0.8 * without)) fail_msg("%g, %g with all steps", without, with);
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
    assert_true(kld("outliers.gguf", "kept.gguf") < 1e-9);
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
            assert_int_equal(steps[CALIBRATE_ROWS].matrices, with ? 3 : 0);
            gq_results_free(results);
            left[with] += kld("few.gguf", "rows.gguf");
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
    double important = quant_kld(path("streams.gguf"), lasting("important.gguf"), held, CONTEXT),
           calibrated = quant_kld(path("streams.gguf"), lasting("calibrated.gguf"), held, CONTEXT);
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
    static char dull[2 * TOKENS + 1];
    for (size_t i = 0; i < TOKENS; i++) strcpy(dull + 2 * i, "7 ");
    j->calibration.text.bytes = dull, j->calibration.text.n = strlen(dull);
    j->calibration.steps = "-random";
    gq_plan *plan = must_plan(&j->options);
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

int main(void) { return tests_run(start, folder_remove); }
