/* The bytes of a block depend on its weights and their importance alone: not on how rows and columns are cut
 * into calls, nor on what lies beside them. */
#include "tests/support/codecs.h"

static size_t unit(const tensor_type *type) { return type->block_elements < 32 ? 32 : type->block_elements; }

static void check_rows(const tensor_type *type, size_t rows, size_t cols, codec_effort effort,
                       bool weighted) {
    float *x = malloc(4 * rows * cols), *w = malloc(4 * cols);
    assert_true(x && w);
    fill_normal(x, rows * cols, 1), fill_importance(w, cols);
    const float *importance = weighted ? w : NULL;
    uint8_t *whole = encode_everywhere(type, x, rows, cols, importance, effort);
    size_t row_bytes = encoded_size(type, 1, cols);
    for (size_t first = 0, n; first < rows; first += n) {
        n = 1 + next_random() % (rows > 30 ? 30 : 4);
        if (n > rows - first) n = rows - first;
        uint8_t *some = encode_everywhere(type, x + first * cols, n, cols, importance, effort);
        if (memcmp(whole + first * row_bytes, some, n * row_bytes))
            fail_msg(
                "%s, effort %s, importance %s, %zu x %zu: rows %zu to %zu differ from the same rows alone",
                type->name, effort_name(effort), weighted ? "on" : "off", rows, cols, first, first + n - 1);
        free(some);
    }
    free(whole), free(x), free(w);
}

/* Rows of one block, 1 to 40 of them: batches that are not full, at every width. */
TEST(rows_of_one_block) {
    seed_random(1);
    EACH_ENCODER(type)
    for (size_t rows = 1; rows <= 40; rows++)
        for (int weighted = 0; weighted < 2; weighted++)
            check_rows(type, rows, unit(type), EFFORT_DEFAULT, weighted);
}

/* Rows of several blocks: batches that end within a row, and importance that starts again with each. */
TEST(rows_of_several_blocks) {
    seed_random(2);
    EACH_ENCODER(type)
    EACH_EFFORT(effort)
    for (size_t blocks = 2; blocks <= 19; blocks += 1 + blocks / 5)
        for (int weighted = 0; weighted < 2; weighted++)
            check_rows(type, 5, blocks * unit(type), effort, weighted);
}

/* More rows than any level has lanes, several times over: any number of them makes full batches and others.
 */
TEST(batches_of_any_number_of_rows) {
    seed_random(4);
    EACH_ENCODER(type)
    for (int weighted = 0; weighted < 2; weighted++)
        check_rows(type, 67, 2 * unit(type), EFFORT_DEFAULT, weighted);
}

/* All rows, cut into pieces of columns between blocks, each piece a matrix with its part of the importance.
 */
static void check_columns(const tensor_type *type, size_t rows, size_t blocks, codec_effort effort,
                          bool weighted) {
    size_t cols = blocks * unit(type), row_bytes = encoded_size(type, 1, cols);
    float *x = malloc(4 * rows * cols), *w = malloc(4 * cols), *piece = malloc(4 * rows * cols);
    assert_true(x && w && piece);
    fill_normal(x, rows * cols, 1), fill_importance(w, cols);
    uint8_t *whole = encode_everywhere(type, x, rows, cols, weighted ? w : NULL, effort);
    for (size_t first = 0, n; first < cols; first += n) {
        n = (1 + next_random() % 3) * unit(type);
        if (n > cols - first) n = cols - first;
        for (size_t r = 0; r < rows; r++) memcpy(piece + r * n, x + r * cols + first, 4 * n);
        uint8_t *some = encode_everywhere(type, piece, rows, n, weighted ? w + first : NULL, effort);
        size_t bytes = encoded_size(type, 1, n), at = encoded_size(type, 1, first);
        for (size_t r = 0; r < rows; r++)
            if (memcmp(whole + r * row_bytes + at, some + r * bytes, bytes))
                fail_msg("%s, effort %s, importance %s: row %zu, columns %zu to %zu differ from those "
                         "columns alone",
                         type->name, effort_name(effort), weighted ? "on" : "off", r, first, first + n - 1);
        free(some);
    }
    free(whole), free(x), free(w), free(piece);
}

TEST(columns_in_pieces) {
    seed_random(5);
    EACH_ENCODER(type)
    EACH_EFFORT(effort)
    for (int weighted = 0; weighted < 2; weighted++) check_columns(type, 19, 7, effort, weighted);
}

/* A row of zeros, of huge weights or of tiny ones in the same batch changes nothing for its neighbours. */
TEST(neighbours_do_not_matter) {
    enum { ROWS = 33 };
    EACH_ENCODER(type) for (int kind = 0; kind < 3; kind++) {
        static const float sizes[] = {0, 1e-30f, 1e3f};
        size_t cols = unit(type), bytes = encoded_size(type, 1, cols);
        float *x = malloc(4 * ROWS * cols);
        seed_random(3), fill_normal(x, ROWS * cols, 1);
        uint8_t *before = encode_everywhere(type, x, ROWS, cols, NULL, EFFORT_DEFAULT);
        for (size_t r = 0; r < ROWS; r += 2)
            for (size_t c = 0; c < cols; c++) x[r * cols + c] *= sizes[kind];
        uint8_t *after = encode_everywhere(type, x, ROWS, cols, NULL, EFFORT_DEFAULT);
        for (size_t r = 1; r < ROWS; r += 2)
            assert_memory_equal(before + r * bytes, after + r * bytes, bytes);
        free(x), free(before), free(after);
    }
}

TEST(no_rows) {
    float nothing = 0;
    EACH_ENCODER(type) free(encode_everywhere(type, &nothing, 0, unit(type), NULL, EFFORT_DEFAULT));
}

int main(void) { return tests_run(NULL, NULL); }
