/* Image and video models as safetensors: recognised by their arrays, whatever folder they come in; delivered
 * under their own names with the types and shapes that ComfyUI-GGUF reads. */
#include <sys/stat.h>

#include "gguf/model.h"
#include "quantize/quantize.h"
#include "tests/support/command.h"
#include "tests/support/folder.h"
#include "tests/support/safetensors.h"

/* Writes a file of small BF16 arrays: "name shape" each, as in "img_in.weight 256,64". */
static void write_arrays(const char *name, const char *const *arrays) {
    safetensors s = {.n = 0};
    for (; *arrays; arrays++) {
        char array[160], counts[61], shape[64];
        size_t weights = 1;
        assert_int_equal(sscanf(*arrays, "%159s %60[0-9,]", array, counts), 2);
        for (const char *c = counts; *c; c += strcspn(c, ",") + (c[strcspn(c, ",")] == ','))
            weights *= (size_t)atoi(c);
        snprintf(shape, sizeof shape, "[%s]", counts);
        safetensors_add_weights(&s, array, shape, weights);
    }
    safetensors_write(&s, path(name));
    safetensors_empty(&s);
}
#define ARRAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void write_text(const char *name, const char *text) { write_whole(path(name), text, strlen(text)); }
static void make_folder(const char *name) { assert_int_equal(mkdir(path(name), 0777), 0); }

static const char *const flux[] = {"double_blocks.0.img_attn.proj.weight 256,256",
                                   "double_blocks.0.img_attn.qkv.weight 768,256",
                                   "double_blocks.0.img_attn.norm.query_norm.scale 128",
                                   "img_in.weight 256,64",
                                   "img_in.bias 256",
                                   "final_layer.linear.weight 64,256",
                                   NULL};
static const char *const wan[] = {
    "blocks.0.self_attn.norm_q.weight 256", "text_embedding.2.weight 256,256",     "head.modulation 1,2,768",
    "blocks.0.ffn.2.weight 256,512",        "patch_embedding.weight 256,16,1,2,2", NULL};
static const char *const qwen[] = {"time_text_embed.timestep_embedder.linear_2.weight 256,256",
                                   "transformer_blocks.0.attn.norm_added_q.weight 128",
                                   "transformer_blocks.0.attn.norm_added_k.weight 128",
                                   "transformer_blocks.0.img_mlp.net.0.proj.weight 512,256", NULL};

static model_source open_input(const char *name) {
    model_source m;
    gq_error e = {.text = ""};
    if (!input_open(&m, path(name), &e)) fail_msg("%s", e.text);
    return m;
}

static void assert_refused(const char *name, const char *with) {
    model_source m;
    gq_error e = {.text = ""};
    if (input_open(&m, path(name), &e)) fail_msg("%s was read", name);
    if (!strstr(e.text, with)) fail_msg("'%s' does not say '%s'", e.text, with);
}

static void assert_arch(const char *name, const char *arch, uint64_t tensors) {
    model_source m = open_input(name);
    const char *text;
    uint64_t n;
    assert_true(model_kv_string(model_kv_find(m.kv, m.n_kv, "general.architecture"), &text, &n));
    if (n != strlen(arch) || memcmp(text, arch, n) != 0) fail_msg("%s: %.*s", arch, (int)n, text);
    assert_int_equal(m.n_tensors, tensors);
    model_close(&m);
}

