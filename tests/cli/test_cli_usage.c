/* What the command says to those who typed something else than they meant: the line to type, the help to
 * read, what a file is that is no model. */
#include <sys/stat.h>

#include "tests/support/one_model.h"

/* ---- the right help ---- */

TEST(test_help_of_the_command) {
    GQUANT_SAYS(2, "Try 'gquant --help'.\n", source, "Q4_KM");
    GQUANT_SAYS(2, "Try 'gquant plan --help'.\n", "plan");
    GQUANT_SAYS(2, "Try 'gquant verify --help'.\n", "verify", "--pure", source);
    GQUANT_SAYS(2, "Try 'gquant imatrix --help'.\n", "imatrix", "shwo", matrix);
    char *err = gquant(1, (const char *const[]){in_folder(folder, "absent"), "Q8_0", NULL});
    assert_null(strstr(err, "Try"));
    free(err);
}

/* What other programs call the main job is no command here: the line to type is said. */
TEST(test_words_of_other_programs) {
    static const struct {
        const char *words[6], *line;
    } rows[] = {{{"quantize", "m.gguf", "Q4_K_M"}, "leave it out: gquant m.gguf Q4_K_M\n"},
                {{"quantize", "m.gguf", "o.gguf", "Q8_0", "4"}, "leave it out: gquant m.gguf o.gguf Q8_0 4\n"},
                {{"quantize", "m n.gguf"}, "leave it out: gquant 'm n.gguf' Q4_K_M ("},
                {{"convert", "Model/"}, "leave it out: gquant Model/ F16 ("},
                {{"convert", "Model/", "--outtype", "f16"}, "leave it out: gquant Model/ F16"},
                {{"-q", "quantize", "m.gguf", "Q4_K_M"}, "leave it out: gquant ... m.gguf Q4_K_M\n"},
                {{"convert"}, "leave it out: gquant MODEL F16"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) gquant_says(2, rows[i].line, rows[i].words);
}

/* An allocation that fails says what to change. */
TEST(test_out_of_memory) {
    if (SANITIZED || command_stands_in()) skip();
    const char *large = in_folder(folder, "large.gguf"), *text = in_folder(folder, "text");
    make_model((const char *const[]){"--sparse", "--width", "4096", "--weights", "4e8", large, NULL});
    char *words = malloc(4096), *line, *err;
    memset(words, 'a', 4096);
    write_whole(text, words, 4096);
    assert_true(asprintf(&line, "ulimit -v 90000; exec %s -t 1 imatrix compute %s %s %s --tokens 512",
                         command_path(), large, text, in_folder(folder, "out.gguf")) > 0);
    assert_int_equal(run_command((const char *const[]){"sh", "-c", line, NULL}, NULL, &err), 1);
    says(err, "out of memory: "), says(err, "a smaller --memory SIZE");
    free(line), free(words), free(err);
    unlink(large), unlink(text);
}

TEST(test_version) {
    char *brief = PRINTED("--version"), *whole = PRINTED("--version", "--verbose");
    assert_int_equal(strncmp(whole, brief, strlen(brief)), 0); /* its first line */
    assert_ptr_equal(strchr(brief, '\n'), brief + strlen(brief) - 1);
    says(whole, gq_build()), says(whole, gq_features());
    if (!command_stands_in()) says(whole, gq_isa_level(0));
    says(whole, " thread");
    says(whole, command_stands_in() ? "one file that needs no library" : "with the system's libraries");
    free(brief), free(whole);
}

TEST(test_options_before_a_command) {
    char *text, *plain;
    assert_int_equal(run_command((const char *const[]){NULL, "info", source, NULL}, &plain, NULL), 0);
    assert_int_equal(run_command((const char *const[]){NULL, "-q", "info", source, NULL}, &text, NULL), 0);
    assert_string_equal(text, plain);
    free(text), free(plain);
    GQUANT(0, "-t", "1", "compare", source, source);
    GQUANT_SAYS(2, "Try 'gquant imatrix --help'", "-t", "1", "imatrix", "show",
                matrix); /* it has no threads */
    GQUANT(0, "-q", "imatrix", "show", matrix);
}

/* ---- the report overwrites nothing that is read or written ---- */

TEST(test_report_is_an_input) {
    const char *recipe = in_folder(folder, "recipe.json"), *again = in_folder(folder, "./recipe.json");
    write_whole(recipe, "ffn_down=Q6_K", 13);
    GQUANT_SAYS(2, "reads or writes", "-n", "--tensor-type-file", recipe, "-r", recipe, source, "Q4_K_M");
    GQUANT_SAYS(2, "reads or writes", "-n", "--tensor-type-file", recipe, "-r", again, source, "Q4_K_M");
    GQUANT_SAYS(2, "the file of an option", "--force", "--tensor-type-file", recipe, source, recipe,
                "Q4_K_M");
    const char *data = in_folder(folder, "data.csv");
    assert_int_equal(link(matrix, data), 0);
    GQUANT_SAYS(2, "reads or writes", "-n", "--imatrix", matrix, "-r", data, source, "Q4_K_M");
    GQUANT_SAYS(2, "reads or writes", "compare", "--imatrix", matrix, "-r", data, source, source);
    char *text = (char *)read_whole(recipe, NULL);
    assert_string_equal(text, "ffn_down=Q6_K");
    free(text);
    unlink(recipe), unlink(data);

    /* Any shard, whichever was named. */
    const char *split = in_folder(folder, "split.gguf"),
               *one = in_folder(folder, "split-00001-of-00002.gguf"),
               *two = in_folder(folder, "split-00002-of-00002.gguf"), *other = in_folder(folder, "two.json");
    GQUANT(0, "-q", "--split-max-size", "3M", source, split, "Q8_0");
    if (!exists(two)) fail_msg("expected several shards");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(i ? symlink(two, other) : link(two, other), 0);
        GQUANT_SAYS(2, "is one of the inputs", "compare", "-r", other, source, one);
        GQUANT_SAYS(2, "is one of the inputs", "-n", "-r", other, one, "COPY");
        unlink(other);
    }
    char *remove = NULL;
    assert_true(asprintf(&remove, "rm -f %s/split-*", folder) > 0);
    assert_int_equal(run_command((const char *const[]){"sh", "-c", remove, NULL}, NULL, NULL), 0);
    free(remove);
    assert_int_equal(count_files(folder), 2);
}

