/* No input below a mebibyte makes any command use more than 64 MiB, or ten seconds: files that claim much,
 * that hold as many records as fit, or that unpack to a thousand times their size, each to every command that
 * reads such files. */
#include <zlib.h>

#include "tests/support/command.h"
#include "tests/support/folder.h"

enum { MIB = 1 << 20 };

/* Files are written through zlib, packed or not: what a test holds in memory counts as its child's. */
typedef struct writer {
    gzFile file;
    uint64_t n;
} writer;

static writer begin(const char *name, bool packed) {
    writer w = {.file = gzopen(in_folder(folder, name), packed ? "wb9" : "wbT")};
    assert_non_null(w.file);
    return w;
}

static void put(writer *w, const void *bytes, size_t n) {
    if (n) assert_int_equal(gzwrite(w->file, bytes, (unsigned)n), n);
    w->n += n;
}
static void put_u32(writer *w, uint32_t x) { put(w, &x, sizeof x); }
static void put_u64(writer *w, uint64_t x) { put(w, &x, sizeof x); }
static void put_text(writer *w, const char *text) { put_u64(w, strlen(text)), put(w, text, strlen(text)); }
static void put_head(writer *w, uint64_t n_tensors, uint64_t n_kv) {
    put(w, "GGUF", 4), put_u32(w, 3), put_u64(w, n_tensors), put_u64(w, n_kv);
}
static void put_zeros(writer *w, uint64_t n) {
    static const uint8_t zeros[4096];
    for (; n > sizeof zeros; n -= sizeof zeros) put(w, zeros, sizeof zeros);
    put(w, zeros, n);
}

static void end(writer *w, const char *name) {
    size_t size;
    assert_int_equal(gzclose(w->file), Z_OK);
    free(read_whole(in_folder(folder, name), &size));
    assert_in_range(size, 1, MIB);
}

/* Metadata, and nothing but: as many pairs as fit, or one array of a type. */
static void make_pairs(void) {
    writer w = begin("pairs.gguf", false);
    uint64_t n = (MIB - 24) / 18;
    put_head(&w, 0, n);
    for (uint64_t i = 0; i < n; i++) {
        char key[8];
        snprintf(key, sizeof key, "%05x", (unsigned)i);
        put_text(&w, key), put_u32(&w, GGUF_U8), put(&w, "", 1);
    }
    end(&w, "pairs.gguf");
}

static void make_array(const char *name, uint32_t type, uint64_t size) {
    writer w = begin(name, false);
    uint64_t n = (MIB - 100) / size;
    put_head(&w, 0, 1);
    put_text(&w, "a"), put_u32(&w, GGUF_ARRAY), put_u32(&w, type), put_u64(&w, n);
    put_zeros(&w, n * size);
    end(&w, name);
}

/* n tensors of one element, whose names end as given, in turn. */
static void make_tensors(const char *name, bool packed, uint64_t n, const char *const ends[2],
                         uint32_t type) {
    uint64_t size = tensor_type_of(type)->block_bytes;
    writer w = begin(name, packed);
    put_head(&w, n, 1);
    put_text(&w, "general.alignment"), put_u32(&w, GGUF_U32), put_u32(&w, 4);
    for (uint64_t i = 0; i < n; i++) {
        char tensor[64];
        snprintf(tensor, sizeof tensor, "%05x%s", (unsigned)(i / 2), ends[i % 2]);
        put_text(&w, tensor), put_u32(&w, 2), put_u64(&w, 1), put_u64(&w, 1);
        put_u32(&w, type), put_u64(&w, 4 * i);
    }
    put_zeros(&w, (4 - w.n % 4) % 4);
    float one = 1;
    for (uint64_t i = 0; i < n; i++)
        put(&w, type == GGUF_F32 ? (const void *)&one : "\0\0", size), put_zeros(&w, 4 - size);
    end(&w, name);
}

static void make_claims(void) {
    writer w = begin("claims.gguf", false);
    put_head(&w, 1ull << 40, 1ull << 40);
    put_zeros(&w, MIB - 100);
    end(&w, "claims.gguf");
}

