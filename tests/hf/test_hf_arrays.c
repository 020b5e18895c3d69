/* A folder's arrays as tensors: names, codings, and what does not fit. All architectures' names are compared
 * with golden data by tests/hf/hf_golden; here is what these folders do not have. */
#include <math.h>

#include "gguf/model.h"
#include "hf/folder/folder.h"
#include "hf/metadata/metadata.h"
#include "hf/tensors/tensors.h"
#include "tests/support/folder.h"
#include "tests/support/safetensors.h"

static safetensors file;

static void add(const char *name, const char *dtype, const char *shape, const void *bytes, size_t n) {
    safetensors_add(&file, name, dtype, shape, bytes, n);
}

static void write_folder(const char *config) {
    safetensors_write(&file, path("model.safetensors"));
    write_whole(path("config.json"), config, strlen(config));
}

FIXTURE(file_begin) {
    safetensors_empty(&file);
    add("model.embed_tokens.weight", "F32", "[2,4]", NULL, 32);
    return 0;
}

typedef struct built {
    hf_folder folder;
    hf_config config;
    hf_list list;
    hf_build build;
} built;

static bool build(built *b, gq_error *e) {
    *b = (built){.folder = {.path = NULL}};
    return hf_folder_open(&b->folder, folder, e) && hf_config_read(&b->config, &b->folder, e) &&
           hf_list_read(&b->list, &b->folder, e) && hf_mtp_find(&b->config, &b->list, e) &&
           hf_build_tensors(&b->build, &b->config, &b->list, UINT64_MAX, e);
}

static void built_free(built *b) {
    hf_build_free(&b->build), hf_list_free(&b->list), hf_config_free(&b->config), hf_folder_close(&b->folder);
}

#define QWEN \
    "{\"architectures\":[\"Qwen2ForCausalLM\"],\"num_hidden_layers\":0,\"hidden_size\":4,\"num_attention_" \
    "heads\":2"
#define LLAMA \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":1,\"hidden_size\":4,\"num_attention_" \
    "heads\":2"

static void assert_refused(const char *config, const char *with) {
    built b;
    gq_error e = {.text = ""};
    write_folder(config);
    bool ok = build(&b, &e);
    built_free(&b);
    assert_false(ok);
    if (!strstr(e.text, with)) fail_msg("'%s' does not say '%s'", e.text, with);
}

/* Reads a whole tensor as floats; it must have so many. */
static void assert_floats(const char *config, const char *name, const float *want, size_t n) {
    built b;
    gq_error e = {.text = ""};
    float x[256];
    write_folder(config);
    if (!build(&b, &e)) fail_msg("%s", e.text);
    for (size_t i = 0; i < b.build.n; i++) {
        hf_tensor *t = &b.build.tensors[i];
        if (strcmp(t->tensor.name, name) != 0) continue;
        assert_int_equal(t->tensor.size, n * 4);
        assert_true(hf_tensor_read(t, 0, n, x, &e));
        for (size_t k = 0; k < n; k++)
            if (x[k] != want[k]) fail_msg("element %zu is %g, expected %g", k, (double)x[k], (double)want[k]);
        built_free(&b);
        return;
    }
    fail_msg("no tensor %s", name);
}

/* A folder can be opened, but a tensor of n elements not be read, for a reason that is told. */
static void assert_unread(const char *config, const char *name, uint64_t n, const char *with) {
    built b;
    gq_error e = {.text = ""};
    float x[256];
    write_folder(config);
    if (!build(&b, &e)) fail_msg("%s", e.text);
    const hf_tensor *t = hf_build_find(&b.build, name);
    assert_non_null(t);
    assert_false(hf_tensor_read(t, 0, n, x, &e));
    built_free(&b);
    if (!strstr(e.text, with)) fail_msg("'%s' does not say '%s'", e.text, with);
}

/* Of the folder that was written last: names, type and changes of a tensor, with '|' between them. */
static void assert_origin(const char *name, const char *want) {
    built b;
    gq_error e = {.text = ""};
    char text[1024] = "no such tensor";
    if (!build(&b, &e)) fail_msg("%s", e.text);
    for (size_t i = 0; i < b.build.n; i++) {
        const model_tensor *t = &b.build.tensors[i].tensor;
        if (strcmp(t->name, name) == 0)
            snprintf(text, sizeof text, "%s|%s|%s", t->origin->names, t->origin->type, t->origin->changes);
    }
    built_free(&b);
    assert_string_equal(text, want);
}

