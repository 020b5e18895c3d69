/* Memory that is refused at the n-th request, reads that fail, fall short or are interrupted, and how much
 * memory a small file can claim. The C library's own functions are replaced; sanitizers replace them, too, so
 * that these tests are for plain builds. */
#include <errno.h>
#include <malloc.h>
#include <sys/syscall.h>

#include "gguf/gguf.h"
#include "tests/support/gguf_bytes.h"

#if SANITIZED
int main(void) {
    print_message("skipped: a sanitizer owns malloc\n");
    return 0;
}
#else

/* ---- replaced functions ---- */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *old);

static bool counting;
static long requests, fail_at; /* fail_at 0: never */
static size_t live, peak;      /* bytes */

static bool refused(void) { return counting && ++requests == fail_at; }

static void *counted(void *p) {
    if (counting && p && (live += malloc_usable_size(p)) > peak) peak = live;
    return p;
}

static void uncounted(void *p) {
    if (counting && p) live -= malloc_usable_size(p);
}

void *malloc(size_t size) { return refused() ? NULL : counted(__libc_malloc(size)); }
void *calloc(size_t n, size_t size) { return refused() ? NULL : counted(__libc_calloc(n, size)); }
void *realloc(void *old, size_t size) {
    if (refused()) return NULL;
    uncounted(old);
    return counted(__libc_realloc(old, size));
}
void free(void *old) {
    uncounted(old);
    __libc_free(old);
}

static enum { READS_WELL, READS_SHORT, READS_INTERRUPTED, READS_FAIL, READS_END } reading;

ssize_t pread(int fd, void *to, size_t n, off_t offset) {
    static int calls;
    if (reading == READS_FAIL) errno = EIO;
    if (reading == READS_FAIL) return -1;
    if (reading == READS_END) return 0;
    if (reading == READS_INTERRUPTED && ++calls % 3) {
        errno = EINTR;
        return -1;
    }
    if (reading == READS_SHORT && n > 7) n = 7;
    return syscall(SYS_pread64, fd, to, n, offset);
}

static void start_counting(long fail) { requests = 0, live = 0, peak = 0, fail_at = fail, counting = true; }

/* ---- tests ---- */

static void put_model(bytes *b, int no, const char *tensor) {
    *b = file_head(3, 1, 3);
    put_key(b, "split.no", GGUF_U16), put(b, &no, 2);
    put_key(b, "split.count", GGUF_U16), put(b, "\2", 2);
    put_key(b, "split.tensors.count", GGUF_INT32), put_u32(b, 2);
    put_tensor(b, tensor, 1, (uint64_t[]){8}, GGUF_F32, 0);
    pad(b, 32);
    put_zeros(b, 32);
}

static char *folder, path[4096];

FIXTURE(set_up) {
    folder = temporary_folder();
    bytes b;
    for (int no = 1; no >= 0; no--) {
        put_model(&b, no, no ? "two" : "one");
        snprintf(path, sizeof path, "%s/m-%05d-of-00002.gguf", folder, no + 1);
        write_whole(path, b.data, b.n);
        free(b.data);
    }
    return 0; /* path: the first shard's */
}

FIXTURE(tear_down) {
    remove_folder(folder);
    return 0;
}

static bool read_model(gq_error *e) {
    model_source m;
    bool ok = gguf_model_open(&m, path, e);
    model_close(&m);
    return ok;
}

static bool read_memory(gq_error *e) {
    static const uint8_t empty[24] = {'G', 'G', 'U', 'F', 3};
    model_source m;
    bool ok = gguf_model_memory(&m, "memory", empty, sizeof empty, e);
    model_close(&m);
    return ok;
}

static bool write_header(gq_error *e) {
    gguf_header *h = gguf_header_new(e);
    const uint8_t *head;
    uint64_t header_size, data_size;
    bool ok = h != NULL;
    char name[16];
    for (uint32_t i = 0; ok && i < 20; i++) { /* more than the room it starts with */
        snprintf(name, sizeof name, "n.%u", i);
        ok = gguf_header_set_u32(h, name, i, e) && gguf_header_set_string(h, "last", "text", e) &&
             gguf_header_add_tensor(h, name, (uint64_t[]){1, 1, 1, 1}, tensor_type_of(GGUF_F32), e);
    }
    ok = ok && gguf_header_finish(h, &head, &header_size, &data_size, e);
    gguf_header_free(h);
    return ok;
}

