/* What is settled before a weight is read: names, and what is refused. */
#include "tests/support/folder.h"
#include "tests/support/plans.h"

/* ---- names ---- */

TEST(output_names_come_from_the_input) {
    static const char *const cases[][2] = {
        {"model-F16.gguf", "model-Q4_K_M.gguf"},
        {"model.bf16.gguf", "model.Q4_K_M.gguf"},
        {"F32.gguf", "Q4_K_M.gguf"},
        {"a-F16-of-bf16-mix.gguf", "a-F16-of-Q4_K_M-mix.gguf"},
        {"plain.gguf", "plain-Q4_K_M.gguf"},
        {"F16model", "F16model-Q4_K_M.gguf"},
        {"model-f16-00001-of-00001.gguf", "model-Q4_K_M.gguf"},
        {"SMF16S.gguf", "SMF16S-Q4_K_M.gguf"},
        {"a-f16-1-of-2.gguf", "a-Q4_K_M-1-of-2.gguf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_llama(path(cases[i][0]), 1);
        gq_output out = {.filetype = "q4_k_m"};
        gq_options o = options_for(path(cases[i][0]), &out);
        gq_plan *plan = must_plan(&o);
        assert_string_equal(gq_plan_summary(plan, 0)->path, path(cases[i][1]));
        gq_plan_free(plan);
        o.out_dir = "/tmp";
        char wanted[300];
        snprintf(wanted, sizeof wanted, "/tmp/%s", cases[i][1]);
        plan = must_plan(&o);
        assert_string_equal(gq_plan_summary(plan, 0)->path, wanted);
        gq_plan_free(plan);
    }
}

/* ---- refusals ---- */

TEST(outputs_that_must_not_be_written) {
    write_llama(path("in.gguf"), 1);
    write_whole(path("there.gguf"), "x", 1);
    gq_output out = {.path = path("there.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("in.gguf"), &out);
    must_refuse(&o, GQ_FAILED, "already exists");
    o.force = true;
    gq_results_free(run_plan(&o));
    out.path = path("fresh.gguf"); /* the same where nothing was */
    gq_results_free(run_plan(&o));
    assert_same_file(path("there.gguf"), path("fresh.gguf"));
    out.path = path("in.gguf");
    must_refuse(&o, GQ_FAILED, "one of the inputs");
    assert_int_equal(symlink("in.gguf", path("link.gguf")), 0);
    out.path = path("link.gguf");
    must_refuse(&o, GQ_FAILED, "one of the inputs");
    assert_int_equal(link(path("in.gguf"), path("hard.gguf")), 0);
    out.path = path("hard.gguf");
    must_refuse(&o, GQ_FAILED, "one of the inputs");
    out.path = path("no/such/folder.gguf");
    must_refuse(&o, GQ_FAILED, "does not exist");
    out.path = path("in.gguf/x.gguf");
    must_refuse(&o, GQ_FAILED, "cannot write");
    out.path = folder;
    must_refuse(&o, GQ_FAILED, "not a regular file");
    out.path = path("/");
    must_refuse(&o, GQ_USAGE, "no file name");
    gq_output twice[] = {{.path = path("x.gguf"), .filetype = "COPY"},
                         {.path = path("x.gguf"), .filetype = "F32"}};
    o.outputs = twice, o.n_outputs = 2;
    must_refuse(&o, GQ_USAGE, "two outputs");
}

TEST(types_that_cannot_be) {
    static const struct {
        uint32_t from;
        const char *filetype, *says;
        bool allow;
        gq_status status;
    } cases[] = {
        {GGUF_Q8_0, "Q4_K_S", "already quantized", false, GQ_FAILED},
        {GGUF_IQ2_XS, "Q4_K_S", "already quantized", false, GQ_FAILED},
        {GGUF_I32, "Q4_K_S", "cannot decode", false, GQ_FAILED},
        {GGUF_F16, "Q4_K_Q", "did you mean", false, GQ_USAGE},
        {GGUF_F16, "Q2_K_S", "needs an imatrix", false, GQ_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model *m = model_new("llama", 1);
        model_add(m, "blk.0.attn_q.weight", cases[i].from, (uint64_t[4]){256, 4}, NULL);
        model_save(m, path("type.gguf"));
        gq_output out = {.path = path("type-out.gguf"), .filetype = cases[i].filetype};
        gq_options o = options_for(path("type.gguf"), &out);
        o.allow_requantize = cases[i].allow;
        must_refuse(&o, cases[i].status, cases[i].says);
    }
}

static void requantize_from(const char *filetype) {
    write_llama(path("requant.gguf"), 1);
    quantize(path("requant.gguf"), path("requant-first.gguf"), filetype, 1);
    gq_output out = {.path = path("requant-4.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("requant-first.gguf"), &out);
    o.allow_requantize = o.force = true;
    gq_results_free(run_plan(&o));
    gq_output wide = {.path = path("requant-32.gguf"), .filetype = "F32"},
              four = {.path = path("requant-32-4.gguf"), .filetype = "Q4_K_S"};
    o.outputs = &wide;
    gq_results_free(run_plan(&o));
    o.input = path("requant-32.gguf"), o.outputs = &four;
    gq_results_free(run_plan(&o));
    model_source a = open_model(path("requant-4.gguf")), b = open_model(path("requant-32-4.gguf"));
    uint64_t n;
    uint8_t *x = tensor_bytes(&a, "blk.0.attn_q.weight", &n),
            *y = tensor_bytes(&b, "blk.0.attn_q.weight", &n);
    assert_memory_equal(x, y, n);
    free(x), free(y);
    model_close(&a), model_close(&b);
}
TEST(requantizing_goes_through_the_decoder) {
    requantize_from("Q5_K_S");
    unlink(path("requant.gguf")), unlink(path("requant-first.gguf"));
    requantize_from("IQ3_S");
}

TEST(strict_makes_fallbacks_errors) {
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){96, 64}, NULL);
    model_save(m, path("strict.gguf"));
    gq_output out = {.path = path("strict-out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("strict.gguf"), &out);
    gq_plan *plan = must_plan(&o);
    const gq_summary *s = gq_plan_summary(plan, 0);
    assert_int_equal(s->n_fallbacks, 1);
    /* Q5_0 in place of Q4_K: 22 bytes for 32 weights, not 144 for 256. */
    assert_int_equal(s->fallback_bytes, 96 * 64 / 32 * 22 - 96 * 64 * 144 / 256);
    assert_true(warned(plan, "blk.0.attn_q.weight"));
    gq_plan_free(plan);
    o.strict = true;
    must_refuse(&o, GQ_FAILED, "blk.0.attn_q.weight");
}

/* A list of one byte at the very end of the file: nothing behind it is read. */
TEST(facts_come_from_short_lists) {
    model *m = model_new("short", 2);
    model_set_array(m, "short.block_count", GGUF_U8, "\2", 1);
    model_save(m, path("short.gguf"));
    gq_output out = {.path = path("short-out.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("short.gguf"), &out);
    gq_plan_free(must_plan(&o));
}

TEST(a_split_output_is_known_by_its_first_shard) {
    write_llama(path("parts.gguf"), 2);
    gq_output out = {.path = path("parts-out.gguf"), .filetype = "Q8_0"};
    gq_options o = options_for(path("parts.gguf"), &out);
    o.split_max_size = 400000;
    gq_plan *plan = must_plan(&o);
    const char *name = strrchr(gq_plan_summary(plan, 0)->path, '/') + 1;
    assert_memory_equal(name, "parts-out-00001-of-0000", strlen("parts-out-00001-of-0000"));
    gq_plan_free(plan);
}

/* Plans of a model that is open already are those of its path, and leave it open. */
TEST(plans_share_an_open_model) {
    gq_error e;
    write_llama(path("open.gguf"), 1);
    gq_output out = {.path = path("open-out.gguf"), .filetype = "Q8_0"},
              alone = {.path = path("open-alone.gguf"), .filetype = "Q8_0"};
    gq_options o = options_for(path("open.gguf"), &out), by_path = options_for(path("open.gguf"), &alone);
    gq_model *m = gq_model_open(path("open.gguf"), &e);
    assert_non_null(m);
    o.model = m;
    gq_plan *first = must_plan(&o);
    assert_true(gq_run(first, NULL, NULL, &e));
    gq_plan_free(first);
    o.outputs = &(gq_output){.path = path("open-2.gguf"), .filetype = "COPY"};
    gq_plan_free(must_plan(&o)); /* the model is open still */
    gq_model_close(m);
    gq_plan *second = must_plan(&by_path);
    assert_true(gq_run(second, NULL, NULL, &e));
    gq_plan_free(second);
    assert_same_file(out.path, alone.path);
}

TEST(requests_that_make_no_sense) {
    write_llama(path("sense.gguf"), 1);
    gq_output out = {.path = path("sense-out.gguf"), .filetype = "COPY"};
    gq_options good = options_for(path("sense.gguf"), &out), o = good;
    o.n_outputs = 0;
    must_refuse(&o, GQ_USAGE, "output");
    o = good, o.effort = 3;
    must_refuse(&o, GQ_USAGE, "effort");
    o = good, o.threads = -1;
    must_refuse(&o, GQ_USAGE, "threads");
    o = good, o.part = 3, o.parts = 2;
    must_refuse(&o, GQ_USAGE, "part 3 of 2");
    o = good, o.keep_split = true, o.split_max_size = 1;
    must_refuse(&o, GQ_USAGE, "split");
    o = good, o.output_tensor_type = "Q9_K";
    must_refuse(&o, GQ_USAGE, "Q9_K");
}

int main(void) { return tests_run(folder_make, folder_remove); }
