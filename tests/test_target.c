/* A size instead of a name: the size is met, options go first, measurements are kept, trusted only as far as
 * they can be, and the same everywhere. */
#include "tests/model.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "codec/codec.h"
#include "tests/imatrix_files.h"

static char *folder, *in, *out;
static const char *path(const char *name) { return in_folder(folder, name); }

/* Tensors of several sizes; rows for short blocks only, rows for none, and experts. Small: it is measured
 * often. */
static int set_up(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t rows;
    } parts[] = {{"attn_q", 40},      {"attn_k", 11}, {"attn_v", 13},
                 {"attn_output", 37}, {"ffn_up", 61}, {"ffn_down", 59}};
    char name[64];
    folder = temporary_folder();
    in = strdup(path("in.gguf")), out = strdup(path("out.gguf"));
    model *m = model_new("llama", 7);
    for (int b = 0; b < 6; b++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", b, parts[i].name);
            model_add(m, name, GGUF_F16, (uint64_t[4]){256, parts[i].rows}, NULL);
        }
    model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 101}, NULL);
    model_add(m, "output.weight", GGUF_F16, (uint64_t[4]){256, 101}, NULL);
    model_add(m, "output_norm.weight", GGUF_F32, (uint64_t[4]){256}, NULL);
    model_set_u32(m, "llama.expert_count", 4);
    model_set_u32(m, "llama.expert_used_count", 2);
    model_add(m, "blk.6.ffn_up_exps.weight", GGUF_F16, (uint64_t[4]){256, 9, 4}, NULL);
    model_add(m, "blk.6.ffn_down_exps.weight", GGUF_F32, (uint64_t[4]){96, 16, 4}, NULL);
    model_add(m, "blk.6.odd.weight", GGUF_F32, (uint64_t[4]){100, 16}, NULL);
    model_write(m, in);
    model_free(m);
    blob b = {0};
    float values[256];
    for (int i = 0; i < 256; i++) values[i] = (float)(1 + i % 7);
    put32(&b, 1);
    put_entry(&b, "blk.2.ffn_up.weight", 1, values, 256);
    put_trailer(&b, 1, "made up");
    write_whole(path("imatrix.dat"), b.bytes, b.n);
    free(b.bytes);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    free(in), free(out);
    return 0;
}

/* ---- helpers ---- */

static gq_output output;
static gq_options options_for(const char *to) {
    output = (gq_output){to, NULL};
    return (gq_options){.input = in,
                        .outputs = &output,
                        .n_outputs = 1,
                        .threads = 2,
                        .force = true,
                        .effort = GQ_EFFORT_DEFAULT};
}

static void count(void *user, const gq_progress *p) { *(uint64_t *)user = p->weights_done; }

/* Plan; *measured: whether weights were looked at. */
static gq_plan *plan_for(gq_options o, bool *measured) {
    gq_error e;
    uint64_t weights = 0;
    gq_callbacks callbacks = {.user = &weights, .progress = count};
    o.callbacks = &callbacks;
    gq_plan *plan = gq_plan_new(&o, &e);
    if (!plan) fail_msg("%s", e.text);
    if (measured) *measured = weights > 0;
    return plan;
}

static uint32_t type_of(const gq_plan *plan, const char *name) {
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(t[i].name, name)) return t[i].to;
    fail_msg("no tensor %s", name);
    return 0;
}

/* All types as text. Frees the plan. */
static char *types_of(gq_plan *plan) {
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    char *text = calloc(n + 1, 8);
    for (size_t i = 0; i < n; i++) sprintf(text + strlen(text), "%u ", t[i].to);
    gq_plan_free(plan);
    return text;
}

static void assert_types(gq_plan *plan, const char *wanted) {
    char *found = types_of(plan);
    assert_string_equal(found, wanted);
    free(found);
}

static bool warned(const gq_plan *plan, const char *text) {
    size_t n;
    const char *const *warnings = gq_plan_warnings(plan, &n);
    for (size_t i = 0; i < n; i++)
        if (strstr(warnings[i], text)) return true;
    return false;
}

/* ---- the size ---- */

