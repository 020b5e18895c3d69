/* Tensors on a lattice of few bits: a plan finds them and says which types hold it; these lose nothing, a
 * calibration then leaves them unchanged, and a target counts them as free of error. */
#include <math.h>

#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/imatrix_files.h"
#include "tests/support/numbers.h"

enum { COLUMNS = 512, ROWS = 48, WEIGHTS = COLUMNS * ROWS, CONTEXT = 32, IDS = CONTEXT * 8 };

typedef float code_of(int i, int group);

static float random_int4(int i, int group) {
    (void)i, (void)group;
    return (float)((int)(next_random() >> 33) % 15 - 7);
}
static float random_e2m1(int i, int group) {
    static const int values[] = {0, 1, 2, 3, 4, 6, 8, 12};
    float v = (float)values[next_random() >> 33 & 7] / 2;
    (void)i, (void)group;
    return next_random() >> 40 & 1 ? -v : v;
}
static float any_number(int i, int group) {
    (void)i, (void)group;
    return random_normal();
}

/* One tensor of codes times a scale for each group of columns: a number of 8 bits, or a power of two. */
static void add_lattice(model *m, const char *name, uint32_t type, code_of *code, int group, bool powers) {
    float *x = malloc(WEIGHTS * sizeof *x), scale = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        if (i % group == 0)
            scale = ldexpf(powers ? 1 : (float)(128 + (next_random() >> 33) % 128) / 128,
                           -6 - (int)((next_random() >> 33) % 2));
        x[i] = scale * code(i, group);
    }
    model_add(m, name, type, (uint64_t[4]){COLUMNS, ROWS}, x);
    free(x);
}

static void write_model(const char *name, uint32_t type) {
    seed_random(5);
    model *m = model_new("llama", 1);
    add_lattice(m, "blk.0.attn_q.weight", type, random_int4, 32, false);
    add_lattice(m, "blk.0.attn_k.weight", type, random_int4, COLUMNS, false);
    add_lattice(m, "blk.0.ffn_up.weight", type, random_e2m1, 32, true);
    add_lattice(m, "blk.0.ffn_down.weight", type, any_number, 32, true);
    model_save(m, path(name));
}

FIXTURE(start) {
    folder = temporary_folder();
    write_model("exact.gguf", GGUF_F32), write_model("rounded.gguf", GGUF_BF16);
    return 0;
}

static gq_options options_of(const char *in, gq_output *out) {
    return (gq_options){
        .size = sizeof(gq_options), .input = in, .outputs = out, .n_outputs = 1, .force = true, .threads = 2};
}

static void assert_holds(const gq_plan *plan, const char *name, const char *types) {
    char found[160] = "";
    uint64_t set = plan_tensor(plan, name)->grid_types;
    for (uint32_t i = 0; i < 64; i++)
        if (set >> i & 1) strcat(strcat(found, gq_type_name(i)), " ");
    if (strcmp(found, types) != 0) fail_msg("%s: %s, expected %s", name, found, types);
}

TEST(a_plan_finds_them) {
    static const char *const models[] = {"exact.gguf", "rounded.gguf"};
    for (int i = 0; i < 2; i++) {
        gq_output out = {.path = path("out.gguf"), .filetype = "Q4_0"};
        gq_options o = options_of(path(models[i]), &out);
        gq_plan *plan = must_plan(&o);
        assert_holds(plan, "blk.0.attn_q.weight", "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 ");
        assert_holds(plan, "blk.0.attn_k.weight", "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K ");
        assert_holds(plan, "blk.0.ffn_up.weight", "Q5_0 Q5_1 Q8_0 Q5_K Q6_K MXFP4 ");
        assert_holds(plan, "blk.0.ffn_down.weight", "");
        assert_true(warned(plan, "on a quantization grid of few bits, as in a QAT checkpoint: 3 tensors "
                                 "(first blk.0.attn_k.weight)"));
        assert_true(warned(plan, "; Q5_0, Q5_1 and Q8_0 can store them exactly"));
        assert_true(warned(plan, "Q4_0: 1 tensor on a quantization grid gets a type that cannot store it "
                                 "exactly, first blk.0.ffn_up.weight as Q4_0; Q5_0, Q5_1 and Q8_0 can"));
        gq_plan_free(plan);
        out.filetype = "F16";
        plan = must_plan(&o);
        assert_false(warned(plan, "grid"));
        gq_plan_free(plan);
    }
}

