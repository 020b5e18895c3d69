/* Matrices that are written transposed: as if they had been stored so, whatever their shape, and back again.
 */
#include <math.h>

#include "codec/codec.h"
#include "gguf/model.h"
#include "tests/support/folder.h"
#include "tests/support/imatrix_files.h"
#include "tests/support/numbers.h"
#include "tests/support/runs.h"

typedef struct shape {
    const char *name;
    uint32_t type;
    uint64_t ne[4];
} shape;

/* Rows become as long as the comments say. */
static const shape shapes[] = {
    {"blk.0.attn_norm.weight", GGUF_F32, {256}},                 /* a vector, that stays */
    {"blk.0.attn_q.weight", GGUF_F16, {256, 512}},               /* 512, in one tile */
    {"blk.0.attn_k.weight", GGUF_F32, {300, 512}},               /* 512, from rows that no block fits */
    {"blk.0.ffn_up.weight", GGUF_F16, {512, 300}},               /* 300, which fit no block */
    {"blk.0.ffn_down.weight", GGUF_BF16, {130, 9216}},           /* longer than a tile's */
    {"blk.0.ffn_gate.weight", GGUF_F16, {32, 69888}},            /* longer than a strip */
    {"blk.0.attn_output.weight", GGUF_F16, {2, (1 << 20) + 32}}, /* longer than a chunk */
    {"blk.1.attn_q.weight", GGUF_F16, {8000, 32}},               /* 32, and more of them than a band takes */
    {"blk.1.ffn_down_exps.weight", GGUF_F16, {96, 512, 30}},     /* chunks across matrices */
    {"blk.1.ffn_up_exps.weight", GGUF_F32, {3, 64, 2, 2}},
    {"blk.1.attn_k.weight", GGUF_Q8_0, {320, 256}}, /* blocks on both sides */
    {"blk.1.attn_v.weight", GGUF_Q6_K, {512, 512}},
    {"blk.1.attn_output.weight", GGUF_Q4_K, {256, 4}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static bool is_quantized(size_t i) { return tensor_type_of(shapes[i].type)->quantized; }

static void write_model(const char *to, bool quantized) {
    model *m = model_new("llama", 2);
    for (size_t i = 0; i < N_SHAPES; i++)
        if (quantized || !is_quantized(i)) model_add(m, shapes[i].name, shapes[i].type, shapes[i].ne, NULL);
    model_save(m, path(to));
}

static bool is_vector(const model_tensor *t) { return t->ne[1] == 1; }

/* Values of a tensor as they are to be read after it was transposed; malloc'ed. */
static float *transposed_values(const model_source *m, const model_tensor *t) {
    uint64_t n, cols = t->ne[0], rows = t->ne[1];
    float *x = tensor_values(m, t->name, &n), *y = malloc(n * sizeof *y + 1);
    assert_non_null(y);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t matrix = i / (rows * cols), r = i / cols % rows, c = i % cols;
        y[matrix * rows * cols + c * rows + r] = x[i];
    }
    free(x);
    return y;
}

/* The same model with all matrices transposed beforehand. */
static void write_transposed(const char *from, const char *to) {
    model_source in = open_model(path(from));
    model *m = model_new("llama", 2);
    for (uint64_t i = 0; i < in.n_tensors; i++) {
        const model_tensor *t = in.tensors[i];
        uint64_t n, ne[4] = {t->ne[1], t->ne[0], t->ne[2], t->ne[3]};
        float *x = is_vector(t) ? tensor_values(&in, t->name, &n) : transposed_values(&in, t);
        model_add(m, t->name, GGUF_F32, is_vector(t) ? t->ne : ne, x);
        free(x);
    }
    model_save(m, path(to));
    model_close(&in);
}

static int make_models(void **state) {
    folder_make(state);
    write_model("in.gguf", true), write_model("plain.gguf", false);
    write_transposed("in.gguf", "before.gguf");
    return 0;
}

static const char *const all[] = {"weight"};

static gq_options job_of(const char *in, gq_output *out, bool transpose) {
    return (gq_options){.size = sizeof(gq_options),
                        .input = path(in),
                        .outputs = out,
                        .n_outputs = 1,
                        .threads = 2,
                        .effort = GQ_EFFORT_FAST,
                        .allow_requantize = true,
                        .force = true,
                        .transpose = {all, transpose}};
}

static gq_results *transpose(const char *in, const char *to, const char *type, int threads) {
    gq_output out = {.path = path(to), .filetype = type};
    gq_options o = job_of(in, &out, true);
    o.threads = threads;
    return run_plan(&o);
}

static void assert_same_tensor(const model_source *a, const model_source *b, const char *name) {
    uint64_t n, k;
    const model_tensor *x = model_tensor_named(a, name), *y = model_tensor_named(b, name);
    assert_true(x && y && x->type == y->type);
    assert_memory_equal(x->ne, y->ne, sizeof x->ne);
    uint8_t *left = tensor_bytes(a, name, &n), *right = tensor_bytes(b, name, &k);
    assert_int_equal(n, k);
    if (memcmp(left, right, n) != 0) fail_msg("%s differs", name);
    free(left), free(right);
}

static void check_as_if(const char *type) {
    size_t n;
    gq_output before = {.path = path("wanted.gguf"), .filetype = type};
    gq_options o = job_of("before.gguf", &before, false);
    gq_results *wanted = run_plan(&o), *found = transpose("in.gguf", "found.gguf", type, 2);
    model_source a = open_model(path("wanted.gguf")), b = open_model(path("found.gguf"));
    assert_int_equal(a.n_tensors, b.n_tensors);
    for (uint64_t i = 0; i < a.n_tensors; i++) {
        assert_same_tensor(&a, &b, a.tensors[i]->name);
        assert_int_equal(b.tensors[i]->transposed, !is_vector(b.tensors[i]));
    }
    const gq_loss *x = gq_results_losses(wanted, 0, &n), *y = gq_results_losses(found, 0, &n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(x[i].crc32, y[i].crc32);
        assert_true(fabs(x[i].x2 - y[i].x2) <= 1e-9 * x[i].x2 || x[i].n == 0 || y[i].n == 0);
        assert_true(fabs(x[i].e2 - y[i].e2) <= 1e-9 * x[i].e2 || x[i].n == 0 || y[i].n == 0);
    }
    model_close(&a), model_close(&b);
    gq_results_free(wanted), gq_results_free(found);
}

TEST(as_if_stored_so) {
    static const char *const types[] = {"Q4_K_M", "IQ4_NL", "F16"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) check_as_if(types[i]);
}

/* Rows as they become decide: 300 columns fit nothing, and 512 do. */
TEST(types_by_the_new_rows) {
    gq_output out = {.path = path("planned.gguf"), .filetype = "Q4_K_S"};
    gq_options o = job_of("in.gguf", &out, true);
    gq_plan *plan = must_plan(&o);
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++) {
        bool vector = t[i].ne[1] == 1;
        assert_int_equal(t[i].transposed, !vector);
        if (!strcmp(t[i].name, "blk.0.ffn_up.weight")) {
            assert_true(t[i].ne[0] == 300 && t[i].ne[1] == 512 && t[i].to == GGUF_F16);
            assert_int_equal(t[i].wanted, GGUF_Q4_K);
        }
        if (!strcmp(t[i].name, "blk.0.attn_k.weight"))
            assert_true(t[i].ne[0] == 512 && t[i].to == GGUF_Q4_K && t[i].wanted == t[i].to);
    }
    gq_plan_free(plan);
}

