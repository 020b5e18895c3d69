/* Tensors copied from an earlier output: the new one is what it would be without, whatever that file holds.
 */
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"
#include "tests/support/tiny_folder.h"

#include <zlib.h>

#include "quantize/plan/plan.h"

static const char *const wider[] = {"ffn_down=Q5_K"};

static gq_options options_of(const char *in, const gq_output *outputs, size_t n) {
    return (gq_options){
        .size = sizeof(gq_options), .input = path(in), .outputs = outputs, .n_outputs = n, .force = true};
}

/* A llama of one block; `other`: its attn_v has other weights. */
static void write_model(const char *to, bool other) {
    model *m = model_llama(1);
    float *x = random_values(256 * 64, 99);
    if (other) model_add(m, "blk.0.attn_x.weight", GGUF_F16, (uint64_t[4]){256, 64}, x);
    free(x);
    x = random_values(256 * 64, other ? 3 : 4);
    model_add(m, "blk.0.attn_y.weight", GGUF_F16, (uint64_t[4]){256, 64}, x);
    model_set_string(m, "tokenizer.chat_template", other ? "mended" : "broken");
    free(x);
    model_save(m, path(to));
}

FIXTURE(set_up) {
    folder = temporary_folder();
    write_model("in.gguf", false);
    write_model("mended.gguf", true);
    quantize(path("in.gguf"), path("old.gguf"), "Q4_K_M", 2);
    write_importance(path("i.dat"), 1);
    return 0;
}

/* Runs without and with the earlier output: the first output's files are the same. Returns how many of its
 * tensors were quantized anew. */
static uint64_t made_anew(gq_options o, const char *old) {
    const char *const paths[] = {path(old)};
    gq_output fresh = o.outputs[0];
    const gq_output *asked = o.outputs;
    size_t all = o.n_outputs, n;
    uint64_t bytes, most_bytes = 0, changed = 0;
    fresh.path = path("fresh.gguf");
    o.outputs = &fresh, o.n_outputs = 1;
    gq_results_free(run_plan(&o));
    o.outputs = asked, o.n_outputs = all, o.reuse = (gq_list){paths, 1};
    gq_plan *plan = must_plan(&o);
    gq_results *results = must_run(plan);
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++) changed += t[i].to != t[i].from;
    uint64_t most = gq_plan_reusable(plan, 0, &most_bytes), count = gq_results_reused(results, 0, &bytes);
    assert_true(count <= most && bytes <= most_bytes && (count > 0) == (bytes > 0));
    gq_results_free(results), gq_plan_free(plan);
    assert_same_file(fresh.path, asked[0].path);
    return changed - count;
}

TEST(what_is_the_same_is_copied) {
    gq_output out[] = {{.path = path("new.gguf"), .filetype = "Q4_K_M"},
                       {.path = path("other.gguf"), .filetype = "Q5_K_M"}};
    gq_options o = options_of("in.gguf", out, 1);
    assert_int_equal(made_anew(o, "old.gguf"), 0);
    o.n_outputs = 2;
    o.tensor_types = (gq_list){wider, 1};
    assert_int_equal(made_anew(o, "old.gguf"), 1);
    quantize(path("in.gguf"), path("single.gguf"), "Q5_K_M", 1);
    o.outputs = &out[1], o.n_outputs = 1, o.tensor_types.n = 0;
    assert_true(made_anew(o, "old.gguf") < 10); /* Q6_K is in both */
    assert_same_file(path("single.gguf"), out[1].path);
}

/* A mended template and another matrix: all others stay. */
TEST(other_sources_are_made_anew) {
    gq_output out = {.path = path("new.gguf"), .filetype = "Q4_K_M"};
    gq_options o = options_of("mended.gguf", &out, 1);
    assert_int_equal(made_anew(o, "old.gguf"), 2);
}

TEST(other_settings_are_made_anew) {
    gq_output out = {.path = path("new.gguf"), .filetype = "Q4_K_M"};
    gq_options o = options_of("in.gguf", &out, 1);
    o.effort = GQ_EFFORT_FAST;
    uint64_t all = made_anew(o, "old.gguf");
    assert_true(all > 5);
    o.effort = GQ_EFFORT_DEFAULT, o.imatrix = path("i.dat");
    assert_int_equal(made_anew(o, "old.gguf"), 2); /* it has data of two */
    o.imatrix = NULL, o.no_digests = true;
    assert_int_equal(made_anew(o, "old.gguf"), 0);
    assert_int_equal(made_anew(o, "new.gguf"), all);
    const char *const none[] = {path("fresh.gguf")};
    o.reuse = (gq_list){none, 1};
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "no digests"));
    gq_plan_free(plan);
}

