/* gquant imatrix compute: what it prints, writes and refuses. */
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), 2, path("experts.gguf"));
    char text[400];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("text"), text, sizeof text);
    write_whole(path("short"), text, 10);
    write_whole(path("empty"), text, 0);
    write_whole(path("ids"), "1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1\n", 34);
    return 0;
}

#define COMPUTE "imatrix", "compute", "--threads", "1", "--context", "16", path("model.gguf")

TEST(layouts_follow_the_name) {
    char *out = PRINTED(COMPUTE, path("text"), path("a.gguf"));
    says(out, "14 entries from 25 windows of 16 tokens");
    free(out);
    out = PRINTED(COMPUTE, path("text"), path("a.DAT"));
    free(out);
    out = PRINTED("imatrix", "show", path("a.gguf"), path("model.gguf"));
    says(out, "GGUF layout, 14 entries, 25 chunks of 16 tokens\nfrom text\n");
    says(out, "14 of 16 weights have data");
    free(out);
    out = PRINTED("imatrix", "show", path("a.DAT"));
    says(out, ".dat layout, 14 entries, 25 chunks");
    free(out);
    /* It is of use. */
    GQUANT(0, "--imatrix", path("a.gguf"), path("model.gguf"), path("small.gguf"), "Q2_K_S", "-q");
}

TEST(a_dry_run_tells_what_it_takes) {
    char *out = PRINTED(COMPUTE, path("text"), path("text"), path("b.gguf"), "--dry-run", "--tokens", "750");
    says(out, "llama, 2 layers; 736 tokens in windows of 16, 46 windows at once");
    says(out, "memory: at most "), says(out, " MiB, with the hidden states of all tokens\n");
    says(out, "disk: 1."), says(out, " MB beside the output until it is done");
    free(out);
    assert_false(exists(path("b.gguf")));
}

/* A dry run shows the plan, and what the run will miss. */
TEST(a_missing_folder_is_warned_of) {
    char *err = gquant(0, (const char *const[]){COMPUTE, path("text"), path("no/d.gguf"), "--dry-run", NULL});
    says(err, "no/d.gguf does not exist yet");
    free(err);
    GQUANT_SAYS(1, "does not exist", COMPUTE, path("text"), path("no/d.gguf"));
    GQUANT_SAYS(0, "windows of one token", COMPUTE, "--context", "1", "--tokens", "4", path("text"),
                path("one.gguf"));
    unlink(path("one.gguf"));
    model_save(model_new("llama", 1), path("none.gguf"));
    char *said = PRINTED("verify", path("none.gguf"));
    says(said, "no tensors: a vocabulary only");
    free(said), unlink(path("none.gguf"));
    GQUANT_SAYS(0, "no/d.gguf does not exist yet", "--dry-run", path("model.gguf"), path("no/d.gguf"),
                "Q8_0");
    GQUANT_SAYS(1, "does not exist", path("model.gguf"), path("no/d.gguf"), "Q8_0");
    err = gquant(
        0, (const char *const[]){"--dry-run", "--out-dir", path("no"), path("model.gguf"), "Q8_0", NULL});
    assert_null(strstr(err, "does not exist")); /* the run makes it */
    free(err);
}

/* So that nobody wonders what keeps a dry run; those that measure nothing say nothing. */
TEST(dry_runs_say_that_they_measure) {
    enum { TOKENS = 4000 };
    static char many[8 * TOKENS];
    size_t n = 0;
    for (unsigned i = 0; i < TOKENS; i++) n += (size_t)sprintf(many + n, "%u ", i * i * 31 % 512);
    write_whole(path("many"), many, n);
    const char *const computes[] = {COMPUTE, "--ids", path("many"), path("many.gguf"), "--dry-run", NULL};
    const char *const evaluates[] = {"evaluate", path("model.gguf"), "--ids", path("many"), "--context",
                                     "16",       "--threads",        "1",     "--dry-run",  NULL};
    const char *const little[] = {COMPUTE, path("text"), path("many.gguf"), "--dry-run", NULL};
    const struct {
        const char *const *words, *says;
    } runs[] = {
        {computes, "estimating the time of the run, for about a second, up to a minute for large layers\n"},
        {evaluates,
         "estimating the time of the evaluation, for about a second, up to a minute for large layers\n"}};
    for (size_t i = 0; i < 2; i++) {
        char *err = gquant(0, runs[i].words);
        says(err, runs[i].says);
        free(err);
    }
    char *err = gquant(0, little);
    assert_null(strstr(err, "measuring"));
    free(err);
}

/* Data that gquant computes lack the embedding and the output, as they should. */
TEST(own_data_cause_no_warning) {
    free(PRINTED(COMPUTE, path("text"), path("own.gguf")));
    char *err = gquant(0, (const char *const[]){"--imatrix", path("own.gguf"), path("model.gguf"),
                                                path("own-Q4_0.gguf"), "Q4_0", NULL});
    assert_null(strstr(err, "warning"));
    free(err);
}

