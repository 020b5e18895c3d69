/* Types for a byte budget: compared with trying everything, and on lists that look like models. */
#include <math.h>

#include "mixes/budget.h"
#include "tests/support/support.h"

static uint64_t seed;
static uint32_t draw(uint32_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

enum { TENSORS = 6, CANDIDATES = 5 };
typedef struct instance {
    size_t n;
    budget_tensor tensors[TENSORS];
    budget_candidate candidates[TENSORS][CANDIDATES];
} instance;

/* Anything goes: equal sizes, equal errors, zeros, larger and worse. */
static void draw_instance(instance *in) {
    in->n = 1 + draw(TENSORS);
    for (size_t t = 0; t < in->n; t++) {
        in->tensors[t] = (budget_tensor){in->candidates[t], 1 + draw(CANDIDATES)};
        for (size_t k = 0; k < CANDIDATES; k++)
            in->candidates[t][k] = (budget_candidate){(uint32_t)k, draw(30), draw(40) * 0.125};
    }
}

/* The least error within the budget over all choices; -1 when there is none. */
static double try_all(const instance *in, size_t t, uint64_t budget) {
    if (t == in->n) return 0;
    double least = -1;
    for (size_t k = 0; k < in->tensors[t].n; k++) {
        const budget_candidate *c = &in->candidates[t][k];
        if (c->bytes > budget) continue;
        double rest = try_all(in, t + 1, budget - c->bytes);
        if (rest >= 0 && (least < 0 || rest + c->error < least)) least = rest + c->error;
    }
    return least;
}

TEST(same_as_trying_everything) {
    size_t impossible = 0, relaxed = 0;
    for (seed = 1; seed < 4000 * 7; seed += 7) {
        uint64_t start = seed;
        instance in;
        draw_instance(&in);
        uint64_t budget = draw(120);
        double least = try_all(&in, 0, budget);
        size_t choice[TENSORS];
        budget_result r = {0};
        gq_error e = {0};
        bool ok = budget_choose(in.tensors, in.n, budget, choice, &r, &e);
        if (ok != (least >= 0)) fail_msg("seed %zu: %s", (size_t)start, e.text);
        impossible += !ok;
        if (ok) {
            uint64_t bytes = 0;
            double error = 0;
            for (size_t t = 0; t < in.n; t++) {
                assert_true(choice[t] < in.tensors[t].n);
                bytes += in.candidates[t][choice[t]].bytes;
                error += in.candidates[t][choice[t]].error;
            }
            assert_true(bytes <= budget && bytes == r.bytes && error == r.error);
            if (error != least) fail_msg("seed %zu: %g instead of %g", (size_t)start, error, least);
            assert_true(r.bound <= least + 1e-9);
            relaxed += r.bound < least - 1e-9;
        }
        seed = start;
    }
    assert_true(impossible > 100 && relaxed > 100); /* both kinds were among them */
}

/* Tensors of a model with n blocks, and 11 types that halve the relative error with each bit. */
typedef struct model {
    size_t n;
    budget_tensor *tensors;
    budget_candidate *candidates;
    uint64_t weights;
} model;
static const double bits[] = {2.0625, 2.625, 3.4375, 4.25, 4.5, 5.0, 5.5, 6.0, 6.5625, 8.5, 16};
enum { TYPES = sizeof bits / sizeof *bits };

static model draw_model(size_t blocks) {
    static const uint64_t shapes[] = {4096 * 4096,  4096 * 1024,  4096 * 1024, 4096 * 4096,
                                      4096 * 14336, 4096 * 14336, 4096 * 14336};
    model m = {.n = blocks * 7 + 2};
    m.tensors = calloc(m.n, sizeof *m.tensors);
    m.candidates = calloc(m.n * TYPES, sizeof *m.candidates);
    assert_true(m.tensors && m.candidates);
    for (size_t t = 0; t < m.n; t++) {
        uint64_t weights = t < 2 ? 128256ull * 4096 : shapes[(t - 2) % 7];
        double scale = (double)weights * exp(draw(1000) * 0.006);
        m.weights += weights;
        m.tensors[t] = (budget_tensor){&m.candidates[t * TYPES], TYPES};
        for (uint32_t k = 0; k < TYPES; k++) {
            double noise = 0.7 + draw(1000) * 0.0006;
            m.candidates[t * TYPES + k] = (budget_candidate){k, (uint64_t)((double)weights * bits[k] / 8),
                                                             scale * exp2(-2 * bits[k]) * noise};
        }
    }
    return m;
}

static void free_model(model *m) { free(m->tensors), free(m->candidates); }

TEST(models_end_just_below_the_budget) {
    static const size_t blocks[] = {1, 4, 32, 80};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        seed = 77 + i;
        model m = draw_model(blocks[i]);
        size_t *choice = calloc(m.n, sizeof *choice), *again = calloc(m.n, sizeof *again);
        double before = INFINITY;
        for (double bpw = 2.2; bpw < 9; bpw += 0.37) {
            uint64_t budget = (uint64_t)((double)m.weights * bpw / 8);
            budget_result r, s;
            gq_error e = {0};
            if (!budget_choose(m.tensors, m.n, budget, choice, &r, &e)) fail_msg("%s", e.text);
            assert_true(r.bytes <= budget);
            if (m.n > 20 && (double)r.bytes < 0.995 * (double)budget)
                fail_msg("%zu tensors, %.2f bits: %.4f of the budget", m.n, bpw,
                         (double)r.bytes / (double)budget);
            assert_true(r.error < before); /* more bytes, less error */
            assert_true(r.bound <= r.error);
            /* Few tensors can leave a true gap between the relaxed and the best choice. */
            if (m.n > 200 && r.error > 1.01 * r.bound)
                fail_msg("%zu tensors, %.2f bits: %g, bound %g", m.n, bpw, r.error, r.bound);
            assert_true(budget_choose(m.tensors, m.n, budget, again, &s, &e));
            assert_memory_equal(choice, again, m.n * sizeof *choice);
            before = r.error;
        }
        free(choice), free(again);
        free_model(&m);
    }
}

