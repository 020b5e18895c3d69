/* The work: bytes, numbers and errors do not depend on threads or on how the work is cut. */
#include "tests/support/folder.h"
#include "tests/support/model.h"

#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "codec/codec.h"
#include <zlib.h>

/* A model whose tensors need every kind of cut: chunks of rows, cut rows, many tiny matrices, padding. */
static void write_odd_model(const char *to) {
    static const struct {
        const char *name;
        uint32_t type;
        uint64_t ne[4];
    } tensors[] = {
        {"blk.0.attn_q.weight", GGUF_F16, {1024, 2500}},         /* three chunks */
        {"blk.0.attn_k.weight", GGUF_BF16, {256, 3, 5, 7}},      /* four dimensions */
        {"blk.0.attn_v.weight", GGUF_F32, {1 << 16 | 256, 3}},   /* rows longer than a strip */
        {"blk.0.ffn_up.weight", GGUF_F16, {(1 << 20) + 512, 2}}, /* rows longer than a chunk */
        {"blk.0.ffn_gate.weight", GGUF_F16, {1, 777}},           /* one column */
        {"blk.0.ffn_down.weight", GGUF_F16, {3, 3, 40, 30}},     /* matrices of nine elements */
        {"blk.0.ffn_norm.weight", GGUF_F32, {33}},               /* needs padding */
        {"blk.0.ffn_down_exps.weight", GGUF_F16, {512, 64, 3}},
        {"output.weight", GGUF_F16, {96, 50}}, /* falls back */
        {"token_embd.weight", GGUF_F16, {256, 300}},
    };
    model *m = model_new("llama", 1);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        model_add(m, tensors[i].name, tensors[i].type, tensors[i].ne, NULL);
    model_save(m, to);
}

static gq_results *run_one(const char *in, const char *out, const char *filetype, int threads) {
    gq_output output = {.path = out, .filetype = filetype};
    return run_plan(&(gq_options){.size = sizeof(gq_options),
                                  .input = in,
                                  .outputs = &output,
                                  .n_outputs = 1,
                                  .threads = threads,
                                  .effort = GQ_EFFORT_DEFAULT});
}

TEST(bytes_and_numbers_for_any_threads) {
    static const int threads[] = {1, 2, 3, 7};
    gq_results *results[4];
    write_odd_model(path("odd.gguf"));
    for (int k = 0; k < 4; k++) {
        char name[32];
        snprintf(name, sizeof name, "t%d.gguf", threads[k]);
        results[k] = run_one(path("odd.gguf"), path(name), "Q4_K_S", threads[k]);
        assert_same_file(path("t1.gguf"), path(name));
        assert_same_losses(results[k], 0, results[0], 0);
    }
    for (int k = 0; k < 4; k++) gq_results_free(results[k]);
}

/* What is written is what the encoder gives for whole rows, wherever chunks and strips end. */
TEST(cuts_leave_no_trace) {
    write_odd_model(path("odd.gguf"));
    quantize(path("odd.gguf"), path("cut.gguf"), "Q4_K_S", 2);
    model_source in = open_model(path("odd.gguf")), out = open_model(path("cut.gguf"));
    assert_int_equal(in.n_tensors, out.n_tensors);
    for (uint64_t i = 0; i < out.n_tensors; i++) {
        const model_tensor *t = out.tensors[i];
        uint64_t n, size;
        float *x = tensor_values(&in, t->name, &n);
        uint8_t *found = tensor_bytes(&out, t->name, &size), *wanted = malloc(size);
        kernels_select()->codecs[t->type->id].encode(x, wanted, n / t->ne[0], t->ne[0], NULL,
                                                     &(encode_settings){.effort = EFFORT_DEFAULT});
        if (memcmp(found, wanted, size) != 0) fail_msg("%s differs", t->name);
        free(x), free(found), free(wanted);
    }
    model_close(&in), model_close(&out);
}

