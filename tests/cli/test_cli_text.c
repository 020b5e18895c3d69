/* gquant text: the texts that come with it, their bytes, and what is refused. */
#include "tests/support/command.h"
#include "tests/support/folder.h"

FIXTURE(set_up) {
    folder = temporary_folder();
    return 0;
}

/* Figures that were measured on these texts are of these bytes: a changed text gets a new name. */
TEST(the_texts_are_those_of_published_figures) {
    static const char *const digests[][2] = {
        {"c.txt", "31362e72616fa651f0b138a27d7f8fa5df6f12035165f7d0d2034d0a5bbb51f7"},
        {"h.txt", "c2b32cac2dd5d76462003c98d7a726cbdc68b771e7b7de9ce638ee02158969f3"}};
    char *told = PRINTED("text", "--calibration", path("c.txt"), "--held-out", path("h.txt"));
    says(told, "over 50,000 tokens"), says(told, "over 10,000 tokens"), says(told, "License: MIT");
    for (size_t i = 0; i < 2; i++) {
        char sha256[GQ_SHA256_TEXT];
        gq_error e;
        assert_true(gq_file_sha256(path(digests[i][0]), sha256, &e));
        assert_string_equal(sha256, digests[i][1]);
        says(told, sha256);
    }
    free(told);
}

TEST(the_texts_are_listed) {
    char *listed = PRINTED("text"), *text = PRINTED("text", "--json");
    says(listed, "--calibration"), says(listed, "--held-out"), says(listed, "License: MIT");
    json *all = json_parse(text);
    assert_int_equal(all->n, 2);
    assert_string_equal(json_text(&all->items[1], "name", ""), "held-out");
    assert_int_equal(json_number(&all->items[1], "bytes", 0), 35449);
    json_free(all);
    free(listed), free(text);
}

TEST(files_that_are_there_stay) {
    write_whole(path("there.txt"), "mine", 4);
    GQUANT_SAYS(1, "already exists; --force replaces it", "text", "--calibration", path("new.txt"),
                "--held-out", path("there.txt"));
    assert_int_equal(access(path("new.txt"), F_OK), -1); /* nothing is written where something is refused */
    free(PRINTED("text", "--force", "--held-out", path("there.txt")));
    GQUANT_SAYS(0, "there.txt: already exists and is complete", "text", "--held-out", path("there.txt"));
    GQUANT_SAYS(1, "there.txt already exists", "text", "--calibration", path("there.txt"));
    GQUANT_SAYS(2, "", "text", "--calibration", path("one.txt"), "--held-out", path("one.txt"));
    GQUANT_SAYS(2, "", "text", "calibration");
}

int main(void) { return tests_run(set_up, folder_remove); }
