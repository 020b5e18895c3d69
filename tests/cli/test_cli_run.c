/* The main job through the command: every file type, reports, names of outputs, exit statuses. */
#include <math.h>
#include <sys/stat.h>
#include <zlib.h>

#include "codec/codec.h"
#include "gguf/gguf.h"
#include "mixes/mixes.h"
#include "tests/support/one_model.h"

/* ---- file types ---- */

/* Same tensors and shapes as the input, types as the plan said. */
static void check_output(const char *path, const json *plan) {
    model_source in, out;
    gq_error e;
    if (!gguf_model_open(&in, source, &e) || !gguf_model_open(&out, path, &e)) fail_msg("%s", e.text);
    assert_int_equal(in.n_tensors, out.n_tensors);
    for (uint64_t i = 0; i < in.n_tensors; i++) {
        const model_tensor *a = in.tensors[i], *b = model_tensor_named(&out, a->name);
        assert_non_null(b);
        assert_memory_equal(a->ne, b->ne, sizeof a->ne);
        assert_string_equal(b->type->name, report_type(plan, a->name));
    }
    model_close(&in), model_close(&out);
}

/* Some types need an imatrix, which is known before an output exists. */
static bool quantize_as(const mix_filetype *f, bool importance) {
    const char *out = in_folder(folder, "out.gguf");
    char *err;
    const char *with[] = {NULL, "-q", "--imatrix", matrix, source, out, f->name, NULL};
    const char *without[] = {NULL, "-q", source, out, f->name, NULL};
    int status = run_command(importance ? with : without, NULL, &err);
    if (status == 0) {
        json *plan = importance ? PLAN(folder, "--force", "--imatrix", matrix, source, out, f->name)
                                : PLAN(folder, "--force", source, out, f->name);
        assert_string_equal(err, "");
        check_output(out, plan);
        json_free(plan);
        unlink(out);
    } else if (importance || !strstr(err, "needs an imatrix")) {
        fail_msg("%s: exit status %d: %s", f->name, status, err);
    }
    free(err);
    return status == 0;
}

TEST(test_every_file_type) {
    for (size_t i = 0; i < mix_n_filetypes; i += SANITIZED ? 3 : 1) {
        const mix_filetype *f = &mix_filetypes[i];
        assert_int_equal(quantize_as(f, false), strcmp(f->summary, "needs an imatrix") != 0);
        assert_true(quantize_as(f, true));
    }
    assert_int_equal(count_files(folder), 2);
}

TEST(test_threads_do_not_matter) {
    static const char *const threads[] = {"1", "2", "3", "8"};
    for (size_t i = 0; i < 4; i++)
        GQUANT(0, "-q", "--force", "--imatrix", matrix, source, in_folder(folder, i ? "b.gguf" : "a.gguf"),
               "Q4_K_M", threads[i]),
            assert_same_file(in_folder(folder, "a.gguf"), in_folder(folder, i ? "b.gguf" : "a.gguf"));
    unlink(in_folder(folder, "a.gguf")), unlink(in_folder(folder, "b.gguf"));
}

/* ---- reports ---- */

