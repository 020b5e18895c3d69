/* Recurrences and convolutions at every ISA level: against plain sums in double, and bit for bit the same
 * at all levels with fused products, however columns are cut into tasks. */
#include <math.h>

#include "forward/graph/simd/kernels.h"
#include "tests/support/numbers.h"
#include "tests/support/support.h"

enum { STRIDE = 48, MOST_ROWS = 33, MOST_COLUMNS = STATE_COLUMNS };

static float random_within(float low, float high) {
    return low + (high - low) * 0.5f * (random_uniform() + 1);
}

/* Inputs of a task: rows of STRIDE floats. */
typedef struct inputs {
    float key[MOST_ROWS * STRIDE], query[MOST_ROWS * STRIDE], decay[MOST_ROWS * STRIDE];
    float value[MOST_COLUMNS * STRIDE], rate[MOST_COLUMNS * STRIDE];
    float log_decay[MOST_COLUMNS * MOST_ROWS], skip[MOST_COLUMNS];
} inputs;

static inputs *inputs_new(void) {
    inputs *in = malloc(sizeof *in);
    assert_non_null(in);
    seed_random(7);
    for (size_t i = 0; i < MOST_ROWS * STRIDE; i++) {
        in->key[i] = random_within(-0.3f, 0.3f), in->query[i] = random_within(-1, 1);
        in->decay[i] = random_within(0.5f, 1);
    }
    for (size_t i = 0; i < MOST_COLUMNS * STRIDE; i++)
        in->value[i] = random_within(-1, 1), in->rate[i] = random_within(0.05f, 1);
    for (size_t i = 0; i < MOST_COLUMNS * MOST_ROWS; i++) in->log_decay[i] = random_within(-2, -0.1f);
    for (size_t i = 0; i < MOST_COLUMNS; i++) in->skip[i] = random_within(-1, 1);
    return in;
}

/* What a test varies. */
typedef struct sizes {
    size_t rows, columns, tokens;
    bool is_delta, has_decays;
} sizes;

static const sizes tried[] = {{1, 1, 1, true, false},    {5, 7, 16, true, true},
                              {33, 64, 37, true, false}, {16, 64, 48, false, false},
                              {33, 17, 31, false, true}, {8, 63, 40, true, true}};
enum { TRIED = sizeof tried / sizeof *tried };

/* Runs the task on columns first to end; value: all of them, changed in place. */
static void run_columns(const forward_kernels *k, const inputs *in, const sizes *s, bool is_selection,
                        float *value, size_t first, size_t end) {
    float *memory =
        aligned_alloc(64, (recurrence_floats(s->rows) + selection_floats(s->rows)) / 16 * 64 + 64);
    assert_non_null(memory);
    if (is_selection)
        k->recurrence->select(&(selection_task){.key = in->key,
                                                .query = in->query,
                                                .rate = in->rate + first * STRIDE,
                                                .value = value + first * STRIDE,
                                                .stride = STRIDE,
                                                .rows = s->rows,
                                                .columns = end - first,
                                                .tokens = s->tokens,
                                                .log_decay = in->log_decay + first * s->rows,
                                                .skip = in->skip + first,
                                                .scratch = memory});
    else
        k->recurrence->recur(&(recurrence_task){.key = in->key,
                                                .query = in->query,
                                                .decay = in->decay,
                                                .rate = in->rate,
                                                .value = value + first * STRIDE,
                                                .stride = STRIDE,
                                                .decay_stride = s->has_decays ? STRIDE : 0,
                                                .rows = s->rows,
                                                .columns = end - first,
                                                .tokens = s->tokens,
                                                .scale = 0.5f,
                                                .skip = in->skip[0],
                                                .is_delta = s->is_delta,
                                                .scratch = memory});
    free(memory);
}