TEST_WITH(names_without_a_rule, file_begin, NULL) {
    add("model.vision_tower.x.weight", "F32", "[1]", NULL, 4); /* a tower is left out */
    add("model.layers.0.self_attn.strange.weight", "F32", "[1]", NULL, 4);
    assert_refused(QWEN "}", "strange.weight");
}

TEST_WITH(layers_and_the_config, file_begin, NULL) {
    add("model.layers.0.input_layernorm.weight", "F32", "[4]", NULL, 16);
    assert_refused(QWEN "}", "layer 0, counted from 0, but the config has 0 layers");
    assert_refused("{\"architectures\":[\"Qwen2ForCausalLM\"],\"num_hidden_layers\":2}",
                   "belongs to layer 1 of 2");
    assert_refused("{\"architectures\":[\"Qwen2ForCausalLM\"],\"num_hidden_layers\":4000000000}",
                   "expected at most");
}

TEST_WITH(no_embedding, file_begin, NULL) {
    safetensors_empty(&file);
    add("lm_head.weight", "F32", "[2,4]", NULL, 32);
    assert_refused(QWEN "}", "token embedding");
}

TEST_WITH(two_arrays_of_one_name, file_begin, NULL) {
    add("language_model.model.embed_tokens.weight", "F32", "[2,4]", NULL, 32);
    assert_refused(QWEN "}", "is token_embd.weight already");
}

TEST_WITH(heads_that_do_not_divide, file_begin, NULL) {
    add("model.layers.0.self_attn.q_proj.weight", "F32", "[6,4]", NULL, 96);
    assert_refused(LLAMA "}", "number of heads");
}

TEST_WITH(rows_of_heads_in_pairs, file_begin, NULL) {
    float rows[8], want[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    for (int i = 0; i < 8; i++) rows[i] = (float)i;
    add("model.layers.0.self_attn.q_proj.bias", "F32", "[8]", rows, sizeof rows);
    assert_floats(LLAMA "}", "blk.0.attn_q.bias", want, 8);
    assert_origin("blk.0.attn_q.bias", "model.layers.0.self_attn.q_proj.bias|F32|permuted");
    assert_origin("token_embd.weight", "model.embed_tokens.weight|F32|as is");
}

TEST_WITH(an_expert_is_missing, file_begin, NULL) {
    add("model.layers.0.block_sparse_moe.experts.1.w1.weight", "F32", "[2,4]", NULL, 32);
    assert_refused(LLAMA ",\"num_local_experts\":2}", "number 0 is missing");
    assert_refused(LLAMA ",\"num_local_experts\":1}", "number 1, but the config has 1");
    assert_refused(LLAMA ",\"num_local_experts\":4000000000}", "expected at most");
    add("model.layers.0.block_sparse_moe.experts.0.w1.weight", "F32", "[4,4]", NULL, 64);
    assert_refused(LLAMA ",\"num_local_experts\":2}", "its shape differs from that of");
}

/* Arrays that become one, or one that becomes several; those of an expert are found whatever their order. */
TEST_WITH(what_becomes_of_arrays, file_begin, NULL) {
    uint8_t blocks[16 * 4] = {0}, scales[4] = {0};
    for (int expert = 10; expert >= 0; expert--) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.0.block_sparse_moe.experts.%d.w1.weight", expert);
        add(name, "BF16", "[2,4]", NULL, 16);
    }
    add("model.layers.0.self_attn.k_proj.weight", "F64", "[8,4]", NULL, 256);
    write_folder(LLAMA ",\"num_local_experts\":11}");
    assert_origin("blk.0.ffn_gate_exps.weight",
                  "model.layers.0.block_sparse_moe.experts.{0..10}.w1.weight|BF16|stacked");
    assert_origin("blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight|F64|permuted");
    file_begin(NULL);
    add("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", "[2,2,1,16]", blocks, sizeof blocks);
    add("model.layers.0.mlp.experts.gate_up_proj_scales", "U8", "[2,2,1]", scales, sizeof scales);
    add("model.layers.0.mlp.experts.down_proj", "BF16", "[2,2,4]", NULL, 32);
    write_folder("{\"architectures\":[\"GptOssForCausalLM\"],\"num_hidden_layers\":1,\"hidden_size\":4,"
                 "\"num_attention_heads\":2,\"num_local_experts\":2,"
                 "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}");
    assert_origin("blk.0.ffn_up_exps.weight",
                  "model.layers.0.mlp.experts.gate_up_proj_blocks|MXFP4|repacked; split");
    assert_origin("blk.0.ffn_down_exps.weight", "model.layers.0.mlp.experts.down_proj|BF16|transposed");
}

