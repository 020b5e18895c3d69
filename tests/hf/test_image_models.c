/* Plans for small models with the names of image and video models: types, shapes, what is kept. */
#include "gguf/model.h"
#include "tests/support/folder.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/target_model.h"

static gq_plan *plan_of(const char *in, const char *filetype) {
    gq_output out = {.path = path("out.gguf"), .filetype = filetype};
    return plan_for(
        (gq_options){
            .size = sizeof(gq_options), .input = path(in), .outputs = &out, .n_outputs = 1, .force = true},
        NULL);
}

/* ---- types ---- */

enum { FILETYPES = 4 };
static const char *const filetypes[FILETYPES] = {"Q2_K", "Q3_K_M", "Q4_K_S", "Q4_K_M"};
#define KEPT \
    { GGUF_BF16, GGUF_BF16, GGUF_BF16, GGUF_BF16 }
#define BASE \
    { GGUF_Q2_K, GGUF_Q3_K, GGUF_Q4_K, GGUF_Q4_K }
#define V_FIRST \
    { GGUF_Q3_K, GGUF_Q5_K, GGUF_Q5_K, GGUF_Q6_K }
#define QKV \
    { GGUF_Q2_K, GGUF_Q4_K, GGUF_Q4_K, GGUF_Q5_K }
#define DOWN \
    { GGUF_Q2_K, GGUF_Q4_K, GGUF_Q5_K, GGUF_Q6_K }

typedef struct row {
    const char *name;
    uint32_t types[FILETYPES];
} row;

