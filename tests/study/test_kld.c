/* Figures from logits that come tile by tile, against what long doubles give from all of them at once; and
 * what follows from them: means, errors, quantiles. */
#include <math.h>

#include "codec/codec.h"
#include "forward/stream/kld.h"
#include "study/evaluate/evaluate.h"
#include "tests/support/model.h"

enum { VOCABULARY = 700, POSITIONS = 77, STRIDE = 80, MODELS = 3 };

static float *logits[MODELS];
static uint32_t right[POSITIONS];

/* The second copy is next to the original, the first is far from it. */
FIXTURE(make_logits) {
    static const float noise[MODELS] = {0, 3, 1e-4f};
    float *base = random_values(VOCABULARY * STRIDE, 1);
    for (size_t m = 0; m < MODELS; m++) {
        logits[m] = random_values(VOCABULARY * STRIDE, 2 + m);
        for (size_t i = 0; i < VOCABULARY * STRIDE; i++) {
            float scale = i % STRIDE % 3 ? 60 : 900; /* some places are all but certain */
            logits[m][i] = scale * base[i] + noise[m] * logits[m][i] - 40;
        }
    }
    for (size_t t = 0; t < POSITIONS; t++) right[t] = (uint32_t)(t * 9 % VOCABULARY);
    free(base);
    return 0;
}

FIXTURE(free_logits) {
    for (size_t m = 0; m < MODELS; m++) free(logits[m]);
    return 0;
}

static kld *run_tiles(uint32_t rows, int threads) {
    gq_error e;
    threads_pool *pool = threads_pool_new(threads);
    kld *d = kld_new(POSITIONS, MODELS - 1, pool, &e);
    assert_non_null(d);
    kld_start(d, POSITIONS, right);
    for (uint32_t first = 0; first < VOCABULARY; first += rows) {
        const float *tile[MODELS];
        for (size_t m = 0; m < MODELS; m++) tile[m] = logits[m] + first * STRIDE;
        kld_tile(d, first, first + rows < VOCABULARY ? rows : VOCABULARY - first, tile, STRIDE);
    }
    threads_pool_free(pool);
    return d;
}

static long double log_sum(const float *z) {
    long double sum = 0, max = -INFINITY;
    for (size_t i = 0; i < VOCABULARY; i++) max = fmaxl(max, (long double)z[i * STRIDE]);
    for (size_t i = 0; i < VOCABULARY; i++) sum += expl((long double)z[i * STRIDE] - max);
    return max + logl(sum);
}

TEST(figures_are_those_of_all_logits_at_once) {
    kld *d = run_tiles(256, 2);
    for (size_t t = 0; t < POSITIONS; t++)
        for (size_t m = 0; m < MODELS; m++) {
            const float *z = logits[0] + t, *w = logits[m] + t;
            long double of_z = log_sum(z), of_w = log_sum(w), kl = 0;
            uint32_t top = 0;
            for (uint32_t i = 0; i < VOCABULARY; i++) {
                long double p = (long double)z[i * STRIDE] - of_z, q = (long double)w[i * STRIDE] - of_w;
                kl += expl(p) * (p - q);
                if (w[i * STRIDE] > w[top * STRIDE]) top = i;
            }
            kld_figures f = kld_at(d, t, m);
            assert_int_equal(f.top, top);
            assert_true(fabsl((long double)f.log_p - ((long double)w[right[t] * STRIDE] - of_w)) < 1e-12L);
            if (!(fabsl((long double)f.kld - kl) < 1e-13L + 1e-12L * kl))
                fail_msg("position %zu, model %zu: %.17g, expected %.17Lg", t, m, f.kld, kl);
        }
    kld_free(d);
}

static void assert_same_bits(const kld *a, const kld *b) {
    for (size_t t = 0; t < POSITIONS; t++)
        for (size_t m = 0; m < MODELS; m++) {
            kld_figures x = kld_at(a, t, m), y = kld_at(b, t, m);
            assert_memory_equal(&x.kld, &y.kld, sizeof x.kld);
            assert_memory_equal(&x.log_p, &y.log_p, sizeof x.log_p);
            assert_true(x.top == y.top);
        }
}

TEST(levels_change_nothing) {
    kld *best = run_tiles(64, 1);
    for (size_t l = 0; kernels_level_name(l); l++) {
        if (!kernels_level(kernels_level_name(l))) continue;
        setenv("GQUANT_ISA", kernels_level_name(l), 1);
        kld *other = run_tiles(64, 1);
        unsetenv("GQUANT_ISA");
        assert_same_bits(best, other);
        kld_free(other);
    }
    kld_free(best);
}

/* The vocabulary's order is kept, so a thread more or less changes no bit; tiles change the last ones. */
TEST(threads_change_nothing) {
    kld *one = run_tiles(64, 1), *three = run_tiles(64, 3), *single = run_tiles(1, 1);
    assert_same_bits(one, three);
    for (size_t t = 0; t < POSITIONS; t++)
        for (size_t m = 0; m < MODELS; m++) {
            kld_figures a = kld_at(one, t, m), c = kld_at(single, t, m);
            assert_true(fabs(a.kld - c.kld) < 1e-12 && a.top == c.top);
        }
    kld_free(one), kld_free(three), kld_free(single);
}