TEST(architectures_by_their_arrays) {
    static const struct {
        const char *arch, *arrays[6];
    } rows[] = {
        {"flux", {"double_blocks.0.img_attn.proj.weight 8,8"}},
        {"sd3", {"joint_blocks.0.x_block.attn.qkv.weight 8,8"}},
        {"aura", {"model.double_layers.3.modX.1.weight 8,8"}},
        {"hidream",
         {"caption_projection.0.linear.weight 8,8",
          "double_stream_blocks.0.block.ff_i.shared_experts.w3.weight 8,8"}},
        {"cosmos",
         {"net.blocks.0.mlp.layer1.weight 8,8", "net.blocks.0.adaln_modulation_cross_attn.1.weight 8,8"}},
        {"ltxv",
         {"adaln_single.emb.timestep_embedder.linear_2.weight 8,8",
          "transformer_blocks.27.scale_shift_table 6,8", "caption_projection.linear_2.weight 8,8"}},
        {"hyvid",
         {"double_blocks.0.img_attn_proj.weight 8,8",
          "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight 8,8"}},
        {"wan",
         {"blocks.0.self_attn.norm_q.weight 8", "text_embedding.2.weight 8,8", "head.modulation 1,2,8"}},
        {"qwen_image",
         {"transformer_blocks.0.attn.norm_added_q.weight 8",
          "transformer_blocks.0.attn.norm_added_k.weight 8",
          "time_text_embed.timestep_embedder.linear_2.weight 8,8",
          "transformer_blocks.0.img_mlp.net.0.proj.weight 8,8"}},
        {"flux", /* FLUX.2 */
         {"double_blocks.0.img_attn.proj.weight 8,8", "double_stream_modulation_img.lin.weight 48,8",
          "double_stream_modulation_txt.lin.weight 48,8", "single_stream_modulation.lin.weight 24,8"}},
        {"flux", /* Ovis */
         {"model.diffusion_model.double_blocks.0.img_attn.proj.weight 8,8",
          "model.diffusion_model.double_blocks.0.img_mlp.gate_proj.weight 8,8"}},
        {"flux", /* LongCat */
         {"double_blocks.0.img_attn.proj.weight 8,8", "double_blocks.0.img_attn.norm.query_norm.weight 8"}},
        {"flux", /* Chroma Radiance */
         {"double_blocks.0.img_attn.proj.weight 8,8", "nerf_image_embedder.embedder.0.weight 8,8",
          "distilled_guidance_layer.in_proj.weight 8,8"}},
        {"hyvid", /* HunyuanVideo 1.5 */
         {"double_blocks.0.img_attn.proj.weight 8,8", "vision_in.proj.1.weight 8,8",
          "txt_in.individual_token_refiner.blocks.0.adaLN_modulation.1.weight 8,8",
          "byt5_in.fc1.weight 8,8"}},
        {"lens",
         {"transformer_blocks.0.attn.norm_added_q.weight 8",
          "transformer_blocks.0.attn.norm_added_k.weight 8", "transformer_blocks.0.img_mlp.w1.weight 8,8",
          "time_text_embed.timestep_embedder.linear_2.weight 8,8"}},
        {"qwen_image", /* the layered one */
         {"transformer_blocks.0.attn.norm_added_q.weight 8",
          "time_text_embed.addition_t_embedding.weight 2,8",
          "time_text_embed.timestep_embedder.linear_2.weight 8,8",
          "transformer_blocks.0.img_mlp.net.0.proj.weight 8,8"}},
        {"anima",
         {"net.blocks.0.mlp.layer1.weight 8,8", "net.blocks.0.adaln_modulation_cross_attn.1.weight 8,8",
          "net.llm_adapter.blocks.0.cross_attn.q_proj.weight 8,8"}},
        {"ltxv", /* LTX-2 */
         {"model.diffusion_model.adaln_single.emb.timestep_embedder.linear_2.weight 8,8",
          "model.diffusion_model.transformer_blocks.47.scale_shift_table 6,8",
          "model.diffusion_model.patchify_proj.weight 8,8"}},
        {"wan", /* 2.2: no img_emb */
         {"blocks.0.self_attn.norm_q.weight 8", "blocks.0.cross_attn.norm_k.weight 8",
          "text_embedding.2.weight 8,8", "head.modulation 1,2,8"}},
        {"krea2", {"blocks.0.attn.qknorm.qnorm.scale 8", "txtfusion.projector.weight 1,8"}},
        {"ernie",
         {"adaLN_modulation.1.weight 8,8", "x_embedder.proj.weight 8,8,1,1", "text_proj.weight 8,8",
          "layers.0.mlp.linear_fc2.weight 8,8"}},
        {"ideogram4",
         {"embed_image_indicator.weight 2,8", "llm_cond_proj.weight 8,8",
          "layers.0.attention.qkv.weight 24,8"}},
        {"hidream_o1",
         {"model.x_embedder.proj1.weight 8,8", "model.language_model.layers.0.self_attn.q_proj.weight 8,8",
          "lm_head.weight 8,8"}},
        {"qwen_image", /* 2.1: as ComfyUI and as diffusers store it */
         {"txt_in.text_norm.weight 8", "modulation.1.weight 32,8", "proj_out.weight 8,8",
          "transformer_blocks.0.attn.norm_q.weight 8", "transformer_blocks.0.img_mlp.gate_up.weight 16,8"}},
        {"qwen_image",
         {"txt_in.text_norm.weight 8", "modulation.1.weight 32,8", "proj_out.weight 8,8",
          "transformer_blocks.0.attn.norm_q.weight 8", "transformer_blocks.0.img_mlp.gate_layer.weight 8,8"}},
        {"ltxv", /* of another depth */
         {"adaln_single.emb.timestep_embedder.linear_2.weight 8,8", "patchify_proj.weight 8,8",
          "transformer_blocks.0.scale_shift_table 6,8"}},
        {"aura", {"double_layers.0.attn.w1q.weight 8,8", "cond_seq_linear.weight 8,8"}},
        {"flux", /* with controls: a wider input, no guidance */
         {"double_blocks.0.img_attn.proj.weight 8,8", "img_in.weight 8,384",
          "single_blocks.1.linear1.weight 8,8"}},
        {"sdxl", {"model.diffusion_model.label_emb.0.0.weight 8,8"}},
        {"sd1", {"down_blocks.0.downsamplers.0.conv.weight 8,8,3,3"}},
        {"lumina2", {"cap_embedder.1.weight 8,8", "context_refiner.0.attention.qkv.weight 8,8"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t n = 0;
        while (rows[i].arrays[n]) n++;
        write_arrays("x.safetensors", rows[i].arrays);
        assert_arch("x.safetensors", rows[i].arch, n);
    }
}

static void assert_warned(const char *name, const char *with) {
    model_source m = open_input(name);
    bool found = false;
    for (size_t i = 0; i < m.warnings.n; i++) found = found || strstr(m.warnings.items[i], with);
    if (!found) fail_msg("%s: no warning says '%s'", name, with);
    model_close(&m);
}

/* Whatever program has saved a model puts its own beginning before all names; other parts of a file are left
 * out, and told. */
TEST(names_behind_a_prefix) {
    static const char *const prefixes[] =
        {"model.diffusion_model.", "diffusion_model.", "transformer.", "net.", "unet.", "model."},
                             *const *const models[] = {flux, wan, qwen};
    static const char *const archs[] = {"flux", "wan", "qwen_image"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        for (size_t k = 0; k < 3; k++) {
            char names[8][160], *arrays[9];
            size_t n = 0;
            for (; models[k][n]; n++)
                snprintf(arrays[n] = names[n], sizeof *names, "%s%s", prefixes[i], models[k][n]);
            arrays[n] = (char[]){"vae.decoder.conv_in.weight 8,4,3,3"}, arrays[n + 1] = NULL;
            write_arrays("x.safetensors", (const char *const *)arrays);
            assert_arch("x.safetensors", archs[k], n);
            assert_warned("x.safetensors", "1 tensor such as 'vae.decoder.conv_in.weight' is left out");
        }
}

/* An array that a block lacks though its neighbours have it is told. */
TEST(blocks_with_holes) {
    write_arrays(
        "x.safetensors",
        ARRAYS("double_blocks.0.img_attn.proj.weight 8,8", "double_blocks.1.img_attn.proj.weight 8,8",
               "double_blocks.2.img_attn.proj.weight 8,8", "double_blocks.4.img_attn.proj.weight 8,8",
               "double_blocks.0.img_mod.lin.weight 8,8", "double_blocks.1.img_mod.lin.weight 8,8"));
    assert_warned("x.safetensors", "block 3 lacks 'double_blocks.2.img_attn.proj.weight', which");
    write_arrays("x.safetensors", ARRAYS("double_blocks.0.img_attn.proj.weight 8,8",
                                         "double_blocks.1.img_attn.proj.weight 8,8",
                                         "double_blocks.0.img_mod.lin.weight 8,8"));
    assert_warned("x.safetensors", "block 1 lacks 'double_blocks.0.img_mod.lin.weight', which");
    write_arrays("x.safetensors",
                 ARRAYS("double_blocks.0.img_attn.proj.weight 8,8",
                        "double_blocks.1.img_attn.proj.weight 8,8",
                        "double_blocks.2.img_attn.proj.weight 8,8", "double_blocks.1.img_mod.lin.weight 8,8",
                        "double_blocks.2.img_mod.lin.weight 8,8"));
    assert_warned("x.safetensors", "block 0 lacks 'double_blocks.1.img_mod.lin.weight', which");
    write_arrays("x.safetensors",
                 ARRAYS("double_blocks.0.img_attn.proj.weight 8,8",
                        "double_blocks.1.img_attn.proj.weight 8,8",
                        "double_blocks.2.img_attn.proj.weight 8,8", "double_blocks.0.img_mod.lin.weight 8,8",
                        "double_blocks.2.img_mod.lin.weight 8,8"));
    assert_warned("x.safetensors", "block 1 lacks 'double_blocks.0.img_mod.lin.weight', which");
    for (int odd = 0; odd < 3; odd++) {
        char blocks[3][64];
        for (int i = 0; i < 3; i++)
            snprintf(blocks[i], sizeof blocks[i], "double_blocks.%d.img_attn.proj.weight 8,%d", i,
                     i == odd ? 4 : 8);
        write_arrays("x.safetensors", ARRAYS(blocks[0], blocks[1], blocks[2]));
        assert_warned("x.safetensors", "has another shape than in the blocks beside it");
    }
    write_arrays("x.safetensors",
                 ARRAYS("x_embedder.weight 8,8", "single_transformer_blocks.0.proj_mlp.weight 8,8",
                        "single_transformer_blocks.0.attn.to_q.weight 8,8",
                        "single_transformer_blocks.0.attn.to_k.weight 8,8",
                        "single_transformer_blocks.0.attn.to_v.weight 8,8",
                        "transformer_blocks.0.attn.norm_added_k.weight 8",
                        "time_text_embed.timestep_embedder.linear_1.weight 8,8"));
    assert_warned("x.safetensors", "missing tensor img_in.bias, and more, which all such models have");
    write_arrays("x.safetensors",
                 ARRAYS("double_blocks.0.img_attn.proj.weight 8,8", "vision_in.proj.1.weight 8,8",
                        "vision_in.proj.3.weight 8,8", "vision_in.proj.4.weight 8,8"));
    model_source m = open_input("x.safetensors");
    assert_int_equal(m.warnings.n, 0);
    model_close(&m);
}

/* The tensors around the blocks of a file in the names of its first program: each is missed. */
TEST(layers_around_the_blocks) {
    static const char *const layers[] = {"img_in",
                                         "txt_in",
                                         "time_in.in_layer",
                                         "time_in.out_layer",
                                         "vector_in.in_layer",
                                         "vector_in.out_layer",
                                         "guidance_in.in_layer",
                                         "guidance_in.out_layer",
                                         "final_layer.linear",
                                         "final_layer.adaLN_modulation.1"};
    enum { LAYERS = sizeof layers / sizeof *layers };
    char names[2 * LAYERS][64], gone[80];
    for (size_t without = 0; without <= 2 * LAYERS; without++) {
        const char *arrays[2 * LAYERS + 3] = {"double_blocks.0.img_attn.proj.weight 8,8",
                                              "double_blocks.0.img_mod.lin.weight 8,8"};
        for (size_t i = 0, n = 2; i < 2 * LAYERS; i++) {
            snprintf(names[i], sizeof *names, "%s.%s", layers[i / 2], i % 2 ? "bias 8" : "weight 8,8");
            if (i != without) arrays[n++] = names[i];
        }
        write_arrays("x.safetensors", arrays);
        if (without < 2 * LAYERS) {
            snprintf(gone, sizeof gone, "missing tensor %.*s, which", (int)strcspn(names[without], " "),
                     names[without]);
            assert_warned("x.safetensors", gone);
            continue;
        }
        model_source m = open_input("x.safetensors");
        assert_int_equal(m.warnings.n, 0);
        model_close(&m);
    }
}

static const model_tensor *tensor_of(const model_source *m, const char *name) {
    const model_tensor *t = model_tensor_named(m, name);
    if (!t) fail_msg("no tensor %s", name);
    return t;
}

static void assert_tensor(const model_source *m, const char *name, uint32_t type, uint32_t n_dims,
                          uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t ne3) {
    const model_tensor *t = tensor_of(m, name);
    if (t->type->id != type) fail_msg("%s is %s", name, t->type->name);
    assert_int_equal(t->n_dims, n_dims);
    assert_true(t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == ne2 && t->ne[3] == ne3);
}

static void assert_shape_key(const model_source *m, const char *name, uint64_t n, const int32_t *want) {
    char key[256];
    uint32_t type;
    uint64_t count;
    const uint8_t *elements;
    snprintf(key, sizeof key, "comfy.gguf.orig_shape.%s", name);
    const model_kv *kv = model_kv_find(m->kv, m->n_kv, key);
    assert_int_equal(kv != NULL, n > 0);
    if (!kv) return;
    assert_true(model_kv_array(kv, &type, &count, &elements));
    assert_true(type == GGUF_INT32 && count == n);
    assert_memory_equal(elements, want, n * sizeof *want);
}

/* GGUF has four dimensions: the outermost ones of a larger array are one there, and a key tells the shape. */
TEST(shapes_and_types_of_video_models) {
    write_arrays("wan.safetensors", wan);
    model_source m = open_input("wan.safetensors");
    assert_tensor(&m, "patch_embedding.weight", GGUF_F32, 4, 2, 2, 1, 4096);
    assert_shape_key(&m, "patch_embedding.weight", 5, (int32_t[]){256, 16, 1, 2, 2});
    assert_tensor(&m, "head.modulation", GGUF_F32, 3, 768, 2, 1, 1);
    assert_shape_key(&m, "head.modulation", 0, NULL);
    assert_tensor(&m, "blocks.0.self_attn.norm_q.weight", GGUF_F32, 1, 256, 1, 1, 1);
    assert_tensor(&m, "text_embedding.2.weight", GGUF_BF16, 2, 256, 256, 1, 1);
    model_close(&m);
}

/* Convolutions of UNets are stored as rows of 256; what belongs to text encoders is left out. */
TEST(arrays_of_unets_as_rows) {
    write_arrays("unet.safetensors",
                 ARRAYS("model.diffusion_model.label_emb.0.0.weight 256,256",
                        "model.diffusion_model.input_blocks.1.0.in_layers.2.weight 32,32,3,3",
                        "model.diffusion_model.input_blocks.0.0.weight 5,4,3,3",
                        "first_stage_model.decoder.conv_in.weight 8,4,3,3"));
    model_source m = open_input("unet.safetensors");
    assert_int_equal(m.n_tensors, 3);
    assert_tensor(&m, "label_emb.0.0.weight", GGUF_BF16, 2, 256, 256, 1, 1);
    assert_tensor(&m, "input_blocks.1.0.in_layers.2.weight", GGUF_BF16, 2, 256, 36, 1, 1);
    assert_shape_key(&m, "input_blocks.1.0.in_layers.2.weight", 4, (int32_t[]){32, 32, 3, 3});
    assert_tensor(&m, "input_blocks.0.0.weight", GGUF_F32, 4, 3, 3, 4, 5);
    model_close(&m);
}

/* An array of F32 whose elements are all the same number. */
static void add_alike(safetensors *s, const char *name, const char *shape, size_t n, float value) {
    uint8_t *to = safetensors_add(s, name, "F32", shape, NULL, n * sizeof value);
    for (size_t i = 0; i < n; i++) memcpy(to + i * sizeof value, &value, sizeof value);
}

/* Runs of equal numbers that a tensor holds: "1 x 8, 2 x 8". */
static void assert_runs(const model_source *m, const char *name, const char *expected) {
    const model_tensor *t = tensor_of(m, name);
    float x[4096];
    char found[128] = "";
    gq_error e;
    size_t n = (size_t)(t->ne[0] * t->ne[1]);
    assert_true(n <= 4096 && model_read(m, t, 0, n, x, &e));
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && x[end] == x[i];) end++;
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%g x %zu", i ? ", " : "",
                 (double)x[i], end - i);
    }
    if (strcmp(found, expected) != 0) fail_msg("%s: %s, expected %s", name, found, expected);
}

