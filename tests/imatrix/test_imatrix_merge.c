/* Merging and writing: what is added to what, and that nothing changes on the way through the other layout.
 */
#include <float.h>
#include <math.h>

#include "imatrix/imatrix.h"
#include "tests/support/imatrix_files.h"

#define A "blk.0.attn_q.weight"
#define B "blk.1.attn_q.weight"
#define X "blk.0.ffn_up_exps.weight"

static const float ones[4] = {1, 1, 1, 1}, ramp[4] = {1, 2, 3, 4};

/* An entry of one or more counts in the GGUF layout; with activations where `acts` is given. */
static void read_one(imatrix *im, const char *name, const float *sums, uint64_t n, const float *counts,
                     uint64_t c, const float *acts, unsigned meta) {
    char names[3][128];
    snprintf(names[0], 128, "%s.in_sum2", name);
    snprintf(names[1], 128, "%s.counts", name);
    snprintf(names[2], 128, "%s.in_sum", name);
    const piece pieces[] = {
        {names[0], {n / c, c}, sums, 0}, {names[1], {1, c}, counts, 0}, {names[2], {n / c, c}, acts, 0}};
    read_good(im, container(pieces, acts ? 3 : 2, meta, NULL, 0));
}

static void read_dat(imatrix *im, const char *name, int32_t calls, const float *values, int32_t n,
                     const char *dataset) {
    blob b = {0};
    put32(&b, 1);
    put_entry(&b, name, calls, values, n);
    put_trailer(&b, calls, dataset);
    read_good(im, b);
}

static void merged(imatrix *a, imatrix *b) {
    gq_error e;
    if (!imatrix_merge(a, b, "second", &e)) fail_msg("%s", e.text);
    imatrix_free(b);
}

static void not_merged(imatrix *a, imatrix *b, const char *text) {
    gq_error e;
    assert_false(imatrix_merge(a, b, "second", &e));
    if (!holds(e.text, "second") || !holds(e.text, text)) fail_msg("'%s' does not hold '%s'", e.text, text);
    imatrix_free(a), imatrix_free(b);
}

static void expect(const imatrix *im, const char *name, const float *sums, uint64_t n, const float *counts,
                   uint64_t c) {
    const imatrix_entry *x = imatrix_find(im, name);
    assert_non_null(x);
    assert_int_equal(x->n_values, n);
    assert_int_equal(x->n_counts, c);
    for (uint64_t i = 0; i < n; i++)
        if (x->sums[i] != sums[i])
            fail_msg("sum %d of %s is %g, expected %g", (int)i, name, x->sums[i], sums[i]);
    for (uint64_t i = 0; i < c; i++)
        if (x->counts[i] != counts[i])
            fail_msg("count %d of %s is %g, expected %g", (int)i, name, x->counts[i], counts[i]);
}

#define EXPECT(im, name, sums, counts) \
    expect(im, name, (const float[])sums, sizeof((float[])sums) / 4, (const float[])counts, \
           sizeof((float[])counts) / 4)
#define LIST(...) \
    { __VA_ARGS__ }

TEST(adds) {
    imatrix a, b;
    read_one(&a, A, ramp, 4, (float[]){512}, 1, NULL, META_ALL);
    read_one(&b, A, ones, 4, (float[]){256}, 1, NULL, META_ALL);
    merged(&a, &b);
    EXPECT(&a, A, LIST(2, 3, 4, 5), LIST(768));
    assert_int_equal(a.chunk_count, 3); /* of 256 tokens */
    assert_int_equal(a.n_datasets, 4);
    assert_string_equal(a.datasets[2], "first.txt");

    /* Entries of one file only are kept, before and behind; order and look-up stay. */
    read_one(&b, B, ones, 4, (float[]){1024 + 128}, 1, NULL, META_ALL);
    merged(&a, &b);
    read_one(&b, "a", ramp, 2, (float[]){5}, 1, NULL, META_ALL);
    merged(&a, &b);
    assert_int_equal(a.n_entries, 3);
    EXPECT(&a, A, LIST(2, 3, 4, 5), LIST(768));
    EXPECT(&a, B, LIST(1, 1, 1, 1), LIST(1152));
    EXPECT(&a, "a", LIST(1, 2), LIST(5));
    assert_int_equal(a.chunk_count, 5); /* 4.5, rounded */
    /* Names of data sets are kept up to a limit. */
    for (int i = 0; i <= IMATRIX_MAX_DATASETS / 2; i++) {
        read_one(&b, "a", ramp, 2, (float[]){1}, 1, NULL, META_ALL);
        merged(&a, &b);
    }
    assert_int_equal(a.n_datasets, IMATRIX_MAX_DATASETS);
    imatrix_free(&a);
    /* More chunks than anybody can write down. */
    read_one(&a, A, ramp, 4, (float[]){3e38f}, 1, NULL, META_ALL);
    read_one(&b, A, ramp, 4, (float[]){1}, 1, NULL, META_ALL);
    merged(&a, &b);
    assert_int_equal(a.chunk_count, UINT32_MAX);
    imatrix_free(&a);
}

