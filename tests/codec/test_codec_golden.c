/* Encoders against bytes that are known: F16, BF16 and, at the lowest effort, Q8_0 are written as everyone
 * writes them; the simple types never lose more than plain rounding does. */
#include <math.h>

#include "tests/support/codecs.h"

static float stored_as_half(float x) {
    uint8_t bytes[2];
    kernels_select()->codecs[GGUF_F16].encode(&x, bytes, 1, 1, NULL,
                                              &(encode_settings){.effort = EFFORT_FAST});
    kernels_select()->codecs[GGUF_F16].decode(bytes, 0, &x, 1);
    return x;
}

/* Rows of the shared golden encodes, and what llama.cpp made of them. */
enum { GOLDEN_ROWS = 16, GOLDEN_COLS = 256 };
typedef struct golden {
    const tensor_type *type;
    float *x;
    uint8_t *blocks;
} golden;

static golden read_golden(uint32_t id) {
    golden g = {.type = tensor_type_of(id)};
    char relative[64];
    size_t n;
    snprintf(relative, sizeof relative, "golden/encode/%s.in.f32", g.type->name);
    g.x = (float *)read_whole(shared_path(relative), &n);
    assert_int_equal(n, 4 * GOLDEN_ROWS * GOLDEN_COLS);
    snprintf(relative, sizeof relative, "golden/encode/%s.out", g.type->name);
    g.blocks = read_whole(shared_path(relative), &n);
    assert_int_equal(n, encoded_size(g.type, GOLDEN_ROWS, GOLDEN_COLS));
    return g;
}

TEST(canonical_bytes_are_those_of_llama_cpp) {
    static const uint32_t ids[] = {GGUF_F16, GGUF_BF16, GGUF_Q8_0};
    for (int t = 0; t < 3; t++) {
        golden g = read_golden(ids[t]);
        uint8_t *ours = encode_everywhere(g.type, g.x, GOLDEN_ROWS, GOLDEN_COLS, NULL, EFFORT_FAST);
        assert_memory_equal(ours, g.blocks, encoded_size(g.type, GOLDEN_ROWS, GOLDEN_COLS));
        free(ours), free(g.x), free(g.blocks);
    }
}

/* Not above the other error, but for what the rounding of a factor to binary16 costs: rows of one value are
 * stored exactly by a step that happens to be a binary16, and nothing can be said of weights below the
 * smallest one. */
static bool not_above(double e2, double other_e2, double x2, size_t n) {
    return e2 <= other_e2 || e2 <= x2 * 0x1p-20 || e2 <= (double)n * 0x1p-48;
}

static double squared_error(const float *x, const float *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum;
}

TEST(simple_types_lose_no_more_than_llama_cpp) {
    static const uint32_t ids[] = {GGUF_Q4_0, GGUF_Q4_1, GGUF_Q5_0, GGUF_Q5_1, GGUF_Q8_0};
    static const float zeros[GOLDEN_COLS];
    for (int t = 0; t < 5; t++) {
        golden g = read_golden(ids[t]);
        static float theirs[GOLDEN_ROWS * GOLDEN_COLS];
        kernels_select()->codecs[ids[t]].decode(g.blocks, 0, theirs, GOLDEN_ROWS * GOLDEN_COLS);
        EACH_EFFORT(effort) {
            float *ours = through(g.type, g.x, GOLDEN_ROWS, GOLDEN_COLS, NULL, effort);
            for (size_t r = 0; r < GOLDEN_ROWS; r++) {
                size_t at = r * GOLDEN_COLS;
                double e2 = squared_error(g.x + at, ours + at, GOLDEN_COLS);
                double other = squared_error(g.x + at, theirs + at, GOLDEN_COLS);
                if (!not_above(e2, other, squared_error(g.x + at, zeros, GOLDEN_COLS), GOLDEN_COLS))
                    fail_msg("%s, effort %s, row %zu: squared error %g, llama.cpp's %g", g.type->name,
                             effort_name(effort), r, e2, other);
            }
            free(ours);
        }
        free(g.x), free(g.blocks);
    }
}

/* ---- the same without the shared material ---- */
TEST(every_number_becomes_the_nearest_half) {
    static uint8_t bytes[2 * 0x7c00];
    static float half[0x7c00];
    for (int i = 0; i < 0x7c00; i++) bytes[2 * i] = (uint8_t)i, bytes[2 * i + 1] = (uint8_t)(i >> 8);
    kernels_select()->codecs[GGUF_F16].decode(bytes, 0, half, 0x7c00);
    for (int i = 0; i + 1 < 0x7c00; i++) {
        float middle = half[i] + (half[i + 1] - half[i]) / 2; /* exact */
        float x[6] = {half[i], nextafterf(middle, 0), middle, nextafterf(middle, INFINITY), -half[i + 1],
                      -middle};
        int even = i + i % 2;
        int expected[6] = {i, i, even, i + 1, 0x8000 | (i + 1), 0x8000 | even};
        uint8_t *b = encode_everywhere(tensor_type_of(GGUF_F16), x, 1, 6, NULL, EFFORT_DEFAULT);
        for (int k = 0; k < 6; k++)
            if ((b[2 * k] | b[2 * k + 1] << 8) != expected[k])
                fail_msg("%a became half %02x%02x, not %04x", (double)x[k], b[2 * k + 1], b[2 * k],
                         expected[k]);
        free(b);
    }
}

