/* Types for a size, where a text tells how much each tensor's error matters. */
#include "quantize/plan/plan.h"
#include "quantize/plan/target/target.h"
#include "study/calibrate/calibration.h"
#include "study/study.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"

enum { LAYERS = 4, CONTEXT = 32, LETTERS = 160 };
static char letters[LETTERS];

FIXTURE(start) {
    folder = temporary_folder();
    model *m = evaluation_model_but(LAYERS, "blk.2.ffn_up.weight", 1);
    model_save(m, path("model.gguf"));
    model_save(expert_model(), path("experts.gguf"));
    for (size_t i = 0; i < LETTERS; i++) letters[i] = (char)('a' + i * i * 3 % 8);
    return 0;
}

typedef struct asked {
    const char *name, *measure_file, *prune, *pattern;
    double bpw;
    int threads;
    size_t letters; /* 0: LETTERS */
    bool plain;     /* without a text */
} asked;

static gq_plan *plan_for(const asked *a) {
    gq_output out = {.path = path("out.gguf"), .target.bpw = a->bpw ? a->bpw : 5};
    gq_calibration c = {.size = sizeof c,
                        .text = {.name = "text", .bytes = letters, .n = LETTERS, .context = CONTEXT}};
    gq_options o = options_for(path(a->name ? a->name : "model.gguf"), &out);
    o.threads = a->threads, o.prune_layers = a->prune;
    o.tensor_types = (gq_list){&a->pattern, a->pattern != NULL};
    if (a->letters) c.text.n = a->letters;
    o.measure_file = a->measure_file ? path(a->measure_file) : "";
    if (!a->plain) o.calibration = &c;
    return must_plan(&o);
}

static double bits(const gq_plan *plan, const char *name) {
    const gq_tensor *t = plan_tensor(plan, name);
    return 8 * (double)t->out_bytes / (double)t->n_weights;
}

