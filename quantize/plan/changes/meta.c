/* The output's metadata: what is copied, what is set, and in which order (docs/internals/formats.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/plan/rounding.h"

enum { MAX_TEXT = 127 }; /* bytes of the texts that describe the imatrix */

/* ---- the steps ---- */

/* Counts the weights that are left. *experts: the mean number of a tensor's experts, of which each then
 * counts once; 0: all count, as where layers were pruned by their numbers. */
static double count_weights(const gq_plan *plan, uint64_t *experts) {
    double all = 0, one_each = 0;
    uint64_t n_experts = 0, n_tensors = 0;
    for (size_t k = 0; k < plan->n_tensors; k++) {
        const model_tensor *t = plan->sources[k].tensor;
        double n = (double)shape_elements(t->ne);
        bool is_experts = strstr(t->name, "_exps.") && t->ne[2] > 1;
        all += n, one_each += is_experts ? n / (double)t->ne[2] : n;
        if (is_experts) n_experts += t->ne[2], n_tensors++;
    }
    bool has_mtp_alone = plan->layers.no_mtp || plan->layers.mtp_only; /* or none of these */
    *experts = has_mtp_alone && n_tensors ? n_experts / n_tensors : 0;
    return *experts ? one_each : all;
}

/* Sets the size label to the number of weights that are left: two digits at least, and T, B, M or K. */
static bool set_size_label(const gq_plan *plan, gguf_header *h, gq_error *e) {
    static const struct {
        double unit;
        char letter;
    } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    uint64_t experts;
    double n = count_weights(plan, &experts);
    char label[48], times[24] = "";
    int i = 0;
    if (experts) snprintf(times, sizeof times, "%llux", LLU(experts));
    while (i < 3 && n <= units[i].unit) i++;
    n /= units[i].unit;
    snprintf(label, sizeof label, "%s%.*f%c", times, n < 9.5, n, units[i].letter);
    return gguf_header_set_string(h, "general.size_label", label, e);
}

static bool is_split_key(const char *key) {
    return !strcmp(key, "split.no") || !strcmp(key, "split.count") || !strcmp(key, "split.tensors.count") ||
           !strcmp(key, GGUF_SET_KEY);
}

/* Copies a KV pair, changed where layers are pruned, so that it is true of a model with fewer. */
static bool copy_one(const gq_plan *plan, const model_kv *kv, gguf_header *h, gq_error *e) {
    if (is_split_key(kv->key) || !strcmp(kv->key, GGUF_TRANSPOSED_KEY) ||
        !strcmp(kv->key, GGUF_DIGESTS_KEY) || !strcmp(kv->key, GGUF_SOURCE_KEY))
        return true;
    if ((plan->layers.n || plan->layers.mtp_only) && !strcmp(kv->key, "general.size_label"))
        return set_size_label(plan, h, e);
    return plan_layer_key_copy(plan, kv, h, e);
}

static bool copy_all(const gq_plan *plan, gguf_header *h, gq_error *e) {
    for (uint64_t i = 0; i < plan->model.n_kv; i++)
        if (!(plan->removed.kv && plan->removed.kv[i]) && !copy_one(plan, &plan->model.kv[i], h, e))
            return false;
    return true;
}

static bool set_filetype(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    if (plan->model.version == 0 && model_kv_find(plan->model.kv, plan->model.n_kv, "adapter.type"))
        return true; /* llama.cpp's converter says nothing of an adapter's */
    if (out->filetype->id >= 0)
        return gguf_header_set_u32(h, "general.file_type", (uint32_t)out->filetype->id, e);
    /* A mere copy keeps its source's file type, or has none where the source has none. */
    const model_kv *kv = model_kv_find(plan->model.kv, plan->model.n_kv, "general.file_type");
    return !kv || gguf_header_set(h, kv->key, kv->type, kv->value, kv->size, e);
}

/* Sets a text about the imatrix, of at most MAX_TEXT bytes; `whole`: with its folders, else without. */
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

/* Writes the key that names the output's transposed tensors, if there are any. */
static bool set_transposed(const gq_plan *plan, gguf_header *h, gq_error *e) {
    const char **names = calloc(plan->n_tensors + 1, sizeof *names);
    uint64_t n = 0;
    if (!names) return gq_fail_memory(e, plan->n_tensors * sizeof *names);
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (plan->sources[i].transposed) names[n++] = plan->sources[i].name;
    bool ok = !n || gguf_header_set_texts(h, GGUF_TRANSPOSED_KEY, names, n, e);
    free((void *)names);
    return ok;
}

bool plan_meta_write(const gq_plan *plan, const plan_output *out, const gq_options *options, gguf_header *h,
                     gq_error *e) {
    if (!copy_all(plan, h, e) || !gguf_header_set_u32(h, "general.quantization_version", 2, e) ||
        !set_filetype(plan, out, h, e) || !plan_layer_lists_write(plan, h, e))
        return false;
    for (size_t i = 0; i < plan->overrides.n; i++) {
        const model_kv *o = &plan->overrides.items[i];
        if (!gguf_header_set(h, o->key, o->type, o->value, o->size, e)) return false;
    }
    const rounding_kind *k = plan->rounding->kind;
    if (!set_importance(plan, options, h, e) || (k->describe && !k->describe(plan, out, h, e)) ||
        !plan_layer_count_write(plan, h, e) || !set_transposed(plan, h, e))
        return false;
    plan_removed_apply(&plan->removed, &plan->overrides, h);
    return options->no_digests || plan_removed_has(&plan->removed, GGUF_DIGESTS_KEY) ||
           digests_write(plan, out, h, e);
}
