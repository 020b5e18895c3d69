/* Models of several shards: found from any of them, and checked against each other. */
#include <sys/resource.h>

#include "gguf/model.h"
#include "tests/support/folder.h"
#include "tests/support/gguf_bytes.h"

/* What a shard says; SKIP leaves a key out. */
enum { SKIP = -1 };
typedef struct shard {
    int no, count, total;
    uint32_t no_type, count_type, total_type;
    uint32_t alignment; /* 0: no such key */
    const char *tensors[3];
} shard;

static void put_int_key(bytes *b, const char *key, uint32_t type, int value) {
    put_key(b, key, type);
    put(b, &value, gguf_value_size(type));
}

static bytes shard_bytes(const shard *s) {
    uint32_t n_tensors = 0, alignment = s->alignment ? s->alignment : 32;
    while (n_tensors < 3 && s->tensors[n_tensors]) n_tensors++;
    bytes b = file_head(
        3, n_tensors,
        (uint64_t)((s->no != SKIP) + (s->count != SKIP) + (s->total != SKIP) + (s->alignment != 0)));
    if (s->alignment) put_int_key(&b, "general.alignment", GGUF_U32, (int)s->alignment);
    if (s->no != SKIP) put_int_key(&b, "split.no", s->no_type ? s->no_type : GGUF_U16, s->no);
    if (s->count != SKIP) put_int_key(&b, "split.count", s->count_type ? s->count_type : GGUF_U16, s->count);
    if (s->total != SKIP)
        put_int_key(&b, "split.tensors.count", s->total_type ? s->total_type : GGUF_INT32, s->total);
    for (uint32_t i = 0; i < n_tensors; i++) /* data in reverse table order */
        put_tensor(&b, s->tensors[i], 1, (uint64_t[]){8}, GGUF_F32, (n_tensors - 1 - i) * alignment);
    pad(&b, alignment);
    put_zeros(&b, n_tensors * alignment);
    return b;
}

