/* What is known of a model and its tensors beside the rules: facts of metadata, how errors compare, names of files and
 * outlets. */
#include "mixes/mixes.h"
#include "mixes/rules.h"
#include "tests/support/support.h"

/* How errors of different tensors compare, and where data that do not fit are passed over. */
TEST(harm) {
    const mix_uses none = {.n_expert = 0}, experts = {8, 2, false}, tied = {8, 2, true}, all = {8, 8, false};
    const char *down = "blk.0.ffn_down_exps.weight", *embedding = "token_embd.weight";
    assert_true(mix_sensitivity(down, 10, &none) == 10);
    assert_true(mix_sensitivity(down, 10, &experts) == 2.5);
    assert_true(mix_sensitivity(down, 10, &all) == 10);
    assert_true(mix_sensitivity(down, 10, &(mix_uses){.n_expert = 8}) == 10);
    assert_true(mix_sensitivity("blk.0.ffn_down_shexp.weight", 10, &experts) == 10);
    assert_true(mix_sensitivity(embedding, 10, &experts) == 10);
    assert_true(mix_sensitivity(embedding, 10, &tied) == 20);
    assert_true(mix_sensitivity("output.weight", 10, &tied) == 10);
    assert_true(mix_may_lack_importance(embedding));
    assert_true(mix_may_lack_importance("per_layer_token_embd.weight"));
    assert_false(mix_may_lack_importance("output.weight"));
    assert_false(mix_may_lack_importance(down));
    assert_true(mix_uses_importance(GGUF_F16, GGUF_Q4_K) && mix_uses_importance(GGUF_Q8_0, GGUF_Q4_K));
    assert_false(mix_uses_importance(GGUF_Q4_K, GGUF_Q4_K) || mix_uses_importance(GGUF_Q8_0, GGUF_F16));
}

static model_kv number(const char *key, const uint32_t *value) {
    return (model_kv){.key = key, .type = GGUF_U32, .value = (const uint8_t *)value, .size = sizeof *value};
}

static model_facts facts_of(const char *arch, const model_kv *kv, uint64_t n) {
    model_facts f = {.kv = kv, .n_kv = n};
    snprintf(f.arch, sizeof f.arch, "%s", arch);
    return f;
}

/* What metadata say, and what stands for what they do not. */
TEST(model_by_its_facts) {
    static const uint32_t blocks = 48, heads = 32, shared = 8, experts = 64;
    const model_kv kv[] = {number("qwen2moe.block_count", &blocks),
                           number("qwen2moe.attention.head_count", &heads),
                           number("qwen2moe.attention.head_count_kv", &shared),
                           number("qwen2moe.expert_count", &experts), number("clip.block_count", &blocks)};
    model_facts f = facts_of("qwen2moe", kv, 5);
    mix_model m = mix_model_of(&f);
    assert_string_equal(m.arch, "qwen2moe");
    assert_true(m.n_blocks == 48 && m.n_head == 32 && m.n_head_kv == 8 && m.n_expert == 64);
    f = facts_of("qwen2moe", kv, 2);
    m = mix_model_of(&f);
    assert_true(m.n_head_kv == 32 && m.n_expert == 0);
    f = facts_of("", kv, 5);
    m = mix_model_of(&f);
    assert_true(m.n_blocks == -1 && m.n_head == 0 && m.n_head_kv == 0);
    f = facts_of("clip", kv, 4);
    assert_int_equal(mix_model_of(&f).n_blocks, 0);
    f = facts_of("clip", kv, 5);
    assert_int_equal(mix_model_of(&f).n_blocks, 48);
}

/* Of experts as many as the model says, of all else every matrix. */
TEST(matrices_that_a_token_meets) {
    static const uint64_t eight[4] = {32, 16, 8, 1}, two[4] = {32, 16, 2, 1}, one[4] = {32, 16, 1, 1};
    static const uint32_t three = 3, nothing = 0;
    const model_kv some[] = {number("x.expert_used_count", &three)};
    const model_kv none[] = {number("x.expert_used_count", &nothing)};
    const model_facts used = facts_of("x", some, 1), zero = facts_of("x", none, 1),
                      unsaid = facts_of("x", NULL, 0);
    const char *experts = "blk.0.ffn_up_exps.weight";
    assert_int_equal(mix_experts_used(&used), 3);
    assert_int_equal(mix_matrices_met(experts, eight, &used), 3);
    assert_int_equal(mix_matrices_met(experts, two, &used), 2);
    assert_int_equal(mix_matrices_met(experts, eight, &zero), 8);
    assert_int_equal(mix_matrices_met(experts, eight, &unsaid), 8);
    assert_int_equal(mix_matrices_met("blk.0.attn_k_b.weight", eight, &used), 8);
    assert_int_equal(mix_matrices_met("blk.0.ffn_up_shexp.weight", one, &used), 1);
}

