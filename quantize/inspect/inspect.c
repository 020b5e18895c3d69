/* Opens a model to look into it: metadata, tensors and weights. Opening checks the structure and describes each KV
 * pair and tensor in an array of public structs. Their pointers lead into the model_source, which the gq_model owns,
 * so they are good as long as the model is open. Values of metadata stay raw until gq_metadata_values converts those
 * that are asked for. Weights are read on request, as stored or decoded a strip at a time; they may be infinite or
 * NaN, as broken files are looked into as well (verify.c checks them). */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/sized.h"
#include "gguf/facts.h"
#include "quantize/quantize.h"
#include "quantize/strips/strips.h"

static void describe_metadata(gq_metadata *to, const model_kv *kv) {
    uint32_t type = kv->type;
    uint64_t count = 1;
    const uint8_t *elements;
    bool list = model_kv_array(kv, &type, &count, &elements);
    *to =
        (gq_metadata){.key = kv->key, .type = gguf_value_name(type), .list = list, .count = count, .raw = kv};
}

static void describe_tensor(gq_stored *to, const model_source *m, const model_tensor *t, gq_origin *origin) {
    *to = (gq_stored){.name = t->name,
                      .n_dims = t->n_dims,
                      .type = t->type->id,
                      .shard = t->shard,
                      .transposed = t->transposed,
                      .n_weights = shape_elements(t->ne),
                      .bytes = t->size,
                      .offset = model_stored_at(m, t),
                      .origin = model_origin_show(t, origin)};
    memcpy(to->ne, t->ne, sizeof to->ne);
}

static void model_sum_up(gq_model *m) {
    gq_model_facts *f = &m->facts;
    *f = (gq_model_facts){.size = sizeof *f,
                          .version = m->file.version,
                          .shards = m->file.n_files,
                          .alignment = m->file.alignment,
                          .n_tensors = m->file.n_tensors,
                          .n_metadata = m->file.n_kv,
                          .file_bytes = model_file_bytes(&m->file)};
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        f->tensor_bytes += model_stored_bytes(m->file.tensors[i]);
        f->n_weights += m->tensors[i].n_weights;
    }
}

static bool model_fill_tensors(gq_model *m, gq_error *e) {
    m->metadata = calloc(m->file.n_kv + 1, sizeof *m->metadata);
    m->tensors = calloc(m->file.n_tensors + 1, sizeof *m->tensors);
    m->origins = calloc(m->file.n_tensors + 1, sizeof *m->origins);
    if (!m->metadata || !m->tensors || !m->origins)
        return gq_fail_memory(e, m->file.n_kv * sizeof *m->metadata + m->file.n_tensors * sizeof *m->tensors);
    for (uint64_t i = 0; i < m->file.n_kv; i++) describe_metadata(&m->metadata[i], &m->file.kv[i]);
    for (uint64_t i = 0; i < m->file.n_tensors; i++)
        describe_tensor(&m->tensors[i], &m->file, m->file.tensors[i], &m->origins[i]);
    model_sum_up(m);
    return true;
}

/* A model that lacks a KV pair can still be looked at. */
static bool model_warn_missing(gq_model *m, gq_error *e) {
    gq_error why;
    return model_check_whole(&m->file, &why) || warnings_add(&m->file.warnings, e, "%s", why.text);
}

gq_model *gq_model_open(const char *path, gq_error *e) { return gq_model_open_adapted(path, NULL, e); }

gq_model *gq_model_open_adapted(const char *path, const gq_adapters *adapters, gq_error *e) {
    gq_model *m = calloc(1, sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m), NULL;
    if (input_open_adapted(&m->file, path, adapters, e) && model_warn_missing(m, e) &&
        model_fill_tensors(m, e) &&
        ((m->qat_grids = calloc(m->file.n_tensors + 1, sizeof *m->qat_grids)) ||
         gq_fail_memory(e, m->file.n_tensors * sizeof *m->qat_grids)))
        return m;
    gq_model_close(m);
    return NULL;
}

void gq_model_close(gq_model *m) {
    if (!m) return;
    model_close(&m->file);
    free(m->metadata), free(m->tensors), free(m->origins), free(m->qat_grids);
    free(m);
}

const gq_model_facts *gq_model_summary(const gq_model *m) { return &m->facts; }

const char *const *gq_model_warnings(const gq_model *m, size_t *n) {
    return warnings_texts(&m->file.warnings, n);
}

const char *gq_model_path(const gq_model *m, uint32_t shard) { return m->file.files[shard]->path; }

const gq_metadata *gq_model_metadata(const gq_model *m, size_t *n) {
    *n = m->file.n_kv;
    return m->metadata;
}

const gq_stored *gq_model_tensors(const gq_model *m, size_t *n) {
    *n = m->file.n_tensors;
    return m->tensors;
}

/* ---- finding and reading ---- */

size_t gq_model_find(const gq_model *m, const char *tensor) {
    const model_tensor *t = model_tensor_named(&m->file, tensor);
    for (size_t i = 0; t && i < m->file.n_tensors; i++)
        if (m->file.tensors[i] == t) return i;
    return SIZE_MAX;
}