TEST(counts) {
    const float two[2] = {10, 0}, other[2] = {0, 3}, one[1] = {7};
    imatrix a, b;
    /* Experts: each its own; what comes with a count of zero is no data. */
    read_one(&a, X, ramp, 4, two, 2, NULL, META_ALL);
    assert_int_equal(a.entries[0].n_unseen, 1);
    read_one(&b, X, ramp, 4, other, 2, NULL, META_ALL);
    merged(&a, &b);
    EXPECT(&a, X, LIST(1, 2, 3, 4), LIST(10, 3));
    assert_int_equal(a.entries[0].n_unseen, 0);
    /* A single count is one for all, on either side. */
    read_one(&b, X, ones, 4, one, 1, NULL, META_ALL);
    merged(&a, &b);
    EXPECT(&a, X, LIST(2, 3, 4, 5), LIST(17, 10));
    read_one(&b, X, ones, 4, one, 1, NULL, META_ALL);
    merged(&b, &a);
    EXPECT(&b, X, LIST(3, 4, 5, 6), LIST(24, 17));
    imatrix_free(&b);

    read_one(&a, X, ramp, 4, two, 2, NULL, META_ALL);
    read_one(&b, X, ramp, 4, (float[]){1, 2, 3, 4}, 4, NULL, META_ALL);
    not_merged(&a, &b, "entry '" X "' has 4 counts, but 2");
    read_one(&a, X, ramp, 4, two, 2, NULL, META_ALL);
    read_one(&b, X, ramp, 2, one, 1, NULL, META_ALL);
    not_merged(&a, &b, "entry '" X "' has 2 values, but 4");
    read_one(&a, X, (float[]){FLT_MAX, 1}, 2, one, 1, NULL, META_ALL);
    read_one(&b, X, (float[]){FLT_MAX, 1}, 2, one, 1, NULL, META_ALL);
    not_merged(&a, &b, "value 0 of 2 is inf");
}

TEST(activations) {
    const float acts[4] = {-1, 1, -2, 2}, one[1] = {4};
    imatrix a, b;
    read_one(&a, A, ramp, 4, one, 1, acts, META_ALL);
    read_one(&b, A, ramp, 4, one, 1, acts, META_ALL);
    merged(&a, &b);
    read_one(&b, B, ramp, 4, one, 1, acts, META_ALL);
    merged(&a, &b);
    assert_true(a.entries[0].activations[0] == -2 && a.entries[0].activations[3] == 4);
    assert_true(a.entries[1].activations[0] == -1 && a.entries[1].activations[3] == 2);
    /* One file without them, and nobody has them. */
    read_one(&b, B, ramp, 4, one, 1, NULL, META_ALL);
    merged(&a, &b);
    assert_null(a.entries[0].activations);
    assert_null(a.entries[1].activations);
    read_one(&b, "c", ramp, 4, one, 1, acts, META_ALL);
    merged(&a, &b);
    assert_null(imatrix_find(&a, "c")->activations);
    /* More counts on the other side. */
    read_one(&b, A, ramp, 4, (float[]){1, 2}, 2, acts, META_ALL);
    imatrix c;
    read_one(&c, A, ramp, 4, one, 1, acts, META_ALL);
    merged(&c, &b);
    assert_true(c.entries[0].activations[0] == -2 && c.entries[0].activations[3] == 4);
    EXPECT(&c, A, LIST(2, 4, 6, 8), LIST(5, 6));
    imatrix_free(&a), imatrix_free(&c);
}