TEST(every_number_becomes_the_nearest_bfloat) {
    for (uint32_t upper = 0; upper < 0x7f7f; upper++) {
        uint32_t bits[4] = {upper << 16 | 0x7fff, upper << 16 | 0x8000, upper << 16 | 0x8001,
                            0x80000000 | upper << 16 | 0x8000};
        uint32_t even = upper + upper % 2, expected[4] = {upper, even, upper + 1, 0x8000 | even};
        float x[4];
        memcpy(x, bits, sizeof x);
        uint8_t *b = encode_everywhere(tensor_type_of(GGUF_BF16), x, 1, 4, NULL, EFFORT_DEFAULT);
        for (int k = 0; k < 4; k++) assert_int_equal(b[2 * k] | b[2 * k + 1] << 8, expected[k]);
        free(b);
    }
}

/* Q8_0: a step of largest / 127; codes by the reciprocal of the step, halves away from zero, as roundf has
 * them. */
static void plain_q8_0(const float *x, uint8_t *block) {
    float top = 0;
    for (int i = 0; i < 32; i++) top = fmaxf(top, fabsf(x[i]));
    float step = top / 127, inverse = step > 0 ? 1 / step : 0;
    kernels_select()->codecs[GGUF_F16].encode(&step, block, 1, 1, NULL,
                                              &(encode_settings){.effort = EFFORT_FAST});
    for (int i = 0; i < 32; i++) block[2 + i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
}

TEST(q8_0_at_the_lowest_effort_is_canonical) {
    enum { BLOCKS = 500 };
    static float x[32 * BLOCKS];
    static uint8_t expected[34 * BLOCKS];
    seed_random(1);
    for (int b = 0; b < BLOCKS; b++) {
        float *block = x + 32 * b;
        fill_normal(block, 32, ldexpf(1, b % 50 - 35));
        /* Every third block full of ties: the largest weight makes the step 2^-k, the others are odd halves
         * of it. */
        if (b % 3 == 0)
            for (int i = 0; i < 32; i++)
                block[i] = ldexpf(i ? (float)((int)(next_random() >> 56) - 127) + 0.5f : 127, b % 20 - 16);
        plain_q8_0(block, expected + 34 * b);
    }
    uint8_t *ours = encode_everywhere(tensor_type_of(GGUF_Q8_0), x, 1, 32 * BLOCKS, NULL, EFFORT_FAST);
    assert_memory_equal(ours, expected, sizeof expected);
    free(ours);
}

/* What plain rounding makes of a block: a step and no offset, the largest weight on the lowest code ... */
static void round_symmetric(const float *x, float *y, int n) {
    float top = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(top)) top = x[i];
    float step = top / (float)-n, inverse = step ? 1 / step : 0;
    for (int i = 0; i < 32; i++)
        y[i] = stored_as_half(step) *
               (fminf(floorf(x[i] * inverse + (float)n + 0.5f), (float)(2 * n - 1)) - (float)n);
}
/* ... or a step from the smallest to the largest weight. */
static void round_range(const float *x, float *y, int n) {
    float low = x[0], high = x[0];
    for (int i = 1; i < 32; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
    float step = (high - low) / (float)n, inverse = step > 0 ? 1 / step : 0;
    for (int i = 0; i < 32; i++)
        y[i] = stored_as_half(step) * fminf(floorf((x[i] - low) * inverse + 0.5f), (float)n) +
               stored_as_half(low);
}

TEST(simple_types_lose_no_more_than_plain_rounding) {
    static const struct {
        uint32_t type;
        void (*round)(const float *x, float *y, int n);
        int n;
    } plain[] = {{GGUF_Q4_0, round_symmetric, 8},
                 {GGUF_Q5_0, round_symmetric, 16},
                 {GGUF_Q4_1, round_range, 15},
                 {GGUF_Q5_1, round_range, 31}};
    enum { ROWS = 200, COLS = 512 };
    static float x[ROWS * COLS], y[COLS];
    static const float zeros[COLS];
    seed_random(2);
    for (int r = 0; r < ROWS; r++) {
        float *row = x + r * COLS;
        fill_normal(row, COLS, ldexpf(1, r % 20 - 10));
        /* Rows with outliers, rows of one sign. */
        for (int i = 0; i < COLS; i++)
            if (r % 4 == 1 && next_random() % 64 == 0) row[i] *= 10;
        for (int i = 0; i < COLS; i++)
            if (r % 4 == 2) row[i] = r % 8 == 2 ? fabsf(row[i]) : -fabsf(row[i]);
    }
    for (int t = 0; t < 4; t++)
        for (codec_effort effort = EFFORT_DEFAULT; effort <= EFFORT_BEST; effort++) {
            float *ours = through(tensor_type_of(plain[t].type), x, ROWS, COLS, NULL, effort);
            for (int r = 0; r < ROWS; r++) {
                const float *row = x + r * COLS;
                for (int i = 0; i < COLS; i += 32) plain[t].round(row + i, y + i, plain[t].n);
                double e2 = squared_error(row, ours + r * COLS, COLS), other = squared_error(row, y, COLS);
                /* The least error comes with a gain of 1 - e2 / x2; keeping the gain costs its inverse. */
                double x2 = squared_error(row, zeros, COLS);
                if (e2 > other / (1 - other / x2))
                    fail_msg("%s, effort %s, row %d: squared error %g, plainly rounded %g",
                             tensor_type_name(plain[t].type), effort_name(effort), r, e2, other);
            }
            free(ours);
        }
}

int main(void) { return tests_run(NULL, NULL); }
