/* tokenizer.json. Head: an architecture, the length of tokenizer_config.json; then that file, then
 * tokenizer.json. What becomes metadata is a vocabulary that can be used, or that the tokenizer refuses with
 * a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/tokens/tokenizer.h"
#include "hf/folder/folder.h"
#include "hf/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static const char *const architectures[] = {"LlamaForCausalLM", "Qwen3MoeForCausalLM", "Gemma4ForCausalLM",
                                            "Glm4MoeForCausalLM"};

static void try_text(const hf_metadata *metadata, uint64_t n_tokens) {
    static const char text[] = "a b\n\n ab<s> 12";
    token_list ids = {0};
    gq_error e = {0};
    tokenizer *t = tokenizer_new("fuzz", metadata->kv, metadata->n, &e);
    if (!t || !tokenizer_run(t, text, sizeof text - 1, TOKENIZE_PARSE_SPECIAL, &ids, &e))
        fuzz_check_error(&e);
    for (size_t i = 0; i < ids.n; i++) PROMISE(ids.ids[i] < n_tokens, "id %u", ids.ids[i]);
    free(ids.ids);
    tokenizer_free(t);
}

static void try_folder(void) {
    hf_folder f = {.path = NULL};
    hf_config c = {.file = NULL};
    hf_metadata metadata = {.prefix = "llama"};
    char *unknown = NULL;
    uint64_t n_tokens;
    gq_error e = {0};
    bool ok = hf_folder_open(&f, fuzz_folder(), &e) && hf_config_read(&c, &f, &e) &&
              hf_tokenizer_metadata(&f, &c, &metadata, &n_tokens, &unknown, &e);
    if (!ok) fuzz_check_error(&e);
    if (ok && !unknown && n_tokens < 10000) try_text(&metadata, n_tokens);
    free(unknown);
    hf_metadata_free(&metadata), hf_config_free(&c), hf_folder_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    char config[200];
    fuzz_input in = {bytes, n};
    size_t which = fuzz_byte(&in) % (sizeof architectures / sizeof *architectures), settings = fuzz_u16(&in);
    if (settings > in.n) settings = in.n;
    int length = snprintf(config, sizeof config, "{\"architectures\":[\"%s\"],\"num_hidden_layers\":1}",
                          architectures[which]);
    fuzz_write_in_folder("config.json", config, (size_t)length);
    fuzz_write_in_folder("tokenizer_config.json", in.bytes, settings);
    fuzz_write_in_folder("tokenizer.json", in.bytes + settings, in.n - settings);
    try_folder();
    return 0;
}

/* ---- seeds ---- */

static void seed(const char *folder, const char *name, char which, const char *settings, const char *json) {
    size_t n = strlen(settings);
    char *bytes = malloc(3 + n);
    bytes[0] = which, bytes[1] = (char)n, bytes[2] = (char)(n >> 8);
    memcpy(bytes + 3, settings, n);
    fuzz_seed_behind(folder, name, bytes, 3 + n, json, strlen(json));
    free(bytes);
}

#define SETTINGS \
    "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"},\"add_bos_token\":true," \
    "\"model_max_length\":1000000000000000019884624838656,\"chat_template\":[{\"name\":\"default\"," \
    "\"template\":\"{{ x }}\"}],\"additional_special_tokens\":[\"<s>\"]}"
#define ADDED \
    "\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true},{\"id\":5,\"content\":\"</s>\"," \
    "\"normalized\":false}]"
#define TEMPLATE \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}," \
    "{\"Sequence\":{\"id\":\"A\"}}],\"pair\":[]}"
#define SPLIT(regex) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false}"

void fuzz_seeds(const char *folder) {
    seed(folder, "bytes", 1, SETTINGS,
         "{" ADDED "," TEMPLATE ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
         "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":"
         "2,\"\u0120\":3},"
         "\"merges\":[\"a b\",[\"\u0120\",\"a\"]]}}");
    seed(folder, "pieces", 0, SETTINGS,
         "{" ADDED
         ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\"}]},\"decoder\":{"
         "\"type\":\"Sequence\",\"decoders\":[]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
         "\"vocab\":{\"a\":0,"
         "\"<0x41>\":1,\"\u2581\":2,\"\u2581a\":3},\"merges\":[\"\u2581 a\"]}}");
    seed(folder, "gemma4", 2, "{}",
         "{" ADDED
         ",\"decoder\":{\"type\":\"Sequence\"},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{"
         "\"\\n\":0,\"\\n\\n\":1,\"a\":2,\"\u2581\":3},\"merges\":[\"\\n \\n\"]}}");
    seed(folder, "cut", 1, "",
         "{" ADDED ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT(
             "[a-z]+|\\\\s+(?!\\\\S)") ",{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":"
                                       "\"ByteLevel\",\"add_prefix_space\":false,"
                                       "\"use_regex\":false}]},\"model\":{\"vocab\":{\"a\":0,\"I\":1,\"'\":2,"
                                       "\"I'\":3},\"merges\":[\"I '\",\"a p\"],"
                                       "\"ignore_merges\":true}}");
}
