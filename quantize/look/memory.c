/* What a model takes in memory besides its weights, as llama.cpp runs it. docs/mixes.md has the reckoning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/gquant.h"

enum {
    BATCH = 512, /* tokens that are worked on at once */
    MAX_LAYERS = 1 << 16,
    CACHE_BYTES = 2, /* of a number in the cache: F16 */
    BUFFER_BYTES = 4,
};

typedef struct facts {
    const gq_model *model;
    char arch[128];
} facts;

static const gq_metadata *find(const gq_model *m, const char *key) {
    size_t n;
    const gq_metadata *all = gq_model_metadata(m, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i].key, key)) return &all[i];
    return NULL;
}

static uint64_t number_of(const gq_value *v, uint64_t otherwise) {
    if (v->kind == GQ_BOOL) return v->as_bool;
    if (v->kind == GQ_UNSIGNED) return v->as_unsigned;
    return v->kind == GQ_SIGNED && v->as_signed >= 0 ? (uint64_t)v->as_signed : otherwise;
}

static const gq_metadata *fact(const facts *f, const char *name) {
    char key[256];
    snprintf(key, sizeof key, "%s.%s", f->arch, name);
    return find(f->model, key);
}

/* A number; of a list, its first. Numbers beyond any model's are taken for damage. */
static uint64_t number(const facts *f, const char *name, uint64_t otherwise) {
    gq_value v;
    const gq_metadata *m = fact(f, name);
    uint64_t n = m && gq_metadata_values(m, &v, 1) ? number_of(&v, otherwise) : otherwise;
    return n <= UINT32_MAX ? n : otherwise;
}

/* One number per layer, where the key holds a list; else NULL. */
static gq_value *list(const facts *f, const char *name, uint64_t layers) {
    const gq_metadata *m = fact(f, name);
    if (!m || !m->list || m->count < layers) return NULL;
    gq_value *values = calloc(layers + 1, sizeof *values);
    if (values) gq_metadata_values(m, values, layers);
    return values;
}

/* A sliding window counts only where the file says which layers have it: in a list, or every so many have
 * not. */
typedef struct sliding {
    uint64_t window, period;
    gq_value *listed;
} sliding;

/* Tokens that layer i keeps. */
static uint64_t tokens(const sliding *s, uint64_t i, uint64_t context) {
    bool slides = s->listed ? number_of(&s->listed[i], 0) != 0 : s->period > 1 && (i + 1) % s->period != 0;
    return s->window > 0 && slides && s->window + BATCH < context ? s->window + BATCH : context;
}

static uint64_t cache_bytes(const facts *f, uint64_t context) {
    uint64_t layers = number(f, "block_count", 0), heads = number(f, "attention.head_count", 0);
    uint64_t width = number(f, "embedding_length", 0), shared = number(f, "attention.head_count_kv", heads);
    if (layers == 0 || layers > MAX_LAYERS || heads == 0) return 0;
    uint64_t key = number(f, "attention.key_length", width / heads);
    uint64_t value = number(f, "attention.value_length", width / heads);
    gq_value *per_layer = list(f, "attention.head_count_kv", layers);
    sliding s = {.window = number(f, "attention.sliding_window", 0),
                 .period = number(f, "attention.sliding_window_pattern", 0),
                 .listed = list(f, "attention.sliding_window_pattern", layers)};
    double bytes = 0;
    for (uint64_t i = 0; i < layers; i++) {
        uint64_t n = per_layer ? number_of(&per_layer[i], 0) : shared;
        bytes += (double)n * (double)(key + value) * CACHE_BYTES * (double)tokens(&s, i, context);
    }
    free(per_layer), free(s.listed);
    return bytes < 0x1p62 ? (uint64_t)bytes : 0;
}

static uint64_t vocabulary(const facts *f) {
    const gq_metadata *tokens_list = find(f->model, "tokenizer.ggml.tokens");
    return number(f, "vocab_size", tokens_list && tokens_list->list ? tokens_list->count : 0);
}

gq_memory gq_model_memory(const gq_model *m, uint64_t context) {
    enum { USUAL = 8192 };
    facts f = {.model = m};
    gq_value v;
    const gq_metadata *arch = find(m, "general.architecture");
    if (arch && !arch->list && gq_metadata_values(arch, &v, 1) && v.kind == GQ_TEXT &&
        v.length < sizeof f.arch)
        memcpy(f.arch, v.text, v.length);
    uint64_t most = number(&f, "context_length", 0);
    if (context == 0) context = most > 0 && most < USUAL ? most : USUAL;
    gq_memory memory = {.context = context, .context_trained = most};
    memory.cache_bytes = cache_bytes(&f, context);
    double row = (double)vocabulary(&f) + 4 * (double)number(&f, "embedding_length", 0) +
                 2 * (double)number(&f, "feed_forward_length", 0);
    memory.buffer_bytes = (uint64_t)(BATCH * BUFFER_BYTES * row);
    return memory;
}
