/* What is known of matrices' inputs: normalised, filtered, with a stand-in for experts without tokens, the
 * same from both layouts. */
#include "imatrix/imatrix.h"

#include <math.h>

#include "tests/support/imatrix_files.h"

#define Q "blk.0.attn_q.weight"
#define X "blk.0.ffn_down_exps.weight"

static const float q_sums[4] = {512, 1024, 0, 256}, q_counts[1] = {512};
static const float x_sums[6] = {9, 18, 5, 0, 4, 8}, x_counts[3] = {9, 0, 4};

static const piece pieces[] = {{X ".in_sum2", {2, 3}, x_sums, 0},
                               {X ".counts", {1, 3}, x_counts, 0},
                               {Q ".in_sum2", {4, 1}, q_sums, 0},
                               {Q ".counts", {1, 1}, q_counts, 0}};

/* Keeps nothing: model_inputs has its own copy of all. */
static bool read_filtered(model_inputs *m, blob b, inputs_filter filter, gq_error *e) {
    char path[4096], *folder = temporary_folder();
    snprintf(path, sizeof path, "%s/matrix", folder);
    write_whole(path, b.bytes, b.n);
    bool ok = model_inputs_read(m, path, filter, e);
    memset(path, 0, sizeof path);
    remove_folder(folder);
    free(b.bytes);
    return ok;
}

static void read_pieces(model_inputs *m, inputs_filter filter) {
    gq_error e = {0};
    if (!read_filtered(m, container(pieces, 4, META_ALL, NULL, 0), filter, &e)) fail_msg("%s", e.text);
}

static const inputs_filter all = {.n = 0};

static void expect(const tensor_inputs *t, uint64_t matrix, const float *values) {
    for (uint64_t c = 0; c < t->columns; c++) assert_true(*tensor_inputs_at(t, matrix, c) == values[c]);
}

TEST(expert_by_expert) {
    model_inputs m;
    tensor_inputs t;
    gq_error e;
    read_pieces(&m, all);
    assert_int_equal(m.n_entries, 2);
    assert_int_equal(m.chunk_count, 40);
    assert_string_equal(m.dataset, "first.txt");
    assert_true(holds(m.warnings, "a count of 0")); /* sums without a count */

    assert_true(model_inputs_find(&m, X, 2, 3, &t, &e));
    assert_int_equal(t.columns, 2);
    assert_int_equal(t.n_values, 6);
    assert_int_equal(t.n_counted, 3);
    assert_int_equal(t.n_unseen, 1);
    expect(&t, 0, (const float[]){1, 2});
    expect(&t, 1, (const float[]){1, 1}); /* whatever its sums are */
    expect(&t, 2, (const float[]){1, 2});

    assert_true(model_inputs_find(&m, Q, 4, 1, &t, &e));
    assert_int_equal(t.n_unseen, 0);
    expect(&t, 0, (const float[]){1, 2, 0, 0.5f});
    /* One count for all of a tensor's matrices. */
    assert_true(model_inputs_find(&m, Q, 2, 2, &t, &e));
    assert_int_equal(t.n_counted, 1);
    expect(&t, 0, (const float[]){1, 2});
    expect(&t, 1, (const float[]){0, 0.5f});
    model_inputs_free(&m);
}

TEST(nothing_known) {
    model_inputs m, none = {.n_entries = 0};
    tensor_inputs t;
    gq_error e;
    read_pieces(&m, all);
    const model_inputs *both[] = {&m, &none};
    for (int i = 0; i < 2; i++) {
        memset(&t, 0x55, sizeof t);
        assert_true(model_inputs_find(both[i], "blk.0.attn_k.weight", 4, 1, &t, &e));
        assert_int_equal(t.columns, 0);
        assert_int_equal(t.n_unseen, 0);
        assert_null(tensor_inputs_at(&t, 0, 0));
        assert_null(tensor_inputs_at(&t, 7, 123));
    }
    /* Another shape: said, with what there is; and nothing is known. */
    assert_false(model_inputs_find(&m, Q, 3, 1, &t, &e));
    assert_true(holds(e.text, Q) && holds(e.text, "4 values") && holds(e.text, "matrix"));
    assert_int_equal(t.n_values, 4);
    assert_null(tensor_inputs_at(&t, 0, 0));
    assert_false(model_inputs_find(&m, X, 6, 1, &t, NULL));
    model_inputs_free(&m);
}

TEST(filters) {
    const struct {
        inputs_filter filter;
        bool q, x;
    } cases[] = {{{(const char *const[]){"attn", "none"}, 2, true}, true, false},
                 {{(const char *const[]){"attn"}, 1, false}, false, true},
                 {{(const char *const[]){"blk"}, 1, false}, false, false},
                 {{NULL, 0, true}, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_inputs m;
        tensor_inputs t;
        read_pieces(&m, cases[i].filter);
        assert_int_equal(m.n_entries, cases[i].q + cases[i].x);
        assert_true(model_inputs_find(&m, Q, 4, 1, &t, NULL));
        assert_int_equal(t.columns > 0, cases[i].q);
        assert_true(model_inputs_find(&m, X, 2, 3, &t, NULL));
        assert_int_equal(t.columns > 0, cases[i].x);
        model_inputs_free(&m);
    }
}

/* A bad value fails, unless its entry is filtered away; nothing is left to free. */
TEST(bad_values) {
    model_inputs m;
    gq_error e;
    const float bad[4] = {1, NAN, 1, 1};
    piece with[4];
    memcpy(with, pieces, sizeof with);
    with[2].data = bad;
    memset(&m, 0x55, sizeof m);
    assert_false(read_filtered(&m, container(with, 4, META_ALL, NULL, 0), all, &e));
    assert_true(holds(e.text, Q) && holds(e.text, "nan"));
    assert_null(m.data);
    assert_int_equal(m.n_entries, 0);
    model_inputs_free(&m);
    inputs_filter without = {(const char *const[]){"attn_q"}, 1, false};
    assert_true(read_filtered(&m, container(with, 4, META_ALL, NULL, 0), without, &e));
    model_inputs_free(&m);
    assert_false(model_inputs_read(&m, "/nonexistent/matrix", all, &e));
    assert_true(holds(e.text, "/nonexistent/matrix"));
    assert_null(m.path);
}

static uint32_t digest_of(const float *sums, const float *counts, uint32_t *tensor) {
    piece with[4];
    model_inputs m;
    tensor_inputs t;
    gq_error e;
    memcpy(with, pieces, sizeof with);
    with[0].data = sums, with[1].data = counts;
    assert_true(read_filtered(&m, container(with, 4, META_ALL, NULL, 0), all, &e));
    assert_true(model_inputs_find(&m, X, 2, 3, &t, &e));
    *tensor = tensor_inputs_digest(&t);
    uint32_t digest = model_inputs_digest(&m);
    model_inputs_free(&m);
    return digest;
}

TEST(digests) {
    uint32_t tensor, same, other, more;
    uint32_t model = digest_of(x_sums, x_counts, &tensor);
    assert_int_equal(digest_of(x_sums, x_counts, &same), model);
    assert_int_equal(same, tensor);
    const float changed[6] = {9, 18, 5, 0, 4, 9}, twice[6] = {18, 36, 5, 0, 8, 16}, counts[3] = {18, 0, 8};
    assert_int_not_equal(digest_of(changed, x_counts, &other), model);
    assert_int_not_equal(other, tensor);
    digest_of(twice, counts, &more); /* the same means */
    assert_int_equal(more, tensor);
}

int main(void) { return tests_run(NULL, NULL); }
