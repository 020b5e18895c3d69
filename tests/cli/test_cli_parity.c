/* The options that llama-quantize has, each by what it does to the plan or the file. */
#include "gguf/gguf.h"
#include "gguf/model.h"
#include "tests/support/one_model.h"

static void assert_type(const json *plan, const char *name, const char *type) {
    if (strcmp(report_type(plan, name), type) != 0)
        fail_msg("%s: %s, expected %s", name, report_type(plan, name), type);
}

static size_t count_type(const json *plan, const char *type) {
    const json *tensors = json_need(&json_need(plan, "outputs")->items[0], "tensors");
    size_t n = 0;
    for (size_t i = 0; i < tensors->n; i++) n += strcmp(json_text(&tensors->items[i], "to", ""), type) == 0;
    return n;
}

TEST(test_mix_and_pure) {
    json *mix = PLAN(folder, source, "Q4_K_M"), *pure = PLAN(folder, "--pure", source, "Q4_K_M");
    assert_type(mix, "output.weight", "Q6_K");
    assert_type(mix, "output_norm.weight", "F32");
    assert_true(count_type(mix, "Q6_K") > 1);
    assert_type(pure, "output.weight", "Q4_K");
    assert_type(pure, "output_norm.weight", "F32");
    assert_int_equal(count_type(pure, "Q6_K"), 0);
    json_free(mix), json_free(pure);
}

TEST(test_output_and_embedding) {
    json *p = PLAN(folder, "--leave-output-tensor", "--token-embedding-type", "q8_0", source, "Q4_K_S");
    assert_type(p, "output.weight", "F16");
    assert_type(p, "token_embd.weight", "Q8_0");
    json_free(p);
    p = PLAN(folder, source, "--output-tensor-type", "Q5_K", "Q4_K_S");
    assert_type(p, "output.weight", "Q5_K");
    json_free(p);
    GQUANT_SAYS(2, "'Q5_Z' is not a tensor type, did you mean Q5_", source, "--output-tensor-type", "Q5_Z",
                "Q4_K_S");
}

TEST(test_tensor_type) {
    json *p = PLAN(folder, "--tensor-type", "blk\\.0\\.FFN_(up|down)=q8_0", "--tensor-type", "ffn_up=Q5_K",
                   source, "Q4_K_S");
    assert_type(p, "blk.0.ffn_up.weight",
                "Q8_0"); /* the first match wins; the pattern's case does not matter */
    assert_type(p, "blk.1.ffn_up.weight", "Q5_K");
    assert_type(p, "blk.1.ffn_gate.weight", "Q4_K");
    json_free(p);
    write_whole(in_folder(folder, "recipe"), "# mine\nattn_v=Q8_0 ffn_gate=q6_k\n", 32);
    p = PLAN(folder, "--tensor-type-file", in_folder(folder, "recipe"), source, "Q4_K_S");
    assert_type(p, "blk.1.attn_v.weight", "Q8_0");
    assert_type(p, "blk.1.ffn_gate.weight", "Q6_K");
    json_free(p);
    unlink(in_folder(folder, "recipe"));
    GQUANT_SAYS(2, "ffn[", "-n", "--tensor-type", "ffn[=Q8_0", source, "Q4_K_S");
    GQUANT_SAYS(2, "Q7_K", "-n", "--tensor-type", "ffn=Q7_K", source, "Q4_K_S");
}

TEST(test_keep) {
    json *p = PLAN(folder, "--keep", "attn_v", "--keep", "^blk\\.1\\.ffn", source, "Q4_K_S");
    assert_type(p, "blk.0.attn_v.weight", "F16");
    assert_type(p, "blk.1.ffn_up.weight", "F16");
    assert_type(p, "blk.0.ffn_up.weight", "Q4_K");
    json_free(p);
}

TEST(test_importance_filters) {
    json *p = PLAN(folder, "--imatrix", matrix, "--exclude-weights", "ffn", source, "Q4_K_S");
    assert_string_equal(json_text(report_tensor(p, "blk.1.ffn_up.weight"), "importance", ""), "missing");
    assert_string_equal(json_text(report_tensor(p, "blk.1.attn_q.weight"), "importance", ""), "full");
    json_free(p);
    p = PLAN(folder, "--imatrix", matrix, "--include-weights", "ffn_up", source, "Q4_K_S");
    assert_string_equal(json_text(report_tensor(p, "blk.1.ffn_up.weight"), "importance", ""), "full");
    assert_string_equal(json_text(report_tensor(p, "blk.1.attn_q.weight"), "importance", ""), "missing");
    json_free(p);
    GQUANT_SAYS(2, "include", "-n", "--imatrix", matrix, "--include-weights", "a", "--exclude-weights", "b",
                source, "Q4_K_S");
}