/* What is not asked for is the default, also for callers who set nothing but files. */
TEST(the_default_effort_needs_no_words) {
    static const int efforts[] = {GQ_EFFORT_DEFAULT, GQ_EFFORT_FAST, GQ_EFFORT_BEST};
    assert_int_equal(GQ_EFFORT_DEFAULT, 0);
    write_odd_model(path("odd.gguf"));
    gq_output out = {.path = path("unsaid.gguf"), .filetype = "Q4_K_S"};
    gq_results_free(run_plan(&(gq_options){
        .size = sizeof(gq_options), .input = path("odd.gguf"), .outputs = &out, .n_outputs = 1}));
    for (int i = 0; i < 3; i++) {
        gq_output other = {.path = path("effort.gguf"), .filetype = "Q4_K_S"};
        gq_results_free(run_plan(&(gq_options){.size = sizeof(gq_options),
                                               .input = path("odd.gguf"),
                                               .outputs = &other,
                                               .n_outputs = 1,
                                               .force = true,
                                               .effort = efforts[i]}));
        if (i == 0) {
            assert_same_file(path("unsaid.gguf"), path("effort.gguf"));
            continue;
        }
        size_t n[2];
        uint8_t *unsaid = read_whole(path("unsaid.gguf"), &n[0]),
                *said = read_whole(path("effort.gguf"), &n[1]);
        assert_int_equal(n[0], n[1]);
        assert_memory_not_equal(unsaid, said, n[0]);
        free(unsaid), free(said);
    }
}

TEST(numbers_are_those_of_the_file) {
    write_odd_model(path("odd.gguf"));
    gq_output output = {.path = path("numbers.gguf"), .filetype = "Q5_K_S"};
    gq_plan *plan = must_plan(&(gq_options){.size = sizeof(gq_options),
                                            .input = path("odd.gguf"),
                                            .outputs = &output,
                                            .n_outputs = 1,
                                            .threads = 3});
    gq_results *results = must_run(plan);
    model_source in = open_model(path("odd.gguf")), out = open_model(path("numbers.gguf"));
    size_t n;
    const gq_tensor *tensors = gq_plan_tensors(plan, 0, &n);
    const gq_loss *losses = gq_results_losses(results, 0, &n);
    for (size_t i = 0; i < n; i++) {
        const gq_loss *loss = &losses[i];
        uint64_t count, size;
        float *x = tensor_values(&in, tensors[i].source_name, &count);
        float *y = tensor_values(&out, tensors[i].name, &count);
        uint8_t *bytes = tensor_bytes(&out, tensors[i].name, &size);
        double x2 = 0, e2 = 0, top = 0;
        for (uint64_t k = 0; k < count; k++) {
            double e = (double)x[k] - (double)y[k];
            x2 += (double)x[k] * (double)x[k], e2 += e * e;
            if (fabs(e) > top) top = fabs(e);
        }
        assert_int_equal(size, tensors[i].out_bytes);
        assert_int_equal(loss->crc32, crc32(0, bytes, (uInt)size));
        if (tensors[i].from == tensors[i].to) {
            assert_int_equal(loss->n, 0);
        } else {
            assert_int_equal(loss->n, count);
            assert_true(fabs(loss->x2 - x2) <= 1e-5 * x2 && fabs(loss->e2 - e2) <= 1e-5 * e2);
            assert_true(fabs(loss->max_error - top) <= 1e-6 * top);
            assert_true(fabs(gq_loss_relative(loss) - sqrt(e2 / x2)) < 1e-5);
            assert_true(isnan(gq_loss_weighted(loss)));
        }
        free(x), free(y), free(bytes);
    }
    model_close(&in), model_close(&out);
    gq_results_free(results), gq_plan_free(plan);
}

/* The outputs of one run, and what it says of them, against those of a run each. */
static void one_run_equals_many(const char *in, const char *const *types, size_t n) {
    gq_output outputs[8];
    char single[8][256], all[8][256];
    gq_results *results[8];
    for (size_t o = 0; o < n; o++) {
        snprintf(single[o], sizeof single[o], "%s/single-%zu.gguf", folder, o);
        snprintf(all[o], sizeof all[o], "%s/all-%zu.gguf", folder, o);
        results[o] = run_one(in, single[o], types[o], 2);
        outputs[o] = (gq_output){.path = all[o], .filetype = types[o]};
    }
    gq_results *together = run_plan(&(gq_options){.size = sizeof(gq_options),
                                                  .input = in,
                                                  .outputs = outputs,
                                                  .n_outputs = n,
                                                  .effort = GQ_EFFORT_DEFAULT});
    for (size_t o = 0; o < n; o++) {
        assert_same_file(single[o], all[o]);
        assert_same_losses(together, o, results[o], 0);
        gq_results_free(results[o]);
        unlink(single[o]), unlink(all[o]);
    }
    gq_results_free(together);
}

