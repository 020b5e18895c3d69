/* No command writes over what it reads, under whatever name it finds it, and whatever it is forced to. */
#include <sys/stat.h>

#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

static const char *const inputs[] = {"model.gguf",
                                     "split-00001-of-00002.gguf",
                                     "split-00002-of-00002.gguf",
                                     "importance.gguf",
                                     "other.dat",
                                     "text",
                                     "ids",
                                     "recipe"};
enum { INPUTS = sizeof inputs / sizeof *inputs };
static uint8_t *bytes[INPUTS];
static size_t sizes[INPUTS], files;

FIXTURE(start) {
    folder = temporary_folder();
    model_save(evaluation_model(1), path("model.gguf"));
    char text[400];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("text"), text, sizeof text);
    write_whole(path("ids"), "1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1\n", 34);
    write_whole(path("recipe"), "ffn_up=Q8_0\n", 12);
    GQUANT(0, "-q", "--split-max-size", "1M", path("model.gguf"), path("split"), "COPY");
    for (size_t i = 0; i < 2; i++)
        GQUANT(0, "imatrix", "compute", "-q", "--context", "16", path("model.gguf"), path("text"),
               path(inputs[3 + i]));
    for (size_t i = 0; i < INPUTS; i++) bytes[i] = read_whole(path(inputs[i]), &sizes[i]);
    files = count_files(folder);
    return 0;
}

static int end(void **state) {
    for (size_t i = 0; i < INPUTS; i++) free(bytes[i]);
    return folder_remove(state);
}

static void check_inputs(const char *out) {
    for (size_t i = 0; i < INPUTS; i++) {
        size_t n;
        uint8_t *now = read_whole(path(inputs[i]), &n);
        if (n != sizes[i] || memcmp(now, bytes[i], n) != 0)
            fail_msg("%s was destroyed, as %s", inputs[i], out);
        free(now);
    }
    assert_int_equal(count_files(folder), files);
}

/* The command must refuse to write to "OUT", which stands for an input's name, for another name of the same
 * file, and for a link to it. */
static void refuses(const char *input, const char *const *words) {
    /* A shard's own name behind the first one's is one more of the input's (test_cli_words). */
    for (int way = strstr(input, "-of-") ? 1 : 0; way < 3; way++) {
        const char *argv[24], *out = way ? path("other-name") : path(input);
        if (way == 1) assert_int_equal(link(path(input), out), 0);
        if (way == 2) assert_int_equal(symlink(path(input), out), 0);
        files += way > 0;
        size_t n = 0;
        for (; words[n]; n++) argv[n] = strcmp(words[n], "OUT") ? words[n] : out;
        argv[n] = NULL;
        char *copies[24] = {NULL};
        for (size_t i = 0; i < n; i++) argv[i] = copies[i] = strdup(argv[i]);
        char *err;
        const char *line[26] = {NULL};
        memcpy(line + 1, argv, (n + 1) * sizeof *line);
        int status = run_command(line, NULL, &err);
        if (status != 1 && status != 2) fail_msg("way %d, %s: status %d: %s", way, input, status, err);
        if (!strstr(err, "input") && !strstr(err, "reads or writes") && !strstr(err, "both the output") &&
            !strstr(err, "a recipe is a text, not a model"))
            fail_msg("way %d, %s: %s", way, input, err);
        check_inputs(copies[n - 1]);
        for (size_t i = 0; i < n; i++) free(copies[i]);
        free(err);
        if (way) assert_int_equal(unlink(path("other-name")), 0), files--;
    }
}
#define REFUSES(input, ...) refuses(input, (const char *const[]){__VA_ARGS__, NULL})

