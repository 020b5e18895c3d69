/* What is told on the way takes no memory: running out of it there would end the program, while the engine
 * holds its lock and its unfinished files are in place. */
#include <fcntl.h>

#include "cli/cli.h"
#include "tests/memory/memory.h"
#include "tests/support/model.h"

TEST(callbacks_do_not_allocate) {
    char *folder = temporary_folder();
    char *in = strdup(in_folder(folder, "in.gguf")), *out = strdup(in_folder(folder, "out.gguf"));
    model_save(model_llama(1), in);
    gq_output output = {.path = out, .filetype = "Q4_K_M"};
    gq_options o = {.size = sizeof o, .input = in, .outputs = &output, .n_outputs = 1, .threads = 1};
    gq_plan *plan = gq_plan_new(&o, NULL);
    assert_non_null(plan);
    progress p;
    progress_start(&p, &(request){.verbose = true, .said = &(said){.log = -1}}, plan);
    p.terminal = true;
    p.events = open("/dev/null", O_WRONLY);
    assert_true(p.events >= 0);
    gq_callbacks callbacks = progress_callbacks(&p);
    size_t n;
    gq_plan_tensors(plan, 0, &n);
    fail_at = 1;
    for (uint64_t i = 0; i < n; i++) {
        gq_progress now = {.bytes_done = i, .bytes_total = n, .weights_done = i, .seconds = (double)i};
        gq_loss loss = {.n = 1 + i, .x2 = 1, .e2 = 0.1, .wx2 = 2, .we2 = 0.1};
        callbacks.progress(callbacks.user, &now);
        callbacks.tensor_done(callbacks.user, 0, i, &loss);
        assert_false(callbacks.cancelled(callbacks.user));
    }
    progress_end(&p, NULL);
    close(p.events);
    assert_int_equal(fail_at, 1);
    fail_at = 0;
    gq_plan_free(plan);
    free(in), free(out);
    remove_folder(folder);
}

int main(void) { return tests_run(NULL, NULL); }