/* One column of a state, plainly; value[tokens] is changed. */
static void expect_column(const inputs *in, const sizes *s, bool is_selection, size_t column, double *value) {
    double state[MOST_ROWS] = {0};
    for (size_t t = 0; t < s->tokens; t++) {
        double found = 0, sum = 0, rate = (double)in->rate[(is_selection ? column : 0) * STRIDE + t];
        for (size_t j = 0; j < s->rows; j++) {
            double decay = is_selection ? exp(rate * (double)in->log_decay[column * s->rows + j])
                                        : (double)in->decay[(s->has_decays ? j : 0) * STRIDE + t];
            state[j] *= decay;
            found += state[j] * (double)in->key[j * STRIDE + t];
        }
        double added = rate * (value[t] - (s->is_delta && !is_selection ? found : 0));
        for (size_t j = 0; j < s->rows; j++) {
            state[j] += (double)in->key[j * STRIDE + t] * added;
            sum += state[j] * (double)in->query[j * STRIDE + t];
        }
        value[t] = is_selection ? sum + (double)in->skip[column] * value[t]
                                : sum * 0.5 + (double)in->skip[0] * value[t];
    }
}

static void check_level(const forward_kernels *k, const char *name, const inputs *in, const sizes *s,
                        bool is_selection, float *value) {
    memcpy(value, in->value, sizeof in->value);
    run_columns(k, in, s, is_selection, value, 0, s->columns);
    for (size_t c = 0; c < s->columns; c++) {
        double expected[STRIDE];
        for (size_t t = 0; t < s->tokens; t++) expected[t] = (double)in->value[c * STRIDE + t];
        expect_column(in, s, is_selection, c, expected);
        for (size_t t = 0; t < STRIDE; t++) {
            double given = (double)value[c * STRIDE + t];
            double wanted = t < s->tokens ? expected[t] : (double)in->value[c * STRIDE + t];
            if (!(fabs(given - wanted) <= 2e-5 * (1 + fabs(wanted))))
                fail_msg("%s: column %zu, token %zu: %g, expected %g", name, c, t, given, wanted);
        }
    }
    if (s->columns < 2) return;
    static float cut[MOST_COLUMNS * STRIDE];
    memcpy(cut, in->value, sizeof cut);
    run_columns(k, in, s, is_selection, cut, 0, s->columns / 2);
    run_columns(k, in, s, is_selection, cut, s->columns / 2, s->columns);
    assert_memory_equal(cut, value, s->columns * STRIDE * sizeof *cut);
}

TEST(states_are_those_of_plain_sums) {
    static float value[MOST_COLUMNS * STRIDE], first[MOST_COLUMNS * STRIDE];
    inputs *in = inputs_new();
    for (size_t i = 0; i < 2 * TRIED; i++) {
        bool has_first = false;
        for (size_t level = 0; kernels_level_name(level); level++) {
            const char *name = kernels_level_name(level);
            if (!kernels_level(name)) continue;
            check_level(forward_kernels_of(kernels_level(name)), name, in, &tried[i / 2], i % 2, value);
            if (strstr(name, "v2")) continue;
            if (has_first) assert_memory_equal(first, value, sizeof first);
            memcpy(first, value, sizeof first), has_first = true;
        }
    }
    free(in);
}

TEST(convolutions_see_the_last_tokens) {
    enum { MOST = 200 };
    static const size_t lengths[] = {1, 2, 63, 64, 65, 128, 200}, taps[] = {1, 3, 4, CONVOLUTION_TAPS};
    float x[MOST], kernel[CONVOLUTION_TAPS], out[MOST];
    seed_random(3);
    for (size_t i = 0; i < MOST; i++) x[i] = random_within(-1, 1);
    for (size_t i = 0; i < CONVOLUTION_TAPS; i++) kernel[i] = random_within(-1, 1);
    for (size_t level = 0; kernels_level_name(level); level++) {
        if (!kernels_level(kernels_level_name(level))) continue;
        const forward_kernels *k = forward_kernels_of(kernels_level(kernels_level_name(level)));
        for (size_t i = 0; i < 7 * 4; i++) {
            size_t n = lengths[i / 4], w = taps[i % 4];
            memcpy(out, x, sizeof x);
            k->recurrence->convolve(out, kernel, w, 0.25f, n);
            for (size_t t = 0; t < MOST; t++) {
                float sum = t < n ? 0.25f : x[t];
                for (size_t j = 0; t < n && j < w; j++)
                    sum += kernel[j] * (t + j + 1 >= w ? x[t + j + 1 - w] : 0.0f);
                assert_memory_equal(&out[t], &sum, sizeof sum);
            }
        }
    }
}

int main(void) { return tests_run(NULL, NULL); }