/* The figures of one tensor, worked out again from the two files with the plain decoders. */
static void check_losses(const json *tensor, const char *out_path) {
    model_source in, out;
    gq_error e;
    assert_true(gguf_model_open(&in, source, &e) && gguf_model_open(&out, out_path, &e));
    const model_tensor *a = model_tensor_named(&in, json_text(tensor, "name", "")),
                       *b = model_tensor_named(&out, a->name);
    size_t n = shape_elements(a->ne);
    uint8_t *bytes_a = malloc(a->size), *bytes_b = malloc(b->size);
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    assert_true(bytes_a && bytes_b && x && y);
    assert_true(gq_file_read(&gguf_container_of(&in)->shards[0].file, a->offset, bytes_a, a->size, &e));
    assert_true(gq_file_read(&gguf_container_of(&out)->shards[0].file, b->offset, bytes_b, b->size, &e));
    assert_true(reference_decode(a->type->id, bytes_a, x, n) && reference_decode(b->type->id, bytes_b, y, n));
    double x2 = 0, e2 = 0, max = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)y[i];
        x2 += (double)x[i] * (double)x[i], e2 += d * d, max = fmax(max, fabs(d));
    }
    assert_float_equal(json_number(tensor, "rmse", -1) / sqrt(e2 / (double)n), 1, 1e-6);
    assert_float_equal(json_number(tensor, "relative_error", -1) / sqrt(e2 / x2), 1, 1e-6);
    assert_float_equal(json_number(tensor, "snr_db", -1), 10 * log10(x2 / e2), 1e-5);
    assert_float_equal(json_number(tensor, "max_error", -1) / max, 1, 1e-6);
    char crc[16];
    snprintf(crc, sizeof crc, "%08lx", crc32_z(0, bytes_b, b->size));
    assert_string_equal(json_text(tensor, "crc32", ""), crc);
    free(bytes_a), free(bytes_b), free(x), free(y);
    model_close(&in), model_close(&out);
}

TEST(test_json_report) {
    const char *out = in_folder(folder, "out.gguf"), *path = in_folder(folder, "loss.json");
    GQUANT(0, "-q", "--report", path, "--imatrix", matrix, source, out, "Q4_K_M");
    json *report = json_file(path);
    const json *output = &json_need(report, "outputs")->items[0];
    size_t size;
    free(read_whole(out, &size));
    assert_string_equal(json_text(output, "path", ""), "out.gguf");
    assert_true(json_number(output, "file_bytes", 0) == (double)size);
    assert_true(json_number(output, "bits_per_weight", 0) > 4.5 &&
                json_number(output, "bits_per_weight", 0) < 6.6);
    assert_int_equal(json_need(output, "worst")->n, 5);
    check_losses(report_tensor(report, "blk.1.ffn_down.weight"), out);
    check_losses(report_tensor(report, "output.weight"), out);
    assert_true(json_number(report_tensor(report, "blk.1.ffn_down.weight"), "weighted_error", 0) > 0);
    assert_int_equal(json_need(report_tensor(report, "token_embd.weight"), "weighted_error")->kind,
                     KIND_NULL);
    assert_false(json_yes(report_tensor(report, "output_norm.weight"), "measured"));

    double worst = 0; /* the list starts with the largest error */
    const json *tensors = json_need(output, "tensors"),
               *top = report_tensor(report, json_need(output, "worst")->items[0].text);
    for (size_t i = 0; i < tensors->n; i++)
        worst = fmax(worst, json_number(&tensors->items[i], "weighted_error", 0));
    assert_true(json_number(top, "weighted_error", 0) == worst ||
                isnan(json_number(top, "weighted_error", (double)NAN)));

    char *argv_out;
    int status =
        run_command((const char *const[]){"python3", "-m", "json.tool", path, NULL}, &argv_out, NULL);
    if (status != 127) assert_int_equal(status, 0);
    free(argv_out);
    json_free(report);
    unlink(out), unlink(path);
}

TEST(test_csv_report) {
    const char *out = in_folder(folder, "out.gguf"), *path = in_folder(folder, "loss.csv");
    GQUANT(0, "-q", "-r", path, source, out, "Q8_0");
    char *text = (char *)read_whole(path, NULL), *line = strtok(text, "\r\n");
    assert_non_null(strstr(line, "output,tensor,shape,from,to,bits_per_weight"));
    size_t rows = 0, quantized = 0;
    while ((line = strtok(NULL, "\r\n"))) rows++, quantized += strstr(line, ",F16,Q8_0,8.5,") != NULL;
    model_source m;
    gq_error e;
    assert_true(gguf_model_open(&m, source, &e));
    assert_int_equal(rows, m.n_tensors);
    assert_true(quantized > 20);
    model_close(&m);
    free(text);
    unlink(out), unlink(path);
}

