/* What importance does to the bytes, and what odd importance must not do. */
#include <math.h>

#include "tests/support/codecs.h"

enum { ROWS = 24, COLS = 768, N = ROWS * COLS };
static float x[N], importance[COLS];

static double error_under(const tensor_type *type, codec_effort effort, const float *given,
                          const float *judge) {
    float *y = through(type, x, ROWS, COLS, given, effort);
    assert_true(all_finite(y, N));
    double error = relative_error(x, y, ROWS, COLS, judge);
    free(y);
    return error;
}

TEST(importance_pays) {
    EACH_ENCODER(type) if (type->quantized) {
        for (codec_effort effort = EFFORT_DEFAULT; effort <= EFFORT_BEST; effort++) {
            double with = error_under(type, effort, importance, importance);
            double without = error_under(type, effort, NULL, importance);
            if (!(with < without))
                fail_msg("%s, effort %s: weighted relative error %g with importance, %g without", type->name,
                         effort_name(effort), with, without);
        }
    }
}

static uint8_t *encode(const tensor_type *type, const float *w, codec_effort effort) {
    return encode_everywhere(type, x, ROWS, COLS, w, effort);
}

/* Only ratios count. */
TEST(a_common_factor_changes_nothing) {
    static const int powers[] = {-60, -1, 7, 90};
    static float scaled[COLS];
    EACH_ENCODER(type) EACH_EFFORT(effort) {
        uint8_t *first = encode(type, importance, effort);
        for (int p = 0; p < 4; p++) {
            for (size_t c = 0; c < COLS; c++) scaled[c] = ldexpf(importance[c], powers[p]);
            uint8_t *again = encode(type, scaled, effort);
            if (memcmp(first, again, encoded_size(type, ROWS, COLS)))
                fail_msg("%s, effort %s: importance times 2^%d gives other bytes", type->name,
                         effort_name(effort), powers[p]);
            free(again);
        }
        free(first);
    }
}

/* A block of columns that were never used is like one whose columns count alike. */
TEST(zeros_count_alike) {
    float zeros[COLS] = {0}, ones[COLS], zero_block[COLS], even_block[COLS];
    for (size_t c = 0; c < COLS; c++) {
        bool middle = c / 256 == 1;
        ones[c] = 1, zero_block[c] = middle ? 0 : importance[c], even_block[c] = middle ? 1 : importance[c];
    }
    EACH_ENCODER(type) EACH_EFFORT(effort) {
        uint8_t *blocks[4] = {encode(type, zeros, effort), encode(type, ones, effort),
                              encode(type, zero_block, effort), encode(type, even_block, effort)};
        size_t bytes = encoded_size(type, ROWS, COLS);
        if (memcmp(blocks[0], blocks[1], bytes) || memcmp(blocks[2], blocks[3], bytes))
            fail_msg("%s, effort %s: importance of zeros is not uniform", type->name, effort_name(effort));
        for (int i = 0; i < 4; i++) free(blocks[i]);
    }
}

/* Whatever the values: the important columns are no worse than usual, and the others do not turn to garbage.
 */
TEST(odd_importance) {
    enum { KINDS = 9 };
    static const char *const kinds[KINDS] = {
        "around 1e-38",
        "the smallest number",
        "around 1e30",
        "3e38",
        "from 1e-38 to 1e30",
        "every other zero",
        "a third of the 32s zero",
        "one column of each 256",
        "one column of each 256, the others 1e-6",
    };
    for (int kind = 0; kind < KINDS; kind++) {
        float odd[COLS];
        seed_random(3);
        for (size_t c = 0; c < COLS; c++) {
            bool chosen = c % 256 == 77;
            float values[KINDS] = {
                1e-38f * importance[c],
                0x1p-149f,
                1e30f * importance[c],
                3e38f,
                ldexpf(1, (int)(next_random() % 226) - 126),
                c % 2 ? importance[c] : 0,
                c / 32 % 3 ? importance[c] : 0,
                chosen ? 5 : 0,
                chosen ? 1 : 1e-6f,
            };
            odd[c] = values[kind];
        }
        EACH_ENCODER(type) EACH_EFFORT(effort) {
            double usual = error_under(type, effort, NULL, NULL);
            double weighted = error_under(type, effort, odd, odd),
                   plain = error_under(type, effort, odd, NULL);
            if (!(weighted <= 1.2 * usual && plain <= 10 * usual && plain <= 0.8))
                fail_msg("%s, effort %s, importance %s: relative error %g, weighted %g, usually %g",
                         type->name, effort_name(effort), kinds[kind], plain, weighted, usual);
        }
    }
}

FIXTURE(set_up) {
    seed_random(1), fill_normal(x, N, 0.02f);
    fill_importance(importance, COLS);
    return 0;
}

int main(void) { return tests_run(set_up, NULL); }