static void size_is_met(void **state) {
    (void)state;
    gq_options o = options_for(out);
    o.target_bpw = 64;
    gq_plan *whole = plan_for(o, NULL);
    uint64_t most = gq_plan_summary(whole, 0)->file_bytes, reached = 0;
    gq_plan_free(whole);
    o.target_bpw = 0;
    for (o.target_size = most * 3 / 10; o.target_size < most; o.target_size += most / 17) {
        struct stat st;
        gq_plan_free(run_plan(&o));
        assert_int_equal(stat(out, &st), 0);
        if ((uint64_t)st.st_size > o.target_size || (double)st.st_size < 0.995 * (double)o.target_size)
            fail_msg("%llu bytes for %llu", (unsigned long long)st.st_size,
                     (unsigned long long)o.target_size);
        reached++;
    }
    assert_true(reached > 10);
}

static void bits_are_met(void **state) {
    (void)state;
    gq_options o = options_for(out);
    for (o.target_bpw = 4; o.target_bpw < 12; o.target_bpw += 0.7) {
        gq_plan *plan = plan_for(o, NULL);
        const gq_summary *s = gq_plan_summary(plan, 0);
        double bits = 8 * (double)s->out_bytes / (double)s->n_weights;
        if (bits > o.target_bpw || bits < 0.995 * o.target_bpw)
            fail_msg("%g bits for %g", bits, o.target_bpw);
        gq_plan_free(plan);
    }
}

static void shards_count(void **state) {
    (void)state;
    gq_options o = options_for(path("split.gguf"));
    o.target_size = 250000, o.split_max_size = 60000;
    gq_plan *plan = plan_for(o, NULL);
    uint64_t size = gq_plan_summary(plan, 0)->file_bytes;
    assert_true(size <= o.target_size && size > 248700);
    gq_plan_free(plan);
}

static void impossible_sizes_name_the_smallest(void **state) {
    (void)state;
    gq_options o = options_for(out);
    o.target_size = 1000;
    const char *text = failure(&o), *at = strstr(text, "it has ");
    assert_non_null(at);
    uint64_t least = strtoull(at + 7, NULL, 10);
    o.target_size = least - 1;
    assert_non_null(strstr(failure(&o), "cannot be reached"));
    o.target_size = least;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(gq_plan_summary(plan, 0)->file_bytes, least);
    gq_plan_free(plan);
    o.target_size = 0, o.target_bpw = 1.5;
    assert_non_null(strstr(failure(&o), "1.5 bits per weight cannot be reached"));
}

/* ---- types ---- */

static void rows_get_types_that_fit(void **state) {
    (void)state;
    gq_options o = options_for(out);
    o.target_bpw = 5;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(type_of(plan, "blk.6.odd.weight"), GGUF_F16);
    uint32_t short_blocks = type_of(plan, "blk.6.ffn_down_exps.weight");
    assert_int_equal(gguf_type_of(short_blocks)->block_elements, 32);
    assert_int_equal(type_of(plan, "output_norm.weight"), GGUF_F32);
    gq_plan_free(plan);
}

static void options_go_first(void **state) {
    (void)state;
    gq_options o = options_for(out);
    const char *types[] = {"ffn_down=q4_1", "odd=bf16"}, *keep[] = {"blk.3.attn_q"};
    o.tensor_types = (gq_list){types, 2};
    o.keep = (gq_list){keep, 1};
    o.output_tensor_type = "Q5_0", o.token_embedding_type = "Q2_K";
    o.target_bpw = 5.5;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(type_of(plan, "blk.5.ffn_down.weight"), GGUF_Q4_1);
    assert_int_equal(type_of(plan, "blk.6.odd.weight"), GGUF_BF16);
    assert_int_equal(type_of(plan, "blk.3.attn_q.weight"), GGUF_F16);
    assert_int_equal(type_of(plan, "output.weight"), GGUF_Q5_0);
    assert_int_equal(type_of(plan, "token_embd.weight"), GGUF_Q2_K);
    const gq_summary *s = gq_plan_summary(plan, 0);
    double bits = 8 * (double)s->out_bytes / (double)s->n_weights;
    assert_true(bits <= 5.5 && bits > 5.47);
    gq_plan_free(plan);
}

