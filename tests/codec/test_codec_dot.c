/* Rows times a vector, of every type at every level, against the plain decoder in double precision: within
 * what codec.h says, for any length, scale and grouping of rows. */
#include <math.h>

#include "codec/codec.h"
#include "codec/vector.h"
#include "tests/support/codecs.h"

typedef enum magnitude { USUAL, TINY, HUGE, MIXED } magnitude;

static void put_half(uint8_t *b, magnitude m) {
    unsigned sign = (unsigned)next_random() & 0x8000, fraction = (unsigned)next_random() & 1023;
    unsigned exponent = m == TINY ? 0 : m == HUGE ? 30 : 8 + (unsigned)(next_random() % 6);
    unsigned h = sign | exponent << 10 | fraction;
    b[0] = (uint8_t)h, b[1] = (uint8_t)(h >> 8);
}
static void put_single(uint8_t *b, magnitude m) {
    float f = ldexpf(1 + random_uniform() / 2, m == TINY ? -100 : m == HUGE ? 100 : -8);
    memcpy(b, &f, 4);
}
static void put_exponent(uint8_t *b, uint32_t type, magnitude m) {
    if (type == GGUF_NVFP4)
        *b = (uint8_t)(m == TINY   ? next_random() % 8
                       : m == HUGE ? 0x78 + next_random() % 7
                                   : next_random() % 127);
    else if (type == GGUF_MXFP4)
        *b = (uint8_t)(m == TINY ? 20 : m == HUGE ? 230 : 118 + next_random() % 8);
    else /* the upper byte of a bfloat16 */
        *b = (uint8_t)((next_random() & 0x80) | (m == TINY ? 0x0a : m == HUGE ? 0x70 : 0x3c));
}

static void fill_blocks(size_t layout, uint8_t *blocks, size_t n_bytes, magnitude asked) {
    const tensor_type *type = tensor_type_of(codecs_known[layout].type);
    for (size_t i = 0; i < n_bytes; i++) blocks[i] = (uint8_t)next_random();
    for (size_t at = 0; at < n_bytes; at += type->block_bytes) {
        magnitude m = asked == MIXED ? (magnitude)(next_random() % 3) : asked;
        for (int i = 0; i < 2; i++)
            if (codecs_known[layout].halves[i] >= 0)
                put_half(blocks + at + codecs_known[layout].halves[i], m);
        for (int i = 0; i < codecs_known[layout].n_exponents; i++)
            put_exponent(blocks + at + codecs_known[layout].exponents + i, type->id, m);
        if (codecs_known[layout].single) put_single(blocks + at, m);
        if (codecs_known[layout].spread) {
            uint8_t half[2], *words = blocks + at + codecs_known[layout].spread;
            put_half(half, m);
            for (int i = 0; i < 4; i++)
                words[2 * i + 1] = (uint8_t)((words[2 * i + 1] & 15) | (half[i / 2] >> i % 2 * 4 & 15) << 4);
        }
    }
}

/* ---- one product, all that codec.h says of it ---- */
typedef struct product {
    const tensor_type *type;
    size_t rows, cols;
    /* Allocated to the byte, so that a sanitizer sees what is read or written beyond. */
    uint8_t *blocks;
    float *x, *room;
    codec_vector v;
    double *exact, *bound;
} product;

static void make_vector(product *p, bool wide) {
    for (size_t k = 0; k < p->cols; k++)
        p->x[k] = wide ? ldexpf(random_normal(), (int)(next_random() % 12) - 6) : random_normal();
    p->v = codec_vector_make(p->x, p->cols, p->room);
}

static product make_product(size_t layout, size_t rows, size_t cols, magnitude m) {
    product p = {.type = tensor_type_of(codecs_known[layout].type), .rows = rows, .cols = cols};
    size_t bytes = rows * gguf_row_bytes(p.type, cols);
    p.blocks = malloc(bytes), p.x = malloc(cols * sizeof *p.x);
    p.room = malloc(codec_vector_floats(cols) * sizeof *p.room);
    p.exact = calloc(rows, sizeof *p.exact), p.bound = calloc(rows, sizeof *p.bound);
    fill_blocks(layout, p.blocks, bytes, m);
    make_vector(&p, m == MIXED);
    return p;
}

static void free_product(product *p) {
    free(p->blocks), free(p->x), free(p->room), free(p->exact), free(p->bound);
}

static void find_exact(product *p) {
    float *w = malloc(p->cols * sizeof *w), *a = malloc(p->cols * sizeof *a);
    for (size_t r = 0; r < p->rows; r++) {
        const uint8_t *row = p->blocks + r * gguf_row_bytes(p->type, p->cols);
        assert_true(reference_decode(p->type->id, row, w, p->cols));
        assert_true(reference_magnitude(p->type->id, row, a, p->cols));
        p->exact[r] = p->bound[r] = 0;
        for (size_t k = 0; k < p->cols; k++) {
            p->exact[r] += (double)w[k] * (double)p->x[k];
            p->bound[r] += codec_dot_magnitude(p->type, &p->v, k, a[k]);
        }
        p->bound[r] = codec_dot_tolerance(p->type, p->cols, p->bound[r]);
    }
    free(w), free(a);
}

