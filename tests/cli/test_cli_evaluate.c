/* gquant evaluate: what it prints and writes, what it asks for, and --evaluate behind a run. */
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

FIXTURE(make_models) {
    folder = temporary_folder();
    model_save(evaluation_model(1), path("model.gguf"));
    quantize(path("model.gguf"), path("q2.gguf"), "Q2_K", 1);
    quantize(path("model.gguf"), path("q4.gguf"), "Q4_K_S", 1);
    quantize(path("model.gguf"), path("q8.gguf"), "Q8_0", 1);
    char text[300];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("text"), text, sizeof text);
    char longer[2 * sizeof text];
    memcpy(longer, text, sizeof text), memcpy(longer + sizeof text, text, sizeof text);
    write_whole(path("long"), longer, sizeof longer);
    return 0;
}

/* Where a word stands behind `from`. */
static size_t place(const char *text, const char *word, size_t from) {
    says(text + from, word);
    return (size_t)(strstr(text + from, word) - text);
}

TEST(tables_tell_which_is_better) {
    char *out = PRINTED("evaluate", path("model.gguf"), path("q2.gguf"), path("q8.gguf"), path("q4.gguf"),
                        "--text", path("text"), "--context", "16");
    says(out, "perplexity"), says(out, "divergence"), says(out, "99.9 %"), says(out, "Q4_K");
    says(out, "288 tokens in windows of 16, 126 of them scored");
    /* By divergence, whatever order they were named in. */
    size_t from = place(out, "nearer to the base model", 0), q8 = place(out, "q8.gguf", from);
    assert_true(q8 < place(out, "q4.gguf", from) &&
                place(out, "q4.gguf", from) < place(out, "q2.gguf", from));
    place(out, "certain", from);
    /* One, of the copies that were run, with as much certainty as the text gives. */
    size_t advice = place(out, "Recommended, as far as so few tokens show: ", from);
    assert_null(strstr(out + advice + 1, "Recommended"));
    if (!strstr(out + advice, "q8.gguf, ") && !strstr(out + advice, "q8.gguf has"))
        fail_msg("%s", out + advice);
    says(out + advice, "nats, but up to "), says(out + advice, " % of changed top-1 tokens)");
    free(out);
    out = PRINTED("evaluate", path("model.gguf"), path("q8.gguf"), "--text", path("text"), "--context", "16");
    says(out, "the same top-1 token in");
    free(out);
    out =
        PRINTED("evaluate", path("model.gguf"), "--text", path("text"), "--context", "16", "--tokens", "40");
    says(out, "32 tokens in windows of 16, 14 of them scored");
    assert_null(strstr(out, "divergence")), assert_null(strstr(out, "Recommended"));
    free(out);
}

TEST(a_plan_says_what_it_takes) {
    char *out = PRINTED("evaluate", "--dry-run", path("model.gguf"), path("q2.gguf"), "--text", path("text"),
                        "--context", "16", "--logits", path("none"));
    says(out, "288 tokens in 18 windows of 16, 126 of them scored\nat most ");
    says(out, "are in memory, ");
    free(out);
    assert_false(exists(path("none")));
    out = OUTPUT(0, "evaluate", "-n", path("model.gguf"), "--text", path("text"), "--context", "16",
                 "--memory", "1K");
    says(out, "are in a file, ");
    free(out);
    GQUANT_SAYS(0,
                "warning: 1000 bytes of memory is not enough, and is exceeded: a layer and a window of 16 "
                "tokens take ",
                "evaluate", "-n", path("model.gguf"), "--text", path("text"), "--context", "16", "--memory",
                "1K");
    GQUANT_SAYS(0, "warning: 977 KiB of memory is not enough", "evaluate", path("model.gguf"),
                path("q2.gguf"), "--text", path("text"), "--context", "16", "--memory", "1M");
    free(
        PRINTED("evaluate", path("model.gguf"), "--text", path("text"), "--context", "16", "--memory", "1G"));
    GQUANT_SAYS(1, "fewer than one window of 512", "evaluate", "-n", path("model.gguf"), "--text",
                path("text"));
}

/* Returns the bytes of disk space in the line of what a run takes. */
static double disk_of(const char *printed, const char *begins) {
    double size = -1;
    char unit[4] = "";
    const char *line = strstr(printed, begins), *disk = line ? strstr(line, "; disk: ") : NULL;
    if (!disk || sscanf(disk, "; disk: %lf %2[A-Za-z]", &size, unit) < 1) fail_msg("%s", printed);
    return size * (*unit == 'k' ? 1e3 : *unit == 'M' ? 1e6 : 1);
}

