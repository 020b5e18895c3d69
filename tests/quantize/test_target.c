/* A size instead of a name: the size is met, options go first, and nothing else is asked of a
 * model. */
#include "tests/support/one_target.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>

#include "codec/codec.h"
#include "gguf/model.h"
#include "tests/support/imatrix_files.h"

/* ---- helpers ---- */

/* ---- the size ---- */

TEST(size_is_met) {
    gq_options o = options_for(out);
    output.target.bpw = 64;
    gq_plan *whole = plan_for(o, NULL);
    uint64_t most = gq_plan_summary(whole, 0)->file_bytes, reached = 0;
    gq_plan_free(whole);
    output.target.bpw = 0;
    for (output.target.size = most * 3 / 10; output.target.size < most; output.target.size += most / 17) {
        struct stat st;
        gq_results_free(run_plan(&o));
        assert_int_equal(stat(out, &st), 0);
        if ((uint64_t)st.st_size > output.target.size ||
            (double)st.st_size < 0.995 * (double)output.target.size)
            fail_msg("%llu bytes for %llu", (unsigned long long)st.st_size,
                     (unsigned long long)output.target.size);
        reached++;
    }
    assert_true(reached > 10);
}

TEST(bits_are_met) {
    gq_options o = options_for(out);
    for (output.target.bpw = 4; output.target.bpw < 12; output.target.bpw += 0.7) {
        gq_plan *plan = plan_for(o, NULL);
        const gq_summary *s = gq_plan_summary(plan, 0);
        double bits = 8 * (double)s->out_bytes / (double)s->n_weights;
        if (bits > output.target.bpw || bits < 0.995 * output.target.bpw)
            fail_msg("%g bits for %g", bits, output.target.bpw);
        gq_plan_free(plan);
    }
}

TEST(shards_count) {
    gq_options o = options_for(path("split.gguf"));
    output.target.size = 250000, o.split_max_size = 60000;
    gq_plan *plan = plan_for(o, NULL);
    uint64_t size = gq_plan_summary(plan, 0)->file_bytes;
    assert_true(size <= output.target.size && size > 248700);
    gq_plan_free(plan);
}

TEST(impossible_sizes_name_the_smallest) {
    gq_options o = options_for(out);
    output.target.size = 1000;
    const char *text = failure(&o), *at = strstr(text, "it has ");
    assert_non_null(at);
    uint64_t least = strtoull(at + 7, NULL, 10);
    output.target.size = least - 1;
    assert_non_null(strstr(failure(&o), "cannot be reached"));
    output.target.size = least;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(gq_plan_summary(plan, 0)->file_bytes, least);
    gq_plan_free(plan);
    output.target.size = 0, output.target.bpw = 1.5;
    assert_non_null(strstr(failure(&o), "1.5 bits per weight cannot be reached"));
}

/* ---- types ---- */

TEST(rows_get_types_that_fit) {
    gq_options o = options_for(out);
    output.target.bpw = 5;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(plan_tensor(plan, "blk.6.odd.weight")->to, GGUF_F16);
    uint32_t short_blocks = plan_tensor(plan, "blk.6.ffn_down_exps.weight")->to;
    assert_int_equal(tensor_type_of(short_blocks)->block_elements, 32);
    assert_int_equal(plan_tensor(plan, "output_norm.weight")->to, GGUF_F32);
    gq_plan_free(plan);
}

TEST(options_go_first) {
    gq_options o = options_for(out);
    const char *types[] = {"ffn_down=q4_1", "odd=bf16"}, *keep[] = {"blk.3.attn_q"};
    o.tensor_types = (gq_list){types, 2};
    o.keep = (gq_list){keep, 1};
    o.output_tensor_type = "Q5_0", o.token_embedding_type = "Q2_K";
    output.target.bpw = 5.5;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(plan_tensor(plan, "blk.5.ffn_down.weight")->to, GGUF_Q4_1);
    assert_int_equal(plan_tensor(plan, "blk.6.odd.weight")->to, GGUF_BF16);
    assert_int_equal(plan_tensor(plan, "blk.3.attn_q.weight")->to, GGUF_F16);
    assert_int_equal(plan_tensor(plan, "output.weight")->to, GGUF_Q5_0);
    assert_int_equal(plan_tensor(plan, "token_embd.weight")->to, GGUF_Q2_K);
    const gq_summary *s = gq_plan_summary(plan, 0);
    double bits = 8 * (double)s->out_bytes / (double)s->n_weights;
    assert_true(bits <= 5.5 && bits > 5.47);
    gq_plan_free(plan);
}

TEST(more_bytes_never_hurt) {
    gq_options o = options_for(out);
    double before = 1e300;
    for (output.target.bpw = 4; output.target.bpw < 9; output.target.bpw += 1) {
        gq_results *results = run_plan(&o);
        size_t n;
        double error = 0;
        const gq_loss *losses = gq_results_losses(results, 0, &n);
        for (size_t i = 0; i < n; i++) error += losses[i].e2;
        assert_true(error < before);
        before = error;
        gq_results_free(results);
    }
}