static const struct {
    const char *arch;
    row rows[10];
} models[] = {
    {"flux",
     {{"img_in.weight", KEPT},
      {"double_blocks.0.img_attn.qkv.weight", QKV},
      {"double_blocks.0.img_mlp.2.weight", BASE},
      {"single_blocks.0.linear2.weight", BASE}}},
    {"chroma",
     {{"distilled_guidance_layer.in_proj.weight", KEPT},
      {"final_layer.linear.weight", KEPT},
      {"double_blocks.0.txt_attn.qkv.weight", QKV},
      {"double_blocks.0.txt_attn.proj.weight", BASE}}},
    {"sd3",
     {{"x_embedder.proj.weight", KEPT},
      {"joint_blocks.0.context_block.attn.qkv.weight", QKV},
      {"joint_blocks.0.x_block.mlp.fc2.weight", BASE}}},
    {"aura",
     {{"modF.1.weight", KEPT},
      {"double_layers.0.attn.w1v.weight", V_FIRST},
      {"double_layers.0.attn.w2v.weight", V_FIRST},
      {"double_layers.0.attn.w1q.weight", BASE}}},
    {"qwen_image",
     {{"img_in.weight", KEPT},
      {"time_text_embed.timestep_embedder.linear_2.weight", KEPT},
      {"norm_out.linear.weight", KEPT},
      {"proj_out.weight", KEPT},
      {"transformer_blocks.0.attn.to_v.weight", V_FIRST},
      {"transformer_blocks.0.attn.to_q.weight", BASE},
      {"transformer_blocks.0.img_mlp.net.0.proj.weight", BASE}}},
    {"lumina2",
     {{"cap_embedder.1.weight", KEPT},
      {"noise_refiner.0.attention.qkv.weight", KEPT},
      {"layers.0.attention.qkv.weight", QKV},
      {"layers.0.feed_forward.w2.weight", DOWN},
      {"layers.0.adaLN_modulation.1.weight", BASE}}},
    {"z_image",
     {{"context_refiner.0.feed_forward.w2.weight", KEPT},
      {"layers.0.attention.qkv.weight", QKV},
      {"layers.0.feed_forward.w2.weight", DOWN},
      {"layers.0.attention.out.weight", BASE}}},
    {"hidream",
     {{"double_stream_blocks.0.block.ff_i.gate.weight", KEPT},
      {"p_embedder.pooled_embedder.linear_1.weight", KEPT},
      {"double_stream_blocks.0.block.ff_i.experts.0.w2.weight", DOWN},
      {"double_stream_blocks.0.block.ff_i.experts.0.w1.weight", BASE},
      {"double_stream_blocks.0.block.attn1.to_v.weight", V_FIRST}}},
    {"wan",
     {{"head.head.weight", KEPT},
      {"text_embedding.0.weight", KEPT},
      {"time_projection.1.weight", KEPT},
      {"blocks.0.self_attn.v.weight", V_FIRST},
      {"blocks.0.cross_attn.v.weight", V_FIRST},
      {"blocks.0.self_attn.q.weight", BASE},
      {"blocks.0.ffn.2.weight", DOWN},
      {"blocks.0.ffn.0.weight", BASE}}},
    {"ltxv",
     {{"proj_out.weight", KEPT},
      {"transformer_blocks.0.ff.net.2.weight", DOWN},
      {"transformer_blocks.0.attn1.to_v.weight", V_FIRST}}},
    {"hyvid",
     {{"txt_in.t_embedder.mlp.0.weight", KEPT},
      {"double_blocks.0.img_attn_qkv.weight", QKV},
      {"single_blocks.0.linear1.weight", BASE}}},
    {"cosmos",
     {{"x_embedder.proj.1.weight", KEPT},
      {"blocks.0.mlp.layer2.weight", DOWN},
      {"blocks.0.adaln_modulation_mlp.2.weight", DOWN},
      {"blocks.0.self_attn.v_proj.weight", V_FIRST}}},
    {"sdxl",
     {{"label_emb.0.0.weight", KEPT},
      {"input_blocks.4.1.transformer_blocks.0.attn1.to_v.weight", V_FIRST},
      {"input_blocks.4.1.transformer_blocks.0.ff.net.2.weight", DOWN}}},
    {"flux", /* FLUX.2 and Chroma Radiance */
     {{"double_stream_modulation_img.lin.weight", KEPT},
      {"double_stream_modulation_txt.lin.weight", KEPT},
      {"single_stream_modulation.lin.weight", KEPT},
      {"nerf_image_embedder.embedder.0.weight", KEPT},
      {"nerf_blocks.0.param_generator.weight", BASE},
      {"single_blocks.0.linear1.weight", BASE},
      {"double_blocks.0.img_attn.qkv.weight", QKV}}},
    {"hyvid", /* 1.5 */
     {{"byt5_in.fc1.weight", KEPT},
      {"vision_in.proj.1.weight", KEPT},
      {"time_r_in.in_layer.weight", KEPT},
      {"cond_type_embedding.weight", KEPT},
      {"double_blocks.0.img_attn.qkv.weight", QKV}}},
    {"lens",
     {{"img_in.weight", KEPT},
      {"txt_in.weight", KEPT},
      {"time_text_embed.timestep_embedder.linear_1.weight", KEPT},
      {"norm_out.linear.weight", KEPT},
      {"proj_out.weight", KEPT},
      {"transformer_blocks.0.img_mlp.w2.weight", BASE},
      {"transformer_blocks.0.attn.img_qkv.weight", BASE}}},
    {"anima",
     {{"llm_adapter.embed.weight", KEPT},
      {"llm_adapter.blocks.5.mlp.0.weight", KEPT},
      {"blocks.0.mlp.layer2.weight", KEPT},
      {"blocks.1.adaln_modulation_mlp.1.weight", KEPT},
      {"final_layer.linear.weight", KEPT},
      {"blocks.1.mlp.layer1.weight", BASE},
      {"blocks.10.mlp.layer2.weight", DOWN},
      {"blocks.10.self_attn.v_proj.weight", V_FIRST}}},
    {"ltxv", /* LTX-2 */
     {{"audio_patchify_proj.weight", KEPT},
      {"audio_adaln_single.linear.weight", KEPT},
      {"av_ca_video_scale_shift_adaln_single.linear.weight", KEPT},
      {"audio_embeddings_connector.learnable_registers.weight", KEPT},
      {"transformer_blocks.0.audio_attn1.to_v.weight", V_FIRST},
      {"transformer_blocks.0.audio_to_video_attn.to_q.weight", BASE}}},
    {"krea2",
     {{"txtfusion.refiner_blocks.1.mlp.down.weight", KEPT},
      {"tmlp.0.weight", KEPT},
      {"txtmlp.1.weight", KEPT},
      {"tproj.1.weight", KEPT},
      {"first.weight", KEPT},
      {"last.linear.weight", KEPT},
      {"blocks.0.attn.wq.weight", BASE},
      {"blocks.27.mlp.down.weight", BASE}}},
    {"ernie",
     {{"adaLN_modulation.1.weight", KEPT},
      {"text_proj.weight", KEPT},
      {"time_embedding.linear_1.weight", KEPT},
      {"final_norm.linear.weight", KEPT},
      {"final_linear.weight", KEPT},
      {"layers.0.mlp.linear_fc2.weight", BASE},
      {"layers.0.self_attention.to_v.weight", V_FIRST}}},
    {"ideogram4",
     {{"input_proj.weight", KEPT},
      {"llm_cond_proj.weight", KEPT},
      {"t_embedding.mlp_in.weight", KEPT},
      {"adaln_proj.weight", KEPT},
      {"final_layer.linear.weight", KEPT},
      {"layers.0.attention.qkv.weight", QKV},
      {"layers.0.feed_forward.w2.weight", DOWN},
      {"layers.0.adaln_modulation.weight", BASE}}},
    {"hidream_o1",
     {{"model.x_embedder.proj1.weight", KEPT},
      {"model.t_embedder1.mlp.0.weight", KEPT},
      {"model.final_layer2.linear.weight", KEPT},
      {"model.language_model.embed_tokens.weight", KEPT},
      {"model.visual.blocks.0.attn.qkv.weight", KEPT},
      {"model.language_model.layers.0.self_attn.v_proj.weight", V_FIRST},
      {"model.language_model.layers.0.mlp.up_proj.weight", BASE}}},
    {"qwen_image", /* 2.1: one modulation for all blocks */
     {{"modulation.1.weight", KEPT},
      {"txt_in.in_layer.weight", KEPT},
      {"img_in.weight", KEPT},
      {"transformer_blocks.0.img_mlp.gate_up.weight", BASE},
      {"transformer_blocks.0.img_mlp.out.weight", BASE},
      {"transformer_blocks.0.attn.to_v.weight", V_FIRST}}},
    {"sd1", {{"out.2.weight", KEPT}, {"input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight", BASE}}},
};