/* Its weights are so small that nothing comes out behind it, which the weights of ffn_down do not show. */
TEST(what_adds_little_gets_few_bits) {
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

TEST(threads_decide_nothing) {
    if (SANITIZED) return; /* which see the same in the others */
    assert_same_types(&(asked){.threads = 1}, &(asked){.threads = 3});
}

/* Found again with the measurements, in place of being tried. */
TEST(what_was_found_is_kept) {
    if (SANITIZED) return; /* which see the same in the others */
    gq_plan_free(plan_for(&(asked){.measure_file = "kept", .bpw = 4}));
    assert_same_types(&(asked){.measure_file = "kept"}, &(asked){0});
}

/* ---- what an earlier plan has left ---- */

static uint8_t *file_bytes(const char *name, size_t *n) {
    uint8_t *bytes = read_whole(path(name), n);
    assert_non_null(bytes);
    return bytes;
}

/* A plan measures the same whether it finds nothing or what another plan has left. */
static void assert_measures_afresh(asked before, asked plan) {
    size_t n, other;
    unlink(path("left"));
    plan.measure_file = "alone", gq_plan_free(plan_for(&plan));
    before.measure_file = "left", gq_plan_free(plan_for(&before));
    plan.measure_file = "left", gq_plan_free(plan_for(&plan));
    uint8_t *alone = file_bytes("alone", &n), *left = file_bytes("left", &other);
    assert_int_equal(n, other);
    assert_memory_equal(alone, left, n);
    free(alone), free(left);
    unlink(path("alone"));
}

TEST(what_others_left_changes_nothing) {
    if (SANITIZED) return; /* which see the same in the others */
    asked all = {.letters = 64}, fixed = {.letters = 64, .pattern = "ffn_up=Q4_K"},
          pruned = {.letters = 64, .prune = "1"}, other = {.letters = 64, .prune = "2"};
    assert_measures_afresh(fixed, all);
    assert_measures_afresh(all, fixed);
    assert_measures_afresh(all, pruned);
    assert_measures_afresh(other, pruned);
}

TEST(damaged_measurements_are_not_used) {
    size_t n, other;
    gq_plan_free(plan_for(&(asked){.measure_file = "whole", .letters = 64}));
    uint8_t *whole = file_bytes("whole", &n);
    /* In the last array: behind it are the checksum and 31 bytes of padding at most. */
    for (size_t at = n - 120; at > n - 200; at -= 16) {
        whole[at] ^= 1;
        write_whole(path("flipped"), whole, n);
        whole[at] ^= 1;
        gq_plan_free(plan_for(&(asked){.measure_file = "flipped", .letters = 64}));
        uint8_t *flipped = file_bytes("flipped", &other);
        assert_int_equal(n, other);
        assert_memory_equal(whole, flipped, n);
        free(flipped);
    }
    free(whole);
}

/* ---- what decides the trials ---- */

static bool *all_that_is_run(const gq_plan *plan) {
    bool *wanted = calloc(plan->n_tensors, sizeof *wanted);
    for (size_t i = 0; i < plan->n_tensors; i++) wanted[i] = rounding_can_round(plan, &plan->sources[i]);
    return wanted;
}

TEST(memory_decides_trials_and_threads_do_not) {
    gq_plan *plan = plan_for(&(asked){.letters = 64});
    bool *wanted = all_that_is_run(plan);
    size_t fewer = 0, last = 0;
    char keys[2][MEASURE_KEY];
    assert_int_equal(gq_plan_calibration(plan)->trial_layers, LAYERS);
    for (uint64_t memory = 16 << 20; memory < 96 << 20; memory += 2 << 20) {
        size_t layers[2];
        uint64_t least[2];
        gq_error e;
        plan->rounding->calibration->memory.deciding = memory;
        for (int i = 0; i < 2; i++) {
            plan->rounding->calibration->job.threads = i ? 24 : 1;
            assert_true(trials_decide_layers(plan, wanted, &layers[i], &least[i], &e));
        }
        assert_int_equal(layers[0], layers[1]);
        assert_true(layers[0] >= last && least[0] == least[1] && (least[0] > memory) == (layers[0] == 0));
        fewer += layers[0] > 0 && layers[0] < LAYERS;
        last = layers[0];
    }
    assert_true(fewer > 0 && last == LAYERS);
    for (size_t i = 0; i < 2; i++) measure_key(plan, wanted, i, keys[i]);
    assert_string_not_equal(keys[0], keys[1]);
    free(wanted);
    gq_plan_free(plan);
}

/* Layers that are left out are not run, and experts are tried all at once. */
TEST(all_models_can_be_asked) {
    gq_plan_free(plan_for(&(asked){.prune = "1"}));
    gq_plan_free(plan_for(&(asked){.name = "experts.gguf"}));
}

/* What the first trials of a plan find when they may take so much memory, of some tensors. Returns in how
 * many layers these were. */
static size_t find_sensitivity(asked a, uint64_t memory, size_t n, const char *const names[],
                               double sensitivity[]) {
    a.threads = 1;
    gq_plan *plan = plan_for(&a);
    bool *wanted = all_that_is_run(plan), fresh;
    measured *found = calloc(plan->n_tensors, sizeof *found);
    gq_error e;
    plan->rounding->calibration->memory.deciding = memory;
    size_t layers;
    uint64_t least;
    if (!measure_tensors(plan, wanted, found, &fresh, NULL, &e) ||
        !trials_decide_layers(plan, wanted, &layers, &least, &e) ||
        !trials_run(plan, wanted, layers, found, NULL, &(trials_forecast){0}, &e))
        fail_msg("%s", e.text);
    for (size_t i = 0; i < plan->n_tensors; i++)
        for (size_t k = 0; k < n; k++)
            if (!strcmp(plan->sources[i].name, names[k])) sensitivity[k] = found[i].sensitivity;
    free(wanted), free(found);
    gq_plan_free(plan);
    return layers;
}

static void try_within(uint64_t memory, double sensitivity[2]) {
    static const char *const names[] = {"blk.1.ffn_down.weight", "blk.2.ffn_down.weight"};
    find_sensitivity((asked){0}, memory, 2, names, sensitivity);
}

/* Where memory does not hold the trials of all layers, the third one counts as its neighbour; where it holds
 * none, nothing is known. */
TEST(little_memory_tries_fewer_layers) {
    double sensitivity[2];
    try_within(UINT64_MAX, sensitivity);
    assert_true(sensitivity[0] > 100 * sensitivity[1] && sensitivity[1] >= 0);
    try_within(74 << 20, sensitivity);
    assert_true(sensitivity[0] > 0 && sensitivity[0] == sensitivity[1]);
    try_within(1 << 20, sensitivity);
    assert_true(sensitivity[0] < 0 && sensitivity[1] < 0);
}

/* Where the trials of single tensors would not reach all layers, those that go together share one; a layer
 * that adds little is found all the same. */
TEST(tensors_of_many_layers_share_trials) {
    enum { MANY = 19, NAMES = 8 };
    static const char *const names[NAMES] = {
        "blk.2.attn_q.weight",   "blk.2.attn_k.weight", "blk.2.attn_v.weight",   "blk.2.attn_output.weight",
        "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.1.ffn_down.weight", "blk.2.ffn_down.weight"};
    double sensitivity[NAMES] = {0};
    if (SANITIZED) return; /* which see the same in the others */
    model_save(evaluation_model_but(MANY, "blk.2.ffn_up.weight", 1), path("many.gguf"));
    asked a = {.name = "many.gguf", .letters = CONTEXT};
    assert_int_equal(find_sensitivity(a, UINT64_MAX, NAMES, names, sensitivity), MANY);
    assert_true(sensitivity[0] > 0 && sensitivity[0] == sensitivity[1] && sensitivity[1] == sensitivity[2] &&
                sensitivity[2] != sensitivity[3]);
    assert_true(sensitivity[4] > 0 && sensitivity[4] == sensitivity[5] && sensitivity[5] != sensitivity[6]);
    if (!(sensitivity[6] > 100 * sensitivity[7]))
        fail_msg("%g, %g behind little", sensitivity[6], sensitivity[7]);
    unlink(path("many.gguf"));
}

int main(void) { return tests_run(start, folder_remove); }