/* What a run takes has its evaluation, and no disk space for files that are there and stay. */
TEST(a_run_says_what_it_takes_with_its_evaluation) {
    const char *out = path("needs.gguf"), *m = path("model.gguf");
    char *plain = PRINTED("--dry-run", m, out, "Q8_0"),
         *with = PRINTED("--dry-run", m, out, "Q8_0", "--evaluate", path("text"), "--context", "16",
                         "--memory", "1K");
    double quant = disk_of(plain, "\ntime: about "), both = disk_of(with, "\nwith --evaluate: time: about ");
    if (!(both > quant + 288 * 4 * 32)) fail_msg("%g bytes, with hidden states %g", quant, both);
    free(plain), free(with);
    GQUANT(0, "-q", m, out, "Q8_0");
    plain = PRINTED("--dry-run", m, out, "Q8_0"), with = PRINTED("--dry-run", "--force", m, out, "Q8_0");
    assert_true(disk_of(plain, "\ntime: about ") == 0);
    assert_true(disk_of(with, "\ntime: about ") == quant);
    free(plain), free(with);
}

/* Errors of few places are not known well themselves. */
/* A run that is stopped says how it goes on: from the beginning, or by a line to paste that keeps what is done. */
TEST(a_stopped_evaluation_says_how_it_goes_on) {
    enum { LONG = 400000 };
    char *text = malloc(LONG), *script, *said, *rest;
    for (size_t i = 0; i < LONG; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("very-long"), text, LONG);
    assert_true(
        asprintf(&script,
                 "'%s' evaluate model.gguf q4.gguf --text very-long --context 16 --log-file log %%s & "
                 "until grep -q '\"progress\"' log; do sleep .02; done; kill -TERM $!; wait $!",
                 command_path()) > 0);
    for (int keeps = 0; keeps < 2; keeps++) {
        char *line;
        assert_true(asprintf(&line, "cd '%s'; rm -f log; %s", folder, script) > 0);
        char *at = strstr(line, "%s"), *whole;
        assert_true(asprintf(&whole, "%.*s%s%s", (int)(at - line), line,
                             keeps ? "--scores-file 'my scores'" : "", at + 2) > 0);
        assert_int_equal(run_command((const char *const[]){"sh", "-c", whole, NULL}, NULL, &said), 143);
        if (keeps) says(said, "the same command continues after the last finished layer");
        rest = strstr(said, "gquant evaluate model.gguf q4.gguf --text very-long --context 16 --log-file log "
                            "--scores-file evaluation.scores\n");
        assert_true((rest == NULL) == keeps);
        free(line), free(whole), free(said);
    }
    free(text), free(script);
}

TEST(few_places_are_told) {
    char *out =
        PRINTED("evaluate", path("model.gguf"), path("q2.gguf"), "--text", path("text"), "--context", "16");
    says(out, "126 of them scored"), says(out, "fewer than 1000 tokens are scored");
    free(out);
    out = PRINTED("evaluate", path("model.gguf"), "--text", path("text"), "--context", "16", "--json");
    says(out, "fewer than 1000 tokens are scored");
    free(out);
    out = PRINTED("evaluate", "-n", path("model.gguf"), "--text", path("text"), "--context", "16");
    says(out, "fewer than 1000 tokens are scored");
    free(out);
    char *much = calloc(2500, 1);
    for (size_t i = 0; i < 2500; i++) much[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("much"), much, 2500);
    free(much);
    out = PRINTED("evaluate", "-n", path("model.gguf"), "--text", path("much"), "--context", "16");
    assert_null(strstr(out, "fewer than"));
    free(out);
}

static const json *evaluation_of(const json *report) {
    assert_string_equal(json_need(report, "kind")->text, "evaluation");
    return json_need(report, "evaluation");
}

