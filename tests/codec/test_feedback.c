/* Rounding with error feedback: what it is meant to be, computed the straightforward way in double precision;
 * and that it does what it is for, with every type. */
#include <math.h>

#include "base/memory.h"
#include "forward/products/product.h"
#include "study/inputs/inputs.h"
#include "tests/support/codecs.h"

enum { N = 512, ROWS = 20, TOKENS = 400, MOST_LANES = CODEC_MOST_LANES };

/* Inputs of two streams that differ a little, of features that go together; and rows of weights. */
typedef struct site {
    float x[N * TOKENS], y[N * TOKENS], w[ROWS * N];
    double h[N * N], d[N * N], u[N * N];     /* damped and shrunk; D; H^-1 = U^T U */
    double goal[ROWS * N], goal_h[ROWS * N]; /* t and t H, for the correction that Hessians make */
    cholesky factored[3];                    /* of y alone, of both, and of both in bf16 */
    float correction;
} site;
static site *s;

/* ---- the straightforward way ---- */
/* Inverse of a positive definite matrix, by elimination. */
static void invert(const double *a, double *v) {
    static double r[N * N];
    memcpy(r, a, sizeof r), memset(v, 0, sizeof(double) * N * N);
    for (size_t i = 0; i < N; i++) v[i * N + i] = 1;
    for (size_t c = 0; c < N; c++) {
        double pivot = 1 / r[c * N + c];
        for (size_t k = 0; k < N; k++) r[c * N + k] *= pivot, v[c * N + k] *= pivot;
        for (size_t i = 0; i < N; i++) {
            double by = r[i * N + c];
            if (i == c || by == 0) continue;
            for (size_t k = 0; k < N; k++)
                r[i * N + k] -= by * r[c * N + k], v[i * N + k] -= by * v[c * N + k];
        }
    }
}

/* U, upper, with a = U^T U. */
static void root(const double *a, double *u) {
    memset(u, 0, sizeof(double) * N * N);
    for (size_t i = 0; i < N; i++)
        for (size_t j = i; j < N; j++) {
            double sum = a[i * N + j];
            for (size_t k = 0; k < i; k++) sum -= u[k * N + i] * u[k * N + j];
            u[i * N + j] = i == j ? sqrt(sum) : sum / u[i * N + i];
        }
}

static void row_times(const double *row, const double *matrix, double *out) {
    memset(out, 0, sizeof(double) * N);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) out[j] += row[i] * matrix[i * N + j];
}

/* (q - t) H (q - t)^T; t NULL: w. */
static double objective(const double *t, size_t row, const float *q) {
    double e[N], he[N], sum = 0;
    for (size_t c = 0; c < N; c++) e[c] = (double)q[c] - (t ? t[c] : (double)s->w[row * N + c]);
    row_times(e, s->h, he);
    for (size_t c = 0; c < N; c++) sum += e[c] * he[c];
    return sum;
}

typedef struct errors {
    double fed[MOST_LANES], plain[MOST_LANES];
} errors;
/* The pass over a batch, before the gain: codes nearest to what is left by the errors so far; plain: nearest
 * to the goal, by the same scales. */
