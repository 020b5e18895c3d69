/* Tensors whose type demands importance data that are not there: an error, or the type for such cases. */
#include "tests/support/target_model.h"

#include "mixes/mixes.h"
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/imatrix_files.h"

/* Data for two of four matrices of a layer, one of the two without has rows of 96. */
FIXTURE(set_up) {
    folder = temporary_folder();
    model *m = model_new("llama", 2);
    model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 40}, NULL);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F16, (uint64_t[4]){256, 16}, NULL);
    model_add(m, "blk.0.ffn_gate.weight", GGUF_F16, (uint64_t[4]){256, 16}, NULL);
    model_add(m, "blk.1.ffn_up.weight", GGUF_F16, (uint64_t[4]){256, 16}, NULL);
    model_add(m, "blk.1.ffn_gate.weight", GGUF_F16, (uint64_t[4]){256, 16}, NULL);
    model_save(m, path("in.gguf"));
    blob b = {0};
    float values[256];
    for (int i = 0; i < 256; i++) values[i] = (float)(1 + i % 7);
    put32(&b, 2);
    put_entry(&b, "blk.0.ffn_up.weight", 1, values, 256);
    put_entry(&b, "blk.0.ffn_gate.weight", 1, values, 256);
    put_trailer(&b, 1, "made up");
    write_whole(path("imatrix.dat"), b.bytes, b.n);
    free(b.bytes);
    return 0;
}

/* ---- the rule ---- */

static mix_choice choose(const char *filetype, const char *name, uint64_t columns, bool covered,
                         int64_t missing) {
    mix_tensor t = {.name = name, .ne = {columns, 512, 1, 1}, .type = GGUF_F16};
    mix_options o = {.filetype = mix_filetype_named(filetype),
                     .imatrix = true,
                     .pure = true,
                     .output_type = -1,
                     .embedding_type = -1,
                     .missing_type = missing,
                     .covered = &covered};
    mix_model m = {.n_blocks = -1};
    mix_choice c;
    gq_error e;
    if (!mix_assign(&m, &o, &t, 1, &(uint32_t){0}, &c, &e)) fail_msg("%s", e.text);
    return c;
}

