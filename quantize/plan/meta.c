/* The output's metadata: what is copied, what is set, and in which order (docs/formats.md). */
#include "quantize/plan/meta.h"
#include "gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/plan/transpose.h"

enum { MAX_TEXT = 127 }; /* bytes of the texts that describe the importance data */

/* ---- pruned layers ---- */

/* The number of layers that the model says it has; 0: unknown. */
static uint64_t block_count(const gq_plan *plan) {
    int64_t n;
    return model_fact_int(&plan->facts, "block_count", &n) && n > 0 ? (uint64_t)n : 0;
}

/* Length of the element at `at`: fixed, or a string's. The reader has checked that it is inside. */
static uint64_t element_length(uint32_t type, const uint8_t *at) {
    uint64_t n = gguf_value_size(type);
    if (type == GGUF_STRING) memcpy(&n, at, 8), n += 8;
    return n;
}

/* Copies an array with one element per layer, without those of pruned layers. */
static bool slice_array(const plan_layers *layers, uint64_t count, const model_kv *kv, gguf_header *h,
                        gq_error *e) {
    uint32_t type;
    uint64_t n, kept = 0, size = 12;
    const uint8_t *from;
    if (!model_kv_array(kv, &type, &n, &from) || n != count || type == GGUF_ARRAY)
        return gguf_header_copy(h, kv, e);
    uint8_t *value = malloc(kv->size);
    if (!value) return gq_fail_memory(e, kv->size);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = element_length(type, from);
        if (kept < layers->n && layers->kept[kept] == i) {
            memcpy(value + size, from, length);
            size += length;
            kept++;
        }
        from += length;
    }
    memcpy(value, &type, 4), memcpy(value + 4, &kept, 8);
    bool ok = gguf_header_set(h, kv->key, GGUF_ARRAY, value, size, e);
    free(value);
    return ok;
}

/* Sets the size label to the number of weights that are left: two digits at least, and T, B, M or K. */
static bool set_size_label(const gq_plan *plan, gguf_header *h, gq_error *e) {
    static const struct {
        double unit;
        char letter;
    } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    double n = 0;
    char label[32];
    int i = 0;
    for (size_t k = 0; k < plan->n_tensors; k++) n += (double)shape_elements(plan->sources[k].tensor->ne);
    while (i < 3 && n <= units[i].unit) i++;
    n /= units[i].unit;
    snprintf(label, sizeof label, "%.*f%c", n < 9.5, n, units[i].letter);
    return gguf_header_set_string(h, "general.size_label", label, e);
}

/* ---- the steps ---- */

static bool is_split_key(const char *key) {
    return !strcmp(key, "split.no") || !strcmp(key, "split.count") || !strcmp(key, "split.tensors.count") ||
           !strcmp(key, GGUF_SET_KEY);
}

/* Whether a list with as many elements as there are layers has one for each: all of the architecture's but
 * the sections of positions, and those of apertus, whose keys have no prefix. */
static bool is_of_layers(const gq_plan *plan, const char *key) {
    const char *arch = plan->facts.arch;
    size_t prefix = strlen(arch);
    if (!strncmp(key, "xielu.", 6)) return true;
    return prefix && !strncmp(key, arch, prefix) && key[prefix] == '.' &&
           strcmp(key + prefix + 1, "rope.dimension_sections") != 0;
}

/* Copies a pair, changed where layers are pruned, so that it is true of a model with fewer. */
static bool copy_one(const gq_plan *plan, uint64_t layers, const model_kv *kv, gguf_header *h, gq_error *e) {
    if (is_split_key(kv->key) || !strcmp(kv->key, GGUF_TRANSPOSED_KEY)) return true;
    if (plan->layers.n && !strcmp(kv->key, "general.size_label")) return set_size_label(plan, h, e);
    if (layers && kv->type == GGUF_ARRAY && is_of_layers(plan, kv->key))
        return slice_array(&plan->layers, layers, kv, h, e);
    return gguf_header_copy(h, kv, e);
}

static bool copy_all(const gq_plan *plan, gguf_header *h, gq_error *e) {
    uint64_t layers = plan->layers.n ? block_count(plan) : 0;
    for (uint64_t i = 0; i < plan->model.n_kv; i++)
        if (!copy_one(plan, layers, &plan->model.kv[i], h, e)) return false;
    return true;
}

static bool set_filetype(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    if (out->filetype->id >= 0)
        return gguf_header_set_u32(h, "general.file_type", (uint32_t)out->filetype->id, e);
    /* A mere copy keeps its source's file type, or has none where the source has none. */
    const model_kv *kv = model_kv_find(plan->model.kv, plan->model.n_kv, "general.file_type");
    return !kv || gguf_header_set(h, kv->key, kv->type, kv->value, kv->size, e);
}

/* Sets a text about the importance data, of at most MAX_TEXT bytes; `whole`: with its folders, else without.
 */