/* An added 1, and the mean of a name that is not the folder's but computed. */
TEST_WITH(arithmetic_is_told, file_begin, NULL) {
    add("model.norm.weight", "BF16", "[4]", NULL, 8);
    write_folder("{\"architectures\":[\"GemmaForCausalLM\"],\"num_hidden_layers\":0,\"hidden_size\":4,"
                 "\"num_attention_heads\":2}");
    assert_origin("output_norm.weight", "model.norm.weight|BF16|+1");
}

#define FP8 ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[2,3]}}"

TEST_WITH(eight_bits_and_scales_of_blocks, file_begin, NULL) {
    static const uint8_t bytes[12] = {0x38, 0x38, 0x38, 0x38, 0x38, 0x40, 0x38, 0x38, 0x38, 0x38, 0x38, 0xb8};
    static const float scales[4] = {1, 2, 3, 4};
    static const float want[12] = {1, 1, 1, 2, 1, 2, 1, 2, 3, 3, 3, -4};
    add("lm_head.weight", "F8_E4M3", "[3,4]", bytes, sizeof bytes);
    add("lm_head.weight_scale_inv", "F32", "[2,2]", scales, sizeof scales);
    assert_floats(QWEN FP8, "output.weight", want, 12);
    assert_origin("output.weight", "lm_head.weight|F8_E4M3, a scale per 2 x 3 block|dequantized");
    assert_refused(QWEN ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[1,1]}}",
                   "does not fit");
    assert_refused(QWEN ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[0,1]}}",
                   "not two integers");
}

TEST_WITH(scales_without_weights, file_begin, NULL) {
    add("lm_head.weight_scale_inv", "F32", "[2,2]", NULL, 16);
    assert_refused(QWEN FP8, "no weight");
}

#define COMPRESSED(format) \
    ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"" format \
    "\",\"config_groups\":{\"group_0\":{\"weights\":{\"num_bits\":4}}}}}"
#define MODELOPT ",\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}}"

/* Two rows of 32 codes: 0 to 15 in order, twice; the lower half of a byte comes first. */
static const uint8_t four_bits[32] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32, 0x54,
                                      0x76, 0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba,
                                      0xdc, 0xfe, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
static const float code_values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

TEST_WITH(four_bits_and_two_scales, file_begin, NULL) {
    static const uint8_t scales[4] = {0x38, 0x40, 0x30, 0x3c}; /* 1, 2, 0.5, 1.5 */
    static const float factor = 3, values[4] = {1, 2, 0.5f, 1.5f};
    float want[64], divided[64];
    for (int i = 0; i < 64; i++)
        want[i] = code_values[i % 16] * values[i / 16] * 3,
        divided[i] = code_values[i % 16] * values[i / 16] / 3;
    add("lm_head.weight", "U8", "[2,16]", four_bits, 32);
    add("lm_head.weight_scale", "F8_E4M3", "[2,2]", scales, 4);
    add("lm_head.weight_scale_2", "F32", "[]", &factor, 4);
    add("lm_head.input_scale", "F32", "[]", &factor, 4);
    add("model.layers.0.self_attn.k_proj.k_scale", "F32", "[]", &factor, 4);
    assert_floats(QWEN MODELOPT, "output.weight", want, 64);
    static const char beside[] =
        "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{\"quant_algo\":\"NVFP4\"}}";
    write_whole(path("hf_quant_config.json"), beside, sizeof beside - 1);
    assert_floats(QWEN "}", "output.weight", want, 64);
    unlink(path("hf_quant_config.json"));

    file_begin(NULL);
    add("lm_head.weight_packed", "U8", "[2,16]", four_bits, 32);
    add("lm_head.weight_scale", "F8_E4M3", "[2,2]", scales, 4);
    add("lm_head.weight_global_scale", "F32", "[1]", &factor, 4);
    add("lm_head.input_global_scale", "F32", "[1]", &factor, 4);
    assert_floats(QWEN COMPRESSED("nvfp4-pack-quantized"), "output.weight", divided, 64);
    assert_origin("output.weight", "lm_head.weight_packed|NVFP4|dequantized");
    assert_floats(
        QWEN
        ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"mixed-"
        "precision\",\"config_groups\":{\"a\":{\"format\":\"float-quantized\",\"weights\":{\"num_bits\":8}},"
        "\"b\":{\"format\":\"nvfp4-pack-quantized\",\"weights\":{\"num_bits\":4}}}}}",
        "output.weight", divided, 64);
}

