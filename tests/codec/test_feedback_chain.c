/* Rows that count together: every code is the nearest to what the rows before it and the columns before it
 * leave to be made good, computed the straightforward way in double precision; and the error of a head falls.
 */
#include <math.h>

#include "base/memory.h"
#include "study/inputs/inputs.h"
#include "tests/support/codecs.h"

enum { N = 512, HEADS = 3, LENGTH = 8, STEP = LENGTH + 1, ROWS = HEADS * STEP, TOKENS = 600, SHARED = 4 };

/* Inputs of two streams, weights, and metrics of heads whose rows do much the same. */
typedef struct site {
    float x[N * TOKENS], y[N * TOKENS], w[ROWS * N];
    float metric[HEADS][LENGTH * LENGTH], factors[HEADS][LENGTH * LENGTH];
    cholesky factored, in_bf16;
    double root[N * N], z[ROWS * N]; /* R; a z of codec/feedback.h */
} site;
static site *s;

/* ---- the straightforward way ---- */
/* z R^T = w D, D the mean of (x - y) y^T. */
static void solve_targets(void) {
    static double d[N * N];
    double a = (double)s->factored.runs->gptaq_a;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            for (size_t t = 0; t < TOKENS; t++)
                d[i * N + j] += ((double)s->x[i * TOKENS + t] - (double)s->y[i * TOKENS + t]) *
                                (double)s->y[j * TOKENS + t] / TOKENS;
    for (size_t r = 0; r < ROWS; r++) {
        double wd[N] = {0}, *z = s->z + r * N;
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < N; j++) wd[j] += (double)s->w[r * N + i] * d[i * N + j];
        for (size_t c = N; c-- > 0;) {
            z[c] = wd[c];
            for (size_t k = c + 1; k < N; k++) z[c] -= z[k] * s->root[c * N + k];
            z[c] /= s->root[c * N + c];
        }
        for (size_t c = 0; c < N; c++) z[c] *= a;
    }
}

static int make_site(void **state) {
    static float mixed[16 * TOKENS];
    gq_error e;
    (void)state;
    s = calloc(1, sizeof *s);
    seed_random(11);
    fill_normal(mixed, 16 * TOKENS, 1), fill_normal(s->w, ROWS * N, 0.05f);
    for (size_t c = 0; c < N; c++) {
        float by[16];
        fill_normal(by, 16, 0.4f);
        for (size_t t = 0; t < TOKENS; t++) {
            float x = 0.5f * random_normal();
            for (size_t i = 0; i < 16; i++) x += by[i] * mixed[i * TOKENS + t];
            s->x[c * TOKENS + t] = x, s->y[c * TOKENS + t] = 0.97f * x + 0.1f * random_normal();
        }
    }
    for (int i = 0; i < 2; i++) {
        hessian *m = hessian_new(kernels_select(),
                                 (hessian_shape){.columns = N, .width = N, .two_streams = true}, NULL, &e);
        hessian_add(m, s->x, TOKENS, s->y, TOKENS, TOKENS);
        assert_true(cholesky_factor(m, HESSIAN_DEFAULT, i ? &s->in_bf16 : &s->factored, &e));
        hessian_free(m);
    }
    cholesky_round(&s->in_bf16, MATMUL_BF16, NULL);
    for (size_t i = 0; i < N; i++)
        for (size_t j = i; j < N; j++)
            s->root[i * N + j] =
                (double)s->factored.runs->cholesky[feedback_triangle(j / 256) + i * 256 + j % 256];
    for (size_t h = 0; h < HEADS; h++) {
        float a[LENGTH * SHARED];
        fill_normal(a, LENGTH * SHARED, 1);
        for (size_t i = 0; i < LENGTH; i++)
            for (size_t j = 0; j < LENGTH; j++)
                for (size_t k = 0; k < SHARED; k++)
                    s->metric[h][i * LENGTH + j] += a[i * SHARED + k] * a[j * SHARED + k];
    }
    solve_targets();
    return 0;
}

FIXTURE(free_site) {
    cholesky_free(&s->factored), cholesky_free(&s->in_bf16), free(s);
    return 0;
}

/* What a row expects of an earlier place's error: the first unknown of the normal equations of all rows from
 * its place on, with a tenth of the mean diagonal on the diagonal. */