static const char *path_of(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_shard(const char *name, const shard *s) {
    bytes b = shard_bytes(s);
    write_whole(path_of(name), b.data, b.n);
    free(b.data);
}

static const shard first = {.no = 0, .count = 2, .total = 5, .alignment = 64, .tensors = {"a", "b"}},
                   second = {.no = 1, .count = 2, .total = 5, .tensors = {"c", "d", "e"}};

static void write_pair(const shard *one, const shard *two) {
    write_shard("m-00001-of-00002.gguf", one);
    write_shard("m-00002-of-00002.gguf", two);
}

static void assert_model_refused(const char *name, const char *file, const char *says) {
    model_source m;
    gq_error e;
    if (gguf_model_open(&m, path_of(name), &e)) fail_msg("accepted although: %s", says);
    if (!strstr(e.text, file) || !strstr(e.text, says))
        fail_msg("'%s' and '%s' expected in: %s", file, says, e.text);
    model_close(&m);
}

/* The pair with one thing changed: refused, naming `file` and saying `says`, whichever shard is given. */
static void refuse_pair(const shard *one, const shard *two, const char *says) {
    write_pair(one, two);
    assert_model_refused("m-00001-of-00002.gguf", folder, says);
    assert_model_refused("m-00002-of-00002.gguf", folder, says);
}

TEST_WITH(any_shard_leads_to_all, folder_make, folder_remove) {
    static const char *const expected[] = {"b", "a", "e", "d", "c"}; /* by shard, then by place */
    write_pair(&first, &second);
    for (int given = 1; given <= 2; given++) {
        char name[32];
        model_source m;
        gq_error e;
        snprintf(name, sizeof name, "m-%05d-of-00002.gguf", given);
        if (!gguf_model_open(&m, path_of(name), &e)) fail_msg("%s", e.text);
        assert_int_equal(gguf_container_of(&m)->n_shards, 2);
        assert_int_equal(m.n_tensors, 5);
        assert_int_equal(gguf_container_of(&m)->shards[0].alignment, 64);
        assert_int_equal(gguf_container_of(&m)->shards[1].alignment, 32);
        for (int i = 0; i < 5; i++) {
            assert_string_equal(m.tensors[i]->name, expected[i]);
            assert_int_equal(m.tensors[i]->shard, i >= 2);
            assert_ptr_equal(model_tensor_named(&m, expected[i]), m.tensors[i]);
        }
        model_close(&m);
    }
}

TEST_WITH(shards_without_tensors_are_fine, folder_make, folder_remove) {
    shard one = {.no = 0, .count = 3, .total = 1}, two = {.no = 1, .count = 3, .total = 1, .tensors = {"a"}},
          three = {.no = 2, .count = 3, .total = 1};
    write_shard("e-00001-of-00003.gguf", &one);
    write_shard("e-00002-of-00003.gguf", &two);
    write_shard("e-00003-of-00003.gguf", &three);
    model_source m;
    gq_error e;
    if (!gguf_model_open(&m, path_of("e-00002-of-00003.gguf"), &e)) fail_msg("%s", e.text);
    assert_int_equal(gguf_container_of(&m)->n_shards, 3);
    assert_int_equal(m.tensors[0]->shard, 1);
    model_close(&m);
}

TEST_WITH(what_mergers_leave_behind_is_a_whole_model, folder_make, folder_remove) {
    for (int count = SKIP; count <= 1; count++) {
        shard s = {.no = 0, .count = count, .total = 99, .tensors = {"a"}};
        write_shard("merged.gguf", &s);
        model_source m;
        gq_error e;
        if (!gguf_model_open(&m, path_of("merged.gguf"), &e)) fail_msg("%s", e.text);
        assert_int_equal(gguf_container_of(&m)->n_shards, 1);
        model_close(&m);
    }
}

TEST_WITH(missing_and_broken_siblings_are_named, folder_make, folder_remove) {
    write_pair(&first, &second);
    unlink(path_of("m-00002-of-00002.gguf"));
    assert_model_refused("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "shard 2 of the 2");
    write_whole(path_of("m-00002-of-00002.gguf"), "not a model", 11);
    assert_model_refused("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "not a GGUF file");
    bytes b = shard_bytes(&second);
    write_whole(path_of("m-00002-of-00002.gguf"), b.data, b.n - 1);
    assert_model_refused("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "'c'");
    free(b.data);
    shard claim = {.no = 0, .count = 65535, .total = 1, .tensors = {"a"}};
    write_shard("m-00001-of-65535.gguf", &claim);
    assert_model_refused("m-00001-of-65535.gguf", "m-00002-of-65535.gguf", "shard 2 of the 65535");
    claim.no = 65534;
    write_shard("m-65535-of-65535.gguf", &claim);
    assert_model_refused("m-65535-of-65535.gguf", "m-00002-of-65535.gguf", "No such file");
}

TEST_WITH(the_name_has_to_fit, folder_make, folder_remove) {
    write_shard("plain.gguf", &first);
    assert_model_refused("plain.gguf", "plain.gguf", "-00001-of-00002.gguf");
    write_shard("m-00001-of-00003.gguf", &first);
    assert_model_refused("m-00001-of-00003.gguf", "m-00001-of-00003.gguf", "split.count 2");
    write_shard("-00001-of-00002.ggufx", &first);
    assert_model_refused("-00001-of-00002.ggufx", "ggufx", "-00001-of-00002.gguf");
    bytes b = shard_bytes(&second);
    model_source m;
    gq_error e;
    assert_false(gguf_model_memory(&m, "in memory", b.data, b.n, &e));
    assert_non_null(strstr(e.text, "shard 2 of a model of 2"));
    free(b.data);
}

TEST_WITH(the_split_keys_are_checked, folder_make, folder_remove) {
    shard s = second;
    s.no = SKIP, refuse_pair(&first, &s, "split.no");
    s.no = 0, refuse_pair(&first, &s, "split.no");
    s.no = 2, refuse_pair(&first, &s, "split.no is 2");
    s = second, s.no_type = GGUF_U32, refuse_pair(&first, &s, "split.no has type u32, expected u16");
    s = second, s.count = 3, refuse_pair(&first, &s, "split.count");
    s = second, s.count = SKIP;
    write_pair(&first, &s);
    assert_model_refused("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "split.count");
    s = second, s.count_type = GGUF_U32, refuse_pair(&first, &s, "split.count has type u32, expected u16");
    s = second, s.count_type = GGUF_INT16, refuse_pair(&first, &s, "split.count has type i16");
    s = second, s.total_type = GGUF_U32,
    refuse_pair(&first, &s, "split.tensors.count has type u32, expected i32");
    s = second, s.total = SKIP, refuse_pair(&first, &s, "split.tensors.count");
    s = second, s.total = 4, refuse_pair(&first, &s, "split.tensors.count");
    for (int total = -1; total < 7; total++) {
        if (total == 5) continue;
        shard one = first, two = second;
        one.total = two.total = total;
        if (total == -1) one.total = two.total = -5; /* SKIP is -1 */
        refuse_pair(&one, &two, "the shards hold 5 tensors");
    }
}

TEST_WITH(names_differ_across_shards, folder_make, folder_remove) {
    shard s = second;
    s.tensors[1] = "b";
    refuse_pair(&first, &s, "tensor 'b'");
}

TEST_WITH(running_out_of_descriptors_is_said, folder_make, folder_remove) {
    char name[32];
    for (int i = 0; i < 40; i++) {
        shard s = {.no = i, .count = 40, .total = 40};
        char tensor[16];
        snprintf(tensor, sizeof tensor, "t%d", i);
        s.tensors[0] = tensor;
        snprintf(name, sizeof name, "f-%05d-of-00040.gguf", i + 1);
        write_shard(name, &s);
    }
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit low = {.rlim_cur = 30, .rlim_max = old.rlim_max};
    model_source m;
    gq_error e;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    bool opened = gguf_model_open(&m, path_of("f-00001-of-00040.gguf"), &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_false(opened);
    assert_non_null(strstr(e.text, "ulimit -n"));
    assert_non_null(strstr(e.text, "of the 40"));
    assert_true(gguf_model_open(&m, path_of("f-00001-of-00040.gguf"), &e));
    assert_int_equal(m.n_tensors, 40);
    model_close(&m);
}

int main(void) { return tests_run(NULL, NULL); }