static void more_bytes_never_hurt(void **state) {
    (void)state;
    gq_options o = options_for(out);
    double before = 1e300;
    for (o.target_bpw = 4; o.target_bpw < 9; o.target_bpw += 1) {
        gq_plan *plan = run_plan(&o);
        size_t n;
        double error = 0;
        gq_plan_tensors(plan, 0, &n);
        for (size_t i = 0; i < n; i++) error += gq_plan_loss(plan, 0, i)->e2;
        assert_true(error < before);
        before = error;
        gq_plan_free(plan);
    }
}

static void the_file_says_its_most_common_type(void **state) {
    (void)state;
    static const struct {
        double bits;
        int64_t type;
    } rows[] = {{3.8, 12}, {8.6, 7}, {16.1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gq_options o = options_for(out);
        o.target_bpw = rows[i].bits;
        gq_plan_free(run_plan(&o));
        gguf_model m = open_model(out);
        int64_t type;
        assert_true(gguf_kv_int(gguf_find(m.shards[0].kv, m.shards[0].n_kv, "general.file_type"), &type));
        assert_int_equal(type, rows[i].type);
        gguf_model_close(&m);
    }
}

static void requests_that_make_no_sense(void **state) {
    (void)state;
    gq_output two[] = {{path("a.gguf"), NULL}, {path("b.gguf"), NULL}};
    gq_options o = options_for(out);
    o.target_bpw = 5, o.outputs = two, o.n_outputs = 2;
    assert_non_null(strstr(failure(&o), "one output"));
    o = options_for(out);
    o.target_bpw = 5, output.filetype = "Q4_0";
    assert_non_null(strstr(failure(&o), "takes the place"));
    o = options_for(out);
    o.target_bpw = 5, o.target_size = 1000000;
    assert_non_null(strstr(failure(&o), "not both"));
    o.target_size = 0, o.pure = true;
    assert_non_null(strstr(failure(&o), "--pure"));
    o.pure = false, o.target_bpw = -1;
    assert_non_null(strstr(failure(&o), "bits per weight"));
}

/* ---- measurements ---- */

static const char *kept(void) { return path("in.gguf.gquant-measure"); }

static void measurements_are_kept(void **state) {
    (void)state;
    bool measured;
    gq_options o = options_for(out);
    o.target_bpw = 5;
    remove(kept());
    char *types = types_of(plan_for(o, &measured));
    assert_true(measured);
    assert_true(exists(kept()));
    assert_types(plan_for(o, &measured), types);
    assert_false(measured);
    o.target_bpw = 6, o.output_tensor_type = "Q6_K";
    gq_plan_free(plan_for(o, &measured));
    assert_false(measured);
    free(types);
}

static void what_has_changed_is_measured_again(void **state) {
    (void)state;
    bool measured;
    gq_options o = options_for(out);
    o.target_bpw = 5;
    gq_plan_free(plan_for(o, NULL));
    o.effort = GQ_EFFORT_FAST;
    gq_plan_free(plan_for(o, &measured));
    assert_true(measured);
    o.imatrix = path("imatrix.dat");
    gq_plan_free(plan_for(o, &measured));
    assert_true(measured);
    gq_plan_free(plan_for(o, &measured));
    assert_false(measured);
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, in, times, 0), 0);
    gq_plan_free(plan_for(o, &measured));
    assert_true(measured);
}

static void hostile_measurements_do_no_harm(void **state) {
    (void)state;
    bool measured;
    gq_options o = options_for(out);
    o.target_bpw = 5;
    remove(kept());
    char *types = types_of(plan_for(o, NULL));
    size_t n;
    uint8_t *good = read_whole(kept(), &n);
    for (size_t cut = 0; cut < n; cut += 1 + n / 20) {
        write_whole(kept(), good, cut);
        assert_types(plan_for(o, &measured), types);
        assert_true(measured);
    }
    for (size_t i = 0; i < 100; i++) { /* any byte: perhaps other types, never a failure */
        size_t at = i * 791 % n;
        uint8_t old = good[at];
        good[at] = (uint8_t)(old ^ (0x81 + i));
        write_whole(kept(), good, n);
        good[at] = old;
        gq_plan_free(plan_for(o, NULL));
    }
    free(good), free(types);
}