static double expected_factor(size_t head, size_t together, size_t place, size_t earlier) {
    double a[LENGTH][LENGTH + 1], damp = 0;
    size_t n = LENGTH - place;
    for (size_t i = 0; i < LENGTH; i++) damp += 0.1 * (double)s->metric[head][i * (LENGTH + 1)] / LENGTH;
    for (size_t i = 0; i < n; i++) {
        size_t row = feedback_chain_row(LENGTH, together, place + i);
        for (size_t j = 0; j <= n; j++) {
            size_t column = feedback_chain_row(LENGTH, together, j < n ? place + j : earlier);
            a[i][j] = (double)s->metric[head][row * LENGTH + column] + (i == j ? damp : 0);
        }
    }
    for (size_t c = n; c-- > 0;) /* the last unknown first, so that the first one remains */
        for (size_t i = 0; i < c; i++) {
            double by = a[i][c] / a[c][c];
            for (size_t j = 0; j <= n; j++) a[i][j] -= by * a[c][j];
        }
    return a[0][n] / a[0][0];
}

/* r of a row of which q was made: (t - q) R. */
static void rest_of(size_t row, const float *q, double *rest) {
    for (size_t c = 0; c < N; c++) {
        rest[c] = s->z[row * N + c];
        for (size_t k = 0; k <= c; k++)
            rest[c] += ((double)s->w[row * N + k] - (double)q[row * N + k]) * s->root[k * N + c];
    }
}

/* The sum over i, j of G_ij e_i H e_j^T of all heads. */
static double chain_loss(const float *q) {
    static double rest[LENGTH][N];
    double sum = 0;
    for (size_t h = 0; h < HEADS; h++) {
        for (size_t i = 0; i < LENGTH; i++) rest_of(h * STEP + i, q, rest[i]);
        for (size_t i = 0; i < LENGTH; i++)
            for (size_t j = 0; j < LENGTH; j++)
                for (size_t c = 0; c < N; c++)
                    sum += (double)s->metric[h][i * LENGTH + j] * rest[i][c] * rest[j][c];
    }
    return sum;
}

/* ---- the library ---- */
/* Rounds `heads` heads from the given one on as a chain, or row by row; rows between heads stay as they are.
 */
static void round_heads(const kernels *k, uint32_t type, const cholesky *by, int sweeps, size_t head,
                        size_t heads, size_t together, uint8_t *blocks) {
    static float factors[HEADS * LENGTH * LENGTH];
    static double scratch[LENGTH * LENGTH];
    feedback_sums sums = {0};
    size_t row_bytes = gguf_row_bytes(tensor_type_of(type), N);
    float *rest = memory_lines(heads * LENGTH * feedback_padded(N), sizeof *rest, NULL);
    feedback_chain chain = {heads, LENGTH, together, STEP, factors, rest};
    feedback_task t = {.kernels = k,
                       .type = type,
                       .effort = EFFORT_FAST,
                       .sweeps = sweeps,
                       .hessian = by->runs,
                       .n_hessians = by->n_runs,
                       .columns = N,
                       .scratch = memory_lines(1, feedback_bytes(k, type, N, by->runs->arithmetic), NULL),
                       .chain = together ? &chain : NULL};
    for (size_t h = 0; together && h < heads; h++)
        feedback_chain_factors(s->metric[head + h], LENGTH, together, factors + h * LENGTH * LENGTH, scratch);
    codec_feedback(&t, s->w + head * STEP * N, together ? heads * LENGTH : heads * STEP,
                   blocks + head * STEP * row_bytes, &sums);
    if (together) assert_int_equal(sums.codes, heads * LENGTH * N);
    free(rest), free(t.scratch);
}

static void decode_rows(const kernels *k, uint32_t type, const uint8_t *blocks, float *q) {
    k->codecs[type].decode(blocks, 0, q, ROWS * N);
}

/* ---- tests ---- */
TEST(factors_solve_the_normal_equations) {
    double scratch[LENGTH * LENGTH];
    for (size_t together = 1; together <= 4; together *= 2)
        for (size_t h = 0; h < HEADS; h++) {
            feedback_chain_factors(s->metric[h], LENGTH, together, s->factors[h], scratch);
            for (size_t k = 0; k < LENGTH; k++)
                for (size_t j = 0; j < LENGTH; j++) {
                    double got = (double)s->factors[h][k * LENGTH + j],
                           wanted = j < k ? expected_factor(h, together, k, j) : 0;
                    if (!(fabs(got - wanted) <= 1e-5 * (1 + fabs(wanted))))
                        fail_msg("%zu at once: place %zu expects %g of %zu, not %g", together, k, got, j,
                                 wanted);
                }
        }
}

