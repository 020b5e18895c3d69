/* Words that mean something else than they seem to: help, shortened options, shards that a shell lists,
 * folders that are not there, several files to verify. */
#include <sys/stat.h>

#include "cli/options/options.h"
#include "tests/support/one_model.h"

/* ---- help ---- */

/* Types tell what they are for, to people and to programs. */
TEST(test_types_tell_what_they_are_for) {
    char *table = PRINTED("types"), *text = PRINTED("types", "--json");
    says(table, "the usual choice");
    json *types = json_parse(text);
    size_t found = 0;
    for (size_t i = 0; i < types->n; i++) {
        const json *t = &types->items[i];
        if (strcmp(json_text(t, "name", ""), "Q4_K_M") != 0) continue;
        assert_string_equal(json_text(t, "purpose", ""), "the usual choice");
        assert_true(json_number(t, "typical_divergence", 0) > 0);
        assert_int_equal(json_number(t, "number", 0), 15);
        found++;
    }
    assert_int_equal(found, 1);
    json_free(types);
    free(table), free(text);
}

TEST(test_help_is_a_command) {
    char *of_all = PRINTED("help"), *as_option = PRINTED("--help");
    assert_string_equal(of_all, as_option);
    says(of_all, "\n  help         "), says(of_all, "'gquant help all' lists all options");
    size_t common = 0;
    for (size_t i = 0; i < n_options; i++) common += (options[i].commands & COMMON) != 0;
    assert_int_equal(common, 10);
    free(of_all), free(as_option);
    of_all = PRINTED("help", "all"), as_option = PRINTED("--help", "all");
    assert_string_equal(of_all, as_option);
    says(of_all, "Output:\n"), says(of_all, "--token-embedding-type TYPE");
    free(of_all), free(as_option);
    for (size_t i = 0; i < n_commands; i++) {
        if (!commands[i].name) continue;
        char *one = PRINTED("help", commands[i].name), *option = PRINTED(commands[i].name, "--help");
        assert_string_equal(one, option);
        if (commands[i].example) says(one, commands[i].example);
        free(one), free(option);
    }
    char *deeper = PRINTED("help", "imatrix", "compute");
    says(deeper, "gquant imatrix");
    free(deeper);
    GQUANT_SAYS(2, "unknown command 'plane', did you mean 'gquant help plan'?", "help", "plane");
    GQUANT_SAYS(2, "unknown command 'zzzzzzzz'", "help", "zzzzzzzz");
}

/* The list has a model, a draft model, a projector and a class that is refused. */
TEST(test_help_lists_the_classes_of_folders) {
    char *list = PRINTED("help", "classes");
    says(list, "\nQwen3ForCausalLM ");
    says(list, " model                             qwen3\n");
    says(list, "DFlashDraftModel");
    says(list, "draft model, with --target-model  dflash\n");
    says(list, "projector, with --mmproj          qwen3tts_spkenc, qwen3tts_gen\n");
    says(list, "PocketTTSModel");
    says(list, "not read                          its projector cannot be made");
    free(list);
}

TEST(test_nothing_is_asked) {
    char *out, *err;
    assert_int_equal(run_command((const char *const[]){NULL, NULL}, &out, &err), 2);
    assert_string_equal(out, "");
    says(err, "usage: gquant [options] IN [OUT] TYPE [THREADS]\n");
    says(err, "as in: gquant model-F16.gguf Q4_K_M\n");
    says(err, "gquant help");
    size_t lines = 0;
    for (const char *at = err; *at; at++) lines += *at == '\n';
    assert_true(lines <= 5); /* a hint, no manual */
    free(out), free(err);
}

/* ---- options in place of arguments ---- */

