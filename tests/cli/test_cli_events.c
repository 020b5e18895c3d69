/* --progress json: what a program that starts the command can follow. */
#include "tests/support/evaluation_model.h"
#include "tests/support/one_model.h"

/* The events that a shell line leaves in a file: each line one object; malloc'ed, ended by an empty one. */
static json **events_of(const char *line) {
    const char *file = in_folder(folder, "events");
    char *script;
    assert_true(asprintf(&script, "%s 3>%s", line, file) > 0);
    run_command((const char *const[]){"sh", "-c", script, NULL}, NULL, NULL);
    char *text = (char *)read_whole(file, NULL);
    json **events = calloc(strlen(text) + 1, sizeof *events);
    size_t n = 0;
    for (char *rest = text, *event; (event = strsep(&rest, "\n"));)
        if (*event) events[n++] = json_parse(event);
    free(text), free(script);
    unlink(file);
    return events;
}

static void free_events(json **events) {
    for (size_t i = 0; events[i]; i++) json_free(events[i]);
    free(events);
}

static bool is(const json *event, const char *name, const char *phase) {
    return !strcmp(json_text(event, "event", ""), name) && !strcmp(json_text(event, "phase", ""), phase);
}

static size_t count(json *const *events, const char *name, const char *phase) {
    size_t n = 0;
    for (size_t i = 0; events[i]; i++) n += is(events[i], name, phase);
    return n;
}

TEST(test_a_run) {
    char *line;
    const char *report = in_folder(folder, "r.json");
    assert_true(asprintf(&line, "%s -q -r %s --progress json:3 --out-dir %s %s Q4_0 Q8_0", command_path(),
                         report, folder, source) > 0);
    json **events = events_of(line), *run = json_file(report);
    const json *tensors = json_need(&json_need(run, "outputs")->items[0], "tensors");
    assert_true(is(events[0], "start", "plan") && is(events[1], "done", "plan"));
    assert_true(is(events[2], "start", "quantize"));
    assert_string_equal(json_text(events[2], "input", ""), source);
    assert_int_equal(count(events, "output", "quantize"), 2);
    assert_string_equal(json_text(events[4], "file_type", ""), "Q8_0");
    assert_int_equal(count(events, "tensor_done", "quantize"), 2 * tensors->n);
    assert_int_equal(count(events, "done", "quantize"), 1);
    double done = -1, total = 0, share = -1;
    size_t seen = 0, last = 0;
    for (size_t i = 0; events[i]; last = i++) {
        if (is(events[i], "progress", "quantize")) {
            assert_true(json_number(events[i], "share", -1) > share);
            share = json_number(events[i], "share", -1);
            done = json_number(events[i], "bytes_done", -1),
            total = json_number(events[i], "bytes_total", -2);
            assert_true(share == 1 || *json_text(events[i], "tensor", ""));
        }
        if (!is(events[i], "tensor_done", "quantize") || json_number(events[i], "output", 1) != 0) continue;
        const json *t = &tensors->items[seen++]; /* as the report says */
        assert_string_equal(json_text(events[i], "tensor", ""), json_text(t, "name", "-"));
        assert_string_equal(json_text(events[i], "to", ""), json_text(t, "to", "-"));
        assert_true(json_number(events[i], "relative_error", -1) == json_number(t, "relative_error", -1));
    }
    assert_true(done == total && share == 1); /* the last state is told whenever it comes */
    assert_true(is(events[last], "done", "quantize"));
    json_free(run), free_events(events), free(line);
    unlink(in_folder(folder, "model-Q4_0.gguf")), unlink(in_folder(folder, "model-Q8_0.gguf")),
        unlink(report);
}

