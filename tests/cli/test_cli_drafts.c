/* Prediction blocks by the command: their importance data, calibration, acceptance, and files without or with
 * them alone. */
#include <math.h>

#include "gguf/model.h"
#include "tests/support/command.h"
#include "tests/support/draft_models.h"
#include "tests/support/folder.h"

#define WHERE "--ids", path("ids"), "--context", "32"

static void write_model(const char *name, const draft_model *d) {
    model_save(draft_model_new(d, GGUF_F16), path(name));
}

FIXTURE(make_files) {
    enum { IDS = 2048 };
    folder = temporary_folder();
    write_model("model.gguf", draft_model_named("glm4moe"));
    write_model("ends.gguf", draft_model_named("glm4moe-ends"));
    write_model("streams.gguf", draft_model_named("deepseek4"));
    write_model("unknown.gguf", &(draft_model){.name = "exaone4"});
    FILE *f = fopen(path("ids"), "w");
    for (size_t i = 0; i < IDS; i++) fprintf(f, "%u ", variant_id(i % 7 * i));
    fclose(f);
    return 0;
}

/* ---- importance ---- */

TEST(importance_has_the_matrices_of_blocks) {
    GQUANT(0, "-q", "imatrix", "compute", path("model.gguf"), WHERE, "-o", path("imatrix.gguf"));
    char *text = PRINTED("imatrix", "show", "--json", path("imatrix.gguf"), path("model.gguf"));
    json *j = json_parse(text);
    const json *weights = json_need(j, "weights");
    size_t n = 0;
    for (size_t i = 0; i < weights->n; i++) {
        const char *name = json_text(&weights->items[i], "name", "");
        if (strncmp(name, "blk.2.", 6) != 0) continue;
        n++;
        if (!json_yes(&weights->items[i], "has_entry")) fail_msg("%s has no data", name);
    }
    assert_int_equal(n, 11);
    json_free(j), free(text);
}

/* The sums of two parts are those of the whole. */
TEST(parts_of_a_text_have_them_too) {
    GQUANT(0, "-q", "imatrix", "compute", "--part", "1/2", path("model.gguf"), WHERE, "-o",
           path("part1.gguf"));
    GQUANT(0, "-q", "imatrix", "compute", "--part", "2/2", path("model.gguf"), WHERE, "-o",
           path("part2.gguf"));
    GQUANT(0, "-q", "imatrix", "merge", path("part1.gguf"), path("part2.gguf"), path("parts.gguf"));
    char *whole = PRINTED("imatrix", "show", path("imatrix.gguf")),
         *parts = PRINTED("imatrix", "show", path("parts.gguf"));
    const char *a = strstr(whole, "blk.2.nextn.eh_proj.weight"),
               *b = strstr(parts, "blk.2.nextn.eh_proj.weight");
    assert_non_null(a), assert_non_null(b);
    assert_memory_equal(a, b, strcspn(a, "\n"));
    free(whole), free(parts);
}

/* ---- calibration and acceptance ---- */

static double acceptance_of(const json *models, const char *name) {
    return json_number(json_named(models, "path", name), "acceptance", -1);
}

/* scores: "none", or a file in which they are kept. */
static json *evaluate(const char *copy, const char *scores) {
    GQUANT(0, "-q", "evaluate", "--force", path("model.gguf"), path(copy), WHERE, "--scores-file", scores,
           "--report", path("evaluation.json"));
    return json_file(path("evaluation.json"));
}

typedef struct measured_numbers {
    double weights, power, sensitivity;
    double error; /* of Q8_0 */
} measured_numbers;

static measured_numbers measured_of(const model_source *g, const char *name) {
    char key[128];
    uint32_t type = 0;
    uint64_t n = 0;
    const uint8_t *at = NULL;
    measured_numbers x;
    snprintf(key, sizeof key, "measured.tensor.%s.weight", name);
    const model_kv *kv = model_kv_find(g->kv, g->n_kv, key);
    assert_true(kv && model_kv_array(kv, &type, &n, &at) && type == GGUF_FLOAT64);
    memcpy(&x, at, offsetof(measured_numbers, error)), x.error = NAN;
    for (size_t i = 3; i + 1 < n; i += 2) { /* types and their errors */
        double pair[2];
        memcpy(pair, at + i * sizeof *pair, sizeof pair);
        if (pair[0] == GGUF_Q8_0) x.error = pair[1];
    }
    return x;
}

/* Errors of an MTP layer's matrices are weighted by the layer's own inputs, so that they are others than
 * without a text, and count by the KLD of its own predictions: not as those of the model's layer before it, and
 * also where that has no such matrix. */
