/* Unfinished work is continued only by a plan that would write the same bytes. */
#include "tests/support/folder.h"
#include "tests/support/runs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

/* Layers of one shape, as those of a real model are: only their weights differ. */
static void write_layers(const char *to, int layers, uint64_t seed) {
    char name[64];
    model *m = model_new("llama", (uint32_t)layers);
    for (int b = 0; b < layers; b++) {
        float *x = random_values(256 * 64, seed + (uint64_t)b);
        snprintf(name, sizeof name, "blk.%d.ffn_up.weight", b);
        model_add(m, name, GGUF_F16, (uint64_t[4]){256, 64}, x);
        free(x);
    }
    model_save(m, to);
}

FIXTURE(set_up) {
    folder = temporary_folder();
    write_layers(path("in.gguf"), 12, 1);
    return 0;
}

static gq_options options_for(const gq_output *out) {
    return (gq_options){.size = sizeof(gq_options),
                        .sync_ms = 1,
                        .input = path("in.gguf"),
                        .outputs = out,
                        .n_outputs = 1,
                        .threads = 1,
                        .effort = GQ_EFFORT_DEFAULT};
}

static void stop_after_some(const gq_options *o) {
    gq_error e;
    stopper s = {.after = 5};
    assert_int_equal(run_some(o, &s, &e), GQ_INTERRUPTED);
}

/* `second` must not use what a run of `first` left, and must write what it writes alone. */
static void assert_afresh(const gq_options *first, const gq_options *second, const char *why) {
    gq_error e;
    gq_output alone = {.path = path("alone.gguf"), .filetype = second->outputs[0].filetype};
    gq_options reference = *second;
    stopper last = {.after = 0};
    stop_after_some(first);
    assert_true(announced(first, "will be continued"));
    assert_true(announced(second, why));
    assert_int_equal(run_some(second, &last, &e), GQ_OK);
    assert_int_equal(last.resumed, 0);
    reference.outputs = &alone;
    gq_results_free(run_plan(&reference));
    assert_same_file(alone.path, second->outputs[0].path);
    assert_int_equal(unlink(alone.path) | unlink(second->outputs[0].path), 0);
}

/* Headers are the same whichever layer goes. */
TEST(other_layers_pruned) {
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_0"};
    gq_options first = options_for(&out), second = first;
    first.prune_layers = "3", second.prune_layers = "10";
    assert_afresh(&first, &second, "options were different");
    assert_afresh(&second, &first, "options were different");
}

TEST(parts_with_other_layers_pruned) {
    gq_output out = {.path = path("parts.gguf"), .filetype = "Q4_0"};
    gq_options o = options_for(&out), other, join;
    gq_error e;
    stopper all = {.after = 0};
    o.prune_layers = "3";
    o.part = 1, o.parts = 2;
    other = join = o;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    other.part = 2, other.prune_layers = "10";
    assert_non_null(strstr(failure(&other), "its options were different"));
    o.part = 2;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    join.join = true, join.part = join.parts = 0, join.prune_layers = "10";
    assert_non_null(strstr(failure(&join), "its options were different"));
    join.prune_layers = "3";
    gq_results_free(run_plan(&join));
}

/* An importance file with one value per column; sums of a column grow with `slope`. */
static void write_importance(const char *to, float slope, int layers) {
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    fwrite(&layers, 4, 1, f);
    for (int b = 0; b < layers; b++) {
        char name[64];
        int length = snprintf(name, sizeof name, "blk.%d.ffn_up.weight", b), calls = 1, n = 256;
        fwrite(&length, 4, 1, f), fwrite(name, 1, (size_t)length, f);
        fwrite(&calls, 4, 1, f), fwrite(&n, 4, 1, f);
        for (int i = 0; i < n; i++) {
            float value = 1 + slope * (float)i;
            fwrite(&value, 4, 1, f);
        }
    }
    fclose(f);
}

