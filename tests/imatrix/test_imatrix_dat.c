/* The legacy layout, and gzip around it. */
#include <math.h>

#include "imatrix/imatrix.h"
#include "tests/support/imatrix_files.h"

#define Q "blk.0.attn_q.weight"
#define D "blk.0.ffn_down.weight"

static const float six[6] = {4, 8, 12, 16, 20, 24};
static const float four[4] = {1, 0, 0, 3};

/* Two entries, not in the order of their names. */
static blob two_entries(void) {
    blob b = {0};
    put32(&b, 2);
    put_entry(&b, Q, 4, six, 6);
    put_entry(&b, D, 2, four, 4);
    return b;
}

static blob good(void) {
    blob b = two_entries();
    put_trailer(&b, 40, "calib.txt");
    return b;
}

static void expect_two(const imatrix *im) {
    assert_int_equal(im->n_entries, 2);
    assert_true(im->legacy);
    assert_int_equal(im->chunk_size, 0);
    const imatrix_entry *q = imatrix_find(im, Q), *d = imatrix_find(im, D);
    assert_non_null(q);
    assert_ptr_equal(d, q + 1);
    assert_string_equal(q->name, Q);
    assert_int_equal(q->n_values, 6);
    assert_int_equal(q->n_counts, 1);
    assert_int_equal(q->n_unseen, 0);
    assert_null(q->activations);
    float x[3];
    imatrix_column(q, 1, 3, x);
    assert_true(x[0] == 4 && x[1] == 5 && x[2] == 6);
    imatrix_column(d, 0, 3, x);
    assert_true(x[0] == 0.5f && x[1] == 0 && x[2] == 0);
    assert_null(imatrix_find(im, "blk.0.attn_q"));
}

TEST(reads) {
    imatrix im;
    gq_error e;
    read_good(&im, good());
    expect_two(&im);
    assert_int_equal(im.chunk_count, 40);
    assert_int_equal(im.n_datasets, 1);
    assert_string_equal(im.datasets[0], "calib.txt");
    assert_null(im.warnings);
    assert_true(imatrix_check(&im, "matrix", &e));
    imatrix_free(&im);
    assert_int_equal(im.n_entries, 0);
    assert_null(imatrix_find(&im, Q));
}

TEST(trailer_variants) {
    imatrix im;
    read_good(&im, two_entries());
    expect_two(&im);
    assert_int_equal(im.chunk_count, 0);
    imatrix_free(&im);

    blob b = two_entries();
    put32(&b, 7);
    read_good(&im, b);
    assert_int_equal(im.chunk_count, 7);
    assert_int_equal(im.n_datasets, 0);
    imatrix_free(&im);

    b = two_entries();
    put_trailer(&b, 7, "");
    read_good(&im, b);
    assert_int_equal(im.n_datasets, 0);
    imatrix_free(&im);

    b = two_entries();
    put32(&b, 7), put32(&b, 5), put(&b, "ab\0cd", 5);
    read_good(&im, b);
    assert_string_equal(im.datasets[0], "ab");
    imatrix_free(&im);

    b = good();
    put(&b, "ZZZZZ", 5);
    read_good(&im, b);
    expect_two(&im);
    assert_string_equal(im.warnings, "matrix: 5 bytes after the end are ignored\n");
    imatrix_free(&im);

    b = two_entries();
    put(&b, "\1\2", 2);
    refused(b, "inside the number of chunks", NULL);
    b = two_entries();
    put32(&b, -1);
    refused(b, "-1 chunks", NULL);
    b = two_entries();
    put32(&b, 40), put(&b, "abc", 3);
    refused(b, "inside the length of the dataset's name", NULL);
    static const int64_t lengths[] = {-1, 4, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        b = two_entries();
        put32(&b, 40), put32(&b, lengths[i]), put(&b, "abc", 3);
        refused(b, "only 3 bytes are left", NULL);
    }
}

/* Every way to cut the file off is refused, but for the three that a trailer may have; so is every cut of its
 * compressed form. */
TEST(truncation) {
    blob b = good(), z = zipped(&b);
    size_t entries = b.n - 4 - 4 - strlen("calib.txt");
    for (size_t n = 0; n < b.n; n++) {
        imatrix im;
        gq_error e = {0};
        bool ok = read_part(&im, &b, n, &e);
        assert_int_equal(ok, n == entries || n == entries + 4);
        if (ok)
            imatrix_free(&im);
        else
            assert_true(holds(e.text, "matrix: "));
    }
    for (size_t n = 0; n < z.n; n++) {
        imatrix im;
        gq_error e = {0};
        assert_false(read_part(&im, &z, n, &e));
        assert_true(holds(e.text, "matrix: "));
    }
    free(b.bytes), free(z.bytes);
}