static bool meta_set_text(gguf_header *h, const char *key, const char *text, bool whole, gq_error *e) {
    char cut[MAX_TEXT + 1];
    const char *slash = strrchr(text, '/');
    if (!whole && slash) text = slash + 1;
    size_t n = strnlen(text, MAX_TEXT + 1);
    if (n > MAX_TEXT) /* not in the middle of a UTF-8 sequence */
        for (n = MAX_TEXT; n > 0 && (text[n] & 0xC0) == 0x80;) n--;
    memcpy(cut, text, n);
    cut[n] = 0;
    return gguf_header_set_string(h, key, cut, e);
}

static bool set_importance(const gq_plan *plan, const gq_options *options, gguf_header *h, gq_error *e) {
    const model_inputs *m = &plan->inputs;
    if (!m->n_entries) return true;
    bool whole = options->imatrix_path;
    if (!meta_set_text(h, "quantize.imatrix.file", options->imatrix, whole, e)) return false;
    if (m->dataset && !meta_set_text(h, "quantize.imatrix.dataset", m->dataset, whole, e)) return false;
    if (!gguf_header_set_u32(h, "quantize.imatrix.entries_count", (uint32_t)m->n_entries, e)) return false;
    return m->chunk_count == 0 || gguf_header_set_u32(h, "quantize.imatrix.chunks_count", m->chunk_count, e);
}

/* Sets a key that counts the layers from `first` on to `end`, where the model has it. */
static bool set_layers_of_range(const gq_plan *plan, const char *name, uint64_t first, uint64_t end,
                                gguf_header *h, gq_error *e) {
    const model_kv *kv = model_fact(&plan->facts, name);
    uint32_t left = 0;
    for (size_t i = 0; i < plan->layers.n; i++)
        left += plan->layers.kept[i] >= first && plan->layers.kept[i] < end;
    return !kv || gguf_header_set_u32(h, kv->key, left, e);
}

/* Names the layers with a recurrent mixer, where else their numbers would say which these are: such layers
 * have a tensor ssm_a. */
static bool set_recurrent_layers(const gq_plan *plan, gguf_header *h, gq_error *e) {
    static const char *const by_interval[] = {"qwen35", "qwen35moe", "qwen3next"};
    const char *const name = "attention.recurrent_layers";
    char key[sizeof plan->facts.arch + 32], tensor[64];
    uint64_t count = plan->layers.n;
    uint32_t type = GGUF_BOOL;
    bool is_meant = false;
    for (size_t i = 0; i < sizeof by_interval / sizeof *by_interval; i++)
        is_meant = is_meant || !strcmp(plan->facts.arch, by_interval[i]);
    if (!is_meant || model_fact(&plan->facts, name)) return true;
    uint8_t *value = malloc(12 + count);
    if (!value) return gq_fail_memory(e, 12 + count);
    memcpy(value, &type, 4), memcpy(value + 4, &count, 8);
    for (size_t i = 0; i < count; i++) {
        snprintf(tensor, sizeof tensor, "blk.%llu.ssm_a", (unsigned long long)plan->layers.kept[i]);
        value[12 + i] = model_tensor_named(&plan->model, tensor) != NULL;
    }
    snprintf(key, sizeof key, "%s.%s", plan->facts.arch, name);
    bool ok = gguf_header_set(h, key, GGUF_ARRAY, value, 12 + count, e);
    free(value);
    return ok;
}

/* Sets what follows from the layers' numbers, so that it is true of those that are left. */
static bool set_layer_facts(const gq_plan *plan, gguf_header *h, gq_error *e) {
    uint64_t blocks = block_count(plan);
    int64_t dense = 0, extra = 0;
    if (plan->layers.n == 0 || blocks == 0) return true;
    if (!model_fact_int(&plan->facts, "leading_dense_block_count", &dense) || dense < 0) dense = 0;
    if (!model_fact_int(&plan->facts, "nextn_predict_layers", &extra) || extra < 0 ||
        (uint64_t)extra > blocks)
        extra = 0;
    return gguf_header_set_u32(h, model_fact(&plan->facts, "block_count")->key, (uint32_t)plan->layers.n,
                               e) &&
           set_layers_of_range(plan, "leading_dense_block_count", 0, (uint64_t)dense, h, e) &&
           set_layers_of_range(plan, "nextn_predict_layers", blocks - (uint64_t)extra, UINT64_MAX, h, e) &&
           set_recurrent_layers(plan, h, e);
}

bool plan_meta_write(const gq_plan *plan, const plan_output *out, const gq_options *options, gguf_header *h,
                     gq_error *e) {
    if (!copy_all(plan, h, e) || !gguf_header_set_u32(h, "general.quantization_version", 2, e) ||
        !set_filetype(plan, out, h, e))
        return false;
    for (size_t i = 0; i < plan->overrides.n; i++) {
        const model_kv *o = &plan->overrides.items[i];
        if (!gguf_header_set(h, o->key, o->type, o->value, o->size, e)) return false;
    }
    return set_importance(plan, options, h, e) && set_layer_facts(plan, h, e) &&
           plan_transposed_write(plan, h, e);
}