/* The lowest descriptor that is free: rises when one is leaked. */
static int free_descriptor(void) {
    int fd = dup(1);
    close(fd);
    return fd;
}

/* Fail the first request for memory, then only the second, ... until the work needs fewer. */
static void survives_refusals(bool (*work)(gq_error *e)) {
    long n = 0, failed = 0;
    int descriptor = free_descriptor();
    do {
        gq_error e = {.status = GQ_OK, .text = ""};
        start_counting(++n);
        bool ok = work(&e);
        counting = false;
        if (live) fail_msg("%zu bytes leaked when request %ld failed", live, n);
        assert_int_equal(free_descriptor(), descriptor);
        if (ok) continue; /* nobody needed it: fewer requests, or a sort that has another way */
        failed++;
        assert_int_equal(e.status, GQ_FAILED);
        if (!strstr(e.text, "out of memory")) fail_msg("request %ld: %s", n, e.text);
    } while (requests >= n);
    assert_true(failed > 1);
}

TEST(reading_survives_refused_memory) { survives_refusals(read_model); }

TEST(writing_survives_refused_memory) { survives_refusals(write_header); }

TEST(memory_files_survive_refused_memory) { survives_refusals(read_memory); }

TEST(reads_are_repeated_until_done) {
    gq_error e;
    for (reading = READS_WELL; reading <= READS_INTERRUPTED; reading++)
        if (!read_model(&e)) fail_msg("%s", e.text);
    reading = READS_WELL;
}

TEST(read_errors_name_file_and_place) {
    gq_error e;
    reading = READS_FAIL;
    bool failed = !read_model(&e);
    reading = READS_WELL;
    assert_true(failed);
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, "offset 0"));
    assert_non_null(strstr(e.text, strerror(EIO)));
    reading = READS_END;
    failed = !read_model(&e);
    reading = READS_WELL;
    assert_true(failed);
    assert_non_null(strstr(e.text, "shrank"));
}

/* Bytes that reading the file takes at most. */
static size_t peak_of(const bytes *b) {
    model_source m;
    gq_error e;
    start_counting(0);
    gguf_model_memory(&m, "hostile", b->data, b->n, &e);
    model_close(&m);
    counting = false;
    assert_int_equal(live, 0);
    return peak;
}

TEST(a_small_file_claims_little_memory) {
    enum { SIZE = 1 << 20, LIMIT = 5 << 20 };
    static const uint64_t claims[] = {UINT64_MAX, 1ull << 40, SIZE / 14 - 2, SIZE / 33 - 2};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) { /* claims alone */
        bytes b = file_head(3, claims[i], 0), c = file_head(3, 0, claims[i]);
        put_zeros(&b, SIZE - b.n), put_zeros(&c, SIZE - c.n);
        assert_in_range(peak_of(&b), 0, LIMIT);
        assert_in_range(peak_of(&c), 0, LIMIT);
        free(b.data), free(c.data);
    }
    bytes pairs = {0}, tensors = {0}; /* as many real records as fit */
    uint64_t n_pairs = SIZE / 18 - 2, n_tensors = SIZE / 38 - 2;
    char name[16];
    pairs = file_head(3, 0, n_pairs), tensors = file_head(3, n_tensors, 1);
    put_key(&tensors, "general.alignment", GGUF_U32), put_u32(&tensors, 1);
    for (uint64_t i = 0; i < n_pairs; i++)
        snprintf(name, sizeof name, "%05x", (unsigned)i), put_key(&pairs, name, GGUF_U8), put(&pairs, "", 1);
    for (uint64_t i = 0; i < n_tensors; i++)
        snprintf(name, sizeof name, "%05x", (unsigned)i),
            put_tensor(&tensors, name, 1, (uint64_t[]){1}, GGUF_I8, i);
    put_zeros(&tensors, n_tensors);
    assert_in_range(peak_of(&pairs), pairs.n, LIMIT);
    assert_in_range(peak_of(&tensors), tensors.n, LIMIT);
    free(pairs.data), free(tensors.data);
}

int main(void) { return tests_run(set_up, tear_down); }
#endif
