/* Jobs that are right but seldom: models without tensors, one place under two names. */
#include <sys/stat.h>

#include "tests/support/command.h"
#include "tests/support/folder.h"

static int set_up(void **state) {
    folder_with_model(state);
    model_save(model_new("llama", 1), path("none.gguf"));
    return 0;
}

TEST(a_model_without_tensors) {
    GQUANT(0, "-r", path("none.json"), path("none.gguf"), path("none-q.gguf"), "Q4_K_M");
    GQUANT(0, "verify", "-r", path("none.json"), path("none-q.gguf"));
    static const char other[] = "{\"outputs\": [{\"path\": \"none-q.gguf\"}]}";
    write_whole(path("other.json"), other, sizeof other - 1);
    GQUANT_SAYS(1, "no checksums", "verify", "-r", path("other.json"), path("none-q.gguf"));
    GQUANT(0, "--part", "1/2", path("none.gguf"), path("parts.gguf"), "Q4_K_M");
    GQUANT(0, "--part", "2/2", path("none.gguf"), path("parts.gguf"), "Q4_K_M");
    GQUANT(0, "--join", path("none.gguf"), path("parts.gguf"), "Q4_K_M");
    assert_same_file(path("none-q.gguf"), path("parts.gguf"));
}

/* Told before the work, and nothing is left. */
TEST(one_place_under_two_names) {
    char *dotted = NULL, *linked = NULL, *plain = NULL;
    assert_int_equal(symlink(".", path("same")), 0);
    assert_true(asprintf(&plain, "%s/a.gguf=Q8_0", folder) > 0);
    assert_true(asprintf(&dotted, "%s/./a.gguf=Q4_0", folder) > 0);
    assert_true(asprintf(&linked, "%s/same/a.gguf=Q4_0", folder) > 0);
    size_t files = count_files(folder);
    GQUANT_SAYS(2, "two outputs would be written to", path("in.gguf"), plain, dotted);
    GQUANT_SAYS(2, "two outputs would be written to", path("in.gguf"), linked, plain);
    assert_int_equal(count_files(folder), files);
    free(plain), free(dotted), free(linked);
}

/* Shards hold a digest of what they are made of: not of what other outputs of the run are made of. */
TEST(a_set_alone_or_beside_another) {
    char *own = model_folder(), *kept = NULL, *both = NULL, *alone = NULL;
    const char *in = in_folder(own, "model-F16.gguf"), *matrix = in_folder(own, "imatrix.dat");
    assert_int_equal(mkdir(in_folder(own, "both"), 0777) | mkdir(in_folder(own, "alone"), 0777), 0);
    assert_true(asprintf(&both, "%s/both/q.gguf=Q4_K_M", own) > 0);
    assert_true(asprintf(&alone, "%s/alone/f.gguf=F16", own) > 0);
    assert_true(asprintf(&kept, "%s/both/f.gguf=F16", own) > 0);
    GQUANT(0, "--imatrix", matrix, "--keep", "ffn", "--split-max-size", "6M", in, both, kept);
    GQUANT(0, "--imatrix", matrix, "--keep", "ffn", "--split-max-size", "6M", in, alone);
    assert_same_file(in_folder(own, "both/f-00001-of-00002.gguf"),
                     in_folder(own, "alone/f-00001-of-00002.gguf"));
    free(kept), free(both), free(alone);
    remove_folder(own);
}

int main(void) { return tests_run(set_up, folder_remove); }