/* MXFP4: the values of its codes are those of 16 numbers times a power of two, and rows get no gain. */
TEST(codes_are_nearest_to_what_is_left) {
    static uint8_t blocks[ROWS * N];
    static float q[ROWS * N];
    static double rests[LENGTH][N];
    static const double codes[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    const kernels *k = kernels_select();
    for (size_t together = 1; together <= 2; together *= 2) {
        memset(blocks, 0, sizeof blocks);
        round_heads(k, GGUF_MXFP4, &s->factored, 0, 0, HEADS, together, blocks);
        decode_rows(k, GGUF_MXFP4, blocks, q);
        double moved = 0;
        for (size_t h = 0; h < HEADS; h++)
            for (size_t place = 0; place < LENGTH; place++) {
                size_t row = h * STEP + feedback_chain_row(LENGTH, together, place), wrong = 0;
                double target[N], sum[N] = {0};
                for (size_t c = 0; c < N; c++) target[c] = s->z[row * N + c];
                for (size_t j = 0; j < place / together * together; j++) {
                    double factor = expected_factor(h, together, place, j);
                    for (size_t c = 0; c < N; c++) target[c] += factor * rests[j][c];
                }
                for (size_t c = 0; c < N; c++) moved += fabs(target[c] - s->z[row * N + c]);
                for (size_t c = 0; c < N; c++) {
                    double v = (double)s->w[row * N + c] + (target[c] + sum[c]) / s->root[c * N + c];
                    double got = (double)q[row * N + c], best = INFINITY;
                    double scale = ldexp(1, blocks[(row * N + c) / 32 * 17] - 128) * 2;
                    for (size_t i = 0; i < 16; i++) {
                        double d = fabs(v - (i < 8 ? codes[i] : -codes[i - 8]) * scale);
                        best = d < best ? d : best;
                    }
                    wrong += !(fabs(got - v) <= best + 1e-3 * scale);
                    for (size_t i = c + 1; i < N; i++)
                        sum[i] += ((double)s->w[row * N + c] - got) * s->root[c * N + i];
                }
                if (wrong)
                    fail_msg("%zu at once: row %zu: %zu codes are not the nearest", together, row, wrong);
                rest_of(row, q, rests[place]);
            }
        assert_true(moved > 1);
    }
}

TEST(the_error_of_heads_falls) {
    static const uint32_t types[] = {GGUF_Q4_K, GGUF_Q2_K, GGUF_Q4_0, GGUF_IQ3_S, GGUF_TQ2_0};
    static uint8_t blocks[ROWS * N * 4];
    static float q[ROWS * N];
    const kernels *k = kernels_select();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int sweeps = 0; sweeps < 2; sweeps++) {
            double loss[3], in_bf16;
            for (size_t together = 0; together < 3; together++) {
                round_heads(k, types[i], &s->factored, sweeps, 0, HEADS, together, blocks);
                decode_rows(k, types[i], blocks, q);
                loss[together] = chain_loss(q);
            }
            round_heads(k, types[i], &s->in_bf16, sweeps, 0, HEADS, 2, blocks);
            decode_rows(k, types[i], blocks, q);
            in_bf16 = chain_loss(q);
            if (!(loss[1] < 0.7 * loss[0]) || !(loss[2] < 0.9 * loss[0]) ||
                !(fabs(in_bf16 - loss[2]) < 0.1 * loss[2]))
                fail_msg("%s: %g row by row, %g in chains, %g two at once, %g so in bf16",
                         tensor_type_of(types[i])->name, loss[0], loss[1], loss[2], in_bf16);
        }
}

/* Nor on which heads share a call. */
static void expect_chains_alike_at_all_levels(const cholesky *by, size_t together, int sweeps) {
    static uint8_t first[ROWS * N], whole[ROWS * N], apart[ROWS * N];
    const kernels *before = NULL;
    EACH_LEVEL(k) {
        memset(whole, 0, sizeof whole), memset(apart, 0, sizeof apart);
        round_heads(k, GGUF_Q4_K, by, sweeps, 0, HEADS, together, whole);
        round_heads(k, GGUF_Q4_K, by, sweeps, 0, 1, together, apart);
        round_heads(k, GGUF_Q4_K, by, sweeps, 1, HEADS - 1, together, apart);
        if (memcmp(whole, apart, sizeof whole)) fail_msg("%s: heads depend on each other", kernels_name(k));
        if (before && memcmp(first, whole, sizeof whole))
            fail_msg("%s differs from %s", kernels_name(k), kernels_name(before));
        if (fuses(k)) before = k, memcpy(first, whole, sizeof whole);
    }
}

TEST(bytes_of_chains_do_not_depend_on_the_level) {
    for (size_t together = 1; together <= 4; together *= 2)
        for (int sweeps = 0; sweeps < 2; sweeps++) {
            expect_chains_alike_at_all_levels(&s->factored, together, sweeps);
            expect_chains_alike_at_all_levels(&s->in_bf16, together, sweeps);
        }
}

int main(void) { return tests_run(make_site, free_site); }
