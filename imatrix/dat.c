/* The legacy imatrix format, .dat: the number of entries; per entry the name's length, the name, calls, the
 * number of values, and the values; then, in newer files, the number of chunks and a data set's name. Nothing
 * marks such a file: whatever does not begin with "GGUF" is read as one, and its numbers must fit the bytes
 * that are there. A value is a mean times calls, and an entry has one count of calls for all its matrices.
 * Writing therefore takes the largest count of an entry, converts tokens into calls, and scales each matrix's
 * means to it; an entry without any data is left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "imatrix/imatrix.h"

/* Name length, one byte of name, calls, number of values, one value. */
enum { SMALLEST_ENTRY = 4 + 1 + 4 + 4 + 4 };

typedef struct cursor {
    const gq_file *file;
    uint64_t at;
} cursor;

static uint64_t cursor_bytes_left(const cursor *c) { return c->file->size - c->at; }

static bool cursor_take_bytes(cursor *c, void *to, size_t n, const char *what, gq_error *e) {
    if (cursor_bytes_left(c) < n)
        return gq_fail(e, "%s: the file ends at offset %llu, inside %s", c->file->path,
                       (unsigned long long)c->file->size, what);
    if (!gq_file_read(c->file, c->at, to, n, e)) return false;
    c->at += n;
    return true;
}

static bool cursor_take_name(cursor *c, char name[GGUF_MAX_NAME + 1], int32_t *length, uint32_t index,
                             gq_error *e) {
    uint64_t start = c->at;
    if (!cursor_take_bytes(c, length, sizeof *length, "the length of a name", e)) return false;
    if (*length < 1 || *length > GGUF_MAX_NAME)
        return gq_fail(e, "%s: offset %llu: the name of entry %u is %d bytes long, expected 1 to %d",
                       c->file->path, (unsigned long long)start, index, *length, GGUF_MAX_NAME);
    if (!cursor_take_bytes(c, name, (size_t)*length, "a name", e)) return false;
    name[*length] = 0;
    if (strlen(name) != (size_t)*length)
        return gq_fail(e, "%s: offset %llu: the name of entry %u, '%s', has a NUL inside", c->file->path,
                       (unsigned long long)start, index, name);
    return true;
}

static bool dat_read_entry(imatrix *im, cursor *c, uint32_t index, gq_error *e) {
    char name[GGUF_MAX_NAME + 1];
    int32_t length, calls, n;
    if (!cursor_take_name(c, name, &length, index, e)) return false;
    if (!cursor_take_bytes(c, &calls, sizeof calls, "a call count", e)) return false;
    if (!cursor_take_bytes(c, &n, sizeof n, "a number of values", e)) return false;
    if (calls < 0)
        return gq_fail(e, "%s: entry '%s': call count %d, expected 0 or more", c->file->path, name, calls);
    if (n < 1 || (uint64_t)n > cursor_bytes_left(c) / sizeof(float))
        return gq_fail(e, "%s: entry '%s': %d values at offset %llu, but only %llu bytes are left",
                       c->file->path, name, n, (unsigned long long)(c->at - sizeof n),
                       (unsigned long long)cursor_bytes_left(c));
    imatrix_entry *entry = &im->entries[im->n_entries];
    if (!imatrix_entry_new(entry, name, (size_t)length, (uint64_t)n, 1, false, e)) return false;
    im->n_entries++;
    /* Without calls the values are means already. */
    entry->counts[0] = calls ? (float)calls : 1;
    return cursor_take_bytes(c, entry->sums, (size_t)n * sizeof(float), "the values", e);
}

static bool read_trailer(imatrix *im, cursor *c, gq_error *e) {
    int32_t chunks, length;
    if (cursor_bytes_left(c) == 0) return true; /* files from before April 2024 */
    if (!cursor_take_bytes(c, &chunks, sizeof chunks, "the number of chunks", e)) return false;
    if (chunks < 0)
        return gq_fail(e, "%s: offset %llu: %d chunks, expected 0 or more", c->file->path,
                       (unsigned long long)(c->at - sizeof chunks), chunks);
    im->chunk_count = (uint32_t)chunks;
    if (cursor_bytes_left(c) == 0) return true;
    if (!cursor_take_bytes(c, &length, sizeof length, "the length of the dataset's name", e)) return false;
    if (length < 0 || (uint64_t)length > cursor_bytes_left(c))
        return gq_fail(e,
                       "%s: offset %llu: the dataset's name is %d bytes long, but only %llu bytes are left",
                       c->file->path, (unsigned long long)(c->at - sizeof length), length,
                       (unsigned long long)cursor_bytes_left(c));
    if (length == 0) return true;
    char *text = malloc((size_t)length);
    if (!text) return gq_fail_memory(e, (unsigned long long)length);
    bool ok = cursor_take_bytes(c, text, (size_t)length, "the dataset's name", e) &&
              imatrix_add_dataset(im, text, (uint64_t)length, e);
    free(text);
    return ok;
}

