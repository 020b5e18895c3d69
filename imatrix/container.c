/* The GGUF format of an imatrix (llama.cpp's tools/imatrix). An entry is two or three tensors that share a
 * weight's name and end in .in_sum2 (sums of squares), .counts, and where it is there .in_sum (plain sums).
 * Reading sorts all tensors with such an ending by the name before it, so that those of an entry stand side
 * by side, and ignores the others. Numbers of elements are checked and shapes are not: each count belongs to
 * the same number of sums. The keys imatrix.* are for reports only, so a strange one is worth a warning.
 * Writing converts data that count calls into tokens by the chunk size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "imatrix/imatrix.h"

enum { SUMS, COUNTS, ACTIVATIONS, KINDS };
static const char *const suffixes[KINDS] = {".in_sum2", ".counts", ".in_sum"};

#define KEY_DATASETS "imatrix.datasets"
#define KEY_CHUNK_COUNT "imatrix.chunk_count"
#define KEY_CHUNK_SIZE "imatrix.chunk_size"

/* ---- reading ---- */

/* A tensor that belongs to an entry: the entry's name is the first `length` bytes of its own. */
typedef struct container_tensor {
    const model_tensor *tensor;
    size_t length;
    int kind;
} container_tensor;

static int compare_base(const void *x, const void *y) {
    const container_tensor *a = x, *b = y;
    size_t n = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->tensor->name, b->tensor->name, n);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Fills tensors[] with the tensors of entries, those of an entry side by side, entries by name. Returns their
 * number. */
static size_t container_collect(const gguf_shard *s, container_tensor *tensors) {
    size_t n = 0;
    for (uint64_t i = 0; i < s->n_tensors; i++) {
        const char *name = s->tensors[i].name;
        size_t length = strlen(name);
        for (int kind = 0; kind < KINDS; kind++) {
            size_t suffix = strlen(suffixes[kind]);
            if (length < suffix || strcmp(name + length - suffix, suffixes[kind]) != 0) continue;
            tensors[n++] = (container_tensor){&s->tensors[i], length - suffix, kind};
        }
    }
    qsort(tensors, n, sizeof *tensors, compare_base);
    return n;
}

static uint64_t container_tensor_elements(const model_tensor *t) { return t->size / sizeof(float); }

/* t[SUMS..ACTIVATIONS]: the entry's tensors, NULL where there is none. */
static bool check_shapes(const char *path, const char *name, const model_tensor *const t[KINDS],
                         gq_error *e) {
    for (int kind = SUMS; kind <= COUNTS; kind++)
        if (!t[kind])
            return gq_fail(e, "%s: entry '%s' has no tensor '%s%s'", path, name, name, suffixes[kind]);
    for (int kind = 0; kind < KINDS; kind++)
        if (t[kind] && t[kind]->type->id != GGUF_F32)
            return gq_fail(e, "%s: tensor '%s' has type %s, expected F32", path, t[kind]->name,
                           t[kind]->type->name);
    uint64_t n = container_tensor_elements(t[SUMS]), counts = container_tensor_elements(t[COUNTS]);
    if (n == 0 || counts == 0 || n % counts != 0)
        return gq_fail(
            e,
            "%s: entry '%s' has %llu sums and %llu counts, expected the same number of sums for each count",
            path, name, (unsigned long long)n, (unsigned long long)counts);
    if (t[ACTIVATIONS] && container_tensor_elements(t[ACTIVATIONS]) != n)
        return gq_fail(e, "%s: entry '%s' has %llu sums of squares, but %llu plain sums", path, name,
                       (unsigned long long)n, (unsigned long long)container_tensor_elements(t[ACTIVATIONS]));
    return true;
}

static bool container_read_entry(imatrix *im, const gq_file *file, const container_tensor *tensors, size_t n,
                                 gq_error *e) {
    const model_tensor *t[KINDS] = {0};
    for (size_t i = 0; i < n; i++) t[tensors[i].kind] = tensors[i].tensor;
    if (tensors->length == 0)
        return gq_fail(e, "%s: a tensor's name is only '%s', without the name of a weight", file->path,
                       tensors->tensor->name);
    char name[GGUF_MAX_NAME + 1] = {0};
    memcpy(name, tensors->tensor->name, tensors->length);
    if (!check_shapes(file->path, name, t, e)) return false;
    imatrix_entry *entry = &im->entries[im->n_entries];
    if (!imatrix_entry_new(entry, name, tensors->length, container_tensor_elements(t[SUMS]),
                           container_tensor_elements(t[COUNTS]), t[ACTIVATIONS], e))
        return false;
    im->n_entries++;
    float *to[KINDS] = {entry->sums, entry->counts, entry->activations};
    for (int kind = 0; kind < KINDS; kind++)
        if (t[kind] && !gq_file_read(file, t[kind]->offset, to[kind], t[kind]->size, e)) return false;
    imatrix_count_unseen(entry);
    return true;
}

