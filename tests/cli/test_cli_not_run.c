/* Models of architectures that gquant does not run: what it says, and what works all the same. */
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/numbers.h"

enum { WIDTH = 256, TOKENS = 64 };

/* A model of any architecture with one layer, whose tensors are called as llama.cpp calls them. */
static void write_model(const char *arch, const char *to) {
    static const char *const names[] = {"token_embd.weight", "blk.0.attn_q.weight",
                                        "blk.0.time_mix_key.weight", "blk.0.ffn_down.weight"};
    static float values[WIDTH * TOKENS];
    model *m = model_new(arch, 1);
    seed_random(7);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fill_normal(values, WIDTH * TOKENS, 0.1F);
        model_add(m, names[i], GGUF_F32, (uint64_t[]){WIDTH, TOKENS, 1, 1}, values);
    }
    model_save(m, to);
}

static void write_number(FILE *f, int32_t n) { fwrite(&n, 4, 1, f); }

/* Importance data of these tensors but the embedding, in the layout of llama.cpp's .dat files. */
static void write_dat(const char *to) {
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.time_mix_key.weight",
                                        "blk.0.ffn_down.weight"};
    FILE *f = fopen(to, "wb");
    write_number(f, 3);
    for (size_t i = 0; i < 3; i++) {
        write_number(f, (int32_t)strlen(names[i])), fwrite(names[i], 1, strlen(names[i]), f);
        write_number(f, 2), write_number(f, WIDTH);
        for (size_t c = 0; c < WIDTH; c++) fwrite(&(float){1.0F + (float)(c % 7)}, 4, 1, f);
    }
    fclose(f);
}

static const struct {
    const char *arch, *says;
    bool predicts;
} archs[] = {{"qwen3tts", "cannot be run: it is a model whose tokens are sounds; it can be quantized", false},
             {"pockettts",
              "cannot be run: it is a model that makes sounds, without logits; it can be quantized", false},
             {"some-new-one", "architecture 'some-new-one' cannot be run; it can be quantized", true}};

TEST(what_can_be_done_is_said) {
    const char *in = path("in.gguf"), *out = path("out.gguf"), *ids = path("ids");
    FILE *f = fopen(ids, "w");
    for (int i = 0; i < 64; i++) fprintf(f, "%d\n", i);
    fclose(f);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        write_model(archs[i].arch, in);
        const char *const runs[][12] = {
            {"imatrix", "compute", in, "--ids", ids, "--context", "16", path("i.gguf")},
            {"evaluate", in, "--ids", ids, "--context", "16"},
            {"--calibrate-ids", ids, "--context", "16", in, out, "Q8_0"}};
        for (size_t k = 0; k < 3; k++) {
            char *said = gquant(1, runs[k]);
            says(said, archs[i].says);
            says(said, "an imatrix that another program computed for tensors of these names");
            assert_true(!strstr(said, "log-probabilities") == !archs[i].predicts);
            free(said);
            assert_false(exists(out));
        }
    }
}

TEST(they_are_quantized_with_importance_data) {
    const char *in = path("in.gguf"), *out = path("out.gguf"), *dat = path("one.dat"),
               *gguf = path("one.gguf");
    write_dat(dat);
    GQUANT(0, "-q", "imatrix", "convert", dat, gguf);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        write_model(archs[i].arch, in);
        GQUANT(0, "-q", "--force", in, out, "Q4_K_M");
        GQUANT_SAYS(1, "needs an imatrix", "--force", in, out, "IQ2_XS");
        GQUANT(0, "-q", "--force", "--imatrix", dat, in, out, "IQ2_XS");
        GQUANT(0, "-q", "--force", "--imatrix", gguf, in, path("again.gguf"), "IQ2_XS");
        model_source a = open_model(out), b = open_model(path("again.gguf"));
        uint64_t n, m;
        uint8_t *x = tensor_bytes(&a, "blk.0.time_mix_key.weight", &n),
                *y = tensor_bytes(&b, "blk.0.time_mix_key.weight", &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n);
        free(x), free(y), model_close(&a), model_close(&b);
    }
}

/* A file of log-probabilities: a window of 8 tokens, of 4 in a vocabulary; three rows. */
static void write_base(const char *to, uint16_t code) {
    const int32_t head[] = {8, 4, 1}, ids[8] = {0, 1, 2, 3, 0, 1, 2, 3};
    FILE *f = fopen(to, "wb");
    fwrite("_logits_", 1, 8, f), fwrite(head, 4, 3, f), fwrite(ids, 4, 8, f);
    for (size_t r = 0; r < 3; r++) {
        const float range[] = {1e-4F, -2}; /* scale, least */
        const uint16_t codes[] = {0, 5000, code, 10000};
        fwrite(range, 4, 2, f), fwrite(codes, 2, 4, f);
    }
    fclose(f);
}

TEST(log_probabilities_of_others_are_compared) {
    const char *a = path("a.base"), *b = path("b.base"), *c = path("c.base");
    write_base(a, 6000), write_base(b, 7000), write_base(c, 6000);
    char *table = PRINTED("evaluate", "--base", a, b, c),
         *text = PRINTED("evaluate", "--json", "--base", a, b, c);
    says(table, "b.base");
    json *j = json_parse(text);
    const json *evaluation = json_need(j, "evaluation"), *models = json_need(evaluation, "models");
    assert_int_equal(models->n, 3);
    /* p (log p - log q) of the one token that differs, by .1 in its logarithm -1.4 */
    assert_float_equal(json_number(&models->items[1], "divergence", 0), 0.24659696 * -0.1, 1e-6);
    assert_float_equal(json_number(&models->items[2], "divergence", 1), 0, 1e-7);
    assert_string_equal(json_text(evaluation, "architecture", "none"), "");
    json_free(j), free(table), free(text);
    GQUANT_SAYS(1, "none.base: cannot be", "evaluate", "--base", a, path("none.base"));
}

int main(void) { return tests_run(folder_make, folder_remove); }