TEST(reports_hold_all_figures) {
    char *out = PRINTED("evaluate", path("model.gguf"), path("q2.gguf"), path("q8.gguf"), "--text",
                        path("text"), "--context", "16", "--json", "--report", path("r.json"));
    char *file = (char *)read_whole(path("r.json"), NULL);
    assert_string_equal(file, out);
    json *report = json_parse(out);
    const json *v = evaluation_of(report), *models = json_need(v, "models");
    assert_int_equal(models->n, 3);
    assert_int_equal((int)json_need(v, "scored")->number, 126);
    const json *q2 = &models->items[1], *pair = &json_need(v, "differences")->items[0];
    assert_string_equal(json_need(q2, "path")->text, "q2.gguf");
    assert_true(json_need(q2, "kld")->number > 0 && json_need(q2, "divergence")->number > 0);
    assert_true(json_need(q2, "divergence_max")->number >= json_need(q2, "divergence_99_9")->number);
    assert_string_equal(json_need(pair, "sure")->text, "certain");
    json_free(report), free(out), free(file);
    GQUANT(0, "evaluate", path("model.gguf"), path("q2.gguf"), "--text", path("text"), "--context", "16",
           "-q", "--report", path("r.csv"));
    file = (char *)read_whole(path("r.csv"), NULL);
    says(file, "model,file_type,file_bytes"), says(file, "\r\n\"q2.gguf\",Q2_K,");
    free(file);
}

/* The same tokens by their ids. */
TEST(ids_stand_for_a_text) {
    char line[4096];
    snprintf(line, sizeof line, "'%s' tokenize '%s' '%s' > '%s'", command_path(), path("model.gguf"),
             path("text"), path("ids"));
    assert_int_equal(run_command((const char *const[]){"sh", "-c", line, NULL}, NULL, NULL), 0);
    GQUANT(0, "-q", "evaluate", path("model.gguf"), "--text", path("text"), "--context", "300", "--logits",
           path("a"));
    GQUANT(0, "-q", "evaluate", path("model.gguf"), "--ids", path("ids"), "--context", "300", "--logits",
           path("b"));
    assert_same_file(path("a"), path("b"));
}

/* A base file has the place of the original and of the text. */
TEST(a_base_stands_for_original_and_text) {
    const char *m = path("model.gguf"), *t = path("text"), *base = path("base");
    GQUANT(0, "-q", "evaluate", m, "--text", t, "--context", "16", "--base-out", base);
    GQUANT_SAYS(1, "already exists", "evaluate", m, "--text", t, "--context", "16", "--base-out", base);
    char *same = PRINTED("evaluate", "--base", base, m),
         *plan = PRINTED("evaluate", "--base", base, m, "--tokens", "16", "--dry-run");
    assert_non_null(strstr(same, "100.00 %"));
    assert_non_null(strstr(plan, "16 tokens in 1 window of 16"));
    free(same), free(plan);
    GQUANT_SAYS(2, "a base model, not a base file", "evaluate", "--base", base, base, "--prompts", "3");
    GQUANT_SAYS(2, "expected a name that ends in", "evaluate", "--base", base, m, "--report", path("report"));
    GQUANT_SAYS(2, "this run reads or writes", "evaluate", "--base", base, m, "--report", base);
    GQUANT_SAYS(2, "--base and --text cannot be combined", "evaluate", "--base", base, m, "--text", t);
    GQUANT_SAYS(2, "--base and --base-out cannot be combined", "evaluate", "--base", base, m, "--base-out",
                path("b"));
    GQUANT_SAYS(2, "this run reads or writes the same file", "evaluate", m, "--text", t, "--base-out", m);
    GQUANT_SAYS(1, "not a file of log-probabilities", "evaluate", "--base", t, m);
}

TEST(what_cannot_be_done_is_said) {
    const char *m = path("model.gguf"), *t = path("text");
    GQUANT_SAYS(2, "--text", "evaluate", m);
    GQUANT_SAYS(2, "two texts", "evaluate", m, "--text", t, "--ids", t);
    GQUANT_SAYS(2, "--context 0", "evaluate", m, "--text", t, "--context", "0");
    GQUANT_SAYS(1, "absent", "evaluate", m, "--text", path("absent"));
    GQUANT_SAYS(1, "fewer than one window of 512", "evaluate", m, "--text", t);
    GQUANT_SAYS(1, "expected a token id", "evaluate", m, "--ids", t);
    GQUANT_SAYS(2, "this run reads or writes the same file", "evaluate", m, "--text", t, "--logits", m);
    GQUANT_SAYS(2, "this run reads or writes the same file", "evaluate", m, "--text", t, "--logits", t);
    write_whole(path("mine"), "mine", 4);
    GQUANT_SAYS(1, "already exists", "evaluate", m, "--text", t, "--context", "16", "--logits", path("mine"));
}

