/* The GGUF layout; the shared material in both layouts; the malformed corpus. */
#include <dirent.h>
#include <math.h>

#include "imatrix/imatrix.h"
#include "tests/support/imatrix_files.h"

#define Q "blk.0.attn_q.weight"
#define X "blk.0.ffn_down_exps.weight"

enum { F16 = 1, I32 = 26 };

static const float q_sums[4] = {512, 1024, 0, 256}, q_counts[1] = {512};
static const float x_sums[6] = {9, 18, 0, 0, 4, 8}, x_counts[3] = {9, 0, 4};
static const float q_acts[4] = {-1, 2, -3, 4}, stats[12] = {NAN, NAN};

/* The experts first: a reader must sort. */
static const piece good[] = {
    {X ".in_sum2", {2, 3}, x_sums, 0},       {X ".counts", {1, 3}, x_counts, 0},
    {Q ".in_sum2", {4, 1}, q_sums, 0},       {Q ".counts", {1, 1}, q_counts, 0},
    {Q ".in_sum", {4, 1}, q_acts, 0},        {Q ".stats", {12, 1}, stats, 0},
    {"something.else", {3, 1}, q_sums, I32},
};
enum { GOOD = sizeof good / sizeof *good };

static void expect_good(const imatrix *im) {
    gq_error e;
    assert_false(im->legacy);
    assert_int_equal(im->n_entries, 2);
    assert_string_equal(im->entries[0].name, Q);
    const imatrix_entry *q = imatrix_find(im, Q), *x = imatrix_find(im, X);
    assert_ptr_equal(x, q + 1);
    assert_int_equal(q->n_values, 4);
    assert_int_equal(q->n_counts, 1);
    assert_int_equal(q->n_unseen, 0);
    assert_memory_equal(q->activations, q_acts, sizeof q_acts);
    assert_null(x->activations);
    assert_int_equal(x->n_counts, 3);
    assert_int_equal(x->n_unseen, 1);
    float a[4];
    imatrix_column(q, 0, 4, a);
    assert_true(a[0] == 1 && a[1] == 2 && a[2] == 0 && a[3] == 0.5f);
    imatrix_column(x, 0, 2, a);
    assert_true(a[0] == 1 && a[1] == 2);
    imatrix_column(x, 1, 2, a); /* nobody came: all columns count the same */
    assert_true(a[0] == 1 && a[1] == 1);
    imatrix_column(x, 2, 2, a);
    assert_true(a[0] == 1 && a[1] == 2);
    assert_true(imatrix_check(im, "matrix", &e));
    assert_true(imatrix_fits(x, 2, 3, "matrix", &e));
    assert_false(imatrix_fits(x, 6, 1, "matrix", &e));
    assert_true(holds(e.text, X) && holds(e.text, "3 counts"));
    assert_false(imatrix_fits(x, 1, 6, "matrix", &e));
    assert_true(imatrix_fits(q, 2, 2, "matrix", &e)); /* one count for both matrices */
}

TEST(reads) {
    imatrix im;
    read_good(&im, container(good, GOOD, META_ALL, NULL, 0));
    expect_good(&im);
    assert_null(im.warnings);
    assert_int_equal(im.chunk_count, 40);
    assert_int_equal(im.chunk_size, 256);
    assert_int_equal(im.n_datasets, 2);
    assert_string_equal(im.datasets[0], "first.txt");
    assert_string_equal(im.datasets[1], "second\n.txt");
    imatrix_free(&im);

    blob b = container(good, GOOD, META_ALL, NULL, 0);
    read_good(&im, zipped(&b));
    free(b.bytes);
    expect_good(&im);
    imatrix_free(&im);
}

/* Every cut, plain and compressed, is refused (the padding of the last tensor may go). */
TEST(truncation) {
    blob b = container(good, GOOD, META_ALL, NULL, 0), z = zipped(&b);
    for (size_t n = 0; n < b.n + z.n; n++) {
        bool plain = n < b.n;
        imatrix im;
        gq_error e = {0};
        bool ok = plain ? read_part(&im, &b, n, &e) : read_part(&im, &z, n - b.n, &e);
        assert_int_equal(ok, plain && n >= b.n - 32 + 3 * 4);
        if (ok)
            imatrix_free(&im);
        else
            assert_true(holds(e.text, "matrix: "));
    }
    free(b.bytes), free(z.bytes);
}

