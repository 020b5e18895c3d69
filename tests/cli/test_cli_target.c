/* Targets through the command: several in one run, recipes of what was found, where measurements are. */
#include "tests/support/one_model.h"

static const char *path(const char *name) { return in_folder(folder, name); }

/* The types of all tensors of an output of a report, one after the other. */
static char *types_in(const json *report, size_t output) {
    const json *tensors = json_need(&json_need(report, "outputs")->items[output], "tensors");
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    for (size_t i = 0; i < tensors->n; i++) fprintf(to, "%s ", json_text(&tensors->items[i], "to", ""));
    fclose(to);
    return text;
}

TEST(targets_and_types_in_one_run) {
    static const char *const outputs[] = {"model-4.5bpw.gguf", "model-3MB.gguf", "model-Q8_0.gguf"};
    static const char *const recipes[] = {"types-4.5bpw.txt", "types-3MB.txt", "types-Q8_0.txt"};
    json *report = PLAN(folder, "--target-bpw=4.5", "--target-size", "3M", "--recipe-out", path("types.txt"),
                        source, "--out-dir", folder, "Q8_0");
    for (size_t i = 0; i < 3; i++) {
        assert_true(exists(path(recipes[i])));
        char *types = types_in(report, i);
        json *again = PLAN(folder, "--tensor-type-file", path(recipes[i]), source, "Q5_K_S");
        char *same = types_in(again, 0);
        assert_string_equal(types, same);
        json_free(again);
        free(types), free(same);
    }
    json_free(report);
    GQUANT(0, "-q", "--effort=fast", "--target-bpw=4.5", "--target-size", "3M", source, "--out-dir", folder,
           "Q8_0");
    for (size_t i = 0; i < 3; i++) {
        assert_true(exists(path(outputs[i])));
        unlink(path(outputs[i])), unlink(path(recipes[i]));
    }
    unlink(path("model-F16.gguf.gquant-measure"));
}

TEST(where_measurements_are_is_told) {
    size_t files = count_files(folder);
    const char *out = path("out.gguf");
    char *says = gquant(
        0, (const char *const[]){"--dry-run", "--measure-file=none", "--target-bpw", "5", source, out, NULL});
    assert_null(strstr(says, "kept"));
    assert_non_null(strstr(says, "measuring"));
    free(says);
    assert_int_equal(count_files(folder), files);
    says = gquant(0, (const char *const[]){"--dry-run", "--target-bpw", "5", source, out, NULL});
    assert_non_null(strstr(says, "measuring"));
    assert_non_null(strstr(says, "measurements are saved in"));
    free(says);
    assert_int_equal(count_files(folder), files + 1);
    says = gquant(0, (const char *const[]){"--target-bpw", "5", source, out, NULL});
    assert_null(strstr(says, "measuring"));
    assert_non_null(strstr(says, "measurements are saved in"));
    free(says);
    assert_int_equal(count_files(folder), files + 2);
    json *report = PLAN(folder, "--target-bpw", "5", source, out);
    assert_non_null(strstr(json_text(report, "measurements", ""), "model-F16.gguf.gquant-measure"));
    json_free(report);
    unlink(out), unlink(path("model-F16.gguf.gquant-measure"));
    GQUANT(0, "--measure-file", path("kept"), "--target-bpw", "5", source, out);
    assert_true(exists(path("kept")) && !exists(path("model-F16.gguf.gquant-measure")));
    unlink(out), unlink(path("kept"));
    GQUANT_SAYS(1, "is not a file of measurements", "--measure-file", matrix, "--target-bpw", "5", source,
                out);
    assert_int_equal(count_files(folder), files);
}

TEST(recipes_replace_no_model) {
    const char *out = path("out.gguf");
    GQUANT_SAYS(2, "is a text", "--dry-run", "--recipe-out", path("other.gguf"), source, out, "Q8_0");
    GQUANT_SAYS(2, "this run reads or writes", "--dry-run", "--recipe-out", source, source, out, "Q8_0");
    GQUANT_SAYS(2, "this run reads or writes", "--dry-run", "--recipe-out", matrix, "--imatrix", matrix,
                source, out, "Q8_0");
    GQUANT_SAYS(1, "does not exist", "--dry-run", "--recipe-out", path("no/recipe"), source, out, "Q8_0");
    GQUANT_SAYS(2, "two recipes", "--dry-run", "--recipe-out", path("r"), source, "a.gguf=Q8_0",
                "b.gguf=Q8_0");
    assert_false(exists(path("r-Q8_0")));
}

int main(void) { return tests_run(set_up, tear_down); }