static errors reference_errors(const kernels *k, uint32_t type, const double *goal) {
    const codec_columnwise *columnwise = k->codecs[type].columnwise;
    size_t lanes = k->lanes, length = tensor_type_of(type)->block_elements, group = columnwise->group;
    static double v[MOST_LANES][N];
    static float q[MOST_LANES][N], plain[MOST_LANES][N];
    errors found;
    void *state = NULL;
    if (posix_memalign(&state, 64, columnwise->state_bytes)) fail_msg("no memory");
    for (size_t l = 0; l < lanes; l++)
        for (size_t c = 0; c < N; c++) v[l][c] = goal ? goal[l * N + c] : (double)s->w[l * N + c];
    for (size_t first = 0; first < N; first += length) {
        float x[256 * MOST_LANES], importance[256], y[8 * MOST_LANES];
        for (size_t i = 0; i < length; i++) {
            double u = s->u[(first + i) * N + first + i];
            importance[i] = (float)(1 / (u * u));
            for (size_t l = 0; l < lanes; l++) x[i * lanes + l] = (float)v[l][first + i];
        }
        columnwise->choose(state, x, importance, &columnwise->searches[EFFORT_FAST][1]);
        for (size_t c = first; c < first + length; c += group) {
            for (size_t i = 0; i < group * lanes; i++) {
                size_t l = i % lanes, column = c + i / lanes;
                x[i] = (float)(goal ? goal[l * N + column] : (double)s->w[l * N + column]);
            }
            columnwise->round(state, c - first, x, y);
            for (size_t i = 0; i < group * lanes; i++) plain[i % lanes][c + i / lanes] = y[i];
            for (size_t i = 0; i < group * lanes; i++) x[i] = (float)v[i % lanes][c + i / lanes];
            columnwise->round(state, c - first, x, y);
            for (size_t i = 0; i < group * lanes; i++) {
                size_t l = i % lanes, column = c + i / lanes;
                double e = (v[l][column] - (double)y[i]) / s->u[column * N + column];
                q[l][column] = y[i];
                for (size_t j = column + 1; j < N; j++) v[l][j] -= e * s->u[column * N + j];
            }
        }
    }
    for (size_t l = 0; l < lanes; l++) {
        found.fed[l] = objective(goal ? goal + l * N : NULL, l, q[l]);
        found.plain[l] = objective(goal ? goal + l * N : NULL, l, plain[l]);
    }
    free(state);
    return found;
}

/* ---- the library ---- */
/* Rows from first on; returns the sums and, where decoded is not NULL, what will be read. */
static feedback_sums run(const kernels *k, uint32_t type, const feedback_hessian *m, size_t n_hessians,
                         int sweeps, size_t first, size_t rows, uint8_t *blocks, float *decoded) {
    feedback_task t = {
        k, type, EFFORT_FAST, sweeps, m, n_hessians, N,    NULL,
        0, 0,    NULL,        NULL,   0, NULL,       NULL, product_kernels_for(k, m->arithmetic)};
    feedback_sums sums = {0};
    size_t row_bytes = gguf_row_bytes(tensor_type_of(type), N);
    t.scratch = memory_lines(1, feedback_bytes(k, type, N, m->arithmetic), NULL);
    assert_non_null(t.scratch);
    codec_feedback(&t, s->w + first * N, rows, blocks, &sums);
    for (size_t r = 0; decoded && r < rows; r++)
        k->codecs[type].decode(blocks + r * row_bytes, 0, decoded + r * N, N);
    free(t.scratch);
    return sums;
}

FIXTURE(make_site) {
    gq_error e;
    static float mixed[32 * TOKENS];
    s = calloc(1, sizeof *s);
    seed_random(7);
    fill_normal(mixed, 32 * TOKENS, 1), fill_normal(s->w, ROWS * N, 0.05f);
    for (size_t c = 0; c < N; c++) {
        float by[32];
        fill_normal(by, 32, 0.3f);
        for (size_t t = 0; t < TOKENS; t++) {
            float x = 0.5f * random_normal() + 0.2f;
            for (size_t i = 0; i < 32; i++) x += by[i] * mixed[i * TOKENS + t];
            s->x[c * TOKENS + t] = x, s->y[c * TOKENS + t] = 0.98f * x + 0.1f * random_normal();
        }
    }
    for (int both = 0; both < 3; both++) {
        hessian *m =
            hessian_new(kernels_select(), (hessian_shape){N, N, both > 0, 0, 0, MATMUL_FLOAT32}, NULL, &e);
        assert_non_null(m);
        hessian_add(m, both ? s->x : NULL, TOKENS, s->y, TOKENS, TOKENS);
        assert_true(cholesky_factor(m, (hessian_settings){0.01f, 0.1f, -1, true, NULL, NULL},
                                    &s->factored[both], &e));
        assert_int_equal(s->factored[both].n_runs, 1);
        hessian_free(m);
    }
    cholesky_round(&s->factored[2], MATMUL_BF16, NULL);
    s->correction = s->factored[1].runs->gptaq_a;
    double mean = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            double h = 0, d = 0;
            for (size_t t = 0; t < TOKENS; t++) {
                double yj = (double)s->y[j * TOKENS + t], yi = (double)s->y[i * TOKENS + t];
                h += yi * yj, d += ((double)s->x[i * TOKENS + t] - yi) * yj;
            }
            s->h[i * N + j] = h / TOKENS, s->d[i * N + j] = d / TOKENS;
            if (i == j) mean += h / TOKENS / N;
        }
    for (size_t i = 0; i < N * N; i++)
        if (i % (N + 1))
            s->h[i] *= 0.9;
        else
            s->h[i] += 0.01 * mean;
    double *inverse = calloc(N * N, sizeof *inverse);
    invert(s->h, inverse), root(inverse, s->u);
    for (size_t r = 0; r < ROWS; r++) {
        double w[N], wd[N], move[N];
        for (size_t c = 0; c < N; c++) w[c] = (double)s->w[r * N + c];
        row_times(w, s->d, wd), row_times(wd, inverse, move);
        for (size_t c = 0; c < N; c++) s->goal[r * N + c] = w[c] + (double)s->correction * move[c];
    }
    for (size_t r = 0; r < ROWS; r++) row_times(s->goal + r * N, s->h, s->goal_h + r * N);
    free(inverse);
    return 0;
}

