/* Views of arrays: whatever is split, cut, swapped, every element must be the one that counting it out by
 * hand gives, in ranges of any beginning and length. */
#include <math.h>

#include "hf/tensors/tensors.h"
#include "tests/support/folder.h"

enum { COLUMNS = 96, ROWS = 60, MATRICES = 4, ELEMENTS = MATRICES * ROWS * COLUMNS };

typedef struct array {
    hf_folder folder;
    hf_list list;
    hf_stored stored;
    hf_source source;
} array;

/* A file of elements 0, 1, 2, ..., as 16-bit patterns. */
static void array_open(array *a) {
    uint32_t number;
    gq_error e;
    uint16_t *bytes = malloc(ELEMENTS * 2);
    for (size_t i = 0; i < ELEMENTS; i++) bytes[i] = (uint16_t)i;
    write_whole(path("elements"), bytes, ELEMENTS * 2);
    free(bytes);
    assert_true(hf_folder_open(&a->folder, folder, &e));
    assert_true(hf_folder_weights(&a->folder, "elements", &number, &e));
    a->list = (hf_list){.folder = &a->folder};
    a->stored =
        (hf_stored){.name = "x", .dtype = HF_F16, .n = ELEMENTS, .bytes = 2 * ELEMENTS, .file = number};
    a->source = (hf_source){.name = "x",
                            .list = &a->list,
                            .stored = &a->stored,
                            .coding = &hf_plain,
                            .n_dims = 3,
                            .shape = {MATRICES, ROWS, COLUMNS},
                            .rows = MATRICES * ROWS,
                            .columns = COLUMNS,
                            .matrix_rows = ROWS};
}

/* Compares ranges of a tensor of one view with the positions that the view's own counts and strides give. */
static void check_view(const array *a, const hf_view *v) {
    hf_piece piece = {.source = &a->source, .view = *v};
    uint64_t n = hf_view_units(v);
    hf_tensor t = {.tensor = {.name = "t", .n_dims = 1, .ne = {n, 1, 1, 1}, .type = tensor_type_of(GGUF_F16)},
                   .pieces = &piece,
                   .n_pieces = 1};
    gq_error e;
    uint16_t *found = malloc(2 * n);
    assert_true(hf_tensor_join(&t, &e));
    for (uint64_t step = 1; step < 2 * n; step = step * 3 + 1) {
        memset(found, 0xff, 2 * n);
        for (uint64_t at = 0; at < n; at += step)
            assert_true(hf_tensor_read(&t, at, n - at < step ? n - at : step, found + at, &e));
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = v->base, rest = i;
            for (uint32_t d = v->n_dims; d-- > 0; rest /= v->count[d])
                at += rest % v->count[d] * v->stride[d];
            assert_int_equal(found[i], (uint16_t)at);
        }
        if (step > 1000 && n > 2000) break;
    }
    free(found);
}

TEST(whole_arrays_and_slices) {
    array a;
    array_open(&a);
    hf_view v = hf_view_of(&a.source);
    check_view(&a, &v);
    assert_true(hf_view_cut(&v, 1, 7, 20, 1));
    check_view(&a, &v);
    assert_true(hf_view_cut(&v, 2, 3, 31, 3));
    check_view(&a, &v);
    hf_folder_close(&a.folder);
}

TEST(rows_in_another_order) {
    array a;
    array_open(&a);
    hf_view v = hf_view_of(&a.source);
    assert_true(hf_view_split(&v, 1, 12) && hf_view_split(&v, 2, 6)); /* heads of halves */
    hf_view_swap(&v, 2, 3);
    check_view(&a, &v);
    v = hf_view_of(&a.source);
    assert_true(hf_view_cut(&v, 1, 1, 30, 2)); /* every second row */
    check_view(&a, &v);
    hf_folder_close(&a.folder);
}

TEST(columns_in_another_order) {
    array a;
    array_open(&a);
    hf_view v = hf_view_of(&a.source);
    assert_true(hf_view_split(&v, 2, 8) && hf_view_split(&v, 2, 3));
    hf_view_swap(&v, 2, 3);
    check_view(&a, &v);
    hf_folder_close(&a.folder);
}

