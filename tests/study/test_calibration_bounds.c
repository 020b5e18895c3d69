/* Memory that a calibrated plan was given: kept while it measures for a target, and refused before rather
 * than after that. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "forward/stream/stream.h"
#include "quantize/quantize.h"
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

enum { MIB = 1 << 20, CONTEXT = 64, WIDTH = 2048 };

/* A layer so wide that a batch of 2048 tokens uses all that products of matrices set aside. */
static model *wide_model(void) {
    static const struct {
        const char *name;
        uint64_t columns, rows;
    } parts[] = {{"attn_norm", WIDTH, 0},  {"attn_q", WIDTH, WIDTH},      {"attn_k", WIDTH, 128},
                 {"attn_v", WIDTH, 128},   {"attn_output", WIDTH, WIDTH}, {"ffn_norm", WIDTH, 0},
                 {"ffn_gate", WIDTH, 256}, {"ffn_up", WIDTH, 256},        {"ffn_down", 256, WIDTH}};
    model *m = model_new("llama", 1);
    float epsilon = 1e-5f;
    char name[64];
    model_set_u32(m, "llama.attention.head_count", WIDTH / 128);
    model_set_u32(m, "llama.attention.head_count_kv", 1);
    model_set_u32(m, "llama.embedding_length", WIDTH);
    model_set_u32(m, "llama.feed_forward_length", 256);
    model_set_u32(m, "llama.context_length", CONTEXT);
    model_set(m, "llama.attention.layer_norm_rms_epsilon", GGUF_FLOAT32, &epsilon, 4);
    token_model_letters(m, true, 512);
    add_weights(m, "token_embd.weight", 30, WIDTH, 512);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "blk.0.%s.weight", parts[i].name);
        add_weights(m, name, 5, parts[i].columns, parts[i].rows);
    }
    add_weights(m, "output_norm.weight", 1, WIDTH, 0);
    add_weights(m, "output.weight", 5, WIDTH, 512);
    return m;
}

FIXTURE(start) {
    folder = temporary_folder();
    model *m = evaluation_model(3);
    model_save(m, path("model.gguf"));
    model_save(wide_model(), path("wide.gguf"));
    return 0;
}

/* ---- runs ---- */

typedef struct dry_run {
    const char *model, *out, *measure_file, *context, *tokens;
    uint64_t memory;
} dry_run;

static void run_here(const dry_run *d) {
    char memory[32];
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)d->memory);
    if (chdir(folder) == 0)
        execl(command_path(), "gquant", "-q", "--dry-run", "--threads", "1", "--memory", memory,
              "--calibrate", "@random", "--calibrate-tokens", d->tokens, "--context", d->context,
              "--target-bpw", "5", "--measure-file", d->measure_file, d->model,
              d->out ? "--out-dir" : "out.gguf", d->out, (char *)NULL);
    _exit(127);
}

/* The exit status; *peak: resident bytes at most. */
static int dry_run_status(const dry_run *d, uint64_t *peak) {
    int status;
    struct rusage use;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) run_here(d);
    assert_int_equal(wait4(pid, &status, 0, &use), pid);
    assert_true(WIFEXITED(status));
    *peak = (uint64_t)use.ru_maxrss * 1024;
    return WEXITSTATUS(status);
}

/* ---- tests ---- */

/* What was measured is kept, so the second plan measures nothing: it needs the same memory. */
TEST(what_was_measured_does_not_count) {
    if (SANITIZED) skip(); /* these take memory of their own */
    dry_run d = {.model = "model.gguf", .measure_file = "kept", .context = "64", .tokens = "20000"};
    uint64_t peak;
    size_t made = 0;
    for (d.memory = 76 * MIB; d.memory <= 92 * MIB; d.memory += 4 * MIB) {
        unlink(path("kept"));
        int first = dry_run_status(&d, &peak), second = dry_run_status(&d, &peak);
        if (first != second)
            fail_msg("%llu bytes: first status %d, then %d", (unsigned long long)d.memory, first, second);
        made += first == 0;
    }
    assert_true(made > 0);
    unlink(path("kept"));
}

/* Bytes that a sample of so many tokens takes with its states in memory, beside all else that there is. */
static uint64_t sample_bytes(const char *name, size_t tokens) {
    model_source file;
    gq_error e;
    assert_true(input_open(&file, path(name), &e));
    const forward_model *m = forward_model_new(&file, &e);
    assert_non_null(m);
    forward_job job = {.windows = tokens / CONTEXT, .context = CONTEXT, .threads = 1, .memory = UINT64_MAX};
    forward_bounds bounds = forward_bounds_of(&job, &m, 1, false);
    assert_false(bounds.in_file);
    forward_model_free((forward_model *)(uintptr_t)m);
    model_close(&file);
    return bounds.peak;
}

/* Where the sample would fit if it were alone in the process. */
TEST(sampling_keeps_to_the_memory) {
    if (SANITIZED) skip();
    dry_run d = {.model = "wide.gguf", .measure_file = "none", .context = "64", .tokens = "4096"};
    for (uint64_t more = 0; more <= 2; more++) {
        uint64_t peak;
        d.memory = sample_bytes("wide.gguf", 4096) + more * MIB;
        assert_int_not_equal(dry_run_status(&d, &peak), 1);
        if (peak > d.memory)
            fail_msg("%llu bytes, of %llu", (unsigned long long)peak, (unsigned long long)d.memory);
    }
}

/* States that do not fit into memory need a file, and a dry run makes no folder for it: what comes of it is
 * what comes of it with a folder that is there. So little memory is too little for the calibration, too, but
 * that turns out later. */
TEST(a_missing_folder_is_not_needed) {
    if (SANITIZED) skip();
    static const char *const missing[] = {"missing", "missing/twice"};
    dry_run d = {.model = "wide.gguf", .measure_file = "none", .context = "64", .tokens = "8192", .out = "."};
    uint64_t peak;
    struct stat st;
    d.memory = sample_bytes("wide.gguf", 4096) - 40 * MIB;
    int there = dry_run_status(&d, &peak);
    assert_int_not_equal(there, 1);
    for (size_t i = 0; i < 3; i++) {
        d.out = i < 2 ? missing[i] : path("missing/three/times");
        assert_int_equal(dry_run_status(&d, &peak), there);
        assert_int_equal(stat(path("missing"), &st), -1);
    }
    assert_int_equal(count_files(folder), 2);
}

int main(void) { return tests_run(start, folder_remove); }
