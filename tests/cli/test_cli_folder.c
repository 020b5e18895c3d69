/* The command on a folder from Hugging Face: everything that takes a model takes one, and gets the same as
 * from the GGUF file of it. That this file is right is for tests/hf/hf_convert. */
#include <sys/stat.h>

#include "gguf/model.h"
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/safetensors.h"

enum { WIDTH = 256, TOKENS = 8 };

static void write_text(const char *name, const char *text) { write_whole(path(name), text, strlen(text)); }

static const char CONFIG[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"tie_word_embeddings\":true,\"num_hidden_layers\":1,\"hidden_"
    "size\":256,\"intermediate_size\":256,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"max_position_"
    "embeddings\":512,\"rms_norm_eps\":1e-5,"
    "\"vocab_size\":8,\"eos_token_id\":7}";
static const char TOKENIZER[] = "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_"
                                "space\":false,\"use_regex\":true},"
                                "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,"
                                "\"e\":4,\"ab\":5,\"cd\":6,\"\xc4\xa0\":7},"
                                "\"merges\":[\"a b\",\"c d\"]}}";

static void add_matrix(safetensors *s, const char *name, int rows) {
    char shape[32];
    snprintf(shape, sizeof shape, "[%d,%d]", rows, WIDTH);
    safetensors_add_weights(s, name, shape, (size_t)rows * WIDTH);
}

static int folder_of_model(void **state) {
    folder_make(state);
    assert_int_equal(mkdir(path("Tiny-Model"), 0777), 0);
    static const char *const matrices[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                           "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                           "mlp.down_proj"};
    safetensors s = {.n = 0};
    add_matrix(&s, "model.embed_tokens.weight", TOKENS);
    safetensors_add_weights(&s, "model.norm.weight", "[256]", WIDTH);
    safetensors_add_weights(&s, "model.layers.0.input_layernorm.weight", "[256]", WIDTH);
    safetensors_add_weights(&s, "model.layers.0.post_attention_layernorm.weight", "[256]", WIDTH);
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.0.%s.weight", matrices[i]);
        add_matrix(&s, name, WIDTH);
    }
    safetensors_write(&s, path("Tiny-Model/model.safetensors"));
    safetensors_empty(&s);
    write_text("Tiny-Model/config.json", CONFIG);
    write_text("Tiny-Model/tokenizer.json", TOKENIZER);
    write_text("text.txt", "ab cd e ab a b c d e abcd");
    return 0;
}

static void assert_same(const char *a, const char *b) {
    size_t n, m;
    uint8_t *x = read_whole(path(a), &n), *y = read_whole(path(b), &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x), free(y);
}

TEST(a_file_beside_the_folder) {
    GQUANT(0, path("Tiny-Model/"), "Q4_K_M");
    assert_true(exists(path("Tiny-Model-Q4_K_M.gguf")));
    GQUANT(0, "--out-dir", path(""), path("Tiny-Model"), "BF16", "Q6_K");
    assert_true(exists(path("Tiny-Model-BF16.gguf")) && exists(path("Tiny-Model-Q6_K.gguf")));
    GQUANT(0, "compare", path("Tiny-Model"), path("Tiny-Model-BF16.gguf"));
}

TEST(the_same_as_from_its_file) {
    GQUANT(0, "--force", path("Tiny-Model"), path("file.gguf"), "BF16");
    GQUANT(0, "--force", path("Tiny-Model"), path("a.gguf"), "Q4_K_M");
    GQUANT(0, "--force", path("file.gguf"), path("b.gguf"), "Q4_K_M");
    assert_same("a.gguf", "b.gguf");
    GQUANT(0, "--force", "--split-max-size", "200K", path("Tiny-Model"), path("s.gguf"), "Q8_0");
    assert_true(exists(path("s-00001-of-00004.gguf")) || exists(path("s-00001-of-00003.gguf")) ||
                exists(path("s-00001-of-00005.gguf")));
}

TEST(it_can_be_asked_and_run) {
    char *info = PRINTED("info", path("Tiny-Model"));
    says(info, "a folder from Hugging Face, 3 files");
    free(info);
    GQUANT(0, "plan", path("Tiny-Model"));
    GQUANT(0, "tokenize", path("Tiny-Model"), path("text.txt"));
    GQUANT(0, "imatrix", "compute", "--context", "8", path("Tiny-Model"), path("text.txt"), path("i.gguf"));
    assert_true(exists(path("i.gguf")));
}

TEST(what_is_wrong_is_told) {
    write_text("Tiny-Model/config.json", "{\"architectures\":[\"StrangeModel\"],\"num_hidden_layers\":1}");
    GQUANT_SAYS(1, "StrangeModel is not one of the", path("Tiny-Model"), "Q4_K_M");
    write_text("Tiny-Model/config.json", CONFIG);
    write_text("Tiny-Model/tokenizer.json", "{}");
    GQUANT_SAYS(1, "tokenizer.json", path("Tiny-Model"), "Q4_K_M");
    write_text("Tiny-Model/tokenizer.json", TOKENIZER);
    assert_int_equal(rename(path("Tiny-Model/model.safetensors"), path("Tiny-Model/model-1.weights")), 0);
    GQUANT_SAYS(1, "has no weights", path("Tiny-Model"), "Q4_K_M");
    assert_int_equal(rename(path("Tiny-Model/model-1.weights"), path("Tiny-Model/model.safetensors")), 0);
}

/* ---- paths that are no folder's name ---- */

static void enter(const char *name) { assert_int_equal(chdir(path(name)), 0); }

TEST(folders_by_dots_and_links) {
    enter("Tiny-Model");
    GQUANT(0, "-q", ".", "Q4_0");
    GQUANT(0, "-q", "./", "Q4_1");
    assert_true(exists(path("Tiny-Model-Q4_0.gguf")) && exists(path("Tiny-Model-Q4_1.gguf")));
    assert_int_equal(mkdir(path("Tiny-Model/sub"), 0777), 0);
    enter("Tiny-Model/sub");
    GQUANT(0, "-q", "..", "Q5_0");
    GQUANT(0, "-q", "../sub/../", "Q5_1");
    assert_true(exists(path("Tiny-Model-Q5_0.gguf")) && exists(path("Tiny-Model-Q5_1.gguf")));
    enter("");
    assert_int_equal(rmdir(path("Tiny-Model/sub")), 0);
    assert_int_equal(symlink("Tiny-Model", path("Linked")), 0);
    GQUANT(0, "-q", path("Linked/"), "Q4_0");
    assert_true(exists(path("Linked-Q4_0.gguf")));
}

/* A file of a folder leads to the folder. */
TEST(folders_by_one_of_their_files) {
    static const char *const names[] = {"config.json", "model.safetensors", "./model.safetensors"};
    enter("Tiny-Model");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        GQUANT(0, "-q", "--force", names[i], "Q6_K");
        assert_true(exists(path("Tiny-Model-Q6_K.gguf")));
        unlink(path("Tiny-Model-Q6_K.gguf"));
    }
    enter("");
    write_text("Tiny-Model/model.safetensors.index.json", "{");
    GQUANT_SAYS(1, "model.safetensors.index.json: line", path("Tiny-Model/model.safetensors.index.json"),
                "Q4_0");
    unlink(path("Tiny-Model/model.safetensors.index.json"));
    write_text("Tiny-Model/model-2.safetensors.incomplete", "");
    GQUANT_SAYS(1, "unfinished download", path("Tiny-Model/model-2.safetensors.incomplete"), "Q4_0");
    unlink(path("Tiny-Model/model-2.safetensors.incomplete"));
    write_text("pytorch_model.bin", "PK\3\4....");
    GQUANT_SAYS(1, "take the model's safetensors", path("pytorch_model.bin"), "Q4_0");
}