TEST(layouts_mixed) {
    imatrix a, b;
    /* Calls of 256 tokens, as the GGUF file says, whichever comes first. */
    for (int order = 0; order < 2; order++) {
        read_one(&a, A, (float[]){512, 0}, 2, (float[]){512}, 1, NULL, META_ALL);
        read_dat(&b, A, 2, (float[]){6, 2}, 2, "legacy.txt");
        imatrix *into = order ? &b : &a, *from = order ? &a : &b;
        merged(into, from);
        EXPECT(into, A, LIST(512 + 6 * 256, 2 * 256), LIST(1024));
        assert_false(into->legacy);
        assert_int_equal(into->chunk_size, 256);
        assert_int_equal(into->chunk_count, 4);
        assert_string_equal(into->datasets[order ? 0 : 2], "legacy.txt");
        assert_null(into->warnings);
        imatrix_free(into);
    }
    /* Nobody says: 512, and a word about it. */
    read_one(&a, A, (float[]){512, 0}, 2, (float[]){512}, 1, NULL, META_NONE);
    read_dat(&b, A, 2, (float[]){6, 2}, 2, "");
    merged(&a, &b);
    EXPECT(&a, A, LIST(512 + 6 * 512, 2 * 512), LIST(512 + 1024));
    assert_true(holds(a.warnings, "512 is assumed"));
    imatrix_free(&a);
    /* The caller says, for its legacy file. */
    read_one(&a, A, (float[]){512, 0}, 2, (float[]){512}, 1, NULL, META_ALL);
    read_dat(&b, A, 2, (float[]){6, 2}, 2, "");
    b.chunk_size = 128;
    merged(&a, &b);
    EXPECT(&a, A, LIST(512 + 6 * 128, 2 * 128), LIST(512 + 256));
    imatrix_free(&a);
    /* Two legacy files: calls stay calls. */
    read_dat(&a, A, 2, (float[]){6, 2}, 2, "one");
    read_dat(&b, A, 3, (float[]){1, 1}, 2, "two");
    merged(&a, &b);
    EXPECT(&a, A, LIST(7, 3), LIST(5));
    assert_true(a.legacy);
    assert_int_equal(a.chunk_count, 5);
    assert_int_equal(a.chunk_size, 0);
    imatrix_free(&a);
    /* An empty matrix is a place to start from. */
    a = (imatrix){0};
    read_dat(&b, A, 3, (float[]){1, 1}, 2, "two");
    merged(&a, &b);
    EXPECT(&a, A, LIST(512, 512), LIST(3 * 512));
    imatrix_free(&a);
}

/* Filtered away to nothing, on both sides. */
TEST(nothing) {
    imatrix a, b;
    read_dat(&a, A, 2, ramp, 2, "");
    read_dat(&b, B, 2, ramp, 2, "");
    imatrix_filter(&a, (const char *const[]){"blk"}, 1, false);
    imatrix_filter(&b, (const char *const[]){"blk"}, 1, false);
    merged(&a, &b);
    assert_int_equal(a.n_entries, 0);
    imatrix_free(&a);
}

TEST(many_entries) {
    enum { N = IMATRIX_MAX_ENTRIES / 2 + 1 };
    imatrix m[2];
    for (int k = 0; k < 2; k++) {
        blob b = {0};
        put32(&b, N);
        for (int i = N; i-- > 0;) {
            char name[32];
            snprintf(name, sizeof name, "%c%d", 'a' + k, i);
            put_entry(&b, name, 1, ones, 1);
        }
        read_good(&m[k], b);
        assert_non_null(imatrix_find(&m[k], k ? "b12345" : "a0"));
    }
    not_merged(&m[0], &m[1], "expected at most");
}

/* ---- writing ---- */

static blob written(const imatrix *im, bool dat) {
    gq_error e;
    uint64_t size = 0;
    blob b = {0};
    bool ok = dat ? imatrix_write_dat(im, &b.bytes, &size, &e) : imatrix_write_gguf(im, &b.bytes, &size, &e);
    if (!ok) fail_msg("%s", e.text);
    b.n = size;
    return b;
}

