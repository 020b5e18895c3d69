/* --calibrate: what is said before the work, and what is refused. */
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

FIXTURE(start) {
    folder = temporary_folder();
    model_save(evaluation_model(1), path("model.gguf"));
    char text[1600];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("text"), text, sizeof text);
    write_whole(path("short"), text, 10);
    write_whole(path("ids"), "1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1\n", 34);
    write_whole(path("wrong"), "1 2 three\n", 10);
    write_whole(path("large"), "1 2 512 4 5 6 7 8 9 10 11 12 13 14 15 16\n", 41);
    return 0;
}

#define QUANTIZE "--threads", "1", "--context", "16", path("model.gguf"), path("out.gguf"), "Q4_K_M"

/* Standard output of a dry run. */
static char *planned(const char *const *words) {
    char *out, *err;
    const char *argv[24] = {NULL, "--dry-run", QUANTIZE};
    for (size_t n = 9, i = 0; words[i]; i++) argv[n++] = words[i];
    if (run_command(argv, &out, &err) != 0) fail_msg("%s", err);
    free(err);
    return out;
}
#define PLANNED(...) planned((const char *const[]){__VA_ARGS__, NULL})

TEST(a_dry_run_tells_what_it_takes) {
    char *out = PLANNED("--calibrate", path("text"));
    says(out, "calibrated on text: 1600 tokens in windows of 16, 12 of 100 windows held out to check; 3.12 "
              "tokens per column, or more\n");
    says(out, "\nmemory: at most "), says(out, " MiB, with the hidden states of all tokens\n");
    says(out, "\ndisk: 8."), says(out, " MB beside the output until it is done\ncached activations: ");
    says(out, " on disk, of these\nsteps: damping, sweeps, "
              "state, embedding, router, rows, random, balance, trials, validation\ntime: about ");
    assert_null(strstr(out, "rounded together"));
    free(out);
    out = PLANNED("--calibrate-ids", path("ids"));
    says(out, "calibrated on ids: 16 tokens");
    free(out);
    static const char *const steps[][2] = {
        {"damping", "damping"},
        {"-damping", "sweeps, state, embedding, router, rows, random, balance, trials, validation"},
        {"none", "none"},
        {"none,+sweeps,damping", "damping, sweeps"},
        {"all,-sweeps", "damping, state, embedding, router, rows, random, balance, trials, validation"},
        {"+default,-all", "none"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char told[96];
        out = PLANNED("--calibrate-ids", path("ids"), "--calibrate-steps", steps[i][0]);
        snprintf(told, sizeof told, "\nsteps: %s\n", steps[i][1]);
        says(out, told);
        free(out);
    }
    out = PLANNED("--calibrate", "@random", "--calibrate-tokens", "4000");
    says(out, "calibrated on tokens drawn at random: 4000 tokens in windows of 16");
    free(out);
    assert_int_equal(count_files(folder), 6);
    if (SANITIZED) return; /* these take memory of their own */
    out = PLANNED("--calibrate", path("text"), "--memory", "80M");
    says(out, "columns rounded together: 256 of 512");
    free(out);
}

/* Of a mixture, whose routers are fitted and keep their type, the time is told, too. */
TEST(the_time_of_a_mixture_is_told) {
    model_save(expert_model(), path("experts.gguf"));
    char *out, *err;
    const char *words[] = {NULL,
                           "--dry-run",
                           "--context",
                           "16",
                           "--calibrate",
                           "@random",
                           "--calibrate-tokens",
                           "8000",
                           path("experts.gguf"),
                           path("experts-out.gguf"),
                           "Q4_0",
                           NULL};
    int status = run_command(words, &out, &err);
    unlink(path("experts.gguf"));
    assert_int_equal(status, 0);
    says(out, "\ntime: about ");
    free(out), free(err);
}

TEST(plans_are_reported) {
    json *j = PLAN(folder, "--calibrate", path("text"), "--context", "16", "--correction", "0.5", "--damp",
                   ".02", "--shrink", "0", "--arithmetic", "bf16", path("model.gguf"), "Q2_K_S");
    const json *c = json_need(j, "calibration");
    assert_string_equal(json_text(c, "text", ""), "text");
    assert_int_equal(json_number(c, "tokens", 0), 1600), assert_int_equal(json_number(c, "held_back", 0), 12);
    assert_int_equal(json_number(c, "width", 0), 512), assert_int_equal(json_number(c, "columns", 0), 512);
    assert_true(json_number(c, "memory_bytes", 0) > 1e6 && json_number(c, "gflop", 0) > .1);
    assert_int_equal(json_need(report_tensor(j, "blk.0.attn_q.weight"), "calibrated")->kind, KIND_BOOL);
    assert_string_equal(report_type(j, "blk.0.attn_q.weight"), "Q2_K");
    assert_string_equal(json_text(c, "arithmetic", ""), "bf16");
    assert_string_equal(
        json_text(c, "steps", ""),
        "damping, sweeps, state, embedding, router, rows, random, balance, trials, validation");
    json_free(j);
}

/* What the run found is on the screen, in its reports and events. */
TEST(what_came_of_it_is_reported) {
    char *out, *err;
    const char *words[] = {NULL,  QUANTIZE,     "--calibrate", path("text"), "--calibrate-tokens",
                           "800", "--progress", "json",        "--report",   path("r.json"),
                           "-v",  NULL};
    if (run_command(words, &out, &err) != 0) fail_msg("%s", err);
    says(out, "outputs on held-out tokens: relative error 0."), says(out, " plain  calibrated\n");
    says(err, "calibrated on text: 800 tokens");
    const char *start = strstr(err, "{\"event\":\"start\",\"phase\":\"calibrate\""),
               *end = strstr(err, "{\"event\":\"done\",\"phase\":\"calibrate\""),
               *next = strstr(err, "{\"event\":\"start\",\"phase\":\"quantize\"");
    assert_true(start && end > start && next > end && strstr(start, "layer 1 of 1") < end);
    assert_true(strstr(err, "\"event\":\"tensor_done\"") > next);
    free(out), free(err);
    json *j = json_file(path("r.json"));
    const json *o = &json_need(j, "outputs")->items[0], *t = report_tensor(j, "blk.0.ffn_down.weight"),
               *r = json_need(t, "rounding");
    double written = json_number(t, "output_error", 9), plain_error = json_number(t, "plain_output_error", 0);
    assert_true(written > 0 && written <= plain_error);
    assert_true(json_number(o, "output_error", 9) < json_number(o, "plain_output_error", 0));
    assert_int_equal(json_number(r, "matrices", 0), 1), assert_int_equal(json_number(r, "tokens", 0), 896);
    assert_int_equal(json_number(r, "codes", 0), 256 * 512),
        assert_int_equal(json_number(r, "width", 0), 512);
    assert_int_equal(json_number(o, "matrices_calibrated", 0) + json_number(o, "matrices_plain", 0), 8);
    const json *step = &json_need(o, "steps")->items[0];
    assert_string_equal(json_text(step, "name", ""), "damping");
    assert_int_equal(json_number(step, "matrices", 0), 8);
    assert_int_equal(json_number(step, "kept", 9), json_number(o, "matrices_calibrated", 0));
    assert_string_equal(json_need(r, "steps")->items[0].text, "damping");
    json_free(j);
    assert_int_equal(remove(path("r.json")), 0), assert_int_equal(remove(path("out.gguf")), 0);
    GQUANT(0, "-q", QUANTIZE, "--calibrate", path("text"), "--report", path("r.csv"));
    char *rows = (char *)read_whole(path("r.csv"), NULL);
    says(rows, ",weighted_error,output_error,searched_output_error,matrices_plain,crc32,");
    free(rows);
    assert_int_equal(remove(path("r.csv")), 0), assert_int_equal(remove(path("out.gguf")), 0);
}

#define REFUSED(status, mention, ...) GQUANT_SAYS(status, mention, QUANTIZE, __VA_ARGS__)

TEST(wrong_requests_are_refused) {
    const char *text = path("text");
    REFUSED(2, "--imatrix and --calibrate cannot be combined", "--calibrate", text, "--imatrix", text);
    REFUSED(2, "--imatrix and --calibrate-ids cannot be combined", "--calibrate-ids", text, "--imatrix",
            text);
    REFUSED(2, "two texts", "--calibrate", text, "--calibrate-ids", text);
    REFUSED(2, "--part and --calibrate", "--calibrate", text, "--part", "1/2");
    REFUSED(2, "--join and --calibrate", "--calibrate", text, "--join");
    REFUSED(2, "--damp works only with --calibrate", "--damp", "0.1", "--evaluate", text);
    REFUSED(2, "--arithmetic works only with --calibrate", "--arithmetic", "bf16");
    REFUSED(2, "--calibrate-tokens works only with --calibrate", "--calibrate-tokens", "10");
    REFUSED(2, "--context works only with --calibrate or --evaluate", "-q");
    REFUSED(2, "--shrink 1.1: expected a number from 0 to 1", "--calibrate", text, "--shrink", "1.1");
    REFUSED(2, "--correction nan: expected", "--calibrate", text, "--correction", "nan");
    REFUSED(2, "--correction : expected", "--calibrate", text, "--correction", "");
    REFUSED(2,
            "unknown calibration step 'sweep'; expected damping, sweeps, state, embedding, router, "
            "rows, random, balance, trials, validation, or all, none",
            "--calibrate", text, "--calibrate-steps", "damping,sweep");
    REFUSED(2, "unknown calibration step ''", "--calibrate", text, "--calibrate-steps", "-damping,");
    REFUSED(2, "--calibrate-steps works only with --calibrate", "--calibrate-steps", "all");
    REFUSED(2, "977 KiB of memory is not enough", "--calibrate", text, "--memory", "1M");
    REFUSED(2, "is both the output and the file of an option", "--calibrate", path("out.gguf"));
    REFUSED(1, "absent", "--calibrate", path("absent"));
    REFUSED(1, "fewer than one window of 16", "--calibrate", path("short"));
    REFUSED(1, "found 'three', expected a token id", "--calibrate-ids", path("wrong"));
    REFUSED(1, "token 3 is 512, but the model has 512", "--calibrate-ids", path("large"));
    REFUSED(2, "fewer than one window", "--calibrate", "@random", "--calibrate-tokens", "8");
    assert_int_equal(count_files(folder), 6);
}

/* What is worth knowing before the work. */
TEST(little_text_is_warned_of) {
    GQUANT_SAYS(0, "are few to calibrate with: 0.03", "--dry-run", QUANTIZE, "--calibrate-ids", path("ids"));
    GQUANT_SAYS(0, "a file may be worse than without", "--dry-run", QUANTIZE, "--calibrate-ids", path("ids"));
    GQUANT_SAYS(0, "the text has one window, so none is held out", "--dry-run", QUANTIZE, "--calibrate-ids",
                path("ids"));
    if (SANITIZED) return;
    GQUANT_SAYS(0, "--evaluate has the text of --calibrate", "--dry-run", QUANTIZE, "--calibrate",
                path("text"), "--evaluate", path("text"));
    GQUANT_SAYS(0, "the widest matrices have 512 columns, of which only 256", "--dry-run", QUANTIZE,
                "--calibrate", path("text"), "--memory", "80M");
}

TEST(trials_are_told) {
    char *out, *err;
    const char *argv[] = {
        NULL,        "--dry-run",        "--context",      "16", "--target-bpw", "6", "--calibrate-ids",
        path("ids"), path("model.gguf"), path("out.gguf"), NULL};
    if (run_command(argv, &out, &err) != 0) fail_msg("%s", err);
    says(out, "types chosen after trials in 1 of 1 layers\n");
    free(out), free(err);
    json *j = PLAN(folder, "--calibrate-ids", path("ids"), "--context", "16", "--target-bpw", "6",
                   path("model.gguf"), path("out.gguf"));
    assert_int_equal(json_number(json_need(j, "calibration"), "trial_layers", 9), 1);
    json_free(j);
}

/* Tokens that are chosen for a third of the time that 262,144 are said to take. */
static double tokens_of_a_third(void) {
    char third[32], unit[16];
    double n = 0, tokens = 0;
    char *out = PLANNED("--calibrate", "@random", "--calibrate-tokens", "262144");
    const char *time = strstr(out, "\ntime: about ");
    assert_true(time && sscanf(time, "\ntime: about %lf %15s", &n, unit) == 2);
    free(out);
    snprintf(third, sizeof third, "%.3f%c", n / 3, *unit);
    out = PLANNED("--calibrate", "@random", "--calibrate-time", third);
    const char *chosen = strstr(out, "the same file: --calibrate-tokens ");
    assert_true(chosen && sscanf(chosen, "the same file: --calibrate-tokens %lf", &tokens) == 1);
    free(out);
    return tokens;
}

/* The best that the time allows, which does not depend on anything else: the file is that of what is told. */
TEST(the_time_decides) {
    const char *text = path("text");
    static const char *const wrong[] = {"5",   "0s", "1m2h", "1h1h", "1e3s", "-1h",
                                        "2 h", "x",  "h",    "0x1h", "1h30"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        REFUSED(2, "expected a time such as 2h", "--calibrate", text, "--calibrate-time", wrong[i]);
    REFUSED(2, "--calibrate-time works only with --calibrate", "--calibrate-time", "1h");
    REFUSED(2, "calibration steps and a calibration time cannot be combined", "--calibrate", text,
            "--calibrate-time", "1h", "--calibrate-steps", "-trials");
    REFUSED(2, " seconds on this machine, and 0.0 are given", "--calibrate", text, "--calibrate-time",
            "0.01s");
    char *out = PLANNED("--calibrate", text, "--calibrate-time", "1h30m");
    says(out, "chosen by the time given; the same file: --calibrate-tokens 1600\n");
    free(out);
    GQUANT_SAYS(0, "1600 tokens", QUANTIZE, "--calibrate", text, "--calibrate-time", "1.5d");
    assert_int_equal(rename(path("out.gguf"), path("timed.gguf")), 0);
    GQUANT_SAYS(0, "1600 tokens", QUANTIZE, "--calibrate", text, "--calibrate-tokens", "1600");
    assert_same_file(path("out.gguf"), path("timed.gguf"));
    unlink(path("out.gguf")), unlink(path("timed.gguf"));

    /* Both times are measured, and other work may begin between them. */
    double tokens = 0;
    for (int i = 0; i < 10 && !(tokens >= 2048 && tokens <= 131072); i++) tokens = tokens_of_a_third();
    assert_true(tokens >= 2048 && tokens <= 131072);
}

int main(void) { return tests_run(start, folder_remove); }