FIXTURE(free_site) {
    for (int both = 0; both < 3; both++) cholesky_free(&s->factored[both]);
    free(s);
    return 0;
}

/* One of each kind: super-blocks with minimums, with scales of either sign; blocks of 32; a table; no gain;
 * nearly exact; three codes; grids of eight, with an even number of signs and shifted, and of four. What else
 * types differ in test_codec_columnwise looks at. */
static const uint32_t kinds[] = {GGUF_Q4_K, GGUF_Q6_K,  GGUF_Q4_1,   GGUF_IQ4_NL, GGUF_MXFP4,
                                 GGUF_Q8_0, GGUF_TQ2_0, GGUF_IQ2_XS, GGUF_IQ1_M,  GGUF_IQ3_S};
#define EACH_KIND(type) \
    for (size_t kind_ = 0; kind_ < sizeof kinds / sizeof *kinds; kind_++) \
        for (const tensor_type *type = tensor_type_of(kinds[kind_]); type; type = NULL)

static bool has_no_gain(uint32_t type) { return type == GGUF_MXFP4 || type == GGUF_NVFP4; }

/* ---- tests ---- */
/* Row by row. Where a weight lies between two codes, it may go the other way, and the rest of its row with
 * it: with few codes most rows meet no such weight. */
TEST(agrees_with_double_precision) {
    static uint8_t blocks[ROWS * N * 4];
    static float q[N];
    const kernels *k = kernels_select();
    EACH_KIND(type) {
        for (int both = 0; both < 2; both++) {
            const double *goal = both ? s->goal : NULL;
            errors expected = reference_errors(k, type->id, goal);
            double all = 0, all_expected = 0, all_plain = 0;
            size_t same = 0;
            for (size_t r = 0; r < k->lanes; r++) {
                feedback_sums sums = run(k, type->id, s->factored[both].runs, 1, 0, r, 1, blocks, q);
                double power = 0, left = objective(goal ? goal + r * N : NULL, r, q);
                for (size_t c = 0; both && c < N; c++) power += s->goal[r * N + c] * s->goal_h[r * N + c];
                if (both && fabs(sums.power - power) > 1e-4 * power)
                    fail_msg("%s: a row to reach has the power %g, not %g", type->name, sums.power, power);
                if (has_no_gain(type->id) && fabs(left - sums.error) > 1e-3 * left)
                    fail_msg("%s: error of what is written %g, not %g", type->name, left, sums.error);
                same += fabs(sums.error - expected.fed[r]) < 1e-3 * expected.fed[r];
                all += sums.error, all_expected += expected.fed[r], all_plain += expected.plain[r];
            }
            size_t bits = 8 * type->block_bytes / type->block_elements;
            size_t least = bits < 5 ? k->lanes / 2 : bits < 8 ? k->lanes / 4 : 0;
            if (same < least || fabs(all - all_expected) > 0.05 * all_expected)
                fail_msg("%s, %d: %zu rows are the same, error %g, not %g", type->name, both, same, all,
                         all_expected);
            if (!(all < 0.9 * all_plain))
                fail_msg("%s, %d: error %g, without feedback %g", type->name, both, all, all_plain);
        }
    }
}

