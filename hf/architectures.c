/* The class names of config.json's "architectures", as a table. A few names stand for two architectures, and
 * a value of the config decides: those rows have a function. Names that llama.cpp's converter knows and that
 * are not read here are refused like all others.
 */
#include "hf/architectures.h"

#include <string.h>

typedef struct class_row {
    const char *class_name, *arch;
    const char *(*decide)(
        const hf_config *c); /* NULL: always arch; else the architecture, or NULL: refused */
} class_row;

static bool model_type_is(const hf_config *c, const char *name) {
    const char *type = hf_config_text(c, "model_type");
    return type && strcmp(type, name) == 0;
}

static const char *decide_mistral(const hf_config *c) {
    return model_type_is(c, "mistral4") ? "mistral4" : "mistral3";
}

/* A draft model of one layer with a vocabulary of its own predicts for another model. */
static const char *decide_llama(const hf_config *c) {
    return hf_config_has(c, "draft_vocab_size") && c->layers == 1 ? NULL : "llama";
}

static const char *decide_nemotron(const hf_config *c) {
    return hf_config_get(c, "num_experts_per_tok") ? "nemotron_h_moe" : "nemotron_h";
}

/* Whether a layer has attention: by a list of kinds, a list of numbers, or a period. */
bool hf_granite_has_attention(const hf_config *c, uint64_t layer) {
    const json_t *kinds = hf_config_get(c, "layer_types"), *numbers = hf_config_get(c, "attn_layer_indices");
    uint32_t period, offset;
    if (kinds) {
        const char *kind = json_string_value(json_array_get(kinds, layer));
        return kind && strcmp(kind, "attention") == 0;
    }
    for (size_t i = 0; numbers && i < json_array_size(numbers) && i < c->layers; i++)
        if (json_integer_value(json_array_get(numbers, i)) == (json_int_t)layer) return true;
    return !numbers && hf_config_u32(c, "attn_layer_period", &period, NULL) &&
           hf_config_u32(c, "attn_layer_offset", &offset, NULL) && period > 0 && layer % period == offset;
}

static const char *decide_granite(const hf_config *c) {
    uint32_t used = 0;
    for (uint64_t i = 0; i < c->layers; i++)
        if (!hf_granite_has_attention(c, i)) return "granitehybrid";
    hf_config_u32_or(c, "num_experts_per_tok", 0, &used, NULL);
    return used ? "granitemoe" : "granite";
}

