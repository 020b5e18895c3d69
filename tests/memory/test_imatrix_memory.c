/* Memory that runs out, files that shrink while they are read: an error each time, and nothing is lost. */
#include "imatrix/imatrix.h"
#include "quantize/quantize.h"
#include "tests/memory/memory.h"
#include "tests/support/imatrix_files.h"

#define Q "blk.1.attn_q.weight"
#define X "blk.0.ffn_up_exps.weight"

static const float values[4] = {1, 2, 3, 4};

static blob dat(void) {
    blob b = {0};
    put32(&b, 2);
    put_entry(&b, Q, 3, values, 4);
    put_entry(&b, X, 3, values, 4);
    put_trailer(&b, 9, "set");
    put(&b, "behind", 6);
    return b;
}

/* With warnings, activations, and more counts than the other file has. */
static blob gguf(void) {
    const piece pieces[] = {
        {Q ".in_sum2", {4, 1}, values, 0},          {Q ".counts", {1, 1}, values, 0},
        {Q ".in_sum", {4, 1}, values, 0},           {X ".in_sum2", {2, 2}, values, 0},
        {X ".counts", {1, 2}, (float[2]){0, 5}, 0}, {"blk.2.only.in_sum2", {4, 1}, values, 0},
        {"blk.2.only.counts", {1, 1}, values, 0}};
    return container(pieces, sizeof pieces / sizeof *pieces, META_DATASETS, NULL, 0);
}

/* All this room does, of which exactly one allocation fails. False with a message, or true. */
static bool everything(const blob *first, const blob *second, gq_error *e) {
    imatrix a = {0}, b = {0};
    gq_file file;
    uint8_t *bytes[2] = {0};
    uint64_t size;
    gq_imatrix_row stats[8];
    bool ok = gq_file_memory(&file, "first", first->bytes, first->n, NULL, e) && imatrix_read(&a, &file, e);
    ok = ok && gq_file_memory(&file, "second", second->bytes, second->n, NULL, e) &&
         imatrix_read(&b, &file, e);
    ok = ok && imatrix_check(&a, "first", e) && imatrix_check(&b, "second", e);
    ok = ok && imatrix_merge(&a, &b, "second", e) && importance_statistics(&a, stats, e);
    ok = ok && imatrix_write_dat(&a, &bytes[0], &size, e) && imatrix_write_gguf(&a, &bytes[1], &size, e);
    free(bytes[0]), free(bytes[1]);
    imatrix_free(&a), imatrix_free(&b);
    return ok;
}

TEST(memory_runs_out) {
    blob plain[2] = {dat(), gguf()}, z[2] = {zipped(&plain[0]), zipped(&plain[1])};
    const blob *pairs[][2] = {{&plain[0], &plain[1]},
                              {&plain[1], &plain[0]},
                              {&plain[1], &plain[1]},
                              {&z[0], &z[1]},
                              {&z[1], &z[0]}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        long n = 0;
        for (bool ok = false; !ok;) {
            gq_error e = {0};
            fail_at = ++n;
            ok = everything(pairs[i][0], pairs[i][1], &e);
            assert_int_equal(ok, fail_at > 0); /* none failed */
            fail_at = 0;
            if (!ok && !holds(e.text, "out of memory: ")) fail_msg("allocation %ld: %s", n, e.text);
        }
        assert_true(n > 20);
    }
    for (int i = 0; i < 2; i++) free(plain[i].bytes), free(z[i].bytes);
}

TEST(file_shrinks) {
    char *folder = temporary_folder();
    char path[4096];
    snprintf(path, sizeof path, "%s/matrix", folder);
    blob plain[2] = {dat(), gguf()}, files[4] = {plain[0], plain[1], zipped(&plain[0]), zipped(&plain[1])};
    for (int i = 0; i < 4; i++) {
        for (size_t n = 0; n < files[i].n; n++) {
            gq_file file;
            gq_error e = {0};
            imatrix im;
            write_whole(path, files[i].bytes, files[i].n);
            assert_true(gq_file_open(&file, path, &e));
            assert_int_equal(truncate(path, (off_t)n), 0);
            if (imatrix_read(&im, &file, &e)) {
                imatrix_free(&im); /* what went was not needed: text behind the end, or padding */
                assert_true(i == 0 ? n >= files[i].n - 6 : i == 1 && n >= files[i].n - 28);
            } else if (!holds(e.text, path) || !holds(e.text, "shrank")) {
                fail_msg("cut to %zu bytes: %s", n, e.text);
            }
        }
        free(files[i].bytes);
    }
    remove_folder(folder);
}

int main(void) { return tests_run(NULL, NULL); }