TEST(quantizing) {
    char *model_ = strdup(path("model.gguf")), *split = strdup(path("split-00001-of-00002.gguf")),
         *im = strdup(path("importance.gguf")), *text = strdup(path("text")),
         *recipe = strdup(path("recipe")), *ids = strdup(path("ids")), *other = strdup(path("other.dat"));
    REFUSES("model.gguf", "--force", model_, "OUT", "Q8_0");
    REFUSES("split-00002-of-00002.gguf", "--force", split, "OUT", "Q8_0");
    REFUSES("importance.gguf", "--force", "--imatrix", im, model_, "OUT", "Q8_0");
    REFUSES("text", "--force", "--context", "16", "--calibrate", text, model_, "OUT", "Q8_0");
    REFUSES("ids", "--force", "--context", "16", "--calibrate-ids", ids, model_, "OUT", "Q8_0");
    REFUSES("text", "--force", "--context", "16", "--evaluate", text, model_, "OUT", "Q8_0");
    REFUSES("recipe", "--force", "--tensor-type-file", recipe, model_, "OUT", "Q8_0");
    REFUSES("other.dat", "--imatrix", other, "--recipe-out", "OUT", model_, path("o"), "Q8_0");
    REFUSES("split-00002-of-00002.gguf", "--recipe-out", "OUT", split, path("o"), "Q8_0");
    free(model_), free(split), free(im), free(text), free(recipe), free(ids), free(other);
}

/* What a target has measured is kept beside the model, and read by the next one. */
TEST(measurements_beside_the_model) {
    char *model_ = strdup(path("model.gguf")), *kept = strdup(path("model.gguf.gquant-measure")), *err;
    size_t n, now;
    GQUANT(0, "-q", "--dry-run", "--target-bpw", "8", model_, path("o"));
    uint8_t *before = read_whole(kept, &n);
    const char *const lines[][8] = {{NULL, "--recipe-out", kept, model_, "o", "Q8_0", NULL},
                                    {NULL, "--force", model_, kept, "Q8_0", NULL}};
    for (size_t i = 0; i < 2; i++) {
        int status = run_command((const char **)lines[i], NULL, &err);
        if (status != 1 && status != 2) fail_msg("line %zu: %s", i, err);
        uint8_t *after = read_whole(kept, &now);
        assert_int_equal(n, now);
        assert_memory_equal(before, after, n);
        free(after), free(err);
    }
    assert_int_equal(unlink(kept), 0);
    free(before), free(model_), free(kept);
}

/* A name that the command makes up is one, too. */
TEST(names_that_are_made_up) {
    char *model_ = strdup(path("model.gguf"));
    static const char *const options[] = {"--calibrate", "--evaluate", "--tensor-type-file"};
    static const size_t numbers[] = {5, 5, 7};
    for (size_t i = 0; i < 3; i++) {
        const char *read = inputs[numbers[i]];
        assert_int_equal(rename(path(read), path("model-Q8_0.gguf")), 0);
        char *name = strdup(path("model-Q8_0.gguf")), *err;
        const char *words[] = {NULL, "--force", options[i], name, model_, "Q8_0", NULL};
        const char *with[] = {NULL, "--force", options[i], name, "--context", "16", model_, "Q8_0", NULL};
        int status = run_command(i == 2 ? words : with, NULL, &err);
        if (status != 1 && status != 2) fail_msg("%s: %s", options[i], err);
        assert_int_equal(rename(name, path(read)), 0);
        check_inputs(options[i]);
        free(name), free(err);
    }
    free(model_);
}

/* Puts a copy of an input under the name, runs the command with an option that reads it, and checks that the
 * message has `mention` and that nothing but an output has changed. Returns the exit status. */