/* Rows of two kinds that take turns are not taken for those of one. */
TEST(rows_in_turns_are_no_lattice) {
    seed_random(6);
    model *m = model_new("llama", 1);
    float *x = malloc(WEIGHTS * sizeof *x);
    for (int i = 0; i < WEIGHTS; i++) x[i] = i / COLUMNS % 2 ? random_normal() : 0x1p-6f * random_int4(i, 0);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F32, (uint64_t[4]){COLUMNS, ROWS}, x);
    free(x);
    model_save(m, path("turns.gguf"));
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_0"};
    gq_options o = options_of(path("turns.gguf"), &out);
    gq_plan *plan = must_plan(&o);
    assert_holds(plan, "blk.0.ffn_up.weight", "");
    gq_plan_free(plan);
}

/* What a plan has found of a model that it was lent serves later plans, but not those that search otherwise. */
TEST(plans_share_what_was_found) {
    static const int efforts[] = {GQ_EFFORT_DEFAULT, GQ_EFFORT_DEFAULT, GQ_EFFORT_FAST, GQ_EFFORT_DEFAULT};
    gq_error e;
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_0"};
    gq_options o = options_of(path("rounded.gguf"), &out);
    gq_model *m = gq_model_open(o.input, &e);
    assert_non_null(m);
    for (int i = 0; i < 4; i++) {
        o.effort = efforts[i], o.model = NULL;
        gq_plan *own = must_plan(&o);
        o.model = m;
        gq_plan *shared = must_plan(&o);
        assert_true(plan_tensor(own, "blk.0.attn_k.weight")->grid_types != 0);
        for (size_t k = 0, n; k < (gq_plan_tensors(own, 0, &n), n); k++)
            assert_true(gq_plan_tensors(own, 0, &n)[k].grid_types ==
                        gq_plan_tensors(shared, 0, &n)[k].grid_types);
        gq_plan_free(own), gq_plan_free(shared);
    }
    gq_model_close(m);
}

/* Zeros say nothing of a lattice, in rows between others and alone. */
TEST(rows_of_zeros_are_no_sample) {
    seed_random(7);
    model *m = model_new("llama", 1);
    float *x = calloc(WEIGHTS, sizeof *x);
    model_add(m, "blk.0.attn_q.weight", GGUF_F32, (uint64_t[4]){COLUMNS, ROWS}, x);
    for (int i = 0; i < WEIGHTS; i++) x[i] = i / COLUMNS % 3 ? 0 : 0x1p-6f * random_int4(i, 0);
    model_add(m, "blk.0.attn_k.weight", GGUF_F32, (uint64_t[4]){COLUMNS, ROWS}, x);
    free(x);
    model_save(m, path("zeros.gguf"));
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_0"};
    gq_options o = options_of(path("zeros.gguf"), &out);
    gq_plan *plan = must_plan(&o);
    assert_holds(plan, "blk.0.attn_q.weight", "");
    assert_holds(plan, "blk.0.attn_k.weight", "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K ");
    gq_plan_free(plan);
}

static bool always(void *user) { return user == NULL; }

TEST(a_plan_stops_on_request) {
    gq_error e = {0};
    gq_output out = {.path = path("out.gguf"), .filetype = "Q4_0"};
    gq_options o = options_of(path("exact.gguf"), &out);
    o.callbacks = &(gq_callbacks){.size = sizeof(gq_callbacks), .cancelled = always};
    assert_null(gq_plan_new(&o, &e));
    assert_int_equal(e.status, GQ_INTERRUPTED);
}

/* What fits a machine is listed with the same sentence, once. */
TEST(a_survey_says_so_once) {
    gq_error e;
    size_t n, found = 0;
    gq_options o = options_of(path("rounded.gguf"), NULL);
    o.n_outputs = 0;
    gq_survey *s = gq_survey_new(&(gq_survey_request){.size = sizeof(gq_survey_request), .options = &o}, &e);
    if (!s) fail_msg("%s", e.text);
    const char *const *warnings = gq_survey_warnings(s, &n);
    for (size_t i = 0; i < n; i++)
        found += strstr(warnings[i],
                        "on a quantization grid of few bits, as in a QAT checkpoint: 3 tensors") != NULL;
    assert_int_equal(found, 1);
    gq_survey_free(s);
}

/* Importance data, by which some inputs count for nothing. */
static void write_importance(const char *name) {
    static const char *const tensors[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.ffn_up.weight",
                                          "blk.0.ffn_down.weight"};
    blob b = {0};
    float values[COLUMNS];
    put32(&b, 4);
    for (int i = 0; i < 4; i++) {
        for (int c = 0; c < COLUMNS; c++) values[c] = c % 7 ? random_normal() * random_normal() : 0;
        for (int c = 0; c < COLUMNS; c++) values[c] *= values[c];
        put_entry(&b, tensors[i], 1, values, COLUMNS);
    }
    put_trailer(&b, 1, "text");
    write_whole(path(name), b.bytes, b.n);
    free(b.bytes);
}