TEST(metadata) {
    imatrix im;
    read_good(&im, container(good, GOOD, META_NONE, NULL, 0));
    expect_good(&im);
    assert_true(holds(im.warnings, "imatrix.datasets is missing\n"));
    assert_true(holds(im.warnings, "imatrix.chunk_count is missing\n"));
    assert_true(holds(im.warnings, "imatrix.chunk_size is missing\n"));
    assert_int_equal(im.chunk_size, 0);
    imatrix_free(&im);

    /* Other integer types will do. */
    blob extra = {0};
    put_string(&extra, "imatrix.chunk_count"), put32(&extra, 5), put32(&extra, 41);
    put_string(&extra, "imatrix.chunk_size"), put32(&extra, 10), put64(&extra, 128);
    read_good(&im, container(good, GOOD, META_DATASETS, &extra, 2));
    assert_null(im.warnings);
    assert_int_equal(im.chunk_count, 41);
    assert_int_equal(im.chunk_size, 128);
    imatrix_free(&im);
    extra.n = 0;

    put_string(&extra, "imatrix.chunk_count"), put32(&extra, 5), put32(&extra, -1);
    put_string(&extra, "imatrix.chunk_size"), put32(&extra, 10), put64(&extra, 1ull << 32);
    put_string(&extra, "imatrix.datasets"), put32(&extra, 8), put_string(&extra, "text");
    read_good(&im, container(good, GOOD, META_NONE, &extra, 3));
    expect_good(&im);
    assert_true(holds(im.warnings, "imatrix.chunk_count is not a 32-bit count\n"));
    assert_true(holds(im.warnings, "imatrix.chunk_size is not a 32-bit count\n"));
    assert_true(holds(im.warnings, "imatrix.datasets is not an array of strings\n"));
    imatrix_free(&im);
    extra.n = 0;

    put_string(&extra, "imatrix.datasets"), put32(&extra, 9), put32(&extra, 0), put64(&extra, 0);
    read_good(&im, container(good, GOOD, META_COUNT | META_SIZE, &extra, 1));
    assert_null(im.warnings); /* an empty array of anything */
    assert_int_equal(im.n_datasets, 0);
    imatrix_free(&im);
    extra.n = 0;

    put_string(&extra, "imatrix.datasets"), put32(&extra, 9), put32(&extra, 0), put64(&extra, 2),
        put(&extra, "ab", 2);
    read_good(&im, container(good, GOOD, META_COUNT | META_SIZE, &extra, 1));
    assert_true(holds(im.warnings, "imatrix.datasets is not an array of strings\n"));
    imatrix_free(&im);
    extra.n = 0;

    /* More names than anybody reads. */
    put_string(&extra, "imatrix.datasets"), put32(&extra, 9), put32(&extra, 8),
        put64(&extra, IMATRIX_MAX_DATASETS + 9);
    for (int i = 0; i < IMATRIX_MAX_DATASETS + 9; i++) put_string(&extra, i % 2 ? "" : "x");
    read_good(&im, container(good, GOOD, META_COUNT | META_SIZE, &extra, 1));
    assert_int_equal(im.n_datasets, IMATRIX_MAX_DATASETS);
    imatrix_free(&im);
    free(extra.bytes);
}

TEST(too_many_entries) {
    enum { N = IMATRIX_MAX_ENTRIES + 1 };
    piece *pieces = calloc(N, sizeof *pieces);
    char(*names)[24] = calloc(N, sizeof *names);
    assert_true(pieces && names);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof *names, "%d.counts", i);
        pieces[i] = (piece){names[i], {1, 1}, q_counts, 0};
    }
    refused(container(pieces, N, META_ALL, NULL, 0), "32769 entries", "at most 32768");
    free(pieces), free(names);
}

static blob just(piece a, piece b, size_t n) {
    const piece both[2] = {a, b};
    return container(both, n, META_ALL, NULL, 0);
}