TEST(same_for_any_threads) {
    gq_results *one = transpose("in.gguf", "one.gguf", "Q4_K_M", 1),
               *five = transpose("in.gguf", "five.gguf", "Q4_K_M", 5);
    assert_same_file(path("one.gguf"), path("five.gguf"));
    assert_same_losses(one, 0, five, 0);
    gq_results_free(one), gq_results_free(five);
}

TEST(same_on_all_levels) {
    char *asked = getenv("GQUANT_ISA") ? strdup(getenv("GQUANT_ISA")) : NULL;
    size_t made = 0;
    for (size_t i = 0; gq_isa_level(i); i++) {
        setenv("GQUANT_ISA", gq_isa_level(i), 1);
        if (!gq_isa()) continue;
        gq_results_free(transpose("in.gguf", made ? "other.gguf" : "level.gguf", "Q5_K_S", 2));
        if (made++) assert_same_file(path("level.gguf"), path("other.gguf"));
    }
    unsetenv("GQUANT_ISA");
    if (asked) setenv("GQUANT_ISA", asked, 1);
    free(asked);
    if (made < 2) skip();
}

TEST(twice_is_not_at_all) {
    gq_results_free(transpose("plain.gguf", "there.gguf", "COPY", 2));
    gq_results_free(transpose("there.gguf", "back.gguf", "COPY", 2));
    model_source a = open_model(path("plain.gguf")), there = open_model(path("there.gguf")),
                 b = open_model(path("back.gguf"));
    for (uint64_t i = 0; i < a.n_tensors; i++) {
        const model_tensor *t = model_tensor_named(&there, a.tensors[i]->name);
        assert_int_equal(t->transposed, !is_vector(t));
        assert_ptr_equal(t->type, a.tensors[i]->type);
        assert_same_tensor(&a, &b, t->name);
    }
    assert_non_null(model_kv_find(there.kv, there.n_kv, GGUF_TRANSPOSED_KEY));
    assert_null(model_kv_find(b.kv, b.n_kv, GGUF_TRANSPOSED_KEY));
    assert_true(gguf_model_check_transposed(&there, NULL));
    model_close(&a), model_close(&there), model_close(&b);
}