static void not_written(const imatrix *im, bool dat, const char *text) {
    gq_error e;
    uint64_t size;
    uint8_t *bytes;
    assert_false(dat ? imatrix_write_dat(im, &bytes, &size, &e) : imatrix_write_gguf(im, &bytes, &size, &e));
    assert_null(bytes);
    if (!holds(e.text, text)) fail_msg("'%s' does not hold '%s'", e.text, text);
}

static blob dat_bytes(void) {
    blob b = {0};
    put32(&b, 2);
    put_entry(&b, A, 3, (float[]){0.1f, 0, 3e38f, 1e-40f}, 4);
    put_entry(&b, X, 7, ramp, 4);
    put_trailer(&b, 9, "set");
    return b;
}

/* Its own layout back: not a bit changes. */
TEST(same_layout) {
    imatrix im;
    blob dat = dat_bytes();
    read_good(&im, dat_bytes());
    blob again = written(&im, true);
    assert_int_equal(again.n, dat.n);
    assert_memory_equal(again.bytes, dat.bytes, dat.n);
    free(dat.bytes), free(again.bytes);
    imatrix_free(&im);

    const piece pieces[] = {{A ".in_sum2", {4, 1}, ramp, 0},
                            {A ".counts", {1, 1}, ramp + 2, 0},
                            {A ".in_sum", {4, 1}, ramp, 0},
                            {X ".in_sum2", {2, 2}, ramp, 0},
                            {X ".counts", {1, 2}, ramp + 1, 0}};
    read_good(&im, container(pieces, 5, META_ALL, NULL, 0));
    again = written(&im, false);
    assert_int_equal(again.n % 32, 0);
    imatrix_free(&im);
    read_good(&im, again);
    EXPECT(&im, A, LIST(1, 2, 3, 4), LIST(3));
    EXPECT(&im, X, LIST(1, 2, 3, 4), LIST(2, 3));
    assert_memory_equal(im.entries[0].activations, ramp, sizeof ramp);
    assert_null(im.entries[1].activations);
    assert_null(im.warnings);
    assert_int_equal(im.chunk_size, 256);
    assert_int_equal(im.chunk_count, 40);
    assert_int_equal(im.n_datasets, 2);
    assert_string_equal(im.datasets[1], "second\n.txt");
    imatrix_free(&im);
}

TEST(dat_to_gguf) {
    imatrix im;
    blob b = {0};
    put32(&b, 2);
    put_entry(&b, A, 0, ramp, 4);
    put_entry(&b, X, 7, ramp, 4);
    read_good(&im, b);
    b = written(&im, false);
    imatrix_free(&im);
    read_good(&im, b);
    assert_false(im.legacy);
    assert_int_equal(im.chunk_size, 512);
    assert_int_equal(im.n_datasets, 0);
    EXPECT(&im, A, LIST(512, 1024, 1536, 2048), LIST(512));
    EXPECT(&im, X, LIST(512, 1024, 1536, 2048), LIST(7 * 512));
    imatrix_free(&im);
}

TEST(gguf_to_dat) {
    /* 600 tokens are three calls of 256, begun ones counted. */
    imatrix im;
    const float x_counts[2] = {600, 0};
    const piece pieces[] = {{A ".in_sum2", {4, 1}, ramp, 0},     {A ".counts", {1, 1}, (float[]){2}, 0},
                            {X ".in_sum2", {2, 2}, ramp, 0},     {X ".counts", {1, 2}, x_counts, 0},
                            {B ".in_sum2", {2, 1}, x_counts, 0}, {B ".counts", {1, 1}, x_counts + 1, 0}};
    read_good(&im, container(pieces, 6, META_ALL, NULL, 0));
    blob b = written(&im, true);
    imatrix_free(&im);
    read_good(&im, b);
    assert_true(im.legacy);
    assert_int_equal(im.n_entries, 2); /* nobody saw B */
    EXPECT(&im, A, LIST(0.5f, 1, 1.5f, 2), LIST(1));
    EXPECT(&im, X, LIST(3 / 600.f, 6 / 600.f, 3, 3), LIST(3));
    assert_int_equal(im.chunk_count, 40);
    assert_int_equal(im.n_datasets, 1); /* the last */
    assert_string_equal(im.datasets[0], "second\n.txt");
    imatrix_free(&im);
}