TEST(test_output_and_type_as_options) {
    char *out = strdup(in_folder(folder, "named.gguf")), *plain = strdup(in_folder(folder, "plain.gguf"));
    GQUANT(0, source, plain, "Q4_0");
    static const char *const names[] = {"-o", "--output", "--outfile", "--output-file"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        GQUANT(0, "--force", source, "Q4_0", names[i], out);
        assert_same_file(out, plain);
    }
    GQUANT(0, "--force", "-o", out, "--type", "Q4_0", source);
    GQUANT(0, "--force", source, out, "--type=Q4_0");
    GQUANT(0, "--force", source, "--target-bpw", "5", "--measure-file", "none", "-o", out);
    GQUANT(0, "--dry-run", source, "--type", "q4_k_m");
    GQUANT_SAYS(2, "gquant", source, out, "Q4_0", "-o", plain);
    GQUANT(0, "--force", "imatrix", "convert", matrix, "-o", out);
    unlink(out), unlink(plain);
    free(out), free(plain);
    char *version = PRINTED("version"), *same = PRINTED("--version");
    assert_string_equal(version, same);
    free(version), free(same);
}

/* ---- shortened options ---- */

TEST(test_shortened_options) {
    GQUANT_SAYS(2, "unknown option --outpu, did you mean --out", source, "Q4_0", "--outpu", "q8_0");
    /* Of several words one is not enough: it reads as a name of its own. */
    static const char *const first_words[] = {"--split",  "--prune", "--dry",
                                              "--target", "--token", "--allow-"};
    for (size_t i = 0; i < sizeof first_words / sizeof *first_words; i++) {
        char *wanted;
        assert_true(asprintf(&wanted, "unknown option %s", first_words[i]) > 0);
        GQUANT_SAYS(2, wanted, source, "Q4_0", first_words[i]);
        free(wanted);
    }
    GQUANT_SAYS(2, "did you mean --dry-run?", source, "Q4_0", "--dry");
    GQUANT_SAYS(
        2, "unknown option --tokens here: it is one of gquant evaluate, gquant imatrix, gquant tokenize, ",
        source, "Q4_0", "--tokens", "5");
    GQUANT_SAYS(2, "unknown option --effort here: it is one of gquant IN TYPE, ", "info", source,
                "--effort=fast");
    assert_int_equal(count_files(folder), 2);
    GQUANT(0, "--dry-r", "--thr", "1", "--output-t", "q8_0", source, "Q4_0");
    GQUANT(0, "--dry-run", "--qui", "--eff=fast", source, "Q4_0");
    GQUANT(0, "--dry-run", "-q", "--split-max=3M", source, "Q4_0");
}

/* ---- shards ---- */

static void split_model(const char *name, char *shards[3]) {
    GQUANT(0, "-q", "--split-max-size", "3M", source, in_folder(folder, name), "F16");
    for (unsigned i = 0; i < 3; i++)
        assert_true(asprintf(&shards[i], "%s/%s-%05u-of-00003.gguf", folder, name, i + 1) > 0);
    assert_true(exists(shards[2]));
}

static void remove_all(char *shards[3]) {
    for (int i = 0; i < 3; i++) unlink(shards[i]), free(shards[i]);
}

TEST(test_shards_that_a_shell_lists) {
    char *in[3], *copy[3], *none[3];
    const char *out = in_folder(folder, "out.gguf"), *wanted = in_folder(folder, "wanted.gguf");
    split_model("split", in);
    GQUANT(0, "-q", in[0], wanted, "Q4_0");
    GQUANT(0, "-q", in[0], in[1], in[2], out, "Q4_0", "1");
    assert_same_file(wanted, out);
    unlink(out);
    GQUANT(0, "-q", in[0], in[1], in[2], "Q4_0");
    const char *derived = in_folder(folder, "split-Q4_0.gguf");
    assert_same_file(wanted, derived);
    unlink(derived);
    GQUANT(0, "-q", in[0], in[1], in[2], "--target-bpw", "5", "--measure-file", "none", out);
    unlink(out);
    /* In the other commands, too, and of copies as well. */
    split_model("copy", copy);
    GQUANT(0, "-q", "compare", in[0], in[1], in[2], copy[0], copy[1], copy[2]);
    char *one = PRINTED("info", in[0]), *all = PRINTED("info", in[0], in[1], in[2]);
    assert_string_equal(one, all);
    free(one), free(all);
    char *verdict = PRINTED("verify", in[0], in[1], in[2]);
    assert_null(strstr(strstr(verdict, "sound") + 5, "sound"));
    free(verdict);
    GQUANT(0, "plan", in[0], in[1], in[2]);
    /* Some are missing: the model is not whole. */
    unlink(in[1]);
    GQUANT_SAYS(1, "split-00002-of-00003.gguf", in[0], in[2], out, "Q4_0");
    /* Shards of two models are two models. */
    GQUANT_SAYS(2, "unknown file type", "-q", in[0], copy[0], "out");
    for (int i = 0; i < 3; i++)
        assert_true(asprintf(&none[i], "%s/other/copy-%05u-of-00003.gguf", folder, 1u + (unsigned)i) > 0);
    GQUANT_SAYS(2, "'Q4_0' where the number of threads", copy[0], none[1], "Q8_0", "Q4_0");
    assert_false(exists(out));
    remove_all(in), remove_all(copy), remove_all(none);
    unlink(wanted);
    assert_int_equal(count_files(folder), 2);
}