/* ---- metadata ---- */

static bool metadata_holds(const char *path, const char *key, const char *text) {
    model_source m;
    gq_error e;
    if (!gguf_model_open(&m, path, &e)) fail_msg("%s", e.text);
    const model_kv *kv = model_kv_find(m.kv, m.n_kv, key);
    const char *value;
    uint64_t length;
    int64_t number;
    bool found = false;
    char digits[32];
    if (kv && model_kv_string(kv, &value, &length))
        found = length == strlen(text) && !memcmp(value, text, length);
    if (kv && model_kv_int(kv, &number))
        snprintf(digits, sizeof digits, "%lld", (long long)number), found = !strcmp(digits, text);
    model_close(&m);
    return found;
}

TEST(test_override_kv) {
    const char *out = in_folder(folder, "out.gguf");
    GQUANT(0, "-q", "--override-kv", "general.name=str:a=b:c", "--override-kv",
           "llama.context_length=int:4096", source, out, "Q8_0");
    assert_true(metadata_holds(out, "general.name", "a=b:c"));
    assert_true(metadata_holds(out, "llama.context_length", "4096"));
    assert_true(metadata_holds(out, "general.file_type", "7"));
    unlink(out);
    GQUANT(2, "--override-kv", "general.name", source, out, "Q8_0");
    GQUANT(2, "--override-kv", "general.name=text:x", source, out, "Q8_0");
}

TEST(test_imatrix_path) {
    const char *out = in_folder(folder, "out.gguf");
    GQUANT(0, "-q", "--imatrix", matrix, source, out, "Q8_0");
    assert_true(metadata_holds(out, "quantize.imatrix.file", "imatrix.dat"));
    GQUANT(0, "-q", "--force", "--imatrix-path", "--imatrix", matrix, source, out, "Q8_0");
    assert_true(metadata_holds(out, "quantize.imatrix.file", matrix));
    unlink(out);
}

TEST(test_prune_layers) {
    const char *out = in_folder(folder, "out.gguf");
    json *whole = PLAN(folder, source, "Q8_0");
    int layers = 0;
    for (char name[64];
         snprintf(name, sizeof name, "blk.%d.attn_q.weight", layers), report_tensor(whole, name); layers++) {
    }
    json_free(whole);
    assert_true(layers > 2);
    GQUANT(0, "-q", "--prune-layers", "1", source, out, "Q8_0");
    char count[16];
    snprintf(count, sizeof count, "%d", layers - 1);
    assert_true(metadata_holds(out, "llama.block_count", count));
    json *p = PLAN(folder, "--force", "--prune-layers", "1", source, out, "Q8_0");
    assert_string_equal(json_text(report_tensor(p, "blk.1.attn_q.weight"), "source_name", ""),
                        "blk.2.attn_q.weight");
    json_free(p);
    unlink(out);
}

/* ---- already quantized, copied, split ---- */

TEST(test_requantize) {
    const char *eight = in_folder(folder, "eight.gguf"), *out = in_folder(folder, "out.gguf");
    GQUANT(0, "-q", source, eight, "Q8_0");
    GQUANT_SAYS(1, "--allow-requantize", eight, out, "Q4_K_M");
    assert_false(exists(out));
    GQUANT(0, "-q", "--allow-requantize", eight, out, "Q4_K_M");
    unlink(eight), unlink(out);
}

TEST(test_copy) {
    const char *out = in_folder(folder, "out.gguf"), *again = in_folder(folder, "again.gguf");
    GQUANT(0, "-q", source, out, "COPY");
    json *p = PLAN(folder, "--force", source, out, "COPY");
    const json *tensors = json_need(&json_need(p, "outputs")->items[0], "tensors");
    for (size_t i = 0; i < tensors->n; i++)
        assert_string_equal(json_text(&tensors->items[i], "from", "a"),
                            json_text(&tensors->items[i], "to", "b"));
    json_free(p);
    GQUANT(0, "-q", out, again, "copy"); /* a copy's copy is itself */
    assert_same_file(out, again);
    unlink(out), unlink(again);
}

TEST(test_split) {
    GQUANT(0, "-q", "--split-max-size", "2M", source, in_folder(folder, "part.gguf"), "Q8_0");
    const char *first = NULL;
    char name[64];
    for (int n = 2; n < 20 && !first; n++) {
        snprintf(name, sizeof name, "part-00001-of-%05d.gguf", n);
        if (exists(in_folder(folder, name))) first = in_folder(folder, name);
    }
    assert_non_null(first);
    /* Joined again, the shards are the unsplit output. */
    GQUANT(0, "-q", first, in_folder(folder, "joined.gguf"), "COPY");
    GQUANT(0, "-q", source, in_folder(folder, "whole.gguf"), "Q8_0");
    assert_same_file(in_folder(folder, "joined.gguf"), in_folder(folder, "whole.gguf"));
    GQUANT(0, "-q", "--keep-split", first, in_folder(folder, "kept.gguf"), "COPY");
    snprintf(name, sizeof name, "kept%s", strstr(first, "-00001"));
    assert_true(exists(in_folder(folder, name)));
    assert_same_file(in_folder(folder, name), first);
}

