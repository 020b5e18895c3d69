/* llama.cpp's release library loads what gquant writes, of every file type, and talks. Needs the library's
 * folder in GQUANT_PEER. */
#include "quantize/gquant.h"
#include "tests/support/command.h"

static const char *peer(void) {
    const char *library = getenv("GQUANT_PEER");
    if (!library || !*library)
        print_message("skipped: GQUANT_PEER does not name the release library's folder\n"), skip();
    setenv("LD_LIBRARY_PATH", library, 1);
    return library;
}

/* A greedy continuation of 12 tokens, malloc'ed; fails when the library does not take the model. */
static char *continuation(const char *library, const char *path) {
    char *text, *err;
    int status = run_command((const char *const[]){GQ_PEER_RUN, library, path, "12", NULL}, &text, &err);
    if (status != 0) fail_msg("%s: %s", path, err);
    free(err);
    return text;
}

static void every_type(const char *source, const char *matrix, bool talks) {
    const char *library = peer();
    char *folder = temporary_folder(), *original = continuation(library, source);
    const char *out = in_folder(folder, "out.gguf");
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        char *err;
        int status = run_command(
            (const char *const[]){NULL, "-q", "--imatrix", matrix, source, out, gq_filetype_name(i), NULL},
            NULL, &err);
        if (status != 0) fail_msg("%s: status %d: %s", gq_filetype_name(i), status, err);
        free(err);
        char *text = continuation(library, out);
        print_message("%-10s %s", gq_filetype_name(i), text);
        assert_true(strlen(text) > 12);
        /* Eight bits and more change no likeliest word of a trained model. */
        if (talks && (strstr("Q8_0 F16 BF16 F32 COPY", gq_filetype_name(i))))
            assert_string_equal(text, original);
        free(text);
        unlink(out);
    }
    free(original);
    remove_folder(folder);
}

TEST(test_trained_model) {
    peer(), shared_path("models/imatrix.gguf"); /* skip before there is anything to free */
    char *source = strdup(shared_path("models/tiny-f16.gguf")),
         *matrix = strdup(shared_path("models/imatrix.gguf"));
    every_type(source, matrix, true);
    free(source), free(matrix);
}

TEST(test_made_up_model) {
    peer();
    char *folder = model_folder(), *source = strdup(in_folder(folder, "model-F16.gguf")),
         *matrix = strdup(in_folder(folder, "imatrix.dat"));
    every_type(source, matrix, false);
    free(source), free(matrix);
    remove_folder(folder);
}

TEST(test_mixture_of_experts) {
    peer();
    char *folder = temporary_folder();
    char *source = strdup(in_folder(folder, "moe-F16.gguf")),
         *matrix = strdup(in_folder(folder, "imatrix.dat"));
    make_model(
        (const char *const[]){"--weights", "6000000", "--experts", "4", "--imatrix", matrix, source, NULL});
    every_type(source, matrix, false);
    free(source), free(matrix);
    remove_folder(folder);
}

/* Every shard of a split output. */
TEST(test_shards) {
    const char *library = peer();
    char *folder = model_folder(), *text;
    GQUANT(0, "-q", "--split-max-size", "1M", in_folder(folder, "model-F16.gguf"),
           in_folder(folder, "s.gguf"), "Q8_0");
    GQUANT(0, "-q", in_folder(folder, "model-F16.gguf"), in_folder(folder, "whole.gguf"), "Q8_0");
    char name[64];
    for (int n = 2; n < 30; n++) {
        snprintf(name, sizeof name, "s-00001-of-%05d.gguf", n);
        if (exists(in_folder(folder, name))) break;
    }
    text = continuation(library, in_folder(folder, name));
    char *whole = continuation(library, in_folder(folder, "whole.gguf"));
    assert_string_equal(text, whole);
    free(text), free(whole);
    remove_folder(folder);
}

int main(void) { return tests_run(NULL, NULL); }