/* Experts stay MXFP4, which GGUF has, with other places for the codes; all else becomes floats. */
TEST_WITH(four_bits_and_powers_of_two, file_begin, NULL) {
    static const uint8_t scales[2] = {127, 129};
    static const uint8_t block[17] = {129,  0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                      0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    float want[64];
    uint8_t bytes[34];
    built b;
    gq_error e = {.text = ""};
    for (int i = 0; i < 64; i++) want[i] = code_values[i % 16] * (i < 32 ? 1 : 4);
    add("lm_head.weight_packed", "U8", "[2,16]", four_bits, 32);
    add("lm_head.weight_scale", "U8", "[2,1]", scales, 2);
    add("model.layers.0.block_sparse_moe.experts.0.w1.weight_packed", "U8", "[2,16]", four_bits, 32);
    add("model.layers.0.block_sparse_moe.experts.0.w1.weight_scale", "U8", "[2,1]", scales, 2);
    assert_floats(LLAMA ",\"num_local_experts\":1" COMPRESSED("mxfp4-pack-quantized"), "output.weight", want,
                  64);
    if (!build(&b, &e)) fail_msg("%s", e.text);
    const hf_tensor *t = hf_build_find(&b.build, "blk.0.ffn_gate_exps.weight");
    assert_true(t && t->tensor.type->id == GGUF_MXFP4 && t->tensor.ne[0] == 32 && t->tensor.ne[1] == 2);
    assert_true(hf_tensor_read(t, 0, 64, bytes, &e));
    assert_memory_equal(bytes + 17, block, 17);
    built_free(&b);
}

TEST_WITH(four_bits_that_do_not_fit, file_begin, NULL) {
    static const float zero = 0;
    add("lm_head.weight", "U8", "[2,16]", four_bits, 32);
    assert_refused(QWEN MODELOPT, "quantized by modelopt");
    add("lm_head.weight_scale", "F8_E4M3", "[2,3]", NULL, 6);
    assert_refused(QWEN MODELOPT, "does not fit");
    file_begin(NULL);
    add("lm_head.weight", "U8", "[2,16]", four_bits, 32);
    add("lm_head.weight_scale", "U8", "[2,2]", NULL, 4);
    assert_refused(QWEN MODELOPT, "quantized by modelopt");
    file_begin(NULL);
    add("lm_head.weight", "F8_E4M3", "[2,16]", four_bits, 32);
    add("lm_head.weight_scale", "I8", "[2,2]", NULL, 4);
    assert_refused(QWEN MODELOPT, "a scale of type I8");
    file_begin(NULL);
    add("lm_head.weight_packed", "U8", "[2,16]", four_bits, 32);
    assert_refused(QWEN COMPRESSED("nvfp4-pack-quantized"), "scales are missing");
    add("lm_head.weight_scale", "F8_E4M3", "[2,2]", NULL, 4);
    add("lm_head.weight_global_scale", "F32", "[1]", &zero, 4);
    assert_refused(QWEN COMPRESSED("nvfp4-pack-quantized"), "whole tensor is 0");
}

/* Codes of 4 bits without their factor, and factors and scales that no tool writes. */
TEST_WITH(pieces_of_four_bits_that_are_lost, file_begin, NULL) {
    static const float odd[] = {INFINITY, -1, NAN};
    static const uint8_t scales[4] = {0x38, 0x40, 0xb0, 0x3c}; /* one is below 0 */
    add("lm_head.weight", "U8", "[2,16]", four_bits, 32);
    add("lm_head.weight_scale", "F8_E4M3", "[2,2]", scales, 4);
    assert_refused(QWEN MODELOPT, "no _scale_2 beside it");
    file_begin(NULL);
    add("lm_head.weight_packed", "U8", "[2,16]", four_bits, 32);
    add("lm_head.weight_scale", "F8_E4M3", "[2,2]", scales, 4);
    assert_refused(QWEN COMPRESSED("nvfp4-pack-quantized"), "no _global_scale beside it");
    add("lm_head.weight_zero_point", "F8_E4M3", "[2,2]", NULL, 4);
    assert_refused(QWEN COMPRESSED("nvfp4-pack-quantized"), "weight_zero_point': not supported");
    for (size_t i = 0; i < 3; i++) {
        file_begin(NULL);
        add("lm_head.weight_packed", "U8", "[2,16]", four_bits, 32);
        add("lm_head.weight_scale", "F8_E4M3", "[2,2]", scales, 4);
        add("lm_head.weight_global_scale", "F32", "[1]", &odd[i], 4);
        assert_refused(QWEN COMPRESSED("nvfp4-pack-quantized"), "the scale of the whole tensor is");
        file_begin(NULL);
        add("lm_head.weight", "F8_E4M3", "[2,16]", four_bits, 32);
        add("lm_head.weight_scale", "F32", "[1]", &odd[i], 4);
        assert_refused(QWEN MODELOPT, "the scale of the whole tensor is");
    }
    file_begin(NULL);
    add("lm_head.weight_packed", "U8", "[2,16]", four_bits, 32);
    add("lm_head.weight_scale", "F8_E4M3", "[2,2]", scales, 4);
    add("lm_head.weight_global_scale", "F32", "[1]", &code_values[2], 4);
    assert_unread(QWEN COMPRESSED("nvfp4-pack-quantized"), "output.weight", 64, "a scale of -0.5");
}

#define INTEGERS(format, more) \
    ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"" format \
    "\",\"config_groups\":{\"group_0\":{\"weights\":{\"num_bits\":4,\"group_size\":4" more "}}}}}"

/* Eight columns in two groups, by their order or by another; without what the config names they are refused. */
TEST_WITH(groups_and_zero_points, file_begin, NULL) {
    static const uint32_t words[8] = {0x76543210, 0x76543210, 0x76543210, 0x76543210,
                                      0x76543210, 0x76543210, 0x76543210, 0x76543210};
    static const float scales[16] = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, -2};
    static const int32_t zeros[2] = {0x11111111, 0x11111111}, order[8] = {0, 1, 0, 1, 0, 1, 0, 1};
    static const int32_t none[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, far[8] = {0, 1, 0, 2, 0, 1, 0, 1};
    static const int64_t shape[2] = {8, 8};
    float want[64], sorted[64];
    for (int i = 0; i < 64; i++)
        want[i] = (float)(i % 8 - 1) * scales[i / 8 * 2 + i % 8 / 4],
        sorted[i] = (float)(i % 8 - 8) * scales[i / 8 * 2 + i % 2];
    for (int i = 0; i < 5; i++) {
        file_begin(NULL);
        add("lm_head.weight_packed", "I32", "[8,1]", words, sizeof words);
        add("lm_head.weight_scale", "F32", "[8,2]", scales, sizeof scales);
        add("lm_head.weight_shape", "I64", "[2]", shape, sizeof shape);
        if (i < 2) add("lm_head.weight_zero_point", "I32", "[1,2]", zeros, 8);
        if (i > 0 && i < 4)
            add("lm_head.weight_g_idx", "I32", "[8]", i == 1 ? none : i == 2 ? order : far, 32);
        if (i < 2)
            assert_floats(QWEN INTEGERS("pack-quantized", ",\"symmetric\":false"), "output.weight", want, 64);
        else if (i == 2)
            assert_floats(QWEN INTEGERS("pack-quantized", ",\"actorder\":\"group\""), "output.weight", sorted,
                          64);
        else if (i == 3)
            assert_unread(QWEN INTEGERS("pack-quantized", ""), "output.weight", 64,
                          "g_idx of input 3 is 2, expected 0 to 1");
    }
    assert_refused(QWEN INTEGERS("pack-quantized", ",\"symmetric\":false"), "no _zero_point beside it");
    assert_refused(QWEN INTEGERS("pack-quantized", ",\"actorder\":\"group\""), "no _g_idx beside it");
    assert_refused(QWEN INTEGERS("pack-quantized", ",\"actorder\":true"), "no _g_idx beside it");
    add("lm_head.weight_g_idx", "I32", "[7]", order, 28);
    assert_refused(QWEN INTEGERS("pack-quantized", ""), "does not fit");
}

/* The same of bytes: a zero point for each scale, and scales of groups of columns. */
TEST_WITH(bytes_and_zero_points, file_begin, NULL) {
    static const int8_t codes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, -7},
                        zeros[4] = {1, 2, 3, 4};
    static const float scales[4] = {1, 2, 3, -4};
    float want[16];
    for (int i = 0; i < 16; i++) want[i] = (float)(codes[i] - zeros[i / 4]) * scales[i / 4];
    add("lm_head.weight", "I8", "[2,8]", codes, sizeof codes);
    add("lm_head.weight_scale", "F32", "[2,2]", scales, sizeof scales);
    assert_refused(QWEN INTEGERS("int-quantized", ",\"symmetric\":false"), "no _zero_point beside it");
    add("lm_head.weight_zero_point", "I8", "[2,2]", zeros, sizeof zeros);
    assert_floats(QWEN INTEGERS("int-quantized", ",\"symmetric\":false"), "output.weight", want, 16);
    add("lm_head.weight_g_idx", "I32", "[8]", NULL, 32);
    assert_refused(QWEN INTEGERS("int-quantized", ""), "weight_g_idx': not supported");
    file_begin(NULL);
    add("lm_head.weight", "I8", "[2,8]", codes, sizeof codes);
    add("lm_head.weight_scale", "F32", "[2,2]", scales, sizeof scales);
    add("lm_head.weight_zero_point", "I8", "[2,1]", zeros, 2);
    assert_refused(QWEN INTEGERS("int-quantized", ""), "does not fit");
}

