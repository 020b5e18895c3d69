/* Reads one GGUF container: header, metadata key-value pairs, table of tensors; weights stay in the file. Nothing in it
 * is trusted. Counts are compared with the bytes that are left before anything is allocated, and the cursor checks
 * every length and value. The records are gone through twice: first to check them while the header is read into
 * memory, then to point into it, so keys, values and names are not copied. At last offsets become positions in the
 * file, which must lie in it and not overlap. A file of another format gets advice instead of a bare error. Shards
 * are put together in gguf.c; the limits are in docs/internals/formats.md. */
#include "gguf/gguf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* ---- a cursor: reads a header front to back, piece by piece, and says where it is wrong ---- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF numbers are copied as they are");

/* The owner of the bytes at hand, for messages. */
typedef struct gguf_subject {
    const char *kind; /* "key", "tensor" or "header" */
    uint64_t index, count;
    uint64_t name_at, name_length; /* the name's place in the file; length 0: not known yet */
} gguf_subject;

typedef struct gguf_cursor {
    const gq_file *file;
    uint8_t *bytes;            /* the file from byte 0; moves when more is read */
    uint64_t capacity, filled; /* bytes of memory there are, and that hold the file so far */
    uint64_t at;               /* next byte; at <= filled <= file->size */
    gguf_subject subject;
    gq_error *e;
} gguf_cursor;

enum {
    STEP = 64 << 10,  /* read ahead: few calls, and little of the data section by mistake */
    SHOWN_NAME = 200, /* a key may have 65535 bytes, a message has 1023 */
    /* held in memory; the largest vocabularies take some 50 MiB, a sparse file claims any size */
    MAX_HEADER = 1 << 30,
};

