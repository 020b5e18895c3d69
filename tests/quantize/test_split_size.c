/* Shards cut at a size are no larger, whatever the alignment and the metadata: only a tensor that is too
 * large by itself may make one that is. */
#include <sys/stat.h>

#include "tests/support/folder.h"
#include "tests/support/model.h"
#include "tests/support/numbers.h"

enum { MODELS = 25, MOST_TENSORS = 24 };

static uint64_t below(uint64_t n) { return next_random() % n; }

static void make(const char *path, uint32_t alignment, uint64_t n) {
    model *m = model_new("llama", 1);
    char text[2000] = "", name[64];
    memset(text, 'x', below(sizeof text));
    model_set_string(m, "general.description", text);
    if (alignment != 32 || below(2)) model_set_u32(m, "general.alignment", alignment);
    for (uint64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blk.%d.%.*s.weight", (int)i, (int)below(20), "ffn_up_and_so_on_and_on");
        model_add(m, name, below(2) ? GGUF_F16 : GGUF_F32,
                  (const uint64_t[4]){32 * (1 + below(20)), 1 + below(9), 1 + below(2)}, NULL);
    }
    model_save(m, path);
}

/* Quantize, and check all shards; returns their number. */
static uint32_t split(const char *in, uint64_t most, const char *filetype, uint64_t *first_size) {
    const char *out = in_folder(folder, "out.gguf");
    gq_output output = {.path = out, .filetype = filetype};
    gq_options o = {.size = sizeof o,
                    .input = in,
                    .outputs = &output,
                    .n_outputs = 1,
                    .threads = 1,
                    .split_max_size = most};
    gq_plan *plan = must_plan(&o);
    gq_results_free(must_run(plan));
    model_source m = open_model(gq_plan_summary(plan, 0)->path);
    uint32_t shards = gguf_container_of(&m)->n_shards;
    *first_size = gguf_container_of(&m)->shards[0].file.size;
    for (uint32_t i = 0; i < shards; i++) {
        const gguf_shard *s = &gguf_container_of(&m)->shards[i];
        if (most && s->file.size > most && s->n_tensors > 1)
            fail_msg("%s at %llu: shard %u of %u has %llu bytes and %llu tensors", in,
                     (unsigned long long)most, i, shards, (unsigned long long)s->file.size,
                     (unsigned long long)s->n_tensors);
        remove(s->file.path);
    }
    model_close(&m);
    gq_plan_free(plan);
    return shards;
}

TEST(test_random_models) {
    uint32_t most_shards = 0;
    seed_random(7);
    for (int i = 0; i < MODELS; i++) {
        const char *in = in_folder(folder, "in.gguf"), *filetype = below(2) ? "COPY" : "Q8_0";
        uint64_t n = 1 + below(MOST_TENSORS), whole, size;
        make(in, 32u << below(12), n);
        assert_int_equal(split(in, 0, filetype, &whole), 1);
        for (int k = 0; k < 3; k++) {
            uint32_t shards = split(in, 1 + below(whole), filetype, &size);
            if (shards > most_shards) most_shards = shards;
        }
        /* A file that fits is not split, one byte less and it is. */
        assert_int_equal(split(in, whole, filetype, &size), 1);
        assert_int_equal(size, whole);
        assert_true(split(in, whole - 1, filetype, &size) > 1 || n == 1);
    }
    assert_true(most_shards > 10);
}

int main(void) { return tests_run(folder_make, folder_remove); }