TEST(damage) {
    const piece sums = {Q ".in_sum2", {4, 1}, q_sums, 0}, counts = {Q ".counts", {1, 1}, q_counts, 0};
    const piece none = {0};
    refused(just(sums, none, 1), Q, "no tensor '" Q ".counts'");
    refused(just(counts, none, 1), Q, "no tensor '" Q ".in_sum2'");
    refused(just((piece){Q ".in_sum", {4, 1}, q_acts, 0}, none, 1), Q, "no tensor");
    refused(just(none, none, 0), "not an imatrix", NULL);
    refused(just((piece){Q, {4, 1}, q_sums, 0}, none, 1), "not an imatrix", "in_sum2");
    refused(just((piece){Q ".in_sum2", {4, 1}, q_sums, I32}, counts, 2), Q, "I32");
    refused(just(sums, (piece){Q ".counts", {1, 1}, q_counts, I32}, 2), Q, "I32");
    refused(just(sums, (piece){Q ".counts", {1, 3}, x_counts, 0}, 2), Q, "4 sums and 3 counts");
    refused(just((piece){".in_sum2", {4, 1}, q_sums, 0}, (piece){".counts", {1, 1}, q_counts, 0}, 2),
            "only '.in_sum2'", NULL);
    refused(just((piece){".counts", {1, 1}, q_counts, 0}, none, 1), "only '.counts'", NULL);
    refused(just((piece){".in_sum", {4, 1}, q_acts, 0}, none, 1), "only '.in_sum'", NULL);
    refused(just(sums, sums, 2), Q, NULL);
    const piece wrong[] = {sums, counts, {Q ".in_sum", {2, 1}, q_acts, 0}};
    refused(container(wrong, 3, META_ALL, NULL, 0), Q, "2 plain sums");
    blob b = container(good, GOOD, META_ALL, NULL, 0);
    b.bytes[0] = 'g';
    refused(b, "not an imatrix", NULL);
}

/* Values and counts, and a count of zero that contradicts its sums. */
TEST(values) {
    static const float bad[] = {NAN, INFINITY, -INFINITY, -1};
    for (size_t i = 0; i < 4; i++) {
        float sums[4] = {1, 2, 3, bad[i]}, counts[2] = {3, bad[i]};
        const piece good_sums = {Q ".in_sum2", {4, 1}, q_sums, 0},
                    good_counts = {Q ".counts", {1, 1}, q_counts, 0};
        check_refuses(just((piece){Q ".in_sum2", {4, 1}, sums, 0}, good_counts, 2), Q, "value 3 of 4");
        check_refuses(just(good_sums, (piece){Q ".counts", {1, 2}, counts, 0}, 2), Q, "count 1 of 2");
        if (i == 3) continue; /* activations have a sign */
        const piece acts[] = {good_sums, good_counts, {Q ".in_sum", {4, 1}, sums, 0}};
        check_refuses(container(acts, 3, META_ALL, NULL, 0), Q, "activation sum 3 of 4");
    }
    float fraction[1] = {0.4f};
    check_refuses(
        just((piece){Q ".in_sum2", {4, 1}, q_sums, 0}, (piece){Q ".counts", {1, 1}, fraction, 0}, 2), Q,
        "count 0 of 1 is 0.4");

    imatrix im;
    gq_error e;
    float zero[2] = {0, 3};
    read_good(&im, just((piece){Q ".in_sum2", {2, 2}, q_sums, 0}, (piece){Q ".counts", {1, 2}, zero, 0}, 2));
    assert_true(holds(im.warnings, Q) && holds(im.warnings, "a count of 0") && holds(im.warnings, "1 such"));
    assert_true(imatrix_check(&im, "matrix", &e));
    float a[2];
    imatrix_column(&im.entries[0], 0, 2, a);
    assert_true(a[0] == 1 && a[1] == 1);
    assert_int_equal(im.entries[0].n_unseen, 1);
    imatrix_free(&im);
}

/* ---- shared material ---- */

/* Both layouts of the same run. The bound: the program that made them rounds the sum to float in one file,
 * the mean times the calls in the other, and each reader divides once, so that four roundings of half a unit
 * part them. */
