#include "gguf/access.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "gguf/read.h"
#include "model/sample.h"
#include "model/value.h"

static const gq_file *access_file(const model_source *m, const model_tensor *t) { return m->files[t->shard]; }

/* ---- a tensor's bytes ---- */

static bool access_read(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n, void *to,
                        gq_error *e) {
    const gq_file *file = access_file(m, t);
    uint64_t at = t->offset + model_bytes(t, first), bytes = model_bytes(t, n);
    if (t->type->head_bytes && first % t->ne[0]) { /* the head is not before this part */
        uint64_t head = t->type->head_bytes, row = t->offset + model_bytes(t, first - first % t->ne[0]);
        if (!gq_file_read(file, row, to, head, e)) return false;
        to = (char *)to + head, bytes -= head;
    }
    return gq_file_read(file, at, to, bytes, e);
}

static void access_advise(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n,
                          model_advice advice) {
    uint64_t at = t->offset + model_bytes(t, first), bytes = model_bytes(t, n);
    if (advice == MODEL_WILL_NEED)
        gq_file_will_need(access_file(m, t), at, bytes);
    else
        gq_file_dont_need(access_file(m, t), at, bytes);
}

static bool access_is_cold(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n) {
    return gq_file_is_cold(access_file(m, t), t->offset + model_bytes(t, first), model_bytes(t, n));
}

static uint64_t access_stored_at(const model_source *m, const model_tensor *t) {
    (void)m;
    return t->offset;
}

/* ---- what the files hold, as a checksum ---- */

static sample_range access_range(const void *user, uint64_t i) {
    const model_source *m = user;
    const model_tensor *t = m->tensors[i];
    return (sample_range){access_file(m, t), t->offset, t->size};
}

static uint32_t crc_header(uint32_t sum, const gguf_shard *s) {
    uint64_t facts[4] = {s->file.size, s->data_offset, s->n_kv, s->n_tensors};
    sum = checksum_add(sum, facts, sizeof facts);
    for (uint64_t k = 0; k < s->n_kv; k++) {
        sum = checksum_add_text(sum, s->kv[k].key);
        sum = checksum_add(sum, &s->kv[k].type, sizeof s->kv[k].type);
        sum = checksum_add(sum, s->kv[k].value, s->kv[k].size);
    }
    for (uint64_t k = 0; k < s->n_tensors; k++) {
        const model_tensor *t = &s->tensors[k];
        uint64_t place[6] = {t->ne[0], t->ne[1], t->ne[2], t->ne[3], t->type->id, t->offset};
        sum = checksum_add_text(sum, t->name);
        sum = checksum_add(sum, place, sizeof place);
    }
    return sum;
}

static bool access_fold_content(const model_source *m, uint32_t *content, gq_error *e) {
    const gguf_container *c = gguf_container_of(m);
    for (uint32_t i = 0; i < c->n_shards; i++) *content = crc_header(*content, &c->shards[i]);
    return sample_fold(m->n_tensors, access_range, m, content, e);
}

/* ---- shards of two sets ---- */

static bool access_mixed(const model_source *m, uint32_t *shard, uint32_t *other) {
    const gguf_container *c = gguf_container_of(m);
    const model_kv *first = NULL;
    for (uint32_t i = 0; i < c->n_shards; i++) {
        const model_kv *kv = model_kv_find(c->shards[i].kv, c->shards[i].n_kv, GGUF_SET_KEY);
        if (!kv) continue;
        if (!first) {
            first = kv, *other = i;
        } else if (kv->type != first->type || kv->size != first->size ||
                   memcmp(kv->value, first->value, kv->size) != 0) {
            *shard = i;
            return true;
        }
    }
    return false;
}

static void access_close(void *state) {
    gguf_container *c = state;
    for (uint32_t i = 0; i < c->n_shards; i++) gguf_shard_free(&c->shards[i]);
    free(c->shards);
    free(c);
}

const model_container gguf_access = {
    .read = access_read,
    .advise = access_advise,
    .is_cold = access_is_cold,
    .fold_content = access_fold_content,
    .mixed = access_mixed,
    .stored_at = access_stored_at,
    .close = access_close,
};
