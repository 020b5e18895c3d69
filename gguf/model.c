#include "gguf/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "gguf/scales.h"

/* ---- tensors ---- */

static int model_compare_names(const void *a, const void *b) {
    return strcmp((*(model_tensor *const *)a)->name, (*(model_tensor *const *)b)->name);
}

bool model_index_names(model_source *m, gq_error *e) {
    m->by_name = malloc((m->n_tensors + 1) * sizeof *m->by_name);
    if (!m->by_name) return gq_fail_memory(e, m->n_tensors * sizeof *m->by_name);
    if (m->n_tensors) memcpy(m->by_name, m->tensors, m->n_tensors * sizeof *m->by_name);
    qsort(m->by_name, m->n_tensors, sizeof *m->by_name, model_compare_names);
    for (uint64_t i = 1; i < m->n_tensors; i++) {
        const model_tensor *a = m->by_name[i - 1], *b = m->by_name[i];
        if (strcmp(a->name, b->name) == 0)
            return gq_fail(e, "%s: tensor '%s' is also in %s", m->files[b->shard]->path, b->name,
                           m->files[a->shard]->path);
    }
    return true;
}

uint64_t model_tensor_index(const model_source *m, const char *name) {
    const model_tensor wanted = {.name = name}, *key = &wanted;
    model_tensor **found =
        m->n_tensors ? bsearch(&key, m->by_name, m->n_tensors, sizeof *m->by_name, model_compare_names)
                     : NULL;
    return found ? (uint64_t)(found - m->by_name) : m->n_tensors;
}

const model_tensor *model_tensor_named(const model_source *m, const char *name) {
    uint64_t at = model_tensor_index(m, name);
    return at < m->n_tensors ? m->by_name[at] : NULL;
}

const char *model_file_path(const model_source *m, const model_tensor *t) { return m->files[t->shard]->path; }

bool model_read(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n, void *to,
                gq_error *e) {
    if (!m->container->read(m, t, first, n, to, e)) return false;
    if (m->scales) model_scales_apply(m->scales, t, first, n, to);
    return true;
}

void model_advise(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n,
                  model_advice advice) {
    if (m->container->advise) m->container->advise(m, t, first, n, advice);
}

bool model_is_cold(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n) {
    return m->container->is_cold && m->container->is_cold(m, t, first, n);
}

uint64_t model_stored_at(const model_source *m, const model_tensor *t) {
    return m->container->stored_at ? m->container->stored_at(m, t) : t->offset;
}

/* ---- files ---- */

uint64_t model_file_bytes(const model_source *m) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->n_files; i++) bytes += m->files[i]->size;
    return bytes;
}

bool model_fingerprint(const model_source *m, uint32_t *times, uint32_t *content, gq_error *e) {
    for (uint32_t i = 0; i < m->n_files; i++) {
        const struct timespec *modified = &m->files[i]->modified;
        if (model_file_is_text(m->files[i])) continue;
        uint64_t time[2] = {(uint64_t)modified->tv_sec, (uint64_t)modified->tv_nsec};
        *times = checksum_add(*times, time, sizeof time);
    }
    return m->container->fold_content(m, content, e);
}

bool model_unchanged(const model_source *m, gq_error *e) {
    for (uint32_t i = 0; i < m->n_files; i++)
        if (!gq_file_unchanged(m->files[i], e)) return false;
    return true;
}

bool model_has_file(const model_source *m, uint64_t device, uint64_t inode) {
    for (uint32_t i = 0; i < m->n_files; i++) {
        const gq_file *f = m->files[i];
        if (!f->bytes && f->device == device && f->inode == inode) return true;
    }
    return false;
}

bool model_mixed(const model_source *m, uint32_t *shard, uint32_t *other) {
    return m->container->mixed && m->container->mixed(m, shard, other);
}

bool model_check_whole(const model_source *m, gq_error *e) {
    return !m->missing_key || gq_fail_remedy(e, GQ_REMEDY_SET_METADATA, "%s: %s; %s has to be set", m->path,
                                             m->missing_why, m->missing_key);
}

void model_close(model_source *m) {
    if (m->container) m->container->close(m->state);
    free(m->tensors);
    free(m->by_name);
    free(m->files);
    warnings_free(&m->warnings);
    *m = (model_source){.path = NULL};
}

/* ---- a sample of what files hold ---- */

enum {
    SAMPLES = 1024,
    SAMPLE_BYTES = 4096,
};

/* Pieces of a range from its first byte to its last, one alone from the middle. With `ahead` they are only
 * asked for, so that the disk can fetch all of them at once. */
