/* Opens a model: a single file, or all shards of a split one by the path of any of them. The given file is
 * read first. Its split keys say which shard of how many it is, and its name must end accordingly, because
 * the names of the others follow from it. Each of them is read and must agree with the given one. Then the
 * tensors of all shards become one list in the order of shards and offsets, the first shard's metadata become
 * the model's, names are indexed, and matrices that are stored transposed are marked. Models in memory, and
 * models that are only planned, go the same way. A single container is read in read.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/memory.h"
#include "gguf/gguf.h"

/* ---- what others may do with a model in GGUF files ---- */

static const gq_file *access_file(const model_source *m, const model_tensor *t) { return m->files[t->shard]; }

/* ---- a tensor's bytes ---- */

static bool access_read(const model_source *m, const model_tensor *t, uint64_t first, uint64_t n, void *to,
                        gq_error *e) {
    const gq_file *file = access_file(m, t);
    uint64_t at = t->offset + model_bytes(t, first), bytes = model_bytes(t, n);
    if (t->type->row_header_bytes && first % t->ne[0]) { /* the header is not before this part */
        uint64_t header = t->type->row_header_bytes,
                 row = t->offset + model_bytes(t, first - first % t->ne[0]);
        if (!gq_file_read(file, row, to, header, e)) return false;
        to = (char *)to + header, bytes -= header;
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

static uint64_t access_stored_at(const model_source *, const model_tensor *t) { return t->offset; }

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
    free(c->kv);
    free(c);
}

static const model_container gguf_access = {
    .read = access_read,
    .advise = access_advise,
    .is_cold = access_is_cold,
    .fold_content = access_fold_content,
    .mixed = access_mixed,
    .stored_at = access_stored_at,
    .close = access_close,
};

/* ---- shards of a set ---- */

/* A shard's own account of the set it belongs to. */
typedef struct split {
    const char *path; /* of the shard that says it */
    uint32_t no, count;
    int64_t tensors;
} split;

/* Reads one of the split keys. Its type must be exact, as every loader wants it. */
static bool split_key(const gguf_shard *s, const char *key, uint32_t type, int64_t *value, gq_error *e) {
    const model_kv *kv = model_kv_find(s->kv, s->n_kv, key);
    if (!kv) return gq_fail(e, "%s: a shard of a split model, but it has no key %s", s->file.path, key);
    if (kv->type != type) {
        return gq_fail(e, "%s: %s has type %s, expected %s", s->file.path, key, gguf_value_name(kv->type),
                       gguf_value_name(type));
    }
    return model_kv_int(kv, value);
}

/* Reads the split keys. A count of 0 or 1, which merging tools leave behind, means a whole model, whatever
 * the others say. */
static bool read_split(const gguf_shard *s, split *p, gq_error *e) {
    int64_t no, count;
    *p = (split){.path = s->file.path, .count = 1};
    if (!model_kv_find(s->kv, s->n_kv, "split.count")) return true;
    if (!split_key(s, "split.count", GGUF_U16, &count, e)) return false;
    if (count <= 1) return true;
    if (!split_key(s, "split.no", GGUF_U16, &no, e) ||
        !split_key(s, "split.tensors.count", GGUF_INT32, &p->tensors, e))
        return false;
    if (no >= count) {
        return gq_fail(e, "%s: split.no is %d, expected less than split.count, which is %d", s->file.path,
                       (int)no, (int)count);
    }
    p->no = (uint32_t)no, p->count = (uint32_t)count;
    return true;
}

/* "PREFIX-00001-of-00005.gguf"; malloc'ed. */
static char *shard_path(const char *prefix, size_t length, uint32_t no, uint32_t count, gq_error *e) {
    char *path;
    if (asprintf(&path, "%.*s-%05u-of-%05u.gguf", (int)length, prefix, no + 1, count) >= 0) return path;
    gq_fail_memory(e, length + 32);
    return NULL;
}

/* Finds the length of the path before "-kkkkk-of-NNNNN.gguf", which must be there. */
static bool prefix_length(const char *path, const split *p, size_t *length, gq_error *e) {
    char *suffix = shard_path("", 0, p->no, p->count, e);
    if (!suffix) return false;
    size_t n = strlen(path), m = strlen(suffix);
    bool ok = n > m && strcmp(path + n - m, suffix) == 0;
    if (ok)
        *length = n - m;
    else
        gq_fail(e, "%s: split.no %u and split.count %u in it need a file name that ends in %s", path, p->no,
                p->count, suffix);
    free(suffix);
    return ok;
}

/* Appends a shard and takes it over, except on failure. The array grows with the shards that are really
 * there, not with the number that the first one claims. */
static bool add_shard(gguf_container *m, gguf_shard *s, gq_error *e) {
    if (!memory_grow(&m->shards, &m->shards_capacity, m->n_shards + (uint64_t)1, sizeof *m->shards, e))
        return false;
    m->shards[m->n_shards++] = *s;
    *s = (gguf_shard){.file = {.fd = -1}};
    return true;
}

static bool check_sibling(const split *found, uint32_t no, const split *expected, gq_error *e) {
    if (found->count != expected->count) {
        return gq_fail(e, "%s: split.count is %u, but %u in %s", found->path, found->count, expected->count,
                       expected->path);
    }
    if (found->no != no) return gq_fail(e, "%s: split.no is %u, expected %u", found->path, found->no, no);
    if (found->tensors == expected->tensors) return true;
    return gq_fail(e, "%s: split.tensors.count is %lld, but %lld in %s", found->path,
                   (long long)found->tensors, (long long)expected->tensors, expected->path);
}

static bool open_sibling(gguf_container *m, const char *path, const split *p, gq_error *e) {
    gq_file file;
    gguf_shard s;
    split found;
    int64_t count;
    if (!gq_file_open(&file, path, e))
        return gq_fail_again(e, e, "%s (shard %u of the %u that %s needs)", gq_error_text(e), m->n_shards + 1,
                             p->count, p->path);
    if (!gguf_shard_read(&s, &file, e)) return false;
    bool ok = split_key(&s, "split.count", GGUF_U16, &count, e) && read_split(&s, &found, e) &&
              check_sibling(&found, m->n_shards, p, e) && add_shard(m, &s, e);
    gguf_shard_free(&s);
    return ok;
}

/* Adds all shards in order, `given` among them. The first one that is missing or wrong is the error. */
static bool add_split(gguf_container *m, gguf_shard *given, const char *path, const split *p, gq_error *e) {
    size_t length;
    if (!prefix_length(path, p, &length, e)) return false;
    for (uint32_t no = 0; no < p->count; no++) {
        if (no == p->no) {
            if (!add_shard(m, given, e)) return false;
            continue;
        }
        char *sibling = shard_path(path, length, no, p->count, e);
        bool ok = sibling && open_sibling(m, sibling, p, e);
        free(sibling);
        if (!ok) return false;
    }
    return true;
}

static int compare_places(const void *a, const void *b) {
    const model_tensor *x = *(model_tensor *const *)a, *y = *(model_tensor *const *)b;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* ---- matrices that are stored transposed ---- */

static bool transposed_names(const model_source *m, uint64_t *n, const uint8_t **names) {
    uint32_t type;
    return model_kv_array(model_kv_find(m->kv, m->n_kv, GGUF_TRANSPOSED_KEY), &type, n, names) &&
           type == GGUF_STRING;
}

/* Returns the tensor of the next name in a list of texts; the reader has checked that the text fits. */
static model_tensor *next_tensor(const model_source *m, const uint8_t **names) {
    char name[GGUF_MAX_NAME + 1];
    uint64_t n;
    memcpy(&n, *names, 8);
    const uint8_t *text = *names + 8;
    *names = text + n;
    if (n > GGUF_MAX_NAME) return NULL;
    memcpy(name, text, n);
    name[n] = 0;
    return strlen(name) == n ? (model_tensor *)model_tensor_named(m, name) : NULL;
}

static void mark_transposed(model_source *m) {
    uint64_t n;
    const uint8_t *names;
    for (uint64_t i = transposed_names(m, &n, &names) ? n : 0; i > 0; i--) {
        model_tensor *t = next_tensor(m, &names);
        if (t && shape_is_matrix(t->ne)) t->transposed = true;
    }
}

bool gguf_model_check_transposed(const model_source *m, gq_error *e) {
    const model_kv *kv = model_kv_find(m->kv, m->n_kv, GGUF_TRANSPOSED_KEY);
    const char *path = m->path;
    uint64_t n, marked = 0;
    const uint8_t *names;
    if (!kv) return true;
    if (!transposed_names(m, &n, &names))
        return gq_fail(e, "%s: %s is not an array of strings", path, kv->key);
    for (uint64_t i = 1; i <= n; i++) {
        const model_tensor *t = next_tensor(m, &names);
        if (!t)
            return gq_fail(e, "%s: %s: entry %llu of %llu is not the name of a tensor", path, kv->key,
                           (unsigned long long)i, (unsigned long long)n);
        if (!shape_is_matrix(t->ne))
            return gq_fail(e, "%s: %s names %s, which is not a matrix", path, kv->key, t->name);
    }
    for (uint64_t i = 0; i < m->n_tensors; i++) marked += m->tensors[i]->transposed;
    return marked == n ||
           gq_fail(e, "%s: %s has %llu name%s of %llu tensor%s", path, kv->key, (unsigned long long)n,
                   plural_suffix(n), (unsigned long long)marked, plural_suffix(marked));
}

void gguf_model_set_kv(model_source *m, model_kv *kv) {
    gguf_container *c = m->state;
    free(c->kv);
    m->kv = c->kv = kv;
}

/* ---- all shards together ---- */

/* The tensors of all shards as one list, and the metadata of the first. */
static bool gather_tensors(model_source *m, gguf_container *c, gq_error *e) {
    if (!c->shards) return gq_fail(e, "a model without a file");
    const gguf_shard *first = &c->shards[0];
    uint64_t n = 0;
    m->kv = first->kv, m->n_kv = first->n_kv, m->path = first->file.path;
    m->version = first->version, m->alignment = first->alignment;
    for (uint32_t i = 0; i < c->n_shards; i++) m->n_tensors += c->shards[i].n_tensors;
    m->tensors = malloc((m->n_tensors + 1) * sizeof *m->tensors);
    m->files = malloc(c->n_shards * sizeof *m->files);
    if (!m->tensors || !m->files) return gq_fail_memory(e, 2 * m->n_tensors * sizeof *m->tensors);
    for (uint32_t i = 0; i < c->n_shards; i++) {
        gguf_shard *s = &c->shards[i];
        m->files[m->n_files++] = &s->file;
        for (uint64_t j = 0; j < s->n_tensors; j++) {
            s->tensors[j].shard = i;
            m->tensors[n++] = &s->tensors[j];
        }
    }
    qsort(m->tensors, n, sizeof *m->tensors, compare_places);
    if (!model_index_names(m, e)) return false;
    mark_transposed(m);
    return true;
}

/* Opens the model that `file` is or belongs to, and takes `file` over. path NULL: other shards cannot be
 * found. */
static bool gguf_open_first_shard(model_source *m, gq_file *file, const char *path, gq_error *e) {
    gguf_shard given;
    split p;
    if (!gguf_shard_read(&given, file, e)) return false;
    gguf_container *c = m->state = calloc(1, sizeof *c);
    bool ok = c ? read_split(&given, &p, e) : gq_fail_memory(e, sizeof *c);
    m->container = c ? &gguf_access : NULL;
    if (ok && p.count > 1 && !path) {
        ok = gq_fail(e, "%s: shard %u of a model of %u shards, expected a whole model", p.path, p.no + 1,
                     p.count);
    }
    ok = ok && (p.count > 1 ? add_split(c, &given, path, &p, e) : add_shard(c, &given, e)) &&
         gather_tensors(m, c, e);
    if (ok && p.count != 1 && m->n_tensors != (uint64_t)p.tensors) /* a negative one is 2^63 or more */
        ok = gq_fail(e, "%s: split.tensors.count is %lld, but the shards hold %llu tensor%s", p.path,
                     (long long)p.tensors, (unsigned long long)m->n_tensors, plural_suffix(m->n_tensors));
    gguf_shard_free(&given);
    if (!ok) model_close(m);
    return ok;
}

bool gguf_model_open(model_source *m, const char *path, gq_error *e) {
    gq_file file;
    *m = (model_source){.path = NULL};
    return gq_file_open(&file, path, e) && gguf_open_first_shard(m, &file, path, e);
}

bool gguf_model_memory(model_source *m, const char *name, const void *bytes, uint64_t size, gq_error *e) {
    gq_file file;
    *m = (model_source){.path = NULL};
    return gq_file_memory(&file, name, bytes, size, NULL, e) && gguf_open_first_shard(m, &file, NULL, e);
}

bool gguf_model_planned(model_source *m, const gguf_planned *shards, uint32_t n, gq_error *e) {
    bool ok = true;
    *m = (model_source){.path = NULL};
    gguf_container *c = m->state = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c);
    m->container = &gguf_access;
    for (uint32_t i = 0; ok && i < n; i++) {
        const gguf_planned *p = &shards[i];
        gq_file file;
        gguf_shard s;
        ok = gq_file_begun(&file, p->path, p->header_data, p->header_size, p->size, e) &&
             gguf_shard_read(&s, &file, e);
        if (!ok) break;
        ok = add_shard(c, &s, e);
        gguf_shard_free(&s);
    }
    ok = ok && gather_tensors(m, c, e);
    if (!ok) model_close(m);
    return ok;
}