TEST(the_file_says_its_most_common_type) {
    static const struct {
        double bits;
        int64_t type;
    } rows[] = {{3.8, 12}, {8.6, 7}, {16.1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gq_options o = options_for(out);
        output.target.bpw = rows[i].bits;
        gq_results_free(run_plan(&o));
        model_source m = open_model(out);
        int64_t type;
        assert_true(model_kv_int(model_kv_find(gguf_container_of(&m)->shards[0].kv,
                                               gguf_container_of(&m)->shards[0].n_kv, "general.file_type"),
                                 &type));
        assert_int_equal(type, rows[i].type);
        model_close(&m);
    }
}

TEST(requests_that_make_no_sense) {
    gq_options o;
    o = options_for(out);
    output.target.bpw = 5, output.filetype = "Q4_0";
    assert_non_null(strstr(failure(&o), "takes the place"));
    o = options_for(out);
    output.target.bpw = 5, output.target.size = 1000000;
    assert_non_null(strstr(failure(&o), "not both"));
    output.target.size = 0, o.pure = true;
    assert_non_null(strstr(failure(&o), "one type for all"));
    o.pure = false, output.target.bpw = -1;
    assert_non_null(strstr(failure(&o), "bits per weight"));
}

TEST(a_target_above_the_model_keeps_it) {
    gq_options o = options_for(out);
    output.target.size = 1000000000;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(plan_tensor(plan, "blk.0.ffn_up.weight")->to, GGUF_F16);
    assert_int_equal(plan_tensor(plan, "blk.6.odd.weight")->to, GGUF_F32);
    assert_true(warned(plan, "nothing is quantized"));
    gq_plan_free(plan);
    output.target.size = 0, output.target.bpw = 5;
    plan = plan_for(o, NULL);
    assert_false(warned(plan, "nothing is quantized"));
    gq_plan_free(plan);
}

/* The embedding of a model without output.weight does the output's work: it gets no fewer bits than beside
 * one. */
TEST(a_tied_embedding_counts_twice) {
    static const char *const others[] = {"output.weight", "other.weight"};
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        model *m = model_new("llama", 1);
        model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 64}, NULL);
        float *values = random_values(256 * 64, 7);
        model_add(m, others[i], GGUF_F16, (uint64_t[4]){256, 64}, values);
        free(values);
        model_save(m, path("tied.gguf"));
        gq_options o = options_for(out);
        o.input = path("tied.gguf"), output.target.bpw = 5.2;
        gq_plan *plan = plan_for(o, NULL);
        bytes[i] = tensor_type_of(plan_tensor(plan, "token_embd.weight")->to)->block_bytes;
        gq_plan_free(plan);
    }
    assert_true(bytes[1] > bytes[0]);
}

/* Beside matrices of many bits the table would get the fewest: its errors are as those of the others, and it is large. */
TEST(a_table_of_ngrams_keeps_four_bits) {
    const char *table = "per_layer_token_embd.weight";
    for (int with = 0; with < 2; with++) {
        model *m = model_new("llama", 7);
        model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 101}, NULL);
        model_add(m, "output.weight", GGUF_F16, (uint64_t[4]){256, 101}, NULL);
        model_add(m, table, GGUF_F16, (uint64_t[4]){256, 400}, NULL);
        if (with) model_set_u32(m, "llama.ple.ngram_size", 3);
        model_save(m, path("ngrams.gguf"));
        gq_options o = options_for(out);
        o.input = path("ngrams.gguf");
        output.target.bpw = 4.5;
        gq_plan *plan = plan_for(o, NULL);
        const tensor_type *type = tensor_type_of(plan_tensor(plan, table)->to);
        double bits = 8.0 * type->block_bytes / type->block_elements;
        if (with) assert_true(bits >= 4);
        gq_plan_free(plan);
        output.target.bpw = 3;
        if (with) assert_non_null(strstr(failure(&o), "cannot be reached"));
        if (!with) gq_plan_free(plan_for(o, NULL));
    }
}

/* Of two equal matrices one has an input that is enormous on a few tokens, as ffn_down of Qwen2.5's first layers has:
 * its error under the imatrix is that of one column, yet it must get no fewer bits. */
TEST(massive_activations_take_no_bits_from_other_columns) {
    float *values = random_values(256 * 64, 3), squares[2][256];
    model *m = model_new("llama", 2);
    blob b = {0};
    char name[64];
    put32(&b, 2);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "blk.%d.ffn_down.weight", i);
        model_add(m, name, GGUF_F16, (uint64_t[4]){256, 64}, values);
        for (int c = 0; c < 256; c++) squares[i][c] = i == 0 && c == 100 ? 1e8f : 1;
        put_entry(&b, name, 1, squares[i], 256);
    }
    put_trailer(&b, 1, "massive activations");
    write_whole(path("massive.dat"), b.bytes, b.n);
    model_save(m, path("massive.gguf"));
    free(values), free(b.bytes);
    gq_options o = options_for(out);
    o.input = path("massive.gguf"), o.imatrix = path("massive.dat"), output.target.bpw = 4.6;
    gq_plan *plan = plan_for(o, NULL);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "blk.%d.ffn_down.weight", i);
        const tensor_type *type = tensor_type_of(plan_tensor(plan, name)->to);
        if (8.0 * type->block_bytes / type->block_elements < 4) fail_msg("%s is to be %s", name, type->name);
    }
    gq_plan_free(plan);
}