/* Where stable-diffusion.cpp maps diffusers' names, so is it here: parts are joined, and what scales and shifts
 * the end change places. */
TEST(names_of_diffusers) {
    safetensors s = {.n = 0};
    add_alike(&s, "x_embedder.weight", "[64,64]", 4096, 1);
    add_alike(&s, "time_text_embed.timestep_embedder.linear_1.weight", "[32,64]", 2048, 2);
    add_alike(&s, "transformer_blocks.0.attn.norm_added_k.weight", "[64]", 64, 3);
    add_alike(&s, "transformer_blocks.0.attn.to_k.weight", "[16,64]", 1024, 5);
    add_alike(&s, "transformer_blocks.0.attn.to_q.weight", "[32,64]", 2048, 4);
    add_alike(&s, "transformer_blocks.0.attn.to_v.weight", "[16,64]", 1024, 6);
    add_alike(&s, "transformer_blocks.0.attn.to_q.bias", "[32]", 32, 4);
    add_alike(&s, "transformer_blocks.0.attn.to_k.bias", "[16]", 16, 5);
    add_alike(&s, "transformer_blocks.0.attn.to_v.bias", "[16]", 16, 6);
    add_alike(&s, "single_transformer_blocks.11.attn.to_q.weight", "[16,64]", 1024, 1);
    add_alike(&s, "single_transformer_blocks.11.attn.to_k.weight", "[16,64]", 1024, 2);
    add_alike(&s, "single_transformer_blocks.11.attn.to_v.weight", "[16,64]", 1024, 3);
    add_alike(&s, "single_transformer_blocks.11.proj_mlp.weight", "[16,64]", 1024, 4);
    add_alike(&s, "single_transformer_blocks.0.proj_mlp.weight", "[16,64]", 1024, 4);
    float *transposed =
        (float *)(void *)safetensors_add(&s, "norm_out.linear.weight", "F32", "[4,64]", NULL, 1024);
    for (int i = 0; i < 256; i++) transposed[i] = i < 128 ? 7 : 8;
    safetensors_write(&s, path("d.safetensors"));
    assert_refused("d.safetensors", "tensor single_blocks.0.linear1.weight: part 1 of 4 is missing");
    for (int i = 0; i < 3; i++) {
        static const char *const others[] = {"to_q", "to_k", "to_v"};
        char name[64];
        snprintf(name, sizeof name, "single_transformer_blocks.0.attn.%s.weight", others[i]);
        add_alike(&s, name, "[16,64]", 1024, 9);
    }
    safetensors_write(&s, path("d.safetensors"));
    model_source m = open_input("d.safetensors");
    assert_tensor(&m, "img_in.weight", GGUF_F32, 2, 64, 64, 1, 1);
    assert_tensor(&m, "time_in.in_layer.weight", GGUF_F32, 2, 64, 32, 1, 1);
    assert_tensor(&m, "double_blocks.0.txt_attn.norm.key_norm.scale", GGUF_F32, 1, 64, 1, 1, 1);
    assert_tensor(&m, "double_blocks.0.img_attn.qkv.weight", GGUF_F32, 2, 64, 64, 1, 1);
    assert_runs(&m, "double_blocks.0.img_attn.qkv.weight", "4 x 2048, 5 x 1024, 6 x 1024");
    assert_runs(&m, "double_blocks.0.img_attn.qkv.bias", "4 x 32, 5 x 16, 6 x 16");
    assert_runs(&m, "single_blocks.11.linear1.weight", "1 x 1024, 2 x 1024, 3 x 1024, 4 x 1024");
    assert_runs(&m, "final_layer.adaLN_modulation.1.weight", "8 x 128, 7 x 128");
    model_close(&m);
    add_alike(&s, "transformer_blocks.0.attn.odd.weight", "[16,64]", 1024, 9);
    safetensors_write(&s, path("d.safetensors"));
    assert_refused("d.safetensors", "'transformer_blocks.0.attn.odd.weight': unknown tensor name");
    safetensors_empty(&s);

    add_alike(&s, "x_embedder.weight", "[64,64]", 4096, 1);
    add_alike(&s, "double_stream_modulation_img.linear.weight", "[16,64]", 1024, 2);
    add_alike(&s, "time_guidance_embed.timestep_embedder.linear_1.weight", "[16,64]", 1024, 3);
    add_alike(&s, "single_transformer_blocks.0.attn.to_qkv_mlp_proj.weight", "[64,64]", 4096, 4);
    add_alike(&s, "single_transformer_blocks.0.attn.to_out.weight", "[64,64]", 4096, 5);
    add_alike(&s, "transformer_blocks.0.attn.norm_added_k.weight", "[64]", 64, 6);
    add_alike(&s, "transformer_blocks.0.ff_context.linear_out.weight", "[64,64]", 4096, 7);
    for (int i = 0; i < 3; i++) {
        static const char *const parts[] = {"to_k", "to_q", "to_v"};
        char name[64];
        snprintf(name, sizeof name, "transformer_blocks.0.attn.%s.weight", parts[i]);
        add_alike(&s, name, "[16,64]", 1024, 10 + i);
    }
    transposed = (float *)(void *)safetensors_add(&s, "norm_out.linear.weight", "F32", "[4,64]", NULL, 1024);
    for (int i = 0; i < 256; i++) transposed[i] = i < 128 ? 7 : 8;
    safetensors_write(&s, path("f2.safetensors"));
    assert_arch("f2.safetensors", "flux", 9);
    m = open_input("f2.safetensors");
    assert_tensor(&m, "double_stream_modulation_img.lin.weight", GGUF_F32, 2, 64, 16, 1, 1);
    assert_tensor(&m, "time_in.in_layer.weight", GGUF_F32, 2, 64, 16, 1, 1);
    assert_runs(&m, "single_blocks.0.linear1.weight", "4 x 4096");
    assert_runs(&m, "single_blocks.0.linear2.weight", "5 x 4096");
    assert_runs(&m, "double_blocks.0.txt_mlp.2.weight", "7 x 4096");
    assert_runs(&m, "double_blocks.0.img_attn.qkv.weight", "11 x 1024, 10 x 1024, 12 x 1024");
    assert_runs(&m, "final_layer.adaLN_modulation.1.weight", "8 x 128, 7 x 128");
    model_close(&m);
    safetensors_empty(&s);

    add_alike(&s, "cap_embedder.1.weight", "[64,64]", 4096, 1);
    add_alike(&s, "all_x_embedder.2-1.weight", "[64,64]", 4096, 2);
    add_alike(&s, "context_refiner.0.attention.to_q.weight", "[16,64]", 1024, 3);
    add_alike(&s, "context_refiner.0.attention.to_k.weight", "[16,64]", 1024, 4);
    add_alike(&s, "context_refiner.0.attention.to_v.weight", "[16,64]", 1024, 5);
    add_alike(&s, "context_refiner.0.attention.norm_q.weight", "[16]", 16, 6);
    add_alike(&s, "layers.3.feed_forward.w2.weight", "[64,64]", 4096, 7);
    safetensors_write(&s, path("z.safetensors"));
    assert_arch("z.safetensors", "lumina2", 5);
    m = open_input("z.safetensors");
    assert_runs(&m, "context_refiner.0.attention.qkv.weight", "3 x 1024, 4 x 1024, 5 x 1024");
    assert_runs(&m, "context_refiner.0.attention.q_norm.weight", "6 x 16");
    assert_runs(&m, "x_embedder.weight", "2 x 4096");
    assert_runs(&m, "layers.3.feed_forward.w2.weight", "7 x 4096");
    model_close(&m);
    add_alike(&s, "layers.0.attention.to_q.weight", "[16,64]", 1024, 3);
    add_alike(&s, "layers.0.attention.to_k.weight", "[16,32]", 512, 3);
    safetensors_write(&s, path("z.safetensors"));
    assert_refused("z.safetensors", "differs from the other parts of layers.0.attention.qkv.weight");
    safetensors_empty(&s);
}