static int run_with_input_named(const char *name, const char *option, const char *mention,
                                const char *const *words) {
    const char *argv[16] = {NULL}, *from = strstr(option, "file") ? "recipe" : "text";
    char *copies[16] = {NULL}, *err, *hidden = strdup(path(name));
    size_t n, now, k = 1;
    uint8_t *before = read_whole(path(from), &n);
    write_whole(hidden, before, n);
    argv[k++] = option, argv[k++] = hidden;
    if (!strstr(option, "file")) argv[k++] = "--context", argv[k++] = "16";
    for (size_t i = 0; words[i]; i++)
        argv[k++] = copies[i] = strdup(*words[i] == '@' ? path(words[i] + 1) : words[i]);
    int status = run_command(argv, NULL, &err);
    if (!strstr(err, mention)) fail_msg("%s %s: status %d: %s", option, name, status, err);
    uint8_t *after = exists(hidden) ? read_whole(hidden, &now) : NULL;
    if (!after || n != now || memcmp(before, after, n) != 0)
        fail_msg("%s %s was destroyed: status %d: %s", option, name, status, err);
    assert_int_equal(unlink(hidden), 0);
    for (size_t i = 0; i < 16; i++) free(copies[i]);
    free(before), free(after), free(hidden), free(err);
    return status;
}
#define RUN_WITH_INPUT_NAMED(name, option, mention, ...) \
    run_with_input_named(name, option, mention, (const char *const[]){__VA_ARGS__, NULL})

static const char *const reading_options[] = {"--evaluate", "--tensor-type-file", "--calibrate"};

/* Names that the run gives to files of its own beside an output. */
TEST(names_beside_an_output) {
    static const char *const names[] = {".o.gguf.gquant", ".o.gguf.gquant-journal", ".o.gguf.gquant-names",
                                        ".o.gguf.gquant-journal-1-of-2"};
    static const char mention[] = "is one of the inputs, and has the name of a file that is made beside";
    for (size_t o = 0; o < 3; o++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            assert_int_equal(RUN_WITH_INPUT_NAMED(names[i], reading_options[o], mention, "--force",
                                                  "@model.gguf", "@o.gguf", "Q8_0"),
                             1);
            check_inputs(names[i]);
        }
    char *text = strdup(path("text"));
    assert_int_equal(RUN_WITH_INPUT_NAMED(".o.gguf.gquant-states", "--tensor-type-file", mention, "--force",
                                          "--calibrate", text, "--context", "16", "@model.gguf", "@o.gguf",
                                          "Q8_0"),
                     1);
    check_inputs("states");
    free(text);
}

/* Measurements go beside the model, through a hidden name; where one of both is an input's they are not kept.
 */
TEST(names_of_measurements) {
    static const char *const names[] = {"model.gguf.gquant-measure", ".model.gguf.gquant-measure.gquant-new"};
    for (size_t o = 0; o < 2; o++)
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(RUN_WITH_INPUT_NAMED(names[i], reading_options[o], "measurements are not saved",
                                                  "--dry-run", "--target-bpw", "8", "@model.gguf", "@o.gguf"),
                             0);
            check_inputs(names[i]);
        }
}

