/* Checksums of everything that decides the bytes of the outputs. Only where they agree is unfinished work
 * continued, and are measurements used again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/name_index.h"
#include "quantize/plan/rounding.h"

void plan_build(char to[24]) { snprintf(to, 24, "%.14s-%s", gq_version(), gq_build_id); }

/* ---- the input ---- */

bool plan_identify_input(gq_plan *plan, gq_error *e) {
    return model_fingerprint(&plan->model, &plan->identity.input, &plan->identity.content, e);
}

/* ---- settings and layout ---- */

/* Folds the settings that decide the bytes of blocks into a checksum. rounds: those of a rounding that runs
 * ahead, too. */
static uint32_t settings_digest(uint32_t sum, const gq_plan *plan, const encode_settings *settings,
                                bool rounds) {
    const rounding *r = plan->rounding;
    sum = encode_settings_digest(sum, settings);
    return rounds && rounding_runs_ahead(plan) ? checksum_add(sum, &r->digest, sizeof r->digest) : sum;
}

uint32_t plan_settings_digest(const gq_plan *plan) { return settings_digest(0, plan, &plan->settings, true); }

void plan_identify_layout(gq_plan *plan) {
    uint32_t cut[3] = {CHUNK_ELEMENTS, CHUNK_ROWS, CHUNK_BAND}, sum = checksum_add(0, cut, sizeof cut);
    for (size_t i = 0; i < plan->n_tensors; i++) sum = checksum_add_text(sum, plan->sources[i].tensor->name);
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (uint32_t s = 0; s < plan->outputs[o].n_shards; s++) {
            const plan_shard *shard = &plan->outputs[o].shards[s];
            uint64_t sizes[2] = {shard->header_size, shard->size};
            sum =
                checksum_add(checksum_add(sum, sizes, sizeof sizes), shard->header_data, shard->header_size);
        }
    plan->identity.layout = sum;
    plan->identity.options = plan_settings_digest(plan);
}

/* Finds the digest of the set that the input belongs to, where the output is a mere copy: shards of a copy
 * and of its source may be mixed. */
static bool copied_digest(const gq_plan *plan, const plan_output *out, uint64_t *digest) {
    const model_kv *kv = model_kv_find(plan->model.kv, plan->model.n_kv, GGUF_SET_KEY);
    uint32_t shard, other;
    if (!kv || kv->type != GGUF_U64 || out->n_shards != plan->model.n_files ||
        model_mixed(&plan->model, &shard, &other))
        return false;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &out->tensors[i];
        if (!plan_copies(&plan->sources[i], t) || out->places[i].shard != plan->sources[i].tensor->shard ||
            strcmp(t->name, t->source_name) != 0)
            return false;
    }
    memcpy(digest, kv->value, sizeof *digest);
    return true;
}

/* Folds what an output is made of besides weights into a checksum. Leaves out imatrix data and texts that
 * only other outputs of the run use. */
static uint32_t ways_digest(uint32_t sum, const gq_plan *plan, const plan_output *out) {
    encode_settings settings = plan->settings;
    settings.importance = 0;
    sum = settings_digest(sum, plan, &settings, plan_any_calibrated(plan, out));
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (out->tensors[i].importance == GQ_IMPORTANCE_FULL)
            sum = checksum_add(sum, &plan->sources[i].inputs_digest, sizeof plan->sources[i].inputs_digest);
    return sum;
}

uint64_t plan_set_digest(const gq_plan *plan, const plan_output *out) {
    uint64_t digest;
    if (copied_digest(plan, out, &digest)) return digest;
    uint32_t made_of = ways_digest(plan->identity.content, plan, out), sum = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &out->tensors[i];
        uint32_t place[2] = {t->to, out->places[i].shard};
        if (plan_transposes(&plan->sources[i])) sum = checksum_add_text(sum, GGUF_TRANSPOSED_KEY);
        sum = checksum_add(checksum_add_text(checksum_add_text(sum, t->name), t->source_name), place,
                           sizeof place);
    }
    return (uint64_t)made_of << 32 | sum;
}

/* ---- tensors ---- */