/* One of three that are joined has another type, or keys have other rows than values: whichever comes first. */
TEST(parts_are_alike) {
    static const char *const parts[] = {"q", "k", "v"};
    for (int odd = 0; odd < 4; odd++) {
        safetensors s = {.n = 0};
        add_alike(&s, "cap_embedder.1.weight", "[64,64]", 4096, 1);
        add_alike(&s, "all_x_embedder.2-1.weight", "[64,64]", 4096, 2);
        for (int i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, "context_refiner.0.attention.to_%s.weight", parts[i]);
            if (odd == 3 && i == 1)
                add_alike(&s, name, "[8,64]", 512, 3);
            else
                safetensors_add(&s, name, odd == i ? "F16" : "F32", "[16,64]", NULL, odd == i ? 2048 : 4096);
        }
        safetensors_write(&s, path("parts.safetensors"));
        assert_refused("parts.safetensors", "the other parts of context_refiner.0.attention.qkv.weight");
        safetensors_empty(&s);
    }
}

/* Three biases that are joined are alike, but half as long as the rows of their matrices. */
TEST(joined_bias_is_too_short) {
    static const char *const parts[] = {"q", "k", "v"};
    for (int n = 8; n <= 16; n += 8) {
        safetensors s = {.n = 0};
        add_alike(&s, "cap_embedder.1.weight", "[64,64]", 4096, 1);
        add_alike(&s, "all_x_embedder.2-1.weight", "[64,64]", 4096, 2);
        for (int i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, "context_refiner.0.attention.to_%s.weight", parts[i]);
            safetensors_add(&s, name, "F32", "[16,64]", NULL, 4096);
            snprintf(name, sizeof name, "context_refiner.0.attention.to_%s.bias", parts[i]);
            safetensors_add(&s, name, "F32", n == 8 ? "[8]" : "[16]", NULL, (size_t)n * 4);
        }
        safetensors_write(&s, path("bias.safetensors"));
        if (n == 8)
            assert_refused("bias.safetensors",
                           "context_refiner.0.attention.qkv.bias: 24 numbers for the 48 rows");
        else
            assert_arch("bias.safetensors", "lumina2", 4);
        safetensors_empty(&s);
    }
}