/* What a file is called whose types were chosen one by one. */
TEST(called_by_most_weights) {
    static const struct {
        uint32_t small, large; /* types of two tensors of 256 weights, and of one of 1024 */
        const char *name;
    } cases[] = {{GGUF_Q4_K, GGUF_Q6_K, "Q6_K"},
                 {GGUF_Q6_K, GGUF_Q4_K, "Q4_K_M"},
                 {GGUF_Q8_0, GGUF_F32, "F32"},
                 {GGUF_Q4_K, GGUF_IQ4_NL, "IQ4_NL"},
                 {GGUF_Q4_K, GGUF_F64, "F16"}};
    mix_tensor tensors[] = {{.name = "a", .ne = {256, 1, 1, 1}, .type = 0},
                            {.name = "b", .ne = {256, 1, 1, 1}, .type = 0},
                            {.name = "c", .ne = {256, 2, 2, 1}, .type = 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mix_choice choices[] = {{.type = cases[i].small}, {.type = cases[i].small}, {.type = cases[i].large}};
        assert_string_equal(mix_prevalent(tensors, choices, 3)->name, cases[i].name);
    }
}

TEST(outlets_of_all_mixers) {
    static const struct {
        const char *name, *first, *second; /* NULL: there is none */
    } all[] = {
        {"blk.3.attn_q.weight", "blk.3.attn_output.weight", "blk.3.attn_o.weight"},
        {"blk.3.attn_q_a.weight", "blk.3.attn_output.weight", "blk.3.attn_o.weight"},
        {"blk.3.attn_kv_a_mqa.weight", "blk.3.attn_output.weight", "blk.3.attn_o.weight"},
        {"blk.3.attn_k_b.weight", "blk.3.attn_output.weight", "blk.3.attn_o.weight"},
        {"blk.3.attn_qkv.weight", "blk.3.attn_output.weight", "blk.3.ssm_out.weight"},
        {"blk.3.attn_gate.weight", "blk.3.attn_output.weight", "blk.3.ssm_out.weight"},
        {"dec.blk.3.cross_attn_v.weight", "dec.blk.3.cross_attn_output.weight",
         "dec.blk.3.cross_attn_o.weight"},
        {"blk.3.attn_output.weight", NULL, NULL},
        {"blk.3.ffn_up_exps.weight", "blk.3.ffn_down_exps.weight", NULL},
        {"blk.3.ffn_gate_shexp.weight", "blk.3.ffn_down_shexp.weight", NULL},
        {"blk.3.ffn_gate_up_exps.weight", "blk.3.ffn_down_exps.weight", NULL},
        {"blk.3.ffn_down_exps.weight", NULL, NULL},
        {"blk.3.ffn_latent_down.weight", "blk.3.ffn_latent_up.weight", NULL},
        {"blk.3.ffn_latent_up.weight", NULL, NULL},
        {"blk.3.ssm_in.weight", "blk.3.ssm_out.weight", NULL},
        {"blk.3.ssm_x.weight", "blk.3.ssm_out.weight", NULL},
        {"blk.3.ssm_beta.weight", "blk.3.ssm_out.weight", "blk.3.attn_output.weight"},
        {"blk.3.ssm_ba.weight", "blk.3.ssm_out.weight", "blk.3.attn_output.weight"},
        {"blk.3.ssm_f_a.weight", "blk.3.attn_output.weight", NULL},
        {"blk.3.ssm_g_b.weight", "blk.3.attn_output.weight", NULL},
        {"blk.3.ssm_out.weight", NULL, NULL},
        {"blk.3.shortconv.in_proj.weight", "blk.3.shortconv.out_proj.weight", NULL},
        {"blk.3.inp_gate.weight", "blk.3.proj.weight", NULL},
        {"blk.3.time_mix_key.weight", "blk.3.time_mix_output.weight", NULL},
        {"blk.3.channel_mix_key.weight", "blk.3.channel_mix_value.weight", NULL},
        {"token_embd.weight", NULL, NULL},
        {"attn_q", NULL, NULL}, /* no part behind a dot */
    };
    char outlet[128];
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (size_t i = 0; i < MIX_OUTLETS + 1; i++) {
            const char *want = i == 0 ? all[k].first : i == 1 ? all[k].second : NULL;
            assert_int_equal(mix_outlet(all[k].name, i, outlet), want != NULL);
            if (want) assert_string_equal(outlet, want);
        }
}

int main(void) { return tests_run(NULL, NULL); }
