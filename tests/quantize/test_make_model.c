/* make-model: a folder holds the weights of the file that the same options give, and a vocabulary that is
 * read.
 */
#include "tests/support/command.h"
#include "tests/support/folder.h"

#include <unistd.h>

#define MAKE(...) make_model((const char *const[]){__VA_ARGS__, NULL})
#define SMALL "--weights", "1e6"

static void assert_unchanged(const char *a, const char *b) {
    char *told = PRINTED("compare", path(a), path(b));
    says(told, "no weight has changed");
    free(told);
}

TEST(a_folder_holds_the_weights_of_the_file) {
    MAKE(SMALL, "--type", "BF16", path("file.gguf"));
    MAKE(SMALL, "--folder", path("one"));
    MAKE("--folder", "--shards", "3", path("three"), "1e6");
    assert_true(exists(path("one/model.safetensors")));
    assert_true(exists(path("three/model-00003-of-00003.safetensors")));
    assert_unchanged("file.gguf", "one");
    assert_unchanged("file.gguf", "three");
}

TEST(so_does_one_of_experts) {
    MAKE(SMALL, "--experts", "3", path("experts.gguf"));
    MAKE(SMALL, "--experts", "3", "--type", "F16", "--shards", "2", "--folder", path("experts"));
    assert_unchanged("experts.gguf", "experts");
}

/* 3 bits of mantissa: an error of at most 1/16 of a weight, 1/38 in the mean. */
TEST(numbers_of_8_bits_are_near) {
    MAKE(SMALL, "--experts", "2", "--type", "F32", path("exact.gguf"));
    MAKE(SMALL, "--experts", "2", "--type", "F8_E4M3", "--folder", path("eight"));
    char *info = PRINTED("info", path("eight"));
    says(info, "blk.0.ffn_down_exps.weight");
    free(info);
    char *told = PRINTED("compare", path("exact.gguf"), path("eight"));
    says(told, "relative error 0.02");
    free(told);
}

static void note_bytes(void *user, const gq_progress *now) { *(uint64_t *)user = now->bytes_total; }

/* Not those of the numbers that they are delivered as, which are up to four times as many. */
TEST(progress_counts_the_bytes_that_are_stored) {
    gq_error e;
    uint64_t told = 0;
    MAKE(SMALL, "--type", "F8_E4M3", "--folder", path("stored"));
    gq_model *m = gq_model_open(path("stored"), &e);
    if (!m) fail_msg("%s", e.text);
    uint64_t stored = gq_model_summary(m)->tensor_bytes;
    gq_model_close(m);
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = &told, .progress = note_bytes};
    gq_verification *v = gq_verify(path("stored"), NULL, 0, 2, &callbacks, &e);
    if (!v) fail_msg("%s", e.text);
    gq_verification_free(v);
    /* Parts of tensors are rounded down. */
    if (!(told <= stored && told > stored - stored / 1000))
        fail_msg("verify: %llu bytes of %llu", (unsigned long long)told, (unsigned long long)stored);
    gq_output out = {.path = path("stored.gguf"), .filetype = "Q8_0"};
    gq_options o = {.size = sizeof o, .input = path("stored"), .outputs = &out, .n_outputs = 1};
    gq_plan *plan = gq_plan_new(&o, &e);
    if (!plan) fail_msg("%s", e.text);
    if (!gq_run(plan, &callbacks, NULL, &e)) fail_msg("%s", e.text);
    gq_plan_free(plan);
    if (!(told <= stored && told > stored - stored / 1000))
        fail_msg("a run: %llu bytes of %llu", (unsigned long long)told, (unsigned long long)stored);
}

TEST(its_importance_fits_and_its_vocabulary_is_read) {
    MAKE(SMALL, "--shards", "2", "--imatrix", path("importance.dat"), "--folder", path("made"));
    GQUANT(0, "--imatrix", path("importance.dat"), path("made"), "Q4_K_M");
    assert_true(exists(path("made-Q4_K_M.gguf")));
    write_whole(path("text.txt"), "baba baba", 9);
    char *tokens = PRINTED("tokenize", path("made"), path("text.txt"));
    assert_string_equal(tokens, "0\n458\n459\n"); /* the start of a text, and word 100 in both forms */
    free(tokens);
}

/* Whether two files have the same bytes; their sizes must be equal. */
static bool same_bytes(const char *a, const char *b) {
    size_t n, m;
    uint8_t *x = read_whole(path(a), &n), *y = read_whole(path(b), &m);
    assert_int_equal(n, m);
    bool same = memcmp(x, y, n) == 0;
    free(x), free(y);
    return same;
}

TEST(the_same_options_give_the_same_bytes) {
    MAKE(SMALL, "--folder", path("a")), MAKE(SMALL, "--folder", path("b"));
    assert_true(same_bytes("a/model.safetensors", "b/model.safetensors"));
    MAKE(SMALL, "--folder", "--seed", "2", path("b"));
    assert_false(same_bytes("a/model.safetensors", "b/model.safetensors"));
}

/* The adapter is merged, becomes a file of its own beside its folder, and no real model behind a link is written over. */
TEST(an_adapter_is_made_for_the_folder) {
    MAKE(SMALL, "--folder", "--lora", path("lora"), path("base"));
    char *adapter = strdup(path("lora/")), *base = strdup(path("base"));
    GQUANT(0, "-q", base, "--lora", adapter, path("merged.gguf"), "F32");
    GQUANT_SAYS(0, "is given twice, and merged twice", base, "--lora", adapter, "--lora", adapter,
                "--dry-run", path("twice.gguf"), "F32");
    GQUANT(0, "-q", base, path("plain.gguf"), "F32");
    char *told = PRINTED("compare", path("plain.gguf"), path("merged.gguf"));
    assert_null(strstr(told, "no weight has changed"));
    free(told);
    GQUANT(0, "-q", adapter, "F16", "--base", base);
    assert_true(exists(path("lora-F16.gguf")));
    free(adapter), free(base);
    write_whole(path("real"), "a model", 7);
    assert_int_equal(symlink("real", path("link.gguf")), 0);
    MAKE(SMALL, path("link.gguf"));
    size_t n;
    uint8_t *real = read_whole(path("real"), &n);
    assert_int_equal(n, 7);
    free(real);
}

TEST(its_options_are_checked_and_told) {
    char *help;
    assert_int_equal(run_command((const char *const[]){GQ_MAKE_MODEL, "--help", NULL}, &help, NULL), 0);
    says(help, "--shards N");
    free(help);
    const char *const wrong[][3] = {
        {"--type", "F8_E4M3"}, {"--shards", "2"}, {"--width", "100"}, {"--type", "Q8_0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(run_command((const char *const[]){GQ_MAKE_MODEL, wrong[i][0], wrong[i][1],
                                                           path("none.gguf"), NULL},
                                     NULL, NULL),
                         2);
    assert_false(exists(path("none.gguf")));
}

int main(void) { return tests_run(folder_make, folder_remove); }