/* ---- folders ---- */

TEST(test_out_dir_is_made) {
    char *deep = strdup(in_folder(folder, "new/deep")), *first = strdup(in_folder(folder, "new"));
    GQUANT(0, "-q", "-n", "--out-dir", deep, source, "Q4_0", "x.gguf=Q8_0");
    assert_false(exists(first)); /* a dry run writes nothing */
    GQUANT_SAYS(2, "two outputs", "-q", "-n", "--out-dir", deep, source, "x.gguf=Q4_0", "x.gguf=Q8_0");
    /* What is refused leaves no folder behind. */
    GQUANT_SAYS(2, "unknown file type", "--out-dir", deep, source, "Q4_KM");
    GQUANT_SAYS(1, "IQ1_S", "--out-dir", deep, source, "IQ1_S");
    GQUANT_SAYS(1, "absent.gguf", "--out-dir", deep, in_folder(folder, "absent.gguf"), "Q4_0");
    assert_false(exists(first));
    GQUANT(0, "-q", "--out-dir", deep, source, "Q4_0", "x.gguf=Q8_0");
    assert_int_equal(count_files(deep), 2);
    GQUANT_SAYS(0, "already exists and is complete", "--out-dir", deep, source, "Q4_0");
    GQUANT_SAYS(1, "already exists", "--out-dir", deep, source, "x.gguf=Q4_0");
    assert_int_equal(count_files(deep), 2);
    char *file;
    assert_true(asprintf(&file, "%s/x.gguf/sub", deep) > 0);
    GQUANT_SAYS(1, "x.gguf", "--out-dir", file, source, "Q4_0"); /* no folder can be in a file */
    free(file);
    remove_folder(first), free(deep);
    assert_int_equal(count_files(folder), 2);
}

/* ---- several files ---- */

TEST(test_several_files_are_verified) {
    const char *a = in_folder(folder, "a.gguf"), *b = in_folder(folder, "b.gguf");
    const char *report = in_folder(folder, "r.json");
    GQUANT(0, "-q", "-r", report, source, "a.gguf=Q4_0", "b.gguf=Q8_0", "--out-dir", folder);
    char *text = PRINTED("verify", "-r", report, a, b);
    says(text, "a.gguf: sound:"), says(text, "b.gguf: sound:");
    free(text);
    text = PRINTED("verify", "--json", a, b, source);
    json *list = json_parse(text);
    assert_int_equal(list->n, 3);
    assert_string_equal(json_text(&list->items[1], "path", ""), b);
    free(text), json_free(list);
    /* One that is not sound or not there does not keep the others from being looked at. */
    size_t n;
    uint8_t *bytes = read_whole(a, &n);
    bytes[n - 2] ^= 1;
    write_whole(a, bytes, n), free(bytes);
    char *out, *err;
    int status = run_command(
        (const char *const[]){NULL, "verify", "-r", report, a, in_folder(folder, "c"), b, NULL}, &out, &err);
    assert_int_equal(status, 1);
    says(out, "a.gguf: 1 problem in"), says(out, "b.gguf: sound:"),
        says(err, "lists 2 outputs, none named c");
    free(out), free(err);
    /* The report of one file is not that of another. */
    GQUANT(0, "-q", "--force", "-r", report, source, a, "Q4_0");
    GQUANT_SAYS(1, "none named b.gguf", "verify", "-r", report, a, b);
    GQUANT(0, "verify", "-r", report, a);
    unlink(a), unlink(b), unlink(report);
}

