/* Recipes that are written: read back, they give every tensor the same type. */
#include "tests/support/folder.h"
#include "tests/support/target_model.h"

#include "codec/codec.h"
#include "mixes/mixes.h"

/* Besides the small model's tensors, names that patterns and recipe files could stumble over. */
FIXTURE(set_up) {
    static const char *const names[] = {
        "adaLN_Modulation.weight",   "a b,c=d#e.weight", "x(1|2)[3]*+?$^.weight",
        "\xc3\xa9\x01\n.weight",     "#.weight",         "blk.007.odd.weight",
        "blk.3.attn_q_extra.weight", "attn_q.weight",    "blk.99999999999.x.weight"};
    folder = temporary_folder();
    target_model(folder);
    model *m = model_new("llama", 7);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        model_add(m, names[i], GGUF_F16, (uint64_t[4]){256, 5 + i}, NULL);
    char name[64];
    for (int b = 0; b < 700; b++) { /* more than one item can hold */
        snprintf(name, sizeof name, "blk.%d.attn_v.weight", b);
        model_add(m, name, GGUF_F16, (uint64_t[4]){256, 2}, NULL);
    }
    model_save(m, path("odd.gguf"));
    return 0;
}

static gq_plan *plan_of(const char *in, const char *filetype, gq_target target, gq_options o) {
    gq_output out = {.path = path("out.gguf"), .filetype = filetype, .target = target};
    o.input = path(in), o.outputs = &out, o.n_outputs = 1, o.dry_run = true;
    o.effort = GQ_EFFORT_FAST;
    return plan_for(o, NULL);
}

/* Plan again with the recipe and the file type: the same types. The plan is freed. */
static void assert_reproduced(gq_plan *plan, const char *in, const char *filetype, gq_options o) {
    gq_error e;
    gq_recipe r;
    char *types = types_of(plan, 0), *text = gq_plan_recipe(plan, 0, &e);
    assert_non_null(text);
    gq_plan_free(plan);
    if (!gq_recipe_read(&r, "recipe", text, strlen(text), &e)) fail_msg("%s", e.text);
    o.tensor_types = (gq_list){(const char *const *)r.items, r.n};
    o.keep = (gq_list){.n = 0}, o.output_tensor_type = o.token_embedding_type = NULL;
    plan = plan_of(in, filetype, (gq_target){.size = 0}, o);
    assert_false(warned(plan, "no tensor matches"));
    assert_types(plan, types);
    gq_recipe_free(&r);
    free(text), free(types);
}

TEST(types_come_back) {
    static const char *const models[] = {"in.gguf", "odd.gguf"};
    static const char *const keep[] = {"blk.3.attn_q", "odd"};
    const gq_options with = {
        .size = sizeof with, .keep = {keep, 2}, .output_tensor_type = "Q5_0", .token_embedding_type = "Q2_K"};
    size_t done = 0;
    for (size_t m = 0; m < 2; m++) {
        for (double bpw = 3.5; bpw < 10; bpw += 1.1) {
            assert_reproduced(plan_of(models[m], NULL, (gq_target){.bpw = bpw},
                                      (gq_options){.size = sizeof(gq_options), .threads = 1}),
                              models[m], "Q4_K_M", (gq_options){.size = sizeof(gq_options), .threads = 1});
            assert_reproduced(plan_of(models[m], NULL, (gq_target){.bpw = bpw}, with), models[m], "Q8_0",
                              with);
        }
        for (size_t i = 0; i < gq_filetype_count(); i++) {
            gq_error e;
            gq_output out = {.path = path("out.gguf"), .filetype = gq_filetype_name(i)};
            gq_options o = {
                .size = sizeof o, .input = path(models[m]), .outputs = &out, .n_outputs = 1, .dry_run = true};
            gq_plan *plan = gq_plan_new(&o, &e);
            if (!plan) continue; /* needs an imatrix, or has no encoder */
            const mix_filetype *f = mix_filetype_named(out.filetype);
            bool quantizes = f->base < GGUF_TYPE_LIMIT && tensor_type_of(f->base)->quantized;
            assert_reproduced(plan, models[m], quantizes ? out.filetype : "Q8_0",
                              (gq_options){.size = sizeof(gq_options), .threads = 1});
            done++;
        }
    }
    assert_true(done > 30);
}

TEST(recipes_are_short_and_say_what_they_are) {
    gq_error e;
    gq_plan *plan = plan_of("in.gguf", "Q4_K_M", (gq_target){.size = 0},
                            (gq_options){.size = sizeof(gq_options), .threads = 1});
    char *text = gq_plan_recipe(plan, 0, &e);
    gq_plan_free(plan);
    assert_memory_equal(text, "# in.gguf as Q4_K_M: with this file, Q4_K_M or any", 50);
    size_t lines = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    assert_true(lines < 16);
    assert_non_null(strstr(text, "\n^blk\\.(0|1|2|3|4|5)\\.attn_q\\.weight$=Q4_K\n"));
    assert_non_null(strstr(text, "\n^output\\.weight$=Q6_K\n"));
    assert_null(strstr(text, "norm"));
    free(text);
}

int main(void) { return tests_run(set_up, folder_remove); }