/* The first of equals is the top; the same logits, or all of them shifted, are no divergence; and what is no
 * number is told apart from every number. */
TEST(extremes_are_met) {
    float z[3][4] = {{-1e30f, 5, 1, 0}, {1e30f, 5, NAN, 0}, {0, 5, 1, INFINITY}},
          w[3][4] = {{-1e30f, 105, 1, 0}, {1e30f, 105, 2, 0}, {0, 105, 1, 1}};
    gq_error e;
    kld *d = kld_new(4, 1, NULL, &e);
    kld_start(d, 4, (uint32_t[]){1, 1, 1, 1});
    kld_tile(d, 0, 3, (const float *[]){&z[0][0], &w[0][0]}, 4);
    kld_figures first = kld_at(d, 0, 1), flat = kld_at(d, 1, 1);
    assert_true(first.kld == 0 && first.log_p == 0 && first.top == 1);
    assert_true(flat.kld < 1e-13 && flat.top == 0 && fabs(flat.log_p + log(3)) < 1e-13);
    assert_true(isnan(kld_at(d, 2, 1).kld));
    assert_true(isnan(kld_at(d, 3, 1).kld));
    assert_true(isnan(kld_at(d, 2, 0).kld));
    kld_free(d);
}

/* ---- what follows ---- */

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(1, fabs(b)); }

TEST(means_have_errors) {
    scores s;
    gq_error e;
    gq_evaluated original = {.path = "original"}, copy = {.path = "copy"};
    assert_true(scores_new(&s, 4, 3, 3, &e));
    const double p[] = {0.5, 0.25, 0.125, 0.5}, q[] = {0.25, 0.25, 0.25, 0.125}, kl[] = {4, 0, 2, 10};
    for (size_t i = 0; i < 4; i++) {
        s.models[0].log_p[i] = log(p[i]), s.models[1].log_p[i] = log(q[i]), s.models[2].log_p[i] = log(q[i]);
        s.models[1].kld[i] = kl[i], s.models[2].kld[i] = kl[i] / 2;
        s.models[1].same_top1[i] = s.models[2].same_top1[i] = i != 0;
    }
    assert_true(figures_of_base_model(&s, &original, &e) && figures_of_copy(&s, 1, &copy, &e));
    /* Surprises in bits: 1 2 3 1 against 2 2 2 3. */
    assert_true(near(original.perplexity.value, exp2(7 / 4.0)));
    assert_true(near(original.perplexity.error, exp2(7 / 4.0) * log(2) * sqrt(2.75 / 3 / 4)));
    assert_true(near(copy.perplexity.value, exp2(9 / 4.0)));
    assert_true(near(copy.ratio.value, exp2(2 / 4.0)));
    assert_true(near(copy.ratio.error, exp2(2 / 4.0) * log(2) * sqrt(5.0 / 3 / 4)));
    assert_true(near(copy.kld.value, 4) && near(copy.kld.error, sqrt(56.0 / 3 / 4)));
    /* Changes -1/4, 0, 1/8, -3/8. */
    assert_true(near(copy.rms_change.value, sqrt((4 + 1 + 9) / 64.0 / 4)));
    assert_true(near(copy.top1_agreement.value, 0.75) && near(copy.top1_agreement.error, sqrt(0.75 / 3 / 4)));
    assert_true(near(copy.quantiles[0], 3) && near(copy.quantiles[1], 4 + 0.7 * 6));
    assert_true(near(copy.quantiles[4], 4 + 0.997 * 6) && copy.quantiles[5] == 10);
    gq_estimate more = figures_difference(&s, 1, 2), none = figures_difference(&s, 1, 1);
    assert_true(near(more.value, 2) && near(more.error, sqrt(14.0 / 3 / 4)));
    assert_true(none.value == 0 && none.error == 0);
    scores_free(&s);
}

/* A chain per group, then one over the groups: added to 2^53 one by one, ones are lost. */
TEST(sums_have_the_order_of_groups) {
    const double kl[] = {0x1p53, 1, 1, 1};
    static const struct {
        size_t group;
        double sum;
    } cases[] = {{1, 0x1p53}, {2, 0x1p53 + 2}, {3, 0x1p53}, {4, 0x1p53}, {100, 0x1p53}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scores s;
        gq_error e;
        assert_true(scores_new(&s, 4, cases[i].group, 3, &e)); /* the third diverges nowhere */
        memcpy(s.models[1].kld, kl, sizeof kl);
        assert_true(figures_difference(&s, 1, 2).value == cases[i].sum / 4);
        scores_free(&s);
    }
}

TEST(one_position_has_no_error) {
    scores s;
    gq_error e;
    gq_evaluated copy = {.path = "copy"};
    assert_true(scores_new(&s, 1, 5, 2, &e));
    s.models[1].kld[0] = 3;
    assert_true(figures_of_copy(&s, 1, &copy, &e));
    assert_true(copy.kld.value == 3 && isnan(copy.kld.error));
    for (size_t q = 0; q < GQ_QUANTILES; q++) assert_true(copy.quantiles[q] == 3);
    scores_free(&s);
}

int main(void) { return tests_run(make_logits, free_logits); }