TEST(targets_know_what_blocks_are_for) {
    static const char *const tensors[] = {"blk.2.nextn.eh_proj", "blk.2.attn_output", "blk.2.ffn_gate_exps"};
    GQUANT(0, "-q", "--calibrate-ids", path("ids"), "--context", "32", "--measure-file", path("kept"),
           "--target-bpw", "9", path("ends.gguf"), path("target.gguf"));
    GQUANT(0, "-q", "--dry-run", "--measure-file", path("plain"), "--target-bpw", "9", path("ends.gguf"));
    model_source g = open_model(path("kept")), plain = open_model(path("plain"));
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        measured_numbers x = measured_of(&g, tensors[i]);
        measured_numbers without = measured_of(&plain, tensors[i]);
        assert_true(x.power > 0 && x.sensitivity > 0);
        if (!(fabs(x.power / without.power - 1) < 1e-6 && x.error > 1.001 * without.error))
            fail_msg("%s: error of %g, %g without importance", tensors[i], x.error, without.error);
    }
    assert_true(measured_of(&g, "blk.2.nextn.shared_head_head").sensitivity > 0);
    double block = measured_of(&g, "blk.2.attn_output").sensitivity,
           layer = measured_of(&g, "blk.1.attn_output").sensitivity;
    if (!(fabs(block / layer - 1) > .1))
        fail_msg("sensitivity of %g in the block, %g before it", block, layer);
    model_close(&g), model_close(&plain);
}

TEST(blocks_are_calibrated_and_accepted) {
    GQUANT(0, "-q", "--calibrate-ids", path("ids"), "--context", "32", "--report", path("run.json"),
           path("model.gguf"), path("fitted.gguf"), "Q4_0");
    GQUANT(0, "-q", path("model.gguf"), path("plain.gguf"), "Q4_0");
    json *j = json_file(path("run.json"));
    const json *t = json_named(json_need(&json_need(j, "outputs")->items[0], "tensors"), "name",
                               "blk.2.nextn.eh_proj.weight");
    assert_true(json_yes(t, "calibrated"));
    assert_true(json_number(t, "output_error", 1) < json_number(t, "plain_output_error", 0));
    json_free(j);
    json *with = evaluate("fitted.gguf", "none");
    const json *models = json_need(json_need(with, "evaluation"), "models");
    double original = acceptance_of(models, "model.gguf"), copy = acceptance_of(models, "fitted.gguf");
    assert_true(original >= 0 && original <= 1 && copy >= 0 && copy <= 1);
    json_free(with);
}

TEST(acceptance_is_kept_with_scores) {
    json *a = evaluate("plain.gguf", path("scores")), *b = evaluate("plain.gguf", path("scores"));
    const json *x = json_need(json_need(a, "evaluation"), "models"),
               *y = json_need(json_need(b, "evaluation"), "models");
    assert_true(acceptance_of(x, "plain.gguf") >= 0);
    assert_true(acceptance_of(x, "plain.gguf") == acceptance_of(y, "plain.gguf"));
    assert_true(acceptance_of(x, "model.gguf") == acceptance_of(y, "model.gguf"));
    json_free(a), json_free(b);
}

/* ---- files ---- */

TEST(blocks_can_be_left_out) {
    GQUANT(0, "-q", "--no-mtp", path("model.gguf"), path("without.gguf"), "Q8_0");
    char *text = PRINTED("info", "--json", path("without.gguf"));
    json *j = json_parse(text);
    const json *pairs = json_need(j, "metadata");
    assert_null(json_named(pairs, "key", "glm4moe.nextn_predict_layers"));
    assert_true(json_number(json_named(pairs, "key", "glm4moe.block_count"), "value", 0) == 2);
    assert_null(strstr(text, "blk.2."));
    json_free(j), free(text);
    j = evaluate("without.gguf", "none");
    const json *models = json_need(json_need(j, "evaluation"), "models");
    assert_true(acceptance_of(models, "without.gguf") == -1 && acceptance_of(models, "model.gguf") >= 0);
    json_free(j);
}

static void number_is(const char *file, const char *key, double expected) {
    char *text = PRINTED("info", "--json", path(file));
    json *j = json_parse(text);
    assert_true(json_number(json_named(json_need(j, "metadata"), "key", key), "value", -1) == expected);
    json_free(j), free(text);
}