/* Elements of 8 bits with powers of two for each 32 columns, and with blocks of scales of four dimensions. */
TEST_WITH(eight_bits_in_other_layouts, file_begin, NULL) {
    static const uint8_t bytes[128] = {0x38, [32] = 0x40, [64] = 0x38, [96] = 0x38},
                         powers[4] = {127, 129, 126, 127};
    static const float scales[2] = {3, 5};
    float want[128] = {1, [32] = 8, [64] = 0.5f, [96] = 1};
    add("lm_head.weight", "F8_E4M3", "[2,64]", bytes, sizeof bytes);
    add("lm_head.weight_scale", "U8", "[2,2]", powers, sizeof powers);
    assert_floats(QWEN ",\"quantization_config\":{\"quant_method\":\"mxfp8\"}}", "output.weight", want, 128);
    assert_floats(QWEN INTEGERS("mxfp8-quantized", ""), "output.weight", want, 128);
    file_begin(NULL);
    for (int i = 0; i < 128; i += 32) want[i] = i == 32 ? 6 : 3;
    add("lm_head.weight", "F8_E4M3", "[2,64]", bytes, sizeof bytes);
    add("lm_head.weight_scale", "F32", "[1,1,1,1]", scales, 4);
    assert_floats(QWEN MODELOPT, "output.weight", want, 128);
    file_begin(NULL);
    add("lm_head.weight", "F8_E4M3", "[2,64]", bytes, sizeof bytes);
    add("lm_head.weight_scale", "F32", "[2,1,1,1]", scales, 8);
    assert_refused(QWEN MODELOPT, "does not fit");
}