size_t gq_model_find_key(const gq_model *m, const char *key) {
    const model_kv *kv = model_kv_find(m->file.kv, m->file.n_kv, key);
    return kv ? (size_t)(kv - m->file.kv) : SIZE_MAX;
}

static const model_tensor *model_range_of(const gq_model *m, size_t tensor, uint64_t first, uint64_t n,
                                          gq_error *e) {
    if (tensor >= m->file.n_tensors)
        return gq_fail_usage(e, "%s: tensor %zu does not exist: the file has %llu, counted from 0",
                             gq_model_path(m, 0), tensor, LLU(m->file.n_tensors)),
               NULL;
    const model_tensor *t = m->file.tensors[tensor];
    const uint64_t all = shape_elements(t->ne), block = t->type->block_elements;
    if (first <= all && n <= all - first && first % block == 0 && n % block == 0) return t;
    gq_fail_usage(e, "%s: tensor %s: %llu weights from %llu on: it has %llu, in blocks of %llu",
                  model_file_path(&m->file, t), t->name, LLU(n), LLU(first), LLU(all), LLU(block));
    return NULL;
}

bool gq_model_read_stored(const gq_model *m, size_t tensor, uint64_t first, uint64_t n, void *to,
                          gq_error *e) {
    const model_tensor *t = model_range_of(m, tensor, first, n, e);
    const uint64_t columns = t ? t->ne[0] : 1, column = first % columns;
    if (t && t->type->row_header_bytes && column + n > columns && (column || n % columns))
        return gq_fail_usage(
            e, "%s: tensor %s: %llu weights from %llu on: expected whole rows of %s, or a part of one",
            model_file_path(&m->file, t), t->name, LLU(n), LLU(first), t->type->name);
    return t && model_read(&m->file, t, first, n, to, e);
}

bool gq_model_read(const gq_model *m, size_t tensor, uint64_t first, uint64_t n, float *x, gq_error *e) {
    const model_tensor *t = model_range_of(m, tensor, first, n, e);
    const kernels *k = t ? strip_kernels(e) : NULL;
    if (!k) return false;
    const codec *c = &k->codecs[t->type->id];
    if (!c->decode)
        return gq_fail(e, "%s: tensor %s: no decoder for %s", model_file_path(&m->file, t), t->name,
                       t->type->name);
    uint8_t *stored = malloc((size_t)STORED_BYTES * STRIP_ELEMENTS);
    if (!stored) return gq_fail_memory(e, (size_t)STORED_BYTES * STRIP_ELEMENTS);
    bool ok = true;
    for (uint64_t at = 0; ok && at < n;) {
        strip s = strip_from(t->ne, first + at, first + (n - at < STRIP_ELEMENTS ? n : at + STRIP_ELEMENTS));
        ok = model_read(&m->file, t, s.first, s.rows * s.cols, stored, e);
        if (ok) codec_decode_rows(c, stored, t->ne[0], x + at, s.rows * s.cols);
        at += s.rows * s.cols;
    }
    free(stored);
    return ok;
}

/* ---- values ---- */

static gq_value value_of(const model_kv *kv) {
    gq_value v = {.kind = GQ_NESTED};
    int64_t number;
    if (model_kv_string(kv, &v.text, &v.length)) {
        v.kind = GQ_TEXT;
    } else if (model_kv_float(kv, &v.as_float)) {
        v.kind = GQ_FLOAT;
    } else if (kv->type == GGUF_BOOL) {
        v.kind = GQ_BOOL, v.as_bool = kv->value[0] != 0;
    } else if (model_kv_int(kv, &number)) {
        v.kind = GQ_SIGNED, v.as_signed = number;
    } else if (kv->type == GGUF_U64) { /* beyond what the signed type holds */
        v.kind = GQ_UNSIGNED, memcpy(&v.as_unsigned, kv->value, 8);
    }
    return v;
}

size_t gq_metadata_values(const gq_metadata *m, gq_value *values, size_t n) {
    const model_kv *kv = m->raw;
    model_kv element = {.key = kv->key};
    uint64_t count;
    if (!model_kv_array(kv, &element.type, &count, &element.value)) {
        if (n > 0) values[0] = value_of(kv);
        return n > 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (i == count) return i;
        element.size = gguf_value_size(element.type);
        if (element.type == GGUF_STRING) {
            uint64_t length; /* the reader has seen that the string fits */
            memcpy(&length, element.value, 8);
            element.size = 8 + length;
        }
        values[i] = value_of(&element);
        element.value += element.size; /* 0 for lists in lists, which are not looked into */
    }
    return n;
}

/* ---- memory of a program that runs the model ----
 * Estimates the memory that llama.cpp takes for a model in addition to its weights. docs/internals/mixes.md has the
 * reckoning. */

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

/* Returns the KV pair under the key if it holds a number for each layer; else NULL. */
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