/* x A = b for a positive definite A: conjugate gradients. */
static void solve(const double *a, const double *b, double *x) {
    double r[N], p[N], ap[N], rr = 0;
    for (size_t i = 0; i < N; i++) x[i] = 0, r[i] = p[i] = b[i], rr += b[i] * b[i];
    for (int step = 0; step < 300 && rr > 0; step++) {
        double pap = 0, next = 0;
        row_times(p, a, ap);
        for (size_t i = 0; i < N; i++) pap += p[i] * ap[i];
        for (size_t i = 0; i < N; i++) x[i] += rr / pap * p[i], r[i] -= rr / pap * ap[i], next += r[i] * r[i];
        for (size_t i = 0; i < N; i++) p[i] = r[i] + next / rr * p[i];
        rr = next;
    }
}

/* Wholly corrected and not shrunk, the target is what fits w x best from y, by the text itself: it minimises
 * the sum of (w x - t y)^2 and the damping's share of |w - t|^2. Fine codes come near to it, w does not. */
TEST(the_target_solves_the_normal_equations) {
    static double a[N * N];
    static uint8_t blocks[N * 4];
    static float far[N * TOKENS], q[N];
    double b[N] = {0}, t[N], ta[N], mean = 0, power = 0, left = 0, moved = 0;
    gq_error e;
    cholesky f;
    hessian *m = hessian_new(kernels_select(), (hessian_shape){N, N, true, 0, 0, MATMUL_FLOAT32}, NULL, &e);
    for (size_t i = 0; i < N * TOKENS; i++)
        far[i] = 1.3f * s->y[i] + 0.2f * s->x[(i + TOKENS) % (N * TOKENS)];
    hessian_add(m, far, TOKENS, s->y, TOKENS, TOKENS);
    assert_true(cholesky_factor(m, (hessian_settings){0.1f, 0, 1, true, NULL, NULL}, &f, &e));
    for (size_t i = 0; i < N; i++)
        for (size_t token = 0; token < TOKENS; token++) {
            double y = (double)s->y[i * TOKENS + token];
            mean += y * y / TOKENS / N;
        }
    for (size_t token = 0; token < TOKENS; token++) {
        double wx = 0;
        for (size_t i = 0; i < N; i++) wx += (double)s->w[i] * (double)far[i * TOKENS + token];
        for (size_t i = 0; i < N; i++) b[i] += wx * (double)s->y[i * TOKENS + token] / TOKENS;
    }
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) /* the site's H, undone: not damped, not shrunk */
            a[i * N + j] = i == j ? s->h[i * N + j] + 0.09 * mean : s->h[i * N + j] / 0.9;
        b[i] += 0.1 * mean * (double)s->w[i];
    }
    solve(a, b, t), row_times(t, a, ta);
    feedback_sums sums = run(kernels_select(), GGUF_Q8_0, f.runs, 1, 0, 0, 1, blocks, q);
    for (size_t i = 0; i < N; i++) power += t[i] * ta[i];
    for (int of_w = 0; of_w < 2; of_w++) {
        double d[N], da[N];
        for (size_t i = 0; i < N; i++) d[i] = (double)(of_w ? s->w[i] : q[i]) - t[i];
        row_times(d, a, da);
        for (size_t i = 0; i < N; i++) *(of_w ? &moved : &left) += d[i] * da[i];
    }
    assert_true(fabs(sums.power - power) < 1e-3 * power);
    assert_true(left < 1e-3 * power && left < 1e-2 * moved);
    cholesky_free(&f), hessian_free(m);
}

