/* Which importance data each tensor gets, and what is said where it gets none. */
#include "tests/support/folder.h"
#include "tests/support/plans.h"

#include <math.h>

TEST(importance_is_matched) {
    size_t n;
    write_llama(path("cover.gguf"), 2);
    write_importance(path("cover.dat"), 2);
    gq_output out = {.path = path("cover-out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("cover.gguf"), &out);
    o.imatrix = path("cover.dat");
    gq_plan *plan = must_plan(&o);
    gq_results *results = must_run(plan);
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    const gq_loss *losses = gq_results_losses(results, 0, &n);
    for (size_t i = 0; i < n; i++) {
        bool entry = strstr(t[i].name, "attn_q") || strstr(t[i].name, "ffn_down");
        bool kept = t[i].from == t[i].to;
        assert_int_equal(t[i].importance, kept    ? GQ_IMPORTANCE_UNUSED
                                          : entry ? GQ_IMPORTANCE_FULL
                                                  : GQ_IMPORTANCE_MISSING);
        assert_int_equal(isnan(gq_loss_weighted(&losses[i])) != 0, !entry);
    }
    assert_int_equal(gq_plan_summary(plan, 0)->n_without_imatrix, 2 + 2 * 5);
    assert_true(warned(plan, "10 tensors have no imatrix data") && warned(plan, "blk.0.attn_k.weight"));
    assert_false(warned(plan, "token_embd.weight") || warned(plan, " output.weight")); /* as they should */
    gq_results_free(results), gq_plan_free(plan);
    /* Another model's matrix, and one that is filtered away. */
    static const char *const nothing = "nothing", *const query = "attn_q";
    o.include_weights = (gq_list){&nothing, 1};
    o.force = true;
    plan = must_plan(&o);
    assert_true(warned(plan, "filter"));
    assert_int_equal(gq_plan_summary(plan, 0)->n_without_imatrix, 0);
    gq_plan_free(plan);
    o.include_weights.n = 0, o.exclude_weights = (gq_list){&query, 1};
    plan = must_plan(&o);
    assert_int_equal(gq_plan_summary(plan, 0)->n_without_imatrix, 4 + 2 * 5);
    gq_plan_free(plan);
    o.include_weights = (gq_list){&query, 1};
    must_refuse(&o, GQ_USAGE, "weights to include and weights to exclude cannot be combined");
}

/* Some entries fit, others belong to no tensor: whose are they? */
TEST(entries_of_no_tensor_are_warned_of) {
    write_llama(path("part.gguf"), 1);
    gq_output out = {.path = path("part-out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("part.gguf"), &out);
    o.imatrix = path("part.dat");
    FILE *f = fopen(o.imatrix, "wb");
    write_int(f, 3);
    write_entry(f, "blk.0.attn_q.weight", 1, 256, 1);
    write_entry(f, "blk.7.attn_q.weight", 1, 256, 1), write_entry(f, "blk.8.attn_q.weight", 1, 256, 1);
    fclose(f);
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "2 of its 3 entries are of no tensor of the model"));
    assert_true(warned(plan, "blk.7.attn_q.weight, blk.8.attn_q.weight"));
    gq_plan_free(plan);
    f = fopen(o.imatrix, "wb");
    write_int(f, 1);
    write_entry(f, "blk.0.attn_q.weight", 1, 256, 1);
    fclose(f);
    plan = must_plan(&o);
    assert_false(warned(plan, "of no tensor"));
    gq_plan_free(plan);
}

TEST(importance_of_the_wrong_size) {
    write_llama(path("size.gguf"), 1);
    gq_output out = {.path = path("size-out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("size.gguf"), &out);
    o.imatrix = path("size.dat");
    FILE *f = fopen(o.imatrix, "wb");
    write_int(f, 1);
    write_entry(f, "blk.0.attn_q.weight", 1, 255, 1);
    fclose(f);
    must_refuse(&o, GQ_FAILED, "blk.0.attn_q.weight");
    must_refuse(&o, GQ_FAILED, "255");
    must_refuse(&o, GQ_FAILED, "256");
    f = fopen(o.imatrix, "wb");
    write_int(f, 2);
    write_entry(f, "token_embd.weight", 1, 255, 1), write_entry(f, "blk.0.attn_q.weight", 1, 256, 1);
    fclose(f);
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "255"));
    gq_plan_free(plan);
}

TEST(nothing_matched_is_loud) {
    write_llama(path("alien.gguf"), 1);
    gq_output out = {.path = path("alien-out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("alien.gguf"), &out);
    o.imatrix = path("alien.dat");
    FILE *f = fopen(o.imatrix, "wb");
    write_int(f, 1);
    write_entry(f, "blk.77.attn_q.weight", 1, 256, 1);
    fclose(f);
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "another model"));
    gq_plan_free(plan);
}

/* Each expert is encoded with its own slice: the same as each alone with its slice. */
TEST(experts_get_their_own_slices) {
    enum { COLUMNS = 256, ROWS = 8, EXPERTS = 3 };
    float *x = random_values(COLUMNS * ROWS * EXPERTS, 3), *w = random_values(COLUMNS * EXPERTS, 4);
    for (int i = 0; i < COLUMNS * EXPERTS; i++) w[i] = expf(100 * w[i]);
    model *all = model_new("llama", 1);
    model_add(all, "blk.0.ffn_down_exps.weight", GGUF_F32, (uint64_t[4]){COLUMNS, ROWS, EXPERTS}, x);
    model_save(all, path("all.gguf"));
    FILE *f = fopen(path("all.dat"), "wb");
    write_int(f, 1), write_int(f, 26), write_bytes(f, "blk.0.ffn_down_exps.weight", 26), write_int(f, 1);
    write_int(f, COLUMNS * EXPERTS), write_bytes(f, w, 4 * COLUMNS * EXPERTS);
    fclose(f);
    gq_output out = {.path = path("all-out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("all.gguf"), &out);
    o.pure = true;
    o.imatrix = path("all.dat");
    gq_results_free(run_plan(&o));
    model_source together = open_model(path("all-out.gguf"));
    uint64_t size, one;
    uint8_t *whole = tensor_bytes(&together, "blk.0.ffn_down_exps.weight", &size);
    for (int k = 0; k < EXPERTS; k++) {
        model *single = model_new("llama", 1);
        model_add(single, "blk.0.ffn_down.weight", GGUF_F32, (uint64_t[4]){COLUMNS, ROWS},
                  x + k * COLUMNS * ROWS);
        model_save(single, path("one.gguf"));
        f = fopen(path("one.dat"), "wb");
        write_int(f, 1), write_int(f, 21), write_bytes(f, "blk.0.ffn_down.weight", 21), write_int(f, 1);
        write_int(f, COLUMNS), write_bytes(f, w + k * COLUMNS, 4 * COLUMNS);
        fclose(f);
        gq_output alone = {.path = path("one-out.gguf"), .filetype = "Q4_K_S"};
        gq_options p = options_for(path("one.gguf"), &alone);
        p.pure = p.force = true;
        p.imatrix = path("one.dat");
        gq_results_free(run_plan(&p));
        model_source m = open_model(path("one-out.gguf"));
        uint8_t *bytes = tensor_bytes(&m, "blk.0.ffn_down.weight", &one);
        assert_int_equal(one * EXPERTS, size);
        assert_memory_equal(bytes, whole + (uint64_t)k * one, one);
        free(bytes);
        model_close(&m);
    }
    free(whole), free(x), free(w);
    model_close(&together);
}

TEST(pruned_layers_keep_their_importance) {
    size_t n;
    write_llama(path("prune.gguf"), 3);
    write_importance(path("prune.dat"), 2); /* nothing for block 2, which becomes block 1 */
    gq_output out = {.path = path("prune-out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("prune.gguf"), &out);
    o.imatrix = path("prune.dat");
    o.prune_layers = "0";
    gq_plan *plan = must_plan(&o);
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    int seen = 0;
    for (size_t i = 0; i < n; i++)
        if (strstr(t[i].name, "attn_q")) {
            bool first = !strcmp(t[i].name, "blk.0.attn_q.weight");
            assert_int_equal(t[i].importance, first ? GQ_IMPORTANCE_FULL : GQ_IMPORTANCE_MISSING);
            seen++;
        }
    assert_int_equal(seen, 2);
    gq_plan_free(plan);
}

int main(void) { return tests_run(folder_make, folder_remove); }