/* What would be silent elsewhere: slips that change nothing, and a type left out. */
TEST(test_slips) {
    const char *out = in_folder(folder, "out.gguf");
    GQUANT_SAYS(0, "for types: no tensor matches, or earlier patterns take all that do: 'attn_z=q8_0'", "-n",
                "--tensor-type", "attn_k=q8_0,attn_z=q8_0", source, out, "Q4_K_M");
    GQUANT_SAYS(0, "for types: all matching tensors are kept unchanged", "-n", "--tensor-type",
                "attn_norm=q8_0", source, out, "Q4_K_M");
    GQUANT_SAYS(0, "kept unchanged", "-n", "--tensor-type", "attn_k=q8_0", source, out, "F32");
    GQUANT_SAYS(0, "output.weight=q8_0'", "-n", "--output-tensor-type", "Q6_K", "--tensor-type",
                "^output.weight=q8_0", source, out, "Q4_K_M");
    char *err = gquant(0, (const char *const[]){"-n", "--tensor-type", "attn_k=q8_0,norm|ffn_up=q6_K", source,
                                                out, "Q4_K_M", NULL});
    assert_null(strstr(err, "for types"));
    free(err);
    GQUANT_SAYS(0, "to keep unchanged: no tensor matches", "-n", "--keep", "attn_z", source, out, "Q4_K_M");
    GQUANT_SAYS(2, "error: attn_k=iq4_ks: 'iq4_ks' is not a tensor type, did you mean IQ4_XS?",
                "--tensor-type", "attn_k=iq4_ks", source, out, "Q4_K_M");
    GQUANT_SAYS(2, "no file type after", source, out);
    GQUANT(0, "-q", source, out, "Q8_0");
    GQUANT(0, "-q", "-n", source, out, "Q4_K_M"); /* in nobody's way */
    GQUANT_SAYS(1, "already exists", source, out, "Q4_K_M");
    unlink(out);
}

TEST(test_many_fallbacks) {
    const char *odd = in_folder(folder, "odd.gguf"), *out = in_folder(folder, "out.gguf");
    model *m = model_new("tiny", 1);
    for (int i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "a%d.weight", i);
        model_add(m, name, GGUF_F32, (uint64_t[4]){96, 8}, NULL);
    }
    model_save(m, odd);
    char *err = gquant(0, (const char *const[]){"-v", odd, out, "Q4_K_M", NULL});
    assert_non_null(strstr(err, "and 19 more such warnings"));
    assert_non_null(strstr(err, "Q5_0 instead of Q4_K, +96 bytes"));
    assert_null(strstr(err, "a29.weight: "));
    free(err);
    unlink(odd), unlink(out);
}

TEST(test_fallback) {
    model *m = model_new("tiny", 1);
    model_add(m, "a.weight", GGUF_F32, (uint64_t[4]){96, 8}, NULL);
    model_add(m, "b.weight", GGUF_F32, (uint64_t[4]){256, 8}, NULL);
    model_add(m, "c.weight", GGUF_F32, (uint64_t[4]){5, 3}, NULL);
    const char *odd = in_folder(folder, "odd.gguf"), *out = in_folder(folder, "out.gguf");
    model_save(m, odd);
    json *p = PLAN(folder, odd, out, "Q4_K_M");
    assert_type(p, "a.weight", "Q5_0");
    assert_type(p, "b.weight", "Q4_K");
    assert_type(p, "c.weight", "F16");
    assert_string_equal(json_text(report_tensor(p, "a.weight"), "wanted", ""), "Q4_K");
    assert_true(json_number(&json_need(p, "outputs")->items[0], "fallbacks", 0) == 2);
    json_free(p);
    GQUANT_SAYS(0, "a.weight: Q5_0 instead of Q4_K", "-v", odd, out, "Q4_K_M");
    char *err = gquant(0, (const char *const[]){"--force", odd, out, "Q4_K_M", NULL});
    const char *said = strstr(err, "warning: Q4_K_M: 2 tensors have rows that do not fit");
    assert_non_null(said);
    assert_null(strstr(said + 1, "warning: ")); /* it is said once */
    free(err);
    unlink(out);
    GQUANT_SAYS(1, "strict", "--strict", odd, out, "Q4_K_M");
    assert_false(exists(out));
    unlink(odd);
}

int main(void) { return tests_run(set_up, tear_down); }
