/* Opening a folder and reading its arrays when memory runs out: an error each time, and then the same bytes
 * as ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/build.h"
#include "hf/predicting.h"
#include "tests/folder.h"
#include "tests/memory.h"

enum { TENSORS = 4, TENSOR_BYTES = 512 };

#define ARRAY(name, dtype, shape, from, to) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"
#define LAYER "model.layers.0."

/* Stacked, permuted and scaled arrays, and one that is packed along its inputs. */
static const char HEADER[] = "{" ARRAY("model.embed_tokens.weight", "BF16", "[2,4]", "0", "16") "," ARRAY(
    LAYER "self_attn.q_proj.weight", "F16", "[8,4]", "16",
    "80") "," ARRAY(LAYER "block_sparse_moe.experts.0.w1.weight", "F32", "[2,4]", "80",
                    "112") "," ARRAY(LAYER "block_sparse_moe.experts.1.w1.weight", "F32", "[2,4]", "112",
                                     "144") "," ARRAY(LAYER "self_attn.o_proj.qweight", "I32", "[1,8]", "144",
                                                      "176") "," ARRAY(LAYER "self_attn.o_proj.qzeros", "I32",
                                                                       "[1,1]", "176",
                                                                       "180") "," ARRAY(LAYER "self_attn.o_"
                                                                                              "proj.scales",
                                                                                        "F16", "[1,8]", "180",
                                                                                        "196") "," ARRAY(LAYER
                                                                                                         "sel"
                                                                                                         "f_"
                                                                                                         "att"
                                                                                                         "n."
                                                                                                         "o_"
                                                                                                         "pro"
                                                                                                         "j."
                                                                                                         "g_"
                                                                                                         "id"
                                                                                                         "x",
                                                                                                         "I3"
                                                                                                         "2",
                                                                                                         "[8"
                                                                                                         "]",
                                                                                                         "19"
                                                                                                         "6",
                                                                                                         "22"
                                                                                                         "8") "}";
static const char CONFIG[] = "{\"architectures\":[\"MixtralForCausalLM\"],\"num_hidden_layers\":1,\"hidden_"
                             "size\":4,\"num_attention_heads\":2,"
                             "\"num_local_experts\":2,\"time_limit\":Infinity,\"quantization_config\":{"
                             "\"quant_method\":\"gptq\",\"bits\":4}}";

static int folder_write(void **state) {
    uint64_t length = sizeof HEADER - 1;
    folder_make(state);
    FILE *f = fopen(path("model.safetensors"), "wb");
    fwrite(&length, 1, 8, f); /* little-endian */
    fwrite(HEADER, 1, length, f);
    for (int i = 0; i < 228; i++) putc(i >= 196 ? 0 : i, f);
    fclose(f);
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
              hf_predicting_find(&c, &l, e) && hf_build_tensors(&b, &c, &l, UINT64_MAX, e);
    for (size_t i = 0; ok && i < b.n; i++) {
        assert_true(i < TENSORS && b.tensors[i].tensor.size <= TENSOR_BYTES);
        ok = hf_tensor_read(&b.tensors[i], 0, shape_elements(b.tensors[i].tensor.ne), to[i], e);
    }
    hf_build_free(&b), hf_list_free(&l), hf_config_free(&c), hf_folder_close(&f);
    return ok;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_may_fail)};
    return cmocka_run_group_tests(tests, folder_write, folder_remove);
}