static float *products_at(const kernels *k, const product *p) {
    float *out = malloc(p->rows * sizeof *out);
    k->codecs[p->type->id].dot(p->blocks, p->rows, p->cols, &p->v, out);
    return out;
}

static void check_product(product *p) {
    find_exact(p);
    EACH_LEVEL(k) {
        float *out = products_at(k, p);
        for (size_t r = 0; r < p->rows; r++)
            if (!(fabs((double)out[r] - p->exact[r]) <= p->bound[r]))
                fail_msg("%s %s, %zu columns, row %zu: %.9g, expected %.9g within %.3g", p->type->name,
                         kernels_name(k), p->cols, r, (double)out[r], p->exact[r], p->bound[r]);
        free(out);
    }
}

/* ---- tests ---- */
TEST(test_every_type_has_a_product) {
    EACH_LEVEL(k)
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        size_t i = 0;
        while (i < n_codecs_known && codecs_known[i].type != id) i++;
        assert_int_equal(k->codecs[id].decode != NULL, k->codecs[id].dot != NULL);
        assert_int_equal(k->codecs[id].decode != NULL, i < n_codecs_known); /* the tests below have it */
    }
}

/* Lengths around what kernels take at once: packs of blocks, steps of 16, tiles of 256. */
TEST(test_lengths) {
    static const size_t of_blocks[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31};
    static const size_t of_numbers[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 255, 256, 257, 300, 513, 1000};
    for (size_t i = 0; i < n_codecs_known; i++) {
        const size_t block = tensor_type_of(codecs_known[i].type)->block_elements;
        const size_t *lengths = block == 1 ? of_numbers : of_blocks;
        for (size_t k = 0; k < (block == 1 ? sizeof of_numbers : sizeof of_blocks) / sizeof *lengths; k++) {
            product p = make_product(i, 3, lengths[k] * block, USUAL);
            check_product(&p);
            free_product(&p);
        }
    }
}

TEST(test_scales_of_any_size) {
    for (size_t i = 0; i < n_codecs_known; i++)
        for (magnitude m = TINY; m <= MIXED; m++) {
            product p = make_product(i, 5, 2048, m);
            check_product(&p);
            free_product(&p);
        }
}

TEST(test_long_rows) {
    for (size_t i = 0; i < n_codecs_known; i++) {
        product p = make_product(i, 2, 256 * 57, USUAL);
        check_product(&p);
        free_product(&p);
    }
}

/* However rows are dealt out to calls, and hence to threads, and wherever they lie. */
TEST(test_rows_do_not_know_each_other) {
    for (size_t i = 0; i < n_codecs_known; i++) {
        product p = make_product(i, 7, 1280, USUAL);
        const size_t row_bytes = gguf_row_bytes(p.type, p.cols);
        uint8_t *moved = malloc(7 * row_bytes + 1);
        memcpy(moved + 1, p.blocks, 7 * row_bytes);
        EACH_LEVEL(k) {
            const codec *c = &k->codecs[p.type->id];
            float *together = products_at(k, &p), apart[7];
            for (size_t r = 7; r-- > 0;) c->dot(moved + 1 + r * row_bytes, 1, p.cols, &p.v, &apart[r]);
            assert_memory_equal(together, apart, sizeof apart);
            c->dot(moved + 1, 3, p.cols, &p.v, apart);
            c->dot(moved + 1 + 3 * row_bytes, 4, p.cols, &p.v, apart + 3);
            assert_memory_equal(together, apart, sizeof apart);
            free(together);
        }
        free(moved);
        free_product(&p);
    }
}

/* The bound is narrow enough to show a weight that is not the decoder's: of a block's own row, each column
 * weighs in by what the decoder says. */
TEST(test_each_column_counts) {
    for (size_t i = 0; i < n_codecs_known; i++) {
        const size_t block = tensor_type_of(codecs_known[i].type)->block_elements;
        product p = make_product(i, 1, block, USUAL);
        for (size_t k = 0; k < block; k++) {
            memset(p.x, 0, block * sizeof *p.x);
            p.x[k] = 1;
            p.v = codec_vector_make(p.x, block, p.room);
            check_product(&p);
        }
        free_product(&p);
    }
}

TEST(test_magnitude_is_above_the_parts) {
    for (size_t i = 0; i < n_codecs_known; i++) {
        product p = make_product(i, 1, 256, MIXED);
        float w[256], a[256];
        reference_decode(p.type->id, p.blocks, w, 256);
        assert_true(reference_magnitude(p.type->id, p.blocks, a, 256));
        for (int k = 0; k < 256; k++) assert_true(a[k] >= fabsf(w[k]));
        free_product(&p);
    }
    float a[1];
    assert_false(reference_magnitude(GGUF_I8, (const uint8_t[]){0}, a, 1));
}

/* Reading looks at every byte: each of them changes the sum. */
TEST(test_read_sees_all) {
    enum { MOST = 600 };
    uint8_t *bytes = calloc(MOST, 1);
    EACH_LEVEL(k)
    for (size_t n = 0; n <= MOST; n += 1 + n / 3)
        for (size_t i = 0; i < n; i++) {
            uint8_t *end = bytes + MOST - n;
            end[i] = 1;
            assert_true(k->read(end, n) != 0);
            end[i] = 0;
        }
    free(bytes);
}

int main(void) { return tests_run(NULL, NULL); }