static bool read_entries(imatrix *im, const gguf_shard *s, const container_tensor *tensors, size_t n,
                         gq_error *e) {
    uint64_t entries = 0;
    for (size_t i = 0; i < n; i++) entries += i == 0 || compare_base(&tensors[i - 1], &tensors[i]) != 0;
    if (entries == 0)
        return gq_fail(e, "%s: not an imatrix: none of its %llu tensors has a name that ends in %s or %s",
                       s->file.path, (unsigned long long)s->n_tensors, suffixes[SUMS], suffixes[COUNTS]);
    if (entries > IMATRIX_MAX_ENTRIES)
        return gq_fail(e, "%s: %llu entries, expected at most %d", s->file.path, (unsigned long long)entries,
                       IMATRIX_MAX_ENTRIES);
    if (!imatrix_reserve(im, entries, e)) return false;
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && compare_base(&tensors[i], &tensors[next]) == 0;) next++;
        if (!container_read_entry(im, &s->file, tensors + i, next - i, e)) return false;
    }
    return true;
}

/* Warns about matrices with sums although no token was counted. They get importance 1, whatever their sums
 * are. */
static bool warn_contradictions(imatrix *im, const char *path, gq_error *e) {
    uint64_t matrices = 0;
    const char *first = NULL;
    for (uint64_t i = 0; i < im->n_entries; i++) {
        const imatrix_entry *x = &im->entries[i];
        uint64_t w = x->n_values / x->n_counts;
        for (uint64_t j = 0; x->n_unseen && j < x->n_counts; j++) {
            if (x->counts[j] != 0) continue;
            uint64_t k = 0;
            while (k < w && x->sums[j * w + k] == 0) k++;
            if (k == w) continue;
            if (!first) first = x->name;
            matrices++;
        }
    }
    return matrices == 0 || imatrix_warn(im, e,
                                         "%s: entry '%s' has a count of 0, but sums that are not 0 (%llu "
                                         "such matrices in the file); importance 1 is used for these",
                                         path, first, (unsigned long long)matrices);
}

/* The keys are for reports only, so a strange one is worth a warning and no more. */
static bool container_read_number(imatrix *im, const gguf_shard *s, const char *key, uint32_t *to,
                                  gq_error *e) {
    const model_kv *kv = model_kv_find(s->kv, s->n_kv, key);
    int64_t value;
    if (kv && model_kv_int(kv, &value) && value >= 0 && value <= UINT32_MAX) {
        *to = (uint32_t)value;
        return true;
    }
    return imatrix_warn(im, e, "%s: %s is %s", s->file.path, key, kv ? "not a 32-bit count" : "missing");
}

static bool read_datasets(imatrix *im, const gguf_shard *s, gq_error *e) {
    const model_kv *kv = model_kv_find(s->kv, s->n_kv, KEY_DATASETS);
    uint32_t type;
    uint64_t count;
    const uint8_t *at;
    if (!kv || !model_kv_array(kv, &type, &count, &at) || (type != GGUF_STRING && count))
        return imatrix_warn(im, e, "%s: %s is %s", s->file.path, KEY_DATASETS,
                            kv ? "not an array of strings" : "missing");
    for (uint64_t i = 0; i < count && i < IMATRIX_MAX_DATASETS; i++) {
        uint64_t length; /* the reader has checked that it lies inside the value */
        memcpy(&length, at, sizeof length);
        if (!imatrix_add_dataset(im, (const char *)at + sizeof length, length, e)) return false;
        at += sizeof length + length;
    }
    return true;
}