/* A file with the right key, and numbers that nobody can have measured. */
static void impossible_numbers_are_measured_again(void **state) {
    (void)state;
    bool measured;
    gq_options o = options_for(out);
    o.target_bpw = 5;
    remove(kept());
    char *types = types_of(plan_for(o, NULL));
    gguf_model found = open_model(kept());
    static const double wrong[][5] = {
        {-1, 1, 1, 12, 1},         {1e300, 1, 1, 12, 1},        {100, -1, 1, 12, 1}, {100, 1, NAN, 12, 1},
        {100, 1, 1, 12, -1},       {100, 1, 1, 12, NAN},        {100, 1, 1, 1e9, 1}, {100, 1, 1, NAN, 1},
        {100, INFINITY, 1, 12, 1}, {100, 1, 1, 4294967308.0, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        model *m = model_new("x", 1);
        for (uint64_t k = 0; k < found.shards[0].n_kv; k++) {
            const gguf_kv *kv = &found.shards[0].kv[k];
            if (kv->type == GGUF_ARRAY)
                model_set_array(m, kv->key, GGUF_FLOAT64, wrong[i], 5 - k % 2);
            else
                model_set(m, kv->key, kv->type, kv->value, kv->size);
        }
        model_write(m, path("wrong"));
        model_free(m);
        assert_int_equal(rename(path("wrong"), kept()), 0);
        assert_types(plan_for(o, &measured), types);
        assert_true(measured);
    }
    gguf_model_close(&found);
    free(types);
}

static void a_folder_that_takes_no_file_is_no_failure(void **state) {
    (void)state;
    bool measured;
    size_t files = count_files(folder);
    gq_options o = options_for(out);
    o.target_bpw = 5;
    if (exists(kept())) remove(kept()), files--;
    assert_int_equal(mkdir(kept(), 0777), 0);
    gq_plan *plan = plan_for(o, &measured);
    assert_true(measured);
    assert_true(warned(plan, "measurements are not kept"));
    gq_plan_free(plan);
    assert_int_equal(rmdir(kept()), 0);
    assert_int_equal(count_files(folder), files); /* nothing half-written is left */
}

static void the_same_everywhere(void **state) {
    (void)state;
    gq_options o = options_for(out);
    o.target_bpw = 5, o.imatrix = path("imatrix.dat");
    remove(kept());
    o.threads = 1;
    char *types = types_of(plan_for(o, NULL));
    assert_int_equal(rename(kept(), path("first")), 0);
    for (o.threads = 2; o.threads < 9; o.threads += 3) {
        assert_types(plan_for(o, NULL), types);
        assert_same_file(path("first"), kept());
        remove(kept());
    }
    for (size_t i = 0; kernels_level_name(i); i++) {
        if (!kernels_level(kernels_level_name(i))) continue;
        setenv("GQUANT_ISA", kernels_level_name(i), 1);
        assert_types(plan_for(o, NULL), types);
        assert_same_file(path("first"), kept());
        remove(kept());
    }
    unsetenv("GQUANT_ISA");
    free(types);
}

static void a_target_above_the_model_keeps_it(void **state) {
    (void)state;
    gq_options o = options_for(out);
    o.target_size = 1000000000;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(type_of(plan, "blk.0.ffn_up.weight"), GGUF_F16);
    assert_int_equal(type_of(plan, "blk.6.odd.weight"), GGUF_F32);
    assert_true(warned(plan, "nothing is quantized"));
    gq_plan_free(plan);
    o.target_size = 0, o.target_bpw = 5;
    plan = plan_for(o, NULL);
    assert_false(warned(plan, "nothing is quantized"));
    gq_plan_free(plan);
}

/* The embedding of a model without output.weight does the output's work: it gets no fewer bits than beside
 * one. */
static void a_tied_embedding_counts_twice(void **state) {
    (void)state;
    static const char *const others[] = {"output.weight", "other.weight"};
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        model *m = model_new("llama", 1);
        model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 64}, NULL);
        float *values = random_values(256 * 64, 7);
        model_add(m, others[i], GGUF_F16, (uint64_t[4]){256, 64}, values);
        free(values);
        model_write(m, path("tied.gguf"));
        model_free(m);
        gq_options o = options_for(out);
        o.input = path("tied.gguf"), o.target_bpw = 5.2;
        gq_plan *plan = plan_for(o, NULL);
        bytes[i] = gguf_type_of(type_of(plan, "token_embd.weight"))->block_bytes;
        gq_plan_free(plan);
    }
    assert_true(bytes[1] > bytes[0]);
}