/* ---- not a GGUF ---- */

static void touch(const char *name) { write_whole(in_folder(folder, name), "", 0); }

TEST(test_folders) {
    char *hf = strdup(in_folder(folder, "hf"));
    assert_int_equal(mkdir(hf, 0777), 0);
    GQUANT_SAYS(1, "hf is a directory without a model", hf, "Q4_K_M");
    touch("hf/pytorch_model.bin");
    GQUANT_SAYS(1, "weights only as pytorch_model*.bin", hf, "Q4_K_M");
    touch("hf/b.safetensors");
    touch("hf/tokenizer.json");
    GQUANT_SAYS(1, "no config.json", in_folder(folder, "hf/"), "Q4_K_M");
    unlink(in_folder(folder, "hf/b.safetensors"));
    char *line;
    touch("hf/b.gguf");
    touch("hf/a-00001-of-00002.gguf");
    assert_true(asprintf(&line, "name the model in it (%s/a-00001-of-00002.gguf)", hf) > 0);
    static const char *const commands[] = {"info", "plan", "verify"};
    for (size_t i = 0; i < 3; i++) GQUANT_SAYS(1, line, commands[i], hf);
    GQUANT_SAYS(1, line, "compare", source, hf);
    free(line);
    remove_folder(hf);
}

TEST(test_other_formats) {
    static const struct {
        const char *bytes, *mention;
        size_t n;
    } rows[] = {
        {"lmgg\1\0\0\0", "older than GGUF; fetch the model as GGUF", 8},
        {"tjgg\1\0\0\0", "a ggjt file", 8},
        {"algg\1\0\0\0", "a LoRA", 8},
        {"PK\3\4....", "zip archive (a PyTorch checkpoint?); take the model's safetensors", 8},
        {"\x80\2}q....", "Python pickle (a PyTorch checkpoint?); take the model's safetensors", 8},
        {"\10\0\0\0\0\0\0\0{}      ", "has no tensors", 16},
        {"\x1f\x8b......", "gunzip", 8},
    };
    const char *other = in_folder(folder, "other.bin");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_whole(other, rows[i].bytes, rows[i].n);
        GQUANT_SAYS(1, rows[i].mention, other, "Q4_K_M");
        GQUANT_SAYS(1, rows[i].mention, "info", other);
    }
    unlink(other);
}

/* ---- outputs ---- */

TEST(test_nothing_is_begun) {
    GQUANT_SAYS(2, "--out-dir DIR", source, "Q4_K_M", "Q6_K");
    GQUANT_SAYS(2, "standard output", source, "-", "Q6_K");
    GQUANT_SAYS(1, "--out-dir", source, folder, "Q6_K");
    assert_int_equal(count_files(folder), 2);
    GQUANT(0, "-q", source, "Q8_0");
    GQUANT_SAYS(0, "already exists and is complete", source, "Q8_0");
    char *again = PRINTED("-n", source, "Q8_0"), *forced = PRINTED("-n", "--force", source, "Q8_0");
    says(again, "Q8_0.gguf already exists: the run checks whether it is complete");
    says(forced, "Q8_0.gguf already exists: the run replaces it");
    free(again), free(forced);
    GQUANT_SAYS(1, "--force", "--out-dir", folder, source, "Q4_0", "Q8_0");
    unlink(in_folder(folder, "model-Q8_0.gguf"));
    assert_int_equal(count_files(folder), 2);
}

/* With --keep-split and --split-max-size OUT is a prefix, whether it gives one shard or several. */
TEST(test_prefixes) {
    const char *one = in_folder(folder, "one.gguf"), *first = in_folder(folder, "two-00001-of-00002.gguf");
    GQUANT(0, "-q", "--keep-split", source, in_folder(folder, "one"), "Q8_0");
    GQUANT(0, "-q", "--split-max-size", "3M", source, in_folder(folder, "two"), "Q8_0");
    assert_true(exists(one) && exists(first));
    GQUANT_SAYS(0, "already exists and is complete", "--keep-split", source, one, "Q8_0");
    unlink(one), unlink(first), unlink(in_folder(folder, "two-00002-of-00002.gguf"));
    GQUANT(0, "-q", source, in_folder(folder, "one"), "Q8_0"); /* elsewhere a name is a name */
    assert_true(exists(in_folder(folder, "one")));
    unlink(in_folder(folder, "one"));
    assert_int_equal(count_files(folder), 2);
}

TEST(test_every_type_can_be_planned) {
    const char *out = in_folder(folder, "out.gguf");
    for (size_t i = 0; i < gq_filetype_count(); i++)
        GQUANT(0, "-n", "--imatrix", matrix, source, out, gq_filetype_name(i));
    assert_false(exists(out));
    assert_int_equal(count_files(folder), 2);
}

int main(void) { return tests_run(set_up, tear_down); }
