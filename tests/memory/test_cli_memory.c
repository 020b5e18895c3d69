/* Memory that runs out while the command checks whether a file may be written is a failure, not bad usage:
 * the same command line works the next time. */
#include "cli/options/options.h"
#include "tests/memory/memory.h"
#include "tests/support/folder.h"
#include "tests/support/model.h"

static const char *const written[] = {"report", "recipe-out", "logits"};
enum { OPTIONS = sizeof written / sizeof *written };

TEST(memory_that_runs_out_is_no_bad_usage) {
    const char *in = path("in.gguf"), *to = path("to.json");
    request r = {.command = CMD_EVALUATE, .arguments = &in, .n_arguments = 1};
    for (size_t i = 0; i < OPTIONS; i++) {
        bool reached = true;
        long failures = 0;
        for (long n = 1; reached; n++) {
            gq_error e = {.text = ""};
            fail_at = n;
            bool ok = paths_check_written(&r, written[i], to, &e);
            reached = fail_at == 0, fail_at = 0;
            if (!ok && (e.status != GQ_FAILED || !strstr(e.text, "out of memory")))
                fail_msg("--%s, allocation %ld: status %d: %s", written[i], n, e.status, e.text);
            failures += !ok;
        }
        assert_true(failures > 0);
    }
}

TEST(an_input_is_bad_usage) {
    const char *in = path("in.gguf"), *to = path(".to.json.gquant-new");
    gq_error e;
    assert_int_equal(link(in, to), 0);
    request r = {.command = CMD_EVALUATE, .arguments = &in, .n_arguments = 1};
    for (size_t i = 0; i < OPTIONS; i++) {
        assert_false(paths_check_written(&r, written[i], path("to.json"), &e));
        assert_int_equal(e.status, GQ_USAGE);
        assert_non_null(strstr(e.text, "is one of the inputs"));
    }
    assert_int_equal(unlink(to), 0);
}

int main(void) { return tests_run(folder_with_model, folder_remove); }
