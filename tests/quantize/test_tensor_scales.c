/* Matrices of NVFP4 with factors beside them (gq_options.tensor_scales): which get one and what it is, how much
 * nearer they are then, that a run can be stopped and shards be made, and where there is none. */
#include <math.h>

#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/quant_kld.h"
#include "tests/support/runs.h"

static const char *const patterns[] = {"blk\\..*(attn|ffn)_(q|k|v|output|gate|up|down)\\.weight=NVFP4"};

FIXTURE(start) {
    folder = temporary_folder();
    static const char *const archs[] = {"llama", "falcon"};
    for (size_t i = 0; i < 2; i++) {
        model *m = i ? model_new("falcon", 1) : model_llama(2);
        if (i) model_add(m, "blk.0.ffn_up.weight", GGUF_F16, (uint64_t[4]){256, 64}, NULL);
        model_save(m, path(archs[i]));
    }
    return 0;
}

static gq_output output;
static gq_options options_for(const char *in, const char *out, bool scales) {
    output = (gq_output){.path = path(out), .filetype = "Q8_0"};
    return (gq_options){.size = sizeof(gq_options),
                        .input = path(in),
                        .outputs = &output,
                        .n_outputs = 1,
                        .threads = 2,
                        .force = true,
                        .tensor_types = {patterns, 1},
                        .tensor_scales = scales};
}

TEST(factors_stand_beside_matrices) {
    gq_options o = options_for("llama", "scaled.gguf", true);
    gq_results_free(run_plan(&o));
    model_source in = open_model(path("llama")), m = open_model(path("scaled.gguf"));
    assert_int_equal(m.n_tensors, in.n_tensors + 2 * 7);
    uint64_t n;
    float *factor = tensor_values(&m, "blk.1.ffn_down.scale", &n),
          *x = tensor_values(&in, "blk.1.ffn_down.weight", &n),
          *y = tensor_values(&m, "blk.1.ffn_down.weight", &n);
    int power;
    assert_true(frexpf(*factor, &power) == 0.5f && *factor < 1);
    double e2 = 0, x2 = 0;
    for (uint64_t i = 0; i < n; i++) {
        double e = (double)(x[i] - y[i] * *factor);
        e2 += e * e, x2 += (double)x[i] * (double)x[i];
    }
    assert_true(sqrt(e2 / x2) < 0.12);
    assert_null(model_tensor_named(&m, "token_embd.scale"));
    assert_null(model_tensor_named(&m, "output.scale"));
    assert_null(model_tensor_named(&m, "blk.0.attn_norm.scale"));
    free(factor), free(x), free(y);
    model_close(&m), model_close(&in);
}

/* Patterns are of the names in the output, where layer 1 is layer 0. */
TEST(patterns_name_what_is_written) {
    static const char *const first[] = {"blk\\.0\\.ffn_up\\.weight=NVFP4"};
    gq_options o = options_for("llama", "pruned.gguf", true);
    o.tensor_types.items = first, o.prune_layers = "0";
    gq_results_free(run_plan(&o));
    model_source m = open_model(path("pruned.gguf"));
    assert_int_equal(model_tensor_named(&m, "blk.0.ffn_up.weight")->type->id, GGUF_NVFP4);
    assert_non_null(model_tensor_named(&m, "blk.0.ffn_up.scale"));
    model_close(&m);
}

static double error_of(const char *copy) {
    const char *copies[] = {path(copy)};
    gq_error e;
    gq_comparison *c = gq_compare(&(gq_comparison_request){.size = sizeof(gq_comparison_request),
                                                           .base_model = path("llama"),
                                                           .quants = copies,
                                                           .n_quants = 1,
                                                           .threads = 1},
                                  &e);
    if (!c) fail_msg("%s", e.text);
    size_t n;
    double e2 = 0, x2 = 0;
    const gq_loss *l = gq_comparison_losses(c, 0);
    gq_comparison_tensors(c, 0, &n);
    for (size_t i = 0; i < n; i++) e2 += l[i].e2, x2 += l[i].x2;
    gq_comparison_free(c);
    return sqrt(e2 / x2);
}

TEST(weights_are_nearer_with_them) {
    gq_options o = options_for("llama", "plain.gguf", false);
    gq_results_free(run_plan(&o));
    double plain = error_of("plain.gguf"), scaled = error_of("scaled.gguf");
    if (!(scaled < plain)) fail_msg("%g, without factors %g", scaled, plain);
}

TEST(stopped_runs_and_shards) {
    gq_options o = options_for("llama", "again.gguf", true);
    stopper s = {.after = 9};
    gq_error e;
    assert_int_not_equal(run_some(&o, &s, &e), GQ_OK);
    s = (stopper){.after = 0};
    assert_int_equal(run_some(&o, &s, &e), GQ_OK);
    assert_same_file(path("again.gguf"), path("scaled.gguf"));
    o = options_for("llama", "split.gguf", true);
    o.split_max_size = 200000;
    gq_plan *plan = must_plan(&o);
    gq_results_free(must_run(plan));
    model_source a = open_model(gq_plan_summary(plan, 0)->path), b = open_model(path("scaled.gguf"));
    assert_true(a.n_files > 1);
    gq_plan_free(plan);
    assert_int_equal(a.n_tensors, b.n_tensors);
    model_close(&a), model_close(&b);
}

/* Models with a factor of their own, and with one for inputs, which changes nothing. */
static void write_factored(const char *name, float factor) {
    variant v = *variant_named("llama");
    v.layers = 1;
    model *m = variant_model(&v, GGUF_F32, NULL);
    if (factor != 0) {
        model_add(m, "blk.0.ffn_up.scale", GGUF_F32, (uint64_t[4]){1}, &factor);
        model_add(m, "blk.0.ffn_up.input_scale", GGUF_F32, (uint64_t[4]){1}, &(float){0.25f});
    }
    model_save(m, path(name));
}

static double kld_of(const char *name, const char *copy) {
    char ids[600] = "";
    for (int i = 0; i < 96; i++) sprintf(ids + strlen(ids), "%d ", i * 7 % VARIANT_VOCABULARY);
    return quant_kld(path(name), path(copy), ids, 32);
}

TEST(models_run_with_their_factors) {
    write_factored("bare", 0), write_factored("one", 1), write_factored("two", 2);
    assert_true(fabs(kld_of("bare", "one")) < 1e-12);
    assert_true(kld_of("bare", "two") > 1e-5);
}

TEST(where_there_is_none) {
    gq_options o = options_for("falcon", "none.gguf", true);
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "llama.cpp does not apply all of them for architecture falcon"));
    gq_plan_free(plan);
    o = options_for("llama", "none.gguf", true);
    output.filetype = "F16";
    plan = must_plan(&o);
    assert_true(warned(plan, "the file type does not quantize"));
    gq_plan_free(plan);
    o = options_for("llama", "none.gguf", true);
    o.tensor_types.n = 0;
    plan = must_plan(&o);
    assert_true(warned(plan, "no matrix that can have one becomes NVFP4"));
    gq_plan_free(plan);
    o = options_for("llama", "none.gguf", true);
    o.calibration = &(gq_calibration){.size = sizeof(gq_calibration)};
    assert_non_null(strstr(failure(&o), "a calibration does not support per-tensor scales"));
    o = options_for("scaled.gguf", "none.gguf", true);
    o.allow_requantize = true;
    plan = must_plan(&o);
    assert_true(warned(plan, "no matrix that can have one"));
    gq_plan_free(plan);
}

int main(void) { return tests_run(start, folder_remove); }