static bool sample_pieces(const sample_range *r, uint64_t pieces, bool ahead, uint32_t *content,
                          gq_error *e) {
    uint8_t bytes[SAMPLE_BYTES];
    size_t n = (size_t)min(r->size, SAMPLE_BYTES);
    uint64_t room = r->size - n;
    pieces = min(pieces, r->size / SAMPLE_BYTES + 1);
    for (uint64_t i = 0, gaps = pieces - 1; i < pieces; i++) {
        uint64_t at = r->offset + (gaps ? room / gaps * i + room % gaps * i / gaps : room / 2);
        if (ahead) {
            gq_file_will_need(r->file, at, n);
            continue;
        }
        if (!gq_file_read(r->file, at, bytes, n, e)) return false;
        *content = checksum_add(*content, bytes, n);
    }
    return true;
}

bool sample_fold(uint64_t n, sample_range (*range_of)(const void *user, uint64_t i), const void *user,
                 uint32_t *content, gq_error *e) {
    uint64_t step = n / SAMPLES + 1, pieces = n > 0 && n < SAMPLES ? SAMPLES / n : 1;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < n; i += step) {
            sample_range r = range_of(user, i);
            if (!sample_pieces(&r, pieces, pass == 0, content, e)) return false;
        }
    return true;
}

/* ---- values of metadata ---- */

static const struct {
    const char *name;
    uint32_t size; /* bytes; 0: varies */
} value_types[GGUF_VALUE_TYPES] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_INT8] = {"i8", 1},   [GGUF_U16] = {"u16", 2},
    [GGUF_INT16] = {"i16", 2},   [GGUF_U32] = {"u32", 4},   [GGUF_INT32] = {"i32", 4},
    [GGUF_FLOAT32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_INT64] = {"i64", 8},
    [GGUF_FLOAT64] = {"f64", 8},
};

const char *gguf_value_name(uint32_t type) {
    return type < GGUF_VALUE_TYPES ? value_types[type].name : "unknown";
}
uint32_t gguf_value_size(uint32_t type) { return type < GGUF_VALUE_TYPES ? value_types[type].size : 0; }

bool gguf_value_holds(uint32_t type, bool negative, uint64_t magnitude) {
    bool is_signed = type == GGUF_INT8 || type == GGUF_INT16 || type == GGUF_INT32 || type == GGUF_INT64;
    bool is_unsigned = type == GGUF_U8 || type == GGUF_U16 || type == GGUF_U32 || type == GGUF_U64;
    if (!is_signed && !is_unsigned) return false;
    uint64_t most = UINT64_MAX >> (64 - 8 * gguf_value_size(type) + is_signed);
    return magnitude <= (!negative ? most : is_signed ? most + 1 : 0);
}

const model_kv *model_kv_find(const model_kv *kv, uint64_t n, const char *key) {
    for (uint64_t i = 0; i < n; i++)
        if (strcmp(kv[i].key, key) == 0) return &kv[i];
    return NULL;
}

bool model_kv_int(const model_kv *kv, int64_t *value) {
    if (!kv || kv->size > 8) return false;
    uint64_t bits = 0;
    memcpy(&bits, kv->value, kv->size);
    switch (kv->type) {
    case GGUF_INT8:
        *value = (int8_t)bits;
        return true;
    case GGUF_INT16:
        *value = (int16_t)bits;
        return true;
    case GGUF_INT32:
        *value = (int32_t)bits;
        return true;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_INT64:
        *value = (int64_t)bits;
        return true;
    case GGUF_U64:
        *value = (int64_t)bits;
        return bits <= INT64_MAX;
    default:
        return false;
    }
}

bool model_kv_float(const model_kv *kv, double *value) {
    float single;
    if (kv && kv->type == GGUF_FLOAT64) {
        memcpy(value, kv->value, sizeof *value);
        return true;
    }
    if (!kv || kv->type != GGUF_FLOAT32) return false;
    memcpy(&single, kv->value, sizeof single);
    *value = single;
    return true;
}

bool model_kv_string(const model_kv *kv, const char **text, uint64_t *length) {
    if (!kv || kv->type != GGUF_STRING) return false;
    memcpy(length, kv->value, sizeof *length);
    *text = (const char *)kv->value + GGUF_STRING_HEADER;
    return true;
}

bool model_kv_is_text(const model_kv *kv, const char *text) {
    const char *found;
    uint64_t n;
    return model_kv_string(kv, &found, &n) && n == strlen(text) && !memcmp(found, text, n);
}

bool model_kv_array(const model_kv *kv, uint32_t *element_type, uint64_t *count, const uint8_t **elements) {
    if (!kv || kv->type != GGUF_ARRAY) return false;
    memcpy(element_type, kv->value, sizeof *element_type);
    memcpy(count, kv->value + sizeof *element_type, sizeof *count);
    *elements = kv->value + GGUF_ARRAY_HEADER;
    return true;
}