uint32_t digest_of_settings(const gq_plan *plan, const plan_output *out, size_t tensor,
                            const encode_settings *with, bool has_importance) {
    const plan_source *source = &plan->sources[tensor];
    const gq_tensor *t = &out->tensors[tensor];
    if (t->calibrated || plan_transposes(source) || plan_copies(source, t)) return 0;
    encode_settings settings = *with;
    settings.importance = 0; /* of the whole file; that of the tensor follows */
    uint32_t types[2] = {t->from, t->to};
    uint32_t sum = checksum_add(encode_settings_digest(0, &settings), types, sizeof types);
    sum = checksum_add(sum, source->tensor->ne, sizeof source->tensor->ne);
    if (has_importance) sum = checksum_add(sum, &source->inputs_digest, sizeof source->inputs_digest);
    return sum ? sum : 1;
}

uint32_t digest_made_by(const gq_plan *plan, const plan_output *out, size_t tensor) {
    return digest_of_settings(plan, out, tensor, &plan->settings,
                              out->tensors[tensor].importance == GQ_IMPORTANCE_FULL);
}

const uint8_t *digests_planned(const plan_output *out) {
    uint64_t at = gguf_header_value_offset(out->shards[0].header, GGUF_DIGESTS_KEY);
    return at ? out->shards[0].header_data + at + GGUF_ARRAY_HEADER : NULL;
}

const uint8_t *digests_find(const model_source *m) {
    const model_kv *kv = model_kv_find(m->kv, m->n_kv, GGUF_DIGESTS_KEY);
    uint32_t type;
    uint64_t n;
    const uint8_t *elements;
    bool fits = kv && model_kv_array(kv, &type, &n, &elements) && type == GGUF_U32 && n % 3 == 0 &&
                n / 3 == m->n_tensors;
    return fits ? elements : NULL;
}

bool digests_await_run(const gq_plan *plan, const plan_output *out) {
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (!plan_copies(&plan->sources[i], &out->tensors[i])) return true;
    return false;
}

uint32_t digest_of_sources(const gq_plan *plan, const uint32_t *sources) {
    return checksum_add(0, sources, plan->n_tensors * sizeof *sources);
}

/* Makes room for the checksum of all weights, which the run finds; a mere copy has the input's. */
static bool digests_write_source(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    const model_kv *kv = model_kv_find(plan->model.kv, plan->model.n_kv, GGUF_SOURCE_KEY);
    if (plan_removed_has(&plan->removed, GGUF_SOURCE_KEY)) return true;
    if (plan_any_calibrated(plan, out)) return gguf_header_set_u32(h, GGUF_SOURCE_KEY, 0, e);
    return !kv || digests_await_run(plan, out) || plan->layers.n ||
           gguf_header_set(h, kv->key, kv->type, kv->value, kv->size, e);
}

/* Fills the digests of a mere copy with the input's. *known: it has some. */
static bool copy_digests(const gq_plan *plan, const plan_output *out, tensor_digest *to, bool *known,
                         gq_error *e) {
    const uint8_t *from = digests_find(&plan->model);
    name_index by_name = {0};
    uint64_t i;
    *known = from && !plan->layers.n;
    if (!*known) return true;
    bool ok = name_index_all(&by_name, out->tensors, sizeof *out->tensors, plan->n_tensors, e);
    for (uint64_t k = 0; ok && k < plan->model.n_tensors; k++)
        if (name_index_find(&by_name, out->tensors, sizeof *out->tensors, plan->model.tensors[k]->name, &i))
            memcpy(&to[i], from + k * sizeof *to, sizeof *to);
    name_index_free(&by_name);
    return ok;
}

bool digests_write(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    bool known = true, ok = true;
    const uint64_t bytes = plan->n_tensors * sizeof(tensor_digest);
    tensor_digest *all = calloc(plan->n_tensors + 1, sizeof *all);
    if (!all) return gq_fail_memory(e, bytes);
    if (!digests_await_run(plan, out)) {
        ok = copy_digests(plan, out, all, &known, e);
    } else {
        uint32_t made_of = ways_digest(0, plan, out);
        for (size_t i = 0; i < plan->n_tensors; i++) {
            all[i].made_by = digest_made_by(plan, out, i);
            if (!all[i].made_by) all[i].source = made_of;
        }
    }
    ok = ok && (!known || gguf_header_set_array(h, GGUF_DIGESTS_KEY, GGUF_U32, bytes / sizeof(uint32_t), all,
                                                bytes, e));
    free(all);
    return ok && digests_write_source(plan, out, h, e);
}
