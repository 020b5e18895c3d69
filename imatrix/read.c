/* Reading a file in whichever layout its content shows, unpacked in memory where it is gzip-compressed. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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