/* Return false with "FILE: key 'NAME' at byte N: ...". */
__attribute__((format(printf, 3, 4))) static bool gguf_cursor_fail(gguf_cursor *c, uint64_t at,
                                                                   const char *format, ...) {
    const gguf_subject *s = &c->subject;
    char reason[512], who[SHOWN_NAME + 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (s->name_length) {
        int n = s->name_length < SHOWN_NAME ? (int)s->name_length : SHOWN_NAME;
        snprintf(who, sizeof who, "%s '%.*s'", s->kind, n, (const char *)c->bytes + s->name_at);
    } else if (s->count) {
        snprintf(who, sizeof who, "%s %llu of %llu", s->kind, (unsigned long long)s->index + 1,
                 (unsigned long long)s->count);
    } else {
        snprintf(who, sizeof who, "%s", s->kind);
    }
    return gq_fail(c->e, "%s: %s, at byte %llu: %s", c->file->path, who, (unsigned long long)at, reason);
}

static uint64_t gguf_cursor_left(const gguf_cursor *c) { return c->file->size - c->at; }

/* Read on until `end` (within the file) is in memory. */
static bool read_until(gguf_cursor *c, uint64_t end) {
    if (end > MAX_HEADER)
        return gguf_cursor_fail(c, c->at, "metadata and tensor table exceed %d bytes", MAX_HEADER);
    uint64_t limit = c->file->size < MAX_HEADER ? c->file->size : MAX_HEADER;
    uint64_t want = limit - end > STEP ? end + STEP : limit;
    if (want > c->capacity) {
        uint64_t capacity = want < limit / 2 ? 2 * want : limit;
        uint8_t *bytes = realloc(c->bytes, capacity);
        if (!bytes) return gq_fail_memory(c->e, capacity);
        c->bytes = bytes, c->capacity = capacity;
    }
    if (!gq_file_read(c->file, c->filled, c->bytes + c->filled, want - c->filled, c->e)) return false;
    c->filled = want;
    return true;
}

/* Reads ahead until the next n bytes are in memory; fails if the file ends before. `what` names them in the
 * message. */
static bool gguf_cursor_need(gguf_cursor *c, uint64_t n, const char *what) {
    if (n > gguf_cursor_left(c)) {
        return gguf_cursor_fail(c, c->at, "%s takes %llu bytes, but only %llu are left in the file", what,
                                (unsigned long long)n, (unsigned long long)gguf_cursor_left(c));
    }
    return n <= c->filled - c->at || read_until(c, c->at + n);
}

static bool read_number(gguf_cursor *c, void *value, size_t n, const char *what) {
    if (!gguf_cursor_need(c, n, what)) return false;
    memcpy(value, c->bytes + c->at, n);
    c->at += n;
    return true;
}

/* Read a number; `what` names it in the message. */
static bool gguf_cursor_u32(gguf_cursor *c, uint32_t *value, const char *what) {
    return read_number(c, value, sizeof *value, what);
}

static bool gguf_cursor_u64(gguf_cursor *c, uint64_t *value, const char *what) {
    return read_number(c, value, sizeof *value, what);
}

/* A length and as many bytes, at most `limit`; *start is where the bytes are. */
static bool gguf_cursor_string(gguf_cursor *c, uint64_t limit, uint64_t *start, uint64_t *length,
                               const char *what) {
    if (!gguf_cursor_u64(c, length, what)) return false;
    if (*length > limit) {
        return gguf_cursor_fail(c, c->at - 8, "%s has %llu bytes, at most %llu are allowed", what,
                                (unsigned long long)*length, (unsigned long long)limit);
    }
    if (!gguf_cursor_need(c, *length, what)) return false;
    *start = c->at;
    c->at += *length;
    return true;
}

/* A key's or tensor's name: 1 to limit bytes, no NUL. Becomes the subject's name. */
static bool gguf_cursor_name(gguf_cursor *c, uint64_t limit) {
    gguf_subject *s = &c->subject;
    uint64_t start = 0, length = 0; /* gcc 12 cannot tell that they are always set */
    s->name_length = 0;
    if (!gguf_cursor_string(c, limit, &start, &length, "name")) return false;
    if (length == 0) return gguf_cursor_fail(c, start, "the name is empty");
    const uint8_t *nul = memchr(c->bytes + start, 0, length);
    if (nul) {
        return gguf_cursor_fail(c, (uint64_t)(nul - c->bytes),
                                "the name holds a NUL byte at position %llu of %llu",
                                (unsigned long long)(nul - c->bytes - start), (unsigned long long)length);
    }
    s->name_at = start, s->name_length = length;
    return true;
}

/* ---- values ---- */

/* Bytes that the smallest value of a type takes. */
static uint32_t value_least(uint32_t type) {
    uint32_t size = gguf_value_size(type);
    return size ? size : type == GGUF_STRING ? GGUF_STRING_HEADER : GGUF_ARRAY_HEADER;
}

/* `n` values of a type that has a fixed size; the caller knows that n x size cannot wrap. */
static bool skip_fixed(gguf_cursor *c, uint32_t type, uint64_t n) {
    uint64_t size = n * gguf_value_size(type);
    if (!gguf_cursor_need(c, size, gguf_value_name(type))) return false;
    for (uint64_t i = 0; type == GGUF_BOOL && i < n; i++) {
        unsigned byte = c->bytes[c->at + i];
        if (byte > 1) return gguf_cursor_fail(c, c->at + i, "a bool is stored as %u, expected 0 or 1", byte);
    }
    c->at += size;
    return true;
}

static bool array_header(gguf_cursor *c, uint32_t *type, uint64_t *count) {
    if (!gguf_cursor_u32(c, type, "array element type")) return false;
    if (*type >= GGUF_VALUE_TYPES)
        return gguf_cursor_fail(c, c->at - 4, "array element type %u is unknown, expected 0 to %d", *type,
                                GGUF_VALUE_TYPES - 1);
    if (!gguf_cursor_u64(c, count, "array length")) return false;
    uint64_t left = gguf_cursor_left(c);
    if (*count > left / value_least(*type)) {
        return gguf_cursor_fail(c, c->at - 8,
                                "array of %llu elements of type %s, but only %llu bytes are left in the file",
                                (unsigned long long)*count, gguf_value_name(*type), (unsigned long long)left);
    }
    return true;
}

/* Step over a value, checking all of it. */
static bool gguf_cursor_value(gguf_cursor *c, uint32_t type) {
    /* A stack of our own: the depth of nesting is the file's choice. Level 0 is the value itself. */
    struct {
        uint32_t type;
        uint64_t left;
    } level[GGUF_MAX_NESTING + 1] = {{type, 1}};
    int depth = 0;
    if (type >= GGUF_VALUE_TYPES)
        return gguf_cursor_fail(c, c->at - 4, "value type %u is unknown, expected 0 to %d", type,
                                GGUF_VALUE_TYPES - 1);
    while (depth >= 0) {
        uint32_t t = level[depth].type;
        if (level[depth].left == 0) {
            depth--;
        } else if (gguf_value_size(t)) {
            if (!skip_fixed(c, t, level[depth].left)) return false;
            level[depth].left = 0;
        } else if (t == GGUF_STRING) {
            uint64_t start, length;
            if (!gguf_cursor_string(c, UINT64_MAX, &start, &length, "string")) return false;
            level[depth].left--;
        } else {
            level[depth].left--;
            if (depth == GGUF_MAX_NESTING)
                return gguf_cursor_fail(c, c->at, "arrays are nested more than %d deep", GGUF_MAX_NESTING);
            depth++;
            if (!array_header(c, &level[depth].type, &level[depth].left)) return false;
        }
    }
    return true;
}

/* ---- a container ---- */

/* Files that people give by mistake, recognized by their first bytes, and the advice for each. */
#define FROM_SOURCE \
    "; take the model's safetensors and give their folder, or make a GGUF of it with llama.cpp: python " \
    "convert_hf_to_gguf.py FOLDER"
#define OLDER " file, older than GGUF; fetch the model as GGUF, or convert the source model again"
static const struct {
    uint32_t at, length;
    const char *bytes, *what;
} other_formats[] = {
    {0, 4, "lmgg", "an unversioned ggml" OLDER},
    {0, 4, "fmgg", "a ggmf" OLDER},
    {0, 4, "tjgg", "a ggjt" OLDER},
    {0, 4, "algg", "a LoRA in a ggla" OLDER},
    {0, 4, "PK\3\4", "a zip archive (a PyTorch checkpoint?)" FROM_SOURCE},
    {0, 2, "\x80\2", "a Python pickle (a PyTorch checkpoint?)" FROM_SOURCE},
    {0, 2, "\x1f\x8b", "gzip-compressed data; unpack it with gunzip"},
    {0, 26, "version https://git-lfs.gi",
     "a Git LFS pointer; the real file is still to be fetched (git lfs pull)"},
    {8, 1, "{", "a safetensors file, where a GGUF file is expected"},
};

static bool fail_other_format(const gguf_cursor *c) {
    const char *path = c->file->path;
    for (size_t i = 0; i < sizeof other_formats / sizeof *other_formats; i++) {
        uint64_t end = other_formats[i].at + other_formats[i].length;
        if (c->filled >= end &&
            memcmp(c->bytes + other_formats[i].at, other_formats[i].bytes, other_formats[i].length) == 0)
            return gq_fail(c->e, "%s: not a GGUF file but %s", path, other_formats[i].what);
    }
    const uint8_t *b = c->bytes;
    return gq_fail(
        c->e,
        "%s: not a GGUF file: it starts with the bytes %02x %02x %02x %02x, expected 47 47 55 46 (GGUF)",
        path, b[0], b[1], b[2], b[3]);
}

static bool check_version(gguf_cursor *c, uint32_t version) {
    if (version == 2 || version == 3) return true;
    if (version == 1)
        return gguf_cursor_fail(c, 4,
                                "GGUF version 1 is not supported (2 and 3 are); convert the model again");
    if (version && (version & 0xffff) == 0)
        return gguf_cursor_fail(
            c, 4, "the version is 0x%08x: a big-endian file? Only little-endian byte order is supported",
            version);
    return gguf_cursor_fail(c, 4, "GGUF version %u is unknown, expected 2 or 3", version);
}

/* Compares both counts with the bytes that are left, so that nothing is allocated on a mere claim. */
static bool check_counts(gguf_cursor *c, uint64_t n_tensors, uint64_t n_kv) {
    uint64_t left = gguf_cursor_left(c);
    if (n_kv > left / GGUF_MIN_PAIR) {
        return gguf_cursor_fail(c, 16,
                                "%llu key-value pairs of at least %d bytes, but only %llu bytes follow",
                                (unsigned long long)n_kv, GGUF_MIN_PAIR, (unsigned long long)left);
    }
    left -= n_kv * GGUF_MIN_PAIR;
    if (n_tensors > left / GGUF_MIN_TENSOR) {
        return gguf_cursor_fail(
            c, 8,
            "%llu tensors of at least %d bytes each in the table, but at most %llu bytes are left for it",
            (unsigned long long)n_tensors, GGUF_MIN_TENSOR, (unsigned long long)left);
    }
    return true;
}

static bool shard_read_header(gguf_cursor *c, gguf_shard *s) {
    uint32_t magic;
    if (c->file->size == 0) return gq_fail(c->e, "%s: the file is empty", c->file->path);
    if (!gguf_cursor_u32(c, &magic, "the GGUF magic")) return false;
    if (magic != GGUF_MAGIC) return fail_other_format(c);
    return gguf_cursor_u32(c, &s->version, "version") && check_version(c, s->version) &&
           gguf_cursor_u64(c, &s->n_tensors, "tensor count") &&
           gguf_cursor_u64(c, &s->n_kv, "key-value count") && check_counts(c, s->n_tensors, s->n_kv);
}

/* Ends a name with a NUL in place of the first byte of the number behind it, which has been read by now. */
static const char *terminate_name(gguf_cursor *c) {
    c->bytes[c->subject.name_at + c->subject.name_length] = 0;
    return (const char *)c->bytes + c->subject.name_at;
}

/* Reads a KV pair; kv NULL: only checks it. */
static bool read_kv(gguf_cursor *c, model_kv *kv) {
    uint32_t type;
    if (!gguf_cursor_name(c, GGUF_MAX_KEY) || !gguf_cursor_u32(c, &type, "value type")) return false;
    uint64_t start = c->at;
    if (!gguf_cursor_value(c, type)) return false;
    if (kv)
        *kv = (model_kv){
            .key = terminate_name(c), .type = type, .value = c->bytes + start, .size = c->at - start};
    return true;
}

/* Reads a tensor's entry, its offset still counted from the data section; tensor NULL: only checks it. */
static bool shard_read_tensor(gguf_cursor *c, model_tensor *tensor) {
    model_tensor t = {.ne = {1, 1, 1, 1}};
    uint32_t type;
    gq_error why;
    if (!gguf_cursor_name(c, GGUF_MAX_NAME) || !gguf_cursor_u32(c, &t.n_dims, "dimension count"))
        return false;
    if (t.n_dims < 1 || t.n_dims > GGUF_MAX_DIMS)
        return gguf_cursor_fail(c, c->at - 4, "%u dimensions, expected 1 to %d%s", t.n_dims, GGUF_MAX_DIMS,
                                t.n_dims == GGUF_MAX_DIMS + 1
                                    ? "; programs for video models add such a tensor after quantization: "
                                      "quantize the file without it, then add it to the output"
                                    : "");
    uint64_t start = c->at;
    for (uint32_t i = 0; i < t.n_dims; i++)
        if (!gguf_cursor_u64(c, &t.ne[i], "dimension")) return false;
    if (!gguf_cursor_u32(c, &type, "tensor type")) return false;
    t.type = tensor_type_of(type);
    if (!t.type)
        return gguf_cursor_fail(c, c->at - 4,
                                "tensor type %u is retired or unknown, so its size is not known", type);
    if (!model_tensor_measure(&t, &why)) return gguf_cursor_fail(c, start, "%s", why.text);
    if (!gguf_cursor_u64(c, &t.offset, "offset")) return false;
    if (tensor) {
        t.name = terminate_name(c);
        *tensor = t;
    }
    return true;
}

/* Goes through KV pairs and tensor table. Called twice: first to check everything while the header is read into
 * memory, which moves as it grows; then, with the arrays there, to point into it. */
static bool read_records(gguf_cursor *c, gguf_shard *s) {
    c->at = GGUF_HEADER_BYTES;
    for (uint64_t i = 0; i < s->n_kv; i++) {
        c->subject = (gguf_subject){.kind = "key", .index = i, .count = s->n_kv};
        if (!read_kv(c, s->kv ? &s->kv[i] : NULL)) return false;
    }
    for (uint64_t i = 0; i < s->n_tensors; i++) {
        c->subject = (gguf_subject){.kind = "tensor", .index = i, .count = s->n_tensors};
        if (!shard_read_tensor(c, s->tensors ? &s->tensors[i] : NULL)) return false;
    }
    return true;
}

static bool allocate_records(gguf_shard *s, gq_error *e) {
    /* one more than needed: NULL means "only check" */
    s->kv = calloc(s->n_kv + 1, sizeof *s->kv);
    s->tensors = calloc(s->n_tensors + 1, sizeof *s->tensors);
    return (s->kv && s->tensors) ||
           gq_fail_memory(e, s->n_kv * sizeof *s->kv + s->n_tensors * sizeof *s->tensors);
}

static int compare_offsets(const void *a, const void *b) {
    uint64_t x = (*(const model_tensor *const *)a)->offset, y = (*(const model_tensor *const *)b)->offset;
    return (x > y) - (x < y);
}

/* Checks that no tensor begins before the one in front of it ends; all lie in the file by now. No tensor is
 * empty, so equal offsets overlap. */
static bool check_overlap(const gguf_shard *s, gq_error *e) {
    const model_tensor **by_offset = malloc((s->n_tensors + 1) * sizeof *by_offset);
    if (!by_offset) return gq_fail_memory(e, s->n_tensors * sizeof *by_offset);
    for (uint64_t i = 0; i < s->n_tensors; i++) by_offset[i] = &s->tensors[i];
    qsort(by_offset, s->n_tensors, sizeof *by_offset, compare_offsets);
    bool ok = true;
    for (uint64_t i = 1; ok && i < s->n_tensors; i++) {
        const model_tensor *a = by_offset[i - 1], *b = by_offset[i];
        if (b->offset - a->offset < a->size) {
            ok = gq_fail(e, "%s: tensors '%s' (%llu bytes at byte %llu) and '%s' (at byte %llu) overlap",
                         s->file.path, a->name, (unsigned long long)a->size, (unsigned long long)a->offset,
                         b->name, (unsigned long long)b->offset);
        }
    }
    free(by_offset);
    return ok;
}

/* Checks offsets and turns them into positions in the file. */
static bool shard_place_tensors(gguf_shard *s, gq_error *e) {
    uint64_t room = s->file.size > s->data_offset ? s->file.size - s->data_offset : 0;
    for (uint64_t i = 0; i < s->n_tensors; i++) {
        model_tensor *t = &s->tensors[i];
        if (t->offset % s->alignment) {
            return gq_fail(e, "%s: tensor '%s': offset %llu is not a multiple of the alignment %u",
                           s->file.path, t->name, (unsigned long long)t->offset, s->alignment);
        }
        if (t->offset > room || t->size > room - t->offset) {
            return gq_fail(
                e,
                "%s: tensor '%s': %llu bytes at offset %llu of the data section (which starts at "
                "byte %llu) are needed, but the file ends at byte %llu: truncated? Fetch or copy it again",
                s->file.path, t->name, (unsigned long long)t->size, (unsigned long long)t->offset,
                (unsigned long long)s->data_offset, (unsigned long long)s->file.size);
        }
        t->offset += s->data_offset;
    }
    return check_overlap(s, e);
}

bool gguf_shard_read(gguf_shard *s, gq_file *file, gq_error *e) {
    *s = (gguf_shard){.file = *file};
    *file = (gq_file){.fd = -1};
    gguf_cursor c = {.file = &s->file, .subject = {.kind = "header"}, .e = e};
    bool ok =
        shard_read_header(&c, s) && read_records(&c, s) && allocate_records(s, e) && read_records(&c, s);
    s->header = c.bytes;
    ok = ok && gguf_check_names(s->kv, s->n_kv, s->tensors, s->n_tensors, s->file.path, e) &&
         gguf_alignment(s->kv, s->n_kv, &s->alignment, s->file.path, e);
    if (ok) {
        s->data_offset = round_up(c.at, s->alignment);
        ok = shard_place_tensors(s, e);
    }
    if (!ok) gguf_shard_free(s);
    return ok;
}

void gguf_shard_free(gguf_shard *s) {
    gq_file_close(&s->file);
    free(s->kv);
    free(s->tensors);
    free(s->header);
    *s = (gguf_shard){.file = {.fd = -1}};
}