TEST(test_other_commands) {
    static const char *const phases[] = {"verify", "compare"};
    for (size_t i = 0; i < 2; i++) {
        char *line;
        assert_true(asprintf(&line, "%s %s --progress json:3 %s %s", command_path(), phases[i], source,
                             i ? source : "") > 0);
        json **events = events_of(line);
        assert_int_equal(count(events, "start", phases[i]), 1);
        assert_true(count(events, "progress", phases[i]) >= 1);
        assert_int_equal(count(events, "done", phases[i]), 1);
        free_events(events), free(line);
    }
}

/* The start names the model as given, whatever words stand before it. */
TEST(test_start_names_the_model) {
    static const struct {
        const char *words, *rest, *phase;
    } jobs[] = {{"", "out.gguf Q8_0", "plan"},
                {"", "out.gguf Q8_0", "plan"}, /* which is there: no failure */
                {"imatrix compute --context 16", "text out.dat", "importance"},
                {"evaluate --context 16 --text text", "", "evaluate"},
                {"evaluate --speed", "", "evaluate"},
                {"compare", "run.gguf", "compare"},
                {"verify", "", "verify"}};
    static const char text[] = "abcdefghabcdefghabcdefghabcdefghabcdefgh";
    model_save(evaluation_model(1), in_folder(folder, "run.gguf"));
    write_whole(in_folder(folder, "text"), text, strlen(text));
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char *line;
        assert_true(asprintf(&line, "cd %s && %s -q -t 1 --progress json:3 %s run.gguf %s", folder,
                             command_path(), jobs[i].words, jobs[i].rest) > 0);
        json **events = events_of(line);
        assert_true(events[0] && is(events[0], "start", jobs[i].phase));
        assert_string_equal(json_text(events[0], "input", ""), "run.gguf");
        assert_int_equal(count(events, "failed", jobs[i].phase), 0);
        free_events(events), free(line);
    }
    static const char *const made[] = {"run.gguf", "text", "out.gguf", "out.dat"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) unlink(in_folder(folder, made[i]));
}

/* Trials, which come before the work, have a forecast of their own. */
TEST(test_trials_have_a_forecast) {
    char text[2048] = "", *line;
    for (int i = 0; i < 256; i++) sprintf(text + strlen(text), "%d ", i * i * 31 % 60);
    model_save(evaluation_model(1), in_folder(folder, "run.gguf"));
    write_whole(in_folder(folder, "ids"), text, strlen(text));
    assert_true(asprintf(&line,
                         "cd %s && %s -t 1 --progress json:3 --dry-run --measure-file none --context 32 "
                         "--calibrate-ids ids --target-size Q4_1 run.gguf out.gguf >printed 2>&1",
                         folder, command_path()) > 0);
    json **events = events_of(line);
    size_t told = 0;
    for (size_t i = 0; events[i]; i++)
        told += is(events[i], "progress", "plan") && json_number(events[i], "seconds_expected", 0) > 0;
    assert_true(told > 0);
    free_events(events), free(line);
    static const char *const made[] = {"run.gguf", "ids", "printed"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) unlink(in_folder(folder, made[i]));
}

/* The phases of a publication are one call: its share goes on from each to the next. */
TEST(test_a_publication) {
    static const char *const phases[] = {"quantize", "verify"}; /* made, and there */
    for (size_t i = 0; i < 2; i++) {
        char *line;
        assert_true(asprintf(&line,
                             "%s publish --progress json:3 %s Q8_0 Q4_0 --out-dir %s/up >%s/printed 2>&1",
                             command_path(), source, folder, folder) > 0);
        json **events = events_of(line);
        double share = -1, summed = 0, all = 0;
        size_t last = 0;
        for (size_t k = 0; events[k]; last = k++) {
            if (strcmp(json_text(events[k], "event", ""), "progress") != 0) continue;
            assert_true(json_number(events[k], "share", -1) >= share);
            share = json_number(events[k], "share", -1);
            if (is(events[k], "progress", "checksums")) { /* one count of all files and the model */
                double total = json_number(events[k], "bytes_total", 0);
                assert_true(json_number(events[k], "bytes_done", -1) >= summed && (!all || all == total));
                summed = json_number(events[k], "bytes_done", -1), all = total;
            }
            assert_true(share < 1 || is(events[k], "progress", "checksums"));
        }
        assert_true(share == 1 && is(events[last], "done", "checksums"));
        assert_true(count(events, "progress", phases[i]) >= 1 && count(events, "progress", "checksums") >= 2);
        free_events(events), free(line);
    }
    char *line = NULL;
    assert_true(asprintf(&line, "rm -r %s/up %s/printed", folder, folder) > 0);
    run_command((const char *const[]){"sh", "-c", line, NULL}, NULL, NULL);
    free(line);
}