TEST(several_outputs_equal_single_ones) {
    static const char *const types[] = {"Q4_K_S", "Q8_0", "F32", "COPY"};
    write_odd_model(path("odd.gguf"));
    one_run_equals_many(path("odd.gguf"), types, 4);
}

/* Mixes that give many tensors the same type, which is encoded once for all. */
TEST(outputs_that_share_tensors) {
    static const char *const types[] = {"Q6_K", "Q4_K_M", "Q5_K_M", "Q4_K_S", "COPY", "Q5_K_S"};
    model_save(model_llama(8), path("shared.gguf"));
    one_run_equals_many(path("shared.gguf"), types, 6);
}

TEST(alignment_is_kept) {
    model *m = model_llama(1);
    model_set_u32(m, "general.alignment", 64);
    model_save(m, path("aligned.gguf"));
    quantize(path("aligned.gguf"), path("aligned-out.gguf"), "Q4_K_S", 2);
    model_source out = open_model(path("aligned-out.gguf"));
    assert_int_equal(gguf_container_of(&out)->shards[0].alignment, 64);
    for (uint64_t i = 0; i < out.n_tensors; i++) assert_int_equal(out.tensors[i]->offset % 64, 0);
    model_close(&out);
}

TEST(models_without_tensors) {
    model_save(model_new("llama", 1), path("none.gguf"));
    quantize(path("none.gguf"), path("none-out.gguf"), "Q4_K_S", 2);
    model_source out = open_model(path("none-out.gguf"));
    assert_int_equal(out.n_tensors, 0);
    model_close(&out);
}

/* ---- weights that must not pass ---- */

/* Element `at` of blk.0.ffn_norm.weight (kept) or blk.0.attn_q.weight (quantized) becomes `bits`. */
static void write_bad_model(const char *to, const char *name, uint32_t type, uint64_t at, uint32_t bits) {
    model *m = model_new("llama", 1);
    uint64_t ne[4] = {1024, strstr(name, "norm") ? 0 : 3000}, n = 1024 * (ne[1] ? ne[1] : 1);
    float *x = random_values(n, 5);
    memcpy(&x[at], &bits, 4);
    model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 300}, NULL);
    model_add(m, name, type, ne, x);
    model_save(m, to);
    free(x);
}

