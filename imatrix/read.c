/* Reading a file in whichever layout its content shows, unpacked in memory where it is gzip-compressed. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/checksum.h"
#include "imatrix/imatrix.h"

/* ---- gzip ---- */

enum { STEP = 1 << 16 }; /* compressed bytes read at a time */

typedef struct unpacking {
    const gq_file *file;
    uint64_t at; /* next byte to read */
    uint8_t *out;
    uint64_t n, capacity, limit;
    z_stream z;
    uint8_t in[STEP];
} unpacking;

/* Deflate can blow a byte up to a thousand. Importance floats compress 1.1 to 2 times; only runs of one
 * value, for experts without data, shrink more, and 8 times leaves room for seven such experts in eight. The
 * fixed part is for small files of constants. Together they keep 1 MiB of input below 64 MiB in all: 12 MiB
 * unpacked, and up to four times that for the arrays and names made of it. */
static uint64_t unpacked_limit(uint64_t compressed) {
    const uint64_t fixed = 4 << 20, ratio = 8;
    return compressed > (UINT64_MAX / 2 - fixed) / ratio ? UINT64_MAX / 2 : fixed + ratio * compressed;
}

static bool unpacking_refill(unpacking *u, gq_error *e) {
    uint64_t left = u->file->size - u->at;
    size_t n = left < STEP ? (size_t)left : STEP;
    if (!gq_file_read(u->file, u->at, u->in, n, e)) return false;
    u->at += n;
    u->z.next_in = u->in;
    u->z.avail_in = (uInt)n;
    return true;
}

static bool unpacking_grow(unpacking *u, gq_error *e) {
    if (u->n > u->limit)
        return gq_fail(e,
                       "%s: unpacks to more than %llu bytes, the most that is accepted for %llu compressed "
                       "bytes; unpack it first if that is right",
                       u->file->path, (unsigned long long)u->limit, (unsigned long long)u->file->size);
    uint64_t capacity = u->capacity ? 2 * u->capacity : 2 * u->file->size + STEP;
    if (capacity > u->limit + 1) capacity = u->limit + 1; /* one more, to notice */
    uint8_t *out = realloc(u->out, capacity);
    if (!out) return gq_fail_memory(e, capacity);
    u->out = out;
    u->capacity = capacity;
    return true;
}

static bool inflate_all(unpacking *u, gq_error *e) {
    bool ended = false; /* at the end of a gzip member; another may follow */
    for (;;) {
        if (u->z.avail_in == 0 && u->at < u->file->size && !unpacking_refill(u, e)) return false;
        if (ended && u->z.avail_in == 0) return true;
        if (ended) inflateReset(&u->z);
        if (u->n == u->capacity && !unpacking_grow(u, e)) return false;
        uint64_t space = u->capacity - u->n;
        uInt step = space < INT_MAX ? (uInt)space : INT_MAX;
        u->z.next_out = u->out + u->n;
        u->z.avail_out = step;
        int status = inflate(&u->z, Z_NO_FLUSH);
        u->n += step - u->z.avail_out;
        ended = status == Z_STREAM_END;
        /* Both buffers had room, so no progress means that the input is used up. */
        if (status == Z_BUF_ERROR)
            return gq_fail(e, "%s: the gzip data end early, after %llu bytes", u->file->path,
                           (unsigned long long)u->file->size);
        if (status == Z_MEM_ERROR) return gq_fail_memory(e, 1 << MAX_WBITS);
        if (status != Z_OK && !ended)
            return gq_fail(e, "%s: damaged gzip data before offset %llu: %s", u->file->path,
                           (unsigned long long)(u->at - u->z.avail_in),
                           u->z.msg ? u->z.msg : "unknown kind of stream");
    }
}

/* If the file is gzip data, puts its unpacked bytes in its place (same path, in memory). */
static bool imatrix_unpack(gq_file *file, gq_error *e) {
    uint8_t magic[3];
    if (file->size < sizeof magic) return true;
    if (!gq_file_read(file, 0, magic, sizeof magic, e)) return false;
    if (magic[0] != 0x1f || magic[1] != 0x8b || magic[2] != Z_DEFLATED) return true;

    unpacking *u = calloc(1, sizeof *u);
    if (!u) return gq_fail_memory(e, sizeof *u);
    u->file = file;
    u->limit = unpacked_limit(file->size);
    bool ok = inflateInit2(&u->z, 16 + MAX_WBITS) == Z_OK; /* 16: gzip only */
    if (!ok) gq_fail_memory(e, sizeof u->z);
    gq_file unpacked;
    ok = ok && inflate_all(u, e);
    inflateEnd(&u->z);
    if (ok) {
        ok = gq_file_memory(&unpacked, file->path, u->out, u->n, u->out, e);
    } else {
        free(u->out);
    }
    free(u);
    if (!ok) return false;
    gq_file_close(file);
    *file = unpacked;
    return true;
}