TEST(no_room) {
    imatrix im;
    const float zero[1] = {0}, huge[2] = {1, 3e38f};
    read_one(&im, A, ramp, 4, zero, 1, NULL, META_ALL);
    not_written(&im, true, "none of the 1 entries");
    imatrix_free(&im);
    read_one(&im, A, ramp, 4, (float[]){3e38f}, 1, NULL, META_ALL);
    not_written(&im, true, "entry '" A "'");
    imatrix_free(&im);
    read_one(&im, A, (float[]){FLT_MAX, FLT_MAX}, 2, (float[]){1, 512}, 2, NULL, META_ALL);
    not_written(&im, true, "value 0 is too large");
    imatrix_free(&im);
    read_dat(&im, A, 1, huge, 2, "");
    not_written(&im, false, "too large");
    imatrix_free(&im);
    char name[128];
    memset(name, 'n', 127), name[127] = 0;
    read_dat(&im, name, 1, ramp, 2, "");
    free(written(&im, true).bytes);
    not_written(&im, false, "room for 119");
    imatrix_free(&im);
    name[119] = 0;
    read_dat(&im, name, 1, ramp, 2, "");
    blob b = written(&im, false);
    imatrix_free(&im);
    read_good(&im, b);
    assert_string_equal(im.entries[0].name, name);
    im.chunk_count = UINT32_MAX;
    b = written(&im, true);
    imatrix_free(&im);
    read_good(&im, b);
    assert_int_equal(im.chunk_count, INT32_MAX);
    imatrix_free(&im);
}

/* Through the other layout and back, on real data: the same normalised values. */
TEST(round_trips) {
    static const char *const paths[] = {"models/imatrix.dat", "models/imatrix.gguf"};
    for (int k = 0; k < 2; k++) {
        imatrix im, other, back;
        gq_error e;
        assert_true(imatrix_open(&im, shared_path(paths[k]), &e));
        read_good(&other, written(&im, !im.legacy));
        assert_int_equal(other.legacy, !im.legacy);
        read_good(&back, written(&other, im.legacy));
        assert_int_equal(back.n_entries, im.n_entries);
        double worst[2] = {0};
        for (uint64_t i = 0; i < im.n_entries; i++) {
            const imatrix_entry *x = &im.entries[i], *forms[] = {&other.entries[i], &back.entries[i]};
            float want[4096], got[4096];
            imatrix_column(x, 0, x->n_values, want);
            for (int f = 0; f < 2; f++) {
                assert_string_equal(forms[f]->name, x->name);
                imatrix_column(forms[f], 0, x->n_values, got);
                for (uint64_t c = 0; c < x->n_values; c++)
                    if (want[c] != got[c])
                        worst[f] = fmax(worst[f], fabs((double)want[c] - got[c]) / want[c]);
            }
        }
        print_message("%s: there %.3g, and back %.3g\n", paths[k], worst[0], worst[1]);
        /* Each conversion rounds the stored value once, half a unit; so does the division by which values are
         * compared. Times 512 rounds nothing. */
        assert_true(worst[0] <= 3 * 0x1p-24 && worst[1] <= 4 * 0x1p-24);
        imatrix_free(&im), imatrix_free(&other), imatrix_free(&back);
    }
}

/* A file that llama.cpp wrote comes out byte for byte: same keys, same order, same padding. */
TEST(written_as_others_do) {
    imatrix im;
    gq_error e;
    size_t n;
    uint8_t *want = read_whole(shared_path("models/imatrix.gguf"), &n);
    assert_true(imatrix_open(&im, shared_path("models/imatrix.gguf"), &e));
    blob b = written(&im, false);
    assert_int_equal(b.n, n);
    assert_memory_equal(b.bytes, want, n);
    free(b.bytes), free(want);
    imatrix_free(&im);
}

int main(void) { return tests_run(NULL, NULL); }