TEST(test_report_path) {
    const char *out = in_folder(folder, "out.gguf");
    GQUANT_SAYS(2, ".json", "-r", in_folder(folder, "loss.txt"), source, out, "Q8_0");
    GQUANT_SAYS(1, "folder", "-r", in_folder(folder, "nowhere/loss.json"), source, out, "Q8_0");
    const char *taken = in_folder(folder, "model.json");
    assert_int_equal(link(source, taken), 0);
    GQUANT_SAYS(2, "model.json", "-r", taken, source, out, "Q8_0");
    unlink(taken);
    /* Not even where the model is still to be made: the report would replace it. */
    GQUANT_SAYS(2, "model.json", "-r", taken, source, taken, "Q8_0");
    const char *again = in_folder(folder, "./model.json");
    GQUANT_SAYS(2, "model.json", "-r", again, source, taken, "Q8_0");
    GQUANT_SAYS(2, "model.json", "-r", again, "--out-dir", folder, source, "model.json=Q8_0");
    assert_false(exists(out) || exists(taken));
}

/* All parts and the join are the same command, so the option is for all; the join writes the report. */
TEST(test_parts_report_when_joined) {
    const char *out = in_folder(folder, "parts.gguf"), *file = in_folder(folder, "parts.json");
    GQUANT(0, "-q", "--part", "1/2", "-r", file, source, out, "Q8_0");
    GQUANT(0, "-q", "--part", "2/2", "-r", file, source, out, "Q8_0");
    assert_false(exists(file));
    GQUANT(0, "-q", "--join", "-r", file, source, out, "Q8_0");
    GQUANT(0, "verify", "-r", file, out);
    unlink(out), unlink(file);
}

TEST(test_table) {
    const char *out = in_folder(folder, "out.gguf");
    char *text, *err;
    assert_int_equal(
        run_command((const char *const[]){NULL, "-v", "--imatrix", matrix, source, out, "Q5_K_M", NULL},
                    &text, &err),
        0);
    static const char *const expected[] = {
        "RMSE",        "SNR dB",          "weighted",  "blk.1.ffn_down.weight",
        "F16 -> Q5_K", "bits per weight", "weights/s", "largest relative errors"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(text, expected[i])) fail_msg("the table lacks \"%s\"", expected[i]);
    assert_null(strchr(text, '\033'));
    assert_null(strchr(err, '\033')); /* no terminal: no colours, no progress line */
    assert_null(strchr(err, '\r'));
    free(text), free(err);

    assert_int_equal(
        run_command((const char *const[]){NULL, "--quiet", "--force", source, out, "Q5_K_M", NULL}, &text,
                    &err),
        0);
    assert_string_equal(text, "");
    assert_string_equal(err, "");
    free(text), free(err);

    assert_int_equal(
        run_command((const char *const[]){NULL, "-v", "--force", source, out, "Q5_K_M", NULL}, &text, &err),
        0);
    assert_non_null(strstr(err, "Q5_K_M: blk.1.ffn_down.weight  F16 -> "));
    free(text), free(err);
    unlink(out);
}

/* ---- outputs ---- */

TEST(test_default_name) {
    GQUANT(0, "-q", source, "q8_0");
    assert_true(exists(in_folder(folder, "model-Q8_0.gguf")));
    unlink(in_folder(folder, "model-Q8_0.gguf"));
}