/* Each array's name and shape, and the name of what becomes of it, "" where it joins the one before. */
TEST(names_of_other_makers) {
    static const struct {
        const char *arch, *names[16][2];
    } rows[] = {
        {"krea2",
         {{"text_fusion.projector.weight 1,12", "txtfusion.projector.weight 12"},
          {"img_in.weight 64,32", "first.weight 32,64"},
          {"transformer_blocks.0.scale_shift_table 6,64", "blocks.0.mod.lin 384"},
          {"transformer_blocks.11.norm1.weight 64", "blocks.11.prenorm.scale 64"},
          {"transformer_blocks.0.attn.norm_q.weight 32", "blocks.0.attn.qknorm.qnorm.scale 32"},
          {"transformer_blocks.0.attn.to_out.0.weight 64,64", "blocks.0.attn.wo.weight 64,64"},
          {"transformer_blocks.0.ff.down.weight 64,128", "blocks.0.mlp.down.weight 128,64"},
          {"text_fusion.refiner_blocks.1.attn.to_gate.weight 64,64",
           "txtfusion.refiner_blocks.1.attn.gate.weight 64,64"},
          {"txt_in.norm.weight 64", "txtmlp.0.scale 64"},
          {"txt_in.linear_2.bias 64", "txtmlp.3.bias 64"},
          {"time_mod_proj.weight 64,64", "tproj.1.weight 64,64"},
          {"final_layer.scale_shift_table 2,64", "last.modulation.lin 64,2"}}},
        {"sd3",
         {{"pos_embed.proj.weight 64,16,2,2", "x_embedder.proj.weight 2,2,16,64"},
          {"pos_embed.pos_embed 1,16,64", "pos_embed 64,16"},
          {"context_embedder.weight 64,96", "context_embedder.weight 96,64"},
          {"time_text_embed.text_embedder.linear_1.weight 64,64", "y_embedder.mlp.0.weight 64,64"},
          {"transformer_blocks.0.attn.add_q_proj.weight 64,64",
           "joint_blocks.0.context_block.attn.qkv.weight 64,192"},
          {"transformer_blocks.0.attn.add_k_proj.weight 64,64", ""},
          {"transformer_blocks.0.attn.add_v_proj.weight 64,64", ""},
          {"transformer_blocks.0.attn2.norm_q.weight 64", "joint_blocks.0.x_block.attn2.ln_q.weight 64"},
          {"transformer_blocks.0.ff_context.net.0.proj.weight 64,64",
           "joint_blocks.0.context_block.mlp.fc1.weight 64,64"},
          {"norm_out.linear.bias 128", "final_layer.adaLN_modulation.1.bias 128"}}},
        {"ideogram4",
         {{"embed_image_indicator.weight 2,64", "embed_image_indicator.weight 64,2"},
          {"llm_cond_proj.weight 64,96", "llm_cond_proj.weight 96,64"},
          {"layers.0.attention.to_q.weight 64,64", "layers.0.attention.qkv.weight 64,192"},
          {"layers.0.attention.to_k.weight 64,64", ""},
          {"layers.0.attention.to_v.weight 64,64", ""},
          {"layers.0.attention.to_out.0.weight 64,64", "layers.0.attention.o.weight 64,64"},
          {"layers.0.attention.norm_q.weight 32", "layers.0.attention.norm_q.weight 32"}}},
        {"wan",
         {{"blocks.0.attn1.norm_q.weight 64", "blocks.0.self_attn.norm_q.weight 64"},
          {"condition_embedder.text_embedder.linear_1.weight 64,32", "text_embedding.0.weight 32,64"},
          {"condition_embedder.time_proj.weight 96,64", "time_projection.1.weight 64,96"},
          {"condition_embedder.image_embedder.ff.net.2.weight 64,64", "img_emb.proj.3.weight 64,64"},
          {"blocks.0.attn1.to_out.0.weight 64,64", "blocks.0.self_attn.o.weight 64,64"},
          {"blocks.11.attn2.add_k_proj.weight 64,64", "blocks.11.cross_attn.k_img.weight 64,64"},
          {"blocks.0.norm2.weight 64", "blocks.0.norm3.weight 64"},
          {"blocks.0.ffn.net.2.weight 64,96", "blocks.0.ffn.2.weight 96,64"},
          {"blocks.0.scale_shift_table 1,6,64", "blocks.0.modulation 64,6"},
          {"vace_blocks.1.proj_out.weight 64,64", "vace_blocks.1.after_proj.weight 64,64"},
          {"scale_shift_table 1,2,64", "head.modulation 64,2"},
          {"proj_out.weight 64,64", "head.head.weight 64,64"}}},
        {"ltxv",
         {{"time_embed.emb.timestep_embedder.linear_2.weight 64,64",
           "adaln_single.emb.timestep_embedder.linear_2.weight 64,64"},
          {"proj_in.weight 64,32", "patchify_proj.weight 32,64"},
          {"transformer_blocks.0.scale_shift_table 6,64", "transformer_blocks.0.scale_shift_table 64,6"},
          {"transformer_blocks.0.attn2.norm_k.weight 64", "transformer_blocks.0.attn2.k_norm.weight 64"},
          {"transformer_blocks.0.attn1.to_out.0.weight 64,64",
           "transformer_blocks.0.attn1.to_out.0.weight 64,64"}}},
        {"hyvid", /* 1.5, as its makers publish it */
         {{"double_blocks.0.img_attn_q.weight 64,64", "double_blocks.0.img_attn_qkv.weight 64,192"},
          {"double_blocks.0.img_attn_k.weight 64,64", ""},
          {"double_blocks.0.img_attn_v.weight 64,64", ""},
          {"double_blocks.0.img_attn_proj.weight 64,64", "double_blocks.0.img_attn_proj.weight 64,64"},
          {"double_blocks.0.img_attn_q_norm.weight 32", "double_blocks.0.img_attn_q_norm.weight 32"},
          {"txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight 96,32",
           "txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight 32,96"}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *arrays[17] = {NULL};
        uint64_t n = 0, joined = 0;
        for (; rows[i].names[n][0]; n++) arrays[n] = rows[i].names[n][0], joined += !*rows[i].names[n][1];
        write_arrays("x.safetensors", arrays);
        assert_arch("x.safetensors", rows[i].arch, n - joined);
        model_source m = open_input("x.safetensors");
        for (size_t k = 0; k < n; k++) {
            char name[160], shape[61] = "", found[61] = "";
            if (sscanf(rows[i].names[k][1], "%159s %60s", name, shape) != 2) continue;
            const model_tensor *t = tensor_of(&m, name);
            for (uint32_t d = 0; d < 4 && (d == 0 || t->ne[d] > 1); d++)
                snprintf(found + strlen(found), sizeof found - strlen(found), "%s%llu", d ? "," : "",
                         (unsigned long long)t->ne[d]);
            if (strcmp(found, shape) != 0) fail_msg("%s: %s, expected %s", name, found, shape);
        }
        model_close(&m);
    }
}

/* In the last block of sd3 the text's modulation is the end's, whose halves diffusers turns; in others it stays. */
TEST(the_last_block_is_turned) {
    safetensors s = {.n = 0};
    add_alike(&s, "pos_embed.proj.weight", "[64,4,2,2]", 1024, 1);
    add_alike(&s, "context_embedder.weight", "[64,64]", 4096, 1);
    add_alike(&s, "time_text_embed.text_embedder.linear_1.weight", "[64,64]", 4096, 1);
    for (int i = 0; i < 2; i++) {
        static const char *const parts[] = {"q", "k", "v"};
        char name[80];
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "transformer_blocks.%d.attn.add_%s_proj.weight", i, parts[k]);
            add_alike(&s, name, "[16,64]", 1024, 1);
        }
        snprintf(name, sizeof name, "transformer_blocks.%d.norm1_context.linear.weight", i);
        float *x = (float *)(void *)safetensors_add(&s, name, "F32", "[4,64]", NULL, 1024);
        for (int k = 0; k < 256; k++) x[k] = k < 128 ? 7 : 8;
    }
    safetensors_write(&s, path("sd3.safetensors"));
    safetensors_empty(&s);
    model_source m = open_input("sd3.safetensors");
    assert_runs(&m, "joint_blocks.0.context_block.adaLN_modulation.1.weight", "7 x 128, 8 x 128");
    assert_runs(&m, "joint_blocks.1.context_block.adaLN_modulation.1.weight", "8 x 128, 7 x 128");
    model_close(&m);
}