TEST(no_calls) {
    imatrix im;
    blob b = {0};
    put32(&b, 1);
    put_entry(&b, Q, 0, six, 6);
    read_good(&im, b);
    float x[6];
    imatrix_column(&im.entries[0], 0, 6, x);
    assert_memory_equal(x, six, sizeof six);
    assert_int_equal(im.entries[0].n_unseen, 0);
    imatrix_free(&im);
}

TEST(damage) {
    static const int64_t counts[] = {0, -1, INT32_MIN, INT32_MAX, IMATRIX_MAX_ENTRIES + 1, 8};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        blob b = good();
        memcpy(b.bytes, &(int32_t){(int32_t)counts[i]}, 4);
        refused(b, "not an imatrix", "legacy");
    }
    blob b = {0};
    put(&b, "", 0);
    refused(b, "empty", NULL);
    b = good();
    b.bytes[0] = 3; /* the trailer taken for a name's length */
    refused(b, "inside a name", NULL);
    b = good();
    b.bytes[0] = 1; /* the second entry taken for a trailer */
    refused(b, "the dataset's name", NULL);

    static const int64_t lengths[] = {0, -5, INT32_MIN, INT32_MAX, 128, 1000000000};
    for (size_t i = 0; i < 6; i++) {
        b = good();
        memcpy(b.bytes + 4, &(int32_t){(int32_t)lengths[i]}, 4);
        refused(b, "the name of entry 0", "expected 1 to 127");
    }
    b = good();
    b.bytes[4 + 4 + 3] = 0;
    refused(b, "'blk'", "NUL");

    static const int64_t values[] = {0, -64, INT32_MIN, INT32_MAX, 1 << 30, 30};
    for (size_t i = 0; i < 6; i++) {
        b = good();
        memcpy(b.bytes + 8 + strlen(Q) + 4, &(int32_t){(int32_t)values[i]}, 4);
        refused(b, Q, "bytes are left");
    }
    b = good();
    memcpy(b.bytes + 8 + strlen(Q), &(int32_t){-4}, 4);
    refused(b, Q, "call count -4");

    b = (blob){0};
    put32(&b, 3);
    put_entry(&b, Q, 4, six, 6);
    put_entry(&b, D, 2, four, 4);
    put_entry(&b, Q, 4, six, 6);
    refused(b, Q, "duplicate");
}

/* Values are judged after filtering, so that a bad entry can be left out. */
TEST(values) {
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, -0.5f, -1e-45f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float x[6] = {1, 2, 3, 4, 5, bad[i]};
        blob b = {0};
        put32(&b, 2);
        put_entry(&b, Q, 4, x, 6);
        put_entry(&b, D, 4, four, 4);
        blob copy = {0};
        put(&copy, b.bytes, b.n);
        check_refuses(copy, Q, "value 5 of 6");
        imatrix im;
        gq_error e;
        read_good(&im, b);
        imatrix_filter(&im, (const char *const[]){"attn_q"}, 1, false);
        assert_true(imatrix_check(&im, "matrix", &e));
        imatrix_free(&im);
    }
}

TEST(control_characters) {
    float x[1] = {-1};
    blob b = {0};
    put32(&b, 1);
    put_entry(&b, "a\033[2Jb\n", 1, x, 1);
    imatrix im;
    gq_error e;
    read_good(&im, b);
    assert_false(imatrix_check(&im, "matrix\r", &e));
    for (const char *c = e.text; *c; c++) assert_true((unsigned char)*c >= ' ' && *c != 127);
    imatrix_free(&im);
}

TEST(filters) {
    static const struct {
        const char *texts[2];
        size_t n;
        bool include;
        size_t left;
        const char *name;
    } cases[] = {
        {{"attn_q"}, 1, true, 1, Q},   {{"attn_q"}, 1, false, 1, D},          {{"ATTN"}, 1, true, 0, NULL},
        {{"blk"}, 1, false, 0, NULL},  {{"q.weight", "down"}, 2, true, 2, Q}, {{"x", "ffn"}, 2, false, 1, Q},
        {{"x", "ffn"}, 2, true, 1, D},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        imatrix im;
        gq_error e;
        read_good(&im, good());
        imatrix_filter(&im, cases[i].texts, cases[i].n, cases[i].include);
        assert_int_equal(im.n_entries, cases[i].left);
        if (cases[i].left) assert_non_null(imatrix_find(&im, cases[i].name));
        if (cases[i].left == 1) assert_null(imatrix_find(&im, strcmp(cases[i].name, Q) ? Q : D));
        assert_true(imatrix_check(&im, "matrix", &e));
        imatrix_free(&im);
    }
}

