#include "quantize/plan/digests.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/index.h"
#include "quantize/model.h"
#include "quantize/plan/identity.h"

uint32_t digest_made_by(const gq_plan *plan, const plan_output *out, size_t tensor) {
    const plan_source *source = &plan->sources[tensor];
    const gq_tensor *t = &out->tensors[tensor];
    if (t->calibrated || plan_transposes(source) || plan_copies(source, t)) return 0;
    encode_settings settings = plan->settings;
    settings.importance = 0; /* of the whole file; that of the tensor follows */
    uint32_t types[2] = {t->from, t->to};
    uint32_t sum = checksum_add(encode_settings_digest(0, &settings), types, sizeof types);
    sum = checksum_add(sum, source->tensor->ne, sizeof source->tensor->ne);
    if (t->importance == GQ_IMPORTANCE_FULL)
        sum = checksum_add(sum, &source->inputs_digest, sizeof source->inputs_digest);
    return sum ? sum : 1;
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

/* Fills the digests of a mere copy with the input's. *known: it has some. */
static bool copy_digests(const gq_plan *plan, const plan_output *out, uint8_t *to, bool *known, gq_error *e) {
    const uint8_t *from = digests_find(&plan->model);
    gguf_index by_name = {0};
    uint64_t i;
    *known = from && !plan->layers.n;
    if (!*known) return true;
    bool ok = gguf_index_all(&by_name, out->tensors, sizeof *out->tensors, plan->n_tensors, e);
    for (uint64_t k = 0; ok && k < plan->model.n_tensors; k++)
        if (gguf_index_find(&by_name, out->tensors, sizeof *out->tensors, plan->model.tensors[k]->name, &i))
            memcpy(to + i * sizeof(tensor_digest), from + k * sizeof(tensor_digest), sizeof(tensor_digest));
    gguf_index_free(&by_name);
    return ok;
}

bool digests_write(const gq_plan *plan, const plan_output *out, gguf_header *h, gq_error *e) {
    uint32_t type = GGUF_U32;
    uint64_t n = plan->n_tensors * sizeof(tensor_digest) / sizeof type;
    uint64_t bytes = GGUF_ARRAY_HEAD + n * sizeof type;
    bool known = true, ok = true;
    uint8_t *array = calloc(1, bytes);
    if (!array) return gq_fail_memory(e, bytes);
    memcpy(array, &type, sizeof type);
    memcpy(array + sizeof type, &n, sizeof n);
    if (!digests_await_run(plan, out)) {
        ok = copy_digests(plan, out, array + GGUF_ARRAY_HEAD, &known, e);
    } else {
        uint32_t made_of = plan_ways_digest(plan, out);
        for (size_t i = 0; i < plan->n_tensors; i++) {
            tensor_digest d = {.made_by = digest_made_by(plan, out, i)};
            if (!d.made_by) d.source = made_of;
            memcpy(array + GGUF_ARRAY_HEAD + i * sizeof d, &d, sizeof d);
        }
    }
    ok = ok && (!known || gguf_header_set(h, GGUF_DIGESTS_KEY, GGUF_ARRAY, array, bytes, e));
    free(array);
    return ok;
}

/* Whether an earlier file has the digests that the output will have, as far as the plan knows them. */
static bool digests_agree(const gq_plan *plan, const plan_output *out, const model_source *earlier) {
    const uint8_t *theirs = digests_find(earlier);
    const uint8_t *ours = (const uint8_t *)out->shards[0].head + out->digests_at + GGUF_ARRAY_HEAD;
    if (!theirs || earlier->n_tensors != plan->n_tensors) return false;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        tensor_digest a, b;
        memcpy(&a, ours + i * sizeof a, sizeof a), memcpy(&b, theirs + i * sizeof b, sizeof b);
        if (a.made_by != b.made_by || (!a.made_by && a.source != b.source)) return false;
    }
    return true;
}

/* Whether a file of the input was modified after one of an earlier output. */
static bool digests_input_is_newer(const gq_plan *plan, const model_source *earlier) {
    for (uint32_t i = 0; i < plan->model.n_files; i++)
        for (uint32_t k = 0; k < earlier->n_files; k++) {
            const struct timespec *in = &plan->model.files[i]->modified, *out = &earlier->files[k]->modified;
            if (in->tv_sec > out->tv_sec || (in->tv_sec == out->tv_sec && in->tv_nsec > out->tv_nsec))
                return true;
        }
    return false;
}

gq_earlier gq_plan_compare_earlier(const gq_plan *plan, size_t output, const gq_model *earlier) {
    const plan_output *out = &plan->outputs[output];
    if (out->digests_at && !digests_agree(plan, out, &earlier->file)) return GQ_EARLIER_OTHER;
    return digests_input_is_newer(plan, &earlier->file) ? GQ_EARLIER_IN_DOUBT : GQ_EARLIER_SAME;
}
