/* Memory that runs out at any allocation of setting up and running a model: a clear error each time, and
 * nothing is lost. */
#include "tests/memory/memory.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/forwarding.h"

TEST(every_allocation_may_fail) {
    /* All there is to allocate. */
    static const char *const names[] = {"deepseek2", "phimoe", "qwen35moe", "falcon-h1", "jamba"};
    uint32_t ids[VARIANT_CONTEXT];
    for (size_t i = 0; i < VARIANT_CONTEXT; i++) ids[i] = variant_id(i);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        model_save(variant_model(variant_named(names[k]), GGUF_F32, NULL), path("model.gguf"));
        model_source g = open_model(path("model.gguf"));
        long n = 1;
        for (bool ok = false; !ok; n++) {
            gq_error e = {0};
            size_t vocabulary;
            fail_at = n;
            float *z = forward_whole(
                &g, &(forwarding){.ids = ids, .n = VARIANT_CONTEXT, .context = VARIANT_CONTEXT, .threads = 1},
                &vocabulary, &e);
            ok = fail_at > 0; /* it did not come to that */
            fail_at = 0;
            if (ok != (z != NULL)) fail_msg("%s: allocation %ld", names[k], n);
            if (!ok && !strstr(e.text, "memory")) fail_msg("allocation %ld: '%s'", n, e.text);
            free(z);
        }
        assert_true(n > 10);
        model_close(&g);
    }
}

int main(void) { return tests_run(folder_make, folder_remove); }