TEST(test_several_outputs) {
    char *into = strdup(in_folder(folder, "into"));
    assert_int_equal(mkdir(into, 0777), 0);
    GQUANT(0, "-q", "-r", in_folder(folder, "loss.json"), "--out-dir", into, source, "Q4_K_M", "Q8_0",
           "six.gguf=Q6_K");
    assert_int_equal(count_files(into), 3);
    char *text;
    const char *again[] = {NULL, "-n", "--out-dir", into, source, "Q4_K_M", "Q8_0", NULL};
    assert_int_equal(run_command(again, &text, NULL), 0);
    assert_ptr_equal(strstr(text, "output "), text); /* only a line for each */
    assert_null(strstr(text, "blk.0"));
    free(text);
    const char *all[] = {NULL, "-nv", "--out-dir", into, source, "Q4_K_M", "Q8_0", NULL};
    assert_int_equal(run_command(all, &text, NULL), 0);
    assert_non_null(strstr(text, "blk.0.attn_q.weight"));
    char *overview = strstr(text, "\noutput ");
    assert_non_null(overview); /* with -v at the end */
    assert_non_null(strstr(overview, "model-Q4_K_M.gguf"));
    assert_non_null(strstr(overview, "model-Q8_0.gguf"));
    free(text);
    json *report = json_file(in_folder(folder, "loss.json"));
    assert_int_equal(json_need(report, "outputs")->n, 3);
    json_free(report);
    GQUANT(0, "-q", source, in_folder(folder, "one.gguf"), "Q4_K_M"); /* the same bytes as by itself */
    assert_same_file(in_folder(folder, "one.gguf"), in_folder(into, "model-Q4_K_M.gguf"));
    assert_true(exists(in_folder(into, "six.gguf")));
    unlink(in_folder(folder, "one.gguf")), unlink(in_folder(folder, "loss.json"));
    remove_folder(into);
}

TEST(test_existing_output) {
    const char *out = in_folder(folder, "out.gguf");
    write_whole(out, "mine", 4);
    GQUANT_SAYS(1, "--force", source, out, "Q8_0");
    size_t size;
    free(read_whole(out, &size));
    assert_int_equal(size, 4);
    GQUANT(0, "-q", "--force", source, out, "Q8_0");
    free(read_whole(out, &size));
    assert_true(size > 1000000);
    unlink(out);
}

TEST(test_never_onto_the_input) {
    const char *other = in_folder(folder, "link.gguf");
    assert_int_equal(link(source, other), 0);
    GQUANT_SAYS(1, "model-F16.gguf", "--force", source, source, "Q8_0");
    GQUANT_SAYS(1, "link.gguf", "--force", source, other, "Q8_0");
    unlink(other);
    GQUANT_SAYS(2, "imatrix.dat", "--force", "--imatrix", matrix, source, matrix, "Q8_0");
}

TEST(test_dry_run) {
    char *text;
    assert_int_equal(run_command((const char *const[]){NULL, "-n", source, "Q4_K_M", NULL}, &text, NULL), 0);
    assert_int_equal(count_files(folder), 2);
    says(text, "model-Q4_K_M.gguf: Q4_K_M, file "), says(text, "\ntypes: Q4_K in ");
    assert_null(strstr(text, "blk.1.ffn_down.weight"));
    free(text);
    /* Tensors come behind what they add up to, where asked for. */
    assert_int_equal(run_command((const char *const[]){NULL, "-nv", source, "Q4_K_M", NULL}, &text, NULL), 0);
    assert_true(strstr(text, "model-Q4_K_M.gguf") < strstr(text, "blk.1.ffn_down.weight"));
    free(text);
    /* The size it promises is the size it becomes. */
    json *plan = PLAN(folder, source, "Q4_K_M");
    GQUANT(0, "-q", source, "Q4_K_M");
    size_t size;
    free(read_whole(in_folder(folder, "model-Q4_K_M.gguf"), &size));
    assert_true(json_number(&json_need(plan, "outputs")->items[0], "file_bytes", 0) == (double)size);
    json_free(plan);
    unlink(in_folder(folder, "model-Q4_K_M.gguf"));
}

TEST(test_failures) {
    const char *out = in_folder(folder, "out.gguf");
    GQUANT_SAYS(1, "absent.gguf", in_folder(folder, "absent.gguf"), out, "Q8_0");
    GQUANT_SAYS(1, "nowhere", source, in_folder(folder, "nowhere/out.gguf"), "Q8_0");
    GQUANT_SAYS(1, "absent.dat", "--imatrix", in_folder(folder, "absent.dat"), source, out, "Q8_0");
    GQUANT_SAYS(2, "did you mean", source, out, "Q8_1");
    GQUANT_SAYS(2, "usage", source);
    assert_int_equal(count_files(folder), 2);
}

int main(void) { return tests_run(set_up, tear_down); }
