/* What a target measures: kept, trusted only as far as it can be, the same everywhere. */
#include "tests/support/one_target.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "codec/codec.h"

static const char *kept(void) { return path("in.gguf.gquant-measure"); }

/* Options with a target of five bits. */
static gq_options five_bits(void) {
    gq_options o = options_for(out);
    output.target.bpw = 5;
    return o;
}

/* The types that a plan chooses which finds no measurements; malloc'ed. It leaves its own. */
static char *types_at_first(const gq_options *o) {
    bool measured;
    if (exists(kept())) assert_int_equal(remove(kept()), 0);
    gq_plan *plan = plan_for(*o, &measured);
    char *types = types_of(plan, 0);
    gq_plan_free(plan);
    assert_true(measured);
    return types;
}

TEST(measurements_are_kept) {
    bool measured;
    gq_options o = five_bits();
    char *types = types_at_first(&o);
    assert_true(exists(kept()));
    assert_types(plan_for(o, &measured), types);
    assert_false(measured);
    output.target.bpw = 6, o.output_tensor_type = "Q6_K";
    gq_plan_free(plan_for(o, &measured));
    assert_false(measured);
    free(types);
}

TEST(what_has_changed_is_measured_again) {
    bool measured;
    gq_options o = five_bits();
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

TEST(hostile_measurements_do_no_harm) {
    bool measured;
    gq_options o = five_bits();
    char *types = types_at_first(&o);
    size_t n;
    uint8_t *good = read_whole(kept(), &n);
    for (size_t cut = 0; cut < n; cut += 1 + n / (SANITIZED ? 7 : 20)) {
        write_whole(kept(), good, cut);
        assert_types(plan_for(o, &measured), types);
        assert_true(measured);
    }
    for (size_t i = 0; i < (SANITIZED ? 30 : 100); i++) { /* any byte: perhaps other types, never a failure */
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
TEST(impossible_numbers_are_measured_again) {
    bool measured;
    gq_options o = five_bits();
    char *types = types_at_first(&o);
    model_source found = open_model(kept());
    static const double wrong[][5] = {
        {-1, 1, 1, 12, 1},         {1e300, 1, 1, 12, 1},        {100, -1, 1, 12, 1}, {100, 1, NAN, 12, 1},
        {100, 1, 1, 12, -1},       {100, 1, 1, 12, NAN},        {100, 1, 1, 1e9, 1}, {100, 1, 1, NAN, 1},
        {100, INFINITY, 1, 12, 1}, {100, 1, 1, 4294967308.0, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        model *m = model_new("x", 1);
        for (uint64_t k = 0; k < gguf_container_of(&found)->shards[0].n_kv; k++) {
            const model_kv *kv = &gguf_container_of(&found)->shards[0].kv[k];
            if (kv->type == GGUF_ARRAY)
                model_set_array(m, kv->key, GGUF_FLOAT64, wrong[i], 5 - k % 2);
            else
                model_set(m, kv->key, kv->type, kv->value, kv->size);
        }
        model_save(m, path("wrong"));
        assert_int_equal(rename(path("wrong"), kept()), 0);
        assert_types(plan_for(o, &measured), types);
        assert_true(measured);
    }
    model_close(&found);
    free(types);
}

TEST(a_folder_that_takes_no_file_is_no_failure) {
    bool measured;
    size_t files = count_files(folder);
    gq_options o = five_bits();
    if (exists(kept())) remove(kept()), files--;
    assert_int_equal(mkdir(kept(), 0777), 0);
    gq_plan *plan = plan_for(o, &measured);
    assert_true(measured);
    assert_true(warned(plan, "measurements are not saved"));
    gq_plan_free(plan);
    assert_int_equal(rmdir(kept()), 0);
    assert_int_equal(count_files(folder), files); /* nothing half-written is left */
}

/* A run that was killed right before the measurements got their name: what it has left goes when measurements
 * are written again. A plan that writes none removes nothing. */
TEST(what_a_killed_run_has_left_goes_at_the_next_write) {
    char *left = strdup(path(".in.gguf.gquant-measure.gquant-new"));
    gq_options o = options_for(out);
    output.target.bpw = 5;
    bool measured;
    gq_plan_free(plan_for(o, &measured));
    write_whole(left, "half", 4);
    gq_plan_free(plan_for(o, &measured));
    assert_false(measured);
    assert_true(exists(left));
    remove(kept());
    gq_plan_free(plan_for(o, &measured));
    assert_true(measured);
    assert_false(exists(left));
    /* But for an input of that name. */
    o.imatrix = left;
    assert_int_equal(rename(path("imatrix.dat"), left), 0);
    gq_plan_free(plan_for(o, &measured));
    gq_plan_free(plan_for(o, &measured));
    assert_true(exists(left));
    assert_int_equal(rename(left, path("imatrix.dat")), 0);
    free(left);
}

/* A folder in which nobody, not even root, can make a file. */
TEST(a_read_only_folder_is_no_failure) {
    bool measured;
    gq_options o = options_for(out);
    char here[64];
    int fd = open(in, O_RDONLY);
    assert_true(fd >= 0);
    snprintf(here, sizeof here, "/proc/self/fd/%d", fd);
    output.target.bpw = 5, o.input = here;
    gq_plan *plan = plan_for(o, &measured);
    assert_true(measured);
    assert_true(warned(plan, "measurements are not saved"));
    assert_null(gq_plan_measure_file(plan));
    gq_plan_free(plan);
    close(fd);
}

/* A dry run keeps what it has measured, and nothing else, so that the run need not measure again. */
TEST(a_dry_run_measures_for_the_run) {
    bool measured;
    gq_options o = five_bits();
    o.dry_run = true;
    remove(kept());
    size_t files = count_files(folder);
    gq_plan *plan = plan_for(o, &measured);
    assert_true(measured);
    assert_string_equal(gq_plan_measure_file(plan), kept());
    assert_int_equal(count_files(folder), files + 1);
    char *types = types_of(plan, 0);
    assert_true(gq_plan_seconds(plan) > 0);
    gq_plan_free(plan);
    o.dry_run = false;
    gq_plan_free(plan_for(o, &measured));
    assert_false(measured);
    assert_int_equal(count_files(folder), files + 1);
    o.dry_run = true; /* what is there is used */
    plan = plan_for(o, &measured);
    assert_false(measured);
    assert_string_equal(gq_plan_measure_file(plan), kept());
    assert_types(plan, types);
    free(types);
}

TEST(another_place_or_none) {
    bool measured;
    gq_options o = five_bits();
    o.measure_file = "";
    remove(kept());
    size_t files = count_files(folder);
    for (int i = 0; i < 2; i++) {
        gq_plan *plan = plan_for(o, &measured);
        assert_true(measured);
        assert_null(gq_plan_measure_file(plan));
        gq_plan_free(plan);
    }
    assert_int_equal(count_files(folder), files);
    o.measure_file = path("elsewhere");
    for (int i = 0; i < 2; i++) {
        gq_plan *plan = plan_for(o, &measured);
        assert_int_equal(measured, i == 0);
        assert_string_equal(gq_plan_measure_file(plan), path("elsewhere"));
        gq_plan_free(plan);
    }
    assert_false(exists(kept()));
    o.effort = GQ_EFFORT_FAST; /* of another run, but measurements: replaced */
    gq_plan_free(plan_for(o, &measured));
    assert_true(measured);
}

TEST(other_files_are_not_replaced_by_measurements) {
    gq_options o = five_bits();
    const char *others[] = {in, path("imatrix.dat"), path("text"), folder};
    write_whole(path("text"), "text", 4);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        o.measure_file = others[i];
        if (!strstr(failure(&o), others[i])) fail_msg("%s: '%s'", others[i], failure(&o));
    }
    size_t n;
    free(read_whole(path("text"), &n));
    assert_int_equal(n, 4);
}

TEST(the_same_everywhere) {
    gq_options o = five_bits();
    o.imatrix = path("imatrix.dat"), o.threads = 1;
    char *types = types_at_first(&o);
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

int main(void) { return tests_run(set_up, tear_down); }