bool imatrix_read_gguf(imatrix *im, gq_file *file, gq_error *e) {
    gguf_shard s;
    if (!gguf_shard_read(&s, file, e)) return false;
    uint64_t bytes = s.n_tensors * sizeof(container_tensor);
    container_tensor *tensors = malloc(bytes ? bytes : 1);
    bool ok = tensors || gq_fail_memory(e, bytes);
    ok = ok && read_entries(im, &s, tensors, container_collect(&s, tensors), e) &&
         warn_contradictions(im, s.file.path, e) && read_datasets(im, &s, e) &&
         container_read_number(im, &s, KEY_CHUNK_COUNT, &im->chunk_count, e) &&
         container_read_number(im, &s, KEY_CHUNK_SIZE, &im->chunk_size, e);
    free(tensors);
    gguf_shard_free(&s);
    return ok;
}

/* ---- writing ---- */

static bool add_tensor(gguf_header *h, const imatrix_entry *x, int kind, uint64_t columns, gq_error *e) {
    char name[GGUF_MAX_NAME + 1];
    size_t length = strlen(x->name), suffix = strlen(suffixes[kind]);
    if (length + suffix > GGUF_MAX_NAME)
        return gq_fail(e, "entry '%s': the name is %zu bytes long, the GGUF layout has room for %zu", x->name,
                       length, GGUF_MAX_NAME - suffix);
    memcpy(name, x->name, length);
    memcpy(name + length, suffixes[kind], suffix + 1);
    const uint64_t ne[GGUF_MAX_DIMS] = {columns, x->n_counts, 1, 1};
    return gguf_header_add_tensor(h, name, ne, tensor_type_of(GGUF_F32), e);
}

static bool container_write_facts(gguf_header *h, const imatrix *im, gq_error *e) {
    if (!gguf_header_set_string(h, "general.type", "imatrix", e) ||
        !gguf_header_set_texts(h, KEY_DATASETS, (const char *const *)im->datasets, im->n_datasets, e) ||
        !gguf_header_set_u32(h, KEY_CHUNK_COUNT, im->chunk_count, e) ||
        !gguf_header_set_u32(h, KEY_CHUNK_SIZE, imatrix_chunk(im), e))
        return false;
    for (uint64_t i = 0; i < im->n_entries; i++) {
        const imatrix_entry *x = &im->entries[i];
        if (!add_tensor(h, x, SUMS, x->n_values / x->n_counts, e) || !add_tensor(h, x, COUNTS, 1, e))
            return false;
        if (x->activations && !add_tensor(h, x, ACTIVATIONS, x->n_values / x->n_counts, e)) return false;
    }
    return true;
}

/* Writes n values times `scale`, the tokens per count; false if one grows beyond a float. */
static bool container_put_floats(uint8_t *to, const float *x, uint64_t n, float scale) {
    bool finite = true;
    for (uint64_t i = 0; i < n; i++) {
        float value = x[i] * scale;
        finite &= isfinite(value) != 0;
        memcpy(to + i * sizeof value, &value, sizeof value);
    }
    return finite;
}

static bool put_entries(const imatrix *im, const gguf_header *h, uint8_t *bytes, gq_error *e) {
    float scale = im->legacy ? (float)imatrix_chunk(im) : 1;
    for (uint64_t i = 0, tensor = 0; i < im->n_entries; i++) {
        const imatrix_entry *x = &im->entries[i];
        const float *const tensors[KINDS] = {x->sums, x->counts, x->activations};
        bool ok = true;
        for (int kind = 0; kind < KINDS; kind++)
            if (tensors[kind])
                ok &= container_put_floats(bytes + gguf_header_tensor_offset(h, tensor++), tensors[kind],
                                           kind == COUNTS ? x->n_counts : x->n_values, scale);
        if (!ok)
            return gq_fail(e, "entry '%s': the values are too large for %g tokens a call", x->name, scale);
    }
    return true;
}

bool imatrix_write_gguf(const imatrix *im, uint8_t **bytes, uint64_t *size, gq_error *e) {
    gguf_header *h = gguf_header_new(e);
    const uint8_t *header;
    uint64_t header_size, data_size;
    bool ok =
        h && container_write_facts(h, im, e) && gguf_header_finish(h, &header, &header_size, &data_size, e);
    *bytes = NULL;
    if (ok) {
        *size = header_size + data_size;
        *bytes = calloc(1, *size); /* zero: the padding */
        ok = *bytes || gq_fail_memory(e, *size);
    }
    if (ok) {
        memcpy(*bytes, header, header_size);
        ok = put_entries(im, h, *bytes, e);
    }
    if (!ok) free(*bytes), *bytes = NULL;
    gguf_header_free(h);
    return ok;
}
