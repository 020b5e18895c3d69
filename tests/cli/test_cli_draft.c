/* The command on a draft's folder: its vocabulary is in the folder of the model that it drafts for. That tensors and
 * metadata are right is for tests/hf/hf_convert. */
#include <sys/stat.h>

#include "tests/support/command.h"
#include "tests/support/draft_models.h"
#include "tests/support/folder.h"
#include "tests/support/safetensors.h"
#include "tests/support/tiny_folder.h"

enum { WIDTH = 256, HEAD = 64 };

static const char CONFIG[] =
    "{\"architectures\":[\"DFlashDraftModel\"],\"num_hidden_layers\":1,\"hidden_size\":256,"
    "\"intermediate_size\":256,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"head_dim\":64,"
    "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5,\"vocab_size\":8,\"block_size\":4,"
    "\"dflash_config\":{\"mask_token_id\":7,\"target_layer_ids\":[0]}}";

static void add_vector(safetensors *s, const char *name, size_t n) {
    char shape[32];
    snprintf(shape, sizeof shape, "[%zu]", n);
    safetensors_add_weights(s, name, shape, n);
}

static int folders_make(void **state) {
    static const char *const matrices[] = {
        "layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight",
        "layers.0.self_attn.v_proj.weight", "layers.0.self_attn.o_proj.weight",
        "layers.0.mlp.gate_proj.weight",    "layers.0.mlp.up_proj.weight",
        "layers.0.mlp.down_proj.weight",    "fc.weight"};
    folder_make(state);
    tiny_folder_write(path("Tiny-Model"), 1, 0, 1);
    assert_int_equal(mkdir(path("Tiny-Draft"), 0777), 0);
    safetensors s = {.n = 0};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        safetensors_add_weights(&s, matrices[i], "[256,256]", (size_t)WIDTH * WIDTH);
    add_vector(&s, "norm.weight", WIDTH), add_vector(&s, "hidden_norm.weight", WIDTH);
    add_vector(&s, "layers.0.input_layernorm.weight", WIDTH);
    add_vector(&s, "layers.0.post_attention_layernorm.weight", WIDTH);
    add_vector(&s, "layers.0.self_attn.q_norm.weight", HEAD);
    add_vector(&s, "layers.0.self_attn.k_norm.weight", HEAD);
    safetensors_write(&s, path("Tiny-Draft/model.safetensors"));
    safetensors_empty(&s);
    write_whole(path("Tiny-Draft/config.json"), CONFIG, strlen(CONFIG));
    return 0;
}

TEST(its_target_is_named) {
    const char *draft = path("Tiny-Draft"), *target = path("Tiny-Model");
    GQUANT_SAYS(1, "expected the target model's folder as well; --target-model FOLDER names it", draft,
                "Q4_K_M");
    GQUANT_SAYS(1, "--target-model FOLDER names it", "info", draft);
    GQUANT_SAYS(1, "--target-model FOLDER names it", "plan", draft);
    GQUANT_SAYS(1, path("none"), "--target-model", path("none"), draft, "Q4_K_M");
    GQUANT_SAYS(0, "missing tensor output.weight, token_embd.weight: programs do without", "--target-model",
                target, draft, "Q4_K_M");
    assert_true(exists(path("Tiny-Draft-Q4_K_M.gguf")));
    GQUANT(0, "-q", "plan", "--target-model", target, draft);
    char *info = PRINTED("info", "-q", "--target-model", target, draft);
    says(info, "from fc.weight");
    says(info, "tokenizer.ggml.mask_token_id");
    free(info);
}