/* ---- sentences ---- */

/* "1 tensors" and the like, in what the command says of these words. */
static void assert_counts(const char *const *words) {
    static const char *const nouns[] = {"tensors", "files",    "shards",   "layers",  "windows",
                                        "chunks",  "entries",  "copies",   "outputs", "columns",
                                        "weights", "matrices", "problems", "bytes"};
    char *out, *err, *text;
    run_command(words, &out, &err);
    assert_true(asprintf(&text, " %s\n%s", out, err) > 0);
    for (size_t i = 0; i < sizeof nouns / sizeof *nouns; i++)
        for (const char *at = text; (at = strstr(at, nouns[i])); at++)
            if (at - text > 3 && at[-1] == ' ' && at[-2] == '1' && strchr(" (\n", at[-3]))
                fail_msg("1 %s: %s", nouns[i], text);
    free(out), free(err), free(text);
}
#define COUNTS(...) assert_counts((const char *const[]){NULL, __VA_ARGS__, NULL})

TEST(test_one_is_not_many) {
    const char *in = in_folder(folder, "one.gguf"), *out = in_folder(folder, "one-out.gguf");
    const char *damaged = in_folder(folder, "one-damaged.gguf");
    model *m = model_new("tiny", 1);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F16, (uint64_t[4]){96, 4}, NULL);
    model_save(m, in);
    COUNTS("info", in), COUNTS("verify", in), COUNTS("plan", in), COUNTS("-n", in, out, "Q4_K_M");
    COUNTS(in, out, "Q4_K_M"), COUNTS("compare", in, out), COUNTS("compare", in, out, out);
    COUNTS("--force", "--strict", in, out, "Q4_K_M");
    COUNTS("imatrix", "show", matrix, in);
    char *text = PRINTED("info", in);
    says(text, "384 weights in 1 tensor of 768 bytes"), says(text, "1 file of ");
    free(text);
    size_t n;
    uint8_t *bytes = read_whole(in, &n);
    bytes[n - 1] = 0x7c, bytes[n - 2] = 0; /* an infinity, or behind the weights */
    write_whole(damaged, bytes, n), free(bytes);
    COUNTS("verify", damaged), COUNTS("--force", damaged, out, "Q8_0");
    unlink(in), unlink(out), unlink(damaged);
}

TEST(test_articles) {
    static const char *const an[] = {"F16", "IQ2_S", "MXFP4", "NVFP4"}, *const a[] = {"Q4_K", "BF16",
                                                                                      "TQ1_0"};
    for (size_t i = 0; i < 4; i++) assert_string_equal(article(an[i]), "an");
    for (size_t i = 0; i < 3; i++) assert_string_equal(article(a[i]), "a");
    GQUANT_SAYS(1, "needs an imatrix, and none is given; gquant imatrix compute MODEL TEXT FILE makes one",
                "-n", source, "IQ2_S");
}

/* Bytes of tensors and of files differ, and each is called what it is; sizes of files are in MB. */
TEST(test_sizes_are_named) {
    const char *out = in_folder(folder, "out.gguf"), *report = in_folder(folder, "r.json");
    char *text, *said, wanted[64];
    assert_int_equal(
        run_command((const char *const[]){NULL, "-r", report, source, out, "Q4_K_M", NULL}, &text, &said), 0);
    json *r = json_file(report);
    const json *output = &json_need(r, "outputs")->items[0];
    snprintf(wanted, sizeof wanted, "file %.2f MB", json_number(output, "file_bytes", 0) / 1e6);
    says(text, wanted), says(said, wanted);
    snprintf(wanted, sizeof wanted, " tensors of %.2f MB -> %.2f MB",
             json_number(output, "in_bytes", 0) / 1e6, json_number(output, "out_bytes", 0) / 1e6);
    says(text, wanted), says(said, wanted);
    json_free(r), free(text), free(said);
    GQUANT_SAYS(2, "a file of 100 kB cannot be reached", "-n", "--target-size", "100K", "--measure-file",
                "none", source);
    unlink(out), unlink(report);
}

int main(void) { return tests_run(set_up, tear_down); }
