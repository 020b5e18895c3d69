/* Models that cannot be run, or not rightly: an error that names the key or tensor, what was found and what
 * was expected. */
#include <math.h>

#include "forward/graph/layer.h"
#include "forward/graph/tensors.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/forwarding.h"

static uint32_t ids[VARIANT_IDS];

/* Set up and, where that works, run. */
static bool runs(const char *file, gq_error *e) {
    model_source g = open_model(file);
    size_t vocabulary;
    float *z = forward_whole(
        &g, &(forwarding){.ids = ids, .n = VARIANT_IDS, .context = VARIANT_CONTEXT, .threads = 1},
        &vocabulary, e);
    free(z);
    model_close(&g);
    return z != NULL;
}

static void assert_told(const char *what, bool ran, const gq_error *e, const char *first,
                        const char *second) {
    if (ran) fail_msg("%s: ran, expected an error with '%s' and '%s'", what, first, second);
    if (!strstr(e->text, first) || !strstr(e->text, second) || !strstr(e->text, "model.gguf"))
        fail_msg("%s: '%s' and '%s' expected in: %s", what, first, second, e->text);
}

/* ---- keys ---- */

TEST(wrong_keys_are_named) {
    static const struct {
        const char *variant, *set, *first, *second;
    } wrong[] = {
        {"llama", ":general.architecture=s:clip", "'clip'", "an encoder of images"},
        {"t5", "decoder_block_count=u:0", "t5.decoder_block_count is 0", "expected 1 to"},
        {"t5", "attention.relative_buckets_count=u:2", "t5.attention.relative_buckets_count is 2",
         "expected 4 to"},
        {"t5", "attention.relative_buckets_count=u:256", "relative_buckets_count is 256",
         "expected less than 256"},
        {"llama", ":general.architecture=u:7", "general.architecture", ""},
        {"llama", "embedding_length=s:32", "llama.embedding_length has type string", "number of 32 bits"},
        {"llama", "embedding_length=f:32", "llama.embedding_length has type f32", "number of 32 bits"},
        {"llama", "embedding_length=u:0", "llama.embedding_length is 0", "expected 1 to"},
        {"llama", "embedding_length=u:4294967295", "llama.embedding_length is 4294967295", "expected 1 to"},
        {"llama", "embedding_length=u:64", "token_embd.weight has shape [32, 96]", "expected [64, 96]"},
        {"llama", "block_count=u:0", "llama.block_count is 0", "expected 1 to"},
        {"llama", "block_count=u:2000000000", "llama.block_count is 2000000000", "tensors"},
        {"llama", "block_count=u:1", "tensor blk.1.", "block_count, which is 1"},
        {"llama", "block_count=u:3", "there is no tensor blk.2.attn_norm.weight", "llama"},
        {"llama", "attention.head_count=u:0", "llama.attention.head_count is 0", "expected 1 to"},
        {"llama", "attention.head_count=u:2147483647", "attn_q.weight has shape [32, 32]",
         "expected [32, 17179869176]"},
        {"llama", "attention.head_count=u:3000000000", "llama.attention.head_count is 3000000000", "1 to"},
        {"llama", "attention.head_count_kv=u:0", "llama.attention.head_count_kv is 0", "expected 1 to 4"},
        {"llama", "attention.head_count_kv=u:5", "llama.attention.head_count_kv is 5", "expected 1 to 4"},
        {"llama", "attention.key_length=u:2147483647", "attention.value_length is 8", "2147483647"},
        {"qwen2", "attention.key_length=u:4", "qwen2.attention.key_length is 4", "8"},
        {"llama", "attention.layer_norm_rms_epsilon=u:1", "layer_norm_rms_epsilon has type u32", "a float"},
        {"llama", "attention.layer_norm_rms_epsilon=f:-1", "layer_norm_rms_epsilon is -1", "expected 0"},
        {"llama", "attention.layer_norm_rms_epsilon=f:nan", "layer_norm_rms_epsilon is", "nan"},
        {"llama", "rope.dimension_count=u:6", "llama.rope.dimension_count is 6", "size of a head: 8"},
        {"stablelm", "rope.dimension_count=u:3", "stablelm.rope.dimension_count is 3", "even number"},
        {"stablelm", "rope.dimension_count=u:10", "stablelm.rope.dimension_count is 10", "8"},
        {"llama", "rope.freq_base=f:0", "llama.rope.freq_base is 0", "expected 1 to"},
        {"llama", "rope.scaling.type=s:dynamic", "'dynamic'", "linear, none, yarn, longrope"},
        {"llama", "rope.scaling.type=u:1", "llama.rope.scaling.type has type u32", "string"},
        {"llama", "rope.scaling.factor=f:inf", "llama.rope.scaling.factor is inf", "expected 0.001 to"},
        {"llama", "rope.scaling.factor=f:0.00001", "llama.rope.scaling.factor is 1e-05", "expected 0.001 to"},
        {"granite", "logit_scale=s:no", "granite.logit_scale has type string", "a float"},
        {"cohere2", "attention.sliding_window=f:6", "cohere2.attention.sliding_window has type f32",
         "number of 32 bits"},
        {"gptneox", "use_parallel_residual=u:1", "gptneox.use_parallel_residual has type u32", "bool"},
        {"llama-moe", "expert_count=u:0", "llama.expert_count is 0", "ffn_gate_inp"},
        {"llama-moe", "expert_count=u:7", "ffn_gate_inp.weight has shape [32, 6]", "expected [32, 7]"},
        {"llama-moe", "expert_count=u:70000", "llama.expert_count is 70000", "expected 0 to"},
        {"llama-moe", "expert_used_count=u:0", "llama.expert_used_count is 0", "1 to expert_count"},
        {"llama-moe", "expert_used_count=u:7", "llama.expert_used_count is 7", "expected 0 to 6"},
        {"rwkv7", "attention.head_count_kv=u:1", "rwkv7.attention.head_count_kv is 1", "heads"},
        {"rwkv7", "wkv.head_size=u:100000", "rwkv7.wkv.head_size is 100000", "a divisor"},
        {"deepseek2", "expert_group_count=u:4", "deepseek2.expert_group_count is 4", "divisor"},
        {"deepseek2", "expert_group_used_count=u:4", "expert_group_used_count is 4", "expected 1 to 3"},
        {"deepseek2", "expert_used_count=u:5", "deepseek2.expert_used_count is 5", "have 4 experts"},
        {"deepseek2", "leading_dense_block_count=u:0", "leading_dense_block_count is 0", "ffn_gate_inp"},
        {"deepseek2", "leading_dense_block_count=u:1000", "leading_dense_block_count is 1000",
         "expected 0 to"},
        {"qwen3vl", "n_deepstack_layers=u:1000", "n_deepstack_layers is 1000", "expected 0 to"},
        {"llama4", "interleave_moe_layer_step=u:0", "interleave_moe_layer_step is 0", "ffn_gate_inp"},
        {"llama4", "interleave_moe_layer_step=u:1", "interleave_moe_layer_step is 1", "ffn_gate_inp"},
        {"llama4", "interleave_moe_layer_step=u:7", "interleave_moe_layer_step is 7", "ffn_gate_inp"},
        {"deepseek2", "attention.kv_lora_rank=u:13", "attention.key_length is 18", "expected 19"},
        {"granitemoe", "expert_shared_feed_forward_length=u:0", "expert_shared_feed_forward_length is 0",
         "ffn_up_shexp"},
        {"olmoe", "attention.head_count_kv=u:2", "olmoe.attention.head_count_kv is 2", "4"},
        {"lfm2", "shortconv.l_cache=u:65", "lfm2.shortconv.l_cache is 65", "expected 1 to 64"},
        {"lfm2", "shortconv.l_cache=u:5", "shortconv.conv.weight has shape [4, 32]", "expected [5, 32]"},
        {"lfm2", "attention.head_count_kv=[0,0]", "no tensor blk.1.shortconv.in_proj.weight", "lfm2"},
        {"lfm2", "attention.head_count_kv=[0]", "head_count_kv is an array of 1", "each of 2 layers"},
        {"lfm2moe", "expert_gating_func=u:0", "lfm2moe.expert_gating_func is 0", "expected 1 to"},
        {"qwen35", "full_attention_interval=u:0", "qwen35.full_attention_interval is 0", "expected 1 to"},
        {"qwen35", "full_attention_interval=u:1", "no tensor blk.0.attn_q", "qwen35"},
        {"qwen35", "ssm.group_count=u:3", "qwen35.ssm.time_step_rank is 4", "multiple of ssm.group_count: 3"},
        {"qwen35", "ssm.inner_size=u:26", "qwen35.ssm.inner_size is 26", "multiple of ssm.time_step_rank: 4"},
        {"qwen35", "ssm.inner_size=u:2147483647", "qwen35.ssm.inner_size is 2147483647", "multiple"},
        {"qwen35", "ssm.state_size=u:2147483647", "attn_qkv.weight has shape [32, 48]", "expected [32, "},
        {"qwen35", "ssm.conv_kernel=u:0", "qwen35.ssm.conv_kernel is 0", "expected 1 to 64"},
        {"qwen35", "rope.dimension_sections=[1,1]", "rope.dimension_sections is an array of 2", "expected 4 values"},
        {"mamba2", "ssm.group_count=u:0", "mamba2.ssm.group_count is 0", "expected 1 to"},
        {"mamba2", "ssm.state_size=u:7", "ssm_in.weight has shape [32, 76]", "expected [32, 80]"},
        {"mamba", "ssm.time_step_rank=u:6", "ssm_x.weight has shape [24, 17]", "expected [24, 18]"},
        {"nemotron_h", "feed_forward_length=[0,40,40]", "no tensor blk.2.ffn_up.weight", "nemotron_h"},
        {"nemotron_h", "attention.head_count_kv=[2,0,2]", "no tensor blk.0.attn_q.weight", "nemotron_h"},
        {"kimi-linear", "kda.head_dim=u:7", "attn_q.weight has shape [32, 24]", "expected [32, 28]"},
        {"nemotron_h_moe", "expert_used_count=u:0", "nemotron_h_moe.expert_used_count is 0", "1 to expert"},
        {"graniteswitch", "adapters.count=u:0", "graniteswitch.adapters.count is 0", "expected 1 to 4096"},
        {"graniteswitch", "adapters.count=u:4097", "adapters.count is 4097", "expected 1 to 4096"},
        {"graniteswitch", "adapters.count=u:5", "token_ids_activate is not an array",
         "adapters.count tokens, 5"},
        {"graniteswitch", "adapters.token_ids_substitute=u:5", "token_ids_substitute is not an array",
         "tokens, 4"},
        {"graniteswitch", "adapters.token_ids_activate=[45,7,45,8]", "has token 45 twice", "two adapters"},
        {"graniteswitch", "adapters.token_ids_activate=[45,7,96,8]", "adapter 3 is switched on by token 96",
         "only 96 tokens"},
        {"graniteswitch", "adapters.token_ids_substitute=[3,4000000000,1,1]", "4000000000",
         "0 to 2147483647"},
        {"graniteswitch", "adapters.token_ids_substitute=[3,96,1,1]", "adapter 2 is switched on by token 7",
         "embedding of token 96"},
        {"graniteswitch", "adapters.lora_rank=u:0", "graniteswitch.adapters.lora_rank is 0", "1 to 4096"},
        {"graniteswitch", "adapters.lora_rank=u:5", "attn_q.lora_a has shape [32, 4, 5]",
         "expected [32, 5, 5]"},
        {"graniteswitch", "adapters.router_gain=f:nan", "adapters.router_gain is", "nan"},
        {"graniteswitch", "adapters.router_gain=f:-1", "adapters.router_gain is -1", "expected 0 to 65504"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const variant *v = variant_named(wrong[i].variant);
        gq_error e = {0};
        model *m = variant_model(v, GGUF_F32, NULL);
        variant_set(m, variant_arch(v), wrong[i].set);
        model_save(m, path("model.gguf"));
        bool ran = runs(path("model.gguf"), &e);
        assert_told(wrong[i].set, ran, &e, wrong[i].first, wrong[i].second);
    }
}

/* Sizes of heads that no key says follow from the width. */
TEST(heads_without_features_are_refused) {
    static const char *const sets[] = {"attention.head_count=u:25;attention.head_count_kv=u:25",
                                       "attention.head_count=u:25;attention.head_count_kv=u:25;"
                                       "attention.key_length_mla=u:14"};
    for (size_t i = 0; i < 2; i++) {
        variant v = *variant_named("deepseek2-lite");
        gq_error e = {0};
        v.no_length = true;
        model *m = variant_model(&v, GGUF_F32, NULL);
        variant_set(m, "deepseek2", "attention.kv_lora_rank=u:12"), variant_set(m, "deepseek2", sets[i]);
        model_save(m, path("model.gguf"));
        bool ran = runs(path("model.gguf"), &e);
        assert_told(sets[i], ran, &e, "deepseek2.attention.head_count", "is more than embedding_length");
    }
}

/* Whatever number it came from: a dimension of 0 fits no tensor, and is not taken for one that is not there.
 */
TEST(shapes_of_nothing_fit_no_tensor) {
    const tensor_shape shapes[] = {SHAPE(0, VARIANT_VOCABULARY), SHAPE(32, 0),
                                   SHAPE(32, VARIANT_VOCABULARY, 0), SHAPE(0)};
    model_save(variant_model(variant_named("llama"), GGUF_F32, NULL), path("model.gguf"));
    model_source g = open_model(path("model.gguf"));
    gq_error e;
    forward_model *m = forward_model_new(&g, &e);
    assert_non_null(m);
    bool *taken = calloc(g.n_tensors, sizeof *taken);
    tensor_finder f = {.m = m, .e = &e, .ok = true, .taken = taken};
    assert_non_null(tensors_take(&f, "token_embd.weight", REQUIRED, SHAPE(32, VARIANT_VOCABULARY)));
    assert_true(f.ok);
    assert_non_null(tensors_take(&f, "token_embd.weight", REQUIRED, SHAPE(32, VARIANT_VOCABULARY, 1)));
    assert_true(f.ok);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        f.ok = true;
        tensors_take(&f, "token_embd.weight", REQUIRED, shapes[i]);
        assert_false(f.ok);
        if (!strstr(e.text, "token_embd.weight has shape [32, 96], expected [")) fail_msg("%s", e.text);
    }
    forward_model_free(m);
    model_close(&g);
    free(taken);
}