TEST(bf16_that_gains_nothing_is_told) {
    char *err = gquant(0, (const char *const[]){COMPUTE, path("text"), path("f32.gguf"), "-n", NULL});
    assert_null(strstr(err, "AMX"));
    free(err);
    err = gquant(0, (const char *const[]){COMPUTE, path("text"), path("b16.gguf"), "-n", "--arithmetic",
                                          "bf16", NULL});
    if (strcmp(gq_isa(), "amx") != 0)
        says(err, "warning: products in bf16 take no less time than in float32");
    free(err);
    err = gquant(0, (const char *const[]){"-n", "--calibrate-ids", path("ids"), "--context", "4",
                                          "--arithmetic", "bf16", path("model.gguf"), "Q8_0", NULL});
    if (strcmp(gq_isa(), "amx") != 0)
        says(err, "warning: products in bf16 take no less time than in float32");
    free(err);
}

/* What a part sees says little of all of them. */
TEST(little_text_is_told) {
    char *out = PRINTED(COMPUTE, path("text"), path("few.gguf"));
    says(out, "400 tokens are little text");
    free(out);
    out = PRINTED(COMPUTE, path("text"), path("few-2.gguf"), "--dry-run");
    says(out, "400 tokens are little text");
    free(out);
    size_t n = 10400;
    char *much = malloc(n);
    for (size_t i = 0; i < n; i++) much[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("much"), much, n);
    free(much);
    char *err;
    const char *part[] = {NULL,        COMPUTE,  path("much"), path("few-2.gguf"),
                          "--dry-run", "--part", "1/4",        NULL};
    assert_int_equal(run_command(part, &out, &err), 0);
    assert_null(strstr(out, "little text"));
    free(out), free(err);
}

TEST(parts_and_ids) {
    char *out = PRINTED(COMPUTE, "--ids", path("ids"), path("c.gguf"), "--process-output");
    says(out, "15 entries from 1 window of 16 tokens");
    free(out);
    out = PRINTED(COMPUTE, path("text"), path("part.gguf"), "--part", "2/3");
    says(out, "from 8 windows"), says(out, "part 2 of 3; 'gquant imatrix merge' adds the parts up");
    free(out);
}

TEST(experts_that_saw_little_are_listed) {
    char *out = PRINTED("imatrix", "compute", "--threads", "1", "--context", "16", path("experts.gguf"),
                        path("text"), path("e.gguf"), "--tokens", "32");
    says(out, "experts that few tokens reached"), says(out, "by fewer than 64");
    says(out, "\nblk.1.ffn_down_exps.weight "), says(out, "\nblk.1.ffn_gate_exps.weight ");
    assert_null(strstr(out, "blk.1.ffn_gate_inp.weight"));
    free(out);
    out = PRINTED(COMPUTE, path("text"), path("f.gguf"));
    assert_null(strstr(out, "experts"));
    free(out);
}

TEST(progress_is_told) {
    char *out, *err;
    const char *words[] = {NULL, COMPUTE, path("text"), path("p.gguf"), "--progress", "json", NULL};
    assert_int_equal(run_command(words, &out, &err), 0);
    says(err, "\"event\":\"start\""), says(err, "\"tensor\":\"embedding\""), says(err, "\"tokens\":400");
    says(err, "\"event\":\"done\"");
    free(out), free(err);
}

/* Where memory is short the message ends with a size that would do. */
TEST(enough_memory_is_named) {
    char *said, *at, enough[16];
    const char *words[] = {NULL, COMPUTE, path("text"), path("short.gguf"), "--memory", "1M", "-n", NULL};
    assert_int_equal(run_command(words, NULL, &said), 2);
    if (!(at = strstr(said, "; set --memory ")) || sscanf(at + 15, "%15[0-9GMi]\n", enough) != 1)
        fail_msg("%s", said);
    for (size_t i = 1; words[i]; i++)
        if (!strcmp(words[i], "1M")) words[i] = enough;
    free(said), free(printed(words));
}

TEST(wrong_requests_are_refused) {
    GQUANT_SAYS(2, "a text is missing", COMPUTE, path("d.gguf"));
    GQUANT_SAYS(2, "takes the place of texts", COMPUTE, path("text"), path("d.gguf"), "--ids", path("ids"));
    GQUANT_SAYS(2, "--context works only with imatrix compute", "imatrix", "merge", "--context", "5",
                path("x"), path("y"));
    GQUANT_SAYS(1, "empty: is empty", COMPUTE, path("empty"), path("d.gguf"));
    GQUANT_SAYS(1, "fewer than one window of 16", COMPUTE, path("short"), path("d.gguf"));
    GQUANT_SAYS(2, "977 KiB of memory is not enough", COMPUTE, path("text"), path("d.gguf"), "--memory",
                "1M");
    GQUANT_SAYS(1, "is one of the inputs", COMPUTE, path("text"), path("text"));
    GQUANT_SAYS(1, "text: ", "imatrix", "compute", path("text"), path("text"), path("d.gguf"));
    assert_false(exists(path("d.gguf")) || exists(path(".d.gguf.gquant-states")));
}

int main(void) { return tests_run(start, folder_remove); }
