/* Memory that runs out at any allocation of a run: a clear error, nothing left behind. (Leaks are found where
 * the tests are built with AddressSanitizer.) */
#include "tests/support/model.h"

#include <dirent.h>

#include "tests/memory/memory.h"
#include "tests/support/folder.h"

FIXTURE(set_up) {
    folder = temporary_folder();
    model *m = model_llama(2);
    model_set_array(m, "llama.list", GGUF_U32, (uint32_t[2]){1, 2}, 2);
    model_save(m, path("in.gguf"));
    FILE *f = fopen(path("matrix.dat"), "wb");
    static const char name[] = "blk.1.attn_q.weight";
    const int32_t one = 1, length = sizeof name - 1, columns = 256;
    float *x = random_values(256, 1);
    for (int i = 0; i < 256; i++) x[i] *= x[i];
    fwrite(&one, 4, 1, f), fwrite(&length, 4, 1, f), fwrite(name, 1, (size_t)length, f);
    fwrite(&one, 4, 1, f), fwrite(&columns, 4, 1, f), fwrite(x, 4, 256, f);
    free(x);
    fclose(f);
    return 0;
}

static bool run(const gq_options *o, gq_error *e) {
    gq_plan *plan = gq_plan_new(o, e);
    bool done = plan && gq_run(plan, NULL, NULL, e);
    gq_plan_free(plan);
    return done;
}

/* Names in the folder that begin with a dot are removed; returns how many names are left. */
static size_t clear_hidden(void) {
    DIR *dir = opendir(folder);
    size_t left = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..")) continue;
        if (*d->d_name == '.')
            unlinkat(dirfd(dir), d->d_name, 0);
        else
            left++;
    }
    closedir(dir);
    return left;
}

/* Nothing is under the output's name, and nothing hidden that was not told of. */
static void check_failure(long at, const gq_error *e) {
    if (!strstr(e->text, "memory")) fail_msg("allocation %ld: '%s'", at, e->text);
    if (count_files(folder) > 2 && !strstr(e->text, "continues from there"))
        fail_msg("allocation %ld left files: %s", at, e->text);
    assert_int_equal(clear_hidden(), 2);
}

/* Every allocation fails once. */
static void fail_each(const gq_options *o) {
    gq_error e;
    bool done = false;
    long failures = 0;
    for (long at = 1; !done; at++) {
        memset(&e, 0, sizeof e);
        fail_at = at;
        done = run(o, &e);
        bool reached = fail_at == 0;
        fail_at = 0;
        if (done && reached) { /* one that was not needed */
            assert_int_equal(unlink(o->outputs[0].path), 0);
            done = false;
        } else if (!done) {
            failures++;
            check_failure(at, &e);
        }
    }
    assert_true(failures > 30);
    assert_int_equal(unlink(o->outputs[0].path), 0);
}

TEST(memory_runs_out) {
    static const char *const overrides[] = {"a.b=int:1", "a.c=str:x"}, *const type = "attn_k=q5_0",
                             *const keep = "attn_output", *const only = "attn_q";
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_K_M"};
    gq_options o = {.size = sizeof o,
                    .sync_ms = 3600000,
                    /* no allocation in the background */ .input = path("in.gguf"),
                    .outputs = &out,
                    .n_outputs = 1,
                    .threads = 1,
                    .effort = GQ_EFFORT_DEFAULT};
    o.imatrix = path("matrix.dat"), o.prune_layers = "0";
    o.override_kv = (gq_list){overrides, 2}, o.tensor_types = (gq_list){&type, 1},
    o.keep = (gq_list){&keep, 1};
    o.include_weights = (gq_list){&only, 1};
    fail_each(&o);
}

TEST(memory_runs_out_while_splitting) {
    gq_output out = {.path = path("s.gguf"), .filetype = "Q8_0"};
    gq_options o = {.size = sizeof o,
                    .sync_ms = 3600000,
                    /* no allocation in the background */ .input = path("in.gguf"),
                    .outputs = &out,
                    .n_outputs = 1,
                    .threads = 1,
                    .effort = GQ_EFFORT_DEFAULT};
    gq_error e;
    o.split_max_size = 1000000;
    for (long at = 1;; at++) {
        fail_at = at;
        bool done = run(&o, &e), reached = fail_at == 0;
        fail_at = 0;
        if (done && !reached) break;
        if (!done) check_failure(at, &e);
        for (int s = 1; done && s <= 2; s++) {
            char name[64];
            snprintf(name, sizeof name, "s-0000%d-of-00002.gguf", s);
            assert_int_equal(unlink(path(name)), 0);
        }
    }
}

int main(void) { return tests_run(set_up, folder_remove); }