TEST(missing_keys_are_named) {
    static const char *const needed[][2] = {{"cohere2", "logit_scale"},
                                            {"cohere2", "attention.sliding_window"},
                                            {"gpt-oss", "attention.sliding_window"},
                                            {"granite", "logit_scale"},
                                            {"gptneox", "use_parallel_residual"},
                                            {"deepseek2", "attention.temperature_length"},
                                            {"graniteswitch", "adapters.token_ids_substitute"},
                                            {"graniteswitch", "adapters.lora_rank"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const variant *v = variant_named(needed[i][0]);
        gq_error e = {0};
        model_save(variant_model(v, GGUF_F32, needed[i][1]), path("model.gguf"));
        bool ran = runs(path("model.gguf"), &e);
        assert_told(needed[i][1], ran, &e, needed[i][1], "there is no key");
    }
}

/* ---- tensors ---- */

/* A copy of a variant in which one tensor is changed: left out, made F32 of another shape, of another type,
 * filled with a value; or one is added. */
typedef struct change {
    const char *variant, *name;
    enum { LEAVE_OUT, LONGER, INTEGERS, FILL, JOIN } how;
    float value;
    const char *first, *second;
} change;

static void write_changed(const change *c) {
    const char *from = path("from.gguf");
    model *m = variant_model(variant_named(c->variant), GGUF_F32, NULL);
    model_save(m, from);
    model_source g = open_model(from);
    m = model_new(NULL, 0);
    for (uint64_t k = 0; k < g.n_kv; k++)
        model_set(m, g.kv[k].key, g.kv[k].type, g.kv[k].value, g.kv[k].size);
    for (uint64_t k = 0; k < g.n_tensors; k++) {
        const model_tensor *t = g.tensors[k];
        uint64_t n, ne[4];
        float *x = tensor_values(&g, t->name, &n);
        bool it = !strcmp(t->name, c->name);
        memcpy(ne, t->ne, sizeof ne);
        if (it && c->how == LONGER)
            x = realloc(x, 2 * n * sizeof *x), memset(x + n, 0, n * sizeof *x), ne[0] *= 2;
        if (it && c->how == FILL) x[n / 2] = c->value;
        if (!it || c->how != LEAVE_OUT) model_add(m, t->name, GGUF_F32, ne, x);
        free(x);
    }
    if (c->how == JOIN) model_add(m, c->name, GGUF_F32, (uint64_t[4]){32}, (float[32]){0});
    model_save(m, path("model.gguf"));
    model_close(&g);
}

TEST(wrong_tensors_are_named) {
    static const change wrong[] = {
        {"llama", "token_embd.weight", LEAVE_OUT, 0, "there is no tensor token_embd.weight", ""},
        {"llama", "output_norm.weight", LEAVE_OUT, 0, "there is no tensor output_norm.weight", "llama"},
        {"internlm2", "output.weight", LEAVE_OUT, 0, "there is no tensor output.weight", "internlm2"},
        {"llama", "blk.1.attn_k.weight", LEAVE_OUT, 0, "there is no tensor blk.1.attn_k.weight", ""},
        {"llama", "blk.0.ffn_up.weight", LEAVE_OUT, 0, "blk.0.ffn_", ""},
        {"llama-moe", "blk.1.ffn_up_exps.weight", LEAVE_OUT, 0, "blk.1.ffn_", ""},
        {"glm4moe", "blk.1.exp_probs_b.bias", LEAVE_OUT, 0, "there is no tensor blk.1.exp_probs_b.bias", ""},
        {"gpt-oss", "blk.0.attn_sinks.weight", LEAVE_OUT, 0, "there is no tensor blk.0.attn_sinks.weight",
         ""},
        {"starcoder2", "blk.0.attn_norm.bias", LEAVE_OUT, 0, "there is no tensor blk.0.attn_norm.bias", ""},
        {"qwen3", "blk.0.attn_k_norm.weight", LEAVE_OUT, 0, "blk.0.attn_k_norm.weight", ""},
        {"command-r", "blk.0.attn_k_norm.weight", LEAVE_OUT, 0, "there is no tensor blk.0.attn_k_norm.weight",
         ""},
        {"deepseek2", "blk.0.attn_v_b.weight", LEAVE_OUT, 0, "there is no tensor blk.0.attn_v_b.weight", ""},
        {"llama", "blk.0.attn_norm.weight", LONGER, 0, "blk.0.attn_norm.weight has shape [64]",
         "expected [32]"},
        {"llama", "blk.1.ffn_down.weight", LONGER, 0, "blk.1.ffn_down.weight has shape [80, 32]", "[40, 32]"},
        {"llama-bias", "blk.1.attn_q.bias", LONGER, 0, "blk.1.attn_q.bias has shape [64]", "[32]"},
        {"llama-freqs", "rope_freqs.weight", LONGER, 0, "rope_freqs.weight has shape [8]", "[4]"},
        {"llama", "blk.0.attn_q_norm.weight", JOIN, 0, "blk.0.attn_q_norm.weight", "architecture llama"},
        {"qwen2", "blk.0.attn_output.bias", JOIN, 0, "blk.0.attn_output.bias", "architecture qwen2"},
        {"smollm3", "rope_freqs.weight", JOIN, 0, "rope_freqs.weight", "architecture smollm3"},
        {"gemma", "output.weight", JOIN, 0, "output.weight", "which gemma models use as their output matrix"},
        {"llama", "blk.2.attn_norm.weight", JOIN, 0, "blk.2.attn_norm.weight", "block_count, which is 2"},
        {"llama", "v.patch_embd.weight", JOIN, 0, "v.patch_embd.weight", "architecture llama"},
        {"llama", "token_embd.weight", FILL, NAN, "blk.0.attn_q.weight is not finite", "nan"},
        {"llama", "blk.1.attn_norm.weight", FILL, INFINITY, "blk.1.attn_q.weight is not finite",
         "feature 16"},
        {"llama", "blk.1.attn_k.weight", FILL, NAN, "blk.1.attn_output.weight is not finite", "nan"},
        {"llama", "blk.0.ffn_gate.weight", FILL, NAN, "blk.0.ffn_down.weight is not finite", "nan"},
        {"llama", "blk.1.ffn_down.weight", FILL, NAN, "output.weight is not finite", "nan"},
        {"llama-moe", "blk.0.ffn_gate_inp.weight", FILL, NAN, "the router blk.0.ffn_gate_inp.weight", "nan"},
        {"glm4moe", "blk.1.exp_probs_b.bias", FILL, NAN, "blk.1.exp_probs_b.bias: element 3 is nan",
         "finite"},
        {"llama-freqs", "rope_freqs.weight", FILL, 0, "rope_freqs.weight: element 2 is 0", "other than 0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gq_error e = {0};
        write_changed(&wrong[i]);
        bool ran = runs(path("model.gguf"), &e);
        assert_told(wrong[i].name, ran, &e, wrong[i].first, wrong[i].second);
    }
}

TEST(types_without_decoder_are_named) {
    gq_error e = {0};
    model_save(variant_model(variant_named("llama"), GGUF_F32, NULL), path("from.gguf"));
    size_t n;
    uint8_t *bytes = read_whole(path("from.gguf"), &n), type = GGUF_I32;
    static const char name[] = "blk.0.attn_q.weight";
    uint8_t *at = memmem(bytes, n, name, sizeof name - 1);
    memcpy(at + sizeof name - 1 + 4 + 16, &type, 1);
    write_whole(path("model.gguf"), bytes, n);
    free(bytes);
    bool ran = runs(path("model.gguf"), &e);
    assert_told("i32", ran, &e, "blk.0.attn_q.weight has type I32", "not decoded");
}

/* ---- requests ---- */

TEST(ids_layers_and_tiles_have_bounds) {
    gq_error e = {0};
    model_save(variant_model(variant_named("llama"), GGUF_F32, NULL), path("model.gguf"));
    ids[21] = VARIANT_VOCABULARY;
    bool ran = runs(path("model.gguf"), &e);
    ids[21] = variant_id(21);
    assert_told("an id", ran, &e, "token id 96", "96");
    model_source g = open_model(path("model.gguf"));
    forward_model *m = forward_model_new(&g, &e);
    assert_non_null(m);
    forward_layer *l = forward_layer_new(m, 0, &e);
    forward_tile *t = forward_tile_new(m, 10, &e);
    assert_true(l && t);
    forward_layer_ahead(l, 7);
    assert_told("layer 2", forward_layer_read(l, 2, &e), &e, "layer 2 does not exist", "2");
    assert_told("11 rows", forward_tile_read(t, 0, 11, &e), &e, "output.weight", "at most 10");
    assert_told("row 96", forward_tile_read(t, 90, 7, &e), &e, "output.weight", "of 96");
    assert_true(forward_tile_read(t, 90, 6, &e));
    assert_true(forward_batch_bytes(m, SIZE_MAX / 2, 3, 1) == UINT64_MAX);
    assert_null(forward_batch_new(m, SIZE_MAX / 2, 3, NULL, &e));
    assert_null(forward_batch_new(m, 0, 1, NULL, &e));
    assert_null(forward_activations(SIZE_MAX / 16, 64, &e));
    uint64_t one = forward_batch_bytes(m, 64, 1, 1), two = forward_batch_bytes(m, 64, 2, 1);
    assert_true(one > 64 * 32 * 4 && two > one && two < 2 * one + 1);
    forward_tile_free(t), forward_layer_free(l), forward_model_free(m);
    model_close(&g);
}

int main(void) {
    for (size_t i = 0; i < VARIANT_IDS; i++) ids[i] = variant_id(i);
    return tests_run(folder_make, folder_remove);
}
