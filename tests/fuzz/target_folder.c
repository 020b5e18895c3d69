/* A folder from Hugging Face. Head: the length of config.json; then that file, then model.safetensors. What
 * opens can be read, or fails with a message; a tensor read at once has the bytes that it has when it is read
 * in two parts. Without a config.json the file is tried as an image model's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/folder/folder.h"
#include "hf/tensors/tensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/safetensors.h"

enum { READ_MOST = 1 << 20 }; /* bytes of a tensor; views repeat nothing, so that no small file has more */

static void try_tensor(const hf_tensor *t) {
    const model_tensor *m = &t->tensor;
    uint64_t n = shape_elements(m->ne), block = m->type->block_elements, half = n / block / 2 * block;
    gq_error e = {0};
    if (m->size > READ_MOST) return;
    uint8_t *whole = malloc(m->size), *parts = malloc(m->size);
    bool ok = hf_tensor_read(t, 0, n, whole, &e);
    if (!ok) fuzz_check_error(&e);
    ok = ok && (half == 0 || hf_tensor_read(t, 0, half, parts, &e)) &&
         hf_tensor_read(t, half, n - half, parts + model_bytes(m, half), &e);
    PROMISE(!ok || memcmp(whole, parts, m->size) == 0, "%s", m->name);
    free(whole), free(parts);
}

static void try_folder(void) {
    hf_folder f = {.path = NULL};
    hf_config c = {.file = NULL};
    hf_list l = {.folder = NULL};
    hf_build b = {.config = NULL};
    gq_error e = {0};
    bool ok = hf_folder_open(&f, fuzz_folder(), &e) && hf_config_read(&c, &f, &e) &&
              hf_list_read(&l, &f, &e) && hf_mtp_find(&c, &l, &e) &&
              hf_build_tensors(&b, &c, &l, UINT64_MAX, &e);
    if (!ok) fuzz_check_error(&e);
    for (size_t i = 0; ok && i < b.n; i++) try_tensor(&b.tensors[i]);
    hf_build_free(&b), hf_list_free(&l), hf_config_free(&c), hf_folder_close(&f);
}

/* The same weights without a config are those of an image model. */
static void try_image(void) {
    hf_folder f = {.path = NULL};
    hf_config c = {.file = NULL};
    hf_list l = {.folder = NULL};
    hf_build b = {.config = NULL};
    hf_metadata metadata = {.prefix = NULL};
    gq_error e = {0};
    bool ok = hf_folder_open(&f, fuzz_folder(), &e) && hf_list_read_file(&l, &f, "model.safetensors", &e) &&
              hf_image_build(&b, &c, &l, &metadata, &e);
    if (!ok) fuzz_check_error(&e);
    for (size_t i = 0; ok && i < b.n; i++) try_tensor(&b.tensors[i]);
    hf_metadata_free(&metadata), hf_build_free(&b), hf_list_free(&l), hf_folder_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_input in = {bytes, n};
    size_t config = fuzz_u16(&in);
    if (config > in.n) config = in.n;
    fuzz_write_in_folder("config.json", in.bytes, config);
    fuzz_write_in_folder("model.safetensors", in.bytes + config, in.n - config);
    if (config)
        try_folder();
    else
        try_image();
    return 0;
}

static void seed(const char *folder, const char *name, const char *config, const char *header, size_t n) {
    size_t a = strlen(config), size;
    uint8_t *weights = safetensors_bytes(header, NULL, n, &size), *bytes = malloc(2 + a + size);
    bytes[0] = (uint8_t)a, bytes[1] = (uint8_t)(a >> 8);
    memcpy(bytes + 2, config, a);
    memcpy(bytes + 2 + a, weights, size);
    fuzz_seed(folder, name, bytes, 2 + a + size);
    free(bytes), free(weights);
}

#define CONFIG(name) \
    "{\"architectures\":[\"" name "\"],\"num_hidden_layers\":1,\"hidden_size\":4,\"num_attention_heads\":2," \
    "\"num_experts\":1,\"qk_nope_head_dim\":2," \
    "\"v_head_dim\":2,\"linear_num_key_heads\":1,\"linear_num_value_heads\":2,\"linear_key_head_dim\":1," \
    "\"linear_value_head_dim\":1"