bool imatrix_read_dat(imatrix *im, const gq_file *file, gq_error *e) {
    cursor c = {file, 0};
    im->legacy = true;
    int32_t n;
    if (file->size == 0) return gq_fail(e, "%s: the file is empty, expected an imatrix", file->path);
    if (!cursor_take_bytes(&c, &n, sizeof n, "the number of entries", e)) return false;
    if (n < 1 || n > IMATRIX_MAX_ENTRIES || (uint64_t)n > cursor_bytes_left(&c) / SMALLEST_ENTRY)
        return gq_fail(e,
                       "%s: not an imatrix: it does not begin with \"GGUF\", and in the legacy format it "
                       "would have %d entries in %llu bytes",
                       file->path, n, (unsigned long long)file->size);
    if (!imatrix_reserve(im, (uint64_t)n, e)) return false;
    for (uint32_t i = 0; i < (uint32_t)n; i++)
        if (!dat_read_entry(im, &c, i, e)) return false;
    if (!read_trailer(im, &c, e)) return false;
    if (cursor_bytes_left(&c) && !imatrix_warn(im, e, "%s: %llu bytes after the end are ignored", file->path,
                                               (unsigned long long)cursor_bytes_left(&c)))
        return false;
    return imatrix_sort(im, file->path, e);
}

/* ---- writing ---- */

/* Returns the calls to write for an entry: this layout has one count for all its matrices. */
static double calls_of(const imatrix *im, const imatrix_entry *x) {
    return ceil((double)imatrix_most(x) / (im->legacy ? 1 : imatrix_chunk(im)));
}

static uint8_t *put_i32(uint8_t *to, uint64_t value) {
    int32_t x = (int32_t)value;
    return mempcpy(to, &x, sizeof x);
}

/* Computes the bytes of an entry; 0: it has no data at all and is left out. */
static bool entry_size(const imatrix *im, const imatrix_entry *x, uint64_t *size, gq_error *e) {
    *size = 0;
    if (calls_of(im, x) > INT32_MAX || x->n_values > INT32_MAX)
        return gq_fail(e, "entry '%s': %g calls and %llu values, the legacy format has room for %d each",
                       x->name, calls_of(im, x), (unsigned long long)x->n_values, INT32_MAX);
    if (calls_of(im, x) > 0) *size = 3 * sizeof(int32_t) + strlen(x->name) + x->n_values * sizeof(float);
    return true;
}

static bool put_entry(uint8_t **to, const imatrix *im, const imatrix_entry *x, gq_error *e) {
    double calls = calls_of(im, x);
    uint64_t w = x->n_values / x->n_counts;
    *to = put_i32(*to, strlen(x->name));
    *to = mempcpy(*to, x->name, strlen(x->name));
    *to = put_i32(*to, (uint64_t)calls);
    *to = put_i32(*to, x->n_values);
    for (uint64_t i = 0; i < x->n_values; i++) {
        double count = x->counts[i / w];
        /* The mean is computed in double, so that a value written back to its own layout returns exactly. */
        float value = (float)(count > 0 ? x->sums[i] / count * calls : calls);
        if (!isfinite(value))
            return gq_fail(e, "entry '%s': value %llu is too large for %g calls", x->name,
                           (unsigned long long)i, calls);
        *to = mempcpy(*to, &value, sizeof value);
    }
    return true;
}

/* Computes the number of entries that are written, and the bytes of the file. */
static bool dat_measure_size(const imatrix *im, const char *dataset, uint64_t *n, uint64_t *size,
                             gq_error *e) {
    *n = 0;
    *size = 3 * sizeof(int32_t) + strlen(dataset);
    for (uint64_t i = 0; i < im->n_entries; i++) {
        uint64_t bytes;
        if (!entry_size(im, &im->entries[i], &bytes, e)) return false;
        *size += bytes;
        *n += bytes > 0;
    }
    if (*n == 0)
        return gq_fail(e, "none of the %llu entries has data: there is nothing to write",
                       (unsigned long long)im->n_entries);
    return true;
}

bool imatrix_write_dat(const imatrix *im, uint8_t **bytes, uint64_t *size, gq_error *e) {
    const char *dataset = im->n_datasets ? im->datasets[im->n_datasets - 1] : "";
    uint64_t n;
    *bytes = NULL;
    if (!dat_measure_size(im, dataset, &n, size, e)) return false;
    uint8_t *to = malloc(*size);
    if (!to) return gq_fail_memory(e, *size);
    *bytes = to;
    to = put_i32(to, n);
    for (uint64_t i = 0; i < im->n_entries; i++) {
        if (calls_of(im, &im->entries[i]) == 0) continue;
        if (put_entry(&to, im, &im->entries[i], e)) continue;
        free(*bytes);
        *bytes = NULL;
        return false;
    }
    to = put_i32(to, im->chunk_count < INT32_MAX ? im->chunk_count : INT32_MAX);
    to = put_i32(to, strlen(dataset));
    memcpy(to, dataset, strlen(dataset));
    return true;
}
