/* What decides the bytes of the outputs, as a few checksums: unfinished work is continued, and measurements
 * are used again, only where they agree. */
#include "quantize/plan/identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "quantize/plan/calibration.h"

enum {
    /* Of the weights so much is read: every part of a large model is looked at, and 4 MiB cost nothing. */
    SAMPLES = 1024,
    SAMPLE_BYTES = 4096,
};

static uint32_t crc(uint32_t sum, const void *bytes, size_t n) {
    return (uint32_t)crc32_z(sum, (const Bytef *)bytes, n);
}

static uint32_t crc_text(uint32_t sum, const char *text) { return crc(sum, text, strlen(text) + 1); }

void plan_build(char to[24]) { snprintf(to, 24, "%.14s-%s", gq_version(), gq_build_id); }

/* ---- the input ---- */

/* Pieces of a tensor from its first byte to its last, one alone from the middle. With `ahead` they are only
 * asked for, so that the disk can fetch all of them at once. */
static bool sample_tensor(const gguf_model *m, const gguf_tensor *t, uint64_t pieces, bool ahead,
                          uint32_t *content, gq_error *e) {
    const gq_file *f = &m->shards[t->shard].file;
    uint8_t bytes[SAMPLE_BYTES];
    size_t n = t->size < SAMPLE_BYTES ? (size_t)t->size : SAMPLE_BYTES;
    uint64_t room = t->size - n, enough = t->size / SAMPLE_BYTES + 1;
    if (pieces > enough) pieces = enough;
    for (uint64_t i = 0, gaps = pieces - 1; i < pieces; i++) {
        uint64_t at = t->offset + (gaps ? room / gaps * i + room % gaps * i / gaps : room / 2);
        if (ahead) {
            if (f->fd >= 0) posix_fadvise(f->fd, (off_t)at, (off_t)n, POSIX_FADV_WILLNEED);
            continue;
        }
        if (!gq_file_read(f, at, bytes, n, e)) return false;
        *content = crc(*content, bytes, n);
    }
    return true;
}

static bool sample_weights(const gguf_model *m, uint32_t *content, gq_error *e) {
    uint64_t n = m->n_tensors;
    uint64_t step = n / SAMPLES + 1, pieces = n > 0 && n < SAMPLES ? SAMPLES / n : 1;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < n; i += step)
            if (!sample_tensor(m, m->tensors[i], pieces, pass == 0, content, e)) return false;
    return true;
}

static uint32_t crc_header(uint32_t sum, const gguf_shard *s) {
    uint64_t facts[4] = {s->file.size, s->data_offset, s->n_kv, s->n_tensors};
    sum = crc(sum, facts, sizeof facts);
    for (uint64_t k = 0; k < s->n_kv; k++) {
        sum = crc_text(sum, s->kv[k].key);
        sum = crc(sum, &s->kv[k].type, sizeof s->kv[k].type);
        sum = crc(sum, s->kv[k].value, s->kv[k].size);
    }
    for (uint64_t k = 0; k < s->n_tensors; k++) {
        const gguf_tensor *t = &s->tensors[k];
        uint64_t place[6] = {t->ne[0], t->ne[1], t->ne[2], t->ne[3], t->type->id, t->offset};
        sum = crc_text(sum, t->name);
        sum = crc(sum, place, sizeof place);
    }
    return sum;
}

bool plan_identify_model(const gguf_model *m, uint32_t *times, uint32_t *content, gq_error *e) {
    for (uint32_t i = 0; i < m->n_shards; i++) {
        const struct timespec *modified = &m->shards[i].file.modified;
        uint64_t time[2] = {(uint64_t)modified->tv_sec, (uint64_t)modified->tv_nsec};
        *times = crc(*times, time, sizeof time);
        *content = crc_header(*content, &m->shards[i]);
    }
    return sample_weights(m, content, e);
}

bool plan_identify_input(gq_plan *plan, gq_error *e) {
    return plan_identify_model(&plan->model, &plan->identity.input, &plan->identity.content, e);
}

/* ---- settings and layout ---- */

/* What decides the bytes of blocks. */
static uint32_t settings_digest(uint32_t sum, const encode_settings *settings, const plan_calibration *c) {
    sum = encode_settings_digest(sum, settings);
    return c ? crc(sum, &c->digest, sizeof c->digest) : sum;
}

uint32_t plan_settings_digest(const gq_plan *plan) {
    return settings_digest(0, &plan->settings, plan->calibration);
}

void plan_identify_layout(gq_plan *plan) {
    uint32_t cut[3] = {CHUNK_ELEMENTS, CHUNK_ROWS, CHUNK_BAND}, sum = crc(0, cut, sizeof cut);
    for (size_t i = 0; i < plan->n_tensors; i++) sum = crc_text(sum, plan->sources[i].tensor->name);
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (uint32_t s = 0; s < plan->outputs[o].n_shards; s++) {
            const plan_shard *shard = &plan->outputs[o].shards[s];
            uint64_t sizes[2] = {shard->head_size, shard->size};
            sum = crc(crc(sum, sizes, sizeof sizes), shard->head, shard->head_size);
        }
    plan->identity.layout = sum;
    plan->identity.options = plan_settings_digest(plan);
}

/* The set that a copy is one of: where nothing changes, shards of the copy and of its source may be mixed. */
static bool copied_digest(const gq_plan *plan, const plan_output *out, uint64_t *digest) {
    const gguf_kv *kv = gguf_find(plan->model.kv, plan->model.n_kv, GGUF_SET_KEY);
    uint32_t shard, other;
    if (!kv || kv->type != GGUF_U64 || out->n_shards != plan->model.n_shards ||
        gguf_model_mixed(&plan->model, &shard, &other))
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

static bool any_calibrated(const gq_plan *plan, const plan_output *out) {
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (out->tensors[i].calibrated) return true;
    return false;
}

uint64_t plan_set_digest(const gq_plan *plan, const plan_output *out) {
    uint64_t digest;
    if (copied_digest(plan, out, &digest)) return digest;
    /* Not of importance data and texts that only other outputs of the run use. */
    encode_settings settings = plan->settings;
    settings.importance = 0;
    const plan_calibration *c = any_calibrated(plan, out) ? plan->calibration : NULL;
    uint32_t made_of = settings_digest(plan->identity.content, &settings, c), sum = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const gq_tensor *t = &out->tensors[i];
        uint32_t place[2] = {t->to, out->places[i].shard};
        if (plan_transposes(&plan->sources[i])) sum = crc_text(sum, GGUF_TRANSPOSED_KEY);
        if (t->importance == GQ_IMPORTANCE_FULL)
            made_of = crc(made_of, &plan->sources[i].inputs_digest, sizeof plan->sources[i].inputs_digest);
        sum = crc(crc_text(crc_text(sum, t->name), t->source_name), place, sizeof place);
    }
    return (uint64_t)made_of << 32 | sum;
}