TEST_WITH(eight_bits_of_modelopt, file_begin, NULL) {
    static const uint8_t bytes[8] = {0x38, 0x40, 0x38, 0x38, 0x38, 0x38, 0x38, 0xb8};
    static const float scale = 3, want[8] = {3, 6, 3, 3, 3, 3, 3, -3};
    add("lm_head.weight", "F8_E4M3", "[2,4]", bytes, sizeof bytes);
    add("lm_head.weight_scale", "F32", "[]", &scale, sizeof scale);
    assert_floats(QWEN MODELOPT, "output.weight", want, 8);
}

TEST_WITH(methods_that_are_not_read, file_begin, NULL) {
    add("lm_head.qweight", "I32", "[1,8]", NULL, 32);
    assert_refused(QWEN ",\"quantization_config\":{\"quant_method\":\"awq\"}}", "awq");
    assert_refused(QWEN COMPRESSED("nvfp4-pack"), "nvfp4-pack");
    assert_refused(QWEN COMPRESSED("mixed-precision"), "mixed-precision");
    assert_refused(QWEN ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}}", "3 bits");
    assert_refused(QWEN ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}", "needs scales");
}

#define GPTQ_OF(more) ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4" more "}}"
#define GPTQ GPTQ_OF("")

/* Inputs lie along a word; scales and zeros belong to groups of inputs. */
TEST_WITH(four_bits_of_gptq, file_begin, NULL) {
    uint32_t words[8], zeros[2] = {0x77777777, 0x00000000};
    int32_t groups[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    float scales[16], want[64];
    for (uint32_t o = 0; o < 8; o++) words[o] = 0x76543210 + o * 0x11111111;
    for (int i = 0; i < 16; i++) scales[i] = i < 8 ? 0.5f : 2;
    for (int o = 0; o < 8; o++)
        for (int i = 0; i < 8; i++)
            want[o * 8 + i] = i < 4 ? 0.5f * (float)(i + o - 8) : 2 * (float)(i + o - 1);
    add("lm_head.qweight", "I32", "[1,8]", words, sizeof words);
    add("lm_head.qzeros", "I32", "[2,1]", zeros, sizeof zeros);
    add("lm_head.scales", "F32", "[2,8]", scales, sizeof scales);
    add("lm_head.g_idx", "I32", "[8]", groups, sizeof groups);
    assert_floats(QWEN GPTQ, "output.weight", want, 64);
    assert_origin("output.weight", "lm_head.qweight|GPTQ int4, a scale per 4 columns|dequantized");
    for (int i = 0; i < 64; i++) want[i] += i % 8 < 4 ? 0.5f : 2; /* zeros as they are */
    assert_floats(QWEN GPTQ_OF(",\"packing_format\":\"auto_round:gptqmodel\""), "output.weight", want, 64);
}

/* Without g_idx inputs are grouped in their order, if the config does not say otherwise. */
TEST_WITH(groups_of_gptq_in_order, file_begin, NULL) {
    float want[64];
    static const uint32_t words[8] = {0};
    static const float scales[16] = {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2};
    for (int i = 0; i < 64; i++) want[i] = i % 8 < 4 ? -1 : -2;
    add("lm_head.qweight", "I32", "[1,8]", words, sizeof words);
    add("lm_head.qzeros", "I32", "[2,1]", words, 8);
    add("lm_head.scales", "F32", "[2,8]", scales, sizeof scales);
    assert_floats(QWEN GPTQ_OF(",\"group_size\":4"), "output.weight", want, 64);
    assert_refused(QWEN GPTQ_OF(",\"group_size\":4,\"desc_act\":true"), "no g_idx beside it");
    assert_refused(QWEN GPTQ, "no g_idx beside it");
    assert_refused(QWEN GPTQ_OF(",\"group_size\":8"), "does not fit");
    assert_refused(QWEN GPTQ_OF(",\"group_size\":-1"), "does not fit");
}

TEST_WITH(a_group_that_is_not_there, file_begin, NULL) {
    built b;
    gq_error e;
    float x[64];
    int32_t groups[8] = {0, 0, 0, 0, 0, 0, 0, 2};
    add("lm_head.qweight", "I32", "[1,8]", NULL, 32);
    add("lm_head.qzeros", "I32", "[2,1]", NULL, 8);
    add("lm_head.scales", "F32", "[2,8]", NULL, 64);
    add("lm_head.g_idx", "I32", "[8]", groups, sizeof groups);
    write_folder(QWEN GPTQ);
    assert_true(build(&b, &e));
    for (size_t i = 0; i < b.build.n; i++)
        if (strcmp(b.build.tensors[i].tensor.name, "output.weight") == 0) {
            assert_false(hf_tensor_read(&b.build.tensors[i], 0, 64, x, &e));
            assert_non_null(strstr(e.text, "g_idx of input 7 is 2, expected 0 to 1"));
        }
    built_free(&b);
}

/* How wide ernie's shared experts are is told by their arrays. */
TEST_WITH(shared_experts_have_their_own_width, file_begin, NULL) {
    static const char config[] =
        "{\"architectures\":[\"Ernie4_5_MoeForCausalLM\"],\"num_hidden_layers\":1,\"hidden_"
        "size\":4,\"num_attention_heads\":2,\"moe_num_experts\":1}";
    built b;
    gq_error e = {.text = ""};
    hf_metadata metadata = {.prefix = "ernie4_5-moe"};
    add("model.layers.0.mlp.shared_experts.up_proj.weight", "F32", "[6,4]", NULL, 96);
    write_folder(config);
    bool ok = build(&b, &e) && hf_tensor_metadata(&b.build, &metadata, &e);
    if (!ok) fail_msg("%s", e.text);
    const model_kv *kv = hf_metadata_find(&metadata, "ernie4_5-moe.expert_shared_feed_forward_length");
    int64_t width;
    assert_true(kv && model_kv_int(kv, &width) && width == 6);
    hf_metadata_free(&metadata), built_free(&b);
}

/* A number below 0 is none, and not what stands for "no group is in memory". */
TEST_WITH(a_group_below_the_first, file_begin, NULL) {
    built b;
    gq_error e;
    float x[64];
    int32_t groups[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    add("lm_head.qweight", "I32", "[1,8]", NULL, 32);
    add("lm_head.qzeros", "I32", "[2,1]", NULL, 8);
    add("lm_head.scales", "F32", "[2,8]", NULL, 64);
    add("lm_head.g_idx", "I32", "[8]", groups, sizeof groups);
    write_folder(QWEN GPTQ);
    assert_true(build(&b, &e));
    const hf_tensor *t = hf_build_find(&b.build, "output.weight");
    assert_false(hf_tensor_read(t, 0, 64, x, &e));
    assert_non_null(strstr(e.text, "g_idx of input 0 is -1, expected 0 to 1"));
    assert_int_equal(e.status, GQ_BAD_WEIGHTS);
    built_free(&b);
}

/* The halves are of its outputs, which are the columns of what is stored. */
TEST_WITH(halves_of_gptq, file_begin, NULL) {
    uint32_t words[16], zeros[2] = {0, 0};
    int32_t groups[8] = {0};
    float scales[16], want[64];
    for (uint32_t o = 0; o < 16; o++) words[o] = 0x11111111 * o, scales[o] = 1;
    for (int o = 0; o < 8; o++)
        for (int i = 0; i < 8; i++) want[o * 8 + i] = (float)(o + 8 - 1);
    add("model.layers.0.mlp.up_gate_proj.qweight", "I32", "[1,16]", words, sizeof words);
    add("model.layers.0.mlp.up_gate_proj.qzeros", "I32", "[1,2]", zeros, sizeof zeros);
    add("model.layers.0.mlp.up_gate_proj.scales", "F32", "[1,16]", scales, sizeof scales);
    add("model.layers.0.mlp.up_gate_proj.g_idx", "I32", "[8]", groups, sizeof groups);
    assert_floats("{\"architectures\":[\"Ernie4_5ForCausalLM\"],\"num_hidden_layers\":1" GPTQ,
                  "blk.0.ffn_up.weight", want, 64);
}

TEST_WITH(architectures, file_begin, NULL) {
    assert_refused("{\"num_hidden_layers\":1}", "architectures");
    assert_refused("{\"architectures\":[\"UltravoxModel\"],\"num_layers\":1}",
                   "UltravoxModel is not supported: it has no text part");
    assert_refused("{\"architectures\":[\"CLIPModel\"]}", "CLIPModel is not one of the");
    assert_refused("{\"_class_name\":\"FluxTransformer2DModel\"}", "a part of an image model");
    assert_refused("{\"architectures\":[\"Qwen2ForCausalLN\"],\"num_hidden_layers\":1}", "Qwen2ForCausalLM");
    assert_refused("[]", "expected an object");
    assert_refused("{\"architectures\":[\"Qwen2ForCausalLM\"],}", "line 1");
    assert_refused("{\"architectures\":[\"Qwen2ForCausalLM\"]}", "num_hidden_layers");
    assert_refused("{\"architectures\":[\"Qwen2ForCausalLM\"],\"num_hidden_layers\":NaN}", "a string");
}

int main(void) { return tests_run(folder_make, folder_remove); }