/* What is stored transposed is so afterwards, also under another name; what goes is not mentioned. */
TEST(marks_are_carried) {
    gq_results_free(transpose("plain.gguf", "marked.gguf", "COPY", 2));
    gq_output out = {.path = path("carried.gguf"), .filetype = "Q8_0"};
    gq_options o = job_of("marked.gguf", &out, false);
    o.prune_layers = "0";
    gq_results_free(run_plan(&o));
    model_source m = open_model(path("carried.gguf"));
    assert_true(m.n_tensors == 3 && gguf_model_check_transposed(&m, NULL));
    for (uint64_t i = 0; i < m.n_tensors; i++) assert_true(m.tensors[i]->transposed);
    assert_int_equal(model_tensor_named(&m, "blk.0.attn_q.weight")->ne[0], 32);
    model_close(&m);
}

TEST(interrupted_runs_go_on) {
    gq_results_free(transpose("in.gguf", "whole.gguf", "Q4_K_S", 2));
    gq_output out = {.path = path("pieces.gguf"), .filetype = "Q4_K_S"};
    gq_options o = job_of("in.gguf", &out, true);
    stopper first = {.after = 3}, second = {.after = 12}, last = {.after = 0};
    gq_error e;
    assert_int_equal(run_some(&o, &first, &e), GQ_INTERRUPTED);
    assert_int_equal(run_some(&o, &second, &e), GQ_INTERRUPTED);
    assert_true(announced(&o, "will be continued"));
    o.transpose.n = 0;
    assert_false(announced(&o, "will be continued"));
    o.transpose.n = 1;
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_true(last.resumed > 0);
    assert_same_file(path("whole.gguf"), out.path);
}

TEST(in_parts_and_beside_others) {
    gq_results_free(transpose("in.gguf", "alone.gguf", "Q4_K_S", 2));
    gq_output out = {.path = path("parts.gguf"), .filetype = "Q4_K_S"},
              two[] = {{.path = path("first.gguf"), .filetype = "Q8_0"},
                       {.path = path("second.gguf"), .filetype = "Q4_K_S"}};
    gq_options o = job_of("in.gguf", &out, true);
    for (o.part = 1, o.parts = 3; o.part <= 3; o.part++) gq_results_free(run_plan(&o));
    o.part = o.parts = 0, o.join = true;
    gq_results_free(run_plan(&o));
    assert_same_file(path("alone.gguf"), out.path);
    o.join = false, o.outputs = two, o.n_outputs = 2;
    gq_results_free(run_plan(&o));
    assert_same_file(path("alone.gguf"), two[1].path);
}

/* A target measures samples of what is written. */
TEST(targets_know_of_it) {
    gq_output out[] = {{.path = path("sized.gguf"), .target.bpw = 6},
                       {.path = path("sized-before.gguf"), .target.bpw = 6}};
    gq_options o = job_of("plain.gguf", &out[0], true);
    write_transposed("plain.gguf", "plain-before.gguf");
    for (int again = 0; again < 2; again++) { /* from measurements that were kept, too */
        gq_results_free(run_plan(&o));
        gq_options before = job_of("plain-before.gguf", &out[1], false);
        before.measure_file = "";
        gq_results_free(run_plan(&before));
        model_source a = open_model(out[0].path), b = open_model(out[1].path);
        for (uint64_t i = 0; i < a.n_tensors; i++)
            if (a.tensors[i]->type->quantized) assert_same_tensor(&a, &b, a.tensors[i]->name);
        model_close(&a), model_close(&b);
    }
}

/* ---- importance ---- */

static void write_inputs(const char *to) {
    blob b = {.n = 0};
    seed_random(5);
    put32(&b, N_SHAPES - 1);
    for (size_t i = 1; i < N_SHAPES; i++) {
        const uint64_t *ne = shapes[i].ne;
        size_t n = ne[0] * (ne[2] ? ne[2] : 1) * (ne[3] ? ne[3] : 1);
        float *values = malloc(n * sizeof *values);
        assert_non_null(values);
        fill_importance(values, n);
        put_entry(&b, shapes[i].name, 1, values, (int32_t)n);
        free(values);
    }
    put_trailer(&b, 1, "made up");
    write_whole(path(to), b.bytes, b.n);
    free(b.bytes);
}