TEST(an_outlet_may_be_no_matrix) {
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F16, (uint64_t[4]){256, 64}, NULL);
    model_add(m, "blk.0.ffn_down.weight", GGUF_F32, (uint64_t[4]){1}, NULL);
    model_save(m, path("odd.gguf"));
    gq_options o = options_for(out);
    o.input = path("odd.gguf"), output.target.bpw = 5;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(plan_tensor(plan, "blk.0.ffn_up.weight")->to, GGUF_Q4_K);
    gq_plan_free(plan);
}

static const char *kept(void) { return path("in.gguf.gquant-measure"); }

static bool at_once(void *user) {
    (void)user;
    return true;
}

TEST(measuring_can_be_stopped) {
    gq_error e = {.status = GQ_OK};
    gq_callbacks callbacks = {.size = sizeof callbacks, .cancelled = at_once};
    gq_options o = options_for(out);
    output.target.bpw = 5, o.callbacks = &callbacks;
    remove(kept());
    assert_null(gq_plan_new(&o, &e));
    assert_int_equal(e.status, GQ_INTERRUPTED);
    assert_false(exists(kept()));
}

TEST(weights_must_be_finite) {
    float values[512];
    for (int i = 0; i < 512; i++) values[i] = (float)i;
    values[300] = NAN;
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F32, (uint64_t[4]){256, 2}, values);
    model_save(m, path("nan.gguf"));
    gq_options o = options_for(out);
    o.input = path("nan.gguf"), output.target.bpw = 5;
    assert_non_null(strstr(failure(&o), "element 300 is nan"));
    assert_false(exists(path("nan.gguf.gquant-measure")));
}

/* ---- several outputs ---- */

/* Each output of a run has what it would have alone, and the sample is read once. */
TEST(several_targets_in_one_run) {
    static const gq_target targets[] = {
        {.bpw = 5}, {.size = 0}, {.size = 250000}, {.bpw = 4.4}, {.size = 200000}};
    enum { N = sizeof targets / sizeof *targets };
    gq_output several[N] = {{.path = NULL}};
    char *alone[N];
    bool measured;
    for (size_t i = 0; i < N; i++) {
        gq_options o = options_for(out);
        output.target = targets[i], o.measure_file = "";
        if (i == 1) output.filetype = "Q4_K_M";
        gq_plan *plan = plan_for(o, &measured);
        assert_int_equal(measured, i != 1);
        alone[i] = types_of(plan, 0);
        several[i] = (gq_output){.filetype = output.filetype, .target = targets[i]};
        gq_plan_free(plan);
    }
    gq_options o = options_for(out);
    remove(kept());
    o.outputs = several, o.n_outputs = N;
    gq_plan *plan = plan_for(o, &measured);
    assert_true(measured);
    static const char *const labels[N] = {"5bpw", "Q4_K_M", "250KB", "4.4bpw", "200KB"};
    for (size_t i = 0; i < N; i++) {
        char *types = types_of(plan, i);
        assert_string_equal(types, alone[i]);
        const gq_summary *s = gq_plan_summary(plan, i);
        assert_string_equal(s->filetype, labels[i]);
        assert_non_null(strstr(s->path, labels[i]));
        if (targets[i].size) assert_true(s->file_bytes <= targets[i].size);
        free(types), free(alone[i]);
    }
    gq_results_free(must_run(plan));
    for (size_t i = 0; i < N; i++) assert_true(exists(gq_plan_summary(plan, i)->path));
    gq_plan_free(plan);
    /* One that cannot be reached stops all. */
    several[N - 1].target.size = 1000;
    assert_non_null(strstr(failure(&o), "cannot be reached"));
}

/* ---- shares of the work ---- */

TEST(parts_agree) {
    gq_options o = options_for(path("whole.gguf"));
    output.target.bpw = 5;
    gq_results_free(run_plan(&o));
    for (uint32_t part = 1; part <= 2; part++) {
        remove(kept());
        o = options_for(path("parts.gguf"));
        output.target.bpw = 5, o.part = part, o.parts = 2;
        gq_results_free(run_plan(&o));
    }
    o = options_for(path("parts.gguf"));
    output.target.bpw = 5, o.join = true;
    gq_results_free(run_plan(&o));
    assert_same_file(path("whole.gguf"), path("parts.gguf"));
}

int main(void) { return tests_run(set_up, tear_down); }
