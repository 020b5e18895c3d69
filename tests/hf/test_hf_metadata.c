/* The architecture's pairs, from configs with what the golden folders (tests/hf/hf_golden) do not have, and each
 * error. */
#include <math.h>

#include "hf/folder/folder.h"
#include "tests/support/hf_metadata.h"

#define BASE "\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":4"

static bool arch(const char *class_name, const char *values, uint64_t predicting) {
    char config[4096];
    snprintf(config, sizeof config, "{\"architectures\":[\"%s\"]," BASE "%s%s}", class_name,
             *values ? "," : "", values);
    metadata_end(NULL);
    metadata_begin(config);
    made.config.mtp = predicting;
    made.ok = hf_arch_metadata(&made.config, &made.metadata, &made.error);
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

TEST_WITH(missing_sizes_are_completed, NULL, metadata_end) {
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

TEST_WITH(the_first_name_counts, NULL, metadata_end) {
    expect_arch("LlamaForCausalLM",
                "\"vocab_size\":9,\"n_ctx\":7,\"max_position_embeddings\":8,"
                "\"num_experts\":3,\"num_local_experts\":null,\"score_func\":\"sqrtsoftplus\"",
                0);
    expect_u32(".context_length", 8);
    expect_u32(".rope.dimension_count", 16);
    expect_none(".expert_count");
    expect_u32(".expert_gating_func", 4);
}

TEST_WITH(numbers_must_be_numbers, NULL, metadata_end) {
    expect_error("LlamaForCausalLM", "", "vocab_size");
    expect_error("LlamaForCausalLM", "\"vocab_size\":4.0", "vocab_size");
    expect_error("LlamaForCausalLM", "\"vocab_size\":-1", "vocab_size");
    expect_error("Qwen2ForCausalLM", "\"rms_norm_eps\":\"small\"", "rms_norm_eps");
    expect_error("Qwen2ForCausalLM", "\"rope_theta\":1e300", "rope_theta");
    expect_error("Qwen2ForCausalLM", "\"scoring_func\":\"other\"", "softmax");
    expect_error("Qwen2ForCausalLM", "\"intermediate_size\":[1,2]", ": intermediate_size has 2 entries");
    expect_error("Qwen2ForCausalLM", "\"intermediate_size\":[1,2,3,3000000000]", "2147483647");
    expect_error("AfmoeForCausalLM", "\"vocab_size\":9,\"route_norm\":1", "route_norm");
    expect_error("CohereForCausalLM", "\"max_position_embeddings\":9", "logit_scale");
    expect_error("DeepseekV3ForCausalLM",
                 "\"vocab_size\":9,\"kv_lora_rank\":4294967295,\"qk_rope_head_dim\":2", "4294967297");
}

TEST_WITH(rotation_has_several_spellings, NULL, metadata_end) {
    expect_arch("Qwen2ForCausalLM", "\"rope_theta\":5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
                0);
    expect_f32(".rope.freq_base", 5);
    expect_text(".rope.scaling.type", "linear");
    expect_f32(".rope.scaling.factor", 2);
    expect_arch(
        "Qwen2ForCausalLM",
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
    expect_error("Qwen2ForCausalLM", "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}",
                 "original_max");
    expect_error("Qwen2ForCausalLM", "\"rope_scaling\":{\"mrope_section\":[1,2,3,4,5]}", "mrope_section");
}

TEST_WITH(phi_stretches_by_its_lengths, NULL, metadata_end) {
    const char *format =
        "\"intermediate_size\":8,\"rms_norm_eps\":1e-5,\"rope_theta\":1,\"max_position_embeddings\":"
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

TEST_WITH(hunyuan_has_a_larger_base, NULL, metadata_end) {
    expect_arch("HunYuanDenseV1ForCausalLM",
                "\"head_dim\":16,\"max_position_embeddings\":32768,\"num_experts\":1,"
                "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":9}",
                0);
    expect_f32(".rope.freq_base", (float)(10000 * pow(9, 16.0 / 14)));
    expect_u32(".context_length", 262144);
    expect_none(".expert_count");
    expect_error("HunYuanDenseV1ForCausalLM",
                 "\"head_dim\":16,\"max_position_embeddings\":4096,\"rope_scaling\":{\"type\":\"dynamic\"}",
                 "4096");
    expect_error("HunYuanDenseV1ForCausalLM", "\"head_dim\":2,\"rope_scaling\":{\"type\":\"xdrope\"}",
                 "no finite base");
}

TEST_WITH(bases_of_single_architectures, NULL, metadata_end) {
    const char *neox =
        "\"intermediate_size\":8,\"layer_norm_eps\":1,\"rotary_pct\":0.25,\"rotary_emb_base\":%s";
    char values[256];
    snprintf(values, sizeof values, neox, "10000");
    expect_arch("GPTNeoXForCausalLM", values, 0);
    expect_none(".rope.freq_base");
    expect_u32(".rope.dimension_count", 4);
    snprintf(values, sizeof values, neox, "500");
    expect_arch("GPTNeoXForCausalLM", values, 0);
    expect_f32(".rope.freq_base", 500);
    expect_error("Ministral3ForCausalLM", "\"vocab_size\":9,\"model_type\":\"ministral3\"", "yarn");
    expect_error("Gemma3ForCausalLM", "\"attn_logit_softcapping\":1", "attn_logit_softcapping");
    expect_arch("Gemma3ForCausalLM", "\"sliding_window_pattern\":1", 0);
    expect_u32(".attention.key_length", 256);
    expect_none(".attention.sliding_window");
}

TEST_WITH(layers_with_a_window, NULL, metadata_end) {
    expect_arch("Olmo2ForCausalLM", "\"sliding_window\":5", 0);
    expect_flags(".attention.sliding_window_pattern", 1, 1, 1, 0);
    expect_error("Olmo2ForCausalLM", "\"sliding_window\":null", "sliding_window");
    const char *exaone = "\"vocab_size\":9,\"sliding_window\":5,\"sliding_window_pattern\":%s";
    char values[256];
    snprintf(values, sizeof values, exaone, "\"LG\"");
    expect_arch("Exaone4ForCausalLM", values, 0);
    expect_flags(".attention.sliding_window_pattern", 1, 0, 1, 0);
    snprintf(values, sizeof values, exaone, "3");
    expect_arch("Exaone4ForCausalLM", values, 0);
    expect_flags(".attention.sliding_window_pattern", 1, 1, 0, 1);
    snprintf(values, sizeof values, exaone, "0");
    expect_error("Exaone4ForCausalLM", values, "sliding_window_pattern is 0");
    snprintf(values, sizeof values, exaone, "\"\"");
    expect_error("Exaone4ForCausalLM", values, "is empty");
    expect_error("Olmo2ForCausalLM", "\"sliding_window\":5,\"layer_types\":[\"x\"]", "1 entries");
    expect_error("Olmo2ForCausalLM", "\"sliding_window\":5,\"layer_types\":{}", "not an array");
}

TEST_WITH(layers_without_attention_have_no_heads, NULL, metadata_end) {
    const char *jamba =
        "\"intermediate_size\":8,\"mamba_expand\":2,\"num_experts\":2,\"num_experts_per_tok\":1,"
        "\"num_key_value_heads\":2,\"attn_layer_offset\":1,\"attn_layer_period\":%d";
    char values[512];
    snprintf(values, sizeof values, jamba, 2);
    expect_arch("JambaForCausalLM", values, 0);
    expect_i32s(".attention.head_count_kv", 0, 2, 0, 2);
    expect_u32(".ssm.time_step_rank", 4);
    snprintf(values, sizeof values, jamba, 0);
    expect_error("JambaForCausalLM", values, "attn_layer_period is 0");
    const char *granite = "\"vocab_size\":9,\"mamba_d_conv\":4,\"mamba_d_state\":8,\"mamba_n_groups\":1,"
                          "\"mamba_n_heads\":2,\"mamba_expand\":2,\"mamba_d_head\":%d,\"layer_types\":[%s]";
    snprintf(values, sizeof values, granite, 64, "\"mamba\",\"attention\",\"mamba\",\"mamba\"");
    expect_arch("GraniteMoeHybridForCausalLM", values, 0);
    expect_i32s("granitehybrid.attention.head_count_kv", 0, 4, 0, 0);
    expect_bool(".rope.scaling.finetuned", false);
    snprintf(values, sizeof values, granite, 64, "\"attention\",\"attention\",\"attention\",\"attention\"");
    expect_arch("GraniteMoeHybridForCausalLM", values, 0);
    expect_i32s("granite.attention.head_count_kv", 4, 4, 4, 4);
    expect_bool(".rope.scaling.finetuned", true);
    expect_u32(".ssm.inner_size", 128);
    snprintf(values, sizeof values, granite, 60, "\"mamba\"");
    expect_error("GraniteMoeHybridForCausalLM", values, "multiple of mamba_d_head");
}

TEST_WITH(blocks_of_nemotron_have_letters, NULL, metadata_end) {
    const char *format =
        "\"vocab_size\":9,\"conv_kernel\":4,\"ssm_state_size\":8,\"n_groups\":1,"
        "\"mamba_num_heads\":2,\"mamba_head_dim\":64,\"head_dim\":16,\"intermediate_size\":8,"
        "\"hybrid_override_pattern\":\"%s\"";
    char values[512];
    snprintf(values, sizeof values, format, "M*-M");
    expect_arch("NemotronHForCausalLM", values, 0);
    expect_i32s(".attention.head_count_kv", 0, 4, 0, 0);
    expect_i32s(".feed_forward_length", 0, 0, 8, 0);
    snprintf(values, sizeof values, format, "M*");
    expect_error("NemotronHForCausalLM", values, "2 letters");
}

TEST_WITH(sparsity_is_a_quantile, NULL, metadata_end) {
    const char *format =
        "\"sliding_window\":4,\"altup_active_idx\":0,\"altup_num_inputs\":%d,"
        "\"hidden_size_per_layer_input\":8,\"num_kv_shared_layers\":2,\"layer_types\":[\"full_"
        "attention\",\"sliding_attention\",\"x\",\"x\"],\"activation_sparsity_pattern\":[%s]";
    char values[512];
    snprintf(values, sizeof values, format, 4, "0.95,0,0.5,0.75");
    expect_arch("Gemma3nForCausalLM", values, 0);
    const float *scales =
        (const float *)(metadata_of(".activation_sparsity_scale", GGUF_ARRAY)->value + GGUF_ARRAY_HEADER);
    uint32_t bits[2];
    float middle, upper;
    memcpy(bits, scales, 8), memcpy(&middle, scales + 2, 4), memcpy(&upper, scales + 3, 4);
    assert_int_equal(bits[0], 0x3FD28A8E);
    assert_int_equal(bits[1], 0xFF800000);
    assert_true(fabsf(middle) < 1e-6F && fabsf(upper - 0.6744898F) < 1e-6F);
    expect_flags(".attention.sliding_window_pattern", 0, 1, 0, 0);
    snprintf(values, sizeof values, format, 4, "1,0,0,0");
    expect_error("Gemma3nForCausalLM", values, "less than 1");
    snprintf(values, sizeof values, format, 3, "0,0,0,0");
    expect_error("Gemma3nForCausalLM", values, "expected 4");
}

TEST_WITH(widths_are_checked, NULL, metadata_end) {
    const char *lfm =
        "\"vocab_size\":9,\"conv_L_cache\":3,\"norm_eps\":1,\"layer_types\":[\"conv\",\"full_attention\","
        "\"conv\",\"conv\"],\"intermediate_size\":100,\"block_auto_adjust_ff_dim\":true,"
        "\"block_ffn_dim_multiplier\":%s,\"block_multiple_of\":%d";
    char values[512];
    snprintf(values, sizeof values, lfm, "1.5", 32);
    expect_arch("Lfm2ForCausalLM", values, 0);
    expect_u32(".feed_forward_length", 128); /* 200 / 3 = 66; 99; up to a multiple of 32 */
    expect_i32s(".attention.head_count_kv", 0, 4, 0, 0);
    snprintf(values, sizeof values, lfm, "1e30", 32);
    expect_error("Lfm2ForCausalLM", values, "no feed-forward width");
    snprintf(values, sizeof values, lfm, "1", 0);
    expect_error("Lfm2ForCausalLM", values, "no feed-forward width");
    expect_arch("MambaForCausalLM", "\"state_size\":0", 0);
    expect_u32(".ssm.state_size", 16);
    expect_u32(".ssm.inner_size", 128);
    expect_bool(".ssm.dt_b_c_rms", false);
    expect_error("MambaForCausalLM", "\"intermediate_size\":100", "expected 2 times 64");
    expect_error("CohereForCausalLM", "\"max_position_embeddings\":1,\"logit_scale\":null", "logit_scale");
    expect_error("Cohere2ForCausalLM",
                 "\"logit_scale\":1,\"sliding_window\":1,\"vocab_size\":1,\"rotary_pct\":-1",
                 "expected 0 to 1");
}

TEST_WITH(lists_with_one_number, NULL, metadata_end) {
    const char *format = "\"intermediate_size\":8,\"moe_topk\":[2,2,2,2],\"num_shared_expert\":1,"
                         "\"moe_intermediate_size\":[%s]";
    char values[256];
    snprintf(values, sizeof values, format, "6,6,6,6");
    expect_arch("HunYuanMoEV1ForCausalLM", values, 0);
    expect_u32(".expert_feed_forward_length", 6);
    expect_u32(".expert_used_count", 2);
    expect_u32(".expert_shared_count", 1);
    snprintf(values, sizeof values, format, "6,7");
    expect_error("HunYuanMoEV1ForCausalLM", values, "6 and 7");
    snprintf(values, sizeof values, format, "");
    expect_error("HunYuanMoEV1ForCausalLM", values, "is empty");
}

TEST_WITH(predicting_blocks_count, NULL, metadata_end) {
    expect_arch("Glm4MoeForCausalLM", "\"num_nextn_predict_layers\":1", 1);
    expect_u32(".block_count", 5);
    expect_u32(".nextn_predict_layers", 1);
    expect_u32(".rope.dimension_count", 8);
    expect_arch(
        "DeepseekV3ForCausalLM",
        "\"vocab_size\":9,\"num_nextn_predict_layers\":1,\"qk_rope_head_dim\":4,\"qk_nope_head_dim\":8,"
        "\"v_head_dim\":8,\"kv_lora_rank\":16,\"intermediate_size\":8,\"norm_topk_prob\":false",
        0);
    expect_none(".nextn_predict_layers");
    expect_none(".expert_weights_norm");
    expect_u32(".block_count", 4);
    expect_u32(".leading_dense_block_count", 4);
    expect_u32(".attention.key_length", 20);
    expect_u32(".attention.key_length_mla", 12);
    assert_false(arch("Glm4MoeForCausalLM", "", UINT64_MAX));
    assert_non_null(strstr(made.error.text, "expected at most"));
}

#define GEMMA4(kinds, layers) \
    "\"num_kv_shared_layers\":0,\"sliding_window\":8,\"head_dim\":8,\"num_key_value_heads\":2,\"layer_" \
    "types\":[" kinds "],\"moe_intermediate_size\":8,\"per_layer_config\":{" layers "}"
#define W "\"sliding_attention\","
#define F "\"full_attention\","

/* Heads of layers with full attention in an object per layer, as newer configs of gemma4 have them. */
TEST_WITH(heads_of_single_layers, NULL, metadata_end) {
    expect_arch("Gemma4ForCausalLM",
                GEMMA4(W F W "\"full_attention\"",
                       "\"1\":{\"head_dim\":16,\"num_key_value_heads\":1},\"3\":{\"head_"
                       "dim\":16,\"num_key_value_heads\":1}"),
                0);
    expect_u32(".attention.key_length", 16);
    expect_u32(".attention.key_length_swa", 8);
    expect_u32(".rope.dimension_count", 16);
    expect_i32s(".attention.head_count_kv", 2, 1, 2, 1);
    expect_arch("Gemma4ForCausalLM", GEMMA4(W F W "\"full_attention\"", "\"0\":{\"head_dim\":8}"), 0);
    expect_u32(".attention.key_length", 8);
    expect_u32(".attention.head_count_kv", 2);
    static const struct {
        const char *values, *says;
    } rows[] = {
        {GEMMA4(W F W "\"full_attention\"", "\"1\":{\"head_dim\":16}"), "head_dim of layer 3"},
        {GEMMA4(W F W "\"full_attention\"", "\"0\":{\"head_dim\":16}"), "head_dim of layer 2"},
        {GEMMA4(W F F "\"full_attention\"", "\"0\":{\"num_key_value_heads\":1}"),
         "num_key_value_heads differs from the model's"},
        {GEMMA4(F F F "\"full_attention\"",
                "\"0\":{\"num_attention_heads\":1},\"1\":{\"num_attention_heads\":1},"
                "\"2\":{\"num_attention_heads\":1},\"3\":{\"num_attention_heads\":1}"),
         "num_attention_heads differs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char config[2048];
        gq_error e = {.text = ""};
        hf_folder f;
        hf_config c;
        snprintf(config, sizeof config, "{\"architectures\":[\"Gemma4ForCausalLM\"]," BASE ",%s}",
                 rows[i].values);
        write_text("config.json", config);
        assert_true(hf_folder_open(&f, folder, &e));
        assert_false(hf_config_read(&c, &f, &e));
        if (!strstr(e.text, rows[i].says)) fail_msg("'%s' does not say '%s'", e.text, rows[i].says);
        hf_folder_close(&f);
    }
}

int main(void) { return tests_run(folder_make, folder_remove); }