static void an_outlet_may_be_no_matrix(void **state) {
    (void)state;
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F16, (uint64_t[4]){256, 64}, NULL);
    model_add(m, "blk.0.ffn_down.weight", GGUF_F32, (uint64_t[4]){1}, NULL);
    model_write(m, path("odd.gguf"));
    model_free(m);
    gq_options o = options_for(out);
    o.input = path("odd.gguf"), o.target_bpw = 5;
    gq_plan *plan = plan_for(o, NULL);
    assert_int_equal(type_of(plan, "blk.0.ffn_up.weight"), GGUF_Q4_K);
    gq_plan_free(plan);
}

static bool at_once(void *user) {
    (void)user;
    return true;
}

static void measuring_can_be_stopped(void **state) {
    (void)state;
    gq_error e = {.status = GQ_OK};
    gq_callbacks callbacks = {.cancelled = at_once};
    gq_options o = options_for(out);
    o.target_bpw = 5, o.callbacks = &callbacks;
    remove(kept());
    assert_null(gq_plan_new(&o, &e));
    assert_int_equal(e.status, GQ_INTERRUPTED);
    assert_false(exists(kept()));
}

static void weights_must_be_finite(void **state) {
    (void)state;
    float values[512];
    for (int i = 0; i < 512; i++) values[i] = (float)i;
    values[300] = NAN;
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F32, (uint64_t[4]){256, 2}, values);
    model_write(m, path("nan.gguf"));
    model_free(m);
    gq_options o = options_for(out);
    o.input = path("nan.gguf"), o.target_bpw = 5;
    assert_non_null(strstr(failure(&o), "element 300 is nan"));
    assert_false(exists(path("nan.gguf.gquant-measure")));
}

/* ---- shares of the work ---- */

static void parts_agree(void **state) {
    (void)state;
    gq_options o = options_for(path("whole.gguf"));
    o.target_bpw = 5;
    gq_plan_free(run_plan(&o));
    for (uint32_t part = 1; part <= 2; part++) {
        remove(kept());
        o = options_for(path("parts.gguf"));
        o.target_bpw = 5, o.part = part, o.parts = 2;
        gq_plan_free(run_plan(&o));
    }
    o = options_for(path("parts.gguf"));
    o.target_bpw = 5, o.join = true;
    gq_plan_free(run_plan(&o));
    assert_same_file(path("whole.gguf"), path("parts.gguf"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_is_met),
        cmocka_unit_test(bits_are_met),
        cmocka_unit_test(shards_count),
        cmocka_unit_test(impossible_sizes_name_the_smallest),
        cmocka_unit_test(rows_get_types_that_fit),
        cmocka_unit_test(options_go_first),
        cmocka_unit_test(more_bytes_never_hurt),
        cmocka_unit_test(the_file_says_its_most_common_type),
        cmocka_unit_test(requests_that_make_no_sense),
        cmocka_unit_test(measurements_are_kept),
        cmocka_unit_test(what_has_changed_is_measured_again),
        cmocka_unit_test(hostile_measurements_do_no_harm),
        cmocka_unit_test(impossible_numbers_are_measured_again),
        cmocka_unit_test(a_folder_that_takes_no_file_is_no_failure),
        cmocka_unit_test(the_same_everywhere),
        cmocka_unit_test(a_target_above_the_model_keeps_it),
        cmocka_unit_test(a_tied_embedding_counts_twice),
        cmocka_unit_test(an_outlet_may_be_no_matrix),
        cmocka_unit_test(measuring_can_be_stopped),
        cmocka_unit_test(weights_must_be_finite),
        cmocka_unit_test(parts_agree),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
