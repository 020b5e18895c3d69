/* The command on a folder from Hugging Face: everything that takes a model takes one, and gets the same as
 * from the GGUF file of it. That this file is right is for tests/hf_convert. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/command.h"
#include "tests/folder.h"
#include "tests/safetensors.h"

enum { WIDTH = 256, TOKENS = 8 };

static void write_text(const char *name, const char *text) { write_whole(path(name), text, strlen(text)); }

static const char CONFIG[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":1,\"hidden_"
                             "size\":256,\"intermediate_size\":256,"
                             "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"max_position_"
                             "embeddings\":512,\"rms_norm_eps\":1e-5,"
                             "\"vocab_size\":8}";
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

static void a_file_beside_the_folder(void **state) {
    (void)state;
    GQUANT(0, path("Tiny-Model/"), "Q4_K_M");
    assert_true(exists(path("Tiny-Model-Q4_K_M.gguf")));
    GQUANT(0, "--out-dir", path(""), path("Tiny-Model"), "BF16", "Q6_K");
    assert_true(exists(path("Tiny-Model-BF16.gguf")) && exists(path("Tiny-Model-Q6_K.gguf")));
    GQUANT(0, "compare", path("Tiny-Model"), path("Tiny-Model-BF16.gguf"));
}

static void the_same_as_from_its_file(void **state) {
    (void)state;
    GQUANT(0, "--force", path("Tiny-Model"), path("file.gguf"), "BF16");
    GQUANT(0, "--force", path("Tiny-Model"), path("a.gguf"), "Q4_K_M");
    GQUANT(0, "--force", path("file.gguf"), path("b.gguf"), "Q4_K_M");
    assert_same("a.gguf", "b.gguf");
    GQUANT(0, "--force", "--split-max-size", "200K", path("Tiny-Model"), path("s.gguf"), "Q8_0");
    assert_true(exists(path("s-00001-of-00004.gguf")) || exists(path("s-00001-of-00003.gguf")) ||
                exists(path("s-00001-of-00005.gguf")));
}

static void it_can_be_asked_and_run(void **state) {
    (void)state;
    char *info = PRINTED("info", path("Tiny-Model"));
    says(info, "a folder from Hugging Face, 3 files");
    free(info);
    GQUANT(0, "plan", path("Tiny-Model"));
    GQUANT(0, "tokenize", path("Tiny-Model"), path("text.txt"));
    GQUANT(0, "imatrix", "compute", "--context", "8", path("Tiny-Model"), path("text.txt"), path("i.gguf"));
    assert_true(exists(path("i.gguf")));
}

static void what_is_wrong_is_told(void **state) {
    (void)state;
    write_text("Tiny-Model/config.json", "{\"architectures\":[\"StrangeModel\"],\"num_hidden_layers\":1}");
    GQUANT_SAYS(1, "the architecture StrangeModel", path("Tiny-Model"), "Q4_K_M");
    write_text("Tiny-Model/config.json", CONFIG);
    write_text("Tiny-Model/tokenizer.json", "{}");
    GQUANT_SAYS(1, "tokenizer.json", path("Tiny-Model"), "Q4_K_M");
    write_text("Tiny-Model/tokenizer.json", TOKENIZER);
    assert_int_equal(rename(path("Tiny-Model/model.safetensors"), path("Tiny-Model/model-1.weights")), 0);
    GQUANT_SAYS(1, "has no weights", path("Tiny-Model"), "Q4_K_M");
    assert_int_equal(rename(path("Tiny-Model/model-1.weights"), path("Tiny-Model/model.safetensors")), 0);
}

/* A file of the folder is an input, whatever its name. */
static void its_files_are_not_overwritten(void **state) {
    (void)state;
    assert_int_not_equal(
        run_command((const char *const[]){NULL, "--force", path("Tiny-Model"),
                                          path("Tiny-Model/model.safetensors"), "Q4_K_M", NULL},
                    NULL, NULL),
        0);
    GQUANT(0, "info", path("Tiny-Model"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_beside_the_folder),      cmocka_unit_test(the_same_as_from_its_file),
        cmocka_unit_test(it_can_be_asked_and_run),       cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(its_files_are_not_overwritten),
    };
    return cmocka_run_group_tests(tests, folder_of_model, folder_remove);
}
