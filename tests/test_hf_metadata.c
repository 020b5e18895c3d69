/* The architecture's pairs, from configs with what the golden folders (tests/hf_golden) do not have, and each
 * error. */
#include <math.h>

#include "tests/hf_pairs.h"

#define BASE "\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":4"

static bool arch(const char *class_name, const char *values, uint64_t predicting) {
    char config[4096];
    snprintf(config, sizeof config, "{\"architectures\":[\"%s\"]," BASE "%s%s}", class_name,
             *values ? "," : "", values);
    pairs_end(NULL);
    pairs_begin(config);
    made.config.predicting = predicting;
    made.ok = hf_arch_pairs(&made.config, &made.pairs, &made.error);
    return made.ok;
}

static void expect_arch(const char *class_name, const char *values, uint64_t predicting) {
    if (!arch(class_name, values, predicting)) print_message("%s\n", made.error.text);
    assert_true(made.ok);
}

static void expect_error(const char *class_name, const char *values, const char *text) {
    assert_false(arch(class_name, values, 0));
    if (!strstr(made.error.text, text)) print_message("%s: %s\n", class_name, made.error.text);
    assert_non_null(strstr(made.error.text, text));
    assert_non_null(strstr(made.error.text, "config.json"));
}

static void missing_sizes_are_completed(void **state) {
    (void)state;
    expect_arch("Qwen2ForCausalLM", "\"head_dim\":null", 0);
    expect_u32("qwen2.block_count", 4);
    expect_u32(".context_length", 2048);
    expect_u32(".embedding_length", 64);
    expect_u32(".attention.head_count", 4);
    expect_f32(".attention.layer_norm_rms_epsilon", 1e-6F);
    expect_none(".attention.key_length");
    expect_none(".rope.freq_base");
    expect_arch("Qwen2ForCausalLM", "\"layer_norm_eps\":0.5,\"is_causal\":false", 0);
    expect_f32(".attention.layer_norm_epsilon", 0.5F);
    expect_none(".attention.layer_norm_rms_epsilon");
    expect_bool(".attention.causal", false);
}

static void the_first_name_counts(void **state) {
    (void)state;
    expect_arch("LlamaForCausalLM",
                "\"vocab_size\":9,\"n_ctx\":7,\"max_position_embeddings\":8,"
                "\"num_experts\":3,\"num_local_experts\":null,\"score_func\":\"sqrtsoftplus\"",
                0);
    expect_u32(".context_length", 8);
    expect_u32(".rope.dimension_count", 16);
    expect_none(".expert_count");
    expect_u32(".expert_gating_func", 4);
}

static void numbers_must_be_numbers(void **state) {
    (void)state;
    expect_error("LlamaForCausalLM", "", "vocab_size");
    expect_error("LlamaForCausalLM", "\"vocab_size\":4.0", "vocab_size");
    expect_error("LlamaForCausalLM", "\"vocab_size\":-1", "vocab_size");
    expect_error("Qwen2ForCausalLM", "\"rms_norm_eps\":\"small\"", "rms_norm_eps");
    expect_error("Qwen2ForCausalLM", "\"rope_theta\":1e300", "rope_theta");
    expect_error("Qwen2ForCausalLM", "\"scoring_func\":\"other\"", "softmax");
    expect_error("Qwen2ForCausalLM", "\"intermediate_size\":[1,2]", "2 entries");
    expect_error("Qwen2ForCausalLM", "\"intermediate_size\":[1,2,3,3000000000]", "2147483647");
    expect_error("AfmoeForCausalLM", "\"vocab_size\":9,\"route_norm\":1", "route_norm");
    expect_error("CohereForCausalLM", "\"max_position_embeddings\":9", "logit_scale");
    expect_error("DeepseekV3ForCausalLM",
                 "\"vocab_size\":9,\"kv_lora_rank\":4294967295,\"qk_rope_head_dim\":2", "4294967297");
}

static void rotation_has_several_spellings(void **state) {
    (void)state;
    expect_arch("Qwen2ForCausalLM", "\"rope_theta\":5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", 0);
    expect_f32(".rope.freq_base", 5);
    expect_text(".rope.scaling.type", "linear");
    expect_f32(".rope.scaling.factor", 2);
    expect_arch("Qwen2ForCausalLM",
                "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":7,\"rope_type\":\"yarn\",\"factor\":4,"
                "\"original_max_position_embeddings\":32,\"attention_factor\":null,\"beta_fast\":3},"
                "\"sliding_attention\":{\"rope_theta\":8}}",
                0);
    expect_f32(".rope.freq_base", 7);
    expect_f32(".rope.freq_base_swa", 8);
    expect_u32(".rope.scaling.original_context_length", 32);
    expect_f32(".rope.scaling.yarn_beta_fast", 3);
    expect_none(".rope.scaling.yarn_attn_factor");
    expect_arch("Qwen2ForCausalLM", "\"rope_scaling\":{\"rope_type\":\"yarn\",\"mrope_section\":[1,2]}", 0);
    expect_none(".rope.scaling.type");
    expect_i32s(".rope.dimension_sections", 1, 2, 0, 0);
    expect_error("Qwen2ForCausalLM", "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}", "original_max");
    expect_error("Qwen2ForCausalLM", "\"rope_scaling\":{\"mrope_section\":[1,2,3,4,5]}", "mrope_section");
    expect_error("Glm4ForCausalLM", "\"rope_parameters\":{\"mrope_section\":[1]}", "mrope_section");
}

static void phi_stretches_by_its_lengths(void **state) {
    (void)state;
    const char *format = "\"intermediate_size\":8,\"rms_norm_eps\":1e-5,\"rope_theta\":1,\"max_position_embeddings\":"
                         "4096,\"original_max_position_embeddings\":%s,\"rope_scaling\":{\"type\":\"%s\",%s}";
    char values[512];
    snprintf(values, sizeof values, format, "1024", "longrope", "\"long_factor\":[1],\"short_factor\":[1]");
    expect_arch("Phi3ForCausalLM", values, 0);
    expect_f32(".rope.scaling.attn_factor", (float)sqrt(1 + log(4) / log(1024)));
    expect_none(".rope.scaling.type");
    snprintf(values, sizeof values, format, "1024", "yarn", "\"long_factor\":[1],\"short_factor\":[1]");
    expect_arch("Phi3ForCausalLM", values, 0);
    expect_f32(".rope.scaling.attn_factor", (float)(0.1 * log(4) + 1));
    snprintf(values, sizeof values, format, "1024", "other", "\"long_factor\":[1]");
    expect_error("Phi3ForCausalLM", values, "longrope");
    snprintf(values, sizeof values, format, "1", "su", "\"long_factor\":[1]");
    expect_error("Phi3ForCausalLM", values, "at least 2");
}

static void hunyuan_has_a_larger_base(void **state) {
    (void)state;
    expect_arch("HunYuanDenseV1ForCausalLM",
                "\"head_dim\":16,\"max_position_embeddings\":32768,\"num_experts\":1,"
                "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":9}",
                0);
    expect_f32(".rope.freq_base", (float)(10000 * pow(9, 16.0 / 14)));
    expect_u32(".context_length", 262144);
    expect_none(".expert_count");
    expect_error("HunYuanDenseV1ForCausalLM",
                 "\"head_dim\":16,\"max_position_embeddings\":4096,\"rope_scaling\":{\"type\":\"dynamic\"}", "4096");
    expect_error("HunYuanDenseV1ForCausalLM", "\"head_dim\":2,\"rope_scaling\":{\"type\":\"xdrope\"}", "no base");
}