/* Readers of HiDream-O1 look for its names with what stands before all of them. */
TEST(names_that_keep_their_beginning) {
    write_arrays("o1.safetensors", ARRAYS("model.x_embedder.proj1.weight 64,64",
                                          "model.language_model.layers.0.self_attn.q_proj.weight 64,64",
                                          "lm_head.weight 64,64"));
    model_source m = open_input("o1.safetensors");
    tensor_of(&m, "model.x_embedder.proj1.weight"), tensor_of(&m, "lm_head.weight");
    model_close(&m);
    write_arrays("o1.safetensors",
                 ARRAYS("model.diffusion_model.x_embedder.proj1.weight 64,64",
                        "model.diffusion_model.language_model.layers.0.self_attn.q_proj.weight 64,64"));
    m = open_input("o1.safetensors");
    tensor_of(&m, "model.x_embedder.proj1.weight");
    model_close(&m);
}

TEST(eight_bits_without_scales) {
    safetensors s = {.n = 0};
    float x[2];
    gq_error e;
    uint8_t *to =
        safetensors_add(&s, "double_blocks.0.img_attn.proj.weight", "F8_E4M3", "[64,64]", NULL, 4096);
    to[0] = 0x38, to[1] = 0x7e; /* 1 and 448 */
    safetensors_write(&s, path("f8.safetensors"));
    model_source m = open_input("f8.safetensors");
    const model_tensor *t = tensor_of(&m, "double_blocks.0.img_attn.proj.weight");
    assert_int_equal(t->kept_type->id, GGUF_F16);
    assert_true(model_read(&m, t, 0, 2, x, &e));
    assert_true(x[0] == 1 && x[1] == 448);
    model_close(&m);
    safetensors_empty(&s);
}

static void add_text(safetensors *s, const char *name, const char *text) {
    char shape[24];
    snprintf(shape, sizeof shape, "[%zu]", strlen(text));
    memcpy(safetensors_add(s, name, "U8", shape, NULL, strlen(text)), text, strlen(text));
}