/* The hub's cache names folders after revisions: what they are called is above them. Outputs do not belong
 * there: they go to where the command is run. */
TEST(folders_of_the_cache) {
    static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors"};
    static const char *const folders[] = {"models--Org--Tiny-Model-2", "models--Org--Tiny-Model-2/refs",
                                          "models--Org--Tiny-Model-2/snapshots",
                                          "models--Org--Tiny-Model-2/snapshots/0a1b2c", "out"};
    for (size_t i = 0; i < 5; i++) assert_int_equal(mkdir(path(folders[i]), 0777), 0);
    for (size_t i = 0; i < 3; i++) {
        char to[128];
        snprintf(to, sizeof to, "models--Org--Tiny-Model-2/snapshots/0a1b2c/%s", files[i]);
        assert_int_equal(symlink(path(in_folder("Tiny-Model", files[i])), path(to)), 0);
    }
    enter("out");
    GQUANT(0, "-q", "../models--Org--Tiny-Model-2/snapshots/0a1b2c/", "Q4_0");
    assert_true(exists(path("out/Tiny-Model-2-Q4_0.gguf")));
    GQUANT(0, "-q", "../models--Org--Tiny-Model-2/snapshots/0a1b2c/config.json", "Q4_1");
    assert_true(exists(path("out/Tiny-Model-2-Q4_1.gguf")));
    model_source m = open_model(path("out/Tiny-Model-2-Q4_0.gguf"));
    const char *text;
    uint64_t n;
    assert_true(model_kv_string(model_kv_find(m.kv, m.n_kv, "general.organization"), &text, &n));
    assert_true(n == 3 && memcmp(text, "Org", n) == 0);
    model_close(&m);

    GQUANT_SAYS(1, "name one of the folders in", "../models--Org--Tiny-Model-2", "Q5_0");
    write_text("models--Org--Tiny-Model-2/refs/main", "ffff");
    GQUANT_SAYS(1, "snapshots/ffff", "../models--Org--Tiny-Model-2", "Q5_0");
    write_text("models--Org--Tiny-Model-2/refs/main", "../../Tiny-Model");
    GQUANT_SAYS(1, "name one of the folders in", "../models--Org--Tiny-Model-2", "Q5_0");
    write_text("models--Org--Tiny-Model-2/refs/main", "0a1b2c\n");
    GQUANT(0, "-q", "../models--Org--Tiny-Model-2/", "Q5_0");
    assert_true(exists(path("out/Tiny-Model-2-Q5_0.gguf")));
    enter("models--Org--Tiny-Model-2/snapshots/0a1b2c");
    GQUANT(0, "-q", "--out-dir", path("out"), ".", "Q5_1");
    assert_true(exists(path("out/Tiny-Model-2-Q5_1.gguf")));
    enter("");
}