/* What a row lacks for each token, put in place of D, moves its target as D does: here w x - w y is lacking.
 * Only the last rows are rounded, which lie in a strip of rows of their own. */
TEST(what_is_lacking_moves_the_target) {
    enum { BEFORE = 256, RAGGED = BEFORE + 12 };
    static float lacking[RAGGED * TOKENS], q[2][ROWS * N];
    static uint8_t blocks[ROWS * N * 4];
    gq_error e;
    const kernels *k = kernels_select();
    cholesky f;
    hessian *m = hessian_new(k, (hessian_shape){N, N, false, 0, RAGGED, MATMUL_FLOAT32}, NULL, &e);
    for (size_t r = BEFORE; r < RAGGED; r++)
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t c = 0; c < N; c++)
                lacking[r * TOKENS + t] +=
                    s->w[(r - BEFORE) * N + c] * (s->x[c * TOKENS + t] - s->y[c * TOKENS + t]);
    hessian_add(m, lacking, TOKENS, s->y, TOKENS, TOKENS);
    assert_true(cholesky_factor(m, (hessian_settings){0.01f, 0.1f, -1, true, NULL, NULL}, &f, &e));
    feedback_task t = {.kernels = k,
                       .type = GGUF_Q8_0,
                       .hessian = f.runs,
                       .n_hessians = 1,
                       .columns = N,
                       .scratch = memory_lines(1, feedback_bytes(k, GGUF_Q8_0, N, MATMUL_FLOAT32), NULL),
                       .first_row = BEFORE,
                       .matrix_rows = RAGGED};
    feedback_sums sums = {0}, by_difference = run(k, GGUF_Q8_0, s->factored[1].runs, 1, 0, 0, RAGGED - BEFORE,
                                                  blocks, q[0]);
    codec_feedback(&t, s->w, RAGGED - BEFORE, blocks, &sums);
    k->codecs[GGUF_Q8_0].decode(blocks, 0, q[1], (RAGGED - BEFORE) * N);
    assert_true(fabs(sums.power - by_difference.power) < 1e-4 * by_difference.power);
    double moved = 0, apart = 0;
    for (size_t i = 0; i < (RAGGED - BEFORE) * N; i++) {
        double was = (double)q[0][i] - (double)s->w[i], other = (double)q[0][i] - (double)q[1][i];
        moved += was * was, apart += other * other;
    }
    if (!(apart < 0.05 * moved)) fail_msg("%g apart, of %g moved", apart, moved);
    free(t.scratch);
    cholesky_free(&f), hessian_free(m);
}

/* Rows of one call may lie in two strips of rows: each gets what it gets alone. */
TEST(what_rows_of_two_strips_lack) {
    enum { FIRST = 250, SECOND = 256, END = SECOND + 12 };
    static float lacking[END * TOKENS];
    static uint8_t together[ROWS * N * 4], apart[ROWS * N * 4];
    gq_error e;
    const kernels *k = kernels_select();
    cholesky f;
    hessian *m = hessian_new(k, (hessian_shape){N, N, false, 0, END, MATMUL_FLOAT32}, NULL, &e);
    seed_random(11);
    fill_normal(lacking, END * TOKENS, 0.1f);
    hessian_add(m, lacking, TOKENS, s->y, TOKENS, TOKENS);
    assert_true(cholesky_factor(m, (hessian_settings){0.01f, 0.1f, -1, true, NULL, NULL}, &f, &e));
    feedback_task t = {.kernels = k,
                       .type = GGUF_Q8_0,
                       .hessian = f.runs,
                       .n_hessians = 1,
                       .columns = N,
                       .scratch = memory_lines(1, feedback_bytes(k, GGUF_Q8_0, N, MATMUL_FLOAT32), NULL),
                       .first_row = FIRST,
                       .matrix_rows = END};
    feedback_sums sums = {0};
    size_t row_bytes = gguf_row_bytes(tensor_type_of(GGUF_Q8_0), N);
    codec_feedback(&t, s->w, END - FIRST, together, &sums);
    codec_feedback(&t, s->w, SECOND - FIRST, apart, &sums);
    t.first_row = SECOND;
    codec_feedback(&t, s->w + (SECOND - FIRST) * N, END - SECOND, apart + (SECOND - FIRST) * row_bytes,
                   &sums);
    assert_memory_equal(together, apart, (END - FIRST) * row_bytes);
    free(t.scratch);
    cholesky_free(&f), hessian_free(m);
}