/* As ComfyUI stores them: of old with a mark for the file, now with a note for each array. */
TEST(eight_bits_with_scales) {
    static const char *const scales[] = {"scale_weight", "weight_scale"};
    for (int i = 0; i < 2; i++) {
        safetensors s = {.n = 0};
        char name[80];
        float x[2], scale = 0.5f;
        gq_error e;
        uint8_t *to = safetensors_add(&s, "diffusion_model.double_blocks.0.img_attn.proj.weight", "F8_E4M3",
                                      "[64,64]", NULL, 4096);
        to[0] = 0x38, to[1] = 0x7e; /* 1 and 448 */
        snprintf(name, sizeof name, "diffusion_model.double_blocks.0.img_attn.proj.%s", scales[i]);
        memcpy(safetensors_add(&s, name, "F32", i ? "[]" : "[1]", NULL, 4), &scale, 4);
        if (i)
            add_text(&s, "diffusion_model.double_blocks.0.img_attn.proj.comfy_quant",
                     "{\"format\": \"float8_e4m3fn\"}");
        else
            safetensors_add(&s, "diffusion_model.scaled_fp8", "F8_E4M3", "[2]", NULL, 2);
        safetensors_write(&s, path("f8.safetensors"));
        assert_arch("f8.safetensors", "flux", 1);
        model_source m = open_input("f8.safetensors");
        const model_tensor *t = tensor_of(&m, "double_blocks.0.img_attn.proj.weight");
        assert_int_equal(t->kept_type->id, GGUF_F16);
        assert_true(model_read(&m, t, 0, 2, x, &e));
        assert_true(x[0] == 0.5f && x[1] == 224);
        model_close(&m);
        safetensors_add(&s, "diffusion_model.double_blocks.0.txt_attn.proj.weight", "F8_E4M3", "[64,64]",
                        NULL, 4096);
        if (i)
            add_text(&s, "diffusion_model.double_blocks.0.txt_attn.proj.comfy_quant",
                     "{\"format\": \"float8_e4m3fn\"}");
        safetensors_write(&s, path("f8.safetensors"));
        assert_refused("f8.safetensors", "without a scale beside them");
        add_text(&s, "diffusion_model.img_in.comfy_quant", "{\"format\": \"int8_tensorwise\"}");
        safetensors_write(&s, path("f8.safetensors"));
        assert_refused("f8.safetensors", "int8_tensorwise");
        safetensors_empty(&s);
    }
}

/* What stands beside a model without a prefix is left out; the model itself has one prefix. */
TEST(arrays_of_others_and_halves) {
    write_arrays("x.safetensors",
                 ARRAYS("double_blocks.0.img_attn.proj.weight 8,8", "pulid_ca.0.to_q.weight 8,8",
                        "double_blocks.0.processor.ip_adapter_k.weight 8,8", "model_ema.decay 1",
                        "vae.decoder.conv_in.weight 8,8"));
    assert_arch("x.safetensors", "flux", 1);
    write_arrays("x.safetensors", ARRAYS("model.diffusion_model.double_blocks.0.img_attn.proj.weight 8,8",
                                         "first_stage_model.decoder.conv_in.weight 8,8"));
    assert_arch("x.safetensors", "flux", 1);
    static const char *const others[] = {"double_blocks.1.img_attn.proj.weight 8,8",
                                         "diffusion_model.double_blocks.1.img_attn.proj.weight 8,8"};
    for (int i = 0; i < 2; i++) {
        write_arrays("x.safetensors",
                     ARRAYS("model.diffusion_model.double_blocks.0.img_attn.proj.weight 8,8", others[i]));
        assert_refused("x.safetensors", "two files were merged");
    }
    write_arrays("x.safetensors", ARRAYS("double_blocks.0.img_attn.proj.weight 8,8", others[1]));
    assert_refused("x.safetensors", "two files were merged");
}