TEST(matrices_turned) {
    array a;
    array_open(&a);
    hf_view v = hf_view_of(&a.source), halves;
    hf_view_swap(&v, 1, 2);
    check_view(&a, &v);
    halves = v;
    assert_true(hf_view_cut(&halves, 1, 1, COLUMNS / 2, 2)); /* odd columns as rows */
    check_view(&a, &halves);
    assert_true(hf_view_split(&v, 1, 24) &&
                hf_view_split(&v, 2, 12)); /* permuted heads of what is stored turned */
    hf_view_swap(&v, 2, 3);
    check_view(&a, &v);
    hf_folder_close(&a.folder);
}

TEST(any_view) {
    array a;
    array_open(&a);
    srand(1);
    for (int i = 0; i < 200; i++) {
        hf_view v = hf_view_of(&a.source);
        for (int k = rand() % 5; k > 0; k--) {
            uint32_t d = (uint32_t)rand() % v.n_dims, other = (uint32_t)rand() % v.n_dims;
            uint64_t n = v.count[d], first = (uint64_t)rand() % n;
            if (rand() % 3 == 0) hf_view_split(&v, d, (uint64_t)(rand() % 12) + 1);
            if (rand() % 3 == 0) hf_view_swap(&v, d, other);
            if (rand() % 4 == 0)
                hf_view_cut(&v, d, first, (uint64_t)(rand() % 9) + 1, (uint64_t)(rand() % 3) + 1);
        }
        check_view(&a, &v);
    }
    hf_folder_close(&a.folder);
}

TEST(what_does_not_work_out_is_refused) {
    array a;
    array_open(&a);
    hf_view v = hf_view_of(&a.source);
    assert_false(hf_view_split(&v, 1, 7));
    assert_false(hf_view_split(&v, 1, 0));
    assert_false(hf_view_cut(&v, 1, 0, ROWS + 1, 1));
    assert_false(hf_view_cut(&v, 1, ROWS, 1, 1));
    assert_false(hf_view_cut(&v, 1, 1, 30, UINT64_MAX));
    assert_false(hf_view_cut(&v, 1, 0, 0, 1));
    hf_folder_close(&a.folder);
}

/* An array in place of the model's is in a folder of its own, whose file has the same number there. */
TEST(arrays_are_read_from_their_own_folder) {
    enum { N = 1000 };
    static const arch_rule rule = RULE("", "blk.#.exp_probs_b");
    static const uint8_t zeros[2 * N];
    array own, base = {.stored = {.n = 0}};
    uint32_t number;
    gq_error e;
    array_open(&own);
    write_whole(path("zeros"), zeros, sizeof zeros);
    assert_true(hf_folder_open(&base.folder, folder, &e));
    assert_true(hf_folder_weights(&base.folder, "zeros", &number, &e));
    assert_int_equal(number, own.stored.file);
    base.list = (hf_list){.folder = &base.folder};
    own.stored.n = N, own.stored.bytes = sizeof zeros, own.stored.n_dims = 1;
    own.source.n_dims = 1, own.source.shape[0] = own.source.columns = N;
    own.source.rows = own.source.matrix_rows = 1;
    hf_config config = {.file = NULL};
    hf_build b = {.config = &config, .list = &base.list};
    hf_match f = {.source = &own.source, .rule = &rule, .suffix = ".bias"};
    if (!hf_op_subtract_mean(&b, &f, &e)) fail_msg("%s", e.text);
    const hf_tensor *t = hf_build_find(&b, "blk.0.exp_probs_b.bias");
    assert_non_null(t);
    assert_true(fabs(t->pieces[0].ops[0].value * 0x1p24 + (N - 1) / 2.0) < 1e-2);
    hf_build_free(&b);
    hf_folder_close(&own.folder), hf_folder_close(&base.folder);
}

TEST(numbers_fit_their_shape) {
    char file[] = "config.json";
    hf_config config = {.file = file};
    hf_build b = {.config = &config};
    gq_error e;
    assert_true(hf_build_numbers_shaped(&b, "a", calloc(6, 4), 6, 2, (uint64_t[]){2, 3}, &e));
    assert_false(hf_build_numbers_shaped(&b, "b", calloc(6, 4), 6, 2, (uint64_t[]){2, 4}, &e));
    assert_non_null(strstr(e.text, "b has 6 numbers, but its shape needs 8"));
    assert_false(hf_build_numbers_shaped(&b, "b", calloc(6, 4), 6, 2, (uint64_t[]){UINT64_MAX, 6}, &e));
    assert_null(hf_build_find(&b, "b"));
    hf_build_free(&b);
}

int main(void) { return tests_run(folder_make, folder_remove); }