/* Legacy importance data: entries of so many values each, with names of a length. */
static void make_matrix(const char *name, bool packed, uint32_t entries, uint32_t values, int length) {
    const float one = 1;
    writer w = begin(name, packed);
    put_u32(&w, entries);
    for (uint32_t i = 0; i < entries; i++) {
        char entry[128];
        snprintf(entry, sizeof entry, "%0*x", length, (unsigned)i);
        put_u32(&w, (uint32_t)length), put(&w, entry, (size_t)length), put_u32(&w, 1), put_u32(&w, values);
        for (uint32_t k = 0; k < values; k++) put(&w, &one, sizeof one);
    }
    end(&w, name);
}

static void make_bomb(void) {
    writer w = begin("bomb", true);
    put_zeros(&w, 900ull * MIB);
    end(&w, "bomb");
}

static void make_recipe(const char *name, const char *item) {
    writer w = begin(name, false);
    while (w.n + strlen(item) < MIB) put(&w, item, strlen(item));
    end(&w, name);
}

FIXTURE(set_up) {
    static const char *const weights[2] = {".a.weight", ".b.weight"}, *const parts[2] = {".in_sum2",
                                                                                         ".counts"};
    folder = temporary_folder();
    make_pairs();
    make_array("strings.gguf", GGUF_STRING, 8);
    make_array("bytes.gguf", GGUF_U8, 1);
    make_claims();
    make_tensors("weights.gguf", false, 17000, weights, GGUF_F16);
    make_tensors("importance.gguf.gz", true, 65536, parts, GGUF_F32);
    make_matrix("entries.dat", false, 32768, 1, 6);
    make_matrix("names.dat.gz", true, 32768, 1, 120);
    make_matrix("wide.dat.gz", true, 1, MIB - 100, 6);
    make_bomb();
    make_recipe("many", "a=F16,");
    make_recipe("vain", "[x-z]{3}=F16 # and no other, so that few fit\n");
    make_recipe("large", "(.{200}){20}=F16 ");
    return 0;
}

#define BOUNDED(...) bounded(folder, (const char *const[]){__VA_ARGS__, NULL})

TEST(test_models) {
    static const char *const files[] = {"pairs.gguf", "strings.gguf", "bytes.gguf", "claims.gguf",
                                        "weights.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *f = files[i];
        BOUNDED("--force", "--report", "r.html", f, "out.gguf", "Q8_0", "2");
        BOUNDED("--dry-run", "--report", "r.json", f, "Q4_K_M");
        BOUNDED("--force", "--split-max-size", "1K", f, "out.gguf", "COPY", "2");
        BOUNDED("--dry-run", "--target-bpw", "10", f);
        BOUNDED("plan", f);
        BOUNDED("info", f);
        BOUNDED("info", "--json", f);
        BOUNDED("verify", f);
        BOUNDED("compare", f, f, "--report", "r.html");
        BOUNDED("imatrix", "show", "entries.dat", f);
    }
}

TEST(test_importance) {
    static const char *const files[] = {"importance.gguf.gz", "entries.dat", "names.dat.gz",
                                        "wide.dat.gz",        "bomb",        "claims.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *f = files[i];
        BOUNDED("--dry-run", "--imatrix", f, "weights.gguf", "Q8_0");
        BOUNDED("imatrix", "show", f);
        BOUNDED("imatrix", "show", "--json", f, "weights.gguf");
        BOUNDED("imatrix", "convert", "--force", f, "m.gguf");
        BOUNDED("imatrix", "convert", "--force", f, "m.dat");
        BOUNDED("imatrix", "merge", "--force", f, f, "m.gguf");
        BOUNDED("info", f);
    }
}

TEST(test_recipes) {
    BOUNDED("--dry-run", "--tensor-type-file", "many", "weights.gguf", "Q8_0");
    BOUNDED("--dry-run", "--tensor-type-file", "vain", "weights.gguf", "Q8_0");
    BOUNDED("--dry-run", "--tensor-type-file", "large", "weights.gguf", "Q8_0");
}

int main(void) { return tests_run(set_up, folder_remove); }