TEST(ample_budget_takes_the_best) {
    seed = 5;
    model m = draw_model(2);
    size_t *choice = calloc(m.n, sizeof *choice);
    budget_result r;
    assert_true(budget_choose(m.tensors, m.n, UINT64_MAX, choice, &r, NULL));
    for (size_t t = 0; t < m.n; t++) assert_int_equal(choice[t], TYPES - 1);
    assert_true(r.error == r.bound);
    assert_true(budget_choose(NULL, 0, 0, choice, &r, NULL));
    assert_int_equal(r.bytes, 0);
    free(choice);
    free_model(&m);
}

TEST(many_tensors_alike) {
    enum { N = 100000 };
    static const budget_candidate candidates[] = {{0, 100, 9.0}, {1, 130, 4.0}, {2, 170, 1.0}};
    budget_tensor *tensors = calloc(N, sizeof *tensors);
    size_t *choice = calloc(N, sizeof *choice);
    assert_true(tensors && choice);
    for (size_t t = 0; t < N; t++) tensors[t] = (budget_tensor){candidates, 3};
    budget_result r;
    uint64_t budget = 115ull * N + 7;
    assert_true(budget_choose(tensors, N, budget, choice, &r, NULL));
    assert_true(r.bytes <= budget && r.bytes > budget - 30);
    assert_true(r.error - r.bound <= 5.0);
    free(tensors), free(choice);
}

TEST(refuses) {
    size_t choice[2];
    budget_result r;
    budget_candidate a[] = {{0, 100, 1}, {1, 50, 2}}, b[] = {{0, 70, 1}};
    budget_tensor tensors[] = {{a, 2}, {b, 1}};
    gq_error e = {0};
    assert_true(budget_choose(tensors, 2, 120, choice, &r, &e));
    assert_false(budget_choose(tensors, 2, 119, choice, &r, &e));
    assert_int_equal(e.status, GQ_USAGE);
    assert_non_null(strstr(e.text, "120"));
    assert_non_null(strstr(e.text, "119"));
    static const double bad[] = {NAN, INFINITY, -1};
    for (int i = 0; i < 3; i++) {
        b[0].error = bad[i];
        assert_false(budget_choose(tensors, 2, 1000, choice, &r, &e));
        assert_non_null(strstr(e.text, "tensor 1"));
    }
    b[0].error = 1, b[0].bytes = UINT64_MAX;
    assert_false(budget_choose(tensors, 2, UINT64_MAX, choice, &r, &e));
    tensors[1].n = 0;
    assert_false(budget_choose(tensors, 2, 1000, choice, &r, &e));
}

/* Which types there are to choose from, and for what. */
TEST(types_for_a_tensor) {
    static const struct {
        const char *name, *types; /* in the order of the table */
        uint32_t from;
        uint64_t columns;
        bool has_importance, loses_nothing;
    } cases[] = {
        {"blk.0.ffn_up.weight", "Q2_K IQ3_S Q3_K IQ4_XS Q4_K Q5_K Q6_K Q8_0 ", GGUF_F16, 512, false, false},
        {"token_embd.weight", "IQ1_M IQ2_S Q2_K IQ3_XXS IQ3_S Q3_K IQ4_XS Q4_K Q5_K Q6_K Q8_0 ", GGUF_F16,
         512, false, false},
        {"blk.0.ffn_up.weight",
         "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S Q2_K IQ3_XXS IQ3_S Q3_K IQ4_XS Q4_K Q5_K Q6_K Q8_0 F16 ", GGUF_F32,
         512, true, false},
        {"blk.0.ffn_up.weight", "Q8_0 Q4_0 IQ4_NL Q4_1 Q5_0 Q5_1 ", GGUF_F16, 96, false, false},
        {"blk.0.ffn_up.weight", "", GGUF_F16, 33, true, false},
        {"blk.0.ffn_up.weight", "F16 ", GGUF_F32, 33, true, false},
        {"blk.0.ffn_up.weight", "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S Q2_K IQ3_XXS IQ3_S Q3_K ", GGUF_IQ4_XS, 256,
         true, false},
        {"blk.0.ffn_up.weight",
         "Q2_K IQ3_S Q3_K IQ4_XS Q4_K Q5_K Q6_K Q8_0 Q4_0 IQ4_NL Q4_1 Q5_0 Q5_1 MXFP4 ", GGUF_F16, 512, false,
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[128] = "";
        for (size_t k = 0; k < BUDGET_TYPES; k++) {
            if (!budget_type_applies(k, cases[i].name, tensor_type_of(cases[i].from), cases[i].columns,
                                     cases[i].has_importance, cases[i].loses_nothing))
                continue;
            strcat(strcat(found, tensor_type_name(budget_types[k])), " ");
        }
        assert_string_equal(found, cases[i].types);
    }
}

int main(void) { return tests_run(NULL, NULL); }