TEST(bad_weights_are_named) {
    static const struct {
        const char *name, *says;
        uint32_t type;
        uint64_t at;
        uint32_t bits;
    } cases[] = {
        {"blk.0.attn_q.weight", "element 0 ", GGUF_F32, 0, 0x7fc00000},
        {"blk.0.attn_q.weight", "element 3071999 ", GGUF_F32, 3071999, 0x7f800000},
        {"blk.0.attn_q.weight", "element 1048576 ", GGUF_BF16, 1048576, 0xff800000},
        {"blk.0.attn_q.weight", "element 70000 ", GGUF_F16, 70000, 0x7fc00000},
        {"blk.0.attn_norm.weight", "element 1023 ", GGUF_F32, 1023, 0x7f800001},
        {"blk.0.attn_q.weight", "element 12345 ", GGUF_F32, 12345, 0x7149f2ca}, /* 1e30 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *own = temporary_folder();
        write_bad_model(in_folder(own, "bad.gguf"), cases[i].name, cases[i].type, cases[i].at, cases[i].bits);
        gq_output out = {.path = in_folder(own, "out.gguf"), .filetype = "Q8_0"};
        for (int threads = 1; threads <= 4; threads += 3) {
            const char *text = failure(&(gq_options){.size = sizeof(gq_options),
                                                     .input = in_folder(own, "bad.gguf"),
                                                     .outputs = &out,
                                                     .n_outputs = 1,
                                                     .threads = threads,
                                                     .effort = GQ_EFFORT_DEFAULT});
            if (!strstr(text, cases[i].name) || !strstr(text, cases[i].says))
                fail_msg("%s lacks '%s'", text, cases[i].says);
        }
        assert_int_equal(count_files(own), 1);
        remove_folder(own);
    }
}

/* A download that set its file's size ahead and stopped ends in zeros. Vectors may well be zero, as biases are. */
TEST(matrices_of_zeros_are_reported) {
    static const uint64_t shape[4] = {256, 300};
    float *zeros = calloc(256 * 300, sizeof *zeros);
    model *m = model_new("llama", 1);
    model_add(m, "token_embd.weight", GGUF_F16, shape, NULL);
    model_add(m, "blk.0.attn_k.bias", GGUF_F32, (uint64_t[4]){256}, zeros);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, shape, zeros);
    model_add(m, "blk.0.ffn_up.weight", GGUF_BF16, shape, zeros);
    model_save(m, path("zeros.gguf"));
    free(zeros);
    gq_results *results = run_one(path("zeros.gguf"), path("of-zeros.gguf"), "Q4_K_S", 2);
    size_t n;
    const char *const *warnings = gq_results_warnings(results, &n);
    assert_int_equal(n, 1);
    assert_non_null(strstr(
        warnings[0], "zeros.gguf: all weights of 2 of 4 tensors are zero, first 'blk.0.attn_q.weight'"));
    gq_results_free(results);
}

TEST(scales_of_kept_blocks_are_checked) {
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_q.weight", GGUF_Q8_0, (uint64_t[4]){256, 4}, NULL);
    model_save(m, path("scale.gguf"));
    model_source in = open_model(path("scale.gguf"));
    uint64_t at = in.tensors[0]->offset + 34 * 9;
    model_close(&in);
    size_t n;
    uint8_t *bytes = read_whole(path("scale.gguf"), &n);
    bytes[at] = 0, bytes[at + 1] = 0x7e; /* the tenth block's scale: NaN */
    write_whole(path("scale.gguf"), bytes, n);
    free(bytes);
    gq_output out = {.path = path("scale-out.gguf"), .filetype = "COPY"};
    const char *text = failure(&(gq_options){.size = sizeof(gq_options),
                                             .input = path("scale.gguf"),
                                             .outputs = &out,
                                             .n_outputs = 1,
                                             .effort = GQ_EFFORT_DEFAULT});
    assert_non_null(strstr(text, "blk.0.attn_q.weight"));
    assert_non_null(strstr(text, "element 288 "));
}

/* ---- callbacks ---- */

typedef struct seen {
    uint64_t bytes, calls;
    size_t tensors;
    uint64_t stop_after;
} seen;

static void see_progress(void *user, const gq_progress *p) {
    seen *s = user;
    assert_true(p->bytes_done >= s->bytes && p->bytes_done <= p->bytes_total);
    s->bytes = p->bytes_done;
    s->calls++;
}

static void see_tensor(void *user, size_t output, size_t tensor, const gq_loss *loss) {
    seen *s = user;
    assert_int_equal(output, 0);
    assert_int_equal(tensor, s->tensors);
    assert_true(loss->crc32 != 0);
    s->tensors++;
}

TEST(callbacks_come_in_order) {
    seen s = {.calls = 0};
    gq_callbacks callbacks = {sizeof callbacks, &s, see_progress, see_tensor, NULL};
    write_odd_model(path("odd.gguf"));
    gq_output out = {.path = path("calls.gguf"), .filetype = "Q4_K_S"};
    gq_plan *plan = gq_plan_new(&(gq_options){.size = sizeof(gq_options),
                                              .input = path("odd.gguf"),
                                              .outputs = &out,
                                              .n_outputs = 1,
                                              .threads = 3,
                                              .effort = GQ_EFFORT_DEFAULT},
                                NULL);
    assert_non_null(plan);
    assert_true(gq_run(plan, &callbacks, NULL, NULL));
    assert_int_equal(s.tensors, gq_plan_summary(plan, 0)->n_tensors);
    assert_int_equal(s.bytes, gq_plan_summary(plan, 0)->in_bytes);
    gq_plan_free(plan);
}

int main(void) { return tests_run(folder_make, folder_remove); }
