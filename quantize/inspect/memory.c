/* Estimates the memory that llama.cpp takes for a model in addition to its weights. docs/internals/mixes.md has the
 * reckoning. */
#include "base/sized.h"
#include "gguf/facts.h"
#include "quantize/quantize.h"

enum {
    BATCH = 512, /* tokens in a batch of llama.cpp */
    MAX_LAYERS = 1 << 16,
    CACHE_BYTES = 2, /* bytes of a number in the cache: F16 */
    BUFFER_BYTES = 4,
};

/* Returns a number under a key, or the first of a list. A number larger than any model's counts as damaged:
 * `otherwise` is returned. */
static uint64_t memory_fact_number(const model_facts *f, const char *name, uint64_t otherwise) {
    int64_t n;
    return model_fact_int(f, name, &n) && n >= 0 && n <= UINT32_MAX ? (uint64_t)n : otherwise;
}

/* Returns the pair under the key if it holds a number for each layer; else NULL. */
static const model_kv *memory_layer_list(const model_facts *f, const char *name, uint64_t layers) {
    const model_kv *kv = model_fact(f, name);
    uint32_t type;
    uint64_t count;
    const uint8_t *elements;
    return model_kv_array(kv, &type, &count, &elements) && count >= layers ? kv : NULL;
}

static uint64_t of_layer(const model_kv *per_layer, uint64_t i) {
    int64_t n;
    return model_fact_at(per_layer, i, &n) && n > 0 ? (uint64_t)n : 0;
}

/* A sliding window counts only where the file says which layers have it: in a list, or every so many have
 * not. */
typedef struct sliding {
    uint64_t window, period;
    const model_kv *listed;
} sliding;

/* Tokens that layer i keeps. */
static uint64_t memory_window_tokens(const sliding *s, uint64_t i, uint64_t context) {
    bool slides = s->listed ? of_layer(s->listed, i) > 0 : s->period > 1 && (i + 1) % s->period != 0;
    return s->window > 0 && slides && s->window + BATCH < context ? s->window + BATCH : context;
}

static uint64_t cache_bytes(const model_facts *f, uint64_t context) {
    uint64_t layers = memory_fact_number(f, "block_count", 0),
             heads = memory_fact_number(f, "attention.head_count", 0);
    uint64_t width = memory_fact_number(f, "embedding_length", 0),
             shared = memory_fact_number(f, "attention.head_count_kv", heads);
    if (layers == 0 || layers > MAX_LAYERS || heads == 0) return 0;
    uint64_t key = memory_fact_number(f, "attention.key_length", width / heads);
    uint64_t value = memory_fact_number(f, "attention.value_length", width / heads);
    const model_kv *per_layer = memory_layer_list(f, "attention.head_count_kv", layers);
    sliding s = {.window = memory_fact_number(f, "attention.sliding_window", 0),
                 .period = memory_fact_number(f, "attention.sliding_window_pattern", 0),
                 .listed = memory_layer_list(f, "attention.sliding_window_pattern", layers)};
    double bytes = 0;
    for (uint64_t i = 0; i < layers; i++) {
        uint64_t n = per_layer ? of_layer(per_layer, i) : shared;
        bytes +=
            (double)n * (double)(key + value) * CACHE_BYTES * (double)memory_window_tokens(&s, i, context);
    }
    return bytes < 0x1p62 ? (uint64_t)bytes : 0;
}

static uint64_t memory_vocabulary(const model_facts *f) {
    uint32_t type;
    uint64_t count = 0;
    const uint8_t *elements;
    model_kv_array(model_facts_find(f, "tokenizer.ggml.tokens"), &type, &count, &elements);
    return memory_fact_number(f, "vocab_size", count);
}

void gq_model_memory(const gq_model *m, uint64_t context, gq_memory *to) {
    enum { USUAL = 8192 };
    model_facts f = model_facts_of(m->file.kv, m->file.n_kv, NULL, 0);
    uint64_t most = memory_fact_number(&f, "context_length", 0);
    if (context == 0) context = most > 0 && most < USUAL ? most : USUAL;
    gq_memory memory = {.context = context, .context_trained = most};
    memory.cache_bytes = cache_bytes(&f, context);
    double row = (double)memory_vocabulary(&f) + 4 * (double)memory_fact_number(&f, "embedding_length", 0) +
                 2 * (double)memory_fact_number(&f, "feed_forward_length", 0);
    memory.buffer_bytes = (uint64_t)(BATCH * BUFFER_BYTES * row);
    sized_give(to, &memory, sizeof memory);
}
