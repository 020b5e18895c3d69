#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "gguf/gguf.h"
#include "imatrix/imatrix.h"
#include "tests/fuzz/fuzz.h"

void fuzz_broken(const char *promise, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "broken promise: %s: ", promise);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void fuzz_check_error(const gq_error *e) {
    size_t n = strnlen(e->text, sizeof e->text);
    PROMISE(n > 0 && n < sizeof e->text && e->status != GQ_OK, "status %d, %zu bytes", e->status, n);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)e->text[i];
        PROMISE(c >= 0x20 && c != 0x7f, "byte %zu of the message is %02x", i, c);
    }
}

static void *need(void *memory) {
    if (!memory) fprintf(stderr, "out of memory\n"), _exit(1);
    return memory;
}

uint8_t *fuzz_copy(const uint8_t *bytes, size_t n) {
    uint8_t *copy = need(malloc(n ? n : 1));
    if (n) memcpy(copy, bytes, n);
    return copy;
}

uint8_t *fuzz_gzip(const uint8_t *bytes, size_t n, size_t *packed) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n};
    deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    *packed = deflateBound(&z, n);
    uint8_t *out = need(malloc(*packed));
    z.next_out = out, z.avail_out = (uInt)*packed;
    deflate(&z, Z_FINISH);
    *packed = z.total_out;
    deflateEnd(&z);
    return out;
}

uint8_t fuzz_byte(fuzz_input *in) { return in->n ? (in->n--, *in->bytes++) : 0; }
uint32_t fuzz_u16(fuzz_input *in) {
    uint32_t low = fuzz_byte(in);
    return low | (uint32_t)fuzz_byte(in) << 8;
}

/* ---- files ---- */

static char folder[256];

void fuzz_empty_folder(void) {
    char path[sizeof folder + 300];
    DIR *d = opendir(fuzz_folder());
    for (struct dirent *entry; d && (entry = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path); /* not "." and ".." */
    }
    if (d) closedir(d);
}

static void remove_folder(void) {
    fuzz_empty_folder();
    rmdir(folder);
}

const char *fuzz_folder(void) {
    if (*folder) return folder;
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/gquant-fuzz-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder)) perror(folder), _exit(1);
    atexit(remove_folder);
    return folder;
}

void fuzz_write(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) perror(path), _exit(1);
}

void fuzz_write_in_folder(const char *name, const void *bytes, size_t n) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    fuzz_write(path, bytes, n);
}

/* ---- seeds ---- */

void fuzz_seed_behind(const char *to, const char *name, const void *head, size_t header_size,
                      const void *bytes, size_t n) {
    char path[4096];
    uint8_t *all = need(malloc(header_size + n + 1));
    if (header_size) memcpy(all, head, header_size);
    memcpy(all + header_size, bytes, n);
    snprintf(path, sizeof path, "%s/%s", to, name);
    fuzz_write(path, all, header_size + n);
    free(all);
}

void fuzz_seed(const char *to, const char *name, const void *bytes, size_t n) {
    fuzz_seed_behind(to, name, NULL, 0, bytes, n);
}

static void must(bool ok, const gq_error *e) {
    if (!ok) fprintf(stderr, "making a seed: %s\n", e->text), _exit(1);
}

static void set_metadata(gguf_header *h, gq_error *e) {
    static const char text[] = "\3\0\0\0\0\0\0\0one";                               /* a string value */
    static const char numbers[] = "\5\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0"; /* i32 x 3 */
    static const char texts[] = "\10\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a\2\0\0\0\0\0\0\0bc";
    static const char nested[] = "\11\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\7\10"; /* [[7, 8]] */
    bool ok = gguf_header_set_string(h, "general.architecture", "llama", e) &&
              gguf_header_set_string(h, "general.type", "part", e) && /* it lacks most of a model */
              gguf_header_set_u32(h, "llama.block_count", 2, e) &&
              gguf_header_set_u32(h, "llama.attention.head_count", 4, e) &&
              gguf_header_set(h, "a.string", GGUF_STRING, text, sizeof text - 1, e) &&
              gguf_header_set(h, "llama.attention.head_count_kv", GGUF_ARRAY, numbers, sizeof numbers, e) &&
              gguf_header_set(h, "a.texts", GGUF_ARRAY, texts, sizeof texts - 1, e) &&
              gguf_header_set(h, "a.nested", GGUF_ARRAY, nested, sizeof nested - 1, e) &&
              gguf_header_set(h, "a.bool", GGUF_BOOL, "\1", 1, e) &&
              gguf_header_set(h, "a.double", GGUF_FLOAT64, "\0\0\0\0\0\0\xf0\x3f", 8, e) &&
              gguf_header_set_u32(h, "general.alignment", 32, e);
    must(ok, e);
}

uint8_t *fuzz_model(const tensor_type *type, uint64_t columns, size_t *n) {
    gq_error e = {0};
    gguf_header *h = need(gguf_header_new(&e));
    const tensor_type *f32 = tensor_type_of(GGUF_F32);
    set_metadata(h, &e);
    must(gguf_header_add_tensor(h, "token_embd.weight", (uint64_t[4]){columns, 3, 1, 1}, type, &e) &&
             gguf_header_add_tensor(h, "blk.0.attn_norm.weight", (uint64_t[4]){columns, 1, 1, 1}, f32, &e) &&
             gguf_header_add_tensor(h, "blk.0.attn_v.weight", (uint64_t[4]){columns, 2, 1, 1}, type, &e) &&
             gguf_header_add_tensor(h, "blk.1.ffn_down_exps.weight", (uint64_t[4]){columns, 1, 2, 1}, type,
                                    &e),
         &e);
    const uint8_t *head;
    uint64_t header_size, data_size;
    must(gguf_header_finish(h, &head, &header_size, &data_size, &e), &e);
    *n = header_size + data_size;
    uint8_t *bytes = need(calloc(1, *n));
    memcpy(bytes, head, header_size);
    /* Small bytes are small numbers in every type: no infinities. */
    for (size_t i = header_size; i < *n; i++) bytes[i] = (uint8_t)((i * 37 + i / 7) % 57);
    gguf_header_free(h);
    return bytes;
}

uint8_t *fuzz_importance(uint64_t columns, bool legacy, size_t *n) {
    float *values = need(calloc(2 * columns, sizeof *values)), counts[2] = {8, 0};
    for (uint64_t i = 0; i < columns; i++) values[i] = (float)(i % 13);
    char *datasets[] = {"calibration.txt"},
         names[2][32] = {"blk.0.attn_v.weight", "blk.1.ffn_down_exps.weight"};
    imatrix_entry entries[2] = {
        {.name = names[0], .n_values = columns, .n_counts = 1, .sums = values, .counts = counts},
        {.name = names[1],
         .n_values = 2 * columns,
         .n_counts = legacy ? 1 : 2,
         .sums = values,
         .counts = counts}};
    imatrix im = {.n_entries = 2,
                  .entries = entries,
                  .chunk_count = 2,
                  .chunk_size = 512,
                  .n_datasets = 1,
                  .datasets = datasets,
                  .legacy = legacy};
    gq_error e = {0};
    uint8_t *bytes;
    uint64_t size;
    must((legacy ? imatrix_write_dat : imatrix_write_gguf)(&im, &bytes, &size, &e), &e);
    *n = size;
    free(values);
    return bytes;
}