static const class_row classes[] = {
    {"AfmoeForCausalLM", "afmoe", NULL},
    {"ApertusForCausalLM", "apertus", NULL},
    {"ArceeForCausalLM", "arcee", NULL},
    {"BailingMoeV2ForCausalLM", "bailingmoe2", NULL},
    {"BambaForCausalLM", "granitehybrid", decide_granite},
    {"BloomForCausalLM", "bloom", NULL},
    {"BloomModel", "bloom", NULL},
    {"Cohere2ForCausalLM", "cohere2", NULL},
    {"CohereForCausalLM", "command-r", NULL},
    {"DeepseekV2ForCausalLM", "deepseek2", NULL},
    {"DeepseekV32ForCausalLM", "deepseek32", NULL},
    {"DeepseekV3ForCausalLM", "deepseek2", NULL},
    {"Dots1ForCausalLM", "dots1", NULL},
    {"DotsOCRForCausalLM", "qwen2", NULL},
    {"AudioFlamingo3ForConditionalGeneration", "qwen2", NULL},
    {"Ernie4_5ForCausalLM", "ernie4_5", NULL},
    {"Ernie4_5_ForCausalLM", "ernie4_5", NULL},
    {"Ernie4_5_MoeForCausalLM", "ernie4_5-moe", NULL},
    {"Exaone4ForCausalLM", "exaone4", NULL},
    {"ExaoneForCausalLM", "exaone", NULL},
    {"ExaoneMoEForCausalLM", "exaone-moe", NULL},
    {"ExaoneMoeForCausalLM", "exaone-moe", NULL},
    {"FalconForCausalLM", "falcon", NULL},
    {"FalconH1ForCausalLM", "falcon-h1", NULL},
    {"FalconMambaForCausalLM", "mamba", NULL},
    {"GPT2LMHeadModel", "gpt2", NULL},
    {"GPTBigCodeForCausalLM", "starcoder", NULL},
    {"GPTNeoXForCausalLM", "gptneox", NULL},
    {"Gemma2ForCausalLM", "gemma2", NULL},
    {"Gemma3ForCausalLM", "gemma3", NULL},
    {"Gemma3ForConditionalGeneration", "gemma3", NULL},
    {"Gemma3nForCausalLM", "gemma3n", NULL},
    {"Gemma3nForConditionalGeneration", "gemma3n", NULL},
    {"Gemma4ForCausalLM", "gemma4", NULL},
    {"Gemma4ForConditionalGeneration", "gemma4", NULL},
    {"GemmaForCausalLM", "gemma", NULL},
    {"Glm4ForCausalLM", "glm4", NULL},
    {"Glm4MoeForCausalLM", "glm4moe", NULL},
    {"Glm4MoeLiteForCausalLM", "deepseek2", NULL},
    {"Glm4vMoeForConditionalGeneration", "glm4moe", NULL},
    {"GlmMoeDsaForCausalLM", "glm-dsa", NULL},
    {"GptOssForCausalLM", "gpt-oss", NULL},
    {"GraniteForCausalLM", "granite", NULL},
    {"GraniteMoeForCausalLM", "granitemoe", NULL},
    {"GraniteMoeHybridForCausalLM", "granitehybrid", decide_granite},
    {"GraniteMoeSharedForCausalLM", "granitemoe", NULL},
    {"HunYuanDenseV1ForCausalLM", "hunyuan-dense", NULL},
    {"HunYuanMoEV1ForCausalLM", "hunyuan-moe", NULL},
    {"IQuestCoderForCausalLM", "llama", decide_llama},
    {"InternLM2ForCausalLM", "internlm2", NULL},
    {"InternLM3ForCausalLM", "llama", NULL},
    {"JambaForCausalLM", "jamba", NULL},
    {"KORMoForCausalLM", "qwen2", NULL},
    {"KimiK3ForConditionalGeneration", "kimi-k3", NULL},
    {"KimiLinearForCausalLM", "kimi-linear", NULL},
    {"KimiLinearModel", "kimi-linear", NULL},
    {"KimiVLForConditionalGeneration", "deepseek2", NULL},
    {"LFM2ForCausalLM", "lfm2", NULL},
    {"LLaMAForCausalLM", "llama", decide_llama},
    {"Lfm2ForCausalLM", "lfm2", NULL},
    {"Lfm2MoeForCausalLM", "lfm2moe", NULL},
    {"Llama4ForCausalLM", "llama4", NULL},
    {"Llama4ForConditionalGeneration", "llama4", NULL},
    {"LlamaForCausalLM", "llama", decide_llama},
    {"LlamaModel", "llama", decide_llama},
    {"LlavaForConditionalGeneration", "llama", NULL},
    {"MPTForCausalLM", "mpt", NULL},
    {"Mamba2ForCausalLM", "mamba2", NULL},
    {"MambaForCausalLM", "mamba", NULL},
    {"MambaLMHeadModel", "mamba", NULL},
    {"MiMoV2FlashForCausalLM", "mimo2", NULL},
    {"MiMoV2ForCausalLM", "mimo2", NULL},
    {"MiniCPM3ForCausalLM", "minicpm3", NULL},
    {"MiniCPMForCausalLM", "minicpm", NULL},
    {"MiniMaxM2ForCausalLM", "minimax-m2", NULL},
    {"MiniMaxM3SparseForCausalLM", "minimax-m3", NULL},
    {"MiniMaxM3SparseForConditionalGeneration", "minimax-m3", NULL},
    {"Ministral3ForCausalLM", "mistral3", decide_mistral},
    {"Mistral3ForConditionalGeneration", "mistral3", decide_mistral},
    {"MistralForCausalLM", "llama", NULL},
    {"MixtralForCausalLM", "llama", NULL},
    {"NemotronForCausalLM", "nemotron", NULL},
    {"NemotronHForCausalLM", "nemotron_h", decide_nemotron},
    {"OLMoForCausalLM", "olmo", NULL},
    {"Olmo2ForCausalLM", "olmo2", NULL},
    {"Olmo3ForCausalLM", "olmo2", NULL},
    {"OlmoForCausalLM", "olmo", NULL},
    {"OlmoeForCausalLM", "olmoe", NULL},
    {"Phi3ForCausalLM", "phi3", NULL},
    {"PhiForCausalLM", "phi2", NULL},
    {"PhiMoEForCausalLM", "phimoe", NULL},
    {"Qwen2AudioForConditionalGeneration", "qwen2", NULL},
    {"Qwen2ForCausalLM", "qwen2", NULL},
    {"Qwen2Model", "qwen2", NULL},
    {"Qwen2MoeForCausalLM", "qwen2moe", NULL},
    {"Qwen2VLForConditionalGeneration", "qwen2vl", NULL},
    {"Qwen2VLModel", "qwen2vl", NULL},
    {"Qwen2_5OmniModel", "qwen2vl", NULL},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2vl", NULL},
    {"Qwen3ForCausalLM", "qwen3", NULL},
    {"Qwen3Model", "qwen3", NULL},
    {"Qwen3MoeForCausalLM", "qwen3moe", NULL},
    {"Qwen3NextForCausalLM", "qwen3next", NULL},
    {"Qwen3OmniMoeForConditionalGeneration", "qwen3vlmoe", NULL},
    {"Qwen3VLForConditionalGeneration", "qwen3vl", NULL},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3vlmoe", NULL},
    {"Qwen3_5ForCausalLM", "qwen35", NULL},
    {"Qwen3_5ForConditionalGeneration", "qwen35", NULL},
    {"Qwen3_5MoeForCausalLM", "qwen35moe", NULL},
    {"Qwen3_5MoeForConditionalGeneration", "qwen35moe", NULL},
    {"RWForCausalLM", "falcon", NULL},
    {"SeedOssForCausalLM", "seed_oss", NULL},
    {"SmallThinkerForCausalLM", "smallthinker", NULL},
    {"SmolLM3ForCausalLM", "smollm3", NULL},
    {"StableLMEpochForCausalLM", "stablelm", NULL},
    {"StableLmForCausalLM", "stablelm", NULL},
    {"Starcoder2ForCausalLM", "starcoder2", NULL},
    {"Step3p5ForCausalLM", "step35", NULL},
    {"Step3p7ForConditionalGeneration", "step35", NULL},
    {"VLlama3ForCausalLM", "llama", NULL},
    {"VoxtralForConditionalGeneration", "llama", NULL},
    {"YoutuForCausalLM", "deepseek2", NULL},
};
enum { CLASSES = sizeof classes / sizeof *classes };