#define ARRAY(name, dtype, shape, from, to) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"
#define EMBEDDING "{" ARRAY("model.embed_tokens.weight", "BF16", "[2,4]", "0", "16")

/* Files of image models: arrays of BF16 of 2 rows of 4, or those of other types whose name says so. */
static void seed_images(const char *folder) {
#define TO_QKV(from) from "q.weight", from "k.weight", from "v.weight"
    static const struct {
        const char *name, *arrays[9];
    } rows[] = {
        {"qwen_image",
         {"time_text_embed.timestep_embedder.linear_2.weight",
          "transformer_blocks.0.attn.norm_added_q.weight", "transformer_blocks.0.img_mlp.net.0.proj.weight"}},
        {"qwen_image_2",
         {"txt_in.text_norm.weight", "modulation.1.weight", "proj_out.weight",
          "transformer_blocks.0.attn.norm_q.weight", "transformer_blocks.2.attn.norm_q.weight"}},
        {"lens", {"transformer_blocks.0.attn.norm_added_q.weight", "transformer_blocks.0.img_mlp.w1.weight"}},
        {"hyvid",
         {"double_blocks.0.img_attn_proj.weight", TO_QKV("double_blocks.0.img_attn_"),
          "txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight"}},
        {"hyvid_comfy",
         {"model.diffusion_model.double_blocks.0.img_attn.proj.weight",
          "model.diffusion_model.txt_in.individual_token_refiner.blocks.0.adaLN_modulation.1.weight",
          "vae.decoder.conv_in.weight"}},
        {"flux2",
         {"x_embedder.weight", "double_stream_modulation_img.linear.weight",
          "single_transformer_blocks.0.attn.to_qkv_mlp_proj.weight",
          "time_guidance_embed.timestep_embedder.linear_1.weight", "norm_out.linear.weight"}},
        {"flux",
         {"x_embedder.weight", "single_transformer_blocks.0.proj_mlp.weight",
          TO_QKV("single_transformer_blocks.0.attn.to_"), "transformer_blocks.0.attn.norm_added_k.weight",
          "time_text_embed.timestep_embedder.linear_1.weight", "norm_out.linear.weight"}},
        {"ovis", {"double_blocks.0.img_attn.proj.weight", "double_blocks.0.img_mlp.gate_proj.weight"}},
        {"radiance",
         {"double_blocks.0.img_attn.proj.weight", "nerf_image_embedder.embedder.0.weight",
          "distilled_guidance_layer.in_proj.weight"}},
        {"scaled",
         {"double_blocks.0.img_attn.proj.weight F8_E4M3 [2,4] 8",
          "double_blocks.0.img_attn.proj.weight_scale F32 [] 4",
          "double_blocks.0.img_attn.proj.comfy_quant U8 [16] 16", "scaled_fp8 F8_E4M3 [0] 0"}},
        {"sd3",
         {"pos_embed.proj.weight", "context_embedder.weight", "transformer_blocks.0.attn.add_q_proj.weight",
          "transformer_blocks.0.attn.add_k_proj.weight", "transformer_blocks.0.attn.add_v_proj.weight",
          "time_text_embed.text_embedder.linear_1.weight", "transformer_blocks.0.norm1_context.linear.weight",
          "transformer_blocks.1.norm1_context.linear.weight"}},
        {"anima",
         {"net.blocks.0.mlp.layer1.weight", "net.blocks.0.adaln_modulation_cross_attn.1.weight",
          "net.llm_adapter.blocks.0.cross_attn.q_proj.weight", "net._extra_state"}},
        {"ltxv",
         {"adaln_single.emb.timestep_embedder.linear_2.weight", "transformer_blocks.0.scale_shift_table",
          "patchify_proj.weight"}},
        {"krea2",
         {"text_fusion.projector.weight", "img_in.weight", "transformer_blocks.0.scale_shift_table",
          "final_layer.scale_shift_table"}},
        {"ernie",
         {"adaLN_modulation.1.weight", "x_embedder.proj.weight", "text_proj.weight",
          "layers.0.mlp.linear_fc2.weight"}},
        {"ideogram4",
         {"embed_image_indicator.weight", "llm_cond_proj.weight", TO_QKV("layers.0.attention.to_")}},
        {"hidream_o1",
         {"model.x_embedder.proj1.weight", "model.language_model.layers.0.self_attn.q_proj.weight",
          "lm_head.weight"}},
        {"z_image",
         {"cap_embedder.1.weight", "all_x_embedder.2-1.weight", TO_QKV("context_refiner.0.attention.to_")}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        safetensors s = {.n = 0};
        for (const char *const *a = rows[i].arrays; *a; a++) {
            char name[160], dtype[16] = "BF16", shape[32] = "[2,4]";
            size_t n = 16;
            sscanf(*a, "%159s %15s %31s %zu", name, dtype, shape, &n);
            safetensors_add(&s, name, dtype, shape, NULL, n);
        }
        char header[sizeof s.header + 2];
        snprintf(header, sizeof header, "%s}", s.header);
        seed(folder, rows[i].name, "", header, s.n);
        safetensors_empty(&s);
    }
}

void fuzz_seeds(const char *folder) {
    seed(folder, "wan", "",
         "{" ARRAY("blocks.0.self_attn.norm_q.weight", "BF16", "[4]", "0", "8") "," ARRAY(
             "text_embedding.2.weight", "F16", "[2,4]", "8",
             "24") "," ARRAY("head.modulation", "BF16", "[1,2,4]", "24",
                             "40") "," ARRAY("patch_embedding.weight", "BF16", "[2,2,1,2,2]", "40", "72") "}",
         72);
    seed(folder, "sdxl", "",
         "{" ARRAY("model.diffusion_model.label_emb.0.0.weight", "F8_E4M3", "[32,64]", "0", "2048") "}",
         2048);
    seed_images(folder);
    seed(folder, "llama", CONFIG("LlamaForCausalLM") "}",
         EMBEDDING "," ARRAY("model.layers.0.self_attn.q_proj.weight", "F16", "[4,4]", "16", "48") "}", 48);
    seed(folder, "deepseek", CONFIG("DeepseekV3ForCausalLM") "}",
         EMBEDDING "," ARRAY("model.layers.0.self_attn.kv_b_proj.weight", "BF16", "[8,4]", "16", "80") "}",
         80);
    seed(folder, "qwen35", CONFIG("Qwen3_5ForCausalLM") "}",
         EMBEDDING "," ARRAY("model.layers.0.linear_attn.in_proj_z.weight", "F32", "[2,4]", "16", "48") "}",
         48);
    seed(folder, "fp8", CONFIG("Qwen3MoeForCausalLM") ",\"quantization_config\":{\"quant_method\":\"fp8\"}}",
         EMBEDDING
         "," ARRAY("model.layers.0.mlp.experts.0.up_proj.weight", "F8_E4M3", "[4,4]", "16", "32") "," ARRAY(
             "model.layers.0.mlp.experts.0.up_proj.weight_scale_inv", "F32", "[4]", "32", "48") "}",
         48);
    seed(folder, "gptq",
         CONFIG("Qwen2ForCausalLM") ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}",
         EMBEDDING "," ARRAY("model.layers.0.mlp.up_proj.qweight", "I32", "[1,8]", "16", "48") "," ARRAY(
             "model.layers.0.mlp.up_proj.qzeros", "I32", "[1,1]", "48",
             "52") "," ARRAY("model.layers.0.mlp.up_proj.scales", "F16", "[1,8]", "52",
                             "68") "," ARRAY("model.layers.0.mlp.up_proj.g_idx", "I32", "[8]", "68",
                                             "100") "}",
         100);
    seed(folder, "nvfp4",
         CONFIG("Qwen2ForCausalLM") ",\"quantization_config\":{\"quant_method\":\"modelopt\"}}",
         EMBEDDING "," ARRAY("model.layers.0.mlp.up_proj.weight", "U8", "[2,8]", "16", "32") "," ARRAY(
             "model.layers.0.mlp.up_proj.weight_scale", "F8_E4M3", "[2,1]", "32",
             "34") "," ARRAY("model.layers.0.mlp.up_proj.weight_scale_2", "F32", "[1]", "34", "38") "}",
         38);
    seed(folder, "mxfp4",
         CONFIG("GptOssForCausalLM") ",\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
         EMBEDDING "," ARRAY("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", "[1,2,1,16]", "16",
                             "48") "," ARRAY("model.layers.0.mlp.experts.gate_up_proj_scales", "U8",
                                             "[1,2,1]", "48", "50") "}",
         50);
}