/* Files have a hidden name until they are whole, and what lies there is taken for a killed run's. */
TEST(hidden_names_of_small_files) {
    static const struct {
        const char *hidden, *from, *words[12]; /* "@NAME" is a path in the folder */
    } rows[] = {
        {".r.json.gquant-new",
         "importance.gguf",
         {"--imatrix", "@.r.json.gquant-new", "--report", "@r.json", "@model.gguf", "@new.gguf", "Q8_0"}},
        {".r.csv.gquant-new", "model.gguf", {"compare", "@model.gguf", "@.r.csv.gquant-new", "-r", "@r.csv"}},
        {".t.gquant-new",
         "recipe",
         {"--tensor-type-file", "@.t.gquant-new", "--recipe-out", "@t", "@model.gguf", "@new.gguf", "Q8_0"}},
        {".l.logits",
         "text",
         {"evaluate", "@model.gguf", "--context", "16", "--text", "@.l.logits", "--logits", "@l"}},
        {".l.logits",
         "model.gguf",
         {"evaluate", "@.l.logits", "--context", "16", "--text", "@text", "--logits", "@l"}},
        {".o.gguf.gquant-new",
         "importance.gguf",
         {"imatrix", "merge", "@other.dat", "@.o.gguf.gquant-new", "@o.gguf"}},
        {".o.dat.gquant-new", "importance.gguf", {"imatrix", "convert", "@.o.dat.gquant-new", "@o.dat"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n, now;
        const char *argv[14] = {NULL};
        char *copies[14] = {NULL}, *err, *hidden = strdup(path(rows[i].hidden));
        uint8_t *before = read_whole(path(rows[i].from), &n);
        write_whole(hidden, before, n);
        for (size_t k = 0; rows[i].words[k]; k++) {
            const char *word = rows[i].words[k];
            argv[k + 1] = copies[k] = strdup(*word == '@' ? path(word + 1) : word);
        }
        int status = run_command(argv, NULL, &err);
        if (status != 1 && status != 2) fail_msg("row %zu: status %d: %s", i, status, err);
        says(err, "is one of the inputs");
        uint8_t *after = read_whole(hidden, &now);
        assert_int_equal(n, now);
        assert_memory_equal(before, after, n);
        assert_int_equal(unlink(hidden), 0);
        check_inputs(rows[i].hidden);
        for (size_t k = 0; k < 14; k++) free(copies[k]);
        free(before), free(after), free(hidden), free(err);
    }
}

TEST(making_importance_data) {
    char *model_ = strdup(path("model.gguf")), *split = strdup(path("split-00001-of-00002.gguf")),
         *text = strdup(path("text")), *ids = strdup(path("ids"));
#define COMPUTE "imatrix", "compute", "--force", "--context", "16"
    REFUSES("model.gguf", COMPUTE, model_, text, "OUT");
    REFUSES("split-00002-of-00002.gguf", COMPUTE, split, text, "OUT");
    REFUSES("text", COMPUTE, model_, text, "OUT");
    REFUSES("ids", COMPUTE, "--ids", ids, model_, "OUT");
    free(model_), free(split), free(text), free(ids);
}

TEST(merging_and_converting) {
    char *im = strdup(path("importance.gguf")), *other = strdup(path("other.dat"));
    REFUSES("importance.gguf", "imatrix", "merge", "--force", im, other, "OUT");
    REFUSES("other.dat", "imatrix", "merge", "--force", im, other, "OUT");
    REFUSES("importance.gguf", "imatrix", "convert", "--force", im, "OUT");
    free(im), free(other);
}

TEST(evaluating) {
    char *model_ = strdup(path("model.gguf")), *split = strdup(path("split-00001-of-00002.gguf")),
         *text = strdup(path("text"));
    REFUSES("model.gguf", "evaluate", "--force", "--context", "16", model_, "--text", text, "--logits",
            "OUT");
    REFUSES("split-00002-of-00002.gguf", "evaluate", "--force", "--context", "16", model_, split, "--text",
            text, "--logits", "OUT");
    REFUSES("text", "evaluate", "--force", "--context", "16", model_, "--text", text, "--logits", "OUT");
    free(model_), free(split), free(text);
}

/* The same for callers of the library, as far as it knows what is read. */
TEST(the_library_refuses_it) {
    static const size_t outs[] = {0, 5};
    gq_error e;
    size_t n;
    uint8_t *words = read_whole(path("text"), &n);
    char *out = NULL, *in = strdup(path("model.gguf")), *name = strdup(path("text"));
    gq_text text = {.name = name, .bytes = (const char *)words, .n = n, .context = 16};
    for (size_t i = 0; i < 2; i++) {
        free(out), out = strdup(path(inputs[outs[i]]));
        assert_null(gq_importance_plan_new(&(gq_importance_request){.size = sizeof(gq_importance_request),
                                                                    .model = in,
                                                                    .texts = &text,
                                                                    .n_texts = 1,
                                                                    .out = out,
                                                                    .force = true},
                                           &e));
        if (!strstr(e.text, "is one of the inputs")) fail_msg("%s", e.text);
        assert_null(gq_evaluation_plan(&(gq_evaluation_request){.size = sizeof(gq_evaluation_request),
                                                                .base_model = in,
                                                                .text = text,
                                                                .logits = out,
                                                                .replace_logits = true},
                                       &e));
        if (!strstr(e.text, "is one of the inputs")) fail_msg("%s", e.text);
    }
    check_inputs("library");
    free(out), free(in), free(name), free(words);
}

int main(void) { return tests_run(start, end); }