TEST(same_values_in_both_layouts) {
    imatrix dat, gguf;
    gq_error e;
    assert_true(imatrix_open(&dat, shared_path("models/imatrix.dat"), &e));
    assert_true(imatrix_open(&gguf, shared_path("models/imatrix.gguf"), &e));
    assert_true(imatrix_check(&dat, "dat", &e) && imatrix_check(&gguf, "gguf", &e));
    assert_int_equal(dat.n_entries, gguf.n_entries);
    assert_true(dat.n_entries > 50);
    double worst = 0;
    for (uint64_t i = 0; i < dat.n_entries; i++) {
        const imatrix_entry *a = &dat.entries[i], *b = imatrix_find(&gguf, a->name);
        assert_non_null(b);
        assert_int_equal(a->n_values, b->n_values);
        float x[4096], y[4096];
        assert_true(a->n_values <= 4096);
        imatrix_column(a, 0, a->n_values, x);
        imatrix_column(b, 0, b->n_values, y);
        for (uint64_t k = 0; k < a->n_values; k++)
            if (x[k] != y[k]) worst = fmax(worst, fabs((double)x[k] - y[k]) / fmax(x[k], y[k]));
    }
    print_message("largest relative difference between the layouts: %.3g\n", worst);
    assert_true(worst <= 4 * 0x1p-24);
    imatrix_free(&dat), imatrix_free(&gguf);
}

/* Refusals of the corpus that need the model: everything else must already fail here. */
static bool needs_model(const char *id) {
    static const char *const ids[] = {"dat-size-short", "dat-size-long", "dat-moe-experts", "dat-moe-flat",
                                      "imx-counts-2",   "imx-size",      "imx-moe-experts"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (strcmp(id, ids[i]) == 0) return true;
    return false;
}

/* The text after "key": in a line of the manifest, up to the closing quote. */
static bool field(const char *line, const char *key, char *to, size_t size) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    if (!at) return false;
    at += strlen(quoted);
    at += strspn(at, "[\" \n");
    size_t n = strcspn(at, "\"");
    assert_true(n < size);
    memcpy(to, at, n);
    to[n] = 0;
    return true;
}

/* Reading and checking, plain and compressed; then against the tensor, as a run would. */
static bool usable(const blob *b, const char *id, gq_error *e) {
    imatrix im;
    if (!read_blob(&im, b, e)) return false;
    bool ok = imatrix_check(&im, "matrix", e);
    for (uint64_t i = 0; ok && needs_model(id) && i < im.n_entries; i++) {
        const imatrix_entry *x = &im.entries[i];
        ok = imatrix_fits(x, 64, strstr(x->name, "exps") ? 3 : 1, "matrix", e);
    }
    imatrix_free(&im);
    return ok;
}

static size_t try_case(const char *folder, const char *entry) {
    char id[64], kind[64], expect[16], file[128], mention[128] = "", path[4096];
    if (!field(entry, "kind", kind, sizeof kind) || strncmp(kind, "imatrix-", 8) != 0) return 0;
    assert_true(field(entry, "id", id, sizeof id) && field(entry, "expect", expect, sizeof expect));
    assert_true(field(entry, "imatrix", file, sizeof file));
    field(entry, "must_mention", mention, sizeof mention);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    blob plain = {0};
    plain.bytes = read_whole(path, &plain.n);
    blob z = zipped(&plain);
    const blob *forms[] = {&plain, &z};
    for (int i = 0; i < 2; i++) {
        gq_error e = {0};
        bool ok = usable(forms[i], id, &e);
        if (strcmp(expect, "either") != 0 && ok != (strcmp(expect, "accept") == 0))
            fail_msg("%s: expected %s: %s", id, expect, ok ? "accepted" : e.text);
        if (!ok && (!holds(e.text, "matrix") || !holds(e.text, mention)))
            fail_msg("%s: the message does not name '%s': %s", id, mention, e.text);
    }
    free(plain.bytes), free(z.bytes);
    return 1;
}

TEST(corpus) {
    const char *make = shared_path("malformed/make.py");
    char *folder = temporary_folder();
    const char *const argv[] = {"python3", make, folder, NULL};
    assert_int_equal(run_command(argv, NULL, NULL), 0);
    char path[4096];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    char *manifest = (char *)read_whole(path, NULL);
    size_t tried = 0;
    for (char *at = strstr(manifest, "\"id\": "), *next; at; at = next) {
        next = strstr(at + 1, "\"id\": ");
        if (next) next[-1] = 0;
        tried += try_case(folder, at);
        if (next) next[-1] = ' ';
    }
    print_message("%zu cases\n", tried);
    assert_true(tried > 80);
    free(manifest);
    remove_folder(folder);
}

int main(void) { return tests_run(NULL, NULL); }
