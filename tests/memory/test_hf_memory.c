/* Opening a folder and reading its arrays when memory runs out: an error each time, and then the same bytes
 * as ever. */
#include "hf/adapter/adapter.h"
#include "hf/folder/folder.h"
#include "hf/hf.h"
#include "hf/tensors/tensors.h"
#include "tests/memory/memory.h"
#include "tests/support/folder.h"
#include "tests/support/safetensors.h"
#include "tests/support/tiny_folder.h"

enum { TENSORS = 4, TENSOR_BYTES = 512 };

static const char CONFIG[] = "{\"architectures\":[\"MixtralForCausalLM\"],\"num_hidden_layers\":1,\"hidden_"
                             "size\":4,\"num_attention_heads\":2,"
                             "\"num_local_experts\":2,\"time_limit\":Infinity,\"quantization_config\":{"
                             "\"quant_method\":\"gptq\",\"bits\":4}}";

/* Stacked, permuted and scaled arrays, and one that is packed along its inputs. */
static int folder_write(void **state) {
    static const int32_t groups[8] = {0};
    safetensors s = {.n = 0};
    folder_make(state);
    safetensors_add(&s, "model.embed_tokens.weight", "BF16", "[2,4]", NULL, 16);
    safetensors_add(&s, "model.layers.0.self_attn.q_proj.weight", "F16", "[8,4]", NULL, 64);
    safetensors_add(&s, "model.layers.0.block_sparse_moe.experts.0.w1.weight", "F32", "[2,4]", NULL, 32);
    safetensors_add(&s, "model.layers.0.block_sparse_moe.experts.1.w1.weight", "F32", "[2,4]", NULL, 32);
    safetensors_add(&s, "model.layers.0.self_attn.o_proj.qweight", "I32", "[1,8]", NULL, 32);
    safetensors_add(&s, "model.layers.0.self_attn.o_proj.qzeros", "I32", "[1,1]", NULL, 4);
    safetensors_add(&s, "model.layers.0.self_attn.o_proj.scales", "F16", "[1,8]", NULL, 16);
    safetensors_add(&s, "model.layers.0.self_attn.o_proj.g_idx", "I32", "[8]", groups, sizeof groups);
    safetensors_write(&s, path("model.safetensors"));
    safetensors_empty(&s);
    write_whole(path("config.json"), CONFIG, sizeof CONFIG - 1);
    return 0;
}

/* Opens the folder and reads all of it. */
static bool read_folder(uint8_t to[TENSORS][TENSOR_BYTES], gq_error *e) {
    hf_folder f = {.path = NULL};
    hf_config c = {.file = NULL};
    hf_list l = {.folder = NULL};
    hf_build b = {.config = NULL};
    bool ok = hf_folder_open(&f, folder, e) && hf_config_read(&c, &f, e) && hf_list_read(&l, &f, e) &&
              hf_mtp_find(&c, &l, e) && hf_build_tensors(&b, &c, &l, UINT64_MAX, e);
    for (size_t i = 0; ok && i < b.n; i++) {
        assert_true(i < TENSORS && b.tensors[i].tensor.size <= TENSOR_BYTES);
        ok = hf_tensor_read(&b.tensors[i], 0, shape_elements(b.tensors[i].tensor.ne), to[i], e);
    }
    hf_build_free(&b), hf_list_free(&l), hf_config_free(&c), hf_folder_close(&f);
    return ok;
}

TEST(each_allocation_may_fail) {
    static uint8_t wanted[TENSORS][TENSOR_BYTES], found[TENSORS][TENSOR_BYTES];
    gq_error e = {.text = ""};
    if (!read_folder(wanted, &e)) fail_msg("%s", e.text);
    for (long i = 1;; i++) {
        e.text[0] = 0, fail_at = i;
        bool ok = read_folder(found, &e), failed = fail_at == 0;
        fail_at = 0;
        if (ok)
            assert_memory_equal(found, wanted, sizeof wanted);
        else if (!failed || !strstr(e.text, "memory"))
            fail_msg("allocation %ld: '%s'", i, e.text);
        if (!failed) {
            assert_true(ok && i > 20);
            return;
        }
    }
}

/* The same for an image model, of one file. */
TEST(each_allocation_for_an_image_may_fail) {
    safetensors s = {.n = 0};
    safetensors_add_weights(&s, "blocks.0.self_attn.norm_q.weight", "[8]", 8);
    safetensors_add_weights(&s, "text_embedding.2.weight", "[8,8]", 64);
    safetensors_add_weights(&s, "head.modulation", "[1,2,8]", 16);
    safetensors_add_weights(&s, "patch_embedding.weight", "[8,2,1,2,2]", 64);
    safetensors_write(&s, path("image.safetensors"));
    safetensors_empty(&s);
    for (long i = 1;; i++) {
        model_source m;
        gq_error e = {.text = ""};
        fail_at = i;
        bool ok = hf_model_open(&m, path("image.safetensors"), &e), failed = fail_at == 0;
        fail_at = 0;
        if (!ok && (!failed || !strstr(e.text, "memory"))) fail_msg("allocation %ld: '%s'", i, e.text);
        if (ok) model_close(&m);
        if (!failed) {
            assert_true(ok && i > 20);
            return;
        }
    }
}

/* The same for a folder with an adapter, whose tensors are read, too. */
static void open_adapted(const gq_adapters *adapters, bool *ok, gq_error *e) {
    model_source m;
    *ok = adapters->base
              ? hf_adapter_file_open(&m, adapters->items->path, adapters->base, e)
              : hf_model_open_adapted(&m, path("Base"), adapters, e); /* path() allocates nothing */
    if (!*ok) return;
    for (uint64_t i = 0; *ok && i < m.n_tensors; i++) {
        static float x[1 << 16];
        uint64_t n = shape_elements(m.tensors[i]->ne);
        assert_true(n <= sizeof x / sizeof *x && m.tensors[i]->size <= sizeof x);
        *ok = model_read(&m, m.tensors[i], 0, n, x, e);
    }
    model_close(&m);
}

TEST(each_allocation_for_an_adapter_may_fail) {
    tiny_adapter_write(path("Lora"), false), tiny_adapter_write(path("Dora"), true);
    tiny_folder_write(path("Base"), 1, 0, 3);
    char *lora = strdup(path("Lora")), *dora = strdup(path("Dora")), *base = strdup(path("Base"));
    gq_adapter both[] = {{.path = lora}, {.path = dora, .scale = .5}};
    const gq_adapters ways[] = {{.items = both, .n = 2}, {.items = both, .n = 1, .base = base}};
    for (size_t way = 0; way < 2; way++)
        for (long i = 1;; i++) {
            gq_error e = {.text = ""};
            bool ok;
            fail_at = i;
            open_adapted(&ways[way], &ok, &e);
            bool failed = fail_at == 0;
            fail_at = 0;
            if (!ok && (!failed || !strstr(e.text, "memory")))
                fail_msg("way %zu, allocation %ld: '%s'", way, i, e.text);
            if (failed) continue;
            if (!ok) fail_msg("%s", e.text);
            assert_true(i > 20);
            break;
        }
    free(lora), free(dora), free(base);
}

int main(void) { return tests_run(folder_write, folder_remove); }