/* Weights that are not rounded are moved to the very target. */
TEST(a_refit_is_the_target) {
    static float w[ROWS * N];
    static double z[ROWS * N];
    double moved = 0, apart = 0;
    memcpy(w, s->w, sizeof w);
    refit_rows(&s->factored[1], NULL, NULL, w, ROWS, z);
    for (size_t i = 0; i < ROWS * N; i++) {
        double d = (double)w[i] - s->goal[i], was = (double)s->w[i] - s->goal[i];
        apart += d * d, moved += was * was;
    }
    if (!(moved > 0 && apart < 1e-8 * moved)) fail_msg("%g apart, of %g moved", apart, moved);
}

TEST(lowers_the_error_of_the_output) {
    static uint8_t blocks[ROWS * N * 4];
    static float q[ROWS * N];
    float squares[N];
    const kernels *k = kernels_select();
    for (size_t c = 0; c < N; c++) squares[c] = (float)s->h[c * N + c];
    EACH_ENCODER(type) {
        if (!type->quantized) continue;
        const codec *encoder = &k->codecs[type->id];
        size_t row_bytes = gguf_row_bytes(type, N);
        double plain = 0, fed = 0;
        encoder->encode(s->w, blocks, ROWS, N, squares, &(encode_settings){.effort = EFFORT_FAST});
        for (size_t r = 0; r < ROWS; r++) {
            encoder->decode(blocks + r * row_bytes, 0, q, N);
            plain += objective(NULL, r, q);
        }
        run(k, type->id, s->factored[0].runs, 1, 0, 0, ROWS, blocks, q);
        for (size_t r = 0; r < ROWS; r++) fed += objective(NULL, r, q + r * N);
        if (!(fed < 0.8 * plain)) fail_msg("%s: %g, plain %g", type->name, fed, plain);
    }
}

/* Each sweep chooses what is best given the rest. */
TEST(descent_descends) {
    static uint8_t blocks[ROWS * N * 4];
    static float q[ROWS * N];
    const kernels *k = kernels_select();
    EACH_KIND(type) {
        double before = INFINITY;
        for (int sweeps = 0; sweeps < 3; sweeps++) {
            feedback_sums sums = run(k, type->id, s->factored[1].runs, 1, sweeps, 0, ROWS, blocks, q);
            double left = 0;
            for (size_t r = 0; r < ROWS; r++) left += objective(s->goal + r * N, r, q + r * N);
            if (!(sums.error <= before * (sweeps == 1 ? 0.999 : 1.00001)))
                fail_msg("%s: error %g after %d sweeps, %g before", type->name, sums.error, sweeps, before);
            if (has_no_gain(type->id) && fabs(left - sums.error) > 1e-3 * left)
                fail_msg("%s: error of what is written %g, not %g", type->name, left, sums.error);
            before = sums.error;
        }
    }
}

/* Where both streams agree the target is the row itself: shrinking and damping do not move it. */
TEST(no_difference_no_correction) {
    static uint8_t with[ROWS * N * 4], without[ROWS * N * 4];
    gq_error e;
    cholesky f;
    hessian *m = hessian_new(kernels_select(), (hessian_shape){N, N, true, 0, 0, MATMUL_FLOAT32}, NULL, &e);
    hessian_add(m, s->y, TOKENS, s->y, TOKENS, TOKENS);
    assert_true(cholesky_factor(m, (hessian_settings){0.01f, 0.1f, 1, true, NULL, NULL}, &f, &e));
    const kernels *k = kernels_select();
    feedback_sums a = run(k, GGUF_Q4_K, f.runs, 1, 1, 0, ROWS, with, NULL);
    feedback_sums b = run(k, GGUF_Q4_K, s->factored[0].runs, 1, 1, 0, ROWS, without, NULL);
    assert_memory_equal(with, without, ROWS * gguf_row_bytes(tensor_type_of(GGUF_Q4_K), N));
    assert_true(a.power == b.power);
    cholesky_free(&f), hessian_free(m);
}

