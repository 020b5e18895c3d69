/* README.md's front matter, and what general.* is made of. Head: the length of generation_config.json; then
 * that file, then README.md. What is not understood is skipped: only a file that is no UTF-8 text or no JSON
 * fails. Texts that come of it are UTF-8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/model.h"
#include "hf/folder/folder.h"
#include "hf/metadata/metadata.h"
#include "hf/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static void check_text(const char *key, const uint8_t *value) {
    uint64_t n;
    memcpy(&n, value, 8);
    PROMISE(n > 0 && hf_is_utf8((const char *)value + 8, n), "%s", key);
}

static void check_metadata(const hf_metadata *metadata) {
    for (size_t i = 0; i < metadata->n; i++) {
        const model_kv *kv = &metadata->kv[i];
        uint32_t type;
        uint64_t n, length;
        const uint8_t *at;
        PROMISE(strncmp(kv->key, "general.", 8) == 0, "%s", kv->key);
        if (kv->type == GGUF_STRING) check_text(kv->key, kv->value);
        if (kv->type != GGUF_ARRAY) continue;
        PROMISE(model_kv_array(kv, &type, &n, &at) && n > 0, "%s", kv->key);
        for (uint64_t k = 0; type == GGUF_STRING && k < n; k++, at += 8 + length) memcpy(&length, at, 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char config[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":1}";
    fuzz_input in = {bytes, n};
    size_t generation = fuzz_u16(&in);
    hf_folder f = {.path = NULL};
    hf_config c = {.file = NULL};
    hf_metadata metadata = {.prefix = "llama"};
    hf_counts counts = {.weights = 1000000000};
    gq_error e = {0};
    if (generation > in.n) generation = in.n;
    fuzz_write_in_folder("config.json", config, sizeof config - 1);
    fuzz_write_in_folder("generation_config.json", in.bytes, generation);
    fuzz_write_in_folder("README.md", in.bytes + generation, in.n - generation);
    bool ok = hf_folder_open(&f, fuzz_folder(), &e) && hf_config_read(&c, &f, &e) &&
              hf_general_metadata(&f, &c, &counts, &metadata, &e);
    if (ok)
        check_metadata(&metadata);
    else
        fuzz_check_error(&e);
    hf_metadata_free(&metadata), hf_config_free(&c), hf_folder_close(&f);
    return 0;
}

/* ---- seeds ---- */

static void seed(const char *folder, const char *name, const char *generation, const char *readme) {
    size_t n = strlen(generation);
    char *bytes = malloc(2 + n);
    bytes[0] = (char)n, bytes[1] = (char)(n >> 8);
    memcpy(bytes + 2, generation, n);
    fuzz_seed_behind(folder, name, bytes, 2 + n, readme, strlen(readme));
    free(bytes);
}

void fuzz_seeds(const char *folder) {
    seed(folder, "card", "{\"temperature\":0.7,\"top_k\":20,\"top_p\":0.8,\"eos_token_id\":[1,2]}",
         "---\nlicense: apache-2.0\nlicense_link: \"https://x.org/a#b\"\nlanguage:\n- en\n- no\ntags: [chat, "
         "'a, b']\n"
         "base_model: org/Model-7B-v0.1-Instruct\npipeline_tag: text-generation\ndatasets:\n  - org/data\n"
         "model_creator: Some One\nquantized_by: >-\n  folded\n  text\n---\n# Title\n");
    seed(folder, "names", "{}",
         "---\nname: 8x7B chat\nmodel_name: 'it''s'\nbase_model:\n- a/b\n- c\n\tversion: v1.0 # no\n---\n");
    seed(folder, "broken", "[", "---\nlicense: [mit\nx: {a: b}\n: \n- \n\"\n");
}