/* Two models whose text part is described by the root, whatever text_config says of itself. */
static bool class_of_root_counts(const char *name) {
    return name && (strcmp(name, "KimiK3ForConditionalGeneration") == 0 ||
                    strcmp(name, "Step3p7ForConditionalGeneration") == 0);
}

static const char *class_named_by(const json_t *object) {
    return json_string_value(json_array_get(json_object_get(object, "architectures"), 0));
}

/* Fails with the name that is closest to one that is read, if any is. */
static bool architecture_fail(const hf_config *c, gq_error *e) {
    const char *names[CLASSES];
    for (size_t i = 0; i < CLASSES; i++) names[i] = classes[i].class_name;
    const char *near = gq_nearest(c->class_name, names, CLASSES, 7);
    return hf_config_fail(c, e,
                          "the architecture %s is not one of the %d that can be read%s%s%s; llama.cpp's "
                          "converter may be able to make a GGUF of it, which can be read then",
                          c->class_name, CLASSES, near ? " (the nearest is " : "", near ? near : "",
                          near ? ")" : "");
}

static const class_row *class_find(const char *name) {
    for (size_t i = 0; i < CLASSES; i++)
        if (strcmp(classes[i].class_name, name) == 0) return &classes[i];
    return NULL;
}

bool hf_architecture_find_class(hf_config *c, gq_error *e) {
    const char *root = class_named_by(c->stored), *part = hf_config_text(c, "_class_name"),
               *text = class_named_by(json_object_get(c->stored, "text_config"));
    c->class_name = text && !class_of_root_counts(root) ? text : root;
    if (!c->class_name && part)
        return hf_config_fail(c, e,
                              "a %s is a part of an image model, and its weights, "
                              "diffusion_pytorch_model*.safetensors, are not here",
                              part);
    if (!c->class_name)
        return hf_config_fail(c, e, "no model class: expected \"architectures\": [\"...ForCausalLM\"]");
    return class_find(c->class_name) || architecture_fail(c, e);
}

bool hf_architecture_decide(hf_config *c, gq_error *e) {
    const class_row *row = class_find(c->class_name);
    c->arch = row->decide ? row->decide(c) : row->arch;
    return c->arch ||
           hf_config_fail(c, e, "a %s with draft_vocab_size is a draft model (EAGLE-3), which cannot be read",
                          c->class_name);
}