/* ---- layouts ---- */

bool imatrix_open(imatrix *im, const char *path, gq_error *e) {
    gq_file file;
    *im = (imatrix){0};
    return gq_file_open(&file, path, e) && imatrix_read(im, &file, e);
}

bool imatrix_read(imatrix *im, gq_file *file, gq_error *e) {
    *im = (imatrix){0};
    char magic[4] = {0};
    bool ok = imatrix_unpack(file, e);
    if (ok && file->size >= sizeof magic) ok = gq_file_read(file, 0, magic, sizeof magic, e);
    if (ok && memcmp(magic, "GGUF", sizeof magic) == 0) {
        ok = imatrix_read_gguf(im, file, e);
    } else {
        /* Never a second try as the other layout: a damaged file of one kind is not a file of the other. */
        ok = ok && imatrix_read_dat(im, file, e);
        gq_file_close(file);
    }
    if (!ok) imatrix_free(im);
    return ok;
}

/* ---- what a plan reads ---- */

static bool make_ready(model_inputs *m, const char *path, gq_error *e) {
    imatrix *data = m->data;
    if (!imatrix_check(data, path, e)) return false;
    /* Sums become means, in place: for large mixtures of experts they are gigabytes. */
    for (uint64_t i = 0; i < data->n_entries; i++) {
        imatrix_entry *x = &data->entries[i];
        uint64_t n = x->n_values / x->n_counts;
        for (uint64_t k = 0; k < x->n_counts; k++) imatrix_column(x, k, n, x->sums + k * n);
    }
    m->n_entries = data->n_entries;
    m->chunk_count = data->chunk_count;
    m->dataset = data->n_datasets ? data->datasets[0] : NULL;
    m->warnings = data->warnings;
    return true;
}

static bool inputs_start(model_inputs *m, const char *path, gq_error *e) {
    *m = (model_inputs){.path = strdup(path), .data = calloc(1, sizeof *m->data)};
    return (m->path && m->data) || gq_fail_memory(e, strlen(path) + sizeof *m->data);
}

static bool inputs_finish(model_inputs *m, bool ok) {
    if (!ok) model_inputs_free(m);
    return ok;
}

bool model_inputs_read(model_inputs *m, const char *path, inputs_filter filter, gq_error *e) {
    bool ok = inputs_start(m, path, e) && imatrix_open(m->data, path, e);
    if (ok && filter.n) imatrix_filter(m->data, filter.texts, filter.n, filter.include);
    return inputs_finish(m, ok && make_ready(m, path, e));
}

bool model_inputs_of(model_inputs *m, imatrix *data, const char *name, gq_error *e) {
    bool ok = inputs_start(m, name, e);
    if (ok) *m->data = *data, *data = (imatrix){.n_entries = 0};
    return inputs_finish(m, ok && make_ready(m, name, e));
}

void model_inputs_free(model_inputs *m) {
    if (m->data) imatrix_free(m->data);
    free(m->data), free(m->path);
    *m = (model_inputs){.path = NULL};
}

uint32_t model_inputs_digest(const model_inputs *m) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < m->n_entries; i++) {
        const imatrix_entry *x = &m->data->entries[i];
        sum = checksum_add_text(sum, x->name);
        sum = checksum_add(sum, x->sums, x->n_values * sizeof *x->sums);
        sum = checksum_add(sum, x->counts, x->n_counts * sizeof *x->counts);
    }
    return sum;
}

const char *model_inputs_entry(const model_inputs *m, uint64_t i) { return m->data->entries[i].name; }

bool model_inputs_find(const model_inputs *m, const char *tensor, uint64_t columns, uint64_t matrices,
                       tensor_inputs *found, gq_error *e) {
    const imatrix_entry *x = m->n_entries ? imatrix_find(m->data, tensor) : NULL;
    *found = (tensor_inputs){.columns = 0};
    if (!x) return true;
    found->n_values = x->n_values;
    if (!imatrix_fits(x, columns, matrices, m->path, e)) return false;
    *found = (tensor_inputs){.columns = columns,
                             .n_values = x->n_values,
                             .n_counted = x->n_counts,
                             .n_unseen = x->n_unseen,
                             .mean_squares = x->sums};
    return true;
}

bool model_inputs_find_tensor(const model_inputs *m, const model_tensor *t, bool transposed,
                              tensor_inputs *found, gq_error *e) {
    *found = (tensor_inputs){.columns = 0};
    return transposed || model_inputs_find(m, t->name, t->ne[0], shape_matrices(t->ne), found, e);
}

uint32_t tensor_inputs_digest(const tensor_inputs *t) {
    if (!t->columns) return 0;
    return checksum_add(0, t->mean_squares, t->n_values * sizeof *t->mean_squares);
}