/* What is written decodes to what was there, in each type that is said to hold it, whatever the inputs are. */
TEST(what_holds_them_loses_nothing) {
    static const char *const types[] = {"Q4_0", "Q5_0", "Q8_0", "Q4_K", "Q6_K", "MXFP4"};
    enum { TYPES = sizeof types / sizeof *types };
    write_importance("im.dat");
    for (size_t i = 0; i < 2 * TYPES; i++) {
        const char *pattern = types[i % TYPES], *all[] = {NULL};
        char given[32];
        snprintf(given, sizeof given, "weight=%s", pattern), all[0] = given;
        gq_output out = {.path = path("out.gguf"), .filetype = "Q8_0"};
        gq_options o = options_of(path("exact.gguf"), &out);
        o.tensor_types.items = all, o.tensor_types.n = 1;
        if (i >= TYPES) o.imatrix = path("im.dat");
        gq_plan *plan = must_plan(&o);
        gq_results *r = must_run(plan);
        size_t n, held = 0;
        const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
        const gq_loss *l = gq_results_losses(r, 0, &n);
        for (size_t k = 0; k < n; k++) {
            bool holds = t[k].grid_types >> t[k].to & 1;
            held += holds;
            if (holds != (l[k].e2 == 0)) fail_msg("%s in %s: error %g", t[k].name, pattern, l[k].e2);
        }
        assert_true(held > 0);
        gq_results_free(r), gq_plan_free(plan);
    }
}

/* The smallest type that holds a lattice costs nothing: what a larger file has goes to the other tensors. */
TEST(targets_count_them_as_free_of_error) {
    for (double bpw = 5; bpw < 8; bpw += 0.75) {
        gq_output out = {.path = path("out.gguf"), .target = {.bpw = bpw}};
        gq_options o = options_of(path("rounded.gguf"), &out);
        gq_plan *plan = must_plan(&o);
        assert_int_equal(plan_tensor(plan, "blk.0.attn_q.weight")->to, GGUF_Q4_0);
        uint32_t row = plan_tensor(plan, "blk.0.attn_k.weight")->to;
        assert_true(row == GGUF_Q4_0 || row == GGUF_Q4_K);
        assert_int_equal(plan_tensor(plan, "blk.0.ffn_up.weight")->to, GGUF_MXFP4);
        uint32_t other = plan_tensor(plan, "blk.0.ffn_down.weight")->to;
        assert_true(other == GGUF_Q5_K || other == GGUF_Q6_K || other == GGUF_Q8_0);
        gq_plan_free(plan);
    }
}

/* A model of matrices that were Q4_0 once: rounded by its inputs nothing would be nearer. */
TEST(a_calibration_leaves_them_alone) {
    char ids[8 * IDS] = "";
    for (size_t i = 0, at = 0; i < IDS; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", (i * i * 31 + i / 7) % VARIANT_VOCABULARY);
    variant v = *variant_named("llama");
    v.layers = 1;
    model_save(variant_model(&v, GGUF_F32, NULL), path("plain.gguf"));
    quantize(path("plain.gguf"), path("four.gguf"), "Q4_0", 1);
    gq_output out = {.path = path("again.gguf"), .filetype = "F32"};
    gq_options o = options_of(path("four.gguf"), &out);
    o.allow_requantize = true;
    gq_results_free(run_plan(&o));

    gq_calibration calibration = {
        .size = sizeof calibration,
        .text = {.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT}};
    out = (gq_output){.path = path("calibrated.gguf"), .filetype = "Q4_0"};
    o = options_of(path("again.gguf"), &out), o.calibration = &calibration;
    gq_plan *plan = must_plan(&o);
    size_t n, found = 0;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++) {
        bool holds = t[i].grid_types >> t[i].to & 1;
        if (holds && t[i].calibrated) fail_msg("%s is calibrated", t[i].name);
        found += holds;
    }
    assert_true(found >= 7);
    assert_true(warned(plan, "calibration then leaves them unchanged"));
    gq_results *r = must_run(plan);
    for (size_t i = 0; i < n; i++)
        if ((t[i].grid_types >> t[i].to & 1) && gq_results_losses(r, 0, &n)[i].e2 != 0)
            fail_msg("%s: error %g", t[i].name, gq_results_losses(r, 0, &n)[i].e2);
    gq_results_free(r), gq_plan_free(plan);
}

int main(void) { return tests_run(start, folder_remove); }