/* What is made of the folder is what is made of the file that it becomes. */
TEST(the_same_as_from_its_file) {
    const char *draft = path("Tiny-Draft"), *target = path("Tiny-Model");
    size_t n, m;
    GQUANT(0, "-q", "--target-model", target, draft, path("file.gguf"), "BF16");
    GQUANT(0, "-q", "--target-model", target, draft, path("a.gguf"), "Q4_K_M");
    GQUANT(0, path("file.gguf"), path("b.gguf"), "Q4_K_M");
    uint8_t *a = read_whole(path("a.gguf"), &n), *b = read_whole(path("b.gguf"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a), free(b);
    GQUANT(0, "-q", "publish", "--target-model", target, draft, "--out-dir", path("Published"), "Q8_0");
    assert_true(exists(path("Published/Tiny-Draft-Q8_0.gguf")));
}

TEST(a_target_of_no_use_is_refused) {
    const char *target = path("Tiny-Model"), *out = path("none.gguf");
    GQUANT_SAYS(2, "remove the target", "--target-model", target, target, out, "Q8_0");
    GQUANT(0, "--force", path("Tiny-Model"), path("whole.gguf"), "BF16");
    GQUANT_SAYS(2, "is a GGUF file, which needs no target", "--target-model", target, path("whole.gguf"), out,
                "Q8_0");
    GQUANT_SAYS(2, "remove the target", "info", "--target-model", target, target);
    GQUANT_SAYS(1, "is a draft model itself", "--target-model", path("Tiny-Draft"), path("Tiny-Draft"), out,
                "Q8_0");
    assert_false(exists(out));
}

TEST(files_of_the_target_are_inputs) {
    const char *draft = path("Tiny-Draft"), *target = path("Tiny-Model"), *out = path("none.gguf"),
               *config = path("Tiny-Model/config.json");
    size_t n, m;
    uint8_t *before = read_whole(config, &n);
    GQUANT_SAYS(1, "is one of the inputs", "--force", "--target-model", target, draft, config, "Q8_0");
    GQUANT_SAYS(2, "is one of the inputs", "--target-model", target, draft, out, "Q8_0", "--report", config);
    uint8_t *behind = read_whole(config, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, behind, n);
    assert_false(exists(out));
    free(before), free(behind);
}

/* A draft's tokens are its target's, so an adapter's cannot take their place. */
TEST(an_adapter_brings_no_vocabulary) {
    const char *draft = path("Tiny-Draft"), *target = path("Tiny-Model"), *adapter = path("Tiny-Adapter"),
               *out = path("adapted.gguf");
    tiny_adapter_write(adapter, false);
    GQUANT(0, "-q", "--target-model", target, draft, "--lora", adapter, out, "Q8_0");
    tiny_folder_text(adapter, "tokenizer.json", TINY_TOKENIZER);
    GQUANT_SAYS(1, "Tiny-Adapter has its own vocabulary, but", "--force", "--target-model", target, draft,
                "--lora", adapter, out, "Q8_0");
}

/* It continues another model's states. */
TEST(it_is_not_run) {
    const char *draft = path("Tiny-Draft"), *target = path("Tiny-Model"), *out = path("none.gguf");
    GQUANT_SAYS(1, "it is a draft model, which reads another model's hidden states; it can be quantized",
                "--target-model", target, "--calibrate", "@random", draft, out, "Q4_K_M");
    assert_false(exists(out));
}

/* ---- evaluation ---- */

static void write_ids(void) {
    FILE *f = fopen(path("ids"), "w");
    for (size_t i = 0; i < 640; i++) fprintf(f, "%zu ", 1 + i * i * 31 % 7 % 6);
    fclose(f);
}

/* The report's part about a draft, of the original. NULL: there is none. */
static char *drafted_of(const char *report) {
    size_t n;
    char *text = (char *)read_whole(path(report), &n), *from;
    text = realloc(text, n + 1), text[n] = 0;
    from = strstr(text, "\"drafted\"");
    char *found = from ? strdup(from) : NULL;
    if (found) found[strcspn(found, "}")] = 0;
    free(text);
    return found;
}

#define EVALUATE(model_path, report, ...) \
    GQUANT(0, "-q", "evaluate", "--force", model_path, "--ids", path("ids"), "--context", "32", "--report", \
           path(report), __VA_ARGS__)

/* A draft's folder has the vocabulary of the model, or of a folder that is named. */
TEST(a_folder_drafts_as_its_file) {
    const char *draft = path("Tiny-Draft"), *target = path("Tiny-Model"), *whole = path("whole.gguf");
    write_ids();
    GQUANT(0, "-q", "--force", "--target-model", target, draft, path("file.gguf"), "BF16");
    GQUANT(0, "-q", "--force", target, whole, "BF16");
    EVALUATE(target, "a.json", "--draft", draft);
    EVALUATE(whole, "b.json", "--draft", path("file.gguf"));
    EVALUATE(whole, "c.json", "--draft", draft, "--target-model", target);
    char *a = drafted_of("a.json"), *b = drafted_of("b.json"), *c = drafted_of("c.json");
    assert_true(a && b && c);
    assert_string_equal(a, b), assert_string_equal(a, c);
    free(a), free(b), free(c);
    GQUANT_SAYS(1, "--target-model FOLDER names it", "evaluate", whole, "--ids", path("ids"), "--draft",
                draft);
    GQUANT_SAYS(2, "needs no target", "evaluate", whole, "--ids", path("ids"), "--target-model", target);
}

static void write_model(const char *name, model *m) { model_save(m, path(name)); }

/* No file is made for a draft that cannot draft. */
TEST(others_are_not_published) {
    static const char *const why[][2] = {{"shared.gguf", "target_hidden_size is 32, but"},
                                         {"assistant.gguf", "embedding_length_out is 32, but"},
                                         {"bert.gguf", "do not predict the next token"},
                                         {"target.gguf", "target.gguf has a vocabulary of 96 tokens, and"},
                                         {"sees.gguf", "its vocabulary is not that of"}};
    write_model("shared.gguf", target_draft_new("shared"));
    write_model("assistant.gguf", target_draft_new("assistant"));
    write_model("bert.gguf", variant_model(variant_named("bert"), GGUF_F32, NULL));
    write_model("target.gguf", target_new("target"));
    write_model("sees.gguf", model_new("clip", 1));
    for (size_t i = 0; i < sizeof why / sizeof *why; i++)
        GQUANT_SAYS(i < 2 ? 1 : 2, why[i][1], "publish", path("Tiny-Model"), "--out-dir", path("None"),
                    "--draft", path(why[i][0]), "Q8_0");
    assert_false(exists(path("None")));
    GQUANT(0, "-q", "publish", path("Tiny-Model"), "--out-dir", path("Both"), "--draft", path("Tiny-Draft"),
           "Q8_0");
    assert_true(exists(path("Both/draft-Tiny-Model-Q8_0.gguf")));
}

/* The page says how a draft of each kind is run. */
TEST(pages_say_how_it_is_run) {
    static const char *const words[][2] = {{"shared", " --spec-type draft-eagle3\n"},
                                           {"dflash", "draft-model-Q8_0.gguf\n"},
                                           {"assistant", " --spec-type draft-mtp\n"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        write_model("model.gguf", target_new(target_of_draft(words[i][0])));
        write_model("draft.gguf", target_draft_new(words[i][0]));
        GQUANT(0, "-q", "--force", "publish", path("model.gguf"), "--out-dir", path("Page"), "--draft",
               path("draft.gguf"), "Q8_0");
        size_t n;
        char *page = (char *)read_whole(path("Page/README.md"), &n), *line;
        page = realloc(page, n + 1), page[n] = 0;
        line = strstr(page, "llama-server -m model-Q8_0.gguf -md ");
        assert_non_null(line);
        if (strncmp(line + strcspn(line, "\n") + 1 - strlen(words[i][1]), words[i][1], strlen(words[i][1])) !=
            0)
            fail_msg("%s: %.*s", words[i][0], (int)strcspn(line, "\n"), line);
        free(page);
    }
}

int main(void) { return tests_run(folders_make, folder_remove); }