/* Changes a byte of a tensor, with `forged` also its checksum in the digests. */
static void damage(const char *to, const char *name, bool forged) {
    size_t size;
    uint8_t *bytes = read_whole(path("old.gguf"), &size);
    model_source m = open_model(path("old.gguf"));
    for (uint64_t k = 0; k < m.n_tensors; k++) {
        const model_tensor *t = m.tensors[k];
        if (strcmp(t->name, name)) continue;
        bytes[t->offset + t->size - 1] ^= 1;
        uint32_t crc = (uint32_t)crc32(0, bytes + t->offset, (unsigned)t->size);
        const uint8_t *digests = digests_find(&m);
        uint8_t *at = memmem(bytes, size, digests, m.n_tensors * sizeof(tensor_digest));
        assert_non_null(at);
        if (forged) memcpy(at + k * sizeof(tensor_digest) + 8, &crc, sizeof crc);
    }
    model_close(&m);
    write_whole(path(to), bytes, size);
    free(bytes);
}

TEST(damage_is_found) {
    gq_output out = {.path = path("new.gguf"), .filetype = "Q4_K_M"};
    gq_options o = options_of("in.gguf", &out, 1);
    damage("bad.gguf", "blk.0.attn_q.weight", false);
    assert_int_equal(made_anew(o, "bad.gguf"), 1);
    damage("bad.gguf", "blk.0.attn_q.weight", true); /* what the encoder would not make */
    assert_int_equal(made_anew(o, "bad.gguf"), 1);
    write_whole(path("bad.gguf"), "GGUF", 4);
    const char *const none[] = {path("bad.gguf")};
    o.reuse = (gq_list){none, 1};
    assert_non_null(strstr(failure(&o), "bad.gguf"));
}

/* An output may take the place of the file that it is made of, and be in shards as that was. */
TEST(files_of_any_kind) {
    GQUANT(0, "-q", "--split-max-size", "300K", path("in.gguf"), path("cut.gguf"), "Q4_K_M");
    gq_output out = {.path = path("old-2.gguf"), .filetype = "Q4_K_M"};
    gq_options o = options_of("in.gguf", &out, 1);
    assert_int_equal(made_anew(o, "cut-00002-of-00002.gguf"), 0);
    assert_int_equal(made_anew(o, "old-2.gguf"), 0);
    tiny_folder_write(path("hf"), 1, 0, 1);
    out.filetype = "Q8_0", o.input = path("hf");
    gq_results_free(run_plan(&o));
    assert_int_equal(made_anew(o, "old-2.gguf"), 0);
    /* Parts of a run, and a copy. */
    for (int k = 1; k <= 2; k++)
        GQUANT(0, "-q", "--reuse", path("old.gguf"), "--part", k == 1 ? "1/2" : "2/2", path("in.gguf"),
               path("parts.gguf"), "Q4_K_M");
    GQUANT(0, "-q", "--join", path("in.gguf"), path("parts.gguf"), "Q4_K_M");
    assert_same_file(path("parts.gguf"), path("old.gguf"));
    char *text = PRINTED("-q", path("old.gguf"), path("copy.gguf"), "COPY");
    free(text);
    assert_same_file(path("copy.gguf"), path("old.gguf"));
    text = NULL;
    assert_int_equal(run_command((const char *const[]){NULL, "--reuse", path("old.gguf"), path("in.gguf"),
                                                       path("told.gguf"), "Q4_K_M", NULL},
                                 &text, NULL),
                     0);
    says(text, "copied from earlier outputs: 10 of 13 tensors");
    free(text);
}

/* A target's types are tried before they are chosen; in the end nothing is quantized. */
TEST(a_target_of_copies_has_none) {
    GQUANT(0, "-q", "--no-digests", "--target-size", "1G", path("in.gguf"), path("all.gguf"));
    GQUANT(0, "-q", "--target-size", "1G", path("in.gguf"), path("all-2.gguf"));
    assert_same_file(path("all.gguf"), path("all-2.gguf"));
}

int main(void) { return tests_run(set_up, folder_remove); }
