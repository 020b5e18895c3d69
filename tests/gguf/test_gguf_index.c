/* Names to records, and headers whose pairs are set, removed and set again. */
#include "base/name_index.h"
#include "gguf/gguf.h"
#include "tests/support/support.h"

enum { N = 20000 };

typedef struct record {
    const char *name;
    int other;
} record;
static record records[N];
static char names[N][16];

static bool find(const name_index *x, const char *name, uint64_t *i) {
    return name_index_find(x, records, sizeof *records, name, i);
}

TEST(every_name_is_found) {
    name_index x = {0};
    uint64_t found;
    assert_false(find(&x, "0", &found));
    for (uint64_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%llx%s", (unsigned long long)i, i % 3 ? "" : ".weight");
        records[i].name = names[i];
    }
    assert_true(name_index_all(&x, records, sizeof *records, N, NULL));
    for (uint64_t i = 0; i < N; i++) {
        assert_true(find(&x, names[i], &found));
        assert_int_equal(found, i);
    }
    assert_false(find(&x, "", &found));
    assert_false(find(&x, "absent", &found));
    assert_false(find(&x, "1.weight", &found));
    name_index_free(&x);
    assert_false(find(&x, names[0], &found));
    name_index_free(&x);
}

TEST(records_that_have_gone_are_not_found) {
    name_index x = {0};
    uint64_t found;
    for (uint64_t i = 0; i < N; i++) {
        records[i].name = names[i];
        assert_true(name_index_add(&x, records, sizeof *records, i, NULL));
        if (i % 2) records[i].name = NULL;
    }
    for (uint64_t i = 0; i < N; i++) assert_int_equal(find(&x, names[i], &found), i % 2 == 0);
    name_index_free(&x);
}

/* The pairs of a header are those set last, in that order, whatever was done on the way. */
TEST(pairs_set_again_and_again) {
    enum { KEYS = 500, ROUNDS = 4 };
    char key[16];
    const uint8_t *bytes;
    uint64_t size, data;
    gguf_header *h = gguf_header_new(NULL);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "k%u", i);
            assert_true(gguf_header_set_u32(h, key, round * KEYS + i, NULL));
            if (i % 5 == 4) gguf_header_remove(h, key);
        }
        for (uint32_t i = 0; i < KEYS; i++) {
            uint32_t value;
            snprintf(key, sizeof key, "k%u", i);
            const model_kv *kv = gguf_header_find(h, key);
            assert_int_equal(kv == NULL, i % 5 == 4);
            if (!kv) continue;
            memcpy(&value, kv->value, 4);
            assert_int_equal(value, round * KEYS + i);
        }
        if (round % 2) assert_true(gguf_header_finish(h, &bytes, &size, &data, NULL));
    }
    gq_file file;
    gguf_shard s;
    assert_true(gq_file_memory(&file, "made", bytes, size, NULL, NULL) && gguf_shard_read(&s, &file, NULL));
    assert_int_equal(s.n_kv, KEYS - KEYS / 5);
    for (uint32_t i = 0, k = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "k%u", i);
        if (i % 5 != 4) assert_string_equal(s.kv[k++].key, key);
    }
    gguf_shard_free(&s);
    gguf_header_free(h);
}

int main(void) { return tests_run(NULL, NULL); }
