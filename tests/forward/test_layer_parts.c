/* Mixtures of which no layer fits into the memory: a folder with FP8 weights and a scale for each 128 x 128,
 * where a limit leaves room for one expert at a time. All commands that run models then give the same bytes,
 * and what they take at least does not grow with the number of experts. */
#include "tests/support/command.h"
#include "tests/support/folder.h"

enum { EXPERTS = 32, FEW_EXPERTS = 4, EXPERT_BYTES = 3 * 256 * 256 * 4, MIB = 1 << 20 };

static void make_mixture(const char *name, int experts, int layers) {
    char n[16], weights[32];
    snprintf(n, sizeof n, "%d", experts);
    snprintf(weights, sizeof weights, "%d", layers * (experts * EXPERT_BYTES / 4 + (1 << 18)) + (1 << 18));
    make_model((const char *const[]){"--folder", "--type", "F8_E4M3", "--width", "256", "--feed", "256",
                                     "--experts", n, "--used", "4", path(name), weights, NULL});
}

static int start(void **state) {
    static const char *const words[] = {"alpha ", "beta ", "gamma ", "delta ", "eps "};
    (void)state;
    folder = temporary_folder();
    FILE *f = fopen(path("text"), "w");
    uint32_t x = 1;
    for (int i = 0; i < 1500; i++) x = x * 1664525 + 1013904223, fputs(words[(x >> 16) % 5], f);
    fclose(f);
    make_mixture("many", EXPERTS, 2);
    make_mixture("few", FEW_EXPERTS, 2);
    make_mixture("small", 8, 1);
    return 0;
}

/* Returns the MiB that a text has behind some words. */
static double told_mib(const char *text, const char *words) {
    const char *at = strstr(text, words);
    char *end;
    if (!at) fail_msg("no '%s' in: %s", words, text);
    double mib = strtod(at + strlen(words), &end);
    if (strncmp(end, " MiB", 4) != 0) fail_msg("no MiB in: %s", text);
    return mib;
}

#define COMPUTE(in, out) \
    "-q", "imatrix", "compute", "--context", "64", "--tokens", "512", path(in), path("text"), path(out)
#define CALIBRATE(in, out) \
    "-q", "--calibrate", path("text"), "--calibrate-tokens", "512", "--context", "64", path(in), path(out), \
        "Q4_K"

/* The least that a command takes, in MiB, as it says when it is refused. */
static double least(const char *const *words) {
    char *err = gquant(2, words);
    double mib = told_mib(err, "tokens take ");
    free(err);
    return mib;
}
#define LEAST(...) least((const char *const[]){__VA_ARGS__, "--memory", "1M", NULL})

/* Memory that is enough for that, and for little more. */
static const char *limit(double mib) {
    static char text[32];
    snprintf(text, sizeof text, "%.0f", (mib + (SANITIZED ? 8 : 1.5)) * MIB);
    return text;
}

static void assert_same(const char *a, const char *b) {
    size_t n, m;
    uint8_t *x = read_whole(path(a), &n), *y = read_whole(path(b), &m);
    if (n != m || memcmp(x, y, n) != 0) fail_msg("%s and %s differ", a, b);
    free(x), free(y);
}

/* A tenth of what the experts that are more would take. */
static void assert_no_more(double many, double few) {
    double more = (double)(EXPERTS - FEW_EXPERTS) * EXPERT_BYTES / MIB;
    if (!SANITIZED && !(many < few + more / 10)) fail_msg("%g MiB with many experts, %g with few", many, few);
}

/* What a dry run prints; it may say besides that it measures. */
static char *planned(const char *const *words) {
    char *out, *err;
    int status = run_command(words, &out, &err);
    if (status != 0) fail_msg("status %d: %s", status, err);
    free(err);
    return out;
}
#define PLANNED(...) planned((const char *const[]){command_path(), __VA_ARGS__, NULL})

TEST(importance_is_the_same_with_one_expert_at_a_time) {
    double many = LEAST(COMPUTE("many", "x.gguf"));
    assert_no_more(many, LEAST(COMPUTE("few", "x.gguf")));
    char *out = PLANNED("imatrix", "compute", "-n", "--context", "64", "--tokens", "512", path("many"),
                        path("text"), path("x.gguf"), "--memory", limit(many));
    says(out, "time: about ");
    free(out);
    GQUANT(0, COMPUTE("many", "all.gguf"));
    GQUANT(0, COMPUTE("many", "some.gguf"), "--memory", limit(many));
    assert_same("all.gguf", "some.gguf");
}

static double least_evaluation(const char *in) {
    char *out = PLANNED("evaluate", "-n", "--context", "64", "--tokens", "512", path(in), "--text",
                        path("text"), "--memory", "1M");
    double mib = told_mib(out, "at most ");
    free(out);
    return mib;
}

#define EVALUATE(in, out) \
    "-q", "evaluate", "--context", "64", "--tokens", "512", path(in), "--text", path("text"), "--base-out", \
        path(out)

TEST(an_evaluation_is_the_same_with_one_expert_at_a_time) {
    double many = least_evaluation("many");
    assert_no_more(many, least_evaluation("few"));
    GQUANT(0, EVALUATE("many", "all.base"));
    GQUANT(0, EVALUATE("many", "some.base"), "--memory", limit(many));
    assert_same("all.base", "some.base");
}

/* Blocks of experts that were rounded are read from the output again. */
TEST(a_calibrated_file_is_the_same_with_one_expert_at_a_time) {
    assert_no_more(LEAST(CALIBRATE("many", "x.gguf")), LEAST(CALIBRATE("few", "x.gguf")));
    double small = LEAST(CALIBRATE("small", "x.gguf"));
    GQUANT(0, CALIBRATE("small", "whole.gguf"));
    GQUANT(0, CALIBRATE("small", "parts.gguf"), "--memory", limit(small));
    assert_same("whole.gguf", "parts.gguf");
}

int main(void) { return tests_run(start, folder_remove); }