/* A file whose metadata speak of a block that it does not have gets metadata without it. */
TEST(absent_blocks_can_be_left_out) {
    GQUANT(0, "-q", "--no-mtp", path("model.gguf"), path("two.gguf"), "COPY");
    GQUANT(0, "-q", "--allow-missing", "blk.2.", path("two.gguf"), path("lacking.gguf"), "COPY",
           "--override-kv", "glm4moe.block_count=int:3", "--override-kv",
           "glm4moe.nextn_predict_layers=int:1");
    number_is("lacking.gguf", "glm4moe.block_count", 3);
    GQUANT_SAYS(1, "blk.2.", path("lacking.gguf"), path("left.gguf"), "Q8_0");
    char *said =
        gquant(0, (const char *const[]){"--no-mtp", path("lacking.gguf"), path("left.gguf"), "Q8_0", NULL});
    assert_null(strstr(said, "blk.2.")), assert_null(strstr(said, "no layer"));
    free(said);
    number_is("left.gguf", "glm4moe.block_count", 2);
    number_is("left.gguf", "glm4moe.nextn_predict_layers", -1);
    GQUANT(0, "-q", "evaluate", path("left.gguf"), WHERE);
    GQUANT(0, "-q", "--no-mtp", "--prune-layers", "1,2", "--force", path("lacking.gguf"), path("left.gguf"),
           "Q8_0");
    number_is("left.gguf", "glm4moe.block_count", 1);
}

TEST(blocks_can_be_written_alone) {
    GQUANT(0, "-q", "--mtp-only", path("model.gguf"), path("draft.gguf"), "Q8_0");
    char *text = PRINTED("info", "--json", path("draft.gguf"));
    says(text, "blk.2.nextn.eh_proj.weight"), says(text, "output_norm.weight"),
        says(text, "token_embd.weight");
    assert_null(strstr(text, "blk.0.")), assert_null(strstr(text, "blk.1."));
    json *j = json_parse(text);
    assert_true(json_number(json_named(json_need(j, "metadata"), "key", "glm4moe.block_count"), "value", 0) ==
                3);
    json_free(j), free(text);
    /* numbers of the layers that it lacks are not compared with its own */
    GQUANT(0, "-q", "verify", path("draft.gguf"));
    GQUANT(0, "-q", "--allow-requantize", path("draft.gguf"), path("again.gguf"), "Q4_0");
    /* a block whose feed-forward sublayer no layer has any more */
    for (int i = 0; i < 2; i++) {
        GQUANT(0, "-q", "--force", "--prune-layers", i ? "1" : "0", path("model.gguf"), path("other.gguf"),
               "Q8_0");
        GQUANT(0, "-q", "verify", path("other.gguf"));
    }
    GQUANT(2, "--mtp-only", "--no-mtp", path("model.gguf"), path("x.gguf"), "Q8_0");
    GQUANT(2, "--mtp-only", path("without.gguf"), path("x.gguf"), "Q8_0");
}

/* A block that has all streams of the state ends with what makes one of them; of its matrix for streams, which several
 * inputs of a token flow into, there are data as well. */
TEST(blocks_with_streams_are_run) {
    GQUANT(0, "-q", "--mtp-only", path("streams.gguf"), path("streams-draft.gguf"), "Q8_0");
    char *text = PRINTED("info", "--json", path("streams-draft.gguf"));
    says(text, "blk.4.nextn.eh_proj.weight"), says(text, "output_hc_fn.weight");
    assert_null(strstr(text, "blk.3."));
    free(text);
    GQUANT(0, "-q", "imatrix", "compute", "--tokens", "512", path("streams.gguf"), WHERE, "-o",
           path("streams-imatrix.gguf"));
    text = PRINTED("imatrix", "show", "--json", path("streams-imatrix.gguf"), path("streams.gguf"));
    json *j = json_parse(text);
    const json *weights = json_need(j, "weights");
    assert_true(json_yes(json_named(weights, "name", "blk.4.nextn.eh_proj.weight"), "has_entry"));
    assert_true(json_yes(json_named(weights, "name", "blk.4.hc_ffn_fn.weight"), "has_entry"));
    json_free(j), free(text);
    text = PRINTED("evaluate", "--tokens", "512", path("streams.gguf"), WHERE);
    says(text, "accepted");
    free(text);
}

/* ---- blocks that are not run ---- */

TEST(unknown_blocks_are_told_in_one_line) {
    const char *told = "MTP layers of architecture 'exaone4' are not supported and left out of model runs";
    GQUANT_SAYS(0, told, "evaluate", path("unknown.gguf"), WHERE);
    GQUANT_SAYS(0, told, "imatrix", "compute", path("unknown.gguf"), WHERE, "-o",
                path("unknown-imatrix.gguf"));
    GQUANT_SAYS(0, told, "--calibrate-ids", path("ids"), "--context", "32", path("unknown.gguf"),
                path("unknown-q.gguf"), "Q4_0");
}

TEST(blocks_may_have_their_own_heads) {
    for (size_t i = 0; draft_model_at(i); i++) {
        write_model("any.gguf", draft_model_at(i));
        bool is_other =
            !strcmp(draft_model_at(i)->name, "step35-two") || !strcmp(draft_model_at(i)->name, "mimo2");
        GQUANT_SAYS(0, is_other ? "has another shape than in the layers before it" : "", "--dry-run",
                    path("any.gguf"), path("any-q.gguf"), "Q8_0");
    }
}

int main(void) { return tests_run(make_files, folder_remove); }