TEST(importance_is_of_columns) {
    write_inputs("inputs.dat");
    gq_output out[] = {{.path = path("with.gguf"), .filetype = "Q4_K_S"},
                       {.path = path("without.gguf"), .filetype = "Q4_K_S"}};
    gq_options o = job_of("plain.gguf", &out[0], true);
    o.imatrix = path("inputs.dat");
    assert_true(announced(&o, "which are rows in a transposed tensor"));
    gq_results_free(run_plan(&o));
    o.imatrix = NULL, o.outputs = &out[1];
    gq_results_free(run_plan(&o));
    model_source a = open_model(out[0].path), b = open_model(out[1].path);
    for (uint64_t i = 0; i < a.n_tensors; i++) assert_same_tensor(&a, &b, a.tensors[i]->name);
    model_close(&a), model_close(&b);
}

/* Transposed back, columns are what they were. */
TEST(importance_comes_back) {
    write_inputs("inputs.dat");
    gq_results_free(transpose("plain.gguf", "turned.gguf", "COPY", 2));
    gq_output out[] = {{.path = path("direct.gguf"), .filetype = "Q4_K_S"},
                       {.path = path("round.gguf"), .filetype = "Q4_K_S"}};
    gq_options direct = job_of("plain.gguf", &out[0], false), about = job_of("turned.gguf", &out[1], true);
    direct.imatrix = about.imatrix = path("inputs.dat");
    gq_results *x = run_plan(&direct), *y = run_plan(&about);
    model_source a = open_model(out[0].path), b = open_model(out[1].path);
    for (uint64_t i = 0; i < a.n_tensors; i++) assert_same_tensor(&a, &b, a.tensors[i]->name);
    size_t n;
    const gq_loss *p = gq_results_losses(x, 0, &n), *q = gq_results_losses(y, 0, &n);
    for (size_t i = 0; i < n; i++) assert_true(fabs(p[i].we2 - q[i].we2) <= 1e-9 * p[i].we2);
    model_close(&a), model_close(&b);
    gq_results_free(x), gq_results_free(y);
}

/* ---- what cannot be ---- */

TEST(refusals) {
    static const char *const none[] = {"nothing_of_that"}, *const vectors[] = {"norm"}, *const bad[] = {"a["},
                             *const override[] = {"gquant.transposed=str:x"};
    gq_output out = {.path = path("refused.gguf"), .filetype = "COPY"};
    gq_options o = job_of("in.gguf", &out, true);
    o.allow_requantize = false;
    assert_non_null(strstr(failure(&o), "asked for: Q8_0, transposed"));
    o.allow_requantize = true; /* rows of 4 are no blocks */
    assert_non_null(strstr(failure(&o), "blk.1.attn_output.weight, transposed: rows of 4 elements"));
    o.transpose.items = bad;
    assert_non_null(strstr(failure(&o), "pattern 'a['"));
    o.transpose.items = none;
    assert_true(announced(&o, "no matrix matches"));
    o.transpose.items = vectors;
    assert_true(announced(&o, "to transpose: no matrix matches"));
    o.override_kv = (gq_list){override, 1};
    assert_non_null(strstr(failure(&o), "describes the file's layout"));
    o.override_kv.n = 0;
    gq_calibration c = {.size = sizeof c, .random = true};
    o.calibration = &c;
    assert_non_null(strstr(failure(&o), "transpose those of the calibrated file"));
}

/* Which weight is wrong is said of the file that is read. */
TEST(bad_weights_are_found) {
    float x[4 * 32] = {0};
    x[3 * 32 + 5] = NAN;
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_q.weight", GGUF_F32, (uint64_t[4]){32, 4}, x);
    model_write(m, path("nan.gguf"));
    gq_output out = {.path = path("nan-out.gguf"), .filetype = "Q8_0"};
    gq_options o = job_of("nan.gguf", &out, true);
    assert_non_null(strstr(failure(&o), "element 101 is nan"));
    model_free(m);
    x[3 * 32 + 5] = 1e30f; /* which F16 does not hold */
    m = model_new("llama", 1);
    model_add(m, "blk.0.attn_q.weight", GGUF_F32, (uint64_t[4]){32, 4}, x);
    model_save(m, path("nan.gguf"));
    assert_non_null(strstr(failure(&o), "element 101 is 1e+30"));
}

int main(void) { return tests_run(make_models, folder_remove); }