TEST(a_part_is_not_evaluated) {
    char *m = strdup(path("model.gguf")), *out = strdup(path("in-parts.gguf"));
    GQUANT_SAYS(0, "--evaluate has no effect with --part", "--evaluate", path("long"), "--part", "1/2", m,
                out, "Q4_K_M");
    GQUANT(0, "-q", "--part", "2/2", m, out, "Q4_K_M");
    char *text =
        PRINTED("-q", "--join", "--evaluate", path("long"), "--report", path("parts.json"), m, out, "Q4_K_M");
    json *j = json_file(path("parts.json"));
    assert_non_null(json_need(j, "evaluation"));
    json_free(j);
    free(text), free(m), free(out);
    assert_int_equal(remove(path("parts.json")), 0);
    assert_int_equal(remove(path("in-parts.gguf")), 0);
}

TEST(a_run_is_evaluated) {
    char *out, *err;
    assert_int_equal(
        run_command((const char *const[]){NULL, "--evaluate", path("long"), "--report", path("run.json"),
                                          path("model.gguf"), path("made.gguf"), "Q4_K_M", NULL},
                    &out, &err),
        0);
    says(out, "the same top-1 token in");
    free(out), free(err);
    char *file = (char *)read_whole(path("run.json"), NULL);
    json *report = json_parse(file);
    assert_string_equal(json_need(report, "kind")->text, "run");
    const json *models = json_need(json_need(report, "evaluation"), "models");
    assert_string_equal(json_need(&models->items[1], "path")->text, "made.gguf");
    json_free(report), free(file);
    /* What cannot be evaluated is told before the work. */
    GQUANT_SAYS(1, "fewer than one window of 512", "--evaluate", path("text"), path("model.gguf"),
                path("not.gguf"), "Q8_0");
    assert_false(exists(path("not.gguf")));
}

/* Nothing is written, and with a target nothing is measured. */
TEST(what_cannot_be_evaluated_is_refused_before_the_work) {
    const char *m = path("model.gguf"), *t = path("long"), *out = path("not.gguf");
    size_t files = count_files(folder);
    GQUANT_SAYS(1, "stored transposed", "--evaluate", t, "--transpose", "ffn_up", m, out, "Q8_0");
    GQUANT_SAYS(1, "stored transposed", "--evaluate", t, "--transpose", "ffn_up", "--target-bpw", "5", m,
                out);
    GQUANT_SAYS(1, "stored transposed", "--evaluate", t, "--transpose", "ffn_up", "--split-max-size", "200K",
                m, out, "Q8_0");
    GQUANT_SAYS(1, "attn_q.weight has shape", "--evaluate", t, "--override-kv",
                "llama.attention.head_count=int:7", m, out, "Q8_0");
    GQUANT_SAYS(1, "architecture", "--evaluate", t, "--override-kv",
                "general.architecture=str:wavtokenizer-dec", m, out, "Q8_0");
    GQUANT_SAYS(1, "cannot be evaluated", "--dry-run", "--evaluate", t, "--transpose", "ffn_up", m, out,
                "Q8_0");
    GQUANT_SAYS(1, "cannot be evaluated", "--evaluate", t, "--transpose", "ffn_up", m, "--out-dir", folder,
                "Q8_0", "Q4_K_M");
    assert_int_equal(count_files(folder), files);
    /* What does no harm goes on: layers fewer, shards. */
    GQUANT(0, "-q", "--evaluate", t, "--override-kv", "general.name=str:x", "--split-max-size", "200K", m,
           path("shards.gguf"), "Q8_0");
}

/* States go to a file in the current folder, which is gone. */
TEST(a_failed_evaluation_costs_no_report) {
    char line[4096], *err;
    if (command_stands_in()) skip(); /* on Windows a folder that is somebody's current one stays */
    snprintf(line, sizeof line,
             "mkdir '%s' && cd '%s' && rmdir '%s' && exec '%s' --evaluate '%s' --memory 1K --report '%s' "
             "'%s' '%s' Q4_K_M",
             path("gone"), path("gone"), path("gone"), command_path(), path("long"), path("lost.json"),
             path("model.gguf"), path("lost.gguf"));
    int status = run_command((const char *const[]){"sh", "-c", line, NULL}, NULL, &err);
    if (status != 1) fail_msg("%d: %s", status, err);
    says(err, "only its evaluation is missing");
    free(err);
    assert_true(exists(path("lost.gguf")));
    json *report = json_file(path("lost.json"));
    assert_string_equal(json_need(report, "kind")->text, "run");
    assert_null(json_get(report, "evaluation"));
    json_free(report);
}

int main(void) { return tests_run(make_models, folder_remove); }