/* Inputs that have nothing in common: the search with equal weights, and a gain per row. */
TEST(identity_is_plain_rounding) {
    static float identity[3 * 256 * 256], importance[256];
    static uint8_t fed[ROWS * N * 4], plain[ROWS * N * 4];
    const kernels *k = kernels_select();
    size_t lanes = k->lanes;
    for (size_t c = 0; c < N; c++) identity[feedback_triangle(c / 256) + c * 256 + c % 256] = 1;
    for (size_t c = 0; c < 256; c++) importance[c] = 1;
    feedback_hessian m = {.columns = N, .cholesky = identity};
    EACH_ENCODER(type) {
        if (!type->quantized) continue;
        const codec_columnwise *columnwise = k->codecs[type->id].columnwise;
        size_t length = type->block_elements, bytes = gguf_row_bytes(type, N);
        size_t state_bytes = (columnwise->state_bytes + 63) / 64 * 64;
        double power[MOST_LANES] = {0}, kept[MOST_LANES] = {0};
        float gain[MOST_LANES], x[256 * MOST_LANES], q[256 * MOST_LANES];
        uint8_t *states = aligned_alloc(64, state_bytes * (N / length));
        for (size_t c = 0; c < N; c += length) {
            void *one = states + c / length * state_bytes;
            for (size_t i = 0; i < length * lanes; i++) x[i] = s->w[i % lanes * N + c + i / lanes];
            columnwise->choose(one, x, importance, &columnwise->searches[EFFORT_FAST][1]);
            for (size_t i = 0; i < length; i += columnwise->group)
                columnwise->round(one, i, x + i * lanes, q + i * lanes);
            for (size_t i = 0; i < length * lanes; i++) {
                double v = (double)x[i], r = (double)(x[i] - q[i]);
                power[i % lanes] += v * v, kept[i % lanes] += v * (v - r);
            }
        }
        for (size_t l = 0; l < lanes; l++) gain[l] = (float)fmin(1.5, fmax(0.75, power[l] / kept[l]));
        for (size_t i = 0; i < N / length; i++)
            columnwise->finish(states + i * state_bytes, gain, plain + i * type->block_bytes, bytes, lanes);
        run(k, type->id, &m, 1, 0, 0, lanes, fed, NULL);
        if (memcmp(fed, plain, lanes * bytes)) fail_msg("%s: not what plain rounding gives", type->name);
        free(states);
    }
}

/* Nor on how rows are put together. */
static void expect_the_same_at_all_levels(const tensor_type *type, const feedback_hessian *m, int sweeps) {
    static uint8_t first[ROWS * N * 4], here[ROWS * N * 4], part[ROWS * N * 4];
    size_t row_bytes = gguf_row_bytes(type, N);
    const kernels *before = NULL;
    EACH_LEVEL(k) {
        feedback_sums whole = run(k, type->id, m, 1, sweeps, 0, ROWS, here, NULL);
        if (before && memcmp(first, here, ROWS * row_bytes))
            fail_msg("%s: %s differs from %s", type->name, kernels_name(k), kernels_name(before));
        if (fuses(k)) before = k, memcpy(first, here, ROWS * row_bytes);
        feedback_sums a = run(k, type->id, m, 1, sweeps, 0, 7, part, NULL);
        feedback_sums b = run(k, type->id, m, 1, sweeps, 7, ROWS - 7, part + 7 * row_bytes, NULL);
        if (memcmp(part, here, ROWS * row_bytes) || a.clipped + b.clipped != whole.clipped)
            fail_msg("%s at %s: rows depend on each other", type->name, kernels_name(k));
    }
}

TEST(bytes_do_not_depend_on_the_level) {
    EACH_KIND(type) {
        expect_the_same_at_all_levels(type, s->factored[1].runs, 1);
        expect_the_same_at_all_levels(type, s->factored[2].runs, 1);
    }
}