TEST(types_that_demand_are_raised) {
    static const struct {
        const char *filetype, *name;
        uint64_t columns;
        bool covered;
        int64_t missing;
        uint32_t type;
        mix_reason reason;
        const char *why;
    } rows[] = {
        {"IQ2_XXS", "a.weight", 256, false, GGUF_Q4_K, GGUF_Q4_K, MIX_RAISED, "raised from IQ2_XXS"},
        {"IQ1_S", "a.weight", 256, false, GGUF_Q3_K, GGUF_Q3_K, MIX_RAISED, "raised from IQ1_S"},
        {"IQ1_M", "a.weight", 256, false, GGUF_F16, GGUF_F16, MIX_RAISED, "raised from IQ1_M"},
        {"IQ2_M", "a.weight", 256, false, GGUF_Q2_K, GGUF_Q2_K, MIX_RAISED, "raised from IQ2_S"},
        {"IQ2_XS", "a.weight", 256, false, GGUF_Q2_K, GGUF_Q2_K, MIX_RAISED, "raised from IQ2_XS"},
        {"IQ3_XXS", "a.weight", 256, false, GGUF_IQ3_S, GGUF_IQ3_S, MIX_RAISED, "raised from IQ3_XXS"},
        {"Q2_K_S", "a.weight", 256, false, GGUF_Q3_K, GGUF_Q3_K, MIX_RAISED, "raised from Q2_K"},
        {"IQ2_XXS", "a.weight", 256, true, GGUF_Q4_K, GGUF_IQ2_XXS, MIX_RULE, ""},
        {"IQ2_XXS", "a.weight", 256, false, -1, GGUF_IQ2_XXS, MIX_RULE, ""},
        {"Q2_K", "a.weight", 256, false, GGUF_Q4_K, GGUF_Q2_K, MIX_RULE, ""},
        {"Q4_K_M", "a.weight", 256, false, GGUF_Q8_0, GGUF_Q4_K, MIX_RULE, ""},
        {"IQ3_XXS", "token_embd.weight", 256, false, GGUF_Q4_K, GGUF_IQ3_XXS, MIX_RULE, ""},
        {"IQ2_XXS", "token_embd.weight", 256, false, GGUF_Q4_K, GGUF_Q4_K, MIX_RAISED, "raised from IQ2_XXS"},
        /* rows that do not fit: nothing is demanded, since it would not be of that type anyway */
        {"IQ2_XXS", "a.weight", 96, false, GGUF_Q4_K, GGUF_IQ4_NL, MIX_FALLBACK, "fallback"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mix_choice c =
            choose(rows[i].filetype, rows[i].name, rows[i].columns, rows[i].covered, rows[i].missing);
        if (c.type != rows[i].type || c.reason != rows[i].reason || !strstr(c.why, rows[i].why))
            fail_msg("row %zu: %s, '%s'", i, tensor_type_name(c.type), c.why);
        if (c.reason == MIX_RAISED) assert_false(c.needs_imatrix);
    }
}

/* The type for such cases must not be of their kind. */
TEST(what_stands_in_demands_nothing) {
    static const struct {
        const char *filetype;
        uint32_t type;
        bool ok;
    } rows[] = {{"IQ2_XXS", GGUF_IQ3_XXS, false},
                {"Q4_K_M", GGUF_IQ1_M, false},
                {"Q2_K_S", GGUF_Q2_K, false},
                {"IQ2_XXS", GGUF_Q2_K, true},
                {"IQ2_XXS", GGUF_IQ4_NL, true}};
    mix_tensor t = {.name = "a.weight", .ne = {256, 512, 1, 1}, .type = GGUF_F16};
    mix_model m = {.n_blocks = -1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mix_choice c;
        gq_error e;
        mix_options o = {.filetype = mix_filetype_named(rows[i].filetype),
                         .output_type = -1,
                         .embedding_type = -1,
                         .missing_type = rows[i].type};
        bool ok = mix_assign(&m, &o, &t, 1, &(uint32_t){0}, &c, &e);
        if (ok != rows[i].ok) fail_msg("row %zu", i);
        if (!ok) assert_non_null(strstr(e.text, "cannot replace"));
    }
}

/* ---- plans ---- */

TEST(a_plan_fails_or_raises) {
    gq_output out = {.path = path("out.gguf"), .filetype = "Q2_K_S"};
    gq_options o = {.size = sizeof o,
                    .input = path("in.gguf"),
                    .outputs = &out,
                    .n_outputs = 1,
                    .imatrix = path("imatrix.dat")};
    gq_error e;
    assert_null(gq_plan_new(&o, &e));
    assert_int_equal(e.remedy, GQ_REMEDY_OTHER_TYPE);
    assert_non_null(strstr(e.text, "blk.1.ffn_gate.weight: Q2_K in a Q2_K_S file needs an imatrix"));
    assert_null(strstr(e.text, "--")); /* the library does not know how it is asked */
    o.missing_importance = "q4_k";
    gq_plan *plan = plan_for(o, NULL);
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++) {
        bool raised = strncmp(t[i].name, "blk.1.", 6) == 0;
        if (!strncmp(t[i].name, "blk.", 4)) assert_int_equal(t[i].to, raised ? GGUF_Q4_K : GGUF_Q2_K);
        assert_int_equal(strcmp(t[i].why, "raised from Q2_K: no imatrix data") == 0, raised);
        assert_int_equal(t[i].wanted, t[i].to);
    }
    assert_true(warned(plan, "Q2_K_S: 2 tensors have no imatrix data, which their type requires, and become "
                             "Q4_K: blk.1.ffn_gate.weight, blk.1.ffn_up.weight"));
    gq_plan_free(plan);
    /* Without any data it is another mistake. */
    o.imatrix = NULL;
    assert_null(gq_plan_new(&o, &e));
    assert_int_equal(e.remedy, GQ_REMEDY_IMPORTANCE);
    o.imatrix = path("imatrix.dat"), o.missing_importance = "Q9_K";
    assert_non_null(strstr(failure(&o), "not a tensor type"));
}

TEST(the_command_names_the_option) {
    const char *in = path("in.gguf"), *out = path("out.gguf"), *matrix = path("imatrix.dat");
    GQUANT_SAYS(1, "--missing-importance TYPE", "--imatrix", matrix, in, out, "Q2_K_S");
    GQUANT_SAYS(0, "2 tensors have no imatrix data", "--imatrix", matrix, "--missing-importance", "Q3_K", in,
                out, "Q2_K_S");
    GQUANT_SAYS(1, "--force replaces it", "--imatrix", matrix, in, out, "Q4_0");
    GQUANT_SAYS(1, "--allow-requantize", out, path("again.gguf"), "Q4_0");
    GQUANT(0, "verify", "-q", out);
    model_source m = open_model(out);
    assert_int_equal(model_tensor_named(&m, "blk.1.ffn_up.weight")->type->id, GGUF_Q3_K);
    assert_int_equal(model_tensor_named(&m, "blk.0.ffn_up.weight")->type->id, GGUF_Q2_K);
    model_close(&m);
}

int main(void) { return tests_run(set_up, folder_remove); }