TEST(types_by_family) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        model *m = model_new(models[i].arch, 0);
        for (const row *r = models[i].rows; r->name; r++)
            model_add(m, r->name, GGUF_BF16, (uint64_t[4]){512, 16}, NULL);
        model_save(m, path("model.gguf"));
        for (size_t f = 0; f < FILETYPES; f++) {
            gq_plan *plan = plan_of("model.gguf", filetypes[f]);
            for (const row *r = models[i].rows; r->name; r++)
                if (plan_tensor(plan, r->name)->to != r->types[f])
                    fail_msg("%s, %s, %s: %s", models[i].arch, filetypes[f], r->name,
                             gq_type_name(plan_tensor(plan, r->name)->to));
            gq_plan_free(plan);
        }
    }
}

/* Of the V tensors of a model only the first ones are raised far. */
TEST(values_are_counted) {
    char name[64];
    model *m = model_new("wan", 0);
    for (int b = 0; b < 6; b++) {
        snprintf(name, sizeof name, "blocks.%d.self_attn.v.weight", b);
        model_add(m, name, GGUF_F16, (uint64_t[4]){256, 16}, NULL);
    }
    model_save(m, path("values.gguf"));
    static const uint32_t expected[2][6] = {
        {GGUF_Q5_K, GGUF_Q5_K, GGUF_Q4_K, GGUF_Q4_K, GGUF_Q4_K, GGUF_Q4_K},
        {GGUF_Q5_K, GGUF_Q5_K, GGUF_Q5_K, GGUF_Q5_K, GGUF_Q4_K, GGUF_Q4_K}};
    for (int f = 0; f < 2; f++) {
        gq_plan *plan = plan_of("values.gguf", filetypes[1 + f]);
        for (int b = 0; b < 6; b++) {
            snprintf(name, sizeof name, "blocks.%d.self_attn.v.weight", b);
            assert_int_equal(plan_tensor(plan, name)->to, expected[f][b]);
        }
        gq_plan_free(plan);
    }
}

/* ---- shapes ---- */

static bytes shaped(const char *arch, uint32_t n_dims, const uint64_t *ne) {
    bytes b = file_head(3, 1, 3);
    static const int32_t shape[] = {320, 4, 3, 3};
    put_key(&b, "general.architecture", GGUF_STRING), put_text(&b, arch);
    put_key(&b, "general.type", GGUF_STRING), put_text(&b, "part");
    put_key(&b, "comfy.gguf.orig_shape.conv_in.weight", GGUF_ARRAY), put_array(&b, GGUF_INT32, 4);
    put(&b, shape, sizeof shape);
    put_tensor(&b, "blocks.0.modulation", n_dims, ne, GGUF_F32, 0);
    pad(&b, GGUF_DEFAULT_ALIGNMENT);
    put_zeros(&b, 4096 * sizeof(float));
    return b;
}

TEST(shapes_stay) {
    static const struct {
        const char *arch, *filetype;
        uint32_t n_dims;
        uint64_t ne[4];
        uint32_t kept;
    } rows[] = {
        {"wan", "Q8_0", 3, {64, 6, 1}, 3}, {"wan", "COPY", 4, {64, 1, 1, 1}, 4},
        {"sd3", "Q4_0", 2, {64, 1}, 2},    {"llama", "COPY", 3, {64, 6, 1}, 2},
        {"wan", "Q8_0", 1, {64}, 1},       {"", "COPY", 2, {64, 1}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes b = shaped(rows[i].arch, rows[i].n_dims, rows[i].ne);
        write_whole(path("shaped.gguf"), b.data, b.n);
        free(b.data);
        quantize(path("shaped.gguf"), path("shaped-out.gguf"), rows[i].filetype, 1);
        model_source m = open_model(path("shaped-out.gguf"));
        const model_tensor *t = m.tensors[0];
        if (t->n_dims != rows[i].kept) fail_msg("row %zu: %u dimensions", i, t->n_dims);
        const model_kv *kv = model_kv_find(m.kv, m.n_kv, "comfy.gguf.orig_shape.conv_in.weight");
        assert_non_null(kv);
        assert_int_equal(kv->size, 12 + 16);
        model_close(&m);
        remove(path("shaped-out.gguf"));
    }
}

TEST(five_dimensions_are_explained) {
    bytes b = shaped("wan", 5, (const uint64_t[5]){2, 2, 1, 16, 64});
    write_whole(path("five.gguf"), b.data, b.n);
    free(b.data);
    gq_output out = {.path = path("out.gguf"), .filetype = "Q8_0"};
    const char *text = failure(&(gq_options){
        .size = sizeof(gq_options), .input = path("five.gguf"), .outputs = &out, .n_outputs = 1});
    assert_non_null(strstr(text, "5 dimensions, expected 1 to 4"));
    assert_non_null(strstr(text, "add it to the output"));
}

int main(void) { return tests_run(folder_make, folder_remove); }
