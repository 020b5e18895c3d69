#include "tests/support/tiny_folder.h"

#include <stdint.h>
#include <sys/stat.h>

#include "tests/support/safetensors.h"
#include "tests/support/support.h"

enum { WIDTH = 256, TOKENS = 8 };

const char TINY_TOKENIZER[] = "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_"
                              "space\":false,\"use_regex\":true},"
                              "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,"
                              "\"e\":4,\"ab\":5,\"cd\":6,\"\xc4\xa0\":7},"
                              "\"merges\":[\"a b\",\"c d\"]}}";

static void add_array(safetensors *s, const char *name, int rows) {
    char shape[32];
    snprintf(shape, sizeof shape, rows ? "[%d,%d]" : "[%d]", rows ? rows : WIDTH, WIDTH);
    safetensors_add_weights(s, name, shape, (size_t)(rows ? rows : 1) * WIDTH);
}

static void add_layer(safetensors *s, int layer, int experts) {
    static const char *const matrices[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                           "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                           "mlp.down_proj"};
    char name[128];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s_layernorm.weight", layer,
                 i ? "post_attention" : "input");
        add_array(s, name, 0);
    }
    for (int i = 0; i < (experts ? 4 : 7); i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, matrices[i]);
        add_array(s, name, WIDTH);
    }
    for (int k = 0; k < 3 * experts; k++) {
        snprintf(name, sizeof name, "model.layers.%d.block_sparse_moe.experts.%d.w%d.weight", layer, k / 3,
                 k % 3 + 1);
        add_array(s, name, WIDTH);
    }
    snprintf(name, sizeof name, "model.layers.%d.block_sparse_moe.gate.weight", layer);
    if (experts) add_array(s, name, experts);
}

void tiny_folder_text(const char *folder, const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_whole(path, text, strlen(text));
}

void tiny_folder_write(const char *folder, int layers, int experts, unsigned seed) {
    safetensors s = {.n = 0};
    char text[4096];
    mkdir(folder, 0777);
    add_array(&s, "model.embed_tokens.weight", TOKENS), add_array(&s, "model.norm.weight", 0);
    for (int i = 0; i < layers; i++) add_layer(&s, i, experts);
    for (size_t i = 0; i < s.n; i += 2) s.data[i] ^= (uint8_t)seed;
    snprintf(text, sizeof text, "%s/model.safetensors", folder);
    safetensors_write(&s, text);
    safetensors_empty(&s);
    snprintf(text, sizeof text,
             "{\"architectures\":[\"%sForCausalLM\"],\"num_hidden_layers\":%d,\"hidden_size\":256,"
             "\"intermediate_size\":256,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
             "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5,\"vocab_size\":8,\"eos_token_id\":7,"
             "\"tie_word_embeddings\":true,"
             "\"num_local_experts\":%d,\"num_experts_per_tok\":2}",
             experts ? "Mixtral" : "Llama", layers, experts);
    tiny_folder_text(folder, "config.json", text);
    tiny_folder_text(folder, "tokenizer.json", TINY_TOKENIZER);
}

void tiny_adapter_write(const char *folder, bool dora) {
    static const char module[] = "base_model.model.model.layers.0.self_attn.q_proj";
    static const struct {
        const char *name, *shape;
    } arrays[] = {
        {"lora_A.weight", "[1,256]"}, {"lora_B.weight", "[256,1]"}, {"lora_magnitude_vector", "[256]"}};
    safetensors s = {.n = 0};
    char text[4096];
    float x[WIDTH];
    mkdir(folder, 0777);
    for (int i = 0; i < WIDTH; i++) x[i] = (float)(i % 7 - 3) / 8;
    for (int i = 0; i < 2 + dora; i++) {
        snprintf(text, sizeof text, "%s.%s", module, arrays[i].name);
        safetensors_add(&s, text, "F32", arrays[i].shape, x, sizeof x);
    }
    snprintf(text, sizeof text, "%s/adapter_model.safetensors", folder);
    safetensors_write(&s, text);
    safetensors_empty(&s);
    snprintf(text, sizeof text,
             "{\"peft_type\":\"LORA\",\"r\":1,\"lora_alpha\":2,\"use_dora\":%s,"
             "\"rank_pattern\":{\"x|q_proj\":1},\"target_modules\":[\"q_proj\"]}",
             dora ? "true" : "false");
    tiny_folder_text(folder, "adapter_config.json", text);
}