/* Weights so small that errors times R are denormal, which tiles take for zeros. */
TEST(nor_do_those_of_tiny_weights) {
    static float kept[ROWS * N];
    memcpy(kept, s->w, sizeof kept);
    for (size_t i = 0; i < ROWS * N; i++) s->w[i] *= 0x1p-118f;
    expect_the_same_at_all_levels(tensor_type_of(GGUF_MXFP4), s->factored[2].runs, 2);
    memcpy(s->w, kept, sizeof kept);
}

/* They differ in the last bits of what earlier strips add up to, so in some codes. */
TEST(moments_in_bf16_do_as_well) {
    static uint8_t blocks[2][ROWS * N * 4];
    static float q[ROWS * N];
    const kernels *k = kernels_select();
    size_t differ = 0;
    EACH_KIND(type) {
        double left[2] = {0};
        for (int i = 0; i < 2; i++) {
            run(k, type->id, s->factored[1 + i].runs, 1, 2, 0, ROWS, blocks[i], q);
            for (size_t r = 0; r < ROWS; r++) left[i] += objective(s->goal + r * N, r, q + r * N);
        }
        differ += memcmp(blocks[0], blocks[1], ROWS * gguf_row_bytes(type, N)) != 0;
        if (fabs(left[1] - left[0]) > 0.02 * left[0])
            fail_msg("%s: error %g, in bf16 %g", type->name, left[0], left[1]);
    }
    assert_true(differ > 0);
}

/* Two runs of columns are two matrices side by side, but for the gain. */
TEST(runs_of_columns_are_apart) {
    static uint8_t blocks[ROWS * N * 4];
    static float q[ROWS * N];
    gq_error e;
    cholesky f;
    hessian *m = hessian_new(kernels_select(), (hessian_shape){N, 256, true, 0, 0, MATMUL_FLOAT32}, NULL, &e);
    hessian_add(m, s->x, TOKENS, s->y, TOKENS, TOKENS);
    assert_true(cholesky_factor(m, (hessian_settings){0.01f, 0.1f, -1, true, NULL, NULL}, &f, &e));
    assert_int_equal(f.n_runs, 2);
    const kernels *k = kernels_select();
    double apart = 0, whole = 0;
    run(k, GGUF_MXFP4, f.runs, 2, 0, 0, ROWS, blocks, q);
    for (size_t r = 0; r < ROWS; r++) apart += objective(s->goal + r * N, r, q + r * N);
    run(k, GGUF_MXFP4, s->factored[1].runs, 1, 0, 0, ROWS, blocks, q);
    for (size_t r = 0; r < ROWS; r++) whole += objective(s->goal + r * N, r, q + r * N);
    assert_true(whole < apart);
    feedback_hessian second = f.runs[1];
    f.runs[1] = f.runs[0];
    feedback_sums twice = run(k, GGUF_MXFP4, f.runs, 2, 0, 0, ROWS, blocks, NULL);
    f.runs[1] = second;
    assert_true(twice.codes == ROWS * N && twice.error > 0);
    cholesky_free(&f), hessian_free(m);
}

/* A weight beyond what its scale can hold. */
TEST(ends_are_counted) {
    static uint8_t blocks[ROWS * N * 4];
    const kernels *k = kernels_select();
    feedback_sums q8 = run(k, GGUF_Q8_0, s->factored[0].runs, 1, 0, 0, ROWS, blocks, NULL);
    feedback_sums q2 = run(k, GGUF_Q2_K, s->factored[0].runs, 1, 0, 0, ROWS, blocks, NULL);
    feedback_sums q1 = run(k, GGUF_Q1_0, s->factored[0].runs, 1, 0, 0, ROWS, blocks, NULL);
    assert_true(q8.clipped < q8.codes / 16);
    assert_true(q2.clipped > q8.clipped && q2.clipped < q1.clipped && q1.clipped < q1.codes);
}

int main(void) { return tests_run(make_site, free_site); }