TEST(fits) {
    imatrix im;
    gq_error e;
    read_good(&im, good());
    const imatrix_entry *q = imatrix_find(&im, Q);
    assert_true(imatrix_fits(q, 6, 1, "matrix", &e));
    assert_true(imatrix_fits(q, 2, 3, "matrix", &e));
    assert_false(imatrix_fits(q, 4, 2, "matrix", &e));
    assert_true(holds(e.text, "6 values") && holds(e.text, "4 x 2") && holds(e.text, Q));
    assert_false(imatrix_fits(q, 3, 1, "matrix", &e));
    assert_false(imatrix_fits(q, 0, 1, "matrix", &e));
    assert_false(imatrix_fits(q, 1ull << 63, 2, "matrix", &e));
    imatrix_free(&im);
}

/* ---- gzip ---- */

TEST(unpacks) {
    imatrix im;
    blob b = good(), z = zipped(&b);
    read_good(&im, z);
    expect_two(&im);
    assert_string_equal(im.datasets[0], "calib.txt");
    imatrix_free(&im);

    /* Several members, one of them empty, are one stream. */
    blob head = {.bytes = b.bytes, .n = 50}, none = {.bytes = b.bytes};
    blob tail = {.bytes = b.bytes + 50, .n = b.n - 50}, all = {0};
    blob parts[] = {zipped(&head), zipped(&none), zipped(&tail)};
    for (size_t i = 0; i < 3; i++) {
        put(&all, parts[i].bytes, parts[i].n);
        free(parts[i].bytes);
    }
    read_good(&im, all);
    expect_two(&im);
    imatrix_free(&im);

    z = zipped(&b);
    free(b.bytes);
    char *folder = temporary_folder();
    char path[4096];
    snprintf(path, sizeof path, "%s/no-suffix", folder);
    write_whole(path, z.bytes, z.n);
    gq_error e;
    assert_true(imatrix_open(&im, path, &e));
    expect_two(&im);
    imatrix_free(&im);
    remove_folder(folder);
    memset(&im, 0x55, sizeof im);
    assert_false(imatrix_open(&im, "/nonexistent/matrix", &e));
    imatrix_free(&im);
    free(z.bytes);
}

/* Larger than any step of reading, unpacking and growing. */
TEST(unpacks_much) {
    enum { N = 300000 };
    float *x = malloc(N * sizeof *x);
    assert_non_null(x);
    uint64_t seed = 1;
    for (size_t i = 0; i < N; i++) {
        seed = (seed * 1664525 + 1013904223) % (1ull << 32);
        x[i] = i < N / 2 ? (float)(seed >> 8) : 1; /* noise, then what compresses well */
    }
    blob b = {0};
    put32(&b, 1);
    put_entry(&b, Q, 1, x, N);
    imatrix im;
    read_good(&im, zipped(&b));
    assert_memory_equal(im.entries[0].sums, x, N * sizeof *x);
    imatrix_free(&im);
    free(b.bytes), free(x);
}

TEST(damaged_gzip) {
    blob b = good();
    static const struct {
        size_t from_end;
        const char *text;
    } flips[] = {{8, "damaged gzip data"}, {4, "damaged gzip data"}, {20, "matrix"}};
    for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) { /* CRC, length, data */
        blob z = zipped(&b);
        z.bytes[z.n - flips[i].from_end] ^= 0x55;
        refused(z, flips[i].text, NULL);
    }
    blob z = zipped(&b);
    put(&z, "garbage", 7);
    refused(z, "damaged gzip data", "header");
    z = zipped(&b);
    put(&z, "\0", 1);
    refused(z, "gzip", NULL);
    z = zipped(&b);
    z.bytes[3] |= 0xe0; /* reserved flags */
    refused(z, "damaged gzip data", NULL);
    for (int i = 1; i < 3; i++) { /* not gzip's magic, so not gzip data */
        z = zipped(&b);
        z.bytes[i]++;
        refused(z, "not an imatrix", NULL);
    }
    /* Nothing inside; a container inside a container. */
    blob none = {.bytes = b.bytes};
    refused(zipped(&none), "empty", NULL);
    z = zipped(&b);
    refused(zipped(&z), "not an imatrix", NULL);
    free(z.bytes), free(b.bytes);
}

/* A file that unpacks to 64 MB from 64 kB is refused; 4 MB are let through for what small files of constants
 * may need. */
TEST(bombs) {
    for (int large = 0; large < 2; large++) {
        int32_t n = large ? 16 << 20 : 1 << 20;
        float *x = calloc((size_t)n, sizeof *x);
        assert_non_null(x);
        blob b = {0};
        put32(&b, 1);
        put_entry(&b, Q, 1, x, n);
        free(x);
        blob z = zipped(&b);
        free(b.bytes);
        if (large) {
            refused(z, "unpacks to more than", "bytes");
        } else {
            imatrix im;
            read_good(&im, z);
            assert_int_equal(im.entries[0].n_values, n);
            imatrix_free(&im);
        }
    }
}

int main(void) { return tests_run(NULL, NULL); }
