/* An adapter of a small model. Head: the length of adapter_config.json; then that file, then the weights.
 * Merged into the model or made a GGUF adapter, what opens can be read, or fails with a message; a tensor read
 * at once has the bytes that it has when it is read in two parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hf/adapter/adapter.h"
#include "hf/hf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/safetensors.h"

enum { READ_MOST = 1 << 20, PATH_BYTES = 512 };

static const char CONFIG[] =
    "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"num_hidden_layers\":1,\"hidden_size\":4,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"head_dim\":2,\"num_experts\":2,"
    "\"num_experts_per_tok\":1,\"intermediate_size\":4,\"moe_intermediate_size\":2,"
    "\"max_position_embeddings\":8,\"rms_norm_eps\":1e-5,\"vocab_size\":3,\"tie_word_embeddings\":true}";
static const char TOKENIZER[] =
    "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a "
    "b\"]}}";
static const char *const ARRAYS[][2] = {
    {"model.embed_tokens.weight", "[3,4]"},
    {"model.norm.weight", "[4]"},
    {"model.layers.0.input_layernorm.weight", "[4]"},
    {"model.layers.0.post_attention_layernorm.weight", "[4]"},
    {"model.layers.0.self_attn.q_proj.weight", "[4,4]"},
    {"model.layers.0.mlp.gate.weight", "[2,4]"},
    {"model.layers.0.mlp.experts.0.gate_proj.weight", "[2,4]"},
    {"model.layers.0.mlp.experts.1.gate_proj.weight", "[2,4]"},
    {"model.layers.0.mlp.experts.0.up_proj.weight", "[2,4]"},
    {"model.layers.0.mlp.experts.1.up_proj.weight", "[2,4]"},
    {"model.layers.0.mlp.experts.0.down_proj.weight", "[4,2]"},
    {"model.layers.0.mlp.experts.1.down_proj.weight", "[4,2]"},
};

static char *path_in(const char *folder, const char *name, char to[PATH_BYTES]) {
    snprintf(to, PATH_BYTES, "%s/%s", folder, name);
    return to;
}

static void write_model(void) {
    char name[PATH_BYTES];
    safetensors s = {.n = 0};
    for (size_t i = 0; i < sizeof ARRAYS / sizeof *ARRAYS; i++) {
        size_t rows = (size_t)(ARRAYS[i][1][1] - '0'),
               columns = ARRAYS[i][1][2] == ',' ? (size_t)(ARRAYS[i][1][3] - '0') : 1;
        safetensors_add_weights(&s, ARRAYS[i][0], ARRAYS[i][1], rows * columns);
    }
    safetensors_write(&s, path_in(fuzz_folder(), "model.safetensors", name));
    safetensors_empty(&s);
    fuzz_write(path_in(fuzz_folder(), "config.json", name), CONFIG, sizeof CONFIG - 1);
    fuzz_write(path_in(fuzz_folder(), "tokenizer.json", name), TOKENIZER, sizeof TOKENIZER - 1);
}

static void try_tensor(const model_source *m, const model_tensor *t) {
    uint64_t n = shape_elements(t->ne), half = n / 2;
    gq_error e = {0};
    if (t->size > READ_MOST) return;
    uint8_t *whole = malloc(t->size), *parts = malloc(t->size);
    bool ok = model_read(m, t, 0, n, whole, &e);
    if (!ok) fuzz_check_error(&e);
    ok = ok && (half == 0 || model_read(m, t, 0, half, parts, &e)) &&
         model_read(m, t, half, n - half, parts + model_bytes(t, half), &e);
    PROMISE(!ok || memcmp(whole, parts, t->size) == 0, "%s", t->name);
    free(whole), free(parts);
}

static void try_model(bool opened, model_source *m, const gq_error *e) {
    if (!opened) {
        fuzz_check_error(e);
        return;
    }
    for (uint64_t i = 0; i < m->n_tensors; i++) try_tensor(m, m->tensors[i]);
    model_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_input in = {bytes, n};
    size_t config = fuzz_u16(&in);
    char name[PATH_BYTES];
    model_source m;
    gq_error e = {0};
    if (config > in.n) config = in.n;
    write_model();
    fuzz_write(path_in(fuzz_folder(), "adapter_config.json", name), in.bytes, config);
    fuzz_write(path_in(fuzz_folder(), "adapter_model.safetensors", name), in.bytes + config, in.n - config);
    const gq_adapter adapter = {.path = fuzz_folder()};
    const gq_adapters adapters = {.items = &adapter, .n = 1};
    try_model(hf_model_open_adapted(&m, fuzz_folder(), &adapters, &e), &m, &e);
    try_model(hf_adapter_file_open(&m, fuzz_folder(), fuzz_folder(), &e), &m, &e);
    return 0;
}

static void seed(const char *folder, const char *name, const char *more, const char *const arrays[][2]) {
    safetensors s = {.n = 0};
    char config[512], header[sizeof s.header + 2];
    size_t size;
    for (; (*arrays)[0]; arrays++) {
        char whole[256];
        size_t count = 1;
        for (const char *c = (*arrays)[1]; *c; c++)
            if (*c >= '0' && *c <= '9') count *= (size_t)(*c - '0');
        snprintf(whole, sizeof whole, "base_model.model.model.%s", (*arrays)[0]);
        safetensors_add_weights(&s, whole, (*arrays)[1], count);
    }
    int n = snprintf(config, sizeof config, "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":3%s}", more);
    snprintf(header, sizeof header, "%s}", s.header);
    uint8_t *weights = safetensors_bytes(header, s.data, s.n, &size), *bytes = malloc(2 + (size_t)n + size);
    bytes[0] = (uint8_t)n, bytes[1] = (uint8_t)(n >> 8);
    memcpy(bytes + 2, config, (size_t)n);
    memcpy(bytes + 2 + n, weights, size);
    fuzz_seed(folder, name, bytes, 2 + (size_t)n + size);
    free(bytes), free(weights);
    safetensors_empty(&s);
}

#define Q "layers.0.self_attn.q_proj"
#define E "layers.0.mlp.experts"
void fuzz_seeds(const char *folder) {
    seed(folder, "plain", ",\"use_rslora\":true,\"alpha_pattern\":{\"a|q_proj\":2}",
         (const char *const[][2]){{Q ".lora_A.weight", "[2,4]"}, {Q ".lora_B.weight", "[4,2]"}, {NULL}});
    seed(folder, "dora", ",\"use_dora\":true",
         (const char *const[][2]){{Q ".lora_A.weight", "[2,4]"},
                                  {Q ".lora_B.weight", "[4,2]"},
                                  {Q ".lora_magnitude_vector", "[4]"},
                                  {"embed_tokens.lora_embedding_A", "[2,3]"},
                                  {"embed_tokens.lora_embedding_B", "[4,2]"},
                                  {"embed_tokens.lora_magnitude_vector", "[4]"},
                                  {NULL}});
    seed(folder, "experts", ",\"target_parameters\":[\"mlp.experts.gate_up_proj\",\"mlp.experts.down_proj\"]",
         (const char *const[][2]){{E ".lora_A.weight", "[4,2]"},
                                  {E ".lora_B.weight", "[4,4]"},
                                  {E ".base_layer.lora_A.weight", "[4,4]"},
                                  {E ".base_layer.lora_B.weight", "[4,4]"},
                                  {NULL}});
    seed(folder, "one-by-one", "",
         (const char *const[][2]){{E ".0.gate_proj.lora_A.weight", "[2,4]"},
                                  {E ".0.gate_proj.lora_B.weight", "[2,2]"},
                                  {E ".1.gate_proj.lora_A.weight", "[2,4]"},
                                  {E ".1.gate_proj.lora_B.weight", "[2,2]"},
                                  {NULL}});
    seed(folder, "tokens", ",\"trainable_token_indices\":[2,0]",
         (const char *const[][2]){
             {"embed_tokens.token_adapter.trainable_tokens_delta", "[2,4]"}, {"norm.weight", "[4]"}, {NULL}});
}