TEST(test_failure) {
    char *line;
    assert_true(asprintf(&line, "%s --progress json:3 %s.absent Q8_0", command_path(), source) > 0);
    json **events = events_of(line);
    assert_true(is(events[0], "start", "plan") && is(events[1], "failed", "plan") && !events[2]);
    assert_non_null(strstr(json_text(events[1], "message", ""), ".absent"));
    free_events(events), free(line);
}

/* A log has what was printed before, the events and warnings of each run, and its status. */
TEST(test_log_file) {
    const char *out = in_folder(folder, "out.gguf"), *log = in_folder(folder, "log");
    write_whole(log, "{}\n", 3);
    free(gquant(0, (const char *const[]){"--log-file", log, "--pure", source, out, "Q4_K", NULL}));
    free(gquant(1, (const char *const[]){"--log-file", log, source, out, "Q4_K", NULL}));
    free(gquant(1, (const char *const[]){"--log-file", folder, source, out, "Q4_K", "--force", NULL}));
    size_t n = 0;
    char *text = (char *)read_whole(log, NULL);
    json **events = calloc(4096, sizeof *events);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (*line) events[n++] = json_parse(line);
    const json *end = events[n - 1];
    assert_true(n > 6 && !*json_text(events[0], "event", ""));
    assert_true(is(events[1], "start", "plan") && strlen(json_text(events[1], "time", "")) == 20);
    assert_true(count(events, "done", "quantize") == 1 && count(events, "tensor_done", "quantize") > 0);
    assert_true(count(events, "exit", "") == 2 && json_number(end, "status", 0) == 1);
    assert_non_null(strstr(json_text(end, "message", ""), "out.gguf"));
    free_events(events), free(text);
    unlink(out), unlink(log);
}

/* On standard error its lines are those that begin with a brace; any name stays one line of JSON. */
TEST(test_standard_error) {
    static const char name[] = "odd \"\n\\ \xff \xe2\x82\xac \xf0\x9f\x98\x80.weight";
    const char *in = in_folder(folder, "odd.gguf"), *out = in_folder(folder, "out.gguf");
    model *m = model_new("tiny", 1);
    model_add(m, name, GGUF_F32, (uint64_t[4]){256, 4}, NULL);
    model_save(m, in);
    char *err = gquant(0, (const char *const[]){"--progress", "json", in, out, "Q8_0", NULL});
    bool found = false;
    assert_plain(err);
    for (char *rest = err, *line; (line = strsep(&rest, "\n"));) {
        if (*line != '{') continue;
        json *event = json_parse(line);
        found |= !strcmp(json_text(event, "tensor", ""),
                         "odd \"\n\\ \xee\xbf\xbf \xe2\x82\xac \xf0\x9f\x98\x80.weight");
        json_free(event);
    }
    assert_true(found);
    free(err);
    unlink(in), unlink(out);
    GQUANT_SAYS(2, "--progress xml", "--progress", "xml", source, out, "Q8_0");
    GQUANT_SAYS(2, "open descriptor", "--progress", "json:99", source, out, "Q8_0");
    GQUANT_SAYS(2, "open descriptor", "--progress", "json:", source, out, "Q8_0");
}

int main(void) { return tests_run(set_up, tear_down); }