/* Notes of layers in the header, as ComfyUI's tools write them. */
TEST(notes_of_layers_in_the_header) {
    static const struct {
        const char *note, *says; /* NULL: it is read */
    } rows[] = {{"\\\"format\\\":\\\"float8_e4m3fn\\\"", NULL},
                {"\\\"format\\\":\\\"nvfp4\\\"", "ComfyUI's quantization nvfp4"},
                {"\\\"format\\\":\\\"float8_e4m3fn\\\",\\\"convrot\\\":true", "with convrot"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char head[512], bytes[600] = {0};
        uint64_t n = (uint64_t)snprintf(head, sizeof head,
                                        "{\"__metadata__\":{\"_quantization_metadata\":\"{\\\"layers\\\":{"
                                        "\\\"double_blocks.0.img_attn.proj\\\":{%s}}}"
                                        "\"},\"double_blocks.0.img_attn.proj.weight\":{\"dtype\":\"F32\","
                                        "\"shape\":[2,2],\"data_offsets\":[0,16]}}",
                                        rows[i].note);
        memcpy(bytes, &n, 8), memcpy(bytes + 8, head, n);
        write_whole(path("x.safetensors"), bytes, 8 + n + 16);
        if (rows[i].says)
            assert_refused("x.safetensors", rows[i].says);
        else
            assert_arch("x.safetensors", "flux", 1);
    }
}

/* LTX-2's readers look for the text in the metadata of the file. */
TEST(the_config_of_a_file) {
    static const char head[] =
        "{\"__metadata__\":{\"config\":\"{\\\"transformer\\\":{}}\",\"format\":\"pt\"},"
        "\"double_blocks.0.img_attn.proj.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}"
        "}";
    char bytes[8 + sizeof head - 1 + 16] = {0};
    const char *text;
    uint64_t n = sizeof head - 1;
    memcpy(bytes, &n, 8), memcpy(bytes + 8, head, n);
    write_whole(path("x.safetensors"), bytes, sizeof bytes);
    model_source m = open_input("x.safetensors");
    assert_true(model_kv_string(model_kv_find(m.kv, m.n_kv, "config"), &text, &n));
    assert_true(n == strlen("{\"transformer\":{}}") && memcmp(text, "{\"transformer\":{}}", n) == 0);
    assert_null(model_kv_find(m.kv, m.n_kv, "format"));
    model_close(&m);
}

/* A mark of a file whose scales are all gone, and a note by itself. */
TEST(eight_bits_whose_scales_are_gone) {
    for (int i = 0; i < 2; i++) {
        safetensors s = {.n = 0};
        safetensors_add(&s, "double_blocks.0.img_attn.proj.weight", "F8_E4M3", "[64,64]", NULL, 4096);
        if (i)
            add_text(&s, "double_blocks.0.img_attn.proj.comfy_quant", "{\"format\": \"float8_e4m3fn\"}");
        else
            safetensors_add(&s, "scaled_fp8", "F8_E4M3", "[2]", NULL, 2);
        safetensors_write(&s, path("f8.safetensors"));
        assert_refused("f8.safetensors", "without a scale beside them");
        safetensors_empty(&s);
    }
}

TEST(what_is_refused_and_what_to_do) {
    static const struct {
        const char *array, *says;
    } rows[] = {
        {"transformer_blocks.0.attn.norm_added_k.weight 8", "flux1-dev.safetensors"},
        {"transformer_blocks.0.attn.add_q_proj.weight 8,8", "sd3.5_large.safetensors"},
        {"joint_transformer_blocks.3.ff_context.out_projection.weight 8,8", "original file"},
        {"lora_unet_double_blocks_0_img_attn_proj.lora_up.weight 8,8", "merge it"},
        {"base_model.model.layers.0.self_attn.q_proj.lora_A.weight 8,8", "merge it"},
        {"double_blocks.0.img_attn.proj.weight.quant_state.bitsandbytes__nf4 8", "16 bits"},
        {"control_model.zero_convs.0.0.weight 8,8,1,1", "a ControlNet"},
        {"diffusion_model.double_blocks.0.img_attn.proj.diff 8,8", "merge it"},
        {"model.layers.0.self_attn.q_proj.weight 8,8", "name its folder"},
        {"decoder.conv_in.weight 8,4,3,3", "no supported image model (qwen_image, lens, hyvid, flux,"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_arrays("x.safetensors", ARRAYS(rows[i].array));
        assert_refused("x.safetensors", rows[i].says);
    }
    safetensors s = {.n = 0};
    safetensors_add(&s, "double_blocks.0.img_attn.proj.weight", "U8", "[8,8]", NULL, 64);
    safetensors_write(&s, path("x.safetensors"));
    assert_refused("x.safetensors", "elements of type U8");
    safetensors_empty(&s);
    char name[160];
    write_arrays("x.safetensors", ARRAYS("context_embedder.proj_in.weight 8,8", "x_embedder.proj.weight 8,8",
                                         "transformer_blocks.0.attn.norm_added_k.weight 8"));
    assert_refused("x.safetensors", "hyvid has the names of diffusers");
    write_arrays("x.safetensors",
                 ARRAYS("transformer.time_embed.emb.timestep_embedder.linear_2.weight 8,8",
                        "transformer.proj_in.weight 8,8", "transformer.audio_proj_in.weight 8,8",
                        "transformer.transformer_blocks.0.scale_shift_table 6,8"));
    assert_refused("x.safetensors", "'transformer.audio_proj_in.weight': unknown tensor name");
    write_arrays("x.safetensors", ARRAYS("down_blocks.0.downsamplers.0.conv.weight 8,8,3,3",
                                         "controlnet_mid_block.weight 8,8,1,1"));
    assert_refused("x.safetensors", "'controlnet_mid_block.weight': a ControlNet");
    write_arrays("x.safetensors", ARRAYS("time_caption_embed.caption_embedder.1.weight 8,8",
                                         "context_refiner.0.attn.to_q.weight 8,8"));
    assert_refused("x.safetensors", "lumina2 has the names of diffusers");
    write_arrays("x.safetensors",
                 ARRAYS("text_fusion.projector.weight 1,8", "img_in.weight 8,8", "odd.weight 8"));
    assert_refused("x.safetensors", "'odd.weight': unknown tensor name");
    write_arrays("x.safetensors", ARRAYS("double_blocks.0.img_attn.proj.weight 8,0"));
    assert_refused("x.safetensors", "no elements");
    memset(name, 'n', GGUF_MAX_NAME + 1);
    memcpy(name + GGUF_MAX_NAME + 1, " 8", sizeof " 8");
    write_arrays("x.safetensors", ARRAYS("double_blocks.0.img_attn.proj.weight 8", name));
    assert_refused("x.safetensors", "expected 1 to 127");
}

/* Diffusers' layout: the model is a part of its folder, and the original file may lie beside it. */
TEST(folders_of_image_models) {
    make_folder("Image"), make_folder("Image/transformer"), make_folder("Image/vae");
    write_text("Image/model_index.json", "{}");
    write_arrays("Image/transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
                 ARRAYS(qwen[0], qwen[1]));
    write_arrays("Image/transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
                 ARRAYS(qwen[2], qwen[3]));
    write_text("Image/transformer/config.json", "{\"_class_name\":\"QwenImageTransformer2DModel\"}");
    static const char *const names[] = {
        "Image",
        "Image/",
        "Image/transformer",
        "Image/model_index.json",
        "Image/transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
        "Image/transformer/config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_arch(names[i], "qwen_image", 4);
    assert_warned("Image", "other parts of the pipeline are left out: vae");
    make_folder("Image/transformer_2");
    assert_warned("Image", "transformer_2 is a second model");
    write_text("Image/transformer/diffusion_pytorch_model.safetensors.index.json", "{\"weight_map\":{}}");
    assert_refused("Image", "has no weights");
    unlink(path("Image/transformer/diffusion_pytorch_model.safetensors.index.json"));
    write_text("Image/transformer/config.json",
               "{\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}}");
    assert_arch("Image", "qwen_image", 4); /* arrays of floats: it is left from another time */
    write_text("Image/transformer/config.json", "{");
    assert_refused("Image", "config.json");

    write_arrays("Image/ae.safetensors", ARRAYS("decoder.conv_in.weight 8,4,3,3"));
    write_arrays("Image/flux1-dev.safetensors", flux);
    assert_arch("Image", "flux", 6); /* of the original file */
    write_arrays("Image/other.safetensors", wan);
    assert_refused("Image", "several models");
    assert_arch("Image/other.safetensors", "wan", 5);
    remove_folder(strdup(path("Image")));
}

TEST(parts_of_one_file) {
    write_arrays("w-00001-of-00002.safetensors", ARRAYS(wan[0], wan[1], wan[2]));
    assert_refused("w-00001-of-00002.safetensors", "one of 2 files, and 1 of them");
    write_arrays("w-00002-of-00002.safetensors", ARRAYS(wan[3], wan[4]));
    assert_arch("w-00001-of-00002.safetensors", "wan", 5);
    assert_arch("w-00002-of-00002.safetensors", "wan", 5);
    GQUANT(0, "-q", path("w-00002-of-00002.safetensors"), "Q8_0");
    assert_true(exists(path("w-Q8_0.gguf")));
}

/* The same bytes as from the GGUF file of the same weights. */
TEST(quantized_as_from_its_copy) {
    write_arrays("flux1-dev-bf16.safetensors", flux);
    GQUANT(0, "-q", path("flux1-dev-bf16.safetensors"), "Q4_K_M");
    assert_true(exists(path("flux1-dev-Q4_K_M.gguf")));
    GQUANT(0, "-q", path("flux1-dev-bf16.safetensors"), path("copy.gguf"), "COPY");
    GQUANT(0, "-q", path("copy.gguf"), path("b.gguf"), "Q4_K_M");
    assert_same_file(path("flux1-dev-Q4_K_M.gguf"), path("b.gguf"));
    char *report = PRINTED("compare", path("flux1-dev-bf16.safetensors"), path("copy.gguf"));
    free(report);
    report = PRINTED("plan", path("flux1-dev-bf16.safetensors"));
    free(report);
    report = PRINTED("info", path("flux1-dev-bf16.safetensors"));
    says(report, "safetensors, 1 file");
    free(report);
}

TEST(it_cannot_be_run) {
    write_arrays("run.safetensors", flux);
    write_text("text.txt", "a text");
    GQUANT(0, "-q", path("run.safetensors"), path("run.gguf"), "COPY");
    GQUANT_SAYS(1, "flux", "evaluate", "--text", path("text.txt"), path("run.safetensors"), path("run.gguf"));
    GQUANT_SAYS(1, "flux", "imatrix", "compute", path("run.safetensors"), path("text.txt"), path("i.gguf"));
    GQUANT_SAYS(1, "flux", "--calibrate", path("text.txt"), path("run.safetensors"), "Q4_K_M");
    GQUANT_SAYS(1, "tokenize", "tokenize", path("run.safetensors"), path("text.txt"));
}

int main(void) { return tests_run(folder_make, folder_remove); }
