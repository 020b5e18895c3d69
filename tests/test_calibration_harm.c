/* Types for a size, where a text tells how much each tensor's error matters. */
#include <stdlib.h>
#include <string.h>

#include "quantize/plan/calibration.h"
#include "quantize/plan/calibration_harm.h"
#include "quantize/plan/plan.h"
#include "tests/evaluation_model.h"
#include "tests/folder.h"
#include "tests/plans.h"

enum { LAYERS = 4, CONTEXT = 32, LETTERS = 160 };
static char letters[LETTERS];

static int start(void **state) {
    (void)state;
    folder = temporary_folder();
    model *m = evaluation_model_but(LAYERS, "blk.2.ffn_up.weight");
    model_write(m, path("model.gguf"));
    model_free(m);
    model_write(m = expert_model(), path("experts.gguf"));
    model_free(m);
    for (size_t i = 0; i < LETTERS; i++) letters[i] = (char)('a' + i * i * 3 % 8);
    return 0;
}

typedef struct asked {
    const char *name, *measure_file, *prune;
    double bpw;
    int threads;
    bool plain; /* without a text */
} asked;

static gq_plan *plan_for(const asked *a) {
    gq_output out = {path("out.gguf"), NULL};
    gq_target target = {.bpw = a->bpw ? a->bpw : 5};
    gq_calibration c = {.size = sizeof c,
                        .text = {.name = "text", .bytes = letters, .n = LETTERS, .context = CONTEXT}};
    gq_options o = options_for(path(a->name ? a->name : "model.gguf"), &out);
    o.targets = &target, o.threads = a->threads, o.prune_layers = a->prune;
    o.measure_file = a->measure_file ? path(a->measure_file) : "";
    if (!a->plain) o.calibration = &c;
    return must_plan(&o);
}

static double bits(const gq_plan *plan, const char *name) {
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(t[i].name, name)) return 8 * (double)t[i].out_bytes / (double)t[i].n_weights;
    fail_msg("no %s", name);
    return 0;
}

/* Its weights are so small that nothing comes out behind it, which the weights of ffn_down do not show. */
static void what_adds_little_gets_few_bits(void **state) {
    (void)state;
    static const char *const names[][2] = {{"blk.2.ffn_gate.weight", "blk.1.ffn_gate.weight"},
                                           {"blk.2.ffn_down.weight", "blk.1.ffn_down.weight"}};
    gq_plan *plain = plan_for(&(asked){.plain = true}), *plan = plan_for(&(asked){0});
    for (size_t i = 0; i < 2; i++) {
        double quiet = bits(plan, names[i][0]), other = bits(plan, names[i][1]);
        assert_true(bits(plain, names[i][0]) == bits(plain, names[i][1]));
        if (!(quiet < 3.5 && other > quiet + 1))
            fail_msg("%s: %g bits, %s: %g bits", names[i][0], quiet, names[i][1], other);
    }
    gq_plan_free(plain), gq_plan_free(plan);
}

static void assert_same_types(const asked *first, const asked *second) {
    gq_plan *plans[] = {plan_for(first), plan_for(second)};
    size_t n, other;
    const gq_tensor *a = gq_plan_tensors(plans[0], 0, &n), *b = gq_plan_tensors(plans[1], 0, &other);
    assert_int_equal(n, other);
    for (size_t i = 0; i < n; i++) assert_int_equal(a[i].to, b[i].to);
    gq_plan_free(plans[0]), gq_plan_free(plans[1]);
}

static void threads_decide_nothing(void **state) {
    (void)state;
    if (SANITIZED) return; /* which see the same in the others */
    assert_same_types(&(asked){.threads = 1}, &(asked){.threads = 3});
}

/* Found again with the measurements, in place of being tried. */
static void what_was_found_is_kept(void **state) {
    (void)state;
    if (SANITIZED) return; /* which see the same in the others */
    gq_plan_free(plan_for(&(asked){.measure_file = "kept", .bpw = 4}));
    assert_same_types(&(asked){.measure_file = "kept"}, &(asked){0});
}

/* Layers that are left out are not run, and experts are tried all at once. */
static void all_models_can_be_asked(void **state) {
    (void)state;
    gq_plan_free(plan_for(&(asked){.prune = "1"}));
    gq_plan_free(plan_for(&(asked){.name = "experts.gguf"}));
}

/* What the first trials of a plan find when they may take so much memory: of ffn_down in two layers. */
static void try_within(uint64_t memory, double harm[2]) {
    static const char *const names[] = {"blk.1.ffn_down.weight", "blk.2.ffn_down.weight"};
    gq_plan *plan = plan_for(&(asked){.threads = 1});
    bool *wanted = calloc(plan->n_tensors, sizeof *wanted), fresh;
    measured *found = calloc(plan->n_tensors, sizeof *found);
    gq_error e;
    for (size_t i = 0; i < plan->n_tensors; i++) wanted[i] = plan_can_calibrate(plan, &plan->sources[i]);
    plan->calibration->job.memory = memory;
    if (!measure_tensors(plan, wanted, found, &fresh, NULL, &e) ||
        !plan_try_harm(plan, wanted, found, NULL, &e))
        fail_msg("%s", e.text);
    for (size_t i = 0; i < plan->n_tensors; i++)
        for (size_t k = 0; k < 2; k++)
            if (!strcmp(plan->sources[i].name, names[k])) harm[k] = found[i].harm;
    free(wanted), free(found);
    gq_plan_free(plan);
}

/* Where memory does not hold the trials of all layers, the third one counts as its neighbour; where it holds
 * none, nothing is known. */
static void little_memory_tries_fewer_layers(void **state) {
    (void)state;
    double harm[2];
    try_within(UINT64_MAX, harm);
    assert_true(harm[0] > 100 * harm[1] && harm[1] >= 0);
    try_within(58 << 20, harm);
    assert_true(harm[0] > 0 && harm[0] == harm[1]);
    try_within(1 << 20, harm);
    assert_true(harm[0] < 0 && harm[1] < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_adds_little_gets_few_bits),   cmocka_unit_test(threads_decide_nothing),
        cmocka_unit_test(what_was_found_is_kept),           cmocka_unit_test(all_models_can_be_asked),
        cmocka_unit_test(little_memory_tries_fewer_layers),
    };
    return cmocka_run_group_tests(tests, start, folder_remove);
}
