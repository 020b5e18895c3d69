/* Shards that were written together are told from those that were not. */
#include <fcntl.h>
#include <sys/stat.h>

#include "gguf/gguf.h"
#include "gguf/model.h"
#include "tests/support/shards.h"

enum { SHARDS = 4 };

/* "FOLDER/set-0000k-of-00004.gguf" */
static const char *shard(const char *set, int k) {
    char name[64];
    snprintf(name, sizeof name, "%s-%05d-of-%05d.gguf", set, k, SHARDS);
    return path(name);
}

/* A set of so many shards, whatever its type: the shards of the input are kept. */
static void write_set(const char *set, const char *type, const char *option, const char *value) {
    char out[64];
    snprintf(out, sizeof out, "%s.gguf", set);
    GQUANT(0, "-q", "--keep-split", option, value, shard("in", 1), path(out), type);
}

FIXTURE(set_up) {
    folder = temporary_folder();
    write_shards("whole", "in", SHARDS, 256, 0);
    write_set("a", "Q4_0", "--threads", "1");
    write_set("b", "Q8_0", "--threads", "1");
    return 0;
}

static uint64_t digest_of(const char *file) {
    model_source m = open_model(file);
    const model_kv *kv = model_kv_find(m.kv, m.n_kv, GGUF_SET_KEY);
    uint64_t digest = 0;
    if (kv) assert_int_equal(kv->type, GGUF_U64), memcpy(&digest, kv->value, sizeof digest);
    model_close(&m);
    return digest;
}

static void copy(const char *from, const char *to) {
    size_t n;
    uint8_t *bytes = read_whole(from, &n);
    write_whole(to, bytes, n);
    free(bytes);
}

/* Set m: the shards of a, one of them from another set. */
static void mix(const char *other, int from_other) {
    for (int k = 1; k <= SHARDS; k++) copy(shard(k == from_other ? other : "a", k), shard("m", k));
}

static void assert_mixed(const char *other) {
    for (int k = 1; k <= SHARDS; k++) {
        mix(other, k);
        char *text;
        int status = run_command((const char *const[]){NULL, "verify", shard("m", k), NULL}, &text, NULL);
        assert_int_equal(status, 1);
        assert_non_null(strstr(text, "was not written together with"));
        free(text);
        GQUANT_SAYS(0, "were not written together", "--allow-requantize", "--dry-run", shard("m", 1), "Q4_0");
    }
}

TEST(sets_of_one_run_are_sound) {
    GQUANT(0, "verify", shard("a", 1));
    GQUANT(0, "verify", shard("b", SHARDS));
    mix("a", 1);
    GQUANT(0, "verify", shard("m", 2));
}

TEST(other_types) { assert_mixed("b"); }

/* The same names, shapes and types: nothing else would tell. */
TEST(other_ways_to_the_same_types) {
    write_set("fast", "Q4_0", "--effort", "fast");
    write_set("best", "Q4_0", "--effort", "best");
    assert_mixed("fast");
    assert_mixed("best");
    write_set("type", "Q4_0", "--tensor-type", "blk.3=Q4_1");
    assert_mixed("type");
}

TEST(other_weights) {
    write_shards("tuned", "other", SHARDS, 256, 7);
    GQUANT(0, "-q", "--keep-split", shard("other", 1), path("tuned.gguf"), "Q4_0");
    assert_mixed("tuned");
}

/* What is in a file must not depend on when, or how often, it is made. */
TEST(a_set_is_the_same_every_time) {
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    for (int k = 1; k <= SHARDS; k++) assert_int_equal(utimensat(AT_FDCWD, shard("in", k), times, 0), 0);
    write_set("again", "Q4_0", "--threads", "2");
    for (int k = 1; k <= SHARDS; k++) assert_same_file(shard("a", k), shard("again", k));
}

/* A program that splits copies the metadata to the first shard and knows nothing of our key. */
TEST(shards_without_the_key_are_taken_as_they_come) {
    assert_true(digest_of(shard("a", 1)) != 0);
    mix("a", 1);
    model_source m = open_model(shard("a", 1));
    const gguf_shard *s = &gguf_container_of(&m)->shards[1];
    const uint8_t *head;
    uint64_t header_size, data_size, size;
    gguf_header *h = gguf_header_new(NULL);
    for (uint64_t i = 0; i < s->n_kv; i++)
        if (strcmp(s->kv[i].key, GGUF_SET_KEY) != 0) assert_true(gguf_header_copy(h, &s->kv[i], NULL));
    assert_true(gguf_header_add_tensor(h, s->tensors[0].name, s->tensors[0].ne, s->tensors[0].type, NULL));
    assert_int_equal(s->n_tensors, 1);
    assert_true(gguf_header_finish(h, &head, &header_size, &data_size, NULL));
    uint8_t *data = tensor_bytes(&m, s->tensors[0].name, &size), *all = calloc(1, header_size + data_size);
    memcpy(all, head, header_size), memcpy(all + header_size, data, size);
    write_whole(shard("m", 2), all, header_size + data_size);
    free(data), free(all);
    gguf_header_free(h), model_close(&m);
    GQUANT(0, "verify", shard("m", 1));
}

/* One file has no set, and a copy of a set is what the set is. */
TEST(whole_files_have_no_key) {
    GQUANT(0, "-q", shard("a", 1), path("merged.gguf"), "COPY");
    assert_true(digest_of(path("merged.gguf")) == 0);
    assert_true(digest_of(path("whole.gguf")) == 0);
    GQUANT(0, "-q", "--keep-split", shard("a", 1), path("kept.gguf"), "COPY");
    for (int k = 1; k <= SHARDS; k++) assert_same_file(shard("a", k), shard("kept", k));
    GQUANT_SAYS(2, "describes the file's layout", "--override-kv", GGUF_SET_KEY "=int:1", "--dry-run",
                path("whole.gguf"), "Q8_0");
}

int main(void) { return tests_run(set_up, folder_remove); }
