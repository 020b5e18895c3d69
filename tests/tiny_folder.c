#include "tests/tiny_folder.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support.h"

enum { WIDTH = 256, TOKENS = 8 };

const char TINY_TOKENIZER[] = "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_"
                              "space\":false,\"use_regex\":true},"
                              "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,"
                              "\"e\":4,\"ab\":5,\"cd\":6,\"\xc4\xa0\":7},"
                              "\"merges\":[\"a b\",\"c d\"]}}";

/* The header's entries so far, and the bytes of their arrays. */
typedef struct tiny_header {
    char text[1 << 16];
    size_t n_bytes;
} tiny_header;

static void header_add(tiny_header *h, const char *name, int rows) {
    size_t at = strlen(h->text), n = 2 * (size_t)(rows ? rows : 1) * WIDTH;
    char shape[32];
    snprintf(shape, sizeof shape, rows ? "[%d,%d]" : "[%d]", rows ? rows : WIDTH, WIDTH);
    snprintf(h->text + at, sizeof h->text - at,
             "%c\"%s\":{\"dtype\":\"BF16\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", at ? ',' : '{', name,
             shape, h->n_bytes, h->n_bytes + n);
    h->n_bytes += n;
}

static void header_add_layer(tiny_header *h, int layer, int experts) {
    static const char *const attention[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    static const char *const dense[] = {"gate_proj", "up_proj", "down_proj"};
    char name[128];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s_layernorm.weight", layer,
                 i ? "post_attention" : "input");
        header_add(h, name, 0);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "model.layers.%d.self_attn.%s.weight", layer, attention[i]);
        header_add(h, name, WIDTH);
    }
    for (int i = 0; i < 3 && !experts; i++) {
        snprintf(name, sizeof name, "model.layers.%d.mlp.%s.weight", layer, dense[i]);
        header_add(h, name, WIDTH);
    }
    for (int k = 0; k < 3 * experts; k++) {
        snprintf(name, sizeof name, "model.layers.%d.block_sparse_moe.experts.%d.w%d.weight", layer, k / 3,
                 k % 3 + 1);
        header_add(h, name, WIDTH);
    }
    if (experts) snprintf(name, sizeof name, "model.layers.%d.block_sparse_moe.gate.weight", layer);
    if (experts) header_add(h, name, experts);
}

/* Small weights as BF16, of a generator. */
static void write_weights(FILE *f, size_t n, uint32_t x) {
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        uint16_t h = (uint16_t)((x >> 16 & 0x807f) | (0x3c00 + (x >> 8 & 0x180)));
        fwrite(&h, 2, 1, f); /* little-endian */
    }
}

void tiny_folder_text(const char *folder, const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_whole(path, text, strlen(text));
}

void tiny_folder_write(const char *folder, int layers, int experts, unsigned seed) {
    static tiny_header h;
    char text[1024];
    h = (tiny_header){.n_bytes = 0};
    mkdir(folder, 0777);
    header_add(&h, "model.embed_tokens.weight", TOKENS), header_add(&h, "model.norm.weight", 0);
    for (int i = 0; i < layers; i++) header_add_layer(&h, i, experts);
    uint64_t length = strlen(h.text) + 1;
    snprintf(text, sizeof text, "%s/model.safetensors", folder);
    FILE *f = fopen(text, "wb");
    fwrite(&length, 1, 8, f);
    fprintf(f, "%s}", h.text);
    write_weights(f, h.n_bytes / 2, seed);
    fclose(f);
    snprintf(text, sizeof text,
             "{\"architectures\":[\"%sForCausalLM\"],\"num_hidden_layers\":%d,\"hidden_size\":256,"
             "\"intermediate_size\":256,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
             "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5,\"vocab_size\":8,"
             "\"num_local_experts\":%d,\"num_experts_per_tok\":2}",
             experts ? "Mixtral" : "Llama", layers, experts);
    tiny_folder_text(folder, "config.json", text);
    tiny_folder_text(folder, "tokenizer.json", TINY_TOKENIZER);
}
