/* Encoders on the command line: importance, calibration, a target and evaluation of a small random model. */
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"

FIXTURE(make_encoder) {
    folder = temporary_folder();
    variant v = *variant_named("bert");
    v.width = 64, v.ff = 256, v.kv = 4;
    v.extra_model = "token_types.weight=64x2";
    model_save(variant_model(&v, GGUF_F32, NULL), path("model.gguf"));
    FILE *f = fopen(path("ids"), "w");
    for (size_t i = 0; i < 2048; i++) fprintf(f, "%u\n", variant_id(i * 3 + i / 7));
    return fclose(f);
}

#define IDS "--ids", path("ids"), "--context", "16"

TEST(copies_are_compared_by_their_embeddings) {
    GQUANT_SAYS(0, "", "imatrix", "compute", IDS, path("model.gguf"), path("imat.gguf"));
    GQUANT_SAYS(0, "", "--imatrix", path("imat.gguf"), path("model.gguf"), path("imat-q4.gguf"), "Q4_0");
    GQUANT_SAYS(0, "", path("model.gguf"), path("q4.gguf"), "Q4_0");
    GQUANT_SAYS(0, "", path("model.gguf"), path("q8.gguf"), "Q8_0");
    GQUANT_SAYS(0, "", "--calibrate-ids", path("ids"), "--context", "16", path("model.gguf"),
                path("cal.gguf"), "Q4_0");
    char *out =
        PRINTED("evaluate", path("model.gguf"), path("q4.gguf"), path("cal.gguf"), path("q8.gguf"), IDS);
    says(out, "cosine distance"), says(out, "128 embeddings");
    assert_null(strstr(out, "perplexity")), assert_null(strstr(out, "nan"));
    char *ranking = strstr(out, "nearer to the base model");
    assert_non_null(ranking);
    char *q8 = strstr(ranking, "q8.gguf"), *cal = strstr(ranking, "cal.gguf"),
         *q4 = strstr(ranking, "q4.gguf");
    assert_true(q8 && cal && q4 && q8 < cal && cal < q4);
    free(out);
}

TEST(what_needs_logits_is_refused_by_name) {
    GQUANT_SAYS(2, "is an encoder", "evaluate", path("model.gguf"), IDS, "--logits", path("logits"));
    GQUANT_SAYS(2, "is an encoder", "evaluate", path("model.gguf"), IDS, "--stride", "4");
    GQUANT_SAYS(2, "has no output matrix", "imatrix", "compute", "--process-output", IDS, path("model.gguf"),
                path("none.gguf"));
}

TEST(a_pooling_that_no_key_tells_is_told) {
    model_save(variant_model(variant_named("bert"), GGUF_F32, "pooling_type"), path("untold.gguf"));
    GQUANT_SAYS(0, "untold.gguf has no key pooling_type", "evaluate", path("untold.gguf"),
                path("untold.gguf"), IDS);
    char *out = PRINTED("evaluate", path("model.gguf"), path("model.gguf"), IDS);
    assert_null(strstr(out, "has no key pooling_type"));
    free(out);
}

/* The copy's embedding has another width than the original's. */
TEST(embeddings_that_are_made_otherwise_are_refused) {
    static const char *const names[] = {"gemma-embedding-dense", "gemma-embedding"};
    for (size_t i = 0; i < 2; i++) {
        model_save(variant_model(variant_named(names[i]), GGUF_F32, NULL),
                   path(i ? "plain.gguf" : "dense.gguf"));
    }
    GQUANT_SAYS(1, "pools embeddings differently", "evaluate", path("dense.gguf"), path("plain.gguf"), IDS);
}

/* Of an encoder with a decoder each half of a window is one side's, and the second is scored. */
TEST(a_decoder_predicts_the_second_half) {
    variant v = *variant_named("t5");
    v.width = 64, v.ff = 256, v.head = 16, v.extra_model = "enc.output_norm.weight=64";
    model_save(variant_model(&v, GGUF_F32, NULL), path("t5.gguf"));
    GQUANT_SAYS(0, "", "imatrix", "compute", "-q", "--process-output", IDS, path("t5.gguf"),
                path("t5-imat.gguf"));
    char *shown = PRINTED("imatrix", "show", path("t5-imat.gguf"));
    says(shown, "39 entries"), says(shown, "enc.blk.2.ffn_down.weight");
    says(shown, "dec.blk.1.cross_attn_v.weight"), says(shown, "output.weight");
    free(shown);
    GQUANT_SAYS(0, "", "-q", path("t5.gguf"), path("t5-q4.gguf"), "Q4_0");
    GQUANT_SAYS(0, "", "-q", "--calibrate-ids", path("ids"), "--context", "16", path("t5.gguf"),
                path("t5-cal.gguf"), "Q4_0");
    char *out =
        PRINTED("evaluate", path("t5.gguf"), path("t5-q4.gguf"), path("t5-cal.gguf"), IDS, "--tokens", "512");
    says(out, "perplexity"), says(out, "224 of them scored");
    char *ranking = strstr(out, "nearer to the base model");
    assert_non_null(ranking);
    char *cal = strstr(ranking, "t5-cal.gguf"), *q4 = strstr(ranking, "t5-q4.gguf");
    assert_true(cal && q4 && cal < q4);
    free(out);
    GQUANT_SAYS(2, "has an encoder, which reads the first half", "evaluate", path("t5.gguf"), IDS, "--stride",
                "4");
    GQUANT_SAYS(2, "windows of one token", "imatrix", "compute", "--ids", path("ids"), "--context", "1",
                path("t5.gguf"), path("none.gguf"));
}

int main(void) { return tests_run(make_encoder, folder_remove); }