TEST(folders_of_other_things) {
    assert_int_equal(mkdir(path("Other"), 0777), 0);
    GQUANT_SAYS(1, "without a model in it", path("Other"), "Q4_0");
    write_text("Other/adapter_config.json", "{}");
    GQUANT_SAYS(1, "a LoRA adapter, not a model: name its model", path("Other"), "Q4_0");
    safetensors s = {.n = 0};
    add_matrix(&s, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 8);
    safetensors_write(&s, path("Other/adapter_model.safetensors"));
    safetensors_empty(&s);
    GQUANT_SAYS(1, "a LoRA", path("Other"), "Q4_0");
    GQUANT_SAYS(1, "a LoRA, not a model: merge it", path("Other/adapter_model.safetensors"), "Q4_0");
    write_text("Other/config.json", CONFIG);
    GQUANT_SAYS(1, "has no vision or audio encoder", "--mmproj", path("Other"));
    GQUANT_SAYS(1, "a LoRA adapter", path("Other"), "Q4_0");
    remove_folder(strdup(path("Other")));
    assert_int_equal(mkdir(path("Other"), 0777), 0);
    write_text("Other/a-Q4_0.gguf", "");
    GQUANT_SAYS(1, "Other/a-Q4_0.gguf", path("Other"), "Q4_0");
    write_text("Other/consolidated.safetensors", "");
    write_text("Other/config.json", CONFIG);
    unlink(path("Other/a-Q4_0.gguf"));
    GQUANT_SAYS(1, "Mistral's own names", path("Other"), "Q4_0");
}

/* A file of the folder is an input, whatever its name. */
TEST(its_files_are_not_overwritten) {
    assert_int_not_equal(
        run_command((const char *const[]){NULL, "--force", path("Tiny-Model"),
                                          path("Tiny-Model/model.safetensors"), "Q4_K_M", NULL},
                    NULL, NULL),
        0);
    GQUANT(0, "info", path("Tiny-Model"));
}

int main(void) { return tests_run(folder_of_model, folder_remove); }