TEST(other_importance) {
    gq_output out = {.path = path("importance.gguf"), .filetype = "Q4_0"};
    gq_options plain = options_for(&out), first = plain, second = plain, few = plain;
    static const char *const some[] = {"blk.1"};
    write_importance(path("a.dat"), 1, 12), write_importance(path("b.dat"), 2, 12);
    first.imatrix = path("a.dat"), second.imatrix = path("b.dat");
    few.imatrix = path("a.dat"), few.exclude_weights = (gq_list){some, 1};
    assert_afresh(&first, &second, "options were different");
    assert_afresh(&plain, &first, "options were different");
    assert_afresh(&first, &few, "options were different");
    few.exclude_weights.n = 0, few.include_weights = (gq_list){some, 1};
    assert_afresh(&few, &first, "options were different");
}

/* What changes offsets, types and the cut into shards. */
TEST(other_layouts) {
    static const char *const type[] = {"blk\\.7\\.=Q5_0"}, *const key[] = {"general.name=str:other"};
    gq_output out = {.path = path("layout.gguf"), .filetype = "Q4_0"},
              other = {.path = out.path, .filetype = "Q4_1"};
    gq_options first = options_for(&out), second = first;
    second.tensor_types = (gq_list){type, 1};
    assert_afresh(&first, &second, "options were different");
    second = first, second.override_kv = (gq_list){key, 1};
    assert_afresh(&first, &second, "options were different");
    second = first, second.outputs = &other;
    assert_afresh(&first, &second, "options were different");
}

TEST(requantized_from_another_type) {
    gq_output out = {.path = path("again.gguf"), .filetype = "Q4_0"};
    gq_options first = options_for(&out), second;
    quantize(path("in.gguf"), path("q8.gguf"), "Q8_0", 1);
    quantize(path("in.gguf"), path("q5.gguf"), "Q5_0", 1);
    first.allow_requantize = true;
    second = first;
    first.input = path("q8.gguf"), second.input = path("q5.gguf");
    assert_afresh(&first, &second, "it had another input");
}

/* The same name, size and time of change, but other weights: a copy that keeps times does that. */
TEST(another_input_of_the_same_size_and_time) {
    struct stat st;
    gq_error e;
    gq_output out = {.path = path("same.gguf"), .filetype = "Q4_0"};
    gq_options o = options_for(&out);
    stopper last = {.after = 0};
    o.input = path("replaced.gguf");
    write_layers(o.input, 12, 1);
    assert_int_equal(stat(o.input, &st), 0);
    stop_after_some(&o);
    write_layers(o.input, 12, 100);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, o.input, times, 0), 0);
    assert_true(announced(&o, "it had another input"));
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_int_equal(last.resumed, 0);
    quantize(o.input, path("reference.gguf"), "Q4_0", 1);
    assert_same_file(path("reference.gguf"), out.path);
}

/* A journal names the sources that gquant was built from: the version stays the same between releases. */
TEST(another_build) {
    enum { AT = 8, CRC_AT = 64 };
    gq_output out = {.path = path("build.gguf"), .filetype = "Q4_0"};
    gq_options o = options_for(&out);
    char head[CRC_AT], build[24];
    stop_after_some(&o);
    size_t n = (size_t)snprintf(build, sizeof build, "%s-", gq_version());
    int fd = open(path(".build.gguf.gquant-journal"), O_RDWR);
    assert_int_equal(pread(fd, head, CRC_AT, 0), CRC_AT);
    assert_memory_equal(head + AT, build, n);
    assert_int_equal(strspn(head + AT + n, "0123456789abcdef"), 8);
    head[AT + n] = head[AT + n] == '0' ? '1' : '0';
    uint32_t sum = (uint32_t)crc32(0, (const Bytef *)head, CRC_AT);
    assert_int_equal(pwrite(fd, head, CRC_AT, 0), CRC_AT);
    assert_int_equal(pwrite(fd, &sum, sizeof sum, CRC_AT), sizeof sum);
    close(fd);
    assert_true(announced(&o, "another version or build"));
}

int main(void) { return tests_run(set_up, folder_remove); }
